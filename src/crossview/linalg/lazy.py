"""Samples in blocks of rows that Dask computes: what methods learn from them are sums over blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.linalg
from dask.delayed import Delayed, delayed
from scipy.linalg.blas import dsyrk

from crossview._backend.dask import Blocks, keep, row_blocks
from crossview._types import Array, Indices, Mask, Rows
from crossview.graphs.candidates import Nearest, Points, class_candidates
from crossview.graphs.patches import Patches
from crossview.linalg.samples import Samples
from crossview.linalg.scatter import patch_scatter
from crossview.linalg.span import full_rank, row_space
from crossview.views import Views


@dataclass(frozen=True, kw_only=True)
class LazySamples(Samples):
    """Samples in blocks of rows. Everything that has one row per sample is in the blocks, which workers hold."""

    blocks: Blocks
    widths: Sequence[int]  # number of features of each view
    n_codes: int = 0  # number of classes
    originals: Blocks | None = None  # the samples as they were given, if these are shifted
    arrays: Sequence[Rows] = field(init=False, repr=False, compare=False)  # only blocks have arrays and weights
    weights: Array = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, views: Views, classes: Any = None, weigh: Callable[[Mask], Array] | None = None) -> LazySamples:
        """The samples of views of Dask arrays, without those that no view has."""
        parts = [] if classes is None else [classes]
        blocks = row_blocks([*parts, *views.arrays]).map(_in_memory, views.names, classes is not None, weigh)
        n_codes = 0 if classes is None else int(classes.max().compute()) + 1
        return cls(blocks=blocks, widths=views.n_features, n_codes=n_codes)

    def total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum over all blocks of ``statistic(block, *args)``."""
        return self.blocks.total(_unless_empty, statistic, *args)

    def pooled(self) -> LazySamples:
        """The present samples of all views as those of one view."""
        parts = [task for one in self.single_views() for task in one.blocks.tasks()]
        return LazySamples(blocks=Blocks(parts), widths=self.widths[:1], n_codes=self.n_codes)

    def single_views(self) -> Iterator[LazySamples]:
        """The present samples of each view."""
        return map(self.single_view, range(len(self.widths)))

    def single_view(self, v: int) -> LazySamples:
        """The present samples of view v."""
        blocks = self.blocks.map(Samples.single_view, v)
        return LazySamples(blocks=blocks, widths=[self.widths[v]], n_codes=self.n_codes)

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        return replace(self, blocks=self.blocks.map(Samples.shifted, offsets), originals=self.blocks)

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
        numbered = self.numbered()
        points = numbered.blocks if numbered.originals is None else numbered.originals
        patches = []
        for rows in _groups(self.sizes, centres):
            nearest = points.lazy_total(_nearest, _gather(points, rows), n_within, n_between)
            patches.append((rows, *keep(delayed(_patches)(nearest))))
        return replace(numbered, patches=patches, centres=centres)

    def numbered(self) -> Self:
        """The same blocks, as `NumberedSamples`."""
        starts = np.cumsum([0, *self.sizes])[:-1]
        originals = None if self.originals is None else self.originals.map_each(_numbered, starts)
        return replace(self, blocks=self.blocks.map_each(_numbered, starts), originals=originals)

    def _patch_scatter(self, ranks: tuple[Any, Any, float], paired: float, intra: float, inter: float) -> Array:
        S: Array = self.total(_paired_scatter, paired)
        for rows, patches in self.patches if intra or inter else ():
            S = S + self.total(_group_scatter, _gather(self.blocks, rows), patches, ranks, intra, inter)
        return S

    @cached_property
    def sizes(self) -> list[int]:
        """Number of samples of each block."""
        return self.blocks.compute(len)

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return list(self.widths)

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return self.n_codes


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


def _numbered(rows: Samples, start: int) -> NumberedSamples:
    ids = np.arange(start, start + len(rows))
    return NumberedSamples(arrays=rows.arrays, weights=rows.weights, classes=rows.classes, ids=ids)


_Selection: TypeAlias = Sequence[tuple[int, Indices | None]]
"""Numbers of blocks, each with the rows selected there, or None for all of them."""


def _groups(sizes: Sequence[int], centres: Indices | None) -> Iterator[_Selection]:
    """Divide centres into groups: each block, or rows of several blocks that are as many as in the largest block."""
    if centres is None:
        for b in range(len(sizes)):
            yield [(b, None)]
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


def _gather(blocks: Blocks, selection: _Selection) -> Delayed:
    """The selected samples of several blocks."""
    numbers, rows = zip(*selection, strict=True)
    # In one graph with the sums over blocks that need them, all blocks would have to stay in memory.
    return keep(delayed(_concatenated)(*blocks.select(numbers).map_each(_selected, rows).tasks()))[0]


def _selected(block: NumberedSamples, rows: Indices | None) -> NumberedSamples:
    if rows is None:
        return block
    arrays = [X[rows] for X in block.arrays]
    return NumberedSamples(arrays=arrays, weights=block.weights[rows], classes=block.labels[rows], ids=block.ids[rows])


def _concatenated(*parts: NumberedSamples) -> NumberedSamples:
    arrays = [np.concatenate(rows) for rows in zip(*(part.arrays for part in parts), strict=True)]
    weights, classes, ids = (
        np.concatenate(rows) for rows in zip(*((p.weights, p.labels, p.ids) for p in parts), strict=True)
    )
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
    intra: float,
    inter: float,
) -> Array:
    """Share of a block in the scatter of the patches of a group: the scatter is a sum over edges, by where they end."""
    c, nodes = len(centres), slice(int(block.ids[0]), int(block.ids[-1]) + 1)
    edges = []
    for one in patches:
        inside = one.edges(*ranks).into(nodes)
        edges.append(replace(inside, ids=np.where(inside.ids < 0, -1, inside.ids + c)))
    rows = _concatenated(centres, block)
    return patch_scatter(rows.arrays, rows.mask, edges, centres=np.arange(c), intra=intra, inter=inter)


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
