"""Training data: one type for samples in memory, with a subclass for blocks of rows that Dask computes (`lazy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from crossview._progress import report
from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import (
    column_sums,
    concatenate,
    fill_missing,
    hide_rows,
    mask_of,
    product,
    shift,
    to_numpy,
)
from crossview.kernels import KernelMap
from crossview.linalg import norm, sums
from crossview.linalg.eigen import component_signs, leading_entries
from crossview.linalg.norm import CoupledNorm, features_correspond
from crossview.linalg.scatter import Patches, graph_scatter, patch_scatter
from crossview.neighbours.classes import find_neighbours
from crossview.views import Views

__all__ = ["Samples", "pair_weights", "samples_of"]

_MAX_FEATURES = 512  # that are compared between views


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples in several views, complete or a block of rows; the training data of a method.

    Methods only learn from sums over samples, which `total` computes. So it does not matter where the samples are, or
    whether they are all in one place.
    """

    arrays: Sequence[Rows]  # (m, D_v) each, zero where a sample is missing
    weights: Array  # (m, n): weight of each sample in each view, 0 where it is missing
    classes: Indices | None = None  # (m,), coded from 0
    ids: Any = None  # (m,): numbers of the samples of a block among all samples
    points: Any = None  # arrays, (m, D_v) each, whose Euclidean distances define neighbours; by default `arrays`

    patches: Sequence[Any] = ()  # of each view, if asked for
    centres: Indices | None = None  # rows of the samples whose patches they are; None for all
    neighbour_recall: float = 1.0  # of the patches, against exact search: the lowest of all views

    views: Any = None  # the original samples, a `Views`
    means: list[Array] = field(default_factory=list)  # (D_v,) each: what was subtracted
    bases: Sequence[Array | None] = ()  # (D_v, r_v) each: orthonormal; `arrays` are coordinates in them, unless None
    spans: Sequence[Array | None] = ()  # (r, r_v) each: directions of a common basis in which a view varies, if not all
    one_map: bool = False  # whether all views share a map, so that the scatter of patches is a sum over views

    maps: Sequence[KernelMap] = ()  # the kernel maps that produced the features, if any
    nulls: Sequence[tuple[slice, Array]] = ()  # coordinates, with a unit direction in which kernel features do not vary
    shares: Sequence[Array] = ()  # (r,) each: weights of a view's kernel values, if all views share a kernel map

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def mask(self) -> Mask:
        """True where a sample is present in a view, (m, n)."""
        return self.weights > 0

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view."""
        return [X.shape[1] for X in self.arrays]

    @property
    def labels(self) -> Indices:
        """The classes, for supervised methods."""
        assert self.classes is not None
        return self.classes

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return int(self.labels.max()) + 1

    @property
    def n_seen(self) -> Indices:
        """Number of samples in each view, (n,)."""
        return np.asarray(self.mask.sum(axis=0))

    def total(self, function: Callable[..., Any], fields: str, *args: object) -> Any:
        """Sum over all samples of ``function(*fields, *args)``, an array or a list; fields are named as in "arrays"."""
        return function(*(getattr(self, name) for name in fields.split()), *args)

    # Sums that methods learn from, as in crossview.linalg.sums.

    @property
    def class_sizes(self) -> Array:
        """Number of samples of each class in each view, (C, n)."""
        return np.asarray(self.total(sums.class_sizes, "mask classes", self.n_classes))

    def view_sums(self) -> tuple[list[Array], Array]:
        """Weighted sum of the samples of each view, (D_v,), and their total weights, (n,)."""
        *totals, weights = self.total(sums.view_sums, "arrays weights")
        return totals, weights

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of every feature of samples of one view, none of them missing."""
        (totals,), (m,) = self.view_sums()
        mean: Array = totals / m
        rest, squares = self.total(sums.deviations, "arrays", mean)
        # The deviations from a rounded mean do not quite add up to 0.
        return mean, (squares - np.square(rest) / m) / m

    def grams(self) -> list[Array]:
        """``X_v' diag(w_v) X_v`` of each view."""
        return list(self.total(sums.grams, "arrays weights"))

    def pair_products(self) -> list[Array]:
        """``X_i' X_j`` of all pairs of views."""
        return list(self.total(sums.pair_products, "arrays"))

    def pair_matrix(self) -> Array:
        """``X_i' X_j`` of all pairs of views, in blocks with zeros on the diagonal."""
        return sums.pair_matrix(self.pair_products(), self.n_features)

    def class_sums(self) -> tuple[list[Array], Array]:
        """Weighted sums of each class, (C, D_v) per view, and the total weights of the classes, (C, n)."""
        *totals, counts = self.total(sums.class_sums, "arrays weights classes", self.n_classes)
        return totals, counts

    def view_scatters(self) -> tuple[list[Array], list[Array]]:
        """Between- and within-class scatter of each view separately."""
        totals, counts = self.class_sums()
        return sums.between_scatters(totals, counts), self._within_scatters(totals, counts)

    def joint_scatters(self) -> tuple[Array, Array]:
        """Between- and within-class scatter of all views together: `crossview.linalg.sums.joint_scatters`."""
        totals, counts = self.class_sums()
        return sums.joint_scatters(totals, counts, self._within_scatters(totals, counts))

    def _within_scatters(self, totals: list[Array], counts: Array) -> list[Array]:
        return list(self.total(sums.within_scatters, "arrays weights classes", sums.class_means(totals, counts)))

    def features_correspond(self) -> bool:
        """Whether centred samples resemble themselves in other views as they are, because of the order of features."""
        D = self.n_features[0]
        if len(set(self.n_features)) > 1 or D == 1:
            return False
        # All features are compared without a copy.
        columns = slice(None) if D <= _MAX_FEATURES else np.linspace(0, D - 1, _MAX_FEATURES).astype(np.intp)
        squares, C = self.total(sums.similarities, "arrays weights", columns)
        return features_correspond(squares, C, len(self.n_features))

    def agreement(self, W: Array) -> tuple[Array, Array]:
        """For each component, the sum of squares of all samples, and of their products between views."""
        squares, products = self.total(sums.agreement, "arrays", self.split(W))
        return squares, products

    def factor(self) -> Array:
        """A matrix with as many columns as the features of one view, no more rows, and the same Gram matrix."""
        (found,) = self.total(norm.row_factors, "arrays", [0])
        R: Array = found.R
        return R

    def row_spaces(self) -> list[Array | None]:
        """For each view, a basis of the directions in which the samples vary; None if these are all directions."""
        full = [*map(norm.full_rank, self.total(norm.leading_grams, "arrays", len(self)))]
        some = [v for v, done in enumerate(full) if not done]
        factors = iter(self.total(norm.row_factors, "arrays", some) if some else ())
        return [None if done else norm.row_space(next(factors), len(self)) for done in full]

    def signs(self, W: Array) -> Array:
        """Signs, (d,), that make the largest coordinate of a training sample along each component positive."""
        leading = self.of_blocks(_leading_coordinates, "arrays", self.split(W))
        return component_signs(np.concatenate(np.stack(leading, axis=1)))

    def of_blocks(self, function: Callable[..., Any], fields: str, *args: object) -> list[Any]:
        """As `total`, but the values of all blocks, which must be small."""
        return [self.total(function, fields, *args)]

    def split(self, W: Array) -> list[Array]:
        """Split the stacked components of all views by view."""
        return np.split(W, np.cumsum(self.n_features)[:-1])

    # The same samples, seen otherwise.

    def centred(self, wanted: bool = True) -> Self:
        """The samples less the mean of their view, if wanted."""
        if not wanted:
            return replace(self, means=[np.zeros(D) for D in self.n_features])
        means = [*map(np.divide, *self.view_sums())]
        return replace(self.shifted(means), means=means)

    def centred_features(self, maps: Sequence[KernelMap], wanted: bool, views_of: Indices | None = None) -> Self:
        """The kernel features, which these samples are, less the mean of their view, if wanted.

        `views_of` are the views of the landmarks, if all views share a map.
        """
        data = replace(self, maps=maps)
        if not wanted:
            return data.centred(False)
        one, sizes = self.one_map, self.n_seen  # a map that views share has an image for each of them
        images = [norm.unit_images(m.factor, views_of) for m in (maps[:1] if one else maps)]
        found = self.total(_sums_and_deviations, "arrays mask", images * (len(sizes) if one else 1), one)
        means, deviations = [*map(np.divide, found[: len(sizes)], sizes)], found[len(sizes) :]
        if one:
            deviations, sizes = [np.sum(deviations, axis=0)], sizes.sum(keepdims=True)
        parts = [slice(*ends) for ends in pairwise(np.cumsum([0, *map(len, images)]))]
        sets = zip(parts, map(norm.constant_directions, images, deviations, sizes), strict=True)
        nulls = [(part, direction) for part, directions in sets for direction in directions]
        return replace(data.shifted(means), means=means, nulls=nulls)

    def single_view(self, v: int) -> Samples:
        """The present samples of view v."""
        X, seen = self.arrays[v], self.mask[:, v]
        labels = None if self.classes is None else self.classes[seen]
        return Samples(arrays=[X if seen.all() else X[seen]], weights=np.ones((seen.sum(), 1)), classes=labels)

    def single_views(self) -> Iterator[Samples]:
        """The present samples of each view."""
        return map(self.single_view, range(len(self.n_features)))

    def pooled(self) -> Samples:
        """The present samples of all views as those of one view."""
        rows, classes = zip(*((s.arrays[0], s.classes) for s in self.single_views()), strict=True)
        labels = None if self.classes is None else np.concatenate(classes)
        return Samples(arrays=[concatenate(*rows)], weights=np.ones((int(self.n_seen.sum()), 1)), classes=labels)

    def of_one_class(self) -> Self:
        """The samples, all of the same class."""
        return replace(self, classes=np.zeros(len(self), dtype=np.intp))

    def shifted(self, offsets: Sequence[Array]) -> Self:
        """The samples minus an offset for each view, where they are present."""
        moved = map(shift, self.arrays, offsets)
        return replace(self, arrays=[hide_rows(X, seen, 0.0) for X, seen in zip(moved, self.mask.T, strict=True)])

    def in_coordinates(self, bases: Sequence[Array | None]) -> Self:
        """The samples in coordinates of bases, unless these are None."""
        arrays = [X if B is None else product(X, B) for X, B in zip(self.arrays, bases, strict=True)]
        return replace(self, arrays=arrays)

    def in_span(self, *, common: bool = False) -> Self:
        """The samples in coordinates of the directions in which they vary: of each view, or common to all."""
        if self.maps:
            return self
        bases = self.row_spaces()
        if not common or all(basis is None for basis in bases):
            return replace(self.in_coordinates(bases), bases=bases)
        bases = self.pooled().row_spaces() * len(self.n_features)
        data = replace(self.in_coordinates(bases), bases=bases)
        return replace(data, spans=data.row_spaces())

    def through(self, norm: CoupledNorm) -> Self:
        """The samples in coordinates of maps that are restricted to what they determine; all views then share a map."""
        if norm.basis is None:
            return self
        return replace(self.in_coordinates(self.split(norm.basis)), one_map=True)

    # Patches.

    def with_patches(
        self, n_within: int, n_between: int, method: str = "exact", centres: Indices | None = None
    ) -> Self:
        """Find the patches of each view, with the nearest neighbours of all samples, or of the rows `centres`."""
        found, recalls = [], []
        report(more=int((self.mask if centres is None else self.mask[centres]).sum()))
        for v, seen in enumerate(self.mask.T):
            report(now=f"finding neighbours in view {v + 1} of {self.mask.shape[1]}")
            at = None if centres is None else np.searchsorted(np.flatnonzero(seen), centres[seen[centres]])
            points, classes = self._points(v), self.labels[seen]
            *tables, recall = find_neighbours(points, classes, n_within, n_between, method, centres=at)
            found.append(Patches(*tables).spread(seen, centres))
            recalls.append(recall)
        return replace(self, patches=found, centres=centres, neighbour_recall=min(recalls))

    def _points(self, v: int) -> Rows:
        """The present samples of view v as points: the original ones, or such that distances rank like the kernel's."""
        seen = self.mask[:, v]
        points = (self.arrays if self.points is None else self.points)[v]
        points = points if seen.all() else points[seen]
        if self.maps:
            points = self.maps[v].kernel.euclidean_points(points)
        return self.single_view(v).arrays[0] if points is None else points

    def patch_scatter(
        self,
        within: slice | int,
        between: slice | int,
        *,
        between_weight: float = 1.0,
        paired: float = 0.0,
        intra: float = 0.0,
        inter: float = 0.0,
    ) -> Array:
        """Scatter of the patches, with the neighbours of the given ranks (see `Patches.edges` and `patch_scatter`).

        Patches of randomly drawn centres stand for those of all samples.
        """
        share = 1.0 if self.centres is None else len(self) / len(self.centres)
        weights = {"paired": paired, "intra": share * intra, "inter": share * inter}
        return self._patch_scatter((within, between, between_weight), weights)

    def _patch_scatter(self, ranks: tuple[Any, Any, float], weights: dict[str, float]) -> Array:
        edges = [patches.edges(*ranks) for patches in self.patches]
        return patch_scatter(self.arrays, self.mask, edges, centres=self.centres, one_map=self.one_map, **weights)

    def stacked_scatter(self, n_within: int, n_between: int, between_weight: float, method: str) -> tuple[Array, float]:
        """Scatter of the patches of all samples as one set, each mapped by its view's map; recall of the neighbours."""
        report(more=int(self.n_seen.sum()), now="finding neighbours in all views")
        labels = np.concatenate([one.labels for one in self.single_views()])
        points = concatenate(*map(self._points, range(len(self.n_features))))
        *tables, recall = find_neighbours(points, labels, n_within, n_between, method)
        edges = Patches(*tables).edges(n_within, n_between, between_weight)
        return graph_scatter([one.arrays[0] for one in self.single_views()], edges)[0], recall

    def edge_total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum over the edges within classes of one view of ``statistic(X, ids, *args)``.

        The statistic gets samples and, for each of them, the rows of its neighbours, padded with -1.
        """
        return statistic(self.arrays[0], self.patches[0].within, *args)


def pair_weights(mask: Mask) -> Array:
    """Share of the other views that also have a sample, shape (m, n): 1 if all have it, 0 if only one view has it.

    This is the number of pairs of a sample in a view, relative to complete views. With these weights, the scatter of a
    view refers to the same pairs as the products between views, whatever is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


def samples_of(views: Views, classes: Indices | None = None, weigh: Callable[[Mask], Array] | None = None) -> Samples:
    """The samples of views, with weight 1 or those that a function of the mask gives.

    Blocks leave out samples that no view has.
    """
    if views._place == "Dask":
        from crossview.samples.lazy import LazySamples

        return LazySamples.of(views, classes, weigh)
    return replace(in_memory(views.arrays, classes, weigh), points=views.arrays, views=views)


def in_memory(arrays: Sequence[Rows], classes: Indices | None, weigh: Callable[[Mask], Array] | None) -> Samples:
    """The samples of arrays with rows of NaN where one is missing."""
    mask = mask_of(*arrays)
    weights = mask.astype(np.float64) if weigh is None else weigh(mask)
    shown = [hide_rows(X, w > 0, 0.0) for X, w in zip(arrays, weights.T, strict=True)]
    return Samples(arrays=shown, weights=weights, classes=classes)


def features_of(features: Sequence[Rows], views: Views, classes: Indices | None) -> Samples:
    """Kernel features of the present samples of views."""
    mask = views.mask
    arrays = [fill_missing(R, seen) for R, seen in zip(features, mask.T, strict=True)]
    weights = mask.astype(np.float64)
    return Samples(arrays=arrays, weights=weights, classes=classes, points=views.arrays, views=views)


def _sums_and_deviations(arrays: Sequence[Rows], mask: Mask, images: Sequence[Array], one_map: bool) -> list[Array]:
    """Sums of the kernel features of each view, and then their `deviations`."""
    found = []
    for v, (R, seen, image) in enumerate(zip(arrays, mask.T, images, strict=True)):
        present, n = R if seen.all() else R[seen], image.shape[1]
        found.append(norm.deviations(present, image, v * one_map) if len(present) else np.zeros((n + 1, n)))
    return [*map(column_sums, arrays), *found]


def _leading_coordinates(arrays: Sequence[Rows], maps: Sequence[Array]) -> Array:
    """The largest coordinates of the samples of each view along each component, (n, d)."""
    latents = (product(X, np.ascontiguousarray(w)) for X, w in zip(arrays, maps, strict=True))
    return np.array([leading_entries(to_numpy(Z)) for Z in latents])
