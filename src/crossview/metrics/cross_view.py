"""Scores of every pair of views: samples of one are looked up among those of another."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import pairwise_distances_argmin

from crossview._backend import is_tensor, to_numpy
from crossview._types import Array, Indices, Labels, Mask, Rows
from crossview._validation import check_choice, label_array
from crossview.distances import comparable, nearest_tensors
from crossview.metrics.matching import average_precision, members_by_class, probe_precision
from crossview.views import ViewInput, Views

Samples: TypeAlias = tuple[Rows, Labels]
PairScore: TypeAlias = Callable[[Rows, Labels, Rows, Labels, str], float]
ProbeScorer: TypeAlias = Callable[[Array, slice], Mask | Array]
ScorerFactory: TypeAlias = Callable[[Labels, Labels], ProbeScorer]

_BLOCK = 2**16  # distances that fit in the processor's cache
_NO_PAIR = "there is no pair of views to compare: pass at least two views with samples of a common class."


def cross_view_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean") -> Array:
    """Share of probes of one view whose nearest gallery sample of another view has their class.

    As in the paper, the gallery is all samples of one view, including the counterparts of the probes.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space; rows of NaN are left out. Torch tensors are compared on their device.
        Dask arrays are accepted, too, with the Euclidean distance.
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
    views = Views(latents)
    if views._lazy and metric == "euclidean":
        from crossview.metrics._lazy import accuracy

        return accuracy(views, y)
    return _score_pairs(views, y, metric, _accuracy)


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


def _score_pairs(latents: ViewInput, y: ArrayLike, metric: str, score: PairScore) -> Array:
    """Score of every ordered pair of views, (n, n); nan where there is no probe to score."""
    check_choice(metric, "metric", ("euclidean", "cosine"))
    samples, counts = _samples(latents, y)
    scores = np.full((len(samples), len(samples)), np.nan)
    for i, (G, g), probes in _galleries(samples, counts):
        for j, (P, p) in probes.items():
            scores[i, j] = score(G, g, P, p, metric)
    return scores


def are_recognised(G: Rows, g: Labels, P: Rows, p: Labels, metric: str) -> Mask:
    """Whether the nearest gallery sample of a probe has its class."""
    if is_tensor(G):
        nearest = nearest_tensors(G, P, 1, metric)[1][:, 0]
    else:
        (G, P), _ = comparable([G, P], metric)
        nearest = pairwise_distances_argmin(P, G, metric=metric)
    found: Mask = g[nearest] == p
    return found


def _accuracy(G: Rows, g: Labels, P: Rows, p: Labels, metric: str) -> float:
    return float(are_recognised(G, g, P, p, metric).mean())


def _mean_by_dimension(
    latents: ViewInput, y: ArrayLike, dimensions: Sequence[int], metric: str, make_scorer: ScorerFactory
) -> Array:
    """Mean score over the ordered pairs of views, for every number of components."""
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    samples, counts = _samples(latents, y)
    # Searches for parameters score samples of moderate number, for which the CPU will do.
    arrays, _ = comparable([to_numpy(X) for X, _ in samples], metric)
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


def _samples(latents: ViewInput, y: ArrayLike) -> tuple[list[Samples], Indices]:
    """The samples that every view has seen, with classes as numbers; and how many of every class, (n, classes)."""
    views = Views(latents)
    codes, counts = _count_classes(views, y)
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    return [(X[seen], codes[seen]) for X, seen in zip(views.arrays, views.mask.T, strict=True)], counts


def _count_classes(views: Views, y: ArrayLike) -> tuple[Indices, Indices]:
    """The classes as numbers, and how many samples of every class every view has seen, (n, classes)."""
    if views._lazy:
        raise ValueError(
            "only accuracy by Euclidean distance takes Dask arrays: pass arrays in memory, with dask.compute(*arrays); "
            "for cosine accuracy, divide the rows by their norms and use metric='euclidean'."
        )
    # In a search, this check would take longer than all the rest of the function.
    labels = y if isinstance(y, np.ndarray) and y.ndim == 1 else label_array([] if y is None else y)
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
