"""The one front end for eigenproblems."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossview.views import Array

__all__ = ["component_signs", "smallest_eigenpairs"]


def smallest_eigenpairs(S: Array, d: int, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Eigenpairs of the d smallest eigenvalues of a symmetric matrix.

    Parameters
    ----------
    S : ndarray of shape (N, N)
        Symmetric, in C order; only the lower triangle is read.
    d : int
        Number of eigenpairs, at most N.
    overwrite : bool
        Whether S may be destroyed, which saves its copy.

    Returns
    -------
    eigenvalues : ndarray of shape (d,)
        In ascending order.
    eigenvectors : ndarray of shape (N, d)
        Orthonormal.
    """
    # LAPACK reads columns: the transpose of a C-ordered lower triangle is an upper one, without a copy.
    eigenvalues, eigenvectors = scipy.linalg.eigh(
        S.T, lower=False, subset_by_index=[0, d - 1], overwrite_a=overwrite, check_finite=False, driver="evr"
    )
    return eigenvalues, eigenvectors


def component_signs(W: Array) -> Array:
    """Signs that make the largest entry of every column positive.

    Among entries that are largest up to rounding, the first decides, so that rounding does not.

    Parameters
    ----------
    W : ndarray of shape (N, d)
        Components, one per column.

    Returns
    -------
    signs : ndarray of shape (d,)
        1 or -1 for every column.

    Examples
    --------
    >>> import numpy as np
    >>> component_signs(np.array([[1.0, -0.5], [-2.0, 0.5]]))
    array([-1., -1.])
    """
    size = np.abs(W)
    leading = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(W[leading, np.arange(W.shape[1])] < 0.0, -1.0, 1.0)
