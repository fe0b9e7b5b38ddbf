"""What a report contains: tables, figures and facts, as plain data. How they are drawn is defined elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

import numpy as np

from crossview._types import Array


@dataclass(frozen=True)
class Entry:
    """One figure of a table, with what was published for it.

    Parameters
    ----------
    mean : float, optional
        What was measured, in the table's unit; None where nothing was.
    sd : float, optional
        Its standard deviation over repeats.
    published, published_sd : float, optional
        The figure that it is compared with, and its standard deviation.
    loss, published_loss : float, optional
        Relative loss, in per cent, in tables that have one.
    note : str
        Why nothing was measured, or what has to be known about it.
    """

    mean: float | None = None
    sd: float | None = None
    published: float | None = None
    published_sd: float | None = None
    loss: float | None = None
    published_loss: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Measured less published."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def deviations(self) -> float | None:
        """The difference in published standard deviations."""
        return self.difference / self.published_sd if self.difference is not None and self.published_sd else None

    @property
    def is_far(self) -> bool:
        """Whether the difference is two or more published standard deviations."""
        return self.deviations is not None and abs(self.deviations) >= 2.0


@dataclass(frozen=True)
class ResultTable:
    """Rows of entries, of which the best two of every column are marked.

    Parameters
    ----------
    key : str
        Name for links and files, of letters, digits and hyphens.
    title, caption : str
        What it shows, in a few words and in a sentence or two.
    columns : sequence of str
        Heads of the columns.
    rows : mapping of str to sequence of Entry
        One entry per column, by name of the row.
    row_head : str
        Head of the column of names.
    unit : str
        Unit of the entries, such as ``"%"`` or ``"s"``.
    best : {"highest", "lowest", ""}
        Which entries are the best of a column; empty: none are marked.
    digits : int
        Digits after the point.
    """

    key: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Entry]]
    caption: str = ""
    row_head: str = "method"
    unit: str = "%"
    best: str = "highest"
    digits: int = 1

    @property
    def entries(self) -> list[Entry]:
        """All entries, row by row."""
        return [entry for entries in self.rows.values() for entry in entries]

    def has(self, field: str) -> bool:
        """Whether any entry has a value of that name."""
        values = (getattr(entry, field) for entry in self.entries)
        return any(value is not None and isfinite(value) for value in values)


@dataclass(frozen=True)
class Bars:
    """Groups of bars with error bars: group → series → entry. Groups are the columns of a table, series its rows."""

    key: str
    title: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[Entry]]
    caption: str = ""
    y_label: str = "accuracy, %"


@dataclass(frozen=True)
class Curve:
    """Points of a curve, in order of x; ``sd`` is drawn as a band around it."""

    x: Sequence[float]
    y: Sequence[float]
    sd: Sequence[float] | None = None


@dataclass(frozen=True)
class Curves:
    """Curves in one frame, by name: match curves, accuracy against a dimension, a size or a parameter."""

    key: str
    title: str
    curves: Mapping[str, Curve]
    x_label: str
    y_label: str = "accuracy, %"
    caption: str = ""
    log_x: bool = False


@dataclass(frozen=True)
class HeatMap:
    """Values over a grid: ``values[i][j]`` is that of ``y[i]`` and ``x[j]``, nan if unknown."""

    x: Sequence[str]
    y: Sequence[str]
    values: Array


@dataclass(frozen=True)
class HeatMaps:
    """Heat maps side by side, by name, with one scale of colours."""

    key: str
    title: str
    maps: Mapping[str, HeatMap]
    x_label: str
    y_label: str
    caption: str = ""
    unit: str = "%"


@dataclass(frozen=True)
class Embedding2D:
    """Samples of several views in the plane: where they are, of shape (t, 2), and the view and class of each.

    The page shows the names, if there are any, of samples that are pointed at.
    """

    points: Array
    views: Sequence[str]
    labels: Sequence[str]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of the same samples by several methods side by side, with one legend of classes and views."""

    key: str
    title: str
    panels: Mapping[str, Embedding2D]
    caption: str = ""


@dataclass(frozen=True)
class Match:
    """A sample of the gallery that a probe was matched with: its picture, class and distance."""

    image: int
    label: str
    distance: float


@dataclass(frozen=True)
class Probe:
    """A probe and its ranked matches."""

    image: int
    label: str
    matches: Sequence[Match]


@dataclass(frozen=True)
class MatchBrowser:
    """Probes and their ranked matches, to leaf through, by method and views (``"KMvHE: photo → sketch"``).

    They refer by number to grey ``images``, of shape (t, height, width) and type uint8.
    """

    key: str
    title: str
    images: np.ndarray
    probes: Mapping[str, Sequence[Probe]]
    caption: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values: the environment, the seeds, the exact command."""

    key: str
    title: str
    rows: Mapping[str, str]
    caption: str = ""


Item: TypeAlias = ResultTable | Bars | Curves | HeatMaps | Embeddings | MatchBrowser | Facts


@dataclass(frozen=True)
class Section:
    """Items under a heading, with some words before them; ``text`` is plain, its paragraphs parted by empty lines."""

    title: str
    items: Sequence[Item] = ()
    text: str = ""


@dataclass(frozen=True)
class Report:
    """A page: a title, a summary of some sentences, sections, and the command that made it."""

    title: str
    summary: str
    sections: Sequence[Section] = ()
    command: str = ""
