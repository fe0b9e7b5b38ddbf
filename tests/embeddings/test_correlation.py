"""Correlation methods against their objectives, against each other and against scikit-learn and cca-zoo."""

from __future__ import annotations

from functools import partial

import numpy as np
import oracles
import pytest
import sklearn.cross_decomposition
from methods import improves, make
from sklearn.metrics.pairwise import pairwise_kernels

import crossview as cv

ARRAYS, _ = make(m=200, sizes=(6, 4))
THREE, _ = make(m=200, sizes=(6, 4, 5))
JOINT = partial(cv.MCCA, constraint="joint")


def centred(arrays):
    return [X - X.mean(axis=0) for X in arrays]


def correlations(latents):
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(latents[0].T, latents[1].T, strict=True)])


def objective(arrays, W):
    edges = np.cumsum([X.shape[1] for X in arrays])[:-1]
    Z = [X @ w for X, w in zip(centred(arrays), np.split(W, edges), strict=True)]
    return sum(float(np.sum(a * b)) for i, a in enumerate(Z) for j, b in enumerate(Z) if i != j)


def test_cca_constraint_and_correlations():
    model = cv.CCA(3, reg=0.0).fit(ARRAYS)
    Z = model.transform(ARRAYS)
    for z in Z:
        np.testing.assert_allclose(z.T @ z, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(Z[0].T @ Z[1], np.diag(model.eigenvalues_), atol=1e-8)
    theirs = sklearn.cross_decomposition.CCA(3, scale=False, tol=1e-14, max_iter=20_000).fit(*ARRAYS)
    np.testing.assert_allclose(correlations(Z), correlations(theirs.transform(*ARRAYS)), atol=1e-6)


@pytest.mark.parametrize("constraint", ["views", "joint"])
@pytest.mark.parametrize("reg", [0.0, 0.1])
def test_mcca_of_two_views_is_cca(reg, constraint):
    a, b = cv.MCCA(3, constraint=constraint, reg=reg).fit(ARRAYS), cv.CCA(3, reg=reg).fit(ARRAYS)
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, atol=1e-10)
    for W, V in zip(a.projections_, b.projections_, strict=True):
        np.testing.assert_allclose(np.abs(W), np.abs(V), atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_mcca_objective_and_constraint(seed):
    """One constraint per view: every component is the best of those uncorrelated with the ones before."""
    arrays = centred(make(m=60, sizes=(6, 4, 5), seed=seed)[0])
    model = cv.MCCA(4, reg=0.0).fit(arrays)
    for Z in model.transform(arrays):
        np.testing.assert_allclose(Z.T @ Z, np.eye(4), atol=1e-8)
    W = np.vstack(model.projections_)
    edges = np.cumsum([6, 4])
    for r in range(4):
        attained = objective(arrays, W[:, [r]])
        assert attained == pytest.approx(3 * model.eigenvalues_[r], rel=1e-8)
        before = [w[:, :r] for w in np.split(W, edges)]

        def normalise(w, before=before):
            parts = []
            for X, part, taken in zip(arrays, np.split(w, edges), before, strict=True):
                left = part - taken @ ((X @ taken).T @ (X @ part))
                parts.append(left / np.linalg.norm(X @ left))
            return np.vstack(parts)

        for size in (1e-3, 1e-2, 0.1):
            assert not improves(lambda w: objective(arrays, w), W[:, [r]], normalise, seed, size * np.abs(W).mean())


def test_mcca_is_no_worse_than_iterations_from_elsewhere():
    """With more than two views maxima are local; the one found is as good as those from random starts."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        arrays = centred(make(m=60, sizes=(6, 4, 5), seed=seed)[0])
        best = 0.0
        whitened = [np.linalg.qr(X)[0] for X in arrays]
        for _ in range(20):
            z = [Q @ rng.normal(size=Q.shape[1]) for Q in whitened]
            for _ in range(300):
                for v, Q in enumerate(whitened):
                    z[v] = Q @ (Q.T @ sum(z[w] for w in range(3) if w != v))
                    z[v] /= np.linalg.norm(z[v])
            best = max(best, sum(float(a @ b) for i, a in enumerate(z) for j, b in enumerate(z) if i != j))
        assert cv.MCCA(1, reg=0.0).fit(arrays).eigenvalues_[0] >= best / 3 - 1e-9


def test_mcca_with_the_joint_constraint():
    model = cv.MCCA(3, constraint="joint", reg=0.0).fit(THREE)
    W = np.vstack(model.projections_)
    Z = model.transform(THREE)
    np.testing.assert_allclose(sum(z.T @ z for z in Z) / 3, np.eye(3), atol=1e-8)
    assert objective(THREE, W) == pytest.approx(3 * model.eigenvalues_.sum(), rel=1e-8)
    edges = np.cumsum([6, 4])

    def normalise(W):
        G = sum((X @ w).T @ (X @ w) for X, w in zip(centred(THREE), np.split(W, edges), strict=True)) / 3
        return W @ np.linalg.inv(np.linalg.cholesky(G)).T

    for size in (1e-3, 0.1, 1.0):
        assert not improves(lambda V: objective(THREE, V), W, normalise, 0, size * np.abs(W).mean())


@pytest.mark.parametrize("arrays", [ARRAYS, THREE], ids=["two", "three"])
def test_mcca_agrees_with_cca_zoo(arrays):
    peer = pytest.importorskip("cca_zoo.linear")
    ours = cv.MCCA(3, constraint="joint", reg=0.0).fit(arrays).transform(arrays)
    theirs = peer.MCCA(3).fit(arrays).transform(arrays)
    np.testing.assert_allclose(np.abs(correlations(ours)), np.abs(correlations(theirs)), atol=1e-6)


def test_pls_constraint_and_agreement_with_cca_zoo():
    peer = pytest.importorskip("cca_zoo.linear")
    model = cv.PLS(3).fit(ARRAYS)
    for W in model.projections_:
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-10)
    Z = model.transform(ARRAYS)
    np.testing.assert_allclose(Z[0].T @ Z[1], np.diag(model.eigenvalues_), atol=1e-8)
    theirs = peer.PLS(3).fit(ARRAYS).transform(ARRAYS)
    np.testing.assert_allclose(np.abs(correlations(Z)), np.abs(correlations(theirs)), atol=1e-6)


@pytest.mark.parametrize("center", [True, False])
def test_kcca_with_a_linear_kernel_is_cca(center):
    linear = cv.KCCA(3, reg=0.0, kernel="linear", center=center).fit(ARRAYS)
    plain = cv.CCA(3, reg=0.0, center=center).fit(ARRAYS)
    np.testing.assert_allclose(linear.eigenvalues_, plain.eigenvalues_, atol=1e-9)
    for a, b in zip(linear.transform(ARRAYS), plain.transform(ARRAYS), strict=True):
        np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-7)


def test_kcca_objective_and_constraint_in_terms_of_kernel_matrices():
    small = [X[:50] for X in ARRAYS]
    model = cv.KCCA(3, reg=0.2, gamma=0.5).fit(small)
    H = np.eye(50) - 1 / 50
    kernels = [H @ pairwise_kernels(X, metric="rbf", gamma=0.5) @ H for X in small]
    penalties = [0.2 * np.trace(K) / 50 for K in kernels]  # relative to the mean eigenvalue
    latents = model.transform(small)
    for K, Z, rho in zip(kernels, latents, penalties, strict=True):
        A = np.linalg.pinv(K, rcond=1e-10) @ Z
        np.testing.assert_allclose(A.T @ (K @ K + rho * K) @ A, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(latents[0].T @ latents[1], np.diag(model.eigenvalues_), atol=1e-8)
    whiten = [
        np.linalg.inv(np.linalg.cholesky(K @ K + r * K + 1e-12 * np.eye(50)))
        for K, r in zip(kernels, penalties, strict=True)
    ]
    literal = np.linalg.svd(whiten[0] @ kernels[0] @ kernels[1] @ whiten[1].T, compute_uv=False)[:3]
    np.testing.assert_allclose(model.eigenvalues_, literal, atol=1e-6)


def test_kcca_agrees_with_cca_zoo():
    peer = pytest.importorskip("cca_zoo.nonparametric")
    # Theirs holds (1 - c) K²/(m - 1) + c K, ours K² + ρ K: the same for ρ = c (m - 1)/(1 - c), which `reg` is where the
    # eigenvalues of the kernel matrix that are not 0 have mean 1.
    scaled = [X / np.sqrt(np.square(X).sum() / X.shape[1]) for X in centred(ARRAYS)]
    ours = cv.KCCA(3, kernel="linear", reg=0.3 * 199 / 0.7).fit(scaled).transform(scaled)
    theirs = peer.KCCA(3, kernel="linear", shrinkage=0.3).fit(scaled).transform(scaled)
    np.testing.assert_allclose(np.abs(correlations(ours)), np.abs(correlations(theirs)), atol=1e-6)
    assert np.abs(correlations(ours)).max() < 0.999


@pytest.mark.parametrize("views", [2, 3])
def test_no_more_components_than_the_views_agree_along(views):
    """Fewer samples than features: past the rank, components would be arbitrary."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(8, 20)) for _ in range(views)]
    assert [cls(9).fit(ARRAYS).n_components_ for cls in (cv.CCA, cv.PLS, JOINT)] == [4, 4, 4]
    classes = (cv.CCA, cv.MCCA, cv.PLS) if views == 2 else (cv.MCCA,)
    for cls in classes:
        assert cls(10).fit(arrays).n_components_ == 7
    model = cv.MCCA(7, reg=1e-3).fit(arrays)
    for X, W in zip(centred(arrays), model.projections_, strict=True):
        B = X.T @ X
        B += 1e-3 * np.trace(B) / 20 * np.eye(20)
        np.testing.assert_allclose(W.T @ B @ W, np.eye(7), atol=1e-8)


@pytest.mark.parametrize("n", [3, 4])
def test_last_component_of_mcca_has_the_best_signs(n):
    """Where one dimension per view is left, nothing but signs can be chosen."""
    for seed in range(30):
        arrays = centred(np.random.default_rng(seed).normal(size=(n, 40, 3)))
        model = cv.MCCA(3, reg=0.0).fit(arrays)
        last = [X @ w[:, -1] for X, w in zip(arrays, model.projections_, strict=True)]
        values = []
        for signs in np.ndindex(*(2,) * n):
            z = [(-1) ** s * part for s, part in zip(signs, last, strict=True)]
            values.append(sum(float(a @ b) for i, a in enumerate(z) for j, b in enumerate(z) if i != j))
        assert values[0] >= max(values) - 1e-9
        assert values[0] == pytest.approx(n * model.eigenvalues_[-1], abs=1e-9)


@pytest.mark.parametrize("cls", [cv.CCA, cv.MCCA])
def test_singular_covariance_needs_a_ridge(cls):
    """Rounding makes columns that are constant, or depend on others, look independent."""
    rng = np.random.default_rng(0)
    for seed in range(10):
        X, Z = (rng.normal(size=(60, 4)) for _ in range(2))
        for bad in (np.c_[X, np.full(60, 0.1)], np.c_[X, X[:, 0] + X[:, 1]], np.c_[X, X]):
            with pytest.raises(ValueError, match="singular: raise reg"):
                cls(2, reg=0.0).fit([bad, Z + seed])
            assert np.isfinite(cls(2, reg=1e-3).fit([bad, Z + seed]).eigenvalues_).all()


def test_columns_of_unlike_sizes_are_not_singular():
    scaled = [X * 10.0 ** -np.arange(X.shape[1]) for X in ARRAYS]
    a, b = cv.CCA(3, reg=0.0).fit(ARRAYS), cv.CCA(3, reg=0.0).fit(scaled)
    np.testing.assert_allclose(a.eigenvalues_, b.eigenvalues_, atol=1e-8)


def test_kcca_ridge_counts_the_samples_that_both_views_have_seen():
    mask = np.ones((60, 2), dtype=bool)
    mask[::3, 0] = False
    some = [X[:60] for X in ARRAYS]
    model = cv.KCCA(2, kernel="linear", reg=0.5).fit(cv.Views(some, mask=mask))
    parts = centred([X[mask[:, 0]] for X in some])
    grams = [X.T @ X + 0.5 * np.square(X).sum() / X.shape[1] * np.eye(X.shape[1]) for X in parts]
    whiten = [np.linalg.inv(np.linalg.cholesky(G)) for G in grams]
    literal = np.linalg.svd(whiten[0] @ parts[0].T @ parts[1] @ whiten[1].T, compute_uv=False)[:2]
    np.testing.assert_allclose(model.eigenvalues_, literal, atol=1e-10)


@pytest.mark.parametrize("constraint", ["views", "joint"])
def test_mcca_of_incomplete_views(constraint):
    """Objective and constraint are those of the sums over all pairs that were seen."""
    mask = np.random.default_rng(0).random((200, 3)) < 0.6
    model = cv.MCCA(3, constraint=constraint, reg=0.0).fit(cv.Views(THREE, mask=mask))
    arrays = oracles.pair_centred(THREE, mask)
    pairs, own = oracles.pair_products(arrays, mask)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(np.diag(W.T @ pairs @ W), 3 * model.eigenvalues_, rtol=1e-8)
    scatters = [w.T @ B @ w for w, B in zip(model.projections_, own, strict=True)]
    scatters = scatters if constraint == "views" else [sum(scatters) / 3]
    for scatter in scatters:
        np.testing.assert_allclose(scatter, np.eye(3), atol=1e-8)
    assert (model.eigenvalues_ <= 2.0).all(), "two correlations, neither above 1"
    for X, Z, mean in zip(THREE, arrays, model.means_, strict=True):
        seen = np.abs(Z).sum(axis=1) > 0
        np.testing.assert_allclose(X[seen] - mean, Z[seen], atol=1e-10)
