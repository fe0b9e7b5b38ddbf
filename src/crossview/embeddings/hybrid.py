"""Multi-view Hybrid Embedding and its kernel form."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import daxpy
from sklearn.utils.random import sample_without_replacement

from crossview._parameters import parameters
from crossview._schema import Schema
from crossview._types import Array, Indices
from crossview._validation import check_choice, check_count, check_weight
from crossview.embeddings._base import COUPLINGS, GAMMA_SCALES, N_COMPONENTS, WHITENINGS, SearchSpace
from crossview.embeddings._coupled import KernelEmbedding
from crossview.embeddings.locality import RECALL, AlignmentEmbedding
from crossview.linalg.eigen import factor_blocks, ridge, smallest_eigenpairs, unwhiten, whiten
from crossview.linalg.norm import CoupledNorm
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["KMvHE", "MvHE"]

AUTO_REG = 0.05
"""Ridge of `KMvHE` with landmarks with ``reg="auto"``."""

_WEIGHTS = ("lambda_paired", "lambda_intra", "lambda_inter", "beta", "n_within", "n_between")
_NO_VARIANCE = 1e-5  # variance, relative to the mean of all directions, that adds next to nothing to a constraint


@parameters
class MvHE(AlignmentEmbedding):
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
    lambda_paired, lambda_intra, lambda_inter : float
        λ0, λ1, λ2: weights of LE-paired (1 in the paper), LDE-intra and LDE-inter; 0 disables a model.
    center : bool
        Subtract the training mean of each view first. The paper does not, but it improves accuracy.
    n_patches : int, optional
        Number of patches to align, those of samples drawn at random; their sum estimates the sum over all patches
        without bias. By default, the patches of all samples. Set it for Dask arrays: every block of centres meets every
        block of samples, so the patches of all samples take many passes over the data.
    random_state : int, RandomState or None
        Seed for drawing the patches.

    Notes
    -----
    The best weights depend on the data: search for them with `crossview.tune`. `crossview.config_context` shows the
    progress of long fits, and moves the work to a GPU.

    Whitening is within-class covariance normalisation [2]_. With coupling, the norm in the constraint becomes
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

    lambda_paired: float = 1.0
    lambda_intra: float = 0.1
    lambda_inter: float = 0.3
    coupling: float | str = "auto"
    n_patches: int | None = None
    random_state: int | np.random.RandomState | None = 0

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
    _weighs_pairs = False

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        for name in ("lambda_paired", "lambda_intra", "lambda_inter"):
            check_weight(getattr(self, name), name)
        if not (self.lambda_paired or self.lambda_intra or self.lambda_inter):
            raise ValueError("lambda_paired, lambda_intra and lambda_inter are all 0: set at least one above 0.")
        if self.n_patches is not None:
            check_count(self.n_patches, "n_patches", least=1)

    def _couples_views(self) -> bool:
        return bool(self.lambda_paired or self.lambda_inter)

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        return self._with_patches(super()._training_data(views, classes))

    def _with_patches(self, data: Samples) -> Samples:
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

    def _store(self, data: Samples, eigenvalues: Array, W: Array) -> None:
        super()._store(data, eigenvalues, W)
        self.neighbour_recall_ = data.neighbour_recall

    def _shared_solver(
        self, models: Sequence[Self], views: Views, y: ArrayLike | None
    ) -> tuple[Samples, Callable[[Self, Samples, int], tuple[Array, Array]]]:
        """Compute the terms of the objective once; each setting then costs an eigen-solve."""
        within, between = {model.n_within for model in models}, {model.n_between for model in models}
        n_weights = len({tuple(getattr(model, name) for name in _WEIGHTS) for model in models})
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


class _Terms:
    """The terms of the scatter of MvHE, which make any other weighting cheap.

    The objective is a sum, and so is its scatter, ``λ0 S_J + λ1 (S_U⁺ - β S_U⁻) + λ2 (S_V⁺ - β S_V⁻)``. The last four
    terms are sums over the ranks of the neighbours, kept in parts: the first ranks, those up to the next number, and so
    on. The patches of the data must be as large as the largest numbers.
    """

    def __init__(self, data: Samples, within: Iterable[int], between: Iterable[int]) -> None:
        self.paired = data.patch_scatter(0, 0, paired=1.0)
        self.parts: list[tuple[str, int, str, Array]] = []
        for name, numbers in (("n_within", within), ("n_between", between)):
            for start, stop in pairwise([0, *sorted({*numbers} - {0})]):
                ranks = (slice(start, stop), 0) if name == "n_within" else (0, slice(start, stop))
                self.parts.append((name, stop, "intra", data.patch_scatter(*ranks, intra=1.0)))
                self.parts.append((name, stop, "inter", data.patch_scatter(*ranks, inter=1.0)))

    def scatter(self, model: MvHE) -> Array:
        """Scatter matrix of the objective with the weights of a model."""
        S = model.lambda_paired * self.paired
        flat = S.ravel()
        for name, stop, kind, part in self.parts:
            weight = getattr(model, f"lambda_{kind}") * (1.0 if name == "n_within" else -model.beta)
            if weight and stop <= getattr(model, name):
                daxpy(part.ravel(), flat, a=weight)  # in place, in one pass over memory
        return S


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
