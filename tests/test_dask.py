"""Fits of Dask arrays: the same answers as in memory, in blocks of rows."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from methods import ALL, make
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import crossview as cv

dask.config.set(scheduler="synchronous")

SUPPORTED = [model for model in ALL if model._instead_of_lazy is None]
UNSUPPORTED = [model for model in [*ALL, cv.MvDLA(2)] if model._instead_of_lazy is not None]
PREPROCESSING = [
    cv.ViewScaler(),
    cv.ViewScaler(by="view"),
    cv.ViewScaler(pooled=False),
    cv.ViewPCA(3),
    cv.ViewPCA(0.9, pooled=False),
]


def name_of(model):
    return repr(model)


def lazy(arrays, rows=35):
    return [da.from_array(X, chunks=(rows, 2)) for X in arrays]


def hide_some(arrays, y):
    """Remove samples from views, among them all of one row, and of one class."""
    rng = np.random.default_rng(3)
    arrays = [np.where(rng.random((len(X), 1)) < 0.15, np.nan, X) for X in arrays]
    arrays[0][5] = arrays[1][5] = np.nan
    return arrays, np.where(np.arange(len(y)) == 5, 99, y)


def data(missing, sizes=(6, 6), m=90):
    arrays, y = make(m=m, sizes=sizes)
    return hide_some(arrays, y) if missing else (arrays, y)


def difference(a, b):
    return max(float(np.abs(x - z).max() / np.abs(x).max()) for x, z in zip(a, b, strict=True))


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "incomplete"])
@pytest.mark.parametrize("model", [*SUPPORTED, cv.PCA(2), cv.LDA(2), cv.DLA(2), cv.MvHE(2, n_patches=30)], ids=name_of)
def test_fit_is_that_of_arrays_in_memory(model, missing):
    arrays, y = data(missing)
    expected = clone(model).fit(arrays, y)
    found = clone(model).fit(lazy(arrays), da.from_array(y, chunks=40))
    assert difference(expected.projections_, found.projections_) < 1e-8
    assert difference(expected.means_, found.means_) < 1e-12
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "incomplete"])
@pytest.mark.parametrize("model", PREPROCESSING, ids=name_of)
def test_preprocessing_is_that_of_arrays_in_memory(model, missing):
    arrays, _ = data(missing, sizes=(6, 6))
    expected = clone(model).fit_transform(arrays)
    found = clone(model).fit_transform(lazy(arrays))
    assert all(isinstance(Z, da.Array) for Z in found)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b.compute(), a, atol=1e-9)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "incomplete"])
def test_pipeline_transform_and_score(missing):
    arrays, y = data(missing, sizes=(6, 4))
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(4), cv.MvHE(3))
    names = ["photo", "sketch"]
    expected = clone(pipeline).fit(cv.Views(arrays, names), y)
    views = cv.Views(lazy(arrays), names)
    found = clone(pipeline).fit(views, y)
    latents = found.transform(views)
    assert repr(latents) == "Views(90 samples; photo: 3 features, sketch: 3 features)"
    for a, b in zip(expected.transform(cv.Views(arrays, names)).arrays, latents.arrays, strict=True):
        np.testing.assert_allclose(b.compute(), a, atol=1e-8)
    assert found.score(views, y) == pytest.approx(expected.score(cv.Views(arrays, names), y))
    assert 0.2 < found.score(views, y) < 1.0
    one = cv.transform_view(found, lazy(arrays)[1], "sketch")
    np.testing.assert_allclose(one.compute(), latents["sketch"].compute())
