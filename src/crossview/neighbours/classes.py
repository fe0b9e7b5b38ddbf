"""Nearest neighbours within and outside the class of each sample: exact, or approximate for many samples.

The time of the exact search grows with the square of the number of samples. scikit-learn does it, in little memory; the
rows that its rounding errors may affect are searched again, see `crossview.neighbours`. An approximate search proposes
candidates from an inverted file instead, and all their distances are recomputed.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from crossview._progress import report
from crossview._types import Array, Indices, Mask, Rows
from crossview._validation import check_choice
from crossview.engines import inner_products, is_tensor, like, squared_norms
from crossview.neighbours import search
from crossview.neighbours.distances import (
    chunks,
    pair_distances,
    propose,
    rank_pairs,
    rank_tables,
    table_distances,
)

LOW_RECALL = 0.9
"""Recall below which a fit warns."""

_APPROXIMATE_FROM = 30_000  # samples from which the approximate search is faster, see benchmarks/neighbours.md
_DENSE_BELOW = 512  # samples up to which computing all distances at once is faster than a search
_BATCH_WITHIN = 64  # rows of small classes searched at once
_SMALL_CLASS = 64  # classes up to this size are searched together, larger ones one at a time
_EXACT_BELOW = 1 << 14  # samples up to which an exact search is faster than an approximate one
_SAMPLE = 256  # rows on which recall is measured
_ENOUGH = 0.9  # recall below which more lists are searched
_MOST_PROBES = 1024
_EXACT_SHARE = 0.5  # share of all lists from which an exact search is faster than visiting them


def check_neighbours(method: str) -> None:
    """Refuse an unknown way to search, and one whose library is missing."""
    check_choice(method, "algorithm", ("auto", "exact", "approximate"))
    if method == "approximate":
        search.load_faiss()


def find_neighbours(
    X: Rows, classes: Indices, n_within: int, n_between: int, method: str, *, centres: Indices | None = None
) -> tuple[Any, Any, float]:
    """As `class_neighbours`, by a method, and the recall against exact search; warn if it is low."""
    if method == "approximate" and is_tensor(X):
        raise ValueError("algorithm='approximate' does not work on tensors (set device=None): use algorithm='auto'.")
    if is_tensor(X) or not is_approximate(method, len(X), len(X) if centres is None else len(centres)):
        return *class_neighbours(X, classes, n_within, n_between, centres=centres), 1.0
    within, between = class_neighbours(X, classes, n_within, n_between, centres=centres, approximate=True)
    recall = neighbour_recall(X, classes, within, between, centres=centres)
    if recall < LOW_RECALL:
        warnings.warn(
            f"only {recall:.0%} of the nearest neighbours were found by approximate search: "
            "use algorithm='exact', or reduce the number of features first.",
            stacklevel=2,
        )
    return within, between, recall


def is_approximate(method: str, m: int, n_centres: int) -> bool:
    """Whether to search m samples for the neighbours of some by an index: on ``"auto"``, if they are many.

    An index is worth building only if there are as many comparisons as between that many samples.
    """
    if method == "auto":
        return m * n_centres >= _APPROXIMATE_FROM**2 and search.is_installed()
    return method == "approximate"


def class_neighbours(
    X: Rows,
    classes: Indices,
    n_within: int,
    n_between: int,
    *,
    centres: Indices | None = None,
    approximate: bool = False,
) -> tuple[Any, Any]:
    """Nearest samples of the same class and of other classes, by Euclidean distance.

    X holds the samples, (m, D); `classes` their classes, (m,). `n_within` and `n_between` are the numbers of neighbours
    from the same class, p1, and from other classes, p2, capped at the number available. `centres` are the samples whose
    neighbours are wanted, each once; all by default. Returns two tables, (c, n_within) and (c, n_between), with the
    neighbours of each centre, excluding itself: nearest first, then lower index first, padded with -1.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0]])
    >>> within, between = class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2)
    >>> within.tolist(), between.tolist()
    ([[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]])
    >>> class_neighbours(X, np.array([0, 0, 1, 1]), 1, 2, centres=np.array([3]))[1].tolist()
    [[1, 0]]
    """
    if is_tensor(X):
        from crossview.neighbours import tensors

        at = None if centres is None else like(X, centres)
        tables = tensors.class_neighbours(X, like(X, classes), n_within, n_between, centres=at)
        report(len(tables[0]))
        return tables
    sizes = np.bincount(classes)
    sizes = sizes[sizes > 0]
    wanted = min(n_within, int(sizes.max()) - 1), min(n_between, len(classes) - int(sizes.min()))
    centres = np.arange(len(X)) if centres is None else centres
    search = _approximate_search(X, classes, *wanted, centres) if approximate else _Search(X, classes)
    return search.tables(*wanted, centres)


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
        best, other = (table_distances(X, X[centres], table, "sqeuclidean") for table in tables)
        furthest = best.max(axis=1, where=np.isfinite(best), initial=0.0)
        hits += int((other <= furthest[:, None]).sum())
        wanted += int(np.isfinite(best).sum())
    return hits / wanted if wanted else 1.0


class _Search:
    """Search over samples sorted by class, small classes first, so that each class is a range of positions.

    Positions refer to the sorted order; `order` maps them to samples.
    """

    def __init__(self, X: Array, classes: Indices) -> None:
        self.X = X
        sizes = np.bincount(classes)[classes]
        self.order = np.lexsort((classes, sizes))
        self.classes, self.sizes = classes[self.order], sizes[self.order]
        first = np.flatnonzero(np.diff(self.classes, prepend=-1))
        self.starts = first.repeat(self.sizes[first])
        self.n_small = int(np.searchsorted(self.sizes, _SMALL_CLASS, side="right"))
        # An origin among the samples keeps the rounding error of |x|² - 2xy + |y|² small without changing distances.
        # The median of a few samples suffices and is robust to outliers.
        self.centred = X[self.order]
        few = self.centred[:: max(1, len(X) // 30)]
        self.centred -= np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
        self.norms = squared_norms(self.centred)

    def tables(self, n_within: int, n_between: int, centres: Indices) -> tuple[Indices, Indices]:
        """Tables of the neighbours of some samples within and outside the class."""
        self.counts_within = not n_between  # one of the two searches counts as progress
        positions = np.argsort(self.order)[centres]
        back = np.argsort(positions)
        rows = positions[back]
        small, large = rows[rows < self.n_small], rows[rows >= self.n_small]
        within, between = (np.full((len(rows), k), -1, dtype=np.intp) for k in (n_within, n_between))
        if n_within:
            parts = (self._search(*of_class, n_within, n_within + 2, same=True) for of_class in self._classes(large))
            within[back] = np.concatenate([self._exact(small, n_within, same=True), *parts])
        if n_between and len(self.X) <= _DENSE_BELOW:
            between[back] = self._exact(rows, n_between, same=False)
        elif n_between:
            # In a class of s samples, more than k of the k + s + 1 nearest candidates belong to other classes.
            width = n_between + int(self.sizes[self.n_small - 1]) + 1
            parts = (self._search(*of_class, n_between, n_between + 2, same=False) for of_class in self._classes(large))
            between[back] = np.concatenate([self._search(small, None, n_between, width, same=False), *parts])
        return within, between

    def _classes(self, rows: Indices) -> Iterator[tuple[Indices, slice]]:
        """Some rows, class by class, and the positions of all samples of the class."""
        for start in np.unique(self.starts[rows]).tolist():
            part = slice(start, start + int(self.sizes[start]))
            yield rows[slice(*np.searchsorted(rows, [part.start, part.stop]))], part

    def _search(self, rows: Indices, part: slice | None, k: int, width: int, *, same: bool) -> Indices:
        """Neighbours by a search in the class at `part`, outside it, or everywhere if it is None.

        Among the `width` nearest samples there, more than k are eligible: the neighbours, and one more to detect ties.
        """
        table, m = np.full((len(rows), k), -1, dtype=np.intp), len(self.X)
        targets = [slice(0, m)] if part is None else [part] if same else [slice(0, part.start), slice(part.stop, m)]
        targets = [target for target in targets if target.stop > target.start]
        for chunk in chunks(len(rows), 4 * width * len(targets)):
            queries = rows[chunk]
            found = [self._nearest(queries, target, width) for target in targets]
            positions, values = (np.concatenate(tables, axis=1) for tables in zip(*found, strict=True))
            values[~self._eligible(queries, positions, same=same)] = np.inf
            order = np.argsort(values, axis=1)[:, : k + 1]
            values, positions = (np.take_along_axis(one, order, axis=1) for one in (values, positions))
            ids = np.where(np.isfinite(values), self.order[positions], -1)[:, :k]
            table[chunk, : ids.shape[1]] = ids
            tied = self._tied(queries, values)
            table[chunk][tied] = self._exact(queries[tied], k, same=same)
            report(len(queries) * (same == self.counts_within))
        return table

    def _nearest(self, rows: Indices, target: slice, width: int) -> tuple[Indices, Array]:
        """Positions and squared distances of the nearest samples in a slice, nearest first."""
        targets = self.centred[target]
        search = NearestNeighbors(n_neighbors=min(width, len(targets)), algorithm="brute", metric="sqeuclidean")
        with config_context(assume_finite=True):
            values, positions = search.fit(targets).kneighbors(self.centred[rows])
        return positions + target.start, values

    def _exact(self, rows: Indices, k: int, *, same: bool) -> Indices:
        """Neighbours by all distances; those of rows that rounding errors may affect are computed from differences."""
        table, most = np.full((len(rows), k), -1, dtype=np.intp), _BATCH_WITHIN if same else _DENSE_BELOW
        # In the worst case, all distances are equal, and all of them are computed again.
        width = int(self.sizes[rows].max(initial=1)) if same else len(self.X)
        for chunk in chunks(len(rows), 16 * width, most=most):
            queries = rows[chunk]
            tiles = self._tiles(queries, same=same)
            found, positions, distances = propose(tiles, k, partial(self._rounding_error, queries))
            ids = self.order[positions]
            values, nearest = rank_pairs(found, ids, distances, len(queries), k + 1)
            table[chunk] = nearest[:, :k]
            tied = self._tied(queries, values)
            if tied.any():
                some = tied[found]
                pairs, ids = np.cumsum(tied)[found[some]] - 1, ids[some]
                exact = pair_distances(self.X, self.X[self.order[queries[tied]]], ids, pairs, "sqeuclidean")
                table[chunk][tied] = rank_pairs(pairs, ids, exact, int(tied.sum()), k)[1]
        return table

    def _tied(self, rows: Indices, values: Array) -> Mask:
        """Which rows of ascending squared distances might be in another order but for rounding errors."""
        reach = np.where(np.isfinite(values), values, 0.0).max(axis=1, initial=0.0)
        with np.errstate(invalid="ignore"):
            gaps = np.diff(values, axis=1)
        tied: Mask = np.any(gaps <= self._rounding_error(rows, reach)[:, None], axis=1)
        return tied

    def _tiles(self, rows: Indices, *, same: bool) -> Iterator[tuple[slice, Array]]:
        """Squared distances to some samples at a time, infinite where they are not eligible."""
        start, stop = 0, len(self.X)
        if same:
            start, stop = int(self.starts[rows[0]]), int(self.starts[rows[-1]] + self.sizes[rows[-1]])
        X = self.centred[rows]
        for some in chunks(stop - start, 4 * len(rows)):
            tile = slice(start + some.start, start + some.stop)
            d = inner_products(X, self.centred[tile], -2.0)
            d += self.norms[rows, None]
            d += self.norms[tile]
            d[~self._eligible(rows, np.arange(tile.start, tile.stop)[None], same=same)] = np.inf
            yield tile, d

    def _eligible(self, rows: Indices, positions: Indices, *, same: bool) -> Mask:
        eligible: Mask = (self.classes[rows, None] == self.classes[positions]) == same
        if same:
            eligible &= rows[:, None] != positions
        return eligible

    def _rounding_error(self, rows: Indices, reach: Any) -> Array:
        """Bound on the rounding error of the difference between two squared distances of a row, up to `reach`.

        A sample within r of x has a norm of at most ``|x| + r``, so distant outliers do not matter.
        """
        norms = self.norms[rows]
        error: Array = norms + np.square(np.sqrt(norms) + np.sqrt(np.maximum(reach, 0.0)))
        error *= 4.0 * (self.X.shape[1] + 4) * np.finfo(np.float64).eps
        return error


class _ApproximateSearch(_Search):
    """The same search, in which an inverted file proposes the candidates wherever there are many."""

    def __init__(self, X: Array, classes: Indices) -> None:
        super().__init__(X, classes)
        self.index = search.InvertedFile.build(self.centred)
        self.n_probes = search.N_PROBES

    def _search(self, rows: Indices, part: slice | None, k: int, width: int, *, same: bool) -> Indices:
        size, m = 0 if part is None else part.stop - part.start, len(self.X)
        if (size if same else m - size) <= _EXACT_BELOW:
            return super()._search(rows, part, k, width, same=same)
        table = np.full((len(rows), k), -1, dtype=np.intp)
        inside, outside = (part, None) if same else (None, part)
        for chunk in chunks(len(rows), 4 * width):
            queries, found = rows[chunk], table[chunk]
            X = self.centred[queries]
            positions = self.index.search(X, width, n_probes=self.n_probes, inside=inside, outside=outside)
            eligible = (positions >= 0) & self._eligible(queries, positions, same=same)
            ids = np.where(eligible, self.order[positions], -1)
            distances = table_distances(self.X, self.X[self.order[queries]], ids, "sqeuclidean")
            found[:, : ids.shape[1]] = rank_tables(distances, ids, k)[1]
            sizes = self.sizes[queries]
            available = np.minimum(sizes - 1 if same else m - sizes, k)
            short = (found >= 0).sum(axis=1) < available
            found[short] = super()._search(queries[short], part, k, width, same=same)
            report(int((~short).sum()) * (same == self.counts_within))
        return table


def _approximate_search(X: Array, classes: Indices, n_within: int, n_between: int, centres: Indices) -> _Search:
    """A search that visits as many lists as a sufficient recall on a sample of the centres takes.

    It is the exact one if that is faster, as for samples without any structure.
    """
    some = centres[_sample(len(centres), seed=0)]
    nearest = _Search(X, classes).tables(n_within, n_between, some)
    search = _ApproximateSearch(X, classes)
    while (
        search.n_probes < _MOST_PROBES and _recall(X, some, nearest, search.tables(n_within, n_between, some)) < _ENOUGH
    ):
        search.n_probes *= 2
        if search.n_probes > _EXACT_SHARE * len(search.index.centroids):
            return _Search(X, classes)
    return search
