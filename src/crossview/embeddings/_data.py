"""Training samples as the methods' scatter matrices see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crossview._blas import product
from crossview._types import Array, Indices
from crossview.graphs.neighbours import class_neighbours
from crossview.graphs.patches import Patches
from crossview.kernels import KernelMap
from crossview.linalg.span import constant_direction, row_space
from crossview.views import Views

__all__ = ["TrainingData", "pair_weights"]


@dataclass(frozen=True)
class TrainingData:
    """Training views: centred, zero where a sample is missing, possibly behind kernel maps.

    Parameters
    ----------
    views : Views
        The samples as they were given.
    classes : ndarray of int, shape (m,), optional
        Class of each sample, coded from 0; None for unsupervised methods.
    arrays : list of ndarray, each of shape (m, r_v)
        Features less their means, zero where a sample is missing.
    means : list of ndarray, each of shape (D_v,)
        What was subtracted.
    weights : ndarray of shape (m, n)
        How much a sample counts in the means and scatters of a view, 0 where it is missing.
    maps : list of KernelMap, optional
        Where features come from, if they are not the samples themselves.
    bases : list of ndarray or None
        Orthonormal directions, (D_v, r_v), along which `arrays` are the coordinates; None where these are the features.
    nulls : list of ndarray or None
        Unit direction, (r_v,), in which the features of a kernel map do not vary; None where there is none.
    """

    views: Views
    classes: Indices | None
    arrays: list[Array]
    means: list[Array]
    weights: Array
    maps: list[KernelMap] | None = None
    bases: Sequence[Array | None] = ()
    nulls: Sequence[Array | None] = ()

    @classmethod
    def of(cls, views: Views, classes: Indices | None, *, center: bool, weights: Array | None = None) -> TrainingData:
        """Centre every view."""
        weights = pair_weights(views.mask) if weights is None else weights
        pairs = [
            _centred(X if seen.all() else X[seen], seen, w[seen] if center else None)
            for X, seen, w in zip(views.arrays, views.mask.T, weights.T, strict=True)
        ]
        return cls(views, classes, [X for X, _ in pairs], [mean for _, mean in pairs], weights)

    @classmethod
    def behind(
        cls, maps: list[KernelMap], features: list[Array], views: Views, classes: Indices | None, *, center: bool
    ) -> TrainingData:
        """Centre the features of kernel maps, which are overwritten."""
        alike = views.mask.astype(np.float64)
        nulls = [constant_direction(R, m.pivots) if center else None for m, R in zip(maps, features, strict=True)]
        pairs = [
            _centred(R, seen, np.ones(len(R)) if center else None, overwrite=True)
            for R, seen in zip(features, views.mask.T, strict=True)
        ]
        arrays, means = [X for X, _ in pairs], [mean for _, mean in pairs]
        return cls(views, classes, arrays, means, alike, maps, nulls=nulls)

    def in_span(self) -> TrainingData:
        """The same samples in coordinates of the directions in which they vary."""
        if self.maps is not None:
            return self
        bases = [row_space(X) for X in self.arrays]
        arrays = [X if B is None else product(X, B) for X, B in zip(self.arrays, bases, strict=True)]
        return replace(self, arrays=arrays, bases=bases)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which sample was seen in which view, (m, n)."""
        return self.views.mask

    @property
    def n_features(self) -> list[int]:
        """r_v of every view."""
        return [X.shape[1] for X in self.arrays]

    @property
    def rank(self) -> int:
        """In how many directions the features of all views vary, where `in_span` was asked for."""
        return sum(self.n_features) - sum(null is not None for null in self.nulls)

    @property
    def n_classes(self) -> int:
        """C: how many classes there are."""
        return int(self.labels.max()) + 1

    @property
    def labels(self) -> Indices:
        """The classes of a supervised method."""
        assert self.classes is not None
        return self.classes

    def split(self, W: Array) -> list[Array]:
        """Components of all views, one above the other, view by view."""
        return np.split(W, np.cumsum(self.n_features)[:-1])

    def latents(self, W: Array) -> list[Array]:
        """Training samples in the common space, (m, d) per view."""
        return [product(X, np.ascontiguousarray(w)) for X, w in zip(self.arrays, self.split(W), strict=True)]

    def patches(self, n_within: int, n_between: int) -> list[Patches]:
        """Patches of every view, over all samples, of neighbours among those that the view has seen.

        They are nearest by Euclidean distance, or by the kernel's own: that of its features.
        """
        found = []
        for v, (X, seen) in enumerate(zip(self.views.arrays, self.mask.T, strict=True)):
            points = X[seen] if self.maps is None else self.maps[v].kernel.ordered(X[seen])
            points = self.arrays[v][seen] if points is None else points
            found.append(Patches(*class_neighbours(points, self.labels[seen], n_within, n_between)).spread(seen))
        return found


def pair_weights(mask: NDArray[np.bool_]) -> Array:
    """Share of the other views that have seen a sample as well: 1 where no view lacks it, 0 where a view alone has it.

    It is the number of pairs that a sample has in a view, relative to that in complete views. Scatters of a view with
    these weights belong to the same pairs as the products of samples between views, whatever is missing.

    Parameters
    ----------
    mask : ndarray of bool, shape (m, n)
        Which sample was seen in which view.

    Returns
    -------
    weights : ndarray of shape (m, n)
        0 where a sample is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


def _centred(
    rows: Array, seen: NDArray[np.bool_], weights: Array | None, *, overwrite: bool = False
) -> tuple[Array, Array]:
    """Samples less their weighted mean (0 without weights), spread over all samples, zero where one is missing."""
    if weights is None:
        mean = np.zeros(rows.shape[1])
    else:
        mean = np.average(rows, axis=0, weights=weights)
        rows = np.subtract(rows, mean, out=rows if overwrite else None)
    if seen.all():
        return rows, mean
    spread = np.zeros((len(seen), rows.shape[1]))
    spread[seen] = rows
    return spread, mean
