"""What an experiment is made of: cells, and where in a table or figure their results belong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossview.experiments.cells import Cell, Search, Split
from crossview.experiments.loading import TEST_DATA

_TIMES = " × "


@dataclass(frozen=True)
class Place:
    """A cell, and where its result belongs; part is ``"committee"`` if only that part of the result is meant."""

    row: str
    column: str
    cell: Cell
    part: str = ""


@dataclass(frozen=True)
class Panel:
    """A table, or one frame of a figure."""

    key: str  # its name, for links and files
    title: str
    kind: str  # how results are combined: see `crossview.report` and `crossview.paper`
    places: tuple[Place, ...]
    caption: str = ""
    x_label: str = ""  # meaning of columns that are numbers

    @property
    def rows(self) -> list[str]:
        """The rows, in order."""
        return list(dict.fromkeys(place.row for place in self.places))

    @property
    def columns(self) -> list[str]:
        """The columns, in order."""
        return list(dict.fromkeys(place.column for place in self.places))


def comparison(
    data: str,
    options: Mapping[str, Any],
    methods: Sequence[str],
    split: Split,
    search: Search,
    committees: Sequence[str] = (),
) -> Panel:
    """Several methods on one data set; those in committees are also shown as committees of ``search.n_members``."""
    places = []
    name = _title(data, dict(options).get(TEST_DATA))
    for method in methods:
        n_members = search.n_members if method in committees else 1
        tuned = replace(search, n_members=n_members)
        first = Cell(data=data, method=method, options=options, split=split, search=tuned)
        cells = [replace(first, repeat=k, seed=split.seed + k) for k in range(split.n_repeats)]
        places += [Place(method, name, cell) for cell in cells]
        if n_members > 1:
            places += [Place(committee_name(method, n_members), name, cell, "committee") for cell in cells]
    return Panel("comparison", f"Methods on {name}", "accuracy", tuple(places))


def _title(data: str, test: str | None) -> str:
    """The names of files without their folders, unless only these tell them apart."""
    if test is None:
        return Path(data).name or data
    names = Path(test).name, Path(data).name
    tested, trained = names if names[0] != names[1] else (test, data)
    return f"{tested}, trained on {trained}"


def committee_name(method: str, n_members: int) -> str:
    """The name of a committee in tables, such as MvHE × 8."""
    return f"{method}{_TIMES}{n_members}"


def method_of(row: str) -> str:
    """The method of a row, whether or not it is a committee."""
    method, _, n_members = row.rpartition(_TIMES)
    return method if n_members.isdecimal() else row
