from __future__ import annotations

import warnings

import numpy as np
import pytest
from methods import make
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import crossview as cv

ARRAYS, Y = make(m=90, sizes=(12, 12, 12), n_classes=18)
VIEWS = cv.Views(ARRAYS)
FOLDS = cv.ClassKFold(3, random_state=0)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (cv.MvDA(), {"reg": [0.01, 1.0], "n_components": [1, 3, 20]}),
        (cv.MCCA(), {"reg": [0.1], "n_components": [2, 6, 20]}),
        (cv.MvHE(), {"beta": [0.03, 0.3], "n_components": [2, 4]}),
        (cv.KMvHE(), {"gamma_scale": [0.3, 1.0], "n_components": [2, 4]}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_scores_are_those_of_grid_search(model, grid):
    """What is fitted once for many numbers of components scores as what is fitted for each."""
    ours = cv.EmbeddingSearchCV(model, grid, pca=[4, 8], metrics=["euclidean"], cv=FOLDS).fit(VIEWS, Y)
    name = type(model).__name__.lower()
    steps = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), model)
    theirs = {"viewpca__n_components": [4, 8], **{f"{name}__{key}": values for key, values in grid.items()}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message=".*test scores are non-finite")
        search = GridSearchCV(steps, theirs, cv=FOLDS).fit(VIEWS, Y)
    scores = {
        tuple(sorted((key.split("__")[1] if "viewpca" not in key else "pca", v) for key, v in params.items())): score
        for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }
    assert len(scores) == len(ours.cv_results_["params"])
    for params, score in zip(ours.cv_results_["params"], ours.cv_results_["mean_test_score"], strict=True):
        wanted = scores[tuple(sorted((key, value) for key, value in params.items() if key != "metric"))]
        assert score == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    assert ours.best_score_ == pytest.approx(np.nanmax(search.cv_results_["mean_test_score"]), abs=1e-12)


def test_best_is_refitted_with_its_distance():
    search = cv.tune("GMA", VIEWS, Y, pca=[6], n_iter=5, cv=3)
    results = search.cv_results_
    assert len(results["params"]) == 5 * len(cv.SEARCH_SPACES["GMA"]["n_components"]) * 2
    assert results["rank_test_score"][search.best_index_] == 1
    assert results["mean_test_score"][search.best_index_] == np.nanmax(results["mean_test_score"])
    by_hand = search.pipeline(search.best_params_).fit(VIEWS, Y)
    expected = cv.metrics.mean_accuracy(by_hand.transform(VIEWS), Y, search.best_params_["metric"])
    assert search.score(VIEWS, Y) == expected


def test_folds_in_parallel_give_the_same():
    one, two = (cv.tune("MvDA", VIEWS, Y, pca=[6], cv=3, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


def test_views_of_unequal_widths_are_reduced_each_by_itself():
    arrays, y = make(m=90, sizes=(12, 7), n_classes=18)
    search = cv.tune("MvDA", arrays, y, pca=[5, 9], cv=3, n_iter=3)
    assert search.best_params_["pca"] == 5
    assert [len(W) for W in search.best_estimator_[-1].projections_] == [5, 5]


def test_mistakes():
    with pytest.raises(ValueError, match="unknown method 'MVDA': use one of PCA, LDA"):
        cv.tune("MVDA", VIEWS, Y)
    with pytest.raises(ValueError, match="no combination of parameters can be fitted"):
        cv.tune("CCA", VIEWS, Y, cv=3)
