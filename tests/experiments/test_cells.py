from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from itertools import permutations

import fakes
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import crossview as cv
from crossview.embeddings import SEARCH_SPACES
from crossview.experiments import Cell, Search, Split, fingerprint, key, run, run_cell
from crossview.experiments.cells import training_size
from crossview.experiments.runner import _task
from crossview.experiments.tasks import _mean_cmc, sample_scores
from crossview.model_selection.tuning import search_space, standard_pipeline

CELL = Cell(
    data="images",
    options={"case": 1, "size": 48},
    method="GMA",
    split=Split("classes", 70, 10, 0),
    repeat=3,
    parameters={"mu": 1.0, "reg": 0.1},
    search=Search(pca=(20, 40), n_iter=48, n_folds=5, metrics=("euclidean", "cosine")),
    seed=3,
)
WIDE = [64, 64]
CHANGES = [
    {"data": "others"},
    {"options": {"case": 2, "size": 48}},
    {"options": {"case": 1}},
    {"options": {"case": "1", "size": 48}},
    {"method": "MULDA"},
    {"repeat": 4},
    {"parameters": {"mu": 1.0, "reg": 0.2}},
    {"parameters": {}},
    {"seed": 4},
    {"split": Split("samples", 70, 10, 0)},
    {"split": Split("classes", 60, 10, 0)},
    {"split": Split("classes", 70, 11, 0)},
    {"split": Split("classes", 70, 10, 1)},
    *(
        {"search": dataclasses.replace(CELL.search, **change)}
        for change in (
            {"pca": (20,)},
            {"pca": None},
            {"pca": (20, 40, None)},
            {"scaling": ("feature",)},
            {"n_members": 8},
            {"n_iter": None},
            {"n_iter": 47},
            {"n_folds": 4},
            {"metrics": ("euclidean",)},
            {"metrics": ("cosine", "euclidean")},
            {"grid": {"reg": (0.1,)}},
            {"scoring": "average_precision"},
            {"scoring": "one_shot_accuracy"},
            {"scoring": "accuracy_with_counterparts"},
        )
    ),
]


def small(method="MvDA", **changes):
    grid = {"n_components": [2, 4]} | ({"lambda_inter": [0.05, 1.0]} if "MvHE" in method else {})
    search = Search(pca=[8, 16], n_folds=2, grid=grid)
    return Cell(**({"data": "turntable", "method": method, "split": Split(n_train=8), "search": search} | changes))


@pytest.fixture(scope="module")
def turntable():
    return fakes.load_turntable("turntable", {})


def test_every_field_changes_the_key():
    cells = [CELL, *(dataclasses.replace(CELL, **change) for change in CHANGES)]
    keys = [key(cell, "f", WIDE) for cell in cells]
    keys += [key(CELL, "g", WIDE), key(CELL, "f", [30, 10])]
    assert len(set(keys)) == len(CHANGES) + 3
    assert len(set(cells)) == len(CHANGES) + 1


def test_the_order_of_options_numpy_types_and_the_process_do_not_change_the_key():
    same = dataclasses.replace(
        CELL,
        options=[("size", np.int64(48)), ("case", 1)],
        parameters=(("reg", np.float64(0.1)), ("mu", 1.0)),
        split=Split("classes", 70.0, np.int64(10), 0),
        search=dataclasses.replace(CELL.search, pca=[40, 20]),
    )
    assert same == CELL
    assert hash(same) == hash(CELL)
    assert key(same, "f", WIDE) == key(CELL, "f", WIDE)
    code = "from test_cells import CELL, WIDE, key; print(key(CELL, 'f', WIDE))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == key(CELL, "f", WIDE)


def test_what_a_search_tries_and_the_revision_of_the_method_are_part_of_its_keys_alone(monkeypatch):
    standard, other = (dataclasses.replace(CELL, **change) for change in ({"search": Search()}, {"method": "MvDA"}))

    def keys():
        return [key(cell, "f", WIDE) for cell in (CELL, standard, other)]

    for change, changed in (
        (
            lambda: monkeypatch.setitem(SEARCH_SPACES, "GMA", SEARCH_SPACES["GMA"] | {"n_components": [7]}),
            [1, 1, 0],
        ),
        (lambda: monkeypatch.setattr(cv.GMA, "_revision", cv.GMA._revision + 1), [1, 1, 0]),
        (lambda: monkeypatch.setattr("crossview.model_selection.tuning._PCA_DIMENSIONS", (20, 50)), [0, 1, 0]),
    ):
        before = keys()
        change()
        assert [a != b for a, b in zip(before, keys(), strict=True)] == changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "MvXX"}, "method must be one of 'PCA'"),
        ({"repeat": 10}, "choose 0 to 9"),
        ({"search": {"pca": [1.5]}}, "pca must be a whole number"),
    ],
)
def test_what_is_no_cell_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Cell(**{"data": "x", "method": "PCA"} | {k: Search(**v) if k == "search" else v for k, v in change.items()})


def test_landmarks_depend_on_the_training_samples(monkeypatch, turntable):
    cell = Cell(data="turntable", method="KMvHE", split=Split("classes", 8, 2, 0), search=Search(pca=(4,), n_iter=2))
    assert training_size(cell, turntable.y) == (32, 8)
    assert training_size(dataclasses.replace(cell, method="MvHE"), turntable.y) == (0, 1)
    assert training_size(dataclasses.replace(cell, split=Split("classes", 99, 2, 0)), turntable.y) == (0, 1)
    small = key(cell, "f", WIDE)
    assert key(cell, "f", WIDE, (2000, 5)) == key(cell, "f", WIDE, (4000, 51)) == small
    assert key(cell, "f", WIDE, (2001, 5)) != small
    monkeypatch.setattr("crossview.model_selection.tuning._LANDMARKS_OF_LARGE_CLASSES", 20)
    monkeypatch.setattr("crossview.model_selection.tuning._LARGE_CLASS_SIZE", 4)
    found = _task(cell, turntable, "f")
    assert found.key == key(cell, "f", WIDE, (32, 8)) != small
    assert run_cell(cell, turntable)["best_params"]["kmvhe__n_landmarks"] == 20
    fixed = dataclasses.replace(cell, parameters={"n_landmarks": None})
    assert run_cell(fixed, turntable)["best_params"]["kmvhe__n_landmarks"] is None


@pytest.mark.parametrize("fixed", [True, False])
def test_results_with_infinite_values_are_stored(tmp_path, fixed):
    grid = {"n_components": [3]} | ({} if fixed else {"coupling": [np.inf]})
    parameters = {"coupling": np.inf} if fixed else {}
    cell = small("MvHE", parameters=parameters, search=Search(pca=[8], n_folds=2, grid=grid, n_members=2))
    (record,) = run([cell], fakes.load_turntable, tmp_path / "results.db")
    assert record.error is None
    assert record.result["best_params"]["mvhe__coupling"] == "inf"
    assert {member["mvhe__coupling"] for member in record.result["committee"]["members"]} == {"inf"}
    assert run([cell], fakes.load_turntable, tmp_path / "results.db") == [record]


def test_fingerprints_tell_contents_apart_and_not_memory(turntable):
    views, y = turntable.views, turntable.y
    same = dataclasses.replace(turntable, y=y.astype(np.int32))
    wide = [np.empty((len(X), 2 * X.shape[1])) for X in views.arrays]
    for whole, X in zip(wide, views.arrays, strict=True):
        whole[:, ::2] = X
    strided = cv.Views._trusted([whole[:, ::2] for whole in wide], views.names, np.asfortranarray(views.mask))
    assert fingerprint(same) == fingerprint(dataclasses.replace(turntable, views=strided)) == fingerprint(turntable)
    zeros = [np.where(X == 0.0, -0.0, X) for X in views.arrays]
    assert np.signbit(zeros[0]).any()
    zeros = dataclasses.replace(turntable, views=cv.Views(zeros, names=views.names))
    assert fingerprint(zeros) == fingerprint(turntable)

    changed = views.arrays[1].copy()
    changed[3, 7] += 1e-12
    missing = views.arrays[2].copy()
    missing[5] = np.nan
    others = [
        dataclasses.replace(turntable, y=y[::-1]),
        dataclasses.replace(turntable, views=cv.Views(views.arrays, names=["a", "b", "c"])),
        dataclasses.replace(turntable, views=cv.Views([views.arrays[0], changed, views.arrays[2]], names=views.names)),
        dataclasses.replace(turntable, views=cv.Views([*views.arrays[:2], missing], names=views.names)),
        dataclasses.replace(turntable, views=views[::-1], y=y[::-1]),
    ]
    assert len({fingerprint(data) for data in [turntable, *others]}) == 6


@pytest.mark.parametrize("counterparts", [False, True])
@pytest.mark.parametrize("method", ["MvDA", "MvHE", "KMvHE"])
def test_a_result_is_what_tuning_by_hand_gives(turntable, method, counterparts):
    scoring = "accuracy_with_counterparts" if counterparts else "accuracy"
    cell = small(method, parameters={"reg": 0.1} if method == "MvDA" else {"n_between": 3}, repeat=1, seed=2)
    how = dataclasses.replace(cell.search, scoring=scoring)
    cell = dataclasses.replace(cell, search=how)
    result = run_cell(cell, turntable, counterparts=counterparts)
    train, test = list(cv.ClassSplit(10, 8, random_state=0).split(turntable.views, turntable.y))[1]
    views, y = turntable.views, turntable.y
    grid = dict(cell.search.grid) | {name: [value] for name, value in cell.parameters}
    space = search_space(method, views.n_features, own=grid, pca=[8, 16])
    options = {"n_iter": None, "n_folds": 2, "random_state": 2, "cv": "classes", "scoring": scoring}
    search = cv.tune(method, views[train], y[train], space, **options)
    assert result["best_params"] == search.best_params_
    assert result["metric"] == search.best_metric_
    assert result["folds_of"] == search.folds_of_ == "classes"
    assert (result["best_score"], result["held_out_score"]) == (search.best_score_, search.held_out_score_)
    assert result["score"] == search.score(views[test], y[test])
    latents = search.transform(views[test])
    matrix = np.array(result["accuracy"], dtype=float)
    known = latents, y[test], search.best_metric_
    np.testing.assert_array_equal(matrix, cv.metrics.cross_view_accuracy(*known, counterparts=counterparts))
    assert result["one_shot"] == cv.metrics.one_shot_accuracy(*known)
    assert result["average_precision"] == cv.metrics.mean_average_precision(*known)
    assert result["with_counterparts"] == cv.metrics.mean_accuracy(*known, counterparts=True)
    assert result["chance"] == pytest.approx(0.25 if counterparts else 3 / 15)
    assert (result["skipped"], result["probes"]) == (0, 16 * 6)
    assert [matrix[v, v] for v in range(3)] == pytest.approx([np.nan] * 3, nan_ok=True)
    assert result["accuracy"][0][0] is None
    assert result["cmc"][0] == pytest.approx(result["score"])
    assert len(result["cmc"]) == 20
    assert result["cmc"][3:] == [1.0] * 17  # there are four classes
    assert (result["n_train_classes"], result["n_test_classes"]) == (8, 4)
    assert result["seconds"]["search"] > 0 < result["seconds"]["fit"]
    json.dumps(result, allow_nan=False)


def test_samples_can_be_split_and_views_may_miss_samples():
    data = cv.datasets.load_digits()
    arrays = [X[:120].copy() for X in data.views.arrays]
    arrays[1][::9] = np.nan
    part = dataclasses.replace(data, views=cv.Views(arrays, names=["left", "right"]), y=data.y[:120])
    cell = small(data="digits", split=Split("samples", 0.5, 2), repeat=1, search=Search(pca=[8], n_folds=2, n_iter=2))
    result = run_cell(cell, part)
    assert result["n_train_classes"] == result["n_test_classes"] == 10
    assert result["n_train"] + result["n_test"] == 120
    assert 0.2 < result["score"] <= 1
    assert result["cmc"] == sorted(result["cmc"])
    assert result["best_params"]["viewpca__n_components"] == 8
    assert result["folds_of"] == "samples"
    assert (
        result["n_train_single"]
        == int(part.views.mask[cell.split.rows(part.y, 1)[0]].sum(axis=1).tolist().count(1))
        > 0
    )


def test_a_committee_is_scored_beside_the_best_setting(turntable):
    grid = {"n_landmarks": [6], "reg": [None], "random_state": [0, 1, 2, 3], "n_components": [2, 4]}  # weak models
    cell = small("KMvHE", search=Search(pca=[8, 16], n_folds=2, grid=grid))
    alone = run_cell(cell, turntable)
    result = run_cell(dataclasses.replace(cell, search=dataclasses.replace(cell.search, n_members=3)), turntable)
    committee = result.pop("committee")
    assert result["score"] == alone["score"]
    assert result["best_params"] == alone["best_params"]
    assert len(committee["members"]) == 3
    assert committee["best_score"] > alone["best_score"]
    train, test = cell.split.rows(turntable.y, 0)
    members = [standard_pipeline("KMvHE").set_params(**params) for params in committee["members"]]
    model = cv.Committee(members).fit(turntable.views[train], turntable.y[train])
    assert committee["score"] == model.score(turntable.views[test], turntable.y[test])
    assert 0 < committee["best_score"] <= 1
    json.dumps(committee, allow_nan=False)
    # One that is no better is the best setting.
    cell = small("MvHE")
    result = run_cell(dataclasses.replace(cell, search=dataclasses.replace(cell.search, n_members=3)), turntable)
    committee = result.pop("committee")
    assert committee["members"] == [result["best_params"]]
    assert (committee["score"], committee["best_score"]) == (result["score"], result["best_score"])


def test_what_is_warned_of_is_told(turntable):
    grid = {"n_components": [2], "gamma_scale": [1.0, -1.0]}
    two = dataclasses.replace(turntable, views=cv.Views(turntable.views.arrays[:2]))
    result = run_cell(small("KCCA", search=Search(pca=[8], n_folds=2, grid=grid)), two)
    assert any("fits failed" in message for message in result["warnings"])
    assert run_cell(small(), turntable)["warnings"] == []
    with pytest.raises(cv.exceptions.NotApplicableError, match="CCA takes 2 views, got 3"):
        run_cell(small("CCA"), turntable)


@pytest.mark.parametrize(
    ("new", "tested_on"), [([0, 1], "samples"), ([8, 9], "classes"), ([0, 1, 9], "samples"), ([0, 8, 9], "classes")]
)
def test_a_given_split_has_the_training_samples_first_and_tests_on_what_most_others_are(new, tested_on):
    y, split = np.array([0, 0, 1, 1, *new]), Split("given", 4, 1)
    assert split.tests_on(y) == tested_on
    train, test = split.rows(y, 0)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3], [*range(4, len(y))])


@pytest.mark.parametrize(("unit", "n_train"), [("classes", 32), ("samples", 36)])
def test_a_given_test_set_is_scored_sample_by_sample(turntable, unit, n_train):
    """The samples, four of each class, come class by class, or the first of all classes, then the second, …"""
    order = np.arange(48) if unit == "classes" else np.argsort(np.arange(48) % 4, kind="stable")
    data = dataclasses.replace(turntable, views=turntable.views[order], y=turntable.y[order])
    search = Search(pca=[8], n_folds=2, n_iter=2, n_members=2)
    cell = small(split=Split("given", n_train, 1), search=search)
    result = json.loads(json.dumps(run_cell(cell, data)))
    assert (result["n_train"], result["n_test"]) == (n_train, 48 - n_train)
    assert result["folds_of"] == result["tests_on"] == unit
    assert result["n_new_classes"] == (4 if unit == "classes" else 0)
    assert len(result["sample_scores"]) == len(result["sample_classes"]) == 48 - n_train
    for one in (result, result["committee"]):
        assert np.mean(one["sample_scores"]) == pytest.approx(one["score"], abs=1e-5)
    assert "sample_scores" not in run_cell(dataclasses.replace(cell, split=Split(n_train=8)), data)


@pytest.mark.parametrize("counterparts", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_scores_of_samples_are_shares_of_their_probes(metric, missing, counterparts):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, size=20)
    arrays = [rng.normal(size=(20, 3)) for _ in range(3)]
    if missing:
        arrays[0][::5] = np.nan
        arrays[1][y == 2] = np.nan
    latents = cv.Views(arrays)
    found = sample_scores(latents, y, metric, counterparts)
    alone = cv.Views([[[0.0], [1.0], [2.0]], [[0.1], [1.1], [np.nan]]])
    np.testing.assert_array_equal(sample_scores(alone, np.arange(3), "euclidean"), [1.0, 1.0, np.nan])
    expected = cv.metrics.mean_accuracy(latents, y, metric, counterparts=counterparts)
    assert np.nanmean(found) == pytest.approx(expected)
    if not missing:
        left_out = np.diag(np.full(20, 0.0 if counterparts else 10.0))
        hits = [y[(cdist(P, G, metric) + left_out).argmin(axis=1)] == y for G in arrays for P in arrays if P is not G]
        np.testing.assert_allclose(found, np.mean(hits, axis=0))


@pytest.mark.parametrize("counterparts", [False, True])
def test_match_curves_are_literally_the_ranks_of_classes(counterparts):
    rng = np.random.default_rng(0)
    y = np.append(rng.integers(0, 5, size=20), [7, 8])  # two classes have one sample
    arrays = [rng.normal(size=(22, 2)) for _ in range(3)]
    arrays[2][:9] = np.nan
    curves = []
    for i, j in permutations(range(3), 2):
        gallery, probes = (np.flatnonzero(~np.isnan(arrays[v][:, 0])) for v in (i, j))
        ranks = []
        for row in probes:
            if y[row] not in y[gallery]:
                continue
            stays = counterparts or sum(y[gallery] == y[row]) == 1
            nearest = {}
            for k in gallery:
                if k != row or stays:
                    nearest[y[k]] = min(nearest.get(y[k], np.inf), np.linalg.norm(arrays[i][k] - arrays[j][row]))
            ranks.append(sum(distance <= nearest[y[row]] for distance in nearest.values()))
        curves.append([np.mean(np.array(ranks) <= rank) for rank in range(1, 21)])
    found = _mean_cmc(cv.Views(arrays), y, "euclidean", counterparts)
    np.testing.assert_allclose(found, np.mean(curves, axis=0))
