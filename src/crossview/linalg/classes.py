"""Class scatter matrices in blocks of views, each computed as the Gram matrix of weighted class sums or means."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy.linalg

from crossview import _backend
from crossview._backend import cross_product, residuals, scale_rows
from crossview._types import Array, Rows
from crossview.linalg.samples import Samples


def class_sums(samples: Samples) -> tuple[list[Array], Array]:
    """Weighted sums of each class, (C, D_v) per view, and the total weights of the classes, (C, n)."""
    *sums, counts = samples.total(_class_sums, samples.n_classes)
    return sums, counts


def _class_sums(rows: Samples, n_classes: int) -> list[Array]:
    sums = [_backend.class_sums(X, w, rows.labels, n_classes) for X, w in zip(rows.arrays, rows.weights.T, strict=True)]
    return [*sums, _backend.class_sums(rows.weights, np.ones(len(rows.weights)), rows.labels, n_classes)]


def class_means(sums: Sequence[Array], counts: Array) -> list[Array]:
    """Mean of each class in each view, from `class_sums`; 0 where a view has no sample of the class."""
    return [total / np.where(number, number, 1.0)[:, None] for total, number in zip(sums, counts.T, strict=True)]


def grams(samples: Samples) -> list[Array]:
    """``X_v' diag(w_v) X_v`` of each view."""
    return samples.total(_grams)


def _grams(rows: Samples) -> list[Array]:
    arrays = [weighted(X, w) for X, w in zip(rows.arrays, rows.weights.T, strict=True)]
    return [cross_product(X, X) for X in arrays]


def weighted(X: Rows, weights: Array) -> Rows:
    """``diag(w)^(1/2) X``."""
    return X if (weights == 1.0).all() else scale_rows(X, np.sqrt(weights))


def pair_products(samples: Samples) -> Array:
    """``X_i' X_j`` of all pairs of views, in blocks with zeros on the diagonal."""
    edges = np.cumsum([0, *samples.n_features])
    pairs = np.zeros((edges[-1], edges[-1]))
    products = samples.total(_pair_products)
    for (i, j), C in zip(combinations(range(len(edges) - 1), 2), products, strict=True):
        pairs[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = C
        pairs[edges[j] : edges[j + 1], edges[i] : edges[i + 1]] = C.T
    return pairs


def between_views(samples: Samples) -> Array:
    """``X_1' X_2`` of two views."""
    (C,) = samples.total(_pair_products)
    return C


def _pair_products(rows: Samples) -> list[Array]:
    return [cross_product(X, Y) for X, Y in combinations(rows.arrays, 2)]


def view_scatters(samples: Samples) -> tuple[list[Array], list[Array]]:
    """Between- and within-class scatter of each view separately.

    ``Σ_c N_v^c (μ_v^c - μ_v)(μ_v^c - μ_v)'`` and ``Σ_c Σ_{x in c} w_x (x - μ_v^c)(x - μ_v^c)'``, where class means and
    sizes use the same weights.
    """
    sums, counts = class_sums(samples)
    means, between = class_means(sums, counts), []
    for total, number, mean in zip(sums, counts.T, means, strict=True):
        deviations = (mean - total.sum(axis=0) / number.sum()) * np.sqrt(number)[:, None]
        between.append(cross_product(deviations, deviations))
    return between, samples.total(_within_scatters, means)


def _within_scatters(rows: Samples, means: Sequence[Array]) -> list[Array]:
    # Subtracting the between-class from the total scatter would cancel if classes lie far apart.
    scatters = []
    for X, w, mean in zip(rows.arrays, rows.weights.T, means, strict=True):
        deviations = scale_rows(residuals(X, mean, rows.labels), np.sqrt(w))
        scatters.append(cross_product(deviations, deviations))
    return scatters


def joint_scatters(samples: Samples) -> tuple[Array, Array]:
    """Between- and within-class scatter of all views in the common space, with one mean per class over all views.

    The matrices S and D of MvDA, shape (ΣD_v, ΣD_v): ``tr W'SW = Σ_c N^c |μ^c - μ|²`` and
    ``tr W'DW = Σ_v Σ_c Σ_{x in c} w_x |W_v'x - μ^c|²``, where class means and sizes use the same weights.
    """
    sums, counts = class_sums(samples)
    sizes = counts.sum(axis=1)
    number = np.where(sizes, sizes, 1.0)
    mean = np.hstack([total.sum(axis=0) for total in sums]) / counts.sum()
    deviations = np.hstack(sums) / np.sqrt(number)[:, None] - np.sqrt(sizes)[:, None] * mean
    means, shares = class_means(sums, counts), counts / number[:, None]
    within: Array = scipy.linalg.block_diag(*samples.total(_within_scatters, means))
    # Add the scatter of each class's per-view means around its mean over all views, Σ_v n_v |W_v'm_v - μ|².
    for v in range(len(means)):
        offsets = np.hstack([(float(u == v) - shares[:, u])[:, None] * means[u] for u in range(len(means))])
        offsets *= np.sqrt(counts[:, v])[:, None]
        within += cross_product(offsets, offsets)
    return cross_product(deviations, deviations), within
