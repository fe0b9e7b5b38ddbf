"""What figures are made of: drawings, legends, data tables, and the scales and ticks to place marks by.

A figure is plain data, which templates write as SVG, both for the page and for files. Altair with vl-convert 1.9 was
tried instead. It needs inline styles and 0.9 MB of script, without which it shows nothing; its points cannot be reached
by keyboard; panels do not rearrange on a phone; and colours follow neither dark mode nor print.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10
from typing import Any, NamedTuple

from crossview.report.document import Item
from crossview.report.palette import LegendEntry


@dataclass(frozen=True)
class Drawing:
    """One chart of a figure, drawn by the macro ``kind`` of ``drawings.svg``; the description is for screen readers.

    The page's script shows ``points``: ``rows`` of series with a name ``n`` and points ``p`` (x, y and text), how much
    distances across and down count (``weight``), how far the pointer reaches, and the size of the ``mark`` of a point.
    """

    kind: str
    size: tuple[float, float]
    shapes: Mapping[str, Any]
    description: str = ""
    head: str = ""
    points: Mapping[str, Any] | None = None


class DataTable(NamedTuple):
    """The numbers of a drawing; the first of every row is its name."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """The drawings of an item of a report (in files, ``columns`` in a row), and what belongs to all of them.

    ``legends`` are by what they name, ``scale`` is that of colours, ``pictures`` are data URIs by number, and ``data``
    are more data for the page's script.
    """

    item: Item
    kind: str
    drawings: Sequence[Drawing]
    columns: int = 1
    legends: Mapping[str, Sequence[LegendEntry]] = field(default_factory=dict)
    scale: Drawing | None = None
    explanation: str = ""
    tables: Sequence[DataTable] = ()
    pictures: Mapping[int, str] = field(default_factory=dict)
    data: Any = None


def coordinate(value: float) -> str:
    """A coordinate in a path, to a tenth."""
    return f"{round(value, 1) + 0.0:g}"


def extent(values: Iterable[float]) -> tuple[float, float]:
    """Least and largest of the finite values; 0 and 1 if there are none."""
    known = [value for value in values if isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def tick_text(value: float) -> str:
    """A number at an axis."""
    return f"{value:.10g}".replace("-", "−") if 1e-4 <= abs(value) < 1e6 or not value else f"{value:.3g}"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers at steps of 1, 2 or 5 that enclose a range."""
    if high <= low:
        low, high = low - abs(low or 1.0) / 2, high + abs(high or 1.0) / 2
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def ticks_log(low: float, high: float) -> list[float]:
    """Round numbers inside a range of some powers of ten."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    factors = (1,) if log10(high / low) >= 2.5 else (1, 2, 5)
    step = max(1, ceil(len(decades) / 8))
    values = [float(f"{factor * 10.0**power:.12g}") for power in decades[::step] for factor in factors]
    return [value for value in values if low * 0.999 <= value <= high * 1.001]


@dataclass(frozen=True)
class Scale:
    """Maps values from ``low`` to ``high`` to places from ``start`` to ``end``; ``log``: by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value."""
        apply: Callable[[float], float] = log10 if self.log else float
        low, high = apply(self.low), apply(self.high)
        share = (apply(value) - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def marks(points: Iterable[tuple[float, float]], outline: str) -> str:
    """A path with the same marker at every point. The place is absolute, what follows is relative."""
    return "".join(f"M{coordinate(x)} {coordinate(y)}{outline}" for x, y in points)


def clip(text: str, length: int) -> str:
    """Text cut to a number of characters."""
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"
