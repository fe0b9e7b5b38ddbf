"""Methods that are not in the paper: what they compute, and that every command knows them by name."""

from __future__ import annotations

import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from commands import run
from methods import make, make_for, some_mask
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.embeddings import SEARCH_SPACES
from crossview.model_selection.tuning import search_space

ARRAYS, Y = make()
EQUAL, _ = make(sizes=(5, 5, 5))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (cv.Contrastive(0), "n_components must be a whole number, 1 or more"),
        (cv.Contrastive(hidden=0), "hidden must be a whole number, 1 or more"),
        (cv.Contrastive(temperature=0.0), "temperature must be a finite number above 0"),
        (cv.Contrastive(weight_decay=-1.0), "weight_decay must be a finite number of 0 or more"),
        (cv.Contrastive(batch_size=1), "batch_size must be a whole number, 2 or more"),
        (cv.Contrastive(max_epochs=0), "max_epochs must be a whole number, 1 or more"),
        (cv.Contrastive(validation="folds"), "validation must be one of 'auto', 'classes', 'samples'"),
        (cv.SemanticMatching(C=0.0), "C must be a finite number above 0"),
        (cv.SemanticMatching(log=1), "log must be True or False"),
        (cv.SemanticMatching(cca_components=0), "cca_components must be a whole number, 1 or more"),
        (cv.SemanticMatching(cca_reg=-0.1), "cca_reg must be a finite number"),
        (cv.SemanticMatching(max_iter=0), "max_iter must be a whole number"),
        (cv.NCA(init="lda"), "init must be one of 'auto', 'pca', 'identity'"),
        (cv.NCA(scale=0.0), "scale must be a finite number above 0"),
        (cv.NCA(max_iter=0), "max_iter must be a whole number"),
    ],
    ids=repr,
)
def test_bad_parameters(model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(make_for(model)[0], Y)


# RawFeatures.


def test_views_are_centred_and_otherwise_as_they_were():
    latents = cv.RawFeatures().fit(EQUAL).transform(EQUAL)
    for X, Z in zip(EQUAL, latents, strict=True):
        np.testing.assert_allclose(Z, X - np.mean(X, axis=0), atol=1e-14)
    for X, Z in zip(EQUAL, cv.RawFeatures(center=False).fit(EQUAL).transform(EQUAL), strict=True):
        np.testing.assert_array_equal(Z, X)


def test_missing_samples_stay_missing_and_do_not_count():
    mask = some_mask(n=3)
    views = cv.Views(EQUAL, mask=mask)
    model = cv.RawFeatures().fit(views)
    for v, Z in enumerate(model.transform(views).arrays):
        np.testing.assert_array_equal(np.isnan(Z).all(axis=1), ~mask[:, v])
        # Every pair with another view counts once, as in all methods.
        paired = [EQUAL[v][k] for k in range(60) for w in range(3) if w != v and mask[k, v] and mask[k, w]]
        np.testing.assert_allclose(model.means_[v], np.mean(paired, axis=0), atol=1e-14)


@pytest.mark.parametrize("engine", ["torch", "dask.array"])
def test_other_engines(engine):
    library = pytest.importorskip(engine)
    make_rows = library.tensor if engine == "torch" else lambda X: library.from_array(X, chunks=(20, -1))
    rows = [make_rows(X) for X in EQUAL]
    latents = cv.RawFeatures().fit(rows).transform(rows)
    for Z, expected in zip(latents, cv.RawFeatures().fit(EQUAL).transform(EQUAL), strict=True):
        assert type(Z) is type(rows[0])
        np.testing.assert_allclose(np.asarray(Z), expected, atol=1e-14)


@pytest.mark.parametrize(
    "steps", [(), (cv.ViewScaler(),), (cv.ViewScaler("view"), cv.ViewPCA(3)), (cv.ViewKernel(),)], ids=str
)
def test_onnx(steps, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    model = make_pipeline(*steps, cv.RawFeatures()).fit(EQUAL, Y)
    for v, X in enumerate(EQUAL):
        single = X.astype(np.float32)
        cv.export_onnx(model, v, tmp_path / f"{v}.onnx")
        (latent,) = runtime.InferenceSession(tmp_path / f"{v}.onnx").run(None, {"X": single})
        np.testing.assert_allclose(latent, cv.transform_view(model, single.astype(np.float64), v), atol=2e-5)
    if not steps:
        assert "MatMul" not in {node.op_type for node in onnx.load(tmp_path / "0.onnx").graph.node}


def test_search():
    with pytest.raises(cv.exceptions.NotApplicableError, match="RawFeatures needs views of equal width"):
        cv.tune("RawFeatures", ARRAYS, Y)
    search = cv.tune("RawFeatures", EQUAL, Y, n_folds=2)
    assert {tuple(params.items()) for params in search.cv_results_["params"]} == {
        (("viewscaler__by", by),) for by in (None, "feature", "view")
    }
    assert [*search.best_estimator_.named_steps] == ["viewscaler", "rawfeatures"]  # a PCA would learn
    assert search_space("RawFeatures", [5, 5], own={"center": [False]}, pca=[3], scaling=["view"]) == {
        "viewscaler__by": [None, "view"],
        "rawfeatures__center": [False],
    }


# SemanticMatching.


@pytest.mark.parametrize("n_classes", [2, 6])
def test_posteriors_are_those_of_logistic_regression(n_classes):
    y = Y % n_classes
    latents = cv.SemanticMatching(C=0.5).fit(ARRAYS, y).transform(ARRAYS)
    logarithms = cv.SemanticMatching(C=0.5, log=True).fit(ARRAYS, y).transform(ARRAYS)
    for X, Z, L in zip(ARRAYS, latents, logarithms, strict=True):
        expected = LogisticRegression(C=0.5, max_iter=1000).fit(X - X.mean(axis=0), y).predict_proba(X - X.mean(axis=0))
        np.testing.assert_allclose(Z, expected, atol=1e-10)
        np.testing.assert_allclose(np.exp(L), expected, atol=1e-10)


def test_regression_after_correlation_analysis():
    model = cv.SemanticMatching(cca_components=3, cca_reg=0.2).fit(ARRAYS, Y)
    canonical = cv.MCCA(3, reg=0.2).fit(ARRAYS).transform(ARRAYS)
    for C, Z in zip(canonical, model.transform(ARRAYS), strict=True):
        variates = C * np.sqrt(len(Y))
        assert np.all(np.abs(np.square(variates).mean(axis=0) - 1.0) < 0.5)  # not exactly 1, because of the ridge
        expected = LogisticRegression(max_iter=1000).fit(variates, Y).predict_proba(variates)
        np.testing.assert_allclose(Z, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e-6])
def test_posteriors_that_are_all_alike_are_warned_of(scale):
    small = [X * scale for X in ARRAYS]
    with pytest.warns(
        UserWarning, match=r"samples of view 'view\d' alike: scale the views, for example with V"
    ) as told:
        cv.SemanticMatching().fit(small, Y)
    assert len(told) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        latents = make_pipeline(cv.ViewScaler(), cv.SemanticMatching(C=1e-4)).fit(small, Y).transform(small)[0]
    assert np.ptp(latents, axis=0).max() > 1e-3


def test_regressions_in_threads_leave_the_warning_filters_alone():
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(cv.SemanticMatching().fit, ARRAYS, Y) for _ in range(30)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
        found, warnings.filters[:] = list(warnings.filters), before
    assert found == before


def test_every_view_needs_every_class():
    views = cv.Views(ARRAYS, mask=np.column_stack([Y > 1, np.ones(60, dtype=bool)]))
    three = cv.Views([*ARRAYS, ARRAYS[0]], mask=np.column_stack([Y > 1, np.ones((60, 2), dtype=bool)]))
    assert cv.SemanticMatching().fit(views, Y).n_components_ == 4  # samples of one view alone do not count
    with pytest.raises(
        cv.exceptions.NotApplicableError, match="'view0' has none of 2 of the 6 classes: leave them out"
    ):
        cv.SemanticMatching().fit(three, Y)


# NCA.


def test_nca_is_that_of_scikit_learn():
    arrays, y = make(sizes=(5, 5))
    model = cv.NCA(2, scale=3.0).fit(arrays, y)
    pooled = np.concatenate([X - X.mean(axis=0) for X in arrays])
    scaled = pooled * np.sqrt(3.0 / np.square(pooled).sum(axis=1).mean())
    expected = NeighborhoodComponentsAnalysis(2, random_state=0).fit_transform(scaled, np.tile(y, 2))
    latent = np.concatenate(model.transform(arrays))
    np.testing.assert_allclose(pairwise_distances(latent), pairwise_distances(expected), atol=1e-8)
    np.testing.assert_allclose(np.cov(latent.T), np.diag(model.eigenvalues_), atol=1e-8)
    assert model.eigenvalues_[0] > model.eigenvalues_[1] > 0
    assert cv.NCA(50, max_iter=2).fit(arrays, y).n_components_ == 5


# By name.


def test_names():
    assert list(cv.BASELINES) == ["RawFeatures", "Contrastive", "SemanticMatching", "NCA"]
    search = cv.tune("semantic-matching", ARRAYS, Y, n_iter=2, n_folds=2)
    assert isinstance(search.best_estimator_[-1], cv.SemanticMatching)
    with pytest.raises(ValueError, match=r"unknown method 'SupCon': use one of .*, KMvHE, RawFeatures, Contrastive"):
        cv.tune("SupCon", ARRAYS, Y)


def test_compare(tmp_path, monkeypatch):
    monkeypatch.setitem(SEARCH_SPACES, "Contrastive", {"learning_rate": [0.05], "max_epochs": [20]})
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    options = ["--repeats", 1, "--n-iter", 2, "--train", 5, "--jobs", 1, "--no-static", "--json"]
    names = "MvHE,contrastive,SemanticMatching,NCA"
    result = run("compare", tmp_path / "data.npz", "-o", tmp_path / "out", "--methods", names, *options)
    found = {entry["row"]: entry for entry in json.loads(result.stdout)["entries"]}
    assert {"MvHE", "Contrastive", "SemanticMatching"} <= found.keys()
    assert found["Contrastive"]["mean"] > 100 / 6
    assert "Not applicable: NCA: NCA needs views of equal width" in result.stderr


def test_fit_and_tune_commands(tmp_path):
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    parameters = ("-p", "hidden=5", "-p", "max_epochs=2")
    run("fit", tmp_path / "data.npz", "-o", tmp_path / "a", "--method", "contrastive", *parameters)
    assert cv.load(tmp_path / "a")[-1].hidden == 5
    options = ("--method", "SemanticMatching", "--n-iter", 2, "--n-folds", 2)
    run("tune", tmp_path / "data.npz", "-o", tmp_path / "b", *options)
    assert isinstance(cv.load(tmp_path / "b").best_estimator_[-1], cv.SemanticMatching)
