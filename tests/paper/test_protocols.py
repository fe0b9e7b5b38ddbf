from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import crossview as cv
from crossview.experiments import Split
from paper.protocols import AS_PRINTED, EXPERIMENTS, QUICK, Effort, plan, published


def everything(data, options):
    return None


def nothing(data, options):
    return "it is not here"


def poses_of_case_4(data, options):
    return None if data == "coil100" or options.get("case") in (1, 4) else f"case {options.get('case')} lacks a pose"


def test_all_tables_and_figures_can_be_planned():
    assert list(EXPERIMENTS) == [
        *(f"table-{k}" for k in range(1, 8)),
        "figure-2d",
        "figure-pca",
        "figure-dims",
        "figure-train-size",
        "figure-parameters",
    ]
    for name in EXPERIMENTS:
        quick, full = (plan(name, effort, everything) for effort in (QUICK, Effort()))
        assert (quick.name, quick.missing) == (name, ())
        assert {panel.key: panel.rows for panel in quick.panels} == {panel.key: panel.rows for panel in full.panels}
        assert 0 < len(quick.cells) <= len(full.cells)
    points = {panel.key: panel.columns for panel in plan("figure-train-size", Effort(repeats=1), everything).panels}
    assert points["figure-train-size-coil100"] == [str(n) for n in range(30, 71, 5)]
    panel = plan("table-6", Effort(repeats=1), everything).panels[0]
    cases = {method: {place.column for place in panel.places if place.row == method} for method in panel.rows}
    assert cases["CCA"] == {"case 1"}  # takes two views
    assert len(cases["MvHE"]) == 4
    with pytest.raises(ValueError, match=r"unknown experiment 'table-9': use one of table-1"):
        plan("table-9", QUICK, everything)


def test_the_rest_runs_without_some_poses():
    experiment = plan("table-3", QUICK, poses_of_case_4)
    assert experiment.panels[0].columns == ["case 1", "case 4"]
    assert len(experiment.missing) == 6
    experiment = plan("figure-2d", QUICK, poses_of_case_4)
    assert {dict(cell.options)["case"] for cell in experiment.cells} == {4}
    assert experiment.missing[-1] == "cmu-pie case 4 is shown instead of case 5"


def test_only_what_is_asked_for_is_run_and_repeats_can_be_added():
    experiment = plan("table-6", Effort(repeats=1, methods=("MvDA", "MvHE")), everything)
    assert {cell.method for cell in experiment.cells} == {"MvDA", "MvHE"}
    for name, cases in (("table-2", (1, 4)), ("table-3", (2,)), ("table-6", (3, 4))):
        experiment = plan(name, Effort(repeats=1, cases=cases), everything)
        assert experiment.panels[0].columns == [f"case {case}" for case in cases]
    assert plan("table-1", Effort(repeats=1, cases=(3,)), everything).panels[0].columns == ["hfb", "cufsf"]
    few, more = (plan("table-6", Effort(repeats=n), everything).cells for n in (2, 5))
    assert set(few) < set(more)


def test_what_is_absent_is_named_and_training_times_need_no_data():
    experiment = plan("table-6", QUICK, nothing)
    assert experiment.panels == ()
    assert experiment.missing[0] == "coil100 case 1 cannot run: it is not here"
    experiment = plan("table-5", QUICK, nothing)
    assert {cell.task for cell in experiment.cells} == {"time", "literal-time"}
    assert f"MvHE {AS_PRINTED}" in experiment.panels[0].rows
    for method in ("MvHE", "KMvHE"):
        ours, literal = ([c for c in experiment.cells if (c.method, c.task) == (method, t)] for t in TIMES)
        assert [dict(c.parameters) for c in ours] == [{**dict(c.parameters), "coupling": 0.0} for c in literal]


TIMES = ("time", "literal-time")

# Of the paper: people or objects to train with, and views of every case.
COUNTS = {"hfb": 60, "cufsf": 700, "cmu-pie": 45, "coil100": 70}


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3", "table-4", "table-6", "table-7"])
def test_splits_are_the_papers(name):
    experiment = plan(name, Effort(), everything)
    for cell in experiment.cells:
        assert cell.split == Split("classes", COUNTS[cell.data], 100, 0)
        assert cell.search.n_folds == 5
        if cell.method in ("MvHE", "KMvHE"):
            assert (dict(cell.search.grid) | dict(cell.parameters))["coupling"] in (0.0, (0.0,))
    repeats = {(place.row, place.column): set() for panel in experiment.panels for place in panel.places}
    for panel in experiment.panels:
        for place in panel.places:
            repeats[place.row, place.column].add(place.cell.repeat)
    assert all(found == set(range(10)) for found in repeats.values())


def test_coupled_experiments_only_add_the_coupling():
    plain, coupled = (plan("table-6", Effort(repeats=1, coupled=c), everything).cells for c in (False, True))
    for a, b in zip(plain, coupled, strict=True):
        without, more = dict(a.search.grid), dict(b.search.grid)
        can_couple = "coupling" in cv.METHODS[a.method].search_space
        assert more.pop("coupling", None) == ((0.0, 1.0, 4.0, 16.0) if can_couple else None)
        assert without.pop("coupling", (0.0,)) == (0.0,)
        assert more == without
        assert replace(a, search=replace(a.search, grid={})) == replace(b, search=replace(b.search, grid={}))


def test_ablation_leaves_parts_out_by_their_weights():
    panel = plan("table-2", Effort(repeats=1), everything).panels[0]
    left_out = {place.row: dict(place.cell.parameters) for place in panel.places}
    assert left_out["paired"] == {"lambda_intra": 0.0, "lambda_inter": 0.0}
    assert left_out["intra+inter"] == {"lambda_paired": 0.0}
    assert left_out["paired+intra+inter"] == {}
    assert list(left_out) == list(published()["table-2"]["rows"])


@pytest.mark.parametrize(("name", "shares"), [("table-4", (0, 5, 10, 15, 20)), ("table-7", (0, 10, 20, 30, 40))])
def test_outliers_are_the_papers(name, shares):
    panel = plan(name, Effort(repeats=1), everything).panels[0]
    assert panel.columns == published()[name]["columns"] == [str(share) for share in shares]
    assert {place.cell.outliers for place in panel.places} == {share / 100 for share in shares}
    assert panel.rows == list(published()[name]["rows"])


@pytest.mark.skipif("CROSSVIEW_DATA" not in os.environ, reason="CROSSVIEW_DATA is not set")
def test_published_figures_are_the_papers():
    tables = Path(os.environ["CROSSVIEW_DATA"]).parent / "paper" / "tables.json"
    if not tables.exists():
        pytest.skip("the paper's tables are not beside the data")
    known = json.loads(tables.read_text())
    names = ("hfb_cufsf", "cmu_pie_ablation", "cmu_pie", "cmu_pie_outliers", "cmu_pie_training_time", "coil100")
    for number, name in enumerate((*names, "coil100_outliers"), 1):
        for row, entries in known[name]["rows"].items():
            found = published()[f"table-{number}"]["rows"][row]
            for ours, theirs in zip(found, entries, strict=True):
                if theirs is None or not isinstance(theirs, dict):
                    assert ours == theirs or ours == [theirs]
                else:
                    assert ours == [theirs["mean"], theirs.get("std"), *([theirs["loss"]] if "loss" in theirs else [])]
