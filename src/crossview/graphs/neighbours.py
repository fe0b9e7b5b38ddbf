"""Nearest neighbours inside and outside a sample's class, exact and the same on every machine.

A search by matrix products is fast but rounds: two samples at the same distance may come out in either order,
depending on the number of threads. So the fast search only proposes candidates. Where two of them lie closer than
its rounding error, their distances are computed again coordinate by coordinate, and what is still tied goes to the
lower index. Without ties this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from crossview._blas import inner_products
from crossview._types import Array, Indices

__all__ = ["class_neighbours"]

_DENSE_BELOW = 512  # samples up to which one matrix of all distances beats a search
_SMALL_CLASS = 64  # classes up to this size are searched together, larger ones one by one
_TABLE_ENTRIES = 1 << 20  # distances held at a time


def class_neighbours(X: Array, classes: Indices, n_within: int, n_between: int) -> tuple[Indices, Indices]:
    """Nearest samples of the same and of other classes, by Euclidean distance.

    Parameters
    ----------
    X : ndarray of shape (m, D)
        The samples.
    classes : ndarray of int, shape (m,)
        Class of each sample.
    n_within, n_between : int
        Neighbours wanted: p1 of the same class, p2 of other classes. More than any sample has are taken for that.

    Returns
    -------
    within : ndarray of int, shape (m, n_within)
        Nearest samples of the same class, nearest first and lower index first among equals, never the sample
        itself; -1 where the class has no more.
    between : ndarray of int, shape (m, n_between)
        The same for samples of other classes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> within, between = class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2)
    >>> within.tolist(), between.tolist()
    ([[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]])
    """
    return _SortedSearch(X, classes).tables(*_possible(classes, n_within, n_between))


def _possible(classes: Indices, n_within: int, n_between: int) -> tuple[int, int]:
    """As many neighbours as were asked for, but no more than any sample has."""
    sizes = np.bincount(classes)
    sizes = sizes[sizes > 0]
    return min(n_within, int(sizes.max()) - 1), min(n_between, len(classes) - int(sizes.min()))


def _select(
    d: Array,
    row_ids: Indices,
    column_ids: Indices,
    k: int,
    exact: Callable[[int, Indices], Array] | None = None,
    slack: Callable[[Array], Array] | None = None,
) -> Indices:
    """Ids of the columns of each row's k smallest finite entries, in order; -1 where there are fewer.

    The columns' ids are the same for all rows, or given row by row. Entries of a row that differ by no more than its
    slack, given its smallest entries, are put in the order of what ``exact(row_id, column_ids)`` gives for them, and
    then of their ids.
    """
    table = _empty_table(len(d), k)
    k = min(k, d.shape[1])
    column_ids = np.broadcast_to(column_ids, d.shape)
    # One entry more than asked for shows whether the last one asked for is tied with the next.
    columns = np.argpartition(d, min(k, d.shape[1] - 1), axis=1)[:, : k + 1]
    values = np.take_along_axis(d, columns, axis=1)
    order = np.argsort(values, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    ids = np.take_along_axis(column_ids, np.take_along_axis(columns, order, axis=1), axis=1)
    table[:, :k] = np.where(np.isfinite(values), ids, -1)[:, :k]
    margin = np.zeros(len(d)) if slack is None else slack(values)
    for r in np.flatnonzero(_tied(values, k, margin)):
        candidates = np.flatnonzero(np.isfinite(d[r]) & (d[r] <= values[r, k - 1] + margin[r]))
        ids_r = column_ids[r, candidates]
        distances = d[r, candidates] if exact is None else exact(int(row_ids[r]), ids_r)
        nearest = ids_r[np.lexsort((ids_r, distances))[:k]]
        table[r, : len(nearest)] = nearest
    return table


def _tied(values: Array, k: int, slack: Array) -> NDArray[np.bool_]:
    """Rows whose first k sorted values might belong in another order, or give way to the next one."""
    with np.errstate(invalid="ignore"):
        gaps = np.diff(values[:, : k + 1], axis=1)
    tied: NDArray[np.bool_] = np.any(gaps <= slack[:, None], axis=1)
    return tied


class _SortedSearch:
    """Neighbour search over samples sorted by class, small classes first, so that a class is a slice.

    The search itself is scikit-learn's, whose working memory is small whatever the number of samples. Positions
    are places in the sorted order; `order` leads back to the samples.
    """

    def __init__(self, X: Array, classes: Indices) -> None:
        self.X = X
        sizes = np.bincount(classes)[classes]
        self.order = np.lexsort((classes, sizes))
        self.classes, self.sizes = classes[self.order], sizes[self.order]
        self.n_small = int(np.searchsorted(self.sizes, _SMALL_CLASS, side="right"))
        # An origin amid the samples keeps the rounding error of |x|² - 2xy + |y|² small; distances do not change. The
        # median of a few is as good as any, and no outlier moves it.
        self.sorted = X[self.order]
        few = self.sorted[:: max(1, len(X) // 30)]
        self.sorted -= np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
        self.norms = _squared_norms(self.sorted)

    def tables(self, n_within: int, n_between: int) -> tuple[Indices, Indices]:
        within, between = _empty_table(len(self.X), n_within), _empty_table(len(self.X), n_between)
        if n_between:
            self._fill_between(between)
        if n_within:
            self._fill_within(within)
        return within, between

    def _large_classes(self) -> Iterator[tuple[int, int]]:
        """First position and the one after the last of every large class."""
        a = self.n_small
        while a < len(self.X):
            b = a + int(self.sizes[a])
            yield a, b
            a = b

    def _fill_between(self, table: Indices) -> None:
        m, k = table.shape
        everyone = np.arange(m)
        if m <= _DENSE_BELOW:
            d = _squared_distances(self.sorted, self.sorted)
            self._fill_from_distances(table, everyone, everyone[None, :], d, same=False)
            return
        if self.n_small:
            # Of k + s + 1 candidates of a sample whose class has s members, more than k are of other classes.
            width = k + int(self.sizes[self.n_small - 1]) + 1
            self._fill_from_search(table, slice(0, self.n_small), [slice(0, m)], width, same=False)
        for a, b in self._large_classes():
            rest = [s for s in (slice(0, a), slice(b, m)) if s.stop > s.start]
            if rest:
                self._fill_from_search(table, slice(a, b), rest, k + 2, same=False)

    def _fill_within(self, table: Indices) -> None:
        """All distances inside a small class, classes of one size at a time; a search inside each large one."""
        a = 0
        while a < self.n_small:
            size = int(self.sizes[a])
            b = int(np.searchsorted(self.sizes, size, side="right"))
            for some in _chunks(0, (b - a) // size, size * size):
                part = slice(a + some.start * size, a + some.stop * size)
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
        everyone = np.arange(len(self.X))
        for chunk in _chunks(rows.start, rows.stop, width * len(targets)):
            # A list that is cut short still holds more than k entries that count: the first k of all are among them,
            # and the next one shows a tie.
            found = [self._nearest(chunk, among, width) for among in targets]
            positions = np.concatenate([p for p, _ in found], axis=1)
            values = np.concatenate([v for _, v in found], axis=1)
            here = everyone[chunk]
            values[~self._eligible(here, positions, same=same)] = np.inf
            nearest = np.argsort(values, axis=1, kind="stable")[:, : table.shape[1] + 1]
            positions = np.take_along_axis(positions, nearest, axis=1)
            values = np.take_along_axis(values, nearest, axis=1)
            k = min(table.shape[1], positions.shape[1])
            table[self.order[chunk], :k] = np.where(np.isfinite(values), self.order[positions], -1)[:, :k]
            unsure = here[_tied(values, k, self._rounding_error(here, values))]
            for some in _chunks(0, len(unsure), len(self.X)):
                d = _squared_distances(self.sorted[unsure[some]], self.sorted)
                self._fill_from_distances(table, unsure[some], everyone[None, :], d, same=same)

    def _nearest(self, rows: slice, among: slice, width: int) -> tuple[Indices, Array]:
        """Positions and squared distances of the nearest in a slice, nearest first."""
        targets = self.sorted[among]
        search = NearestNeighbors(n_neighbors=min(width, len(targets)), algorithm="brute", metric="sqeuclidean")
        with config_context(assume_finite=True):
            values, positions = search.fit(targets).kneighbors(self.sorted[rows])
        return positions + among.start, values

    def _fill_from_distances(self, table: Indices, rows: Indices, columns: Indices, d: Array, *, same: bool) -> None:
        """Fill rows of the table from their distances to the columns' samples, ties settled. d is destroyed."""
        d[~self._eligible(rows, columns, same=same)] = np.inf
        table[self.order[rows]] = _select(
            d,
            self.order[rows],
            self.order[columns],
            table.shape[1],
            lambda i, j: _exact_squared_distances(self.X, i, j),
            lambda values: self._rounding_error(rows, values),
        )

    def _rounding_error(self, rows: Indices, nearest: Array) -> Array:
        """Bound on the error that matrix products make in the difference of two entries of a row.

        Whatever lies within r of x has a norm of at most ``|x| + r``: outliers elsewhere do not matter.
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


def _exact_squared_distances(X: Array, i: int, j: Indices) -> Array:
    return _squared_norms(X[j] - X[i])


def _squared_norms(X: Array) -> Array:
    norms: Array = np.einsum("ij,ij->i", X, X)
    return norms


def _empty_table(m: int, k: int) -> Indices:
    return np.full((m, k), -1, dtype=np.intp)


def _chunks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of rows whose tables of the given width stay small."""
    step = max(1, _TABLE_ENTRIES // max(width, 1))
    for a in range(start, stop, step):
        yield slice(a, min(a + step, stop))
