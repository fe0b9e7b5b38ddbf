"""Generalised eigenproblems: maximise ``tr W'AW`` subject to ``W'BW = I``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse.linalg import ArpackError, eigsh

from crossview._blas import inner_products
from crossview._types import Array

__all__ = [
    "factor_blocks",
    "largest_generalised_eigenpairs",
    "ridge",
    "successive_eigenpairs",
    "successive_unit_directions",
    "unwhiten",
]

_ITERATE_FROM = 300  # order from which iterating from a guess beats the dense solver
_ASCENTS = 100
_SWEEPS = 20
_STATIONARY = 1e-12
_SINGULAR = 10.0 * np.finfo(np.float64).eps  # relative size of a pivot that may be rounding error
_CONSTANT = 1e-26  # and of a column, squared


def ridge(B: Array, reg: float, sizes: Sequence[int] | None = None) -> Array:
    """Add `reg` times the mean diagonal of B to its diagonal; of each of its blocks by itself, if sizes are given."""
    ridged = B.copy()
    diagonal = np.diagonal(B)
    means = [np.full(len(part), part.mean()) for part in np.split(diagonal, np.cumsum(sizes or [len(B)])[:-1])]
    ridged[np.diag_indices(len(B))] += reg * np.concatenate(means)
    return ridged


def largest_generalised_eigenpairs(A: Array, B: Array | Sequence[Array], d: int) -> tuple[Array, Array]:
    """Eigenpairs of the d largest eigenvalues of ``A w = λ B w``.

    Parameters
    ----------
    A : ndarray of shape (N, N)
        Symmetric.
    B : ndarray of shape (N, N), or sequence of ndarray
        Positive definite; as a sequence, the blocks on its diagonal.
    d : int
        Number of eigenpairs, at most N.

    Returns
    -------
    eigenvalues : ndarray of shape (d,)
        In descending order.
    eigenvectors : ndarray of shape (N, d)
        With ``W'BW = I``.
    """
    factors = factor_blocks([B] if isinstance(B, np.ndarray) else B)
    eigenvalues, V = _largest(_whiten(A, factors), d)
    return eigenvalues, unwhiten(V, factors)


def _largest(A: Array, d: int) -> tuple[Array, Array]:
    """Eigenpairs of the d largest eigenvalues, in descending order. A is destroyed."""
    N = len(A)
    eigenvalues, V = scipy.linalg.eigh(
        A, lower=True, subset_by_index=[N - d, N - 1], overwrite_a=True, check_finite=False, driver="evr"
    )
    return eigenvalues[::-1], V[:, ::-1]


def successive_eigenpairs(A: Array, B: Sequence[Array], d: int) -> tuple[Array, Array]:
    """Directions one after another, each B-orthogonal, block by block, to all before.

    Direction r maximises ``w'Aw`` subject to ``w'Bw = 1`` and, for every block v and all t < r, ``w_vr' B_v w_vt = 0``.

    Parameters
    ----------
    A : ndarray of shape (N, N)
        Symmetric.
    B : sequence of ndarray
        Positive definite: the blocks on the diagonal of B.
    d : int
        Number of directions, at most the order of the smallest block.

    Returns
    -------
    values : ndarray of shape (d,)
        What each direction attains.
    W : ndarray of shape (N, d)
        The directions.
    """
    factors = factor_blocks(B)
    remaining = _whiten(A, factors)
    start = _largest(remaining.copy(order="F"), d)[1]
    values, V = np.empty(d), np.empty((len(A), d))
    taken = _Taken(_blocks(factors), remaining)
    for r in range(d):
        values[r], V[:, r] = _leading(remaining, taken.remove(start[:, r]))
        taken.add(V[:, r])
    return values, unwhiten(V, factors)


def successive_unit_directions(A: Array, B: Sequence[Array], d: int) -> tuple[Array, Array]:
    """Directions one after another, of length 1 in every block, each B-orthogonal, block by block, to all before.

    Direction r maximises ``w'Aw``, where A has zero blocks on its diagonal, subject to ``w_vr' B_v w_vr = 1`` and
    ``w_vr' B_v w_vt = 0`` for every block v and all t < r. It starts from an eigenvector, which solves the problem with
    one constraint over all blocks; with two blocks that is the solution. Horst's iteration gives each block in turn
    its best value for those of the others, so that no step makes it worse; Newton's method finishes what it would need
    thousands of steps for. The result is a local maximum.

    Parameters
    ----------
    A, B, d
        As in `successive_eigenpairs`.

    Returns
    -------
    values : ndarray of shape (d,)
        What each direction attains.
    W : ndarray of shape (N, d)
        The directions.
    """
    factors = factor_blocks(B)
    remaining = _whiten(A, factors)
    start = _largest(remaining.copy(order="F"), d)[1]
    values, V = np.empty(d), np.empty((len(A), d))
    taken = _Taken(_blocks(factors), remaining)
    for r in range(d):
        V[:, r] = _ascend(taken, taken.remove(start[:, r], unit=True))
        values[r] = V[:, r] @ remaining @ V[:, r]
        taken.add(V[:, r])
    return values, unwhiten(V, factors)


class _Taken:
    """Directions that later ones must be orthogonal to in every block; they are taken out of a matrix as they come."""

    def __init__(self, blocks: list[slice], remaining: Array) -> None:
        self.blocks = blocks
        self.remaining = remaining
        self.bases = [np.empty((block.stop - block.start, 0)) for block in blocks]
        self.nothing = 1e-13 * float(np.abs(remaining).max(initial=0.0))  # lengths below it are rounding error

    def add(self, v: Array) -> None:
        """Take out one more direction."""
        for k, block in enumerate(self.blocks):
            size = np.linalg.norm(v[block])
            if size > 1e-8 * np.linalg.norm(v):
                q = v[block] / size
                self.bases[k] = np.column_stack([self.bases[k], q])
                self.remaining[block] -= np.outer(q, q @ self.remaining[block])
                self.remaining[:, block] -= np.outer(self.remaining[:, block] @ q, q)

    def remove(self, v: Array, *, unit: bool = False) -> Array:
        """What of v is left, in blocks of length 1 if so wanted; in a block of which nothing is left, anything."""
        left = v.copy()
        for k, block in enumerate(self.blocks):
            left[block] = self._project(k, left[block])
            if np.linalg.norm(left[block]) < 1e-8:
                Q = self.bases[k]
                least = np.square(Q).sum(axis=1).argmin()  # the axis of which least is taken
                left[block] = self._project(k, np.eye(len(Q))[least])
            if unit:
                left[block] /= np.linalg.norm(left[block])
        return left

    def sweep(self, v: Array) -> None:
        """Horst's step: give each block in turn its best value for those of the others, where they care at all."""
        for k, block in enumerate(self.blocks):
            gradient = self._project(k, self.remaining[block] @ v)
            size = np.linalg.norm(gradient)
            if size > self.nothing:
                v[block] = gradient / size

    def _project(self, k: int, part: Array) -> Array:
        Q = self.bases[k]
        for _ in range(2):  # the second time for what rounding left
            part = part - Q @ (Q.T @ part)
        return part


def _leading(A: Array, start: Array) -> tuple[float, Array]:
    """Largest eigenvalue of a symmetric matrix, and its vector, of which a guess is known."""
    if len(A) >= _ITERATE_FROM:
        try:
            value, v = eigsh(A, k=1, which="LA", v0=start)
            return float(value[0]), v[:, 0]
        except ArpackError:
            pass
    value, v = _largest(A.copy(order="F"), 1)
    return float(value[0]), v[:, 0]


def _ascend(taken: _Taken, v: Array) -> Array:
    """Maximise ``v'Av`` over vectors that have length 1 in every block, from a start, to where it is stationary."""
    A, blocks = taken.remaining, taken.blocks
    newton, before = None, np.inf
    for _ in range(_ASCENTS):
        v = _best_signs(A, v, blocks)
        image = A @ v
        multipliers = np.concatenate([np.full(b.stop - b.start, v[b] @ image[b]) for b in blocks])
        residual = image - multipliers * v
        size = float(np.abs(residual).max())
        if size <= max(_STATIONARY * np.abs(multipliers).max(), taken.nothing):
            break
        if size > 0.2 * before:  # the last factorisation has served its time
            newton = None
        newton, before = newton or _newton(A, v, multipliers, blocks), size
        if newton is not None:
            better = taken.remove(v + newton(residual), unit=True)
            if better @ A @ better >= v @ image - 1e-15 * len(v):
                v = better
                continue
        newton, before = None, np.inf
        for _ in range(_SWEEPS):
            taken.sweep(v)
    return v


def _best_signs(A: Array, v: Array, blocks: Sequence[slice]) -> Array:
    """The blocks of v with the signs that make ``v'Av`` largest; of more than ten blocks, the first ten's."""
    parts = np.zeros((len(v), len(blocks)))
    for k, block in enumerate(blocks):
        parts[block, k] = v[block]
    between = parts.T @ A @ parts
    signs = np.ones((2 ** min(len(blocks) - 1, 10), len(blocks)))
    for k in range(min(len(blocks) - 1, 10)):
        signs[:, k] = 1.0 - 2.0 * (np.arange(len(signs)) >> k & 1)
    values = np.einsum("si,ij,sj->s", signs, between, signs)
    best = int(values.argmax())
    # Signs that are as good up to rounding are as they were.
    return v if values[best] <= values[0] + 1e-12 * abs(values[0]) else parts @ signs[best]


def _newton(A: Array, v: Array, multipliers: Array, blocks: list[slice]) -> Callable[[Array], Array] | None:
    """Newton's step from a residual, along which lengths stay 1 to first order; None where v is near no maximum."""
    E = np.zeros((len(v), len(blocks)), order="F")
    for k, block in enumerate(blocks):
        E[block, k] = v[block]
    # Steps have no part along E, where the curvature is free to be anything: at a maximum this is positive definite.
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
    """Lower Cholesky factor of every block."""
    factors = []
    for B in blocks:
        diagonal = np.diagonal(B)
        if not diagonal.any():
            raise ValueError(
                "the constraint's scatter matrix is zero, so that it constrains nothing: samples do not vary where the "
                "method needs them to, or their values are too small to be squared."
            )
        try:
            L = scipy.linalg.cholesky(B, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            L = np.zeros_like(B)
        # What rounding leaves of a column that is constant, or that depends on others, can pass for positive.
        pivots = np.square(np.diagonal(L))
        if (pivots <= _SINGULAR * len(B) * diagonal).any() or diagonal.min() <= _CONSTANT * diagonal.max():
            raise ValueError(
                "the constraint's scatter matrix is singular: raise reg, or reduce the views first by "
                "crossview.ViewPCA."
            )
        factors.append(L)
    return factors


def _blocks(factors: Sequence[Array]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(np.cumsum([0, *map(len, factors)]))]


def _whiten(A: Array, factors: Sequence[Array]) -> Array:
    """``L^-1 A L^-T``, where L has the given blocks on its diagonal."""
    whitened = np.array(A, order="F")
    for block, L in zip(_blocks(factors), factors, strict=True):
        whitened[block] = solve_triangular(L, whitened[block], lower=True, check_finite=False)
    for block, L in zip(_blocks(factors), factors, strict=True):
        whitened[:, block] = solve_triangular(L, whitened[:, block].T, lower=True, check_finite=False).T
    return whitened


def unwhiten(V: Array, factors: Sequence[Array]) -> Array:
    """``L^-T V``."""
    return np.vstack(
        [
            solve_triangular(L, V[block], lower=True, trans=1, check_finite=False)
            for block, L in zip(_blocks(factors), factors, strict=True)
        ]
    )
