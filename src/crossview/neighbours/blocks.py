"""Exact nearest neighbours among samples in blocks: candidates of every block, merged.

`crossview.neighbours.classes` finds the candidates. Their distances are computed coordinate by coordinate, and ties go
to the lower index: blocks do not change the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossview._types import Array, Indices, Mask
from crossview.neighbours.classes import class_neighbours
from crossview.neighbours.distances import chunks, rank_tables, table_distances


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
        return Nearest(*rank_tables(squared, ids, self.ids.shape[1]))


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
    m = len(block.X)
    tables = [np.full((len(centres.X), k), -1, dtype=np.intp) for k in (n_within, n_between)]
    for rows in chunks(len(centres.X), 1, most=max(1, m // 4)) if m else ():
        some = centres.at(rows)
        # The search is for neighbours of its own samples, so it also has to hold centres from elsewhere: few at a time,
        # to save time. Samples of the block that they displace have enough nearer ones, which the merge finds.
        other = ~np.isin(some.ids, block.ids)
        X, classes = np.concatenate([block.X, some.X[other]]), np.concatenate([block.classes, some.classes[other]])
        at = np.searchsorted(block.ids, some.ids)
        at[other] = np.arange(m, len(X))
        for table, found in zip(tables, class_neighbours(X, classes, n_within, n_between, centres=at), strict=True):
            table[rows, : found.shape[1]] = np.where(found < m, found, -1)
    return [_nearest(centres, block, table) for table in tables]


def nearest_candidates(centres: Points, block: Points, k: int) -> Nearest:
    """The k nearest samples of a block for each centre, which may be the centre itself."""
    m, c = len(block.X), len(centres.X)
    table = np.full((c, k), -1, dtype=np.intp)
    if m and c:
        # As neighbours from another class, they are searched for among the samples of the block only.
        X, classes = np.concatenate([block.X, centres.X]), np.repeat([0, 1], [m, c])
        found = class_neighbours(X, classes, 0, k, centres=np.arange(m, m + c))[1]
        table[:, : found.shape[1]] = found
    return _nearest(centres, block, table)


def _nearest(centres: Points, block: Points, table: Indices) -> Nearest:
    """What a table of rows of the block, padded with -1, holds for each centre."""
    return Nearest(table_distances(block.X, centres.X, table, "sqeuclidean"), np.append(block.ids, -1)[table])
