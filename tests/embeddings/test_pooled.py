"""Single-view methods, pooled over views and per view, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.decomposition
from methods import make
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import crossview as cv

ARRAYS, Y = make(sizes=(5, 5))


def same_subspace(W, V):
    Q, _ = np.linalg.qr(W)
    R, _ = np.linalg.qr(V)
    np.testing.assert_allclose(Q @ Q.T, R @ R.T, atol=1e-8)


def test_pooled_pca_is_that_of_all_samples():
    model = cv.PCA(3).fit(ARRAYS)
    theirs = sklearn.decomposition.PCA(3).fit(np.vstack(ARRAYS))
    np.testing.assert_allclose(model.eigenvalues_, theirs.explained_variance_, rtol=1e-10)
    for X, Z, W in zip(ARRAYS, model.transform(ARRAYS), model.projections_, strict=True):
        np.testing.assert_allclose(np.abs(Z), np.abs(theirs.transform(X)), atol=1e-10)
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-10)


@pytest.mark.parametrize("m", [60, 4])
def test_pca_per_view(m):
    arrays = [X[:m] for X in ARRAYS]
    model = cv.PCA(3, pooled=False).fit(arrays)
    for v, (X, Z) in enumerate(zip(arrays, model.transform(arrays), strict=True)):
        theirs = sklearn.decomposition.PCA(3).fit(X)
        np.testing.assert_allclose(model.eigenvalues_[v], theirs.explained_variance_, rtol=1e-10)
        np.testing.assert_allclose(np.abs(Z), np.abs(theirs.transform(X)), atol=1e-10)


def test_pooled_lda_is_that_of_all_samples():
    model = cv.LDA(3, reg=0.0).fit(ARRAYS, Y)
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=3).fit(np.vstack(ARRAYS), np.tile(Y, 2))
    for W in model.projections_:
        same_subspace(W, theirs.scalings_[:, :3])
        np.testing.assert_array_equal(W, model.projections_[0])


def test_lda_per_view():
    model = cv.LDA(3, pooled=False, reg=0.0).fit(ARRAYS, Y)
    for X, W in zip(ARRAYS, model.projections_, strict=True):
        theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=3).fit(X, Y)
        same_subspace(W, theirs.scalings_[:, :3])


def test_lda_constraint():
    model = cv.LDA(3, reg=0.0).fit(ARRAYS, Y)
    Z, y = np.vstack(model.transform(ARRAYS)), np.tile(Y, 2)
    deviations = Z - np.array([Z[y == c].mean(axis=0) for c in range(6)])[y]
    np.testing.assert_allclose(deviations.T @ deviations, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("cls", [cv.PCA, cv.LDA])
def test_unequal_views_cannot_be_pooled(cls):
    arrays, y = make(sizes=(5, 4))
    with pytest.raises(ValueError, match=r"5, 4 features: use \w+\(pooled=False\)"):
        cls(2).fit(arrays, y)
    with pytest.raises(ValueError, match="pooled must be True or False"):
        cls(2, pooled="yes").fit(ARRAYS, Y)


def test_one_sample_per_class():
    labels = np.arange(60)
    assert cv.LDA(3, reg=0.1).fit(ARRAYS, labels).eigenvalues_.shape == (3,)
    with pytest.raises(ValueError, match="no within-class scatter for LDA"):
        cv.LDA(3, pooled=False, reg=0.1).fit(ARRAYS, labels)


def test_missing_rows_are_left_out():
    mask = np.ones((60, 2), dtype=bool)
    mask[5:20, 1] = False
    left = np.delete(np.arange(60), np.arange(5, 20))
    rows = np.vstack([X[left] for X in ARRAYS])
    model = cv.PCA(3).fit(cv.Views(ARRAYS, mask=mask))
    np.testing.assert_allclose(model.eigenvalues_, sklearn.decomposition.PCA(3).fit(rows).explained_variance_)


@pytest.mark.parametrize("pooled", [True, False])
def test_of_three_views_every_sample_that_two_have_seen_counts_alike(pooled):
    arrays, _ = make(sizes=(5, 5, 5))
    mask = np.ones((60, 3), dtype=bool)
    mask[5:20, 1] = False
    model = cv.PCA(3, pooled=pooled).fit(cv.Views(arrays, mask=mask))
    rows = [X[seen] for X, seen in zip(arrays, mask.T, strict=True)]
    expected = [
        sklearn.decomposition.PCA(3).fit(X).explained_variance_ for X in ([np.vstack(rows)] if pooled else rows)
    ]
    np.testing.assert_allclose(np.atleast_2d(model.eigenvalues_), expected)
