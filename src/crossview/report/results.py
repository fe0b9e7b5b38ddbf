"""From results to the tables and figures of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from crossview.exceptions import NotApplicableError
from crossview.experiments.cells import Cell
from crossview.experiments.plans import Panel
from crossview.experiments.protocols import LETTER, published
from crossview.experiments.store import Record
from crossview.report.document import Bars, Curve, Curves, Entry, HeatMap, HeatMaps, Item, ResultTable
from crossview.views import Array

__all__ = ["Results", "at_chance", "cmc_curves", "directions", "entries", "euclidean_only", "items", "tied_with_best"]

Results: TypeAlias = Mapping[Cell, Record]
Value: TypeAlias = Callable[[Mapping[str, Any]], float]

_GROUPS = {
    "weights": ("lambda_intra", "λ1", "lambda_inter", "λ2"),
    "neighbours": ("n_within", "p1", "n_between", "p2"),
}
_OTHERS = (
    "Accuracy on test samples. The other parameters have the paper's default values; PCA dimension, number of "
    "components and kernel width were chosen on training samples."
)
_ENOUGH_SPLITS = 5  # from which on their spread says which differences are noise
_MEAN = "Mean accuracy over the ordered pairs of views, ± standard deviation over repeats."


def items(panel: Panel, results: Results) -> list[Item]:
    """What a panel shows.

    Parameters
    ----------
    panel : Panel
        What was to be computed; those of kind ``"embeddings"`` are drawn by `crossview.report.showcase`.
    results : mapping of Cell to Record
        What was computed.
    """
    return _KINDS[panel.kind](panel, results)


def entries(panel: Panel, results: Results, value: Value, scale: float = 100.0) -> dict[str, list[Entry]]:
    """Mean and standard deviation over repeats, for every row and column of a panel, beside what was published.

    Parameters
    ----------
    panel : Panel
        Where results belong.
    results : mapping of Cell to Record
        The results.
    value : callable
        What is wanted of a result.
    scale : float
        Factor on it.
    """
    return {
        row: [
            _entry(_records(panel, results, row, column), value, scale, _published(panel.key, row, column))
            for column in panel.columns
        ]
        for row in panel.rows
    }


def directions(panel: Panel, results: Results) -> ResultTable | None:
    """Accuracy for every gallery and probe, of one column of a panel; None where nothing was computed.

    Parameters
    ----------
    panel : Panel
        Where results belong.
    results : mapping of Cell to Record
        The results.
    """
    done = _done([results[place.cell] for place in panel.places])
    if not done:
        return None
    views = done[0]["views"]
    pairs = [(g, p) for g in range(len(views)) for p in range(len(views)) if g != p]
    rows = {
        row: [_entry(_records(panel, results, row, panel.columns[0]), _at(g, p), 100.0, {}) for g, p in pairs]
        for row in panel.rows
    }
    heads = [f"{views[p]} in {views[g]}" for g, p in pairs]
    caption = (
        "Accuracy for probes of one view looked up in a gallery of another, ± standard deviation over random splits."
    )
    return ResultTable(f"{panel.key}-directions", "Accuracy by direction: probe in gallery", heads, rows, caption)


def at_chance(panel: Panel, results: Results, row: str, column: str) -> bool:
    """Whether a method matches no better than chance: within two standard errors of what random matches score.

    Parameters
    ----------
    panel : Panel
        Where results belong.
    results : mapping of Cell to Record
        The results.
    row, column : str
        Which of them.
    """
    done = _done(_records(panel, results, row, column))
    if not done:
        return False
    chance, score = (float(np.mean([r[name] for r in done])) for name in ("chance", "score"))
    # Splits share their samples, so that several say little more than one.
    error = np.sqrt(chance * (1 - chance) / np.mean([r["n_test"] for r in done]))
    return bool(score <= chance + 2 * error)


def tied_with_best(panel: Panel, results: Results, column: str) -> list[str]:
    """The best row of a column, and those whose difference from it is within two standard errors over the splits.

    Parameters
    ----------
    panel : Panel
        Where results belong.
    results : mapping of Cell to Record
        The results.
    column : str
        The column.
    """
    scores = {}
    for row in panel.rows:
        found = [record.result for record in _records(panel, results, row, column)]
        if found and all(found):
            scores[row] = np.array([result["score"] for result in found if result])
    if not scores:
        return []
    best = max(scores, key=lambda row: scores[row].mean())
    behind = {row: scores[best] - found for row, found in scores.items() if len(found) == len(scores[best])}
    return [best, *sorted((r for r in behind if r != best and _tied(behind[r])), key=lambda r: behind[r].mean())]


def _tied(gaps: Array) -> bool:
    """Whether differences between two methods, one per split, are small beside how much they vary.

    Few splits do not tell how much: then a tie is what is equal.
    """
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) >= _ENOUGH_SPLITS else 0.0
    return bool(gaps.mean() <= 2 * error)


def cmc_curves(panel: Panel, results: Results) -> list[Item]:
    """Cumulative match curves, a frame for every column of a panel.

    Parameters
    ----------
    panel : Panel
        Where results belong.
    results : mapping of Cell to Record
        The results.
    """
    frames: list[Item] = []
    for number, column in enumerate(panel.columns, 1):
        curves = {}
        for row in panel.rows:
            done = _done(_records(panel, results, row, column))
            # From as many classes as there are on, everything has been found.
            found = [100 * np.array(r["cmc"][: r["n_test_classes"]]) for r in done]
            if found:
                mean = np.mean(found, axis=0)
                curves[row] = Curve(list(range(1, len(mean) + 1)), mean.tolist())
        if curves:
            title = f"Cumulative match curves, {column}"
            caption = (
                "How many of the probes have their class among so many nearest classes of the gallery, averaged over "
                "the ordered pairs of views. A class is as near as its nearest sample."
            )
            frames.append(Curves(f"{panel.key}-cmc-{number}", title, curves, "rank", "probes found, %", caption))
    return frames


def _accuracy(panel: Panel, results: Results) -> list[Item]:
    chosen = entries(panel, results, lambda r: r["score"])
    shown: list[Item] = []
    key, title = panel.key, panel.title
    if any("euclidean" in r for place in panel.places for r in _done([results[place.cell]])):
        euclidean = entries(panel, results, euclidean_only)
        shown.append(ResultTable(key, f"{title}: Euclidean distance, as in the paper", panel.columns, euclidean, _MEAN))
        key, title = f"{key}-chosen", f"{title}: the distance chosen with the parameters, Euclidean or cosine"
    shown.append(ResultTable(key, title, panel.columns, chosen, _MEAN))
    shown.append(Bars(f"{panel.key}-bars", f"{title}, as bars", panel.columns, chosen))
    if any("by_pca" in r for place in panel.places for r in _done([results[place.cell]])):
        alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
        traversed = {
            "all": ("one for all splits", _at_best_dimension(alone, results), " Of those that every split has drawn."),
            "every": ("one for every split", entries(alone, results, _at_own_dimension), ""),
        }
        for name, (words, found, among) in traversed.items():
            shown.append(
                ResultTable(
                    f"{panel.key}-traversed-{name}",
                    f"{panel.title}: PCA dimension by test accuracy, {words}",
                    panel.columns,
                    found,
                    f"{_MEAN} The paper's own protocol, which can be read in two ways: its PCA dimensions are \"set to "
                    'achieve the best classification accuracy via traversing possible dimensions", here on test '
                    "samples; all else is chosen on training samples, and the distance is Euclidean. This flatters, as "
                    f"the tables of parameters chosen on training samples alone do not.{among}",
                )
            )
    return [*shown, *cmc_curves(panel, results)]


def euclidean_only(result: Mapping[str, Any]) -> float:
    """Accuracy with the Euclidean distance, which is the only one that a committee has.

    Parameters
    ----------
    result : mapping
        What was computed of a cell.
    """
    return float(result.get("euclidean", result)["score"])


def _at_best_dimension(panel: Panel, results: Results) -> dict[str, list[Entry]]:
    """As `entries`, with the PCA dimension that is best on test samples, on average over the repeats."""
    rows: dict[str, list[Entry]] = {row: [] for row in panel.rows}
    for row, found in rows.items():
        for column in panel.columns:
            records = _records(panel, results, row, column)
            done = [{one["pca"]: one.get("euclidean") for one in r["by_pca"]} for r in _done(records)]
            shared = [k for k in (done[0] if done else ()) if all(r.get(k) is not None for r in done)]
            best = max(shared, key=lambda k: np.mean([r[k] for r in done]), default=None)
            printed = _published(panel.key, row, column)
            found.append(_entry(records if best is not None else [], _at_dimension(best), 100.0, printed))
    return rows


def _at_dimension(k: int | None) -> Value:
    return lambda result: next(float(one["euclidean"]) for one in result["by_pca"] if one["pca"] == k)


def _at_own_dimension(result: Mapping[str, Any]) -> float:
    """The accuracy with the PCA dimension that is best on the test samples of this one split."""
    return max(float(one["euclidean"]) for one in result["by_pca"] if "euclidean" in one)


def _pairs(panel: Panel, results: Results) -> list[Item]:
    """Accuracy for every gallery and probe, which a table of two views has in the place of their mean."""
    columns: dict[str, tuple[str, int, int]] = {}
    for column in panel.columns:
        records = [results[place.cell] for place in panel.places if place.column == column]
        views: list[str] = next((result["views"] for result in _done(records)), [])
        for g, p in ((0, 1), (1, 0)) if views else ():
            columns[f"{column.upper()} {views[g]}-{views[p]}"] = (column, g, p)
    rows = {
        row: [
            _entry(_records(panel, results, row, column), _at(g, p), 100.0, _published(panel.key, row, head))
            for head, (column, g, p) in columns.items()
        ]
        for row in panel.rows
    }
    caption = "Gallery-probe. Rank-1 accuracy, ± standard deviation over repeats."
    return [
        ResultTable(panel.key, panel.title, list(columns), rows, caption),
        Bars(f"{panel.key}-bars", panel.title, list(columns), rows),
        *cmc_curves(panel, results),
    ]


def _at(gallery: int, probe: int) -> Value:
    return lambda result: np.nan if (found := result["accuracy"][gallery][probe]) is None else float(found)


def _outliers(panel: Panel, results: Results) -> list[Item]:
    rows = {}
    for row, found in entries(panel, results, lambda r: r["score"]).items():
        rows[row] = [_with_loss(entry, found[0].mean) for entry in found]
    curves = {row: _line(panel.columns, [e.mean for e in found], [e.sd for e in found]) for row, found in rows.items()}
    losses = {row: _line(panel.columns, [e.loss for e in found]) for row, found in rows.items()}
    heads = [f"{share} %" for share in panel.columns]
    caption = f"{_MEAN} Loss: how much of the accuracy with clean labels is lost, in per cent of it."
    return [
        ResultTable(panel.key, panel.title, heads, rows, caption),
        Curves(f"{panel.key}-accuracy", "Accuracy with permuted labels", curves, panel.x_label),
        Curves(f"{panel.key}-loss", "Relative loss of accuracy", losses, panel.x_label, "relative loss, %"),
    ]


def _with_loss(entry: Entry, clean: float | None) -> Entry:
    return replace(entry, loss=None if entry.mean is None or not clean else 100 * (clean - entry.mean) / clean)


def _times(panel: Panel, results: Results) -> list[Item]:
    rows = entries(panel, results, lambda r: r["seconds"]["fit"], 1.0)
    printed = {row: [Entry(entry.published) for entry in found] for row, found in rows.items()}
    printed = {row: found for row, found in printed.items() if any(entry.mean is not None for entry in found)}
    rows = {row: [replace(entry, published=None) for entry in found] for row, found in rows.items()}
    caption = "Seconds of a fit, the median of several, in one thread."
    elsewhere = "Seconds, on another machine and with other software."
    ratios = {}
    for row in panel.rows:
        if row.endswith(LETTER):
            method = row.removesuffix(LETTER).strip()
            pairs = zip(rows[row], rows[method], strict=True)
            ratios[method] = [Entry(slow.mean / fast.mean if slow.mean and fast.mean else None) for slow, fast in pairs]
    title = "How many times faster than the paper's algorithm to the letter"
    key, columns, best = panel.key, panel.columns, "lowest"
    tables = [
        ResultTable(key, panel.title, columns, rows, caption, unit="s", best=best, digits=3),
        ResultTable(f"{key}-ratio", title, columns, ratios, unit="×", best=""),
        ResultTable(f"{key}-published", "Published times", columns, printed, elsewhere, unit="s", best=best, digits=0),
    ]
    return [table for table in tables if table.rows]


def _curve(panel: Panel, results: Results) -> list[Item]:
    found = entries(panel, results, lambda r: r["score"])
    curves = {row: _line(panel.columns, [e.mean for e in one], [e.sd for e in one]) for row, one in found.items()}
    return [Curves(panel.key, panel.title, curves, panel.x_label)]


def _dimensions(panel: Panel, results: Results) -> list[Item]:
    curves = {}
    for row in panel.rows:
        found = _done(_records(panel, results, row, ""))
        # Repeats may have chosen PCA dimensions that allow for different numbers of components.
        shared = sorted(set.intersection(*(set(r["dimensions"]) for r in found))) if found else []
        scores = [[100 * r["by_dimension"][r["dimensions"].index(d)] for d in shared] for r in found]
        if shared:
            curves[row] = Curve(shared, np.mean(scores, axis=0).tolist(), np.std(scores, axis=0).tolist())
    return [Curves(panel.key, panel.title, curves, panel.x_label)]


def _parameters(panel: Panel, results: Results) -> list[Item]:
    found = {
        row: [r["by_parameters"] for r in done]
        for row in panel.rows
        if (done := _done(_records(panel, results, row, "")))
    }
    shown: list[Item] = []
    for group, (y_name, y_label, x_name, x_label) in _GROUPS.items():
        maps = {row: _heat_map([r[group] for r in repeats], y_name, x_name) for row, repeats in found.items()}
        title = f"{panel.title}: {y_label} and {x_label}"
        shown.append(HeatMaps(f"{panel.key}-{group}", title, maps, x_label, y_label, _OTHERS))
    curves = {}
    for row, repeats in found.items():
        scores = np.array([[100 * point["score"] for point in r["beta"]] for r in repeats])
        betas = [point["beta"] for point in repeats[0]["beta"]]
        curves[row] = Curve(betas, scores.mean(axis=0).tolist(), scores.std(axis=0).tolist())
    return [*shown, Curves(f"{panel.key}-beta", f"{panel.title}: β", curves, "β", caption=_OTHERS)]


def _heat_map(repeats: Sequence[Sequence[Mapping[str, float]]], y_name: str, x_name: str) -> HeatMap:
    """The mean over repeats."""
    x, y = (sorted({point[name] for point in repeats[0]}) for name in (x_name, y_name))
    total = np.zeros((len(y), len(x)))
    for points in repeats:
        for point in points:
            total[y.index(point[y_name]), x.index(point[x_name])] += 100 * point["score"] / len(repeats)
    return HeatMap([f"{value:g}" for value in x], [f"{value:g}" for value in y], total)


def _line(columns: Sequence[str], means: Sequence[float | None], sds: Sequence[float | None] | None = None) -> Curve:
    """Columns as numbers, with means and standard deviations where there are some."""
    there = [(float(column), mean, k) for k, (column, mean) in enumerate(zip(columns, means, strict=True))]
    known = [(x, mean, k) for x, mean, k in there if mean is not None]
    spread = None if sds is None else [sds[k] or 0.0 for _, _, k in known]
    return Curve([x for x, _, _ in known], [mean for _, mean, _ in known], spread)


def _records(panel: Panel, results: Results, row: str, column: str) -> list[Record]:
    """The results that belong to a row and column, or the parts of them that do."""
    found = [place for place in panel.places if (place.row, place.column) == (row, column)]
    return [_part(results[place.cell], place.part) for place in found]


def _part(record: Record, part: str) -> Record:
    if not part or record.result is None:
        return record
    shared = {name: value for name, value in record.result.items() if name not in ("euclidean", "by_pca")}
    return replace(record, result={**shared, **record.result[part]})


def _done(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    return [record.result for record in records if record.result is not None]


def _entry(records: Sequence[Record], value: Value, scale: float, printed: Mapping[str, float | None]) -> Entry:
    """Mean and standard deviation, and why there are none."""
    values = [scale * value(result) for result in _done(records)]
    return Entry(
        mean=float(np.mean(values)) if values else None,
        sd=float(np.std(values)) if len(values) > 1 else None,
        published=printed.get("mean"),
        published_sd=printed.get("sd"),
        published_loss=printed.get("loss"),
        note=_why_not(records),
    )


def _why_not(records: Sequence[Record]) -> str:
    """Why some results are missing; empty if none is."""
    errors = [record.error for record in records if record.error is not None]
    if not errors:
        return ""
    if all(error["type"] == NotApplicableError.__name__ for error in errors):
        return f"not applicable: {errors[0]['message']}"
    return f"{len(errors)} of {len(records)} failed: {errors[0]['message']}"


def _published(table: str, row: str, column: str) -> dict[str, float | None]:
    """What was published for an entry, if anything was."""
    known = published().get(table, {"rows": {}, "columns": []})
    figures = known["rows"].get(row.partition(" × ")[0].removesuffix(" per view"))
    heads = [head.lower() for head in known["columns"]]
    if figures is None or column.lower() not in heads or (found := figures[heads.index(column.lower())]) is None:
        return {}
    return dict(zip(("mean", "sd", "loss"), found, strict=False))


_KINDS: dict[str, Callable[[Panel, Results], list[Item]]] = {
    "accuracy": _accuracy,
    "pairs": _pairs,
    "outliers": _outliers,
    "times": _times,
    "curve": _curve,
    "dimensions": _dimensions,
    "parameters": _parameters,
}
