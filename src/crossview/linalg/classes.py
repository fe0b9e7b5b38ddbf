"""Scatter matrices of classes, in blocks of views.

Every one of them is a Gram matrix of few rows: sums or means of classes, weighted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._blas import cross_product
from crossview._types import Array, Indices

__all__ = [
    "block_diagonal",
    "class_means",
    "class_sizes",
    "class_sums",
    "grams",
    "joint_scatters",
    "pair_products",
    "view_scatters",
]


def class_sizes(mask: NDArray[np.bool_], classes: Indices) -> Array:
    """How many samples of every class every view has seen, shape (C, n)."""
    return class_sums([np.empty((len(mask), 0))] * mask.shape[1], mask.astype(np.float64), classes)[1]


def class_sums(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[list[Array], Array]:
    """Weighted sum of every class in every view, and the weight that it has there.

    Parameters
    ----------
    arrays : sequence of ndarray, each of shape (m, D_v)
        The views, zero where a sample is missing.
    weights : ndarray of shape (m, n)
        How much a sample counts in a view: 0 where it is missing, 1 where all count alike.
    classes : ndarray of int, shape (m,)
        Class of each sample, coded from 0 to C - 1.

    Returns
    -------
    sums : list of ndarray, each of shape (C, D_v)
        Class sums.
    counts : ndarray of shape (C, n)
        Class sizes: sums of weights.
    """
    m, C = len(classes), int(classes.max()) + 1
    members = [sp.csr_array((w, classes, np.arange(m + 1)), shape=(m, C)).T.tocsr() for w in weights.T]
    return [M @ X for M, X in zip(members, arrays, strict=True)], np.column_stack([M.sum(axis=1) for M in members])


def class_means(sums: Sequence[Array], counts: Array) -> list[Array]:
    """Mean of every class in every view, from `class_sums`; 0 where a view has none of it."""
    return [total / np.where(number, number, 1.0)[:, None] for total, number in zip(sums, counts.T, strict=True)]


def grams(arrays: Sequence[Array], weights: Array | None = None) -> list[Array]:
    """``X_v' X_v`` of every view, or ``X_v' diag(w_v) X_v``."""
    if weights is not None:
        arrays = [X * np.sqrt(w)[:, None] for X, w in zip(arrays, weights.T, strict=True)]
    return [cross_product(X, X) for X in arrays]


def pair_products(arrays: Sequence[Array], weights: Array | None = None) -> tuple[Array, list[Array]]:
    """``X_i' X_j`` of all pairs of views, in blocks with zeros on the diagonal, and the `grams` of the views."""
    stacked = np.hstack(arrays)
    pairs = cross_product(stacked, stacked)
    own, start = [], 0
    for X in arrays:
        block = slice(start, start + X.shape[1])
        own.append(pairs[block, block].copy())
        pairs[block, block] = 0.0
        start = block.stop
    alike = weights is None or (weights == 1.0).all()
    return pairs, own if alike else grams(arrays, weights)


def view_scatters(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[list[Array], list[Array]]:
    """Between- and within-class scatter of every view by itself.

    ``Σ_c N_v^c (μ_v^c - μ_v)(μ_v^c - μ_v)'`` and ``Σ_c Σ_{x in c} w_x (x - μ_v^c)(x - μ_v^c)'``, with means and sizes
    of classes by the same weights.
    """
    sums, counts = class_sums(arrays, weights, classes)
    between, within = [], []
    for X, w, total, number, means in zip(arrays, weights.T, sums, counts.T, class_means(sums, counts), strict=True):
        gaps = (means - total.sum(axis=0) / number.sum()) * np.sqrt(number)[:, None]
        between.append(cross_product(gaps, gaps))
        # Not the difference of the total and the between-class scatter: where classes lie far apart, little is left.
        inner = X - means[classes]
        inner *= np.sqrt(w)[:, None]
        within.append(cross_product(inner, inner))
    return between, within


def joint_scatters(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[Array, Array]:
    """Between- and within-class scatter of all views in the common space, where a class has one mean over all views.

    The matrices S and D of MvDA, shape (ΣD_v, ΣD_v), such that ``tr W'SW = Σ_c N^c |μ^c - μ|²`` and
    ``tr W'DW = Σ_v Σ_c Σ_{x in c} w_x |W_v'x - μ^c|²``, with means and sizes of classes by the same weights.
    """
    sums, counts = class_sums(arrays, weights, classes)
    sizes = counts.sum(axis=1)
    number = np.where(sizes, sizes, 1.0)
    mean = np.hstack([total.sum(axis=0) for total in sums]) / counts.sum()
    gaps = np.hstack(sums) / np.sqrt(number)[:, None] - np.sqrt(sizes)[:, None] * mean
    _, inner = view_scatters(arrays, weights, classes)
    shares = [counts[:, v] / number for v in range(len(arrays))]
    within = block_diagonal(inner)
    # What is left is how far a class's means in the views are from its mean over all, Σ_v n_v |W_v'm_v - μ|².
    means = class_means(sums, counts)
    for v in range(len(arrays)):
        apart = np.hstack([(float(u == v) - shares[u])[:, None] * means[u] for u in range(len(arrays))])
        apart *= np.sqrt(counts[:, v])[:, None]
        within += cross_product(apart, apart)
    return cross_product(gaps, gaps), within


def block_diagonal(blocks: Sequence[Array]) -> Array:
    """One matrix with the given blocks on its diagonal."""
    order = sum(map(len, blocks))
    matrix = np.zeros((order, order))
    start = 0
    for block in blocks:
        matrix[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return matrix
