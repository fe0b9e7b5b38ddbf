"""Samples in several views, as scatters see them: rows to be summed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np

from crossview._backend import class_sums, column_means, concatenate, fill_missing, product, row_factor, shift
from crossview._types import Array, Indices, Mask, Rows
from crossview.linalg.span import row_space
from crossview.views import Views

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples in several views, complete or a block of rows.

    Methods only learn from sums over samples, which `total` computes. So it does not matter where the samples are, or
    whether they are all in one place.
    """

    arrays: Sequence[Rows]  # (m, D_v) each, zero where a sample is missing
    weights: Array  # (m, n): weight of each sample in each view, 0 where it is missing
    classes: Indices | None = None  # (m,), coded from 0

    @classmethod
    def of(cls, views: Views) -> Samples:
        """The samples of views, all with weight 1."""
        rows = zip(views._present_rows(), views.mask.T, strict=True)
        return cls(arrays=[fill_missing(X, seen) for X, seen in rows], weights=views.mask.astype(np.float64))

    def pooled(self) -> Samples:
        """The present samples of all views as those of one view."""
        rows, classes = zip(*((s.arrays[0], s.classes) for s in self.single_views()), strict=True)
        labels = None if self.classes is None else np.concatenate(classes)
        return Samples(arrays=[concatenate(*rows)], weights=np.ones((int(self.n_seen.sum()), 1)), classes=labels)

    def single_views(self) -> Iterator[Samples]:
        """The present samples of each view."""
        for X, seen in zip(self.arrays, self.mask.T, strict=True):
            labels = None if self.classes is None else self.classes[seen]
            yield Samples(arrays=[X if seen.all() else X[seen]], weights=np.ones((seen.sum(), 1)), classes=labels)

    def total(self, statistic: Callable[..., T], *args: object) -> T:
        """Sum over all samples of ``statistic(samples, *args)``, which gives arrays or lists of them."""
        return statistic(self, *args)

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        moved = [
            shift(X, offset) if seen.all() else fill_missing(shift(X[seen], offset), seen)
            for X, offset, seen in zip(self.arrays, offsets, self.mask.T, strict=True)
        ]
        return replace(self, arrays=moved)

    def row_spaces(self) -> list[Array | None]:
        """For each view, a basis of the directions in which the samples vary; None if these are all directions."""
        return [row_space(X) for X in self.arrays]

    def in_coordinates(self, bases: Sequence[Array | None]) -> Self:
        """The samples in coordinates of bases, unless these are None."""
        arrays = [X if B is None else product(X, B) for X, B in zip(self.arrays, bases, strict=True)]
        return replace(self, arrays=arrays)

    def factors(self) -> list[Array]:
        """For each view, a matrix with as many columns as features and the same Gram matrix as the samples."""
        return [row_factor(X) for X in self.arrays]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def mask(self) -> Mask:
        """True where a sample is present in a view, (m, n)."""
        return self.weights > 0

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return [X.shape[1] for X in self.arrays]

    @property
    def labels(self) -> Indices:
        """The classes, for supervised methods."""
        assert self.classes is not None
        return self.classes

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return int(self.labels.max()) + 1

    @property
    def n_seen(self) -> Indices:
        """Number of samples in each view, (n,)."""
        counts: Indices = self.mask.sum(axis=0)
        return counts

    @property
    def class_sizes(self) -> Array:
        """Number of samples of each class in each view, (C, n)."""
        return class_sums(self.mask.astype(np.float64), np.ones(len(self.mask)), self.labels, self.n_classes)


def moments(samples: Samples) -> tuple[Array, Array]:
    """Mean and variance of every feature of samples of one view, none of them missing."""
    (sums,) = samples.total(_sums)
    mean: Array = sums / len(samples)
    rest, squares = samples.total(_deviations, mean)
    # The deviations from a rounded mean do not quite add up to 0.
    return mean, (squares - np.square(rest) / len(samples)) / len(samples)


def _sums(rows: Samples) -> list[Array]:
    return [len(rows) * column_means(rows.arrays[0])]


def _deviations(rows: Samples, mean: Array) -> list[Array]:
    deviations = shift(rows.arrays[0], mean)
    return [len(rows) * column_means(deviations), len(rows) * column_means(deviations * deviations)]
