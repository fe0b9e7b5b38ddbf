"""Whole reports: of a comparison of methods on some data, and of the paper's experiments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell
from crossview.experiments.environment import environment
from crossview.experiments.plans import Panel, Place
from crossview.report.document import Bars, Entry, Facts, Report, ResultTable, Section
from crossview.report.results import Results, at_chance, cmc_curves, directions, entries, euclidean_only, tied_with_best
from crossview.report.samples import embeddings, map_test_samples, matches

__all__ = [
    "AT_CHANCE",
    "comparison_report",
    "comparison_summary",
    "comparison_tables",
    "environment_section",
    "first_places",
    "has_result",
    "ranked_rows",
]

Load = Callable[[str, Mapping[str, Any]], Dataset]

_BROWSED = 2  # methods whose matches are shown
_TESTED = {"classes": "other classes", "samples": "classes, all seen in training"}

AT_CHANCE = "no better than chance"
"""Note on a result that random matches would have reached."""


def comparison_report(panel: Panel, results: Results, data: Dataset, command: str) -> Report:
    """How methods compare on some data."""
    first = first_places(panel, panel.columns[0])
    shown = {
        row: map_test_samples(place, results[place.cell].result or {}, data)
        for row, place in first.items()
        if has_result(results, place)
    }
    tables = comparison_tables(panel, results)
    table = tables[0]
    accuracy = {row: found[:1] for row, found in table.rows.items()}
    bars = Bars("accuracy-bars", "Accuracy of every method", table.columns[:1], accuracy)
    sections = [Section("Accuracy", [table, bars, *tables[1:]])]
    if shown:
        sections.append(Section("How soon a match is found", cmc_curves(panel, results)))
        caption = (
            "Test samples of the first split, of up to eight classes, in the two directions in which they extend most "
            "in the common space of each method. It has more dimensions than two: a picture without order may still "
            "match well."
        )
        sections.append(
            Section("Common spaces", [embeddings("embeddings", "Embeddings in the plane", shown, data, caption)])
        )
    if shown and data.image_shape is not None:
        best = ranked_rows(accuracy, shown)[:_BROWSED]
        browsed = {row: shown[row] for row in best}
        caption = (
            f"Some test samples of the first split, by the best methods: {' and '.join(best)}. Below every match is "
            "its distance, in the measure that was chosen."
        )
        sections.append(Section("Matches", [matches("matches", "Match browser", browsed, data, caption)]))
    alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
    seconds = {
        row: [fit[0], search[0]]
        for (row, fit), search in zip(
            entries(alone, results, lambda r: r["seconds"]["fit"], 1.0).items(),
            entries(alone, results, lambda r: r["seconds"]["search"], 1.0).values(),
            strict=True,
        )
    }
    times = ResultTable(
        "times", "Training times", ["a fit", "the search"], seconds, "Seconds.", unit="s", best="lowest", digits=4
    )
    sections.append(Section("Time", [times]))
    chosen = {
        row: _sentence(results[place.cell].result)
        for row, place in first.items()
        if has_result(results, place) and not place.part
    }
    if chosen:
        sections.append(
            Section("Parameters", [Facts("chosen", "Chosen on the training samples of the first split", chosen)])
        )
    sections.append(environment_section([place.cell for place in panel.places], data))
    return Report(
        f"Comparison on {panel.columns[0]}",
        f"{data.description} {comparison_summary(panel, results)}",
        sections,
        command,
    )


def comparison_summary(panel: Panel, results: Results) -> str:
    """What a comparison was made with, and which methods are the best, in a few sentences."""
    result = next((results[place.cell].result for place in panel.places if has_result(results, place)), None)
    if result is None:
        return "No method could be run."
    splits = len({place.cell.repeat for place in panel.places})
    sentences = [
        f"Trained on {result['n_train']} samples of {result['n_train_classes']} classes, tested on {result['n_test']} "
        f"samples of {result['n_test_classes']} {_TESTED[panel.places[0].cell.split.kind]}, in {splits} random "
        f"split{'s' * (splits > 1)}. Parameters were chosen by cross-validation over folds of {result['folds_of']}. "
        f"Random matches would score {100 * result['chance']:.1f} %."
    ]
    if result["skipped"]:
        sentences.append(
            f"{result['skipped']} of {result['probes']} probes were left out of the first split's scores: the gallery "
            "has no sample of their class."
        )
    best, *ties = tied_with_best(panel, results, panel.columns[0])
    score = 100 * entries(panel, results, lambda r: r["score"], 1.0)[best][0].mean  # type: ignore[operator]
    sentences.append(f"The best is {best}, with {score:.1f} %.")
    if ties:
        sentences.append(f"Tied with it, within two standard errors over the splits: {', '.join(ties)}.")
    return " ".join(sentences)


def comparison_tables(panel: Panel, results: Results) -> list[ResultTable]:
    """Accuracy of every method on one data set, altogether and by direction."""
    parts = {
        "accuracy": entries(panel, results, lambda r: r["score"]),
        "mean average precision": entries(panel, results, lambda r: r["average_precision"]),
        "among 5 nearest classes": entries(panel, results, lambda r: r["cmc"][min(4, len(r["cmc"]) - 1)]),
        "Euclidean only": entries(panel, results, euclidean_only),
        "in validation": entries(panel, results, lambda r: r["best_score"]),
    }
    rows: dict[str, list[Entry]] = {row: [part[row][0] for part in parts.values()] for row in panel.rows}
    for row, found in rows.items():
        if at_chance(panel, results, row, panel.columns[0]):
            found[0] = replace(found[0], note=AT_CHANCE)
    caption = (
        "Accuracy is the share of probes whose nearest sample of the gallery is of their class: the mean over the "
        "ordered pairs of views, ± standard deviation over random splits. Parameters, the distance among them, were "
        "chosen on training samples only, by the last column, their score in cross-validation: it tells parameters "
        "apart, but is no forecast, since folds have fewer samples to choose among. Euclidean only: with that "
        "distance. A row such as MvHE × 8 is a committee of the eight best settings of the search."
    )
    table = ResultTable(panel.key, panel.title, list(parts), rows, caption)
    by_direction = directions(panel, results)
    return [table] if by_direction is None else [table, by_direction]


def first_places(panel: Panel, column: str) -> dict[str, Place]:
    """The place of the first split, for every row of a column."""
    places: dict[str, Place] = {}
    for place in panel.places:
        if place.column == column:
            places.setdefault(place.row, place)
    return places


def has_result(results: Results, place: Place) -> bool:
    """Whether a cell was computed."""
    return results[place.cell].result is not None


def ranked_rows(accuracy: Mapping[str, Sequence[Entry]], among: Mapping[str, Any]) -> list[str]:
    """Rows from the best to the worst."""
    means = {row: found[0].mean for row, found in accuracy.items() if row in among and found[0].mean is not None}
    return sorted(means, key=lambda row: -(means[row] or 0.0))


def _sentence(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return ""
    chosen = {**result["best_params"], "metric": result["metric"]}
    return ", ".join(f"{name} = {value}" for name, value in chosen.items())


def environment_section(cells: Sequence[Cell], data: Dataset | None = None) -> Section:
    """What results were computed with."""
    facts = {"crossview": __version__, **environment(), "cores": str(os.cpu_count())}
    if cells:
        search = cells[0].search.to_dict()
        facts["repeats"] = str(len({cell.repeat for cell in cells}))
        splits = {(cell.data, cell.split.kind, cell.split.n_train, cell.split.seed): None for cell in cells}
        facts["split"] = "; ".join(
            f"{name}: {n_train} {kind}{' of every class' * (kind == 'samples')} to train with, seed {seed}"
            for name, kind, n_train, seed in splits
        )
        facts["search"] = ", ".join(f"{name} = {value}" for name, value in search.items() if name != "grid")
    if data is not None:
        facts["data"] = f"{data.views!r}; {len(np.unique(data.y))} classes"
        facts |= {"source": data.citation} if data.citation else {}
    return Section("Environment", [Facts("environment", "What computed this", facts)])
