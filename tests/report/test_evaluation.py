from __future__ import annotations

import numpy as np
import pytest
from methods import make

import crossview as cv
from crossview.report.evaluation import evaluation_report, evaluation_summary, evaluation_tables
from crossview.report.page import render

ARRAYS, Y = make(m=120, sizes=(8, 8), n_classes=24)


@pytest.fixture(scope="module")
def evaluation():
    views = {name: X + np.random.default_rng(0).normal(size=X.shape) for name, X in zip("ab", ARRAYS, strict=True)}
    views["a"][Y == 3] = np.nan
    return cv.evaluate(cv.MvDA(n_components=4, reg=0.1).fit(views, Y), views, Y, n_bootstrap=100)


@pytest.fixture(scope="module")
def page(evaluation):
    names = [f"class {label}" for label in range(24)]
    data = cv.datasets.Dataset(cv.Views({"a": ARRAYS[0], "b": ARRAYS[1]}), Y, names, description="Some data.")
    return evaluation_report(evaluation, data, "my.model", {"model": "my.model"}, "crossview evaluate my.model data")


def test_tables_have_the_scores_and_intervals(evaluation):
    tables = {table.key: table for table in evaluation_tables(evaluation)}
    assert list(tables) == ["accuracy", "ranks", "verification", "identification"]
    for table in tables.values():
        assert list(table.rows) == ["b in a", "a in b", "mean"]
    first, found = tables["accuracy"].rows["b in a"][0], evaluation.directions[0].scores.accuracy
    assert (first.mean, first.low, first.high) == tuple(100 * x for x in (found.value, found.low, found.high))
    assert tables["ranks"].rows["mean"][1].mean == 100 * evaluation.mean.cmc[4].value
    missing = tables["identification"].rows["b in a"][1]
    assert (missing.mean, missing.note) == (
        None,
        "Too few pairs of two classes, or searches for strangers: a rate r needs 3 / r or more.",
    )


def test_summary_in_words(evaluation):
    words = evaluation_summary(evaluation)
    assert words.startswith("120 test samples of 24 classes, matched in 2 directions.")
    assert "Strangers, which accuracy leaves out: 5 probes whose class is not in the gallery." in words
    assert f"random matches would score {100 * evaluation.mean.chance:.1f} %" in words
    assert "bootstrap draws of classes" in words
    mean = evaluation.mean
    one_shot, with_counterparts = mean.one_shot_accuracy, mean.accuracy_with_counterparts
    assert f"With one enrolled sample per class, accuracy is {100 * one_shot.value:.1f} %" in words
    assert f"With it, as in the paper, accuracy is {100 * with_counterparts.value:.1f} %" in words
    table = evaluation_tables(evaluation)[0]
    columns = ["accuracy", "one enrolled sample per class", "mean average precision", "with own counterpart"]
    assert table.columns == columns
    shown = [mean.accuracy, one_shot, mean.average_precision, with_counterparts]
    assert [entry.mean for entry in table.rows["mean"]] == [100 * one.value for one in shown]


def test_counterparts_are_not_mentioned_if_they_are_the_only_matches():
    views = cv.Views([np.eye(3), np.eye(3)], ["a", "b"])
    found = cv.evaluate(cv.PCA(n_components=2).fit(views), views, np.arange(3), n_bootstrap=100)
    assert "counterpart" not in evaluation_summary(found)
    assert evaluation_tables(found)[0].columns == ["accuracy", "mean average precision"]
    assert "counterpart" not in " ".join(evaluation_tables(found)[0].columns) + evaluation_tables(found)[0].caption


def test_curves_have_the_rates(evaluation, page):
    items = {item.key: item for item in page.items}
    one = evaluation.directions[0]
    roc, det, open_set = (items[key].curves["b in a"] for key in ("roc", "det", "open-set"))
    assert items["det"].log_x
    assert items["det"].log_y
    k = list(roc.x).index(10)
    assert roc.y[k] == pytest.approx(100 * one.scores.true_match_rates[0.1].value)
    assert det.y[k] == pytest.approx(100 - roc.y[k])
    k = list(open_set.x).index(10)
    assert open_set.y[k] == pytest.approx(100 * one.scores.false_negative_rates[0.1].value)
    assert min(open_set.x) == 3  # of 115 searches, 3 % are the least that allow three errors
    assert [round(y, 6) for y in items["cmc"].curves["a in b"].y[:3]] == [
        round(100 * rank.value, 6) for rank in evaluation.directions[1].scores.cmc[:3]
    ]


def test_sizes_of_directions(page):
    (facts,) = [item for item in page.items if item.key == "setting"]
    assert facts.rows["b in a"] == "115 probes in 115 gallery samples, and 5 strangers"
    assert facts.rows["a in b"] == "115 probes in 120 gallery samples"


def test_ranks_are_below_the_number_of_classes():
    views = cv.Views([np.eye(3), np.eye(3)], ["a", "b"])
    found = cv.evaluate(cv.PCA(n_components=2).fit(views), views, np.arange(3), n_bootstrap=100)
    assert evaluation_tables(found)[1].columns == ["rank 1"]


def test_confusions_have_the_names_of_classes(evaluation, page):
    (facts,) = [item for item in page.items if item.key == "confusions"]
    first = evaluation.confusions[0]
    assert facts.rows[f"class {first.label} taken for class {first.taken_for}"] == f"{first.count} of {first.of} probes"


def test_page_explains(page):
    html = render(page)
    for words in ("false positive identification rate (FPIR)", "In brackets: the confidence interval", "Some data."):
        assert words in html


def report_on(evaluation, y):
    data = cv.datasets.Dataset(cv.Views([np.zeros((len(y), 1))]), y, [str(label) for label in np.unique(y)])
    return evaluation_report(evaluation, data, "m", {}, "")


def test_a_model_without_errors_and_tiny_test_sets_have_a_page():
    views = cv.Views([np.eye(3), np.eye(3)], ["a", "b"])
    model = cv.PCA(n_components=2).fit(views)
    perfect = cv.evaluate(model, views, np.arange(3), n_bootstrap=100)
    assert perfect.mean.accuracy.value == 1.0
    assert perfect.mean.equal_error_rate.value == 0.0
    page = report_on(perfect, np.arange(3))
    assert "confusions" not in {item.key for item in page.items}
    assert "Receiver operating characteristic" in render(page)


def test_a_gallery_and_probes_of_one_class_have_a_page():
    views = cv.Views([np.eye(3), np.eye(3)], ["a", "b"])
    matcher = cv.CrossViewClassifier(cv.PCA(n_components=2)).fit(views, np.arange(3))
    matcher.enroll(np.eye(3)[:1], [0], "a", replace=True)
    page = report_on(cv.evaluate_probes(matcher, np.eye(3)[:1], [0], "b", n_bootstrap=100), np.zeros(1))
    assert {"roc", "det", "open-set"}.isdisjoint(item.key for item in page.items)
    assert "Too few pairs of two classes" in render(page)


def test_accuracy_at_chance_is_marked():
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(120, 8)) for name in "ab"}
    found = cv.evaluate(cv.PCA(n_components=2).fit(views), views, Y, n_bootstrap=100)
    assert ", no better than chance; random matches would score" in evaluation_summary(found)
    rows = evaluation_tables(found)[0].rows
    assert {row: entries[0].note for row, entries in rows.items()} == dict.fromkeys(
        ["b in a", "a in b", "mean"], "no better than chance"
    )
    assert {entry.note for entries in rows.values() for entry in entries[1:]} == {""}


def test_accuracy_above_chance_is_not_marked(evaluation):
    assert "no better" not in evaluation_summary(evaluation)
    assert {entry.note for entry in evaluation_tables(evaluation)[0].entries} == {""}
