"""Discriminant analysis of several views."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import scipy.linalg

from crossview._parameters import parameters
from crossview._types import Array
from crossview._validation import check_weight, per_view
from crossview.embeddings._base import N_COMPONENTS, RIDGES, WEIGHTS, WHITENINGS, RatioEmbedding, SearchSpace
from crossview.engines import cross_product
from crossview.exceptions import NotApplicableError
from crossview.linalg.eigen import factor_blocks, ridge, successive_conjugates, successive_directions
from crossview.linalg.sums import class_means
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["GMA", "LDA", "MULDA", "MvDA", "MvDAVC", "MvMDA"]


class _Discriminant(RatioEmbedding):
    """A supervised method whose between-class scatter has at most C - 1 non-zero eigenvalues for C classes.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, capped at the number of classes minus one.
    """

    reg: float

    _needs_labels = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_weight(self.reg, "reg")

    def _max_components(self, data: Samples) -> int:
        return min(super()._max_components(data), data.n_classes - 1)

    def _check_within_class_scatter(self, data: Samples) -> None:
        """Refuse data in which a view has no class with at least two samples."""
        singletons = np.flatnonzero(data.class_sizes.max(axis=0) < 2)
        if len(singletons):
            where = "each view" if len(singletons) == len(data.n_features) else f"view {singletons[0]}"
            raise NotApplicableError(
                f"each class has at most one sample in {where}, which leaves no within-class scatter for "
                f"{type(self).__name__}: use MvDA, MvDAVC or MvHE, which compare classes across views."
            )


@parameters
class MvDA(_Discriminant):
    r"""Multi-view Discriminant Analysis.

    Separates the classes of all views jointly, with one mean :math:`\mu^c` per class in the common space: maximises

    .. math::
        \operatorname{tr} \sum_c N^c (\mu^c - \mu)(\mu^c - \mu)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu^c)(W_v^\top x - \mu^c)^\top = I

    as a ratio trace instead of the trace ratio [1]_. With one map for all views (``coupling=inf``), it is `LDA`.

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

    def _problem(self, data: Samples) -> tuple[Array, Array | list[Array]]:
        return data.joint_scatters()


@parameters
class LDA(MvDA):
    r"""Linear Discriminant Analysis of the pooled samples of all views: `MvDA` with one map for all views.

    Maximises the between-class scatter :math:`\operatorname{tr} \sum_c N^c (\mu^c - \mu)(\mu^c - \mu)^\top` subject to
    :math:`\sum_c \sum_{x \in c} (W^\top x - \mu^c)(W^\top x - \mu^c)^\top = I` [1]_.

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

    coupling: float | str = np.inf

    search_space: ClassVar[SearchSpace] = {"n_components": N_COMPONENTS, "reg": RIDGES, "whitening": WHITENINGS}


@parameters
class MvDAVC(MvDA):
    r"""Multi-view Discriminant Analysis with View-Consistency.

    `MvDA` with a constraint that also keeps the maps of the views consistent: if they are written as combinations of
    the training samples, :math:`W_v = X_v^\top \beta_v`, views of the same samples should have similar coefficients.
    The scatter of the constraint becomes :math:`S_W + \lambda s \sum_i \sum_{j \neq i} \|\beta_i - \beta_j\|^2` with
    :math:`\beta_v = X_v (X_v^\top X_v)^{-1} W_v` [1]_. The factor s, the ratio of the traces of the two matrices, makes
    λ independent of the units of the data. All views need the same units for β to be comparable: scale them first.

    Parameters
    ----------
    lambda_consistency : float
        λ: weight of the view consistency relative to the within-class scatter; 0 disables it.
    reg : float
        Ridge on the scatter matrix of the constraint and on the Gram matrices in β, relative to their mean diagonals.

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

    lambda_consistency: float = 0.1

    search_space: ClassVar[SearchSpace] = {**MvDA.search_space, "lambda_consistency": WEIGHTS}
    _refits = (*MvDA._refits, "lambda_consistency")

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_weight(self.lambda_consistency, "lambda_consistency")

    def _problem(self, data: Samples) -> tuple[Array, Array]:
        between, within = data.joint_scatters()
        if self.lambda_consistency:
            consistency = self._consistency(data)
            within += self.lambda_consistency * np.trace(within) * (consistency / np.trace(consistency))
        return between, within

    def _consistency(self, data: Samples) -> Array:
        """Scatter of Σ_i Σ_{j≠i} |β_i - β_j|²: LE-paired on the arrays that map W_v to β_v."""
        covariances = data.grams()
        # At scale 1, the inverse neither overflows nor vanishes.
        scale = 2.0 ** np.round(np.log2(max(np.diagonal(G).max() for G in covariances)))
        factors = factor_blocks([ridge(G / scale, self.reg) for G in covariances])
        S = data.patch_scatter(0, 0, paired=1.0) / scale
        S = np.tril(S) + np.tril(S, -1).T
        for _ in range(2):
            parts = np.split(S, np.cumsum(data.n_features)[:-1])
            S = np.vstack([scipy.linalg.cho_solve((L, True), part) for L, part in zip(factors, parts, strict=True)]).T
        consistency: Array = S / scale
        return consistency


@parameters
class MvMDA(_Discriminant):
    r"""Multi-view Modular Discriminant Analysis.

    Separates class centres across views and keeps classes compact within each view: maximises

    .. math::
        \operatorname{tr} \sum_{i, j} \sum_{p, q} (\mu_i^p - \mu_i^q)(\mu_j^p - \mu_j^q)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu_v^c)(W_v^\top x - \mu_v^c)^\top = I

    where :math:`\mu_v^c` is the mean of class c of view v in the common space [1]_.

    Notes
    -----
    Only classes that all views have contribute centres; there must be at least two. Each view needs a class with at
    least two samples, or it has no within-class scatter.

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

    reg: float = 1.0

    def _max_components(self, data: Samples) -> int:
        shared = int(data.class_sizes.all(axis=1).sum())
        if shared < 2:
            raise NotApplicableError(f"MvMDA needs at least 2 classes that all views have, got {shared}: use MvDA.")
        return min(super()._max_components(data), shared - 1)

    def _problem(self, data: Samples) -> tuple[Array, list[Array]]:
        self._check_within_class_scatter(data)
        sums, counts = data.class_sums()
        means = np.hstack(class_means(sums, counts))[counts.all(axis=1)]
        means -= means.mean(axis=0)
        between = 2.0 * len(means) * cross_product(means, means)
        return between, data.view_scatters()[1]


@parameters
class _PairedDiscriminant(_Discriminant):
    """The problem of GMA and MULDA, which differ in what is paired, in the constraint, and in how they solve it.

    Parameters
    ----------
    mu : float or sequence of float
        μ: weight of the between-class scatter, one for all views or one per view.
    lambda_pairs : float
        λ: weight of the pairs.
    gamma : float or sequence of float
        γ: positive weight of the constraint, one for all views or one per view.
    """

    mu: float | Sequence[float] = 0.1
    lambda_pairs: float = 1.0
    gamma: float | Sequence[float] = 1.0

    search_space: ClassVar[SearchSpace] = {**_Discriminant.search_space, "reg": RIDGES[2:], "mu": WEIGHTS[:3]}
    _refits = (*_Discriminant._refits, "mu")
    _drop_nonpositive = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        per_view(self.mu, "mu", views.shape[1])
        check_weight(self.lambda_pairs, "lambda_pairs")
        per_view(self.gamma, "gamma", views.shape[1], positive=True)

    def _weighted(self, between: list[Array], pairs: Array, scatters: list[Array]) -> tuple[Array, list[Array]]:
        """``μ_v A_v`` on the diagonal of the objective and λ times the pairs off it; ``γ_v B_v`` for the scatters B."""
        n = len(between)
        diagonal = [mu * A for mu, A in zip(per_view(self.mu, "mu", n), between, strict=True)]
        constraint = [gamma * B for gamma, B in zip(per_view(self.gamma, "gamma", n), scatters, strict=True)]
        return scipy.linalg.block_diag(*diagonal) + self.lambda_pairs * pairs, constraint


@parameters
class GMA(_PairedDiscriminant):
    r"""Generalized Multi-view Analysis, with linear discriminant analysis in each view.

    Separates the classes within each view and brings the views of a sample together: maximises

    .. math::
        \operatorname{tr} \sum_v \mu_v W_v^\top A_v W_v + \sum_{i \neq j} \lambda W_i^\top X_i^\top X_j W_j
        \quad \text{subject to} \quad \sum_v \gamma_v W_v^\top B_v W_v = I

    where :math:`A_v` is the between-class and :math:`B_v` the within-class scatter of view v [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, capped at the number of components with a positive eigenvalue.

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

    mu: float | Sequence[float] = 0.01
    reg: float = 1.0

    def _max_components(self, data: Samples) -> int:
        return self._norm(data).order

    def _problem(self, data: Samples) -> tuple[Array, list[Array]]:
        self._check_within_class_scatter(data)
        between, within = data.view_scatters()
        return self._weighted(between, data.pair_matrix(), within)


@parameters
class MULDA(_PairedDiscriminant):
    r"""Multi-view Uncorrelated Linear Discriminant Analysis.

    Maximises the objective of `GMA` one direction at a time, each uncorrelated with the previous ones in every view:
    direction r maximises

    .. math::
        \sum_v \mu_v w_{vr}^\top A_v w_{vr} + \sum_{i \neq j} \lambda w_{ir}^\top X_i^\top X_j w_{jr}
        \quad \text{subject to} \quad \sum_v \gamma_v w_{vr}^\top T_v w_{vr} = 1,
        \quad w_{vr}^\top T_v w_{vt} = 0 \text{ for all } v \text{ and } t < r

    where :math:`A_v` is the between-class and :math:`T_v` the total scatter of view v [1]_. There may be more
    directions than classes. With one map for all views (``coupling=inf``), directions are uncorrelated over the pooled
    samples.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, capped at the number of features of the smallest view.
    reg : float
        Ridge on the total scatter of each view, relative to its mean diagonal. Features are exactly uncorrelated only
        if it is 0.

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

    def _max_components(self, data: Samples) -> int:
        return min(data.n_features)

    def _problem(self, data: Samples) -> tuple[Array, list[Array]]:
        self._check_within_class_scatter(data)
        return self._weighted(data.view_scatters()[0], data.pair_matrix(), data.grams())

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        if np.isinf(self.coupling_):
            return super()._solve(data, d)
        A, blocks = self._problem(data)
        if not self.coupling_:
            return successive_directions(A, [ridge(B, self.reg) for B in blocks], d)
        norm = self._norm(data)

        def correlated(u: Array) -> Array:
            """What directions must be orthogonal to, to be uncorrelated with this one in every view."""
            parts = zip(blocks, data.split(norm.expand(u)), strict=True)
            stacked: Array = scipy.linalg.block_diag(*((B @ w)[:, None] for B, w in parts))
            return norm.expand(stacked)

        B = ridge(norm.restrict(scipy.linalg.block_diag(*blocks)), self.reg)
        values, U = successive_conjugates(norm.restrict(A), B, d, correlated)
        return values, norm.expand(U)
