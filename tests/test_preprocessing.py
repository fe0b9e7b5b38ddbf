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


def test_pooled_scaling_is_that_of_all_samples():
    got = cv.ViewScaler().fit_transform(ARRAYS)
    scaler = StandardScaler().fit(POOLED)
    for X, Y in zip(ARRAYS, got, strict=True):
        np.testing.assert_allclose(Y, scaler.transform(X))


def test_scaling_per_view():
    for X, Y in zip(ARRAYS, cv.ViewScaler(pooled=False).fit_transform(ARRAYS), strict=True):
        np.testing.assert_allclose(Y, StandardScaler().fit_transform(X))


def test_pooled_components_are_those_of_all_samples():
    got = cv.ViewPCA(3).fit_transform(ARRAYS)
    pca = PCA(3, svd_solver="full").fit(POOLED)
    for X, Y in zip(ARRAYS, got, strict=True):
        np.testing.assert_allclose(Y, pca.transform(X))


@pytest.mark.parametrize("k", [1, 5, 13])
def test_components_of_few_samples_are_those_of_scikit_learn(k):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 30)) @ rng.normal(size=(30, 90)) * np.linspace(1, 20, 90) + 7
    (ours,) = set(cv.ViewPCA(k).fit([X[:20], X[20:]]).transformers_)
    theirs = PCA(k, svd_solver="full").fit(X)
    for name in vars(ours):
        if name.endswith("_"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(k), atol=1e-10)


def test_components_that_products_would_lose_are_found_all_the_same():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 6)) * [1, 1e-2, 1e-4, 1e-5, 1e-6, 1e-7] @ rng.normal(size=(6, 50))
    found = cv.ViewPCA(6).fit([X, X]).transformers_[0].components_
    np.testing.assert_allclose(found, PCA(6, svd_solver="full").fit(np.vstack([X, X])).components_, atol=1e-9)


def test_components_per_view_of_unequal_views():
    arrays = [ARRAYS[0], ARRAYS[1][:, :4]]
    for X, Y in zip(arrays, cv.ViewPCA(3, pooled=False).fit_transform(arrays), strict=True):
        np.testing.assert_allclose(Y, PCA(3, svd_solver="full").fit_transform(X))


@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_missing_rows_are_left_out_and_stay_missing(transformer):
    holes = [X.copy() for X in ARRAYS]
    holes[0][3] = np.nan
    got = transformer.fit_transform(holes)
    assert np.isnan(got[0][3]).all()
    assert np.isfinite(np.delete(got[0], 3, axis=0)).all()
    assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_samples_of_one_view_alone_are_not_learnt_from(transformer, pooled):
    transformer = clone(transformer).set_params(pooled=pooled)
    holes = [X.copy() for X in ARRAYS]
    holes[0][3] = holes[1][5:9] = np.nan
    complete = np.delete(np.arange(20), [3, 5, 6, 7, 8])
    got = clone(transformer).fit(holes).transform(ARRAYS)
    expected = clone(transformer).fit([X[complete] for X in ARRAYS]).transform(ARRAYS)
    for X, Y in zip(got, expected, strict=True):
        np.testing.assert_allclose(X, Y)


def test_views_that_share_no_sample_are_learnt_from_as_they_are():
    holes = [X.copy() for X in ARRAYS]
    holes[0][:12] = holes[1][12:] = np.nan
    scaler = cv.ViewScaler(pooled=False).fit(holes)
    np.testing.assert_allclose(scaler.transform_view(ARRAYS[0][12:], 0).mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_unequal_views_cannot_be_pooled(transformer):
    with pytest.raises(ValueError, match=r"5, 4 features cannot be pooled: use View\w+\(pooled=False\)"):
        transformer.fit([ARRAYS[0], ARRAYS[1][:, :4]])


def test_a_view_without_samples():
    with pytest.raises(ValueError, match="view 'view1' has no sample"):
        cv.ViewScaler().fit([ARRAYS[0], np.full((20, 5), np.nan)])


def test_too_many_components():
    with pytest.raises(ValueError, match="n_components=6 is more than the 5"):
        cv.ViewPCA(6).fit(ARRAYS)
    with pytest.raises(ValueError, match="whole number"):
        cv.ViewPCA(0.9).fit(ARRAYS)


def test_components_along_which_nothing_varies_are_left_out():
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(20, 6)) for _ in range(2)]
    for X in arrays:
        X[:, 4] = 3.0
        X[:, 5] = X[:, 0] - X[:, 1]
    reduced = cv.ViewPCA(6).fit_transform(arrays)
    assert [X.shape for X in reduced] == [(20, 4), (20, 4)]
    np.testing.assert_allclose(reduced[0], cv.ViewPCA(4).fit_transform(arrays)[0])
    assert [X.shape for X in cv.ViewPCA(6, pooled=False).fit_transform(arrays)] == [(20, 6), (20, 6)]
