"""Hypothesis strategies for multi-view data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass
class Problem:
    arrays: list
    y: np.ndarray
    mask: np.ndarray
    n_within: int
    n_between: int
    weights: dict

    @property
    def incomplete(self):
        """The arrays with rows of NaN where a sample is missing."""
        return [np.where(self.mask[:, [v]], X, np.nan) for v, X in enumerate(self.arrays)]


@st.composite
def problems(draw, complete=False, ties=None, max_samples=14):
    """Views of unequal sizes, with ties, tiny classes and missing rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 5))
    m = draw(st.integers(4, max_samples))
    sizes = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    tied = draw(st.booleans()) if ties is None else ties
    if tied:
        arrays = [rng.integers(-2, 3, size=(m, D)).astype(float) for D in sizes]
        for X in arrays:
            X[0] = X[-1] + 1.0  # never constant
    else:
        arrays = [rng.normal(size=(m, D)) for D in sizes]
    n_classes = draw(st.integers(2, 4))
    y = rng.integers(0, n_classes, size=m)
    y[:2] = 0, 1
    mask = np.ones((m, n), dtype=bool)
    if not complete and draw(st.booleans()):
        mask = rng.random((m, n)) < 0.75
        mask[[0, 1, -1]] = True  # two classes in each view, and each view shares samples with another
    weights = {
        "paired": draw(st.sampled_from([0.0, 1.0, 0.3])),
        "intra": draw(st.sampled_from([0.0, 0.01, 0.7])),
        "inter": draw(st.sampled_from([0.05, 0.9])),
        "beta": draw(st.sampled_from([0.0, 0.1, 1.5])),
    }
    return Problem(arrays, y, mask, draw(st.integers(0, 3)), draw(st.integers(0, 5)), weights)


AWKWARD = ["ties", "duplicates", "equal", "constant column", "offset", "outlier", "tiny", "plain"]


def awkward_samples(rng, kind, m, D):
    """Samples whose nearest neighbours rounding errors may hide."""
    X = rng.normal(size=(m, D))
    if kind == "ties":
        X = rng.integers(0, 3, size=(m, D)).astype(float)
    if kind == "duplicates":
        X = X[rng.integers(0, max(1, m // 3), size=m)]
    if kind == "equal":
        X[:] = X[0]
    if kind == "constant column":
        X[:, 0] = 1e6
    if kind == "offset":
        X = np.round(8 * X) / 8 + 2.0**20  # ties between numbers that are exact
    if kind == "outlier":
        X[0] *= 1e7
    if kind == "tiny":
        X *= 1e-30
    return X
