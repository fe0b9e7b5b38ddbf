"""The report of a comparison of methods on some data, and the tables and figures that results turn into."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._text import counted
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, Record, decoded
from crossview.experiments.plans import Panel, Place, method_of
from crossview.experiments.runner import environment
from crossview.experiments.tasks import drawn_samples, spread_out
from crossview.model_selection.committee import Committee
from crossview.model_selection.tuning import standard_pipeline
from crossview.neighbours.distances import distances_in_chunks, nearest
from crossview.report.document import (
    Curve,
    Curves,
    Embeddings,
    Entry,
    Facts,
    Item,
    MatchBrowser,
    Report,
    ResultTable,
    Section,
)
from crossview.report.ranking import (
    AT_CHANCE,
    Results,
    at_chance,
    comparison_summary,
    finished,
    known_scores,
    not_applicable,
    rank,
    recommend,
    records,
    scores_of,
)
from crossview.report.tables import listed
from crossview.views import Views

Value: TypeAlias = Callable[[Mapping[str, Any]], float]

_BROWSED = 2  # methods whose matches are shown
_PROBES, _RANKS = 24, 8  # of a match browser


def comparison_report(panel: Panel, results: Results, data: Dataset, command: str, remark: str, tune: str) -> Report:
    """The comparison of methods on some data.

    `remark` joins the summary; `tune` is the start of the command that trains what is recommended.
    """
    first = first_places(panel, results)
    summary = comparison_summary(panel, results, remark, data.description)
    recommended = recommend(panel, results, tune)
    environment = environment_section([place.cell for place in panel.places], data)
    found = {row: records(panel, results, row)[0].result or {} for row in first}
    where = "" if panel.places[0].cell.split.n_repeats == 1 else " of the first split"
    tables = comparison_tables(panel, results)
    caption = (
        f"Test samples{where}, of up to eight classes: the first two principal components of each method's common "
        "space. It has more dimensions, so classes that overlap here may still be matched well. The axes of each panel "
        "are stretched to fill it."
    )
    plane = embeddings("embeddings", "Embeddings in the plane", found, panel.places[0].cell, data, caption)
    sections = [
        Section("Accuracy", tables),
        Section("How soon a match is found", cmc_curves(panel, results)),
        Section("Common spaces", [plane] if found else []),
    ]
    best = list(known_scores(panel, results))[:_BROWSED]
    if data.image_shape is not None and best:
        caption = (
            f"Some test samples{where}, by the best methods: {listed(best)}. Below every match is its distance, by the "
            "chosen metric."
        )
        mapped = {row: map_test_samples(first[row], results, data) for row in best}
        sections.append(Section("Matches", [matches("matches", "Match browser", mapped, data, caption)]))
    alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
    seconds = {"a fit": lambda r: r["seconds"]["fit"], "the search": lambda r: r["seconds"]["search"]}
    look: dict[str, Any] = {"caption": "Seconds.", "unit": "s", "best": "lowest", "digits": 4, "over": "random splits"}
    times = _tabulate(alone, results, "times", "Training times", seconds, 1.0, **look)
    chosen = {
        row: _assignments({**found[row]["best_params"], "metric": found[row]["metric"]})
        for row, place in first.items()
        if not place.part
    }
    parameters = Facts("chosen", f"Chosen on the training samples{where}", chosen)
    sections += [Section("Time", [times]), Section("Parameters", [parameters]), environment]
    next_command = recommended["command"] if recommended else ""
    shown = [section for section in sections if section.items]
    return Report(f"Comparison on {panel.columns[0]}", summary, shown, command, next_command)


def comparison_tables(panel: Panel, results: Results) -> list[ResultTable]:
    """Accuracy of every method on one data set, altogether and, if anything was computed, by direction."""
    done = finished([results[place.cell] for place in panel.places])
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
        f"{committee_note(panel)}"
    ).strip()
    over = "random splits" if panel.places[0].cell.split.n_repeats > 1 else rank(panel, results).over
    table = _tabulate(panel, results, panel.key, panel.title, values, caption=caption, over=over)
    rows = {row: [_accuracy(panel, results, row, first), *others] for row, (first, *others) in table.rows.items()}
    tables = [replace(table, rows=rows)]
    if done:
        views = done[0]["views"]
        numbers = permutations(range(len(views)), 2)
        values = {name: pair_accuracy(g, p) for name, (g, p) in zip(direction_names(views), numbers, strict=True)}
        title = "Accuracy by direction: probe in gallery"
        caption = "Accuracy for probes of one view in a gallery of another."
        key = f"{panel.key}-directions"
        tables.append(_tabulate(panel, results, key, title, values, caption=caption, over="random splits"))
    return tables


def committee_note(panel: Panel) -> str:
    """What the rows of committees are; empty if there are none."""
    rows = [row for row in panel.rows if row != method_of(row)]
    n_members = max(place.cell.search.n_members for place in panel.places)
    return (
        f"{rows[0]} is a committee of the {n_members} best settings of the search, or of fewer if the search found no "
        "more, or if these were no better."
        if rows
        else ""
    )


def _tabulate(
    panel: Panel, results: Results, key: str, title: str, values: Mapping[str, Value], scale: float = 100.0, **more: Any
) -> ResultTable:
    """A table of several values, for every row of the first column of a panel."""
    found = {row: records(panel, results, row) for row in panel.rows}
    rows = {row: [entry(found[row], value, scale) for value in values.values()] for row in found}
    return ResultTable(key, title, list(values), rows, **more)


def _accuracy(panel: Panel, results: Results, row: str, entry: Entry) -> Entry:
    """The entry of an accuracy, with its standard error if there is one split, and a note if it is at chance."""
    note = AT_CHANCE if at_chance(panel, results, row) else entry.note
    scores = scores_of(records(panel, results, row))
    error = scores.standard_error() if scores is not None and scores.over.startswith("test") else np.nan
    return replace(entry, se=None if np.isnan(error) else 100 * error, note=note)


def first_places(panel: Panel, results: Results) -> dict[str, Place]:
    """The place of the first split, for every row of the first column that has a result there."""
    first = [place for place in panel.places if place.column == panel.columns[0] and place.cell.repeat == 0]
    return {place.row: place for place in first if results[place.cell].result is not None}


def entry(records: Sequence[Record], value: Value, scale: float = 100.0) -> Entry:
    """Mean and standard deviation of a value over repeats, and why some are missing."""
    values = [scale * value(result) for result in finished(records)]
    errors = [record.error["message"] for record in records if record.error is not None]
    note = f"{len(errors)} of {len(records)} failed" if errors else ""
    if not_applicable(records):
        note = "not applicable"
    return Entry(
        mean=float(np.mean(values)) if values else None,
        sd=float(np.std(values)) if len(values) > 1 else None,
        note=f"{note}: {errors[0]}" if errors else "",
    )


def direction_names(views: Sequence[str]) -> list[str]:
    """The names of all directions, gallery by gallery.

    >>> direction_names(["photo", "sketch"])
    ['sketch in photo', 'photo in sketch']
    """
    return [f"{probe} in {gallery}" for gallery, probe in permutations(views, 2)]


def pair_accuracy(gallery: int, probe: int) -> Value:
    """A function that returns the accuracy for one gallery and probe."""
    return lambda result: np.nan if (found := result["accuracy"][gallery][probe]) is None else float(found)


def cmc_curves(panel: Panel, results: Results) -> list[Item]:
    """Cumulative match curves, in one frame per column of a panel."""
    caption = (
        "The share of probes whose class is among the nearest classes of the gallery, up to the rank, averaged over "
        "the ordered pairs of views. A class is as near as its nearest sample."
    )
    frames: list[Item] = []
    for number, column in enumerate(panel.columns, 1):
        curves = {}
        for row in panel.rows:
            if done := finished(records(panel, results, row, column)):
                # At a rank of the number of classes, everything has been found.
                mean = 100 * np.mean([r["cmc"][: r["n_test_classes"]] for r in done], axis=0)
                curves[row] = Curve(range(1, len(mean) + 1), mean.tolist())
        title = f"Cumulative match curves, {column}"
        if curves:
            frames.append(Curves(f"{panel.key}-cmc-{number}", title, curves, "rank", "probes found, %", caption))
    return frames


@dataclass(frozen=True)
class MappedSamples:
    """The test samples of a split in the common space of a method."""

    latents: Views
    rows: NDArray[np.intp]  # of the data
    metric: str
    counterparts: bool  # whether the gallery keeps each probe's counterpart


def map_test_samples(place: Place, results: Results, data: Dataset, counterparts: bool = False) -> MappedSamples:
    """Fit a computed cell's method again with the parameters that its search found, and map the test samples."""
    cell, y = place.cell, np.asarray(data.y)
    result: Mapping[str, Any] = results[cell].result or {}
    train, test = cell.split.rows(y, cell.repeat)
    settings = result[place.part]["members"] if place.part else [result["best_params"]]
    members = [
        standard_pipeline(cell.method).set_params(**{name: decoded(value) for name, value in params.items()})
        for params in settings
    ]
    several = len(members) > 1  # the search keeps the best setting alone where a committee is no better
    model = Committee(members) if several else members[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings were recorded with the result
        latents = Views(model.fit(data.views[train], y[train]).transform(data.views[test]))
    return MappedSamples(latents, test, "euclidean" if several else result["metric"], counterparts)


def embeddings(
    key: str, title: str, found: Mapping[str, Mapping[str, Any]], cell: Cell, data: Dataset, caption: str = ""
) -> Embeddings:
    """The planes of several results on the split of a cell, all of the same samples."""
    y = np.asarray(data.y)
    _, test = cell.split.rows(y, cell.repeat)
    chosen = test[drawn_samples(y[test])]
    seen = dict(zip(data.views.names, data.views.mask.T, strict=True))
    views, rows = zip(*((view, row) for view in seen for row in chosen if seen[view][row]), strict=True)
    labels, names = [_class_name(data, y[row]) for row in rows], [f"sample {row}" for row in rows]
    planes = {name: np.array(result["plane"]) for name, result in found.items()}
    return Embeddings(key, title, planes, views, labels, names, caption)


def matches(
    key: str, title: str, mapped: Mapping[str, MappedSamples], data: Dataset, caption: str = ""
) -> MatchBrowser:
    """Probes and their ranked matches, for every method and ordered pair of views of images."""
    numbers: dict[tuple[int, int], int] = {}  # of the pictures, by view and row
    probes = {}
    for name, one in mapped.items():
        for g, p in permutations(range(len(one.latents.names)), 2):
            heading = f"{name}: {one.latents.names[p]} looked up in {one.latents.names[g]}"
            probes[heading] = _ranked(one, g, p, numbers, np.asarray(data.y)[one.rows])
    arrays = data.views.arrays
    pixels = np.array([arrays[view][row] for view, row in numbers])
    low, high = min(np.nanmin(X) for X in arrays), max(np.nanmax(X) for X in arrays)
    grey = np.round(255 * (pixels - low) / (high - low or 1.0)).astype(np.uint8)
    labels = [_class_name(data, data.y[row]) for _, row in numbers]
    return MatchBrowser(key, title, grey.reshape(-1, *(data.image_shape or ())), labels, probes, caption)


def _ranked(
    one: MappedSamples, g: int, p: int, numbers: dict[tuple[int, int], int], y: NDArray[Any]
) -> list[tuple[int, list[tuple[int, float]]]]:
    """Some probes of view p with their nearest samples of view g; pictures are numbered as they come."""
    gallery, probes = (np.flatnonzero(one.latents.mask[:, view]) for view in (g, p))
    probes = spread_out(probes, _PROBES)
    G, P = one.latents.arrays[g][gallery], one.latents.arrays[p][probes]
    distances, columns = nearest(distances_in_chunks(G, P, one.metric), min(_RANKS + 1, len(gallery)))

    def image(view: int, row: int) -> int:
        return numbers.setdefault((view, int(one.rows[row])), len(numbers))

    found = []
    for probe, ranks, of_ranks in zip(probes, gallery[columns], distances, strict=True):
        others = (y[gallery] == y[probe]) & (gallery != probe)
        kept = np.flatnonzero((ranks != probe) | one.counterparts | ~others.any())[:_RANKS]
        found.append((image(p, int(probe)), [(image(g, int(ranks[k])), float(of_ranks[k])) for k in kept]))
    return found


def _class_name(data: Dataset, label: Any) -> str:
    """The name of a class."""
    return str(data.class_names[int(np.searchsorted(np.unique(data.y), label))])


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
            f"{name}: by {kind}, {n_train:g} to train with, seed {seed}" for name, kind, n_train, seed in splits
        )
        facts["search"] = _assignments({k: v for k, v in cells[0].search.to_dict().items() if k != "grid"})
    if data is not None:
        facts["data"] = f"{data.views!r}; {counted(len(np.unique(data.y)), 'class')}"
        facts |= {"source": data.citation} if data.citation else {}
    return Section("Environment", [Facts("environment", "What computed this", facts)])
