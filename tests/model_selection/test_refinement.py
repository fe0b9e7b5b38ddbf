"""Successive halving, refinement and fits to a part of the samples in `EmbeddingSearchCV`."""

import warnings
from collections import Counter

import numpy as np
import pytest
from methods import make, make_noisy
from scipy.stats import loguniform, uniform
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.model_selection.space import adjacent_values, part_of_fold

ARRAYS, Y = make(m=90, sizes=(12, 12, 12), n_classes=18)
VIEWS = cv.Views(ARRAYS)
FOLDS = list(GroupKFold(3, shuffle=True, random_state=0).split(VIEWS, Y, groups=Y))
REGS = [*np.logspace(-4, 2, 40)]


@pytest.fixture
def fits(monkeypatch):
    """What the embeddings of searches in this process are fitted to: fold sizes and labels, by number of fits."""
    found = []
    refitter = cv.MvDA._refitter

    def spy(self, views, y, settings):
        refit = refitter(self, views, y, settings)

        def counted(setting):
            found.append(np.array(y))
            return refit(setting)

        return counted

    monkeypatch.setattr(cv.MvDA, "_refitter", spy)
    return found


@pytest.mark.parametrize(
    ("values", "value", "expected"),
    [
        ([1, 3, 9], 3, [1, 9]),
        ([9, 1, 3], 3, [1, 9]),  # lists need not be sorted
        ([2, 6, 18], 2, [6, 1]),  # 2 / 3, rounded
        ([1, 3, 9], 1, [3]),  # there is no whole number below
        ([1, 2, 3], 3, [2, 4]),  # 9 / 2, rounded
        ([0, 2, 4], 4, [2]),  # zero has no ratio
        ([0.1, 0.3, 1.0], 0.3, [0.1, 1.0]),
        ([0.1, 0.3, 1.0], 0.1, [0.3, 0.033]),
        ([0.1, 0.3, 1.0], 3.3, [1.0, 11.0]),  # from beyond the list
        ([0.1, 1.0], 100.0, [1.0, 1000.0]),  # steps do not grow
        ([3], 6, [3]),
        ([0.1, 0.3], 0.2, [0.1, 0.3]),  # from between
        ([-1.0, 0.1], 0.1, [-1.0]),
        ([1, 10.0], 10.0, [1, 100.0]),
        ([None, 20, 40], 40, [20, 80, None]),
        ([None, 20, 40], 80, [40, 160, None]),
        ([None, 20, 40], None, [40]),
        ([None], None, []),
        ([0.0, 4.0, np.inf], 4.0, [0.0, np.inf]),
        ([1.0, 4.0, np.inf], 1.0, [4.0]),
        ([True, False], True, [False]),
        ([None, "auto"], "auto", [None]),
    ],
)
def test_values_next_to_one(values, value, expected):
    found = adjacent_values(values, value)
    assert found == expected
    assert [type(one) for one in found] == [type(one) for one in expected]
    as_array = np.array(values) if all(type(v) in (int, float) for v in values) else values
    assert adjacent_values(as_array, value) == expected


class TestHalving:
    def test_the_best_of_all_is_kept_and_others_are_dropped(self, fits):
        grid = {"reg": REGS, "n_components": [2, 4]}
        every = cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=FOLDS, refit=False).fit(VIEWS, Y)
        assert len(fits) == 3 * 40
        fits.clear()
        halved = cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=FOLDS, factor=2, refit=False).fit(VIEWS, Y)
        assert Counter(map(len, fits)) == Counter({len(train): 0 for train, _ in FOLDS} | {60: 40 + 20 + 10})
        assert halved.best_params_ == every.best_params_
        assert halved.best_score_ == every.best_score_
        assert halved.best_index_ == every.best_index_
        alive = np.arange(40)
        for fold in range(3):
            column = f"split{fold}_test_score"
            scored = np.flatnonzero(~np.isnan(halved.cv_results_[column][::4]))  # four rows of every setting
            np.testing.assert_array_equal(scored, alive)
            rows = (4 * alive[:, None] + np.arange(4)).ravel()
            np.testing.assert_array_equal(halved.cv_results_[column][rows], every.cv_results_[column][rows])
            so_far = np.mean([every.cv_results_[f"split{k}_test_score"] for k in range(fold + 1)], axis=0)
            best = so_far.reshape(40, 4).max(axis=1)
            alive = np.sort(sorted(alive, key=lambda c: -best[c])[: max(8, len(alive) // 2)])
        assert np.isnan(halved.cv_results_["mean_test_score"]).sum() == 4 * 30

    def test_at_least_eight_settings_or_two_committees_stay(self, fits):
        for members, least in ((1, 8), (4, 8), (6, 12)):
            fits.clear()
            options = {"factor": 10, "n_members": members, "refit": False, "cv": FOLDS}
            search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": REGS}, **options).fit(VIEWS, Y)
            assert len(fits) == 40 + 2 * least + 3 * members * (members > 1)
            assert (~np.isnan(search.cv_results_["mean_test_score"])).sum() == 2 * least


class TestRefinement:
    def test_a_better_value_beyond_the_list_is_found(self):
        views, y = make_noisy()
        grid = {"reg": [0.001, 0.01], "n_components": [4]}
        listed, refined = (
            cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=3, refine=refine).fit(views, y) for refine in (0, 10)
        )
        assert listed.extended_ == {}
        assert refined.best_score_ > listed.best_score_ + 0.1
        assert refined.best_params_ == {"reg": 1.0, "n_components": 4}
        assert refined.extended_ == {"reg": 1.0}
        assert refined.best_estimator_.reg == 1.0
        # One step at a time from the three best, until their neighbours are known.
        assert sorted(set(refined.cv_results_["param_reg"])) == [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]
        for rounds, larger in ((1, [0.1]), (2, [0.1, 1.0])):
            search = cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=3, refine=rounds, refit=False).fit(views, y)
            assert [reg for reg in sorted(set(search.cv_results_["param_reg"])) if reg > 0.01] == larger
        every = {"reg": [0.001, 0.01, 0.1, 1.0, 10.0], "n_components": [4]}
        every = cv.EmbeddingSearchCV(cv.MvDA(), every, cv=3).fit(views, y)
        assert every.best_params_ == refined.best_params_
        assert every.best_score_ == refined.best_score_

    def test_a_round_tries_all_steps_from_the_best(self, fits):
        grid = {"reg": [0.01, 0.1, 1.0], "coupling": [0.0, 4.0], "center": [True, False], "n_components": [2, 4]}
        options = {"n_iter": 1, "cv": FOLDS, "metrics": ["cosine"], "refit": False}
        search = cv.EmbeddingSearchCV(cv.MvDA(), grid, refine=1, **options).fit(VIEWS, Y)
        tried = search.cv_results_["params"][::2]
        start = {"reg": 0.1, "coupling": 0.0, "center": True}
        expected = [start, *({**start, **one} for one in ({"reg": 0.01}, {"reg": 1.0}, {"coupling": 4.0}))]
        expected.append({**start, "center": False})
        assert sorted(map(repr, ({k: one[k] for k in start} for one in tried))) == sorted(map(repr, expected))
        scores = [search.cv_results_[f"split{fold}_test_score"].reshape(-1, 2) for fold in range(3)]
        for row in range(1, 5):  # those that fall behind the start after a fold are dropped; the lead shrinks
            for fold in range(1, 3):
                least = np.mean(scores[:fold], axis=0)[0].max() - 0.03 * (1 - fold / 3)
                ahead = np.mean(scores[:fold], axis=0)[row].max() > least
                assert np.isnan(scores[fold][row]).all() == (not ahead)

    def test_the_search_ends_without_an_improvement(self, fits):
        """The best of a list that has its optimum inside stays, after one round."""
        search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": REGS}, cv=FOLDS, refine=50, refit=False).fit(VIEWS, Y)
        assert len(fits) <= 3 * 40 + 6
        assert search.extended_ == {}

    def test_impossible_values_beyond_a_list_are_not_warned_of(self):
        """Shares of variance of 1 and more are not allowed; only the list is the caller's."""
        pipeline = make_pipeline(cv.ViewPCA(), cv.MvDA())
        grid = {"viewpca__n_components": [0.5, 0.99]}
        search = cv.EmbeddingSearchCV(pipeline, grid, cv=FOLDS, refine=3).fit(VIEWS, Y)
        assert search.best_params_["viewpca__n_components"] == 0.99
        values = search.cv_results_["param_viewpca__n_components"]
        assert max(values) > 1
        assert np.isnan(search.cv_results_["mean_test_score"][values > 1]).all()
        grid["viewpca__n_components"].append(-1.0)
        with pytest.warns(FitFailedWarning, match="1 of 7 fits failed"):
            cv.EmbeddingSearchCV(pipeline, grid, cv=FOLDS, refine=3).fit(VIEWS, Y)

    @pytest.mark.parametrize("n_iter", [None, 4])
    def test_lists_of_grids(self, n_iter):
        pipeline = make_pipeline(cv.ViewPCA(6), cv.MvDA())
        grids = [
            {"mvda__reg": [1e-3, 1e-2], "mvda__whitening": [None, 1.0]},
            {"viewpca__n_components": [4, 5], "mvda__n_components": [2, 3], "mvda__whitening": [0.5]},
        ]
        search = cv.EmbeddingSearchCV(pipeline, grids, n_iter=n_iter, cv=FOLDS, factor=2, refine=3).fit(VIEWS, Y)
        assert search.best_score_ == np.nanmax(search.cv_results_["mean_test_score"])
        for name in set(search.best_params_) - {"mvda__n_components"}:  # values of either grid are stepped from
            tried = {one.get(name) for one in search.cv_results_["params"]}
            assert len(tried & {value for grid in grids for value in grid.get(name, [])}) > 1, name

    def test_distributions(self):
        grids = {"reg": loguniform(1e-3, 1e1), "coupling": [0.0, 4.0], "n_components": [2, 4]}
        for grid in (grids, grids | {"whitening": uniform(0.1, 1.0)}, [grids, {"reg": [0.1]}]):
            search = cv.EmbeddingSearchCV(cv.MvDA(), grid, n_iter=5, cv=FOLDS, factor=2, refine=4).fit(VIEWS, Y)
            assert "reg" not in search.extended_ or isinstance(grid, list)
            assert search.best_score_ == np.nanmax(search.cv_results_["mean_test_score"])
        # What is drawn from a distribution is kept.
        grid = {"reg": [0.01, 0.1, 1.0], "whitening": uniform(0.1, 1.0)}
        options = {"n_iter": 1, "cv": FOLDS, "refine": 3, "metrics": ["cosine"]}
        tried = cv.EmbeddingSearchCV(cv.MvDA(whitening=0.3), grid, **options).fit(VIEWS, Y).cv_results_["params"]
        assert len(tried) > 2
        assert {one["whitening"] for one in tried} == {0.3}


class TestPartOfTheSamples:
    def test_whole_classes_if_folds_split_classes(self, fits):
        options = {"cv": "classes", "n_folds": 3}
        cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1, 1.0]}, max_samples=33, **options).fit(VIEWS, Y)
        sizes = Counter(Y)
        *in_folds, final = fits
        assert len(in_folds) == 6
        for labels in in_folds:
            assert 33 - 5 < len(labels) <= 33
            assert all(sizes[label] == count for label, count in Counter(labels).items())
        np.testing.assert_array_equal(final, Y)
        # Classes are cut if two whole ones have too many samples.
        fits.clear()
        cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, max_samples=20, **options).fit(VIEWS, np.arange(90) % 6)
        *in_folds, final = fits
        assert len(final) == 90
        for labels in in_folds:
            assert sorted(Counter(labels).values()) == [5, 5, 5, 5]

    @pytest.mark.parametrize("folds", ["samples", "given"])
    def test_as_many_of_every_class_if_folds_split_samples(self, fits, folds):
        y = np.repeat([0, 1, 2, 3], [9, 21, 27, 33])
        splits = "samples" if folds == "samples" else [(np.arange(0, 90, 2), np.arange(1, 90, 2))] * 2
        search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, cv=splits, n_folds=3, max_samples=30).fit(VIEWS, y)
        assert search.folds_of_ == folds
        *in_folds, final = fits
        for labels in in_folds:
            counts = Counter(labels)
            assert len(labels) == 30
            smallest = counts.pop(0)
            assert smallest == (6 if folds == "samples" else 5)  # all that there are
            assert max(counts.values()) - min(counts.values()) <= 1
        np.testing.assert_array_equal(final, y)

    def test_as_many_probes_in_the_whole_gallery(self):
        search = cv.EmbeddingSearchCV(cv.MvDA(2), {"reg": [0.1]}, cv=[(np.arange(0, 90, 2), np.arange(1, 90, 2))] * 2)
        search.set_params(max_samples=20, metrics=["cosine"]).fit(VIEWS, Y)
        train, test = np.arange(0, 90, 2), np.arange(1, 90, 2)
        fold = part_of_fold(train, test, Y, 20, False, 0)
        assert fold.probes.sum() == len(fold.train) == 20
        latents = cv.MvDA(2, reg=0.1).fit(VIEWS[fold.train], Y[fold.train]).transform(VIEWS[test])
        hits = []
        for gallery, probes in ((0, 1), (1, 0)):
            G, P = (Z / np.linalg.norm(Z, axis=1)[:, None] for Z in (latents.arrays[gallery], latents.arrays[probes]))
            likeness = P @ G.T
            np.fill_diagonal(likeness, -np.inf)  # the counterparts; every class has other samples
            hits += [Y[test][likeness[k].argmax()] == Y[test][k] for k in np.flatnonzero(fold.probes)]
        np.testing.assert_allclose(search.best_score_, np.mean(hits))

    def test_enough_room_changes_nothing(self):
        every, most = (
            cv.EmbeddingSearchCV(cv.MvDA(), {"reg": REGS}, cv=FOLDS, max_samples=n).fit(VIEWS, Y) for n in (None, 60)
        )
        np.testing.assert_array_equal(every.cv_results_["mean_test_score"], most.cv_results_["mean_test_score"])

    def test_tune_fits_kernel_methods_to_a_part_unless_all_settings_are_tried(self, monkeypatch):
        monkeypatch.setattr("crossview.model_selection.tuning._MAX_NODES", 90)
        grid = {"kmvhe__beta": [0.1]}
        searches = [cv.tune("KMvHE", VIEWS, Y, grid, n_folds=3, n_iter=n) for n in (40, None)]
        assert [search.max_samples for search in searches] == [30, None]
        assert [search.factor for search in searches] == [3, 1]
        assert [search.refine for search in searches] == [2, 0]
        assert cv.tune("MvDA", VIEWS, Y, {"mvda__reg": [0.1]}, n_folds=3).max_samples is None


@pytest.mark.parametrize("method", ["MvDA", "KMvHE"])
def test_results_do_not_depend_on_the_number_of_jobs(method):
    options = {"n_iter": 12, "n_folds": 3, "n_members": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (cv.tune(method, VIEWS, Y, n_jobs=n, **options) for n in (1, 2))
    for name, column in one.cv_results_.items():
        np.testing.assert_array_equal(column, two.cv_results_[name])
    assert (one.best_params_, one.best_score_, one.members_) == (two.best_params_, two.best_score_, two.members_)
