"""Solvers for extreme eigenpairs and singular triplets.

A dense solver reduces the whole matrix even if only a few eigenpairs are wanted. For orders of several thousand, it is
faster to factor the matrix twice: once, shifted to be positive definite, to iterate with its inverse, and once to
verify that the iteration missed no eigenvalue, except possibly one that is numerically equal to the last. If the
iteration does not converge quickly, the dense solver takes over.
"""

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse.linalg import ArpackError, svds

from crossview._types import Array, Rows
from crossview.engines import dense_eigenpairs, inner_products

_ITERATE_FROM = 5000  # order from which iteration beats the dense solver
_ITERATE_AT_MOST = 24  # number of eigenpairs up to which it does
_BLOCK = 24  # solving for fewer right-hand sides at once is no faster
_STEPS = 48  # blocks per Krylov space
_ATTEMPTS = 6  # shifts to try
_RUNS = 2  # Lanczos runs to try
_SVD_ITERATE_FROM = 500  # order from which iteration is faster for a few singular triplets
_SVD_ITERATE_RATIO = 20  # minimal ratio of the order to the number of triplets


def smallest_eigenpairs(S: Array, d: int, *, overwrite: bool = False, engine: Rows = None) -> tuple[Array, Array]:
    """Eigenpairs of the d smallest eigenvalues of a symmetric matrix.

    S has shape (N, N) and C order; only its lower triangle is read. `overwrite` allows destroying it, which saves a
    copy. `engine` is an array whose engine may be faster. Returns the eigenvalues, (d,), ascending, and orthonormal
    eigenvectors, (N, d).
    """
    if (solved := dense_eigenpairs(engine, S)) is not None:
        return solved[0][:d], solved[1][:, :d]
    if len(S) >= _ITERATE_FROM and d <= _ITERATE_AT_MOST:
        found = _by_inverse_iteration(S, d)
        if found is not None:
            return found
    # LAPACK is column-major: it reads the lower triangle of a C-ordered matrix as the upper one of S.T, without a copy.
    eigenvalues, eigenvectors = scipy.linalg.eigh(
        S.T, lower=False, subset_by_index=[0, d - 1], overwrite_a=overwrite, check_finite=False, driver="evr"
    )
    return eigenvalues, eigenvectors


def largest_singular_triplets(C: Array, d: int) -> tuple[Array, Array, Array]:
    """Singular triplets of the d largest singular values of C, (M, N): U (M, d), values (d,) descending, V (N, d)."""
    if min(C.shape) >= max(_SVD_ITERATE_FROM, _SVD_ITERATE_RATIO * d):
        start = np.random.default_rng(0).standard_normal(min(C.shape))
        try:
            U, values, Vt = svds(C, k=d, v0=start)
        except ArpackError:
            values = np.zeros(d)
        # svds squares the matrix, so vectors of relatively small singular values would be inaccurate.
        if values.min() > 1e-3 * values.max():
            order = np.argsort(-values)
            return U[:, order], values[order], Vt[order].T
    U, values, Vt = scipy.linalg.svd(C, full_matrices=False, check_finite=False)
    return U[:, :d], values[:d], Vt[:d].T


def _by_inverse_iteration(S: Array, d: int) -> tuple[Array, Array] | None:
    """Smallest eigenpairs by block Lanczos with ``(S + shift·I)^-1``; None if it fails to converge."""
    scale = float(np.abs(np.diagonal(S)).mean())
    lowest, margin = 0.0, 0.05 * scale
    block = np.random.default_rng(0).standard_normal((len(S), max(_BLOCK, d + 4)))
    runs = 0
    for _ in range(_ATTEMPTS):
        shift = margin - lowest
        factor = _factor(S.copy(), shift)
        if factor is None:
            margin *= 4.0
            continue
        inverse, vectors, converged = _block_lanczos(factor, block, d)
        runs += 1
        del factor
        eigenvalues = 1.0 / inverse - shift
        if converged:
            return (eigenvalues[:d], vectors[:, :d]) if _complete(S, eigenvalues[:d], vectors[:, :d], scale) else None
        if runs == _RUNS:
            break
        # Restart with a closer shift. Ritz values lie above the eigenvalues; a margin that is too small grows again.
        lowest, block = float(eigenvalues[0]), vectors
        margin = max(float(eigenvalues[d] - lowest), 1e-3 * scale)
    return None


def _factor(S: Array, shift: float) -> Array | None:
    """Cholesky factor of ``S + shift·I``, overwriting S; None if it is not positive definite."""
    S[np.diag_indices(len(S))] += shift
    factor, info = dpotrf(S.T, lower=0, clean=0, overwrite_a=1)
    return None if info else factor


def _block_lanczos(factor: Array, start: Array, d: int) -> tuple[Array, Array, bool]:
    """Largest Ritz values of the inverse of a factored matrix, their vectors, and whether the first d converged."""
    N, b = start.shape
    basis = np.empty((N, b * (_STEPS + 1)), order="F")
    projected = np.zeros((b * _STEPS, b * _STEPS))
    basis[:, :b] = scipy.linalg.qr(start, mode="economic")[0]
    for step in range(_STEPS):
        a, e = step * b, (step + 1) * b
        known = basis[:, :e]
        image = dpotrs(factor, basis[:, a:e], lower=0)[0]
        for _ in range(2):  # one pass does not reach orthogonality to working precision
            part = dgemm(1.0, known, image, trans_a=1)
            image -= dgemm(1.0, known, part)
            projected[:e, a:e] += part
        basis[:, e : e + b], rest = scipy.linalg.qr(image, mode="economic", overwrite_a=True)
        if step % 4 and step < _STEPS - 1:
            continue
        top = [max(0, e - b), e - 1]
        values, coefficients = scipy.linalg.eigh(projected[:e, :e], lower=False, subset_by_index=top)
        values, coefficients = values[::-1], coefficients[:, ::-1]
        residuals = np.linalg.norm(rest @ coefficients[-b:, :d], axis=0)
        converged = bool(residuals.max() <= 1e-13 * values[0])
        if converged:
            break
    return values, dgemm(1.0, known, coefficients), converged


def _complete(S: Array, eigenvalues: Array, vectors: Array, scale: float) -> bool:
    """Whether S has no further eigenvalue below the largest given one, tested after shifting the given ones upwards."""
    lift = scale + 2.0 * (eigenvalues[-1] - eigenvalues[0])
    lifted = inner_products(vectors, vectors, lift)
    lifted += S
    return _factor(lifted, 1e-7 * scale - float(eigenvalues[-1])) is not None


def component_signs(W: Array) -> Array:
    """Signs, (d,), that make the largest entry of each column of W, (N, d), positive.

    Among entries that tie up to rounding, the first decides, which makes the result reproducible.

    Examples
    --------
    >>> import numpy as np
    >>> component_signs(np.array([[1.0, -0.5], [-2.0, 0.5]]))
    array([-1., -1.])
    """
    return np.where(leading_entries(W) < 0.0, -1.0, 1.0)


def leading_entries(W: Array) -> Array:
    """The entries, (d,), that decide on the signs of the columns of W."""
    size = np.abs(W)
    leading = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    entries: Array = W[leading, np.arange(W.shape[1])]
    return entries
