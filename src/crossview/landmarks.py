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

from crossview._backend import cross_product, product
from crossview._types import Array, Indices
from crossview.kernels import Kernel, KernelMap

LANDMARKS = ("uniform", "k-means++", "leverage")
"""Ways to choose landmarks."""

_CANDIDATES = 20  # candidates per landmark; with more, the approximation of the kernel hardly improves
_PILOT_FOR_DISTANCES = 256  # landmarks whose features stand in for kernel distances
_SMALLEST_RIDGE = 1e-10  # relative to the sum of the eigenvalues
_SMALLEST_SCORE = 1e-10  # keeps the order of samples random where rounding leaves no score
_CHUNK_ROWS = 4096


def choose_landmarks(
    method: str, kernel: Kernel, X: Array, n_landmarks: int, order: Indices, random_state: RandomState
) -> Indices:
    """Choose landmarks among samples; returns sorted rows of X.

    X holds the samples, (m, D), or their kernel matrix, (m, m), if the kernel is precomputed; `order` is a random
    permutation of its rows. ``"k-means++"`` returns fewer than `n_landmarks` if there are fewer different samples.
    """
    if method == "k-means++":
        candidates = np.sort(order[: _CANDIDATES * n_landmarks])
        points = _points(kernel, X, candidates, order)
        rows: Indices = np.unique(candidates[kmeans_plusplus(points, n_landmarks, random_state=random_state)[1]])
        return rows
    if method == "leverage":
        order = _weighted_order(order, leverage_scores(kernel, X, order[:n_landmarks]), random_state)
    return np.sort(order[:n_landmarks])


def n_candidates(method: str, n_landmarks: int) -> int:
    """Number of samples, the first in random order, that ``"uniform"`` and ``"k-means++"`` have to know."""
    return max(_CANDIDATES * n_landmarks, _PILOT_FOR_DISTANCES) if method == "k-means++" else n_landmarks


def leverage_scores(kernel: Kernel, X: Array, pilot: Indices) -> Array:
    r"""Approximate ridge leverage scores of samples, (m,), from landmarks drawn uniformly.

    The scores are the diagonal of :math:`K (K + \lambda I)^{-1}`. With p pilot landmarks S and μ = λp/m, this computes

    .. math:: \frac{1}{\lambda} (k_{ii} - k_{iS} (K_{SS} + \mu I)^{-1} k_{Si})

    (Musco & Musco, 2017), which is exact if all samples are in the pilot. The ridge is the sum of all but the k largest
    eigenvalues of K, divided by k, also estimated from the pilot. The bounds of Musco & Musco need p to be of the order
    of k log k; with k = p / 4, the kernel matrices of digits and turntable are approximated slightly better.
    """
    R = KernelMap.fit(kernel, X, np.sort(pilot))[1]
    values, vectors = scipy.linalg.eigh(cross_product(R[pilot], R[pilot]))
    rank = max(1, len(pilot) // 4)
    mu = max(values[: max(len(values) - rank, 0)].sum() / rank, _SMALLEST_RIDGE * values.sum())
    # With K_SS = R_S R_S' and k_iS = r_i R_S', a score is what the pilot's span misses, plus the leverage in this span.
    missed = kernel.diagonal(X) - np.einsum("ij,ij->i", R, R)
    whitener = vectors / np.sqrt(values + mu)
    within = np.empty(len(X))
    for rows in gen_batches(len(X), _CHUNK_ROWS):
        within[rows] = np.square(product(R[rows], whitener)).sum(axis=1)
    scores: Array = np.clip(len(pilot) / len(X) * (missed / mu + within), _SMALLEST_SCORE, 1.0)
    return scores


def _weighted_order(order: Indices, weights: Array, random_state: RandomState) -> Indices:
    """Reorder a random permutation as if its entries were drawn one after another in proportion to positive weights.

    Exponential variables divided by the weights sort that way (Efraimidis & Spirakis, 2006). They follow the given
    order, so that views with similar weights get similar landmarks.
    """
    keys = np.empty(len(order))
    keys[order] = np.sort(random_state.exponential(size=len(order)))
    return np.argsort(keys / weights, kind="stable")


def _points(kernel: Kernel, X: Array, rows: Indices, order: Indices) -> Array:
    """Points for some samples whose Euclidean distances rank like kernel distances, or approximate them."""
    points = kernel.euclidean_points(X[rows])
    if points is None:
        features: Array = KernelMap.fit(kernel, X, np.sort(order[:_PILOT_FOR_DISTANCES]))[1][rows]
        return features
    centred: Array = points - points.mean(axis=0)  # reduces rounding errors far from zero
    return centred
