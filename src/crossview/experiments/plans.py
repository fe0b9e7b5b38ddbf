"""What an experiment is made of: cells, and where in a table or figure their results belong."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crossview.experiments.cells import Cell, Search, Split
from crossview.experiments.loading import TEST_DATA
from crossview.files import MALFORMED, check_target, write_atomically

COMPARISON_FILE = "comparison.json"
"""Name of the file in the folder of a report on a comparison."""

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


@dataclass(frozen=True)
class Comparison:
    """Several methods on one data set, with the commands that computed them.

    It is saved next to the report, so that later runs add to it.
    """

    data: str
    options: Mapping[str, Any]  # for loading the data
    contents: str  # fingerprint of the data
    split: Split
    search: Search
    methods: tuple[str, ...]
    committees: tuple[str, ...]  # methods that are also shown as committees
    commands: tuple[str, ...]

    @property
    def panel(self) -> Panel:
        """The cells, and where their results belong."""
        return comparison(self.data, self.options, self.methods, self.split, self.search, self.committees)

    def with_methods_of(self, earlier: "Comparison") -> "Comparison":
        """The comparison with the methods of an earlier one of the same settings, too."""
        return replace(
            self,
            methods=tuple(dict.fromkeys((*earlier.methods, *self.methods))),
            committees=tuple(dict.fromkeys((*earlier.committees, *self.committees))),
            commands=tuple(dict.fromkeys((*earlier.commands, *self.commands))),
        )

    def differences(self, other: "Comparison") -> list[str]:
        """Settings in which another comparison differs, such as "n_iter: 4, now 32"."""
        ours, theirs = self._settings(), other._settings()
        names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
        found = [f"{name}: {_text(ours.get(name))}, now {_text(theirs.get(name))}" for name in names]
        return found or ["the data have changed"] * (self.contents != other.contents)

    def _settings(self) -> dict[str, Any]:
        """What has to be the same for results to stand in one table, by the names of parameters."""
        split = {"split": self.split.kind, "train": self.split.n_train, "repeats": self.split.n_repeats}
        return {"data": self.data, **self.options, **split, "seed": self.split.seed, **self.search.to_dict()}

    def save(self, folder: Path) -> None:
        """Write the comparison into a folder."""
        content = {**asdict(self), "split": self.split.to_dict(), "search": self.search.to_dict()}
        write_atomically(
            folder / COMPARISON_FILE, json.dumps({**content, "sha256": _digest(content)}, indent=1).encode()
        )

    @classmethod
    def load(cls, folder: Path) -> "Comparison | None":
        """The comparison in a folder; None if it has none."""
        try:
            content = json.loads(check_target(folder / COMPARISON_FILE).read_text(encoding="utf-8"))
            if content.pop("sha256") != _digest(content):
                raise ValueError("the content has changed since it was written")
            content |= {"split": Split.from_dict(content["split"]), "search": Search.from_dict(content["search"])}
            content |= {name: tuple(content[name]) for name in ("methods", "committees", "commands")}
            found = cls(**content)
            found.panel  # noqa: B018 - refuses unknown methods
        except FileNotFoundError:
            return None
        except MALFORMED as error:
            fix = "choose another --output, or pass --overwrite"
            raise ValueError(
                f"{folder / COMPARISON_FILE} is damaged, or belongs to another version of crossview: {fix}."
            ) from error
        return found


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(_text, value))
    return "none" if value is None else str(value)
