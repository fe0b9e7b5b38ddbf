"""Nearest neighbours within and outside the class of each sample, exact and identical on every machine.

A search based on matrix products is fast but inexact: samples at the same distance may come out in either order,
depending on the number of threads. The fast search therefore only proposes candidates. If two of them lie closer than
its rounding error, their distances are recomputed coordinate by coordinate; remaining ties go to the lower index.
Without ties, this costs nothing.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from crossview._backend import inner_products, is_tensor, like
from crossview._types import Array, Indices, Rows

_DENSE_BELOW = 512  # samples up to which computing all distances at once is faster than a search
_SMALL_CLASS = 64  # classes up to this size are searched together, larger ones one at a time
_TABLE_ENTRIES = 1 << 20  # distances in memory at a time


def class_neighbours(
    X: Rows, classes: Indices, n_within: int, n_between: int, *, centres: Indices | None = None
) -> tuple[Any, Any]:
    """Nearest samples of the same class and of other classes, by Euclidean distance.

    X holds the samples, (m, D); `classes` their classes, (m,). `n_within` and `n_between` are the numbers of neighbours
    from the same class, p1, and from other classes, p2, capped at the number available. Returns two tables,
    (m, n_within) and (m, n_between), with the neighbours of each sample, excluding itself: nearest first, then lower
    index first, padded with -1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> within, between = class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2)
    >>> within.tolist(), between.tolist()
    ([[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]])
    """
    if is_tensor(X):
        from crossview.graphs import _torch_neighbours

        at = None if centres is None else like(X, centres)
        return _torch_neighbours.class_neighbours(X, like(X, classes), n_within, n_between, centres=at)
    sizes = np.bincount(classes)
    sizes = sizes[sizes > 0]
    n_within, n_between = min(n_within, int(sizes.max()) - 1), min(n_between, len(classes) - int(sizes.min()))
    tables = _SortedSearch(X, classes).tables(n_within, n_between)
    return tables if centres is None else (tables[0][centres], tables[1][centres])


def _tied(values: Array, k: int, tolerance: Array) -> NDArray[np.bool_]:
    """Rows whose first k + 1 sorted values might change order within the tolerance."""
    with np.errstate(invalid="ignore"):
        gaps = np.diff(values[:, : k + 1], axis=1)
    tied: NDArray[np.bool_] = np.any(gaps <= tolerance[:, None], axis=1)
    return tied


class _SortedSearch:
    """Neighbour search over samples sorted by class, small classes first, so that each class is a slice.

    scikit-learn does the search, in little memory for any number of samples. Positions refer to the sorted order;
    `order` maps them to samples.
    """

    def __init__(self, X: Array, classes: Indices) -> None:
        self.X = X
        sizes = np.bincount(classes)[classes]
        self.order = np.lexsort((classes, sizes))
        self.classes, self.sizes = classes[self.order], sizes[self.order]
        self.n_small = int(np.searchsorted(self.sizes, _SMALL_CLASS, side="right"))
        # An origin among the samples keeps the rounding error of |x|² - 2xy + |y|² small without changing distances.
        # The median of a few samples suffices and is robust to outliers.
        self.sorted = X[self.order]
        few = self.sorted[:: max(1, len(X) // 30)]
        self.sorted -= np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
        self.norms = _squared_norms(self.sorted)

    def tables(self, n_within: int, n_between: int) -> tuple[Indices, Indices]:
        """Tables of neighbours within and outside the class."""
        within, between = (np.full((len(self.X), k), -1, dtype=np.intp) for k in (n_within, n_between))
        if n_between:
            self._fill_between(between)
        if n_within:
            self._fill_within(within)
        return within, between

    def _large_classes(self) -> Iterator[tuple[int, int]]:
        """Start and stop positions of each large class."""
        a = self.n_small
        while a < len(self.X):
            b = a + int(self.sizes[a])
            yield a, b
            a = b

    def _fill_between(self, table: Indices) -> None:
        m, k = table.shape
        all_positions = np.arange(m)
        if m <= _DENSE_BELOW:
            d = _squared_distances(self.sorted, self.sorted)
            self._fill_from_distances(table, all_positions, all_positions[None, :], d, same=False)
            return
        if self.n_small:
            # In a class of s samples, more than k of the k + s + 1 nearest candidates belong to other classes.
            width = k + int(self.sizes[self.n_small - 1]) + 1
            self._fill_from_search(table, slice(0, self.n_small), [slice(0, m)], width, same=False)
        for a, b in self._large_classes():
            rest = [s for s in (slice(0, a), slice(b, m)) if s.stop > s.start]
            if rest:
                self._fill_from_search(table, slice(a, b), rest, k + 2, same=False)

    def _fill_within(self, table: Indices) -> None:
        """Compute all distances within small classes, grouped by size, and search within each large class."""
        a = 0
        while a < self.n_small:
            size = int(self.sizes[a])
            b = int(np.searchsorted(self.sizes, size, side="right"))
            for chunk in _chunks(0, (b - a) // size, size * size):
                part = slice(a + chunk.start * size, a + chunk.stop * size)
                rows = np.arange(part.start, part.stop)
                d = np.vstack(
                    [inner_products(x, x, -2.0) for x in self.sorted[part].reshape(-1, size, self.X.shape[1])]
                )
                columns = np.repeat(rows.reshape(-1, size), size, axis=0)
                d += self.norms[rows, None]
                d += self.norms[columns]
                self._fill_from_distances(table, rows, columns, d, same=True)
            a = b
        for a, b in self._large_classes():
            self._fill_from_search(table, slice(a, b), [slice(a, b)], table.shape[1] + 2, same=True)

    def _fill_from_search(self, table: Indices, rows: slice, targets: list[slice], width: int, *, same: bool) -> None:
        all_positions = np.arange(len(self.X))
        for chunk in _chunks(rows.start, rows.stop, width * len(targets)):
            # Each truncated list holds more than k eligible entries: the k nearest, and one more to detect ties.
            found = [self._nearest(chunk, target, width) for target in targets]
            positions = np.concatenate([p for p, _ in found], axis=1)
            values = np.concatenate([v for _, v in found], axis=1)
            queries = all_positions[chunk]
            values[~self._eligible(queries, positions, same=same)] = np.inf
            nearest = np.argsort(values, axis=1, kind="stable")[:, : table.shape[1] + 1]
            positions = np.take_along_axis(positions, nearest, axis=1)
            values = np.take_along_axis(values, nearest, axis=1)
            k = min(table.shape[1], positions.shape[1])
            table[self.order[chunk], :k] = np.where(np.isfinite(values), self.order[positions], -1)[:, :k]
            tied = queries[_tied(values, k, self._rounding_error(queries, values))]
            for part in _chunks(0, len(tied), len(self.X)):
                d = _squared_distances(self.sorted[tied[part]], self.sorted)
                self._fill_from_distances(table, tied[part], all_positions[None, :], d, same=same)

    def _nearest(self, rows: slice, target: slice, width: int) -> tuple[Indices, Array]:
        """Positions and squared distances of the nearest samples in a slice, nearest first."""
        targets = self.sorted[target]
        search = NearestNeighbors(n_neighbors=min(width, len(targets)), algorithm="brute", metric="sqeuclidean")
        with config_context(assume_finite=True):
            values, positions = search.fit(targets).kneighbors(self.sorted[rows])
        return positions + target.start, values

    def _fill_from_distances(self, table: Indices, rows: Indices, columns: Indices, d: Array, *, same: bool) -> None:
        """Fill rows of the table from the squared distances d between positions, resolving ties. Overwrites d."""
        d[~self._eligible(rows, columns, same=same)] = np.inf
        k = min(table.shape[1], d.shape[1])
        column_ids = np.broadcast_to(self.order[columns], d.shape)
        # One entry more than needed shows whether the last one is tied with the next.
        nearest = np.argpartition(d, min(k, d.shape[1] - 1), axis=1)[:, : k + 1]
        values = np.take_along_axis(d, nearest, axis=1)
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        ids = np.take_along_axis(column_ids, np.take_along_axis(nearest, order, axis=1), axis=1)
        table[self.order[rows], :k] = np.where(np.isfinite(values), ids, -1)[:, :k]
        tolerance = self._rounding_error(rows, values)
        for r in np.flatnonzero(_tied(values, k, tolerance)):
            candidates = column_ids[r, np.isfinite(d[r]) & (d[r] <= values[r, k - 1] + tolerance[r])]
            sample = self.order[rows[r]]
            exact = _squared_norms(self.X[candidates] - self.X[sample])
            nearest_ids = candidates[np.lexsort((candidates, exact))[:k]]
            table[sample, : len(nearest_ids)] = nearest_ids

    def _rounding_error(self, rows: Indices, nearest: Array) -> Array:
        """Bound on the rounding error of the difference between two entries of a row.

        A sample within r of x has a norm of at most ``|x| + r``, so distant outliers do not matter.
        """
        reach = np.max(nearest, axis=1, where=np.isfinite(nearest), initial=0.0)
        norms = self.norms[rows]
        error: Array = norms + np.square(np.sqrt(norms) + np.sqrt(reach))
        error *= 4.0 * (self.X.shape[1] + 4) * np.finfo(np.float64).eps
        return error

    def _eligible(self, rows: Indices, positions: Indices, *, same: bool) -> NDArray[np.bool_]:
        eligible: NDArray[np.bool_] = (self.classes[rows, None] == self.classes[positions]) == same
        if same:
            eligible &= rows[:, None] != positions
        return eligible


def _squared_distances(X: Array, Y: Array) -> Array:
    d = inner_products(X, Y, -2.0)
    d += _squared_norms(X)[:, None]
    d += _squared_norms(Y)
    return d


def _squared_norms(X: Array) -> Array:
    norms: Array = np.einsum("ij,ij->i", X, X)
    return norms


def _chunks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of rows whose tables of the given width stay within the memory limit."""
    step = max(1, _TABLE_ENTRIES // max(width, 1))
    for a in range(start, stop, step):
        yield slice(a, min(a + step, stop))
