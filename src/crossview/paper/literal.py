r"""MvHE and KMvHE as the paper writes them, in dense matrices: what the speed of the estimators is compared with.

Nothing is left out here that the paper writes down: selection matrices, alignment matrices of all samples of all views,
block-diagonal data. What it writes as a sum of products over the samples of a view is one product of matrices side by
side, and eigenvectors that are not wanted are not computed: the same work, as fast as dense matrices do it. Views are
complete, and are not centred. Rows are samples, so that the paper's :math:`X A X^\top` reads :math:`X^\top A X`.
Equations go by their labels in the paper's source.

References
----------
.. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A Divide-and-Conquer
   Approach", IEEE Transactions on Cybernetics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, eigh
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from crossview._types import Array, Indices
from crossview.kernels import median_gamma

__all__ = ["literal_kmvhe", "literal_mvhe"]


def literal_mvhe(
    arrays: Sequence[Array],
    y: ArrayLike,
    n_components: int = 20,
    lambda_intra: float = 0.01,
    lambda_inter: float = 0.05,
    beta: float = 0.1,
    n_within: int = 1,
    n_between: int = 15,
) -> list[Array]:
    r"""MvHE: minimise :math:`\operatorname{tr} W^\top X (J + λ_1 U + λ_2 V) X^\top W`, s.t. :math:`W^\top W = n I`.

    Equation ``mllda_sol``, solved by the eigenvectors of the d smallest eigenvalues.

    Parameters
    ----------
    arrays : sequence of ndarray, each of shape (m, D_v)
        The views, n of them.
    y : array-like of shape (m,)
        Classes.
    n_components, lambda_intra, lambda_inter, beta, n_within, n_between
        As in `crossview.MvHE`.

    Returns
    -------
    projections : list of ndarray, each of shape (D_v, d)
        W_v of every view, those of ``crossview.MvHE(center=False)`` up to signs.

    Examples
    --------
    >>> import numpy as np
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> arrays = cv.ViewPCA(10, pooled=False).fit_transform(data.views[:100]).arrays
    >>> W = literal_mvhe(arrays, data.y[:100], n_components=3)
    >>> model = cv.MvHE(3, lambda_intra=0.01, lambda_inter=0.05, center=False).fit(arrays, data.y[:100])
    >>> all(np.allclose(abs(a), abs(b)) for a, b in zip(W, model.projections_))
    True
    """
    X = block_diag(*arrays)
    A = _alignment(arrays, y, lambda_intra, lambda_inter, beta, n_within, n_between)
    _, W = eigh(X.T @ A @ X, subset_by_index=[0, n_components - 1])
    return np.split(np.sqrt(len(arrays)) * W, np.cumsum([array.shape[1] for array in arrays])[:-1])


def literal_kmvhe(
    arrays: Sequence[Array],
    y: ArrayLike,
    n_components: int = 20,
    lambda_intra: float = 0.01,
    lambda_inter: float = 0.05,
    beta: float = 0.1,
    n_within: int = 1,
    n_between: int = 15,
    gamma: float | Sequence[float] | None = None,
) -> list[Array]:
    r"""KMvHE: minimise :math:`\operatorname{tr} A^\top K (J + λ_1 U + λ_2 V) K A`, s.t. :math:`A^\top K A = n I`.

    Equation ``ker_solution``, a generalised eigenproblem; K is block-diagonal by ``repre_W``. The kernel, which the
    paper does not name, is the RBF, in whose feature space neighbours are those of the samples themselves.

    Parameters
    ----------
    arrays, y, n_components, lambda_intra, lambda_inter, beta, n_within, n_between
        As in `literal_mvhe`. No sample may be in a view twice: K must be positive definite.
    gamma : float or sequence of float, optional
        Width of the kernel, one for all views or one per view; by each view's median heuristic when left out.

    Returns
    -------
    coefficients : list of ndarray, each of shape (m, d)
        A_v of every view: ``K_v @ A_v`` is what ``crossview.KMvHE(center=False)`` makes of the training samples, up to
        signs.
    """
    widths = [median_gamma(X, "rbf") for X in arrays] if gamma is None else np.broadcast_to(gamma, len(arrays))
    K = block_diag(*(rbf_kernel(X, gamma=width) for X, width in zip(arrays, widths, strict=True)))
    A = _alignment(arrays, y, lambda_intra, lambda_inter, beta, n_within, n_between)
    _, coefficients = eigh(K @ A @ K, K, subset_by_index=[0, n_components - 1])
    return np.split(np.sqrt(len(arrays)) * coefficients, len(arrays))


def _alignment(
    arrays: Sequence[Array],
    y: ArrayLike,
    lambda_intra: float,
    lambda_inter: float,
    beta: float,
    n_within: int,
    n_between: int,
) -> Array:
    """J + λ1 U + λ2 V, over all samples of all views: shape (nm, nm), view by view."""
    n = len(arrays)
    patches = [_patches(X, np.asarray(y), beta, n_within, n_between) for X in arrays]
    U = sum(_aligned(n, i, i, *patches[i]) for i in range(n))
    V = sum(_aligned(n, i, j, *patches[j]) for i in range(n) for j in range(n) if j != i)
    total: Array = _paired(len(arrays[0]), n) + lambda_intra * U + lambda_inter * V
    return total


def _paired(m: int, n: int) -> Array:
    """J of LE-paired, ``defined_J``: a sum over cyclic shifts of the views by whole blocks."""
    identity = np.eye(n * m)
    J = np.zeros((n * m, n * m))
    for i in range(2, n + 1):
        J_i = np.zeros((n * m, n * m))
        J_i[: (i - 1) * m, (n - i + 1) * m :] = np.eye((i - 1) * m)
        J_i[(i - 1) * m :, : (n - i + 1) * m] = np.eye((n - i + 1) * m)
        J += (identity - J_i) @ (identity - J_i).T
    return J


def _patches(X: Array, y: NDArray[Any], beta: float, n_within: int, n_between: int) -> tuple[Indices, Array]:
    """The neighbours in the patch of every sample, by index in the view, and θ; both of shape (m, p1 + p2).

    Where a class has too few samples, any take the place of those that are missing, with a θ of 0.
    """
    distances = cdist(X, X, "sqeuclidean")
    same = y[:, None] == y
    within = np.where(same & ~np.eye(len(X), dtype=bool), distances, np.inf)
    between = np.where(same, np.inf, distances)
    members, theta = [], []
    for d, count, weight in ((within, n_within, 1.0), (between, n_between, -beta)):
        nearest = np.argsort(d, axis=1, kind="stable")[:, :count]
        members.append(nearest)
        theta.append(np.where(np.isfinite(np.take_along_axis(d, nearest, axis=1)), weight, 0.0))
    return np.hstack(members), np.hstack(theta)


def _aligned(n: int, i: int, j: int, members: Indices, theta: Array) -> Array:
    """The sum of S L S' over the patches that samples of view i have in view j: of ``defined_U``, or ``defined_V``.

    With ``L = E diag(θ) E'`` it is the product of all ``S E diag(θ)`` side by side with all ``S E`` side by side.
    """
    m, p = members.shape
    F = np.hstack([i * m + np.arange(m)[:, None], j * m + members])
    S = np.zeros((n * m, m, p + 1))
    S[F, np.arange(m)[:, None], np.arange(p + 1)] = 1.0
    E = np.vstack([-np.ones((1, p)), np.eye(p)])
    SE = (S.reshape(-1, p + 1) @ E).reshape(n * m, m * p)
    aligned: Array = (SE * theta.ravel()) @ SE.T
    return aligned
