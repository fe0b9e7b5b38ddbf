"""Scores of the probes of one view in one gallery: match curves, verification, precision, open-set identification."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from crossview._types import Array, Indices, Labels
from crossview._validation import as_labels, check_same_kind, has_label
from crossview.engines import fill_missing, is_tensor, to_numpy
from crossview.metrics.scoring import Lookup, ScorerFactory, precisions, ranks, same_distance, score_probes
from crossview.neighbours.distances import class_distances_in_chunks, distances_in_chunks
from crossview.views import Views

_MAX_POINTS = 10_000  # of a curve
_ROUNDING = 1 + 1e-12  # so that 0.29 of 100 is 29


def cmc(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    max_rank: int | None = None,
    metric: str = "euclidean",
) -> Array:
    """Cumulative match characteristic: how often a probe's class is among the r nearest classes.

    A class is as near as its nearest sample. Of classes at the same distance the right one comes last, as in
    `cross_view_accuracy`, which is the rate at rank 1.

    Parameters
    ----------
    gallery, probes : array-like of shape (g, d) and (p, d)
        Samples in the common space; rows of NaN are left out.
    gallery_y, probe_y : array-like of shape (g,) and (p,)
        Their classes. Samples with the label "" are left out, and probes whose class is not in the gallery.
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
    if max_rank is not None and max_rank < 1:
        raise ValueError(f"max_rank must be 1 or more, got {max_rank!r}.")
    lookup, found = _score(ranks, metric, gallery, gallery_y, probes, probe_y)
    n_classes = np.count_nonzero(lookup.counts[0])
    rates = np.cumsum(np.bincount(found.astype(np.intp) - 1, minlength=n_classes)) / len(found)
    return rates if max_rank is None else np.pad(rates, (0, max(0, max_rank - len(rates))), mode="edge")[:max_rank]


def roc(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
) -> tuple[Array, Array, Array]:
    """Receiver operating characteristic of verification: telling pairs of one class by their distance.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `cmc`, but every gallery sample is compared with every probe.

    Returns
    -------
    false_match_rate, true_match_rate, thresholds : ndarray
        Shares of pairs of two classes, and of one, at a distance of at most the threshold. Thresholds ascend. They are
        the distances of pairs of one class, or 10,000 of them at even steps of the true match rate, and infinity.

    Examples
    --------
    >>> roc([[0.0], [1.0]], ["a", "b"], [[0.1], [0.4]], ["a", "b"])
    (array([0. , 0.5, 1. ]), array([0.5, 1. , 1. ]), array([0.1, 0.6, inf]))
    """
    G, g, P, p = _checked(gallery, gallery_y, probes, probe_y)
    chunks = distances_in_chunks(G, P, metric)
    genuine = np.sort(np.concatenate([distances[g == p[rows][:, None]] for rows, distances in chunks]))
    if len(genuine) in (0, len(G) * len(P)):
        raise ValueError("verification needs pairs of one class and pairs of two classes between gallery and probes.")
    thresholds = np.unique(_thinned(genuine, _MAX_POINTS))
    true, false = (count[0] / count[0, -1] for count in count_pairs(G, g, P, p, thresholds, metric))
    return false, true, np.append(thresholds, np.inf)


def det(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
) -> tuple[Array, Array, Array]:
    """Detection error trade-off of verification.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
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
    false, true, thresholds = roc(gallery, gallery_y, probes, probe_y, metric)
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
    return float(_score(precisions, metric, gallery, gallery_y, probes, probe_y)[1].mean())


def identification_rates(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    metric: str = "euclidean",
) -> tuple[Array, Array, Array]:
    """Error rates of open-set identification, where a probe's class may not be in the gallery, by threshold.

    A search returns the nearest class if it is within the threshold. A mated search, of a probe whose class is in the
    gallery, fails if that class is not returned; a class as near as the right one counts as nearer. A non-mated search
    fails if it returns anything. Every probe whose class is in the gallery is searched twice: in the whole gallery, and
    without the samples of its class. Rates are as in ISO/IEC 19795-1 [1]_ and the evaluations of NIST [2]_, at rank 1.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `cmc`, but probes of any class are searched.

    Returns
    -------
    false_positive_rate, false_negative_rate, thresholds : ndarray
        FPIR, the share of non-mated searches that fail, and FNIR, that of mated ones. Thresholds ascend. They are the
        distances at which FNIR changes, or 10,000 of them at even steps of that rate, and infinity.

    References
    ----------
    .. [1] ISO/IEC 19795-1:2021, Biometric performance testing and reporting, Part 1: Principles and framework.
    .. [2] Grother, Ngan and Hanaoka: Face Recognition Vendor Test, Part 2: Identification. NISTIR 8271, 2019.

    Examples
    --------
    >>> identification_rates([[0.0], [1.0]], ["a", "b"], [[0.1], [0.7], [3.0]], ["a", "b", "c"])
    (array([0., 0., 1.]), array([0.5, 0. , 0. ]), array([0.1, 0.3, inf]))
    """
    return identification_curve(*_searches(metric, gallery, gallery_y, probes, probe_y))


def fnir_at_fpir(
    gallery: ArrayLike,
    gallery_y: ArrayLike,
    probes: ArrayLike,
    probe_y: ArrayLike,
    max_fpir: float = 0.01,
    metric: str = "euclidean",
) -> float:
    """False negative identification rate at the largest threshold with at most a given false positive one.

    Parameters
    ----------
    gallery, gallery_y, probes, probe_y, metric
        As in `identification_rates`.
    max_fpir : float
        Share of non-mated searches that may return a class. With n such searches, a rate below 3 / n means little.

    Examples
    --------
    >>> fnir_at_fpir([[0.0], [1.0]], ["a", "b"], [[0.1], [0.7]], ["a", "b"], max_fpir=0.1)
    0.0
    """
    if not 0.0 <= max_fpir < 1.0:
        raise ValueError(f"max_fpir must be a share from 0 to below 1, got {max_fpir!r}.")
    own, other = _searches(metric, gallery, gallery_y, probes, probe_y)
    return float(false_negative_rate(own, other, max_fpir, np.ones((1, len(own))))[0])


def identification_curve(own: Array, other: Array, max_points: int = _MAX_POINTS) -> tuple[Array, Array, Array]:
    """FPIR, FNIR and thresholds from the distances of every probe to its class and to the nearest other one."""
    found = np.sort(own[own < other])
    nonmated = np.sort(other[np.isfinite(other)])
    thresholds = np.append(np.unique(_thinned(found, max_points)), np.inf)
    with np.errstate(invalid="ignore"):  # nan without a non-mated search
        false_positive = np.searchsorted(nonmated, thresholds, side="right") / len(nonmated)
    return false_positive, 1.0 - np.searchsorted(found, thresholds, side="right") / np.isfinite(own).sum(), thresholds


def false_negative_rate(own: Array, other: Array, max_fpir: float, weights: Array) -> Array:
    """FNIR at an FPIR of at most `max_fpir` for every row of weights of the probes, (b, p).

    It is nan if no mated or non-mated search has any weight. `own` and `other` are the distances of every probe to its
    class and to the nearest other one, infinite if there is none.
    """
    found, nonmated = (np.flatnonzero(mask) for mask in (own < other, np.isfinite(other)))
    found, nonmated = found[np.argsort(own[found])], nonmated[np.argsort(other[nonmated])]
    returned = np.cumsum(weights[:, nonmated], axis=1)
    total = returned[:, -1:] if len(nonmated) else np.zeros((len(weights), 1))
    # The first search that must return nothing: the threshold is just below its distance.
    first = (returned <= max_fpir * total * _ROUNDING).sum(axis=1)
    limit = np.append(other[nonmated], np.inf)[first]
    right = np.pad(np.cumsum(weights[:, found], axis=1), ((0, 0), (1, 0)))
    mated = weights @ np.isfinite(own)
    with np.errstate(invalid="ignore"):
        rates: Array = 1.0 - right[np.arange(len(weights)), np.searchsorted(own[found], limit)] / mated
    return np.where(total[:, 0] > 0, rates, np.nan)


def count_pairs(
    G: Array,
    g: Labels,
    P: Array,
    p: Labels,
    thresholds: Array,
    metric: str,
    left_out: Indices | None = None,
    units: Indices | None = None,
    n_units: int = 1,
) -> tuple[Array, Array]:
    """Pairs of one class, and of two, within every threshold and at any distance, (units, thresholds + 1).

    `left_out` is the place of a gallery sample that is not compared with the probe, or -1; `units` are of the probes.
    """
    left_out, units = (np.full(len(P), fill) if one is None else one for one, fill in ((left_out, -1), (units, 0)))
    n_bins = len(thresholds) + 1
    counts = np.zeros((2, n_units, n_bins))
    for rows, distances in distances_in_chunks(G, P, metric):
        bins = np.searchsorted(thresholds, distances)
        bins += n_bins * (units[rows][:, None] + n_units * (g != p[rows][:, None]))
        np.add.at(counts.reshape(-1), bins.reshape(-1), 1.0)
        out = np.flatnonzero(left_out[rows] >= 0)
        np.subtract.at(counts.reshape(-1), bins[out, left_out[rows][out]], 1.0)
    of_one, of_two = np.cumsum(counts, axis=2)
    return of_one, of_two


def rank_classes(distances: Array, place: Indices) -> tuple[Array, Array, Indices]:
    """Distances of probes to their own class and to the nearest other one, and the rank of their own.

    From the distances to every class, (p, classes), and the place of the probes' own, or -1. A distance is infinite if
    there is no such class. A class as near as the right one counts as nearer: its distance is made equal.
    """
    rows, mated = np.arange(len(place)), place >= 0
    own = np.where(mated, distances[rows, place], np.inf)
    most, others = same_distance(own), distances.copy()
    others[rows[mated], place[mated]] = np.inf
    other = others.min(axis=1)
    return own, np.where(other <= most, np.minimum(own, other), other), (distances <= most[:, None]).sum(axis=1)


def place_of_class(classes: Labels, labels: Labels) -> Indices:
    """Positions of labels among sorted classes; -1 where a class is not there."""
    return np.where(np.isin(labels, classes), np.searchsorted(classes, labels), -1)


def _searches(metric: str, *sides: ArrayLike) -> tuple[Array, Array]:
    """Distances of every probe to its class and to the nearest other one; there are mated and non-mated searches."""
    G, g, P, p = _checked(*sides)
    classes, chunks = class_distances_in_chunks(G, g, P, metric)
    place = place_of_class(classes, p)
    found = [rank_classes(distances, place[rows])[:2] for rows, distances in chunks]
    own, other = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not np.isfinite(own).any():
        raise ValueError("no probe has its class in the gallery: check the labels.")
    if not np.isfinite(other).any():
        raise ValueError("there is no non-mated search: the gallery and the probes are all of one class.")
    return own, other


def _score(make_scorer: ScorerFactory, metric: str, *sides: ArrayLike) -> tuple[Lookup, Array]:
    """Scores of the probes whose class is in the gallery: two views, each of which lacks the samples of the other."""
    G, g, P, p = _checked(*sides)
    enrolled = np.arange(len(G) + len(P)) < len(G)
    views = Views([fill_missing(G, enrolled, np.nan), fill_missing(P, ~enrolled, np.nan)])
    for lookup, scores in score_probes(views, np.append(g, p), metric, make_scorer):
        return lookup, scores[0]
    raise ValueError("no probe has its class in the gallery: check the labels.")


def _thinned(values: Array, number: int) -> Array:
    """At most so many of some values, at even steps."""
    found: Array = values[np.linspace(0, len(values) - 1, min(len(values), number)).round().astype(np.intp)]
    return found


def _checked(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike
) -> tuple[Array, Labels, Array, Labels]:
    """Gallery and probes with their classes, without missing samples and those without a label."""
    sides = []
    for X, y, name in ((gallery, gallery_y, "gallery"), (probes, probe_y, "probe")):
        # Curves need all distances, sorted and counted, which is left to NumPy.
        samples = check_array(to_numpy(X) if is_tensor(X) else X, dtype=np.float64, ensure_all_finite="allow-nan")
        labels = as_labels(y, len(samples), f"{name}_y")
        known = ~np.isnan(samples).all(axis=1) & has_label(labels)
        if not known.any():
            raise ValueError(f"{name}_y: every sample is missing or has no label.")
        sides.append((check_array(samples[known]), labels[known]))
    (G, g), (P, p) = sides
    check_same_kind(p, g)
    if G.shape[1] != P.shape[1]:
        raise ValueError(f"gallery and probes must have equal dimensions, got {G.shape[1]} and {P.shape[1]}.")
    return G, g, P, p
