"""From results to the tables and figures of a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from crossview.exceptions import NotApplicableError
from crossview.experiments.cells import Cell
from crossview.experiments.plans import Panel
from crossview.experiments.store import Record
from crossview.report.document import Curve, Curves, Entry, HeatMaps, Item, ResultTable
from crossview.report.formatting import listed

Results: TypeAlias = Mapping[Cell, Record]
Value: TypeAlias = Callable[[Mapping[str, Any]], float]
Published: TypeAlias = Callable[[str, str, str], Mapping[str, float | None]]

RANDOM_SPLITS = "random splits"

_MANY_VIEWS = 4  # from which on a table of all directions is too wide to be read


def entries(
    panel: Panel, results: Results, value: Value, published: Published = lambda *_: {}, scale: float = 100.0
) -> dict[str, list[Entry]]:
    """A value for every row and column of a panel, next to what was published."""
    return {
        row: [
            entry(records(panel, results, row, column), value, published(panel.key, row, column), scale)
            for column in panel.columns
        ]
        for row in panel.rows
    }


def tabulate(
    panel: Panel, results: Results, key: str, title: str, values: Mapping[str, Value], scale: float = 100.0, **more: Any
) -> ResultTable:
    """A table of several values, for every row of the first column of a panel."""
    found = {row: records(panel, results, row, panel.columns[0]) for row in panel.rows}
    rows = {row: [entry(found[row], value, {}, scale) for value in values.values()] for row in found}
    return ResultTable(key, title, list(values), rows, **more)


def directions(panel: Panel, results: Results) -> list[ResultTable]:
    """Accuracy for every gallery and probe, of the first column of a panel; empty if nothing was computed."""
    done = finished([results[place.cell] for place in panel.places])
    if not done:
        return []
    views, title = done[0]["views"], "Accuracy by direction: probe in gallery"
    numbers = permutations(range(len(views)), 2)
    values = {name: pair_accuracy(g, p) for name, (g, p) in zip(direction_names(views), numbers, strict=True)}
    caption = "Accuracy for probes of one view in a gallery of another."
    key = f"{panel.key}-directions"
    return [tabulate(panel, results, key, title, values, caption=caption, over=RANDOM_SPLITS)]


def direction_names(views: Sequence[str]) -> list[str]:
    """The names of all directions, gallery by gallery.

    >>> direction_names(["photo", "sketch"])
    ['sketch in photo', 'photo in sketch']
    """
    return [f"{probe} in {gallery}" for gallery, probe in permutations(views, 2)]


def direction_maps(panel: Panel, results: Results, rows: Sequence[str]) -> list[Item]:
    """The same of some methods as heat maps; empty if there are so few views that the table shows it well."""
    found = {row: finished(records(panel, results, row, panel.columns[0])) for row in rows}
    maps = {}
    for row, done in found.items():
        views = done[0]["views"]
        maps[row] = 100 * np.mean([np.array(result["accuracy"], dtype=np.float64) for result in done], axis=0)
    if not maps or len(views) < _MANY_VIEWS:
        return []
    caption = f"Accuracy for every gallery and probe, by the best methods: {listed(list(maps))}."
    title = "Accuracy of the best methods by direction"
    return [HeatMaps(f"{panel.key}-direction-maps", title, views, views, maps, "probe", "gallery", caption)]


def at_chance(panel: Panel, results: Results, row: str) -> bool:
    """Whether a method matches no better than chance: within two standard errors of what random matches score."""
    done = finished(records(panel, results, row, panel.columns[0]))
    if not done:
        return False
    chance, score = (float(np.mean([r[name] for r in done])) for name in ("chance", "score"))
    # Splits share their samples, so that several say little more than one.
    return no_better(score, chance, float(np.mean([r["n_test"] for r in done])))


def no_better(score: float, chance: float, n: float) -> bool:
    """Whether the accuracy of n samples is within two standard errors of what random matches score."""
    return bool(score <= chance + 2 * np.sqrt(chance * (1 - chance) / n))


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


def euclidean(result: Mapping[str, Any]) -> float:
    """Accuracy with the Euclidean distance, which is the only one that a committee has."""
    return float(result.get("euclidean", result)["score"])


def records(panel: Panel, results: Results, row: str, column: str) -> list[Record]:
    """The results that belong to a row and column, or the parts of them that do."""
    found = [place for place in panel.places if (place.row, place.column) == (row, column)]
    return [_part(results[place.cell], place.part) for place in found]


def _part(record: Record, part: str) -> Record:
    if not part or record.result is None:
        return record
    shared = {name: value for name, value in record.result.items() if name not in ("euclidean", "by_pca")}
    return replace(record, result={**shared, **record.result[part]})


def finished(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """The results of those that were computed."""
    return [record.result for record in records if record.result is not None]


def entry(records: Sequence[Record], value: Value, printed: Mapping[str, float | None], scale: float = 100.0) -> Entry:
    """Mean and standard deviation of a value over repeats, and why some are missing."""
    values = [scale * value(result) for result in finished(records)]
    return Entry(
        mean=float(np.mean(values)) if values else None,
        sd=float(np.std(values)) if len(values) > 1 else None,
        published=printed.get("mean"),
        published_sd=printed.get("sd"),
        published_loss=printed.get("loss"),
        note=_why_not(records),
    )


def _why_not(records: Sequence[Record]) -> str:
    """Why results are missing; empty if all are there."""
    errors = [record.error for record in records if record.error is not None]
    if not errors:
        return ""
    if not_applicable(records):
        return f"not applicable: {errors[0]['message']}"
    if len(records) == 1:
        return f"failed: {errors[0]['message']}"
    return f"{len(errors)} of {len(records)} failed: {errors[0]['message']}"


def not_applicable(records: Sequence[Record]) -> bool:
    """Whether results are missing only because the method cannot be applied to the data."""
    errors = [record.error for record in records if record.error is not None]
    return bool(errors) and all(error["type"] == NotApplicableError.__name__ for error in errors)


def pair_accuracy(gallery: int, probe: int) -> Value:
    """A function that returns the accuracy for one gallery and probe."""
    return lambda result: np.nan if (found := result["accuracy"][gallery][probe]) is None else float(found)
