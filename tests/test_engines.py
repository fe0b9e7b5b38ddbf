"""Every method gives the same answer on every engine, on small data."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview import _progress
from crossview.engines import lazy_if_stored, place, to_device, unit_rows
from crossview.samples import Samples

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(12), 10)
CENTRES = RNG.normal(size=(12, 8))
ARRAYS = [CENTRES[Y] @ RNG.normal(size=(8, 8)) + 0.5 * RNG.normal(size=(120, 8)) + 3.0 for _ in range(2)]
GAPPED = [X.copy() for X in ARRAYS]
GAPPED[0][:15] = np.nan
GAPPED[1][40:52] = np.nan
KERNEL = {"n_landmarks": 40, "random_state": 0}
MODELS = {
    **{name: cls(n_components=4) for name, cls in cv.METHODS.items() if name not in ("KCCA", "KMvHE")},
    "KCCA": cv.KCCA(4),
    "KMvHE": cv.KMvHE(4),
    "KCCA, landmarks": cv.KCCA(4, **KERNEL),
    "KMvHE, landmarks": cv.KMvHE(4, **KERNEL),
    "KMvHE, cosine": cv.KMvHE(4, kernel="cosine", n_landmarks=20, random_state=0),
    "KMvHE, laplacian": cv.KMvHE(4, kernel="laplacian"),
    "KMvHE, polynomial": cv.KMvHE(4, kernel="poly", n_landmarks=30, random_state=0),
    "KMvHE, a kernel that torch has not": cv.KMvHE(4, kernel="chi2", gamma=0.1, n_landmarks=30, random_state=0),
    "LPP": cv.LPP(4),
    "PCA, whitened": cv.PCA(4, whitening=0.5),
    **{
        f"{cls.__name__}, coupling {c}, whitening {reg}": cls(4, coupling=c, whitening=reg)
        for cls in (cv.MvHE, cv.MvDA, cv.MvDLA, cv.LDA)
        for c in (0.0, 4.0, np.inf)
        for reg in (None, 0.5)
    },
    "MvHE, sampled patches": cv.MvHE(4, n_patches=50, random_state=0),
    "pipeline": make_pipeline(cv.ViewScaler(), cv.ViewPCA(6), cv.MvHE(4)),
    "scaled by view": make_pipeline(cv.ViewScaler(by="view"), cv.ViewPCA(0.9, pooled=False), cv.MvDA(4)),
    "kernel step": make_pipeline(cv.ViewKernel(n_landmarks=30, random_state=0), cv.MvDA(4)),
}


def angle(model, other, arrays):
    """Sine of the largest angle between the latent samples of two models of the same views."""
    sine = 0.0
    for Z, other_Z in zip(model.transform(arrays), other.transform(arrays), strict=True):
        seen = ~np.isnan(Z).any(axis=1)
        Q, R = (np.linalg.qr(A[seen])[0] for A in (Z, other_Z))
        sine = max(sine, np.linalg.norm(Q - R @ (R.T @ Q), 2))
    return sine


def tensors(arrays, dtype):
    return [torch.tensor(X, dtype=dtype) for X in arrays]


@pytest.mark.parametrize("arrays", [ARRAYS, GAPPED], ids=["complete", "incomplete"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 1e-4)])
@pytest.mark.parametrize("name", MODELS)
def test_torch_agrees_with_numpy(name, dtype, tolerance, arrays):
    arrays = [abs(X.astype(dtype).astype(np.float64)) for X in arrays]  # as float32 has them, and positive for chi2
    model, other = (clone(MODELS[name]) for _ in range(2))
    model.fit(arrays, Y)
    other.fit(tensors(arrays, getattr(torch, dtype)), Y)
    assert angle(model, other, arrays) < tolerance
    if "whiten" in name and dtype == "float64":  # maps, and not only the spaces that they span
        np.testing.assert_allclose(other.eigenvalues_, model.eigenvalues_, rtol=1e-8)
        for W, V in zip(other.projections_, model.projections_, strict=True):
            np.testing.assert_allclose(W, V, atol=1e-8 * np.abs(V).max())
    last = other[-1] if hasattr(other, "steps") else other
    assert all(isinstance(W, np.ndarray) and W.dtype == np.float64 for W in last.projections_)
    latents = other.transform(tensors(arrays, getattr(torch, dtype)))
    assert all(isinstance(Z, torch.Tensor) for Z in latents)
    assert other.score(tensors(arrays, getattr(torch, dtype)), Y) == pytest.approx(other.score(arrays, Y), abs=1e-12)
    for Z, expected in zip(latents, other.transform(arrays), strict=True):
        np.testing.assert_allclose(Z.numpy(), expected, atol=1e-4 * np.nanmax(abs(expected)))


WRAPPED = {
    "committee": cv.Committee([cv.MvDA(2), make_pipeline(cv.ViewScaler(), cv.ViewPCA(6), cv.MvHE(4)), cv.NCA(2)]),
    "committee of arrays": cv.Committee([cv.MvHE(4), cv.SemanticMatching()]),
    "search": cv.EmbeddingSearchCV(cv.MvHE(4), {"beta": [0.1, 0.3]}, n_folds=2),
    **{name: cls() for name, cls in cv.BASELINES.items() if name != "Contrastive"},
    "Contrastive": cv.Contrastive(4, random_state=0, max_epochs=2, validation=None),
}


@pytest.mark.parametrize("arrays", [ARRAYS, GAPPED], ids=["complete", "incomplete"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", WRAPPED)
def test_tensors_give_tensors(name, dtype, arrays):
    model = clone(WRAPPED[name]).fit(arrays, Y)
    given = tensors(arrays, getattr(torch, dtype))
    found = [*model.transform(given), model.transform_view(given[0], 0)]
    assert all(isinstance(Z, torch.Tensor) and Z.device == given[0].device for Z in found)
    for Z, expected in zip(found, [*model.transform(arrays), model.transform_view(arrays[0], 0)], strict=True):
        np.testing.assert_allclose(Z.numpy(), expected, atol=1e-4 * np.nanmax(abs(expected)))
    again = clone(WRAPPED[name]).fit(given, Y)
    assert again.score(given, Y) == pytest.approx(again.score(arrays, Y), abs=1e-12)


ON_DEVICE = ("MvHE", "KMvHE, landmarks", "MvDA-VC", "LPP", "pipeline", "scaled by view", "kernel step")
ON_DEVICE += ("committee of arrays", "search")


@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_device_takes_and_gives_arrays(name):
    unfitted = (MODELS | WRAPPED)[name]
    model = clone(unfitted).fit(ARRAYS, Y)
    with cv.config_context(device="cpu"):
        other = clone(unfitted).fit(ARRAYS, Y)
        latents = other.transform(ARRAYS)
        assert angle(model, other, ARRAYS) < 1e-8
    assert all(isinstance(Z, np.ndarray) for Z in latents)
    assert angle(model, other, ARRAYS) < 1e-8


@pytest.mark.parametrize("model", [cv.MvHE(4, beta=0.0), cv.DLA(4, beta=0.0), cv.LPP(4)], ids=repr)
def test_features_that_depend_on_each_other_in_single_precision(model):
    one_hot = np.eye(5)[(Y + RNG.integers(0, 2, size=(2, 120))) % 5]
    arrays = [np.hstack([X.astype(np.float32), codes]) for X, codes in zip(ARRAYS, one_hot, strict=True)]
    expected = clone(model).fit(arrays, Y).eigenvalues_
    found = clone(model).fit(tensors(arrays, torch.float32), Y).eigenvalues_
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_features_of_different_scales_in_single_precision():
    scales, dependent = 10.0 ** np.arange(8), np.eye(8)[:, [0, 1, 2, 3, 4, 5, 6, 7, 7]]
    X = np.float32(ARRAYS[0] * scales)
    arrays = [to_device(X, "cpu"), to_device(X @ np.float32(dependent), "cpu")]
    full, rest = Samples(arrays=arrays, weights=np.ones((120, 2))).row_spaces()
    assert full is None
    assert rest.shape[1] == 8


@pytest.mark.parametrize("scale", [1e-25, 1e25])
@pytest.mark.parametrize("model", [cv.LPP(2), cv.MvHE(2), make_pipeline(cv.ViewScaler(), cv.PCA(2))], ids=repr)
def test_squares_beyond_the_range_of_single_precision(model, scale):
    arrays = [scale * X for X in ARRAYS]
    expected = clone(model).fit(arrays, Y)
    assert angle(expected, clone(model).fit(tensors(arrays, torch.float32), Y), arrays) < 1e-4
    rows = unit_rows(torch.tensor([[3.0 * scale, 4.0 * scale], [0.0, 0.0]]))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("device", ["gpu", "meta"])
def test_a_bad_device_is_refused(device):
    with pytest.raises(ValueError, match=f"device must be a device that PyTorch can use, got '{device}'"):
        cv.set_config(device=device)
    assert cv.get_config()["device"] is None


@pytest.mark.parametrize("model", [cv.MvHE(4), cv.KMvHE(4), cv.LPP(4), cv.DLA(4)], ids=repr)
def test_approximate_search_is_refused_where_there_is_none(model):
    pytest.importorskip("faiss")
    model.set_params(algorithm="approximate")
    message = r"algorithm='approximate' does not work on tensors \(set device=None\): use algorithm='auto'"
    with pytest.raises(ValueError, match=message):
        model.fit(tensors(ARRAYS, torch.float64), Y)
    with pytest.raises(ValueError, match=message), cv.config_context(device="cpu"):
        clone(model).fit(ARRAYS, Y)
    assert clone(model).set_params(algorithm="auto").fit(tensors(ARRAYS, torch.float64), Y).n_features_ == (8, 8)
    matcher, message = (
        cv.CrossViewClassifier(cv.MvDA(), algorithm="approximate"),
        "searches on the CPU: set device=None",
    )
    with pytest.raises(ValueError, match=f"{message}, or algorithm='exact'"), cv.config_context(device="cpu"):
        matcher.fit(ARRAYS, Y)


def test_a_device_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'crossview\[torch\]'"):
        cv.set_config(device="cuda")


def test_views_of_tensors():
    for X in (torch.zeros(2, 2), torch.nn.Parameter(torch.zeros(2, 2))):
        assert place(X) == "cpu"
    converted = cv.Views([torch.ones(4, 2, dtype=torch.int32), torch.ones(4, 2, dtype=torch.float16)])
    assert [X.dtype for X in converted.arrays] == [torch.float64, torch.float32]
    views = cv.Views(tensors(GAPPED, torch.float32), names=["photo", "sketch"])
    assert views.arrays[0].dtype == torch.float32
    np.testing.assert_array_equal(views.mask, cv.Views(GAPPED).mask)
    assert repr(views) == "Views(120 samples; photo: 8 features, sketch: 8 features; 27 rows missing)"
    for rows in (slice(None, None, -1), [0, 5], np.array([1, 0], dtype=np.uint8), np.broadcast_to(3, 2)):
        assert isinstance(views[rows]["photo"], torch.Tensor)
        np.testing.assert_array_equal(views[rows]["photo"], np.float32(GAPPED[0][rows]))
    hidden = cv.Views(views, mask=views.mask & (np.arange(120) != 100)[:, None])
    assert not hidden.mask[100].any()
    assert hidden.arrays[0][100].isnan().all()


@pytest.mark.parametrize(
    ("views", "error", "message"),
    [
        ([torch.ones(4, 2), np.ones((4, 2))], ValueError, "the views are in different places"),
        ([torch.ones(4, 2), torch.ones(3, 2)], ValueError, "all views need the same number of rows"),
        ([torch.ones(4), torch.ones(4)], ValueError, "must be a matrix"),
        ([torch.ones(4, 2, dtype=torch.complex64)] * 2, ValueError, "Complex data not supported"),
        ([torch.full((4, 2), torch.inf)] * 2, ValueError, "contains infinity"),
        ([torch.tensor([[1.0, torch.nan], [1.0, 2.0]])] * 2, ValueError, "contains NaN in part of row 0"),
        ([torch.ones(4, 2, device="meta")] * 2, ValueError, "is on device 'meta': move it to 'cpu' or 'cuda'"),
        ([torch.eye(4).to_sparse()] * 2, TypeError, r"sparse input is not supported: pass X.to_dense\(\)"),
    ],
)
def test_bad_tensors_are_refused(views, error, message):
    with pytest.raises(error, match=message):
        cv.Views(views)


def test_the_progress_of_a_search_is_counted():
    steps = []
    token = _progress._reporter.set(lambda done, now, more: steps.append((done, more)))
    try:
        cv.MvHE(2).fit(tensors(ARRAYS, torch.float64), Y)
    finally:
        _progress._reporter.reset(token)
    assert [sum(column) for column in zip(*steps, strict=True)] == [240, 240]


@pytest.mark.parametrize("name", ["torch", "dask", "dask.array", "zarr"])
def test_modules_that_another_thread_is_importing_are_not_used(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as they are when an import begins
    assert place(ARRAYS[0]) == ""
    assert lazy_if_stored([ARRAYS[0]])[0] is ARRAYS[0]


def test_a_device_that_the_searches_do_not_know_is_refused(monkeypatch):
    """As with a build of PyTorch for it."""
    tensor = SimpleNamespace(device=torch.device("xpu"), cpu=lambda: None)
    monkeypatch.setattr(torch, "zeros", lambda *args, **options: tensor)
    with pytest.raises(
        ValueError, match="device that PyTorch can use, got 'xpu': crossview runs on the CPU and on CUDA"
    ):
        cv.set_config(device="xpu")


def test_arrays_are_mapped_while_a_thread_imports_torch():
    code = """
import sys, threading, numpy as np, crossview as cv
X = np.random.default_rng(0).normal(size=(40, 5))
model = cv.MvDA(2).fit([X, X], np.arange(40) % 4)
failed, thread = [], threading.Thread(target=lambda: __import__("torch"))
sys.setswitchinterval(1e-5)
thread.start()
while thread.is_alive():
    try:
        model.transform_view(X, 0)
    except Exception as error:
        failed.append(error)
print(failed[:1], "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
