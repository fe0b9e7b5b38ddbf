"""Choosing landmarks: the samples that span an approximate kernel feature map (Nyström).

``"uniform"`` draws samples at random. ``"k-means++"`` draws samples far from those already drawn (Arthur &
Vassilvitskii, 2007). ``"leverage"`` draws samples in proportion to their ridge leverage scores: those that a kernel
ridge regression on the others would predict badly are likely to be drawn (Alaoui & Mahoney, 2015; Musco & Musco, 2017).
"""

import numpy as np
import scipy.linalg
from numpy.random import RandomState
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import gen_batches

from crossview._blas import product
from crossview._types import Array, Indices
from crossview.kernels import Kernel, KernelMap

LANDMARKS = ("uniform", "k-means++", "leverage")
"""Ways to choose landmarks."""

_PILOT_FOR_DISTANCES = 256  # landmarks whose features stand in for kernel distances
_SMALLEST_RIDGE = 1e-10  # relative to the sum of the eigenvalues
_CHUNK_ROWS = 4096


def choose_landmarks(
    method: str, kernel: Kernel, X: Array, n_landmarks: int, order: Indices, random_state: RandomState
) -> Indices:
    """Choose landmarks among samples; returns sorted rows of X.

    X holds the samples, (m, D), or their kernel matrix, (m, m), if the kernel is precomputed; `order` is a random
    permutation of its rows. Duplicates of a landmark are not drawn by ``"k-means++"``, which may therefore return fewer
    than `n_landmarks`.
    """
    if method == "k-means++":
        points = _points(kernel, X, order)
        return np.unique(kmeans_plusplus(points, n_landmarks, random_state=random_state)[1])
    if method == "leverage":
        order = _weighted_order(order, leverage_scores(kernel, X, order[:n_landmarks]))
    return np.sort(order[:n_landmarks])


def leverage_scores(kernel: Kernel, X: Array, pilot: Indices) -> Array:
    r"""Approximate ridge leverage scores of samples, (m,), from landmarks drawn uniformly.

    The scores are the diagonal of :math:`K (K + \lambda I)^{-1}`. With p pilot landmarks S and μ = λp/m, this computes

    .. math:: \frac{1}{\lambda} (k_{ii} - k_{iS} (K_{SS} + \mu I)^{-1} k_{Si})

    (Musco & Musco, 2017), which is exact if all samples are in the pilot. The ridge λ follows from the eigenvalues of
    the pilot, too: it is the mean of those beyond the first ``k = p / (4 log p)``, times their number, divided by k.
    """
    pilot_map, R = KernelMap.fit(kernel, X, np.sort(pilot))
    L = R[pilot_map.pivots]
    values, vectors = scipy.linalg.eigh(L.T @ L)
    rank = int(np.ceil(len(pilot) / (4.0 * np.log(len(pilot) + 1.0))))
    mu = max(values[: max(len(values) - rank, 0)].sum() / rank, _SMALLEST_RIDGE * values.sum())
    # With K_SS = L L' and k_iS = r_i' L', the score is what the pilot's span misses plus the leverage within the span.
    missed = kernel.diagonal(X) - np.einsum("ij,ij->i", R, R)
    whitener = vectors / np.sqrt(values + mu)
    within = np.empty(len(X))
    for rows in gen_batches(len(X), _CHUNK_ROWS):
        within[rows] = np.square(product(R[rows], whitener)).sum(axis=1)
    return np.clip(len(pilot) / len(X) * (missed / mu + within), 0.0, 1.0)


def _weighted_order(order: Indices, weights: Array) -> Indices:
    """Turn a random permutation into one whose entries are drawn one after another in proportion to weights.

    Exponential variables divided by weights sort that way (Efraimidis & Spirakis, 2006); the permutation supplies them
    as quantiles, so that views with similar weights get similar landmarks.
    """
    m = len(order)
    keys = np.empty(m)
    keys[order] = -np.log1p(-(np.arange(m) + 0.5) / m)
    return np.argsort(keys / np.maximum(weights, np.finfo(np.float64).tiny), kind="stable")


def _points(kernel: Kernel, X: Array, order: Indices) -> Array:
    """Points whose Euclidean distances are, or approximate, those in the kernel's metric."""
    points = kernel.euclidean_points(X)
    if points is None:
        return KernelMap.fit(kernel, X, np.sort(order[:_PILOT_FOR_DISTANCES]))[1]
    return points - points.mean(axis=0)  # reduces rounding errors far from zero
