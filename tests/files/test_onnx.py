from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from methods import ALL, ALTERNATIVES, COUPLED, make, make_for
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.files import export_onnx
from crossview.kernels import Kernel

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ARRAYS, Y = make()
SAME_SIZES, _ = make(sizes=(6, 6))
KERNELS = {
    "rbf": {},
    "linear": {},
    "poly": {"kernel_params": {"degree": 2}},
    "polynomial": {},
    "cosine": {},
    "sigmoid": {"gamma": 1e-4, "kernel_params": {"coef0": 0.0}},  # hardly curved, or it is no positive definite kernel
    "laplacian": {},
}


def run(path, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (latent,) = session.run(["latent"], {"X": np.asarray(X, dtype=np.float32)})
    return latent


def assert_same_latents(model, arrays, folder, tolerance=1e-5):
    """The graphs of all views give what the model gives for the same samples, which are in single precision."""
    rounded = [X.astype(np.float32).astype(np.float64) for X in arrays]
    for v, (X, expected) in enumerate(zip(rounded, model.transform(rounded), strict=True)):
        export_onnx(model, v, folder / f"{v}.onnx")
        latent = run(folder / f"{v}.onnx", X)
        assert latent.dtype == np.float32
        np.testing.assert_allclose(latent, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("model", [*ALL, *COUPLED, *ALTERNATIVES], ids=repr)
def test_every_method(model, tmp_path):
    arrays, y = make_for(model)
    assert_same_latents(clone(model).fit(arrays, y), arrays, tmp_path)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cls", [cv.KMvHE, cv.KCCA])
@pytest.mark.parametrize("n_landmarks", [None, 15])
def test_kernels(cls, kernel, n_landmarks, tmp_path):
    model = cls(2, kernel=kernel, n_landmarks=n_landmarks, random_state=0, **KERNELS[kernel]).fit(ARRAYS, Y)
    assert_same_latents(model, ARRAYS, tmp_path)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("model", [cv.MvDA(2), cv.MvHE(2), *ALTERNATIVES[1:4]], ids=repr)
def test_linear_methods_behind_a_kernel(kernel, model, tmp_path):
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewKernel(kernel), clone(model)).fit(ARRAYS, Y)
    assert_same_latents(pipeline, ARRAYS, tmp_path)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_kernels_of_uncentred_features(kernel, tmp_path):
    model = cv.KMvHE(2, kernel=kernel, center=False, gamma=[0.3, 0.5]).fit(ARRAYS, Y)
    assert_same_latents(model, ARRAYS, tmp_path)


UNFITTED = [
    Kernel("sigmoid", 0.3, {"coef0": -0.2}),
    Kernel("sigmoid", None, {"coef0": 0.5}),
    Kernel("rbf", 2.0, origin=np.arange(4.0)),
]
UNFITTED += [Kernel("poly", 0.7, {"degree": 3, "coef0": -0.1}), Kernel("laplacian")]


@pytest.mark.parametrize("kernel", UNFITTED, ids=repr)
def test_kernels_that_no_map_could_be_fitted_to(kernel, tmp_path):
    model = cv.KCCA(2).fit(ARRAYS)
    model.kernels_[1] = kernel
    X = ARRAYS[1].astype(np.float32)
    expected = model.transform_view(X, 1)
    export_onnx(model, 1, tmp_path / "1.onnx")
    np.testing.assert_allclose(run(tmp_path / "1.onnx", X), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_a_sample_without_length(tmp_path):
    model = cv.KCCA(2, kernel="cosine").fit(ARRAYS)
    export_onnx(model, 0, tmp_path / "0.onnx")
    nought = np.zeros((1, 6))
    np.testing.assert_allclose(run(tmp_path / "0.onnx", nought), model.transform_view(nought, 0), atol=1e-6)


EMBEDDINGS = [cv.MvHE(2), cv.KMvHE(2), cv.KCCA(2, kernel="linear"), cv.MvDA(2)]


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=repr)
def test_pipelines(pooled, embedding, tmp_path):
    scaler, pca = cv.ViewScaler(pooled=pooled), cv.ViewPCA(4, pooled=pooled)
    for steps in ([scaler], [pca], [scaler, pca], [pca, scaler], [scaler, "passthrough", clone(scaler)]):
        assert_same_latents(make_pipeline(*steps, clone(embedding)).fit(SAME_SIZES, Y), SAME_SIZES, tmp_path)
    # In single precision, features far from zero have few digits left.
    rng = np.random.default_rng(0)
    arrays = [X * rng.uniform(0.01, 10.0, 6) + far for X, far in zip(SAME_SIZES, (3e4, -1e4), strict=True)]
    arrays = [X.astype(np.float32).astype(np.float64) for X in arrays]
    for steps in ([], [scaler], [scaler, pca]) if embedding.__class__ is not cv.KCCA else ():
        assert_same_latents(make_pipeline(*steps, clone(embedding)).fit(arrays, Y), arrays, tmp_path)


def test_digits_with_many_components(tmp_path):
    data = cv.datasets.load_digits()
    model = cv.KMvHE(20).fit(data.views[:400], data.y[:400])
    assert_same_latents(model, data.views.arrays, tmp_path)


@pytest.mark.parametrize("kernel", [True, False])
def test_committee(kernel, tmp_path):
    members = [cv.MvDA(2), make_pipeline(cv.ViewScaler("view"), cv.ViewPCA(4, pooled=False), cv.MvHE(3))]
    members += [make_pipeline(cv.ViewScaler(), cv.KMvHE(4))] if kernel else []
    assert_same_latents(cv.Committee(members).fit(SAME_SIZES, Y), SAME_SIZES, tmp_path)


def test_pipelines_in_pipelines_and_committees_in_searches_and_matchers(tmp_path):
    inner = make_pipeline(cv.ViewPCA(4), "passthrough", cv.MvHE(2))
    scaler = cv.ViewScaler()
    assert_same_latents(make_pipeline(scaler, inner).fit(SAME_SIZES, Y), SAME_SIZES, tmp_path)
    assert_same_latents(
        make_pipeline(scaler, cv.Committee([inner, cv.MvDA(2)])).fit(SAME_SIZES, Y), SAME_SIZES, tmp_path
    )
    search = cv.EmbeddingSearchCV(inner, {"mvhe__beta": [0.1, 0.2]}, n_folds=2, n_members=2)
    assert_same_latents(clone(search).set_params(n_members=1).fit(SAME_SIZES, Y), SAME_SIZES, tmp_path)
    matcher = cv.CrossViewClassifier(search).fit(SAME_SIZES, Y)
    export_onnx(matcher, 1, tmp_path / "1.onnx")
    X = SAME_SIZES[1].astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "1.onnx", X), cv.transform_view(matcher, X, 1), rtol=0, atol=1e-5)


def test_names_and_metadata(tmp_path):
    model = make_pipeline(cv.ViewScaler(pooled=False), cv.MvHE(2)).fit(cv.Views(ARRAYS, names=["photo", "sketch"]), Y)
    export_onnx(model, "sketch", tmp_path / "sketch.onnx")
    proto = onnx.load(tmp_path / "sketch.onnx")
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    assert metadata["crossview_version"] == cv.__version__
    assert metadata["view"] == "sketch"
    assert json.loads(metadata["view_names"]) == ["photo", "sketch"]
    assert json.loads(metadata["estimators"]) == ["ViewScaler", "MvHE"]
    (given,), (got,) = proto.graph.input, proto.graph.output
    assert (given.name, got.name) == ("X", "latent")
    assert [d.dim_value or d.dim_param for d in given.type.tensor_type.shape.dim] == ["batch", 4]
    assert [d.dim_value or d.dim_param for d in got.type.tensor_type.shape.dim] == ["batch", 2]
    assert run(tmp_path / "sketch.onnx", ARRAYS[1][:1]).shape == (1, 2)
    with pytest.raises(ValueError, match="unknown view 'film'"):
        export_onnx(model, "film", tmp_path / "film.onnx")
    with pytest.raises(ValueError, match="no view 2"):
        export_onnx(model, 2, tmp_path / "film.onnx")


def test_metadata_suffice_to_decide(tmp_path):
    path = tmp_path / "1.onnx"

    def metadata(model):
        export_onnx(model, 1, path)
        return {entry.key: entry.value for entry in onnx.load(path).metadata_props}

    views = cv.Views(SAME_SIZES, image_shape=(2, 3))
    alone = metadata(cv.MvDA(2).fit(views, Y))
    assert (alone["distance"], alone["image_height"], alone["image_width"]) == ("euclidean", "2", "3")
    assert "ITU-R 601" in alone["image_pixels"]
    assert alone.keys().isdisjoint(["threshold", "temperature", "n_neighbors"])
    assert "image_height" not in metadata(cv.MvDA(2).fit(SAME_SIZES, Y))
    matcher = cv.CrossViewClassifier(cv.MvDA(2), metric="cosine", n_neighbors=3, unknown_label="nobody")
    matcher.fit(views, Y)
    assert "threshold" not in metadata(matcher)
    facts = metadata(matcher.calibrate(views, Y, max_fpir=0.3))
    assert (facts["distance"], facts["n_neighbors"], facts["unknown_label"]) == ("cosine", "3", "nobody")
    assert float(facts["threshold"]) == matcher.threshold_
    assert float(facts["temperature"]) == matcher.temperature_
    with pytest.raises(ValueError, match="the threshold is for metric='cosine': calibrate again for 'euclidean'"):
        metadata(matcher.set_params(metric="euclidean"))
    assert metadata(matcher.enroll(views, Y)).keys().isdisjoint(["threshold", "temperature"])


def test_what_cannot_be_exported(tmp_path):
    path = tmp_path / "model.onnx"
    precomputed = cv.KMvHE(2, kernel="precomputed").fit([X @ X.T for X in ARRAYS], Y)
    twice = make_pipeline(cv.ViewKernel(), cv.ViewPCA(3), cv.MvDA(2)).fit(ARRAYS, Y)
    for model, message in (
        (precomputed, "the kernel 'precomputed' cannot be exported: fit it with"),
        (cv.KCCA(2, kernel=lambda x, z: float(x @ z)).fit(ARRAYS), "the kernel <function .* cannot be exported"),
        (cv.KCCA(2, kernel="chi2", gamma=1.0).fit([np.abs(X) for X in ARRAYS]), "the kernel 'chi2' cannot be exported"),
        (cv.ViewScaler(pooled=False).fit(ARRAYS), "no embedding to export"),
        (make_pipeline("passthrough"), "no embedding to export"),
        (make_pipeline(cv.PCA(3), cv.MvHE(2)).fit(SAME_SIZES, Y), "PCA cannot be exported as step 1"),
        (twice, "ViewKernel cannot be exported as step 1: .* right before the embedding"),
    ):
        with pytest.raises(ValueError, match=message):
            export_onnx(model, 0, path)
    alone = cv.MvHE(2)
    search, committee = cv.EmbeddingSearchCV(alone, {}), cv.Committee([alone])
    for model in (alone, make_pipeline(cv.ViewScaler(), alone), search, committee, cv.CrossViewClassifier(alone)):
        with pytest.raises(NotFittedError):
            export_onnx(model, 0, path)
    assert not list(tmp_path.iterdir())


def test_a_map_of_its_own_is_refused(tmp_path):
    class Other(cv.MvHE):
        def _map(self, X, v):
            return super()._map(X, v) ** 2

    with pytest.raises(ValueError, match="Other has its own map"):
        export_onnx(Other(2).fit(ARRAYS, Y), 0, tmp_path / "model.onnx")


def test_without_onnx():
    code = """
import sys
sys.modules["onnx"] = None
import crossview as cv
from crossview.files import export_onnx
try:
    export_onnx(cv.MvHE(), 0, "model.onnx")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'crossview[onnx]'" in done.stdout
