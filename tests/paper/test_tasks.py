from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.experiments import Cell, Search, Split
from paper.tasks import PaperCell, run_paper_cell, with_outliers


@pytest.fixture(scope="module")
def turntable():
    return cv.datasets.make_turntable(12, size=12, random_state=0)


def small(method="MvDA", **changes):
    grid = {"n_components": [2, 4]} | ({"lambda_inter": [0.05, 1.0]} if "MvHE" in method else {})
    search = Search(pca=[8, 16], n_folds=2, grid=grid)
    return Cell(**({"data": "turntable", "method": method, "split": Split(n_train=8), "search": search} | changes))


@pytest.mark.parametrize("counterparts", [False, True])
def test_dimensions_are_those_of_fits_with_so_many_components(turntable, counterparts):
    search = Search(pca=[16], n_folds=2, grid={"n_components": [4], "reg": [0.1]})
    cell = small("MvDA", search=search, task="dimensions", counterparts=counterparts)
    result = run_paper_cell(cell, turntable)
    assert result["dimensions"] == [5, 10, 15]
    train, test = cell.split.rows(turntable.y, cell.repeat)
    for d, score in zip(result["dimensions"], result["by_dimension"], strict=True):
        scaler = cv.ViewScaler(result["best_params"]["viewscaler__by"])
        model = make_pipeline(scaler, cv.ViewPCA(16), cv.MvDA(d, reg=0.1))
        latents = model.fit(turntable.views[train], turntable.y[train]).transform(turntable.views[test])
        expected = cv.metrics.mean_accuracy(latents, turntable.y[test], result["metric"], counterparts=counterparts)
        assert score == expected


@pytest.mark.parametrize("method", ["MvHE", "KMvHE"])
def test_parameters_are_varied_a_group_at_a_time(turntable, method):
    fixed = {"lambda_intra": 0.01, "lambda_inter": 0.05, "n_within": 1, "n_between": 15, "beta": 0.1}
    search = Search(pca=[16], n_folds=2, grid={"n_components": [4]})
    changes = {"search": search, "parameters": fixed, "task": "parameters", "counterparts": method == "MvHE"}
    result = run_paper_cell(small(method, **changes), turntable)
    found = result["by_parameters"]
    assert {group: len(points) for group, points in found.items()} == {"weights": 36, "neighbours": 18, "beta": 10}
    (default,) = [p for p in found["neighbours"] if (p["n_within"], p["n_between"]) == (1, 15)]
    (same,) = [p for p in found["beta"] if p["beta"] == 0.1]
    assert default["score"] == same["score"] == result["score"]


def test_parameters_are_varied_of_hybrid_embeddings_only(turntable):
    with pytest.raises(ValueError, match="MvDA has no such parameters"):
        run_paper_cell(small("MvDA", task="parameters"), turntable)


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


def test_few_draws_may_meet_one_pca_dimension_only(turntable):
    cell = small("MvDA", search=Search(pca=[8, 16], n_iter=1, n_folds=2, grid={"n_components": [2]}))
    assert len(run_paper_cell(cell, turntable)["by_pca"]) == 1


def test_outliers_are_among_training_labels_only(turntable):
    clean, noisy = (PaperCell(**vars(small()) | {"outliers": share}) for share in (0.0, 0.5))
    assert with_outliers(clean, turntable) is turntable
    y = with_outliers(noisy, turntable).y
    for before, after in zip(noisy.split.rows(turntable.y, 0), noisy.split.rows(y, 0), strict=True):
        np.testing.assert_array_equal(before, after)
    train, test = noisy.split.rows(y, 0)
    assert 4 <= (y[train] != turntable.y[train]).sum() <= 16
    np.testing.assert_array_equal(y[test], turntable.y[test])
    results = [run_paper_cell(cell, turntable) for cell in (clean, noisy)]
    assert results[0]["best_score"] != results[1]["best_score"]
