"""Training data of Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossview._backend import column_sums, fill_missing
from crossview._types import Array
from crossview.embeddings._data import TrainingData, leading_coordinates
from crossview.kernels import KernelMap, kernel_features
from crossview.linalg.eigen import component_signs
from crossview.linalg.lazy import LazySamples
from crossview.linalg.samples import Samples
from crossview.linalg.span import deviation, direction_if_constant, unit_image
from crossview.views import Views


@dataclass(frozen=True, kw_only=True)
class LazyTrainingData(LazySamples, TrainingData):
    """Training views of Dask arrays, in blocks of rows."""

    @classmethod
    def of_kernel_maps(
        cls, maps: list[KernelMap], samples: LazySamples, views: Views, *, center: bool
    ) -> LazyTrainingData:
        """Centre the features of kernel maps. Workers compute them whenever they need them."""
        blocks, widths = samples.blocks.map(_features, maps), [len(one.factor) for one in maps]
        points = samples.blocks.map(_kernel_points, maps)
        features = replace(samples, blocks=blocks, points=points, widths=widths)
        means = [np.zeros(r) for r in widths]
        nulls: list[Array | None] = [None] * len(maps)
        if center:
            images, n = [unit_image(one.factor) for one in maps], len(maps)
            found = features.total(_sums_and_deviations, images)
            means = [*map(np.divide, found[:n], features.n_seen)]
            nulls = [*map(direction_if_constant, images, found[n:], features.n_seen)]
            features = features.shifted(means)
        return cls(views=views, means=means, maps=maps, nulls=nulls, **vars(features))

    def signs(self, W: Array) -> Array:
        """Signs, (d,), that make the largest coordinate of a training sample along each component positive."""
        leading = self.of_blocks(leading_coordinates, self.split(W))
        return component_signs(np.concatenate(np.stack(leading, axis=1)))


def _features(rows: Samples, maps: Sequence[KernelMap]) -> Samples:
    arrays = []
    for one, present, seen in zip(maps, rows.single_views(), rows.mask.T, strict=True):
        features = kernel_features(one.kernel, one.landmarks, one.factor, present.arrays[0])
        arrays.append(fill_missing(features, seen))
    return replace(rows, arrays=arrays)


def _kernel_points(rows: Samples, maps: Sequence[KernelMap]) -> Samples:
    """Points whose distances rank like the kernel distance, the features if there are no others."""
    points = [one.kernel.euclidean_points(X) for one, X in zip(maps, rows.arrays, strict=True)]
    return _features(rows, maps) if any(X is None for X in points) else replace(rows, arrays=points)


def _sums_and_deviations(rows: Samples, images: Sequence[Array]) -> list[Array]:
    """Sums of the features of each view, and what `deviation` gives for it."""
    present = zip(rows.single_views(), images, strict=True)
    deviations = [deviation(one.arrays[0], u) if len(one) else np.zeros(2) for one, u in present]
    return [*map(column_sums, rows.arrays), *deviations]
