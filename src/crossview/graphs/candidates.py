"""Exact nearest neighbours among samples in blocks: candidates of every block, merged.

As in `crossview.graphs.neighbours`, matrix products only propose candidates. Those within rounding error of the best
are compared by exact distances, and ties go to the lower index: blocks do not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from crossview._backend import inner_products
from crossview._types import Array, Indices, Mask

_TABLE_ENTRIES = 1 << 21  # distances in memory at a time


@dataclass(frozen=True)
class Points:
    """Samples with their numbers and classes."""

    X: Array  # (m, D)
    ids: Indices  # (m,)
    classes: Indices  # (m,)

    def at(self, rows: Mask) -> Points:
        """Some of the samples."""
        return Points(self.X[rows], self.ids[rows], self.classes[rows])


@dataclass(frozen=True)
class Nearest:
    """The k nearest samples of each of c centres: squared distances and numbers, (c, k), padded with ∞ and -1.

    `+` merges what was found in two blocks.
    """

    squared: Array
    ids: Indices

    def spread(self, seen: Mask) -> Nearest:
        """Insert centres without neighbours where `seen` is False."""
        if seen.all():
            return self
        shape = len(seen), self.ids.shape[1]
        squared, ids = np.full(shape, np.inf), np.full(shape, -1, dtype=np.intp)
        squared[seen], ids[seen] = self.squared, self.ids
        return Nearest(squared, ids)

    def __add__(self, other: Nearest) -> Nearest:
        squared, ids = np.hstack([self.squared, other.squared]), np.hstack([self.ids, other.ids])
        order = np.lexsort((ids, squared), axis=1)[:, : self.ids.shape[1]]
        return Nearest(np.take_along_axis(squared, order, axis=1), np.take_along_axis(ids, order, axis=1))


def class_candidates(centres: Points, block: Points, n_within: int, n_between: int) -> list[Nearest]:
    """The nearest samples of a block for each centre, except itself: of the same class, and of other classes.

    Examples
    --------
    >>> import numpy as np
    >>> X, classes = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    >>> first, second = (Points(X[k : k + 2], np.arange(k, k + 2), classes[k : k + 2]) for k in (0, 2))
    >>> [(a + b).ids.tolist() for a, b in zip(*(class_candidates(first, block, 1, 2) for block in (first, second)))]
    [[[1], [0]], [[2, 3], [2, 3]]]
    """

    def same(rows: slice) -> Mask:
        alike: Mask = centres.classes[rows, None] == block.classes
        return alike

    def others_of_class(rows: slice) -> Mask:
        others: Mask = centres.ids[rows, None] != block.ids
        return same(rows) & others

    return [
        nearest(centres, block, others_of_class, n_within),
        nearest(centres, block, lambda rows: ~same(rows), n_between),
    ]


def nearest(centres: Points, block: Points, eligible: Callable[[slice], Mask] | None, k: int) -> Nearest:
    """The k nearest samples of a block for each centre, among all or those eligible for a slice of the centres."""
    squared = np.full((len(centres.X), k), np.inf)
    ids = np.full((len(centres.X), k), -1, dtype=np.intp)
    if not k or not len(block.X):
        return Nearest(squared, ids)
    for rows, d, tolerance in _fast_distances(centres.X, block.X):
        if eligible is not None:
            d[~eligible(rows)] = np.inf
        last = np.partition(d, min(k, d.shape[1]) - 1, axis=1)[:, min(k, d.shape[1]) - 1]
        found, columns = np.nonzero((d <= (last + tolerance(last))[:, None]) & np.isfinite(d))
        exact = _exact_distances(centres.X[rows], found, block.X, columns)
        order = np.lexsort((block.ids[columns], exact, found))
        rank = np.arange(len(order)) - np.searchsorted(found, found)
        best = order[rank < k]
        squared[rows.start + found[rank < k], rank[rank < k]] = exact[best]
        ids[rows.start + found[rank < k], rank[rank < k]] = block.ids[columns[best]]
    return Nearest(squared, ids)


def _fast_distances(X: Array, Y: Array) -> Iterator[tuple[slice, Array, Callable[[Array], Array]]]:
    """Squared distances of some rows of X at a time to Y, and a bound on their rounding errors, given the largest."""
    # An origin among the samples keeps the rounding error small; the median of a few is robust to outliers.
    few = Y[:: max(1, len(Y) // 30)]
    origin = np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
    Y = Y - origin
    norms = np.einsum("ij,ij->i", Y, Y)
    step = max(1, _TABLE_ENTRIES // len(Y))
    for a in range(0, len(X), step):
        x = X[a : a + step] - origin
        own = np.einsum("ij,ij->i", x, x)
        d = inner_products(x, Y, -2.0)
        d += own[:, None]
        d += norms

        def tolerance(reach: Array, own: Array = own) -> Array:
            # A sample within r of x has a norm of at most |x| + r.
            far = np.where(np.isfinite(reach), np.maximum(reach, 0.0), 0.0)
            bound: Array = own + np.square(np.sqrt(own) + np.sqrt(far))
            bound *= 4.0 * (X.shape[1] + 4) * np.finfo(np.float64).eps
            return bound

        yield slice(a, min(a + step, len(X))), d, tolerance


def _exact_distances(X: Array, rows: Indices, Y: Array, columns: Indices) -> Array:
    squared = np.empty(len(rows))
    step = max(1, _TABLE_ENTRIES // X.shape[1])
    for a in range(0, len(rows), step):
        difference = X[rows[a : a + step]] - Y[columns[a : a + step]]
        squared[a : a + step] = np.einsum("ij,ij->i", difference, difference)
    return squared
