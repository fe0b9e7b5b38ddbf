import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from methods import make
from scipy.stats import uniform
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crossview as cv
from crossview.embeddings import SEARCH_SPACES
from crossview.exceptions import NotApplicableError
from crossview.model_selection.tuning import search_space, standard_pipeline
from paper.data import load_cmu_pie

ALL_KEPT = "n_components=.* keeps all"  # which a search may try, and says nothing of
FACES = Path(os.environ.get("CROSSVIEW_DATA", "")) / "cmu-pie"
ARRAYS, Y = make(m=90, sizes=(12, 12, 12), n_classes=18)
VIEWS = cv.Views(ARRAYS)
FOLDS = list(GroupKFold(3, shuffle=True, random_state=0).split(VIEWS, Y, groups=Y))
HOLES = np.ones((90, 3), dtype=bool)
HOLES[::5, 1] = HOLES[3::7, 2] = False


def assert_scores_of_grid_search(estimator, grid, views=VIEWS, metrics=("euclidean",)):
    """The search's scores are those of scikit-learn's, one fit after another."""
    ours = cv.EmbeddingSearchCV(estimator, grid, metrics=metrics, cv=FOLDS).fit(views, Y)

    def score(model, views, y):
        return {metric: cv.metrics.mean_accuracy(model.transform(views), y, metric) for metric in metrics}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message=".*test scores are non-finite")
        warnings.filterwarnings("ignore", message=ALL_KEPT)
        theirs = GridSearchCV(estimator, grid, cv=FOLDS, scoring=score, refit=False).fit(views, Y)

    def rows(results, metric, scores):
        chosen = results.get("metric", np.full(len(scores), metric)) == metric
        return {
            repr(sorted(params.items(), key=lambda item: item[0])): score
            for params, score, keep in zip(results["params"], scores, chosen, strict=True)
            if keep
        }

    for metric in metrics:
        found = rows(ours.cv_results_, metric, ours.cv_results_["mean_test_score"])
        wanted = rows(theirs.cv_results_, metric, theirs.cv_results_[f"mean_test_{metric}"])
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert found[key] == pytest.approx(value, abs=1e-12, nan_ok=True), key
    best = max(np.nanmax(theirs.cv_results_[f"mean_test_{metric}"]) for metric in metrics)
    assert ours.best_score_ == pytest.approx(best, abs=1e-12)
    return ours


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (cv.MvDA(), {"reg": [0.01, 1.0], "n_components": [2, 3, 20]}),
        (cv.MULDA(), {"mu": [0.1, 1.0], "n_components": [2, 6]}),
        (cv.LDA(), {"coupling": [0.0, np.inf], "whitening": [None, 0.5], "n_components": [2, 6]}),
        (cv.MCCA(), {"coupling": [0.0, 4.0, np.inf], "whitening": [None, 0.5], "n_components": [2, 6]}),
        (cv.MvHE(), {"coupling": [0.0, 4.0, np.inf], "whitening": [None, 0.5], "n_components": [2, 4]}),
        (cv.PCA(), {"whitening": [None, 0.5], "n_components": [2, 4]}),
        (cv.MvDLA(), {"n_within": [3, 8], "n_components": [2, 6]}),
        (cv.KMvHE(), {"gamma_scale": [0.3, 1.0], "n_components": [2, 4]}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_scores_are_those_of_grid_search(model, grid):
    """What is fitted once for many settings scores as what is fitted for each."""
    name = type(model).__name__.lower()
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), model)
    grid = {f"{name}__{key}": values for key, values in grid.items()}
    grid |= {"viewscaler__by": ["feature", "view"], "viewpca__n_components": [4, 0.9, None]}
    assert_scores_of_grid_search(pipeline, grid, metrics=("euclidean", "cosine"))


WEIGHTS = [
    {"lambda_paired": [0.0, 1.0], "lambda_intra": [0.01, 0.1], "lambda_inter": [0.05, 1.0], "n_components": [1, 40]},
    {"beta": [0.03, 0.3], "n_within": [0, 2], "n_between": [3, 7], "n_components": [1, 3]},
]


@pytest.mark.parametrize("views", [VIEWS, cv.Views(ARRAYS, mask=HOLES)], ids=["complete", "incomplete"])
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (cv.MvHE(), WEIGHTS),
        (cv.KMvHE(), {"gamma_scale": [0.3, 1.0], "beta": [0.03, 0.3], "n_within": [1, 2], "n_components": [2, 5]}),
        (
            cv.KMvHE(random_state=0),
            {"beta": [0.03, 0.3], "n_landmarks": [20, 30], "reg": [None, "auto"], "n_components": [2, 5]},
        ),
        (cv.KMvHE(), {"coupling": [0.0, 4.0], "reg": [None, 0.05, 0.5], "n_components": [2, 5]}),
    ],
    ids=["MvHE", "KMvHE", "landmarks", "constraints"],
)
def test_cheap_refits_change_nothing(model, grid, views):
    """Reused neighbours and scatter parts give the scores of one fit after another, without a pipeline, too."""
    assert_scores_of_grid_search(model, grid, views)


@pytest.mark.parametrize(
    ("model", "grid", "expected"),
    [
        (
            make_pipeline(cv.ViewPCA(6), cv.MvDA()),
            [{"mvda__reg": [0.1, 1.0]}, {"viewpca__n_components": [4], "mvda__n_components": [2, 3]}],
            4,
        ),
        (cv.NCA(max_iter=5), {"n_components": [4, 2], "scale": [1.0, 10.0]}, 4),  # components that are not nested
        (cv.SemanticMatching(), {"C": [0.01, 1.0], "log": [False, True]}, 4),
        (
            make_pipeline(cv.ViewScaler(), "passthrough", cv.MvDA()),
            {"viewscaler__by": [None, "view"], "mvda__reg": [0.1]},
            2,
        ),
    ],
    ids=["lists", "NCA", "SemanticMatching", "passthrough"],
)
def test_other_grids_and_estimators(model, grid, expected):
    results = assert_scores_of_grid_search(model, grid).cv_results_
    assert len(results["params"]) == expected
    if isinstance(grid, list):
        assert results["param_viewpca__n_components"].tolist() == [None, None, 4, 4]


@pytest.mark.filterwarnings(f"ignore:{ALL_KEPT}:UserWarning")
@pytest.mark.parametrize("components", [["auto", 2, 10], [40, "auto"], ["auto"]])
@pytest.mark.parametrize("model", [cv.MvHE(), cv.KMvHE(7)], ids=lambda model: type(model).__name__)
def test_the_automatic_number_of_components_is_a_value_among_others(model, components):
    search = assert_scores_of_grid_search(model, {"n_components": components, "whitening": [None, 1.0]})
    tried = search.cv_results_["param_n_components"].tolist()
    assert sorted(tried, key=str) == sorted(2 * components, key=str)
    assert search.best_estimator_.n_components == search.best_params_["n_components"] == tried[search.best_index_]
    for row, fitted in enumerate(search.fit_rows(range(len(tried)), VIEWS, Y)):
        expected = clone(model).set_params(**search.cv_results_["params"][row]).fit(VIEWS, Y)
        assert fitted.n_components_ == expected.n_components_
        np.testing.assert_allclose(fitted.transform(VIEWS)["view0"], expected.transform(VIEWS)["view0"], atol=1e-8)
    narrow = cv.Views([X[:, :5] for X in ARRAYS])
    best = assert_scores_of_grid_search(clone(model).set_params(n_components="auto"), {"beta": [0.1]}, narrow)
    assert best.best_estimator_.n_components == "auto"  # not searched for, it stays automatic


def test_draws_do_not_choose_among_numbers_of_components():
    grid = {"beta": [0.03, 0.1, 0.3], "n_components": ["auto", 2, 5], "whitening": [None, 1.0]}
    search = cv.EmbeddingSearchCV(cv.MvHE(), grid, n_iter=2, metrics=["cosine"], refine=1, n_members=2, cv=FOLDS)
    results = search.fit(VIEWS, Y).cv_results_
    for beta in {*results["param_beta"][:12]}:
        assert sum(results["param_beta"][:12] == beta) == 6
    betas = results["param_beta"][search.members_]
    assert len(set(betas)) == len(betas)  # whatever the number of components, one setting is one member


@pytest.mark.parametrize("method", ["KMvHE", "KCCA"])
def test_precomputed_kernels_are_split_by_rows_and_columns(method):
    arrays = ARRAYS[:2]
    kernels = [rbf_kernel(X, gamma=0.1) for X in arrays]
    grid = {"n_components": [2, 4], **({"beta": [0.03, 0.3]} if method == "KMvHE" else {"reg": [0.1, 1.0]})}
    ready = cv.EmbeddingSearchCV(cv.METHODS[method](kernel="precomputed"), grid, cv=FOLDS).fit(kernels, Y)
    named = cv.EmbeddingSearchCV(cv.METHODS[method](gamma=0.1), grid, cv=FOLDS).fit(arrays, Y)
    np.testing.assert_allclose(ready.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"], atol=0.02)
    assert ready.best_estimator_.transform(kernels)[0].shape == (90, ready.best_params_["n_components"])


@pytest.mark.filterwarnings(f"ignore:{ALL_KEPT}:UserWarning")
def test_settings_pass_through_set_params():
    """The best, and any others that are fitted together."""
    search = cv.tune("MvHE", VIEWS, Y, n_iter=6, n_folds=3)
    rows = [search.best_index_, 0, 5, 11]
    for row, fitted in zip(rows, search.fit_rows(rows, VIEWS, Y), strict=True):
        params = search.best_params_ if row == search.best_index_ else search.cv_results_["params"][row]
        alone = standard_pipeline("MvHE").set_params(**params).fit(VIEWS, Y)
        for a, b in zip(fitted.transform(ARRAYS), alone.transform(ARRAYS), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8)
    best = standard_pipeline("MvHE").set_params(**search.best_params_).fit(VIEWS, Y)
    assert search.score(VIEWS, Y) == cv.metrics.mean_accuracy(best.transform(VIEWS), Y, search.best_metric_)
    np.testing.assert_allclose(search.transform_view(ARRAYS[1], 1), best.transform(ARRAYS)[1], atol=1e-8)


def test_results_are_ranked():
    space = SEARCH_SPACES["GMA"]
    search = cv.tune("GMA", VIEWS, Y, n_iter=5, n_folds=3, refine=1)
    results = search.cv_results_
    drawn = 5 * len(space["whitening"]) * len(space["n_components"]) * 2
    assert np.isnan(results["mean_test_score"][:drawn]).any()  # settings that halving drops
    assert len(results["params"]) > drawn  # refinement adds some
    assert results["rank_test_score"][search.best_index_] == 1
    means = np.where(np.isnan(results["mean_test_score"]), -np.inf, results["mean_test_score"])
    literal = [1 + (means > score).sum() for score in means]
    np.testing.assert_array_equal(results["rank_test_score"], literal)
    assert results["mean_test_score"][search.best_index_] == search.best_score_ == np.nanmax(results["mean_test_score"])
    assert search.best_metric_ == results["metric"][search.best_index_]


def test_a_wide_view_keeps_its_width_next_to_a_narrow_one():
    arrays, y = make(m=90, sizes=(30, 3), n_classes=18)
    grid = search_space("MvDA", [30, 3])
    assert grid["viewpca__n_components"] == [None, 20]
    search = cv.tune("MvDA", arrays, y, {"viewpca__n_components": [20], "mvda__reg": [0.1]}, n_folds=3)
    assert [len(W) for W in search.best_estimator_[-1].projections_] == [20, 3]
    search = cv.tune("MvHE", arrays, y, {"mvhe__n_components": [10]}, n_folds=3)
    assert [W.shape for W in search.best_estimator_[-1].projections_] == [(30, 10), (3, 10)]


def test_draws():
    pipeline = make_pipeline(cv.ViewPCA(6), cv.MvDA(reg=0.7))
    search = cv.EmbeddingSearchCV(pipeline, {"mvda__reg": [*np.logspace(-3, 2, 40), 0.7]}, n_iter=4, cv=FOLDS)
    params = search.fit(VIEWS, Y).cv_results_["params"]
    assert len(params) == 8
    assert params[0]["mvda__reg"] == 0.7  # the estimator's own are among those drawn
    grid = {"reg": uniform(0.1, 1.0), "n_components": [2, 4]}
    with pytest.raises(ValueError, match="param_grid contains a distribution: set n_iter"):
        cv.EmbeddingSearchCV(cv.MvDA(), grid).fit(VIEWS, Y)
    search = cv.EmbeddingSearchCV(cv.MvDA(), grid, n_iter=3, metrics=["cosine"], cv=FOLDS).fit(VIEWS, Y)
    drawn = search.cv_results_["param_reg"][2:]
    assert len(set(drawn)) == 2
    assert all(0.1 <= reg <= 1.1 for reg in drawn)


@pytest.mark.parametrize(
    ("error", "message", "method", "options"),
    [
        (NotApplicableError, r"^CCA takes 2 views, got 3", "CCA", {"n_folds": 3}),
        (ValueError, "requires y to be passed", "MvDA", {"y": None}),
        (ValueError, "a fold tests a single class", "MvDA", {"cv": [(np.flatnonzero(Y), np.flatnonzero(Y == 0))]}),
        (ValueError, "use at most half as many folds as classes, 9", cv.MvDA(), {"cv": GroupKFold(10)}),
        (ValueError, "no setting can be fitted in every fold: by must be one", "MvDA", {"viewscaler__by": ["pixel"]}),
        (ValueError, "cannot search for 'beta': use one of", "MvDA", {"beta": [1.0]}),
        (ValueError, "cannot search for 'memory'", "MvDA", {"memory": ["cache"]}),
        (ValueError, "cv must be one of 'auto', 'classes', 'samples', got 'folds'", "MvDA", {"cv": "folds"}),
        (ValueError, "metrics must be one of .*, got 'manhattan'", "MvDA", {"metrics": ["manhattan"]}),
        (ValueError, "metrics is empty", "MvDA", {"metrics": []}),
        (ValueError, "n_members must be a whole number, 1 or more, got 0", "MvDA", {"n_members": 0}),
        (ValueError, "scoring must be one of", "MvDA", {"scoring": "luck"}),
        (ValueError, "factor must be 1 or more, got 0.5", "MvDA", {"factor": 0.5}),
        ((ValueError, TypeError), "factor must be", "MvDA", {"factor": "all"}),
        (ValueError, "refine must be a whole number, 0 or more, got -1", "MvDA", {"refine": -1}),
        (ValueError, "max_samples must be a whole number, 2 or more, got 1", "MvDA", {"max_samples": 1}),
        (ValueError, "mvda__n_components must be a whole number, 1", "MvDA", {"mvda__n_components": [0, 2]}),
        *(
            (ValueError, "n_components must be a whole number, 1 or more, got", model, {"n_components": numbers})
            for model, numbers in (
                (cv.MvHE(), ["all", 3]),
                (cv.MvHE(), [0, "auto"]),
                (cv.CCA(), ["auto", 3]),
            )
        ),
        (TypeError, "estimator must be an embedding or a pipeline that ends in one, got View", cv.ViewPCA(), {}),
        (TypeError, "cannot search for a Committee: .* with n_members=8", cv.Committee([cv.MvDA()]), {}),
        (TypeError, "StandardScaler is not a multi-view", make_pipeline(StandardScaler(), cv.MvDA()), {}),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_mistakes(error, message, method, options):
    y, names = options.get("y", Y), cv.EmbeddingSearchCV(None, {}).get_params()
    grid = {name: values for name, values in options.items() if name not in {*names, "y"}}
    options = {name: value for name, value in options.items() if name in names}
    estimator = standard_pipeline(method) if isinstance(method, str) else method
    with pytest.raises(error, match=message):
        cv.EmbeddingSearchCV(estimator, grid, **options).fit(VIEWS, y, Y if "cv" in options else None)


@pytest.mark.parametrize("spelling", ["mvdavc", "MVDA-VC", "MvDA-VC"])
def test_methods_by_name(spelling):
    search = cv.tune(spelling, VIEWS, Y, {"mvdavc__reg": [0.1]}, n_folds=3, refit=False)
    assert type(search.estimator[-1]) is cv.MvDAVC
    assert search_space(spelling, [8]) == search_space("MvDA-VC", [8])
    with pytest.raises(NotFittedError):  # there is no best estimator without a refit
        search.transform(VIEWS)
    for unknown in ("MvDB", cv.MvDA):
        with pytest.raises(ValueError, match=r"unknown method .*: use one of PCA, LDA"):
            cv.tune(unknown, VIEWS, Y)


def test_failures_are_warned_of_where_fit_was_called():
    grid = {"viewpca__n_components": [-1, 5]}
    with pytest.warns(FitFailedWarning, match="1 of 4 fits failed; the last: n_components must be a whole") as caught:
        cv.EmbeddingSearchCV(standard_pipeline("MvDA"), grid, n_folds=3).fit(VIEWS, Y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_says_what_is_tried(told, n_jobs):
    options = {"n_folds": 3, "n_members": 2, "n_jobs": n_jobs}
    cv.tune("MvDA", VIEWS, Y, {"mvda__center": [True, False], "mvda__n_components": [2, 4]}, **options)
    (label, total, unit), *calls = told
    assert (label, total, unit) == ("Searching for MvDA", 3 * 2 + 3 * 2 + 2, "fits")
    assert sum(steps for steps, _, _ in calls) == total
    now = list(dict.fromkeys(now for _, now, _ in calls if now))
    committee = [f"scoring the committee, fold {fold} of 3" for fold in (1, 2, 3)]
    assert now == ["center=True", "center=False", *committee, "fitting the best to all samples"]


@pytest.mark.parametrize(
    ("given", "kind", "n_splits"),
    [
        (3, "given", 3),
        (FOLDS, "given", 3),
        (cv.ClassSplit(3, random_state=0), "given", 3),
        (GroupKFold(3), "given", 3),
        ("classes", "classes", 6),
        ("samples", "samples", 5),
    ],
)
def test_folds_as_scikit_learn_takes_them_and_ours(given, kind, n_splits):
    groups = Y if isinstance(given, GroupKFold) else None
    search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, cv=given, n_folds=6).fit(VIEWS, Y, groups)
    assert (search.folds_of_, search.n_splits_) == (kind, n_splits)
    if kind == "given":
        least = 3 * cv.metrics.chance_accuracy(VIEWS, Y) if groups is None else 0.5
        assert search.best_score_ > least


@pytest.mark.parametrize(
    ("scoring", "wanted"),
    [
        ("accuracy", cv.metrics.mean_accuracy),
        ("one_shot_accuracy", cv.metrics.one_shot_accuracy),
        ("average_precision", cv.metrics.mean_average_precision),
        ("accuracy_with_counterparts", partial(cv.metrics.mean_accuracy, counterparts=True)),
    ],
)
def test_folds_are_scored_as_asked(scoring, wanted):
    data = cv.datasets.make_turntable(16, size=10, random_state=0)
    grid = {"mvhe__n_components": [2, 4], "mvhe__beta": [0.1]}
    options = {"metrics": ["cosine"], "scoring": scoring, "n_folds": 3, "cv": "classes"}
    search = cv.tune("MvHE", data.views, data.y, grid, **options)
    splits = GroupKFold(3, shuffle=True, random_state=0).split(data.views, data.y, groups=data.y)
    for fold, (train, test) in enumerate(splits):
        for row, params in enumerate(search.cv_results_["params"]):
            model = search.pipeline(params).fit(data.views[train], data.y[train])
            score = wanted(model.transform(data.views[test]), data.y[test], "cosine")
            assert search.cv_results_[f"split{fold}_test_score"][row] == pytest.approx(score, abs=1e-12)
    score = wanted(search.transform(data.views), data.y, "cosine")
    assert search.score(data.views, data.y) == pytest.approx(score, abs=1e-12)


def test_angles_along_one_component_are_not_scored():
    """They only tell signs: almost all matches are ties, and the order of the gallery decides."""
    X = np.random.default_rng(0).normal(size=(60, 4)) + np.repeat([[0.0], [2.0]], 30, axis=0)
    y = np.repeat([0, 1], 30)
    search = cv.EmbeddingSearchCV(cv.LDA(), {"n_components": [1, 2], "reg": [0.1, 1.0]}).fit([X, X[:, ::-1]], y)
    by_metric = {m: search.cv_results_["mean_test_score"][search.cv_results_["metric"] == m] for m in search.metrics}
    assert np.isnan(by_metric["cosine"]).all()
    assert np.isfinite(by_metric["euclidean"]).all()
    assert search.best_metric_ == "euclidean"
    only = cv.EmbeddingSearchCV(cv.LDA(), {"n_components": [1, 2]}, metrics=["cosine"]).fit([X, X[:, ::-1]], y)
    assert np.isfinite(only.cv_results_["mean_test_score"]).all()


@pytest.mark.skipif(
    "CROSSVIEW_DATA" not in os.environ or not FACES.is_dir(),
    reason="needs CMU PIE: set CROSSVIEW_DATA to a folder that holds cmu-pie/C05.mat, C27.mat and C29.mat",
)
@pytest.mark.parametrize(("scoring", "least"), [("accuracy", 0.66), ("accuracy_with_counterparts", 0.9)])
def test_search_on_training_people_is_good_for_others(scoring, least):
    """CMU PIE, case 4, with everything chosen on training people."""
    data = load_cmu_pie(FACES, case=4)
    scores = []
    splits = cv.ClassSplit(2, train_size=45, random_state=0).split(data.views, data.y)
    for repeat, (train, test) in enumerate(splits):
        options = {"random_state": repeat, "cv": "classes", "scoring": scoring, "n_iter": 16}
        search = cv.tune("MvHE", data.views[train], data.y[train], **options)
        scores.append(search.score(data.views[test], data.y[test]))
    print(f"{scoring} over two splits of people: MvHE {100 * np.mean(scores):.1f} ± {100 * np.std(scores):.1f}")
    assert np.mean(scores) >= least


FEW_LANDMARKS = {"kmvhe__n_landmarks": [10], "kmvhe__random_state": [*range(8)], "kmvhe__n_components": [6, 12]}


class TestCommittee:
    """Models on few random landmarks are better together; the best of models on all samples is better alone."""

    def test_members_are_the_best_different_settings(self):
        search = cv.tune("KMvHE", VIEWS, Y, FEW_LANDMARKS, n_members=5, cv=FOLDS)
        results = search.cv_results_
        assert len(search.members_) == len(search.best_estimator_.members_) == 5
        assert (results["metric"][search.members_] == "cosine").all()
        scores = results["mean_test_score"][search.members_]
        assert (np.diff(scores) <= 0).all()
        seeds = {results["params"][row]["kmvhe__random_state"] for row in search.members_}
        assert len(seeds) == 5
        assert scores[0] == np.nanmax(results["mean_test_score"][results["metric"] == "cosine"])
        assert search.best_metric_ == "euclidean"
        members = [search.pipeline(results["params"][row]) for row in search.members_]
        together = [cv.Committee(members).fit(VIEWS[a], Y[a]).score(VIEWS[b], Y[b]) for a, b in FOLDS]
        assert search.best_score_ == pytest.approx(np.mean(together), abs=1e-12)
        assert search.best_score_ > np.nanmax(results["mean_test_score"])

    def test_members_come_from_different_draws(self, monkeypatch):
        """A refined setting is nearest to the draw that it stems from: draws differ in more than a step."""
        monkeypatch.setattr(cv.EmbeddingSearchCV, "_committee_score", lambda *_: 1.0)  # keep it
        search = cv.tune("MvHE", VIEWS, Y, n_folds=3, n_iter=4, n_members=4, refine=1, factor=1)
        names = [n for n in search.cv_results_["params"][0] if n not in ("mvhe__n_components", "mvhe__whitening")]
        settings = [tuple(one[name] for name in names) for one in search.cv_results_["params"]]
        drawn = list(dict.fromkeys(settings))[:4]
        assert len(set(settings)) > 20

        def origin(setting):
            return min(drawn, key=lambda other: sum(a != b for a, b in zip(setting, other, strict=True)))

        assert {origin(settings[row]) for row in search.members_} == set(drawn)

    def test_held_out_score(self):
        """The score of every fold is that of the setting that is best on the other folds, by loops."""
        search = cv.tune("MvDA", VIEWS, Y, cv=FOLDS, n_iter=6, refit=False)
        folds = [search.cv_results_[f"split{k}_test_score"] for k in range(3)]
        found = []
        for k in range(3):
            rows = range(len(folds[0]))
            others = [np.mean([scores[row] for j, scores in enumerate(folds) if j != k]) for row in rows]
            complete = [row for row in rows if not any(np.isnan(scores[row]) for scores in folds)]
            found.append(folds[k][max(complete, key=lambda row: others[row])])
        assert search.held_out_score_ == pytest.approx(np.mean(found))
        assert search.held_out_score_ < search.best_score_
        one = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1, 1.0]}, cv=FOLDS[:1], refit=False).fit(VIEWS, Y)
        assert one.held_out_score_ == one.best_score_

    def test_a_committee_that_is_no_better_is_dropped(self):
        together, alone = (cv.tune("MvDA", VIEWS, Y, n_folds=3, n_iter=8, n_members=n, factor=1) for n in (5, 1))
        assert alone.held_out_score_ == together.held_out_score_
        assert alone.best_score_ == together.best_score_
        assert together.members_ == [together.best_index_] == [alone.best_index_]
        assert together.best_params_ == alone.best_params_
        assert together.best_metric_ == alone.best_metric_
        for a, b in zip(together.transform(ARRAYS), alone.transform(ARRAYS), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_fewer_settings_than_members(self):
        """The best row may have another distance and number of components than the best for a committee."""
        pipeline, seeds = standard_pipeline("KMvHE"), {"kmvhe__random_state": [0, 2]}
        search = cv.EmbeddingSearchCV(pipeline, FEW_LANDMARKS | seeds, cv=FOLDS, n_members=8).fit(VIEWS, Y)
        assert len(search.members_) == 2
        grid = {"n_components": [1, 2, 3, 8]}
        search = cv.EmbeddingSearchCV(cv.PCA(), grid, cv=FOLDS, n_members=8).fit(VIEWS, Y)
        results = search.cv_results_
        cosine = np.where(results["metric"] == "cosine", results["mean_test_score"], -1.0)
        assert cosine.argmax() != search.best_index_
        assert search.members_ == [search.best_index_]
        assert search.best_estimator_.n_components_ == search.best_params_["n_components"]


class TestKernelMatrices:
    KERNELS = cv.Views([rbf_kernel(X, gamma=0.1) for X in ARRAYS[:2]])

    def test_that_are_taken_for_features_are_warned_of(self):
        match = "square and symmetric, like kernel matrices, but are taken for features: .*KMvHE\\(kernel='precomputed'"
        with pytest.warns(UserWarning, match=match):
            cv.tune("KMvHE", self.KERNELS, Y, {"kmvhe__beta": [0.1], "kmvhe__n_components": [3]}, cv=FOLDS)
        cv.EmbeddingSearchCV(cv.KMvHE(3, kernel="precomputed"), {"beta": [0.1]}, cv=FOLDS).fit(self.KERNELS, Y)
        square = cv.Views([X @ np.random.default_rng(0).normal(size=(12, 90)) for X in ARRAYS])
        cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, cv=FOLDS).fit(square, Y)

    @pytest.mark.parametrize(
        ("model", "name", "kernels"),
        [
            (cv.KMvHE(3), "kernel", ["rbf", "precomputed"]),
            (cv.KMvHE(3, kernel="precomputed"), "kernel", ["rbf"]),
            (make_pipeline(cv.ViewKernel("precomputed"), cv.MvDA(3)), "viewkernel__kernel", ["precomputed", "rbf"]),
        ],
        ids=str,
    )
    def test_a_search_has_one_kind_of_views(self, model, name, kernels):
        with pytest.raises(ValueError, match="views are either features or kernel matrices, so search for each apart"):
            cv.EmbeddingSearchCV(model, {name: kernels}, cv=FOLDS).fit(self.KERNELS, Y)


class TestLandmarks:
    def test_large_data_get_them(self):
        for method in ("KMvHE", "KCCA"):
            name = f"{method.lower()}__n_landmarks"
            usual = search_space(method, [8, 8])
            constraint = {"kmvhe__reg": [0.05, None]} if method == "KMvHE" else {}
            assert search_space(method, [8, 8], (2001, 20)) == usual | {name: [2000]} | constraint
            assert search_space(method, [8, 8], (2000, 20)) == usual
            assert search_space(method, [8, 8], (4000, 41)) == usual  # small classes
            assert search_space(method, [8, 8], (4001, 41)) == usual | {name: [4000]} | constraint
        assert search_space("MvHE", [8, 8], (4000, 2)) == search_space("MvHE", [8, 8])
        chosen = search_space("KMvHE", [8, 8], (4000, 2), own={"n_landmarks": [None]})
        assert chosen["kmvhe__n_landmarks"] == [None]
        assert "kmvhe__reg" not in chosen
        assert search_space("KMvHE", [8, 8], (4000, 2), own={"reg": [0.1]})["kmvhe__reg"] == [0.1]

    def test_a_search_shows_them_and_a_given_number_wins(self, monkeypatch):
        monkeypatch.setattr("crossview.model_selection.tuning._LANDMARKS_OF_LARGE_CLASSES", 30)
        monkeypatch.setattr("crossview.model_selection.tuning._LARGE_CLASS_SIZE", 5)
        grid = {"kmvhe__beta": [0.1], "kmvhe__n_components": [3]}
        for given, expected in ((None, 30), (grid, 30), ([grid], 30), (grid | {"kmvhe__n_landmarks": [20]}, 20)):
            search = cv.tune("kmvhe", VIEWS, Y, given, n_iter=2, n_folds=3)
            assert search.best_params_["kmvhe__n_landmarks"] == expected
            assert len(search.best_estimator_[-1].landmarks_[0]) == expected
            tried = {setting.get("kmvhe__reg", "auto") for setting in search.cv_results_["params"]}
            assert tried == ({"auto"} if expected == 20 else {0.05, None})
        search = cv.tune("KMvHE", VIEWS[:30], Y[:30], grid, n_folds=3)
        assert "kmvhe__n_landmarks" not in search.best_params_

    @pytest.mark.parametrize("reg", [None, 0.05, "auto"])
    def test_folds_and_the_final_fit_solve_one_problem(self, reg):
        """The fold has fewer than three times as many samples as landmarks, all samples together have more."""
        n_landmarks, (train, test) = len(Y) * 3 // 10, FOLDS[0]
        assert len(train) < 3 * n_landmarks <= len(Y)
        model = cv.KMvHE(3, n_landmarks=n_landmarks, random_state=0, coupling=0, reg=reg)
        search = cv.EmbeddingSearchCV(model, {"beta": [0.1]}, metrics=["euclidean"], cv=[FOLDS[0]]).fit(VIEWS, Y)
        alone = cv.KMvHE(3, n_landmarks=n_landmarks, random_state=0, coupling=0, reg=0.05 if reg == "auto" else reg)
        assert search.best_score_ == alone.fit(VIEWS[train], Y[train]).score(VIEWS[test], Y[test])
        for found, expected in zip(search.transform(ARRAYS), alone.fit(VIEWS, Y).transform(ARRAYS), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-10)
