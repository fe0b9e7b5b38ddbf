"""DLA, MvDLA and LPP against their objectives as printed, sums over samples and neighbours; PCA of pooled samples."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import sklearn.decomposition
from methods import improves, make
from sklearn.base import clone

import crossview as cv
from crossview.linalg.scatter import Edges, graph_scatter

ARRAYS, Y = make(m=36, sizes=(5, 5, 5))
CENTRED = [X - X.mean(axis=0) for X in ARRAYS]
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


@pytest.mark.parametrize("cls", [cv.DLA, cv.MvDLA])
def test_dla_objective_and_constraint(cls):
    model = cls(2, beta=BETA, n_within=WITHIN, n_between=BETWEEN).fit(ARRAYS, Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(W.T @ W, 3 * np.eye(2), atol=1e-10)
    pooled, labels = np.vstack(ARRAYS), np.tile(Y, 3)

    def value(W):
        return patch_sum(np.vstack([X @ w for X, w in zip(CENTRED, np.vsplit(W, 3), strict=True)]), pooled, labels)

    def normalise(W):
        if cls is cv.DLA:  # one map for all views
            W = np.tile(W[:5], (3, 1))
        return np.sqrt(3) * np.linalg.qr(W)[0]

    np.testing.assert_allclose(normalise(W) @ normalise(W).T, W @ W.T, atol=1e-10)
    assert value(W) == pytest.approx(3 * model.eigenvalues_.sum(), rel=1e-9)
    for size in (1e-3, 0.3):
        assert not improves(lambda V: -value(V), W, normalise, 0, size, n_trials=4)


def test_lpp_objective_and_constraint():
    model = cv.LPP(2, n_neighbors=4, t=2.0, reg=0.0).fit(ARRAYS)
    pooled = np.vstack(CENTRED)
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


def test_default_width_of_lpp_is_the_mean_squared_distance_to_neighbours():
    X = np.vstack(CENTRED)
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


@pytest.mark.parametrize("m", [36, 4])
def test_pca_is_that_of_all_samples(m):
    """Of three views, every sample that two have seen counts alike; samples that one has seen do not count."""
    mask = np.ones((m, 3), dtype=bool)
    mask[m // 3 : m // 2, 1] = mask[-1, :2] = False
    model = cv.PCA(3).fit(cv.Views([X[:m] for X in ARRAYS], mask=mask))
    mask[-1] = False
    rows = [X[:m][seen] - X[:m][seen].mean(axis=0) for X, seen in zip(ARRAYS, mask.T, strict=True)]
    theirs = sklearn.decomposition.PCA(3).fit(np.vstack(rows))
    np.testing.assert_allclose(model.eigenvalues_, theirs.explained_variance_, rtol=1e-10)
    expected = theirs.transform(rows[0])
    for W in model.projections_:
        np.testing.assert_allclose(np.abs(rows[0] @ W), np.abs(expected), atol=1e-10)
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-10)
