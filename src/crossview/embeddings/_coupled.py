"""Base classes of methods whose maps are coupled: in the coupled norm, by ratios of scatters, and of kernels."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.base import clone

from crossview._parameters import parameters
from crossview._schema import Schema
from crossview._types import Array, Indices, Rows
from crossview._validation import check_coupling
from crossview.embeddings._base import COUPLINGS, N_COMPONENTS, RIDGES, WHITENINGS, Embedding, SearchSpace
from crossview.engines import chunks, n_missing, product, shift, zeros
from crossview.feature_maps import KernelTransformer
from crossview.linalg.eigen import largest_generalised_eigenpairs, ridge
from crossview.linalg.norm import CoupledNorm, coupling_inverse
from crossview.samples import Samples, pair_weights, samples_of
from crossview.views import Views

AUTO_COUPLING = 8.0
"""Coupling of views with common coordinates with ``coupling="auto"``."""

_ZERO_EIGENVALUE = 1e-12  # relative to the largest


@parameters
class CoupledEmbedding(Embedding):
    """Base of methods that learn the maps of all views together, in the coupled norm.

    Parameters
    ----------
    coupling : float or "auto"
        c: cost of differences between the maps of the views, from 0 (the published method) to infinity (one map for all
        views). Above 0, the views must share their coordinates: pixels of aligned images, or the features of one
        network. ``"auto"`` is 8 if they seem to, and 0 otherwise. See `MvHE`.
    """

    n_components: int | str = field(default=20, kw_only=False)
    coupling: float | str = 0.0
    whitening: float | None = None
    center: bool = True

    _drop_nonpositive: ClassVar[bool] = False  # drop components from the first eigenvalue that is not positive

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_coupling(self.coupling, views)

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        data = super()._training_data(views, classes)
        self.coupling_ = self._resolved_coupling(views, data if self.center else None)
        return data

    def _resolved_coupling(self, views: Views, centred: Samples | None = None) -> float:
        """The coupling to use: the given one or, if that is ``"auto"``, one that suits the views."""
        if self.coupling != "auto":
            return float(self.coupling)
        if centred is None or n_missing(views.mask) != 0:  # samples may have other weights
            centred = samples_of(views, None, pair_weights).centred()
        return AUTO_COUPLING if centred.features_correspond() else 0.0

    def _norm(self, data: Samples) -> CoupledNorm:
        """The norm of the maps."""
        return CoupledNorm(self.coupling_, data.n_features, data.spans)

    def _max_components(self, data: Samples) -> int:
        return self._norm(data).order - len(data.nulls)

    def _n_kept(self, data: Samples, eigenvalues: Array, W: Array) -> int:
        if not self._drop_nonpositive:
            return int(W.shape[1])
        positive = eigenvalues > _ZERO_EIGENVALUE * max(eigenvalues[0], 0.0)
        if not positive[0]:
            raise ValueError("no component makes the objective larger than 0: check the weights, labels and views.")
        return int(positive.argmin()) if not positive.all() else len(positive)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Prepare the data once. Settings that only differ in the whitening share a solution if they are neighbours."""
        unfitted: Self = clone(self)

        def with_params(setting: Mapping[str, Any]) -> Any:
            # As clone and set_params, whose inspection of signatures would take longer than scoring.
            model = copy(unfitted)
            model.__dict__.update(setting)
            return model

        def is_valid(model: Self) -> bool:
            try:
                model._check_params(views)
            except ValueError:
                return False
            return True

        data, solve = self._shared_solver([*filter(is_valid, map(with_params, settings))], views, y)
        resolve = cache(lambda coupling: clone(self).set_params(coupling=coupling)._resolved_coupling(data.views))
        last: list[Any] = []  # the setting but for its whitening, and its solution

        def refit(setting: Mapping[str, Any]) -> Any:
            model = with_params(setting)
            model._check_params(data.views)
            model.coupling_ = resolve(model.coupling)
            rest = {name: value for name, value in setting.items() if name != "whitening"}
            if not last or last[0] != rest:
                last[:] = rest, solve(model, data, model._n_solved(data))
            model._store(data, *last[1])
            model._remember(data.views)
            return model

        return refit

    def _shared_solver(
        self, models: Sequence[Self], views: Views, y: ArrayLike | None
    ) -> tuple[Samples, Callable[[Self, Samples, int], tuple[Array, Array]]]:
        """Training data for models that differ in `_refits`, and a function that solves their problems."""
        model, couplings = copy(self), [one.coupling for one in models]
        # Coordinates that views share serve every coupling, and whitening needs labels.
        if len(set(views.n_features)) == 1 and any(c != "auto" for c in couplings):
            model.coupling = max(AUTO_COUPLING if c == "auto" else float(c) for c in couplings)
        model.whitening = None if all(one.whitening is None for one in models) else 0.0
        return model._prepare(views, y), type(self)._solve


@parameters
class RatioEmbedding(CoupledEmbedding):
    """Base of methods that maximise ``tr W'AW`` subject to ``W'BW = I``. A subclass gives A and B in `_problem`.

    Parameters
    ----------
    reg : float
        Ridge on the matrix of the constraint, relative to its mean diagonal: in each view or, with coupling, in the
        coordinates of the coupled norm of the maps.
    """

    reg: float | Sequence[float] = 0.1

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "reg": RIDGES,
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
    _refits: ClassVar[tuple[str, ...]] = ("reg", "coupling", "whitening")

    def _problem(self, data: Samples) -> tuple[Array, Array | Sequence[Array]]:
        """The matrices A and B, or the diagonal blocks of B."""
        raise NotImplementedError("a subclass defines the problem")

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        A, B = self._problem(data)
        reg = float(np.mean(self.reg))
        if not self.coupling_:
            ridged = ridge(B, reg, data.n_features) if isinstance(B, np.ndarray) else [ridge(one, reg) for one in B]
            return largest_generalised_eigenpairs(A, ridged, d)
        norm = self._norm(data)
        constraint = B if isinstance(B, np.ndarray) else scipy.linalg.block_diag(*B)
        if not norm.one_map:  # the ridge alone depends on the norm
            return largest_generalised_eigenpairs(A, norm.ridged(constraint, reg), d)
        values, U = largest_generalised_eigenpairs(norm.restrict(A), ridge(norm.restrict(constraint), reg), d)
        return values, norm.expand(U)


class KernelEmbedding(KernelTransformer, CoupledEmbedding):
    r"""Base that turns a linear method, the next base of a subclass, into a kernel method.

    Maps are stored as coefficients of kernel values, so transforming new samples needs no triangular solve.

    Parameters
    ----------
    coupling : float or "auto"
        c: as in `MvHE`; ``"auto"`` is 0 for Dask arrays and precomputed kernels. Above 0, all views have the same
        kernel and landmarks, and their samples are centred before the kernel. By the representer theorem, the maps are
        those of one map on pairs of a view and a sample with kernel
        :math:`(I + c (I - J))^{-1}_{vw} \, k(x - \mu_v, z - \mu_w)`, which is exact and of the same order.
    center : bool
        Subtract the training mean of each view in the feature space.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (r_v, d)
        A_v: coefficients of the kernel values against the landmarks of each view. Along each component, the largest
        coordinate of a training sample is positive.
    offsets_ : list of ndarray, each of shape (d,)
        Training mean of each view in the common space, subtracted after projecting.
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
