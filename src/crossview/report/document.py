"""What a report contains: tables, figures and facts, as plain data. How they are drawn is defined elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

import numpy as np

from crossview._types import Array


@dataclass(frozen=True)
class Entry:
    """A value of a table in the table's unit, next to the published one."""

    mean: float | None = None  # None if not measured
    sd: float | None = None  # standard deviation over repeats
    published: float | None = None
    published_sd: float | None = None
    note: str = ""  # why it is missing, or a remark
    se: float | None = None  # standard error over test samples, where there are no repeats
    low: float | None = None  # ends of the confidence interval
    high: float | None = None

    @property
    def spread(self) -> float | None:
        """What follows ±: the standard deviation or, where there are no repeats, the standard error."""
        return self.se if self.sd is None else self.sd

    @property
    def difference(self) -> float | None:
        """Measured minus published."""
        return None if self.mean is None or self.published is None else self.mean - self.published


@dataclass(frozen=True)
class _Item:
    key: str  # name for links and files, of letters, digits and hyphens
    title: str


@dataclass(frozen=True)
class ResultTable(_Item):
    """Rows of entries, one per column; the two best of each column are marked."""

    columns: Sequence[str]
    rows: Mapping[str, Sequence[Entry]]
    caption: str = ""
    row_head: str = "method"
    unit: str = "%"
    best: str = "highest"  # or "lowest", or empty to mark none
    digits: int = 1  # after the point
    over: str = ""  # what deviations or errors are over, such as "random splits"

    @property
    def spread(self) -> str:
        """What follows ± in the entries; empty if nothing does."""
        kind = "standard deviation" if self.has("sd") else "standard error" if self.has("se") else ""
        return f"{kind} over the {self.over}" if kind and self.over else kind

    @property
    def entries(self) -> list[Entry]:
        """All entries, row by row."""
        return [entry for entries in self.rows.values() for entry in entries]

    def has(self, field: str) -> bool:
        """Whether any entry has a value of that name."""
        values = (getattr(entry, field) for entry in self.entries)
        return any(value is not None and isfinite(value) for value in values)


@dataclass(frozen=True)
class Curve:
    """Points of a curve, in order of x; ``sd`` is drawn as a band around it."""

    x: Sequence[float]
    y: Sequence[float]
    sd: Sequence[float] | None = None


@dataclass(frozen=True)
class Curves(_Item):
    """Curves in one frame, by name: match curves, accuracy against a dimension, a size or a parameter."""

    curves: Mapping[str, Curve]
    x_label: str
    y_label: str = "accuracy, %"
    caption: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Embeddings(_Item):
    """The same samples in the plane by several methods, with one legend of their classes and views."""

    panels: Mapping[str, Array]  # of shape (t, 2)
    views: Sequence[str]
    labels: Sequence[str]
    names: Sequence[str]  # shown by the page when a sample is pointed at
    caption: str = ""


@dataclass(frozen=True)
class MatchBrowser(_Item):
    """Probes and their ranked matches, by method and views (``"KMvHE: photo looked up in sketch"``).

    A probe is the number of an image, and its matches, the nearest first: numbers of images with distances.
    """

    images: np.ndarray  # grey, of shape (t, height, width) and type uint8
    labels: Sequence[str]  # the class of each image
    probes: Mapping[str, Sequence[tuple[int, Sequence[tuple[int, float]]]]]
    caption: str = ""


@dataclass(frozen=True)
class Facts(_Item):
    """Names and values: the environment, the seeds, the exact command."""

    rows: Mapping[str, str]
    caption: str = ""


Item: TypeAlias = ResultTable | Curves | Embeddings | MatchBrowser | Facts


@dataclass(frozen=True)
class Section:
    """Items under a heading, after a plain text whose paragraphs are separated by empty lines."""

    title: str
    items: Sequence[Item] = ()
    text: str = ""


@dataclass(frozen=True)
class Report:
    """A page: a title, a summary of a few sentences, sections, the command that made it, and the one to run next."""

    title: str
    summary: str
    sections: Sequence[Section] = ()
    command: str = ""
    next_command: str = ""

    @property
    def items(self) -> list[Item]:
        """The items of all sections."""
        return [item for section in self.sections for item in section.items]
