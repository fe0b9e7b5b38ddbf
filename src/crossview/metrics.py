"""How well samples of one view are recognised among samples of another."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_array, column_or_1d

from crossview._types import Array, Indices, Labels, Mask
from crossview._validation import as_labels, check_choice, check_same_kind, has_label
from crossview.distances import class_distances_in_chunks, comparable, distances_in_chunks
from crossview.views import ViewInput, Views

__all__ = [
    "accuracy_by_dimension",
    "average_precision",
    "chance_accuracy",
    "cmc",
    "cross_view_accuracy",
    "cross_view_average_precision",
    "det",
    "fnir_at_fpir",
    "identification_rates",
    "mean_accuracy",
    "mean_average_precision",
    "precision_by_dimension",
    "roc",
    "skipped_probes",
]

Samples: TypeAlias = tuple[Array, Labels]
PairScore: TypeAlias = Callable[[Array, Labels, Array, Labels, str], float]
ProbeScorer: TypeAlias = Callable[[Array, slice], Mask | Array]
ScorerFactory: TypeAlias = Callable[[Labels, Labels], ProbeScorer]

_BLOCK = 2**16  # distances that fit in the processor's cache
_FEW = 32  # samples of a class up to which counting is faster than sorting
_CLEAR = 1e-9  # relative
_ROUNDING = 1 + 1e-12  # so that 0.29 of 100 is 29
_NO_PAIR = "there is no pair of views to compare: pass at least two views with samples of a common class."


def cross_view_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> Array:
    """Share of probes of one view whose nearest gallery sample of another view has their class.

    As in the paper, the gallery is all samples of one view, including the counterparts of the probes.

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
        Row: view of the gallery. Column: view of the probe. A probe is skipped if the gallery has no sample of its
        class, see `skipped_probes`. The diagonal is nan, and so is a pair of views in which every probe is skipped.

    Examples
    --------
    >>> import numpy as np
    >>> photo, sketch = np.array([[0.0], [1.0]]), np.array([[0.2], [0.1]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b"])
    array([[nan, 0.5],
           [0. , nan]])
    """
    return _score_pairs(latents, y, metric, _accuracy)


def mean_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> float:
    """Mean of `cross_view_accuracy` over all ordered pairs of views that have one: the paper's mACC.

    The gallery includes the counterpart of each probe, the same row in the other view. `crossview.evaluate` also gives
    the accuracy without it, which is usually lower if classes have several samples.

    Parameters
    ----------
    latents, y, metric
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_accuracy([[[0.0], [1.0]], [[0.1], [0.8]]], ["a", "b"])
    1.0
    """
    return _mean_over_pairs(cross_view_accuracy(latents, y, metric))


def cross_view_average_precision(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> Array:
    """`average_precision` of the probes of one view in the gallery of another.

    Parameters
    ----------
    latents, y, metric
        As in `cross_view_accuracy`, and so are the rows, columns, skipped probes and nan of the result.

    Examples
    --------
    >>> cross_view_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    array([[ nan, 0.75],
           [0.5 ,  nan]])
    """
    return _score_pairs(latents, y, metric, average_precision)


def mean_average_precision(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> float:
    """Mean of `cross_view_average_precision` over all ordered pairs of views that have one.

    Parameters
    ----------
    latents, y, metric
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    0.625
    """
    return _mean_over_pairs(cross_view_average_precision(latents, y, metric))


def chance_accuracy(views: ViewInput, y: ArrayLike) -> float:
    """Expected `mean_accuracy` of a matcher that picks a gallery sample at random.

    For a pair of views, it is the share of gallery samples with the class of a probe, averaged over the probes.

    Parameters
    ----------
    views, y
        As `latents` and `y` in `cross_view_accuracy`, or as features: only rows of NaN matter, which are left out.

    Examples
    --------
    >>> photo, sketch = [[0.0], [1.0], [2.0], [3.0]], [[0.2], [0.1], [0.3], [0.4]]
    >>> chance_accuracy([photo, sketch], ["a", "a", "b", "b"])
    0.5
    """
    counts = _count_classes(Views(views), y)[1]
    # Without a common class, this is 0 / 0, which is nan.
    with np.errstate(invalid="ignore"):
        chance = (counts @ counts.T) / (counts.sum(axis=1, keepdims=True) * ((counts > 0) @ counts.T))
    np.fill_diagonal(chance, np.nan)
    return _mean_over_pairs(chance)


def skipped_probes(latents: ViewInput, y: ArrayLike) -> Indices:
    """Number of probes of one view whose class has no gallery sample in another, so that no matcher can find it.

    Parameters
    ----------
    latents, y
        As in `cross_view_accuracy`.

    Returns
    -------
    skipped : ndarray of int, shape (n, n)
        Row: view of the gallery. Column: view of the probe. The diagonal is 0.

    Examples
    --------
    >>> nan = float("nan")
    >>> skipped_probes([[[0.0], [1.0]], [[0.1], [nan]]], ["a", "b"])
    array([[0, 0],
           [1, 0]])
    """
    counts = _count_classes(Views(latents), y)[1]
    skipped: Indices = (counts == 0) @ counts.T
    return skipped


def accuracy_by_dimension(
    latents: ViewInput, y: ArrayLike, dimensions: Sequence[int], metric: str = "euclidean"
) -> Array:
    """`mean_accuracy` of the first components, for several numbers of them at the cost of the largest.

    The first d components of a fit are the fit with d components: one fit is enough to find the best number.

    Parameters
    ----------
    latents, y, metric
        As in `mean_accuracy`.
    dimensions : sequence of int
        Numbers of components, 1 or more, ascending. Capped at the number available.

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
    return _mean_by_dimension(latents, y, dimensions, metric, _hit_scorer)


def precision_by_dimension(
    latents: ViewInput, y: ArrayLike, dimensions: Sequence[int], metric: str = "euclidean"
) -> Array:
    """`mean_average_precision` of the first components, for several numbers of them, as in `accuracy_by_dimension`.

    It depends on the rank of every sample of a probe's class, and so separates settings with equal accuracy.

    Parameters
    ----------
    latents, y, dimensions, metric
        As in `accuracy_by_dimension`.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> precision_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.625, 1.   ])
    """
    return _mean_by_dimension(latents, y, dimensions, metric, _precision_scorer)


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
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y, answerable=True)
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
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y)
    own = [distances[g == p[rows][:, None]] for rows, distances in distances_in_chunks(G, P, metric)]
    genuine = np.concatenate(own)
    if len(genuine) in (0, len(G) * len(P)):
        raise ValueError("verification needs pairs of one class and pairs of two classes between gallery and probes.")
    genuine.sort()
    thresholds = np.unique(_evenly(genuine, max_points))
    counts = count_pairs(G, g, P, p, thresholds, np.zeros(len(P), dtype=np.intp), 1, metric)
    true, false = (count[0] / count[0, -1] for count in counts)
    return false, true, np.append(thresholds, np.inf)


def count_pairs(
    G: Array, g: Labels, P: Array, p: Labels, thresholds: Array, units: Indices, n_units: int, metric: str
) -> tuple[Array, Array]:
    """Pairs of one class, and of two, within every threshold and at any distance, by the unit of the probe."""
    n_bins = len(thresholds) + 1
    counts = np.zeros((2, n_units, n_bins))
    for rows, distances in distances_in_chunks(G, P, metric):
        bins = np.searchsorted(thresholds, distances)
        bins += n_bins * (units[rows][:, None] + n_units * (g != p[rows][:, None]))
        np.add.at(counts.reshape(-1), bins.reshape(-1), 1.0)
    of_one, of_two = np.cumsum(counts, axis=2)
    return of_one, of_two


def _evenly(values: Array, number: int) -> Array:
    """So many of some values, or all, at even steps."""
    steps = np.linspace(0, len(values) - 1, min(len(values), number)).round().astype(np.intp)
    found: Array = values[steps]
    return found


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
    G, g, P, p = _gallery_and_probes(gallery, gallery_y, probes, probe_y, answerable=True)
    classes, members = members_by_class(g)
    wanted = np.searchsorted(classes, p)
    parts = [probe_precision(distances, members[wanted[rows]]) for rows, distances in distances_in_chunks(G, P, metric)]
    return float(np.concatenate(parts).mean())


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
    thresholds = np.append(np.unique(_evenly(found, max_points)), np.inf)
    with np.errstate(invalid="ignore"):  # nan without a non-mated search
        false_positive = np.searchsorted(nonmated, thresholds, side="right") / len(nonmated)
    return false_positive, 1.0 - np.searchsorted(found, thresholds, side="right") / np.isfinite(own).sum(), thresholds


def largest_threshold(other: Array, false_positive_rate: float) -> float:
    """Largest distance at which at most a share of searches returns a class, from those to the nearest class.

    It stays clear of the first search that must return nothing: computed again, with other threads or in other chunks,
    its distance may differ in the last digits.
    """
    first = int(false_positive_rate * len(other) * _ROUNDING)
    return float(np.sort(other)[first] * (1.0 - _CLEAR))


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


def _search(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike, metric: str
) -> tuple[Array, Array]:
    """Distances of every probe to its class and to the nearest other one; there are mated and non-mated searches."""
    samples = _gallery_and_probes(*_known(gallery, gallery_y, "gallery"), *_known(probes, probe_y, "probe"))
    own, other = own_and_other(*samples, metric)
    if not np.isfinite(own).any():
        raise ValueError("no probe has its class in the gallery: check the labels.")
    if not np.isfinite(other).any():
        raise ValueError("there is no non-mated search: the gallery and the probes are all of one class.")
    return own, other


def _known(X: ArrayLike, y: ArrayLike, name: str) -> tuple[Array, Labels]:
    """Samples that are not missing and have a label."""
    samples = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
    labels = as_labels(y, len(samples), f"{name}_y")
    known = ~np.isnan(samples).all(axis=1) & has_label(labels)
    if not known.any():
        raise ValueError(f"{name}_y: every sample is missing or has no label.")
    return samples[known], labels[known]


def place_of_class(classes: Labels, labels: Labels) -> Indices:
    """Positions of labels among sorted classes; -1 where a class is not there."""
    place = np.searchsorted(classes, labels)
    return np.where(np.isin(labels, classes), place, -1)


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


def _score_pairs(latents: ViewInput, y: ArrayLike, metric: str, score: PairScore) -> Array:
    """Score of every ordered pair of views, (n, n); nan where there is no probe to score."""
    check_choice(metric, "metric", ("euclidean", "cosine"))
    samples, counts = _samples(latents, y)
    scores = np.full((len(samples), len(samples)), np.nan)
    for i, (G, g), probes in _galleries(samples, counts):
        for j, (P, p) in probes.items():
            scores[i, j] = score(G, g, P, p, metric)
    return scores


def _accuracy(G: Array, g: Labels, P: Array, p: Labels, metric: str) -> float:
    (G, P), _ = comparable([G, P], metric)
    return float(np.mean(g[pairwise_distances_argmin(P, G, metric=metric)] == p))


def _mean_by_dimension(
    latents: ViewInput, y: ArrayLike, dimensions: Sequence[int], metric: str, make_scorer: ScorerFactory
) -> Array:
    """Mean score over the ordered pairs of views, for every number of components."""
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    samples, counts = _samples(latents, y)
    arrays, _ = comparable([X for X, _ in samples], metric)
    samples = [(X, labels) for X, (_, labels) in zip(arrays, samples, strict=True)]
    scores = []
    for _, (G, g), probes in _galleries(samples, counts):
        # All probes of a gallery at once: in small views, calls to numpy take longer than the arithmetic.
        P, p = (np.concatenate(parts) for parts in zip(*probes.values(), strict=True))
        of_probes, scorer = np.empty((len(dimensions), len(P))), make_scorer(g, p)
        for part, rows, order in _order_by_dimension(G, P, dimensions, metric):
            of_probes[part, rows] = scorer(order, rows)
        sizes = np.array([len(X) for X, _ in probes.values()])
        scores.append(np.add.reduceat(of_probes, np.cumsum(sizes) - sizes, axis=1) / sizes)
    if not scores:
        raise ValueError(_NO_PAIR)
    mean: Array = np.concatenate(scores, axis=1).mean(axis=1)
    return mean


def _hit_scorer(g: Labels, p: Labels) -> ProbeScorer:
    return lambda order, rows: g[order.argmin(axis=2)] == p[rows]


def _precision_scorer(g: Labels, p: Labels) -> ProbeScorer:
    classes, members = members_by_class(g)
    wanted = np.searchsorted(classes, p)

    def score(order: Array, rows: slice) -> Array:
        repeated = np.tile(members[wanted[rows]], (len(order), 1))
        return probe_precision(order.reshape(len(repeated), -1), repeated).reshape(len(order), -1)

    return score


def _order_by_dimension(
    G: Array, P: Array, dimensions: Sequence[int], metric: str
) -> Iterator[tuple[slice, slice, Array]]:
    """Keys that rank the gallery for every probe by the first components, less what depends on the probe alone.

    They come in blocks of shape (dimensions, probes, gallery), each after the dimensions and the probes it is for.
    """
    ends = [min(d, G.shape[1]) for d in dimensions]
    steps = list(pairwise([0, *ends]))
    squares = np.cumsum(np.square(G), axis=1).T[np.subtract(ends, 1), None]
    lengths = np.sqrt(np.where(squares, squares, 1.0)) if metric == "cosine" else None
    scaled = -2.0 * P if lengths is None else -P
    n_rows = min(len(P), max(1, _BLOCK // len(G)))
    n_steps = min(len(steps), max(1, _BLOCK // (n_rows * len(G))))
    products = np.empty((n_steps, n_rows, len(G)))
    for row in range(0, len(P), n_rows):
        rows = slice(row, min(row + n_rows, len(P)))
        total = np.zeros((rows.stop - row, len(G)))
        for step in range(0, len(steps), n_steps):
            part = slice(step, min(step + n_steps, len(steps)))
            block = products[: part.stop - step, : rows.stop - row]
            for out, (a, b) in zip(block, steps[part], strict=True):
                # For a single component, broadcasting takes half the time of a matrix product.
                multiply = np.multiply if b - a == 1 else np.matmul
                total = np.add(total, multiply(scaled[rows, a:b], G.T[a:b]), out=out)
            if lengths is None:
                order = block + squares[part]
            else:
                order = block / lengths[part]
                # One component alone has a sign and no angle: rounding must not tell its ties apart.
                single = order[: ends[part].count(1)]
                np.sign(single, out=single)
            yield part, rows, order


def _mean_over_pairs(scores: Array) -> float:
    """Mean over the ordered pairs of views that have a score."""
    there = scores[~np.isnan(scores)]
    if not len(there):
        raise ValueError(_NO_PAIR)
    return float(there.mean())


def members_by_class(g: Labels) -> tuple[Labels, Indices]:
    """The classes of a gallery, and which samples are of each, (classes, largest), filled up with -1."""
    classes, codes, counts = np.unique(g, return_inverse=True, return_counts=True)
    members = np.full((len(classes), counts.max()), -1)
    by_class = np.argsort(codes, kind="stable")
    members[codes[by_class], np.arange(len(g)) - np.repeat(np.cumsum(counts) - counts, counts)] = by_class
    return classes, members


def probe_precision(distances: Array, wanted: Indices) -> Array:
    """Average precision of every probe, from distances, (probes, gallery), and the gallery samples of its class.

    The precision at a sample is the share of the probe's class among all that are as near or nearer.
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


def _gallery_and_probes(
    gallery: ArrayLike, gallery_y: ArrayLike, probes: ArrayLike, probe_y: ArrayLike, answerable: bool = False
) -> tuple[Array, Labels, Array, Labels]:
    """Gallery and probes, checked; the answerable probes are those whose class is in the gallery."""
    G, P = check_array(gallery, dtype=np.float64), check_array(probes, dtype=np.float64)
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


def _samples(latents: ViewInput, y: ArrayLike) -> tuple[list[Samples], Indices]:
    """The samples that every view has seen, with classes as numbers; and how many of every class, (n, classes)."""
    views = Views(latents)
    codes, counts = _count_classes(views, y)
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    return [(X[seen], codes[seen]) for X, seen in zip(views.arrays, views.mask.T, strict=True)], counts


def _count_classes(views: Views, y: ArrayLike) -> tuple[Indices, Indices]:
    """The classes as numbers, and how many samples of every class every view has seen, (n, classes)."""
    # In a search, this check would take longer than all the rest of the function.
    labels = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d([] if y is None else y)
    if len(labels) != len(views):
        raise ValueError(f"y has {len(labels)} labels for {len(views)} samples: give one label per row.")
    classes, codes = np.unique(labels, return_inverse=True)
    return codes, np.array([np.bincount(codes[seen], minlength=len(classes)) for seen in views.mask.T])


def _galleries(samples: Sequence[Samples], counts: Indices) -> Iterator[tuple[int, Samples, dict[int, Samples]]]:
    """Every view as the gallery, with the probes of every other view whose class it contains, if there are any."""
    for i, gallery in enumerate(samples):
        answerable = {j: counts[i, p] > 0 for j, (_, p) in enumerate(samples) if j != i}
        probes = {j: (samples[j][0][there], samples[j][1][there]) for j, there in answerable.items() if there.any()}
        if probes:
            yield i, gallery, probes
