"""The figures of a report: bars, curves, heat maps, common spaces and matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np
from sklearn.preprocessing import minmax_scale

from crossview._text import counted
from crossview.plot import RIGHT, WRONG, draw_curve, draw_points
from crossview.report.document import Bars, Curve, Curves, Embeddings, Entry, HeatMaps, Item, MatchBrowser
from crossview.report.drawing import DataTable, Figure, Panel, clip
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


def _extent(values: Any) -> tuple[float, float]:
    """Least and largest of the finite values; 0 and 1 if there are none."""
    known = [float(value) for value in values if isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def tick_text(value: float, _: Any = None) -> str:
    """A number at an axis."""
    return f"{value:.10g}".replace("-", "−") if 1e-4 <= abs(value) < 1e6 or not value else f"{value:.3g}"


# Bars.


def _bars(item: Bars, palette: Palette) -> Figure:
    """A panel of horizontal bars for each column, each bar next to its name and value."""
    entries = [entry for row in item.rows.values() for entry in row]
    digits = decimals(entry.mean for entry in entries)
    kind = "deviation" if any(finite(entry.sd) for entry in entries) else "error"
    explanation = "Bar: measured"
    explanation += f"; whisker: one standard {kind} each way" * any(finite(entry.spread) for entry in entries)
    explanation += "; diamond: published" * any(finite(entry.published) for entry in entries)
    rows = [[name, *(_said(e, digits).replace("\n", "; ") for e in row)] for name, row in item.rows.items()]
    return Figure(
        item,
        "bars",
        [_bars_panel(item, k, palette, digits) for k in range(len(item.columns))],
        columns=2,
        explanation=f"{explanation}.",
        tables=[DataTable(item.y_label, ["", *item.columns], rows)],
    )


def _said(entry: Entry, digits: int) -> str:
    """An entry in words."""
    known = f"published {spread(entry.published, entry.published_sd, digits)}" if finite(entry.published) else ""
    published = ", ".join(part for part in (known, compare(entry, digits)) if part)
    return "\n".join(part for part in (measured(entry, digits), published, entry.note) if part)


def _bars_panel(item: Bars, column: int, palette: Palette, digits: int) -> Panel:
    found = {name: entries[column] for name, entries in item.rows.items()}
    means = {name: entry.mean for name, entry in found.items() if finite(entry.mean)}
    every = [entry for row in item.rows.values() for entry in row]  # panels have the same axis
    ends = [v for e in every if finite(e.mean) for s in (e.spread or 0.0,) for v in (e.mean - s, e.mean + s)]
    low, high = _extent([0.0, *ends, *(entry.published for entry in every if finite(entry.published))])

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for k, (name, entry) in enumerate(found.items()):
            gid = f"data-series={k}"
            if finite(entry.mean):
                ax.barh(k, entry.mean, 0.66, color=palette[name]["color"], alpha=0.75, gid=gid)
                if finite(entry.spread):
                    reach = [entry.mean - entry.spread, entry.mean + entry.spread]
                    ax.plot(reach, [k, k], color=INK, linewidth=1.2, marker="|", markersize=7, gid=gid)
            if finite(entry.published):
                draw_points(ax, np.array([[entry.published, k]]), marker="D", color="none", markeredgewidth=1.3,
                            markeredgecolor=INK, gid=gid, alpha=1.0)  # fmt: skip
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
        description += f" From {number(min(means.values()), digits)} to {number(means[top], digits)}, highest: {top}."
    points = [
        (name, [(e.mean if finite(e.mean) else 0.0, k, _said(e, digits))]) for k, (name, e) in enumerate(found.items())
    ]
    return Panel(item.columns[column], (420, 20 * len(found) + 48), draw, description, points)


def _round_ticks(about: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(about, steps=[1, 2, 5, 10])


# Curves.


def _curves(item: Curves, palette: Palette) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    for axis, is_log in (("x", item.log_x), ("y", item.log_y)):
        if is_log and (low := min(_finite_values(item, axis), default=1.0)) <= 0:
            found = f"curves {item.key!r} have {axis} = {low:g}, which has no logarithm"
            raise ValueError(f"{found}: use log_{axis}=False.")
    digits = decimals(y for curve in item.curves.values() for y in curve.y)
    table: dict[float, dict[str, str]] = {}
    points = []
    for name, curve in item.curves.items():
        shown = []
        for x, y, sd in _points(curve):
            text = table.setdefault(x, {})[name] = spread(y, sd, digits)
            if isfinite(y):
                shown.append((x, y, f"{item.x_label} {tick_text(x)}: {text}"))
        points.append((name, shown))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for k, (name, curve) in enumerate(item.curves.items()):
            sd = None if curve.sd is None else np.array(curve.sd, dtype=np.float64)
            every = max(1, -(-len(curve.x) // _MOST_MARKERS))
            look = palette[name] | {"clip_on": False, "gid": f"data-series={k}", "markevery": every}
            draw_curve(ax, np.array(curve.x, dtype=np.float64), curve.y, sd, **look)
        _set_axes(ax, item)
        ax.set(xlabel=clip(item.x_label, 80), ylabel=clip(item.y_label, 48))
        ax.grid(axis="y")

    numbers = [[tick_text(x), *(table[x].get(name, "") for name in item.curves)] for x in sorted(table)]
    return Figure(
        item,
        "curves",
        [Panel("", (640, 400), draw, _curves_description(item, digits), points)],
        legends={"curves": {name: palette[name] for name in item.curves}},
        tables=[DataTable(f"{item.y_label} by {item.x_label}", [item.x_label, *item.curves], numbers)],
    )


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


def _finite_values(item: Curves, name: str) -> list[float]:
    return [float(value) for curve in item.curves.values() for value in getattr(curve, name) if isfinite(value)]


def x_ticks(item: Curves) -> list[float]:
    """Ticks between the ends of the curves; of whole numbers, such as ranks, the first one, and all if they are few."""
    places = _finite_values(item, "x")
    low, high = _extent(places)
    if all(x.is_integer() for x in places) and high - low <= _FEW_STEPS:
        return [low + k for k in range(int(high - low) + 1)]
    found = [float(tick) for tick in _round_ticks(6).tick_values(low, high)]
    if not all(x.is_integer() for x in places):
        return [tick for tick in found if low <= tick <= high] or [low]
    room = (found[1] - found[0]) / 2
    return [low, *(tick for tick in found if low + room <= tick <= high)]


def _points(curve: Curve) -> Iterator[tuple[float, float, float | None]]:
    """Points of a curve with their standard deviations."""
    sds: Sequence[float | None] = curve.sd if curve.sd is not None else [None] * len(curve.x)
    return zip(curve.x, curve.y, sds, strict=True)


def _curves_description(item: Curves, digits: int) -> str:
    """What the curves show, in words."""
    last = {name: curve.y[-1] for name, curve in item.curves.items() if len(curve.y) and isfinite(curve.y[-1])}
    text = f"{counted(len(item.curves), 'curve')} of {item.y_label} against {item.x_label}."
    if last:
        low, high = _extent(y for curve in item.curves.values() for y in curve.y)
        top = max(last, key=lambda name: last[name])
        text += f" From {number(low, digits)} to {number(high, digits)}; highest at the right end: {top}."
    return text


# Heat maps.


def _heat_maps(item: HeatMaps) -> Figure:
    """A panel for each map, in which the best cell is framed; all have one scale of colours."""
    maps = {name: np.asarray(grid, dtype=np.float64) for name, grid in item.maps.items()}
    span = _extent(value for grid in maps.values() for value in grid.ravel())
    digits = decimals(span)
    heads = [f"{item.y_label} \\ {item.x_label}", *item.x]
    tables = [
        DataTable(name, heads, [[y, *(number(v, digits) for v in row)] for y, row in zip(item.y, grid, strict=True)])
        for name, grid in maps.items()
    ]
    panels = [_heat_map(item, name, grid, span, digits) for name, grid in maps.items()]
    return Figure(item, "heat", panels, columns=3, tables=tables)


def _heat_map(item: HeatMaps, name: str, grid: Any, span: tuple[float, float], digits: int) -> Panel:
    longest, width = max(map(len, item.x), default=0), 250 / max(len(item.x), 1)
    height = min(max(width, 18), 30) * len(item.y)
    is_known = bool(np.isfinite(grid).any())
    i, j = divmod(int(np.nanargmax(grid)), len(item.x)) if is_known else (0, 0)

    def draw(figure: Any) -> None:
        from matplotlib.patches import Rectangle

        ax = figure.subplots()
        mesh = ax.pcolormesh(np.ma.masked_invalid(grid), vmin=span[0], vmax=span[1], cmap="viridis")
        if width >= 6.3 * len(number(span[1], digits)) and len(item.y):
            for (y, x), value in np.ndenumerate(grid):
                if isfinite(value):
                    red, green, blue, _ = mesh.cmap(mesh.norm(value))
                    is_light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18
                    ax.text(x + 0.5, y + 0.5, number(value, digits), ha="center", va="center", gid="data-cell=1",
                            color="black" if is_light else "white")  # fmt: skip
        for colour, line in (("white", 3.5), ("black", 1.75)) if is_known else ():
            ax.add_patch(Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=line))
        turn = 90 if longest * 6.6 > width - 2 else 0
        ax.set_xticks(np.arange(len(item.x)) + 0.5, [clip(text, 10) for text in item.x], rotation=turn)
        ax.set_yticks(np.arange(len(item.y)) + 0.5, [clip(text, 10) for text in item.y])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set(
            xlabel=clip(item.x_label, 32), ylabel=clip(item.y_label, 24), facecolor=GRID
        )  # seen where nothing is known
        ax.invert_yaxis()
        bar = figure.colorbar(
            mesh, ax=ax, format=lambda value, _: with_unit(tick_text(value), clip(item.unit, 9)), pad=0.03
        )
        bar.outline.set_visible(False)
        bar.locator = _round_ticks(4)

    description = f"Grid of {len(item.y)} by {len(item.x)} values."
    if is_known:
        least, most = _extent(grid.ravel())
        description += (
            f" From {number(least, digits)} to {with_unit(number(most, digits), item.unit)}, which is at"
            f" {item.y_label} {item.y[i]} and {item.x_label} {item.x[j]}."
        )
    points = []
    for y, row in enumerate(grid):
        cells = []
        for x, value in enumerate(row):
            shown = with_unit(number(value, digits), item.unit) if isfinite(value) else "none"
            cells.append((x + 0.5, y + 0.5, f"{item.y_label} {item.y[y]}, {item.x_label} {item.x[x]}: {shown}"))
        points.append((name, cells))
    depth = 6.2 * min(longest, 10) if longest * 6.6 > width - 2 else 16
    return Panel(name, (360, height + depth + 36), draw, description, points)


# Common spaces.


def _embeddings(item: Embeddings) -> Figure:
    """A panel per method; a colour per class and a marker per view, the same in all of them."""
    labels, views = (list(dict.fromkeys(map(str, names))) for names in (item.labels, item.views))
    planes = {name: np.asarray(points, dtype=np.float64).reshape(-1, 2) for name, points in item.panels.items()}
    known = [k for k in range(len(item.labels)) if all(np.isfinite(points[k]).all() for points in planes.values())]
    groups: dict[tuple[int, int], list[int]] = {}
    for k in known:
        groups.setdefault((labels.index(str(item.labels[k])), views.index(str(item.views[k]))), []).append(k)
    groups = dict(sorted(groups.items()))
    found = [counted(len(item.labels), "sample"), counted(len(labels), "class"), counted(len(views), "view")]
    description = f"{found[0]} of {found[1]} and {found[2]} in the plane."

    def panel(name: str) -> Panel:
        def draw(figure: Any) -> None:
            ax = figure.subplots()
            places = np.full((len(item.labels), 2), np.nan)
            if known:
                places[known] = minmax_scale(planes[name][known])
            for (c, v), rows in groups.items():
                look = {"color": class_colour(c), "marker": view_marker(v), "gid": f"data-c={c} data-v={v}"}
                draw_points(ax, places[rows], clip_on=False, **look)
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[])
            ax.spines[:].set(visible=True, color=SOFT, linewidth=0.6)

        return Panel(name, (240, 240), draw, description)

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


# Matches.


def _matches(item: MatchBrowser) -> Figure:
    """All probes as data for the page's script, and sheets of the first ones for files."""
    images = np.asarray(item.images, dtype=np.uint8)
    digits = decimals(distance for probes in item.probes.values() for _, matches in probes for _, distance in matches)
    n, side = max(1, _PROBES // max(len(item.probes), 1)), 66
    tall = side * images.shape[1] / max(images.shape[2], 1)
    width = (1 + _MATCHES) * (side + 8) + 8

    def sheet(name: str) -> Panel:
        shown = item.probes[name][:n]
        size = (width, 32 + (tall + 40) * len(shown))

        def draw(figure: Any) -> None:
            from matplotlib.patches import Rectangle

            ax = figure.add_axes((0, 0, 1, 1))
            for k, (probe, matches) in enumerate(shown):
                for rank, (image, distance) in enumerate([(probe, np.nan), *matches[:_MATCHES]]):
                    label, right = clip(str(item.labels[image]), 9), item.labels[image] == item.labels[probe]
                    colour, dash, text = SOFT, "-", label
                    if rank:
                        text = f"{'✓' if right else '✗'} {label}\n{number(distance, digits)}"
                        colour, dash = (RIGHT, "-") if right else (WRONG, ":")
                    x, y = 8 + rank * (side + 8), 28 + k * (tall + 40)
                    ax.imshow(images[image], "gray", vmin=0, vmax=255, extent=(x, x + side, y + tall, y), aspect="auto")
                    ax.add_patch(Rectangle((x, y), side, tall, fill=False, ec=colour, linestyle=dash, linewidth=2.5))
                    ax.text(x + side / 2, y + tall + 4, text, color=colour, fontsize=9, ha="center", va="top")
            ax.text(8, 18, clip(name, int(width / 7)), fontweight="bold")
            ax.set(xlim=(0, width), ylim=(size[1], 0))
            ax.set_axis_off()

        return Panel("", size, draw)

    data = {
        "size": (images.shape[2], images.shape[1]),
        "key": item.key,
        "digits": digits,
        "labels": list(map(str, item.labels)),
        "probes": list(item.probes.values()),
        "shown": n,
        "matches": _MATCHES,
    }
    return Figure(item, "matches", [sheet(name) for name in item.probes], data=data)
