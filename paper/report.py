"""The report of the paper's experiments: results as its tables and figures, measured next to published."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from crossview.datasets import Dataset
from crossview.report.comparison import (
    Value,
    cmc_curves,
    embeddings,
    entry,
    environment_section,
    first_places,
    map_test_samples,
    matches,
    pair_accuracy,
)
from crossview.report.document import Curve, Curves, Entry, Item, Report, ResultTable, Section
from crossview.report.ranking import Results, finished, known_scores, records
from paper.protocols import AS_PRINTED, Experiment, PaperPanel, published

_GROUPS = {
    "weights": ("lambda_intra", "λ1", "lambda_inter", "λ2"),
    "neighbours": ("n_within", "p1", "n_between", "p2"),
}
_PARAMETERS_CAPTION = (
    "Accuracy on test samples. The other parameters have the paper's default values; PCA dimension, number of "
    "components and kernel width were chosen on training samples."
)
_score = itemgetter("score")
_MEAN_CAPTION = "Mean accuracy over the ordered pairs of views, ± standard deviation over repeats."
_TRAVERSED_CAPTION = (
    f"{_MEAN_CAPTION} The paper's PCA dimensions are \"set to achieve the best classification accuracy via traversing "
    'possible dimensions", which can be read in two ways. Here they are chosen on test samples, and all else on '
    "training samples; the distance is Euclidean. These figures are optimistic, unlike those with all parameters "
    "chosen on training samples."
)


Load = Callable[[str, Mapping[str, Any]], Dataset]


def reproduction_report(experiments: Sequence[Experiment], results: Results, load: Load, command: str) -> Report:
    """Compose the report. ``load(data, options)`` returns the data of a cell; `command` is the one that was run."""
    sections = []
    for experiment in experiments:
        found: list[Item] = []
        for panel in experiment.panels:
            found += _plane(panel, results, load) if panel.kind == "embeddings" else items(panel, results)
            if panel.kind in ("accuracy", "pairs"):
                found += _best_matches(panel, results, load)
        sections.append(Section(_heading(experiment), found, "\n\n".join(experiment.missing)))
    sections.append(environment_section([cell for experiment in experiments for cell in experiment.cells]))
    return Report(
        "Multi-view Hybrid Embedding: the paper's experiments",
        "Tables and figures of J. Xu et al., Multi-view Hybrid Embedding: A Divide-and-Conquer Approach, IEEE "
        "Transactions on Cybernetics, measured next to published. Splits are random and differ from the paper's. "
        "As in the paper, the gallery holds each probe's counterpart, the same sample in the other view. "
        "Parameters were chosen on training classes only, except for the PCA dimension where a table says so. Results "
        "with few repeats or draws are uncertain: means over the splits of two seeds can differ by several points.",
        sections,
        command,
    )


def _plane(panel: PaperPanel, results: Results, load: Load) -> list[Item]:
    """Embeddings in two dimensions."""
    first = first_places(panel, results)
    if not first:
        return []
    cell = panel.places[0].cell
    data = load(cell.data, dict(cell.options))
    shown = {row: records(panel, results, row, panel.columns[0])[0].result or {} for row in first}
    return [embeddings(panel.key, panel.title, shown, cell, data, "Test samples of the first split.")]


def _best_matches(panel: PaperPanel, results: Results, load: Load) -> list[Item]:
    """Matches of the best method in the first split of the first column."""
    best = next(iter(known_scores(panel, results)), None)
    if best is None:
        return []
    place = first_places(panel, results)[best]
    data = load(place.cell.data, dict(place.cell.options))
    if data.image_shape is None:
        return []
    shown = {best: map_test_samples(place, results, data, counterparts=True)}
    caption = f"Test samples of the first split of {panel.columns[0]}, matched by its best method."
    return [matches(f"{panel.key}-matches", "Match browser", shown, data, caption)]


def _heading(experiment: Experiment) -> str:
    """The title, with the paper's number for tables and this package's name for figures."""
    kind, _, number = experiment.name.partition("-")
    if kind == "table":
        return f"Table {number} of the paper: {experiment.title}"
    return f"{experiment.title} ({experiment.name})"


def entries(panel: PaperPanel, results: Results, value: Value, scale: float = 100.0) -> dict[str, list[Entry]]:
    """A value for every row and column of a panel, next to what was published."""
    return {
        row: [
            _beside_published(entry(records(panel, results, row, column), value, scale), panel.key, row, column)
            for column in panel.columns
        ]
        for row in panel.rows
    }


def items(panel: PaperPanel, results: Results) -> list[Item]:
    """Tables and figures of a panel; for kind ``"embeddings"``, see `paper.report`."""
    return _KINDS[panel.kind](panel, results)


def _accuracy(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy by both distances, also with the PCA dimension chosen as in the paper."""
    key, title, columns = panel.key, panel.title, panel.columns
    chosen = entries(panel, results, _score)
    done = finished([results[place.cell] for place in panel.places])
    shown: list[Item] = []
    if any("euclidean" in result for result in done):
        rows = entries(panel, results, lambda r: r.get("euclidean", r)["score"])  # all that a committee has
        shown.append(ResultTable(key, f"{title}: Euclidean distance, as in the paper", columns, rows, _MEAN_CAPTION))
        key, title = f"{key}-chosen", f"{title}: the distance chosen with the parameters, Euclidean or cosine"
    shown.append(ResultTable(key, title, columns, chosen, _MEAN_CAPTION))
    if any("by_pca" in result for result in done):
        alone = replace(panel, places=tuple(place for place in panel.places if not place.part))
        key, title = f"{panel.key}-traversed", f"{panel.title}: PCA dimension by test accuracy"
        rows = _at_best_dimension(alone, results)
        note = f"{_TRAVERSED_CAPTION} Only dimensions that every split has drawn count."
        shown.append(ResultTable(f"{key}-all", f"{title}, one for all splits", columns, rows, note))
        rows = entries(alone, results, lambda r: max(_by_pca(r).values()))
        shown.append(ResultTable(f"{key}-every", f"{title}, one per split", columns, rows, _TRAVERSED_CAPTION))
    return [*shown, *cmc_curves(panel, results)]


def _at_best_dimension(panel: PaperPanel, results: Results) -> dict[str, list[Entry]]:
    """Entries at the PCA dimension with the best test accuracy on average over the repeats."""

    def at_best(row: str, column: str) -> Entry:
        found = records(panel, results, row, column)
        scores = [_by_pca(result) for result in finished(found)]
        shared = [k for k in (scores[0] if scores else ()) if all(k in one for one in scores)]
        best = max(shared, key=lambda k: np.mean([one[k] for one in scores]), default=0)
        measured = entry(found if shared else [], lambda r: _by_pca(r)[best])
        return _beside_published(measured, panel.key, row, column)

    return {row: [at_best(row, column) for column in panel.columns] for row in panel.rows}


def _by_pca(result: Mapping[str, Any]) -> dict[int, float]:
    """Test accuracy by PCA dimension, Euclidean."""
    return {one["pca"]: float(one["euclidean"]) for one in result["by_pca"] if "euclidean" in one}


def _pairs(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy for each gallery and probe, in tables of two views."""
    columns: dict[str, tuple[str, int, int]] = {}
    for column in panel.columns:
        computed = [results[place.cell] for place in panel.places if place.column == column]
        views: list[str] = next((result["views"] for result in finished(computed)), [])
        for g, p in ((0, 1), (1, 0)) if views else ():
            columns[f"{column.upper()} {views[g]}-{views[p]}"] = (column, g, p)
    rows = {
        row: [
            _beside_published(entry(records(panel, results, row, column), pair_accuracy(g, p)), panel.key, row, head)
            for head, (column, g, p) in columns.items()
        ]
        for row in panel.rows
    }
    caption = "Gallery-probe. Rank-1 accuracy, ± standard deviation over repeats."
    return [
        ResultTable(panel.key, panel.title, list(columns), rows, caption),
        *cmc_curves(panel, results),
    ]


def _outliers(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy with permuted labels, and its relative loss."""
    rows = entries(panel, results, _score)
    losses = {
        row: [
            Entry(
                None if one.mean is None or not found[0].mean else 100 * (1 - one.mean / found[0].mean),
                published=_published(panel.key, row, column).get("loss"),
            )
            for column, one in zip(panel.columns, found, strict=True)
        ]
        for row, found in rows.items()
    }
    key, heads, loss = panel.key, [f"{share} %" for share in panel.columns], "Relative loss of accuracy"
    return [
        ResultTable(key, panel.title, heads, rows, _MEAN_CAPTION),
        ResultTable(f"{key}-losses", loss, heads, losses, "The loss relative to clean labels.", best="lowest"),
        Curves(f"{key}-accuracy", "Accuracy with permuted labels", _lines(panel, rows), panel.x_label),
        Curves(f"{key}-loss", loss, _lines(panel, losses), panel.x_label, "relative loss, %"),
    ]


def _times(panel: PaperPanel, results: Results) -> list[Item]:
    """Training times, their ratio to the algorithm as printed in the paper, and the published times."""
    measured = entries(panel, results, lambda r: r["seconds"]["fit"], 1.0)
    printed = {row: [Entry(one.published) for one in found] for row, found in measured.items()}
    printed = {row: found for row, found in printed.items() if any(one.mean is not None for one in found)}
    rows = {row: [replace(one, published=None) for one in found] for row, found in measured.items()}
    ratios = {}
    for row in panel.rows:
        if row.endswith(AS_PRINTED):
            method = row.removesuffix(AS_PRINTED).strip()
            pairs = zip(rows[row], rows[method], strict=True)
            ratios[method] = [Entry(slow.mean / fast.mean if slow.mean and fast.mean else None) for slow, fast in pairs]
    title = f"Speed-up over the algorithm {AS_PRINTED}"
    caption = "Seconds per fit, median of several, in one thread."
    elsewhere = "Seconds, on another machine and with other software."
    key, columns, best = panel.key, panel.columns, "lowest"
    tables = [
        ResultTable(key, panel.title, columns, rows, caption, unit="s", best=best, digits=3),
        ResultTable(f"{key}-ratio", title, columns, ratios, unit="×", best=""),
        ResultTable(f"{key}-published", "Published times", columns, printed, elsewhere, unit="s", best=best, digits=0),
    ]
    return [table for table in tables if table.rows]


def _curve(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy by column."""
    return [Curves(panel.key, panel.title, _lines(panel, entries(panel, results, _score)), panel.x_label)]


def _dimensions(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy by number of components."""
    curves = {}
    for row in panel.rows:
        found = finished(records(panel, results, row, ""))
        # Repeats may have chosen PCA dimensions that allow different numbers of components.
        shared = sorted(set.intersection(*(set(r["dimensions"]) for r in found))) if found else []
        scores = [[r["by_dimension"][r["dimensions"].index(d)] for d in shared] for r in found]
        if shared:
            curves[row] = _mean_curve(shared, scores)
    return [Curves(panel.key, panel.title, curves, panel.x_label)]


def _parameters(panel: PaperPanel, results: Results) -> list[Item]:
    """Accuracy by the parameters of MvHE and KMvHE: tables of two pairs, and a curve of β."""
    found = {
        row: [r["by_parameters"] for r in done]
        for row in panel.rows
        if (done := finished(records(panel, results, row, "")))
    }
    shown: list[Item] = []
    for group, (y_name, y_label, x_name, x_label) in _GROUPS.items():
        for row, repeats in found.items():
            scores: dict[float, dict[float, list[float]]] = {}
            for point in (point for r in repeats for point in r[group]):
                scores.setdefault(point[y_name], {}).setdefault(point[x_name], []).append(100 * point["score"])
            x = sorted({b for along in scores.values() for b in along})
            rows = {
                f"{y_label} = {a:g}": [Entry(float(np.mean(along[b])) if b in along else None) for b in x]
                for a, along in sorted(scores.items())
            }
            title, columns = f"{panel.title}: {y_label} and {x_label} of {row}", [f"{x_label} = {b:g}" for b in x]
            key = f"{panel.key}-{group}-{row}"
            shown.append(ResultTable(key, title, columns, rows, _PARAMETERS_CAPTION, row_head="", best=""))
    curves = {}
    for row, repeats in found.items():
        betas = [point["beta"] for point in repeats[0]["beta"]]
        curves[row] = _mean_curve(betas, [[point["score"] for point in r["beta"]] for r in repeats])
    return [*shown, Curves(f"{panel.key}-beta", f"{panel.title}: β", curves, "β", caption=_PARAMETERS_CAPTION)]


def _mean_curve(x: Sequence[float], scores: Sequence[Sequence[float]]) -> Curve:
    """Mean and standard deviation over repeats, in per cent."""
    percent = 100 * np.array(scores)
    return Curve(x, percent.mean(axis=0).tolist(), percent.std(axis=0).tolist())


def _lines(panel: PaperPanel, rows: Mapping[str, Sequence[Entry]]) -> dict[str, Curve]:
    """A curve of every row over numeric columns, without missing points."""
    curves = {}
    for row, found in rows.items():
        points = zip(panel.columns, found, strict=True)
        known = [(float(column), one.mean, one.sd or 0.0) for column, one in points if one.mean is not None]
        x, y, sds = ([point[k] for point in known] for k in range(3))
        curves[row] = Curve(x, y, sds if any(sds) else None)
    return curves


def _beside_published(measured: Entry, table: str, row: str, column: str) -> Entry:
    known = _published(table, row, column)
    return replace(measured, published=known.get("mean"), published_sd=known.get("sd"))


def _published(table: str, row: str, column: str) -> dict[str, float | None]:
    """The published figures of an entry, if any."""
    known = published().get(table, {"rows": {}, "columns": []})
    figures = known["rows"].get(row.partition(" × ")[0])
    heads = [head.lower() for head in known["columns"]]
    if figures is None or column.lower() not in heads or (found := figures[heads.index(column.lower())]) is None:
        return {}
    return dict(zip(("mean", "sd", "loss"), found, strict=False))


_KINDS: dict[str, Callable[[PaperPanel, Results], list[Item]]] = {
    "accuracy": _accuracy,
    "pairs": _pairs,
    "outliers": _outliers,
    "times": _times,
    "curve": _curve,
    "dimensions": _dimensions,
    "parameters": _parameters,
}
