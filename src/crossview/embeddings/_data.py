"""Training data: centred, masked, possibly in kernel coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossview._backend import column_sums, concatenate, fill_missing, product, shift, to_numpy
from crossview._types import Array, Indices, Mask, Rows
from crossview.kernels import KernelMap
from crossview.linalg.coupling import CoupledNorm
from crossview.linalg.eigen import component_signs, leading_entries
from crossview.linalg.samples import Samples, view_sums
from crossview.linalg.scatter import graph_scatter
from crossview.linalg.span import constant_direction, constant_directions
from crossview.views import Views


def pair_weights(mask: Mask) -> Array:
    """Share of the other views that also have a sample, shape (m, n): 1 if all have it, 0 if only one view has it.

    This is the number of pairs of a sample in a view, relative to complete views. With these weights, the scatter of a
    view refers to the same pairs as the products between views, whatever is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


@dataclass(frozen=True, kw_only=True)
class TrainingData(Samples):
    """Training views: centred, zero where a sample is missing, possibly in kernel coordinates."""

    views: Views  # original samples
    means: list[Array]  # (D_v,) each
    maps: list[KernelMap] | None = None  # the maps that produced the features, if any
    bases: Sequence[Array | None] = ()  # (D_v, r_v) each: orthonormal; `arrays` are coordinates in them, unless None
    nulls: Sequence[Array | None] = ()  # (r_v,) each: unit direction in which the kernel features do not vary, if any
    shares: Sequence[Array] = ()  # (r,) each: weights of a view's kernel values, if all views share a map
    spans: Sequence[Array | None] = ()  # (r, r_v) each: directions of a common basis in which a view varies, if not all

    @classmethod
    def from_views(
        cls,
        views: Views,
        classes: Indices | None,
        *,
        center: bool,
        weigh: Callable[[Mask], Array] | None = pair_weights,
    ) -> TrainingData:
        """Centre each view; the mask determines the weights of samples (see `Samples`)."""
        samples = Samples.of(views, classes, weigh)
        means = [np.zeros(D) for D in views.n_features]
        if center:
            sums, weights = view_sums(samples)
            means = [*map(np.divide, sums, weights)]
        fields = vars(samples.shifted(means) if center else samples)
        if views._lazy:
            from crossview.embeddings._lazy import LazyTrainingData

            return LazyTrainingData(views=views, means=means, **fields)
        return cls(views=views, means=means, **fields)

    @classmethod
    def from_kernel_maps(
        cls,
        maps: list[KernelMap],
        features: list[Rows],
        views: Views,
        classes: Indices | None,
        *,
        center: bool,
        shares: Sequence[Array] = (),
        views_of: Indices | None = None,
    ) -> TrainingData:
        """Centre the features of kernel maps, in place; `views_of` are the views of the landmarks of a pooled one."""
        nulls: Sequence[Array | None] = ()
        if center and views_of is not None:
            nulls = constant_directions(features, maps[0].factor, views_of)
        elif center:
            nulls = [constant_direction(R, m.factor) for m, R in zip(maps, features, strict=True)]
        means = [column_sums(R) / len(R) if center else np.zeros(R.shape[1]) for R in features]
        if center:
            features = [shift(R, mean, overwrite=True) for R, mean in zip(features, means, strict=True)]
        arrays = [fill_missing(R, seen) for R, seen in zip(features, views.mask.T, strict=True)]
        weights = views.mask.astype(np.float64)
        kernel: dict[str, Any] = {"maps": maps, "nulls": nulls, "shares": shares, "one_map": bool(shares)}
        return cls(views=views, classes=classes, arrays=arrays, means=means, weights=weights, **kernel)

    def in_span(self, *, common: bool = False) -> TrainingData:
        """The same samples, in coordinates of the directions in which they vary: of each view, or common to all."""
        if self.maps is not None:
            return self
        bases = self.row_spaces()
        if not common or all(basis is None for basis in bases):
            return replace(self.in_coordinates(bases), bases=bases)
        bases = self.pooled().row_spaces() * len(self.n_features)
        data = replace(self.in_coordinates(bases), bases=bases)
        return replace(data, spans=data.row_spaces())

    def through(self, norm: CoupledNorm) -> TrainingData:
        """The samples in coordinates of maps that are restricted to what they determine; all views then share a map.

        Dask arrays stay as they are, and so do others if maps are not restricted.
        """
        if norm.basis is None or self.views._lazy:
            return self
        return replace(self.in_coordinates(self.split(norm.basis)), one_map=True)

    def stacked(self) -> Samples:
        """The present samples of all views as one set, to be projected by the map of their view each."""
        seen, points = self.mask.T, concatenate(*self.views._present_rows())
        return _StackedSamples(
            arrays=[X[rows] for X, rows in zip(self.arrays, seen, strict=True)],
            weights=np.ones((len(points), 1)),
            classes=np.concatenate([self.labels[rows] for rows in seen]),
            points=points,
        )

    def split(self, W: Array) -> list[Array]:
        """Split the stacked components of all views by view."""
        return np.split(W, np.cumsum(self.n_features)[:-1])

    def signs(self, W: Array) -> Array:
        """Signs, (d,), that make the largest coordinate of a training sample along each component positive."""
        return component_signs(leading_coordinates(self, self.split(W)))

    def _points(self, v: int) -> Rows:
        """The original samples, or points whose distances rank like the kernel distance."""
        X, seen = self.views.arrays[v], self.mask[:, v]
        rows = X if seen.all() else X[seen]
        points = rows if self.maps is None else self.maps[v].kernel.euclidean_points(rows)
        return super()._points(v) if points is None else points


@dataclass(frozen=True, kw_only=True)
class _StackedSamples(Samples):
    """Samples of several views as one set. Scatters have columns for the features of each view."""

    points: Rows  # the original samples, which need as many features in every view

    def _points(self, v: int) -> Rows:
        return self.points

    def _patch_scatter(self, ranks: tuple[Any, Any, float], paired: float, intra: float, inter: float) -> Array:
        return intra * graph_scatter(self.arrays, self.patches[0].edges(*ranks))[0]


def leading_coordinates(rows: Samples, maps: Sequence[Array]) -> Array:
    """The largest coordinates of the samples of each view along each component, (n, d)."""
    latents = (product(X, np.ascontiguousarray(w)) for X, w in zip(rows.arrays, maps, strict=True))
    return np.array([leading_entries(to_numpy(Z)) for Z in latents])
