"""Bars and curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from crossview.report.document import Bars, Curve, Curves, Entry
from crossview.report.drawing import (
    DataTable,
    Drawing,
    Figure,
    LegendEntry,
    Scale,
    clip,
    coordinate,
    extent,
    marks,
    tick_text,
    ticks,
    ticks_log,
)
from crossview.report.formatting import absent, compare, decimals, finite, number, spread
from crossview.report.palette import Palette

__all__ = ["bars", "curves", "x_ticks"]

_ROW, _BARS_WIDTH = 20.0, 420.0
_WIDTH, _HEIGHT = 640.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 620.0, 14.0, 338.0
_MOST_MARKERS = 14
_FEW = 10  # steps between whole numbers that all have room for a tick


def bars(item: Bars, palette: Palette) -> Figure:
    """A panel of horizontal bars for each group, each bar next to its name and value."""
    entries = [entry for row in item.series.values() for entry in row]
    digits = decimals(entry.mean for entry in entries)
    ends = [value for entry in entries for value in _reach(entry)]
    axis = ticks(min([0.0, *ends]), max([0.0, *ends])) if any(ends) else [0.0, 1.0]
    parts = ["Bar: measured"]
    parts += ["whisker: one standard deviation each way"] if any(finite(entry.sd) for entry in entries) else []
    parts += ["diamond: published"] if any(finite(entry.published) for entry in entries) else []
    rows = [[name, *(_text(e, digits).replace("\n", "; ") for e in row)] for name, row in item.series.items()]
    return Figure(
        item.key,
        item.title,
        item.caption,
        "bars",
        [_bars(item, k, palette, axis, digits) for k in range(len(item.groups))],
        columns=2,
        explanation="; ".join(parts) + ".",
        tables=[DataTable(item.y_label, ["", *item.groups], rows)],
    )


def _reach(entry: Entry) -> list[float]:
    """How far a bar, its whisker and its diamond reach."""
    mean, sd = entry.mean, entry.sd
    ends = [mean - (sd or 0.0), mean + (sd or 0.0)] if mean is not None else []
    return [value for value in [*ends, entry.published] if value is not None and isfinite(value)]


def _text(entry: Entry, digits: int) -> str:
    """An entry in words."""
    parts = [spread(entry.mean, entry.sd, digits) if finite(entry.mean) else absent(entry)]
    if finite(entry.published):
        difference = compare(entry, digits)
        known = f"published {spread(entry.published, entry.published_sd, digits)}"
        parts.append(f"{known}, {difference}" if difference else known)
    return "\n".join([*parts, entry.note] if entry.note else parts)


def _bars(item: Bars, group: int, palette: Palette, axis: Sequence[float], digits: int) -> Drawing:
    """The bars of one group."""
    longest = max((len(name) for name in item.series), default=0)
    left, right = 14 + 7.4 * min(longest, 16), _BARS_WIDTH - 58
    bottom = 8 + _ROW * len(item.series)
    scale = Scale(axis[0], axis[-1], left, right)
    row = {name: entries[group] for name, entries in item.series.items()}
    known = {name: entry.mean for name, entry in row.items() if entry.mean is not None and isfinite(entry.mean)}
    description = f"Bars of {item.y_label} for {len(row)} series."
    if known:
        top = max(known, key=lambda name: known[name])
        description += f" From {number(min(known.values()), digits)} to {number(known[top], digits)}, highest: {top}."
    lines = [_bar(8 + _ROW * (k + 0.5), name, e, palette, scale, digits) for k, (name, e) in enumerate(row.items())]
    points = [
        {"n": name, "p": [[round(scale(known.get(name, 0.0)), 1), line["y"], _text(entry, digits)]]}
        for (name, entry), line in zip(row.items(), lines, strict=True)
    ]
    return Drawing(
        "bars",
        f"{item.key}.{group}",
        f"{item.title}, {item.groups[group]}",
        description,
        (_BARS_WIDTH, bottom + 40),
        {
            "rows": lines,
            "ticks": [(scale(t), tick_text(t)) for t in axis],
            "bottom": bottom,
            "left": left - 6,
            "right": _BARS_WIDTH - 4,
            "label": (clip(item.y_label, 40), (left + right) / 2),
        },
        item.groups[group],
        {"rows": points, "weight": (0, 1), "reach": _ROW, "mark": None},
    )


def _bar(y: float, name: str, entry: Entry, palette: Palette, scale: Scale, digits: int) -> dict[str, Any]:
    """A bar, its whisker and its diamond, as far as they are known."""
    bar = whisker = None
    if entry.mean is not None and isfinite(entry.mean):
        zero, end = scale(0.0), scale(entry.mean)
        bar = (min(zero, end), abs(end - zero))
        if entry.sd is not None and isfinite(entry.sd):
            whisker = (scale(entry.mean - entry.sd), scale(entry.mean + entry.sd))
    return {
        "y": y,
        "name": clip(name, 16),
        "colour": palette.css_class(name),
        "value": number(entry.mean, digits) if bar else absent(entry),
        "bar": bar,
        "whisker": whisker,
        "diamond": scale(entry.published) if entry.published is not None and isfinite(entry.published) else None,
    }


def x_ticks(item: Curves) -> list[float]:
    """Ticks of the horizontal axis, between the ends of the curves.

    Whole numbers, such as ranks, have a tick at the first one, and at every one if they are few.
    """
    places = {float(x) for curve in item.curves.values() for x in curve.x}
    low, high = extent(places)
    if item.log_x and low <= 0:
        raise ValueError(f"curves {item.key!r} have x = {low:g}, which has no logarithm: use log_x=False.")
    if item.log_x:
        return ticks_log(low, high) or [low]
    if not all(x.is_integer() for x in places):
        return [t for t in ticks(low, high, 6) if low <= t <= high] or [low]
    if high - low <= _FEW:
        return [low + k for k in range(int(high - low) + 1)]
    found = ticks(low, high, 6)
    room = (found[1] - found[0]) / 2
    return [low, *(t for t in found if low + room <= t <= high)]


def _y_ticks(item: Curves) -> list[float]:
    """Ticks of the vertical axis, which enclose the curves and their bands; bands of shares end at 0 and 100 %."""
    low, high = extent(y for curve in item.curves.values() for y in curve.y)
    bands = [
        value
        for curve in item.curves.values()
        for _, y, sd in _points(curve)
        if sd is not None
        for value in (y - sd, y + sd)
        if isfinite(value)
    ]
    least, most = min([low, *bands]), max([high, *bands])
    if "%" in item.y_label and low >= 0 and high <= 100:
        least, most = max(least, 0.0), min(most, 100.0)
    return ticks(least, most, 7)


def curves(item: Curves, palette: Palette) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    x_axis, y_axis = x_ticks(item), _y_ticks(item)
    low, high = extent(x for curve in item.curves.values() for x in curve.x)
    x_scale = Scale(low, high, _LEFT + 8, _RIGHT - 8, item.log_x)
    y_scale = Scale(y_axis[0], y_axis[-1], _BOTTOM, _TOP)
    digits = decimals(y for curve in item.curves.values() for y in curve.y)
    points = [
        {
            "n": name,
            "p": [
                [round(x_scale(x), 1), round(y_scale(y), 1), f"{item.x_label} {tick_text(x)}: {spread(y, sd, digits)}"]
                for x, y, sd in _points(curve)
                if isfinite(y)
            ],
        }
        for name, curve in item.curves.items()
    ]
    drawing = Drawing(
        "curves",
        item.key + ".0",
        item.title,
        _description(item, digits),
        (_WIDTH, _HEIGHT),
        {
            "lines": [_curve(name, curve, palette, x_scale, y_scale) for name, curve in item.curves.items()],
            "x_ticks": [(x_scale(t), tick_text(t)) for t in x_axis],
            "y_ticks": [(y_scale(t), tick_text(t)) for t in y_axis],
            "frame": {"left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM},
            "labels": (clip(item.x_label, 80), clip(item.y_label, 48)),
        },
        points={"rows": points, "weight": (1, 1), "reach": 40, "mark": (13, 13, 6.5)},
    )
    keys = [
        LegendEntry(name, palette.css_class(name), palette.marker(name), palette.dash(name)) for name in item.curves
    ]
    found = {name: {x: spread(y, sd, digits) for x, y, sd in _points(curve)} for name, curve in item.curves.items()}
    places = sorted({x for values in found.values() for x in values})
    rows = [[tick_text(x), *(values.get(x, "") for values in found.values())] for x in places]
    table = DataTable(f"{item.y_label} by {item.x_label}", [item.x_label, *item.curves], rows)
    return Figure(
        item.key,
        item.title,
        item.caption,
        "curves",
        [drawing],
        legends={"curves": keys} if keys else {},
        tables=[table],
    )


def _points(curve: Curve) -> Iterator[tuple[float, float, float | None]]:
    """Points of a curve with their standard deviations."""
    sds: Sequence[float | None] = curve.sd if curve.sd is not None else [None] * len(curve.x)
    return zip(curve.x, curve.y, sds, strict=True)


def _curve(name: str, curve: Curve, palette: Palette, x_scale: Scale, y_scale: Scale) -> dict[str, Any]:
    """Paths of a line, its markers and its band."""
    places = [(x_scale(x), y_scale(y)) if isfinite(y) else None for x, y, _ in _points(curve)]
    known = [place for place in places if place]
    every = max(1, -(-len(known) // _MOST_MARKERS))
    marker = palette.marker(name)
    return {
        "colour": palette.css_class(name),
        "dash": palette.dash(name),
        "band": _band(curve, x_scale, y_scale),
        "line": _line(places),
        "marks": marks(known[::every], marker.outline),
        "mark_class": marker.css_class,
    }


def _line(places: Sequence[tuple[float, float] | None]) -> str:
    """A line through places, broken where one is missing."""
    parts, pen = [], "M"
    for place in places:
        if place is not None:
            parts.append(f"{pen}{coordinate(place[0])} {coordinate(place[1])}")
        pen = "M" if place is None else "L"
    return "".join(parts)


def _band(curve: Curve, x_scale: Scale, y_scale: Scale) -> str:
    """One standard deviation each way; empty where it is known of less than two points."""
    known = [(x, y, sd) for x, y, sd in _points(curve) if sd is not None and isfinite(y) and isfinite(sd)]
    if len(known) < 2:
        return ""
    upper = [(x_scale(x), y_scale(min(y + sd, y_scale.high))) for x, y, sd in known]
    lower = [(x_scale(x), y_scale(max(y - sd, y_scale.low))) for x, y, sd in reversed(known)]
    return _line([*upper, *lower]) + "z"


def _description(item: Curves, digits: int) -> str:
    """What the curves show, in words."""
    last = {name: curve.y[-1] for name, curve in item.curves.items() if len(curve.y) and isfinite(curve.y[-1])}
    text = f"{len(item.curves)} curves of {item.y_label} against {item.x_label}."
    if last:
        low, high = extent(y for curve in item.curves.values() for y in curve.y)
        top = max(last, key=lambda name: last[name])
        text += f" From {number(low, digits)} to {number(high, digits)}; highest at the right end: {top}."
    return text
