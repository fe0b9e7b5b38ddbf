"""The one front end for eigenproblems."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossview.views import Array

__all__ = ["fix_signs", "smallest_eigenpairs"]


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
        Orthonormal, with signs as `fix_signs` sets them.
    """
    # LAPACK reads columns: the transpose of a C-ordered lower triangle is an upper one, without a copy.
    eigenvalues, eigenvectors = scipy.linalg.eigh(
        S.T, lower=False, subset_by_index=[0, d - 1], overwrite_a=overwrite, check_finite=False, driver="evr"
    )
    return eigenvalues, fix_signs(eigenvectors)


def fix_signs(vectors: Array) -> Array:
    """Give every column the sign that makes its largest entry positive.

    Among entries that are largest up to rounding, the first decides, so that rounding does not.

    Examples
    --------
    >>> import numpy as np
    >>> fix_signs(np.array([[1.0, -0.5], [-2.0, 0.5]]))
    array([[-1. ,  0.5],
           [ 2. , -0.5]])
    """
    size = np.abs(vectors)
    leading = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    signs = np.where(np.take_along_axis(vectors, leading[None, :], axis=0) < 0.0, -1.0, 1.0)
    return vectors * signs
