"""Scores of probes in a gallery: match curves, verification, and average precision."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from crossview._backend import is_tensor, to_numpy
from crossview._types import Array, Indices, Labels
from crossview._validation import as_labels, check_same_kind
from crossview.distances import class_distances_in_chunks, distances_in_chunks

_FEW = 32  # samples of a class up to which counting is faster than sorting


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
        Their classes. Probes whose class is not in the gallery are skipped.
    max_rank : int, optional
        Largest rank; by default the number of classes in the gallery.
    metric : {"euclidean", "cosine"}
        The distance.

    Returns
    -------
    rates : ndarray of shape (max_rank,)
        Share of probes found at rank 1, 2, …; 1 from the number of classes in the gallery on.

    Examples
    --------
    >>> cmc([[0.0], [1.0], [2.0]], ["a", "b", "c"], [[0.1], [0.2]], ["a", "b"])
    array([0.5, 1. , 1. ])
    """
    G, g, P, p = gallery_and_probes(gallery, gallery_y, probes, probe_y, answerable=True)
    classes, chunks = class_distances_in_chunks(G, g, P, metric)
    place = np.searchsorted(classes, p)
    found = np.zeros(len(classes), dtype=np.intp)
    for rows, nearest in chunks:
        own = np.take_along_axis(nearest, place[rows, None], axis=1)
        found += np.bincount((nearest <= own).sum(axis=1) - 1, minlength=len(classes))
    rates = np.cumsum(found) / len(P)
    if max_rank is None:
        return rates
    if max_rank < 1:
        raise ValueError(f"max_rank must be 1 or more, got {max_rank!r}.")
    return np.pad(rates, (0, max(0, max_rank - len(rates))), mode="edge")[:max_rank]


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
        As in `cmc`, but every gallery sample is compared with every probe.
    max_points : int
        Largest number of thresholds. These are the distances of pairs of one class, at which alone the true match rate
        changes, or a selection of them at even steps of that rate, and infinity. The curve is exact at each.

    Returns
    -------
    false_match_rate, true_match_rate, thresholds : ndarray
        Shares of pairs of two classes, and of one, at a distance of at most the threshold; thresholds ascend.

    Examples
    --------
    >>> roc([[0.0], [1.0]], ["a", "b"], [[0.1], [0.4]], ["a", "b"])
    (array([0. , 0.5, 1. ]), array([0.5, 1. , 1. ]), array([0.1, 0.6, inf]))
    """
    G, g, P, p = gallery_and_probes(gallery, gallery_y, probes, probe_y)
    own = [distances[g == p[rows][:, None]] for rows, distances in distances_in_chunks(G, P, metric)]
    genuine = np.concatenate(own)
    if len(genuine) in (0, len(G) * len(P)):
        raise ValueError("verification needs pairs of one class and pairs of two classes between gallery and probes.")
    genuine.sort()
    thresholds = np.unique(evenly(genuine, max_points))
    counts = count_pairs(G, g, P, p, thresholds, np.zeros(len(P), dtype=np.intp), 1, metric, np.full(len(P), -1))
    true, false = (count[0] / count[0, -1] for count in counts)
    return false, true, np.append(thresholds, np.inf)


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
    """Mean over the probes of the mean precision at the gallery samples of their class.

    Of samples at the same distance, those of the probe's class come last.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `cmc`.

    Examples
    --------
    >>> round(average_precision([[0.0], [1.0], [2.0]], ["a", "b", "a"], [[0.1]], ["a"]), 3)
    0.833
    """
    G, g, P, p = gallery_and_probes(gallery, gallery_y, probes, probe_y, answerable=True)
    classes, members = members_by_class(g)
    wanted = np.searchsorted(classes, p)
    parts = [probe_precision(distances, members[wanted[rows]]) for rows, distances in distances_in_chunks(G, P, metric)]
    return float(np.concatenate(parts).mean())


def count_pairs(
    G: Array,
    g: Labels,
    P: Array,
    p: Labels,
    thresholds: Array,
    units: Indices,
    n_units: int,
    metric: str,
    left_out: Indices,
) -> tuple[Array, Array]:
    """Pairs of one class, and of two, within every threshold and at any distance, by the unit of the probe.

    `left_out` is the place of a gallery sample that is not compared with the probe, or -1.
    """
    n_bins = len(thresholds) + 1
    counts = np.zeros((2, n_units, n_bins))
    for rows, distances in distances_in_chunks(G, P, metric):
        bins = np.searchsorted(thresholds, distances)
        bins += n_bins * (units[rows][:, None] + n_units * (g != p[rows][:, None]))
        np.add.at(counts.reshape(-1), bins.reshape(-1), 1.0)
        np.subtract.at(counts.reshape(-1), bins[places(left_out[rows])], 1.0)
    of_one, of_two = np.cumsum(counts, axis=2)
    return of_one, of_two


def places(columns: Indices) -> tuple[Indices, Indices]:
    """Rows that have a column, which is not -1, and their columns."""
    rows = np.flatnonzero(columns >= 0)
    return rows, columns[rows]


def members_by_class(g: Labels) -> tuple[Labels, Indices]:
    """The classes of a gallery, and which samples are of each, (classes, largest), filled up with -1."""
    classes, codes, counts = np.unique(g, return_inverse=True, return_counts=True)
    members = np.full((len(classes), counts.max()), -1)
    by_class = np.argsort(codes, kind="stable")
    members[codes[by_class], np.arange(len(g)) - np.repeat(np.cumsum(counts) - counts, counts)] = by_class
    return classes, members


def probe_precision(distances: Array, wanted: Indices) -> Array:
    """Average precision of every probe, from distances, (probes, gallery), and the gallery samples of its class.

    The precision at a sample is the share of the probe's class among all that are as near or nearer. Samples at an
    infinite distance are not in the gallery.
    """
    own = np.take_along_axis(distances, wanted, axis=1)
    own[wanted < 0] = np.inf
    there = np.isfinite(own)
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


def evenly(values: Array, number: int) -> Array:
    """So many of some values, or all, at even steps."""
    steps = np.linspace(0, len(values) - 1, min(len(values), number)).round().astype(np.intp)
    found: Array = values[steps]
    return found


def on_cpu(X: Any) -> Any:
    """A tensor as an array: curves need all distances, sorted and counted, which is left to NumPy."""
    return to_numpy(X) if is_tensor(X) else X


def gallery_and_probes(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike, answerable: bool = False
) -> tuple[Array, Labels, Array, Labels]:
    """Gallery and probes, checked; the answerable probes are those whose class is in the gallery."""
    G, P = (check_array(on_cpu(X), dtype=np.float64) for X in (gallery, probes))
    g, p = as_labels(gallery_y, len(G), "gallery_y"), as_labels(probe_y, len(P), "probe_y")
    check_same_kind(p, g)
    if G.shape[1] != P.shape[1]:
        raise ValueError(f"gallery and probes must have equal dimensions, got {G.shape[1]} and {P.shape[1]}.")
    if not answerable:
        return G, g, P, p
    there = np.isin(p, g)
    if not there.any():
        raise ValueError("no probe has its class in the gallery: check the labels.")
    return G, g, P[there], p[there]
