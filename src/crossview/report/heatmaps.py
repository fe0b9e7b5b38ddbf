"""Heat maps side by side, with one scale of colours."""

from math import isfinite

import numpy as np

from crossview.report.document import HeatMap, HeatMaps
from crossview.report.drawing import DataTable, Drawing, Figure, Scale, clip, extent, tick_text, ticks
from crossview.report.formatting import decimals, number, with_unit
from crossview.report.palette import ink_on, scale_colour

_WIDTH = 320.0
_STEPS = 60  # of the scale of colours


def heat_maps(item: HeatMaps) -> Figure:
    """A panel for each map, in which the best cell is framed."""
    span = extent(value for grid in item.maps.values() for value in np.ravel(grid.values))
    digits = decimals(span)
    drawings, tables = [], []
    for name, grid in item.maps.items():
        drawings.append(_heat_map(item, name, grid, span, digits))
        rows = [[y, *(number(float(v), digits) for v in row)] for y, row in zip(grid.y, grid.values, strict=True)]
        tables.append(DataTable(name, [f"{item.y_label} \\ {item.x_label}", *grid.x], rows))
    return Figure(item, "heat", drawings, columns=3, scale=_scale(item, *span) if drawings else None, tables=tables)


def _heat_map(item: HeatMaps, name: str, grid: HeatMap, span: tuple[float, float], digits: int) -> Drawing:
    """One map."""
    values = np.asarray(grid.values, dtype=float).reshape(len(grid.y), len(grid.x))
    left = 26 + 6.6 * min(max(map(len, grid.y), default=0), 10)
    width = (_WIDTH - left - 4) / max(len(grid.x), 1)
    height = min(max(width, 18.0), 30.0)
    bottom = 4 + height * len(grid.y)
    longest = max(map(len, grid.x), default=0)
    turned = longest * 6.6 > width - 2
    depth = 6.2 * min(longest, 10) + 6 if turned else 16
    labelled = width >= 6.3 * len(number(span[1], digits)) and height >= 15
    cells, rows, share = [], [], Scale(*span, 0.0, 1.0)
    for i, y in enumerate(grid.y):
        points = []
        for j, x in enumerate(grid.x):
            value, at = float(values[i, j]), (left + j * width, 4 + i * height)
            colour = scale_colour(share(value)) if isfinite(value) else None
            text = number(value, digits) if labelled and colour else ""
            cells.append({"x": at[0], "y": at[1], "colour": colour, "ink": colour and ink_on(colour), "text": text})
            shown = with_unit(number(value, digits), item.unit) if isfinite(value) else "none"
            middle = (round(at[0] + width / 2, 1), round(at[1] + height / 2, 1))
            points.append([*middle, f"{item.y_label} {y}, {item.x_label} {x}: {shown}"])
        rows.append({"n": name, "p": points})
    description, best = f"Grid of {len(grid.y)} by {len(grid.x)} values.", None
    if np.isfinite(values).any():
        i, j = (int(place) for place in np.unravel_index(np.nanargmax(values), values.shape))
        best = (left + j * width + 1, 4 + i * height + 1)
        least, most = extent(values.ravel())
        description += (
            f" From {number(least, digits)} to {with_unit(number(most, digits), item.unit)}, which is at"
            f" {item.y_label} {grid.y[i]} and {item.x_label} {grid.x[j]}."
        )
    shapes = {
        "cells": cells,
        "cell": (width, height),
        "best": best,
        "y_ticks": [(4 + (i + 0.5) * height, clip(text, 10)) for i, text in enumerate(grid.y)],
        "x_ticks": [(left + (j + 0.5) * width, clip(text, 10)) for j, text in enumerate(grid.x)],
        "turned": turned,
        "left": left,
        "bottom": bottom,
        "x_label": (clip(item.x_label, 32), left + width * len(grid.x) / 2, bottom + depth + 16),
        "y_label": (clip(item.y_label, 24), (bottom + 4) / 2),
    }
    script = {"rows": rows, "weight": (1, 1), "reach": max(width, height), "mark": (round(width, 1), height, 1)}
    return Drawing("heat", (_WIDTH, bottom + depth + 24), shapes, description, name, script)


def _scale(item: HeatMaps, low: float, high: float) -> Drawing:
    """The scale of colours."""
    axis = [t for t in ticks(low, high, 4) if low <= t <= high] if high > low else [low]
    place = Scale(low, high, 14, 266)
    shapes = {
        "cells": [(14 + k * 252 / _STEPS, scale_colour((k + 0.5) / _STEPS)) for k in range(_STEPS)],
        "labels": [(place(t), with_unit(tick_text(t), item.unit)) for t in axis],
    }
    return Drawing("scale", (280, 32), shapes)
