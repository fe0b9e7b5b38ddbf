"""The directions in which samples vary.

If features are constant or depend on each other (always the case with more features than samples), the training samples
do not vary in some directions. An objective minimised under an orthonormality constraint is zero there, hence optimal,
but useless, because new samples do vary in these directions. Maps are therefore restricted to the span of the training
samples. This changes nothing if the samples span all directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf

from crossview._types import Array, Indices, Rows
from crossview.engines import frobenius_norm, product, rounding_errors, row_factor, to_numpy

_WELL_CONDITIONED = 1e-12  # reciprocal condition of a correlation matrix, far above rounding error


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
    return np.vstack([rest.T @ rest, np.full(images.shape[1], frobenius_norm(R) ** 2)])


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
