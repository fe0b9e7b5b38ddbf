"""Samples in blocks of rows that Dask computes: what methods learn from them are sums over blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.linalg
from dask.base import compute
from dask.delayed import Delayed, delayed
from scipy.linalg.blas import dsyrk

from crossview._backend.dask import Blocks, keep, row_blocks, sum_of
from crossview._types import Array, Indices, Mask, Rows
from crossview.linalg.patches import Patches
from crossview.linalg.samples import Samples
from crossview.linalg.scatter import patch_scatter
from crossview.linalg.span import full_rank, row_space
from crossview.neighbours.blocks import Nearest, Points, class_candidates
from crossview.views import Views


@dataclass(frozen=True, kw_only=True)
class LazySamples(Samples):
    """Samples in blocks of rows. Everything that has one row per sample is in the blocks, which workers hold."""

    blocks: Blocks
    points: Blocks  # the same parts, with the steps to the points whose Euclidean distances define neighbours
    counts: Indices  # (blocks, 1 + n): number of samples of each block, of all views and of each view
    widths: Sequence[int]  # number of features of each view
    n_codes: int = 0  # number of classes
    arrays: Sequence[Rows] = field(init=False, repr=False, compare=False)  # only blocks have arrays and weights
    weights: Array = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, views: Views, classes: Any = None, weigh: Callable[[Mask], Array] | None = None) -> LazySamples:
        """The samples of views of Dask arrays, without those that no view has."""
        parts = [] if classes is None else [classes]
        blocks = row_blocks([*parts, *views.arrays]).map(_in_memory, views.names, classes is not None, weigh)
        counts = np.array(blocks.compute(_counts))
        numbered = blocks.map_each(_numbered, _starts(counts[:, 0]))
        n_codes = int(counts[:, -1].max())
        return cls(blocks=numbered, points=numbered, counts=counts[:, :-1], widths=views.n_features, n_codes=n_codes)

    def total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum over all blocks of ``statistic(block, *args)``."""
        return self.blocks.total(_unless_empty, statistic, *args)

    def of_blocks(self, function: Callable[..., Any], *args: object) -> list[Any]:
        """``function(block, *args)`` of every block with samples, which must be small."""
        return [value for value in self.blocks.compute(_unless_empty, function, *args) if value is not None]

    def first_present(self, order: Indices, k: int) -> list[tuple[Array, Indices]]:
        """For each view, the first k samples that it has in an order of all samples, as arrays, and this order.

        The arrays, which the client receives, are sorted by the numbers of the samples.
        """
        n, wanted = k, np.minimum(k, self.n_seen)
        while True:
            (some,) = fetch([(self, np.sort(order[:n]))])
            if (some.mask.sum(axis=0) >= wanted).all():
                break
            n *= 2
        places, found = np.argsort(order[:n]), []
        for X, seen, number in zip(some.arrays, some.mask.T, wanted, strict=True):
            first = np.sort(np.flatnonzero(seen)[np.argsort(places[seen])[:number]])
            found.append((X[first], np.argsort(places[first])))
        return found

    def pooled(self) -> LazySamples:
        """The present samples of all views as those of one view."""
        return self._of_views(range(len(self.widths)))

    def single_view(self, v: int) -> LazySamples:
        """The present samples of view v."""
        return self._of_views([v])

    def _of_views(self, views: Sequence[int]) -> LazySamples:
        sizes = self.counts[:, 1:].T[views].ravel()
        values = zip(np.repeat(views, len(self.counts)), _starts(sizes), strict=True)
        blocks = Blocks(self.blocks.parts * len(views), self.blocks.steps).map_each(_present, values)
        return self._one_set(blocks, blocks, sizes, self.widths[views[0]])

    def stacked(self) -> LazySamples:
        """The present samples of all views as one set, with zeros for the features of other views."""
        sizes = self.counts[:, 1:].T.ravel()
        views = np.repeat(range(len(self.widths)), len(self.counts))
        pairs = [(self.points.applied_to(part), self.blocks.applied_to(part)) for part in self.blocks.parts]
        numbers = zip(pairs * len(self.widths), views, _starts(sizes), strict=True)
        parts = Blocks(delayed(_stacked)(*pair, int(v), start) for pair, v, start in numbers)
        return self._one_set(parts.map(_array, 1), parts.map(_array, 0), sizes, sum(self.widths))

    def _one_set(self, blocks: Blocks, points: Blocks, sizes: Indices, width: int) -> LazySamples:
        counts = np.column_stack([sizes, sizes])
        return LazySamples(blocks=blocks, points=points, counts=counts, widths=[width], n_codes=self.n_codes)

    def of_one_class(self) -> Self:
        """The samples, all of the same class."""
        return replace(self, blocks=self.blocks.map(_of_one_class), points=self.points.map(_of_one_class), n_codes=1)

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        return replace(self, blocks=self.blocks.map(Samples.shifted, offsets))

    def row_spaces(self) -> list[Array | None]:
        """For each view, a basis of the directions in which the samples vary; None if these are all directions."""
        if all(map(full_rank, self.total(_unweighted_grams))):
            return [None] * len(self.widths)
        return [row_space(factor, len(self)) for factor in self.factors()]

    def in_coordinates(self, bases: Sequence[Array | None]) -> Self:
        """The samples in coordinates of bases, unless these are None."""
        widths = [D if B is None else B.shape[1] for D, B in zip(self.widths, bases, strict=True)]
        return replace(self, blocks=self.blocks.map(Samples.in_coordinates, bases), widths=widths)

    def factors(self) -> list[Array]:
        """For each view, a matrix with as many columns as features and the same Gram matrix as the samples."""
        return [factor.R for factor in self.total(_row_factors)]

    def with_patches(
        self, n_within: int, n_between: int, method: str = "exact", centres: Indices | None = None
    ) -> Self:
        """Find the patches of each view, with the exact nearest neighbours of all samples, or of the rows `centres`.

        Every group of centres meets every block of samples, where it finds candidates. Workers keep the patches.
        """
        if method == "approximate":
            raise ValueError("neighbours='approximate' does not work on Dask arrays: use neighbours='auto'.")
        patches = []
        for rows in _groups(self.counts[:, 0], centres):
            group = _gather(self.blocks.parts, rows)
            if centres is not None:
                # In one graph with the sums over blocks that need them, all blocks would have to stay in memory.
                (group,) = keep(group)
            nearest = self.points.lazy_total(_nearest, self.points.applied_to(group), n_within, n_between)
            patches.append((group, *keep(delayed(_patches)(nearest))))
        return replace(self, patches=patches, centres=centres)

    def edge_total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum over the edges within classes of ``statistic(X, ids, *args)``, see `Samples.edge_total`."""
        return sum_of(self.total(_edges_of, *group, statistic, *args) for group in self._groups())

    def _patch_scatter(self, ranks: tuple[Any, Any, float], paired: float, intra: float, inter: float) -> Array:
        if not (intra or inter):
            return np.asarray(self.total(_paired_scatter, paired))
        parts = (
            self.total(_group_scatter, *group, ranks, 0.0 if k else paired, intra, inter)
            for k, group in enumerate(self._groups())
        )
        return np.asarray(sum_of(parts))

    def _groups(self) -> Iterator[tuple[Delayed, Delayed]]:
        """Groups of centres, and their patches."""
        return ((self.blocks.applied_to(group), patches) for group, patches in self.patches)

    def __len__(self) -> int:
        return int(self.counts[:, 0].sum())

    @property
    def n_seen(self) -> Indices:
        """Number of samples in each view, (n,)."""
        numbers: Indices = self.counts[:, 1:].sum(axis=0)
        return numbers

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return list(self.widths)

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return self.n_codes


def fetch(wanted: Iterable[tuple[LazySamples, Indices]]) -> list[NumberedSamples]:
    """Some samples, by their sorted numbers, in the memory of the client."""
    tasks = []
    for samples, ids in wanted:
        selection = [pair for group in _groups(samples.counts[:, 0], ids) for pair in group]
        tasks.append(samples.blocks.applied_to(_gather(samples.blocks.parts, selection)))
    return list(compute(*tasks))


def _in_memory(rows: Sequence[Any], names: list[str], labelled: bool, weigh: Callable[[Mask], Array] | None) -> Samples:
    """A block of samples, without those that no view has."""
    classes: Indices | None = rows[0] if labelled else None
    views = Views._of_block(rows[1:] if labelled else rows, names)
    used = views.mask.any(axis=1)
    if not used.all():
        views, classes = views[used], None if classes is None else classes[used]
    return Samples.of(views, classes, weigh)


def _unless_empty(rows: Samples, statistic: Callable[..., Any], *args: object) -> Any:
    """None for a block that lacks the samples of a view: BLAS refuses matrices without rows."""
    return statistic(rows, *args) if len(rows) else None


@dataclass(frozen=True, kw_only=True)
class NumberedSamples(Samples):
    """A block of samples with their numbers among all samples."""

    ids: Indices


def _counts(rows: Samples) -> list[int]:
    """Numbers of samples, of those in each view, and of classes up to the last that occurs."""
    return [len(rows), *rows.mask.sum(axis=0), 0 if rows.classes is None else int(rows.classes.max(initial=-1)) + 1]


def _starts(sizes: Indices) -> Indices:
    """Numbers of the first samples of blocks."""
    return np.cumsum(sizes) - sizes


def _numbered(rows: Samples, start: int) -> NumberedSamples:
    ids = np.arange(start, start + len(rows))
    return NumberedSamples(arrays=rows.arrays, weights=rows.weights, classes=rows.classes, ids=ids)


def _present(rows: Samples, value: tuple[int, int]) -> NumberedSamples:
    """The present samples of a view, numbered from a start."""
    v, start = value
    return _numbered(rows.single_view(v), start)


def _stacked(points: Samples, rows: Samples, v: int, start: int) -> NumberedSamples:
    """The present samples of view v: as points, and among the features of all views."""
    (X,), one = points.single_view(v).arrays, rows.single_view(v)
    columns = [one.arrays[0] if u == v else np.zeros((len(one), D)) for u, D in enumerate(rows.n_features)]
    return _numbered(replace(one, arrays=[X, np.hstack(columns)]), start)


def _array(rows: Samples, k: int) -> Samples:
    return replace(rows, arrays=[rows.arrays[k]])


def _of_one_class(rows: Samples) -> Samples:
    return rows.of_one_class()


_Selection: TypeAlias = Sequence[tuple[int, Indices | None]]
"""Numbers of blocks, each with the rows selected there, or None for all of them."""


def _groups(sizes: Indices, centres: Indices | None) -> Iterator[_Selection]:
    """Divide centres into groups: each block, or rows of several blocks that are as many as in the largest block."""
    if centres is None:
        yield from ([(b, None)] for b in range(len(sizes)))
        return
    group: list[tuple[int, Indices | None]] = []
    n_rows = 0
    for b, (start, stop) in enumerate(pairwise(np.cumsum([0, *sizes]))):
        first, last = np.searchsorted(centres, [start, stop])
        if last > first:
            group.append((b, centres[first:last] - start))
        n_rows += last - first
        if n_rows >= max(sizes) or (group and b == len(sizes) - 1):
            yield group
            group, n_rows = [], 0


def _gather(parts: Sequence[Delayed], selection: _Selection) -> Delayed:
    """The selected samples of several blocks, or a whole block."""
    if selection[0][1] is None:
        return parts[selection[0][0]]
    selected: Delayed = delayed(_concatenated)(*(delayed(_selected)(parts[b], rows) for b, rows in selection))
    return selected


def _selected(block: NumberedSamples, rows: Indices) -> NumberedSamples:
    arrays, classes = [X[rows] for X in block.arrays], None if block.classes is None else block.classes[rows]
    return NumberedSamples(arrays=arrays, weights=block.weights[rows], classes=classes, ids=block.ids[rows])


def _concatenated(*parts: NumberedSamples) -> NumberedSamples:
    arrays = [np.concatenate(rows) for rows in zip(*(part.arrays for part in parts), strict=True)]
    weights, ids = (np.concatenate(rows) for rows in zip(*((part.weights, part.ids) for part in parts), strict=True))
    classes = None if parts[0].classes is None else np.concatenate([part.labels for part in parts])
    return NumberedSamples(arrays=arrays, weights=weights, classes=classes, ids=ids)


def _nearest(block: NumberedSamples, centres: NumberedSamples, n_within: int, n_between: int) -> list[Nearest]:
    """Candidates of a block for the patches of every view, within and between classes."""
    found = []
    for v in range(len(block.arrays)):
        queries, points = (_points(rows, v) for rows in (centres, block))
        found += [
            nearest.spread(centres.mask[:, v]) for nearest in class_candidates(queries, points, n_within, n_between)
        ]
    return found


def _points(rows: NumberedSamples, v: int) -> Points:
    return Points(rows.arrays[v], rows.ids, rows.labels).at(rows.mask[:, v])


def _patches(nearest: Sequence[Nearest]) -> list[Patches]:
    """The patches of every view."""
    return [Patches(within.ids, between.ids) for within, between in zip(nearest[::2], nearest[1::2], strict=True)]


def _paired_scatter(rows: Samples, paired: float) -> Array:
    return patch_scatter(rows.arrays, rows.mask, [], paired=paired)


def _group_scatter(
    block: NumberedSamples,
    centres: NumberedSamples,
    patches: Sequence[Patches],
    ranks: tuple[Any, Any, float],
    paired: float,
    intra: float,
    inter: float,
) -> Array:
    """Share of a block in the scatter of the patches of a group: the scatter is a sum over edges, by where they end."""
    c, rows = len(centres), _concatenated(centres, block)
    edges = [one.edges(*ranks) for one in patches]
    edges = [replace(one, ids=_inside(one.ids, block, c)) for one in edges]
    S = patch_scatter(rows.arrays, rows.mask, edges, centres=np.arange(c), intra=intra, inter=inter)
    return S + _paired_scatter(block, paired) if paired else S


def _edges_of(
    block: NumberedSamples,
    centres: NumberedSamples,
    patches: Sequence[Patches],
    statistic: Callable[..., Any],
    *args: object,
) -> Any:
    """Share of a block in a sum over the edges of a group, by where they end."""
    ids = np.full((len(centres) + len(block), patches[0].within.shape[1]), -1)
    ids[: len(centres)] = _inside(patches[0].within, block, len(centres))
    return statistic(np.concatenate([centres.arrays[0], block.arrays[0]]), ids, *args)


def _inside(ids: Indices, block: NumberedSamples, offset: int) -> Indices:
    """Rows of samples of a block plus an offset, -1 for samples elsewhere."""
    start, stop = block.ids[0], block.ids[-1] + 1
    return np.where((ids >= start) & (ids < stop), ids - start + offset, -1)


def _unweighted_grams(rows: Samples) -> list[Array]:
    return [dsyrk(1.0, X.T) for X in rows.arrays]


@dataclass(frozen=True)
class _Factor:
    """A matrix that stands for samples with the same Gram matrix; `+` is that of the samples of both."""

    R: Array

    def __add__(self, other: _Factor) -> _Factor:
        return _Factor(_triangular(np.vstack([self.R, other.R])))


def _row_factors(rows: Samples) -> list[_Factor]:
    return [_Factor(_triangular(X)) for X in rows.arrays]


def _triangular(X: Array) -> Array:
    """The triangular factor of a QR decomposition, or X if it is not taller than wide."""
    if len(X) <= X.shape[1]:
        return X
    R: Array = scipy.linalg.qr(X, mode="r", check_finite=False)[0][: X.shape[1]]
    return np.ascontiguousarray(R)
