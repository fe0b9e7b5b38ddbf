from __future__ import annotations

import warnings

import numpy as np
import pytest
from methods import make
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crossview as cv

ARRAYS, Y = make(m=90, sizes=(12, 12, 12), n_classes=18)
VIEWS = cv.Views(ARRAYS)
FOLDS = cv.ClassKFold(3, random_state=0)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (cv.MvDA(), {"reg": [0.01, 1.0], "n_components": [1, 3, 20]}),
        (cv.MCCA(), {"reg": [0.1], "n_components": [2, 6, 20]}),
        (cv.GMA(), {"mu": [0.1, 1.0], "n_components": [2, 6, 20]}),
        (cv.MULDA(), {"mu": [0.1, 1.0], "n_components": [2, 6]}),
        (cv.LDA(), {"pooled": [True, False], "n_components": [2, 6]}),
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
    search = cv.tune("GMA", VIEWS, Y, pca=[6], n_iter=5, n_folds=3)
    results = search.cv_results_
    assert len(results["params"]) == 5 * len(cv.SEARCH_SPACES["GMA"]["n_components"]) * 2
    assert results["rank_test_score"][search.best_index_] == 1
    literal = [1 + (results["mean_test_score"] > score).sum() for score in results["mean_test_score"]]
    np.testing.assert_array_equal(results["rank_test_score"], literal)
    assert results["mean_test_score"][search.best_index_] == np.nanmax(results["mean_test_score"])
    by_hand = search.pipeline(search.best_params_).fit(VIEWS, Y)
    expected = cv.metrics.mean_accuracy(by_hand.transform(VIEWS), Y, search.best_params_["metric"])
    assert search.score(VIEWS, Y) == expected


def test_folds_in_parallel_give_the_same():
    one, two = (cv.tune("MvDA", VIEWS, Y, pca=[6], n_folds=3, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


def test_views_of_unequal_widths_are_reduced_each_by_itself():
    arrays, y = make(m=90, sizes=(12, 7), n_classes=18)
    search = cv.tune("MvDA", arrays, y, pca=[5, 9], n_folds=3, n_iter=3)
    assert set(search.cv_results_["param_pca"]) == {5, 7}  # all features of the smaller view, in the place of nine
    k = search.best_params_["pca"]
    assert [len(W) for W in search.best_estimator_[-1].projections_] == [k, k]


def test_mistakes():
    with pytest.raises(ValueError, match="unknown method 'MVDA': use one of PCA, LDA"):
        cv.tune("MVDA", VIEWS, Y)
    with pytest.raises(ValueError, match=r"no combination .* can be fitted in every fold: CCA takes 2 views, got 3"):
        cv.tune("CCA", VIEWS, Y, n_folds=3)
    with pytest.raises(ValueError, match="requires y to be passed"):
        cv.tune("MvDA", VIEWS, None)
    with pytest.raises(ValueError, match="pooled must be True or False, got 'yes'"):
        cv.tune("MvDA", VIEWS, Y, pooled="yes")
    with pytest.raises(ValueError, match="a fold has one class to test with"):
        cv.tune("MvDA", VIEWS, Y, cv=[(np.flatnonzero(Y), np.flatnonzero(Y == 0))])
    with pytest.warns(FitFailedWarning, match=r"6 of 12 fits failed; the last: reg must be a finite number"):
        cv.tune("MvDA", VIEWS, Y, {"reg": [-1.0, 0.1]}, pca=[4, 6], n_folds=3)
    with pytest.raises(ValueError, match="MvDA has no parameter 'beta' to search for"):
        cv.tune("MvDA", VIEWS, Y, {"beta": [1.0]})
    with pytest.raises(ValueError, match="cv must be one of 'auto', 'classes', 'samples', got 'folds'"):
        cv.tune("MvDA", VIEWS, Y, cv="folds")
    with pytest.raises(ValueError, match="metrics must be one of 'euclidean', 'cosine', got 'manhattan'"):
        cv.tune("MvDA", VIEWS, Y, metrics=["manhattan"])
    with pytest.raises(ValueError, match="beta must be a finite number of 0 or more, got -1"):
        cv.HybridSearchCV(grid={"beta": [-1]}).fit(VIEWS, Y)


WEIGHTS = {
    "lambda_paired": [0.0, 1.0],
    "lambda_intra": [0.01, 0.1],
    "lambda_inter": [0.05, 1.0],
    "beta": [0.03, 0.3],
    "n_within": [0, 2],
    "n_between": [3, 7],
    "n_components": [1, 2, 3, 5, 40],
}


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("incomplete", [False, True])
def test_hybrid_search_scores_are_those_of_one_fit_after_another(kernel, incomplete):
    """Reused neighbours, scatter parts and eigenvectors change nothing, but for the time."""
    mask = np.ones((90, 3), dtype=bool)
    if incomplete:
        mask[::5, 1] = mask[3::7, 2] = False
    views = cv.Views(ARRAYS, mask=mask)
    grid = WEIGHTS if kernel is None else {"gamma_scale": [0.3, 1.0], "beta": [0.03, 0.3], "n_components": [2, 5]}
    options = {"pca": [6, 10], "cv": FOLDS}
    fast = cv.HybridSearchCV(kernel, grid, **options).fit(views, Y)
    model = cv.MvHE() if kernel is None else cv.KMvHE()
    slow = cv.EmbeddingSearchCV(model, grid, **options).fit(views, Y)
    assert fast.cv_results_["params"] == slow.cv_results_["params"]
    for name in ("mean_test_score", "split1_test_score", "rank_test_score"):
        np.testing.assert_allclose(fast.cv_results_[name], slow.cv_results_[name], atol=1e-12)
    assert fast.best_params_ == slow.best_params_
    assert np.isnan(fast.cv_results_["mean_test_score"]).any() == (kernel is None)
    assert fast.score(views, Y) == slow.score(views, Y)


def test_hybrid_search_with_no_argument():
    data = cv.datasets.load_digits()
    search = cv.HybridSearchCV(n_iter=30).fit(data.views[:300], data.y[:300])
    plain = make_pipeline(cv.ViewPCA(20), cv.MvHE()).fit(data.views[:300], data.y[:300])
    assert search.score(data.views[300:], data.y[300:]) > plain.score(data.views[300:], data.y[300:]) + 0.1


def test_folds_are_of_classes_where_there_are_many():
    few, many = np.repeat(np.arange(5), 18), np.repeat(np.arange(45), 2)
    search = cv.HybridSearchCV()
    for y, are_classes in ((few, False), (many, True)):
        leaks = [bool(set(y[train]) & set(y[test])) for train, test in search._splitter(y).split(y, y)]
        assert leaks == [not are_classes] * 5


def test_progress_bar(capsys):
    cv.tune("MvDA", VIEWS, Y, {"reg": [0.1]}, pca=[6], n_folds=3, progress=True)
    assert "Searching for MvDA" in capsys.readouterr().err


@pytest.mark.parametrize("folds", [3, list(FOLDS.split(Y, Y)), FOLDS])
def test_folds_as_scikit_learn_takes_them(folds):
    assert cv.tune("MvDA", VIEWS, Y, {"reg": [0.1]}, pca=[6], cv=folds).best_score_ > 0.5


def test_groups_reach_the_splitter():
    search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, pca=[6], cv=GroupKFold(3))
    assert search.fit(VIEWS, Y, groups=Y).best_score_ > 0.5


def test_dimensions_of_the_pca_are_those_that_all_folds_allow():
    arrays, _ = make(m=90, sizes=(100, 100), n_classes=18)
    y = np.repeat(np.arange(6), [70, 4, 4, 4, 4, 4])
    search = cv.tune("MvDA", arrays, y, {"reg": [0.1]}, pca=[10, 30, 90], cv=cv.ClassKFold(3, random_state=0))
    assert sorted({params["pca"] for params in search.cv_results_["params"]}) == [10, 30]


def test_unlike_views_can_be_scaled_each_by_itself():
    unlike = [ARRAYS[0], 1000 * ARRAYS[1] + 5000]
    together, apart = (cv.tune("LDA", unlike, Y, pca=[6], n_folds=3, pooled=pooled) for pooled in ("auto", False))
    assert together.pooled_
    assert not apart.pooled_
    assert apart.best_score_ > together.best_score_ + 0.05


def test_one_view_alone():
    search = cv.tune("MvDA", VIEWS, Y, {"reg": [0.1]}, pca=[6], n_folds=3)
    np.testing.assert_allclose(search.transform_view(ARRAYS[1], 1), search.transform(VIEWS).arrays[1])
    np.testing.assert_allclose(cv.transform_view(search.best_estimator_, ARRAYS[1], 1), search.transform(ARRAYS)[1])
    with pytest.raises(TypeError, match="StandardScaler cannot map one view alone"):
        cv.transform_view(make_pipeline(StandardScaler(), cv.MvDA()), ARRAYS[0], 0)


@pytest.mark.parametrize(
    ("classes", "samples", "kind", "n_folds"),
    [(20, 2, "classes", 5), (19, 5, "samples", 5), (8, 4, "classes", 4), (5, 4, "samples", 4), (3, 2, "samples", 2)],
)
def test_folds_are_made_of_what_there_is(classes, samples, kind, n_folds):
    y = np.repeat(np.arange(classes), samples)
    splitter = cv.EmbeddingSearchCV(cv.PCA(), {})._splitter(y)
    assert type(splitter).__name__ == {"classes": "ClassKFold", "samples": "StratifiedKFold"}[kind]
    folds = list(splitter.split(y, y))
    assert len(folds) == n_folds
    for train, test in folds:
        assert len(np.unique(y[test])) >= 2
        assert set(y[train]).isdisjoint(y[test]) == (kind == "classes")


def test_too_few_samples_for_folds_are_refused():
    with pytest.raises(ValueError, match="too few samples to make folds of"):
        cv.EmbeddingSearchCV(cv.PCA(), {})._splitter(np.arange(3))
    with pytest.raises(ValueError, match="5 folds of samples want a class of so many, the largest has 4: use fewer"):
        cv.EmbeddingSearchCV(cv.PCA(), {}, cv="samples")._splitter(np.repeat(np.arange(30), 4))


@pytest.mark.parametrize("method", ["MvDA", "MvHE"])
def test_folds_can_be_scored_by_precision(method):
    data = cv.datasets.make_turntable(16, size=10)
    grid = {"n_components": [2, 4], **({"reg": [0.1]} if method == "MvDA" else {"beta": [0.1]})}
    options = {"pca": [6], "metrics": ["cosine"], "scoring": "average_precision", "n_folds": 3, "cv": "classes"}
    search = cv.tune(method, data.views, data.y, grid, **options)
    for fold, (train, test) in enumerate(cv.ClassKFold(3, 0).split(data.views, data.y)):
        for row, params in enumerate(search.cv_results_["params"]):
            model = search.pipeline(params).fit(data.views[train], data.y[train])
            wanted = cv.metrics.precision_by_dimension(model.transform(data.views[test]), data.y[test], [4], "cosine")
            assert search.cv_results_[f"split{fold}_test_score"][row] == pytest.approx(wanted[0], abs=1e-12)


def test_an_unknown_scoring_is_refused():
    with pytest.raises(ValueError, match="scoring must be one of"):
        cv.EmbeddingSearchCV(cv.PCA(), {}, scoring="luck").fit(ARRAYS, Y)


def test_all_features_are_tried_where_more_were_asked_for():
    search = cv.tune("PCA", ARRAYS, Y, {"n_components": [2]}, pca=[5, 40], n_folds=3)
    assert sorted(set(search.cv_results_["param_pca"])) == [5, 12]


def test_numbers_of_components_are_cut_to_what_there_is():
    search = cv.tune("CCA", [X[:, :3] for X in ARRAYS[:2]], Y, n_folds=3)
    assert set(search.cv_results_["param_n_components"]) == {3}
