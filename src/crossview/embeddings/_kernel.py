"""Methods behind a kernel map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Tags

from crossview._types import Array, Indices
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.kernels import Kernel, KernelMap
from crossview.linalg.eigen import component_signs
from crossview.preprocessing import ViewKernel
from crossview.views import Views

__all__ = ["KernelEmbedding"]


class KernelEmbedding(Embedding):
    """A method behind `crossview.ViewKernel`. It stands before the linear method that it makes a kernel method of.

    Maps are kept as coefficients of kernel values, so that new samples need no triangular solve.
    """

    kernel: str | Callable[..., float]
    gamma: float | Sequence[float] | None
    gamma_scale: float
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    n_landmarks: int | None
    random_state: int | np.random.RandomState | None

    gamma_: list[float | None]
    kernels_: list[Kernel]
    landmarks_: list[Any]
    offsets_: list[Array]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        own = ViewKernel(**{name: getattr(self, name) for name in ViewKernel().get_params()})
        own.check(views)
        maps, features = zip(*own.maps(views, center=self.center), strict=True)
        return TrainingData.behind(list(maps), list(features), views, classes, center=self.center)

    def _store_maps(self, data: TrainingData, W: Array) -> None:
        assert data.maps is not None
        # Coefficients depend on which landmarks were taken, latent samples do not.
        signs = component_signs(np.vstack(data.latents(W)))
        parts = data.split(W * signs)
        rows = [np.flatnonzero(seen)[m.pivots] for m, seen in zip(data.maps, data.mask.T, strict=True)]
        factors = (R[k] + mean for R, k, mean in zip(data.arrays, rows, data.means, strict=True))
        self.projections_ = [KernelMap.coefficients(factor, w) for factor, w in zip(factors, parts, strict=True)]
        self.offsets_ = [mean @ w for mean, w in zip(data.means, parts, strict=True)]
        self.kernels_ = [m.kernel for m in data.maps]
        self.landmarks_ = [m.landmarks for m in data.maps]
        self.gamma_ = [kernel.gamma for kernel in self.kernels_]

    def _map(self, X: Array, v: int) -> Array:
        return self.kernels_[v].against(self.landmarks_[v], X) @ self.projections_[v] - self.offsets_[v]
