"""Bars and curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from crossview.report.document import Bars, Curve, Curves, Entry
from crossview.report.figure import figure, key_mark, numbers
from crossview.report.markup import Markup, el, join
from crossview.report.palette import Palette
from crossview.report.svg import Scale, clip, coordinate, extent, marks, picture, plot, ticks, ticks_log
from crossview.report.words import absent, compare, decimals, finite, number, spread

__all__ = ["bars", "curves", "tick_text", "x_ticks", "y_ticks"]

_ROW, _BARS_WIDTH = 20.0, 420.0
_WIDTH, _HEIGHT = 640.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 620.0, 14.0, 338.0
_MOST_MARKERS = 14
_FEW = 10  # steps between whole numbers that all have room for a tick
_MANY = 8  # curves whose bands would hide each other


def tick_text(value: float) -> str:
    """A number at an axis.

    >>> tick_text(20.0), tick_text(0.0001), tick_text(-0.5)
    ('20', '0.0001', '−0.5')
    """
    return f"{value:.10g}".replace("-", "−") if 1e-4 <= abs(value) < 1e6 or not value else f"{value:.3g}"


# Bars.


def bars(item: Bars, palette: Palette) -> Markup:
    """A panel of horizontal bars for each group, in which every bar has its name beside it."""
    entries = [entry for row in item.series.values() for entry in row]
    digits = decimals(entry.mean for entry in entries)
    ends = [value for entry in entries for value in _reach(entry)]
    axis = ticks(min([0.0, *ends]), max([0.0, *ends])) if any(ends) else [0.0, 1.0]
    panels = (_panel(item, k, palette, axis, digits) for k in range(len(item.groups)))
    parts = ["Bar: measured"]
    parts += ["whisker: one standard deviation each way"] if any(finite(entry.sd) for entry in entries) else []
    parts += ["diamond: published"] if any(finite(entry.published) for entry in entries) else []
    rows = ([name, *(_words(entry, digits).replace("\n", "; ") for entry in row)] for name, row in item.series.items())
    return figure(
        item.key,
        item.title,
        item.caption,
        el("div", *panels, class_="panels wide"),
        el("p", "; ".join(parts) + ".", class_="explanation"),
        numbers([(item.y_label, ["", *item.groups], rows)]),
        class_="linked",
    )


def _reach(entry: Entry) -> list[float]:
    mean, sd = entry.mean, entry.sd
    ends = [mean - (sd or 0.0), mean + (sd or 0.0)] if mean is not None else []
    return [value for value in [*ends, entry.published] if value is not None and isfinite(value)]


def _words(entry: Entry, digits: int) -> str:
    shown = spread(entry.mean, entry.sd, digits) if finite(entry.mean) else absent(entry)
    parts = [shown]
    if finite(entry.published):
        difference = compare(entry, digits)
        known = f"published {spread(entry.published, entry.published_sd, digits)}"
        parts.append(f"{known}, {difference}" if difference else known)
    return "\n".join([*parts, entry.note] if entry.note else parts)


def _panel(item: Bars, group: int, palette: Palette, axis: Sequence[float], digits: int) -> Markup:
    longest = max((len(name) for name in item.series), default=0)
    left = 14 + 7.4 * min(longest, 16)
    bottom = 8 + _ROW * len(item.series)
    scale = Scale(axis[0], axis[-1], left, _BARS_WIDTH - 58)
    row = {name: entries[group] for name, entries in item.series.items()}
    known = {name: entry.mean for name, entry in row.items() if entry.mean is not None and isfinite(entry.mean)}
    top = max(known, key=lambda name: known[name], default="")
    grid = [el("path", d=f"M{coordinate(scale(t))} 4V{coordinate(bottom)}", class_="grid") for t in axis]
    labels = [el("text", tick_text(t), x=coordinate(scale(t)), y=bottom + 15, class_="mid tick") for t in axis]
    lines = [_bar(k, name, entry, palette, scale, digits) for k, (name, entry) in enumerate(row.items())]
    words = f"Bars of {item.y_label} for {len(row)} series."
    if known:
        words += f" From {number(min(known.values()), digits)} to {number(known[top], digits)}, highest: {top}."
    title = f"{item.title}, {item.groups[group]}"
    label = el("text", item.y_label, x=coordinate((left + _BARS_WIDTH - 58) / 2), y=bottom + 33, class_="mid label")
    size = (_BARS_WIDTH, bottom + 40)
    drawing = picture(f"{item.key}.{group}", title, words, size, *grid, *labels, *lines, label, class_="bars")
    points = [
        {"n": name, "p": [[round(scale(known.get(name, 0.0)), 1), _middle(k), _words(entry, digits)]]}
        for k, (name, entry) in enumerate(row.items())
    ]
    body = plot(drawing, title, points, weight=(0, 1), reach=_ROW)
    return el("div", el("h4", item.groups[group]), body, class_="panel")


def _middle(row: int) -> float:
    return 8 + _ROW * (row + 0.5)


def _bar(row: int, name: str, entry: Entry, palette: Palette, scale: Scale, digits: int) -> Markup:
    y = _middle(row)
    parts = [el("text", clip(name, 16), x=coordinate(scale.start - 6), y=y + 4, class_="end")]
    if entry.mean is not None and isfinite(entry.mean):
        zero, end = scale(0.0), scale(entry.mean)
        box = {"x": coordinate(min(zero, end)), "width": coordinate(abs(end - zero))}
        parts.append(el("rect", **box, y=y - 6.5, height=13, rx=1.5, class_="bar"))
        if entry.sd is not None and isfinite(entry.sd):
            low, high = (coordinate(scale(entry.mean + sign * entry.sd)) for sign in (-1, 1))
            parts.append(el("path", d=f"M{low} {y - 3.5}v7m0-3.5H{high}m0-3.5v7", class_="whisker"))
    if entry.published is not None and isfinite(entry.published):
        diamond = f"M{coordinate(scale(entry.published))} {y}m0-5l4.2 5l-4.2 5l-4.2-5z"
        parts.append(el("path", d=diamond, class_="known"))
    shown = number(entry.mean, digits) if finite(entry.mean) else absent(entry)
    parts.append(el("text", shown, x=_BARS_WIDTH - 4, y=y + 4, class_="end value"))
    return el("g", *parts, class_=palette.css_class(name), data_series=row)


# Curves.


def x_ticks(item: Curves) -> list[float]:
    """Ticks of the horizontal axis, between the ends of the curves.

    Whole numbers, ranks say, have a tick at the first of them, and at each where there are few.
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


def y_ticks(item: Curves) -> list[float]:
    """Ticks of the vertical axis, which enclose the curves and their bands; these are cut at 0 and 100 %.

    A band that leaves the range of a share says nothing there.
    """
    low, high = extent(curve.y[k] for curve in item.curves.values() for k in range(len(curve.y)))
    bands = [
        value
        for curve in item.curves.values()
        if curve.sd is not None
        for y, sd in zip(curve.y, curve.sd, strict=True)
        for value in (y - sd, y + sd)
        if isfinite(value)
    ]
    least, most = min([low, *bands]), max([high, *bands])
    if "%" in item.y_label and low >= 0 and high <= 100:
        least, most = max(least, 0.0), min(most, 100.0)
    return ticks(least, most, 7)


def curves(item: Curves, palette: Palette) -> Markup:
    """Lines with bands and markers, and a legend that shows and hides them."""
    x_axis, y_axis = x_ticks(item), y_ticks(item)
    low, high = extent(x for curve in item.curves.values() for x in curve.x)
    x_scale = Scale(low, high, _LEFT + 8, _RIGHT - 8, item.log_x)
    y_scale = Scale(y_axis[0], y_axis[-1], _BOTTOM, _TOP)
    digits = decimals(y for curve in item.curves.values() for y in curve.y)
    lines = [_curve(k, *named, palette, x_scale, y_scale) for k, named in enumerate(item.curves.items())]
    frame = _axes(item, x_scale, y_scale, x_axis, y_axis)
    drawing = picture(
        item.key,
        item.title,
        _curve_words(item, digits),
        (_WIDTH, _HEIGHT),
        frame,
        *lines,
        class_="curves many" if len(item.curves) > _MANY else "curves",
    )
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
    body = plot(drawing, item.title, points, mark=(13, 13, 6.5))
    entries = (_legend_entry(k, name, palette) for k, name in enumerate(item.curves))
    legend = el("div", *entries, class_="legend series", role="group", aria_label="curves")
    return figure(
        item.key,
        item.title,
        item.caption,
        el("div", body, legend, class_="beside"),
        numbers([(f"{item.y_label} by {item.x_label}", *_curve_table(item, digits))]),
    )


def _points(curve: Curve) -> Iterator[tuple[float, float, float | None]]:
    sds: Sequence[float | None] = curve.sd if curve.sd is not None else [None] * len(curve.x)
    return zip(curve.x, curve.y, sds, strict=True)


def _curve(k: int, name: str, curve: Curve, palette: Palette, x_scale: Scale, y_scale: Scale) -> Markup:
    places = [(x_scale(x), y_scale(y)) if isfinite(y) else None for x, y, _ in _points(curve)]
    known = [place for place in places if place]
    every = max(1, -(-len(known) // _MOST_MARKERS))
    marker = palette.marker(name)
    return el(
        "g",
        _band(curve, x_scale, y_scale),
        el("path", d=_line(places), class_="line", stroke_dasharray=palette.dash(name) or None),
        el("path", d=marks(known[::every], marker.outline), class_=marker.css_class),
        class_=palette.css_class(name),
        data_series=k,
    )


def _line(places: Sequence[tuple[float, float] | None]) -> str:
    """A line through places, broken where one is missing."""
    parts, pen = [], "M"
    for place in places:
        if place is not None:
            parts.append(f"{pen}{coordinate(place[0])} {coordinate(place[1])}")
        pen = "M" if place is None else "L"
    return "".join(parts)


def _band(curve: Curve, x_scale: Scale, y_scale: Scale) -> Markup | None:
    known = [(x, y, sd) for x, y, sd in _points(curve) if sd is not None and isfinite(y) and isfinite(sd)]
    if len(known) < 2:
        return None
    low, high = y_scale.low, y_scale.high
    upper = [(x_scale(x), y_scale(min(y + sd, high))) for x, y, sd in known]
    lower = [(x_scale(x), y_scale(max(y - sd, low))) for x, y, sd in reversed(known)]
    return el("path", d=_line([*upper, *lower]) + "z", class_="band")


def _axes(item: Curves, x_scale: Scale, y_scale: Scale, x_axis: Sequence[float], y_axis: Sequence[float]) -> Markup:
    across = [f"M{_LEFT} {coordinate(y_scale(t))}H{_RIGHT}" for t in y_axis]
    stubs = [f"M{coordinate(x_scale(t))} {_BOTTOM}v5" for t in x_axis]
    return join(
        [
            el("path", d="".join(across), class_="grid"),
            el("path", d=f"M{_LEFT} {_BOTTOM}H{_RIGHT}" + "".join(stubs), class_="axis"),
            *(el("text", tick_text(t), x=_LEFT - 8, y=coordinate(y_scale(t) + 4), class_="end tick") for t in y_axis),
            *(el("text", tick_text(t), x=coordinate(x_scale(t)), y=_BOTTOM + 22, class_="mid tick") for t in x_axis),
            el("text", item.x_label, x=(_LEFT + _RIGHT) / 2, y=_BOTTOM + 50, class_="mid label"),
            el("text", item.y_label, transform=f"translate(16 {(_TOP + _BOTTOM) / 2})rotate(-90)", class_="mid label"),
        ]
    )


def _legend_entry(k: int, name: str, palette: Palette) -> Markup:
    mark = key_mark(palette.marker(name), palette.css_class(name), palette.dash(name))
    title = "hide or show this curve"
    return el("button", mark, el("span", name), type="button", title=title, aria_pressed="true", data_row=k)


def _curve_words(item: Curves, digits: int) -> str:
    last = {name: curve.y[-1] for name, curve in item.curves.items() if len(curve.y) and isfinite(curve.y[-1])}
    words = f"{len(item.curves)} curves of {item.y_label} against {item.x_label}."
    if last:
        low, high = extent(y for curve in item.curves.values() for y in curve.y)
        top = max(last, key=lambda name: last[name])
        words += f" From {number(low, digits)} to {number(high, digits)}; highest at the right end: {top}."
    return words


def _curve_table(item: Curves, digits: int) -> tuple[list[str], list[list[str]]]:
    found = {name: {x: spread(y, sd, digits) for x, y, sd in _points(curve)} for name, curve in item.curves.items()}
    places = sorted({x for values in found.values() for x in values})
    rows = [[tick_text(x), *(values.get(x, "") for values in found.values())] for x in places]
    return [item.x_label, *item.curves], rows
