"""Unsupervised methods: maximal correlation or covariance between views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from crossview._blas import cross_product, product
from crossview._types import Array, Indices
from crossview._validation import check_choice, check_flag, check_two_views, check_views, per_view
from crossview.embeddings._base import Embedding, centred, wanted_components
from crossview.embeddings._kernel import KernelViews
from crossview.embeddings._linear import LinearEmbedding, TrainingData, count_gains
from crossview.kernels import KernelMap
from crossview.linalg.classes import grams, pair_products
from crossview.linalg.eigen import component_signs, largest_singular_triplets
from crossview.linalg.generalised import (
    factor_blocks,
    largest_generalised_eigenpairs,
    ridge,
    successive_unit_directions,
    unwhiten,
)
from crossview.views import ViewInput, Views

__all__ = ["CCA", "KCCA", "MCCA", "PLS"]


class MCCA(LinearEmbedding):
    r"""Multi-set Canonical Correlation Analysis.

    Maximises the sum of the correlations of all pairs of views in the common space, with components found one after
    another: component r maximises

    .. math::
        \sum_{i \neq j} w_{ir}^\top X_i^\top X_j w_{jr}
        \quad \text{subject to} \quad w_{vr}^\top X_v^\top X_v w_{vr} = 1,
        \quad w_{vr}^\top X_v^\top X_v w_{vt} = 0 \text{ for all } v \text{ and } t < r

    by Horst's iteration [1]_. With more than two views this has no closed solution; ``constraint="joint"`` takes the
    one constraint :math:`\frac{1}{n} \sum_v W_v^\top X_v^\top X_v W_v = I`, which has [2]_, from which the iteration
    starts. With two views both are CCA. A sample takes part in the pairs of views that have seen it, and every pair
    of views counts by how many samples it has; in the mean and covariance of a view a sample counts by the share of
    the other views that have seen it, so that covariances belong to the same pairs as the products between views.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of features of the smallest view, or of all views
        together with the joint constraint, and no more than components along which views agree at all.
    constraint : {"views", "joint"}
        One constraint per view, or one over all.
    reg : float
        Ridge on every view's covariance, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,)
        What the components attain, divided by the number of views: for each, the mean over views of the sum of its
        correlations with the other views (with the ridge in their denominators); with two views the canonical
        correlations.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

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

    def __init__(
        self, n_components: int = 20, constraint: str = "views", reg: float = 0.1, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.constraint = constraint
        self.reg = reg
        self.center = center

    _gains: ClassVar[bool] = True

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        check_choice(self.constraint, "constraint", ("views", "joint"))
        return super()._data(views, classes)

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features) if self.constraint == "views" else sum(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        pairs, own = pair_products(data.arrays, data.weights)
        blocks, n = [ridge(B, self.reg) for B in own], len(own)
        if self.constraint == "joint":
            eigenvalues, W = largest_generalised_eigenpairs(pairs, blocks, d)
            return eigenvalues, np.sqrt(n) * W
        values, W = successive_unit_directions(pairs, blocks, d)
        return values / n, W


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
    >>> cv.CCA(n_components=5, reg=1e-3).fit(data.views).eigenvalues_.round(2)
    array([0.82, 0.8 , 0.69, 0.67, 0.63])
    """

    _two_views: ClassVar[bool] = True
    _gains: ClassVar[bool] = True

    def __init__(self, n_components: int = 20, reg: float = 0.1, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        own = grams(data.arrays)
        ridges = [self.reg * float(np.trace(gram)) / len(gram) for gram in own]
        return _canonical_correlations(data.arrays, own, ridges, d)


def _canonical_correlations(
    arrays: Sequence[Array], own: Sequence[Array], ridges: Sequence[float], d: int
) -> tuple[Array, Array]:
    """The d largest canonical correlations of two centred views, and the directions, one above the other.

    The views' Gram matrices are overwritten.
    """
    for gram, rho in zip(own, ridges, strict=True):
        gram[np.diag_indices(len(gram))] += rho
    factors = factor_blocks(own)
    C = cross_product(*arrays)
    for L in factors:
        C = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False).T
    U, correlations, V = largest_singular_triplets(C, d)
    return correlations, unwhiten(np.vstack([U, V]), factors)


class KCCA(KernelViews, Embedding):
    r"""Kernel Canonical Correlation Analysis, of two views.

    CCA in the feature space of a kernel: maximises :math:`A_1^\top K_1 K_2 A_2` subject to
    :math:`A_v^\top (K_v K_v + \rho_v K_v) A_v = I` [1]_. Without the regulariser ρ any two views would be perfectly
    correlated. It is solved on explicit coordinates of the part of the feature space that the training samples, or
    landmarks among them, span.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, at most the rank of the smaller kernel matrix.
    reg : float or sequence of float
        Regulariser ρ, one for both views or one for each, relative to the mean eigenvalue of the (centred) kernel
        matrix.
    center : bool
        Subtract every view's training mean in the feature space.
    kernel, gamma, gamma_scale, degree, coef0, kernel_params, n_landmarks, random_state
        As in `KMvHE`.

    Attributes
    ----------
    projections_, landmarks_, kernels_, gamma_, offsets_
        As in `KMvHE`.
    eigenvalues_ : ndarray of shape (d,)
        The canonical correlations (with the regulariser in their denominators), descending.

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

    eigenvalues_: Array

    def __init__(
        self,
        n_components: int = 20,
        reg: float | Sequence[float] = 0.1,
        center: bool = True,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | Sequence[float] | None = None,
        gamma_scale: float = 1.0,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Two views of the same m samples; a row of NaN is a sample that a view has not seen.
        y : ignored
            Not used.

        Returns
        -------
        self : KCCA
            Fitted.
        """
        wanted = wanted_components(self)
        check_flag(self.center, "center")
        checked = check_views(views, self)
        check_two_views(checked, self)
        regs = per_view(self.reg, "reg", 2)
        self._check_kernel(checked)
        maps, features, means, ridges = [], [], [], []
        for reg, (kernel, rows, landmarks, seen) in zip(regs, self._kernel_views(checked), strict=True):
            kernel_map, R = KernelMap.fit(kernel, rows, landmarks, np.flatnonzero(seen))
            R, mean = centred(R, seen, center=self.center, overwrite=True)
            maps.append(kernel_map)
            features.append(R)
            means.append(mean)
            ridges.append(reg * float(np.vdot(R, R)) / seen.sum())
        d = min(wanted, *(R.shape[1] for R in features))
        correlations, stacked = _canonical_correlations(features, grams(features), ridges, d)
        useful = count_gains(correlations)
        self.eigenvalues_ = correlations[:useful]
        W = np.split(stacked[:, :useful], [features[0].shape[1]])
        signs = component_signs(np.vstack([product(R, w) for R, w in zip(features, W, strict=True)]))
        factors = (
            R[np.flatnonzero(seen)[kernel_map.pivots]] + mean
            for R, seen, kernel_map, mean in zip(features, checked.mask.T, maps, means, strict=True)
        )
        self._store_maps(maps, factors, [w * signs for w in W], means)
        self._remember(checked)
        return self


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
    _gains: ClassVar[bool] = True
    _weights: ClassVar[tuple[str, ...]] = ()

    def __init__(self, n_components: int = 20, center: bool = True) -> None:
        self.n_components = n_components
        self.center = center

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        U, covariances, V = largest_singular_triplets(cross_product(*data.arrays), d)
        return covariances, np.vstack([U, V])
