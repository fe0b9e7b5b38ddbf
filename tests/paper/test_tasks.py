from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.experiments import Search, Split, run
from paper import tasks
from paper.data import paper_sizes
from paper.tasks import PaperCell, run_paper_cell, time_cell, with_outliers


@pytest.fixture(scope="module")
def turntable():
    return cv.datasets.make_turntable(12, size=12, random_state=0)


def small(method="MvDA", **changes):
    grid = {"n_components": [2, 4]} | ({"lambda_inter": [0.05, 1.0]} if "MvHE" in method else {})
    search = Search(pca=[8, 16], n_folds=2, grid=grid)
    return PaperCell(**({"data": "turntable", "method": method, "split": Split(n_train=8), "search": search} | changes))


def test_dimensions_are_those_of_fits_with_so_many_components(turntable):
    search = Search(pca=[16], n_folds=2, grid={"n_components": [4], "reg": [0.1]})
    cell = small("MvDA", search=search, task="dimensions")
    result = run_paper_cell(cell, turntable)
    assert result["dimensions"] == [5, 10, 15]
    train, test = cell.split.rows(turntable.y, cell.repeat)
    for d, score in zip(result["dimensions"], result["by_dimension"], strict=True):
        scaler = cv.ViewScaler(result["best_params"]["viewscaler__by"])
        model = make_pipeline(scaler, cv.ViewPCA(16), cv.MvDA(d, reg=0.1))
        latents = model.fit(turntable.views[train], turntable.y[train]).transform(turntable.views[test])
        assert score == cv.metrics.mean_accuracy(latents, turntable.y[test], result["metric"], counterparts=True)


@pytest.mark.parametrize("method", ["MvHE", "KMvHE"])
def test_parameters_are_varied_a_group_at_a_time(turntable, method):
    fixed = {"lambda_intra": 0.01, "lambda_inter": 0.05, "n_within": 1, "n_between": 15, "beta": 0.1}
    search = Search(pca=[16], n_folds=2, grid={"n_components": [4]})
    result = run_paper_cell(small(method, search=search, parameters=fixed, task="parameters"), turntable)
    found = result["by_parameters"]
    assert {group: len(points) for group, points in found.items()} == {"weights": 36, "neighbours": 18, "beta": 10}
    (default,) = [p for p in found["neighbours"] if (p["n_within"], p["n_between"]) == (1, 15)]
    (same,) = [p for p in found["beta"] if p["beta"] == 0.1]
    assert default["score"] == same["score"] == result["score"]


def test_the_euclidean_result_is_that_of_a_search_without_the_other_distance(turntable):
    both = [small("PCA", repeat=repeat) for repeat in range(6, 10)]
    results = [run_paper_cell(cell, turntable) for cell in both]
    assert any(result["metric"] == "cosine" for result in results)
    for cell, result in zip(both, results, strict=True):
        alone = run_paper_cell(replace(cell, search=replace(cell.search, metrics=["euclidean"])), turntable)
        assert "euclidean" not in alone
        assert result["euclidean"] == {name: alone[name] for name in result["euclidean"]}


def test_every_pca_dimension_is_scored_with_its_best_parameters(turntable):
    cell = small("MvDA")
    result = run_paper_cell(cell, turntable)
    assert [one["pca"] for one in result["by_pca"]] == [8, 16]
    for one in result["by_pca"]:
        alone = run_paper_cell(replace(cell, search=replace(cell.search, pca=(one["pca"],))), turntable)
        assert one["score"] == alone["score"]
        assert one["euclidean"] == alone["euclidean"]["score"]
        assert "by_pca" not in alone
    few = replace(cell, search=Search(pca=[8, 16], n_iter=1, n_folds=2, grid={"n_components": [2]}))
    assert len(run_paper_cell(few, turntable)["by_pca"]) == 1


def test_outliers_are_among_training_labels_only(turntable):
    clean, noisy = (small(outliers=share) for share in (0.0, 0.5))
    np.testing.assert_array_equal(with_outliers(clean, turntable).y, turntable.y)
    y = with_outliers(noisy, turntable).y
    train, test = noisy.split.rows(turntable.y, 0)
    np.testing.assert_array_equal(np.hstack(noisy.split.rows(y, 0)), np.hstack([train, test]))
    assert 4 <= (y[train] != turntable.y[train]).sum() <= 16
    np.testing.assert_array_equal(y[test], turntable.y[test])
    results = [run_paper_cell(cell, turntable) for cell in (clean, noisy)]
    assert results[0]["best_score"] != results[1]["best_score"]


def test_the_first_fit_does_not_count_and_long_ones_are_repeated_less_often(monkeypatch):
    data, fits = paper_sizes(2, n_features=12), []
    monkeypatch.setattr(cv.MvDA, "fit", lambda self, views, y: fits.append((self.reg, views, y)))

    def timed(*seconds):
        """By a clock by which the k-th fit takes the k-th number of seconds, and others the last."""
        ticks = (tick for k in count() for tick in (0.0, seconds[min(k, len(seconds) - 1)]))
        monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
        return time_cell(small(parameters={"reg": 0.25}, task="time"), data)["seconds"]

    assert timed(5.0, 1.0, 2.0, 4.0, 3.0, 1.0, 1.0) == {"fit": 2.0, "runs": [5.0, 1.0, 2.0, 4.0, 3.0, 1.0, 1.0]}
    assert len(fits) == 8
    assert all(reg == 0.25 and views is data.views and y is data.y for reg, views, y in fits)
    for seconds, n_runs in ((30.0, 1), (12.0, 2), (1.0, 7)):
        assert timed(seconds)["runs"] == [seconds] * n_runs


def test_times_are_of_both_implementations(tmp_path):
    cells = [
        PaperCell(data="s", method=method, options={"n_views": 3, "n_features": 8}, parameters=parameters, task=task)
        for method, task in [("MvHE", "time"), ("KMvHE", "literal-time"), ("CCA", "time")]
        for parameters in [{"n_components": 4}]
    ]

    def load(data, options):
        sizes = paper_sizes(**options)
        return replace(sizes, views=sizes.views[:40], y=sizes.y[:40])

    ours, literal, two_only = run(cells, load, tmp_path / "times.db", compute=run_paper_cell)
    for record in (ours, literal):
        assert (record.status, record.result["threads"], len(record.result["seconds"]["runs"])) == ("done", 1, 7)
    assert "takes 2 views, got 3" in two_only.error["message"]
