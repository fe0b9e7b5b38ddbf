"""Samples in blocks of rows that Dask computes: what methods learn from them are sums over blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np
from dask.base import compute
from dask.delayed import Delayed, delayed

from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import fill_missing, mask_of
from crossview.engines.dask import Blocks, keep, row_blocks, sum_of
from crossview.kernels import KernelMap
from crossview.linalg.norm import CoupledNorm
from crossview.linalg.scatter import Patches, patch_scatter
from crossview.neighbours.classes import Nearest, Points, nearest_by_class
from crossview.samples import Samples, in_memory
from crossview.views import Views


@dataclass(frozen=True, kw_only=True)
class LazySamples(Samples):
    """Samples in blocks of rows. Everything that has one row per sample is in the blocks, which workers hold."""

    blocks: Blocks  # each of them `Samples`
    points: Blocks  # the same parts, with the steps to the points whose Euclidean distances define neighbours
    counts: Indices  # (blocks, 1 + n): number of samples of each block, of all views and of each view
    widths: Sequence[int]  # number of features of each view
    n_codes: int = 0  # number of classes
    arrays: Sequence[Rows] = field(init=False, repr=False, compare=False)  # only blocks have arrays and weights
    weights: Array = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, views: Views, classes: Any, weigh: Callable[[Mask], Array] | None) -> LazySamples:
        """See `crossview.samples.samples_of`."""
        parts = [] if classes is None else [classes]
        blocks = row_blocks([*views.arrays, *parts]).map(_used, len(views.arrays), weigh)
        counts = np.array(blocks.compute(_counts))
        numbered = blocks.map_each(_numbered, _starts(counts[:, 0]))
        n_codes, widths = int(counts[:, -1].max()), views.n_features
        return cls(blocks=numbered, points=numbered, counts=counts[:, :-1], widths=widths, n_codes=n_codes, views=views)

    def total(self, function: Callable[..., Any], fields: str, *args: object) -> Any:
        """Sum over all blocks of ``function(*fields, *args)``, see `Samples.total`."""
        return self._sum(Samples.total, function, fields, *args)

    def _sum(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum of ``statistic(block, *args)`` over all blocks."""
        return self.blocks.total(_unless_empty, statistic, *args)

    def of_blocks(self, function: Callable[..., Any], fields: str, *args: object) -> list[Any]:
        """As `total`, but the values of all blocks with samples, which must be small."""
        values = self.blocks.compute(_unless_empty, Samples.total, function, fields, *args)
        return [value for value in values if value is not None]

    def with_features(self, maps: Sequence[KernelMap]) -> Self:
        """The features of the samples by kernel maps. Workers compute them whenever they need them."""
        blocks, points = self.blocks.map(_features, maps), self.blocks.map(_kernel_points, maps)
        return replace(self, blocks=blocks, points=points, widths=[len(one.factor) for one in maps])

    def first_present(self, order: Indices, k: int) -> list[Array]:
        """For each view, the first k samples that it has in an order of all samples, sorted by their numbers."""
        n, wanted = k, np.minimum(k, self.n_seen)
        while True:
            (some,) = fetch([(self, np.sort(order[:n]))])
            if (some.mask.sum(axis=0) >= wanted).all():
                break
            n *= 2
        places = np.argsort(order[:n])
        firsts = (np.flatnonzero(seen)[np.argsort(places[seen])[:k]] for seen in some.mask.T)
        return [X[np.sort(first)] for X, first in zip(some.arrays, firsts, strict=True)]

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

    def stacked_scatter(self, n_within: int, n_between: int, between_weight: float, method: str) -> tuple[Array, float]:
        """See `Samples.stacked_scatter`. One set has zeros for the features of other views."""
        sizes = self.counts[:, 1:].T.ravel()
        views = np.repeat(range(len(self.widths)), len(self.counts))
        pairs = [(self.points.applied_to(part), self.blocks.applied_to(part)) for part in self.blocks.parts]
        numbers = zip(pairs * len(self.widths), views, _starts(sizes), strict=True)
        parts = Blocks(delayed(_stacked)(*pair, int(v), start) for pair, v, start in numbers)
        one = self._one_set(parts.map(_array, 1), parts.map(_array, 0), sizes, sum(self.widths))
        found = one.with_patches(n_within, n_between, method)
        return found.patch_scatter(n_within, n_between, between_weight=between_weight, intra=1.0), 1.0

    def _one_set(self, blocks: Blocks, points: Blocks, sizes: Indices, width: int) -> LazySamples:
        counts = np.column_stack([sizes, sizes])
        return LazySamples(blocks=blocks, points=points, counts=counts, widths=[width], n_codes=self.n_codes)

    def of_one_class(self) -> Self:
        """The samples, all of the same class."""
        return replace(
            self, blocks=self.blocks.map(Samples.of_one_class), points=self.points.map(Samples.of_one_class), n_codes=1
        )

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        return replace(self, blocks=self.blocks.map(Samples.shifted, offsets))

    def in_coordinates(self, bases: Sequence[Array | None]) -> Self:
        """The samples in coordinates of bases, unless these are None."""
        widths = [D if B is None else B.shape[1] for D, B in zip(self.widths, bases, strict=True)]
        return replace(self, blocks=self.blocks.map(Samples.in_coordinates, bases), widths=widths)

    def through(self, norm: CoupledNorm) -> Self:
        """The samples as they are: blocks would be mapped again in every pass."""
        return self

    def with_patches(
        self, n_within: int, n_between: int, method: str = "exact", centres: Indices | None = None
    ) -> Self:
        """Find the patches of each view, with the exact nearest neighbours of all samples, or of the rows `centres`.

        Every group of centres meets every block of samples, where it finds candidates. Workers keep the patches.
        """
        if method == "approximate":
            raise ValueError("algorithm='approximate' does not work on Dask arrays: use algorithm='auto'.")
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
        return sum_of(self._sum(_edges_of, *group, statistic, *args) for group in self._groups())

    def _patch_scatter(self, ranks: tuple[Any, Any, float], weights: dict[str, float]) -> Array:
        if not (weights["intra"] or weights["inter"]):
            return np.asarray(self._sum(_paired_scatter, weights["paired"]))
        scatter = None
        for group in self._groups():
            scatter = sum_of([scatter, self._sum(_group_scatter, *group, ranks, weights)])
            weights = weights | {"paired": 0.0}  # the first pass has added up the pairs
        return np.asarray(scatter)

    def _groups(self) -> Iterator[tuple[Delayed, Delayed]]:
        """Groups of centres, and their patches."""
        return ((self.blocks.applied_to(group), patches) for group, patches in self.patches)

    def __len__(self) -> int:
        return int(self.counts[:, 0].sum())

    @property
    def n_seen(self) -> Indices:
        """Number of samples in each view, (n,)."""
        return np.asarray(self.counts[:, 1:].sum(axis=0))

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return list(self.widths)

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return self.n_codes


def fetch(wanted: Iterable[tuple[LazySamples, Indices]]) -> list[Samples]:
    """Some samples, by their sorted numbers, in the memory of the client."""
    tasks = []
    for samples, ids in wanted:
        selection = [pair for group in _groups(samples.counts[:, 0], ids) for pair in group]
        tasks.append(samples.blocks.applied_to(_gather(samples.blocks.parts, selection)))
    return list(compute(*tasks))


def _unless_empty(rows: Samples, statistic: Callable[..., Any], *args: object) -> Any:
    """None for a block without samples: BLAS refuses matrices without rows."""
    return statistic(rows, *args) if len(rows) else None


def _used(rows: Sequence[Any], n: int, weigh: Callable[[Mask], Array] | None) -> Samples:
    """The samples of n views, followed by their classes if there are any, without those that no view has."""
    used = mask_of(*rows[:n]).any(axis=1)
    present = rows if used.all() else [X[used] for X in rows]
    return in_memory(present[:n], present[n] if len(rows) > n else None, weigh)


def _counts(rows: Samples) -> list[int]:
    """Numbers of samples, of those in each view, and of classes up to the last that occurs."""
    return [len(rows), *rows.mask.sum(axis=0), 0 if rows.classes is None else int(rows.classes.max(initial=-1)) + 1]


def _starts(sizes: Indices) -> Indices:
    """Numbers of the first samples of blocks."""
    return np.cumsum(sizes) - sizes


def _numbered(rows: Samples, start: int) -> Samples:
    return replace(rows, ids=np.arange(start, start + len(rows)))


def _present(rows: Samples, value: tuple[int, int]) -> Samples:
    """The present samples of a view, numbered from a start."""
    v, start = value
    return _numbered(rows.single_view(v), start)


def _stacked(points: Samples, rows: Samples, v: int, start: int) -> Samples:
    """The present samples of view v: as points, and among the features of all views."""
    (X,), one = points.single_view(v).arrays, rows.single_view(v)
    columns = [one.arrays[0] if u == v else np.zeros((len(one), D)) for u, D in enumerate(rows.n_features)]
    return _numbered(replace(one, arrays=[X, np.hstack(columns)]), start)


def _array(rows: Samples, k: int) -> Samples:
    return replace(rows, arrays=[rows.arrays[k]])


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


def _selected(block: Samples, rows: Indices) -> Samples:
    arrays, classes = [X[rows] for X in block.arrays], None if block.classes is None else block.classes[rows]
    return Samples(arrays=arrays, weights=block.weights[rows], classes=classes, ids=block.ids[rows])


def _concatenated(*parts: Samples) -> Samples:
    arrays = [np.concatenate(rows) for rows in zip(*(part.arrays for part in parts), strict=True)]
    weights, ids = np.concatenate([part.weights for part in parts]), np.concatenate([part.ids for part in parts])
    classes = None if parts[0].classes is None else np.concatenate([part.labels for part in parts])
    return Samples(arrays=arrays, weights=weights, classes=classes, ids=ids)


def _nearest(block: Samples, centres: Samples, n_within: int, n_between: int) -> list[Nearest]:
    """Candidates of a block for the patches of every view, within and between classes."""
    found = []
    for v in range(len(block.arrays)):
        nearest = nearest_by_class(_points(block, v), _points(centres, v), n_within, n_between)
        found += [one.spread(centres.mask[:, v]) for one in nearest]
    return found


def _points(rows: Samples, v: int) -> Points:
    return Points(rows.arrays[v], rows.ids, rows.labels).at(rows.mask[:, v])


def _patches(nearest: Sequence[Nearest]) -> list[Patches]:
    """The patches of every view."""
    return [Patches(within.ids, between.ids) for within, between in zip(nearest[::2], nearest[1::2], strict=True)]


def _paired_scatter(rows: Samples, paired: float) -> Array:
    return patch_scatter(rows.arrays, rows.mask, [], paired=paired)


def _group_scatter(
    block: Samples,
    centres: Samples,
    patches: Sequence[Patches],
    ranks: tuple[Any, Any, float],
    weights: dict[str, float],
) -> Array:
    """Share of a block in the scatter of the patches of a group: the scatter is a sum over edges, by where they end."""
    c, rows = len(centres), _concatenated(centres, block)
    edges = [replace(one, ids=_inside(one.ids, block, c)) for one in (each.edges(*ranks) for each in patches)]
    intra, inter = weights["intra"], weights["inter"]
    S = patch_scatter(rows.arrays, rows.mask, edges, centres=np.arange(c), intra=intra, inter=inter)
    return S + _paired_scatter(block, weights["paired"]) if weights["paired"] else S


def _edges_of(
    block: Samples,
    centres: Samples,
    patches: Sequence[Patches],
    statistic: Callable[..., Any],
    *args: object,
) -> Any:
    """Share of a block in a sum over the edges of a group, by where they end."""
    ids = np.full((len(centres) + len(block), patches[0].within.shape[1]), -1)
    ids[: len(centres)] = _inside(patches[0].within, block, len(centres))
    return statistic(np.concatenate([centres.arrays[0], block.arrays[0]]), ids, *args)


def _inside(ids: Indices, block: Samples, offset: int) -> Indices:
    """Rows of samples of a block plus an offset, -1 for samples elsewhere."""
    start, stop = block.ids[0], block.ids[-1] + 1
    return np.where((ids >= start) & (ids < stop), ids - start + offset, -1)


def _features(rows: Samples, maps: Sequence[KernelMap]) -> Samples:
    """Kernel features of the samples."""
    views = zip(maps, rows.single_views(), rows.mask.T, strict=True)
    return replace(rows, arrays=[fill_missing(one.features(view.arrays[0]), seen) for one, view, seen in views])


def _kernel_points(rows: Samples, maps: Sequence[KernelMap]) -> Samples:
    """Points whose distances rank like the kernel distance, the features if there are no others."""
    points = [one.kernel.euclidean_points(X) for one, X in zip(maps, rows.arrays, strict=True)]
    return _features(rows, maps) if any(X is None for X in points) else replace(rows, arrays=points)
