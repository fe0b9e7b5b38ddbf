"""The space of the maps: their coupled norm, and the directions in which samples vary.

If the features of all views mean the same thing, maps of different views should only differ where the data ask for it:
differences cost more than what the maps share. With the coupling c, the norm of the stacked maps W is::

    Σ_v |W_v|² + c Σ_v |W_v - mean of all W_v|²  =  tr W'MW,    M = (I + c (I - J)) ⊗ I_D,    J = 11'/n

c = 0 is the usual norm, c = ∞ leaves one map for all views. A map is written ``W = T U``, where the columns of T are a
basis that is orthonormal in this norm. Then ``tr W'SW`` subject to ``W'MW = I`` is ``tr U'(T'ST)U`` subject to
``U'U = I``, and a ridge on the norm is a ridge on the coordinates U. The idea of a shared part and parts of each view
is that of T. Evgeniou, M. Pontil, "Regularized Multi-Task Learning", KDD 2004.

If features are constant or depend on each other (always the case with more features than samples), the training samples
do not vary in some directions. An objective minimised under an orthonormality constraint is zero there, hence optimal,
but useless, because new samples do vary in these directions. Maps are therefore restricted to the span of the training
samples. This changes nothing if the samples span all directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf

from crossview._types import Array, Indices, Rows
from crossview.engines import product, rounding_errors, row_factor, squared_norms, to_numpy

_WELL_CONDITIONED = 1e-12  # reciprocal condition of a correlation matrix, far above rounding error


def features_correspond(
    squares: float, C: Array, n_views: int, *, similarity: float = 0.2, deviations: float = 4.0
) -> bool:
    """Whether samples resemble themselves in other views because of the order of the features.

    `squares` is the sum of the squares of centred samples in all views, C the sum of ``X_i' X_j`` over all pairs of
    views (`crossview.linalg.sums.similarities`). `similarity` is the least that counts, of ``tr C`` relative to its
    value for equal views; `deviations` is by how many the order of the features must be better than a random one.
    Features that do not correspond can be similar, too, if all of them grow with the same quantity. Then any other
    order of the features would do as well: over all orders, the trace of a matrix with its columns reordered has the
    mean ``sum(C) / D`` and the variance ``|C~|² / (D - 1)``, where C~ has centred rows and columns.
    """
    if not np.trace(C) > 0.0 or 2.0 * np.trace(C) < similarity * (n_views - 1) * squares:
        return False
    C = C + C.T
    centred = C - C.mean(axis=0) - C.mean(axis=1)[:, None] + C.mean()
    deviation = np.linalg.norm(centred) / np.sqrt(len(C) - 1)
    return bool(np.trace(C) - C.sum() / len(C) >= deviations * deviation)


def coupling_inverse(coupling: float, n_views: int) -> Array:
    """Inverse of ``I + c (I - J)``, (n, n).

    Maps of minimal coupled norm in the feature space of a kernel k are those of one map on pairs of a view and a
    sample, with the kernel ``inverse[v, w] · k(x, z)``.

    >>> coupling_inverse(1.0, 2)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    J = np.full((n_views, n_views), 1.0 / n_views)
    inverse: Array = J + (np.eye(n_views) - J) / (1.0 + coupling)
    return inverse


@dataclass(frozen=True)
class CoupledNorm:
    """The norm, with the basis T of the maps.

    `widths` are the numbers of features of the views, equal unless the coupling is 0. `spans` are orthonormal bases,
    (D, r_v), of the directions in which the samples of each view vary, None for all directions. Maps are restricted to
    what the samples determine: T spans ``M^-1 diag(spans)``, the part of the space of maps that is orthogonal, in the
    coupled norm, to maps under which no sample of their view varies.

    >>> import numpy as np
    >>> norm = CoupledNorm(3.0, [1, 1])
    >>> norm.restrict(np.eye(2))
    array([[0.625, 0.375],
           [0.375, 0.625]])
    """

    coupling: float
    widths: Sequence[int]
    spans: Sequence[Array | None] = ()

    @property
    def order(self) -> int:
        """Number of columns of T."""
        if self.one_map:
            return self.widths[0]
        spans = self.spans or [None] * len(self.widths)
        return sum(D if B is None else B.shape[1] for D, B in zip(self.widths, spans, strict=True))

    def restrict(self, S: Array) -> Array:
        """``T'ST`` of a symmetric matrix of which only the lower triangle of blocks needs to be filled.

        May overwrite S. With one map, S may also be the sum of its blocks; with a `basis`, it may be the scatter in its
        coordinates.
        """
        if (not self.coupling and self.basis is None) or (self.basis is not None and len(S) == self.order):
            return S
        if self.one_map and len(S) == self.widths[0]:
            return S / len(self.widths)
        if self.one_map:
            folded: Array = np.sum(self._column_sums(S), axis=0) / len(self.widths)
            return folded
        if self.basis is not None:
            S = np.tril(S) + np.tril(S, -1).T
            restricted: Array = self.basis.T @ S @ self.basis
            return restricted
        return self._rooted(S)

    def ridged(self, B: Array, reg: float) -> Array:
        """``B + r M`` for finite coupling and no spans, where r is `reg` times the mean diagonal of ``T'BT``."""
        n, D, ridged = len(self.widths), self.widths[0], B.copy()
        inverse = coupling_inverse(self.coupling, n)
        diagonals = np.einsum("idjd->ijd", ridged.reshape(n, D, n, D))  # a view of those of all blocks
        size = reg * np.vdot(inverse, diagonals.sum(axis=2)) / (n * D)
        diagonals += size * np.linalg.inv(inverse)[:, :, None]
        return ridged

    def expand(self, U: Array) -> Array:
        """``T U``: the stacked maps."""
        if self.one_map:
            n = len(self.widths)
            tiled: Array = np.concatenate([U] * n) / np.sqrt(n)
            return tiled
        if self.basis is not None:
            maps: Array = self.basis @ U
            return maps
        return self._root(U)

    @property
    def one_map(self) -> bool:
        """Whether all views share a map."""
        return bool(np.isinf(self.coupling))

    @cached_property
    def basis(self) -> Array | None:
        """T as a matrix, if maps are restricted; otherwise T is M^(-1/2)."""
        if self.one_map or all(B is None for B in self.spans):
            return None
        spans = [np.eye(D) if B is None else B for D, B in zip(self.widths, self.spans, strict=True)]
        stacked: Array = scipy.linalg.block_diag(*spans)
        if self.coupling:
            stacked = self._root(scipy.linalg.qr(self._root(stacked), mode="economic")[0])
        return stacked

    def _rooted(self, S: Array) -> Array:
        """``M^(-1/2) S M^(-1/2)``, block by block. Overwrites S."""
        n, D = len(self.widths), self.widths[0]
        a = 1.0 / np.sqrt(1.0 + self.coupling)
        sums = self._column_sums(S)
        shared = ((1.0 - a) / n) ** 2 * np.sum(sums, axis=0)
        sums = [a * (1.0 - a) / n * one + 0.5 * shared for one in sums]
        blocks = S.reshape(n, D, n, D)
        for i in range(n):
            for j in range(i + 1):
                block = blocks[i, :, j]
                block *= a * a
                block += sums[j]
                block += sums[i].T
                blocks[j, :, i] = block.T
        return S

    def _column_sums(self, S: Array) -> list[Array]:
        """Sum of the blocks in each block column of a symmetric matrix, by its lower triangle of blocks."""
        n, D = len(self.widths), self.widths[0]
        blocks = S.reshape(n, D, n, D)
        return [sum((blocks[j, :, i].T for i in range(j)), blocks[j:, :, j].sum(axis=0)) for j in range(n)]

    def _root(self, W: Array) -> Array:
        """``M^(-1/2) W``, where M^(-1/2) = (a I + (1 - a) J) ⊗ I with a = (1 + c)^(-1/2)."""
        if not self.coupling:
            return W
        parts, a = W.reshape(len(self.widths), self.widths[0], -1), 1.0 / np.sqrt(1.0 + self.coupling)
        rooted: Array = (a * parts + (1.0 - a) * parts.mean(axis=0)).reshape(W.shape)
        return rooted


@dataclass(frozen=True)
class RowFactor:
    """A matrix with the same Gram matrix as samples, and as many columns; `+` is that of the samples of both."""

    R: Array
    errors: Array  # (D,): bounds on the squared norms of the rounding errors of the samples' features

    def __add__(self, other: RowFactor) -> RowFactor:
        return RowFactor(row_factor(np.vstack([self.R, other.R])), self.errors + other.errors)


def row_factors(arrays: Sequence[Rows], views: Sequence[int]) -> list[RowFactor]:
    """The factors of some views."""
    return [RowFactor(row_factor(arrays[v]), np.square(rounding_errors(arrays[v]))) for v in views]


def row_space(factor: RowFactor, m: int) -> Array | None:
    """Orthonormal basis, (D, r), of the directions in which m samples (m, D) vary; None if these are all directions.

    The numerical rank r is the number of singular values above ``max(m, D) · eps`` times the largest and, for tensors
    of float32, above the rounding errors along their directions.

    Examples
    --------
    >>> import numpy as np
    >>> (factor,) = row_factors([np.array([[1.0, 2.0], [2.0, 4.0], [-3.0, -6.0]])], [0])
    >>> row_space(factor, 3).shape
    (2, 1)
    """
    D = factor.R.shape[1]
    _, singular, Vt = scipy.linalg.svd(factor.R, full_matrices=False, check_finite=False)
    errors = (abs(Vt) * np.sqrt(factor.errors)).sum(axis=1)
    varies = singular > np.maximum(errors, max(m, D) * np.finfo(np.float64).eps * singular[0])
    varies[0] = True
    return None if varies.sum() == D else np.ascontiguousarray(Vt[varies].T)


def leading_grams(arrays: Sequence[Rows], m: int) -> list[Array]:
    """Upper triangle of the Gram matrix of the features of some samples, of each view with at most m features."""
    return [dsyrk(1.0, to_numpy(X[: 2 * D]).T) if (D := X.shape[1]) <= m else np.zeros((1, 1)) for X in arrays]


def full_rank(gram: Array) -> bool:
    """Whether the features are clearly independent, which makes the singular values unnecessary.

    If some samples have full rank, so do all. `gram` is the upper triangle of their Gram matrix, which is overwritten.
    """
    norms = np.sqrt(np.diagonal(gram))
    if not norms.all():
        return False
    gram /= norms
    gram /= norms[:, None]
    factor, info = dpotrf(gram, lower=0, clean=0, overwrite_a=1)
    # The order of a correlation matrix bounds its 1-norm.
    return not info and bool(dpocon(factor, float(len(gram)))[0] > _WELL_CONDITIONED)


def unit_images(factor: Array, views_of: Indices | None = None) -> Array:
    """Vectors, (r, n), whose products with the kernel features of the pivots of a view are 1, and 0 for other views.

    `factor`, (r, r), holds the features of the pivots, and `views_of`, (r,), their views, by default one and the same.
    """
    views_of = np.zeros(len(factor), dtype=np.intp) if views_of is None else views_of
    indicators = views_of[:, None] == np.arange(views_of.max() + 1)
    images: Array = scipy.linalg.solve_triangular(factor, indicators, lower=True, check_finite=False)
    return images


def deviations(R: Rows, images: Array, v: int = 0) -> Array:
    """Gram matrix of the deviations of the products of features R, (m, r), with images from those of view v.

    In one array, (n + 1, n), with the sum of the squares of R below it; those of several parts of the rows, or of
    several views, can be added.
    """
    rest = to_numpy(product(R, images)) - (np.arange(images.shape[1]) == v)
    return np.vstack([rest.T @ rest, np.full(images.shape[1], squared_norms(R).sum())])


def constant_directions(images: Array, deviations: Array, m: int) -> list[Array]:
    """Orthonormal directions, (r,), along which the m rows of kernel features of each view have a constant value.

    Centring removes these directions. Features from a Cholesky factorisation have no other degenerate directions, and
    the triangular solve for the images is far cheaper than a singular value decomposition. Along mixtures of the
    images, products with features may deviate by rounding errors only.
    """
    errors, mixtures = scipy.linalg.eigh(deviations[:-1])
    directions = images @ mixtures
    rounding = max(m, len(images)) * np.finfo(np.float64).eps * np.sqrt(deviations[-1, 0])
    constant = np.sqrt(np.maximum(errors, 0.0)) <= rounding * np.linalg.norm(directions, axis=0)
    return [*scipy.linalg.qr(directions[:, constant], mode="economic")[0].T]
