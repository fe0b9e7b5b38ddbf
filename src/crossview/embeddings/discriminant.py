"""Discriminant analyses of several views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from crossview._blas import cross_product
from crossview._types import Array, Indices
from crossview._validation import check_choice, per_view
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.embeddings._pooled import PooledEmbedding
from crossview.embeddings._spaces import NUMBERS, RIDGES, WEIGHTS, SearchSpace
from crossview.exceptions import NotApplicableError
from crossview.linalg.classes import (
    block_diagonal,
    class_means,
    class_sizes,
    class_sums,
    grams,
    joint_scatters,
    pair_products,
    view_scatters,
)
from crossview.linalg.generalised import factor_blocks, largest_generalised_eigenpairs, ridge, successive_eigenpairs
from crossview.linalg.scatter import patch_scatter

__all__ = ["GMA", "LDA", "MULDA", "MvDA", "MvDAVC", "MvMDA"]


class _Discriminant(Embedding):
    """A supervised method whose between-class scatter has the rank of the number of classes less one."""

    _needs_labels: ClassVar[bool] = True
    _weights: ClassVar[tuple[str, ...]] = ("reg",)

    def _max_components(self, data: TrainingData) -> int:
        return min(super()._max_components(data), data.n_classes - 1)


class LDA(PooledEmbedding, _Discriminant):
    r"""Linear Discriminant Analysis.

    Maximises the between-class scatter :math:`\operatorname{tr} \sum_c N^c (\mu^c - \mu)(\mu^c - \mu)^\top` subject to
    :math:`\sum_c \sum_{x \in c} (W^\top x - \mu^c)(W^\top x - \mu^c)^\top = I`, over the samples of all views together
    or of every view by itself [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the space; at most the number of classes less one, to which it is cut.
    pooled : bool
        One map for all views, which need equal numbers of features; False for one per view, which has no reason to put
        views into a common space.
    reg : float
        Ridge on the within-class scatter, relative to its mean diagonal.
    center : bool
        Subtract the training mean first: of all views together, if pooled.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,), or (n, d) if not pooled
        Ratios of between- to within-class scatter along the components, descending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] P. N. Belhumeur, J. P. Hespanha, D. J. Kriegman, "Eigenfaces vs. Fisherfaces: Recognition Using Class
       Specific Linear Projection", IEEE Transactions on Pattern Analysis and Machine Intelligence 19(7), 1997.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.LDA().fit(data.views[:900], data.y[:900]).transform(data.views)
    Views(1797 samples; left: 9 features, right: 9 features)
    """

    search_space: ClassVar[SearchSpace] = {"n_components": NUMBERS, "reg": RIDGES}

    def __init__(self, n_components: int = 20, pooled: bool = True, reg: float = 0.1, center: bool = True) -> None:
        self.n_components = n_components
        self.pooled = pooled
        self.reg = reg
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        return min(min(data.n_features), data.n_classes - 1)

    def _solve_one(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        assert classes is not None
        alike = np.ones((len(X), 1))
        check_within_class_scatter(class_sizes(alike > 0, classes), "LDA")
        between, within = joint_scatters([X], alike, classes)
        return largest_generalised_eigenpairs(between, ridge(within, self.reg), d)


class MvDA(_Discriminant):
    r"""Multi-view Discriminant Analysis.

    Separates the classes of all views together, each with one mean :math:`\mu^c` in the common space: maximises

    .. math::
        \operatorname{tr} \sum_c N^c (\mu^c - \mu)(\mu^c - \mu)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu^c)(W_v^\top x - \mu^c)^\top = I

    with the ratio trace in the place of the ratio of traces [1]_. With one view it would be LDA.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    reg : float
        Ridge on the constraint's scatter matrix, relative to its mean diagonal in every view.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,)
        The largest eigenvalues, descending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] M. Kan, S. Shan, H. Zhang, S. Lao, X. Chen, "Multi-view Discriminant Analysis", ECCV 2012.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvDA().fit(data.views[:900], data.y[:900]).transform(data.views)
    Views(1797 samples; left: 9 features, right: 9 features)
    """

    search_space: ClassVar[SearchSpace] = {"n_components": NUMBERS, "reg": RIDGES}

    def __init__(self, n_components: int = 20, reg: float = 0.1, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        between, within = joint_scatters(data.arrays, data.weights, data.labels)
        return largest_generalised_eigenpairs(between, ridge(within, self.reg, data.n_features), d)


class MvDAVC(MvDA):
    r"""Multi-view Discriminant Analysis with View-Consistency.

    `MvDA` whose constraint also holds the views' maps together where they come from: written as combinations of the
    training samples, :math:`W_v = X_v^\top \beta_v`, views that see the same samples should combine them alike. The
    constraint's scatter becomes :math:`S_W + \lambda s \sum_i \sum_{j \neq i} \|\beta_i - \beta_j\|^2` with
    :math:`\beta_v = X_v (X_v^\top X_v)^{-1} W_v` [1]_. The factor s, the ratio of the two matrices' traces, makes λ
    independent of the data's units. These must be the same for all views, or β cannot be compared: scale them first.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    lambda_consistency : float
        λ: weight of the view-consistency, relative to the within-class scatter; 0 leaves it out.
    reg : float
        Ridge on the constraint's scatter matrix, and on the Gram matrices in β, relative to their mean diagonals.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    References
    ----------
    .. [1] M. Kan, S. Shan, H. Zhang, S. Lao, X. Chen, "Multi-view Discriminant Analysis", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 38(1), 2016.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvDAVC().fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (9,)
    """

    search_space: ClassVar[SearchSpace] = {
        "n_components": NUMBERS,
        "reg": RIDGES,
        "lambda_consistency": WEIGHTS,
    }
    _weights: ClassVar[tuple[str, ...]] = ("lambda_consistency", "reg")

    def __init__(
        self, n_components: int = 20, lambda_consistency: float = 0.1, reg: float = 0.1, center: bool = True
    ) -> None:
        super().__init__(n_components, reg, center)
        self.lambda_consistency = lambda_consistency

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        # The two parts of the constraint grow with opposite powers of the data's scale: at scale 1, neither overflows.
        scale = 2.0 ** np.round(np.log2(max(np.abs(X).max() for X in data.arrays)))
        data = replace(data, arrays=[X / scale for X in data.arrays])
        between, within = joint_scatters(data.arrays, data.weights, data.labels)
        if self.lambda_consistency:
            consistency = self._consistency(data)
            within += self.lambda_consistency * float(np.trace(within) / np.trace(consistency)) * consistency
        eigenvalues, W = largest_generalised_eigenpairs(between, ridge(within, self.reg, data.n_features), d)
        return eigenvalues, W / scale

    def _consistency(self, data: TrainingData) -> Array:
        """Σ_i Σ_{j≠i} |β_i - β_j|² is LE-paired on the arrays that lead from W_v to β_v."""
        factors = factor_blocks([ridge(gram, self.reg) for gram in grams(data.arrays, data.weights)])
        duals: list[Array] = [
            np.ascontiguousarray(scipy.linalg.cho_solve((L, True), X.T).T)
            for X, L in zip(data.arrays, factors, strict=True)
        ]
        m = len(data.mask)
        S = patch_scatter(duals, data.mask, [sp.csr_array((m, m))] * len(duals), paired=1.0)
        return np.tril(S) + np.tril(S, -1).T


class MvMDA(_Discriminant):
    r"""Multi-view Modular Discriminant Analysis.

    Separates class centres across views, and keeps classes compact within each: maximises

    .. math::
        \operatorname{tr} \sum_{i, j} \sum_{p, q} (\mu_i^p - \mu_i^q)(\mu_j^p - \mu_j^q)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu_v^c)(W_v^\top x - \mu_v^c)^\top = I

    where :math:`\mu_v^c` is the mean of class c in view v, in the common space [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    reg : float
        Ridge on every view's within-class scatter, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    Notes
    -----
    Centres are those of the classes that every view has seen; there must be two at least. Every view must have seen
    some class twice, or it has no within-class scatter.

    References
    ----------
    .. [1] G. Cao, A. Iosifidis, K. Chen, M. Gabbouj, "Generalized Multi-view Embedding for Visual Recognition and
       Cross-modal Retrieval", IEEE Transactions on Cybernetics 48(9), 2018.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvMDA().fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (9,)
    """

    search_space: ClassVar[SearchSpace] = {"n_components": NUMBERS, "reg": RIDGES}

    def __init__(self, n_components: int = 20, reg: float = 1.0, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        everywhere = int(class_sizes(data.mask, data.labels).all(axis=1).sum())
        if everywhere < 2:
            raise NotApplicableError(
                f"MvMDA needs at least 2 classes that every view has seen, got {everywhere}: use crossview.MvDA."
            )
        return min(super()._max_components(data), everywhere - 1)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        check_within_class_scatter(class_sizes(data.mask, data.labels), "MvMDA")
        sums, counts = class_sums(data.arrays, data.weights, data.labels)
        means = np.hstack(class_means(sums, counts))[counts.all(axis=1)]
        means -= means.mean(axis=0)
        between = 2.0 * len(means) * cross_product(means, means)
        _, within = view_scatters(data.arrays, data.weights, data.labels)
        return largest_generalised_eigenpairs(between, [ridge(B, self.reg) for B in within], d)


class GMA(_Discriminant):
    r"""Generalized Multi-view Analysis; by default Generalized Multi-view LDA.

    Separates the classes within every view, and draws the views of a sample together: maximises

    .. math::
        \operatorname{tr} \sum_v \mu_v W_v^\top A_v W_v + \sum_{i \neq j} \lambda W_i^\top Z_i^\top Z_j W_j
        \quad \text{subject to} \quad \sum_v \gamma_v W_v^\top B_v W_v = I

    where :math:`A_v` is the between-class scatter of view v, :math:`B_v` its within-class scatter, and :math:`Z_v` the
    exemplars that are paired across views: the samples, or the means of the classes [1]_. With :math:`\mu = 0` and the
    total scatter as the constraint it is MCCA with the joint constraint.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, to be cut to the number of components that attain more than 0.
    mu : float or sequence of float
        μ: weight of the between-class scatter, one for all views or one per view.
    lambda_pairs : float
        λ: weight of the pairs.
    gamma : float or sequence of float
        γ: weight of the constraint, above 0, one for all views or one per view.
    exemplars : {"samples", "means"}
        What is paired across views.
    constraint : {"within", "total"}
        Which scatter the constraint holds.
    reg : float
        Ridge on every view's constraint, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    References
    ----------
    .. [1] A. Sharma, A. Kumar, H. Daume, D. W. Jacobs, "Generalized Multiview Analysis: A Discriminative Latent
       Space", CVPR 2012.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.GMA(n_components=15, reg=0.1).fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (15,)
    """

    search_space: ClassVar[SearchSpace] = {
        "n_components": NUMBERS,
        "reg": RIDGES[2:],
        "mu": WEIGHTS[:3],
    }
    _weights: ClassVar[tuple[str, ...]] = ("lambda_pairs", "reg")
    _gains: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int = 20,
        mu: float | Sequence[float] = 0.01,
        lambda_pairs: float = 1.0,
        gamma: float | Sequence[float] = 1.0,
        exemplars: str = "samples",
        constraint: str = "within",
        reg: float = 1.0,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.mu = mu
        self.lambda_pairs = lambda_pairs
        self.gamma = gamma
        self.exemplars = exemplars
        self.constraint = constraint
        self.reg = reg
        self.center = center

    def _check_params(self, n_views: int) -> None:
        per_view(self.mu, "mu", n_views)
        per_view(self.gamma, "gamma", n_views, positive=True)
        check_choice(self.exemplars, "exemplars", ("samples", "means"))
        check_choice(self.constraint, "constraint", ("within", "total"))

    def _max_components(self, data: TrainingData) -> int:
        return sum(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        objective, within, total = _between_and_pairs(data, self.mu, self.lambda_pairs, self.exemplars)
        constraint = within if self.constraint == "within" else total
        if self.constraint == "within":
            check_within_class_scatter(class_sizes(data.mask, data.labels), "GMA")
        weights = per_view(self.gamma, "gamma", len(constraint))
        blocks = [gamma * ridge(B, self.reg) for gamma, B in zip(weights, constraint, strict=True)]
        return largest_generalised_eigenpairs(objective, blocks, d)


class MULDA(_Discriminant):
    r"""Multi-view Uncorrelated Linear Discriminant Analysis.

    The objective of `GMA`, with directions found one after another, each uncorrelated in every view with those before:
    direction r maximises

    .. math::
        \sum_v \mu_v w_{vr}^\top A_v w_{vr} + \sum_{i \neq j} \lambda w_{ir}^\top X_i^\top X_j w_{jr}
        \quad \text{subject to} \quad \sum_v \gamma_v w_{vr}^\top T_v w_{vr} = 1,
        \quad w_{vr}^\top T_v w_{vt} = 0 \text{ for all } v \text{ and } t < r

    where :math:`A_v` is the between-class and :math:`T_v` the total scatter of view v [1]_, so that there may be more
    directions than classes.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of features of the smallest view, to which it is cut.
    mu : float or sequence of float
        μ: weight of the between-class scatter, one for all views or one per view.
    lambda_pairs : float
        λ: weight of the pairs.
    gamma : float or sequence of float
        γ: weight of the constraint, above 0, one for all views or one per view.
    reg : float
        Ridge on every view's total scatter, relative to its mean diagonal; features are uncorrelated exactly where it
        is 0.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    References
    ----------
    .. [1] S. Sun, X. Xie, M. Yang, "Multiview Uncorrelated Discriminant Analysis", IEEE Transactions on Cybernetics
       46(12), 2016.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MULDA(n_components=15).fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (15,)
    """

    search_space: ClassVar[SearchSpace] = {
        "n_components": NUMBERS,
        "reg": RIDGES[2:],
        "mu": WEIGHTS[:3],
    }
    _weights: ClassVar[tuple[str, ...]] = ("lambda_pairs", "reg")
    _gains: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int = 20,
        mu: float | Sequence[float] = 0.1,
        lambda_pairs: float = 1.0,
        gamma: float | Sequence[float] = 1.0,
        reg: float = 0.1,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.mu = mu
        self.lambda_pairs = lambda_pairs
        self.gamma = gamma
        self.reg = reg
        self.center = center

    def _check_params(self, n_views: int) -> None:
        per_view(self.mu, "mu", n_views)
        per_view(self.gamma, "gamma", n_views, positive=True)

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        check_within_class_scatter(class_sizes(data.mask, data.labels), "MULDA")
        objective, _, total = _between_and_pairs(data, self.mu, self.lambda_pairs, "samples")
        weights = per_view(self.gamma, "gamma", len(total))
        blocks = [gamma * ridge(T, self.reg) for gamma, T in zip(weights, total, strict=True)]
        return successive_eigenpairs(objective, blocks, d)


def _between_and_pairs(
    data: TrainingData, mu: float | Sequence[float], lambda_pairs: float, exemplars: str
) -> tuple[Array, list[Array], list[Array]]:
    """The objective of GMA, ``μ_v A_v`` on the diagonal and ``λ Z_i'Z_j`` off it; views' within and total scatters."""
    between, within = view_scatters(data.arrays, data.weights, data.labels)
    pairs, total = pair_products(data.arrays, data.weights)
    if exemplars == "means":
        pairs, _ = pair_products(class_means(*class_sums(data.arrays, data.weights, data.labels)))
    weights = per_view(mu, "mu", len(between))
    own = block_diagonal([weight * A for weight, A in zip(weights, between, strict=True)])
    return own + lambda_pairs * pairs, within, total


def check_within_class_scatter(counts: Array, name: str) -> None:
    """Refuse data in which a view has no class twice."""
    alone = np.flatnonzero(counts.max(axis=0) < 2)
    if len(alone):
        every = len(alone) == counts.shape[1]
        raise NotApplicableError(
            f"{'every class has one sample per view' if every else f'view {alone[0]} has no class twice'}, so that "
            f"there is no within-class scatter for {name} to tell from what separates classes: use MvDA, MvDAVC or "
            "MvHE, which compare classes across views."
        )
