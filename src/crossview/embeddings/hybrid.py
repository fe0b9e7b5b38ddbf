"""Multi-view Hybrid Embedding and its kernel form."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import daxpy
from sklearn.utils.random import sample_without_replacement

from crossview._schema import Schema, number
from crossview._types import Array
from crossview._validation import check_choice, check_count, check_weight
from crossview.embeddings._base import COUPLINGS, GAMMA_SCALES, N_COMPONENTS, WHITENINGS, Embedding, SearchSpace
from crossview.embeddings._kernel import KernelEmbedding
from crossview.linalg.eigen import factor_blocks, ridge, smallest_eigenpairs, unwhiten, whiten
from crossview.linalg.norm import CoupledNorm
from crossview.neighbours.classes import check_neighbours
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["KMvHE", "MvHE"]

AUTO_REG = 0.05
"""Ridge of `KMvHE` with landmarks with ``reg="auto"``."""

_WEIGHTS = ("lambda_paired", "lambda_intra", "lambda_inter", "beta", "n_within", "n_between")
_NO_VARIANCE = 1e-5  # variance, relative to the mean of all directions, that adds next to nothing to a constraint


class MvHE(Embedding):
    r"""Multi-view Hybrid Embedding.

    Learns one map per view into a common space, combining three models: LE-paired brings the views of a sample
    together, LDE-intra keeps each sample close to its class and away from others within a view, and LDE-inter does the
    same across views. With :math:`y_i^k = W_i^\top x_i^k`, it minimises

    .. math::
        & \lambda_0 \sum_{i} \sum_{j \neq i} \sum_k \|y_i^k - y_j^k\|^2 \\
        & + \lambda_1 \sum_{i, k} \Big( \sum_{s=1}^{p_1} \|y_i^k - (y_i^k)_s\|^2
        - \beta \sum_{t=1}^{p_2} \|y_i^k - (y_i^k)^t\|^2 \Big) \\
        & + \lambda_2 \sum_{i, k} \sum_{j \neq i} \Big( \sum_{s=1}^{p_1} \|y_i^k - (y_j^k)_s\|^2
        - \beta \sum_{t=1}^{p_2} \|y_i^k - (y_j^k)^t\|^2 \Big)

    subject to :math:`W^\top W = n I`, where :math:`(x)_s` is the s-th nearest sample of the same class as x in its
    view, and :math:`(x)^t` the t-th nearest sample of other classes. The solution consists of the d smallest eigenpairs
    of one symmetric matrix of order :math:`\sum_v D_v` [1]_.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space. A number is capped at the number available, as in all methods; see
        ``n_components_``. For ``"auto"``, see the notes.
    lambda_paired, lambda_intra, lambda_inter : float
        λ0, λ1, λ2: weights of LE-paired (1 in the paper), LDE-intra and LDE-inter; 0 disables a model.
    beta : float
        β: weight of between-class distances relative to within-class distances.
    n_within, n_between : int
        p1, p2: neighbours of the same class and of other classes in a patch. Smaller classes contribute all they have.
    coupling : float or "auto"
        c: cost of differences between the maps of the views, from 0 (the published method) to infinity (one map for all
        views). Above 0, the views must share their coordinates: pixels of aligned images, or the features of one
        network. ``"auto"`` is 8 if they seem to, and 0 otherwise. See the notes.
    whitening : float, optional
        Transform the common space so that samples have unit covariance around their class means, with this ridge
        relative to the mean variance of the components [2]_. None does not.
    center : bool
        Subtract the training mean of each view first. The paper does not, but it improves accuracy.
    algorithm : {"auto", "exact", "approximate"}
        How to search for neighbours. The time of an exact search grows with the square of the number of samples, that
        of an approximate one about linearly. The approximate search needs faiss
        (``pip install 'crossview[approximate]'``). ``"auto"`` uses it from 30,000 samples, or more if `n_patches` is
        small, if faiss is installed.
    n_patches : int, optional
        Number of patches to align, those of samples drawn at random; their sum estimates the sum over all patches
        without bias. By default, the patches of all samples. Set it for Dask arrays: every block of centres meets every
        block of samples, so the patches of all samples take many passes over the data.
    random_state : int, RandomState or None
        Seed for drawing the patches.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        Map of each view, W_v. The largest entry of each component, over all views, is positive.
    eigenvalues_ : ndarray of shape (d,)
        The smallest eigenvalues, ascending.
    means_ : list of ndarray, each of shape (D_v,)
        Offset subtracted from each view: its training mean, or zero.
    coupling_ : float
        The coupling in use.
    neighbour_recall_ : float
        Share of the true neighbours among those found, measured on a sample of patches: 1 for an exact search, the
        lowest of all views for an approximate one.
    view_names_ : list of str
        Names of the views.
    n_features_ : tuple of int
        Number of features of each view, D_v.
    feature_names_ : list
        Column names of each view, a list of str, or None if it had none.
    image_shape_ : tuple of int or None
        Height and width of the images, if the views were images.

    Notes
    -----
    The best weights depend on the data: search for them with `crossview.tune`. `crossview.config_context` shows the
    progress of long fits, and moves the work to a GPU.

    With coupling, the norm of the maps in the constraint becomes
    :math:`\sum_v \|W_v\|^2 + c \sum_v \|W_v - \bar W\|^2`, where :math:`\bar W` is the mean of the maps: what the maps
    share is cheap, and they differ only where the data ask for it [3]_. With ``coupling="auto"``, coordinates count as
    shared if centred training samples resemble themselves in other views, where
    :math:`\sum_{i \neq j} \sum_k \langle x_i^k, x_j^k \rangle` is at least 0.2 of
    :math:`(n - 1) \sum_{i, k} \|x_i^k\|^2`, and more so than with the features in another order, by four standard
    deviations over all orders.

    Each map is restricted to the span of the centred training samples of its view. If features are constant or depend
    on each other (always the case with more features than samples), the objective is zero, hence optimal, in directions
    in which no training sample varies, but these directions are useless. Singular values below ``max(m, D_v) · eps``
    times the largest count as zero. If the samples span all directions, this is the formula of the paper.

    The last components of the eigenproblem separate the views of a sample: using all components, matching is no better
    than chance. ``n_components="auto"`` keeps at most 40, and only those before the first along which the views hardly
    agree, where :math:`\sum_{i \neq j} \sum_k y_i^k y_j^k` over the training samples is below 0.1 of
    :math:`(n - 1) \sum_{i, k} (y_i^k)^2`.

    Among many settings without coupling, the default weights have the smallest average loss compared with the best
    setting for each of ten data sets (``benchmarks/defaults.md``). The paper uses ``lambda_intra=0.01``,
    ``lambda_inter=0.05``, ``beta=0.1``, ``n_within=1`` and ``n_between=15``, which suit images of objects.

    References
    ----------
    .. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A
       Divide-and-Conquer Approach", IEEE Transactions on Cybernetics.
    .. [2] A. O. Hatch, S. Kajarekar, A. Stolcke, "Within-Class Covariance Normalization for SVM-based Speaker
       Recognition", Interspeech 2006.
    .. [3] T. Evgeniou, M. Pontil, "Regularized Multi-Task Learning", KDD 2004.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.MvHE(n_components=10).fit(data.views[:900], data.y[:900])
    >>> [latent.shape for latent in model.transform(data.views[900:]).arrays]
    [(897, 10), (897, 10)]
    """

    search_space: ClassVar[SearchSpace] = {
        # On ten data sets, no setting outside gains more than one point (benchmarks/defaults.md).
        "n_components": N_COMPONENTS,
        "lambda_intra": [0.01, 0.1],
        "lambda_inter": [0.05, 0.3],
        "beta": [0.1, 0.3],
        "n_within": [1, 3],
        "n_between": [15, 30],
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
    _refits: ClassVar[tuple[str, ...]] = (*_WEIGHTS, "coupling", "whitening")
    _needs_labels = True
    _weighs_pairs = False
    _allows_auto_components = True
    _restrict_to_span = True
    neighbour_recall_: float
    _schema: ClassVar[Schema] = {**Embedding._schema, "neighbour_recall_??": number(0.0, 1.0)}

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        lambda_paired: float = 1.0,
        lambda_intra: float = 0.1,
        lambda_inter: float = 0.3,
        beta: float = 0.1,
        n_within: int = 1,
        n_between: int = 15,
        coupling: float | str = "auto",
        whitening: float | None = None,
        center: bool = True,
        algorithm: str = "auto",
        n_patches: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.lambda_paired = lambda_paired
        self.lambda_intra = lambda_intra
        self.lambda_inter = lambda_inter
        self.beta = beta
        self.n_within = n_within
        self.n_between = n_between
        self.coupling = coupling
        self.whitening = whitening
        self.center = center
        self.algorithm = algorithm
        self.n_patches = n_patches
        self.random_state = random_state

    def _check_params(self, n_views: int) -> None:
        self._check_weights()
        check_neighbours(self.algorithm)
        if self.n_patches is not None:
            check_count(self.n_patches, "n_patches", least=1)

    def _check_weights(self) -> None:
        for name in ("n_within", "n_between"):
            check_count(getattr(self, name), name, least=0)
        for name in ("lambda_paired", "lambda_intra", "lambda_inter", "beta"):
            check_weight(getattr(self, name), name)
        if not (self.lambda_paired or self.lambda_intra or self.lambda_inter):
            raise ValueError("lambda_paired, lambda_intra and lambda_inter are all 0: set at least one above 0.")

    def _couples_views(self) -> bool:
        return bool(self.lambda_paired or self.lambda_inter)

    def _find_neighbours(self, data: Samples) -> Samples:
        centres = None
        if self.n_patches is not None and self.n_patches < len(data):
            # Unlike the method of a generator, this takes no memory for the samples that are not drawn.
            centres = np.sort(sample_without_replacement(len(data), self.n_patches, random_state=self.random_state))
        return data.with_patches(self.n_within, self.n_between, self.algorithm, centres)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            S = self._scatter(data.through(self._norm(data)))
        return self._components(S, data, d)

    def _scatter(self, data: Samples) -> Array:
        """Scatter matrix of the objective, (ΣD_v, ΣD_v); lower triangle of blocks."""
        return data.patch_scatter(
            self.n_within,
            self.n_between,
            between_weight=-self.beta,
            paired=self.lambda_paired,
            intra=self.lambda_intra,
            inter=self.lambda_inter,
        )

    def _components(self, S: Array, data: Samples, d: int) -> tuple[Array, Array]:
        """The d smallest eigenvalues of a scatter matrix, and the components with W'MW = nI. Overwrites S."""
        _shift_nulls(S, data, np.full(len(S), 2.0 * _check_norm(S)))  # above all other eigenvalues
        norm, n = self._norm(data), len(data.n_features)
        eigenvalues, U = smallest_eigenpairs(norm.restrict(S), d, overwrite=True, engine=data.views.arrays[0])
        # The features of a pooled kernel have the coupled norm already, so all of it is that of one map.
        share = n if data.one_map else 1
        return share * eigenvalues, norm.expand(U) * np.sqrt(n * share)

    def _store(self, data: Samples, eigenvalues: Array, W: Array) -> Self:
        self.neighbour_recall_ = data.neighbour_recall
        return super()._store(data, eigenvalues, W)

    def _shared_solver(
        self, models: Sequence[Self], views: Views, y: ArrayLike | None
    ) -> tuple[Samples, Callable[[Self, Samples, int], tuple[Array, Array]]]:
        """Compute the terms of the objective once; each setting then costs an eigen-solve."""
        valid = [model for model in models if model._has_valid_weights()]
        within, between = {model.n_within for model in valid}, {model.n_between for model in valid}
        n_weights = len({tuple(getattr(model, name) for name in _WEIGHTS) for model in valid})
        largest = copy(self)
        largest.n_within, largest.n_between = max(within, default=0), max(between, default=0)
        data, _ = super(MvHE, largest)._shared_solver(models, views, y)
        # One scatter costs about as much as one term, so terms only pay off for many settings; where maps are
        # restricted, they would be larger than what remains.
        restricted = any(span is not None for span in data.spans)
        many = n_weights > 1 + 2 * (len(within) + len(between)) and not restricted
        terms = _Terms(data, within, between) if many else None
        through = lru_cache(lambda coupling: data.through(CoupledNorm(coupling, data.n_features, data.spans)))

        def solve(model: Self, data: Samples, d: int) -> tuple[Array, Array]:
            S = model._scatter(through(model.coupling_)) if terms is None else terms.scatter(model)
            return model._components(S, data, d)

        return data, solve

    def _has_valid_weights(self) -> bool:
        try:
            self._check_weights()
        except ValueError:
            return False
        return True


class _Terms:
    """The terms of the scatter of MvHE, which make any other weighting cheap.

    The objective is a sum, and so is its scatter, ``λ0 S_J + λ1 (S_U⁺ - β S_U⁻) + λ2 (S_V⁺ - β S_V⁻)``. The last four
    terms are sums over the ranks of the neighbours, kept in parts: the first ranks, those up to the next number, and so
    on. The patches of the data must be as large as the largest numbers.
    """

    def __init__(self, data: Samples, within: Iterable[int], between: Iterable[int]) -> None:
        self.paired = data.patch_scatter(0, 0, paired=1.0)
        self.parts = [
            (name, stop, kind, data.patch_scatter(*ranks, **{kind: 1.0}))
            for name, numbers in (("n_within", within), ("n_between", between))
            for start, stop in pairwise([0, *sorted({*numbers} - {0})])
            for ranks in [(slice(start, stop), 0) if name == "n_within" else (0, slice(start, stop))]
            for kind in ("intra", "inter")
        ]

    def scatter(self, model: MvHE) -> Array:
        """Scatter matrix of the objective with the weights of a model."""
        S = model.lambda_paired * self.paired
        flat = S.ravel()
        for name, stop, kind, part in self.parts:
            weight = getattr(model, f"lambda_{kind}") * (1.0 if name == "n_within" else -model.beta)
            if weight and stop <= getattr(model, name):
                daxpy(part.ravel(), flat, a=weight)  # in place, in one pass over memory
        return S


class KMvHE(KernelEmbedding, MvHE):
    r"""Kernel Multi-view Hybrid Embedding: MvHE in the feature space of a kernel.

    With :math:`W_v = \phi(X_v) A_v`, it solves the generalised eigenproblem of the `MvHE` objective under
    :math:`A^\top K A = n I` [1]_, in explicit coordinates of the part of the feature space that the training samples,
    or landmarks among them, span. If all samples are landmarks and maps are not coupled, it is equivalent to
    ``make_pipeline(ViewKernel(...), MvHE(...))``. With `n_landmarks`, neighbours by the rbf, linear and cosine kernels
    are still exact, and components have unit variance instead of unit norm (see `reg`).

    Parameters
    ----------
    n_components, lambda_paired, lambda_intra, lambda_inter, beta
        As in `MvHE`.
    reg : float, "auto" or None
        None keeps the constraint of the paper, unit norm. A number is the ridge of components of unit variance: the fit
        minimises :math:`\operatorname{tr} W^\top (S + R) W`, where S is the scatter of the objective and R is `reg`
        times the mean of its absolute diagonal within each view, subject to
        :math:`W^\top \operatorname{diag}(C_1, \dots, C_n) W = n I`, where :math:`C_v` is the covariance of view v.
        ``"auto"`` is 0.05 if `n_landmarks` is given, and None otherwise.
    n_within, n_between, whitening
        As in `MvHE`.
    coupling : float or "auto"
        c: as in `MvHE`; ``"auto"`` is 0 for Dask arrays and precomputed kernels. Above 0, all views have the same
        kernel and landmarks, and their samples are centred before the kernel. By the representer theorem, the maps are
        those of one map on pairs of a view and a sample with kernel
        :math:`(I + c (I - J))^{-1}_{vw} \, k(x - \mu_v, z - \mu_w)`, which is exact and of the same order.
    center : bool
        Subtract the training mean of each view in the feature space.
    kernel, gamma, gamma_scale, degree, coef0, kernel_params, n_landmarks
        As in `ViewKernel`.
    algorithm, n_patches, random_state
        As in `MvHE`; `random_state` also draws the landmarks.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (r_v, d)
        A_v: coefficients of the kernel values against the landmarks of each view. Along each component, the largest
        coordinate of a training sample is positive.
    kernels_, landmarks_, gamma_
        As in `ViewKernel`.
    offsets_ : list of ndarray, each of shape (d,)
        Training mean of each view in the common space, subtracted after projecting.
    eigenvalues_, coupling_, neighbour_recall_, view_names_, n_features_, feature_names_, image_shape_
        As in `MvHE`.

    Notes
    -----
    KMvHE is less sensitive to its weights than MvHE: over ten data sets, without coupling, the default weights are
    within a fraction of a point of the setting with the smallest average loss (``benchmarks/defaults.md``). The paper
    uses ``lambda_intra=0.005``, ``lambda_inter=0.001``, ``beta=1.1``, ``n_within=3`` and ``n_between=15``.
    Neither suits ``kernel="linear"``: use `MvHE`, or its weights.

    The features of few landmarks have many directions in which the samples hardly vary. Under the constraint of the
    paper, these have the smallest objective, and matching fails. Under unit variance they do not, and the ridge keeps
    the components from fitting noise in them. With a tenth of the samples or fewer as landmarks, this is often tens of
    points more accurate; with a third or more, try both constraints (``docs/results/landmarks.md``).

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
    _schema: ClassVar[Schema] = {**KernelEmbedding._schema, "neighbour_recall_??": number(0.0, 1.0)}

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        lambda_paired: float = 1.0,
        lambda_intra: float = 0.01,
        lambda_inter: float = 0.05,
        beta: float = 0.1,
        reg: float | str | None = "auto",
        n_within: int = 1,
        n_between: int = 15,
        coupling: float | str = "auto",
        whitening: float | None = None,
        center: bool = True,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | Sequence[float] | None = None,
        gamma_scale: float = 1.0,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        algorithm: str = "auto",
        n_patches: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            n_components,
            lambda_paired=lambda_paired,
            lambda_intra=lambda_intra,
            lambda_inter=lambda_inter,
            beta=beta,
            n_within=n_within,
            n_between=n_between,
            coupling=coupling,
            whitening=whitening,
            center=center,
            algorithm=algorithm,
            n_patches=n_patches,
            random_state=random_state,
        )
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.reg = reg

    def _check_params(self, n_views: int) -> None:
        super()._check_params(n_views)
        if isinstance(self.reg, str):
            check_choice(self.reg, "reg", ("auto",))
        elif self.reg is not None:
            check_weight(self.reg, "reg")

    def _components(self, S: Array, data: Samples, d: int) -> tuple[Array, Array]:
        # Samples have no say, so that the folds of a search and the final fit solve the same problem.
        automatic = None if self.n_landmarks is None else AUTO_REG
        reg = automatic if self.reg == "auto" else self.reg
        return super()._components(S, data, d) if reg is None else _components_of_unit_variance(S, data, d, float(reg))


def _components_of_unit_variance(S: Array, data: Samples, d: int, reg: float) -> tuple[Array, Array]:
    """The d smallest eigenvalues of a scatter matrix with a ridge, per variance, and components of unit variance."""
    _check_norm(S)
    S = np.tril(S) + np.tril(S, -1).T
    # Unlike covariances, S may have negative entries on the diagonal, where `ridge` would subtract.
    diagonal, n = np.abs(np.diagonal(S)), len(data.n_features)
    parts = [diagonal] if data.one_map else data.split(diagonal)
    ridges = np.concatenate([np.full(len(part), part.mean()) for part in parts])
    S[np.diag_indices(len(S))] += reg * ridges
    _shift_nulls(S, data, ridges)  # which the small variance there multiplies
    covariances = [gram / m for gram, m in zip(data.grams(), data.n_seen, strict=True)]
    if data.one_map:
        covariances = [sum(covariances[1:], covariances[0])]
    factors = factor_blocks([ridge(C, _NO_VARIANCE) for C in covariances])
    eigenvalues, V = smallest_eigenpairs(whiten(S, factors), d, overwrite=True, engine=data.views.arrays[0])
    W = unwhiten(V, factors) * np.sqrt(n)
    return eigenvalues, np.concatenate([W] * n) if data.one_map else W


def _check_norm(S: Array) -> float:
    """Norm of a scatter matrix; refuse one that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.sqrt(np.einsum("ij,ij->", S, S)))  # avoids NumPy's BLAS: see crossview.engines
    if not np.isfinite(norm):
        raise ValueError("the views or weights are too large, and their products overflow: scale them down.")
    return norm


def _shift_nulls(S: Array, data: Samples, by: Array) -> None:
    """Shift the eigenvalues of directions in which no sample varies: the objective is 0 there, hence optimal."""
    for block, null in data.nulls:
        S[block, block] += np.outer(by[block] * null, null)
