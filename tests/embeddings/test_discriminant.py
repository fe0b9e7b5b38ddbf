"""Discriminant methods against their objectives as printed: sums over views, classes and samples."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.linalg
from methods import improves, make
from scipy.sparse.linalg import ArpackError
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import crossview as cv
from crossview.samples import Samples, pair_weights, samples_of

ARRAYS, Y = make(sizes=(6, 4, 5))
OFFSETS = np.cumsum([6, 4])
C = 6


def centred(arrays):
    return [X - X.mean(axis=0) for X in arrays]


def latents(arrays, W):
    return [X @ w for X, w in zip(centred(arrays), np.split(W, OFFSETS), strict=True)]


def total(matrix):
    return float(np.trace(matrix))


def mvda_between(Z, y):
    pooled, labels = np.vstack(Z), np.tile(y, len(Z))
    mean = pooled.mean(axis=0)
    S = np.zeros((pooled.shape[1],) * 2)
    for c in range(C):
        gap = pooled[labels == c].mean(axis=0) - mean
        S += (labels == c).sum() * np.outer(gap, gap)
    return S


def mvda_within(Z, y):
    pooled, labels = np.vstack(Z), np.tile(y, len(Z))
    S = np.zeros((pooled.shape[1],) * 2)
    for c in range(C):
        mean = pooled[labels == c].mean(axis=0)
        for z in pooled[labels == c]:
            S += np.outer(z - mean, z - mean)
    return S


def mvmda_between(Z, y):
    S = np.zeros((Z[0].shape[1],) * 2)
    for A in Z:
        for B in Z:
            for p in range(C):
                for q in range(C):
                    a = A[y == p].mean(axis=0) - A[y == q].mean(axis=0)
                    b = B[y == p].mean(axis=0) - B[y == q].mean(axis=0)
                    S += np.outer(a, b)
    return S


def mvmda_within(Z, y):
    S = np.zeros((Z[0].shape[1],) * 2)
    for A in Z:
        for c in range(C):
            mean = A[y == c].mean(axis=0)
            for z in A[y == c]:
                S += np.outer(z - mean, z - mean)
    return S


def view_between(z, y):
    S = np.zeros((z.shape[1],) * 2)
    for c in range(C):
        gap = z[y == c].mean(axis=0) - z.mean(axis=0)
        S += (y == c).sum() * np.outer(gap, gap)
    return S


MU, LAMBDA, GAMMA = [1.0, 0.5, 2.0], 0.3, [1.0, 3.0, 0.7]


def gma_objective(Z, y, exemplars):
    S = sum(mu * view_between(z, y) for mu, z in zip(MU, Z, strict=True))
    if exemplars == "means":
        Z = [np.array([z[y == c].mean(axis=0) for c in range(C)]) for z in Z]
    for i, a in enumerate(Z):
        for j, b in enumerate(Z):
            if i != j:
                S = S + LAMBDA * a.T @ b
    return S


def gma_constraint(W):
    Z = latents(ARRAYS, W)
    return sum(gamma * mvmda_within([z], Y) for gamma, z in zip(GAMMA, Z, strict=True))


def consistency(arrays, W):
    betas = [X @ np.linalg.inv(X.T @ X) @ w for X, w in zip(centred(arrays), np.split(W, OFFSETS), strict=True)]
    S = np.zeros((W.shape[1],) * 2)
    for i, a in enumerate(betas):
        for j, b in enumerate(betas):
            if i != j:
                S += (a - b).T @ (a - b)
    return S


UNIT = np.eye(sum(X.shape[1] for X in ARRAYS))
RATIO = np.trace(mvda_within(latents(ARRAYS, UNIT), Y)) / np.trace(consistency(ARRAYS, UNIT))

METHODS = {
    "MvDA": (cv.MvDA, {}, mvda_between, lambda W: mvda_within(latents(ARRAYS, W), Y)),
    "MvMDA": (cv.MvMDA, {}, mvmda_between, lambda W: mvmda_within(latents(ARRAYS, W), Y)),
    "MvDA-VC": (
        cv.MvDAVC,
        {"lambda_consistency": 3.0},
        mvda_between,
        lambda W: mvda_within(latents(ARRAYS, W), Y) + 3.0 * RATIO * consistency(ARRAYS, W),
    ),
    "GMA": (
        cv.GMA,
        {"mu": MU, "lambda_pairs": LAMBDA, "gamma": GAMMA},
        lambda Z, y: gma_objective(Z, y, "samples"),
        gma_constraint,
    ),
    "GMA on class means": (
        cv.GMA,
        {"mu": MU, "lambda_pairs": LAMBDA, "gamma": GAMMA, "exemplars": "means"},
        lambda Z, y: gma_objective(Z, y, "means"),
        gma_constraint,
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_objective_and_constraint(name):
    cls, parameters, between, constraint = METHODS[name]
    model = cls(3, reg=0.0, **parameters).fit(ARRAYS, Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(constraint(W), np.eye(3), atol=1e-8)

    def value(W):
        return total(between(latents(ARRAYS, W), Y))

    assert value(W) == pytest.approx(model.eigenvalues_.sum(), rel=1e-8)

    def normalise(W):
        return W @ np.linalg.inv(np.linalg.cholesky(constraint(W))).T

    for size in (1e-3, 0.1, 1.0):
        assert not improves(value, W, normalise, seed=0, size=size * np.abs(W).mean(), n_trials=15)
    rng = np.random.default_rng(1)
    assert value(normalise(rng.normal(size=W.shape))) < 0.9 * value(W), "the oracle can tell good from bad"


def test_gma_without_discriminant_part_is_mcca():
    gma = cv.GMA(3, mu=0.0, lambda_pairs=1.0, constraint="total", reg=0.01).fit(ARRAYS, Y)
    mcca = cv.MCCA(3, constraint="joint", reg=0.01).fit(ARRAYS)
    np.testing.assert_allclose(gma.eigenvalues_, mcca.eigenvalues_, atol=1e-10)
    for W, V in zip(gma.projections_, mcca.projections_, strict=True):
        np.testing.assert_allclose(np.sqrt(3) * W, V, atol=1e-8)


def test_mulda_features_are_uncorrelated():
    model = cv.MULDA(4, mu=MU, lambda_pairs=LAMBDA, gamma=GAMMA, reg=0.0).fit(ARRAYS, Y)
    Z = model.transform(ARRAYS)
    for z in Z:
        covariance = z.T @ z
        np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0.0, atol=1e-8)
    total_scatter = sum(gamma * z.T @ z for gamma, z in zip(GAMMA, Z, strict=True))
    np.testing.assert_allclose(total_scatter, np.eye(4), atol=1e-8)
    values = np.diag(gma_objective(Z, Y, "samples"))
    np.testing.assert_allclose(values, model.eigenvalues_, rtol=1e-8)
    assert (np.diff(model.eigenvalues_) <= 1e-10).all()


def test_no_feasible_direction_beats_those_of_mulda():
    model = cv.MULDA(4, mu=MU, lambda_pairs=LAMBDA, gamma=GAMMA, reg=0.0).fit(ARRAYS, Y)
    rng = np.random.default_rng(0)
    scatters = [X.T @ X for X in centred(ARRAYS)]
    for r in range(4):

        def feasible(w, r=r):
            parts = []
            for part, T, V in zip(np.split(w, OFFSETS), scatters, model.projections_, strict=True):
                before = V[:, :r]
                if r:
                    part = part - before @ np.linalg.lstsq(before.T @ T @ before, before.T @ T @ part, rcond=None)[0]
                parts.append(part)
            size = sum(g * p @ T @ p for g, p, T in zip(GAMMA, parts, scatters, strict=True))
            return np.concatenate(parts) / np.sqrt(size)

        def value(w):
            return total(gma_objective(latents(ARRAYS, w[:, None]), Y, "samples"))

        best = np.concatenate([V[:, r] for V in model.projections_])
        np.testing.assert_allclose(feasible(best), best, atol=1e-8)
        for size in (1e-3, 0.1, 10.0):
            for _ in range(30):
                other = feasible(best + size * np.abs(best).mean() * rng.normal(size=best.shape))
                assert value(other) <= value(best) * (1 + 1e-9)


def test_mulda_gives_more_directions_than_classes():
    y = Y % 3
    assert cv.MULDA(20).fit(ARRAYS, y).transform(ARRAYS)[0].shape == (60, 4)


@pytest.mark.parametrize("cls", [cv.GMA, cv.MULDA])
def test_gma_and_mulda_refuse(cls):
    with pytest.raises(ValueError, match="no within-class scatter"):
        cls(3).fit(ARRAYS, np.arange(60))
    with pytest.raises(ValueError, match="mu has 2 values for 3 views"):
        cls(3, mu=[1.0, 2.0]).fit(ARRAYS, Y)
    with pytest.raises(ValueError, match="gamma must be a finite number"):
        cls(3, gamma=-1.0).fit(ARRAYS, Y)
    if cls is cv.GMA:
        with pytest.raises(ValueError, match="exemplars must be one of 'samples', 'means', got 'mean'"):
            cls(3, exemplars="mean").fit(ARRAYS, Y)
        with pytest.raises(ValueError, match="constraint must be one of"):
            cls(3, constraint="all").fit(ARRAYS, Y)


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e77])
def test_view_consistency_does_not_depend_on_the_scale(scale):
    arrays, y = ARRAYS, Y
    model = cv.MvDAVC(3, lambda_consistency=1.0).fit(arrays, y)
    scaled = cv.MvDAVC(3, lambda_consistency=1.0).fit([scale * X for X in arrays], y)
    assert scaled.n_components_ == model.n_components_
    np.testing.assert_allclose(scaled.eigenvalues_, model.eigenvalues_, rtol=1e-8)
    for one, other in zip(scaled.projections_, model.projections_, strict=True):
        np.testing.assert_allclose(one * scale, other, rtol=1e-6, atol=1e-8 * np.abs(other).max())


def test_mvda_of_one_view_is_lda():
    X, y = make(sizes=(5,))
    samples = Samples(arrays=centred(X), weights=np.ones((60, 1)), classes=y)
    between, within = samples.joint_scatters()
    one, within_one = samples.view_scatters()
    np.testing.assert_allclose(between, one[0], atol=1e-10)
    np.testing.assert_allclose(within, within_one[0], atol=1e-10)
    lda = LinearDiscriminantAnalysis(solver="eigen", n_components=3).fit(X[0], y)
    values, vectors = np.linalg.eig(np.linalg.solve(within, between))
    ours = vectors[:, np.argsort(-values.real)[:3]].real
    Q, _ = np.linalg.qr(ours)
    R, _ = np.linalg.qr(lda.scalings_[:, :3])
    np.testing.assert_allclose(Q @ Q.T, R @ R.T, atol=1e-8)


def test_scatters_with_missing_samples():
    rng = np.random.default_rng(0)
    mask = rng.random((60, 3)) < 0.7
    arrays = [np.where(mask[:, [v]], X, 0.0) for v, X in enumerate(centred(ARRAYS))]
    between, within = Samples(arrays=arrays, weights=mask.astype(float), classes=Y).joint_scatters()
    W = rng.normal(size=(15, 2))
    Z = [X @ w for X, w in zip(arrays, np.split(W, OFFSETS), strict=True)]
    seen = np.vstack([z[m] for z, m in zip(Z, mask.T, strict=True)])
    labels = np.concatenate([Y[m] for m in mask.T])
    means = np.array([seen[labels == c].mean(axis=0) for c in range(C)])
    deviations = seen - means[labels]
    spread = means[labels] - seen.mean(axis=0)
    np.testing.assert_allclose(W.T @ within @ W, deviations.T @ deviations, atol=1e-9)
    np.testing.assert_allclose(W.T @ between @ W, spread.T @ spread, atol=1e-9)


def test_no_consistency_is_mvda():
    a, b = cv.MvDAVC(3, lambda_consistency=0.0).fit(ARRAYS, Y), cv.MvDA(3).fit(ARRAYS, Y)
    for W, V in zip(a.projections_, b.projections_, strict=True):
        np.testing.assert_array_equal(W, V)


def test_consistency_draws_duals_together():
    def spread(weight):
        W = np.vstack(cv.MvDAVC(3, lambda_consistency=weight, reg=0.0).fit(ARRAYS, Y).projections_)
        return total(consistency(ARRAYS, W)) / total(mvda_within(latents(ARRAYS, W), Y))

    assert spread(100.0) < 0.5 * spread(0.0)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvDAVC, cv.MvMDA])
def test_no_more_components_than_classes_allow(cls):
    model = cls(20).fit(ARRAYS, Y)
    assert model.transform(ARRAYS)[0].shape == (60, C - 1)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvDAVC])
def test_one_sample_per_class_and_view(cls):
    latent = cls(5, reg=0.1).fit(ARRAYS, np.arange(60)).transform(ARRAYS)
    assert np.isfinite(np.hstack(latent)).all()


def test_one_sample_per_class_and_view_leaves_mvmda_nothing():
    with pytest.raises(ValueError, match="no within-class scatter"):
        cv.MvMDA(5).fit(ARRAYS, np.arange(60))


def test_centres_of_mvmda_are_those_of_classes_that_every_view_has_seen():
    mask = np.ones((60, 3), dtype=bool)
    mask[Y == 2, 1] = False
    model = cv.MvMDA(20, reg=0.0).fit(cv.Views(ARRAYS, mask=mask), Y)
    W = np.vstack(model.projections_)
    assert W.shape[1] == C - 2
    weights = oracles.pair_weights(mask)
    _, within = oracles.view_scatters(ARRAYS, weights, Y)
    constraint = sum(w.T @ B @ w for w, B in zip(np.split(W, OFFSETS), within, strict=True))
    np.testing.assert_allclose(constraint, np.eye(C - 2), atol=1e-8)
    others = np.flatnonzero(Y != 2)
    labels = np.where(Y == C - 1, 2, Y)[others]
    expected = np.zeros((C - 2, C - 2))
    Z = latents([X[others] for X in ARRAYS], W)  # complete, so that every sample counts alike
    for A in Z:
        for B in Z:
            for p in range(C - 1):
                for q in range(C - 1):
                    a = A[labels == p].mean(axis=0) - A[labels == q].mean(axis=0)
                    b = B[labels == p].mean(axis=0) - B[labels == q].mean(axis=0)
                    expected += np.outer(a, b)
    np.testing.assert_allclose(expected, np.diag(model.eigenvalues_), atol=1e-8 * model.eigenvalues_[0])


def test_mvmda_needs_classes_that_every_view_has_seen():
    mask = np.ones((60, 3), dtype=bool)
    mask[Y != 2, 1] = False
    mask[Y == 2, 0] = False
    mask[0] = True
    with pytest.raises(ValueError, match="at least 2 classes that all views have, got 1"):
        cv.MvMDA(3).fit(cv.Views(ARRAYS, mask=mask), Y)


@pytest.mark.parametrize("cls", [cv.GMA, cv.MULDA])
def test_gma_and_mulda_of_incomplete_views(cls):
    """Objective and constraint are sums over the pairs that were seen, and over samples by their number of pairs."""
    mask = np.random.default_rng(0).random((60, 3)) < 0.7
    model = cls(3, mu=MU, lambda_pairs=LAMBDA, gamma=GAMMA, reg=0.0).fit(cv.Views(ARRAYS, mask=mask), Y)
    arrays, weights = oracles.pair_centred(ARRAYS, mask), oracles.pair_weights(mask)
    between, within = oracles.view_scatters(arrays, weights, Y)
    pairs, total_scatters = oracles.pair_products(arrays, mask)
    objective = LAMBDA * pairs + scipy.linalg.block_diag(*(mu * A for mu, A in zip(MU, between, strict=True)))
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(np.diag(W.T @ objective @ W), model.eigenvalues_, rtol=1e-8)
    constraint = within if cls is cv.GMA else total_scatters
    found = sum(g * w.T @ B @ w for g, w, B in zip(GAMMA, model.projections_, constraint, strict=True))
    np.testing.assert_allclose(found, np.eye(3), atol=1e-8)


def test_mvda_of_incomplete_views():
    mask = np.random.default_rng(0).random((60, 3)) < 0.7
    model = cv.MvDA(3, reg=0.0).fit(cv.Views(ARRAYS, mask=mask), Y)
    between, within = oracles.joint_scatters(oracles.pair_centred(ARRAYS, mask), oracles.pair_weights(mask), Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(W.T @ within @ W, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(W.T @ between @ W, np.diag(model.eigenvalues_), atol=1e-8)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvDAVC, cv.MvMDA])
def test_more_features_than_samples(cls):
    rng = np.random.default_rng(0)
    wide = [np.hstack([X, 0.1 * rng.normal(size=(60, 80))]) for X in ARRAYS]
    assert np.isfinite(cls(3, reg=0.1).fit(wide, Y).eigenvalues_).all()
    with pytest.raises(ValueError, match="singular: raise reg"):
        cls(3, reg=0.0).fit([np.hstack([X, X]) for X in ARRAYS], Y)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvMDA, cv.GMA, cv.MULDA])
def test_units_of_a_view_do_not_matter(cls):
    """Every view's ridge is relative to that view."""
    scaled = [ARRAYS[0], 1e-3 * ARRAYS[1], 1e4 * ARRAYS[2]]
    a, b = cls(3, reg=0.1).fit(ARRAYS, Y), cls(3, reg=0.1).fit(scaled, Y)
    if cls in (cv.MvDA, cv.MvMDA):
        for Z, scaled_Z in zip(a.transform(ARRAYS), b.transform(scaled), strict=True):
            np.testing.assert_allclose(np.abs(Z), np.abs(scaled_Z), atol=1e-8)
    assert np.isfinite(b.eigenvalues_).all()


def test_gma_stops_where_views_would_be_pushed_apart():
    model = cv.GMA(1000, reg=0.1).fit(ARRAYS, Y)
    assert len(model.eigenvalues_) < sum(X.shape[1] for X in ARRAYS)
    assert (model.eigenvalues_ > 0).all()
    assert all(W.shape[1] == len(model.eigenvalues_) for W in model.projections_)


@pytest.mark.parametrize("cls", [cv.GMA, cv.MULDA])
def test_an_objective_of_nothing_is_refused(cls):
    with pytest.raises(ValueError, match="no component makes the objective larger than 0"):
        cls(2, mu=0.0, lambda_pairs=0.0).fit(ARRAYS, Y)
    with pytest.raises(ValueError, match="gamma must be a finite number above 0"):
        cls(2, gamma=0.0).fit(ARRAYS, Y)


def test_classes_far_apart_do_not_hide_what_varies_within_them():
    far = [X + 1e7 * (Y == 0)[:, None] for X in ARRAYS]
    W = np.vstack(cv.MvMDA(2, reg=0.0).fit(far, Y).projections_)
    np.testing.assert_allclose(mvmda_within(latents(far, W), Y), np.eye(2), atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_consistency_ridge_is_reg(share):
    """β = X (X'DX + ridge)^-1 W, with the ridge relative to the mean diagonal, and D the weights of the samples."""
    model = cv.MvDAVC(2, reg=0.5)
    mask = np.random.default_rng(0).random((60, 3)) >= share
    data = samples_of(cv.Views(ARRAYS, mask=mask), Y, pair_weights).centred()
    found = model._consistency(data)
    duals = []
    arrays = oracles.pair_centred(ARRAYS, mask)
    for X, G in zip(arrays, oracles.pair_products(arrays, mask)[1], strict=True):
        duals.append(X @ np.linalg.inv(G + 0.5 * np.trace(G) / len(G) * np.eye(len(G))))
    edges = np.cumsum([0, *(X.shape[1] for X in ARRAYS)])
    literal = np.zeros_like(found)
    for i in range(3):
        for j in range(3):
            if i != j:
                gap = np.zeros((len(Y), edges[-1]))
                both = (mask[:, i] & mask[:, j])[:, None]
                gap[:, edges[i] : edges[i + 1]] += both * duals[i]
                gap[:, edges[j] : edges[j + 1]] -= both * duals[j]
                literal += gap.T @ gap
    np.testing.assert_allclose(found, literal, atol=1e-12)


@pytest.mark.parametrize("pairs", [0.0, 0.3])
def test_mulda_by_iteration_is_mulda(pairs, monkeypatch):
    """Large problems are solved by iterating from a guess."""
    dense = cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y)
    monkeypatch.setattr("crossview.linalg.eigen._ASCEND_FROM", 1)
    iterated = cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y)
    np.testing.assert_allclose(iterated.eigenvalues_, dense.eigenvalues_, atol=1e-9)

    def fails(*args, **kwargs):
        raise ArpackError(-9999)

    monkeypatch.setattr("crossview.linalg.eigen.eigsh", fails)
    np.testing.assert_allclose(cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y).eigenvalues_, dense.eigenvalues_)
