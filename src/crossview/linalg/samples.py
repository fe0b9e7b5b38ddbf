"""Samples in several views, as scatters see them: rows to be summed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from crossview._backend import (
    class_sums,
    column_sums,
    concatenate,
    hide_rows,
    product,
    row_factor,
    shift,
    squared_norms,
)
from crossview._progress import report
from crossview._types import Array, Indices, Mask, Rows
from crossview.linalg.patches import Patches
from crossview.linalg.scatter import patch_scatter
from crossview.linalg.span import row_space
from crossview.neighbours.classes import find_neighbours
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
    patches: Sequence[Any] = ()  # of each view, if asked for
    centres: Indices | None = None  # rows of the samples whose patches they are; None for all
    neighbour_recall: float = 1.0  # of the patches, against exact search: the lowest of all views
    one_map: bool = False  # whether all views share a map, so that the scatter of patches is a sum over views

    @classmethod
    def of(cls, views: Views, classes: Indices | None = None, weigh: Callable[[Mask], Array] | None = None) -> Samples:
        """The samples of views, with weight 1 or those that a function of the mask gives."""
        if views._lazy:
            from crossview.linalg.lazy import LazySamples

            return LazySamples.of(views, classes, weigh)
        weights = views.mask.astype(np.float64) if weigh is None else weigh(views.mask)
        return cls(arrays=_zero_where_missing(views.arrays, weights > 0), weights=weights, classes=classes)

    def pooled(self) -> Samples:
        """The present samples of all views as those of one view."""
        rows, classes = zip(*((s.arrays[0], s.classes) for s in self.single_views()), strict=True)
        labels = None if self.classes is None else np.concatenate(classes)
        return Samples(arrays=[concatenate(*rows)], weights=np.ones((int(self.n_seen.sum()), 1)), classes=labels)

    def single_views(self) -> Iterator[Samples]:
        """The present samples of each view."""
        return map(self.single_view, range(len(self.n_features)))

    def single_view(self, v: int) -> Samples:
        """The present samples of view v."""
        X, seen = self.arrays[v], self.mask[:, v]
        labels = None if self.classes is None else self.classes[seen]
        return Samples(arrays=[X if seen.all() else X[seen]], weights=np.ones((seen.sum(), 1)), classes=labels)

    def of_one_class(self) -> Self:
        """The samples, all of the same class."""
        return replace(self, classes=np.zeros(len(self), dtype=np.intp))

    def total(self, statistic: Callable[..., T], *args: object) -> T:
        """Sum over all samples of ``statistic(samples, *args)``, which gives arrays or lists of them."""
        return statistic(self, *args)

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        moved = [*map(shift, self.arrays, offsets)]
        return replace(self, arrays=_zero_where_missing(moved, self.mask))

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

    def with_patches(
        self, n_within: int, n_between: int, method: str = "exact", centres: Indices | None = None
    ) -> Self:
        """Find the patches of each view, with the nearest neighbours of all samples, or of the rows `centres`."""
        found, recalls = [], []
        report(more=int((self.mask if centres is None else self.mask[centres]).sum()))
        for v, seen in enumerate(self.mask.T):
            report(now=f"finding neighbours in view {v + 1} of {self.mask.shape[1]}")
            at = None if centres is None else np.searchsorted(np.flatnonzero(seen), centres[seen[centres]])
            points, classes = self._points(v), self.labels[seen]
            *tables, recall = find_neighbours(points, classes, n_within, n_between, method, centres=at)
            found.append(Patches(*tables).spread(seen, centres))
            recalls.append(recall)
        return replace(self, patches=found, centres=centres, neighbour_recall=min(recalls))

    def edge_total(self, statistic: Callable[..., T], *args: object) -> T:
        """Sum over the edges within classes of one view of ``statistic(X, ids, *args)``.

        The statistic gets samples and, for each of them, the rows of its neighbours, padded with -1.
        """
        return statistic(self.arrays[0], self.patches[0].within, *args)

    def _points(self, v: int) -> Rows:
        """The present samples of view v, whose Euclidean distances define neighbours."""
        X, seen = self.arrays[v], self.mask[:, v]
        return X if seen.all() else X[seen]

    def patch_scatter(
        self,
        within: slice | int,
        between: slice | int,
        *,
        between_weight: float = 1.0,
        paired: float = 0.0,
        intra: float = 0.0,
        inter: float = 0.0,
    ) -> Array:
        """Scatter of the patches, with the neighbours of the given ranks (see `Patches.edges` and `patch_scatter`).

        Patches of randomly drawn centres stand for those of all samples.
        """
        if self.centres is not None:
            intra, inter = (weight * len(self) / len(self.centres) for weight in (intra, inter))
        return self._patch_scatter((within, between, between_weight), paired, intra, inter)

    def _patch_scatter(self, ranks: tuple[Any, Any, float], paired: float, intra: float, inter: float) -> Array:
        edges = [patches.edges(*ranks) for patches in self.patches]
        weights = {"paired": paired, "intra": intra, "inter": inter}
        return patch_scatter(self.arrays, self.mask, edges, centres=self.centres, one_map=self.one_map, **weights)

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
        return self.total(_n_seen)

    @property
    def class_sizes(self) -> Array:
        """Number of samples of each class in each view, (C, n)."""
        return self.total(_class_sizes, self.n_classes)


def _zero_where_missing(arrays: Sequence[Rows], mask: Mask) -> list[Rows]:
    return [X if seen.all() else hide_rows(X, seen, 0.0) for X, seen in zip(arrays, mask.T, strict=True)]


def _n_seen(rows: Samples) -> Indices:
    counts: Indices = rows.mask.sum(axis=0)
    return counts


def _class_sizes(rows: Samples, n_classes: int) -> Array:
    return class_sums(rows.mask.astype(np.float64), np.ones(len(rows)), rows.labels, n_classes)


def view_sums(samples: Samples) -> tuple[list[Array], Array]:
    """Weighted sum of the samples of each view, (D_v,), and their total weights, (n,)."""
    *sums, weights = samples.total(_view_sums)
    return sums, weights


def _view_sums(rows: Samples) -> list[Array]:
    alike = [(w[w > 0] == 1.0).all() for w in rows.weights.T]  # rows of weight 0 are 0
    columns = zip(rows.arrays, rows.weights.T, alike, strict=True)
    return [*(column_sums(X, None if one else w) for X, w, one in columns), rows.weights.sum(axis=0)]


def moments(samples: Samples) -> tuple[Array, Array]:
    """Mean and variance of every feature of samples of one view, none of them missing."""
    (sums,), (m,) = view_sums(samples)
    mean: Array = sums / m
    rest, squares = samples.total(_deviations, mean)
    # The deviations from a rounded mean do not quite add up to 0.
    return mean, (squares - np.square(rest) / m) / m


def _deviations(rows: Samples, mean: Array) -> list[Array]:
    deviations = shift(rows.arrays[0], mean)
    return [column_sums(deviations), squared_norms(deviations, axis=0)]
