"""Unsupervised methods: maximal correlation or covariance between views."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg

from crossview._blas import cross_product
from crossview.embeddings._linear import LinearEmbedding, TrainingData
from crossview.linalg.classes import grams, pair_products
from crossview.linalg.generalized import factor_blocks, largest_generalized_eigenpairs, ridge, unwhiten
from crossview.views import Array

__all__ = ["CCA", "MCCA", "PLS"]


class MCCA(LinearEmbedding):
    r"""Multi-set Canonical Correlation Analysis.

    Maximises the sum of the covariances of all pairs of views in the common space,

    .. math::
        \sum_{i \neq j} W_i^\top X_i^\top X_j W_j
        \quad \text{subject to} \quad \frac{1}{n} \sum_v W_v^\top X_v^\top X_v W_v = I,

    the form of the constraint that has a closed solution [1]_; with two views it holds for each of them, and the method
    is CCA. A sample takes part in the pairs of views that have seen it.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space.
    reg : float
        Ridge on every view's covariance, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,)
        The largest eigenvalues, descending; with two views the canonical correlations.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] A. A. Nielsen, "Multiset Canonical Correlations Analysis and Multispectral, Truly Multitemporal Remote
       Sensing Data", IEEE Transactions on Image Processing 11(3), 2002.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MCCA(n_components=5).fit(data.views).eigenvalues_.round(2)
    array([0.82, 0.8 , 0.69, 0.67, 0.63])
    """

    def __init__(self, n_components: int = 20, reg: float = 1e-3, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        pairs, own = pair_products(data.arrays)
        eigenvalues, W = largest_generalized_eigenpairs(pairs, [ridge(B, self.reg) for B in own], d)
        return eigenvalues, np.sqrt(len(own)) * W


class CCA(LinearEmbedding):
    r"""Canonical Correlation Analysis, of two views, with a ridge.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top (X_v^\top X_v + \rho_v I) W_v = I` [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, at most the number of features of the smaller view.
    reg : float
        Ridge ρ on every view's covariance, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of both views.
    eigenvalues_ : ndarray of shape (d,)
        The canonical correlations (with the ridge in their denominators), descending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] H. Hotelling, "Relations between two sets of variates", Biometrika 28, 1936.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.CCA(n_components=5).fit(data.views).eigenvalues_.round(2)
    array([0.82, 0.8 , 0.69, 0.67, 0.63])
    """

    _two_views: ClassVar[bool] = True

    def __init__(self, n_components: int = 20, reg: float = 1e-3, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        factors = factor_blocks([ridge(gram, self.reg) for gram in grams(data.arrays)])
        C = cross_product(*data.arrays)
        for L in factors:
            C = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False).T
        U, correlations, Vt = scipy.linalg.svd(C, full_matrices=False, check_finite=False)
        return correlations[:d], unwhiten(np.vstack([U[:, :d], Vt[:d].T]), factors)


class PLS(LinearEmbedding):
    r"""Partial Least Squares, of two views: maximal covariance along orthonormal directions.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top W_v = I`: the singular value decomposition of
    the views' covariance [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, at most the number of features of the smaller view.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of both views.
    eigenvalues_ : ndarray of shape (d,)
        The singular values, descending: covariances times the number of samples.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

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

    _two_views: ClassVar[bool] = True
    _weights: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n_components: int = 20, center: bool = True) -> None:
        self.n_components = n_components
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        U, covariances, Vt = scipy.linalg.svd(cross_product(*data.arrays), full_matrices=False, check_finite=False)
        return covariances[:d], np.vstack([U[:, :d], Vt[:d].T])
