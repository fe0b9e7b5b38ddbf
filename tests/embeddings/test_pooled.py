"""Single-view methods on the pooled samples of all views, each view centred, against scikit-learn."""

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


def centred(arrays):
    return [X - X.mean(axis=0) for X in arrays]


@pytest.mark.parametrize("m", [60, 4])
def test_pca_is_that_of_all_samples(m):
    arrays = [X[:m] for X in ARRAYS]
    model = cv.PCA(3).fit(arrays)
    theirs = sklearn.decomposition.PCA(3).fit(np.vstack(centred(arrays)))
    np.testing.assert_allclose(model.eigenvalues_, theirs.explained_variance_, rtol=1e-10)
    for X, Z, W in zip(centred(arrays), model.transform(arrays), model.projections_, strict=True):
        np.testing.assert_allclose(np.abs(Z), np.abs(theirs.transform(X)), atol=1e-10)
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-10)


def test_lda_is_that_of_all_samples():
    model = cv.LDA(3, reg=0.0).fit(ARRAYS, Y)
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=3).fit(np.vstack(centred(ARRAYS)), np.tile(Y, 2))
    for W in model.projections_:
        same_subspace(W, theirs.scalings_[:, :3])
        np.testing.assert_array_equal(W, model.projections_[0])


def test_lda_constraint():
    model = cv.LDA(3, reg=0.0).fit(ARRAYS, Y)
    Z, y = np.vstack(model.transform(ARRAYS)), np.tile(Y, 2)
    deviations = Z - np.array([Z[y == c].mean(axis=0) for c in range(6)])[y]
    np.testing.assert_allclose(deviations.T @ deviations, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("model", [cv.PCA(2), cv.LPP(2), cv.NCA(2), cv.LDA(2), cv.DLA(2)], ids=repr)
def test_unequal_views_cannot_be_pooled(model):
    arrays, y = make(sizes=(5, 4))
    with pytest.raises(cv.exceptions.NotApplicableError, match=r"needs views of equal width.* got 5, 4"):
        model.fit(arrays, y)


@pytest.mark.parametrize("coupling", [0.0, 1.0, np.inf])
def test_one_sample_per_class(coupling):
    assert cv.LDA(3, reg=0.1, coupling=coupling).fit(ARRAYS, np.arange(60)).eigenvalues_.shape == (3,)


def test_missing_rows_are_left_out():
    mask = np.ones((60, 2), dtype=bool)
    mask[5:20, 1] = False
    left = np.delete(np.arange(60), np.arange(5, 20))
    rows = np.vstack(centred(X[left] for X in ARRAYS))
    model = cv.PCA(3).fit(cv.Views(ARRAYS, mask=mask))
    np.testing.assert_allclose(model.eigenvalues_, sklearn.decomposition.PCA(3).fit(rows).explained_variance_)


def test_of_three_views_every_sample_that_two_have_seen_counts_alike():
    arrays, _ = make(sizes=(5, 5, 5))
    mask = np.ones((60, 3), dtype=bool)
    mask[5:20, 1] = False
    model = cv.PCA(3).fit(cv.Views(arrays, mask=mask))
    rows = np.vstack(centred(X[seen] for X, seen in zip(arrays, mask.T, strict=True)))
    np.testing.assert_allclose(model.eigenvalues_, sklearn.decomposition.PCA(3).fit(rows).explained_variance_)
