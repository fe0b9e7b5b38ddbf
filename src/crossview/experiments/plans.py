"""What an experiment is made of: cells, where in a table or figure their results belong, and their data."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from crossview._validation import WARNING_FILTERS, check_exact
from crossview.datasets import Dataset
from crossview.datasets.registry import open_dataset
from crossview.experiments.cells import Cell, Search, Split
from crossview.views import Views

_TIMES = " × "

TEST_DATA = "test_data"
"""Option that names the test data of a given split: they follow the training data, row by row."""


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
    places: tuple[Place, ...]

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
    return Panel("comparison", f"Methods on {name}", tuple(places))


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


@dataclass
class Loader:
    """Loads data by name or path, each once."""

    loaded: dict[str, Dataset] = field(default_factory=dict, repr=False)

    def __call__(self, data: str, options: Mapping[str, Any], known: Dataset | None = None) -> Dataset:
        """The data set of a name in ``crossview.datasets.registry.SOURCES``, or of a path, unless it is `known`."""
        name = f"{data} {sorted(options.items())}"
        if name not in self.loaded:
            self.loaded[name] = self.open(data, options) if known is None else known
        return self.loaded[name]

    def open(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """Load a data set anew, or training and test data one after the other if the options have `TEST_DATA`."""
        own = {name: value for name, value in options.items() if name != TEST_DATA}
        test = options.get(TEST_DATA)
        with WARNING_FILTERS, warnings.catch_warnings():
            # Every process loads the data; what there is to say of them is said when a command opens them first.
            warnings.simplefilter("ignore", UserWarning)
            found = open_dataset(data, **own)
            return found if test is None else concatenated(found, open_dataset(test, **own), data, test)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was loaded: other processes load it themselves."""
        return {**vars(self), "loaded": {}}


def concatenated(train: Dataset, test: Dataset, train_name: str, test_name: str) -> Dataset:
    """Training samples and, after them, test samples as one data set; both must have the same views."""
    _check_same_views(train, test, train_name, test_name)
    y, new = np.asarray(train.y), np.asarray(test.y)
    kinds = ["text" if labels.dtype.kind in "US" else "numbers" for labels in (y, new)]
    if kinds[0] != kinds[1]:
        found = f"the labels of {train_name} are {kinds[0]} ({y[0]}), those of {test_name} {kinds[1]} ({new[0]})"
        raise ValueError(f"{found}: write them in the same way.")
    check_exact(y, new)
    names = {
        label: name for data in (test, train) for label, name in zip(np.unique(data.y), data.class_names, strict=True)
    }
    arrays = {name: np.vstack([train.views[name], test.views[name]]) for name in train.views.names}
    both = np.concatenate([y, new])
    return replace(
        train,
        views=Views(arrays, feature_names=train.views.feature_names, image_shape=train.image_shape),
        y=both,
        class_names=[names[label] for label in np.unique(both)],
        ids=None if train.ids is None or test.ids is None else np.concatenate([train.ids, test.ids]),
    )


def _check_same_views(train: Dataset, test: Dataset, train_name: str, test_name: str) -> None:
    """Refuse data whose views differ in their names, widths or images."""
    for one, other, name, other_name in ((train, test, train_name, test_name), (test, train, test_name, train_name)):
        if missing := [view for view in one.views.names if view not in other.views.names]:
            views = f"its views are {', '.join(other.views.names)}"
            raise ValueError(f"{other_name} has no view {missing[0]!r}, which {name} has ({views}): name views alike.")
    images = train.image_shape is not None or test.image_shape is not None
    hint = "resize both with --size" if images else "use the same features in both"
    for view in train.views.names:
        widths = train.views[view].shape[1], test.views[view].shape[1]
        if widths[0] != widths[1]:
            found = f"view {view!r} has {widths[0]} features in {train_name}, but {widths[1]} in {test_name}"
            raise ValueError(f"{found}: {hint}.")
        columns, others = (data.views.feature_names[data.views.names.index(view)] for data in (train, test))
        for k, (known, new) in enumerate(zip(columns or (), others or (), strict=False)):
            if known != new:
                found = f"column {k + 1} of view {view!r} is {known!r} in {train_name}, but {new!r} in {test_name}"
                raise ValueError(f"{found}: use the same columns in the same order.")
    if train.image_shape != test.image_shape:
        shapes = f"{train.image_shape} in {train_name}, but {test.image_shape} in {test_name}"
        raise ValueError(f"images have the shape {shapes}: {hint}.")
