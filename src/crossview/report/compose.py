"""The report of a comparison of methods on some data."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossview._text import counted
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell
from crossview.experiments.plans import Panel, Place
from crossview.experiments.runner import environment
from crossview.report.document import Bars, Entry, Facts, Report, ResultTable, Section
from crossview.report.formatting import listed
from crossview.report.ranking import rank, recommend, scores_of
from crossview.report.results import (
    RANDOM_SPLITS,
    Results,
    at_chance,
    cmc_curves,
    direction_maps,
    directions,
    records,
    tabulate,
)
from crossview.report.samples import embeddings, map_test_samples, matches
from crossview.report.summary import committee_note, comparison_summary, failures

_BROWSED = 2  # methods whose matches are shown
_MAPPED = 4  # methods whose directions are shown as heat maps

AT_CHANCE = "no better than chance"
"""Note on a result that random matches would have reached."""


def comparison_report(
    panel: Panel, results: Results, data: Dataset, command: str, remark: str = "", tune: str = ""
) -> Report:
    """The comparison of methods on some data.

    `remark` joins the summary; `tune` is the start of the command that trains what is recommended.
    """
    first = first_places(panel, results)
    summary = comparison_summary(panel, results, remark, data.description)
    recommended = recommend(panel, results, tune)
    environment = environment_section([place.cell for place in panel.places], data)
    title = f"Comparison on {panel.columns[0]}"
    if not first:
        reasons = Facts("reasons", "Why no method could be run", failures(panel, results))
        return Report(
            f"{title}: no method could be run", summary, [Section("No result", [reasons]), environment], command
        )
    found = {row: records(panel, results, row, panel.columns[0])[0].result or {} for row in first}
    where = "" if panel.places[0].cell.split.n_repeats == 1 else " of the first split"
    table, *others = comparison_tables(panel, results)
    accuracy = {row: entries[:1] for row, entries in table.rows.items()}
    bars = Bars("accuracy-bars", "Accuracy of every method", table.columns[:1], accuracy)
    maps = direction_maps(panel, results, ranked_rows(table.rows, accuracy)[:_MAPPED])
    caption = (
        f"Test samples{where}, of up to eight classes: the first two principal components of each method's common "
        "space. It has more dimensions, so classes that overlap here may still be matched well."
    )
    plane = embeddings("embeddings", "Embeddings in the plane", found, panel.places[0].cell, data, caption)
    sections = [
        Section("Accuracy", [table, bars, *others, *maps]),
        Section("How soon a match is found", cmc_curves(panel, results)),
        Section("Common spaces", [plane]),
    ]
    if data.image_shape is not None:
        best = ranked_rows(table.rows, first)[:_BROWSED]
        caption = (
            f"Some test samples{where}, by the best methods: {listed(best)}. Below every match is its distance, by the "
            "chosen metric."
        )
        mapped = {row: map_test_samples(first[row], results, data) for row in best}
        sections.append(Section("Matches", [matches("matches", "Match browser", mapped, data, caption)]))
    alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
    seconds = {"a fit": lambda r: r["seconds"]["fit"], "the search": lambda r: r["seconds"]["search"]}
    look: dict[str, Any] = {"caption": "Seconds.", "unit": "s", "best": "lowest", "digits": 4, "over": RANDOM_SPLITS}
    times = tabulate(alone, results, "times", "Training times", seconds, 1.0, **look)
    chosen = {
        row: _assignments({**found[row]["best_params"], "metric": found[row]["metric"]})
        for row, place in first.items()
        if not place.part
    }
    parameters = Facts("chosen", f"Chosen on the training samples{where}", chosen)
    sections += [Section("Time", [times]), Section("Parameters", [parameters]), environment]
    return Report(title, summary, sections, command, recommended.command if recommended else "")


def comparison_tables(panel: Panel, results: Results) -> list[ResultTable]:
    """Accuracy of every method on one data set, altogether and by direction."""
    values = {
        "accuracy": lambda r: r["score"],
        "one-shot": lambda r: r["one_shot"],
        "mean average precision": lambda r: r["average_precision"],
        "with counterparts": lambda r: r["with_counterparts"],
        "in validation": lambda r: r["held_out_score"],
    }
    caption = (
        "Accuracy is the share of probes whose nearest sample of the gallery is of their class: the mean over the "
        "ordered pairs of views. A probe's own counterpart, the same sample in the other view, is left out if its "
        "class has another sample there. One-shot: the accuracy with one enrolled sample per class. With counterparts: "
        "the accuracy if counterparts are left in, as in the paper. All parameters, including the distance, were "
        "chosen on training samples only, by cross-validation. The last column has the score there of the best "
        "parameters, chosen for every fold by the other folds. It ranks methods but does not predict accuracy, since "
        "folds have fewer samples to match with. "
        f"{committee_note(panel, results)}"
    ).strip()
    over = RANDOM_SPLITS if panel.places[0].cell.split.n_repeats > 1 else rank(panel, results).over
    table = tabulate(panel, results, panel.key, panel.title, values, caption=caption, over=over)
    rows = {row: [_accuracy(panel, results, row, first), *others] for row, (first, *others) in table.rows.items()}
    return [replace(table, rows=rows), *directions(panel, results)]


def _accuracy(panel: Panel, results: Results, row: str, entry: Entry) -> Entry:
    """The entry of an accuracy, with its standard error if there is one split, and a note if it is at chance."""
    note = AT_CHANCE if at_chance(panel, results, row) else entry.note
    scores = scores_of(records(panel, results, row, panel.columns[0]))
    error = scores.standard_error() if scores is not None and scores.over.startswith("test") else np.nan
    return replace(entry, se=None if np.isnan(error) else 100 * error, note=note)


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


def _training_part(kind: str, n_train: float) -> str:
    """What a split trains on."""
    if kind == "given":
        return f"the first {counted(int(n_train), 'sample')}"
    unit = {"classes": "class", "samples": "sample"}[kind]
    size = counted(int(n_train), unit) if n_train >= 1 else f"a share of {n_train:g} of the {kind}"
    return size + " of every class" * (kind == "samples")


def environment_section(cells: Sequence[Cell], data: Dataset | None = None) -> Section:
    """What results were computed with."""
    facts = {"crossview": __version__, **environment(), "cores": str(os.cpu_count())}
    if cells:
        facts["repeats"] = str(len({cell.repeat for cell in cells}))
        splits = {(cell.data, cell.split.kind, cell.split.n_train, cell.split.seed): None for cell in cells}
        facts["split"] = "; ".join(
            f"{name}: {_training_part(kind, n_train)} to train with, seed {seed}"
            for name, kind, n_train, seed in splits
        )
        facts["search"] = _assignments({k: v for k, v in cells[0].search.to_dict().items() if k != "grid"})
    if data is not None:
        facts["data"] = f"{data.views!r}; {counted(len(np.unique(data.y)), 'class')}"
        facts |= {"source": data.citation} if data.citation else {}
    return Section("Environment", [Facts("environment", "What computed this", facts)])
