from __future__ import annotations

import numpy as np
import pytest
from methods import make

import crossview as cv
from crossview.report.document import Facts
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
    assert missing.mean is None
    assert "a rate r needs 3 / r or more" in missing.note
    columns = ["accuracy", "one enrolled sample per class", "mean average precision", "with own counterpart"]
    assert tables["accuracy"].columns == columns
    mean = evaluation.mean
    shown = [mean.accuracy, mean.one_shot_accuracy, mean.average_precision, mean.accuracy_with_counterparts]
    assert [entry.mean for entry in tables["accuracy"].rows["mean"]] == [100 * one.value for one in shown]


def test_summary_in_words(evaluation):
    words, mean = evaluation_summary(evaluation), evaluation.mean
    for text in (
        "120 test samples of 24 classes, matched in 2 directions.",
        "Strangers, which accuracy leaves out: 5 probes whose class is not in the gallery.",
        f"]; random matches would score {100 * mean.chance:.1f} %",
        "bootstrap draws of classes",
        f"With one enrolled sample per class, accuracy is {100 * mean.one_shot_accuracy.value:.1f} %",
        f"With it, as in the paper, accuracy is {100 * mean.accuracy_with_counterparts.value:.1f} %",
    ):
        assert text in words


def test_curves_have_the_rates(evaluation, page):
    items = {item.key: item for item in page.items}
    one = evaluation.directions[0]
    roc, det, open_set = (items[key].curves["b in a"] for key in ("roc", "det", "open-set"))
    k = list(roc.x).index(10)
    assert roc.y[k] == pytest.approx(100 * one.scores.true_match_rates[0.1].value)
    assert det.y[k] == pytest.approx(100 - roc.y[k])
    k = list(open_set.x).index(10)
    assert open_set.y[k] == pytest.approx(100 * one.scores.false_negative_rates[0.1].value)
    assert min(open_set.x) == 3  # of 115 searches, 3 % are the least that allow three errors
    ranks = evaluation.directions[1].scores.cmc[:3]
    assert items["cmc"].curves["a in b"].y[:3] == pytest.approx([100 * rank.value for rank in ranks])


def test_page_explains(evaluation, page):
    facts = {item.key: item.rows for item in page.items if isinstance(item, Facts)}
    assert facts["setting"]["b in a"] == "115 probes in 115 gallery samples, and 5 strangers"
    assert facts["setting"]["a in b"] == "115 probes in 120 gallery samples"
    one = evaluation.confusions[0]
    assert (
        facts["confusions"][f"class {one.label} taken for class {one.taken_for}"] == f"{one.count} of {one.of} probes"
    )
    html = render(page)
    for words in ("false positive identification rate (FPIR)", "In brackets: the confidence interval", "Some data."):
        assert words in html


def test_what_tiny_test_sets_cannot_tell_is_left_out():
    """The only matches of these probes are their counterparts, and there are no errors."""
    views, y = cv.Views([np.eye(3), np.eye(3)], ["a", "b"]), np.arange(3)
    perfect = cv.evaluate(cv.PCA(n_components=2).fit(views), views, y, n_bootstrap=100)
    accuracy, ranks, *_ = evaluation_tables(perfect)
    assert accuracy.columns == ["accuracy", "mean average precision"]
    assert "counterpart" not in evaluation_summary(perfect) + accuracy.caption
    assert ranks.columns == ["rank 1"]
    data = cv.datasets.Dataset(views, y, ["0", "1", "2"])
    keys = {item.key for item in evaluation_report(perfect, data, "m", {}, "").items}
    assert {"confusions", "det"}.isdisjoint(keys)
    matcher = cv.CrossViewClassifier(cv.PCA(n_components=2)).fit(views, y)
    matcher.enroll(np.eye(3)[:1], [0], "a", replace=True)
    one_class = cv.evaluate_probes(matcher, np.eye(3)[:1], [0], "b", n_bootstrap=100)
    page = evaluation_report(one_class, data, "m", {}, "")
    assert {"roc", "det", "open-set"}.isdisjoint(item.key for item in page.items)
    assert "Too few pairs of two classes" in render(page)


def test_accuracy_at_chance_is_marked(evaluation):
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(120, 8)) for name in "ab"}
    found = cv.evaluate(cv.PCA(n_components=2).fit(views), views, Y, n_bootstrap=100)
    assert ", no better than chance; random matches would score" in evaluation_summary(found)
    rows = evaluation_tables(found)[0].rows.values()
    assert [[entry.note for entry in entries] for entries in rows] == [["no better than chance", "", "", ""]] * 3
    assert {entry.note for entry in evaluation_tables(evaluation)[0].entries} == {""}
