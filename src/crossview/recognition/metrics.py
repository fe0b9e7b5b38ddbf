"""How well samples of one view are recognised among samples of another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import column_or_1d

from crossview.views import Array, ViewInput, Views

__all__ = ["cross_view_accuracy", "mean_accuracy"]


def cross_view_accuracy(
    latents: ViewInput, y: ArrayLike, metric: Literal["euclidean", "cosine"] = "euclidean"
) -> Array:
    """Share of probes of one view whose nearest gallery sample of another view has their class.

    This is the paper's protocol: the gallery is all samples as one view sees them, and so holds the counterpart of
    every probe that both views have seen.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space; rows of NaN are left out.
    y : array-like of shape (m,)
        The classes.
    metric : {"euclidean", "cosine"}
        The distance.

    Returns
    -------
    accuracy : ndarray of shape (n, n)
        Row: view of the gallery. Column: view of the probe. The diagonal is nan, and so is a pair of views one of
        which has no sample.

    Examples
    --------
    >>> import numpy as np
    >>> photo, sketch = np.array([[0.0], [1.0]]), np.array([[0.2], [0.1]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b"])
    array([[nan, 0.5],
           [0. , nan]])
    """
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"metric must be 'euclidean' or 'cosine', got {metric!r}.")
    views = Views(latents)
    labels = column_or_1d([] if y is None else y)
    if len(labels) != len(views):
        raise ValueError(f"y has {len(labels)} labels for {len(views)} samples: give one label per row.")
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    samples = [(X[seen], labels[seen]) for X, seen in zip(views.arrays, views.mask.T, strict=True)]
    n = len(samples)
    accuracy = np.full((n, n), np.nan)
    for i, (gallery, gallery_labels) in enumerate(samples):
        for j, (probe, probe_labels) in enumerate(samples):
            if i != j and len(gallery) and len(probe):
                # Euclidean distances are differences of squares: far from zero they would be lost in rounding.
                origin = gallery.mean(axis=0) if metric == "euclidean" else 0.0
                nearest = pairwise_distances_argmin(probe - origin, gallery - origin, metric=metric)
                accuracy[i, j] = np.mean(gallery_labels[nearest] == probe_labels)
    return accuracy


def mean_accuracy(latents: ViewInput, y: ArrayLike, metric: Literal["euclidean", "cosine"] = "euclidean") -> float:
    """Mean cross-view accuracy over all ordered pairs of views: the paper's mACC.

    Parameters
    ----------
    latents, y, metric
        As in `cross_view_accuracy`.

    Returns
    -------
    accuracy : float
        The mean off the diagonal, pairs of views one of which has no sample left out.

    Examples
    --------
    >>> mean_accuracy([[[0.0], [1.0]], [[0.1], [0.8]]], ["a", "b"])
    1.0
    """
    accuracy = cross_view_accuracy(latents, y, metric)
    if np.isnan(accuracy).all():
        raise ValueError("there is no pair of views to compare: pass two views or more, each with samples.")
    return float(np.nanmean(accuracy))
