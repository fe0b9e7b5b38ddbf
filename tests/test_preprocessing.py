from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import crossview as cv

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=(20, 5)) * [1, 2, 3, 4, 5], RNG.normal(size=(20, 5)) + 3]
POOLED = np.vstack(ARRAYS)


def same_up_to_sign(Y, Z):
    np.testing.assert_allclose(Y * np.sign((Y * Z).sum(axis=0)), Z, atol=1e-12)


def test_scaling_is_that_of_scikit_learn():
    pooled = StandardScaler().fit(POOLED)
    each = zip(ARRAYS, cv.ViewScaler().fit_transform(ARRAYS), strict=True)
    per_view = zip(ARRAYS, cv.ViewScaler(pooled=False).fit_transform(ARRAYS), strict=True)
    for X, Y in each:
        np.testing.assert_allclose(Y, pooled.transform(X))
    for X, Y in per_view:
        np.testing.assert_allclose(Y, StandardScaler().fit_transform(X))


@pytest.mark.parametrize("by", ["view", None])
def test_one_factor_per_view_or_none(by):
    """It pools nothing, so views of unequal width are fine."""
    arrays = [ARRAYS[0], ARRAYS[1][:, :4]]
    scaler = cv.ViewScaler(by=by, pooled=True)
    for X, Y in zip(arrays, scaler.fit_transform(arrays), strict=True):
        expected = (X - X.mean(axis=0)) / np.sqrt(np.mean(X.var(axis=0))) if by else X
        np.testing.assert_allclose(Y, expected)
    assert not scaler.pooled_
    with pytest.raises(ValueError, match="pooled must be True or False, got 'no'"):
        cv.ViewScaler(by=by, pooled="no").fit(arrays)


@pytest.mark.parametrize("by", ["feature", "view"])
def test_constant_views_are_not_divided_by_zero(by):
    scaled = cv.ViewScaler(by, pooled=False).fit_transform([ARRAYS[0], np.ones((20, 3))])
    np.testing.assert_array_equal(scaled[1], np.zeros((20, 3)))


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)])
@pytest.mark.parametrize("k", [1, 5, 13, None])
def test_components_are_those_of_scikit_learn(k, shape):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(shape[0], 30)) @ rng.normal(size=(30, shape[1])) * np.linspace(1, 20, shape[1]) + 7
    ours = cv.ViewPCA(k).fit([X[::2], X[1::2]])
    theirs = PCA(k or 30, svd_solver="full").fit(X)
    C = ours.components_[0]
    np.testing.assert_allclose(abs(C @ theirs.components_.T), np.eye(k or 30), atol=1e-8)
    np.testing.assert_allclose(C @ C.T, np.eye(k or 30), atol=1e-10)
    np.testing.assert_allclose(ours.explained_variance_ratio_[0], theirs.explained_variance_ratio_, rtol=1e-8)
    assert (C[np.arange(len(C)), abs(C).argmax(axis=1)] > 0).all()


def test_pooled_components_and_those_per_view():
    pca = PCA(3, svd_solver="full").fit(POOLED)
    for X, Y in zip(ARRAYS, cv.ViewPCA(3).fit_transform(ARRAYS), strict=True):
        same_up_to_sign(Y, pca.transform(X))
    unequal = [ARRAYS[0], ARRAYS[1][:, :4]]
    for X, Y in zip(unequal, cv.ViewPCA(3, pooled=False).fit_transform(unequal), strict=True):
        same_up_to_sign(Y, PCA(3, svd_solver="full").fit_transform(X))


def test_components_that_products_would_lose_are_found_all_the_same():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 6)) * [1, 1e-2, 1e-4, 1e-5, 1e-6, 1e-7] @ rng.normal(size=(6, 50))
    found = cv.ViewPCA(6).fit([X, X]).components_[0]
    wanted = PCA(6, svd_solver="full").fit(np.vstack([X, X])).components_
    np.testing.assert_allclose(abs(found @ wanted.T), np.eye(6), atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.8, 0.99])
def test_a_share_of_the_variance_per_view(share):
    got = cv.ViewPCA(share, pooled=False).fit_transform(ARRAYS)
    for X, Y in zip(ARRAYS, got, strict=True):
        assert Y.shape[1] == PCA(share, svd_solver="full").fit(X).n_components_


def test_a_narrow_view_does_not_limit_a_wide_one():
    arrays = [ARRAYS[0], ARRAYS[1][:, :2]]
    assert [Y.shape[1] for Y in cv.ViewPCA(4).fit_transform(arrays)] == [4, 2]
    assert [Y.shape[1] for Y in cv.ViewPCA(40).fit_transform(arrays)] == [5, 2]


@pytest.mark.parametrize("pooled", [True, False])
def test_components_along_which_nothing_varies_are_left_out(pooled):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(20, 6)) for _ in range(2)]
    for X in arrays:
        X[:, 4] = 3.0
        X[:, 5] = X[:, 0] - X[:, 1]
    reduced = cv.ViewPCA(6, pooled=pooled).fit_transform(arrays)
    assert [X.shape for X in reduced] == [(20, 4), (20, 4)]
    np.testing.assert_allclose(reduced[0], cv.ViewPCA(4, pooled=pooled).fit_transform(arrays)[0])


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_samples_of_one_view_alone_are_not_learnt_from(transformer, pooled):
    transformer = clone(transformer).set_params(pooled=pooled)
    holes = [X.copy() for X in ARRAYS]
    holes[0][3] = holes[1][5:9] = np.nan
    complete = np.delete(np.arange(20), [3, 5, 6, 7, 8])
    expected = clone(transformer).fit([X[complete] for X in ARRAYS]).transform(ARRAYS)
    transformer.fit(holes)
    for X, Y, Z in zip(holes, transformer.transform(holes), expected, strict=True):
        np.testing.assert_allclose(Y, np.where(np.isnan(X[:, :1]), np.nan, Z))


def test_views_that_share_no_sample_are_learnt_from_as_they_are():
    holes = [X.copy() for X in ARRAYS]
    holes[0][:12] = holes[1][12:] = np.nan
    scaler = cv.ViewScaler(pooled=False).fit(holes)
    np.testing.assert_allclose(scaler.transform_view(ARRAYS[0][12:], 0).mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("transformer", "arrays", "message"),
    [
        *((cv.ViewPCA(k), ARRAYS, "n_components must be a whole number, 1 or more") for k in (0, -1, 1.5, "all", True)),
        (cv.ViewScaler("sample"), ARRAYS, "by must be one of 'feature', 'view', got 'sample'"),
        (cv.ViewPCA(2, pooled="yes"), ARRAYS, "pooled must be True or False, got 'yes'"),
        (cv.ViewScaler(), [ARRAYS[0], np.full((20, 5), np.nan)], "view 'view1' has no samples"),
        *(
            (transformer, [ARRAYS[0], ARRAYS[1][:, :4]], r"5, 4 features cannot be pooled: use View\w+\(pooled=False\)")
            for transformer in (cv.ViewScaler(pooled=True), cv.ViewPCA(2, pooled=True))
        ),
    ],
    ids=str,
)
def test_mistakes(transformer, arrays, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(arrays)
