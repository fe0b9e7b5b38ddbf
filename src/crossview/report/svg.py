"""What charts are made of: scales, ticks, markers, and the frame around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

from crossview.report.markup import Markup, el, join, json_script

__all__ = ["Scale", "clip", "coordinate", "extent", "marks", "picture", "plot", "ticks", "ticks_log"]


def coordinate(value: float) -> str:
    """A coordinate in a path, to a tenth.

    >>> coordinate(12.34), coordinate(12.0), coordinate(-0.01)
    ('12.3', '12', '0')
    """
    return f"{round(value, 1) + 0.0:g}"


def extent(values: Iterable[float]) -> tuple[float, float]:
    """Least and largest of the finite values; 0 and 1 where there are none.

    >>> extent([3.0, float("nan"), 1.0])
    (1.0, 3.0)
    """
    known = [value for value in values if isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 1.0)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers, at steps of 1, 2 or 5, of which the first and last enclose a range.

    >>> ticks(3.0, 97.0)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    if high <= low:
        low, high = low - abs(low or 1.0) / 2, high + abs(high or 1.0) / 2
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def ticks_log(low: float, high: float) -> list[float]:
    """Round numbers inside a range of some powers of ten.

    >>> ticks_log(0.01, 100.0)
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    factors = (1,) if log10(high / low) >= 2.5 else (1, 2, 5)
    step = max(1, ceil(len(decades) / 8))
    values = [float(f"{factor * 10.0**power:.12g}") for power in decades[::step] for factor in factors]
    return [value for value in values if low * 0.999 <= value <= high * 1.001]


@dataclass(frozen=True)
class Scale:
    """From values to places.

    Parameters
    ----------
    low, high : float
        Range of the values.
    start, end : float
        Where they go.
    log : bool
        Whether equal ratios take equal room.
    """

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
    """Text of at most so many characters.

    >>> clip("discriminant", 6)
    'discr…'
    """
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"


def picture(key: str, title: str, words: str, size: tuple[float, float], *parts: str, class_: str = "") -> Markup:
    """A drawing with its name, and what it shows in words."""
    return el(
        "svg",
        el("title", title, id=f"{key}.title"),
        el("desc", words, id=f"{key}.words"),
        join(parts),
        viewBox=f"0 0 {coordinate(size[0])} {coordinate(size[1])}",
        class_=f"chart {class_}".strip(),
        role="img",
        aria_labelledby=f"{key}.title {key}.words",
    )


def plot(
    drawing: Markup,
    label: str,
    rows: Sequence[dict[str, Any]] | None,
    *,
    weight: tuple[float, float] = (1, 1),
    reach: float = 40,
    mark: tuple[float, float, float] | None = None,
    class_: str = "",
) -> Markup:
    """A drawing whose points say what they are when pointed at, or gone to with the arrow keys.

    Parameters
    ----------
    drawing : Markup
        The drawing.
    label : str
        What it is called.
    rows : sequence of dict, or None
        Series: ``n``, the name, and ``p``, points as lists of x, y and text; None where the page's script finds them
        in the drawing.
    weight : tuple of float
        How much distances across and down count in finding the nearest point.
    reach : float
        How far away a point may be.
    mark : tuple of float, optional
        Width, height and corner of the mark around a point.
    """
    script = None if rows is None else json_script({"rows": rows, "weight": weight, "reach": reach, "mark": mark})
    name = f"{label}: arrow keys go from point to point"
    return el("div", drawing, script, class_=f"plot {class_}".strip(), tabindex=0, role="group", aria_label=name)
