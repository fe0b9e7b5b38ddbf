"""The figures of a report: bars, curves and common spaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from sklearn.preprocessing import minmax_scale

from crossview._text import counted
from crossview.plot import draw_curve, draw_points
from crossview.report.document import Bars, Curves, Embeddings
from crossview.report.drawing import INK, SOFT, Figure, Look, Panel, clip, series_look
from crossview.report.tables import decimals, finite, measured, number, published, spread

_MOST_MARKERS = 14
_FEW_STEPS = 10  # between whole numbers that all have room for a tick
_VALUES = "accuracy, %"  # of bars


def figure_of(item: Bars | Curves | Embeddings, looks: Mapping[str, Look]) -> Figure:
    """The drawings of an item; its bars or curves look as `looks` says."""
    if isinstance(item, Bars):
        return _bars(item, looks)
    return _curves(item, looks) if isinstance(item, Curves) else _embeddings(item)


def _extent(values: Iterable[Any]) -> tuple[float, float]:
    """Least and largest of the finite values; 0 and 1 if there are none."""
    known = [float(value) for value in values if finite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def _range(values: Iterable[float], digits: int) -> str:
    return "from {} to {}".format(*(number(end, digits) for end in _extent(values)))


def _round_ticks(about: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(about, steps=[1, 2, 5, 10])


def tick_text(value: float, _: Any = None) -> str:
    """A number at an axis."""
    return f"{value:.10g}".replace("-", "−") if 1e-4 <= abs(value) < 1e6 or not value else f"{value:.3g}"


def _bars(item: Bars, looks: Mapping[str, Look]) -> Figure:
    """A panel of horizontal bars for each column, each bar next to its name and value."""
    entries = [entry for row in item.rows.values() for entry in row]
    digits = decimals(entry.mean for entry in entries)
    ends = [(entry.mean or 0.0) + sign * (entry.spread or 0.0) for entry in entries for sign in (-1, 1)]
    low, high = _extent([0.0, *ends, *(entry.published for entry in entries)])

    def panel(column: int) -> Panel:
        found = {name: row[column] for name, row in item.rows.items()}
        means = {name: entry.mean for name, entry in found.items() if finite(entry.mean)}

        def draw(ax: Any) -> None:
            for k, (name, entry) in enumerate(found.items()):
                gid = f"data-series={k}"
                if finite(entry.mean):
                    ax.barh(k, entry.mean, 0.66, color=looks[name]["color"], alpha=0.75, gid=gid)
                    if finite(entry.spread):
                        ends = [entry.mean - entry.spread, entry.mean + entry.spread]
                        ax.plot(ends, [k, k], color=INK, linewidth=1.2, marker="|", markersize=7, gid=gid)
                if finite(entry.published):
                    ax.plot(entry.published, k, "D", mec=INK, mfc="none", mew=1.3, markersize=5, gid=gid)
                text = number(entry.mean, digits) if finite(entry.mean) else measured(entry, digits)
                ax.annotate(text, (1, k), (46, 0), ax.get_yaxis_transform(), "offset points", ha="right", va="center")
            ax.set(xlim=(1.05 * low, 1.05 * high), ylim=(len(found) - 0.4, -0.6), xlabel=_VALUES)
            ax.set_yticks(range(len(found)), [clip(name, 16) for name in found], color=INK)
            ax.tick_params(length=0)
            ax.xaxis.set_major_locator(_round_ticks(5))
            ax.xaxis.set_major_formatter(tick_text)
            ax.spines[:].set_visible(False)
            ax.grid(axis="x")

        top = f", highest: {max(means, key=lambda name: means[name])}" if means else ""
        description = f"{counted(len(found), 'bar')} of {_VALUES}, {_range(means.values(), digits)}{top}."
        points = []
        for k, (name, entry) in enumerate(found.items()):
            text = "\n".join(filter(None, (measured(entry, digits), published(entry, digits), entry.note)))
            points.append((name, [(means.get(name, 0.0), k, text)]))
        return Panel(item.columns[column], draw, description, points)

    kind = "deviation" if any(finite(entry.sd) for entry in entries) else "error"
    explanation = "Bar: measured"
    explanation += f"; whisker: one standard {kind} each way" * any(finite(entry.spread) for entry in entries)
    explanation += "; diamond: published" * any(finite(entry.published) for entry in entries)
    panels = [panel(column) for column in range(len(item.columns))]
    return Figure(item, "bars", panels, (420, 20 * len(item.rows) + 48), columns=2, explanation=f"{explanation}.")


def _curves(item: Curves, looks: Mapping[str, Look]) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    for axis, is_log in (("x", item.log_x), ("y", item.log_y)):
        if is_log and (low := min(_finite_values(item, axis), default=1.0)) <= 0:
            found = f"curves {item.key!r} have {axis} = {low:g}, which has no logarithm"
            raise ValueError(f"{found}: use log_{axis}=False.")
    values = _finite_values(item, "y")
    digits = decimals(values)
    texts: dict[float, dict[str, str]] = {}
    for name, curve in item.curves.items():
        sds: Sequence[float | None] = curve.sd or [None] * len(curve.x)
        for x, y, sd in zip(curve.x, curve.y, sds, strict=True):
            texts.setdefault(x, {})[name] = spread(y, sd, digits)

    def draw(ax: Any) -> None:
        for k, (name, curve) in enumerate(item.curves.items()):
            every = max(1, -(-len(curve.x) // _MOST_MARKERS))
            look = looks[name] | {"clip_on": False, "gid": f"data-series={k}", "markevery": every}
            draw_curve(ax, curve.x, curve.y, curve.sd, **look)
        _set_axes(ax, item)
        ax.set(xlabel=clip(item.x_label, 80), ylabel=clip(item.y_label, 48))
        ax.grid(axis="y")

    points = []
    for name, curve in item.curves.items():
        known = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(y)]
        points.append((name, [(x, y, f"{item.x_label} {tick_text(x)}: {texts[x][name]}") for x, y in known]))
    description = (
        f"{counted(len(item.curves), 'curve')} of {item.y_label} against {item.x_label}, {_range(values, digits)}."
    )
    rows = [[tick_text(x), *(texts[x].get(name, "") for name in item.curves)] for x in sorted(texts)]
    return Figure(
        item,
        "curves",
        [Panel("", draw, description, points)],
        (640, 400),
        legends={"curves": {name: looks[name] for name in item.curves}},
        table=[[item.x_label, *item.curves], *rows],
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
            axis.set_major_locator(_round_ticks(7))
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
    inside = [float(tick) for tick in _round_ticks(6).tick_values(low, high) if low <= tick <= high]
    return [low, *(tick for tick in inside if tick > low + 0.05 * (high - low))] if is_whole else inside or [low]


def _embeddings(item: Embeddings) -> Figure:
    """A panel per method; a colour per class and a marker per view, the same in all of them."""
    labels, views = (list(dict.fromkeys(names)) for names in (item.labels, item.views))
    groups: dict[tuple[int, int], list[int]] = {}
    for k, (label, view) in enumerate(zip(item.labels, item.views, strict=True)):
        groups.setdefault((labels.index(label), views.index(view)), []).append(k)
    groups = dict(sorted(groups.items()))
    sizes = (counted(len(item.labels), "sample"), counted(len(labels), "class"), counted(len(views), "view"))
    description = "{} of {} and {} in the plane.".format(*sizes)

    def panel(name: str) -> Panel:
        def draw(ax: Any) -> None:
            places = minmax_scale(item.panels[name]) if groups else np.empty((0, 2))
            for (c, v), rows in groups.items():
                look = {"color": series_look(c)["color"], "marker": series_look(v)["marker"]}
                draw_points(ax, places[rows], clip_on=False, gid=f"data-c={c} data-v={v}", **look)
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[])
            ax.spines[:].set(visible=True, color=SOFT, linewidth=0.6)

        return Panel(name, draw, description)

    legends = {
        "view": {view: {"color": SOFT, "marker": series_look(v)["marker"]} for v, view in enumerate(views)},
        "class": {label: {"color": series_look(c)["color"], "marker": "s"} for c, label in enumerate(labels)},
    }
    return Figure(
        item,
        "scatter",
        [panel(name) for name in item.panels],
        (240, 240),
        columns=4,
        legends=legends,
        explanation="The axes of each panel are stretched to fill it.",
        data={"labels": labels, "views": views, "names": [item.names[k] for rows in groups.values() for k in rows]},
    )
