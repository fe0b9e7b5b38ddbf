"""Scores of every pair of views: samples of one are looked up among those of another."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from crossview._backend import concatenate, is_tensor, to_numpy
from crossview._types import Array, Indices, Mask, Rows
from crossview._validation import label_array
from crossview.distances import comparable, nearest_tensors
from crossview.metrics.matching import members_by_class, places, probe_precision
from crossview.views import ViewInput, Views

ProbeScorer: TypeAlias = Callable[[Array, slice], Mask | Array]
ScorerFactory: TypeAlias = Callable[["Lookup"], ProbeScorer]

_BLOCK = 2**16  # distances that fit in the processor's cache
_MIN_ROWS = 32  # probes at a time, however large the gallery
_NO_PAIR = "there is no pair of views to compare: pass at least two views with samples of a common class."


def cross_view_accuracy(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> Array:
    """Share of probes of one view whose nearest gallery sample of another view has their class.

    The gallery is all samples of a view, except the probe's counterpart: the same row in the gallery's view. The
    counterpart stays only if it is the one gallery sample of its class.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space; rows of NaN are left out. Torch tensors are compared on their device.
        Dask arrays are accepted, too, with the Euclidean distance.
    y : array-like of shape (m,)
        The classes.
    metric : {"euclidean", "cosine"}
        The distance.
    counterparts : bool
        True keeps each probe's counterpart in the gallery, as in the paper.

    Returns
    -------
    accuracy : ndarray of shape (n, n)
        Row: view of the gallery. Column: view of the probe. A probe is skipped if the gallery has no sample of its
        class, see `skipped_probes`. The diagonal is nan, and so is a pair of views in which every probe is skipped.

    Examples
    --------
    >>> import numpy as np
    >>> photo, sketch = np.array([[0.0], [1.0], [5.0]]), np.array([[0.2], [0.8], [0.1]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b", "b"])
    array([[       nan, 0.33333333],
           [0.33333333,        nan]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b", "b"], counterparts=True)
    array([[       nan, 0.66666667],
           [0.66666667,        nan]])
    """
    views = Views(latents)
    if views._lazy and metric == "euclidean":
        from crossview.metrics._lazy import accuracy

        return accuracy(views, y, counterparts)
    return score_pairs(views, y, metric, hits, counterparts)


def mean_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False) -> float:
    """Mean of `cross_view_accuracy` over all ordered pairs of views that have one.

    With ``counterparts=True``, it is the paper's mACC.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_accuracy([[[0.0], [1.0]], [[0.1], [0.8]]], ["a", "b"])
    1.0
    """
    return mean_over_pairs(cross_view_accuracy(latents, y, metric, counterparts=counterparts))


def cross_view_average_precision(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> Array:
    """`average_precision` of the probes of one view in the gallery of another.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`, and so are the rows, columns, skipped probes and nan of the result.

    Examples
    --------
    >>> cross_view_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    array([[ nan, 0.75],
           [0.5 ,  nan]])
    """
    return score_pairs(latents, y, metric, _precisions, counterparts)


def mean_average_precision(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> float:
    """Mean of `cross_view_average_precision` over all ordered pairs of views that have one.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    0.625
    """
    return mean_over_pairs(cross_view_average_precision(latents, y, metric, counterparts=counterparts))


def chance_accuracy(views: ViewInput, y: ArrayLike, *, counterparts: bool = False) -> float:
    """Expected `mean_accuracy` of a matcher that picks a gallery sample at random.

    For a pair of views, it is the share of gallery samples with the class of a probe, averaged over the probes.

    Parameters
    ----------
    views, y, counterparts
        As `latents`, `y` and `counterparts` in `cross_view_accuracy`; or features: only rows of NaN matter, which are
        left out.

    Examples
    --------
    >>> photo, sketch = [[0.0], [1.0], [2.0], [3.0]], [[0.2], [0.1], [0.3], [0.4]]
    >>> chance_accuracy([photo, sketch], ["a", "a", "b", "b"])
    0.3333333333333333
    >>> chance_accuracy([photo, sketch], ["a", "a", "b", "b"], counterparts=True)
    0.5
    """
    found = []
    for lookup in _lookups(Views(views), y, counterparts):
        n_out = lookup.left_out >= 0
        shares = (lookup.counts[lookup.view, lookup.p] - n_out) / (len(lookup.g) - n_out)
        found.append(lookup.mean_by_view(shares))
    return mean_over_pairs(np.concatenate([*found, []]))


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
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str = "euclidean",
    *,
    counterparts: bool = False,
    probes: Mask | None = None,
) -> Array:
    """`mean_accuracy` of the first components, for several numbers of them at the cost of the largest.

    The first d components of a fit are the fit with d components: one fit is enough to find the best number.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `mean_accuracy`.
    dimensions : sequence of int
        Numbers of components, 1 or more, ascending. Capped at the number available.
    probes : ndarray of bool, shape (m,), optional
        Samples to use as probes; by default, all. The gallery is all samples in any case.

    Returns
    -------
    accuracy : ndarray of shape (len(dimensions),)
        Mean accuracy with the first ``dimensions[k]`` components.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> accuracy_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.25, 1.  ])
    """
    return mean_by_dimension(latents, y, dimensions, metric, hits, counterparts, probes)


def precision_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str = "euclidean",
    *,
    counterparts: bool = False,
    probes: Mask | None = None,
) -> Array:
    """`mean_average_precision` of the first components, for several numbers of them, as in `accuracy_by_dimension`.

    It depends on the rank of every sample of a probe's class, and so separates settings with equal accuracy.

    Parameters
    ----------
    latents, y, dimensions, metric, counterparts, probes
        As in `accuracy_by_dimension`.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> precision_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.625, 1.   ])
    """
    return mean_by_dimension(latents, y, dimensions, metric, _precisions, counterparts, probes)


class Lookup(NamedTuple):
    """A view as the gallery, and as probes the samples of the other views whose class it contains, view by view."""

    view: int
    g: Indices  # classes of the gallery
    p: Indices  # classes of the probes
    views: Indices  # of the probes
    rows: Indices  # of the probes
    counts: Indices  # samples of every class in every view, (n, classes)
    own: Indices  # place of a probe's counterpart in the gallery, -1 if it is not there
    left_out: Indices  # the same, -1 also for the counterparts that stay
    gallery: slice  # of the samples of all views
    probes: Indices  # of the samples of all views

    def mean_by_view(self, scores: Array | Mask) -> Array:
        """Means over the probes of every view, along the last axis."""
        return mean_by_group(scores, self.views)


def mean_by_group(values: Array | Mask, groups: Indices) -> Array:
    """Means over the members of every group that there is, which follow each other along the last axis."""
    sizes = np.bincount(groups)
    sizes = sizes[sizes > 0]
    mean: Array = np.add.reduceat(values, sizes.cumsum() - sizes, axis=-1, dtype=np.float64) / sizes
    return mean


def score_probes(
    latents: ViewInput,
    y: ArrayLike,
    metric: str,
    make_scorer: ScorerFactory,
    counterparts: bool,
    dimensions: Sequence[int] | None = None,
    probes: Mask | None = None,
) -> Iterator[tuple[Lookup, Array]]:
    """Every view as the gallery, and the scores of its probes, (dimensions, probes); by default with all components."""
    views = Views(latents)
    lookups = _lookups(views, y, counterparts, probes)
    # Searches for parameters score samples of moderate number, for which the CPU will do.
    arrays = [to_numpy(X) for X in _present(views)]
    X = np.concatenate(comparable(arrays, metric)[0])
    dimensions = X.shape[1:] if dimensions is None else dimensions
    for lookup in lookups:
        # All probes of a gallery at once: in small views, calls to numpy take longer than the arithmetic.
        G, P = X[lookup.gallery], X[lookup.probes]
        scores, scorer = np.empty((len(dimensions), len(P))), make_scorer(lookup)
        for part, rows, order in _order_by_dimension(G, P, dimensions, metric):
            hidden, columns = places(lookup.left_out[rows])
            order[:, hidden, columns] = np.inf
            scores[part, rows] = scorer(order, rows)
        yield lookup, scores


def hits(lookup: Lookup) -> ProbeScorer:
    """Whether the nearest gallery sample has the class of the probe."""
    return lambda order, rows: lookup.g[order.argmin(axis=2)] == lookup.p[rows]


def _precisions(lookup: Lookup) -> ProbeScorer:
    """Average precision of a probe."""
    classes, members = members_by_class(lookup.g)
    wanted = np.searchsorted(classes, lookup.p)

    def score(order: Array, rows: slice) -> Array:
        repeated = np.tile(members[wanted[rows]], (len(order), 1))
        return probe_precision(order.reshape(len(repeated), -1), repeated).reshape(len(order), -1)

    return score


def score_pairs(latents: ViewInput, y: ArrayLike, metric: str, make_scorer: ScorerFactory, counterparts: bool) -> Array:
    """Score of every ordered pair of views, (n, n); nan where there is no probe to score."""
    views = Views(latents)
    if make_scorer is hits and is_tensor(views.arrays[0]):
        found = _hits_of_tensors(views, y, metric, counterparts)
    else:
        found = score_probes(views, y, metric, make_scorer, counterparts)
    scores = np.full((views.shape[1], views.shape[1]), np.nan)
    for lookup, of_probes in found:
        scores[lookup.view, np.unique(lookup.views)] = lookup.mean_by_view(of_probes)[0]
    return scores


def _hits_of_tensors(views: Views, y: ArrayLike, metric: str, counterparts: bool) -> Iterator[tuple[Lookup, Array]]:
    """As `score_probes` with `hits`, on the device of the samples."""
    lookups = _lookups(views, y, counterparts)
    X = concatenate(*_present(views))
    for lookup in lookups:
        nearest = nearest_tensors(X[lookup.gallery], X[lookup.probes], min(2, len(lookup.g)), metric)[1]
        first = np.where(nearest[:, 0] == lookup.left_out, nearest[:, -1], nearest[:, 0])
        yield lookup, (lookup.g[first] == lookup.p)[None].astype(float)


def mean_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str,
    make_scorer: ScorerFactory,
    counterparts: bool,
    probes: Mask | None = None,
) -> Array:
    """Mean score over the ordered pairs of views, for every number of components."""
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    found = score_probes(latents, y, metric, make_scorer, counterparts, dimensions, probes)
    scores = [lookup.mean_by_view(of_probes) for lookup, of_probes in found]
    if not scores:
        raise ValueError(_NO_PAIR)
    mean: Array = np.concatenate(scores, axis=1).mean(axis=1)
    return mean


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
    n_rows = min(len(P), max(_MIN_ROWS, _BLOCK // len(G)))
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


def mean_over_pairs(scores: Array) -> float:
    """Mean over the ordered pairs of views that have a score."""
    there = scores[~np.isnan(scores)]
    if not len(there):
        raise ValueError(_NO_PAIR)
    return float(there.mean())


def _present(views: Views) -> list[Rows]:
    """The samples that every view has seen; the views must have equal dimensions."""
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    return [X[seen] for X, seen in zip(views.arrays, views.mask.T, strict=True)]


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


def _lookups(views: Views, y: ArrayLike, counterparts: bool, asked: Mask | None = None) -> list[Lookup]:
    """Every view as the gallery of the samples asked for, unless no other view has one of its classes."""
    codes, counts = _count_classes(views, y)
    view, row = np.nonzero(views.mask.T)
    label, is_asked = codes[row], True if asked is None else asked[row]
    stops, found = np.cumsum(counts.sum(axis=1)), []
    for i, (start, stop) in enumerate(pairwise([0, *stops])):
        probes = np.flatnonzero((view != i) & (counts[i, label] > 0) & is_asked)
        if not len(probes):
            continue
        place = np.full(len(codes), -1)
        place[row[start:stop]] = np.arange(stop - start)
        p, own = label[probes], place[row[probes]]
        one = Lookup(
            view=i,
            g=label[start:stop],
            p=p,
            views=view[probes],
            rows=row[probes],
            counts=counts,
            own=own,
            left_out=np.where((counts[i, p] > 1) & (not counterparts), own, -1),
            gallery=slice(start, stop),
            probes=probes,
        )
        found.append(one)
    return found
