"""Training data: centred, masked, possibly in kernel coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossview._backend import (
    column_means,
    fill_missing,
    product,
    shift,
)
from crossview._progress import report
from crossview._types import Array, Indices, Mask, Rows
from crossview.embeddings._neighbours import find_patches
from crossview.graphs.patches import Patches
from crossview.kernels import KernelMap
from crossview.linalg.samples import Samples
from crossview.linalg.scatter import patch_scatter
from crossview.linalg.span import constant_direction
from crossview.views import Views


@dataclass(frozen=True, kw_only=True)
class TrainingData(Samples):
    """Training views: centred, zero where a sample is missing, possibly in kernel coordinates."""

    views: Views  # original samples
    means: list[Array]  # (D_v,) each
    maps: list[KernelMap] | None = None  # the maps that produced the features, if any
    bases: Sequence[Array | None] = ()  # (D_v, r_v) each: orthonormal; `arrays` are coordinates in them, unless None
    nulls: Sequence[Array | None] = ()  # (r_v,) each: unit direction in which the kernel features do not vary, if any
    patches: Sequence[Patches] = ()  # of each view, if asked for
    centres: Indices | None = None  # rows of the samples whose patches they are; None for all
    neighbour_recall: float = 1.0  # of the patches, against exact search: the lowest of all views

    @classmethod
    def from_views(
        cls, views: Views, classes: Indices | None, *, center: bool, weights: Array | None = None
    ) -> TrainingData:
        """Centre each view; samples have their `pair_weights` by default."""
        weights = pair_weights(views.mask) if weights is None else weights
        arrays, means = _centre(views._present_rows(), views.mask, weights, center=center)
        return cls(views=views, classes=classes, arrays=arrays, means=means, weights=weights)

    @classmethod
    def from_kernel_maps(
        cls, maps: list[KernelMap], features: list[Rows], views: Views, classes: Indices | None, *, center: bool
    ) -> TrainingData:
        """Centre the features of kernel maps, in place."""
        nulls = [constant_direction(R, m.pivots) if center else None for m, R in zip(maps, features, strict=True)]
        weights = views.mask.astype(np.float64)
        arrays, means = _centre(features, views.mask, weights, center=center, overwrite=True)
        return cls(views=views, classes=classes, arrays=arrays, means=means, weights=weights, maps=maps, nulls=nulls)

    def in_span(self) -> TrainingData:
        """The same samples, in coordinates of the directions in which they vary."""
        if self.maps is not None:
            return self
        bases = self.row_spaces()
        return replace(self.in_coordinates(bases), bases=bases)

    @property
    def rank(self) -> int:
        """Number of directions in which the features of all views vary, after `in_span`."""
        return sum(self.n_features) - sum(null is not None for null in self.nulls)

    def split(self, W: Array) -> list[Array]:
        """Split the stacked components of all views by view."""
        return np.split(W, np.cumsum(self.n_features)[:-1])

    def latents(self, W: Array) -> list[Rows]:
        """Training samples in the common space, (m, d) per view."""
        return [product(X, np.ascontiguousarray(w)) for X, w in zip(self.arrays, self.split(W), strict=True)]

    def with_patches(
        self, n_within: int, n_between: int, method: str = "exact", centres: Indices | None = None
    ) -> TrainingData:
        """Find the patches of each view, with the nearest neighbours by Euclidean or kernel distance."""
        found, recalls = [], []
        report(more=int(self.n_seen.sum()) if centres is None else int(self.mask[centres].sum()))
        for v, (rows, seen) in enumerate(zip(self.views._present_rows(), self.mask.T, strict=True)):
            report(now=f"finding neighbours in view {self.views.names[v]!r}")
            points = rows if self.maps is None else self.maps[v].kernel.euclidean_points(rows)
            points = self.arrays[v][seen] if points is None else points
            at = None if centres is None else np.searchsorted(np.flatnonzero(seen), centres[seen[centres]])
            patches, recall = find_patches(points, self.labels[seen], n_within, n_between, method, centres=at)
            found.append(patches.spread(seen, centres))
            recalls.append(recall)
        return replace(self, patches=found, centres=centres, neighbour_recall=min(recalls))

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
        """Scatter of the patches, with the neighbours of the given ranks (see `Patches.edges` and `patch_scatter`)."""
        edges = [patches.edges(within, between, between_weight=between_weight) for patches in self.patches]
        return patch_scatter(
            self.arrays, self.mask, edges, centres=self.centres, paired=paired, intra=intra, inter=inter
        )


def pair_weights(mask: Mask) -> Array:
    """Share of the other views that also have a sample, shape (m, n): 1 if all have it, 0 if only one view has it.

    This is the number of pairs of a sample in a view, relative to complete views. With these weights, the scatter of a
    view refers to the same pairs as the products between views, whatever is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


def _centre(
    rows: list[Rows], mask: Mask, weights: Array, *, center: bool, overwrite: bool = False
) -> tuple[list[Rows], list[Array]]:
    """Subtract the weighted mean of each view (or 0), and insert zero rows for missing samples."""
    arrays, means = [], []
    for X, seen, w in zip(rows, mask.T, weights.T, strict=True):
        alike = (w[seen] == 1.0).all()  # then a weighted mean would only need more memory
        mean = column_means(X, None if alike else w[seen]) if center else np.zeros(X.shape[1])
        centred = shift(X, mean, overwrite=overwrite) if center else X
        arrays.append(centred if seen.all() else fill_missing(centred, seen))
        means.append(mean)
    return arrays, means
