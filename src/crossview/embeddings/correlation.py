"""Unsupervised methods that maximise variance, or the covariance or correlation between views."""

from dataclasses import field
from typing import ClassVar

import numpy as np
import scipy.linalg

from crossview._parameters import parameters
from crossview._types import Array
from crossview._validation import check_choice, check_weight, per_view
from crossview.embeddings._base import (
    COUPLINGS,
    N_COMPONENTS,
    WHITENINGS,
    CoupledEmbedding,
    PooledEmbedding,
    RatioEmbedding,
    SearchSpace,
)
from crossview.linalg.eigen import (
    factor_blocks,
    largest_singular_triplets,
    ridge,
    smallest_eigenpairs,
    successive_directions,
    unwhiten,
)
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["CCA", "MCCA", "PCA", "PLS"]


@parameters
class PCA(PooledEmbedding):
    r"""Principal Component Analysis.

    Maximises the variance :math:`\operatorname{tr} W^\top X^\top X W` subject to :math:`W^\top W = I`, over the pooled
    samples of all views, with one map for all [1]_.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Variances along the components, descending.

    References
    ----------
    .. [1] M. Turk, A. Pentland, "Eigenfaces for Recognition", Journal of Cognitive Neuroscience 3(1), 1991.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.PCA(n_components=5).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    n_components: int = field(default=20, kw_only=False)
    whitening: float | None = None
    center: bool = True

    search_space: ClassVar[SearchSpace] = {"n_components": N_COMPONENTS, "whitening": WHITENINGS}

    def _max_components(self, data: Samples) -> int:
        return min(super()._max_components(data), int(data.n_seen.sum()))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        (m,), (D,) = samples.n_seen, samples.n_features
        if m < D:
            _, singular, Vt = scipy.linalg.svd(samples.factor(), full_matrices=False, check_finite=False)
            return np.square(singular[:d]) / max(m - 1, 1), Vt[:d].T
        (gram,) = samples.grams()
        values, V = scipy.linalg.eigh(gram, subset_by_index=[D - d, D - 1], overwrite_a=True, check_finite=False)
        return values[::-1] / max(m - 1, 1), V[:, ::-1]


@parameters
class MCCA(RatioEmbedding):
    r"""Multi-set Canonical Correlation Analysis.

    Maximises the sum of the correlations of all pairs of views in the common space, one component at a time: component
    r maximises

    .. math::
        \sum_{i \neq j} w_{ir}^\top X_i^\top X_j w_{jr}
        \quad \text{subject to} \quad w_{vr}^\top X_v^\top X_v w_{vr} = 1,
        \quad w_{vr}^\top X_v^\top X_v w_{vt} = 0 \text{ for all } v \text{ and } t < r

    by Horst's iteration [1]_. With more than two views, this has no closed-form solution. ``constraint="joint"`` uses
    the single constraint :math:`\frac{1}{n} \sum_v W_v^\top X_v^\top X_v W_v = I` instead, which has one [2]_; the
    iteration starts from it. With two views, both are CCA.

    A sample contributes to the pairs of views that have it, and a pair of views counts in proportion to its samples. In
    the mean and covariance of a view, the weight of a sample is the share of the other views that also have it. The
    covariances then refer to the same pairs as the products between views.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space. Capped at the number of features of the smallest view, or of all views
        together with the joint constraint, and at the number of components with a positive correlation.
    constraint : {"views", "joint"}
        One constraint per view, or one over all views. With coupling, it is joint.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        For each component, the mean over views of the sum of its correlations with the other views (with the ridge in
        the denominators); the canonical correlations if there are two views.

    References
    ----------
    .. [1] J. Rupnik, J. Shawe-Taylor, "Multi-View Canonical Correlation Analysis", SiKDD 2010.
    .. [2] A. A. Nielsen, "Multiset Canonical Correlations Analysis and Multispectral, Truly Multitemporal Remote
       Sensing Data", IEEE Transactions on Image Processing 11(3), 2002.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MCCA(n_components=5, reg=1e-3).fit(data.views).eigenvalues_.round(2)
    array([0.82, 0.8 , 0.69, 0.67, 0.63])
    """

    reg: float = 0.1
    constraint: str = "views"

    _drop_nonpositive = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_weight(self.reg, "reg")
        check_choice(self.constraint, "constraint", ("views", "joint"))

    def _is_joint(self) -> bool:
        return self.constraint == "joint" or self.coupling_ > 0

    def _max_components(self, data: Samples) -> int:
        return self._norm(data).order if self._is_joint() else min(data.n_features)

    def _problem(self, data: Samples) -> tuple[Array, list[Array]]:
        return data.pair_matrix(), data.grams()

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        n = len(data.n_features)
        if self._is_joint():
            eigenvalues, W = super()._solve(data, d)
            return eigenvalues, np.sqrt(n) * W
        pairs, blocks = self._problem(data)
        values, W = successive_directions(pairs, [ridge(B, self.reg) for B in blocks], d, unit_blocks=True)
        return values / n, W


@parameters
class CCA(RatioEmbedding):
    r"""Canonical Correlation Analysis of two views, with a ridge.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top (X_v^\top X_v + \rho_v I) W_v = I` [1]_.

    Parameters
    ----------
    reg : float or sequence of float
        Ridge ρ on the covariance of each view, relative to its mean diagonal; one for both views, or one per view. With
        coupling, both views have their mean.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Canonical correlations (with the ridge in the denominators), descending.

    References
    ----------
    .. [1] H. Hotelling, "Relations between two sets of variates", Biometrika 28, 1936.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.CCA(n_components=5, reg=1e-3).fit(data.views).eigenvalues_.round(2)
    array([0.82, 0.8 , 0.69, 0.67, 0.63])
    """

    _needs_two_views = True
    _drop_nonpositive = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        per_view(self.reg, "reg", 2)

    def _max_components(self, data: Samples) -> int:
        return min(data.n_features)

    def _problem(self, data: Samples) -> tuple[Array, list[Array]]:
        return data.pair_matrix(), data.grams()

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        if self.coupling_:
            eigenvalues, W = super()._solve(data, d)
            return eigenvalues, np.sqrt(2.0) * W
        regs = per_view(self.reg, "reg", 2)
        factors = factor_blocks([ridge(gram, reg) for gram, reg in zip(data.grams(), regs, strict=True)])
        (C,) = data.pair_products()
        for L in factors:
            C = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False).T
        U, correlations, V = largest_singular_triplets(C, d)
        return correlations, unwhiten(np.vstack([U, V]), factors)


@parameters
class PLS(CoupledEmbedding):
    r"""Partial Least Squares of two views: maximal covariance along orthonormal directions.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top W_v = I`, by a singular value decomposition
    of the covariance between the views [1]_. With coupling, the constraint is :math:`\sum_v W_v^\top W_v = 2 I` in the
    coupled norm; without, both have the same solution.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Singular values, descending: covariances times the number of samples.

    References
    ----------
    .. [1] R. Rosipal, N. Krämer, "Overview and Recent Advances in Partial Least Squares", SLSFS 2005.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.PLS(n_components=5).fit_transform(data.views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    search_space: ClassVar[SearchSpace] = {"n_components": N_COMPONENTS, "coupling": COUPLINGS, "whitening": WHITENINGS}
    _refits: ClassVar[tuple[str, ...]] = ("coupling", "whitening")
    _needs_two_views = True
    _drop_nonpositive = True

    def _max_components(self, data: Samples) -> int:
        return min(data.n_features)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        if self.coupling_:
            norm = self._norm(data)
            negative, U = smallest_eigenpairs(-norm.restrict(data.pair_matrix()), d, overwrite=True)
            return -negative, np.sqrt(2.0) * norm.expand(U)
        (C,) = data.pair_products()
        U, covariances, V = largest_singular_triplets(C, d)
        return covariances, np.vstack([U, V])
