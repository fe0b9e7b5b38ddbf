"""Nearest neighbours within and outside the class of each sample: exact, or approximate for many samples.

The time of the exact search grows with the square of the number of samples. An approximate search proposes candidates
from an inverted file instead, and all their distances are recomputed. Samples in blocks, as Dask holds them, are
searched block by block; what was found there is merged, so that blocks do not change the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors

from crossview._progress import report
from crossview._types import Array, Indices, Mask, Rows
from crossview._validation import check_choice
from crossview.engines import inner_products, is_tensor, like, squared_norms
from crossview.neighbours import search
from crossview.neighbours.distances import chunks, nearest_of_tiles, rank_tables, table_distances

_LOW_RECALL = 0.9  # below which a fit warns
_APPROXIMATE_FROM = 30_000  # samples from which the approximate search is faster, see benchmarks/neighbours.md
_ROWS = 128  # centres whose distances are all computed at a time
_SEARCHED = 1 << 12  # centres of a search at a time, which are copied
_DENSE_BELOW = 512  # samples up to which computing all distances is faster than a search
_SMALL_CLASS = 64  # classes up to this size are searched together by an index, larger ones one at a time
_EXACT_BELOW = 1 << 14  # samples up to which an exact search is faster than an approximate one
_SAMPLE = 256  # centres on which recall is measured
_ENOUGH = 0.9  # recall below which more lists are searched
_MOST_PROBES = 1024
_EXACT_SHARE = 0.5  # share of all lists from which an exact search is faster than visiting them


@dataclass(frozen=True)
class Points:
    """Samples with their numbers and classes."""

    X: Array  # (m, D)
    ids: Indices  # (m,), ascending in what is searched
    classes: Indices  # (m,)

    def at(self, rows: Indices | Mask | slice) -> Points:
        """Some of the samples."""
        return Points(self.X[rows], self.ids[rows], self.classes[rows])


@dataclass(frozen=True)
class Nearest:
    """The k nearest samples of each of c centres: squared distances and numbers, (c, k), padded with ∞ and -1.

    Nearest first, then lower number first. `+` merges what was found in two blocks.
    """

    squared: Array
    ids: Indices

    @classmethod
    def none(cls, n_centres: int, k: int) -> Nearest:
        """No samples yet."""
        return cls(np.full((n_centres, k), np.inf), np.full((n_centres, k), -1, dtype=np.intp))

    def at(self, rows: Indices) -> Nearest:
        """Those of some of the centres."""
        return Nearest(self.squared[rows], self.ids[rows])

    def spread(self, seen: Mask) -> Nearest:
        """Insert centres without neighbours where `seen` is False."""
        spread = Nearest.none(len(seen), self.ids.shape[1])
        spread.squared[seen], spread.ids[seen] = self.squared, self.ids
        return spread

    def __add__(self, other: Nearest) -> Nearest:
        squared, ids = np.hstack([self.squared, other.squared]), np.hstack([self.ids, other.ids])
        return Nearest(*rank_tables(squared, ids, self.ids.shape[1]))


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
    points, some, wanted = _problem(X, classes, n_within, n_between, centres)
    exact = _Search(points)
    found = _approximate_search(exact, some, wanted).nearest(some, *wanted)
    rows = _sample(len(some.ids), seed=1)
    recall = _recall(exact.nearest(some.at(rows), *wanted), [one.at(rows) for one in found])
    if recall < _LOW_RECALL:
        warnings.warn(
            f"only {recall:.0%} of the nearest neighbours were found by approximate search: "
            "use algorithm='exact', or reduce the number of features first.",
            stacklevel=2,
        )
    return found[0].ids, found[1].ids, recall


def is_approximate(method: str, m: int, n_centres: int) -> bool:
    """Whether to search m samples for the neighbours of some by an index: on ``"auto"``, if they are many.

    An index is worth building only if there are as many comparisons as between that many samples.
    """
    if method == "auto":
        return m * n_centres >= _APPROXIMATE_FROM**2 and search.is_installed()
    return method == "approximate"


def class_neighbours(
    X: Rows, classes: Indices, n_within: int, n_between: int, *, centres: Indices | None = None
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
    points, some, wanted = _problem(X, classes, n_within, n_between, centres)
    within, between = _Search(points, only_ids=True).nearest(some, *wanted)
    return within.ids, between.ids


def _problem(
    X: Array, classes: Indices, n_within: int, n_between: int, centres: Indices | None
) -> tuple[Points, Points, tuple[int, int]]:
    """The samples, those whose neighbours are wanted, and how many of these there can be."""
    points = Points(X, np.arange(len(X)), classes)
    sizes = np.bincount(classes)
    wanted = min(n_within, int(sizes.max()) - 1), min(n_between, len(classes) - int(sizes[sizes > 0].min()))
    return points, points if centres is None else points.at(centres), wanted


def _sample(n: int, seed: int) -> Indices:
    """A few of n rows, in order."""
    rows: Indices = np.sort(np.random.default_rng(seed).permutation(n)[:_SAMPLE])
    return rows


def _recall(nearest: Sequence[Nearest], found: Sequence[Nearest]) -> float:
    """Share of the nearest samples among those found. Others at the distance of the last one are as good."""
    hits = wanted = 0
    for best, other in zip(nearest, found, strict=True):
        there = np.isfinite(best.squared)
        furthest = best.squared.max(axis=1, where=there, initial=0.0)
        hits += int((other.squared <= furthest[:, None]).sum())
        wanted += int(there.sum())
    return hits / wanted if wanted else 1.0


def nearest_by_class(block: Points, centres: Points, n_within: int, n_between: int) -> list[Nearest]:
    """The nearest samples of a block of the class of each centre, except itself, and those of other classes.

    Examples
    --------
    >>> points = Points(np.array([[0.0], [1.0], [2.0], [4.0]]), np.arange(4), np.array([0, 0, 1, 1]))
    >>> first, second = (nearest_by_class(points.at(rows), points, 1, 2) for rows in (slice(2), slice(2, 4)))
    >>> [(a + b).ids.tolist() for a, b in zip(first, second)]
    [[[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]]]
    """
    if not len(block.ids) or not len(centres.ids):
        return [Nearest.none(len(centres.ids), k) for k in (n_within, n_between)]
    return _Search(block).nearest(centres, n_within, n_between)


class _Search:
    """Exact search among samples sorted by class, small classes first, so that each class is a range of positions.

    Positions refer to the sorted order; `order` maps them to samples.
    """

    def __init__(self, points: Points, *, only_ids: bool = False) -> None:
        self.points, self.ids, self.only_ids = points, np.append(points.ids, -1), only_ids
        sizes = np.bincount(points.classes, minlength=int(points.classes.max()) + 2)  # the last one is for all others
        self.order = np.lexsort((points.classes, sizes[points.classes]))
        by_size = np.argsort(sizes, kind="stable")
        self.stops = np.empty_like(sizes)
        self.stops[by_size] = np.cumsum(sizes[by_size])
        self.starts, self.sizes, self.codes = self.stops - sizes, sizes, points.classes[self.order]
        # An origin among the samples keeps the rounding error of |x|² - 2xy + |y|² small without changing distances.
        # The median of a few samples suffices and is robust to outliers.
        self.centred = points.X[self.order]
        few = self.centred[:: max(1, len(self.centred) // 30)]
        self.origin = np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
        self.centred -= self.origin
        self.norms = squared_norms(self.centred)

    def nearest(self, centres: Points, n_within: int, n_between: int) -> list[Nearest]:
        """As `nearest_by_class`. Neither centres nor their classes need to be among the samples."""
        some = Points(centres.X, centres.ids, np.minimum(centres.classes, len(self.sizes) - 1))
        order = np.argsort(self.stops[some.classes], kind="stable")
        back, some = np.argsort(order), some.at(order)
        # One of the two searches counts as progress.
        within = self._neighbours(some, n_within, same=True, counts=not n_between)
        return [within.at(back), self._neighbours(some, n_between, same=False, counts=True).at(back)]

    def _neighbours(self, centres: Points, k: int, *, same: bool, counts: bool) -> Nearest:
        """Neighbours of centres that are in the order of `stops`, with classes that have a size."""
        found, codes = Nearest.none(len(centres.ids), k), centres.classes
        n_small = int(np.searchsorted(self.sizes[codes], _SMALL_CLASS, side="right"))
        ends = [0, n_small, *(n_small + 1 + np.flatnonzero(np.diff(codes[n_small:]))).tolist(), len(codes)]
        for rows in (slice(*both) for both in pairwise(ends) if both[0] < both[1] and k):
            few, code, is_small = centres.at(rows), codes[rows.stop - 1], rows.stop == n_small
            size, own = int(self.sizes[code]), slice(int(self.starts[code]), int(self.stops[code]))
            n_candidates = size * (not is_small) if same else len(self.order) - size * (not is_small)
            # In a class of s samples, more than k of the k + s + 1 nearest candidates belong to other classes.
            width, part = k + 2 + size * is_small, None if is_small else own
            if n_candidates <= _DENSE_BELOW:
                one = self._dense(few, k, same=same)
            else:
                one = self._proposed(few, part, k, width, n_candidates, same=same)
            found.squared[rows], found.ids[rows] = one.squared, one.ids
            report(len(few.ids) * counts)
        return found

    def _proposed(
        self, centres: Points, part: slice | None, k: int, width: int, n_candidates: int, *, same: bool
    ) -> Nearest:
        """Neighbours by a search in the class at `part`, outside it, or everywhere if it is None.

        Among the `width` nearest samples there, more than k are eligible: the neighbours, and one more to detect ties.
        """
        found, m = Nearest.none(len(centres.ids), k), len(self.order)
        targets = [slice(0, m)] if part is None else [part] if same else [slice(part.start), slice(part.stop, m)]
        targets = [target for target in targets if len(self.order[target])]
        for rows in chunks(len(centres.ids), 4 * width * len(targets), most=_SEARCHED):
            few = centres.at(rows)
            centred = few.X - self.origin
            tables = [self._search(centred, target, width) for target in targets]
            positions, values = (np.concatenate(table, axis=1) for table in zip(*tables, strict=True))
            values[~self._eligible(few, positions, same=same)] = np.inf
            order = np.argsort(values, axis=1)[:, : k + 1]
            values, positions = (np.take_along_axis(table, order, axis=1) for table in (values, positions))
            at = np.where(np.isfinite(values), self.order[positions], -1)[:, :k]
            norms, reach = squared_norms(centred), values.max(axis=1, where=np.isfinite(values), initial=0.0)
            with np.errstate(invalid="ignore"):
                tied: Mask = np.any(np.diff(values) <= self._margin(norms, reach - norms)[:, None], axis=1)
            squared = values[:, : at.shape[1]]
            if not self.only_ids:
                squared, at = rank_tables(table_distances(self.points.X, few.X, at, "sqeuclidean"), at, k)
            found.squared[rows, : at.shape[1]], found.ids[rows, : at.shape[1]] = squared, self.ids[at]
            again = self._dense(few.at(tied), k, same=same)
            found.squared[rows][tied], found.ids[rows][tied] = again.squared, again.ids
        return found

    def _search(self, centred: Array, target: slice, width: int) -> tuple[Indices, Array]:
        """Positions and squared distances of the nearest samples in a slice, nearest first."""
        targets = self.centred[target]
        engine = NearestNeighbors(n_neighbors=min(width, len(targets)), algorithm="brute", metric="sqeuclidean")
        with config_context(assume_finite=True):
            values, positions = engine.fit(targets).kneighbors(centred)
        return positions + target.start if target.start else positions, values

    def _dense(self, centres: Points, k: int, *, same: bool) -> Nearest:
        """Neighbours by all distances."""
        found = Nearest.none(len(centres.ids), k)
        some = np.flatnonzero(self.sizes[centres.classes]) if same else np.arange(len(centres.ids))
        for part in chunks(len(some), 1, most=_ROWS):
            rows = some[part]
            few = centres.at(rows)
            centred = few.X - self.origin
            tiles, margin = self._tiles(few, centred, same=same), partial(self._margin, squared_norms(centred))
            pairs = self.points.X, few.X, "sqeuclidean", self.order
            squared, at = nearest_of_tiles(tiles, k, margin, *pairs, only_ids=self.only_ids)
            found.squared[rows], found.ids[rows] = squared, self.ids[at]
        return found

    def _tiles(self, centres: Points, centred: Array, *, same: bool) -> Iterator[tuple[slice, Array]]:
        """``|y|² - 2xy`` for some samples y at a time, infinite where they are not eligible, after their positions."""
        codes = centres.classes
        own = int(self.starts[codes[0]]), int(self.stops[codes[-1]])
        start, stop = own if same else (0, len(self.order))
        for some in chunks(stop - start, 4 * len(codes)):
            tile = slice(start + some.start, start + some.stop)
            keys = inner_products(centred, self.centred[tile], -2.0)
            keys += self.norms[tile]
            keys[~self._eligible(centres, np.arange(tile.start, tile.stop)[None], same=same)] = np.inf
            yield tile, keys

    def _eligible(self, centres: Points, positions: Indices, *, same: bool) -> Mask:
        eligible: Mask = (self.codes[positions] == centres.classes[:, None]) == same
        if same:
            eligible &= self.ids[self.order[positions]] != centres.ids[:, None]
        return eligible

    def _margin(self, norms: Array, keys: Any) -> Array:
        """Bound on the rounding error of the difference between two keys of a centre, up to given ones.

        A sample within r of x has a norm of at most ``|x| + r``, so distant outliers do not matter.
        """
        error: Array = norms + np.square(np.sqrt(norms) + np.sqrt(np.maximum(keys + norms, 0.0)))
        error *= 4.0 * (self.centred.shape[1] + 4) * np.finfo(np.float64).eps
        return error


class _ApproximateSearch(_Search):
    """The same search, in which an inverted file proposes the candidates wherever there are many."""

    def __init__(self, points: Points) -> None:
        super().__init__(points)
        self.index = search.InvertedFile.build(points.X[self.order])
        self.n_probes = search.N_PROBES

    def _proposed(
        self, centres: Points, part: slice | None, k: int, width: int, n_candidates: int, *, same: bool
    ) -> Nearest:
        if n_candidates <= _EXACT_BELOW:
            return super()._proposed(centres, part, k, width, n_candidates, same=same)
        found, codes = Nearest.none(len(centres.ids), k), centres.classes
        inside, outside = (part, None) if same else (None, part)
        for rows in chunks(len(codes), 4 * width):
            few = centres.at(rows)
            at = self.index.search(few.X, width, n_probes=self.n_probes, inside=inside, outside=outside)
            table = np.where((at >= 0) & self._eligible(few, at, same=same), self.order[at], -1)
            squared, table = rank_tables(table_distances(self.points.X, few.X, table, "sqeuclidean"), table, k)
            ids = self.ids[table]
            sizes = self.sizes[codes[rows]]
            available = np.minimum(sizes - 1 if same else len(self.order) - sizes, k)
            short = (ids >= 0).sum(axis=1) < available
            again = super()._proposed(few.at(short), part, k, width, n_candidates, same=same)
            squared[short], ids[short] = again.squared, again.ids
            found.squared[rows], found.ids[rows] = squared, ids
        return found


def _approximate_search(exact: _Search, centres: Points, wanted: tuple[int, int]) -> _Search:
    """A search that visits as many lists as a sufficient recall on a sample of the centres takes.

    It is the exact one if that is faster, as for samples without any structure.
    """
    some = centres.at(_sample(len(centres.ids), seed=0))
    nearest, found = exact.nearest(some, *wanted), _ApproximateSearch(exact.points)
    while found.n_probes < _MOST_PROBES and _recall(nearest, found.nearest(some, *wanted)) < _ENOUGH:
        found.n_probes *= 2
        if found.n_probes > _EXACT_SHARE * len(found.index.centroids):
            return exact
    return found
