"""Whether the features of different views mean the same thing, as the training samples show it."""

from itertools import combinations

import numpy as np

from crossview._backend import cross_product, squared_norms
from crossview._types import Array, Indices
from crossview.linalg.classes import weighted
from crossview.linalg.samples import Samples

_MIN_SIMILARITY = 0.2  # of a sample in different views: 1 if they are equal, 0 if they are unrelated
_MIN_DEVIATIONS = 4.0  # by which the order of the features must be better than a random one
_MAX_FEATURES = 512  # that are compared


def features_correspond(samples: Samples) -> bool:
    """Whether centred samples resemble themselves in other views as they are, because of the order of the features.

    With C the sum of ``X_i' X_j`` over all pairs of views, the similarity is ``tr C``, relative to its value for equal
    views. Features that do not correspond can be similar, too, if all of them grow with the same quantity. Then any
    other order of the features would do as well: over all orders, the trace of a matrix with its columns reordered has
    the mean ``sum(C) / D`` and the variance ``|C~|² / (D - 1)``, where C~ has centred rows and columns.
    """
    D = samples.n_features[0]
    if len(set(samples.n_features)) > 1 or D == 1:
        return False
    # All features are compared without a copy.
    columns = slice(None) if D <= _MAX_FEATURES else np.linspace(0, D - 1, _MAX_FEATURES).astype(np.intp)
    squares, C = samples.total(_similarities, columns)
    n_pairs = len(samples.n_features) - 1  # of a sample with itself in other views
    if not np.trace(C) > 0.0 or 2.0 * np.trace(C) < _MIN_SIMILARITY * n_pairs * squares:
        return False
    C = C + C.T
    centred = C - C.mean(axis=0) - C.mean(axis=1)[:, None] + C.mean()
    deviation = np.linalg.norm(centred) / np.sqrt(len(C) - 1)
    return bool(np.trace(C) - C.sum() / len(C) >= _MIN_DEVIATIONS * deviation)


def _similarities(rows: Samples, columns: Indices | slice) -> list[Array]:
    """Sum of squares in all views, weighted, and the sum of ``X_i' X_j`` over all pairs of views."""
    arrays = [X[:, columns] for X in rows.arrays]
    squares = sum(squared_norms(weighted(X, w)).sum() for X, w in zip(arrays, rows.weights.T, strict=True))
    return [np.asarray(squares), np.sum([cross_product(X, Z) for X, Z in combinations(arrays, 2)], axis=0)]
