"""Fits of Dask arrays: the same answers as in memory, in blocks of rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client, LocalCluster
from methods import ALL, COUPLED, make
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.exceptions import NotApplicableError


@pytest.fixture(autouse=True)
def in_this_thread():
    """Without a cluster, threads would only make the tests slower."""
    with dask.config.set(scheduler="synchronous"):
        yield


SUPPORTED = [model for model in ALL if model._instead_of_lazy() is None]
MORE = [
    *COUPLED,
    cv.PCA(2, whitening=0.5),
    cv.CCA(2, coupling=4.0, whitening=0.5),
    cv.MULDA(2, coupling=4.0),
    cv.MvHE(2, n_patches=30, random_state=0),
    cv.MvDLA(center=False),
    cv.LPP(2, t=0.5, center=False),
    cv.LPP(2, n_neighbors=200),
]
KERNELS = [
    cv.KMvHE(2, n_landmarks=20, random_state=0),
    cv.KMvHE(n_landmarks=30, random_state=0, n_patches=40, kernel="cosine", center=False),
    cv.KMvHE(2, n_landmarks=25, random_state=0, kernel="poly", kernel_params={"degree": 2}),
    cv.KMvHE(2, n_landmarks=200, random_state=0, kernel="linear"),
    cv.KMvHE(2, n_landmarks=20, random_state=0, kernel="laplacian"),
    cv.KCCA(2, n_landmarks=20, random_state=0, gamma=0.2),
]
PREPROCESSING = [cv.ViewScaler(), cv.ViewScaler(by="view"), cv.ViewScaler(pooled=False)]
PREPROCESSING += [cv.ViewPCA(3), cv.ViewPCA(0.9, pooled=False)]
PIPELINES = [
    make_pipeline(cv.ViewScaler(), cv.ViewPCA(4), cv.MvHE(3)),
    make_pipeline(cv.ViewKernel(n_landmarks=20, random_state=0), cv.MvDA(3)),
]
BLOCKWISE = [cv.MvHE(2), cv.DLA(2), cv.MvHE(2, coupling=4.0, whitening=0.5), cv.LPP(2), cv.MvDA(2), cv.ViewPCA(2)]
BLOCKWISE += [KERNELS[0]]
WIDE = [cv.MvHE(2), cv.MvHE(2, coupling=4.0), cv.MvHE(2, coupling=np.inf, whitening=0.5), cv.PCA(2)]
WIDE += [cv.ViewPCA(0.9), cv.ViewPCA(None)]


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
@pytest.mark.parametrize("model", [*SUPPORTED, *MORE, *KERNELS], ids=repr)
def test_fit_is_that_of_arrays_in_memory(model, missing):
    arrays, y = data(missing)
    expected = clone(model).fit(arrays, y)
    found = clone(model).fit(lazy(arrays), da.from_array(y, chunks=40))
    assert difference(expected.projections_, found.projections_) < 1e-8
    # Offsets are means that were projected, so they are as close as projections are.
    name, rtol = ("offsets_", 1e-8) if isinstance(model, cv.KMvHE | cv.KCCA) else ("means_", 1e-12)
    for a, b in zip(getattr(expected, name), getattr(found, name), strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=1e-14)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "incomplete"])
@pytest.mark.parametrize("model", PREPROCESSING, ids=repr)
def test_preprocessing_is_that_of_arrays_in_memory(model, missing):
    arrays, _ = data(missing, sizes=(6, 6))
    expected = clone(model).fit_transform(arrays)
    found = clone(model).fit_transform(lazy(arrays))
    assert all(isinstance(Z, da.Array) for Z in found)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b.compute(), a, atol=1e-9)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "incomplete"])
@pytest.mark.parametrize("pipeline", PIPELINES, ids=repr)
def test_pipeline_transform_and_score(pipeline, missing):
    arrays, y = data(missing, sizes=(6, 4))
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


def test_float32_blocks_are_summed_in_float64():
    arrays, y = make(m=90, sizes=(6, 4))
    single = [X.astype(np.float32) for X in arrays]
    expected, found = cv.MvHE(2).fit(single, y), cv.MvHE(2).fit(lazy(single), y)
    assert difference(expected.projections_, found.projections_) < 1e-8
    assert found.transform(lazy(single))[0].dtype == np.float64


def test_ties_go_to_the_lower_row_whatever_the_blocks():
    """On a grid, most neighbours are tied."""
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    views, y = [grid, grid[::-1] ** 2], np.arange(64) % 4
    expected = cv.MvHE(2, n_within=3, n_between=5).fit(views, y)
    found = cv.MvHE(2, n_within=3, n_between=5).fit(lazy(views, rows=9), y)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)


def wide_views():
    """More features than samples."""
    return make(m=60, sizes=(100, 100))


def views_with_gaps():
    """The second block has no samples at all, the third none of the first view."""
    arrays, y = make(m=120, sizes=(5, 5))
    arrays[0][30:90] = arrays[1][30:60] = np.nan
    arrays[1][100:110] = np.nan
    return arrays, y


@pytest.mark.parametrize(
    ("model", "problem"),
    [*((model, wide_views) for model in WIDE), *((model, views_with_gaps) for model in BLOCKWISE)],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_blocks_smaller_than_their_views(model, problem):
    arrays, y = problem()
    found = clone(model).fit(lazy(arrays, rows=30), y).transform(arrays)
    for a, b in zip(clone(model).fit(arrays, y).transform(arrays), found, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)


def test_labels_are_coded_on_the_workers():
    arrays, y = make(m=90)
    names = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[y]
    expected = cv.MvDA(2).fit(arrays, names)
    objects = names.astype(object)
    for labels in (names, objects, da.from_array(names, chunks=7), da.from_array(objects, chunks=35)):
        assert difference(expected.projections_, cv.MvDA(2).fit(lazy(arrays), labels).projections_) < 1e-8


def test_mask_and_rows_of_views():
    arrays, y = make(m=90)
    mask = np.random.default_rng(0).random((90, 2)) < 0.9
    expected = cv.MvDA(2).fit(cv.Views(arrays, mask=mask), y)
    for given in (mask, da.from_array(mask, chunks=(20, 1))):
        views = cv.Views(lazy(arrays), mask=given)
        assert difference(expected.projections_, cv.MvDA(2).fit(views, y).projections_) < 1e-8
    np.testing.assert_array_equal(views.mask.compute(), mask)
    np.testing.assert_array_equal(views[10:50].mask.compute(), mask[10:50])


@pytest.mark.parametrize(
    "model",
    [
        cv.MvHE(2, n_patches=20, random_state=0),
        cv.MvHE(2, n_patches=20, random_state=0, coupling=np.inf, whitening=0.5),
        cv.MvDA(2, coupling=4.0),
        cv.ViewPCA(2),
        cv.KMvHE(2, gamma=1.0, n_landmarks=8, random_state=0, n_patches=20),
    ],
    ids=repr,
)
def test_nothing_with_one_row_per_sample_reaches_the_client(model):
    arrays, y = make(m=2000, sizes=(4, 4))
    sizes = []

    def recording(graph, keys, **options):
        results = dask.get(graph, keys, **options)
        sizes.append(n_entries(results))
        return results

    with dask.config.set(scheduler=recording):
        fitted = clone(model).fit(lazy(arrays, rows=250), da.from_array(y, chunks=250))
        assert isinstance(fitted.transform(lazy(arrays))[0], da.Array)
    assert len(sizes) >= 3
    assert max(sizes) < 1000


def n_entries(value):
    if isinstance(value, np.ndarray):
        return value.size
    parts = value if isinstance(value, list | tuple) else vars(value).values() if hasattr(value, "__dict__") else ()
    return sum(map(n_entries, parts))


def spoilt(value, part):
    X = make(m=90)[0][0].copy()
    X[77, part] = value
    return X


@pytest.mark.parametrize(
    ("views", "y", "error", "match"),
    [
        (lambda a: [a[0], a[1].rechunk((20, -1))], None, ValueError, "different chunks: rechunk.*Z.rechunk"),
        (lambda a: [a[0][a[0][:, 0] > 0], a[1]], None, ValueError, r"unknown size: call X.compute_chunk_sizes\(\)"),
        (lambda a: [a[0], np.asarray(a[1])], None, ValueError, "different places.*Dask"),
        (lambda a: [a[0], a[1][:80]], None, ValueError, "same number of rows"),
        (lambda a: [a[0], a[1].astype(str)], None, ValueError, "not numbers"),
        (lambda a: [a[0], a[1][:, 0]], None, ValueError, "must be a matrix"),
        (lambda a: [*lazy([spoilt(np.nan, 1)]), a[1]], None, ValueError, "NaN in part of row 77"),
        (lambda a: [*lazy([spoilt(np.inf, 1)]), a[1]], None, ValueError, r"infinity \(row 77, column 1\)"),
        (lambda a: [a[0], da.ones((90, 3), chunks=(35, -1))], None, ValueError, "constant in every column"),
        (lambda a: a, np.zeros(90), ValueError, "one class only"),
        (lambda a: a, da.arange(80), ValueError, "y has 80 labels, but the views have 90 samples"),
        (lambda a: a, da.arange(90)[da.arange(90) > 0], ValueError, r"call y.compute_chunk_sizes\(\)"),
        (lambda a: a, da.full(90, np.nan), ValueError, "y contains NaN"),
        (lambda a: a, da.arange(90) + 0.5, ValueError, "continuous"),
    ],
)
def test_bad_input(views, y, error, match):
    arrays, classes = make(m=90)
    with pytest.raises(error, match=match):
        cv.MvDA(2).fit(views(lazy(arrays)), classes if y is None else y)


@pytest.mark.parametrize(
    ("model", "instead"),
    [
        *((cls(), "set n_landmarks") for cls in (cv.ViewKernel, cv.KMvHE, cv.KCCA)),
        (cv.KMvHE(kernel="precomputed", n_landmarks=9, random_state=0), "pass kernel matrices as arrays in memory"),
        *((cls(), "pass arrays in memory") for cls in (cv.NCA, cv.SemanticMatching, cv.Contrastive)),
    ],
)
def test_methods_that_need_arrays_in_memory_say_what_to_do(model, instead):
    arrays, y = make(m=90, sizes=(5, 5))
    with pytest.raises(NotApplicableError, match=f"does not take Dask arrays: {instead}"):
        model.fit(lazy(arrays), y)


@pytest.mark.parametrize("counterparts", [False, True])
@pytest.mark.parametrize("missing", [[], [0], [1, 2]])
def test_accuracy_in_blocks_is_that_in_memory(counterparts, missing):
    rng = np.random.default_rng(0)
    y = np.append(rng.integers(0, 10, size=80), np.arange(10, 20))  # some classes have one sample
    arrays = [rng.normal(size=(20, 3))[y] + rng.normal(size=(90, 3)) for _ in range(3)]
    arrays.append(arrays[0][:, ::-1].copy())
    arrays[0][20:30] = arrays[0][:10]  # ties
    arrays, y = hide_some(arrays, y)
    for v in missing:
        arrays[v][:] = np.nan
    found = cv.metrics.cross_view_accuracy(lazy(arrays, 20), y, counterparts=counterparts)
    np.testing.assert_array_equal(found, cv.metrics.cross_view_accuracy(arrays, y, counterparts=counterparts))
    assert np.isnan(found[missing]).all()
    other = cv.metrics.cross_view_accuracy(arrays, y, counterparts=not counterparts)
    assert not np.array_equal(found, other, equal_nan=True)


def test_what_cannot_be_combined_is_refused():
    arrays, y = make(m=90)
    if find_spec("faiss") is not None:
        message = "algorithm='approximate' does not work on Dask arrays: use algorithm='auto'"
        with pytest.raises(ValueError, match=message):
            cv.MvHE(2, algorithm="approximate").fit(lazy(arrays), y)
    message = "MvDA does not take Dask arrays with device='cpu': set device=None"
    with pytest.raises(ValueError, match=message), cv.config_context(device="cpu"):
        cv.MvDA(2).fit(lazy(arrays), y)
    latents = cv.MvDA(2).fit(arrays, y).transform(lazy(arrays))
    for score, options in ((cv.metrics.mean_accuracy, {"metric": "cosine"}), (cv.metrics.one_shot_accuracy, {})):
        with pytest.raises(ValueError, match="only accuracy by Euclidean distance takes Dask arrays"):
            score(latents, y, **options)
    for model in (cv.EmbeddingSearchCV(cv.MvDA(), {}), cv.CrossViewClassifier(cv.MvDA())):
        with pytest.raises(NotApplicableError, match="does not take Dask arrays: pass arrays in memory"):
            model.fit(lazy(arrays), y)


def test_zarr_arrays_are_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("crossview.engines.dask._BLOCK_BYTES", 30 * 8 * 10)
    arrays, y = make(m=90, sizes=(6, 4))
    stored = [zarr.create_array(tmp_path / str(v), data=X, chunks=(40, 3)) for v, X in enumerate(arrays)]
    expected = cv.MvHE(2).fit(arrays, y)
    for views in (stored, [stored[0], arrays[1]]):
        found = cv.MvHE(2).fit(views, y)
        assert difference(expected.projections_, found.projections_) < 1e-8
    latents = found.transform(stored)
    assert latents[0].chunks[0] == (30, 30, 30)
    np.testing.assert_allclose(latents[1].compute(), expected.transform(arrays)[1], atol=1e-8)
    assert isinstance(cv.transform_view(found, stored[1], 1), da.Array)


def test_zarr_arrays_next_to_views_in_other_places():
    arrays, _ = make(m=90)
    stored = zarr.array(arrays[0])
    import torch  # not above: workers import this file, and their memory is limited

    for other in (pd.DataFrame(arrays[1]), torch.tensor(arrays[1])):
        with pytest.raises(ValueError, match=r"different places.*Dask"):
            cv.Views([stored, other])
    with pytest.raises(ValueError, match="same number of rows"):
        cv.Views([stored, *lazy([arrays[1][:80]])])


OUT_OF_CORE = """
import sys
from pathlib import Path

import dask
import numpy as np
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview import engines
from crossview.engines import dask as _

def memory(name):
    return int(Path("/proc/self/status").read_text().split(name)[1].split()[0]) * 1024

engines._MAPS_IN_MEMORY = engines.dask._BLOCK_BYTES = 1 << 22
views = [np.load(f"{sys.argv[1]}/{v}.npy", mmap_mode="r") for v in (0, 1)]
before = memory("VmRSS:")
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
with dask.config.set(scheduler="synchronous"):
    y = np.arange(len(views[0])) % 40
    model = cv.MvDA(4).fit(views, y)
    make_pipeline(cv.ViewPCA(5), cv.MvHE(4, n_patches=50, random_state=0)).fit(views, y)
np.savez(f"{sys.argv[1]}/model.npz", *model.projections_)
print((memory("VmHWM:") - before) / sum(X.nbytes for X in views))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux tells it")
def test_memory_maps_are_never_in_memory_as_a_whole(tmp_path):
    arrays, y = make(m=150_000, sizes=(40, 40), n_classes=40)
    for v, X in enumerate(arrays):
        np.save(tmp_path / f"{v}.npy", X)
    expected = cv.MvDA(4).fit(arrays, y)
    call = [sys.executable, "-c", OUT_OF_CORE, str(tmp_path)]
    share = float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    with np.load(tmp_path / "model.npz") as found:
        assert difference(expected.projections_, found.values()) < 1e-8
    assert 0.0 < share < 0.5


def test_small_maps_and_parts_of_maps_are_arrays(tmp_path, monkeypatch):
    arrays, _ = make(m=90)
    for v, X in enumerate(arrays):
        np.save(tmp_path / f"{v}.npy", X)
    maps = [np.load(tmp_path / f"{v}.npy", mmap_mode="r") for v in (0, 1)]
    assert isinstance(cv.Views(maps).arrays[0], np.ndarray)
    monkeypatch.setattr("crossview.engines._MAPS_IN_MEMORY", 1000)
    assert isinstance(cv.Views(maps).arrays[0], da.Array)
    assert isinstance(cv.Views([X[:50] for X in maps]).arrays[0], np.ndarray)
    np.testing.assert_array_equal(cv.Views(maps).arrays[1].compute(), arrays[1])
    np.testing.assert_array_equal(cv.Views([X[50:] for X in maps]).arrays[0], arrays[0][50:])


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_other_schedulers(scheduler):
    arrays, y = make(m=90, sizes=(6, 4))
    expected = cv.MvHE(2, n_patches=30, random_state=0).fit(arrays, y)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:  # Dask would start processes for every pass
        pool = executor if scheduler == "processes" else None
        with dask.config.set(scheduler=scheduler, pool=pool):
            found = cv.MvHE(2, n_patches=30, random_state=0).fit(lazy(arrays), y)
            assert found.score(lazy(arrays), y) == pytest.approx(expected.score(arrays, y))
    assert difference(expected.projections_, found.projections_) < 1e-8


@pytest.fixture(scope="module")
def client():
    """Two worker processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "380MiB", "dashboard_address": "localhost:0"}
    with LocalCluster(silence_logs=50, **options) as cluster, Client(cluster) as client:
        yield client


def test_a_fit_larger_than_the_memory_of_its_workers(client):
    """Every block is the same, but drawn anew: the answer is that of one block, whose scatters are 40 times smaller."""
    views = [repeated(block_of_view, 40, v) for v in (0, 1)]
    assert sum(X.nbytes for X in views) > 380 * 2**20
    expected = cv.MvDA(4).fit([block_of_view(v) for v in (0, 1)], block_of_classes())
    with dask.config.set(scheduler="distributed"):
        found = cv.MvDA(4).fit(views, repeated(block_of_classes, 40))
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    assert difference(expected.projections_, [np.sqrt(40) * W for W in found.projections_]) < 1e-8


def test_a_fit_survives_a_killed_worker(client):
    arrays, y = make(m=120, sizes=(6, 4))
    views = [X.map_blocks(slowly) for X in lazy(arrays, rows=20)]
    model = cv.MvHE(2, n_patches=30, random_state=0)
    expected = clone(model).fit(arrays, y)
    before = set(client.run(os.getpid).values())
    with dask.config.set(scheduler="distributed"), ThreadPoolExecutor(1) as executor:
        fit = executor.submit(clone(model).fit, views, y)
        while not any(client.processing().values()):
            time.sleep(0.01)
        os.kill(min(before), signal.SIGKILL)
        found = fit.result(120)
    client.wait_for_workers(2, timeout=120)
    assert len(before & set(client.run(os.getpid).values())) == 1
    assert difference(expected.projections_, found.projections_) < 1e-8


def repeated(function, n, *args):
    block = function(*args)
    chunks = ((len(block),) * n, *((D,) for D in block.shape[1:]))
    return da.map_blocks(function, *args, chunks=chunks, dtype=block.dtype, meta=block[:0])


def block_of_view(v):
    rng = np.random.default_rng(v)
    means = np.random.default_rng(9).normal(size=(40, 64))
    return means[block_of_classes()] + rng.normal(size=(10_000, 64))


def block_of_classes():
    return np.arange(10_000) % 40


def slowly(X):
    time.sleep(0.02)
    return X
