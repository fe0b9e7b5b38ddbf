"""A cell of an experiment: everything that determines one result."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._validation import check_choice, check_count
from crossview.datasets import Dataset
from crossview.embeddings import ALL_METHODS, SEARCH_SPACES
from crossview.feature_maps import KernelTransformer
from crossview.metrics.scoring import SCORERS
from crossview.model_selection.rounds import fingerprint as fingerprint_of
from crossview.model_selection.splits import ClassSplit, SampleSplit
from crossview.model_selection.tuning import search_space

Options: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]

_FORMAT = 8  # of results: raise it when the same cell gives another result, whichever its method
_NAMED = ("options", "parameters", "grid")  # fields of names and values
_SPLITTERS: dict[str, type[ClassSplit] | type[SampleSplit]] = {"classes": ClassSplit, "samples": SampleSplit}


class _Described:
    """Something that equals another if their JSON is the same: 1 and True, equal in Python, differ here as in keys."""

    def to_dict(self) -> dict[str, Any]:
        """A dict that JSON can hold; `from_dict` is the inverse."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        values |= {name: dict(values[name]) for name in _NAMED if values.get(name) is not None}
        content: dict[str, Any] = json.loads(json.dumps(encoded(values), default=_Described.to_dict))
        return content

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; fields left out have their defaults."""
        known = {part.name for part in fields(cls)}  # type: ignore[arg-type]
        if unknown := sorted(set(values) - known):
            raise ValueError(f"a {cls.__name__} has no {', '.join(unknown)}: leave it out, or upgrade crossview.")
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _canonical(self.to_dict()) == _canonical(other.to_dict())

    def __hash__(self) -> int:
        return hash(_canonical(self.to_dict()))


@dataclass(frozen=True, eq=False)
class Split(_Described):
    """How to split samples into those to train with and those to test with: `ClassSplit`, `SampleSplit`, or given.

    A given split has the training samples first: the first `n_train` rows.
    """

    kind: str = "classes"  # the paper's protocol; or "samples", or "given"
    n_train: float = 0.7  # number of classes, of samples per class (a share if below 1), or of rows
    n_repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", (*_SPLITTERS, "given"))
        if isinstance(self.n_train, bool) or not isinstance(self.n_train, Real) or not 0 < self.n_train < np.inf:
            raise ValueError(f"n_train must be a number or a share to train with, got {self.n_train!r}.")
        check_count(self.n_repeats, "n_repeats", least=1)
        check_count(self.seed, "seed", least=0)
        number = int if float(self.n_train).is_integer() else float
        if self.kind == "given" and (number is float or self.n_repeats != 1):
            raise ValueError(
                f"a given split has a number of rows and 1 repeat, got {self.n_train} and {self.n_repeats}."
            )
        _set(self, n_train=number(self.n_train), n_repeats=int(self.n_repeats), seed=int(self.seed))

    def rows(self, y: NDArray[Any], repeat: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train with, and rows to test with, of samples of classes y in one of the splits."""
        if self.kind == "given":
            if self.n_train >= len(y):
                raise ValueError(
                    f"of {len(y)} samples, the first {self.n_train} are to train with: none are left to test."
                )
            train, test = np.split(np.arange(len(y)), [int(self.n_train)])
            return train, test
        splitter = _SPLITTERS[self.kind](self.n_repeats, self.n_train, self.seed)
        return next(islice(splitter.split(y, y), repeat, None))

    def tests_on(self, y: NDArray[Any]) -> str:
        """What is new in the test part: "classes", or "samples" of the training classes; if mixed, what most are."""
        if self.kind != "given":
            return self.kind
        train, test = self.rows(y, 0)
        return "samples" if np.isin(y[test], y[train]).mean() >= 0.5 else "classes"


@dataclass(frozen=True, eq=False)
class Search(_Described):
    """How to tune a method; see `crossview.tune` and `crossview.EmbeddingSearchCV`."""

    pca: Sequence[float | None] | None = None  # numbers of components to try; by default those of `crossview.tune`
    scaling: Sequence[str | None] = ("feature", "view")
    n_iter: int | None = None  # number of candidates to draw; None tries all
    n_folds: int = 3
    metrics: Sequence[str] = ("euclidean", "cosine")  # the first of those with equal scores wins
    cv: str = "auto"  # what to split into folds; by default what the cell splits
    grid: Options | None = None  # values of parameters to try; by default those of the method
    scoring: str = "accuracy"  # of a fold
    n_members: int = 1  # if above 1, also score a committee of the best settings, of this size
    factor: float = 1.0  # after every fold, one in so many settings stays
    refine: int = 0  # rounds of steps from the best setting

    def __post_init__(self) -> None:
        if isinstance(self.metrics, str) or not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"metrics must be a sequence of different distances, got {self.metrics!r}.")
        for name, values, known in (
            ("metrics", self.metrics, ("euclidean", "cosine")),
            ("scaling", [by for by in self.scaling if by is not None], ("feature", "view")),
            ("cv", [self.cv], ("auto", "classes", "samples")),
            ("scoring", [self.scoring], tuple(SCORERS)),
        ):
            for value in values:
                check_choice(value, name, known)
        check_count(self.n_folds, "n_folds", least=2)
        check_count(self.n_members, "n_members", least=1)
        check_count(self.refine, "refine", least=0)
        if self.n_iter is not None:
            check_count(self.n_iter, "n_iter", least=1)
            _set(self, n_iter=int(self.n_iter))
        if self.pca is not None:
            if isinstance(self.pca, int | str) or not len(self.pca):
                raise ValueError(f"pca must be a sequence of numbers to try, such as (20, 40), got {self.pca!r}.")
            for k in self.pca:
                if k is not None and not (isinstance(k, float) and 0 < k < 1):
                    check_count(k, "pca", least=1)
            _set(self, pca=tuple(sorted({plain(k) for k in self.pca}, key=lambda k: k or 0)))
        if self.grid is not None:
            grid = _frozen_options(self.grid, "grid")
            for name, values in grid:
                if not isinstance(values, tuple) or not values:
                    raise ValueError(f"grid[{name!r}] must be a sequence of values to try, got {values!r}.")
            _set(self, grid=grid)
        _set(self, metrics=tuple(self.metrics), scaling=tuple(self.scaling))
        _set(self, n_folds=int(self.n_folds), n_members=int(self.n_members))


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell(_Described):
    """One result of an experiment, described by everything that determines it.

    Values of options and parameters are numbers, strings, True, False, None, and sequences of them.

    >>> cell = Cell(data="coil100", options={"case": 1}, method="MvDA", parameters={"reg": 0.1}, repeat=3)
    >>> cell == Cell.from_dict(cell.to_dict())
    True
    """

    data: str  # for the function that loads it
    method: str  # a name in `crossview.METHODS` or `crossview.BASELINES`
    options: Options = ()  # for loading the data
    split: Split = field(default_factory=Split)
    repeat: int = 0  # which of the splits to use
    parameters: Options = ()  # those of the method that are fixed; the search chooses the others
    search: Search = field(default_factory=Search)
    seed: int = 0  # of the folds, and the draw of candidates
    counterparts: bool = False  # whether test scores keep each probe's counterpart in the gallery, as in the paper
    task: str = "accuracy"  # what to compute

    def __post_init__(self) -> None:
        if not isinstance(self.data, str) or not self.data:
            raise ValueError(f"data must be the name of a data set, got {self.data!r}.")
        check_choice(self.method, "method", tuple(ALL_METHODS))
        if not isinstance(self.task, str) or not self.task:
            raise ValueError(f"task must name what to compute, got {self.task!r}.")
        for name, kind in (("split", Split), ("search", Search)):
            value = getattr(self, name)
            if not isinstance(value, kind | Mapping):
                raise TypeError(f"{name} must be a {kind.__name__}, got {value!r}.")
            _set(self, **{name: kind.from_dict(value) if isinstance(value, Mapping) else value})
        check_count(self.repeat, "repeat", least=0)
        if self.repeat >= (n := self.split.n_repeats):
            raise ValueError(f"repeat={self.repeat} of {n} splits: choose 0 to {n - 1}, or a Split of more repeats.")
        check_count(self.seed, "seed", least=0)
        if not isinstance(self.counterparts, bool):
            raise TypeError(f"counterparts must be True or False, got {self.counterparts!r}.")
        named = {name: _frozen_options(getattr(self, name), name) for name in ("options", "parameters")}
        _set(self, **named, repeat=int(self.repeat), seed=int(self.seed))


def key(cell: Cell, fingerprint: str, n_features: Sequence[int], size: tuple[int, int] = (0, 1)) -> str:
    """The key of a result: the SHA-256 of the cell, the values that it tries, the data, and the method's revision.

    The values that it tries depend on the widths of the views and on its `training_size`.
    """
    revision = ALL_METHODS[cell.method]._revision
    content = [_FORMAT, revision, cell.to_dict(), encoded(space(cell, n_features, size)), fingerprint]
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
    """Values that a cell's search tries for the parameters of the method's pipeline.

    They depend on the widths of the views and on the `training_size`.
    """
    search = cell.search
    tried = SEARCH_SPACES[cell.method] if search.grid is None else dict(search.grid)
    fixed = {name: [value] for name, value in dict(cell.parameters).items()}
    own = {**tried, **fixed}
    return search_space(cell.method, n_features, size, own=own, pca=search.pca, scaling=search.scaling)


def _frozen_options(options: Options, where: str) -> tuple[tuple[str, Any], ...]:
    """Pairs in the order of their names."""
    try:
        pairs = dict(options)
    except (TypeError, ValueError):
        raise ValueError(f"{where} must map names to values, such as {{'case': 1}}, got {options!r}.") from None
    if not all(isinstance(name, str) for name in pairs):
        raise ValueError(f"the names in {where} must be strings, got {list(pairs)!r}.")
    return tuple((name, _frozen(pairs[name], f"{where}[{name!r}]")) for name in sorted(pairs))


def _frozen(value: Any, where: str) -> Any:
    value = decoded(plain(value))
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, where) for item in value)
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and -np.inf < value):
        return value
    kinds = "a finite number, infinity, a string, True, False, None, or a sequence of these"
    raise ValueError(f"{where} must be {kinds}, got {value!r}.")


def plain(value: Any) -> Any:
    """A value without numpy's types."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def encoded(value: Any) -> Any:
    """A value for JSON, which has no infinity: ``"inf"`` stands for it, such as a coupling that leaves one map."""
    if isinstance(value, Mapping):
        return {name: encoded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(one) for one in value]
    return "inf" if isinstance(value, float) and value == np.inf else value


def decoded(value: Any) -> Any:
    """The inverse of `encoded`, for one value."""
    return np.inf if isinstance(value, str) and value == "inf" else value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _set(frozen: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
