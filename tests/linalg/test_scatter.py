from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from strategies import problems

from crossview.linalg.scatter import Edges, patch_scatter
from crossview.samples import Samples


def edges_of(found, m, beta):
    """The package's edges from the oracle's neighbour lists."""
    edges = []
    for view in found:
        dense = np.zeros((m, m))
        for k, patch in enumerate(view):
            if patch is not None:
                dense[k, patch[0]] = 1.0
                dense[k, patch[1]] = -beta
        edges.append(Edges(np.where(dense, np.arange(m), -1), dense))
    return edges


def full(S):
    """The symmetric matrix whose lower triangle of blocks is given."""
    return np.tril(S) + np.tril(S, -1).T


def relative(a, b):
    return np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)


@settings(max_examples=80, deadline=None)
@given(problem=problems(complete=True))
def test_equals_the_papers_matrices(problem):
    m, n = problem.mask.shape
    beta = problem.weights["beta"]
    found = oracles.patches(problem.arrays, problem.y, problem.mask, problem.n_within, problem.n_between)
    edges = edges_of(found, m, beta)
    for weights, L in (
        ({"paired": 1.0}, oracles.matrix_j(m, n)),
        ({"intra": 1.0}, oracles.matrix_u(found, beta)),
        ({"inter": 1.0}, oracles.matrix_v(found, beta)),
    ):
        S = patch_scatter(problem.arrays, problem.mask, edges, **weights)
        expected = oracles.scatter(problem.arrays, L)
        assert np.abs(full(S) - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1.0)


@settings(max_examples=80, deadline=None)
@given(problem=problems())
def test_equals_the_sum_over_edges_with_missing_samples(problem):
    w = problem.weights
    m = len(problem.y)
    arrays = [np.where(problem.mask[:, [v]], X, 0.0) for v, X in enumerate(problem.arrays)]
    found = oracles.patches(problem.arrays, problem.y, problem.mask, problem.n_within, problem.n_between)
    L = oracles.laplacian(found, problem.mask, **w)
    edges = edges_of(found, m, w["beta"])
    S = patch_scatter(arrays, problem.mask, edges, paired=w["paired"], intra=w["intra"], inter=w["inter"])
    expected = oracles.scatter(arrays, L)
    assert np.abs(full(S) - expected).max() <= 1e-10 * max(np.abs(expected).max(), 1.0)


@settings(max_examples=30, deadline=None)
@given(problem=problems(complete=True))
def test_quadratic_form_of_pairs_is_the_sum_over_ordered_pairs(problem):
    rng = np.random.default_rng(0)
    W = [rng.normal(size=(X.shape[1], 2)) for X in problem.arrays]
    latents = [X @ w for X, w in zip(problem.arrays, W, strict=True)]
    S = full(patch_scatter(problem.arrays, problem.mask, [], paired=1.0))
    stacked = np.vstack(W)
    ordered = sum(((a - b) ** 2).sum() for i, a in enumerate(latents) for j, b in enumerate(latents) if i != j)
    assert np.trace(stacked.T @ S @ stacked) == pytest.approx(ordered, rel=1e-10, abs=1e-10)


def test_a_draw_of_centres_is_unbiased():
    """The mean over all draws of one centre is the scatter of all patches; the pairs are always complete."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(12, 4)), rng.normal(size=(12, 3))]
    samples = Samples(arrays=arrays, weights=np.ones((12, 2)), classes=np.arange(12) % 4)

    def scatter(centres=None):
        found = samples.with_patches(1, 3, centres=centres)
        return found.patch_scatter(1, 3, between_weight=-0.2, paired=1.0, intra=0.3, inter=0.7)

    draws = [scatter(np.array([k])) for k in range(12)]
    assert relative(np.mean(draws, axis=0), scatter()) < 1e-13
    assert relative(draws[0], draws[1]) > 0.1


def test_the_order_of_many_samples_does_not_matter():
    """Rows are summed in chunks, which hold other samples in another order."""
    rng = np.random.default_rng(0)
    arrays, y = [rng.normal(size=(2500, D)) for D in (4, 3)], rng.integers(0, 50, size=2500)
    order = rng.permutation(2500)
    first, second = (
        Samples(arrays=[X[rows] for X in arrays], weights=np.ones((2500, 2)), classes=y[rows])
        .with_patches(1, 3)
        .patch_scatter(1, 3, between_weight=-0.2, paired=1.0, intra=0.3, inter=0.7)
        for rows in (np.arange(2500), order)
    )
    assert relative(first, second) < 1e-12
