"""Bars and curves."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, isfinite, log10
from typing import Any

from crossview._text import counted
from crossview.report.document import Bars, Curve, Curves, Entry
from crossview.report.drawing import (
    DataTable,
    Drawing,
    Figure,
    Scale,
    clip,
    coordinate,
    extent,
    marks,
    tick_text,
    ticks,
    ticks_log,
)
from crossview.report.formatting import absent, compare, decimals, finite, measured, number, spread
from crossview.report.palette import LegendEntry, Palette

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
    explanation = "Bar: measured"
    kind = "deviation" if any(finite(entry.sd) for entry in entries) else "error"
    explanation += f"; whisker: one standard {kind} each way" * any(finite(entry.spread) for entry in entries)
    explanation += "; diamond: published" * any(finite(entry.published) for entry in entries)
    rows = [[name, *(_text(e, digits).replace("\n", "; ") for e in row)] for name, row in item.series.items()]
    return Figure(
        item,
        "bars",
        [_bars(item, k, palette, axis, digits) for k in range(len(item.groups))],
        columns=2,
        explanation=f"{explanation}.",
        tables=[DataTable(item.y_label, ["", *item.groups], rows)],
    )


def _reach(entry: Entry) -> list[float]:
    """How far a bar, its whisker and its diamond reach."""
    ends = [entry.mean - (entry.spread or 0.0), entry.mean + (entry.spread or 0.0)] if finite(entry.mean) else []
    return [value for value in [*ends, entry.published] if finite(value)]


def _text(entry: Entry, digits: int) -> str:
    """An entry in words."""
    known = f"published {spread(entry.published, entry.published_sd, digits)}" if finite(entry.published) else ""
    published = ", ".join(part for part in (known, compare(entry, digits)) if part)
    return "\n".join(part for part in (measured(entry, digits), published, entry.note) if part)


def _bars(item: Bars, group: int, palette: Palette, axis: Sequence[float], digits: int) -> Drawing:
    """The bars of one group."""
    left, right = 14 + 7.4 * min(max(map(len, item.series), default=0), 16), _BARS_WIDTH - 58
    bottom = 8 + _ROW * len(item.series)
    scale = Scale(axis[0], axis[-1], left, right)
    lines, points = [], []
    for k, (name, entries) in enumerate(item.series.items()):
        entry, y = entries[group], 8 + _ROW * (k + 0.5)
        mean, error, published = entry.mean, entry.spread, entry.published
        end = scale(mean if finite(mean) else 0.0)
        lines.append(
            {
                "y": y,
                "name": clip(name, 16),
                "colour": palette[name].css_class,
                "value": number(mean, digits) if finite(mean) else absent(entry),
                "bar": (min(scale(0.0), end), abs(end - scale(0.0))) if finite(mean) else None,
                "whisker": (scale(mean - error), scale(mean + error)) if finite(mean) and finite(error) else None,
                "diamond": scale(published) if finite(published) else None,
            }
        )
        points.append({"n": name, "p": [[round(end, 1), y, _text(entry, digits)]]})
    description = f"Bars of {item.y_label} for {len(lines)} series."
    means = {name: row[group].mean for name, row in item.series.items()}
    if known := {name: mean for name, mean in means.items() if finite(mean)}:
        top = max(known, key=lambda name: known[name])
        description += f" From {number(min(known.values()), digits)} to {number(known[top], digits)}, highest: {top}."
    shapes = {
        "rows": lines,
        "ticks": [(scale(t), tick_text(t)) for t in axis],
        "bottom": bottom,
        "left": left - 6,
        "right": _BARS_WIDTH - 4,
        "label": (clip(item.y_label, 40), (left + right) / 2),
    }
    script = {"rows": points, "weight": (0, 1), "reach": _ROW, "mark": None}
    return Drawing("bars", (_BARS_WIDTH, bottom + 40), shapes, description, item.groups[group], script)


def x_ticks(item: Curves) -> list[float]:
    """Ticks between the ends of the curves; of whole numbers, such as ranks, the first one, and all if they are few."""
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
    points = [point for curve in item.curves.values() for point in _points(curve)]
    low, high = extent(y for _, y, _ in points)
    if item.log_y:
        return _enclosing_powers(item.key, low, high) if any(isfinite(y) for _, y, _ in points) else [0.1, 1.0]
    bands = [value for _, y, sd in points if finite(sd) and isfinite(y) for value in (y - sd, y + sd)]
    least, most = min([low, *bands]), max([high, *bands])
    if "%" in item.y_label and low >= 0 and high <= 100:
        least, most = max(least, 0.0), min(most, 100.0)
    return ticks(least, most, 7)


def _enclosing_powers(key: str, low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis from one power of ten to another."""
    if low <= 0:
        raise ValueError(f"curves {key!r} have y = {low:g}, which has no logarithm: use log_y=False.")
    first, last = floor(log10(low)), ceil(log10(high))
    return ticks_log(10.0**first, 10.0 ** max(last, first + 1))


def curves(item: Curves, palette: Palette) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    x_axis, y_axis = x_ticks(item), _y_ticks(item)
    low, high = extent(x for curve in item.curves.values() for x in curve.x)
    x_scale = Scale(low, high, _LEFT + 8, _RIGHT - 8, item.log_x)
    y_scale = Scale(y_axis[0], y_axis[-1], _BOTTOM, _TOP, item.log_y)
    digits = decimals(y for curve in item.curves.values() for y in curve.y)
    lines, rows = [], []
    table: dict[float, dict[str, str]] = {}
    for name, curve in item.curves.items():
        lines.append(_curve(palette[name], curve, x_scale, y_scale))
        points = []
        for x, y, sd in _points(curve):
            text = table.setdefault(x, {})[name] = spread(y, sd, digits)
            if isfinite(y):
                points.append([round(x_scale(x), 1), round(y_scale(y), 1), f"{item.x_label} {tick_text(x)}: {text}"])
        rows.append({"n": name, "p": points})
    shapes = {
        "lines": lines,
        "x_ticks": [(x_scale(t), tick_text(t)) for t in x_axis],
        "y_ticks": [(y_scale(t), tick_text(t)) for t in y_axis],
        "frame": {"left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM},
        "labels": (clip(item.x_label, 80), clip(item.y_label, 48)),
    }
    script = {"rows": rows, "weight": (1, 1), "reach": 40, "mark": (13, 13, 6.5)}
    numbers = [[tick_text(x), *(table[x].get(name, "") for name in item.curves)] for x in sorted(table)]
    return Figure(
        item,
        "curves",
        [Drawing("curves", (_WIDTH, _HEIGHT), shapes, _description(item, digits), points=script)],
        legends={"curves": [palette[name] for name in item.curves]},
        tables=[DataTable(f"{item.y_label} by {item.x_label}", [item.x_label, *item.curves], numbers)],
    )


def _points(curve: Curve) -> Iterator[tuple[float, float, float | None]]:
    """Points of a curve with their standard deviations."""
    sds: Sequence[float | None] = curve.sd if curve.sd is not None else [None] * len(curve.x)
    return zip(curve.x, curve.y, sds, strict=True)


def _curve(key: LegendEntry, curve: Curve, x_scale: Scale, y_scale: Scale) -> dict[str, Any]:
    """Paths of a line, its markers and its band."""
    places = [(x_scale(x), y_scale(y)) if isfinite(y) else None for x, y, _ in _points(curve)]
    known = [place for place in places if place]
    marked = marks(known[:: max(1, -(-len(known) // _MOST_MARKERS))], key.marker.outline)
    return {"key": key, "band": _band(curve, x_scale, y_scale), "line": _line(places), "marks": marked}


def _line(places: Sequence[tuple[float, float] | None]) -> str:
    """A line through places, broken where one is missing."""
    parts, pen = [], "M"
    for place in places:
        if place is not None:
            parts.append(f"{pen}{coordinate(place[0])} {coordinate(place[1])}")
        pen = "M" if place is None else "L"
    return "".join(parts)


def _band(curve: Curve, x_scale: Scale, y_scale: Scale) -> str:
    """One standard deviation each way; empty if it is known for fewer than two points."""
    known = [(x, y, sd) for x, y, sd in _points(curve) if finite(sd) and isfinite(y)]
    if len(known) < 2:
        return ""
    upper = [(x_scale(x), y_scale(min(y + sd, y_scale.high))) for x, y, sd in known]
    lower = [(x_scale(x), y_scale(max(y - sd, y_scale.low))) for x, y, sd in reversed(known)]
    return _line([*upper, *lower]) + "z"


def _description(item: Curves, digits: int) -> str:
    """What the curves show, in words."""
    last = {name: curve.y[-1] for name, curve in item.curves.items() if len(curve.y) and isfinite(curve.y[-1])}
    text = f"{counted(len(item.curves), 'curve')} of {item.y_label} against {item.x_label}."
    if last:
        low, high = extent(y for curve in item.curves.values() for y in curve.y)
        top = max(last, key=lambda name: last[name])
        text += f" From {number(low, digits)} to {number(high, digits)}; highest at the right end: {top}."
    return text
