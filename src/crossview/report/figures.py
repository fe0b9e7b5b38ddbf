"""The figures of a report: bars, curves, heat maps, common spaces and matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import numpy as np
from sklearn.preprocessing import minmax_scale

from crossview._text import counted
from crossview.plot import RIGHT, WRONG, draw_curve, draw_points
from crossview.report.document import Bars, Curves, Embeddings, Entry, HeatMaps, Item, MatchBrowser
from crossview.report.drawing import Figure, Panel, clip
from crossview.report.formatting import absent, compare, decimals, finite, measured, number, spread, with_unit
from crossview.report.palette import GRID, INK, SOFT, Palette, class_colour, view_marker

_MOST_MARKERS = 14
_FEW_STEPS = 10  # between whole numbers that all have room for a tick
_PROBES, _MATCHES = 6, 8  # of a sheet


def figure_of(item: Item, palette: Palette) -> Figure:
    """The drawings of an item that is a figure."""
    match item:
        case Bars():
            return _bars(item, palette)
        case Curves():
            return _curves(item, palette)
        case HeatMaps():
            return _heat_maps(item)
        case Embeddings():
            return _embeddings(item)
        case MatchBrowser():
            return _matches(item)
    raise TypeError(f"{type(item).__name__} is no figure.")


def _extent(values: Iterable[Any]) -> tuple[float, float]:
    """Least and largest of the finite values; 0 and 1 if there are none."""
    known = [float(value) for value in values if finite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def _round_ticks(about: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(about, steps=[1, 2, 5, 10])


def tick_text(value: float, _: Any = None) -> str:
    """A number at an axis."""
    return f"{value:.10g}".replace("-", "−") if 1e-4 <= abs(value) < 1e6 or not value else f"{value:.3g}"


def _bars(item: Bars, palette: Palette) -> Figure:
    """A panel of horizontal bars for each column, each bar next to its name and value."""
    entries = [entry for row in item.rows.values() for entry in row]
    digits = decimals(entry.mean for entry in entries)
    texts = {name: [_entry_text(entry, digits) for entry in row] for name, row in item.rows.items()}
    ends = [(entry.mean or 0.0) + sign * (entry.spread or 0.0) for entry in entries for sign in (-1, 1)]
    low, high = _extent([0.0, *ends, *(entry.published for entry in entries)])

    def panel(column: int) -> Panel:
        found = {name: row[column] for name, row in item.rows.items()}
        means = {name: entry.mean for name, entry in found.items() if finite(entry.mean)}

        def draw(ax: Any) -> None:
            for k, (name, entry) in enumerate(found.items()):
                gid = f"data-series={k}"
                if finite(entry.mean):
                    ax.barh(k, entry.mean, 0.66, color=palette[name]["color"], alpha=0.75, gid=gid)
                    if finite(entry.spread):
                        ends = [entry.mean - entry.spread, entry.mean + entry.spread]
                        ax.plot(ends, [k, k], color=INK, linewidth=1.2, marker="|", markersize=7, gid=gid)
                if finite(entry.published):
                    ax.plot(entry.published, k, "D", mec=INK, mfc="none", mew=1.3, markersize=5, gid=gid)
                text = number(entry.mean, digits) if finite(entry.mean) else absent(entry)
                ax.annotate(text, (1, k), (46, 0), ax.get_yaxis_transform(), "offset points", ha="right", va="center")
            ax.set(xlim=(1.05 * low, 1.05 * high), ylim=(len(found) - 0.4, -0.6), xlabel=clip(item.y_label, 40))
            ax.set_yticks(range(len(found)), [clip(name, 16) for name in found], color=INK)
            ax.tick_params(length=0)
            ax.xaxis.set_major_locator(_round_ticks(5))
            ax.xaxis.set_major_formatter(tick_text)
            ax.spines[:].set_visible(False)
            ax.grid(axis="x")

        description = f"Bars of {item.y_label} for {len(found)} series."
        if means:
            top = max(means, key=lambda name: means[name])
            ends = [number(end, digits) for end in _extent(means.values())]
            description += f" From {ends[0]} to {ends[1]}, highest: {top}."
        points = [(name, [(means.get(name, 0.0), k, texts[name][column])]) for k, name in enumerate(found)]
        return Panel(item.columns[column], (420, 20 * len(found) + 48), draw, description, points)

    kind = "deviation" if any(finite(entry.sd) for entry in entries) else "error"
    explanation = "Bar: measured"
    explanation += f"; whisker: one standard {kind} each way" * any(finite(entry.spread) for entry in entries)
    explanation += "; diamond: published" * any(finite(entry.published) for entry in entries)
    rows = [[name, *(text.replace("\n", "; ") for text in row)] for name, row in texts.items()]
    return Figure(
        item,
        "bars",
        [panel(column) for column in range(len(item.columns))],
        columns=2,
        explanation=f"{explanation}.",
        tables=[(item.y_label, ["", *item.columns], rows)],
    )


def _entry_text(entry: Entry, digits: int) -> str:
    """An entry in words."""
    known = f"published {spread(entry.published, entry.published_sd, digits)}" if finite(entry.published) else ""
    published = ", ".join(filter(None, (known, compare(entry, digits))))
    return "\n".join(filter(None, (measured(entry, digits), published, entry.note)))


def _curves(item: Curves, palette: Palette) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    for axis, is_log in (("x", item.log_x), ("y", item.log_y)):
        if is_log and (low := min(_finite_values(item, axis), default=1.0)) <= 0:
            found = f"curves {item.key!r} have {axis} = {low:g}, which has no logarithm"
            raise ValueError(f"{found}: use log_{axis}=False.")
    digits = decimals(_finite_values(item, "y"))
    table: dict[float, dict[str, str]] = {}
    for name, curve in item.curves.items():
        sds: Sequence[float | None] = curve.sd if curve.sd is not None else [None] * len(curve.x)
        for x, y, sd in zip(curve.x, curve.y, sds, strict=True):
            table.setdefault(x, {})[name] = spread(y, sd, digits)

    def draw(ax: Any) -> None:
        for k, (name, curve) in enumerate(item.curves.items()):
            every = max(1, -(-len(curve.x) // _MOST_MARKERS))
            look = palette[name] | {"clip_on": False, "gid": f"data-series={k}", "markevery": every}
            draw_curve(ax, curve.x, curve.y, curve.sd, **look)
        _set_axes(ax, item)
        ax.set(xlabel=clip(item.x_label, 80), ylabel=clip(item.y_label, 48))
        ax.grid(axis="y")

    points = [
        (name, [(x, y, f"{item.x_label} {tick_text(x)}: {table[x][name]}") for x, y in known])
        for name, curve in item.curves.items()
        for known in ([(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(y)],)
    ]
    last = {name: known[-1][1] for name, known in points if known and known[-1][0] == item.curves[name].x[-1]}
    description = f"{counted(len(item.curves), 'curve')} of {item.y_label} against {item.x_label}."
    if last:
        ends = [number(end, digits) for end in _extent(_finite_values(item, "y"))]
        top = max(last, key=lambda name: last[name])
        description += f" From {ends[0]} to {ends[1]}; highest at the right end: {top}."
    rows = [[tick_text(x), *(table[x].get(name, "") for name in item.curves)] for x in sorted(table)]
    return Figure(
        item,
        "curves",
        [Panel("", (640, 400), draw, description, points)],
        legends={"curves": {name: palette[name] for name in item.curves}},
        tables=[(f"{item.y_label} by {item.x_label}", [item.x_label, *item.curves], rows)],
    )


def _finite_values(item: Curves, axis: str) -> list[float]:
    return [float(value) for curve in item.curves.values() for value in getattr(curve, axis) if isfinite(value)]


def _set_axes(ax: Any, item: Curves) -> None:
    """Limits and ticks; bands of shares end at 0 and 100 %."""
    from matplotlib.ticker import LogLocator, NullLocator

    for name, axis, is_log in (("x", ax.xaxis, item.log_x), ("y", ax.yaxis, item.log_y)):
        values = _finite_values(item, name)
        if is_log:
            ax.set(**{f"{name}scale": "log"} | ({} if values else {f"{name}lim": (0.1, 1.0)}))
            is_short = not values or max(values) / min(values) < 300
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
            axis.set_minor_locator(NullLocator())
        elif name == "x":
            ax.set_xticks(x_ticks(item))
        else:
            ax.yaxis.set_major_locator(_round_ticks(7))
            if "%" in item.y_label and values and min(values) >= 0 and max(values) <= 100:
                low, high = ax.get_ylim()
                ax.set_ylim(max(low, 0.0), min(high, 100.0))
        axis.set_major_formatter(tick_text)


def x_ticks(item: Curves) -> list[float]:
    """Ticks between the ends of the curves; of whole numbers, such as ranks, the first one, and all if they are few."""
    places = _finite_values(item, "x")
    low, high = _extent(places)
    is_whole = all(x.is_integer() for x in places)
    if is_whole and high - low <= _FEW_STEPS:
        return [low + k for k in range(int(high - low) + 1)]
    found = [float(tick) for tick in _round_ticks(6).tick_values(low, high)]
    if not is_whole:
        return [tick for tick in found if low <= tick <= high] or [low]
    room = (found[1] - found[0]) / 2
    return [low, *(tick for tick in found if low + room <= tick <= high)]


def _heat_maps(item: HeatMaps) -> Figure:
    """A panel for each map, in which the best cell is framed; all have one scale of colours."""
    maps = {name: np.asarray(grid, dtype=np.float64) for name, grid in item.maps.items()}
    low, high = _extent(value for grid in maps.values() for value in grid.flat)
    digits, unit = decimals([low, high]), clip(item.unit, 9)
    longest, width = max(map(len, item.x), default=0), 250 / max(len(item.x), 1)
    is_turned = longest * 6.6 > width - 2
    size = (360, min(max(width, 18), 30) * len(item.y) + (6.2 * min(longest, 10) if is_turned else 16) + 36)

    def panel(name: str, grid: Any) -> Panel:
        best = divmod(int(np.nanargmax(grid)), len(item.x)) if np.isfinite(grid).any() else None

        def draw(ax: Any) -> None:
            mesh = ax.pcolormesh(np.ma.masked_invalid(grid), vmin=low, vmax=high, cmap="viridis")
            for (i, j), value in np.ndenumerate(grid):
                if isfinite(value) and width >= 6.3 * len(number(high, digits)):
                    ink = "black" if mesh.norm(value) > 0.5 else "white"
                    ax.text(
                        j + 0.5, i + 0.5, number(value, digits), ha="center", va="center", color=ink, gid="data-cell=1"
                    )
            if best is not None:
                i, j = best
                x, y = np.add(j, [0.04, 0.96, 0.96, 0.04, 0.04]), np.add(i, [0.04, 0.04, 0.96, 0.96, 0.04])
                for colour, line in (("white", 3.5), ("black", 1.75)):
                    ax.plot(x, y, color=colour, linewidth=line)
            ax.set_xticks(np.arange(len(item.x)) + 0.5, [clip(x, 10) for x in item.x], rotation=90 * is_turned)
            ax.set_yticks(np.arange(len(item.y)) + 0.5, [clip(y, 10) for y in item.y])
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            ax.set(xlabel=clip(item.x_label, 32), ylabel=clip(item.y_label, 24))
            ax.set_facecolor(GRID)  # of cells without a value
            ax.invert_yaxis()
            bar = ax.figure.colorbar(mesh, ax=ax, pad=0.03, ticks=_round_ticks(4))
            bar.ax.yaxis.set_major_formatter(lambda value, _: with_unit(tick_text(value), unit))
            bar.outline.set_visible(False)

        description = f"Grid of {len(item.y)} by {len(item.x)} values."
        if best is not None:
            ends = [number(end, digits) for end in _extent(grid.flat)]
            description += f" From {ends[0]} to {with_unit(ends[1], item.unit)}, which is at {item.y_label} "
            description += f"{item.y[best[0]]} and {item.x_label} {item.x[best[1]]}."
        points = []
        for i, y in enumerate(item.y):
            shown = [with_unit(number(v, digits), item.unit) if isfinite(v) else "none" for v in grid[i]]
            cells = zip(item.x, shown, strict=True)
            texts = [f"{item.y_label} {y}, {item.x_label} {x}: {text}" for x, text in cells]
            points.append((name, [(j + 0.5, i + 0.5, text) for j, text in enumerate(texts)]))
        return Panel(name, size, draw, description, points)

    heads = [f"{item.y_label} \\ {item.x_label}", *item.x]
    tables = [
        (name, heads, [[y, *(number(v, digits) for v in row)] for y, row in zip(item.y, grid, strict=True)])
        for name, grid in maps.items()
    ]
    return Figure(item, "heat", [panel(*one) for one in maps.items()], columns=3, tables=tables)


def _embeddings(item: Embeddings) -> Figure:
    """A panel per method; a colour per class and a marker per view, the same in all of them."""
    labels, views = (list(dict.fromkeys(map(str, names))) for names in (item.labels, item.views))
    planes = {name: np.asarray(points, dtype=np.float64).reshape(-1, 2) for name, points in item.panels.items()}
    known = np.all([np.isfinite(points).all(axis=1) for points in planes.values()], axis=0)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, (label, view) in enumerate(zip(item.labels, item.views, strict=True)):
        if known[k]:
            groups.setdefault((labels.index(str(label)), views.index(str(view))), []).append(k)
    groups = dict(sorted(groups.items()))

    def panel(name: str) -> Panel:
        def draw(ax: Any) -> None:
            places = minmax_scale(planes[name]) if groups else planes[name]
            for (c, v), rows in groups.items():
                look = {"color": class_colour(c), "marker": view_marker(v), "gid": f"data-c={c} data-v={v}"}
                draw_points(ax, places[rows], clip_on=False, **look)
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[])
            ax.spines[:].set(visible=True, color=SOFT, linewidth=0.6)

        sizes = (counted(len(item.labels), "sample"), counted(len(labels), "class"), counted(len(views), "view"))
        return Panel(name, (240, 240), draw, "{} of {} and {} in the plane.".format(*sizes))

    names = [str(item.names[k]) for rows in groups.values() for k in rows] if len(item.names) else []
    return Figure(
        item,
        "scatter",
        [panel(name) for name in planes],
        columns=4,
        legends={
            "view": {view: {"color": SOFT, "marker": view_marker(v)} for v, view in enumerate(views)},
            "class": {label: {"color": class_colour(c), "marker": "s"} for c, label in enumerate(labels)},
        },
        explanation="The axes of each panel are stretched to fill it.",
        data={"labels": labels, "views": views, "names": names},
    )


def _matches(item: MatchBrowser) -> Figure:
    """All probes as data for the page's script, and sheets of the first ones for files."""
    images, labels = np.asarray(item.images, dtype=np.uint8), list(map(str, item.labels))
    digits = decimals(distance for probes in item.probes.values() for _, matches in probes for _, distance in matches)
    n, side, gap = max(1, _PROBES // max(len(item.probes), 1)), 66, 8
    tall = side * images.shape[1] / max(images.shape[2], 1)

    def sheet(name: str) -> Panel:
        shown = item.probes[name][:n]
        width, height = gap + (1 + _MATCHES) * (side + gap), 32 + (tall + 40) * len(shown)

        def draw(ax: Any) -> None:
            for k, (probe, matches) in enumerate(shown):
                for rank, (image, distance) in enumerate([(probe, np.nan), *matches[:_MATCHES]]):
                    is_right, text, look = labels[image] == labels[probe], clip(labels[image], 9), {"color": SOFT}
                    if rank:
                        text = f"{'✓' if is_right else '✗'} {text}\n{number(distance, digits)}"
                        look = {"color": RIGHT} if is_right else {"color": WRONG, "linestyle": ":"}
                    x, y = gap + rank * (side + gap), 28 + k * (tall + 40)
                    ax.imshow(images[image], "gray", vmin=0, vmax=255, extent=(x, x + side, y + tall, y), aspect="auto")
                    ax.plot([x, x + side, x + side, x, x], [y, y, y + tall, y + tall, y], linewidth=2.5, **look)
                    ax.text(x + side / 2, y + tall + 4, text, color=look["color"], fontsize=9, ha="center", va="top")
            ax.text(gap, 18, clip(name, width // 7), fontweight="bold")
            ax.set(xlim=(0, width), ylim=(height, 0), position=(0, 0, 1, 1))
            ax.set_axis_off()

        return Panel("", (width, height), draw)

    return Figure(
        item,
        "matches",
        [sheet(name) for name in item.probes],
        data={
            **{"size": (images.shape[2], images.shape[1]), "key": item.key, "digits": digits, "labels": labels},
            **{"probes": list(item.probes.values()), "shown": n, "matches": _MATCHES},
        },
    )
