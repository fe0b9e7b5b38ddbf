"""Kernel methods: linear methods on explicit kernel features."""

import numpy as np

from crossview._backend import chunks, empty_rows, product, shift, to_numpy
from crossview._types import Array, Indices, Rows
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.feature_maps import KernelTransformer
from crossview.kernels import KernelMap
from crossview.linalg.eigen import component_signs
from crossview.views import Views


class KernelEmbedding(KernelTransformer, Embedding):
    """Base that turns a linear method, the next base of a subclass, into a kernel method.

    Maps are stored as coefficients of kernel values, so transforming new samples needs no triangular solve.
    """

    offsets_: list[Array]
    _instead_of_lazy = (
        "fit a ViewKernel to some samples in memory, transform the Dask arrays with it, and pass the result to the "
        "linear method"
    )

    def _training_data(self, views: Views, classes: Indices | None) -> TrainingData:
        maps, features = self._fit_kernel_maps(views, center=self.center)
        return TrainingData.from_kernel_maps(maps, features, views, classes, center=self.center)

    def _store_maps(self, data: TrainingData, W: Array) -> None:
        assert data.maps is not None
        # Signs from the latent samples do not depend on the choice of landmarks, unlike those of the coefficients.
        parts = data.split(W * component_signs(np.vstack([to_numpy(Z) for Z in data.latents(W)])))
        rows = [np.flatnonzero(seen)[m.pivots] for m, seen in zip(data.maps, data.mask.T, strict=True)]
        factors = (to_numpy(R[k]) + mean for R, k, mean in zip(data.arrays, rows, data.means, strict=True))
        self.projections_ = [KernelMap.coefficients(factor, w) for factor, w in zip(factors, parts, strict=True)]
        self.offsets_ = [mean @ w for mean, w in zip(data.means, parts, strict=True)]
        self._store_kernels(data.maps)

    def _map(self, X: Rows, v: int) -> Rows:
        latents = empty_rows(X, self._n_outputs(v))
        maps = np.ascontiguousarray(self.projections_[v])
        for rows in chunks(X, len(maps)):
            K = self.kernels_[v].against(self.landmarks_[v], X[rows])
            latents[rows] = shift(product(K, maps), self.offsets_[v])
        return latents
