"""Splits of samples, and splits of classes, by which recognition of new objects or people is judged; and outliers."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state, column_or_1d

from crossview._types import Indices
from crossview._validation import check_choice, check_count

__all__ = ["ClassKFold", "ClassSplit", "SampleSplit", "folds", "matching_folds", "permute_labels"]

_CLASSES_PER_FOLD = 4


class _Splitter:
    """What scikit-learn expects of a splitter. A subclass defines `_splits`."""

    n_splits: int
    random_state: int | np.random.RandomState | None

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """How many splits there are.

        Parameters
        ----------
        X, y, groups : ignored
            Not used.
        """
        return self.n_splits

    def split(self, X: object, y: ArrayLike, groups: object = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the rows to train with and the rows to test with.

        Parameters
        ----------
        X : ignored
            Not used.
        y : array-like of shape (m,)
            The classes.
        groups : ignored
            Not used.
        """
        check_count(self.n_splits, "n_splits", least=1)
        classes, codes = _classes(y)
        for is_train in self._splits(classes, codes, check_random_state(self.random_state)):
            yield np.flatnonzero(is_train), np.flatnonzero(~is_train)

    def _splits(
        self, classes: NDArray[np.generic], codes: Indices, random: np.random.RandomState
    ) -> Iterator[NDArray[np.bool_]]:
        """For every split, which samples to train with."""
        raise AssertionError("a subclass defines the splits")


class ClassSplit(_Splitter):
    """Repeated random splits into classes to train with and classes to test with, the paper's protocol.

    Parameters
    ----------
    n_splits : int
        How many splits.
    train_size : int or float
        How many classes to train with; below 1, their share.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> y = ["a", "a", "b", "b", "c", "d"]
    >>> for train, test in ClassSplit(n_splits=2, train_size=2, random_state=0).split(y, y):
    ...     print(train, test)
    [4 5] [0 1 2 3]
    [0 1 4] [2 3 5]
    """

    def __init__(
        self, n_splits: int = 10, train_size: float = 0.7, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.n_splits = n_splits
        self.train_size = train_size
        self.random_state = random_state

    def _splits(
        self, classes: NDArray[np.generic], codes: Indices, random: np.random.RandomState
    ) -> Iterator[NDArray[np.bool_]]:
        count = _count(self.train_size, len(classes), "classes", least=2)
        for _ in range(self.n_splits):
            yield np.isin(codes, random.permutation(len(classes))[:count])


class SampleSplit(ClassSplit):
    """Repeated random splits of the samples of every class, to recognise classes that were trained with.

    Parameters
    ----------
    n_splits : int
        How many splits.
    train_size : int or float
        How many samples of every class to train with; below 1, their share.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> y = ["a", "a", "b", "b", "b"]
    >>> for train, test in SampleSplit(n_splits=2, train_size=1, random_state=0).split(y, y):
    ...     print(train, test)
    [1 4] [0 2 3]
    [0 2] [1 3 4]
    """

    def _splits(
        self, classes: NDArray[np.generic], codes: Indices, random: np.random.RandomState
    ) -> Iterator[NDArray[np.bool_]]:
        members = [np.flatnonzero(codes == c) for c in range(len(classes))]
        counts = [
            _count(self.train_size, len(rows), f"samples of class {c}", least=1)
            for c, rows in zip(classes, members, strict=True)
        ]
        for _ in range(self.n_splits):
            is_train = np.zeros(len(codes), dtype=bool)
            for rows, count in zip(members, counts, strict=True):
                is_train[random.permutation(rows)[:count]] = True
            yield is_train


class ClassKFold(_Splitter):
    """Folds of classes: every class is tested once, by what was learnt from the others.

    Parameters
    ----------
    n_splits : int
        Number of folds, at most half the number of classes: in a fold of one class every match is right.
    random_state : int, RandomState or None
        Seed of the assignment of classes to folds.

    Examples
    --------
    >>> y = ["a", "a", "b", "c", "d"]
    >>> for train, test in ClassKFold(2, random_state=0).split(y, y):
    ...     print(train, test)
    [0 1 2] [3 4]
    [3 4] [0 1 2]
    """

    def __init__(self, n_splits: int = 5, random_state: int | np.random.RandomState | None = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def _splits(
        self, classes: NDArray[np.generic], codes: Indices, random: np.random.RandomState
    ) -> Iterator[NDArray[np.bool_]]:
        check_count(self.n_splits, "n_splits", least=2)
        if self.n_splits > len(classes) // 2:
            raise ValueError(
                f"n_splits={self.n_splits} folds of {len(classes)} classes would leave one class to a fold, in which "
                f"every match is right: use {len(classes) // 2} or fewer, or split samples with "
                "sklearn.model_selection.StratifiedKFold."
            )
        for test in np.array_split(random.permutation(len(classes)), self.n_splits):
            yield ~np.isin(codes, test)


def folds(cv: Any, y: NDArray[Any], n_folds: int, random_state: int) -> tuple[Any, str]:
    """The splitter that a search makes its folds with, and what it makes them of.

    Parameters
    ----------
    cv : {"auto", "classes", "samples"}, int, iterable or splitter
        As in `crossview.EmbeddingSearchCV`.
    y : ndarray of shape (m,)
        The classes.
    n_folds : int
        How many folds; fewer where there are too few classes or samples for so many.
    random_state : int
        Seed.

    Returns
    -------
    splitter : splitter
        With a method ``split``.
    kind : {"classes", "samples", "given"}
        What the folds are made of.
    """
    if not isinstance(cv, str):
        return check_cv(cv, y, classifier=True), "given"
    check_choice(cv, "cv", ("auto", "classes", "samples"))
    check_count(n_folds, "n_folds", least=2)
    possible = _possible_folds(y)
    if cv == "auto":
        classes = len(np.unique(y)) >= _CLASSES_PER_FOLD * n_folds
        enough = "samples" if possible["samples"] >= n_folds else max(possible, key=lambda kind: possible[kind])
        cv = "classes" if classes else enough
    if possible[cv] < 2:
        needed = "at least four classes" if cv == "classes" else "at least two samples of every class"
        raise ValueError(f"folds of {cv} need {needed}: add data, or choose other folds with cv.")
    n_folds = min(n_folds, possible[cv])
    if cv == "classes":
        return ClassKFold(n_folds, random_state), cv
    return StratifiedKFold(n_folds, shuffle=True, random_state=random_state), cv


def matching_folds(kind: str, y: ArrayLike) -> str:
    """What to make folds of, so that they ask the question that test samples will ask.

    Parameters
    ----------
    kind : {"classes", "samples"}
        Whether test samples are of classes that were not trained with, or of the same classes.
    y : array-like of shape (m,)
        Classes of the training samples.

    Returns
    -------
    kind : {"classes", "samples"}
        The same, unless there are too few classes or samples for such folds.
    """
    possible = _possible_folds(np.asarray(y))
    other = {"classes": "samples", "samples": "classes"}[kind]
    return kind if possible[kind] >= 2 or possible[other] < 2 else other


def _possible_folds(y: NDArray[Any]) -> dict[str, int]:
    """How many folds of either kind can be made."""
    counts = np.unique(y, return_counts=True)[1]
    return {"classes": len(counts) // 2, "samples": int(counts.min())}


def _classes(y: ArrayLike) -> tuple[NDArray[np.generic], Indices]:
    if y is None:
        raise ValueError("classes cannot be split without y: give one class label per sample.")
    labels = column_or_1d(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity: give every sample a class, or leave it out.")
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes.astype(np.intp)


def _count(train_size: float, total: int, what: str, *, least: int) -> int:
    """How many to train with, so that so many at least are left to either side."""
    if (
        isinstance(train_size, bool | np.bool_)
        or not isinstance(train_size, Real)
        or not np.isfinite(float(train_size))
    ):
        raise ValueError(f"train_size must be a number of {what}, or their share, got {train_size!r}.")
    count = max(least, min(total - least, round(train_size * total))) if 0 < train_size < 1 else train_size
    if count != int(count):
        raise ValueError(f"train_size={train_size!r} is neither a whole number of {what} nor a share between 0 and 1.")
    if total < 2 * least:
        raise ValueError(f"{total} {what} are too few to be split: there must be {2 * least} at least.")
    if not least <= count <= total - least:
        raise ValueError(
            f"train_size={train_size!r} of {total} {what} leaves fewer than {least} to train with, or to test with: "
            f"give a share between 0 and 1, or a whole number from {least} to {total - least}."
        )
    return int(count)


def permute_labels(
    y: ArrayLike, ratio: float, random_state: int | np.random.RandomState | None = None
) -> NDArray[np.generic]:
    """Make outliers: permute the labels of a share of the samples among themselves.

    A sample is wrong in all its views alike, as in the paper's tests of robustness.

    Parameters
    ----------
    y : array-like of shape (m,)
        The classes.
    ratio : float
        Share of the samples, from 0 to 1.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    permuted : ndarray of shape (m,)
        The labels, as many of each class as before.

    Examples
    --------
    >>> permute_labels(["a", "a", "b", "b", "c", "c"], ratio=0.5, random_state=1)
    array(['a', 'c', 'b', 'b', 'a', 'c'], dtype='<U1')
    """
    labels = column_or_1d(y).copy()
    if isinstance(ratio, bool | np.bool_) or not isinstance(ratio, Real) or not 0 <= ratio <= 1:
        raise ValueError(f"ratio must be a share from 0 to 1, got {ratio!r}.")
    random = check_random_state(random_state)
    rows = random.permutation(len(labels))[: round(ratio * len(labels))]
    labels[rows] = labels[random.permutation(rows)]
    return labels
