"""A cell of an experiment: everything that determines one result."""

from __future__ import annotations

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
from crossview.embeddings.methods import METHODS, SEARCH_SPACES
from crossview.recognition.splits import ClassSplit, SampleSplit
from crossview.recognition.tuning import search_space

__all__ = ["Cell", "Search", "Split", "fingerprint", "key", "plain", "space"]

Options: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]

_FORMAT = 5  # of results: raise it when the same cell gives another result, whichever its method
_NAMED = ("options", "parameters", "grid")  # fields of names and values
_KINDS: dict[str, type[ClassSplit] | type[SampleSplit]] = {"classes": ClassSplit, "samples": SampleSplit}


class _Described:
    """Something that equals another if their JSON is the same: 1 and True, equal in Python, differ here as in keys."""

    def to_dict(self) -> dict[str, Any]:
        """A dict that JSON can hold; `from_dict` is the inverse."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]
        values |= {name: dict(values[name]) for name in _NAMED if values.get(name) is not None}
        content: dict[str, Any] = json.loads(json.dumps(values, default=_Described.to_dict))
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
    """How to split samples into those to train with and those to test with.

    Parameters
    ----------
    kind : {"classes", "samples"}
        By `crossview.ClassSplit`, the paper's protocol, or by `crossview.SampleSplit`.
    n_train : int or float
        Number of classes, or of samples per class, to train with; a share if below 1.
    n_repeats : int
        Number of splits.
    seed : int
        Their seed.
    """

    kind: str = "classes"
    n_train: float = 0.7
    n_repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", tuple(_KINDS))
        if isinstance(self.n_train, bool) or not isinstance(self.n_train, Real) or not 0 < self.n_train < np.inf:
            raise ValueError(f"n_train must be a number or a share to train with, got {self.n_train!r}.")
        check_count(self.n_repeats, "n_repeats", least=1)
        check_count(self.seed, "seed", least=0)
        number = int if float(self.n_train).is_integer() else float
        _set(self, n_train=number(self.n_train), n_repeats=int(self.n_repeats), seed=int(self.seed))

    def rows(self, y: NDArray[Any], repeat: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train with, and rows to test with, of samples of classes y in one of the splits."""
        splitter = _KINDS[self.kind](self.n_train, self.n_repeats, self.seed)
        return next(islice(splitter.split(y, y), repeat, None))


@dataclass(frozen=True, eq=False)
class Search(_Described):
    """How to tune a method; see `crossview.tune`.

    Parameters
    ----------
    pca : sequence of int, float or None, optional
        Numbers of principal components per view to try; None keeps all. By default those of `crossview.tune`.
    scaling : sequence of {"feature", "view", None}
        Ways of scaling to try.
    n_iter : int, optional
        Number of candidates to draw; None tries all.
    n_folds : int
        Number of folds.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try. The first of those with equal scores wins.
    cv : {"auto", "classes", "samples"}
        What to split into folds; ``"auto"`` follows the cell's split.
    grid : mapping of str to sequence, optional
        Values of the method's parameters to try; by default those in ``crossview.SEARCH_SPACES``.
    scoring : {"accuracy", "average_precision"}
        How to score folds.
    members : int
        If above 1, also score a committee of the best settings, of this size.
    """

    pca: Sequence[float | None] | None = None
    scaling: Sequence[str | None] = ("feature", "view")
    n_iter: int | None = None
    n_folds: int = 5
    metrics: Sequence[str] = ("euclidean", "cosine")
    cv: str = "auto"
    grid: Options | None = None
    scoring: str = "accuracy"
    members: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.metrics, str) or not self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"metrics must be a sequence of different distances, got {self.metrics!r}.")
        for name, values, known in (
            ("metrics", self.metrics, ("euclidean", "cosine")),
            ("scaling", [by for by in self.scaling if by is not None], ("feature", "view")),
            ("cv", [self.cv], ("auto", "classes", "samples")),
            ("scoring", [self.scoring], ("accuracy", "average_precision")),
        ):
            for value in values:
                check_choice(value, name, known)
        check_count(self.n_folds, "n_folds", least=2)
        check_count(self.members, "members", least=1)
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
        _set(self, n_folds=int(self.n_folds), members=int(self.members))


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell(_Described):
    """One result of an experiment, described by everything that determines it.

    Parameters
    ----------
    data : str
        Name of the data set, for the function that loads it.
    method : str
        A name in `crossview.METHODS`.
    options : mapping of str to object, or pairs
        Options for loading the data, such as the case of COIL-100. Values here and below are numbers, strings, True,
        False, None, and sequences of them; the order of names does not matter.
    split : Split
        How to split samples into those to train with and those to test with.
    repeat : int
        Which of the splits to use, from 0.
    parameters : mapping of str to object, or pairs
        Parameters of the method that are fixed.
    search : Search
        How to search for the others.
    outliers : float
        Share of the training labels that `crossview.permute_labels` permutes.
    seed : int
        Seed of the permutation, the folds, and the draw of candidates.
    task : str
        What to compute; `crossview.experiments.run_cell` knows ``"accuracy"``.

    Examples
    --------
    >>> cell = Cell(data="coil100", options={"case": 1}, method="MvDA", parameters={"reg": 0.1}, repeat=3)
    >>> cell == Cell.from_dict(cell.to_dict())
    True
    >>> Cell(data="coil100", method="MvDA", repeat=10)
    Traceback (most recent call last):
    ValueError: repeat=10 of 10 splits: choose 0 to 9, or a Split of more repeats.
    """

    data: str
    method: str
    options: Options = ()
    split: Split = field(default_factory=Split)
    repeat: int = 0
    parameters: Options = ()
    search: Search = field(default_factory=Search)
    outliers: float = 0.0
    seed: int = 0
    task: str = "accuracy"

    def __post_init__(self) -> None:
        if not isinstance(self.data, str) or not self.data:
            raise ValueError(f"data must be the name of a data set, got {self.data!r}.")
        check_choice(self.method, "method", tuple(METHODS))
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
        share = self.outliers
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share <= 1:
            raise ValueError(f"outliers must be a share from 0 to 1, got {share!r}.")
        check_count(self.seed, "seed", least=0)
        named = {name: _frozen_options(getattr(self, name), name) for name in ("options", "parameters")}
        _set(self, **named, repeat=int(self.repeat), outliers=float(share), seed=int(self.seed))


def key(cell: Cell, fingerprint: str, n_features: Sequence[int]) -> str:
    """The key of a result: the SHA-256 of the cell, the values that it tries, the data, and the method's revision.

    Parameters
    ----------
    cell : Cell
        The cell.
    fingerprint : str
        Of the data, by `fingerprint`.
    n_features : sequence of int
        Widths of the views.

    Examples
    --------
    >>> a = Cell(data="digits", method="GMA", parameters={"mu": 1.0, "reg": 0.1})
    >>> b = Cell(data="digits", method="GMA", parameters={"reg": 0.1, "mu": 1.0})
    >>> key(a, "", [64, 64]) == key(b, "", [64, 64]) != key(a, "other data", [64, 64])
    True
    """
    content = [_FORMAT, METHODS[cell.method]._revision, cell.to_dict(), space(cell, n_features), fingerprint]
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def fingerprint(data: Dataset) -> str:
    """The SHA-256 of the samples, mask, names of views, and classes of a data set, whatever their memory layout."""
    views = data.views
    head = {"names": views.names, "shapes": [X.shape for X in views.arrays], "y": np.asarray(data.y).tolist()}
    digest = hashlib.sha256(json.dumps(head, default=str).encode())
    digest.update(np.packbits(np.ascontiguousarray(views.mask)).tobytes())
    for X, seen in zip(views.arrays, views.mask.T, strict=True):
        # NaN has many bit patterns, and zero two; adding zero leaves one of the latter.
        digest.update((np.where(seen[:, None], X, 0.0) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def space(cell: Cell, n_features: Sequence[int]) -> dict[str, list[Any]]:
    """Values that a cell's search tries for the parameters of the method's pipeline, for views of given widths."""
    search = cell.search
    tried = SEARCH_SPACES[cell.method] if search.grid is None else dict(search.grid)
    fixed = {name: [value] for name, value in dict(cell.parameters).items()}
    return search_space(cell.method, n_features, own={**tried, **fixed}, pca=search.pca, scaling=search.scaling)


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
    value = plain(value)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, where) for item in value)
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and np.isfinite(value)):
        return value
    kinds = "a finite number, a string, True, False, None, or a sequence of these"
    raise ValueError(f"{where} must be {kinds}, got {value!r}.")


def plain(value: Any) -> Any:
    """A value without numpy's types."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _set(frozen: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
