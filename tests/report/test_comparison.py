"""The report of a comparison: what it shows is what was computed."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import sklearn.decomposition

import crossview as cv
from crossview.experiments import Search, Split, run_cell
from crossview.experiments.plans import comparison
from crossview.experiments.tasks import drawn_samples
from crossview.report import ResultTable
from crossview.report.comparison import (
    MappedSamples,
    comparison_report,
    comparison_tables,
    embeddings,
    map_test_samples,
    matches,
)
from crossview.report.document import Curves, Embeddings, MatchBrowser
from crossview.report.ranking import AT_CHANCE, comparison_facts, comparison_summary
from records import record, recorded, result


@pytest.fixture(scope="module")
def compared():
    data = cv.datasets.make_turntable(12, size=12, random_state=0)
    search = Search(pca=(8,), n_iter=2, n_members=2)
    panel = comparison("turntable", {}, ["PCA", "MvDA"], Split("classes", 8, 2, 0), search, ["MvDA"])
    return data, panel, recorded(panel, lambda p: run_cell(p.cell, data))


def check_shown(panel, results, data):
    """What is mapped again scores as it was stored."""
    for place in panel.places:
        found = results[place.cell].result
        found = found[place.part] if place.part else found
        shown = map_test_samples(place, results, data)
        assert cv.metrics.mean_accuracy(shown.latents, data.y[shown.rows], shown.metric) == found["score"]


def test_what_is_shown_is_what_was_scored(compared):
    data, panel, results = compared
    check_shown(panel, results, data)
    search = Search(pca=(8,), n_folds=2, n_members=2, grid={"coupling": [np.inf], "n_components": [3]})
    panel = comparison("turntable", {}, ["MvHE"], Split("classes", 8, 1, 0), search, ["MvHE"])
    check_shown(panel, recorded(panel, lambda p: run_cell(p.cell, data)), data)


def test_embeddings_are_of_the_same_samples(compared):
    data, panel, results = compared
    first = [p for p in panel.places if p.cell.repeat == 0]
    found = {p.row: results[p.cell].result[p.part] if p.part else results[p.cell].result for p in first}
    shown = {p.row: map_test_samples(p, results, data) for p in first}
    drawn = embeddings("plane", "Plane", found, first[0].cell, data)
    assert list(drawn.panels) == ["PCA", "MvDA", "MvDA × 2"]
    assert len(drawn.views) == len(drawn.labels) == 4 * 4 * 3  # objects, samples, views
    assert set(drawn.views) == set(data.view_names)
    assert len(set(drawn.labels)) == 4
    for row, points in drawn.panels.items():
        expected = sklearn.decomposition.PCA(2).fit_transform(np.vstack(shown[row].latents.arrays))
        np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-9)
    assert not any("plane" in record.result for cell, record in results.items() if cell.repeat)


def test_a_comparison_fits_again_only_what_its_match_browser_shows(compared, monkeypatch):
    data, panel, results = compared
    fitted = []
    monkeypatch.setattr(
        "crossview.report.comparison.map_test_samples",
        lambda place, *others: fitted.append(place.row) or map_test_samples(place, *others),
    )
    comparison_report(panel, results, data, "crossview compare", "", "")
    assert len(fitted) == 2
    features = cv.Views(data.views.arrays, data.view_names)
    comparison_report(panel, results, replace(data, views=features), "crossview compare", "", "")
    assert len(fitted) == 2


def test_matches_are_ranked_by_distance(compared):
    data, panel, results = compared
    place = [p for p in panel.places if p.row == "MvDA"][-1]
    browser = matches("matches", "Matches", {"MvDA": map_test_samples(place, results, data)}, data)
    assert len(browser.probes) == 6
    assert browser.images.dtype == np.uint8
    assert browser.images.shape[1:] == (12, 12)
    assert next(iter(browser.probes)) == "MvDA: V2 looked up in V1"
    accuracy = results[place.cell].result["accuracy"]
    for (g, p), probes in zip(permutations(range(3), 2), browser.probes.values(), strict=True):
        right = [browser.labels[matched[0][0]] == browser.labels[probe] for probe, matched in probes]
        assert np.mean(right) == accuracy[g][p]
        for _, matched in probes:
            distances = [distance for _, distance in matched]
            assert distances == sorted(distances)
            assert len(distances) == 8


@pytest.mark.parametrize("counterparts", [False, True])
def test_matches_leave_out_a_counterpart_unless_its_class_has_no_other_sample(counterparts):
    images = np.array([[0.0], [0.1], [0.5], [0.6]])
    views = cv.Views([images, images], image_shape=(1, 1))
    data = cv.datasets.Dataset(views, np.array([0, 0, 1, 2]), ["0", "1", "2"])
    mapped = MappedSamples(views, np.arange(4), "euclidean", counterparts)
    browser = matches("matches", "Matches", {"A": mapped}, data)
    (probes, _) = browser.probes.values()
    nearest = [(browser.labels[matched[0][0]], round(matched[0][1], 3)) for _, matched in probes]
    own = [("0", 0.0), ("0", 0.0)] if counterparts else [("0", 0.1), ("0", 0.1)]
    assert nearest == [*own, ("1", 0.0), ("2", 0.0)]
    assert [len(matched) for _, matched in probes] == [4 if counterparts else 3] * 2 + [4] * 2


def test_a_comparison_is_reported_whole(compared):
    data, panel, results = compared
    tune = "crossview tune turntable"
    report = comparison_report(panel, results, data, "crossview compare turntable", "", tune)
    assert {ResultTable, Curves, Embeddings, MatchBrowser} <= {type(item) for item in report.items}
    assert report.command == "crossview compare turntable"
    assert report.next_command.startswith(f"{tune} --method ")
    table, by_direction = comparison_tables(panel, results)
    assert f"{max(entries[0].mean for entries in table.rows.values()):.1f} %" in report.summary
    assert "MvDA × 2 is a committee of the 2 best settings of the search" in table.caption
    assert by_direction.columns[:2] == ["V2 in V1", "V3 in V1"]
    matrix = [results[p.cell].result["accuracy"][0][1] for p in panel.places if p.row == "MvDA"]
    assert by_direction.rows["MvDA"][0].mean == pytest.approx(100 * np.mean(matrix))
    columns = {"accuracy": "score", "one-shot": "one_shot", "mean average precision": "average_precision"}
    columns |= {"with counterparts": "with_counterparts", "in validation": "held_out_score"}
    assert table.columns == list(columns)
    for row, part in (("MvDA", ""), ("MvDA × 2", "committee")):
        found = [results[p.cell].result for p in panel.places if p.row == row]
        for entry, name in zip(table.rows[row], columns.values(), strict=True):
            assert entry.mean == pytest.approx(100 * np.mean([(one[part] if part else one)[name] for one in found]))
    assert table.rows["MvDA"][0].note == ""
    worse = {c: record(c, one.result | {"score": one.result["chance"]}) for c, one in results.items()}
    assert comparison_tables(panel, worse)[0].rows["PCA"][0].note == AT_CHANCE


def test_a_comparison_in_which_all_failed_is_reported(compared):
    data, panel, results = compared
    report = comparison_report(panel, recorded(panel, lambda p: "not enough samples"), data, "", "", "")
    assert "No method could be run. PCA: not enough samples MvDA: not enough samples" in report.summary
    assert report.items[0].rows["PCA"][0].note == "2 of 2 failed: not enough samples"
    some = {cell: record(cell, error="singular") if cell.repeat else found for cell, found in results.items()}
    summary = comparison_summary(panel, some)
    assert summary.startswith("No method has a result in every split (2 failed).")
    assert "Trained on" in summary


def test_methods_that_did_not_run_are_not_counted():
    methods = ["PCA", "MvDA", "CCA", "LDA"]
    panel = comparison("digits", {}, methods, Split("samples", 20, 2), Search(n_members=8), ["MvDA"])
    best = result(0.7, committee=result(0.9))
    found = {"PCA": result(0.5), "MvDA": best, "LDA": "singular", "CCA": "CCA takes 2 views, got 3"}
    found["MvDA × 8"] = best
    results = recorded(panel, lambda p: found[p.row])
    refused = {p.cell for p in panel.places if p.row == "CCA"}
    results |= {cell: record(cell, error=found["CCA"], kind="NotApplicableError") for cell in refused}
    summary = comparison_summary(panel, results, "A remark.")
    assert summary.startswith("The best of 2 methods and 1 committee (1 not applicable, 1 failed) is MvDA × 8, with 9")
    assert "With fewer than 5 splits, differences may be noise." in summary
    assert "in 2 random splits. A remark. Parameters" in summary
    assert "over folds of classes; the test is on new samples." in summary
    facts = comparison_facts(panel, results, "")
    assert facts["not_applicable"] == {"CCA": "CCA takes 2 views, got 3"}
    assert facts["failures"] == {"LDA": "singular"}
    assert (facts["best"], facts["tied"]) == (["MvDA × 8"], [])
    assert facts["sizes"] == {"train": {"samples": 100, "classes": 10}, "test": {"samples": 90, "classes": 9}}


def test_numbers_of_samples_are_told():
    panel = comparison("digits", {}, ["PCA"], Split("samples", 20, 1), Search())
    one = {"n_train": 1, "n_train_classes": 1, "n_test": 1, "n_test_classes": 1, "skipped": 1, "probes": 1}
    summary = comparison_summary(panel, recorded(panel, lambda p: result(1.0, n_train_single=3, **one)))
    assert "Trained on 1 sample of 1 class (3 of the samples in one view only), tested on 1 sample of 1 cl" in summary
    assert "in 1 random split." in summary
    assert "Not scored: 1 probe of 1, whose class the gallery lacks." in summary


@pytest.mark.parametrize(("new", "seen"), [(0, "all"), (9, "none"), (4, "5")])
def test_a_given_test_set_says_which_classes_are_new(new, seen):
    panel = comparison("a/x.npz", {"test_data": "b/y.npz"}, ["PCA", "MvDA"], Split("given", 100, 1), Search())
    assert panel.columns == ["y.npz, trained on x.npz"]
    scores = {"PCA": [0.0, 1.0, 0.5] * 30, "MvDA": [1.0, 1.0, 0.5] * 30}
    unit = "classes" if new > 5 else "samples"
    more = {"sample_classes": np.repeat(range(9), 10).tolist(), "tests_on": unit, "n_new_classes": new}
    results = recorded(panel, lambda p: result(np.mean(scores[p.row]), sample_scores=scores[p.row], **more))
    said = f"90 samples of 9 classes, {seen} of them seen in training, in the given test set."
    assert said in comparison_summary(panel, results)
    table, by_direction = comparison_tables(panel, results)
    assert (table.rows["PCA"][0].sd, by_direction.rows["PCA"][0].se) == (None, None)
    assert table.spread == f"standard error over the test {unit}"
    if new <= 5:
        assert table.rows["PCA"][0].se == pytest.approx(100 * np.std(scores["PCA"], ddof=1) / np.sqrt(90))


def test_classes_of_a_common_space_are_from_all_over_the_test_samples():
    y = cv.datasets.make_turntable(30, size=8, random_state=0).y
    drawn = list(dict.fromkeys(y[drawn_samples(y)]))
    assert (len(drawn), drawn[0], drawn[-1]) == (8, y.min(), y.max())
