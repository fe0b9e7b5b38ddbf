r"""MvHE and KMvHE as printed in the paper, with dense matrices, as the reference for the estimators' speed.

The code builds everything that the paper writes down: selection matrices, alignment matrices over all samples of all
views, and block-diagonal data. A sum of products over the samples of a view becomes one product of stacked matrices,
and only the required eigenvectors are computed; the work is the same. Views are complete and not centred. Rows are
samples, so the paper's :math:`X A X^\top` reads :math:`X^\top A X`. Equations are cited by their labels in the paper's
source, which `crossview.MvHE` cites in full. Parameters are those of `crossview.MvHE` and `crossview.KMvHE`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, eigh
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from crossview._types import Array, Indices
from crossview.kernels import median_gamma


def literal_mvhe(arrays: Sequence[Array], y: ArrayLike, n_components: int = 20, **parameters: Any) -> list[Array]:
    r"""Minimise :math:`\operatorname{tr} W^\top X (J + λ_1 U + λ_2 V) X^\top W` subject to :math:`W^\top W = n I`.

    This is equation ``mllda_sol``, solved by the eigenvectors of the d smallest eigenvalues. Returns W_v of every view,
    equal to the projections of ``crossview.MvHE(center=False)`` up to signs.
    """
    X = block_diag(*arrays)
    _, W = eigh(X.T @ _alignment(arrays, y, **parameters) @ X, subset_by_index=[0, n_components - 1])
    return np.split(np.sqrt(len(arrays)) * W, np.cumsum([array.shape[1] for array in arrays])[:-1])


def literal_kmvhe(
    arrays: Sequence[Array],
    y: ArrayLike,
    n_components: int = 20,
    *,
    gamma: float | Sequence[float] | None = None,
    **parameters: Any,
) -> list[Array]:
    r"""Minimise :math:`\operatorname{tr} A^\top K (J + λ_1 U + λ_2 V) K A` subject to :math:`A^\top K A = n I`.

    This is equation ``ker_solution``, a generalised eigenproblem with the block-diagonal K of ``repre_W``. K must be
    positive definite, so no view may contain a sample twice. The paper does not name its kernel; this is the RBF,
    which keeps neighbours the same in its feature space. Returns A_v of every view; ``K_v @ A_v`` are the training
    samples as mapped by ``crossview.KMvHE(center=False)``, up to signs.
    """
    widths = [median_gamma(X, "rbf") for X in arrays] if gamma is None else np.broadcast_to(gamma, len(arrays))
    K = block_diag(*(rbf_kernel(X, gamma=width) for X, width in zip(arrays, widths, strict=True)))
    A = _alignment(arrays, y, **parameters)
    _, coefficients = eigh(K @ A @ K, K, subset_by_index=[0, n_components - 1])
    return np.split(np.sqrt(len(arrays)) * coefficients, len(arrays))


def _alignment(
    arrays: Sequence[Array],
    y: ArrayLike,
    lambda_intra: float = 0.01,
    lambda_inter: float = 0.05,
    beta: float = 0.1,
    n_within: int = 1,
    n_between: int = 15,
) -> Array:
    """J + λ1 U + λ2 V over all samples, view by view: shape (nm, nm)."""
    n = len(arrays)
    patches = [_patches(X, np.asarray(y), beta, n_within, n_between) for X in arrays]
    U = sum(_aligned(n, i, i, *patches[i]) for i in range(n))
    V = sum(_aligned(n, i, j, *patches[j]) for i in range(n) for j in range(n) if j != i)
    total: Array = _paired(len(arrays[0]), n) + lambda_intra * U + lambda_inter * V
    return total


def _paired(m: int, n: int) -> Array:
    """J of LE-paired (``defined_J``): a sum over cyclic shifts of the views by whole blocks."""
    identity = np.eye(n * m)
    J = np.zeros((n * m, n * m))
    for i in range(2, n + 1):
        J_i = np.zeros((n * m, n * m))
        J_i[: (i - 1) * m, (n - i + 1) * m :] = np.eye((i - 1) * m)
        J_i[(i - 1) * m :, : (n - i + 1) * m] = np.eye((n - i + 1) * m)
        J += (identity - J_i) @ (identity - J_i).T
    return J


def _patches(X: Array, y: NDArray[Any], beta: float, n_within: int, n_between: int) -> tuple[Indices, Array]:
    """Neighbours of every sample in its patch, and θ, both of shape (m, p1 + p2); θ is 0 if a class is too small."""
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
    """Sum of S L S' over the patches of view i's samples in view j (``defined_U``, ``defined_V``).

    With ``L = E diag(θ) E'``, the sum is the product of all stacked ``S E diag(θ)`` with all stacked ``S E``.
    """
    m, p = members.shape
    F = np.hstack([i * m + np.arange(m)[:, None], j * m + members])
    S = np.zeros((n * m, m, p + 1))
    S[F, np.arange(m)[:, None], np.arange(p + 1)] = 1.0
    E = np.vstack([-np.ones((1, p)), np.eye(p)])
    SE = (S.reshape(-1, p + 1) @ E).reshape(n * m, m * p)
    aligned: Array = (SE * theta.ravel()) @ SE.T
    return aligned
