"""Choosing landmarks: the samples that span an approximate kernel feature map (Nyström).

``"uniform"`` draws samples at random. ``"k-means++"`` draws samples far from those already drawn (Arthur &
Vassilvitskii, 2007).
"""

import numpy as np
from numpy.random import RandomState
from sklearn.cluster import kmeans_plusplus

from crossview._types import Array, Indices
from crossview.kernels import Kernel, KernelMap

LANDMARKS = ("uniform", "k-means++")
"""Ways to choose landmarks."""

_CANDIDATES = 20  # candidates per landmark; with more, the approximation of the kernel hardly improves
_PILOT_FOR_DISTANCES = 256  # landmarks whose features stand in for kernel distances


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
    return np.sort(order[:n_landmarks])


def n_candidates(method: str, n_landmarks: int) -> int:
    """Number of samples, the first in random order, that a choice of landmarks has to know."""
    return max(_CANDIDATES * n_landmarks, _PILOT_FOR_DISTANCES) if method == "k-means++" else n_landmarks


def _points(kernel: Kernel, X: Array, rows: Indices, order: Indices) -> Array:
    """Points for some samples whose Euclidean distances rank like kernel distances, or approximate them."""
    points = kernel.euclidean_points(X[rows])
    if points is None:
        features: Array = KernelMap.fit(kernel, X, np.sort(order[:_PILOT_FOR_DISTANCES]))[1][rows]
        return features
    centred: Array = points - points.mean(axis=0)  # reduces rounding errors far from zero
    return centred
