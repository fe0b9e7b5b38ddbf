"""How well samples of one view are recognised among samples of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin
from sklearn.utils import check_array, column_or_1d

from crossview.views import Array, ViewInput, Views

__all__ = [
    "accuracy_by_dimension",
    "average_precision",
    "cmc",
    "cross_view_accuracy",
    "det",
    "mean_accuracy",
    "precision_by_dimension",
    "roc",
]

_CHUNK = 4_000_000  # distances that are held at a time
_FEW = 32  # samples of a class up to which counting is faster than sorting


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
    samples = _comparable(latents, y, dimensions, metric)
    hits = np.zeros(len(dimensions))
    for (X, x_labels), (Z, z_labels) in combinations(samples, 2):
        of_z, of_x = _nearest_by_dimension(X, Z, dimensions, metric)
        hits += np.mean(x_labels[of_z] == z_labels, axis=1)
        hits += np.mean(z_labels[of_x] == x_labels, axis=1)
    return hits / (len(samples) * (len(samples) - 1))


def precision_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str = "euclidean",
) -> Array:
    """Mean average precision of the first components, for several numbers of them.

    As `accuracy_by_dimension`, with `average_precision` of every ordered pair of views. It looks at the rank of every
    sample of a probe's class, and so tells apart what finds the same nearest neighbours.

    Parameters
    ----------
    latents, y, dimensions, metric
        As in `accuracy_by_dimension`. A sample whose class another view has not seen is no probe there.

    Returns
    -------
    precision : ndarray of shape (len(dimensions),)
        The mean over the ordered pairs of views.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> precision_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.625, 1.   ])
    """
    samples = _comparable(latents, y, dimensions, metric)
    total = np.zeros(len(dimensions))
    for gallery, (G, g) in enumerate(samples):
        others = [other for view, other in enumerate(samples) if view != gallery]
        counted = [np.isin(p, g) for _, p in others]
        if not all(there.any() for there in counted):
            raise ValueError("two views share no class: there is nothing to find in one that the other has seen.")
        # The probes of all other views at once, each view counting as much as any other.
        P = np.vstack([X[there] for (X, _), there in zip(others, counted, strict=True)])
        p = np.concatenate([labels[there] for (_, labels), there in zip(others, counted, strict=True)])
        weights = np.concatenate([np.full(there.sum(), 1 / there.sum()) for there in counted])
        step = max(1, _CHUNK // len(G))
        wanted = _of_class(g, p)
        for a in range(0, len(P), step):
            rows = slice(a, a + step)
            for k, (to_gallery, _) in enumerate(_order_by_dimension(G, P[rows], dimensions, metric)):
                total[k] += _precision(np.ascontiguousarray(to_gallery.T), wanted[rows]) @ weights[rows]
    return total / (len(samples) * (len(samples) - 1))


def _of_class(g: NDArray[np.generic], p: NDArray[np.generic]) -> NDArray[np.intp]:
    """For every probe, whose class the gallery has, which of the gallery are of its class; filled up with -1."""
    classes, codes, counts = np.unique(g, return_inverse=True, return_counts=True)
    members = np.full((len(classes), counts.max()), -1)
    by_class = np.argsort(codes, kind="stable")
    members[codes[by_class], np.arange(len(g)) - np.repeat(np.cumsum(counts) - counts, counts)] = by_class
    return members[np.searchsorted(classes, p)]


def _precision(distances: Array, wanted: NDArray[np.intp]) -> Array:
    """Average precision of every probe, by its distances to the gallery, (probes, gallery), and what it looks for.

    At every sample of the probe's class: how many of those that are as near or nearer are of that class. Samples at the
    same distance count against each other, whatever their order.
    """
    there = wanted >= 0
    own = np.take_along_axis(distances, wanted, axis=1)
    own[~there] = np.inf
    if own.shape[1] <= _FEW:
        of_class, of_all = (
            np.stack([np.count_nonzero(among <= at[:, None], axis=1) for at in own.T], axis=1)
            for among in (own, distances)
        )
    else:
        of_class, of_all = (
            np.array([np.searchsorted(np.sort(line), at, side="right") for line, at in zip(among, own, strict=True)])
            for among in (own, distances)
        )
    precision: Array = (of_class / of_all * there).sum(axis=1) / there.sum(axis=1)
    return precision


def _comparable(
    latents: ViewInput, y: ArrayLike, dimensions: Sequence[int], metric: str
) -> list[tuple[Array, NDArray[np.generic]]]:
    """Every view's samples and their classes, where there are two views to compare."""
    _check_metric(metric)
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    samples = [(X, labels) for X, labels in _samples(latents, y) if len(X)]
    if len(samples) < 2:
        raise ValueError("there is no pair of views to compare: pass two views or more, each with samples.")
    if metric == "euclidean":
        # Distances are differences of squares: far from zero they would be lost in rounding.
        origin = samples[0][0].mean(axis=0)
        samples = [(X - origin, labels) for X, labels in samples]
    return samples


def _nearest_by_dimension(
    X: Array, Z: Array, dimensions: Sequence[int], metric: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """By the first components, for every number of them: the row of X nearest to every row of Z, and the other way."""
    of_z = np.empty((len(dimensions), len(Z)), dtype=np.intp)
    of_x = np.zeros((len(dimensions), len(X)), dtype=np.intp)
    best = np.full(of_x.shape, np.inf)
    step = max(1, _CHUNK // len(X))
    everyone = np.arange(len(X))
    for a in range(0, len(Z), step):
        rows = slice(a, min(a + step, len(Z)))
        for k, (to_x, to_z) in enumerate(_order_by_dimension(X, Z[rows], dimensions, metric)):
            of_z[k, rows] = to_x.argmin(axis=0)
            nearest = to_z.argmin(axis=1)
            if step >= len(Z):
                of_x[k] = nearest
                continue
            distance = to_z[everyone, nearest]
            closer = distance < best[k]
            of_x[k, closer], best[k, closer] = nearest[closer] + a, distance[closer]
    return of_z, of_x


def _order_by_dimension(X: Array, Z: Array, dimensions: Sequence[int], metric: str) -> Iterator[tuple[Array, Array]]:
    """What orders X for every row of Z, and Z for every row of X, (len(X), len(Z)), for every number of components.

    For a given probe, what depends on it alone does not change the order of the gallery, and is left out.
    """
    last = np.minimum(dimensions, X.shape[1]) - 1
    x_squares, z_squares = (np.cumsum(np.square(A), axis=1)[:, last].T for A in (X, Z))
    scale = -2.0 if metric == "euclidean" else -1.0
    products, scaled = np.zeros((len(X), len(Z))), scale * Z.T
    for k, (a, b) in enumerate(pairwise([0, *dimensions])):
        products += X[:, a:b] @ scaled[a:b]
        if metric == "euclidean":
            yield x_squares[k, :, None] + products, z_squares[k] + products
        elif last[k] == 0:
            # One component alone has a sign and no angle: rounding must not tell its ties apart.
            yield np.sign(products), np.sign(products)
        else:
            yield products / _length(x_squares[k])[:, None], products / _length(z_squares[k])


def _length(squares: Array) -> Array:
    lengths: Array = np.sqrt(np.where(squares, squares, 1.0))
    return lengths


def cmc(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    max_rank: int | None = None,
    metric: str = "euclidean",
) -> Array:
    """Cumulative match characteristic: how often a probe's class is among the r nearest classes.

    A class is as near as its nearest sample. Of classes at the same distance the right one comes last.

    Parameters
    ----------
    gallery, probes : array-like of shape (g, d) and (p, d)
        Samples in the common space.
    gallery_y, probe_y : array-like of shape (g,) and (p,)
        Their classes. A probe whose class is not in the gallery is never found.
    max_rank : int, optional
        Largest rank; the number of classes in the gallery when left out.
    metric : {"euclidean", "cosine"}
        The distance.

    Returns
    -------
    rates : ndarray of shape (max_rank,)
        Share of probes found at rank 1, 2, …

    Examples
    --------
    >>> cmc([[0.0], [1.0], [2.0]], ["a", "b", "c"], [[0.1], [0.2]], ["a", "b"])
    array([0.5, 1. , 1. ])
    """
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y)
    order = np.argsort(g, kind="stable")
    classes, starts = np.unique(g[order], return_index=True)
    ranks = []
    for rows, distances in distances_in_chunks(G[order], P, metric):
        nearest = np.minimum.reduceat(distances, starts, axis=1)
        place = np.searchsorted(classes, p[rows])
        known = np.isin(p[rows], classes)
        own = np.where(known, nearest[np.arange(len(nearest)), np.where(known, place, 0)], np.inf)
        ranks.append(np.where(known, (nearest <= own[:, None]).sum(axis=1), len(classes) + 1))
    found = np.bincount(np.concatenate(ranks), minlength=len(classes) + 2)[1:-1]
    rates = np.cumsum(found) / len(P)
    if max_rank is None:
        return rates
    if max_rank < 1:
        raise ValueError(f"max_rank must be 1 or more, got {max_rank!r}.")
    return np.append(rates, np.full(max(0, max_rank - len(rates)), rates[-1]))[:max_rank]


def roc(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
    max_points: int = 10_000,
) -> tuple[Array, Array, Array]:
    """Receiver operating characteristic of verification: telling pairs of one class by their distance.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `cmc`. Every gallery sample is compared with every probe.
    max_points : int
        The curve is exact at every threshold returned. These are the distances of pairs of one class, at which alone
        the true match rate changes, and infinity; of more than so many, a selection at even steps of that rate.

    Returns
    -------
    false_match_rate, true_match_rate, thresholds : ndarray
        Shares of pairs of two classes, and of pairs of one class, at a distance of at most the threshold, which
        ascends.

    Examples
    --------
    >>> roc([[0.0], [1.0]], ["a", "b"], [[0.1], [0.4]], ["a", "b"])
    (array([0. , 0.5, 1. ]), array([0.5, 1. , 1. ]), array([0.1, 0.6, inf]))
    """
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y)
    own = [distances[g == p[rows][:, None]] for rows, distances in distances_in_chunks(G, P, metric)]
    genuine = np.sort(np.concatenate(own))
    n_impostors = len(G) * len(P) - len(genuine)
    if not len(genuine) or not n_impostors:
        raise ValueError("verification needs pairs of one class and pairs of two classes between gallery and probes.")
    steps = np.linspace(0, len(genuine) - 1, min(len(genuine), max_points)).round().astype(np.intp)
    thresholds = np.unique(genuine[steps])
    below = np.zeros(len(thresholds) + 1, dtype=np.int64)
    for rows, distances in distances_in_chunks(G, P, metric):
        impostors = distances[g != p[rows][:, None]]
        below += np.bincount(np.searchsorted(thresholds, impostors), minlength=len(below))
    true = np.searchsorted(genuine, thresholds, side="right") / len(genuine)
    # At last, everything matches.
    return np.cumsum(below) / n_impostors, np.append(true, 1.0), np.append(thresholds, np.inf)


def det(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
    max_points: int = 10_000,
) -> tuple[Array, Array, Array]:
    """Detection error trade-off of verification.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric, max_points
        As in `roc`.

    Returns
    -------
    false_match_rate, false_non_match_rate, thresholds : ndarray
        Shares of pairs of two classes within the threshold, and of pairs of one class beyond it.

    Examples
    --------
    >>> det([[0.0], [1.0]], ["a", "b"], [[0.1], [0.4]], ["a", "b"])
    (array([0. , 0.5, 1. ]), array([0.5, 0. , 0. ]), array([0.1, 0.6, inf]))
    """
    false, true, thresholds = roc(gallery, gallery_y, probes, probe_y, metric, max_points)
    return false, 1.0 - true, thresholds


def average_precision(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike, metric: str = "euclidean"
) -> float:
    """Mean average precision: how far up in the ranked gallery all samples of a probe's class are.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `cmc`. Probes whose class is not in the gallery are left out.

    Returns
    -------
    precision : float
        Mean over the probes of the mean precision at the samples of their class. Those at the same distance as others
        are taken to come after them.

    Examples
    --------
    >>> round(average_precision([[0.0], [1.0], [2.0]], ["a", "b", "a"], [[0.1]], ["a"]), 3)
    0.833
    """
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y)
    there = np.isin(p, g)
    if not there.any():
        raise ValueError("no probe has its class in the gallery: check the labels.")
    wanted = _of_class(g, p[there])
    parts = [_precision(distances, wanted[rows]) for rows, distances in distances_in_chunks(G, P[there], metric)]
    return float(np.concatenate(parts).mean())


def distances_in_chunks(gallery: Array, probes: Array, metric: str) -> Iterator[tuple[slice, Array]]:
    """Distances of some probes at a time to all of the gallery, (probes, gallery), with the rows that these are."""
    _check_metric(metric)
    if metric == "euclidean":
        # Distances are differences of squares: far from zero they would be lost in rounding.
        origin = gallery.mean(axis=0)
        gallery, probes = gallery - origin, probes - origin
    step = max(1, _CHUNK // len(gallery))
    for a in range(0, len(probes), step):
        rows = slice(a, min(a + step, len(probes)))
        yield rows, pairwise_distances(probes[rows], gallery, metric=metric)


def _gallery_and_probes(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike
) -> tuple[Array, NDArray[np.generic], Array, NDArray[np.generic]]:
    G, P = check_array(gallery, dtype=np.float64), check_array(probes, dtype=np.float64)
    g, p = column_or_1d(gallery_y), column_or_1d(probe_y)
    for X, labels, name in ((G, g, "gallery"), (P, p, "probes")):
        if len(X) != len(labels):
            raise ValueError(f"{name}: {len(labels)} labels for {len(X)} samples: give one label per row.")
    if G.shape[1] != P.shape[1]:
        raise ValueError(f"gallery and probes must have equal dimensions, got {G.shape[1]} and {P.shape[1]}.")
    return G, g, P, p


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
