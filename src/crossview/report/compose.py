"""Whole reports: of a comparison of methods on some data, and of the paper's experiments."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crossview.datasets import Dataset
from crossview.experiments.cells import Cell
from crossview.experiments.environment import environment
from crossview.experiments.plans import Experiment, Panel
from crossview.report.document import Bars, Entry, Facts, Item, Report, ResultTable, Section
from crossview.report.results import Results, cmc_curves, entries, items
from crossview.report.showcase import Shown, embeddings, matches, show

__all__ = ["comparison_report", "reproduction_report"]

Load = Callable[[str, Mapping[str, Any]], Dataset]

_BROWSED = 2  # methods whose matches are shown


def comparison_report(panel: Panel, results: Results, data: Dataset, command: str) -> Report:
    """How methods compare on some data.

    Parameters
    ----------
    panel : Panel
        Methods × one column.
    results : mapping of Cell to Record
        The results.
    data : Dataset
        The data.
    command : str
        What made them.
    """
    first = _first(panel, panel.columns[0])
    shown = {row: show(cell, results[cell].result or {}, data) for row, cell in first.items() if results[cell].result}
    table = comparison_table(panel, results)
    accuracy = {row: found[:1] for row, found in table.rows.items()}
    sections = [
        Section("Accuracy", [table, Bars("accuracy-bars", "Accuracy of every method", table.columns[:1], accuracy)]),
    ]
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
        best = _best(accuracy, shown)[:_BROWSED]
        browsed = {row: shown[row] for row in best}
        caption = (
            f"Some test samples of the first split, by the best methods: {' and '.join(best)}. Below every match is "
            "its distance, in the measure that was chosen."
        )
        sections.append(Section("Matches", [matches("matches", "Match browser", browsed, data, caption)]))
    seconds = {
        row: [fit[0], search[0]]
        for (row, fit), search in zip(
            entries(panel, results, lambda r: r["seconds"]["fit"], 1.0).items(),
            entries(panel, results, lambda r: r["seconds"]["search"], 1.0).values(),
            strict=True,
        )
    }
    times = ResultTable(
        "times", "Training times", ["a fit", "the search"], seconds, "Seconds.", unit="s", best="lowest", digits=4
    )
    sections.append(Section("Time", [times]))
    chosen = {row: _sentence(results[cell].result) for row, cell in first.items() if results[cell].result}
    if chosen:
        sections.append(
            Section("Parameters", [Facts("chosen", "Chosen on the training samples of the first split", chosen)])
        )
    sections.append(_environment([place.cell for place in panel.places], data))
    winner = next(iter(_best(accuracy, shown)), None)
    result = next((results[cell].result for cell in first.values() if results[cell].result), None)
    summary = data.description
    if result is not None:
        splits = len({place.cell.repeat for place in panel.places})
        summary += (
            f" {result['n_train']} samples of {result['n_train_classes']} classes to train with, {result['n_test']} of "
            f"{result['n_test_classes']} to test with, in {splits} random splits; chance would find "
            f"{100 / result['n_test_classes']:.0f} %."
        )
    if winner is not None and accuracy[winner][0].mean is not None:
        summary += f" The best of {len(accuracy)} methods is {winner}, with {accuracy[winner][0].mean:.1f} %."
    return Report(f"Comparison on {panel.columns[0]}", summary, sections, command)


def comparison_table(panel: Panel, results: Results) -> ResultTable:
    """Accuracy of every method on one data set.

    Parameters
    ----------
    panel : Panel
        Methods × one column.
    results : mapping of Cell to Record
        The results.
    """
    parts = {
        "accuracy": entries(panel, results, lambda r: r["score"]),
        "Euclidean only": entries(panel, results, lambda r: r.get("euclidean", r)["score"]),
        "among 5 nearest classes": entries(panel, results, lambda r: r["cmc"][min(4, len(r["cmc"]) - 1)]),
        "in validation": entries(panel, results, lambda r: r["best_score"]),
    }
    rows: dict[str, list[Entry]] = {row: [part[row][0] for part in parts.values()] for row in panel.rows}
    caption = (
        "Accuracy is the share of probes whose nearest sample of the gallery is of their class: the mean over the "
        "ordered pairs of views, ± standard deviation over random splits. Parameters, the distance among them, were "
        "chosen on training samples only, by the last column, their score in cross-validation: it tells parameters "
        "apart, but is no forecast, since folds have fewer samples to choose among. Euclidean only: with that "
        "distance."
    )
    return ResultTable(panel.key, panel.title, list(parts), rows, caption)


def reproduction_report(experiments: Sequence[Experiment], results: Results, load: Load, command: str) -> Report:
    """The paper's tables and figures, published beside measured.

    Parameters
    ----------
    experiments : sequence of Experiment
        What was to be run.
    results : mapping of Cell to Record
        The results.
    load : callable
        Gives the data of a cell, by name and options.
    command : str
        What made them.
    """
    sections = []
    for experiment in experiments:
        found: list[Item] = []
        for panel in experiment.panels:
            found += _plane(panel, results, load) if panel.kind == "embeddings" else items(panel, results)
            if panel.kind in ("accuracy", "pairs"):
                found += _best_matches(panel, results, load)
        sections.append(Section(_head(experiment), found, "\n\n".join(experiment.missing)))
    cells = [cell for experiment in experiments for cell in experiment.cells]
    sections.append(_environment(cells))
    return Report(
        "Multi-view Hybrid Embedding: the paper's experiments",
        "Tables and figures of J. Xu et al., Multi-view Hybrid Embedding: A Divide-and-Conquer Approach, IEEE "
        "Transactions on Cybernetics, measured beside published. Splits are random and not the paper's; parameters "
        "were chosen on training classes only, but for the PCA dimension where a table says so. Few repeats or draws "
        "tell little: the splits of one seed may be better or worse by some points than those of another.",
        sections,
        command,
    )


def _plane(panel: Panel, results: Results, load: Load) -> list[Item]:
    shown: dict[str, Shown] = {}
    data = None
    for place in panel.places:
        if (result := results[place.cell].result) is not None:
            data = load(place.cell.data, dict(place.cell.options))
            shown[place.row] = show(place.cell, result, data)
    return [] if data is None else [embeddings(panel.key, panel.title, shown, data, "Test samples of the first split.")]


def _best_matches(panel: Panel, results: Results, load: Load) -> list[Item]:
    """Matches by the best method of the first column, in its first split."""
    accuracy = entries(panel, results, lambda r: r["score"])
    first = {row: cell for row, cell in _first(panel, panel.columns[0]).items() if results[cell].result}
    best = next(iter(_best(accuracy, first)), None)
    if best is None:
        return []
    cell = first[best]
    data = load(cell.data, dict(cell.options))
    if data.image_shape is None:
        return []
    shown = {best: show(cell, results[cell].result or {}, data)}
    caption = f"Test samples of the first split of {panel.columns[0]}, by its best method."
    return [matches(f"{panel.key}-matches", "Match browser", shown, data, caption)]


def _first(panel: Panel, column: str) -> dict[str, Cell]:
    """The cell of the first split, for every row of a column."""
    cells: dict[str, Cell] = {}
    for place in panel.places:
        if place.column == column:
            cells.setdefault(place.row, place.cell)
    return cells


def _best(accuracy: Mapping[str, Sequence[Entry]], among: Mapping[str, Any]) -> list[str]:
    """Rows from the best to the worst."""
    means = {row: found[0].mean for row, found in accuracy.items() if row in among and found[0].mean is not None}
    return sorted(means, key=lambda row: -(means[row] or 0.0))


def _sentence(result: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} = {value}" for name, value in (result or {}).get("best_params", {}).items())


def _environment(cells: Sequence[Cell], data: Dataset | None = None) -> Section:
    from crossview import __version__

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


def _head(experiment: Experiment) -> str:
    """The title, with the number that tables have in the paper, or the name that figures have here."""
    kind, _, number = experiment.name.partition("-")
    if kind == "table":
        return f"Table {number} of the paper: {experiment.title}"
    return f"{experiment.title} ({experiment.name})"
