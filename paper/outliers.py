"""Wrong labels, as in the paper's robustness tests."""

from numbers import Real

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from crossview._types import Labels
from crossview._validation import label_array


def permute_labels(y: ArrayLike, ratio: float, random_state: int | RandomState | None = None) -> Labels:
    """Create outliers: permute the labels of a share of the samples among themselves.

    A permuted sample has the same wrong label in all views, as in the paper's robustness tests.

    Parameters
    ----------
    y : array-like of shape (m,)
        One class label per sample.
    ratio : float
        Share of the samples, from 0 to 1.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    permuted : ndarray of shape (m,)
        The labels; each class keeps its number of samples.

    Examples
    --------
    >>> permute_labels(["a", "a", "b", "b", "c", "c"], ratio=0.5, random_state=1)
    array(['a', 'c', 'b', 'b', 'a', 'c'], dtype='<U1')
    """
    labels = label_array(y).copy()
    if isinstance(ratio, bool | np.bool_) or not isinstance(ratio, Real) or not 0 <= ratio <= 1:
        raise ValueError(f"ratio must be a share from 0 to 1, got {ratio!r}.")
    random = check_random_state(random_state)
    rows = random.permutation(len(labels))[: round(ratio * len(labels))]
    labels[rows] = labels[random.permutation(rows)]
    return labels
