"""Nearest neighbours within and outside the class of each sample: exact and identical on every machine, or approximate.

A search based on matrix products is fast but inexact: samples at the same distance may come out in either order,
depending on the number of threads. The fast search therefore only proposes candidates. If two of them lie closer than
its rounding error, their distances are recomputed coordinate by coordinate; remaining ties go to the lower index.
Without ties, this costs nothing.

The time of the exact search grows with the square of the number of samples. An approximate search proposes candidates
from an inverted file instead (`crossview.graphs.approximate`), and all their distances are recomputed.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from crossview._backend import inner_products, is_tensor, like, squared_norms
from crossview._progress import report
from crossview._types import Array, Indices, Rows
from crossview.graphs import approximate

METHODS = ("auto", "exact", "approximate")
"""Ways to search."""

_APPROXIMATE_FROM = 30_000  # samples from which the approximate search is faster, see benchmarks/neighbours.md
_DENSE_BELOW = 512  # samples up to which computing all distances at once is faster than a search
_SMALL_CLASS = 64  # classes up to this size are searched together, larger ones one at a time
_EXACT_BELOW = 1 << 14  # samples up to which an exact search is faster than an approximate one
_TABLE_ENTRIES = 1 << 20  # distances in memory at a time
_SAMPLE = 256  # rows on which recall is measured
_ENOUGH = 0.9  # recall below which more lists are searched
_MOST_PROBES = 1024
_EXACT_SHARE = 0.5  # share of all lists from which an exact search is faster than visiting them


def class_neighbours(
    X: Rows,
    classes: Indices,
    n_within: int,
    n_between: int,
    *,
    centres: Indices | None = None,
    method: str = "exact",
) -> tuple[Any, Any]:
    """Nearest samples of the same class and of other classes, by Euclidean distance.

    X holds the samples, (m, D); `classes` their classes, (m,). `n_within` and `n_between` are the numbers of neighbours
    from the same class, p1, and from other classes, p2, capped at the number available. `centres` are the samples whose
    neighbours are wanted, each once; all by default. `method` is one of `METHODS`; for ``"auto"``, see `resolve`.
    Returns two tables, (c, n_within) and (c, n_between), with the neighbours of each centre, excluding itself: nearest
    first, then lower index first, padded with -1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> within, between = class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2)
    >>> within.tolist(), between.tolist()
    ([[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]])
    >>> class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2, centres=np.array([3]))[1].tolist()
    [[1, 0]]
    """
    if is_tensor(X):
        from crossview.graphs import _torch_neighbours

        at = None if centres is None else like(X, centres)
        tables = _torch_neighbours.class_neighbours(X, like(X, classes), n_within, n_between, centres=at)
        report(len(tables[0]))
        return tables
    sizes = np.bincount(classes)
    sizes = sizes[sizes > 0]
    n_within, n_between = min(n_within, int(sizes.max()) - 1), min(n_between, len(classes) - int(sizes.min()))
    centres = np.arange(len(X)) if centres is None else centres
    if resolve(method, len(X), len(centres)) == "approximate":
        return _approximate_search(X, classes, n_within, n_between, centres).tables(n_within, n_between, centres)
    return _SortedSearch(X, classes).tables(n_within, n_between, centres)


def resolve(method: str, m: int, n_centres: int) -> str:
    """How to search m samples for the neighbours of some: ``"auto"`` is approximate for many if faiss is installed.

    An index is worth building only if there are as many comparisons as between that many samples.
    """
    if method == "approximate":
        approximate.load_faiss()  # says what is missing before any work is done
    if method != "auto":
        return method
    return "approximate" if m * n_centres >= _APPROXIMATE_FROM**2 and approximate.is_installed() else "exact"


def neighbour_recall(
    X: Array, classes: Indices, within: Indices, between: Indices, *, centres: Indices | None = None
) -> float:
    """Share of the nearest neighbours that are in tables from `class_neighbours`, measured on a sample of their rows.

    The other parameters are those of `class_neighbours`.
    """
    centres = np.arange(len(X)) if centres is None else centres
    rows = _sample(len(centres), seed=1)
    nearest = class_neighbours(X, classes, within.shape[1], between.shape[1], centres=centres[rows])
    return _recall(X, centres[rows], nearest, (within[rows], between[rows]))


def _sample(n: int, seed: int) -> Indices:
    """A few of n rows, in order."""
    rows: Indices = np.sort(np.random.default_rng(seed).permutation(n)[:_SAMPLE])
    return rows


def _recall(X: Array, centres: Indices, nearest: tuple[Indices, Indices], found: tuple[Indices, Indices]) -> float:
    """Share of the nearest samples among those found. Others at the distance of the last one are as good."""
    hits = wanted = 0
    for tables in zip(nearest, found, strict=True):
        for centre, *rows in zip(centres, *tables, strict=True):
            best, other = (squared_norms(X[ids[ids >= 0]] - X[centre]) for ids in rows)
            hits += int((other <= best.max(initial=0.0)).sum())
            wanted += len(best)
    return hits / wanted if wanted else 1.0


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
        self.norms = squared_norms(self.sorted)

    def tables(self, n_within: int, n_between: int, centres: Indices) -> tuple[Indices, Indices]:
        """Tables of the neighbours of some samples within and outside the class."""
        within, between = (np.full((len(centres), k), -1, dtype=np.intp) for k in (n_within, n_between))
        self.reports_within = not n_between  # one of the two searches counts as progress
        self.rows = np.full(len(self.X), -1, dtype=np.intp)  # row of the tables by sample, -1 if not a centre
        self.rows[centres] = np.arange(len(centres))
        self.centres = np.flatnonzero(self.rows[self.order] >= 0)  # positions
        if n_between:
            self._fill_between(between)
        if n_within:
            self._fill_within(within)
        return within, between

    def _large_classes(self) -> Iterator[tuple[slice, Indices]]:
        """Positions of each large class that has centres, and of these centres."""
        a = self.n_small
        while a < len(self.X):
            part = slice(a, a + int(self.sizes[a]))
            if len(rows := self._centres_in(part)):
                yield part, rows
            a = part.stop

    def _centres_in(self, part: slice) -> Indices:
        a, b = np.searchsorted(self.centres, [part.start, part.stop])
        return self.centres[a:b]

    def _fill_between(self, table: Indices) -> None:
        m, k = len(self.X), table.shape[1]
        if m <= _DENSE_BELOW:
            d = _squared_distances(self.sorted[self.centres], self.sorted)
            self._fill_from_distances(table, self.centres, np.arange(m)[None, :], d, same=False)
            return
        if len(rows := self._centres_in(slice(0, self.n_small))):
            # In a class of s samples, more than k of the k + s + 1 nearest candidates belong to other classes.
            width = k + int(self.sizes[self.n_small - 1]) + 1
            self._fill_from_search(table, rows, None, width, same=False)
        for part, rows in self._large_classes():
            self._fill_from_search(table, rows, part, k + 2, same=False)

    def _fill_within(self, table: Indices) -> None:
        """Compute all distances within small classes, grouped by size, and search within each large class."""
        a = 0
        while a < self.n_small:
            size = int(self.sizes[a])
            b = int(np.searchsorted(self.sizes, size, side="right"))
            starts = a + np.unique((self._centres_in(slice(a, b)) - a) // size) * size
            for chunk in _chunks(len(starts), size * size):
                members = starts[chunk, None] + np.arange(size)
                d = np.vstack([inner_products(x, x, -2.0) for x in self.sorted[members]])
                rows, columns = members.ravel(), np.repeat(members, size, axis=0)
                d += self.norms[rows, None]
                d += self.norms[columns]
                wanted = self.rows[self.order[rows]] >= 0
                self._fill_from_distances(table, rows[wanted], columns[wanted], d[wanted], same=True)
            a = b
        for part, rows in self._large_classes():
            self._fill_from_search(table, rows, part, table.shape[1] + 2, same=True)

    def _fill_from_search(self, table: Indices, rows: Indices, part: slice | None, width: int, *, same: bool) -> None:
        """Fill rows of the table from a search in the class at `part`, outside it, or everywhere if it is None."""
        all_positions = np.arange(len(self.X))
        targets = self._targets(part, same=same)
        if not targets:
            return
        for chunk in _chunks(len(rows), width * len(targets)):
            queries = rows[chunk]
            # Each truncated list holds more than k eligible entries: the k nearest, and one more to detect ties.
            found = [self._nearest(queries, target, width) for target in targets]
            positions = np.concatenate([p for p, _ in found], axis=1)
            values = np.concatenate([v for _, v in found], axis=1)
            values[~self._eligible(queries, positions, same=same)] = np.inf
            nearest = np.argsort(values, axis=1, kind="stable")[:, : table.shape[1] + 1]
            positions = np.take_along_axis(positions, nearest, axis=1)
            values = np.take_along_axis(values, nearest, axis=1)
            k = min(table.shape[1], positions.shape[1])
            table[self.rows[self.order[queries]], :k] = np.where(np.isfinite(values), self.order[positions], -1)[:, :k]
            tied = queries[_tied(values, k, self._rounding_error(queries, values))]
            for some in _chunks(len(tied), len(self.X)):
                d = _squared_distances(self.sorted[tied[some]], self.sorted)
                self._fill_from_distances(table, tied[some], all_positions[None, :], d, same=same)
            self._report(queries, same=same)

    def _report(self, rows: Indices, *, same: bool) -> None:
        if same == self.reports_within:
            report(len(rows))

    def _targets(self, part: slice | None, *, same: bool) -> list[slice]:
        m = len(self.X)
        if part is None:
            return [slice(0, m)]
        targets = [part] if same else [slice(0, part.start), slice(part.stop, m)]
        return [target for target in targets if target.stop > target.start]

    def _nearest(self, rows: Indices, target: slice, width: int) -> tuple[Indices, Array]:
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
        table[self.rows[self.order[rows]], :k] = np.where(np.isfinite(values), ids, -1)[:, :k]
        tolerance = self._rounding_error(rows, values)
        for r in np.flatnonzero(_tied(values, k, tolerance)):
            candidates = column_ids[r, np.isfinite(d[r]) & (d[r] <= values[r, k - 1] + tolerance[r])]
            sample = self.order[rows[r]]
            exact = squared_norms(self.X[candidates] - self.X[sample])
            nearest_ids = candidates[np.lexsort((candidates, exact))[:k]]
            table[self.rows[sample], : len(nearest_ids)] = nearest_ids

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


class _ApproximateSearch(_SortedSearch):
    """The same search, in which an inverted file proposes the candidates wherever there are many."""

    def __init__(self, X: Array, classes: Indices) -> None:
        super().__init__(X, classes)
        self.index = approximate.InvertedFile.build(self.sorted)
        self.n_probes = approximate.N_PROBES

    def _fill_from_search(self, table: Indices, rows: Indices, part: slice | None, width: int, *, same: bool) -> None:
        n_targets = sum(target.stop - target.start for target in self._targets(part, same=same))
        if n_targets <= _EXACT_BELOW:
            super()._fill_from_search(table, rows, part, width, same=same)
            return
        inside, outside = (part, None) if same else (None, part)
        for chunk in _chunks(len(rows), width):
            queries = rows[chunk]
            positions, _ = self.index.search(
                self.sorted[queries], width, n_probes=self.n_probes, inside=inside, outside=outside
            )
            self._fill_from_candidates(table, queries, positions, same=same)
            sizes = self.sizes[queries]
            available = sizes - 1 if same else len(self.X) - sizes
            found = (table[self.rows[self.order[queries]]] >= 0).sum(axis=1)
            short = found < np.minimum(available, table.shape[1])
            super()._fill_from_search(table, queries[short], part, width, same=same)
            self._report(queries[~short], same=same)

    def _fill_from_candidates(self, table: Indices, rows: Indices, positions: Indices, *, same: bool) -> None:
        """Fill rows of the table with the nearest of the candidates at `positions`, padded with -1."""
        eligible = (positions >= 0) & self._eligible(rows, positions, same=same)
        candidates, samples = self.order[positions], self.order[rows]
        d = np.empty(positions.shape)
        for some in _chunks(len(rows), positions.shape[1] * self.X.shape[1]):
            difference = self.X[candidates[some]] - self.X[samples[some], None]
            d[some] = np.einsum("ijk,ijk->ij", difference, difference)
        d[~eligible] = np.inf
        nearest = np.lexsort((candidates, d), axis=1)[:, : table.shape[1]]
        ids = np.where(
            np.take_along_axis(eligible, nearest, axis=1), np.take_along_axis(candidates, nearest, axis=1), -1
        )
        table[self.rows[samples], : ids.shape[1]] = ids


def _approximate_search(X: Array, classes: Indices, n_within: int, n_between: int, centres: Indices) -> _SortedSearch:
    """A search that visits as many lists as a sufficient recall on a sample of the centres takes.

    It is the exact one if that is faster, as for samples without any structure.
    """
    some = centres[_sample(len(centres), seed=0)]
    nearest = _SortedSearch(X, classes).tables(n_within, n_between, some)
    search = _ApproximateSearch(X, classes)
    while (
        search.n_probes < _MOST_PROBES and _recall(X, some, nearest, search.tables(n_within, n_between, some)) < _ENOUGH
    ):
        search.n_probes *= 2
        if search.n_probes > _EXACT_SHARE * len(search.index.centroids):
            return _SortedSearch(X, classes)
    return search


def _squared_distances(X: Array, Y: Array) -> Array:
    d = inner_products(X, Y, -2.0)
    d += squared_norms(X)[:, None]
    d += squared_norms(Y)
    return d


def _chunks(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows whose tables of the given width stay within the memory limit."""
    step = max(1, _TABLE_ENTRIES // max(width, 1))
    return (slice(a, min(a + step, n)) for a in range(0, n, step))
