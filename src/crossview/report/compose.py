"""The report of a comparison of methods on some data."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell
from crossview.experiments.plans import Panel, Place
from crossview.experiments.runner import environment
from crossview.report.document import Bars, Entry, Facts, Report, ResultTable, Section
from crossview.report.results import Results, at_chance, best_rows, cmc_curves, directions, euclidean, tabulate
from crossview.report.samples import embeddings, map_test_samples, matches

_BROWSED = 2  # methods whose matches are shown
_TESTED = {"classes": "other classes", "samples": "classes, all seen in training"}

AT_CHANCE = "no better than chance"
"""Note on a result that random matches would have reached."""


def comparison_report(panel: Panel, results: Results, data: Dataset, command: str) -> Report:
    """The comparison of methods on some data."""
    first = first_places(panel, results)
    mapped = {row: map_test_samples(place, results, data) for row, place in first.items()}
    table, *others = comparison_tables(panel, results)
    accuracy = {row: found[:1] for row, found in table.rows.items()}
    bars = Bars("accuracy-bars", "Accuracy of every method", table.columns[:1], accuracy)
    sections = [Section("Accuracy", [table, bars, *others])]
    if mapped:
        caption = (
            "Test samples of the first split, of up to eight classes: the first two principal components of each "
            "method's common space. It has more dimensions, so classes that overlap here may still be matched well."
        )
        plane = embeddings("embeddings", "Embeddings in the plane", mapped, data, caption)
        sections.append(Section("How soon a match is found", cmc_curves(panel, results)))
        sections.append(Section("Common spaces", [plane]))
    if mapped and data.image_shape is not None:
        best = ranked_rows(accuracy, mapped)[:_BROWSED]
        caption = (
            f"Some test samples of the first split, by the best methods: {' and '.join(best)}. Below every match is "
            "its distance, by the chosen metric."
        )
        browser = matches("matches", "Match browser", {row: mapped[row] for row in best}, data, caption)
        sections.append(Section("Matches", [browser]))
    alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
    seconds = {"a fit": lambda r: r["seconds"]["fit"], "the search": lambda r: r["seconds"]["search"]}
    look: dict[str, Any] = {"caption": "Seconds.", "unit": "s", "best": "lowest", "digits": 4}
    sections.append(Section("Time", [tabulate(alone, results, "times", "Training times", seconds, 1.0, **look)]))
    found = {row: results[place.cell].result or {} for row, place in first.items() if not place.part}
    if chosen := {row: _assignments({**r["best_params"], "metric": r["metric"]}) for row, r in found.items()}:
        facts = Facts("chosen", "Chosen on the training samples of the first split", chosen)
        sections.append(Section("Parameters", [facts]))
    sections.append(environment_section([place.cell for place in panel.places], data))
    summary = f"{data.description} {comparison_summary(panel, results)}"
    return Report(f"Comparison on {panel.columns[0]}", summary, sections, command)


def comparison_summary(panel: Panel, results: Results) -> str:
    """What a comparison was made with, and which methods are the best, in a few sentences."""
    result = next(filter(None, (results[place.cell].result for place in panel.places)), None)
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
    if best := best_rows(panel, results, panel.columns[0]):
        score = comparison_tables(panel, results)[0].rows[best[0]][0].mean
        sentences.append(f"The best is {best[0]}, with {score:.1f} %.")
    if best[1:]:
        sentences.append(f"Tied with it, within two standard errors over the splits: {', '.join(best[1:])}.")
    return " ".join(sentences)


def comparison_tables(panel: Panel, results: Results) -> list[ResultTable]:
    """Accuracy of every method on one data set, altogether and by direction."""
    values = {
        "accuracy": lambda r: r["score"],
        "mean average precision": lambda r: r["average_precision"],
        "among 5 nearest classes": lambda r: r["cmc"][min(4, len(r["cmc"]) - 1)],
        "Euclidean only": euclidean,
        "in validation": lambda r: r["best_score"],
    }
    caption = (
        "Accuracy is the share of probes whose nearest sample of the gallery is of their class: the mean over the "
        "ordered pairs of views, ± standard deviation over random splits. All parameters, including the distance, were "
        "chosen on training samples only, by their score in cross-validation (last column). That score ranks "
        "parameters but does not predict accuracy, since folds have fewer samples to match with. Euclidean only: the "
        "accuracy with that distance. A row such as MvHE × 8 is a committee of the eight best settings of the search."
    )
    table = tabulate(panel, results, panel.key, panel.title, values, caption=caption)
    rows = {
        row: [replace(first, note=AT_CHANCE) if at_chance(panel, results, row, panel.columns[0]) else first, *others]
        for row, (first, *others) in table.rows.items()
    }
    return [replace(table, rows=rows), *directions(panel, results)]


def first_places(panel: Panel, results: Results) -> dict[str, Place]:
    """The place of the first split, for every row of the first column that has a result there."""
    places: dict[str, Place] = {}
    for place in panel.places:
        if place.column == panel.places[0].column:
            places.setdefault(place.row, place)
    return {row: place for row, place in places.items() if results[place.cell].result is not None}


def ranked_rows(accuracy: Mapping[str, Sequence[Entry]], among: Mapping[str, Any]) -> list[str]:
    """Rows from the best to the worst."""
    means = {row: found[0].mean for row, found in accuracy.items() if row in among and found[0].mean is not None}
    return sorted(means, key=lambda row: -(means[row] or 0.0))


def _assignments(values: Mapping[str, Any]) -> str:
    """Names and values on one line."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def environment_section(cells: Sequence[Cell], data: Dataset | None = None) -> Section:
    """What results were computed with."""
    facts = {"crossview": __version__, **environment(), "cores": str(os.cpu_count())}
    if cells:
        facts["repeats"] = str(len({cell.repeat for cell in cells}))
        splits = {(cell.data, cell.split.kind, cell.split.n_train, cell.split.seed): None for cell in cells}
        facts["split"] = "; ".join(
            f"{name}: {n_train} {kind}{' of every class' * (kind == 'samples')} to train with, seed {seed}"
            for name, kind, n_train, seed in splits
        )
        facts["search"] = _assignments({k: v for k, v in cells[0].search.to_dict().items() if k != "grid"})
    if data is not None:
        facts["data"] = f"{data.views!r}; {len(np.unique(data.y))} classes"
        facts |= {"source": data.citation} if data.citation else {}
    return Section("Environment", [Facts("environment", "What computed this", facts)])
