"""Doing nothing, and what it shares with all methods."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from methods import make
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.model_selection.tuning import search_space

ARRAYS, Y = make(sizes=(5, 5, 5))
MASK = np.random.default_rng(0).random((60, 3)) < 0.8
MASK[:12] = True


def test_views_are_centred_and_otherwise_as_they_were():
    latents = cv.RawFeatures().fit(ARRAYS).transform(ARRAYS)
    for X, Z in zip(ARRAYS, latents, strict=True):
        np.testing.assert_allclose(Z, X - np.mean(X, axis=0), atol=1e-14)
    for X, Z in zip(ARRAYS, cv.RawFeatures(center=False).fit(ARRAYS).transform(ARRAYS), strict=True):
        np.testing.assert_array_equal(Z, X)


def test_contract(tmp_path):
    views = cv.Views(ARRAYS, names=["photo", "sketch", "print"])
    model = clone(cv.RawFeatures()).fit(views, Y)
    latents = model.transform(views)
    assert model.n_components_ == 5
    assert model.get_feature_names_out().tolist() == [f"rawfeatures{k}" for k in range(5)]
    assert 0.0 <= model.score(views, Y) <= 1.0
    cv.save(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), cv.load(tmp_path / "model")):
        for v, Z in enumerate(latents.arrays):
            np.testing.assert_array_equal(again.transform_view(ARRAYS[v], v), Z)


def test_missing_samples_stay_missing_and_do_not_count():
    views = cv.Views(ARRAYS, mask=MASK)
    model = cv.RawFeatures().fit(views)
    for v, Z in enumerate(model.transform(views).arrays):
        np.testing.assert_array_equal(np.isnan(Z).all(axis=1), ~MASK[:, v])
        # Every pair with another view counts once, as in all methods.
        paired = [ARRAYS[v][k] for k in range(60) for w in range(3) if w != v and MASK[k, v] and MASK[k, w]]
        np.testing.assert_allclose(model.means_[v], np.mean(paired, axis=0), atol=1e-14)


def test_frames():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(X) for X in ARRAYS]
    shown = cv.RawFeatures().set_output(transform="pandas").fit(frames).transform(frames)
    assert list(shown[0].columns) == [f"rawfeatures{k}" for k in range(5)]


def test_tensors():
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(X) for X in ARRAYS]
    latents = cv.RawFeatures().fit(tensors).transform(tensors)
    for Z, expected in zip(latents, cv.RawFeatures().fit(ARRAYS).transform(ARRAYS), strict=True):
        assert isinstance(Z, torch.Tensor)
        np.testing.assert_allclose(Z.numpy(), expected, atol=1e-14)


def test_dask():
    da = pytest.importorskip("dask.array")
    lazy = [da.from_array(X, chunks=(20, -1)) for X in ARRAYS]
    latents = cv.RawFeatures().fit(lazy).transform(lazy)
    for Z, expected in zip(latents, cv.RawFeatures().fit(ARRAYS).transform(ARRAYS), strict=True):
        np.testing.assert_allclose(Z.compute(), expected, atol=1e-14)


def test_views_need_equal_widths():
    arrays, y = make(sizes=(6, 4))
    match = "RawFeatures needs views of equal width, got 6, 4 features: use crossview.MvHE"
    with pytest.raises(cv.exceptions.NotApplicableError, match=match):
        cv.RawFeatures().fit(arrays)
    with pytest.raises(cv.exceptions.NotApplicableError, match=match):
        cv.tune("RawFeatures", arrays, y)


def test_search():
    search = cv.tune("RawFeatures", ARRAYS, Y, n_folds=2)
    assert {tuple(params.items()) for params in search.cv_results_["params"]} == {
        (("viewscaler__by", by),) for by in (None, "feature", "view")
    }
    assert [*search.best_estimator_.named_steps] == ["viewscaler", "rawfeatures"]  # a PCA would learn
    assert search_space("RawFeatures", [5, 5], own={"center": [False]}, pca=[3], scaling=["view"]) == {
        "viewscaler__by": [None, "view"],
        "rawfeatures__center": [False],
    }


@pytest.mark.parametrize(
    "model",
    [
        cv.RawFeatures(),
        make_pipeline(cv.ViewScaler(), cv.RawFeatures()),
        make_pipeline(cv.ViewScaler("view"), cv.ViewPCA(3), cv.RawFeatures()),
        make_pipeline(cv.ViewKernel(), cv.RawFeatures()),
    ],
    ids=repr,
)
def test_onnx(model, tmp_path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = clone(model).fit(ARRAYS, Y)
    for v, X in enumerate(ARRAYS):
        single = X.astype(np.float32)
        cv.export_onnx(model, v, tmp_path / f"{v}.onnx")
        (latent,) = runtime.InferenceSession(tmp_path / f"{v}.onnx").run(None, {"X": single})
        np.testing.assert_allclose(latent, cv.transform_view(model, single.astype(np.float64), v), atol=2e-5)
    if not isinstance(model, cv.RawFeatures):
        return
    assert "MatMul" not in {node.op_type for node in onnx.load(tmp_path / "0.onnx").graph.node}
