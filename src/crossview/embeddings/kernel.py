"""Kernel methods: linear methods on explicit kernel features."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from crossview._parameters import parameters
from crossview._schema import Schema
from crossview._types import Array, Indices, Rows
from crossview._validation import check_choice, check_weight
from crossview.embeddings._base import GAMMA_SCALES, N_COMPONENTS, WHITENINGS, CoupledEmbedding, Embedding, SearchSpace
from crossview.embeddings.correlation import CCA
from crossview.embeddings.hybrid import RECALL, MvHE, check_norm, shift_nulls
from crossview.engines import chunks, product, shift, zeros
from crossview.feature_maps import KernelTransformer
from crossview.linalg.eigen import factor_blocks, ridge, smallest_eigenpairs, unwhiten, whiten
from crossview.linalg.norm import CoupledNorm, coupling_inverse
from crossview.samples import Samples, features_of
from crossview.views import Views

__all__ = ["KCCA", "KMvHE", "KernelEmbedding"]

AUTO_REG = 0.05
"""Ridge of `KMvHE` with landmarks with ``reg="auto"``."""

_NO_VARIANCE = 1e-5  # variance, relative to the mean of all directions, that adds next to nothing to a constraint


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
            return samples.with_features(maps).centred_features(maps, self.center)
        if not self.coupling_:
            maps, features = self._fit_kernel_maps(views, center=self.center)
            return features_of(features, views, classes).centred_features(maps, self.center)
        inverse = coupling_inverse(self.coupling_, views.shape[1])
        maps, features, views_of = self._fit_pooled_kernel_maps(views, inverse)
        data = replace(features_of(features, views, classes), one_map=True, shares=[one[views_of] for one in inverse])
        return data.centred_features(maps, self.center, views_of)

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


@parameters
class KCCA(KernelEmbedding, CCA):
    r"""Kernel Canonical Correlation Analysis of two views.

    CCA in the feature space of a kernel: maximises :math:`A_1^\top K_1 K_2 A_2` subject to
    :math:`A_v^\top (K_v K_v + \rho_v K_v) A_v = I` [1]_. Without the regulariser ρ, any two views would be perfectly
    correlated. Equivalent to ``make_pipeline(ViewKernel(...), CCA(...))``.

    Parameters
    ----------
    reg : float or sequence of float
        Regulariser ρ, one for both views or one per view, relative to the mean non-zero eigenvalue of the (centred)
        kernel matrix.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Canonical correlations (with the regulariser in the denominators), descending.

    References
    ----------
    .. [1] S. Akaho, "A Kernel Method for Canonical Correlation Analysis", IMPS 2001.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.KCCA(n_components=5).fit(data.views[:300]).transform(data.views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    search_space: ClassVar[SearchSpace] = {**CCA.search_space, "gamma_scale": GAMMA_SCALES}
    _refits: ClassVar[tuple[str, ...]] = ("reg", "whitening")


@parameters
class KMvHE(KernelEmbedding, MvHE):
    r"""Kernel Multi-view Hybrid Embedding: MvHE in the feature space of a kernel.

    With :math:`W_v = \phi(X_v) A_v`, it solves the generalised eigenproblem of the `MvHE` objective under
    :math:`A^\top K A = n I` [1]_, in explicit coordinates of the part of the feature space that the training samples,
    or landmarks among them, span. If all samples are landmarks and maps are not coupled, it is equivalent to
    ``make_pipeline(ViewKernel(...), MvHE(...))``. With `n_landmarks`, neighbours by the rbf, linear and cosine kernels
    are still exact, and components have unit variance instead of unit norm (see `reg`).

    Parameters
    ----------
    reg : float, "auto" or None
        None keeps the constraint of the paper, unit norm. A number is the ridge of components of unit variance: the fit
        minimises :math:`\operatorname{tr} W^\top (S + R) W`, where S is the scatter of the objective and R is `reg`
        times the mean of its absolute diagonal within each view, subject to
        :math:`W^\top \operatorname{diag}(C_1, \dots, C_n) W = n I`, where :math:`C_v` is the covariance of view v.
        ``"auto"`` is 0.05 if `n_landmarks` is given, and None otherwise.
    random_state : int, RandomState or None
        Seed for drawing the landmarks and the patches.

    Notes
    -----
    KMvHE is less sensitive to its weights than MvHE: over ten data sets, without coupling, the default weights are
    within a fraction of a point of the setting with the smallest average loss (``benchmarks/defaults.md``). The paper
    uses ``lambda_intra=0.005``, ``lambda_inter=0.001``, ``beta=1.1``, ``n_within=3`` and ``n_between=15``.
    Neither suits ``kernel="linear"``: use `MvHE`, or its weights.

    The samples hardly vary in many directions of the features of few landmarks. Under the constraint of the paper,
    these have the smallest objective, and matching fails. With a tenth of the samples or fewer as landmarks, unit
    variance is often tens of points more accurate; with a third or more, try both (``docs/results/landmarks.md``).

    References
    ----------
    .. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A
       Divide-and-Conquer Approach", IEEE Transactions on Cybernetics.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.KMvHE(n_components=10).fit(data.views[:300], data.y[:300])
    >>> model.transform_view(data.views["right"][300:], "right").shape
    (1497, 10)
    """

    lambda_intra: float = 0.01
    lambda_inter: float = 0.05
    reg: float | str | None = "auto"

    search_space: ClassVar[SearchSpace] = {
        # The paper's best λ2 is smaller, and its best β larger, than for MvHE.
        "n_components": N_COMPONENTS,
        "lambda_intra": [0.001, 0.005, 0.01, 0.1],
        "lambda_inter": [0.001, 0.01, 0.05, 0.3],
        "beta": [0.1, 0.3, 1.1],
        "n_within": [1, 3],
        "n_between": [15, 30],
        "gamma_scale": GAMMA_SCALES,
        "coupling": ["auto", 0.0, 4.0, 16.0, 64.0],
        "whitening": WHITENINGS,
    }
    _refits = (*(name for name in MvHE._refits if name != "coupling"), "reg")
    _revision = 2
    _schema: ClassVar[Schema] = {**KernelEmbedding._schema, **RECALL}

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        return self._with_patches(super()._training_data(views, classes))

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        if isinstance(self.reg, str):
            check_choice(self.reg, "reg", ("auto",))
        elif self.reg is not None:
            check_weight(self.reg, "reg")

    def _components(self, S: Array, data: Samples, d: int) -> tuple[Array, Array]:
        # Samples have no say, so that the folds of a search and the final fit solve the same problem.
        automatic = None if self.n_landmarks is None else AUTO_REG
        reg = automatic if self.reg == "auto" else self.reg
        if reg is None:
            return super()._components(S, data, d)
        check_norm(S)
        S = np.tril(S) + np.tril(S, -1).T
        # Unlike covariances, S may have negative entries on the diagonal, where `ridge` would subtract.
        diagonal, n = np.abs(np.diagonal(S)), len(data.n_features)
        parts = [diagonal] if data.one_map else data.split(diagonal)
        ridges = np.concatenate([np.full(len(part), part.mean()) for part in parts])
        S[np.diag_indices(len(S))] += float(reg) * ridges
        shift_nulls(S, data, ridges)  # which the small variance there multiplies
        covariances = [gram / m for gram, m in zip(data.grams(), data.n_seen, strict=True)]
        if data.one_map:
            covariances = [sum(covariances[1:], covariances[0])]
        factors = factor_blocks([ridge(C, _NO_VARIANCE) for C in covariances])
        eigenvalues, V = smallest_eigenpairs(whiten(S, factors), d, overwrite=True, engine=data.views.arrays[0])
        W = unwhiten(V, factors) * np.sqrt(n)
        return eigenvalues, np.concatenate([W] * n) if data.one_map else W
