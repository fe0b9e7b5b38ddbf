"""Generalised eigenproblems: maximise ``tr W'AW`` subject to ``W'BW = I``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dsysv

from crossview.views import Array

__all__ = [
    "factor_blocks",
    "largest_generalized_eigenpairs",
    "ridge",
    "successive_eigenpairs",
    "successive_unit_directions",
    "unwhiten",
]

_ASCENTS = 100
_SWEEPS = 20
_STATIONARY = 1e-12


def ridge(B: Array, reg: float) -> Array:
    """Add `reg` times the mean diagonal of B to its diagonal."""
    ridged = B.copy()
    ridged[np.diag_indices(len(B))] += reg * float(np.trace(B)) / len(B)
    return ridged


def largest_generalized_eigenpairs(A: Array, B: Array | Sequence[Array], d: int) -> tuple[Array, Array]:
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
    blocks = _blocks(factors)
    remaining = _whiten(A, factors)
    floor = -2.0 * float(np.abs(remaining).sum(axis=1).max())
    values, V = np.empty(d), np.empty((len(A), d))
    for r in range(d):
        top = [len(A) - 1, len(A) - 1]
        value, v = scipy.linalg.eigh(remaining, subset_by_index=top, check_finite=False, driver="evr")
        values[r], V[:, r] = value[0], v[:, 0]
        # In coordinates in which B is the identity, the next direction is orthogonal to this one's part in every block:
        # what lies along it is taken out of the problem, and put below anything that is left.
        for block in blocks:
            size = np.linalg.norm(v[block])
            if size > 0.0:
                q = v[block, 0] / size
                remaining[block] -= np.outer(q, q @ remaining[block])
                remaining[:, block] -= np.outer(remaining[:, block] @ q, q)
                remaining[block, block] += floor * np.outer(q, q)
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
    blocks = _blocks(factors)
    remaining = _whiten(A, factors)
    start = _largest(remaining.copy(order="F"), d)[1]
    values, V = np.empty(d), np.empty((len(A), d))
    for r in range(d):
        v = start[:, r].copy()
        for block in blocks:
            taken = V[block, :r]
            v[block] -= taken @ (taken.T @ v[block])
            size = np.linalg.norm(v[block])
            if size < 1e-8:  # nothing left of it: take the coordinate of which least is taken
                v[block] = np.eye(len(taken))[np.square(taken).sum(axis=1).argmin()]
                v[block] -= taken @ (taken.T @ v[block])
                size = np.linalg.norm(v[block])
            v[block] /= size
        V[:, r] = _ascend(remaining, v, blocks)
        values[r] = V[:, r] @ remaining @ V[:, r]
        for block in blocks:
            q = V[block, r]
            remaining[block] -= np.outer(q, q @ remaining[block])
            remaining[:, block] -= np.outer(remaining[:, block] @ q, q)
    return values, unwhiten(V, factors)


def _ascend(A: Array, v: Array, blocks: list[slice]) -> Array:
    """Maximise ``v'Av`` over vectors that have length 1 in every block, from a start, to where it is stationary."""
    N = len(v)
    for _ in range(_ASCENTS):
        image = A @ v
        multipliers = np.concatenate([np.full(b.stop - b.start, v[b] @ image[b]) for b in blocks])
        residual = image - multipliers * v
        if np.abs(residual).max() <= _STATIONARY * np.abs(multipliers).max():
            break
        # Newton's step keeps the lengths to first order: the multipliers of that move with it.
        system = np.zeros((N + len(blocks),) * 2)
        system[:N, :N] = A
        system[np.arange(N), np.arange(N)] -= multipliers
        for k, block in enumerate(blocks):
            system[N + k, block] = system[block, N + k] = v[block]
        _, _, step, singular = dsysv(system, np.append(-residual, np.zeros(len(blocks))), lower=1, overwrite_a=1)
        better = v + step[:N]
        for block in blocks:
            better[block] /= np.linalg.norm(better[block])
        if not singular and better @ A @ better >= v @ image:
            v = better
        else:
            for block in blocks * _SWEEPS:
                gradient = A[block] @ v
                v[block] = gradient / np.linalg.norm(gradient)
    return v


def factor_blocks(blocks: Sequence[Array]) -> list[Array]:
    """Lower Cholesky factor of every block."""
    try:
        return [scipy.linalg.cholesky(B, lower=True, check_finite=False) for B in blocks]
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            "the constraint's scatter matrix is singular: raise reg, or reduce the views first by crossview.ViewPCA."
        ) from error


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
