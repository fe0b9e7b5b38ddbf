"""Exact nearest neighbours among samples in blocks: candidates of every block, merged.

As in `crossview.graphs.neighbours`, matrix products only propose candidates. Those within rounding error of the best
are compared by exact distances, and ties go to the lower index: blocks do not change the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crossview._backend import inner_products, squared_norms
from crossview._types import Array, Indices, Mask
from crossview.graphs.neighbours import class_neighbours

_TABLE_ENTRIES = 1 << 21  # distances in memory at a time


@dataclass(frozen=True)
class Points:
    """Samples with their numbers and classes."""

    X: Array  # (m, D)
    ids: Indices  # (m,)
    classes: Indices  # (m,)

    def at(self, rows: Mask | slice) -> Points:
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
    found = [_nothing_found(len(centres.X), k) for k in (n_within, n_between)]
    m = len(block.X)
    for a in range(0, len(centres.X) if m else 0, step := max(1, m // 4)):
        some = centres.at(slice(a, a + step))
        # The search is for neighbours of its own samples, so it also has to hold centres from elsewhere: few at a time,
        # to save time. Samples of the block that they displace have enough nearer ones, which the merge finds.
        other = ~np.isin(some.ids, block.ids)
        X, classes = np.concatenate([block.X, some.X[other]]), np.concatenate([block.classes, some.classes[other]])
        at = np.searchsorted(block.ids, some.ids)
        at[other] = np.arange(m, len(X))
        for nearest, table in zip(found, class_neighbours(X, classes, n_within, n_between, centres=at), strict=True):
            row, rank = np.nonzero((table >= 0) & (table < m))
            column = table[row, rank]
            nearest.squared[a + row, rank] = _exact_distances(some.X, row, block.X, column)
            nearest.ids[a + row, rank] = block.ids[column]
    return found


def nearest_candidates(centres: Points, block: Points) -> Nearest:
    """The nearest sample of a block for each centre."""
    found = _nothing_found(len(centres.X), 1)
    for rows, d in _distances_in_chunks(centres.X, block.X):
        _fill(found, centres.X, block, rows, d)
    return found


def _nothing_found(c: int, k: int) -> Nearest:
    return Nearest(np.full((c, k), np.inf), np.full((c, k), -1, dtype=np.intp))


def _fill(found: Nearest, X: Array, block: Points, rows: slice, d: Array) -> None:
    """Fill in rows of the centres X from their fast distances d to a block, ∞ for samples that must not be taken."""
    k = found.ids.shape[1]
    if not k:
        return
    last = np.partition(d, min(k, d.shape[1]) - 1, axis=1)[:, min(k, d.shape[1]) - 1]
    row, column = np.nonzero((d <= (last + _rounding_error(X[rows], block.X, last))[:, None]) & np.isfinite(d))
    exact = _exact_distances(X[rows], row, block.X, column)
    order = np.lexsort((block.ids[column], exact, row))
    rank = np.arange(len(order)) - np.searchsorted(row, row)
    best, at = order[rank < k], (rows.start + row[rank < k], rank[rank < k])
    found.squared[at], found.ids[at] = exact[best], block.ids[column[best]]


def _distances_in_chunks(X: Array, Y: Array) -> Iterator[tuple[slice, Array]]:
    """Fast squared distances of some rows of X at a time to Y, if it has rows."""
    if not len(Y):
        return
    origin = _origin(Y)
    Y = Y - origin
    norms = squared_norms(Y)
    step = max(1, _TABLE_ENTRIES // len(Y))
    for a in range(0, len(X), step):
        x = X[a : a + step] - origin
        d = inner_products(x, Y, -2.0)
        d += squared_norms(x)[:, None]
        d += norms
        yield slice(a, a + len(x)), d


def _origin(Y: Array) -> Array:
    """An origin among the samples, which keeps rounding errors small; the median of a few is robust to outliers."""
    few = Y[:: max(1, len(Y) // 30)]
    median: Array = np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
    return median


def _rounding_error(X: Array, Y: Array, reach: Array) -> Array:
    """Bound on the rounding error of the difference between two fast distances of a row up to `reach`.

    A sample within r of x has a norm of at most ``|x| + r``, so distant outliers do not matter.
    """
    norms = squared_norms(X - _origin(Y))
    radius = np.sqrt(np.where(np.isfinite(reach), np.maximum(reach, 0.0), 0.0))
    error: Array = norms + np.square(np.sqrt(norms) + radius)
    error *= 4.0 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    return error


def _exact_distances(X: Array, rows: Indices, Y: Array, columns: Indices) -> Array:
    """Squared distances of pairs of rows, coordinate by coordinate."""
    step = max(1, _TABLE_ENTRIES // X.shape[1])
    parts = [squared_norms(X[rows[a : a + step]] - Y[columns[a : a + step]]) for a in range(0, len(rows), step)]
    return np.concatenate(parts) if parts else np.empty(0)
