"""The directions in which samples vary.

Where features are constant or depend on each other, as they must where a view has more features than samples, there are
directions in which no training sample varies. An objective that is minimised under an orthonormality constraint finds
them optimal, at zero, and useless: new samples do vary there. Maps are therefore restricted to the span of the training
samples, which changes nothing where the samples span all directions.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf

from crossview._types import Array, Indices

__all__ = ["constant_direction", "row_space"]

_WELL_CONDITIONED = 1e-12  # reciprocal condition of a correlation matrix: far from what rounding could make singular


def row_space(X: Array) -> Array | None:
    """Orthonormal basis of the directions in which samples vary.

    The numerical rank counts singular values above ``max(m, D) · eps`` times the largest.

    Parameters
    ----------
    X : ndarray of shape (m, D)
        Samples, usually centred.

    Returns
    -------
    basis : ndarray of shape (D, r) or None
        One direction per column; None where samples vary in all D directions.

    Examples
    --------
    >>> import numpy as np
    >>> row_space(np.array([[1.0, 2.0], [2.0, 4.0], [-3.0, -6.0]])).shape
    (2, 1)
    >>> row_space(np.array([[1.0, 2.0], [2.0, 5.0], [-3.0, -6.0]])) is None
    True
    """
    m, D = X.shape
    # Where some samples vary in all directions, all samples do.
    if m >= D and _surely_full(X[: 2 * D]):
        return None
    _, singular, Vt = scipy.linalg.svd(X, full_matrices=False, check_finite=False)
    rank = int(np.sum(singular > max(m, D) * np.finfo(np.float64).eps * singular[0]))
    return None if rank == D else np.ascontiguousarray(Vt[: max(rank, 1)].T)


def _surely_full(X: Array) -> bool:
    """Whether features are so far from depending on each other that there is no need for singular values."""
    gram = dsyrk(1.0, X.T)  # its upper triangle
    sizes = np.sqrt(np.diagonal(gram))
    if not sizes.all():
        return False
    gram /= sizes
    gram /= sizes[:, None]
    factor, info = dpotrf(gram, lower=0, clean=0, overwrite_a=1)
    # No column of a matrix of correlations sums to more than its order.
    return not info and bool(dpocon(factor, float(len(gram)))[0] > _WELL_CONDITIONED)


def constant_direction(R: Array, pivots: Indices) -> Array | None:
    """The direction in which a kernel's features have one value for all samples, so that centring leaves nothing.

    Features from a Cholesky factorisation span no other empty direction, and finding this one by a triangular solve
    is far cheaper than a singular value decomposition.

    Parameters
    ----------
    R : ndarray of shape (m, r)
        Features, not centred.
    pivots : ndarray of int, shape (r,)
        Rows that make up a lower triangular matrix.

    Returns
    -------
    direction : ndarray of shape (r,) or None
        Of unit length; None where there is no such direction.
    """
    u = scipy.linalg.solve_triangular(R[pivots], np.ones(len(pivots)), lower=True, check_finite=False)
    u /= np.linalg.norm(u)
    along = R @ u
    rounding = max(R.shape) * np.finfo(np.float64).eps * float(np.sqrt(np.einsum("ij,ij->", R, R)))
    return u if np.linalg.norm(along - along.mean()) <= rounding else None
