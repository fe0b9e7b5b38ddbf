"""Class scatter matrices in blocks of views, each computed as the Gram matrix of weighted class sums or means.

Arguments shared by all functions: `arrays`, each (m, D_v), zero where a sample is missing; `weights`, (m, n), the
weight of each sample in each view, 0 where it is missing; `classes`, (m,), coded from 0 to C - 1.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._blas import cross_product
from crossview._types import Array, Indices


def class_sizes(mask: NDArray[np.bool_], classes: Indices) -> Array:
    """Number of samples of each class in each view, shape (C, n)."""
    return class_sums([np.empty((len(mask), 0))] * mask.shape[1], mask.astype(np.float64), classes)[1]


def class_sums(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[list[Array], Array]:
    """Weighted sums of each class, (C, D_v) per view, and the total weights of the classes, (C, n)."""
    m, C = len(classes), int(classes.max()) + 1
    members = [sp.csr_array((w, classes, np.arange(m + 1)), shape=(m, C)).T.tocsr() for w in weights.T]
    return [M @ X for M, X in zip(members, arrays, strict=True)], np.column_stack([M.sum(axis=1) for M in members])


def class_means(sums: Sequence[Array], counts: Array) -> list[Array]:
    """Mean of each class in each view, from `class_sums`; 0 where a view has no sample of the class."""
    return [total / np.where(number, number, 1.0)[:, None] for total, number in zip(sums, counts.T, strict=True)]


def grams(arrays: Sequence[Array], weights: Array | None = None) -> list[Array]:
    """``X_v' X_v`` of each view, or ``X_v' diag(w_v) X_v``."""
    if weights is not None:
        arrays = [X * np.sqrt(w)[:, None] for X, w in zip(arrays, weights.T, strict=True)]
    return [cross_product(X, X) for X in arrays]


def pair_products(arrays: Sequence[Array], weights: Array | None = None) -> tuple[Array, list[Array]]:
    """``X_i' X_j`` of all pairs of views, in blocks with zeros on the diagonal, and the `grams` of the views."""
    stacked = np.hstack(arrays)
    pairs = cross_product(stacked, stacked)
    diagonal, start = [], 0
    for X in arrays:
        block = slice(start, start + X.shape[1])
        diagonal.append(pairs[block, block].copy())
        pairs[block, block] = 0.0
        start = block.stop
    unweighted = weights is None or (weights == 1.0).all()
    return pairs, diagonal if unweighted else grams(arrays, weights)


def view_scatters(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[list[Array], list[Array]]:
    """Between- and within-class scatter of each view separately.

    ``Σ_c N_v^c (μ_v^c - μ_v)(μ_v^c - μ_v)'`` and ``Σ_c Σ_{x in c} w_x (x - μ_v^c)(x - μ_v^c)'``, where class means and
    sizes use the same weights.
    """
    sums, counts = class_sums(arrays, weights, classes)
    between, within = [], []
    for X, w, total, number, means in zip(arrays, weights.T, sums, counts.T, class_means(sums, counts), strict=True):
        deviations = (means - total.sum(axis=0) / number.sum()) * np.sqrt(number)[:, None]
        between.append(cross_product(deviations, deviations))
        # Subtracting the between-class from the total scatter would cancel if classes lie far apart.
        residuals = X - means[classes]
        residuals *= np.sqrt(w)[:, None]
        within.append(cross_product(residuals, residuals))
    return between, within


def joint_scatters(arrays: Sequence[Array], weights: Array, classes: Indices) -> tuple[Array, Array]:
    """Between- and within-class scatter of all views in the common space, with one mean per class over all views.

    The matrices S and D of MvDA, shape (ΣD_v, ΣD_v): ``tr W'SW = Σ_c N^c |μ^c - μ|²`` and
    ``tr W'DW = Σ_v Σ_c Σ_{x in c} w_x |W_v'x - μ^c|²``, where class means and sizes use the same weights.
    """
    sums, counts = class_sums(arrays, weights, classes)
    sizes = counts.sum(axis=1)
    number = np.where(sizes, sizes, 1.0)
    mean = np.hstack([total.sum(axis=0) for total in sums]) / counts.sum()
    deviations = np.hstack(sums) / np.sqrt(number)[:, None] - np.sqrt(sizes)[:, None] * mean
    within: Array = scipy.linalg.block_diag(*view_scatters(arrays, weights, classes)[1])
    # Add the scatter of each class's per-view means around its mean over all views, Σ_v n_v |W_v'm_v - μ|².
    means, shares = class_means(sums, counts), counts / number[:, None]
    for v in range(len(arrays)):
        offsets = np.hstack([(float(u == v) - shares[:, u])[:, None] * means[u] for u in range(len(arrays))])
        offsets *= np.sqrt(counts[:, v])[:, None]
        within += cross_product(offsets, offsets)
    return cross_product(deviations, deviations), within
