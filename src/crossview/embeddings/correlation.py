"""Unsupervised methods that maximise the correlation or covariance between views."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from crossview._types import Array
from crossview._validation import check_choice, per_view
from crossview.embeddings._base import (
    COUPLINGS,
    GAMMA_SCALES,
    N_COMPONENTS,
    RIDGES,
    WHITENINGS,
    Embedding,
    SearchSpace,
)
from crossview.embeddings._kernel import KernelEmbedding
from crossview.linalg.eigen import (
    factor_blocks,
    largest_singular_triplets,
    ridge,
    smallest_eigenpairs,
    successive_directions,
    unwhiten,
)
from crossview.samples import Samples

__all__ = ["CCA", "KCCA", "MCCA", "PLS"]


class MCCA(Embedding):
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
        One constraint per view, or one over all views.
    reg : float
        Ridge on the covariance of each view, relative to its mean diagonal.
    coupling : float or "auto"
        c: cost of differences between the maps in the ridge, as in `MvDA`. Above 0, the constraint is joint.
    whitening
        As in `MvHE`; needs labels.
    center : bool
        Subtract the training mean of each view first.

    Attributes
    ----------
    projections_, means_
        As in `MvHE`.
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

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "reg": RIDGES,
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
    _refits: ClassVar[tuple[str, ...]] = ("reg", "coupling", "whitening")
    _drop_nonpositive = True
    _nonnegative: ClassVar[tuple[str, ...]] = ("reg",)

    def __init__(
        self,
        n_components: int = 20,
        *,
        constraint: str = "views",
        reg: float = 0.1,
        coupling: float | str = 0.0,
        whitening: float | None = None,
        center: bool = True,
    ) -> None:
        super().__init__(n_components, coupling=coupling, whitening=whitening, center=center)
        self.constraint = constraint
        self.reg = reg

    def _check_params(self, n_views: int) -> None:
        check_choice(self.constraint, "constraint", ("views", "joint"))

    def _max_components(self, data: Samples) -> int:
        joint = self.constraint == "joint" or self.coupling_
        return self._norm(data).order if joint else min(data.n_features)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        pairs, blocks = data.pair_matrix(), data.grams()
        n = len(blocks)
        if self.constraint == "joint" or self.coupling_:
            eigenvalues, W = self._largest_ratios(data, pairs, blocks, d, self.reg)
            return eigenvalues, np.sqrt(n) * W
        values, W = successive_directions(pairs, [ridge(B, self.reg) for B in blocks], d, unit_blocks=True)
        return values / n, W


class CCA(Embedding):
    r"""Canonical Correlation Analysis of two views, with a ridge.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top (X_v^\top X_v + \rho_v I) W_v = I` [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, at most the number of features of the smaller view.
    reg : float or sequence of float
        Ridge ρ on the covariance of each view, relative to its mean diagonal; one for both views, or one per view.
    coupling, whitening
        As in `MCCA`; with coupling, both views have the mean of the ridges.
    center : bool
        Subtract the training mean of each view first.

    Attributes
    ----------
    projections_, means_
        As in `MvHE`.
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

    search_space: ClassVar[SearchSpace] = MCCA.search_space
    _refits: ClassVar[tuple[str, ...]] = MCCA._refits
    _needs_two_views = True
    _drop_nonpositive = True

    def __init__(
        self,
        n_components: int = 20,
        *,
        reg: float | Sequence[float] = 0.1,
        coupling: float | str = 0.0,
        whitening: float | None = None,
        center: bool = True,
    ) -> None:
        super().__init__(n_components, coupling=coupling, whitening=whitening, center=center)
        self.reg = reg

    def _check_params(self, n_views: int) -> None:
        per_view(self.reg, "reg", n_views)

    def _max_components(self, data: Samples) -> int:
        return min(data.n_features)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        regs = per_view(self.reg, "reg", 2)
        if self.coupling_:
            eigenvalues, W = self._largest_ratios(data, data.pair_matrix(), data.grams(), d, float(np.mean(regs)))
            return eigenvalues, np.sqrt(2.0) * W
        factors = factor_blocks([ridge(gram, reg) for gram, reg in zip(data.grams(), regs, strict=True)])
        (C,) = data.pair_products()
        for L in factors:
            C = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False).T
        U, correlations, V = largest_singular_triplets(C, d)
        return correlations, unwhiten(np.vstack([U, V]), factors)


class KCCA(KernelEmbedding, CCA):
    r"""Kernel Canonical Correlation Analysis of two views.

    CCA in the feature space of a kernel: maximises :math:`A_1^\top K_1 K_2 A_2` subject to
    :math:`A_v^\top (K_v K_v + \rho_v K_v) A_v = I` [1]_. Without the regulariser ρ, any two views would be perfectly
    correlated. Equivalent to ``make_pipeline(ViewKernel(...), CCA(...))``.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, at most the rank of the smaller kernel matrix.
    reg : float or sequence of float
        Regulariser ρ, one for both views or one per view, relative to the mean non-zero eigenvalue of the (centred)
        kernel matrix.
    coupling, whitening
        As in `KMvHE`.
    center : bool
        Subtract the training mean of each view in the feature space.
    kernel, gamma, gamma_scale, degree, coef0, kernel_params, n_landmarks, random_state
        As in `ViewKernel`.

    Attributes
    ----------
    projections_, landmarks_, kernels_, gamma_, offsets_
        As in `KMvHE`.
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

    def __init__(
        self,
        n_components: int = 20,
        *,
        reg: float | Sequence[float] = 0.1,
        coupling: float | str = 0.0,
        whitening: float | None = None,
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
        super().__init__(n_components, reg=reg, coupling=coupling, whitening=whitening, center=center)
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.random_state = random_state


class PLS(Embedding):
    r"""Partial Least Squares of two views: maximal covariance along orthonormal directions.

    Maximises :math:`W_1^\top X_1^\top X_2 W_2` subject to :math:`W_v^\top W_v = I`, by a singular value decomposition
    of the covariance between the views [1]_.

    Parameters
    ----------
    n_components, center
        As in `CCA`.
    coupling : float or "auto"
        c: cost of differences between the maps, as in `MvHE`. Above 0, the constraint is
        :math:`\sum_v W_v^\top W_v = 2 I` in the coupled norm; without coupling, both have the same solution.
    whitening
        As in `MCCA`.

    Attributes
    ----------
    projections_, means_
        As in `MvHE`.
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

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
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
