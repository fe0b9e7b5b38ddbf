"""Multi-view Hybrid Embedding, and what it shares with other methods that align patches."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import field
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import daxpy
from sklearn.utils.random import sample_without_replacement

from crossview._parameters import parameters
from crossview._progress import report
from crossview._schema import Schema, number
from crossview._types import Array, Indices
from crossview._validation import check_count, check_weight
from crossview.embeddings._base import COUPLINGS, N_COMPONENTS, WHITENINGS, CoupledEmbedding, Embedding, SearchSpace
from crossview.linalg.eigen import smallest_eigenpairs
from crossview.linalg.norm import CoupledNorm
from crossview.neighbours.classes import check_neighbours
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["AlignmentEmbedding", "MvHE"]

AUTO_COMPONENTS = 40
"""Maximum number of components with ``n_components="auto"``."""

RECALL: Schema = {"neighbour_recall_??": number(0.0, 1.0)}

_WEIGHTS = ("lambda_paired", "lambda_intra", "lambda_inter", "beta", "n_within", "n_between")
_MIN_AGREEMENT = 0.1  # 1 for equal views, 0 for views that have nothing in common
_SMALL_SHARE = 1 / 6  # of the components; if fewer are kept, their agreement must be larger
_MIN_AGREEMENT_OF_SMALL_SHARE = 0.3, 0.9  # of several components, or of one


@parameters
class AlignmentEmbedding(CoupledEmbedding):
    """Base of methods that align patches: each sample with neighbours of its class and of other classes.

    The last components of these problems separate the views of a sample, so ``n_components="auto"`` leaves them out.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space. A number is capped at the number available, as in all methods; see
        ``n_components_``. ``"auto"`` keeps at most 40 components, and only those before the first along which the views
        hardly agree; see `MvHE`.
    beta : float
        β: weight of between-class distances relative to within-class distances.
    n_within, n_between : int
        p1, p2: neighbours of the same class and of other classes in a patch. Smaller classes contribute all they have.
    algorithm : {"auto", "exact", "approximate"}
        How to search for neighbours. The time of an exact search grows with the square of the number of samples, that
        of an approximate one about linearly. The approximate search needs faiss
        (``pip install 'crossview[approximate]'``). ``"auto"`` uses it from 30,000 samples, or more if few
        patches are aligned, if faiss is installed.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        The smallest eigenvalues, ascending.
    """

    n_components: int | str = field(default="auto", kw_only=False)
    beta: float = 0.1
    n_within: int = 1
    n_between: int = 15
    algorithm: str = "auto"

    _schema: ClassVar[Schema] = {**Embedding._schema, **RECALL}
    _needs_labels = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_count(self.n_within, "n_within", least=0)
        check_count(self.n_between, "n_between", least=0)
        check_weight(self.beta, "beta")
        check_neighbours(self.algorithm)

    def _requested_components(self) -> int:
        return AUTO_COMPONENTS if self.n_components == "auto" else super()._requested_components()

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        return super()._training_data(views, classes).in_span(common=self.coupling_ > 0)

    def _couples_views(self) -> bool:
        """Whether the objective has a term across views; without one, the views have no reason to agree."""
        return True

    def _n_kept(self, data: Samples, eigenvalues: Array, W: Array) -> int:
        if self.n_components != "auto" or not self._couples_views():
            return int(W.shape[1])
        squares, products = data.agreement(W)
        return _count_agreeing(squares, products, len(data.n_features))

    def _learn(self, data: Samples) -> None:
        report(now="solving the eigenproblem")
        eigenvalues, W = self._solve(data, self._n_solved(data))
        self._store(data, eigenvalues, W)
        self._warn_of_disagreement(data, W)

    def _warn_of_disagreement(self, data: Samples, W: Array) -> None:
        """Warn if the components keep the views apart: the few that are left, or all of them together."""
        # With one map, all components are the features themselves.
        if not self._couples_views() or np.isinf(self.coupling_):
            return
        n, automatic, kept = len(data.n_features), self.n_components == "auto", len(self.eigenvalues_)
        few = automatic and kept < _SMALL_SHARE * W.shape[1]
        all_kept = W.shape[1] == self._max_components(data)
        # Whitening makes those small that set views apart.
        if not few and (automatic or not all_kept or self.whitening is not None):
            return
        squares, products = data.agreement(W[:, :kept] if few else W)
        least = _MIN_AGREEMENT_OF_SMALL_SHARE[kept == 1] if few else _MIN_AGREEMENT
        if products.sum() >= least * (n - 1) * squares.sum():
            return
        if few:
            what = f"the views hardly agree along any of {W.shape[1]} components"
            fix = "check that rows correspond, or search for other weights with crossview.tune"
        else:
            what = f"n_components={self.n_components} keeps all {W.shape[1]}, also those that set views apart"
            fix = f"use n_components='auto', or at most {_count_agreeing(squares, products, n)}"
        warnings.warn(f"{what}, so matching is close to chance: {fix}.", stacklevel=4)


def _count_agreeing(squares: Array, products: Array, n_views: int) -> int:
    """Number of components before the first along which the agreement of the views is below 0.1; at least 1.

    The agreement is the sum of products over all ordered pairs of views and all samples, relative to its value for
    equal views. A component along which only one view varies adds noise; one along which views oppose each other
    separates them.
    """
    disagrees = products < _MIN_AGREEMENT * (n_views - 1) * squares
    return max(int(disagrees.argmax()), 1) if disagrees.any() else len(disagrees)


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
    :math:`\sum_v \|W_v\|^2 + c \sum_v \|W_v - \bar W\|^2`, where :math:`\bar W` is the mean of the maps [3]_. With
    ``coupling="auto"``, coordinates count as shared if :math:`\sum_{i \neq j} \sum_k \langle x_i^k, x_j^k \rangle` over
    centred training samples is at least 0.2 of :math:`(n - 1) \sum_{i, k} \|x_i^k\|^2`, and larger than if features had
    another order, by four standard deviations over all orders.

    Each map is restricted to the span of the centred training samples of its view. In other directions, the objective
    is zero, hence optimal, but useless. If the samples span all directions, this is the formula of the paper.

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
    random_state: int | np.random.RandomState | None = None

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
        shift_nulls(S, data, np.full(len(S), 2.0 * check_norm(S)))  # above all other eigenvalues
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


def check_norm(S: Array) -> float:
    """Norm of a scatter matrix; refuse one that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.sqrt(np.einsum("ij,ij->", S, S)))  # avoids NumPy's BLAS: see crossview.engines
    if not np.isfinite(norm):
        raise ValueError("the views or weights are too large, and their products overflow: scale them down.")
    return norm


def shift_nulls(S: Array, data: Samples, by: Array) -> None:
    """Shift the eigenvalues of directions in which no sample varies: the objective is 0 there, hence optimal."""
    for block, null in data.nulls:
        S[block, block] += np.outer(by[block] * null, null)
