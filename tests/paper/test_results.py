"""The paper's tables and figures, and their report, of results made by hand."""

from __future__ import annotations

import pytest

import crossview as cv
from crossview.experiments import Search, Split, run_cell
from crossview.experiments.plans import comparison
from crossview.report import ResultTable
from crossview.report.comparison import comparison_tables
from crossview.report.document import MatchBrowser
from crossview.report.tables import measured
from paper.protocols import AS_PRINTED, QUICK, Effort, Experiment, PaperPanel, plan
from paper.report import items, reproduction_report
from records import record, recorded, result

BY_PARAMETERS = {
    "weights": [{"lambda_intra": 0.1, "lambda_inter": 0.1, "score": 0.5}],
    "neighbours": [{"n_within": 1, "n_between": 5, "score": 0.5}],
    "beta": [{"beta": 0.1, "score": 0.5}],
}


def everything(data, options):
    return None


def one_panel(name, **effort):
    return plan(name, Effort(repeats=2, **effort), everything).panels[0]


def tables_of(panel, results):
    return {item.key: item for item in items(panel, results) if isinstance(item, ResultTable)}


def test_entries_are_means_and_deviations_beside_what_was_published():
    panel = one_panel("table-6", methods=("MvHE",))
    results = recorded(panel, lambda p: result(0.8 + 0.1 * p.cell.repeat, euclidean=result(0.7)))
    euclidean, chosen, *curves = items(panel, results)
    assert [len(c.curves) for c in curves] == [1] * 4
    entry = chosen.rows["MvHE"][0]
    assert (entry.mean, entry.sd) == (pytest.approx(85.0), pytest.approx(5.0))
    assert (entry.published, entry.published_sd) == (90.2, 3.0)
    assert entry.difference == pytest.approx(-5.2)
    assert (euclidean.rows["MvHE"][3].mean, euclidean.rows["MvHE"][3].published) == (pytest.approx(70.0), 84.1)


def test_the_pca_dimension_is_traversed_as_in_the_paper():
    panel = one_panel("table-6", methods=("MvHE",))
    found = [[0.2, 0.9], [0.6, 0.5]]  # of the two repeats, by dimension: means of 0.4 and 0.7
    by_pca = [[{"pca": 20 + k, "score": s / 2, "euclidean": s} for k, s in enumerate(scores)] for scores in found]
    tables = tables_of(panel, recorded(panel, lambda p: result(0.5, by_pca=by_pca[p.cell.repeat])))
    for key, mean, sd in (("all", 70.0, 20.0), ("every", 75.0, 15.0)):
        entry = tables[f"table-6-traversed-{key}"].rows["MvHE"][0]
        assert (entry.mean, entry.sd, entry.published) == (pytest.approx(mean), pytest.approx(sd), 90.2)


def test_committees_have_rows_of_their_own():
    panel = one_panel("table-6", methods=("MvHE",), n_members=8)
    assert panel.rows == ["MvHE", "MvHE × 8"]
    by_pca = [{"pca": k, "score": 0.4, "euclidean": 0.4} for k in (20, 40)]
    found = result(0.8, euclidean=result(0.7), by_pca=by_pca, committee=result(0.9))
    tables = tables_of(panel, recorded(panel, lambda p: found))
    euclidean, chosen = tables["table-6"].rows, tables["table-6-chosen"].rows
    assert [rows["MvHE"][0].mean for rows in (euclidean, chosen)] == pytest.approx([70.0, 80.0])
    assert [rows["MvHE × 8"][0].mean for rows in (euclidean, chosen)] == pytest.approx([90.0, 90.0])
    assert chosen["MvHE × 8"][0].published == 90.2
    assert list(tables["table-6-traversed-all"].rows) == ["MvHE"]


def test_what_failed_is_told_and_does_not_stop_the_rest():
    panel = one_panel("table-6", methods=("GMA",))
    fails = {("case 1", 0), ("case 1", 1), ("case 2", 1)}
    message = "no scatter within classes"
    results = recorded(panel, lambda p: message if (p.column, p.cell.repeat) in fails else result(0.5))
    first, second, third, _ = items(panel, results)[0].rows["GMA"]
    assert (first.mean, first.note) == (None, "2 of 2 failed: no scatter within classes")
    assert (second.mean, second.sd, second.note) == (50.0, None, "1 of 2 failed: no scatter within classes")
    assert third.note == ""
    results = {p.cell: record(p.cell, error="GMA needs more", kind="NotApplicableError") for p in panel.places}
    entry = items(panel, results)[0].rows["GMA"][0]
    assert (entry.note, measured(entry, 1)) == ("not applicable: GMA needs more", "n/a")


def test_a_table_of_two_views_has_both_directions():
    panel = one_panel("table-1", methods=("PLS",))
    table = items(panel, recorded(panel, lambda p: result(0.2)))[0]
    assert table.columns[:2] == ["HFB NIR-VIS", "HFB VIS-NIR"]
    assert [entry.mean for entry in table.rows["PLS"][:2]] == [pytest.approx(20.0), pytest.approx(30.0)]
    assert [entry.published for entry in table.rows["PLS"][:2]] == [23.3, 20.3]


def test_loss_is_relative_to_clean_labels():
    panel = one_panel("table-7", methods=("KMvHE",))
    _, losses, accuracy, loss = items(panel, recorded(panel, lambda p: result(0.8 - p.cell.outliers)))
    assert [entry.mean for entry in losses.rows["KMvHE"]] == pytest.approx([0.0, 12.5, 25.0, 37.5, 50.0])
    assert [entry.published for entry in losses.rows["KMvHE"]] == [0.0, 1.1, 2.0, 3.1, 3.3]
    assert list(accuracy.curves["KMvHE"].x) == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert list(loss.curves["KMvHE"].y) == pytest.approx([0.0, 12.5, 25.0, 37.5, 50.0])


def test_times_are_compared_with_the_printed_algorithm():
    panel = one_panel("table-5")
    results = recorded(panel, lambda p: {"seconds": {"fit": 3.0 if p.row.endswith(AS_PRINTED) else 0.1}})
    times, ratios, printed = items(panel, results)
    assert (times.rows["MvHE"][0].mean, times.rows["MvHE"][0].published) == (0.1, None)
    assert printed.rows["MvHE"][0].mean == 21.0
    assert not any(row.endswith(AS_PRINTED) for row in printed.rows)
    assert times.best == "lowest"
    assert [entry.mean for entry in ratios.rows["KMvHE"]] == pytest.approx([30.0] * 4)


def test_curves_leave_out_what_failed():
    panel = one_panel("figure-pca", methods=("MvDA",), coarse=True)
    (curves,) = items(panel, recorded(panel, lambda p: "singular" if p.column == "300" else result(0.4)))
    assert list(curves.curves["MvDA"].x) == [50.0, 100.0]


def test_dimensions_are_those_that_all_repeats_have():
    panel = one_panel("figure-dims", methods=("MvHE",))
    found = [{"dimensions": [5, 10, 15][:n], "by_dimension": [0.1, 0.2, 0.3][:n]} for n in (2, 3)]
    (curves,) = items(panel, recorded(panel, lambda p: result(0.5, **found[p.cell.repeat])))
    assert list(curves.curves["MvHE"].x) == [5, 10]
    assert list(curves.curves["MvHE"].y) == pytest.approx([10.0, 20.0])


def test_parameters_are_means_over_repeats():
    panel = one_panel("figure-parameters", methods=("MvHE",))
    weights = [(a, b) for a in (0.1, 1.0) for b in (0.5, 5.0)]

    def by_parameters(repeat):
        scores = [{"lambda_intra": a, "lambda_inter": b, "score": a * b / 10 + repeat / 10} for a, b in weights]
        return BY_PARAMETERS | {"weights": scores, "beta": [{"beta": 0.1, "score": 0.2 + 0.2 * repeat}]}

    results = recorded(panel, lambda p: result(0.5, by_parameters=by_parameters(p.cell.repeat)))
    table, neighbours, beta = items(panel, results)
    assert table.columns == ["λ2 = 0.5", "λ2 = 5"]
    means = {row: [entry.mean for entry in entries] for row, entries in table.rows.items()}
    assert means == {"λ1 = 0.1": pytest.approx([5.5, 10.0]), "λ1 = 1": pytest.approx([10.0, 55.0])}
    assert neighbours.columns == ["p2 = 5"]
    assert (beta.curves["MvHE"].y, beta.curves["MvHE"].sd) == ([pytest.approx(30.0)], [pytest.approx(10.0)])


def test_a_reproduction_has_a_section_for_every_experiment():
    experiments = [plan(name, QUICK, everything) for name in ("table-5", "table-7", "figure-parameters")]
    results = {c: record(c, result(0.5, by_parameters=BY_PARAMETERS)) for e in experiments for c in e.cells}
    report = reproduction_report(experiments, results, None, "python -m paper all")
    assert [section.title.partition(":")[0] for section in report.sections] == [
        "Table 5 of the paper",
        "Table 7 of the paper",
        "Effect of the parameters (figure-parameters)",
        "Environment",
    ]
    missing = plan("table-4", QUICK, lambda data, options: "poses are missing")
    report = reproduction_report([missing], {}, None, "")
    assert report.sections[0].text == "cmu-pie case 5 cannot run: poses are missing"


def test_a_reproduction_shows_matches_of_its_best_method():
    data = cv.datasets.make_turntable(12, size=12, random_state=0)
    search = Search(pca=(8,), n_iter=2)
    panel = comparison("turntable", {}, ["PCA", "MvDA"], Split("classes", 8, 2, 0), search)
    results = recorded(panel, lambda p: run_cell(p.cell, data))
    panel = PaperPanel("table-6", "Objects", panel.places, "accuracy")
    experiment = Experiment("table-6", "Objects", (panel,))
    report = reproduction_report([experiment], results, lambda name, options: data, "")
    (browser,) = [item for item in report.sections[0].items if isinstance(item, MatchBrowser)]
    means = {row: entry[0].mean for row, entry in comparison_tables(panel, results)[0].rows.items()}
    assert all(name.startswith(f"{max(means, key=means.get)}: ") for name in browser.probes)
