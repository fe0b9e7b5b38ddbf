"""The cells of an experiment, each with everything that determines one result, and the store of results."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview import _store
from crossview._validation import check_choice, check_count
from crossview.datasets import Dataset
from crossview.embeddings import ALL_METHODS, SEARCH_SPACES
from crossview.feature_maps import KernelTransformer
from crossview.model_selection.rounds import fingerprint as fingerprint_of
from crossview.model_selection.splits import ClassSplit, SampleSplit
from crossview.model_selection.tuning import search_space

Options: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]

_FORMAT = 8  # of results: raise it when the same cell gives another result, whichever its method
_NAMED = ("options", "parameters", "grid")  # fields of names and values


class _Described:
    """Something that can be a key of a dictionary, and written as JSON."""

    def __post_init__(self) -> None:
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            pairs = sorted(dict(value).items()) if part.name in _NAMED and value is not None else value
            object.__setattr__(self, part.name, _frozen(pairs))

    def to_dict(self) -> dict[str, Any]:
        """A dict that JSON can hold."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        values |= {name: dict(values[name]) for name in _NAMED if values.get(name) is not None}
        content: dict[str, Any] = json.loads(_canonical(values))
        return content


@dataclass(frozen=True)
class Split(_Described):
    """How to split samples into those to train with and those to test with: `ClassSplit`, `SampleSplit`, or given.

    A given split has the training samples first: the first `n_train` rows.
    """

    kind: str = "classes"  # the paper's protocol; or "samples", or "given"
    n_train: float = 0.7  # number of classes, of samples per class (a share if below 1), or of rows
    n_repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.kind, "kind", ("classes", "samples", "given"))
        if float(self.n_train).is_integer():
            object.__setattr__(self, "n_train", int(self.n_train))

    def rows(self, y: NDArray[Any], repeat: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train with, and rows to test with, of samples of classes y in one of the splits."""
        if self.kind == "given":
            train, test = np.split(np.arange(len(y)), [int(self.n_train)])
            return train, test
        splitter = ClassSplit if self.kind == "classes" else SampleSplit
        return next(islice(splitter(self.n_repeats, self.n_train, self.seed).split(y, y), repeat, None))

    def tests_on(self, y: NDArray[Any]) -> str:
        """What is new in the test part: "classes", or "samples" of the training classes; if mixed, what most are."""
        if self.kind != "given":
            return self.kind
        train, test = self.rows(y, 0)
        return "samples" if np.isin(y[test], y[train]).mean() >= 0.5 else "classes"


@dataclass(frozen=True)
class Search(_Described):
    """How to tune a method; see `crossview.tune` and `crossview.EmbeddingSearchCV`."""

    pca: Sequence[float | None] | None = None  # numbers of components to try; by default those of `crossview.tune`
    scaling: Sequence[str | None] = ("feature", "view")
    n_iter: int | None = None  # number of candidates to draw; None tries all
    n_folds: int = 3
    metrics: Sequence[str] = ("euclidean", "cosine")  # the first of those with equal scores wins
    grid: Options | None = None  # values of parameters to try; by default those of the method
    scoring: str = "accuracy"  # of a fold
    n_members: int = 1  # if above 1, also score a committee of the best settings, of this size
    factor: float = 1.0  # after every fold, one in so many settings stays
    refine: int = 0  # rounds of steps from the best setting

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pca is not None:
            for k in self.pca:
                if k is not None and not 0 < k < 1:
                    check_count(k, "pca", least=1)
            object.__setattr__(self, "pca", tuple(sorted(set(self.pca), key=lambda k: k or 0)))


@dataclass(frozen=True, kw_only=True)
class Cell(_Described):
    """One result of an experiment, described by everything that determines it.

    Values of options and parameters are numbers, strings, True, False, None, and sequences of them.

    >>> cell = Cell(data="digits", method="MvDA", parameters={"reg": 0.1}, repeat=3)
    >>> cell.to_dict()["parameters"]
    {'reg': 0.1}
    """

    data: str  # for the function that loads it
    method: str  # a name in `crossview.METHODS` or `crossview.BASELINES`
    options: Options = ()  # for loading the data
    split: Split = field(default_factory=Split)
    repeat: int = 0  # which of the splits to use
    parameters: Options = ()  # those of the method that are fixed; the search chooses the others
    search: Search = field(default_factory=Search)
    seed: int = 0  # of the folds, and the draw of candidates

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.method, "method", tuple(ALL_METHODS))
        if self.repeat >= (n := self.split.n_repeats):
            raise ValueError(f"repeat={self.repeat} of {n} splits: choose 0 to {n - 1}, or a Split of more repeats.")


@dataclass(frozen=True)
class Record:
    """What a store knows about a cell."""

    key: str  # by `key`
    cell: dict[str, Any]  # by `Cell.to_dict`
    status: str  # "done" or "failed"
    result: dict[str, Any] | None
    error: dict[str, str] | None  # its type, message and traceback
    seconds: float
    created: float  # in seconds since 1970
    version: str  # of crossview
    environment: dict[str, str]


class Store(_store.Store):
    """Records of cells, in a file that is created if it does not exist, and that others may read meanwhile.

    A record is on disk when `put` returns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, exclusive=True)

    def put(self, entry: Record) -> None:
        """Store a record, replacing any with the same key."""
        super().put(asdict(entry))

    def _value(self, entry: dict[str, Any]) -> Record | None:
        record = Record(**entry)
        return record if isinstance(record.result if record.status == "done" else record.error, dict) else None


def key(cell: Cell, fingerprint: str, n_features: Sequence[int], size: tuple[int, int] = (0, 1)) -> str:
    """The key of a result: the SHA-256 of the cell, the values that it tries, the data, and the method's revision.

    The values that it tries depend on the widths of the views and on its `training_size`.
    """
    revision = ALL_METHODS[cell.method]._revision
    content = [_FORMAT, revision, cell.to_dict(), space(cell, n_features, size), fingerprint]
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def fingerprint(data: Dataset) -> str:
    """The SHA-256 of the samples, mask, names of views, and classes of a data set, whatever their memory layout."""
    return fingerprint_of(data.views, data.y)


def training_size(cell: Cell, y: NDArray[Any]) -> tuple[int, int]:
    """Numbers of samples and classes that a cell trains with; 0 and 1 if they do not matter for the method.

    Also if the split is impossible, which computing the cell reports.
    """
    if not issubclass(ALL_METHODS[cell.method], KernelTransformer):
        return 0, 1
    try:
        train, _ = cell.split.rows(np.asarray(y), cell.repeat)
    except ValueError:
        return 0, 1
    return len(train), len(np.unique(y[train]))


def space(cell: Cell, n_features: Sequence[int], size: tuple[int, int] = (0, 1)) -> dict[str, list[Any]]:
    """Values that a cell's search tries for the parameters of the method's pipeline."""
    search = cell.search
    tried = SEARCH_SPACES[cell.method] if search.grid is None else dict(search.grid)
    own = {**tried, **{name: [value] for name, value in dict(cell.parameters).items()}}
    return search_space(cell.method, n_features, size, own=own, pca=search.pca, scaling=search.scaling)


def _frozen(value: Any) -> Any:
    """A value of which nothing can change, without numpy's types."""
    value = plain(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """A value without numpy's types."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def encoded(value: Any) -> Any:
    """A value for JSON, which has no infinity: ``"inf"`` stands for it, such as a coupling that leaves one map."""
    if isinstance(value, _Described):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: encoded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(one) for one in value]
    return "inf" if isinstance(value, float) and value == np.inf else value


def decoded(value: Any) -> Any:
    """The inverse of `encoded`, for one value."""
    return np.inf if isinstance(value, str) and value == "inf" else value


def _canonical(value: Any) -> str:
    return json.dumps(encoded(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
