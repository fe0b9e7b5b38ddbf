from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import sklearn.decomposition

import crossview as cv
from crossview.experiments import Record, Search, Split, run_cell
from crossview.experiments.plans import Panel, Place, comparison
from crossview.experiments.tasks import drawn_samples, spread_out
from crossview.report import ResultTable
from crossview.report.compose import AT_CHANCE, comparison_report, comparison_tables
from crossview.report.document import Bars, Curves, Embeddings, Facts, HeatMaps, MatchBrowser
from crossview.report.formatting import absent
from crossview.report.ranking import rank
from crossview.report.results import direction_maps
from crossview.report.samples import MappedSamples, embeddings, map_test_samples, matches
from crossview.report.summary import committee_note, comparison_facts, comparison_summary
from paper.protocols import AS_PRINTED, QUICK, Effort, Experiment, plan
from paper.report import reproduction_report
from paper.results import items


def record(cell, result=None, error=None):
    status = "done" if error is None else "failed"
    failure = None if error is None else {"type": "ValueError", "message": error, "traceback": ""}
    return Record("key", cell.to_dict(), status, result, failure, 1.0, 0.0, "1", {})


def result(score, euclidean=None, **more):
    scores = {
        "score": score,
        "accuracy": [[None, score], [score + 0.1, None]],
        "cmc": [score, 1.0],
        "average_precision": score / 2,
        "one_shot": score / 2,
        "with_counterparts": score,
        "best_params": {},
        "metric": "cosine",
        "best_score": score,
        "held_out_score": score,
    }
    extra = {} if euclidean is None else {"euclidean": scores | {"score": euclidean}}
    counts = {"n_train": 100, "n_train_classes": 10, "n_test": 90, "n_test_classes": 9, "skipped": 0, "probes": 180}
    seconds = {"fit": 1.0, "search": 2.0}
    other = {"seconds": seconds, "views": ["NIR", "VIS"], "folds_of": "classes", "chance": 0.1}
    return scores | extra | counts | other | more


def recorded(panel, compute):
    """Results of a panel, each computed from its place; a text is the message of a failure."""
    found = {place.cell: compute(place) for place in panel.places}
    return {c: record(c, error=r) if isinstance(r, str) else record(c, r) for c, r in found.items()}


def tables_of(panel, results):
    return {item.key: item for item in items(panel, results) if isinstance(item, ResultTable)}


def everything(data, options):
    return None


def one_panel(name, **effort):
    return plan(name, Effort(repeats=2, **effort), everything).panels[0]


def test_entries_are_means_and_deviations_beside_what_was_published():
    panel = one_panel("table-6", methods=("MvHE",))
    results = recorded(panel, lambda p: result(0.8 + 0.1 * p.cell.repeat, 0.7))
    euclidean, chosen, bars, *curves = items(panel, results)
    assert isinstance(bars, Bars)
    assert [len(c.curves) for c in curves] == [1] * 4
    entry = chosen.rows["MvHE"][0]
    assert (entry.mean, entry.sd) == (pytest.approx(85.0), pytest.approx(5.0))
    assert (entry.published, entry.published_sd) == (90.2, 3.0)
    assert entry.difference == pytest.approx(-5.2)
    assert entry.deviations == pytest.approx(-5.2 / 3.0)
    assert euclidean.rows["MvHE"][3].mean == pytest.approx(70.0)
    assert euclidean.rows["MvHE"][3].published == 84.1


def test_the_pca_dimension_is_traversed_as_in_the_paper():
    panel = one_panel("table-6", methods=("MvHE",))
    found = [[0.2, 0.9], [0.6, 0.5]]  # of the two repeats, by dimension: means of 0.4 and 0.7
    by_pca = [[{"pca": 20 + k, "score": s / 2, "euclidean": s} for k, s in enumerate(scores)] for scores in found]
    results = recorded(panel, lambda p: result(0.5, by_pca=by_pca[p.cell.repeat]))
    tables = tables_of(panel, results)
    entry = tables["table-6-traversed-all"].rows["MvHE"][0]
    assert (entry.mean, entry.sd, entry.published) == (pytest.approx(70.0), pytest.approx(20.0), 90.2)
    entry = tables["table-6-traversed-every"].rows["MvHE"][0]
    assert (entry.mean, entry.sd, entry.published) == (pytest.approx(75.0), pytest.approx(15.0), 90.2)


def test_committees_have_rows_of_their_own():
    panel = one_panel("table-6", methods=("MvHE",), n_members=8)
    assert panel.rows == ["MvHE", "MvHE × 8"]
    by_pca = [{"pca": k, "score": 0.4, "euclidean": 0.4} for k in (20, 40)]
    results = recorded(panel, lambda p: result(0.8, 0.7, by_pca=by_pca, committee=result(0.9)))
    tables = tables_of(panel, results)
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
    assert first.mean is None
    assert first.note == "2 of 2 failed: no scatter within classes"
    assert (second.mean, second.sd) == (50.0, None)
    assert second.note == "1 of 2 failed: no scatter within classes"
    assert third.note == ""


def test_a_method_that_does_not_suit_the_data_is_not_applicable():
    panel = one_panel("table-6", methods=("GMA",))
    failure = {"type": "NotApplicableError", "message": "GMA needs more", "traceback": ""}
    results = {p.cell: replace(record(p.cell, error=""), error=failure) for p in panel.places}
    entry = items(panel, results)[0].rows["GMA"][0]
    assert entry.note == "not applicable: GMA needs more"
    assert absent(entry) == "n/a"


@pytest.mark.parametrize(("scores", "tied"), [((0.4, 0.8) * 3, ["B", "A"]), ((0.5,) * 6, ["B"]), ((0.4, 0.8), ["B"])])
def test_ties_are_told_by_the_splits(scores, tied):
    """A is behind by 0.1 on average: with differences that vary much a tie, with equal ones not."""
    repeats = plan("table-6", Effort(repeats=len(scores), methods=("MvHE",), cases=(1,)), everything).panels[0].places
    cells = [place.cell for place in repeats]
    places = tuple(Place(row, "x", replace(cell, data=row)) for row in ("A", "B") for cell in cells)
    panel = Panel("comparison", "", "accuracy", places)
    found = {"A": scores, "B": [0.7] * len(scores)}
    results = recorded(panel, lambda p: result(found[p.row][p.cell.repeat]))
    best, others, over = rank(panel, results)
    assert best + others == tied
    assert over == ("splits" if len(scores) >= 5 else "")


def test_a_table_of_two_views_has_both_directions():
    panel = one_panel("table-1", methods=("PLS",))
    table = items(panel, recorded(panel, lambda p: result(0.2)))[0]
    assert table.columns[:2] == ["HFB NIR-VIS", "HFB VIS-NIR"]
    assert [entry.mean for entry in table.rows["PLS"][:2]] == [pytest.approx(20.0), pytest.approx(30.0)]
    assert [entry.published for entry in table.rows["PLS"][:2]] == [23.3, 20.3]


def test_loss_is_relative_to_clean_labels():
    panel = one_panel("table-7", methods=("KMvHE",))
    table, accuracy, loss = items(panel, recorded(panel, lambda p: result(0.8 - p.cell.outliers)))
    assert [entry.loss for entry in table.rows["KMvHE"]] == pytest.approx([0.0, 12.5, 25.0, 37.5, 50.0])
    assert [entry.published_loss for entry in table.rows["KMvHE"]] == [0.0, 1.1, 2.0, 3.1, 3.3]
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


def test_heat_maps_are_means_over_repeats():
    panel = one_panel("figure-parameters", methods=("MvHE",))
    weights = [(a, b) for a in (0.1, 1.0) for b in (0.5, 5.0)]

    def by_parameters(repeat):
        return {
            "weights": [{"lambda_intra": a, "lambda_inter": b, "score": a * b / 10 + repeat / 10} for a, b in weights],
            "neighbours": [{"n_within": 1, "n_between": 5, "score": 0.5}],
            "beta": [{"beta": 0.1, "score": 0.2 + 0.2 * repeat}],
        }

    results = recorded(panel, lambda p: result(0.5, by_parameters=by_parameters(p.cell.repeat)))
    maps, neighbours, beta = items(panel, results)
    assert (maps.y, maps.x) == (["0.1", "1"], ["0.5", "5"])
    np.testing.assert_allclose(maps.maps["MvHE"], [[5.5, 10.0], [10.0, 55.0]])
    assert neighbours.x_label == "p2"
    assert (beta.curves["MvHE"].y, beta.curves["MvHE"].sd) == ([pytest.approx(30.0)], [pytest.approx(10.0)])


@pytest.fixture(scope="module")
def compared():
    data = cv.datasets.make_turntable(12, size=12, random_state=0)
    search = Search(pca=(8,), n_iter=2, n_members=2)
    panel = comparison("turntable", {}, ["PCA", "MvDA"], Split("classes", 8, 2, 0), search, ["MvDA"])
    return data, panel, recorded(panel, lambda p: run_cell(p.cell, data))


def test_what_is_shown_is_what_was_scored(compared):
    data, panel, results = compared
    for place in panel.places:
        found = results[place.cell].result
        shown = map_test_samples(place, results, data)
        found = found[place.part] if place.part else found
        assert cv.metrics.mean_accuracy(shown.latents, data.y[shown.rows], shown.metric) == found["score"]


def test_infinite_parameters_are_used_for_what_is_shown(compared):
    data, _, _ = compared
    search = Search(pca=(8,), n_folds=2, n_members=2, grid={"coupling": [np.inf], "n_components": [3]})
    panel = comparison("turntable", {}, ["MvHE"], Split("classes", 8, 1, 0), search, ["MvHE"])
    results = recorded(panel, lambda p: run_cell(p.cell, data))
    for place in panel.places:
        found = results[place.cell].result
        shown = map_test_samples(place, results, data)
        found = found[place.part] if place.part else found
        assert cv.metrics.mean_accuracy(shown.latents, data.y[shown.rows], shown.metric) == found["score"]


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
        "crossview.report.compose.map_test_samples",
        lambda place, *others: fitted.append(place.row) or map_test_samples(place, *others),
    )
    comparison_report(panel, results, data, "crossview compare")
    assert len(fitted) == 2
    fitted.clear()
    features = cv.Views(data.views.arrays, data.view_names)
    comparison_report(panel, results, replace(data, views=features), "crossview compare")
    assert fitted == []


def test_matches_are_ranked_by_distance(compared):
    data, panel, results = compared
    place = [p for p in panel.places if p.row == "MvDA"][-1]
    shown = map_test_samples(place, results, data)
    browser = matches("matches", "Matches", {"MvDA": shown}, data)
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


def test_matches_need_images(compared):
    data = cv.datasets.make_manifolds(random_state=0)
    with pytest.raises(ValueError, match="there are no images to show"):
        matches("matches", "Matches", {}, data)


def test_a_comparison_is_reported_whole(compared):
    data, panel, results = compared
    report = comparison_report(panel, results, data, "crossview compare turntable")
    assert {ResultTable, Bars, Curves, Embeddings, MatchBrowser} <= {type(item) for item in report.items}
    assert report.command == "crossview compare turntable"
    table, by_direction = comparison_tables(panel, results)
    scores = [results[p.cell].result["score"] for p in panel.places if p.row == "MvDA"]
    assert table.rows["MvDA"][0].mean == pytest.approx(100 * np.mean(scores))
    assert f"{max(entries[0].mean for entries in table.rows.values()):.1f} %" in report.summary
    assert "over folds of classes" in report.summary
    assert by_direction.columns[:2] == ["V2 in V1", "V3 in V1"]
    matrix = [results[p.cell].result["accuracy"][0][1] for p in panel.places if p.row == "MvDA"]
    assert by_direction.rows["MvDA"][0].mean == pytest.approx(100 * np.mean(matrix))
    columns = {"accuracy": "score", "one-shot": "one_shot", "mean average precision": "average_precision"}
    columns |= {"with counterparts": "with_counterparts", "in validation": "held_out_score"}
    assert table.columns == list(columns)
    for row, part in (("MvDA", "metric"), ("MvDA × 2", "committee")):
        found = [results[p.cell].result for p in panel.places if p.row == row]
        for entry, name in zip(table.rows[row], columns.values(), strict=True):
            values = [(one[part] if part == "committee" else one)[name] for one in found]
            assert entry.mean == pytest.approx(100 * np.mean(values))
    assert report.next_command == ""
    tune = "crossview tune turntable"
    assert comparison_report(panel, results, data, "", tune=tune).next_command.startswith(f"{tune} --method ")


def test_results_at_chance_are_called_so(compared):
    _, panel, results = compared
    worse = {
        cell: replace(found, result=found.result | {"score": found.result["chance"]}) for cell, found in results.items()
    }
    table, _ = comparison_tables(panel, worse)
    assert table.rows["PCA"][0].note == AT_CHANCE
    assert comparison_tables(panel, results)[0].rows["MvDA"][0].note == ""


def test_a_comparison_in_which_all_failed_is_reported(compared):
    data, panel, _ = compared
    report = comparison_report(panel, recorded(panel, lambda p: "not enough samples"), data, "")
    assert report.title.endswith(": no method could be run")
    assert "No method could be run. PCA: not enough samples MvDA: not enough samples" in report.summary
    assert [type(item) for item in report.items] == [Facts, Facts]
    assert report.items[0].rows == {"PCA": "not enough samples", "MvDA": "not enough samples"}


def test_a_comparison_in_which_every_method_failed_once_has_no_best(compared):
    _, panel, results = compared
    some = {cell: record(cell, error="singular") if cell.repeat else found for cell, found in results.items()}
    summary = comparison_summary(panel, some)
    assert summary.startswith("No method of 2 has a result in every split.")
    assert "Trained on" in summary


def test_a_reproduction_has_a_section_for_every_experiment():
    experiments = [plan(name, QUICK, everything) for name in ("table-5", "table-7", "figure-parameters")]
    parameters = {
        "weights": [{"lambda_intra": 0.1, "lambda_inter": 0.1, "score": 0.5}],
        "neighbours": [{"n_within": 1, "n_between": 5, "score": 0.5}],
        "beta": [{"beta": 0.1, "score": 0.5}],
    }
    results = {c: record(c, result(0.5, by_parameters=parameters)) for e in experiments for c in e.cells}
    report = reproduction_report(experiments, results, None, "crossview reproduce all")
    assert [section.title.partition(":")[0] for section in report.sections] == [
        "Table 5 of the paper",
        "Table 7 of the paper",
        "Effect of the parameters (figure-parameters)",
        "Environment",
    ]
    assert any(isinstance(item, HeatMaps) for item in report.sections[2].items)


def test_a_reproduction_shows_matches_of_its_best_method(compared):
    data, panel, results = compared
    experiment = Experiment("table-6", "Objects", (panel,))
    report = reproduction_report([experiment], results, lambda name, options: data, "")
    (browser,) = [item for item in report.sections[0].items if isinstance(item, MatchBrowser)]
    means = {row: entry[0].mean for row, entry in comparison_tables(panel, results)[0].rows.items()}
    best = max(means, key=means.get)
    assert all(name.startswith(f"{best}: ") for name in browser.probes)


def test_what_cannot_run_is_in_the_report():
    experiment = plan("table-4", QUICK, lambda data, options: "poses are missing")
    report = reproduction_report([experiment], {}, None, "")
    assert report.sections[0].text == "cmu-pie case 5 cannot run: poses are missing"


def few(kind="samples", n_train=20, repeats=2, methods=("PCA", "MvDA", "CCA", "LDA")):
    return comparison("digits", {}, methods, Split(kind, n_train, repeats), Search(), [])


def refused(cell):
    failure = {"type": "NotApplicableError", "message": "CCA takes 2 views, got 3", "traceback": ""}
    return replace(record(cell, error=""), error=failure)


def test_methods_that_did_not_run_are_not_counted():
    panel = few()
    scores = {"PCA": 0.5, "MvDA": 0.9, "LDA": "singular"}
    results = {p.cell: refused(p.cell) for p in panel.places if p.row == "CCA"}
    results |= recorded(
        replace(panel, places=tuple(p for p in panel.places if p.row != "CCA")),
        lambda p: found if isinstance(found := scores[p.row], str) else result(found),
    )
    summary = comparison_summary(panel, results, "A remark.")
    assert summary.startswith("The best of 2 methods (1 not applicable, 1 failed) is MvDA, with 90.0 %.")
    assert "With fewer than 5 splits, differences may be noise." in summary
    assert "in 2 random splits. A remark. Parameters" in summary
    assert "A probe's own counterpart, the same sample in the other view, is left out of the gallery" in summary
    assert "over folds of classes, although the test is on new samples" in summary
    facts = comparison_facts(panel, results)
    assert facts["not_applicable"] == {"CCA": "CCA takes 2 views, got 3"}
    assert facts["failures"] == {"LDA": "singular"}
    assert (facts["best"], facts["tied"]) == (["MvDA"], [])
    assert facts["sizes"] == {"train": {"samples": 100, "classes": 10}, "test": {"samples": 90, "classes": 9}}


def committees(n_members, methods=("PCA", "MvHE", "KMvHE")):
    """A panel with committees of eight, and results in which they have some number of members."""
    panel = comparison("digits", {}, methods, Split("samples", 20, 2), Search(n_members=8), ["MvHE", "KMvHE"])
    members = result(0.9, members=[{}] * n_members)
    return panel, recorded(panel, lambda p: result(0.8, **({} if p.row == "PCA" else {"committee": members})))


def test_committees_are_counted_and_explained():
    panel, results = committees(8)
    summary = comparison_summary(panel, results)
    assert summary.startswith("The best of 3 methods and 2 committees are MvHE × 8 and KMvHE × 8")
    note = "MvHE × 8 is a committee of the 8 best settings of the search."
    assert committee_note(panel, results) == note
    assert comparison_tables(panel, results)[0].caption.endswith(note)
    panel, results = committees(8, methods=("MvHE",))
    assert "The best of 1 method and 1 committee is MvHE × 8" in comparison_summary(panel, results)
    alone = few()
    assert committee_note(alone, recorded(alone, lambda p: result(0.5))) == ""
    assert "committee" not in comparison_summary(alone, recorded(alone, lambda p: result(0.5)))


@pytest.mark.parametrize(
    ("members", "last", "ends"),
    [
        (8, 8, "of the search."),
        (6, 6, "of the search; here of 6, as the search found no more."),
        (6, 4, "of the search; here of 4 to 6, as the search found no more."),
        (1, 1, "of the search. In 4 of 4 searches, it was no better than the best setting, shown instead."),
        (6, 1, "found no more. In 1 of 4 searches, it was no better than the best setting, shown instead."),
    ],
)
def test_committees_with_fewer_members_say_so(members, last, ends):
    panel, results = committees(members)
    cell = panel.places[-1].cell
    results[cell] = record(cell, result(0.8, committee=result(0.9, members=[{}] * last)))
    note = committee_note(panel, results)
    assert note.startswith("MvHE × 8 is a committee of the 8 best settings of the search")
    assert note.endswith(ends)


def test_training_samples_in_one_view_only_are_counted():
    panel = few()
    summary = comparison_summary(panel, recorded(panel, lambda p: result(0.5, n_train_single=3)))
    assert "Trained on 100 samples of 10 classes (3 of the samples in one view only), tested on" in summary
    for more in ({}, {"n_train_single": 0}):  # also results that were stored before these were counted
        assert "in one view only" not in comparison_summary(panel, recorded(panel, lambda p, m=more: result(0.5, **m)))


def test_numbers_of_one_are_singular():
    panel = few(repeats=1, methods=("PCA",))
    one = {"n_train": 1, "n_train_classes": 1, "n_test": 1, "n_test_classes": 1, "skipped": 1, "probes": 1}
    summary = comparison_summary(panel, recorded(panel, lambda p: result(1.0, **one)))
    assert "Trained on 1 sample of 1 class, tested on 1 sample of 1 class" in summary
    assert "in 1 random split." in summary
    assert "Not scored: 1 probe of 1, whose class the gallery lacks." in summary
    assert "The only method is PCA" in summary
    assert "counterpart" not in summary


@pytest.mark.parametrize(
    ("new", "said"),
    [(0, "all seen in training"), (9, "none of them seen in training"), (4, "4 of them not seen in training")],
)
def test_a_given_test_set_says_which_classes_are_new(new, said):
    panel = comparison("a/x.npz", {"test_data": "b/y.npz"}, ["PCA", "MvDA"], Split("given", 100, 1), Search())
    assert panel.columns == ["y.npz, trained on x.npz"]
    scores = {"PCA": [0.0, 1.0, 0.5] * 30, "MvDA": [1.0, 1.0, 0.5] * 30}
    more = {
        "sample_classes": np.repeat(range(9), 10).tolist(),
        "tests_on": "classes" if new > 5 else "samples",
        "n_new_classes": new,
    }
    results = recorded(panel, lambda p: result(np.mean(scores[p.row]), sample_scores=scores[p.row], **more))
    assert f"90 samples of 9 classes, {said}, in the given test set." in comparison_summary(panel, results)
    table, by_direction = comparison_tables(panel, results)
    assert (table.rows["PCA"][0].sd, by_direction.rows["PCA"][0].se) == (None, None)
    unit = "test classes" if new > 5 else "test samples"
    assert table.spread == f"standard error over the {unit}"
    if new <= 5:
        assert table.rows["PCA"][0].se == pytest.approx(100 * np.std(scores["PCA"], ddof=1) / np.sqrt(90))


def test_classes_of_a_common_space_are_from_all_over_the_test_samples():
    np.testing.assert_array_equal(spread_out(np.arange(100), 5), [0, 25, 50, 74, 99])
    np.testing.assert_array_equal(spread_out(np.arange(3), 8), [0, 1, 2])
    data = cv.datasets.make_turntable(30, size=8, random_state=0)
    labels = list(dict.fromkeys(data.y[drawn_samples(data.y)].astype(str)))
    names = [str(label) for label in np.unique(data.y)]
    assert len(labels) == 8
    assert [labels[0], labels[-1]] == [names[0], names[-1]]


def test_directions_of_many_views_are_also_maps():
    panel = few(repeats=1, methods=("PCA",))
    accuracy = [[None if g == p else 0.1 * g + 0.01 * p for p in range(4)] for g in range(4)]
    four = recorded(panel, lambda p: result(0.5, views=list("abcd"), accuracy=accuracy))
    (maps,) = direction_maps(panel, four, ["PCA"])
    assert maps.maps["PCA"][2][1] == pytest.approx(21.0)
    assert np.isnan(maps.maps["PCA"][1][1])
    assert direction_maps(panel, recorded(panel, lambda p: result(0.5)), ["PCA"]) == []
