"""Training data: centred, masked, possibly in kernel coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crossview._blas import product
from crossview._types import Array, Indices
from crossview.embeddings._neighbours import find_patches
from crossview.graphs.patches import Patches
from crossview.kernels import KernelMap
from crossview.linalg.span import constant_direction, row_space
from crossview.views import Views


@dataclass(frozen=True)
class TrainingData:
    """Training views: centred, zero where a sample is missing, possibly in kernel coordinates."""

    views: Views  # original samples
    classes: Indices | None  # class of each sample, coded from 0; None for unsupervised methods
    arrays: list[Array]  # (m, r_v) each: features minus their means, zero where a sample is missing
    means: list[Array]  # (D_v,) each
    weights: Array  # (m, n): weight of each sample in the means and scatters of a view, 0 where it is missing
    maps: list[KernelMap] | None = None  # the maps that produced the features, if any
    bases: Sequence[Array | None] = ()  # (D_v, r_v) each: orthonormal; `arrays` are coordinates in them, unless None
    nulls: Sequence[Array | None] = ()  # (r_v,) each: unit direction in which the kernel features do not vary, if any
    patches: Sequence[Patches] = ()  # of each view, if asked for
    neighbour_recall: float = 1.0  # of the patches, against exact search: the lowest of all views

    @classmethod
    def from_views(
        cls, views: Views, classes: Indices | None, *, center: bool, weights: Array | None = None
    ) -> TrainingData:
        """Centre each view; samples have their `pair_weights` by default."""
        weights = pair_weights(views.mask) if weights is None else weights
        arrays, means = _centre(views._present_rows(), views.mask, weights, center=center)
        return cls(views, classes, arrays, means, weights)

    @classmethod
    def from_kernel_maps(
        cls, maps: list[KernelMap], features: list[Array], views: Views, classes: Indices | None, *, center: bool
    ) -> TrainingData:
        """Centre the features of kernel maps, in place."""
        nulls = [constant_direction(R, m.pivots) if center else None for m, R in zip(maps, features, strict=True)]
        weights = views.mask.astype(np.float64)
        arrays, means = _centre(features, views.mask, weights, center=center, overwrite=True)
        return cls(views, classes, arrays, means, weights, maps, nulls=nulls)

    def in_span(self) -> TrainingData:
        """The same samples, in coordinates of the directions in which they vary."""
        if self.maps is not None:
            return self
        bases = [row_space(X) for X in self.arrays]
        arrays = [X if B is None else product(X, B) for X, B in zip(self.arrays, bases, strict=True)]
        return replace(self, arrays=arrays, bases=bases)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """True where a sample is present in a view, (m, n)."""
        return self.views.mask

    @property
    def n_features(self) -> list[int]:
        """Number of features of each view, r_v."""
        return [X.shape[1] for X in self.arrays]

    @property
    def rank(self) -> int:
        """Number of directions in which the features of all views vary, after `in_span`."""
        return sum(self.n_features) - sum(null is not None for null in self.nulls)

    @property
    def n_classes(self) -> int:
        """Number of classes, C."""
        return int(self.labels.max()) + 1

    @property
    def labels(self) -> Indices:
        """The classes, for supervised methods."""
        assert self.classes is not None
        return self.classes

    def split(self, W: Array) -> list[Array]:
        """Split the stacked components of all views by view."""
        return np.split(W, np.cumsum(self.n_features)[:-1])

    def latents(self, W: Array) -> list[Array]:
        """Training samples in the common space, (m, d) per view."""
        return [product(X, np.ascontiguousarray(w)) for X, w in zip(self.arrays, self.split(W), strict=True)]

    def with_patches(self, n_within: int, n_between: int, method: str = "exact") -> TrainingData:
        """Find the patches of each view, with the nearest neighbours by Euclidean or kernel distance."""
        found, recalls = [], []
        for v, (rows, seen) in enumerate(zip(self.views._present_rows(), self.mask.T, strict=True)):
            points = rows if self.maps is None else self.maps[v].kernel.euclidean_points(rows)
            points = self.arrays[v][seen] if points is None else points
            patches, recall = find_patches(points, self.labels[seen], n_within, n_between, method)
            found.append(patches.spread(seen))
            recalls.append(recall)
        return replace(self, patches=found, neighbour_recall=min(recalls))


def pair_weights(mask: NDArray[np.bool_]) -> Array:
    """Share of the other views that also have a sample, shape (m, n): 1 if all have it, 0 if only one view has it.

    This is the number of pairs of a sample in a view, relative to complete views. With these weights, the scatter of a
    view refers to the same pairs as the products between views, whatever is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


def _centre(
    rows: list[Array], mask: NDArray[np.bool_], weights: Array, *, center: bool, overwrite: bool = False
) -> tuple[list[Array], list[Array]]:
    """Subtract the weighted mean of each view (or 0), and insert zero rows for missing samples."""
    arrays, means = [], []
    for X, seen, w in zip(rows, mask.T, weights.T, strict=True):
        alike = (w[seen] == 1.0).all()  # then a weighted mean would only need more memory
        mean = np.average(X, axis=0, weights=None if alike else w[seen]) if center else np.zeros(X.shape[1])
        centred = np.subtract(X, mean, out=X if overwrite else None) if center else X
        if not seen.all():
            filled = np.zeros((len(seen), X.shape[1]))
            filled[seen] = centred
            centred = filled
        arrays.append(centred)
        means.append(mean)
    return arrays, means
