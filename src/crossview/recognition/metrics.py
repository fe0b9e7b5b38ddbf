"""How well samples of one view are recognised among samples of another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import column_or_1d

from crossview.views import Array, ViewInput, Views

__all__ = ["accuracy_by_dimension", "cross_view_accuracy", "mean_accuracy"]


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
    origin = samples[0][0].mean(axis=0) if metric == "euclidean" else 0.0
    samples = [(np.ascontiguousarray(X - origin), labels) for X, labels in samples]
    # Adding up sums of squares from where the last number of components ended.
    edges = [0, *dimensions]
    accuracy = np.zeros(len(dimensions))
    for (X, x_labels), (Z, z_labels) in combinations(samples, 2):
        same = x_labels[:, None] == z_labels
        products, x_squares, z_squares = np.zeros(same.shape), np.zeros(len(X)), np.zeros(len(Z))
        for k, (a, b) in enumerate(pairwise(edges)):
            x, z = X[:, a:b], Z[:, a:b]
            if x.size:
                products += x @ z.T
                x_squares += np.einsum("ij,ij->i", x, x)
                z_squares += np.einsum("ij,ij->i", z, z)
            # For a given probe, what depends on it alone does not change the order of the gallery.
            if metric == "euclidean":
                of_x, of_z = x_squares[:, None] - 2.0 * products, z_squares - 2.0 * products
            else:
                of_x = -products / np.sqrt(np.where(x_squares, x_squares, 1.0))[:, None]
                of_z = -products / np.sqrt(np.where(z_squares, z_squares, 1.0))
            accuracy[k] += same[of_x.argmin(axis=0), np.arange(len(Z))].mean()
            accuracy[k] += same[np.arange(len(X)), of_z.argmin(axis=1)].mean()
    return accuracy / (len(samples) * (len(samples) - 1))


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
