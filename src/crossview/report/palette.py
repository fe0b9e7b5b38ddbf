"""Colours, dashes and markers: a name keeps its own throughout a page and its figures in files.

Series have the colours of the CSS classes ``s0``, ``s1``, … in ``drawings.css``, classes of ``k0``, ``k1``, ….
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import numpy as np

from crossview.embeddings.methods import METHODS
from crossview.experiments.plans import method_of
from crossview.report.document import Bars, Curves, Report

_SERIES, _CLASSES = 15, 30  # colours
_DASHES = ("", "7 3", "2.5 2.5", "9 3 2.5 3")
_COMMITTEE = 13  # from the marker and dash of a method to those of its committee


class Marker(NamedTuple):
    """A shape: its outline from the centre, and the CSS class that draws it."""

    outline: str
    css_class: str


MARKERS = (
    Marker("h.01", "mark dot"),  # the round ends of a short line; readers of PDF leave out one of no length
    Marker("m-3-3h6v6h-6z", "mark"),
    Marker("m0-4l3.8 6.8h-7.6z", "mark"),
    Marker("m0-4.2l3.8 4.2l-3.8 4.2l-3.8-4.2z", "mark"),
    Marker("m0 4l3.8-6.8h-7.6z", "mark"),
    Marker("m-4 0h8m-4-4v8", "mark cross"),
    Marker("m-3-3l6 6m0-6l-6 6", "mark cross"),
)

# Viridis (Smith and van der Walt, 2015) at nine equal steps.
_SCALE = np.frombuffer(bytes.fromhex("440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725"), np.uint8)


def scale_colour(share: float) -> str:
    """The colour of a share from 0 to 1 of a scale."""
    steps = np.linspace(0.0, 1.0, len(_SCALE) // 3)
    return "#" + "".join(f"{round(float(np.interp(share, steps, _SCALE[k::3]))):02x}" for k in range(3))


def ink_on(colour: str) -> str:
    """Black or white, whichever is read more easily on a colour."""
    shares = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return "black" if (linear @ [0.2126, 0.7152, 0.0722] + 0.05) ** 2 > 1.05 * 0.05 else "white"


def view_marker(view: int) -> Marker:
    """The shape of a view in a scatter plot; the most different ones come first."""
    return MARKERS[(0, 6, 2, 1, 5, 3, 4)[view % len(MARKERS)]]


def class_colour(label: int) -> str:
    """The CSS class of the colour of a class."""
    return f"k{label % _CLASSES}"


class LegendEntry(NamedTuple):
    """A name with its colour and marker, and the dash of its line if it has one."""

    name: str
    css_class: str
    marker: Marker
    dash: str | None = None


class Palette(dict[str, LegendEntry]):
    """How series look, by name: methods are the same in every report, others come in their order.

    Colours recur after 15 names, pairs of marker and dash after 28. A committee has the colour of its method.
    """

    def __init__(self, names: Iterable[str]) -> None:
        known = {name: k for k, name in enumerate(METHODS)}
        names = list(dict.fromkeys(names))
        methods = {name: known.get(method_of(name)) for name in names}
        others = (k for k in count() if k not in methods.values())
        for name in names:
            k = methods[name]
            k = next(others) if k is None else k
            look = k if name in known or methods[name] is None else k + _COMMITTEE
            marker, dash = MARKERS[look % len(MARKERS)], _DASHES[look % len(_DASHES)]
            self[name] = LegendEntry(name, f"s{k % _SERIES}", marker, dash)

    @classmethod
    def of(cls, report: Report) -> Palette:
        """The palette of a report: bars and curves have series, other items mention them."""
        series = [i.series if isinstance(i, Bars) else i.curves for i in report.items if isinstance(i, Bars | Curves)]
        return cls(name for names in series for name in names)
