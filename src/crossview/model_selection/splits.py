"""Splits of classes, for recognising new objects or people, and splits of samples."""

from collections.abc import Iterator
from math import isfinite
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold, StratifiedKFold, check_cv
from sklearn.utils import check_random_state

from crossview._schema import Schema, register
from crossview._types import Indices, Labels, Mask
from crossview._validation import check_choice, check_count, label_array
from crossview.datasets.dataset import are_few_single

__all__ = ["ClassSplit", "SampleSplit", "folds", "matching_folds"]

_CLASSES_PER_FOLD = 4


@register
class ClassSplit:
    """Repeated random splits into training classes and test classes, as in the paper.

    Parameters
    ----------
    n_splits : int
        Number of splits.
    train_size : int or float
        Number of training classes or, below 1, their share.
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

    _schema: ClassVar[Schema] = {}

    def __init__(
        self, n_splits: int = 10, train_size: float = 0.7, random_state: int | RandomState | None = None
    ) -> None:
        self.n_splits = n_splits
        self.train_size = train_size
        self.random_state = random_state

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of splits. The arguments are ignored."""
        return self.n_splits

    def split(self, X: object, y: ArrayLike, groups: object = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training rows and the test rows of every split.

        Parameters
        ----------
        X, groups
            Ignored.
        y : array-like of shape (m,)
            One class label per sample.
        """
        check_count(self.n_splits, "n_splits", least=1)
        if y is None:
            raise ValueError("cannot split classes without y: give one class label per sample.")
        labels = label_array(y)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("y contains NaN or infinity: give every sample a class, or leave it out.")
        classes, codes = np.unique(labels, return_inverse=True)
        for is_train in self._train_masks(classes, codes, check_random_state(self.random_state)):
            yield np.flatnonzero(is_train), np.flatnonzero(~is_train)

    def _train_masks(self, classes: Labels, codes: Indices, random: RandomState) -> Iterator[Mask]:
        """Yield a mask of the training samples for every split."""
        count = _train_count(self.train_size, len(classes), "classes", least=2)
        for _ in range(self.n_splits):
            yield np.isin(codes, random.permutation(len(classes))[:count])


@register
class SampleSplit(ClassSplit):
    """Repeated random splits of the samples of every class, so that test classes also occur in training.

    Parameters
    ----------
    n_splits, random_state
        As in `ClassSplit`.
    train_size : int or float
        Number of training samples per class or, below 1, their share.

    Examples
    --------
    >>> y = ["a", "a", "b", "b", "b"]
    >>> for train, test in SampleSplit(n_splits=2, train_size=1, random_state=0).split(y, y):
    ...     print(train, test)
    [1 4] [0 2 3]
    [0 2] [1 3 4]
    """

    def _train_masks(self, classes: Labels, codes: Indices, random: RandomState) -> Iterator[Mask]:
        _check_none_single(classes, np.bincount(codes), "a split of samples needs two", "split classes")
        members = [np.flatnonzero(codes == c) for c in range(len(classes))]
        what = [f"samples of class {c}" for c in classes]
        counts = [_train_count(self.train_size, len(rows), what[c], least=1) for c, rows in enumerate(members)]
        for _ in range(self.n_splits):
            is_train = np.zeros(len(codes), dtype=bool)
            for rows, count in zip(members, counts, strict=True):
                is_train[random.permutation(rows)[:count]] = True
            yield is_train


def folds(cv: Any, y: NDArray[Any], n_folds: int, random_state: int) -> tuple[Any, str]:
    """Return the splitter of a search with this `cv`, and what it splits: "classes", "samples" or "given".

    The groups of a splitter of classes are the classes.
    """
    if not isinstance(cv, str):
        return check_cv(cv, y, classifier=True), "given"
    check_choice(cv, "cv", ("auto", "classes", "samples"))
    check_count(n_folds, "n_folds", least=2)
    possible, (classes, counts) = _possible_folds(y), np.unique(y, return_counts=True)
    if cv == "samples":
        _check_none_single(classes, counts, "folds of samples need two", "use cv='classes'" * (possible["classes"] > 1))
    elif cv == "auto":
        if are_few_single(counts):
            possible["samples"] = int(counts[counts > 1].min())
        many = len(classes) >= _CLASSES_PER_FOLD * n_folds
        cv = "classes" if many or possible["samples"] < 2 else "samples"
    if possible[cv] < 2:
        fix = "add data" + ", or use cv='samples'" * (possible["samples"] > 1)
        raise ValueError(f"folds of classes need at least four classes, got {len(classes)}: {fix}.")
    n_folds = min(n_folds, possible[cv])
    if cv == "classes":
        return GroupKFold(n_folds, shuffle=True, random_state=random_state), cv
    return _SampleFolds(n_folds, shuffle=True, random_state=random_state), cv


class _SampleFolds(StratifiedKFold):
    """Folds of the samples of every class; a class with one sample is in one of them."""

    def split(self, X: object, y: ArrayLike, groups: object = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the training rows and the test rows of every fold."""
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        codes[counts[codes] == 1] = counts.argmax()
        yield from super().split(X, codes, groups)


def _check_none_single(classes: Labels, counts: Indices, need: str, otherwise: str) -> None:
    """Refuse classes with one sample."""
    if counts.min() == 1:
        label = str(classes[counts.argmin()])
        raise ValueError(f"class {label!r} has one sample, but {need}: check its label, or {otherwise or 'add data'}.")


def matching_folds(kind: str, y: ArrayLike) -> str:
    """Return what folds should split to match a test split of that kind: "auto" if that is impossible."""
    return kind if _possible_folds(np.asarray(y))[kind] >= 2 else "auto"


def _possible_folds(y: NDArray[Any]) -> dict[str, int]:
    """Largest possible number of folds of either kind."""
    counts = np.unique(y, return_counts=True)[1]
    return {"classes": len(counts) // 2, "samples": int(counts.min())}


def _train_count(train_size: float, total: int, what: str, *, least: int) -> int:
    """Number of training items that leaves at least `least` items on each side."""
    if isinstance(train_size, bool | np.bool_) or not isinstance(train_size, Real) or not isfinite(train_size):
        raise ValueError(f"train_size must be a number of {what}, or their share, got {train_size!r}.")
    if total < 2 * least:
        raise ValueError(f"cannot split {total} {what}: provide at least {2 * least}.")
    count = max(least, min(total - least, round(train_size * total))) if 0 < train_size < 1 else train_size
    if count != int(count) or not least <= count <= total - least:
        possible = f"a share between 0 and 1, or a whole number from {least} to {total - least}"
        raise ValueError(f"train_size={train_size!r} is impossible with {total} {what}: use {possible}.")
    return int(count)
