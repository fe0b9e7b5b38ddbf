"""Discriminant methods against their problems as printed, by literal matrices: sums over views, classes and samples."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.linalg
from methods import improves, make
from scipy.sparse.linalg import ArpackError
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import crossview as cv

ARRAYS, Y = make(sizes=(6, 4, 5))
OFFSETS = np.cumsum([6, 4])
C = 6
COMPLETE = np.ones((60, 3), dtype=bool)
INCOMPLETE = np.random.default_rng(0).random((60, 3)) < 0.7
MU, LAMBDA, GAMMA = [1.0, 0.5, 2.0], 0.3, [1.0, 3.0, 0.7]
PAIRED = {"mu": MU, "lambda_pairs": LAMBDA, "gamma": GAMMA}


def centred(arrays):
    return [X - X.mean(axis=0) for X in arrays]


def between_centres(arrays, classes=range(C)):
    """Scatter of the differences of class means of complete views, pair by pair."""
    means = [np.hstack([X[c == Y].mean(axis=0) for X in arrays]) for c in classes]
    return sum(np.outer(p - q, p - q) for p in means for q in means)


def consistency(arrays, mask, reg):
    """Σ_i Σ_{j≠i} |β_i - β_j|² over the samples that both views have, with β = X (X'DX + ridge)^-1 W."""
    duals = []
    for X, G in zip(arrays, oracles.pair_products(arrays, mask)[1], strict=True):
        duals.append(X @ np.linalg.inv(G + reg * np.trace(G) / len(G) * np.eye(len(G))))
    edges = np.cumsum([0, *(X.shape[1] for X in arrays)])
    total = np.zeros((edges[-1],) * 2)
    for i in range(len(arrays)):
        for j in range(len(arrays)):
            if i != j:
                gap = np.zeros((len(arrays[0]), edges[-1]))
                both = (mask[:, i] & mask[:, j])[:, None]
                gap[:, edges[i] : edges[i + 1]] += both * duals[i]
                gap[:, edges[j] : edges[j + 1]] -= both * duals[j]
                total += gap.T @ gap
    return total


def problem(name, mask=COMPLETE, reg=0.0):
    """The matrices of the objective and of the constraint: sums over the pairs of views that were seen."""
    arrays, weights = oracles.pair_centred(ARRAYS, mask), oracles.pair_weights(mask)
    between, within = oracles.view_scatters(arrays, weights, Y)
    pairs, total = oracles.pair_products(arrays, mask)
    joint = oracles.joint_scatters(arrays, weights, Y)
    objective = LAMBDA * pairs + scipy.linalg.block_diag(*(mu * A for mu, A in zip(MU, between, strict=True)))
    if name == "MvDA":
        return joint
    if name == "MvDA-VC":
        penalty = consistency(arrays, mask, reg)
        return joint[0], joint[1] + 3.0 * np.trace(joint[1]) / np.trace(penalty) * penalty
    if name == "MvMDA":
        return between_centres(arrays), scipy.linalg.block_diag(*within)
    scatters = total if name == "MULDA" else within
    return objective, scipy.linalg.block_diag(*(gamma * B for gamma, B in zip(GAMMA, scatters, strict=True)))


MODELS = {
    "MvDA": cv.MvDA(3),
    "MvDA-VC": cv.MvDAVC(3, lambda_consistency=3.0),
    "MvMDA": cv.MvMDA(3),
    "GMA": cv.GMA(3, **PAIRED),
}


@pytest.mark.parametrize("name", MODELS)
def test_objective_and_constraint(name):
    A, B = problem(name)
    model = MODELS[name].set_params(reg=0.0).fit(ARRAYS, Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(W.T @ A @ W, np.diag(model.eigenvalues_), atol=1e-8 * np.abs(A).max())

    def value(W):
        return float(np.trace(W.T @ A @ W))

    def normalise(W):
        return W @ np.linalg.inv(np.linalg.cholesky(W.T @ B @ W)).T

    for size in (1e-3, 0.1, 1.0):
        assert not improves(value, W, normalise, seed=0, size=size * np.abs(W).mean())
    rng = np.random.default_rng(1)
    assert value(normalise(rng.normal(size=W.shape))) < 0.9 * value(W), "the oracle can tell good from bad"


@pytest.mark.parametrize("name", ["MvDA", "MvDA-VC", "GMA"])
def test_objective_and_constraint_of_incomplete_views(name):
    A, B = problem(name, INCOMPLETE)
    model = MODELS[name].set_params(reg=0.0).fit(cv.Views(ARRAYS, mask=INCOMPLETE), Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(3), atol=1e-8)
    np.testing.assert_allclose(W.T @ A @ W, np.diag(model.eigenvalues_), atol=1e-8 * np.abs(A).max())


def test_centres_of_mvmda_are_those_of_classes_that_every_view_has_seen():
    mask = COMPLETE.copy()
    mask[Y == 2, 1] = False
    model = cv.MvMDA(20, reg=0.0).fit(cv.Views(ARRAYS, mask=mask), Y)
    W = np.vstack(model.projections_)
    assert W.shape[1] == C - 2
    _, within = oracles.view_scatters(ARRAYS, oracles.pair_weights(mask), Y)
    np.testing.assert_allclose(W.T @ scipy.linalg.block_diag(*within) @ W, np.eye(C - 2), atol=1e-8)
    A = between_centres(ARRAYS, [0, 1, 3, 4, 5])
    np.testing.assert_allclose(W.T @ A @ W, np.diag(model.eigenvalues_), atol=1e-8 * model.eigenvalues_[0])


def test_mvmda_needs_classes_that_every_view_has_seen():
    mask = COMPLETE.copy()
    mask[Y != 2, 1] = False
    mask[Y == 2, 0] = False
    mask[0] = True
    with pytest.raises(ValueError, match="at least 2 classes that all views have, got 1"):
        cv.MvMDA(3).fit(cv.Views(ARRAYS, mask=mask), Y)


def test_classes_far_apart_do_not_hide_what_varies_within_them():
    far = [X + 1e7 * (Y == 0)[:, None] for X in ARRAYS]
    latents = cv.MvMDA(2, reg=0.0).fit(far, Y).transform(far)
    within = sum(np.cov(Z[c == Y].T, bias=True) * (c == Y).sum() for Z in latents for c in range(C))
    np.testing.assert_allclose(within, np.eye(2), atol=1e-6)


@pytest.mark.parametrize("mask", [COMPLETE, INCOMPLETE], ids=["complete", "incomplete"])
def test_consistency_ridge_is_reg(mask):
    """As the ridge of the constraint, relative to the mean diagonal."""
    A, B = problem("MvDA-VC", mask, reg=0.5)
    for block in (slice(0, 6), slice(6, 10), slice(10, 15)):
        part = B[block, block]
        B[block, block] += 0.5 * np.trace(part) / len(part) * np.eye(len(part))
    model = cv.MvDAVC(3, lambda_consistency=3.0, reg=0.5).fit(cv.Views(ARRAYS, mask=mask), Y)
    np.testing.assert_allclose(model.eigenvalues_, scipy.linalg.eigh(A, B)[0][::-1][:3], rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e77])
def test_view_consistency_does_not_depend_on_the_scale(scale):
    model = cv.MvDAVC(3, lambda_consistency=1.0).fit(ARRAYS, Y)
    scaled = cv.MvDAVC(3, lambda_consistency=1.0).fit([scale * X for X in ARRAYS], Y)
    np.testing.assert_allclose(scaled.eigenvalues_, model.eigenvalues_, rtol=1e-8)
    for one, other in zip(scaled.projections_, model.projections_, strict=True):
        np.testing.assert_allclose(one * scale, other, rtol=1e-6, atol=1e-8 * np.abs(other).max())


def test_no_consistency_is_mvda():
    a, b = cv.MvDAVC(3, lambda_consistency=0.0).fit(ARRAYS, Y), cv.MvDA(3).fit(ARRAYS, Y)
    np.testing.assert_array_equal(np.vstack(a.projections_), np.vstack(b.projections_))


def test_gma_stops_where_views_would_be_pushed_apart():
    model = cv.GMA(1000, reg=0.1).fit(ARRAYS, Y)
    assert len(model.eigenvalues_) < sum(X.shape[1] for X in ARRAYS)
    assert (model.eigenvalues_ > 0).all()
    assert all(W.shape[1] == len(model.eigenvalues_) for W in model.projections_)


@pytest.mark.parametrize("mask", [COMPLETE, INCOMPLETE], ids=["complete", "incomplete"])
def test_mulda_features_are_uncorrelated_and_no_feasible_direction_is_better(mask):
    A, B = problem("MULDA", mask)
    model = cv.MULDA(4, **PAIRED, reg=0.0).fit(cv.Views(ARRAYS, mask=mask), Y)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(np.diag(W.T @ A @ W), model.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(4), atol=1e-8)
    assert (np.diff(model.eigenvalues_) <= 1e-10).all()
    blocks = [slice(0, 6), slice(6, 10), slice(10, 15)]
    for block in blocks:
        scatter = W[block].T @ B[block, block] @ W[block]
        np.testing.assert_allclose(scatter, np.diag(np.diag(scatter)), atol=1e-8)
    for r in range(4):

        def feasible(w, r=r):
            w = w.copy()
            for block in blocks:
                taken, T = W[block, :r], B[block, block]
                w[block] -= taken @ np.linalg.lstsq(taken.T @ T @ taken, taken.T @ T @ w[block], rcond=None)[0]
            return w / np.sqrt(w.T @ B @ w)

        best = W[:, [r]]
        np.testing.assert_allclose(feasible(best), best, atol=1e-8)
        for size in (1e-3, 0.1, 10.0):
            assert not improves(lambda w: (w.T @ A @ w).item(), best, feasible, r, size * np.abs(best).mean())


@pytest.mark.parametrize("pairs", [0.0, 0.3])
def test_mulda_by_iteration_is_mulda(pairs, monkeypatch):
    """Large problems are solved by iterating from a guess."""
    dense = cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y)
    monkeypatch.setattr("crossview.linalg.eigen._ITERATE_FROM", 1)
    iterated = cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y)
    np.testing.assert_allclose(iterated.eigenvalues_, dense.eigenvalues_, atol=1e-9)

    def fails(*args, **kwargs):
        raise ArpackError(-9999)

    monkeypatch.setattr("crossview.linalg.eigen.eigsh", fails)
    np.testing.assert_allclose(cv.MULDA(5, lambda_pairs=pairs).fit(ARRAYS, Y).eigenvalues_, dense.eigenvalues_)


@pytest.mark.parametrize("cls", [cv.GMA, cv.MULDA])
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"mu": [1.0, 2.0]}, "mu has 2 values for 3 views"),
        ({"gamma": 0.0}, "gamma must be a finite number above 0"),
        ({"mu": 0.0, "lambda_pairs": 0.0}, "no component makes the objective larger than 0"),
    ],
)
def test_gma_and_mulda_refuse(cls, parameters, match):
    with pytest.raises(ValueError, match=match):
        cls(3, **parameters).fit(ARRAYS, Y)


@pytest.mark.parametrize("cls", [cv.LDA, cv.MvDA, cv.MvDAVC, cv.MvMDA, cv.GMA, cv.MULDA])
def test_number_of_components_and_one_sample_per_class(cls):
    arrays = [X[:, :4] for X in ARRAYS]
    most = 4 if cls is cv.MULDA else 12 if cls is cv.GMA else 2  # at most one less than classes, or than features
    assert cls(20).fit(arrays, Y % 3).n_components_ <= most
    assert cls(20).fit(arrays, Y % 3).n_components_ == most or cls is cv.GMA
    if cls in (cv.MvMDA, cv.GMA, cv.MULDA):
        with pytest.raises(ValueError, match=f"no within-class scatter for {cls.__name__}: use MvDA"):
            cls(3).fit(arrays, np.arange(60))
    else:
        assert cls(3, reg=0.1).fit(arrays, np.arange(60)).eigenvalues_.shape == (3,)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvDAVC, cv.MvMDA])
def test_more_features_than_samples(cls):
    rng = np.random.default_rng(0)
    wide = [np.hstack([X, 0.1 * rng.normal(size=(60, 80))]) for X in ARRAYS]
    assert np.isfinite(cls(3, reg=0.1).fit(wide, Y).eigenvalues_).all()
    with pytest.raises(ValueError, match="singular: raise reg"):
        cls(3, reg=0.0).fit([np.hstack([X, X]) for X in ARRAYS], Y)


@pytest.mark.parametrize("cls", [cv.MvDA, cv.MvMDA])
def test_units_of_a_view_do_not_matter(cls):
    """Every view's ridge is relative to that view."""
    scaled = [ARRAYS[0], 1e-3 * ARRAYS[1], 1e4 * ARRAYS[2]]
    a, b = cls(3, reg=0.1).fit(ARRAYS, Y), cls(3, reg=0.1).fit(scaled, Y)
    for Z, scaled_Z in zip(a.transform(ARRAYS), b.transform(scaled), strict=True):
        np.testing.assert_allclose(np.abs(Z), np.abs(scaled_Z), atol=1e-8)


def test_lda_is_that_of_all_samples():
    arrays, _ = make(sizes=(5, 5))
    model = cv.LDA(3, reg=0.0).fit(arrays, Y)
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=3).fit(np.vstack(centred(arrays)), np.tile(Y, 2))
    Q, R = np.linalg.qr(model.projections_[0])[0], np.linalg.qr(theirs.scalings_[:, :3])[0]
    np.testing.assert_allclose(Q @ Q.T, R @ R.T, atol=1e-8)
    np.testing.assert_array_equal(*model.projections_)
    Z, y = np.vstack(model.transform(arrays)), np.tile(Y, 2)
    deviations = Z - np.array([Z[y == c].mean(axis=0) for c in range(C)])[y]
    np.testing.assert_allclose(deviations.T @ deviations, np.eye(3), atol=1e-8)
