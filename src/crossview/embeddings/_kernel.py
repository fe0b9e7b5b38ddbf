"""Kernel methods: linear methods on explicit kernel features."""

from typing import ClassVar

import numpy as np

from crossview._schema import Schema
from crossview._types import Array, Indices, Rows
from crossview.embeddings._base import Embedding
from crossview.engines import chunks, product, shift, zeros
from crossview.feature_maps import KernelTransformer
from crossview.linalg.norm import CoupledNorm, coupling_inverse
from crossview.samples import Samples
from crossview.views import Views


class KernelEmbedding(KernelTransformer, Embedding):
    """Base that turns a linear method, the next base of a subclass, into a kernel method.

    Maps are stored as coefficients of kernel values, so transforming new samples needs no triangular solve.
    """

    offsets_: list[Array]
    _schema: ClassVar[Schema] = {
        **KernelTransformer._schema,
        "projections_": ["r d"],
        "offsets_": ["d"],
        "eigenvalues_": "d",
        "coupling_??": Embedding._schema["coupling_??"],
    }

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        self.coupling_ = self._resolved_coupling(views)
        if views._place == "Dask":
            maps, samples = self._fit_lazy_kernel_maps(views, classes, center=self.center)
            return samples.with_features(maps, center=self.center)
        if not self.coupling_:
            maps, features = self._fit_kernel_maps(views, center=self.center)
            return Samples.of_features(features, maps, views, classes, center=self.center)
        inverse = coupling_inverse(self.coupling_, views.shape[1])
        maps, features, views_of = self._fit_pooled_kernel_maps(views, inverse)
        shares = [share[views_of] for share in inverse]
        return Samples.of_features(features, maps, views, classes, center=self.center, shares=shares, views_of=views_of)

    def _resolved_coupling(self, views: Views, centred: Samples | None = None) -> float:
        # Neither Dask arrays nor precomputed kernels can be coupled.
        if self.coupling == "auto" and (views._place == "Dask" or self.kernel == "precomputed"):
            return 0.0
        return super()._resolved_coupling(views, centred)

    def _instead_of_lazy(self) -> str | None:
        return super()._instead_of_lazy() if self.coupling in (0, "auto") else "set coupling=0"

    def _norm(self, data: Samples) -> CoupledNorm:
        # The coupled norm is in the features of a pooled kernel, where all views share a map.
        return CoupledNorm(np.inf if data.one_map else 0.0, data.n_features)

    def _store_maps(self, data: Samples, W: Array) -> None:
        # Signs from the latent samples do not depend on the choice of landmarks, unlike those of the coefficients.
        parts = data.split(W * data.signs(W))
        self.projections_ = [m.coefficients(w) for m, w in zip(data.maps, parts, strict=True)]
        if data.shares:
            self.projections_ = [share[:, None] * A for share, A in zip(data.shares, self.projections_, strict=True)]
        self.offsets_ = [mean @ w for mean, w in zip(data.means, parts, strict=True)]
        self._store_kernels(data.maps)

    def _map(self, X: Rows, v: int) -> Rows:
        latents = zeros(X, len(X), self._n_outputs(v))
        maps = np.ascontiguousarray(self.projections_[v])
        for rows in chunks(X, len(maps)):
            K = self.kernels_[v].against(self.landmarks_[v], X[rows])
            latents[rows] = shift(product(K, maps), self.offsets_[v])
        return latents
