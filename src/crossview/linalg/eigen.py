"""Solvers for extreme eigenpairs and singular triplets, and for generalised problems: ``max tr W'AW``, ``W'BW = I``.

A dense solver reduces the whole matrix even if only a few eigenpairs are wanted. For orders of several thousand, it is
faster to factor the matrix twice: once, shifted to be positive definite, to iterate with its inverse, and once to
verify that the iteration missed no eigenvalue, except possibly one that is numerically equal to the last. If the
iteration does not converge quickly, the dense solver takes over.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotrs, dsygst
from scipy.sparse.linalg import ArpackError, eigsh, svds

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

_ASCEND_FROM = 300  # order from which iterating from an initial guess beats the dense solver
_MAX_STEPS = 100  # Newton steps or series of Horst sweeps per direction
_SWEEPS = 20  # Horst sweeps per series
_STATIONARY = 1e-12  # relative size of the gradient at convergence
_SINGULAR = 10.0 * np.finfo(np.float64).eps  # relative size of a pivot that may be rounding error
_CONSTANT = 1e-26  # relative squared norm of a column that may be rounding error


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


def ridge(B: Array, reg: float, sizes: Sequence[int] | None = None) -> Array:
    """Add `reg` times the mean of the diagonal of B to the diagonal, separately for blocks of the given sizes."""
    ridged = B.copy()
    diagonal = np.diagonal(B)
    means = [np.full(len(part), part.mean()) for part in np.split(diagonal, np.cumsum(sizes or [len(B)])[:-1])]
    ridged[np.diag_indices(len(B))] += reg * np.concatenate(means)
    return ridged


def largest_generalised_eigenpairs(A: Array, B: Array | Sequence[Array], d: int) -> tuple[Array, Array]:
    """Eigenpairs of the d largest eigenvalues of ``A w = λ B w``.

    A is symmetric, (N, N); B is positive definite, given as a matrix or as the sequence of its diagonal blocks. Returns
    the eigenvalues, (d,), descending, and eigenvectors, (N, d), with ``W'BW = I``.
    """
    factors = factor_blocks([B] if isinstance(B, np.ndarray) else B)
    eigenvalues, V = _largest(whiten(A, factors), d)
    return eigenvalues, unwhiten(V, factors)


def _largest(A: Array, d: int) -> tuple[Array, Array]:
    """Eigenpairs of the d largest eigenvalues, descending. Overwrites A."""
    N = len(A)
    eigenvalues, V = scipy.linalg.eigh(
        A, lower=True, subset_by_index=[N - d, N - 1], overwrite_a=True, check_finite=False, driver="evr"
    )
    return eigenvalues[::-1], V[:, ::-1]


def successive_directions(A: Array, B: Sequence[Array], d: int, *, unit_blocks: bool = False) -> tuple[Array, Array]:
    """Find directions one at a time, each B-orthogonal to all previous ones in every block.

    Direction r maximises ``w'Aw`` subject to ``w'Bw = 1`` and ``w_vr' B_v w_vt = 0`` for all blocks v and t < r.

    With `unit_blocks`, the constraint is ``w_vr' B_v w_vr = 1`` for every block v, and the diagonal blocks of A must be
    zero. The search then starts from the eigenvector that solves the problem with one constraint over all blocks, which
    is already the solution if there are two. Horst's iteration optimises one block at a time given the others, so the
    objective never decreases; Newton's method replaces the thousands of steps it would need near the optimum. The
    result is a local maximum.

    A is symmetric, (N, N); B holds the positive definite diagonal blocks; d is at most the order of the smallest block.
    Returns the attained values, (d,), and the directions, (N, d).
    """
    factors = factor_blocks(B)
    deflated = _mirrored(whiten(A, factors))
    start = _largest(deflated.copy(order="F"), d)[1]
    values, V = np.empty(d), np.empty((len(A), d))
    deflation = _Deflation(_blocks(factors), deflated)
    for r in range(d):
        if unit_blocks:
            V[:, r] = _ascend(deflation, deflation.project(start[:, r], unit_blocks=True))
            values[r] = V[:, r] @ deflated @ V[:, r]
        else:
            values[r], V[:, r] = _leading(deflated, deflation.project(start[:, r]))
        deflation.deflate(V[:, r])
    return values, unwhiten(V, factors)


def successive_conjugates(A: Array, B: Array, d: int, conjugates: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Find directions one at a time, each orthogonal to what `conjugates` gives for the previous ones.

    Direction r maximises ``w'Aw`` subject to ``w'Bw = 1`` and ``C'w = 0`` for the columns of ``C = conjugates(w_t)``,
    t < r. A and B are symmetric, (N, N), and B is positive definite. Returns the attained values, (d,), and the
    directions, (N, d).
    """
    factors = factor_blocks([B])
    deflated = _mirrored(whiten(A, factors))
    start = _largest(deflated.copy(order="F"), d)[1]
    values, V, Q = np.empty(d), np.empty((len(A), d)), np.empty((len(A), 0))
    for r in range(d):
        values[r], V[:, r] = _leading(deflated, start[:, r])
        C = solve_triangular(factors[0], conjugates(unwhiten(V[:, [r]], factors)[:, 0]), lower=True, check_finite=False)
        Q = scipy.linalg.qr(np.hstack([Q, C]), mode="economic")[0]
        projected = deflated - Q @ (Q.T @ deflated)
        deflated = projected - (projected @ Q) @ Q.T
    return values, unwhiten(V, factors)


class _Deflation:
    """A matrix, and the directions already found, which are projected out of it block by block."""

    def __init__(self, blocks: list[slice], matrix: Array) -> None:
        self.blocks = blocks
        self.matrix = matrix
        self.bases = [np.empty((block.stop - block.start, 0)) for block in blocks]
        self.negligible = 1e-13 * float(np.abs(matrix).max(initial=0.0))  # norms below it are rounding error

    def deflate(self, v: Array) -> None:
        """Project one more direction out of the matrix."""
        for k, block in enumerate(self.blocks):
            norm = np.linalg.norm(v[block])
            if norm > 1e-8 * np.linalg.norm(v):
                q = v[block] / norm
                self.bases[k] = np.column_stack([self.bases[k], q])
                self.matrix[block] -= np.outer(q, q @ self.matrix[block])
                self.matrix[:, block] -= np.outer(self.matrix[:, block] @ q, q)

    def project(self, v: Array, *, unit_blocks: bool = False) -> Array:
        """Project v onto the complement of the directions found; replace a block that vanishes by any vector there."""
        projected = v.copy()
        for k, block in enumerate(self.blocks):
            projected[block] = self._project_block(k, projected[block])
            if np.linalg.norm(projected[block]) < 1e-8:
                Q = self.bases[k]
                axis = np.square(Q).sum(axis=1).argmin()  # the axis with the smallest component in the span of Q
                projected[block] = self._project_block(k, np.eye(len(Q))[axis])
            if unit_blocks:
                projected[block] /= np.linalg.norm(projected[block])
        return projected

    def horst_sweep(self, v: Array) -> None:
        """Set each block of v in turn to its optimum given the others, unless its gradient vanishes."""
        for k, block in enumerate(self.blocks):
            gradient = self._project_block(k, self.matrix[block] @ v)
            norm = np.linalg.norm(gradient)
            if norm > self.negligible:
                v[block] = gradient / norm

    def _project_block(self, k: int, part: Array) -> Array:
        Q = self.bases[k]
        for _ in range(2):  # the second pass removes rounding error
            part = part - Q @ (Q.T @ part)
        return part


def _leading(A: Array, start: Array) -> tuple[float, Array]:
    """Largest eigenvalue of a symmetric matrix and its eigenvector, from an initial guess."""
    if len(A) >= _ASCEND_FROM:
        try:
            value, v = eigsh(A, k=1, which="LA", v0=start)
            return float(value[0]), v[:, 0]
        except ArpackError:
            pass
    value, v = _largest(A.copy(order="F"), 1)
    return float(value[0]), v[:, 0]


def _ascend(deflation: _Deflation, v: Array) -> Array:
    """Maximise ``v'Av`` over vectors with unit norm in each block, from a starting point to a stationary point."""
    A, blocks = deflation.matrix, deflation.blocks
    newton, previous = None, np.inf
    for _ in range(_MAX_STEPS):
        v = _best_signs(A, v, blocks)
        image = A @ v
        multipliers = np.concatenate([np.full(b.stop - b.start, v[b] @ image[b]) for b in blocks])
        residual = image - multipliers * v
        size = float(np.abs(residual).max())
        if size <= max(_STATIONARY * np.abs(multipliers).max(), deflation.negligible):
            break
        if size > 0.2 * previous:  # slow progress: the factorisation is out of date
            newton = None
        newton, previous = newton or _newton(A, v, multipliers, blocks), size
        if newton is not None:
            candidate = deflation.project(v + newton(residual), unit_blocks=True)
            if candidate @ A @ candidate >= v @ image - 1e-15 * len(v):
                v = candidate
                continue
        newton, previous = None, np.inf
        for _ in range(_SWEEPS):
            deflation.horst_sweep(v)
    return v


def _best_signs(A: Array, v: Array, blocks: Sequence[slice]) -> Array:
    """Flip the signs of the blocks of v to maximise ``v'Av``; only the first ten blocks if there are more."""
    parts = np.zeros((len(v), len(blocks)))
    for k, block in enumerate(blocks):
        parts[block, k] = v[block]
    between = parts.T @ A @ parts
    signs = np.ones((2 ** min(len(blocks) - 1, 10), len(blocks)))
    for k in range(min(len(blocks) - 1, 10)):
        signs[:, k] = 1.0 - 2.0 * (np.arange(len(signs)) >> k & 1)
    values = np.einsum("si,ij,sj->s", signs, between, signs)
    best = int(values.argmax())
    # Keep the current signs if others are better only by rounding error.
    return v if values[best] <= values[0] + 1e-12 * abs(values[0]) else parts @ signs[best]


def _newton(A: Array, v: Array, multipliers: Array, blocks: list[slice]) -> Callable[[Array], Array] | None:
    """Newton step as a function of the residual, keeping unit norms to first order; None if v is not near a maximum."""
    E = np.zeros((len(v), len(blocks)), order="F")
    for k, block in enumerate(blocks):
        E[block, k] = v[block]
    # Steps have no component along E, so the curvature there is arbitrary: at a maximum, this is positive definite.
    curvature = np.diag(multipliers) - A + 2.0 * np.abs(multipliers).max() * inner_products(E, E)
    factor, info = dpotrf(curvature.T, lower=0, clean=0, overwrite_a=1)
    if info:
        return None
    along = dpotrs(factor, E, lower=0)[0]
    inverse = np.linalg.inv(E.T @ along)

    def step(residual: Array) -> Array:
        free: Array = dpotrs(factor, residual, lower=0)[0]
        free -= along @ (inverse @ (E.T @ free))
        return free

    return step


def factor_blocks(blocks: Sequence[Array]) -> list[Array]:
    """Lower Cholesky factor of each block."""
    factors = []
    for B in blocks:
        diagonal = np.diagonal(B)
        if not diagonal.any():
            raise ValueError(
                "the scatter matrix of the constraint is zero: the samples do not vary as the method requires, or "
                "their values are too small. Check the labels, or scale the views up."
            )
        try:
            L = scipy.linalg.cholesky(B, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            L = np.zeros_like(B)
        # A column that is constant or depends on others may have a positive pivot due to rounding.
        pivots = np.square(np.diagonal(L))
        if (pivots <= _SINGULAR * len(B) * diagonal).any() or diagonal.min() <= _CONSTANT * diagonal.max():
            raise ValueError(
                "the scatter matrix of the constraint is singular: raise reg, or reduce the views with ViewPCA first."
            )
        factors.append(L)
    return factors


def _blocks(factors: Sequence[Array]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(np.cumsum([0, *map(len, factors)]))]


def whiten(A: Array, factors: Sequence[Array]) -> Array:
    """Lower triangle of ``L^-1 A L^-T`` for a symmetric matrix, where L is block-diagonal with the given factors."""
    if len(factors) == 1:  # half the work, and no triangular solve with many right-hand sides
        found: Array = dsygst(A.T, factors[0], lower=1)[0]
        return found
    whitened = np.array(A, order="F")
    for block, L in zip(_blocks(factors), factors, strict=True):
        whitened[block] = solve_triangular(L, whitened[block], lower=True, check_finite=False)
    for block, L in zip(_blocks(factors), factors, strict=True):
        whitened[:, block] = solve_triangular(L, whitened[:, block].T, lower=True, check_finite=False).T
    return whitened


def _mirrored(lower: Array) -> Array:
    """The symmetric matrix with this lower triangle."""
    return np.asfortranarray(np.tril(lower) + np.tril(lower, -1).T)


def unwhiten(V: Array, factors: Sequence[Array]) -> Array:
    """``L^-T V``."""
    return np.vstack(
        [
            solve_triangular(L, V[block], lower=True, trans=1, check_finite=False)
            for block, L in zip(_blocks(factors), factors, strict=True)
        ]
    )
