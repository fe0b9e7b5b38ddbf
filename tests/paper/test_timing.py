from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import crossview as cv
from crossview.experiments import Cell, run
from paper import timing as module
from paper.tasks import run_paper_cell
from paper.timing import PAPER_CASES, paper_sizes, time_cell, time_literal_cell

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "cases.py"


def cell(method="MvDA", task="time", **parameters):
    return Cell(data="sizes", method=method, parameters={"n_components": 4} | parameters, task=task)


def load(data, options):
    sizes = paper_sizes(**options)
    return replace(sizes, views=sizes.views[:40], y=sizes.y[:40])


@pytest.fixture
def clock(monkeypatch):
    """A clock by which the k-th fit takes as many seconds as the k-th of a list; the last is repeated."""

    def install(*seconds):
        durations = (seconds[min(k, len(seconds) - 1)] for k in count())
        ticks = (tick for duration in durations for tick in (0.0, duration))
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))

    return install


@pytest.fixture(scope="module")
def small():
    return paper_sizes(2, n_features=12)


@pytest.mark.parametrize("method", cv.METHODS)
def test_every_method_is_timed(small, method):
    result = time_cell(cell(method), small, repeats=3)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    runs = result["seconds"]["runs"]
    assert len(runs) == 3
    assert min(runs) > 0
    assert result["seconds"]["fit"] == sorted(runs)[1]
    assert result["method"] == method
    assert (result["n_views"], result["n_features"], result["n_samples"]) == (2, [12, 12], 180)
    assert result["warnings"] == []


@pytest.mark.parametrize("method", ["MvHE", "KMvHE"])
def test_the_literal_algorithms_are_timed(small, method):
    result = time_literal_cell(cell(method, "literal-time", lambda_inter=0.1), small, repeats=2)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert len(result["seconds"]["runs"]) == 2
    assert result["seconds"].keys() == time_cell(cell(method), small, repeats=1)["seconds"].keys()


def test_the_first_fit_does_not_count_and_long_ones_are_repeated_less_often(small, clock, monkeypatch):
    fits = []
    monkeypatch.setattr(cv.MvDA, "fit", lambda self, views, y: fits.append((self.reg, views, y)))
    clock(5.0, 1.0, 2.0, 4.0, 3.0)
    result = time_cell(cell(reg=0.25), small, repeats=5)
    assert result["seconds"] == {"fit": 3.0, "runs": [5.0, 1.0, 2.0, 4.0, 3.0]}
    assert len(fits) == 6
    assert all(reg == 0.25 and views is small.views and y is small.y for reg, views, y in fits)
    for seconds, n_runs in ((30.0, 1), (12.0, 2), (1.0, 7)):  # long fits are repeated less often
        clock(seconds)
        assert time_cell(cell(), small)["seconds"]["runs"] == [seconds] * n_runs


def test_warnings_are_told_once():
    data = paper_sizes(2, n_features=6)
    X = np.hstack([data.views.arrays[0], np.ones((180, 3))])
    constant = replace(data, views=cv.Views([X, X]))
    assert time_cell(cell("MvHE", n_components=18), constant, repeats=2)["warnings"] == []
    labels = data.y.reshape(-1, 1)  # scikit-learn warns that this is a column
    (message,) = time_cell(cell("MvHE"), replace(data, y=labels), repeats=2)["warnings"]
    assert "column-vector y" in message


def test_cells_run_by_their_task(tmp_path):
    options = {"n_views": 3, "n_features": 8}
    cells = [
        Cell(data="sizes", method=method, options=options, parameters={"n_components": 4}, task=task)
        for method, task in [("MvHE", "time"), ("MvHE", "literal-time"), ("CCA", "time"), ("MvDA", "literal-time")]
    ]
    fast, literal, two_only, no_literal = run(cells, load, tmp_path / "times.db", compute=run_paper_cell)
    assert [fast.status, literal.status] == ["done", "done"]
    assert literal.result["seconds"]["fit"] != fast.result["seconds"]["fit"]
    assert fast.result["threads"] == literal.result["threads"] == 1
    assert [two_only.status, no_literal.status] == ["failed", "failed"]
    assert "takes 2 views, got 3" in two_only.error["message"]
    assert "no literal algorithm for MvDA: choose MvHE or KMvHE" in no_literal.error["message"]


def test_bad_cells_are_refused(small):
    with pytest.raises(ValueError, match="'ridge'"):
        time_cell(cell(ridge=0.1), small)
    with pytest.raises(TypeError, match="unexpected keyword argument 'center'"):
        time_literal_cell(cell("MvHE", center=False), small)
    with pytest.raises(ValueError, match="repeats must be a whole number, 1 or more"):
        time_cell(cell(), small, repeats=0)
    X = small.views.arrays[0].copy()
    X[3] = np.nan
    incomplete = replace(small, views=cv.Views([X, small.views.arrays[1]]))
    with pytest.raises(ValueError, match="takes complete views"):
        time_literal_cell(cell("MvHE"), incomplete)
    for method in ("CCA", "KCCA", "PLS"):
        with pytest.raises(ValueError, match=f"{method} takes 2 views, got 3: use crossview.MCCA"):
            time_cell(cell(method), paper_sizes(3, n_features=8))
    for values in ({"n_views": 0}, {"n_views": 2, "seed": -1}, {"n_views": 2, "n_features": 0}):
        with pytest.raises(ValueError, match="must be a whole number"):
            paper_sizes(**values)


@pytest.mark.parametrize("case", PAPER_CASES)
def test_paper_sizes(case):
    data = paper_sizes(PAPER_CASES[case], seed=case)
    assert [X.shape for X in data.views.arrays] == [(180, 140)] * PAPER_CASES[case]
    assert np.bincount(data.y).tolist() == [4] * 45
    assert len(data.class_names) == 45


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks are not here")
def test_paper_sizes_are_the_data_of_the_benchmarks():
    spec = importlib.util.spec_from_file_location("cases", BENCHMARKS)
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    arrays, y = cases.samples(3, 180, 140, seed=4)
    data = paper_sizes(3, seed=4)
    np.testing.assert_array_equal(data.y, y)
    for found, expected in zip(data.views.arrays, arrays, strict=True):
        np.testing.assert_array_equal(found, expected)
