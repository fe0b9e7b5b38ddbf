from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AWKWARD, awkward_samples

from crossview.neighbours import classes, distances
from crossview.neighbours.classes import class_neighbours

ROUTES = {
    "at once": {},
    "in small chunks": {"_ROWS": 3, "_CHUNK": 32},
    "by a search": {"_DENSE_BELOW": 0},
    "class by class": {"_DENSE_BELOW": 0, "_SMALL_CLASS": 2},
}


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 40),
    D=st.integers(1, 4),
    n_classes=st.integers(1, 6),
    n_within=st.integers(0, 4),
    n_between=st.integers(0, 7),
    kind=st.sampled_from(AWKWARD),
)
def test_equals_the_literal_search(route, seed, m, D, n_classes, n_within, n_between, kind):
    rng = np.random.default_rng(seed)
    X = awkward_samples(rng, kind, m, D)
    y = rng.integers(0, n_classes, size=m)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ROUTES[route].items():
            patch.setattr(distances if name == "_CHUNK" else classes, name, value)
        found = class_neighbours(X, y, n_within, n_between)
    for table, expected in zip(found, oracles.class_neighbours(X, y, n_within, n_between), strict=True):
        np.testing.assert_array_equal(table, expected[:, : table.shape[1]])
        assert (expected[:, table.shape[1] :] == -1).all()


def test_large_problem_without_switches():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.zeros(600, dtype=int), rng.integers(1, 60, size=500)])
    X = rng.normal(size=(1100, 3))
    X[::7] = X[3]
    within, between = class_neighbours(X, y, 2, 3)
    d = ((X[:, None] - X) ** 2).sum(-1)
    for k in range(0, 1100, 37):
        ranked = np.lexsort((np.arange(1100), d[k]))
        same = [q for q in ranked if q != k and y[q] == y[k]][:2]
        other = [q for q in ranked if y[q] != y[k]][:3]
        np.testing.assert_array_equal(within[k], same)
        np.testing.assert_array_equal(between[k], other)
