"""The directions in which samples vary.

If features are constant or depend on each other (always the case with more features than samples), the training samples
do not vary in some directions. An objective minimised under an orthonormality constraint is zero there, hence optimal,
but useless, because new samples do vary in these directions. Maps are therefore restricted to the span of the training
samples. This changes nothing if the samples span all directions.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf

from crossview._backend import frobenius_norm, product, rounding_errors, row_factor, to_numpy
from crossview._types import Array, Indices, Rows

_WELL_CONDITIONED = 1e-12  # reciprocal condition of a correlation matrix, far above rounding error


def row_space(X: Rows, m: int | None = None) -> Array | None:
    """Orthonormal basis, (D, r), of the directions in which samples (m, D) vary; None if these are all directions.

    The numerical rank r is the number of singular values above ``max(m, D) · eps`` times the largest and, for tensors
    of float32, above the rounding errors along their directions. X may be another matrix with the same Gram matrix as
    the m samples.

    Examples
    --------
    >>> import numpy as np
    >>> row_space(np.array([[1.0, 2.0], [2.0, 4.0], [-3.0, -6.0]])).shape
    (2, 1)
    """
    m, D = m or len(X), X.shape[1]
    # If a subset of the samples has full rank, so do all samples.
    if len(X) >= D and full_rank(dsyrk(1.0, to_numpy(X[: 2 * D]).T)):
        return None
    _, singular, Vt = scipy.linalg.svd(row_factor(X), full_matrices=False, check_finite=False)
    errors = (abs(Vt) * rounding_errors(X)).sum(axis=1)
    varies = singular > np.maximum(errors, max(m, D) * np.finfo(np.float64).eps * singular[0])
    varies[0] = True
    return None if varies.sum() == D else np.ascontiguousarray(Vt[varies].T)


def full_rank(gram: Array) -> bool:
    """Whether the features are clearly independent, which makes the singular values unnecessary.

    `gram` is the upper triangle of their Gram matrix, which is overwritten.
    """
    norms = np.sqrt(np.diagonal(gram))
    if not norms.all():
        return False
    gram /= norms
    gram /= norms[:, None]
    factor, info = dpotrf(gram, lower=0, clean=0, overwrite_a=1)
    # The order of a correlation matrix bounds its 1-norm.
    return not info and bool(dpocon(factor, float(len(gram)))[0] > _WELL_CONDITIONED)


def constant_direction(R: Rows, factor: Array) -> Array | None:
    """Unit direction, (r,), along which all rows of the kernel features R, (m, r), have the same value; None if none.

    Centring removes this direction. Features from a Cholesky factorisation have no other degenerate direction, and the
    triangular solve with those of the pivots, `factor`, is far cheaper than a singular value decomposition.
    """
    u = unit_image(factor)
    return direction_if_constant(u, deviation(R, u), len(R))


def constant_directions(features: Sequence[Rows], factor: Array, views_of: Indices) -> list[Array]:
    """Orthonormal directions, (r,), along which the features of each view, (m_v, r) each, have a constant value.

    As `constant_direction`, for features that several views share: `views_of` are the views of the pivots.
    """
    views = np.arange(len(features))
    images: Array = scipy.linalg.solve_triangular(factor, views_of[:, None] == views, lower=True, check_finite=False)
    gram, size = np.zeros((len(views), len(views))), 0.0
    for R, row in zip(features, np.eye(len(views)), strict=True):
        rest = to_numpy(product(R, images)) - row
        gram += rest.T @ rest
        size += frobenius_norm(R) ** 2
    errors, mixtures = scipy.linalg.eigh(gram)
    directions = images @ mixtures
    rounding = max(sum(map(len, features)), len(factor)) * np.finfo(np.float64).eps * np.sqrt(size)
    constant = np.sqrt(np.maximum(errors, 0.0)) <= rounding * np.linalg.norm(directions, axis=0)
    return [*scipy.linalg.qr(directions[:, constant], mode="economic")[0].T]


def unit_image(factor: Array) -> Array:
    """The vector, (r,), whose products with the features of the pivots are 1."""
    u: Array = scipy.linalg.solve_triangular(factor, np.ones(len(factor)), lower=True, check_finite=False)
    return u


def deviation(R: Rows, u: Array) -> Array:
    """Sums of the squares of ``R u - 1`` and of R; those of several parts of the rows can be added."""
    rest = to_numpy(product(R, u[:, None])) - 1.0
    return np.array([np.square(rest).sum(), frobenius_norm(R) ** 2])


def direction_if_constant(u: Array, deviations: Array, m: int) -> Array | None:
    """Direction of u if the products of m rows of features with it deviate from 1 by rounding errors only."""
    length = np.linalg.norm(u)
    error, size = np.sqrt(deviations)
    rounding = max(m, len(u)) * np.finfo(np.float64).eps * size
    return u / length if error <= rounding * length else None
