"""Small multiples: heat maps with one scale of colours, and embeddings with one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from crossview.report.charts import tick_text
from crossview.report.document import Embedding2D, Embeddings, HeatMap, HeatMaps
from crossview.report.figure import figure, key_mark, numbers, swatch
from crossview.report.markup import Markup, el, join, json_script
from crossview.report.palette import CLASS_COLOURS, MARKERS, VIEW_MARKERS, Palette, ink_on, scale_colour
from crossview.report.svg import clip, coordinate, extent, marks, picture, plot, ticks
from crossview.report.words import decimals, number, with_unit

__all__ = ["embeddings", "groups_of", "heat_maps"]

_HEAT_WIDTH = 320.0
_SIDE = 240.0
_FEW = 6  # embeddings that need not be small


def _room(count: int) -> str:
    return "panels wide" if count <= 2 else "panels"


# Heat maps.


def heat_maps(item: HeatMaps, palette: Palette) -> Markup:
    """Heat maps side by side, and their scale."""
    low, high = extent(value for grid in item.maps.values() for value in np.ravel(grid.values))
    digits = decimals([low, high])
    panels = (
        _heat_map(item, k, name, grid, (low, high), digits, palette) for k, (name, grid) in enumerate(item.maps.items())
    )
    tables = [
        (
            name,
            [f"{item.y_label} \\ {item.x_label}", *grid.x],
            [[y, *(number(float(v), digits) for v in row)] for y, row in zip(grid.y, grid.values, strict=True)],
        )
        for name, grid in item.maps.items()
    ]
    body = el("div", *panels, class_=_room(len(item.maps)))
    return figure(item.key, item.title, item.caption, body, _colour_bar(item.unit, low, high), numbers(tables))


def _heat_map(
    item: HeatMaps, k: int, name: str, grid: HeatMap, span: tuple[float, float], digits: int, palette: Palette
) -> Markup:
    values = np.asarray(grid.values, dtype=float).reshape(len(grid.y), len(grid.x))
    left = 26 + 6.6 * min(max((len(text) for text in grid.y), default=0), 10)
    width = (_HEAT_WIDTH - left - 4) / max(len(grid.x), 1)
    height = min(max(width, 18.0), 30.0)
    bottom = 4 + height * len(grid.y)
    turned = max((len(text) for text in grid.x), default=0) * 6.6 > width - 2
    depth = 6.2 * min(max((len(text) for text in grid.x), default=0), 10) + 6 if turned else 16
    room = width >= 6.3 * len(number(span[1], digits)) and height >= 15
    best = np.unravel_index(np.nanargmax(values), values.shape) if np.isfinite(values).any() else None
    cells = [
        _cell(left + j * width, 4 + i * height, width, height, float(values[i, j]), span, digits if room else None)
        for i in range(len(grid.y))
        for j in range(len(grid.x))
    ]
    outline = []
    words = f"Grid of {len(grid.y)} by {len(grid.x)} values."
    if best is not None:
        i, j = (int(place) for place in best)
        box = {"x": left + j * width + 1, "y": 4 + i * height + 1, "width": width - 2, "height": height - 2}
        at = {side: coordinate(value) for side, value in box.items()}
        outline = [el("rect", **at, class_="best under"), el("rect", **at, class_="best over")]
        least, most = extent(values.ravel())
        words += (
            f" From {number(least, digits)} to {with_unit(number(most, digits), item.unit)}, which is at"
            f" {item.y_label} {grid.y[i]} and {item.x_label} {grid.x[j]}."
        )
    axes = _heat_axes(item, grid, left, width, height, bottom, depth, turned=turned)
    size = (_HEAT_WIDTH, bottom + depth + 24)
    title = f"{item.title}, {name}"
    drawing = picture(f"{item.key}.{k}", title, words, size, *cells, *outline, axes, class_="heat")
    rows = [
        {
            "n": name,
            "p": [
                [
                    round(left + (j + 0.5) * width, 1),
                    round(4 + (i + 0.5) * height, 1),
                    f"{item.y_label} {y}, {item.x_label} {x}: {_value(float(values[i, j]), digits, item.unit)}",
                ]
                for j, x in enumerate(grid.x)
            ],
        }
        for i, y in enumerate(grid.y)
    ]
    body = plot(drawing, title, rows, reach=max(width, height), mark=(round(width, 1), height, 1))
    return el("div", el("h4", swatch(name, palette), name), body, class_="panel")


def _value(value: float, digits: int, unit: str) -> str:
    return with_unit(number(value, digits), unit) if isfinite(value) else "none"


def _cell(
    x: float, y: float, width: float, height: float, value: float, span: tuple[float, float], digits: int | None
) -> Markup:
    known = isfinite(value)
    colour = scale_colour((value - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 0.5) if known else None
    box = {"x": x, "y": y, "width": width + 0.3, "height": height + 0.3}  # no seams between cells
    rect = el("rect", **{side: coordinate(v) for side, v in box.items()}, fill=colour, class_=None if known else "void")
    if digits is None or colour is None:
        return rect
    middle = {"x": coordinate(x + width / 2), "y": coordinate(y + height / 2 + 4)}
    return join(
        [
            rect,
            el(
                "text",
                number(value, digits),
                **middle,
                class_=f"mid in {'black' if ink_on(colour) == '#000' else 'white'}",
            ),
        ]
    )


def _heat_axes(
    item: HeatMaps,
    grid: HeatMap,
    left: float,
    width: float,
    height: float,
    bottom: float,
    depth: float,
    *,
    turned: bool,
) -> Markup:
    down = [
        el("text", clip(text, 10), x=coordinate(left - 5), y=coordinate(8 + (i + 0.5) * height), class_="end tick")
        for i, text in enumerate(grid.y)
    ]
    across = []
    for j, text in enumerate(grid.x):
        x = left + (j + 0.5) * width
        if turned:
            place = {
                "transform": f"translate({coordinate(x + 4)} {coordinate(bottom + 5)})rotate(-90)",
                "class_": "end tick",
            }
        else:
            place = {"x": coordinate(x), "y": coordinate(bottom + 15), "class_": "mid tick"}
        across.append(el("text", clip(text, 10), **place))
    centre = left + width * len(grid.x) / 2
    across.append(el("text", item.x_label, x=coordinate(centre), y=coordinate(bottom + depth + 16), class_="mid label"))
    turn = f"translate(12 {coordinate(4 + (bottom - 4) / 2)})rotate(-90)"
    return join([*down, *across, el("text", item.y_label, transform=turn, class_="mid label")])


def _colour_bar(unit: str, low: float, high: float) -> Markup:
    steps = 60
    cells = [
        el("rect", x=coordinate(14 + k * 4.2), y=2, width=4.6, height=10, fill=scale_colour((k + 0.5) / steps))
        for k in range(steps)
    ]
    axis = [t for t in ticks(low, high, 4) if low <= t <= high] if high > low else [low]
    share = [(t, (t - low) / (high - low) if high > low else 0.5) for t in axis]
    labels = [
        el("text", with_unit(tick_text(t), unit), x=coordinate(14 + s * 252), y=27, class_="mid tick") for t, s in share
    ]
    return el("svg", *cells, *labels, viewBox="0 0 280 32", class_="chart scale", aria_hidden="true")


# Embeddings.


def embeddings(item: Embeddings, palette: Palette) -> Markup:
    """A panel per method; a colour per class and a marker per view, in all of them."""
    labels = list(dict.fromkeys(str(label) for panel in item.panels.values() for label in panel.labels))
    views = list(dict.fromkeys(str(view) for panel in item.panels.values() for view in panel.views))
    drawn = [
        _scatter(item, k, name, panel, labels, views, palette) for k, (name, panel) in enumerate(item.panels.items())
    ]
    names = [_names(panel, labels, views) for panel in item.panels.values()]
    shared = names[:1] if names and all(some == names[0] for some in names) else names
    return figure(
        item.key,
        item.title,
        item.caption,
        _embedding_legend(labels, views),
        el("div", *drawn, class_="panels small" if len(drawn) > _FEW else _room(len(drawn))),
        el("p", "Each panel has axes of its own, stretched to fill it.", class_="explanation"),
        json_script({"labels": labels, "views": views, "names": shared}),
        class_="embeddings",
    )


def groups_of(panel: Embedding2D, labels: Sequence[str], views: Sequence[str]) -> Mapping[tuple[int, int], list[int]]:
    """Samples by numbers of class and view, in order of these."""
    found: dict[tuple[int, int], list[int]] = {}
    place = {label: c for c, label in enumerate(labels)}, {view: v for v, view in enumerate(views)}
    for i, (label, view) in enumerate(zip(panel.labels, panel.views, strict=True)):
        if np.isfinite(panel.points[i]).all():
            found.setdefault((place[0][str(label)], place[1][str(view)]), []).append(i)
    return dict(sorted(found.items()))


def _names(panel: Embedding2D, labels: Sequence[str], views: Sequence[str]) -> list[str]:
    """Names of the samples in the order in which they are drawn."""
    if not len(panel.names):
        return []
    return [str(panel.names[i]) for group in groups_of(panel, labels, views).values() for i in group]


def _scatter(
    item: Embeddings, k: int, name: str, panel: Embedding2D, labels: list[str], views: list[str], palette: Palette
) -> Markup:
    points = np.asarray(panel.points, dtype=float).reshape(-1, 2)
    places = 9 + (_SIDE - 18) * _unit(points)
    paths = []
    for (c, v), group in groups_of(panel, labels, views).items():
        marker = VIEW_MARKERS[v % len(VIEW_MARKERS)]
        d = marks(((places[i, 0], _SIDE - places[i, 1]) for i in group), marker.outline)
        class_ = f"{marker.css_class} k{c % len(CLASS_COLOURS)}"
        paths.append(el("path", d=d, class_=class_, data_c=c, data_v=v))
    title = f"{item.title}, {name}"
    words = f"{len(points)} samples of {len(set(panel.labels))} classes and {len(set(panel.views))} views in the plane."
    drawing = picture(f"{item.key}.{k}", title, words, (_SIDE, _SIDE), *paths, class_="scatter")
    return el("div", el("h4", swatch(name, palette), name), plot(drawing, title, None), class_="panel")


def _unit(points: np.ndarray) -> np.ndarray:
    """Points from 0 to 1 along both axes."""
    known = points[np.isfinite(points).all(axis=1)]
    if not len(known):
        return points
    low, high = known.min(axis=0), known.max(axis=0)
    scaled: np.ndarray = (points - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _embedding_legend(labels: Sequence[str], views: Sequence[str]) -> Markup:
    square = MARKERS[1]
    classes = [
        _highlighter("class", c, label, key_mark(square, f"k{c % len(CLASS_COLOURS)}"))
        for c, label in enumerate(labels)
    ]
    shapes = [
        _highlighter("view", v, view, key_mark(VIEW_MARKERS[v % len(VIEW_MARKERS)], "plain"))
        for v, view in enumerate(views)
    ]
    return el("div", _choices("view", shapes), _choices("class", classes), class_="legends")


def _choices(name: str, buttons: Sequence[Markup]) -> Markup:
    head = el("span", name, class_="legend-head")
    return el("div", head, el("div", *buttons, class_="legend"), class_="choices", role="group", aria_label=name)


def _highlighter(kind: str, k: int, name: str, mark: Markup) -> Markup:
    title = f"make this {kind} stand out, or no longer"
    data = {"data_kind": kind[0], "data_k": k}
    return el("button", mark, el("span", name), type="button", title=title, aria_pressed="false", **data)
