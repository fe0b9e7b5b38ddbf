"""Sums over samples: of views, of pairs of views, and of classes.

`arrays` are the views, (m, D_v) each, zero where a sample is missing; `weights`, (m, n), are those of the samples, 0
where they are missing; `classes`, (m,), are coded from 0. Every function that takes samples gives a sum over them, or a
list of such sums: what it gives for two blocks of rows adds up to what it gives for both.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import scipy.linalg

from crossview import engines
from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import column_sums, cross_product, like, product, residuals, scale_rows, shift, squared_norms


def view_sums(arrays: Sequence[Rows], weights: Array) -> list[Array]:
    """Weighted sum of the samples of each view, (D_v,), and last the total weights of the views, (n,)."""
    sums = []
    for X, w in zip(arrays, weights.T, strict=True):
        all_equal = (w[w > 0] == 1.0).all()  # rows of weight 0 are 0
        sums.append(column_sums(X) if all_equal else cross_product(like(X, w[:, None]), X)[0])
    return [*sums, weights.sum(axis=0)]


def deviations(arrays: Sequence[Rows], mean: Array) -> list[Array]:
    """Sums of the deviations of the features of one view from a mean, and of their squares."""
    rest = shift(arrays[0], mean)
    return [column_sums(rest), squared_norms(rest, axis=0)]


def grams(arrays: Sequence[Rows], weights: Array) -> list[Array]:
    """``X_v' diag(w_v) X_v`` of each view."""
    rooted = [_weighted(X, w) for X, w in zip(arrays, weights.T, strict=True)]
    return [cross_product(X, X) for X in rooted]


def _weighted(X: Rows, weights: Array) -> Rows:
    """``diag(w)^(1/2) X``."""
    return X if (weights == 1.0).all() else scale_rows(X, np.sqrt(weights))


def pair_products(arrays: Sequence[Rows]) -> list[Array]:
    """``X_i' X_j`` of all pairs of views."""
    return [cross_product(X, Y) for X, Y in combinations(arrays, 2)]


def pair_matrix(products: Sequence[Array], widths: Sequence[int]) -> Array:
    """`pair_products` as the blocks of a symmetric matrix with zeros on its diagonal."""
    blocks = [slice(a, b) for a, b in pairwise(np.cumsum([0, *widths]))]
    pairs = np.zeros((blocks[-1].stop, blocks[-1].stop))
    for (i, j), C in zip(combinations(blocks, 2), products, strict=True):
        pairs[i, j], pairs[j, i] = C, C.T
    return pairs


def similarities(arrays: Sequence[Rows], weights: Array, columns: Indices | slice) -> list[Array]:
    """Of some features: sum of squares in all views, weighted, and sum of ``X_i' X_j`` over all pairs of views."""
    few = [X[:, columns] for X in arrays]
    squares = sum(squared_norms(_weighted(X, w)).sum() for X, w in zip(few, weights.T, strict=True))
    return [np.asarray(squares), np.sum(pair_products(few), axis=0)]


def agreement(arrays: Sequence[Rows], maps: Sequence[Array]) -> list[Array]:
    """For each component, the sum of squares of all samples in the common space, and of products between views."""
    latents = [product(X, np.ascontiguousarray(w)) for X, w in zip(arrays, maps, strict=True)]
    squares = np.sum([np.diagonal(cross_product(Z, Z)) for Z in latents], axis=0)
    whole = sum(latents)
    return [squares, np.diagonal(cross_product(whole, whole)) - squares]


def class_sums(arrays: Sequence[Rows], weights: Array, classes: Indices, n_classes: int) -> list[Array]:
    """Weighted sums of each class, (C, D_v) per view, and last the total weights of the classes, (C, n)."""
    sums = [engines.class_sums(X, w, classes, n_classes) for X, w in zip(arrays, weights.T, strict=True)]
    return [*sums, class_sizes(weights, classes, n_classes)]


def class_sizes(weights: Array | Mask, classes: Indices, n_classes: int) -> Array:
    """Total weight, or number, of the samples of each class in each view, (C, n)."""
    return engines.class_sums(weights.astype(np.float64), np.ones(len(weights)), classes, n_classes)


def within_scatters(arrays: Sequence[Rows], weights: Array, classes: Indices, means: Sequence[Array]) -> list[Array]:
    """``Σ_c Σ_{x in c} w_x (x - μ_v^c)(x - μ_v^c)'`` of each view, for given class means.

    Subtracting the between-class from the total scatter would cancel if classes lie far apart.
    """
    scatters = []
    for X, w, mean in zip(arrays, weights.T, means, strict=True):
        rest = scale_rows(residuals(X, mean, classes), np.sqrt(w))
        scatters.append(cross_product(rest, rest))
    return scatters


def class_means(sums: Sequence[Array], counts: Array) -> list[Array]:
    """Mean of each class in each view, from `class_sums`; 0 where a view has no sample of the class."""
    return [total / np.where(number, number, 1.0)[:, None] for total, number in zip(sums, counts.T, strict=True)]


def between_scatters(sums: Sequence[Array], counts: Array) -> list[Array]:
    """``Σ_c N_v^c (μ_v^c - μ_v)(μ_v^c - μ_v)'`` of each view, from `class_sums`."""
    between = []
    for total, number, mean in zip(sums, counts.T, class_means(sums, counts), strict=True):
        rest = (mean - total.sum(axis=0) / number.sum()) * np.sqrt(number)[:, None]
        between.append(cross_product(rest, rest))
    return between


def joint_scatters(sums: Sequence[Array], counts: Array, within: Sequence[Array]) -> tuple[Array, Array]:
    """Between- and within-class scatter of all views in the common space, with one mean per class over all views.

    The matrices S and D of MvDA, shape (ΣD_v, ΣD_v): ``tr W'SW = Σ_c N^c |μ^c - μ|²`` and
    ``tr W'DW = Σ_v Σ_c Σ_{x in c} w_x |W_v'x - μ^c|²``, from `class_sums` and `within_scatters`.
    """
    sizes = counts.sum(axis=1)
    number = np.where(sizes, sizes, 1.0)
    mean = np.hstack([total.sum(axis=0) for total in sums]) / counts.sum()
    rest = np.hstack(sums) / np.sqrt(number)[:, None] - np.sqrt(sizes)[:, None] * mean
    means, shares = class_means(sums, counts), counts / number[:, None]
    joint: Array = scipy.linalg.block_diag(*within)
    # Add the scatter of each class's per-view means around its mean over all views, Σ_v n_v |W_v'm_v - μ|².
    for v in range(len(means)):
        offsets = np.hstack([(float(u == v) - shares[:, u])[:, None] * means[u] for u in range(len(means))])
        offsets *= np.sqrt(counts[:, v])[:, None]
        joint += cross_product(offsets, offsets)
    return cross_product(rest, rest), joint
