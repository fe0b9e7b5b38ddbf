"""Coupled maps and class whitening, against literal solutions of the constrained problems."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.linalg.norm import features_correspond
from crossview.linalg.sums import similarities

CLASSES = np.arange(40) % 5


def name(model):
    return type(model).__name__


COUPLINGS = [0.0, 0.5, 4.0, 100.0, np.inf]
COUPLED = [
    cv.MvHE(3),
    cv.MvDLA(3),
    cv.DLA(3, coupling=0.0),
    cv.MCCA(3),
    cv.CCA(3),
    cv.PLS(3),
    cv.GMA(3),
    cv.MULDA(3),
    cv.MvDA(3),
    cv.MvDAVC(3),
    cv.MvMDA(3),
    cv.LDA(3, coupling=0.0),
]


def make(n=3, m=40, D=4, seed=0):
    """Views of classes in common coordinates, each with a map of its own that is near the identity."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(5, D))[CLASSES[:m]] + 0.4 * rng.normal(size=(m, D))
    return [z @ (np.eye(D) + 0.3 * rng.normal(size=(D, D))) + 0.2 * rng.normal(size=(m, D)) for _ in range(n)]


def norm_matrix(c, n, D):
    """M of the coupled norm, entry by entry."""
    M = np.zeros((n * D, n * D))
    for v in range(n):
        for w in range(n):
            for k in range(D):
                M[v * D + k, w * D + k] = (1.0 + c if v == w else 0.0) - c / n
    return M


def coupled_basis(c, n, D):
    """A basis of maps, orthonormal in the coupled norm: M^(-1/2), or one map for all views."""
    if np.isinf(c):
        return np.kron(np.full((n, 1), n**-0.5), np.eye(D))
    return scipy.linalg.fractional_matrix_power(norm_matrix(c, n, D), -0.5).real


WEIGHTS = {"paired": 1.0, "intra": 0.1, "inter": 0.3, "beta": 0.1}


def assert_same_maps(model, W):
    """Up to the signs of components."""
    found = np.vstack(model.projections_)
    assert found.shape == W.shape
    signs = np.sign((found * W).sum(axis=0))
    np.testing.assert_allclose(found, W * signs, atol=1e-8 * np.abs(W).max())


@pytest.mark.parametrize("c", COUPLINGS)
@pytest.mark.parametrize("case", ["complete", "incomplete", "wide"])
def test_mvhe_solves_the_problem_with_the_coupled_norm(c, case):
    """With fewer samples than features, no component is one that samples do not determine."""
    arrays, mask, D = make(), np.ones((40, 3), dtype=bool), 4
    if case == "incomplete":
        mask[3:9, 0] = mask[15:20, 1] = mask[30:33, 2] = False
    if case == "wide":
        rng, D = np.random.default_rng(1), 60
        basis = np.linalg.qr(rng.normal(size=(D, D)))[0]
        arrays = [X @ basis[:4] + 0.3 * rng.normal(size=(40, D)) for X in arrays]
    centred, T = oracles.centred(arrays, mask), coupled_basis(c, 3, D)
    found = oracles.patches(arrays, CLASSES, mask, 1, 15)
    S = oracles.scatter(centred, oracles.laplacian(found, mask, **WEIGHTS))
    # A node is a sample in a view; its features in the coupled norm are a row of diag(X_v) T.
    Q = scipy.linalg.orth((scipy.linalg.block_diag(*centred) @ T).T, rcond=1e-10)
    values, U = np.linalg.eigh(Q.T @ T.T @ S @ T @ Q)
    model = cv.MvHE(4, coupling=c).fit(cv.Views(arrays, mask=mask), CLASSES)
    np.testing.assert_allclose(model.eigenvalues_, values[:4], atol=1e-10 * np.abs(values).max())
    assert_same_maps(model, np.sqrt(3) * (T @ Q @ U[:, :4]))


@pytest.mark.parametrize("c", COUPLINGS[1:])
def test_mvda_solves_the_problem_with_the_coupled_ridge(c):
    arrays, T = make(), coupled_basis(c, 3, 4)
    centred = [X - X.mean(axis=0) for X in arrays]
    between, within = (T.T @ S @ T for S in oracles.joint_scatters(centred, np.ones((40, 3)), CLASSES))
    values, U = scipy.linalg.eigh(between, within + 0.2 * np.trace(within) / len(within) * np.eye(len(within)))
    for cls in (cv.MvDA, cv.LDA):  # which only differ in the default
        model = cls(3, reg=0.2, coupling=c).fit(arrays, CLASSES)
        np.testing.assert_allclose(model.eigenvalues_, values[::-1][:3], rtol=1e-9)
        assert_same_maps(model, T @ U[:, ::-1][:, :3])
    assert cv.LDA().coupling == np.inf


@pytest.mark.parametrize("model", COUPLED, ids=name)
def test_maps_approach_one_map_as_the_coupling_grows(model):
    arrays = make(n=2 if model._needs_two_views else 3)
    spreads = []
    for c in (0.0, 1.0, 100.0):
        maps = np.array(clone(model).set_params(coupling=c).fit(arrays, CLASSES).projections_)
        first = maps[:, :, 0]
        spreads.append(np.square(first - first.mean(axis=0)).sum() / np.square(first).sum())
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 0.1
    maps = clone(model).set_params(n_components=8, coupling=np.inf).fit(arrays, CLASSES).projections_
    assert maps[0].shape[1] <= 4
    for one in maps[1:]:
        np.testing.assert_array_equal(one, maps[0])


@pytest.mark.parametrize("model", COUPLED, ids=name)
def test_views_of_unequal_width_cannot_be_coupled(model):
    X, Y = make(n=2)
    with pytest.raises(cv.exceptions.NotApplicableError, match="equal width"):
        clone(model).set_params(coupling=1.0).fit([X, Y[:, :3]], CLASSES)
    for wrong in (-1.0, np.nan, "automatic", True):
        with pytest.raises(ValueError, match="coupling must be 'auto' or a number"):
            clone(model).set_params(coupling=wrong).fit([X, Y], CLASSES)


def test_mulda_directions_are_uncorrelated_in_every_view():
    arrays = make()
    model = cv.MULDA(4, reg=1e-9, coupling=3.0).fit(arrays, CLASSES)
    for X, W in zip(arrays, model.projections_, strict=True):
        Z = (X - X.mean(axis=0)) @ W
        scatter = Z.T @ Z
        np.testing.assert_allclose(scatter, np.diag(np.diagonal(scatter)), atol=1e-6 * np.trace(scatter))


def within_covariance(latents, mask=None):
    """Covariance of samples of all views around the mean of their class over all views, by loops."""
    mask = np.ones((len(CLASSES), len(latents)), dtype=bool) if mask is None else mask
    total, count = 0.0, 0
    for c in np.unique(CLASSES):
        members = [Z[k] for v, Z in enumerate(latents) for k in np.flatnonzero(c == CLASSES) if mask[k, v]]
        mean = np.mean(members, axis=0)
        for z in members:
            total, count = total + np.outer(z - mean, z - mean), count + 1
    return total / count


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("model", [*COUPLED, cv.KMvHE(3), cv.PCA(3)], ids=name)
def test_whitening_makes_the_covariance_around_class_means_the_identity(model, complete):
    n = 2 if model._needs_two_views else 3
    mask = np.ones((40, n), dtype=bool)
    if not complete:
        mask[3:9, 0] = mask[15:20, 1] = False
    views, mask = cv.Views(make(n), mask=mask), oracles.seen_by_several(mask)
    ridge = 0.5
    plain = clone(model).set_params(whitening=None).fit(views, CLASSES)
    before = within_covariance(plain.transform(views).arrays, mask)
    means = [before.diagonal()[: k + 1].mean() for k in range(len(before))]
    L = np.linalg.cholesky(before + ridge * np.diag(means))
    expected = [Z @ np.linalg.inv(L).T for Z in plain.transform(views).arrays]
    found = clone(model).set_params(whitening=ridge).fit(views, CLASSES).transform(views).arrays
    for Z, E, seen in zip(found, expected, mask.T, strict=True):
        signs = np.sign((Z[seen] * E[seen]).sum(axis=0))
        np.testing.assert_allclose(Z[seen], (E * signs)[seen], atol=1e-8 * np.abs(E[seen]).max())
    whole = clone(model).set_params(whitening=0.0).fit(views, CLASSES).transform(views).arrays
    np.testing.assert_allclose(within_covariance(whole, mask), np.eye(3), atol=1e-7)


@pytest.mark.parametrize("model", [cv.MvHE(), cv.KMvHE(), cv.MvDA(coupling=2.0), cv.DLA()], ids=str)
def test_whitening_is_nested_in_the_number_of_components(model):
    arrays = make()
    many = clone(model).set_params(whitening=0.3, n_components=4).fit(arrays, CLASSES).transform(arrays)
    few = clone(model).set_params(whitening=0.3, n_components=2).fit(arrays, CLASSES).transform(arrays)
    for M, F in zip(many, few, strict=True):
        np.testing.assert_allclose(M[:, :2], F, atol=1e-9 * np.abs(F).max())


def test_whitening_needs_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        cv.CCA(2, whitening=1.0).fit(make(n=2))


NORMS = {"coupling": [0.0, 4.0, np.inf, "auto"], "whitening": [None, 1.0], "n_components": [2, 3]}
OBJECTIVES = {"lambda_intra": [0.0, 0.1, 1.0], "beta": [0.0, 0.1], "n_between": [0, 3, 5], "n_within": [1]}


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        *((model, NORMS) for model in (cv.MvHE(3), cv.MvDA(3), cv.MvDLA(3), cv.CCA(3))),
        *((cls(3, coupling=c), OBJECTIVES) for cls in (cv.MvHE, cv.KMvHE) for c in (0.0, 8.0, "auto")),
    ],
    ids=str,
)
def test_refits_are_fits(model, grid):
    views, settings = cv.Views(make(n=2)), list(ParameterGrid(grid))
    refit = model._refitter(views, CLASSES, settings)
    for setting in settings:
        found, fitted = refit(setting), clone(model).set_params(**setting).fit(views, CLASSES)
        np.testing.assert_allclose(found.eigenvalues_, fitted.eigenvalues_, rtol=1e-7, atol=1e-9)
        assert found.coupling_ == fitted.coupling_
        if fitted.eigenvalues_[0] < -1e-3 or grid is NORMS:  # the kernel problem has many solutions of about 0
            for A, B in zip(found.projections_, fitted.projections_, strict=True):
                np.testing.assert_allclose(A, B, atol=1e-7 * np.abs(B).max())


def kernel_problem(complete):
    arrays, mask = make(m=30, seed=3), np.ones((30, 3), dtype=bool)
    if not complete:
        mask[2:7, 0] = mask[11:15, 1] = mask[20:22, 2] = False
    return arrays, mask


def literal_coupled_kernel(arrays, mask, c, gamma, d):
    """Eigenvalues and latents of one map on nodes with the coupled kernel, by dense matrices over all nodes."""
    n, m = len(arrays), len(arrays[0])
    y = CLASSES[:m]
    centred = [X - X[seen].mean(axis=0) for X, seen in zip(arrays, mask.T, strict=True)]
    present = mask.T.ravel()
    nodes = np.vstack(centred)
    K = np.exp(-gamma * np.array(oracles.squared_distances(nodes)))
    inverse = np.linalg.inv(norm_matrix(c, n, 1)) if np.isfinite(c) else np.full((n, n), 1 / n)
    K *= np.kron(inverse, np.ones((m, m)))
    H = np.eye(n * m)
    for v in range(n):
        block = np.zeros(n * m)
        block[v * m : (v + 1) * m] = mask[:, v]
        H[v * m : (v + 1) * m] -= np.outer(np.ones(m), block) / mask[:, v].sum()
    K = (H @ K @ H.T)[np.ix_(present, present)]
    L = oracles.laplacian(oracles.patches(arrays, y, mask, 1, 15), mask, paired=1.0, intra=0.01, inter=0.05, beta=0.1)
    L = np.asarray(L)[np.ix_(present, present)]
    values, V = np.linalg.eigh(K)
    R = V[:, values > 1e-10 * values[-1]] * np.sqrt(values[values > 1e-10 * values[-1]])
    eigenvalues, U = np.linalg.eigh(R.T @ L @ R)
    return eigenvalues[:d], R @ U[:, :d], present


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("c", [1.0, 16.0, np.inf])
def test_coupled_kernel_is_one_map_on_nodes(c, complete):
    arrays, mask = kernel_problem(complete)
    y = CLASSES[:30]
    model = cv.KMvHE(4, coupling=c, gamma=0.2).fit(cv.Views(arrays, mask=mask), y)
    values, latents, present = literal_coupled_kernel(arrays, mask, c, 0.2, 4)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-9 * np.abs(values).max())
    found = np.vstack(model.transform(cv.Views(arrays, mask=mask)).arrays)[present]
    signs = np.sign((found * latents).sum(axis=0))
    np.testing.assert_allclose(found, np.sqrt(3) * latents * signs, atol=1e-7 * np.abs(latents).max())


def test_equal_views_with_one_map_have_no_component_that_centring_removes():
    X = make(m=30)[0]
    model = cv.KMvHE(5, coupling=np.inf, gamma=0.2).fit([X, X], CLASSES[:30])
    for Z in model.transform([X, X]):
        assert np.square(Z).sum(axis=0).min() > 1e-8


def test_landmarks_of_coupled_kernels():
    arrays, _ = kernel_problem(True)
    y = CLASSES[:30]
    whole, every = (
        cv.KMvHE(3, coupling=4.0, n_landmarks=k, random_state=0, reg=None).fit(arrays, y) for k in (None, 30)
    )
    for Z, E in zip(every.transform(arrays), whole.transform(arrays), strict=True):
        np.testing.assert_allclose(Z, E, atol=1e-8 * np.abs(E).max())
    for some in (
        cv.KMvHE(3, coupling=4.0, n_landmarks=5, random_state=0),
        cv.KCCA(3, coupling=4.0, n_landmarks=5, random_state=0),
    ):
        some.fit(arrays[: 2 if isinstance(some, cv.KCCA) else 3], y)
        assert some.landmarks_[0].shape == (5 * len(some.n_features_), 4)
        assert some.score(arrays[: len(some.n_features_)], y) > 0.4
    with pytest.raises(cv.exceptions.NotApplicableError, match="precomputed"):
        cv.KMvHE(kernel="precomputed", coupling=1.0).fit([X @ X.T for X in arrays], y)


@pytest.mark.parametrize("c", [0.0, 4.0, np.inf])
def test_coupled_kernel_is_the_coupled_method_on_pooled_kernel_features(c):
    arrays, _ = kernel_problem(True)
    y = CLASSES[:30]
    piped = make_pipeline(
        cv.ViewKernel(gamma=0.2, pooled=True), cv.MvHE(3, lambda_intra=0.01, lambda_inter=0.05, coupling=c)
    )
    model = cv.KMvHE(3, coupling=c, gamma=0.2)
    for Z, E in zip(piped.fit(arrays, y).transform(arrays), model.fit(arrays, y).transform(arrays), strict=True):
        signs = np.sign((Z * E).sum(axis=0))
        np.testing.assert_allclose(Z * signs, E, atol=1e-6 * np.abs(E).max())


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (cv.MvDA(3), {"reg": -1.0}),
        (cv.MvDLA(3), {"beta": -1.0}),
        (cv.MvHE(3), {"whitening": -1.0}),
        (cv.MvHE(3), {"n_within": -1}),
        (cv.CCA(3), {"coupling": -1.0}),
        (cv.PCA(3), {"whitening": "yes"}),
    ],
    ids=str,
)
def test_refits_refuse_what_fits_refuse_and_leave_others_alone(model, wrong):
    views, right = cv.Views(make(n=2)), {"whitening": 0.3}
    for settings in ([wrong, right], [right, wrong]):
        refit = clone(model)._refitter(views, CLASSES, settings)
        assert refit(right).projections_[0].shape == (4, 3)
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            refit(wrong)


def similarity(arrays):
    """Mean similarity of a sample in two views, and its deviations above those of all orders of features, by loops."""
    centred = [X - X.mean(axis=0) for X in arrays]
    n, D = len(centred), centred[0].shape[1]
    squares = sum((X**2).sum() for X in centred) * (n - 1)

    def products(order):
        pairs = [(X, Z) for i, X in enumerate(centred) for Z in centred[:i]]
        return sum((x @ z[order] + z @ x[order]) for X, Z in pairs for x, z in zip(X, Z, strict=True))

    found = [products(list(order)) for order in itertools.permutations(range(D))]
    return found[0] / squares, (found[0] - np.mean(found)) / np.std(found, ddof=0)


class TestAuto:
    """``coupling="auto"`` couples views whose features correspond."""

    @pytest.mark.parametrize("seed", range(8))
    def test_orders_of_features(self, seed):
        arrays = [X + seed % 3 * np.roll(X, 1, axis=1) for X in make(D=5, seed=seed)]
        sums = similarities([X - X.mean(axis=0) for X in arrays], np.ones((40, 3)), np.arange(5))
        alike, deviations = similarity(arrays)
        for least, most in ((0.0, 0.0), (alike * 0.999, deviations * 0.999), (-1.0, deviations * 1.001)):
            expected = alike > max(least, 0.0) and deviations >= most
            assert features_correspond(*sums, 3, similarity=least, deviations=most) == expected
        assert not features_correspond(*sums, 3, similarity=alike * 1.001, deviations=-99.0)

    @pytest.mark.parametrize("model", [cv.MvHE(5), cv.KMvHE(5), cv.MvDA(5)], ids=name)
    @pytest.mark.parametrize("complete", [True, False])
    def test_aligned_images_are_coupled_and_mixed_ones_are_not(self, model, complete):
        data = cv.datasets.make_turntable(15, size=12, random_state=0)
        arrays = [X.copy() for X in data.views.arrays]
        if not complete:
            for v, X in enumerate(arrays):
                X[np.random.default_rng(v).random(len(X)) < 0.3] = np.nan
        mixed = [arrays[0], *(X[:, np.random.default_rng(v).permutation(144)] for v, X in enumerate(arrays[1:]))]
        for views, coupling in ((arrays, 8.0), (mixed, 0.0)):
            auto = clone(model).set_params(coupling="auto").fit(views, data.y)
            fixed = clone(model).set_params(coupling=coupling).fit(views, data.y)
            assert auto.coupling_ == fixed.coupling_ == coupling
            for found, expected in zip(auto.projections_, fixed.projections_, strict=True):
                np.testing.assert_array_equal(found, expected)

    def test_features_that_all_grow_with_one_quantity_do_not_correspond(self):
        rng = np.random.default_rng(0)
        size = rng.normal(size=(60, 1))
        arrays = [size * rng.uniform(0.5, 1.5, size=6) + 0.3 * rng.normal(size=(60, 6)) for _ in range(2)]
        assert cv.MvHE(3).fit(arrays, np.arange(60) % 6).coupling_ == 0.0

    @pytest.mark.parametrize("widths", [(4, 3), (1, 1)])
    def test_views_without_common_coordinates_are_not_coupled(self, widths):
        arrays = [X[:, :D] for X, D in zip(make(n=2), widths, strict=True)]
        assert cv.MvHE(1).fit(arrays, CLASSES).coupling_ == 0.0
        kernels = [np.exp(-((X[:, None] - X) ** 2).sum(axis=2)) for X in arrays]
        assert cv.KMvHE(2, kernel="precomputed").fit(kernels, CLASSES).coupling_ == 0.0
