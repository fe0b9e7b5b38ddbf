"""Colours, dashes and markers: a name keeps its own throughout a page and its figures in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import cos, radians, sin
from typing import NamedTuple

from crossview.embeddings.methods import METHODS
from crossview.report.document import Bars, Curves, Report

__all__ = [
    "CLASS_COLOURS",
    "DASHES",
    "MARKERS",
    "SERIES_COLOURS",
    "VIEW_MARKERS",
    "Colour",
    "Marker",
    "Palette",
    "css",
    "ink_on",
    "scale_colour",
]

DASHES: Sequence[str] = ("", "7 3", "2.5 2.5", "9 3 2.5 3")


class Marker(NamedTuple):
    """A shape: its outline from the centre, and the CSS class that draws it."""

    outline: str
    css_class: str


MARKERS: Sequence[Marker] = (
    Marker("h0", "mark dot"),  # the round ends of a line of no length
    Marker("m-3-3h6v6h-6z", "mark"),
    Marker("m0-4l3.8 6.8h-7.6z", "mark"),
    Marker("m0-4.2l3.8 4.2l-3.8 4.2l-3.8-4.2z", "mark"),
    Marker("m0 4l3.8-6.8h-7.6z", "mark"),
    Marker("m-4 0h8m-4-4v8", "mark cross"),
    Marker("m-3-3l6 6m0-6l-6 6", "mark cross"),
)
VIEW_MARKERS = [MARKERS[k] for k in (0, 6, 2, 1, 5, 3, 4)]  # the small ones of scatter plots, most different first


@dataclass(frozen=True)
class Colour:
    """A colour as it is on white, and on a dark ground."""

    light: str
    dark: str


def _rgb(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the space OKLCH, in which equal steps look equal, as #rrggbb (Ottosson, 2020)."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(value, 0.0), 1.0))):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else float(1.055 * value ** (1 / 2.4) - 0.055)


def _pair(lightness: float, chroma: float, hue: float) -> Colour:
    return Colour(_rgb(lightness, chroma, hue), _rgb(0.745 + 0.5 * (lightness - 0.52), 0.85 * chroma, hue))


# Neighbours differ in lightness as well as in hue, for those who cannot tell some hues apart.
SERIES_COLOURS: Sequence[Colour] = [
    _pair(*parts)
    for parts in (
        (0.50, 0.150, 255),  # blue
        (0.63, 0.160, 52),  # orange
        (0.55, 0.115, 165),  # green
        (0.50, 0.190, 328),  # magenta
        (0.62, 0.115, 90),  # ochre
        (0.50, 0.185, 24),  # red
        (0.62, 0.110, 225),  # sky
        (0.45, 0.180, 293),  # violet
        (0.54, 0.130, 135),  # leaf
        (0.42, 0.080, 55),  # brown
        (0.62, 0.170, 358),  # pink
        (0.42, 0.070, 200),  # petrol
        (0.57, 0.000, 0),  # grey
        (0.37, 0.130, 265),  # navy
        (0.41, 0.080, 118),  # olive
    )
]
CLASS_COLOURS: Sequence[Colour] = [_pair((0.48, 0.62, 0.55)[k % 3], 0.135, (20 + k * 137.508) % 360) for k in range(30)]

# Viridis (Smith and van der Walt, 2015) at nine equal steps.
_SCALE = ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")


def scale_colour(share: float) -> str:
    """The colour of a share from 0 to 1 of a scale.

    >>> scale_colour(0.0), scale_colour(1.0)
    ('#440154', '#fde725')
    """
    place = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    k = min(int(place), len(_SCALE) - 2)
    low, high = (_channels(_SCALE[i]) for i in (k, k + 1))
    return "#" + "".join(f"{round(a + (place - k) * (b - a)):02x}" for a, b in zip(low, high, strict=True))


def ink_on(colour: str) -> str:
    """Black or white, whichever is read more easily on a colour.

    >>> ink_on("#fde725"), ink_on("#440154")
    ('black', 'white')
    """
    shares = [c / 255 for c in _channels(colour.lstrip("#"))]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    luminance = sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (0, 2, 4)]


class Palette:
    """Numbers for the names of series: those of methods are the same in every report, others come in their order.

    Parameters
    ----------
    names : iterable of str
        The names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        known = {name: k for k, name in enumerate(METHODS)}
        names = list(dict.fromkeys(names))
        others = (k for k in count() if k not in {known.get(name) for name in names})
        self._numbers = {name: known[name] if name in known else next(others) for name in names}

    @classmethod
    def of(cls, report: Report) -> Palette:
        """That of a report: bars and curves have series, other items speak of these."""
        items = [item for section in report.sections for item in section.items]
        return cls(
            name
            for item in items
            if isinstance(item, Bars | Curves)
            for name in (item.series if isinstance(item, Bars) else item.curves)
        )

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def css_class(self, name: str) -> str:
        """The class that brings the colour."""
        return f"s{self._numbers[name] % len(SERIES_COLOURS)}"

    def dash(self, name: str) -> str:
        """The lengths of strokes and gaps."""
        return DASHES[self._numbers[name] % len(DASHES)]

    def marker(self, name: str) -> Marker:
        """The shape; it comes again with the same dash only after 28 names."""
        return MARKERS[self._numbers[name] % len(MARKERS)]


def css() -> str:
    """CSS classes of the colours of series (``s0``, …) and of classes (``k0``, …)."""
    return "".join(
        f".{letter}{k}{{color:light-dark({colour.light},{colour.dark})}}"
        for letter, colours in (("s", SERIES_COLOURS), ("k", CLASS_COLOURS))
        for k, colour in enumerate(colours)
    )
