"""Splits whose test classes were not seen in training: what recognition of new objects or people is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, column_or_1d

from crossview.graphs.neighbours import Indices

__all__ = ["ClassKFold", "ClassSplit"]


class ClassSplit:
    """Repeated random splits into classes to train with and classes to test with, the paper's protocol.

    Parameters
    ----------
    n_train : int or float
        How many classes to train with; below 1, their share.
    n_repeats : int
        How many splits.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> y = ["a", "a", "b", "b", "c", "c"]
    >>> for train, test in ClassSplit(n_train=2, n_repeats=2, random_state=0).split(y, y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 4 5] [2 3]
    """

    def __init__(
        self, n_train: float = 0.7, n_repeats: int = 10, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.n_train = n_train
        self.n_repeats = n_repeats
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """How many splits there are.

        Parameters
        ----------
        X, y, groups : ignored
            Not used.
        """
        return self.n_repeats

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
        classes, codes = _classes(y)
        n_train = _count(self.n_train, len(classes))
        random = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            yield _rows(codes, random.permutation(len(classes))[n_train:])


class ClassKFold:
    """Folds of classes: every class is tested once, by what was learnt from the others.

    Parameters
    ----------
    n_splits : int
        Number of folds, at most the number of classes.
    random_state : int, RandomState or None
        Seed of the assignment of classes to folds.

    Examples
    --------
    >>> y = ["a", "a", "b", "c"]
    >>> for train, test in ClassKFold(3, random_state=0).split(y, y):
    ...     print(train, test)
    [0 1 2] [3]
    [0 1 3] [2]
    [2 3] [0 1]
    """

    def __init__(self, n_splits: int = 5, random_state: int | np.random.RandomState | None = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """How many folds there are.

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
        classes, codes = _classes(y)
        if not isinstance(self.n_splits, Integral) or not 2 <= self.n_splits <= len(classes):
            raise ValueError(
                f"n_splits must be a whole number from 2 to the number of classes, here {len(classes)}, "
                f"got {self.n_splits!r}."
            )
        order = check_random_state(self.random_state).permutation(len(classes))
        for test in np.array_split(order, self.n_splits):
            yield _rows(codes, test)


def _classes(y: ArrayLike) -> tuple[NDArray[np.generic], Indices]:
    if y is None:
        raise ValueError("classes cannot be split without y: give one class label per sample.")
    classes, codes = np.unique(column_or_1d(y), return_inverse=True)
    return classes, codes.astype(np.intp)


def _rows(codes: Indices, test: Indices) -> tuple[Indices, Indices]:
    is_test = np.isin(codes, test)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _count(n_train: float, n_classes: int) -> int:
    """How many classes to train with: at least one, and one must be left to test with."""
    if isinstance(n_train, bool | np.bool_) or not isinstance(n_train, Real):
        raise ValueError(f"n_train must be a number of classes, or their share, got {n_train!r}.")
    count = round(n_train * n_classes) if 0 < n_train < 1 else n_train
    if count != int(count) or not 1 <= count < n_classes:
        raise ValueError(
            f"n_train={n_train!r} leaves no class to train with, or none to test with, of {n_classes}: "
            f"give a share between 0 and 1, or a whole number from 1 to {n_classes - 1}."
        )
    return int(count)
