"""DLA, MvDLA and LPP against their objectives as printed: sums over samples and neighbours."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from methods import improves, make
from sklearn.base import clone

import crossview as cv
from crossview.linalg.scatter import Edges, Patches, graph_scatter
from crossview.neighbours.classes import class_neighbours

ARRAYS, Y = make(m=36, sizes=(5, 5, 5))
BETA, WITHIN, BETWEEN = 0.3, 4, 6


def patch_sum(Z, samples, y):
    """The sum of all patches of pooled samples, their latents Z."""
    d = oracles.squared_distances(samples)
    value = 0.0
    for k in range(len(y)):
        for q in oracles.neighbours(d, y, range(len(y)), k, True, WITHIN):
            value += float(((Z[k] - Z[q]) ** 2).sum())
        for q in oracles.neighbours(d, y, range(len(y)), k, False, BETWEEN):
            value -= BETA * float(((Z[k] - Z[q]) ** 2).sum())
    return value


def orthonormal(W):
    return np.linalg.qr(W)[0]


def test_dla_objective_and_constraint():
    model = cv.DLA(2, beta=BETA, n_within=WITHIN, n_between=BETWEEN).fit(ARRAYS, Y)
    W = model.projections_[0]
    np.testing.assert_allclose(W.T @ W, np.eye(2), atol=1e-10)
    pooled, labels = np.vstack(ARRAYS), np.tile(Y, 3)
    centred = np.vstack([X - X.mean(axis=0) for X in ARRAYS])
    value = patch_sum(centred @ W, pooled, labels)
    assert value == pytest.approx(3 * model.eigenvalues_.sum(), rel=1e-9)
    for size in (1e-3, 0.3):
        assert not improves(lambda V: -patch_sum(centred @ V, pooled, labels), W, orthonormal, 0, size, n_trials=4)
    for one in model.projections_[1:]:
        np.testing.assert_array_equal(one, W)


def test_mvdla_objective_and_constraint():
    model = cv.MvDLA(2, beta=BETA, n_within=WITHIN, n_between=BETWEEN).fit(ARRAYS, Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(W.T @ W, 3 * np.eye(2), atol=1e-10)
    pooled, labels = np.vstack(ARRAYS), np.tile(Y, 3)

    def value(W):
        latents = [(X - X.mean(axis=0)) @ w for X, w in zip(ARRAYS, np.vsplit(W, 3), strict=True)]
        return patch_sum(np.vstack(latents), pooled, labels)

    assert value(W) == pytest.approx(3 * model.eigenvalues_.sum(), rel=1e-9)
    for size in (1e-3, 0.3):
        assert not improves(lambda V: -value(V), W, lambda V: np.sqrt(3) * orthonormal(V), 0, size, n_trials=4)


def test_dla_has_the_patches_of_the_pooled_samples():
    X = np.vstack([X - X.mean(axis=0) for X in ARRAYS])
    patches = Patches(*class_neighbours(np.vstack(ARRAYS), np.tile(Y, 3), WITHIN, BETWEEN))
    S, _ = graph_scatter([X], patches.edges(WITHIN, BETWEEN, between_weight=-BETA))
    dla = cv.DLA(3, beta=BETA, n_within=WITHIN, n_between=BETWEEN).fit(ARRAYS, Y)
    np.testing.assert_allclose(np.linalg.eigvalsh(S)[:3] / 3, dla.eigenvalues_, atol=1e-10)


def test_within_class_neighbours_span_views():
    tables = class_neighbours(np.vstack(ARRAYS), np.tile(Y, 3), 12, 0)
    graph = Patches(*tables).edges(12, 0).sums(np.eye(3 * len(Y)))
    assert graph[:36, 36:].sum() > 0


def test_lpp_objective_and_constraint():
    model = cv.LPP(2, n_neighbors=4, t=2.0, reg=0.0).fit(ARRAYS)
    pooled = np.vstack([X - X.mean(axis=0) for X in ARRAYS])
    d = oracles.squared_distances(pooled)
    same = np.zeros(len(pooled), dtype=int)
    edges = [
        (k, q, np.exp(-d[k][q] / 2.0))
        for k in range(len(pooled))
        for q in oracles.neighbours(d, same, range(len(pooled)), k, True, 4)
    ]
    degree = np.zeros(len(pooled))
    for k, q, weight in edges:
        degree[k] += weight / 2
        degree[q] += weight / 2

    def value(W):
        Z = pooled @ W
        return sum(weight * float(((Z[k] - Z[q]) ** 2).sum()) for k, q, weight in edges)

    def constraint(W):
        return (pooled @ W).T @ (degree[:, None] * (pooled @ W))

    W = model.projections_[0]
    np.testing.assert_allclose(constraint(W), np.eye(2), atol=1e-8)
    assert value(W) == pytest.approx(model.eigenvalues_.sum(), rel=1e-8)

    def normalise(V):
        return V @ np.linalg.inv(np.linalg.cholesky(constraint(V))).T

    for size in (1e-3, 0.3):
        assert not improves(lambda V: -value(V), W, normalise, 0, size * np.abs(W).mean(), n_trials=30)


def test_graph_scatter_equals_the_sum_over_edges():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(6, 2)), rng.normal(size=(4, 3))]
    weights = rng.normal(size=(10, 10)) * (rng.random((10, 10)) < 0.4)
    S, _ = graph_scatter(arrays, Edges(np.where(weights, np.arange(10), -1), weights))
    W = rng.normal(size=(5, 2))
    Z = np.vstack([arrays[0] @ W[:2], arrays[1] @ W[2:]])
    expected = sum(weights[a, b] * ((Z[a] - Z[b]) ** 2).sum() for a in range(10) for b in range(10))
    assert np.trace(W.T @ S @ W) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(S, S.T, atol=1e-12)


def test_unequal_views():
    arrays, y = make(sizes=(5, 4))
    with pytest.raises(cv.exceptions.NotApplicableError, match=r"needs views of equal width, got 5, 4 features"):
        cv.MvDLA(2).fit(arrays, y)


@pytest.mark.parametrize("cls", [cv.DLA, cv.MvDLA])
def test_bad_parameters(cls):
    with pytest.raises(ValueError, match="n_within must be a whole number"):
        cls(2, n_within=-1).fit(ARRAYS, Y)
    with pytest.raises(ValueError, match="beta must be a finite number"):
        cls(2, beta=-1.0).fit(ARRAYS, Y)


def test_bad_parameters_of_lpp():
    with pytest.raises(ValueError, match="n_neighbors must be a whole number, 1 or more"):
        cv.LPP(2, n_neighbors=0).fit(ARRAYS)
    with pytest.raises(ValueError, match="t must be a finite number above 0"):
        cv.LPP(2, t=0.0).fit(ARRAYS)


def test_default_width_of_lpp_is_the_mean_squared_distance_to_neighbours():
    X = np.vstack([X - X.mean(axis=0) for X in ARRAYS])
    squared = np.square(X[:, None] - X).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    width = np.sort(squared, axis=1)[:, :4].mean()
    a, b = cv.LPP(2, n_neighbors=4).fit(ARRAYS), cv.LPP(2, n_neighbors=4, t=width).fit(ARRAYS)
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, rtol=1e-10)
    assert abs(a.eigenvalues_ - cv.LPP(2, n_neighbors=4, t=2 * width).fit(ARRAYS).eigenvalues_).max() > 1e-3


def test_patches_of_nothing_are_refused():
    for cls in (cv.DLA, cv.MvDLA):
        with pytest.raises(ValueError, match="give patches at least one neighbour"):
            cls(2, n_within=0, n_between=0).fit(ARRAYS, Y)


@pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")
@pytest.mark.parametrize("model", [cv.DLA(50), cv.LPP(50), cv.MvDLA(50), cv.MvDLA(50, coupling=4.0)], ids=repr)
def test_components_lie_where_training_samples_vary(model):
    """Constant features, and features that depend on others, add no components and change none."""
    arrays = [np.c_[X, np.full(36, 2.0), X[:, 0] - X[:, 1]] for X in ARRAYS]
    fitted = clone(model).fit(arrays, Y)
    assert fitted.n_components_ == (5 if np.isinf(fitted.coupling_) else 15)
    spread = sum(np.square(Z - Z.mean(axis=0)).sum(axis=0) for Z in fitted.transform(arrays))
    assert (spread > 1e-8).all()
    # Along a constant feature nothing was learnt: what it is later does not matter.
    moved = [np.c_[X[:, :5], np.full(36, 9.0), X[:, 6]] for X in arrays]
    for a, b in zip(fitted.transform(arrays), fitted.transform(moved), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
