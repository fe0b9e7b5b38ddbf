"""Exact nearest neighbours among samples in blocks: candidates of every block, merged.

`crossview.graphs.neighbours` finds the candidates. Their distances are computed coordinate by coordinate, and ties go
to the lower index: blocks do not change the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossview._backend import squared_norms
from crossview._types import Array, Indices, Mask
from crossview.graphs.neighbours import class_neighbours

_CHUNK = 1 << 15  # differences of samples in memory at a time


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
            _fill(nearest, some.X, block, table, a)
    return found


def nearest_candidates(centres: Points, block: Points, k: int) -> Nearest:
    """The k nearest samples of a block for each centre, which may be the centre itself."""
    found, m, c = _nothing_found(len(centres.X), k), len(block.X), len(centres.X)
    if m and c:
        # As neighbours from another class, they are searched for among the samples of the block only.
        X, classes = np.concatenate([block.X, centres.X]), np.repeat([0, 1], [m, c])
        _, table = class_neighbours(X, classes, 0, k, centres=np.arange(m, m + c))
        _fill(found, centres.X, block, table)
    return found


def _nothing_found(c: int, k: int) -> Nearest:
    return Nearest(np.full((c, k), np.inf), np.full((c, k), -1, dtype=np.intp))


def _fill(found: Nearest, X: Array, block: Points, table: Indices, first: int = 0) -> None:
    """Fill in rows from the first, those of the centres X, with the neighbours in a table that the block has."""
    row, rank = np.nonzero((table >= 0) & (table < len(block.X)))
    column = table[row, rank]
    for a in range(0, len(row), _CHUNK):
        some = slice(a, a + _CHUNK)
        squared = squared_norms(X[row[some]] - block.X[column[some]])
        found.squared[first + row[some], rank[some]] = squared
    found.ids[first + row, rank] = block.ids[column]
