"""How well samples of one view are recognised among samples of another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import column_or_1d

from crossview.views import Array, ViewInput, Views

__all__ = ["accuracy_by_dimension", "cross_view_accuracy", "mean_accuracy"]

_CHUNK = 4_000_000  # distances, times components, that are held at a time


def cross_view_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> Array:
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
    _check_metric(metric)
    samples = _samples(latents, y)
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


def mean_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> float:
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


def accuracy_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str = "euclidean",
) -> Array:
    """`mean_accuracy` of the first components, for several numbers of them at the cost of the largest.

    Components are found in the order of what they are worth: the first d of a fit are the fit with d. So the best
    number of them needs one fit, and one pass over the distances.

    Parameters
    ----------
    latents, y, metric
        As in `mean_accuracy`.
    dimensions : sequence of int
        Numbers of components, 1 or more, ascending; one larger than what the latents have takes all of them.

    Returns
    -------
    accuracy : ndarray of shape (len(dimensions),)
        mACC with the first ``dimensions[k]`` components.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> accuracy_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.25, 1.  ])
    """
    _check_metric(metric)
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    samples = [(X, labels) for X, labels in _samples(latents, y) if len(X)]
    if len(samples) < 2:
        raise ValueError("there is no pair of views to compare: pass two views or more, each with samples.")
    d = min(max(dimensions), samples[0][0].shape[1])
    rows = np.minimum(dimensions, d) - 1
    hits = np.zeros(len(dimensions))
    for (X, x_labels), (Z, z_labels) in combinations(samples, 2):
        of_z, of_x = _nearest_by_dimension(X[:, :d], Z[:, :d], metric)
        hits += np.mean(x_labels[of_z[rows]] == z_labels, axis=1)
        hits += np.mean(z_labels[of_x[rows]] == x_labels, axis=1)
    return hits / (len(samples) * (len(samples) - 1))


def _nearest_by_dimension(X: Array, Z: Array, metric: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """By the first 1, 2, …, d components: the row of X nearest to every row of Z, (d, len(Z)), and the other way."""
    x, z = np.ascontiguousarray(X.T), np.ascontiguousarray(Z.T)
    of_z = np.empty(z.shape, dtype=np.intp)
    of_x, best = np.zeros(x.shape, dtype=np.intp), np.full(x.shape, np.inf)
    step = max(1, _CHUNK // x.size)
    for a in range(0, len(Z), step):
        part = z[:, a : a + step]
        if metric == "euclidean":
            to_x = x[:, None, :] - part[:, :, None]
            to_x *= to_x
            to_z = _accumulate(to_x)
        else:
            # The length of a probe does not change the order of the gallery.
            products = _accumulate(-x[:, None, :] * part[:, :, None])
            to_x, to_z = products / _lengths(x)[:, None, :], products / _lengths(part)[:, :, None]
        of_z[:, a : a + step] = to_x.argmin(axis=2)
        nearest = to_z.argmin(axis=1)
        distance = np.take_along_axis(to_z, nearest[:, None, :], axis=1)[:, 0]
        closer = distance < best
        of_x[closer], best[closer] = nearest[closer] + a, distance[closer]
    return of_z, of_x


def _accumulate(summands: Array) -> Array:
    """Sums over the first 1, 2, … components, in place."""
    for k in range(1, len(summands)):  # a good deal faster than numpy's own, which goes through memory in strides
        summands[k] += summands[k - 1]
    return summands


def _lengths(x: Array) -> Array:
    squares = _accumulate(np.square(x))
    lengths: Array = np.sqrt(np.where(squares, squares, 1.0))
    return lengths


def _check_metric(metric: str) -> None:
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"metric must be 'euclidean' or 'cosine', got {metric!r}.")


def _samples(latents: ViewInput, y: ArrayLike) -> list[tuple[Array, NDArray[np.generic]]]:
    """The samples that every view has seen, and their labels."""
    views = Views(latents)
    labels = column_or_1d([] if y is None else y)
    if len(labels) != len(views):
        raise ValueError(f"y has {len(labels)} labels for {len(views)} samples: give one label per row.")
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    return [(X[seen], labels[seen]) for X, seen in zip(views.arrays, views.mask.T, strict=True)]
