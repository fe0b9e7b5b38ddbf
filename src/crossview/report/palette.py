"""Colours, dashes and markers: a name keeps its own throughout a page and its figures in files.

Colours are pairs, for light and dark pages. They were made in the space OKLCH, in which equal steps look equal.
Neighbours differ in lightness as well as in hue, for those who cannot tell some hues apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from crossview.embeddings.methods import METHODS
from crossview.experiments.plans import method_of
from crossview.plot import RIGHT, WRONG
from crossview.report.document import Bars, Curves, Report

INK, SOFT, GRID = "#1c222b", "#56606e", "#e7eaee"
_SERIES_PAIRS = """
1762b6-70acf8 d26707-ffa367 038660-71c5a2 982b98-df81dc a18222-d4ba70 b51d29-fd7d78 1f93b8-75c9e9 5d35ad-a68df7
4b7f28-91bf77 6e401e-bf9274 d25186-ff92bc 04585c-70a8ab 777777-b4b4b4 1d3983-7493d9 475017-97a171
"""
_CLASS_PAIRS = """
9b363d-e58888 249e65-78d39f 785fb7-b6a2f2 8a4d00-d29a4e 009bb3-4fd0e5 a84c80-e792be 4c6900-96b360 5984d7-94bcff
b1512d-ef9778 00745d-40bda6 a46bbd-d8a5ef 8d6d00-cbaf54 00689a-4cb3e0 c85f77-fb9caf 34853b-81c583 5550a6-9c9dec
c0701c-f2aa6d 00888d-3dc7cb 8a3b7b-d38ac3 888e0c-bdc46a 2575bd-77b6f7 9b3830-e5897e 009f72-6cd4aa 825bb2-bf9fed
845200-cc9e4a 0098bb-55ceed ac4b75-eb92b4 3e6c00-8ab669 6780d7-a0b8ff af541d-ed9a6f
"""


def _pairs(text: str) -> dict[str, str]:
    return {f"#{light}": f"#{dark}" for light, dark in (pair.split("-") for pair in text.split())}


_SERIES, _CLASSES = list(_pairs(_SERIES_PAIRS)), list(_pairs(_CLASS_PAIRS))
DARK = {
    **{INK: "#e3e7ed", SOFT: "#9ea8b6", GRID: "#272d36", RIGHT: "#57c07a", WRONG: "#f0787f"},
    **_pairs(_SERIES_PAIRS),
    **_pairs(_CLASS_PAIRS),
}
"""The colour on a dark page, by that on a light one."""

_MARKERS = "os^DvPX"
_DASHES = ("-", (0, (3.5, 1.5)), (0, (1.2, 1.2)), (0, (4.5, 1.5, 1.2, 1.5)))
_COMMITTEE = 13  # from the marker and dash of a method to those of its committee

Look = dict[str, Any]
"""How a line or its points are drawn, as matplotlib's properties."""


def view_marker(view: int) -> str:
    """The shape of a view in a scatter plot; the most different ones come first."""
    return "oX^sPDv"[view % len(_MARKERS)]


def class_colour(label: int) -> str:
    """The colour of a class."""
    return _CLASSES[label % len(_CLASSES)]


class Palette(dict[str, Look]):
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
            marker, dash = _MARKERS[look % len(_MARKERS)], _DASHES[look % len(_DASHES)]
            self[name] = {"color": _SERIES[k % len(_SERIES)], "marker": marker, "linestyle": dash}

    @classmethod
    def of(cls, report: Report) -> Palette:
        """The palette of a report: bars and curves have series, other items mention them."""
        series = [i.rows if isinstance(i, Bars) else i.curves for i in report.items if isinstance(i, Bars | Curves)]
        return cls(name for names in series for name in names)
