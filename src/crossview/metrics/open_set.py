"""Open-set identification: the class of a probe may not be in the gallery."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from crossview._types import Array, Indices, Labels
from crossview._validation import as_labels, has_label
from crossview.distances import class_distances_in_chunks
from crossview.metrics.matching import evenly, gallery_and_probes, on_cpu

_CLEAR = 1e-9  # relative
_ROUNDING = 1 + 1e-12  # so that 0.29 of 100 is 29


def identification_rates(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
    max_points: int = 10_000,
) -> tuple[Array, Array, Array]:
    """Error rates of open-set identification, where a probe's class may not be in the gallery, by threshold.

    A search returns the nearest class if it is within the threshold. A mated search, of a probe whose class is in the
    gallery, fails if that class is not returned; a class as near as the right one counts as nearer. A non-mated search
    fails if it returns anything. Every probe whose class is in the gallery is searched twice: in the whole gallery, and
    without the samples of its class. Rates are as in ISO/IEC 19795-1 [1]_ and the evaluations of NIST [2]_, at rank 1.

    Parameters
    ----------
    gallery, probes : array-like of shape (g, d) and (p, d)
        Samples in the common space; rows of NaN are left out.
    gallery_y, probe_y : array-like of shape (g,) and (p,)
        Their classes. Samples with the label "" are left out.
    metric : {"euclidean", "cosine"}
        The distance.
    max_points : int
        Largest number of thresholds, which are the distances at which the false negative rate changes, or a selection
        of them at even steps of that rate, and infinity. The rates are exact at each.

    Returns
    -------
    false_positive_rate, false_negative_rate, thresholds : ndarray
        FPIR, the share of non-mated searches that fail, and FNIR, that of mated ones; thresholds ascend.

    References
    ----------
    .. [1] ISO/IEC 19795-1:2021, Biometric performance testing and reporting, Part 1: Principles and framework.
    .. [2] Grother, Ngan and Hanaoka: Face Recognition Vendor Test, Part 2: Identification. NISTIR 8271, 2019.

    Examples
    --------
    >>> identification_rates([[0.0], [1.0]], ["a", "b"], [[0.1], [0.7], [3.0]], ["a", "b", "c"])
    (array([0., 0., 1.]), array([0.5, 0. , 0. ]), array([0.1, 0.3, inf]))
    """
    return identification_curve(*_search(gallery, gallery_y, probes, probe_y, metric), max_points)


def fnir_at_fpir(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    fpir: float = 0.01,
    metric: str = "euclidean",
) -> float:
    """False negative identification rate at the largest threshold with at most a given false positive one.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `identification_rates`.
    fpir : float
        Share of non-mated searches that may return a class. With n such searches, a rate below 3 / n means little.

    Examples
    --------
    >>> fnir_at_fpir([[0.0], [1.0]], ["a", "b"], [[0.1], [0.7]], ["a", "b"], fpir=0.1)
    0.0
    """
    if not 0.0 <= fpir < 1.0:
        raise ValueError(f"fpir must be a share from 0 to below 1, got {fpir!r}.")
    own, other = _search(gallery, gallery_y, probes, probe_y, metric)
    return float(false_negative_rate(own, other, fpir, np.ones((1, len(own))))[0])


def identification_curve(own: Array, other: Array, max_points: int) -> tuple[Array, Array, Array]:
    """FPIR, FNIR and thresholds from the distances of every probe to its class and to the nearest other one."""
    found = np.sort(own[own < other])
    nonmated = np.sort(other[np.isfinite(other)])
    thresholds = np.append(np.unique(evenly(found, max_points)), np.inf)
    with np.errstate(invalid="ignore"):  # nan without a non-mated search
        false_positive = np.searchsorted(nonmated, thresholds, side="right") / len(nonmated)
    return false_positive, 1.0 - np.searchsorted(found, thresholds, side="right") / np.isfinite(own).sum(), thresholds


def largest_threshold(other: Array, false_positive_rate: float) -> float:
    """Largest distance at which at most a share of further searches returns a class on average; 0 if there is none.

    From the distances of n searches to the nearest class: a further one is below the k-th smallest with a probability
    of k / (n + 1). The threshold stays clear of that: computed again, with other threads or in other chunks, a distance
    may differ in the last digits.
    """
    k = int(false_positive_rate * (len(other) + 1) * _ROUNDING)
    return float(np.sort(other)[k - 1] * (1.0 - _CLEAR)) if k else 0.0


def false_negative_rate(own: Array, other: Array, fpir: float, weights: Array) -> Array:
    """FNIR at an FPIR for every row of weights of the probes, (b, p); nan if no mated or non-mated search has any.

    `own` and `other` are the distances of every probe to its class and to the nearest other one, infinite if there is
    none.
    """
    found, nonmated = (np.flatnonzero(mask) for mask in (own < other, np.isfinite(other)))
    found, nonmated = found[np.argsort(own[found])], nonmated[np.argsort(other[nonmated])]
    returned = np.cumsum(weights[:, nonmated], axis=1)
    total = returned[:, -1:] if len(nonmated) else np.zeros((len(weights), 1))
    # The first search that must return nothing: the threshold is just below its distance.
    first = (returned <= fpir * total * _ROUNDING).sum(axis=1)
    limit = np.append(other[nonmated], np.inf)[first]
    right = np.pad(np.cumsum(weights[:, found], axis=1), ((0, 0), (1, 0)))
    mated = weights @ np.isfinite(own)
    with np.errstate(invalid="ignore"):
        rates: Array = 1.0 - right[np.arange(len(weights)), np.searchsorted(own[found], limit)] / mated
    return np.where(total[:, 0] > 0, rates, np.nan)


def own_and_other(G: Array, g: Labels, P: Array, p: Labels, metric: str) -> tuple[Array, Array]:
    """Distances of probes to their class, and to the nearest other; infinite if the gallery has none."""
    classes, chunks = class_distances_in_chunks(G, g, P, metric)
    place = place_of_class(classes, p)
    own, other = zip(*(split_by_class(distances, place[rows]) for rows, distances in chunks), strict=True)
    return np.concatenate(own), np.concatenate(other)


def split_by_class(distances: Array, place: Indices) -> tuple[Array, Array]:
    """As `own_and_other`, from the distances to every class, (p, classes), and the place of the probes' own, or -1."""
    rows, there = np.arange(len(place)), place >= 0
    own = np.where(there, distances[rows, place], np.inf)
    others = distances.copy()
    others[rows[there], place[there]] = np.inf
    return own, others.min(axis=1)


def place_of_class(classes: Labels, labels: Labels) -> Indices:
    """Positions of labels among sorted classes; -1 where a class is not there."""
    place = np.searchsorted(classes, labels)
    return np.where(np.isin(labels, classes), place, -1)


def _search(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike, metric: str
) -> tuple[Array, Array]:
    """Distances of every probe to its class and to the nearest other one; there are mated and non-mated searches."""
    samples = gallery_and_probes(*_known(gallery, gallery_y, "gallery"), *_known(probes, probe_y, "probe"))
    own, other = own_and_other(*samples, metric)
    if not np.isfinite(own).any():
        raise ValueError("no probe has its class in the gallery: check the labels.")
    if not np.isfinite(other).any():
        raise ValueError("there is no non-mated search: the gallery and the probes are all of one class.")
    return own, other


def _known(X: ArrayLike, y: ArrayLike, name: str) -> tuple[Array, Labels]:
    """Samples that are not missing and have a label."""
    samples = check_array(on_cpu(X), dtype=np.float64, ensure_all_finite="allow-nan")
    labels = as_labels(y, len(samples), f"{name}_y")
    known = ~np.isnan(samples).all(axis=1) & has_label(labels)
    if not known.any():
        raise ValueError(f"{name}_y: every sample is missing or has no label.")
    return samples[known], labels[known]
