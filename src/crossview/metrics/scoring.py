"""The engine of all scores between views: the probes of every view are looked up in a gallery of another.

One rule holds for ties: of gallery samples at the same distance as the nearest of the probe's class, those of other
classes come first. No score depends on the order of the gallery, and none is better than the rate at rank 1. Distances
are the same if rounding may explain their difference, as products of equal rows depend on their places in a matrix.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from crossview._types import Array, Indices, Labels, Mask, Rows
from crossview._validation import label_array
from crossview.engines import add_cross_product, concatenate, is_tensor, to_numpy
from crossview.neighbours.distances import centre_and_scale
from crossview.neighbours.search import nearest_tensors
from crossview.views import ViewInput, Views

AsFar: TypeAlias = Callable[[Array], Array]
"""From keys, (…, probes, any number), the largest keys of samples at the same distance."""

ProbeScorer: TypeAlias = Callable[[Array, AsFar, slice], Mask | Array]
"""Scores some probes, (dimensions, probes), from keys that rank the gallery, (dimensions, probes, gallery)."""

ScorerFactory: TypeAlias = "Callable[[Lookup], ProbeScorer]"
RandomState: TypeAlias = int | np.random.RandomState | None

N_DRAWS = 10
"""Galleries of one sample per class that are drawn from every view."""

_BLOCK = 2**16  # distances that fit in the processor's cache
_MIN_ROWS = 32  # probes at a time, however large the gallery
_MAX_COUNTED = 32  # samples of a class up to which counting is faster than sorting
_SAME = 1e-13  # relative difference of equal distances that are computed coordinate by coordinate
_NO_PAIR = "there is no pair of views to compare: pass at least two views with samples of a common class."


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


def lookups(views: Views, y: ArrayLike, counterparts: bool, asked: Mask | None = None) -> list[Lookup]:
    """Every view as the gallery of the samples asked for, unless no other view has one of its classes."""
    codes, counts = count_classes(views, y)
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
        left_out = np.full(len(p), -1) if counterparts else leave_out(own, counts[i, p])
        one = Lookup(
            i, label[start:stop], p, view[probes], row[probes], counts, own, left_out, slice(start, stop), probes
        )
        found.append(one)
    return found


def leave_out(own: Indices, n_alike: Indices) -> Indices:
    """Places of the counterparts that are left out of the gallery: those that are not alone in their class."""
    return np.where(n_alike > 1, own, -1)


def hide(keys: Array, left_out: Indices) -> None:
    """Make gallery samples infinitely distant from their probes, (…, probes, gallery); -1 for none."""
    rows = np.flatnonzero(left_out >= 0)
    keys[..., rows, left_out[rows]] = np.inf


def score_probes(
    latents: ViewInput,
    y: ArrayLike,
    metric: str,
    make_scorer: ScorerFactory,
    counterparts: bool = False,
    dimensions: Sequence[int] | None = None,
    probes: Mask | None = None,
) -> Iterator[tuple[Lookup, Array]]:
    """Every view as the gallery, and the scores of its probes, (dimensions, probes); by default with all components."""
    views = Views(latents)
    found = lookups(views, y, counterparts, probes)
    if len(set(views.n_features)) > 1:
        raise ValueError(f"the views must have equal dimensions to be compared, got {views.n_features}.")
    present = [X[seen] for X, seen in zip(views.arrays, views.mask.T, strict=True)]
    if make_scorer is hits and dimensions is None and is_tensor(present[0]):
        yield from _hits_of_tensors(found, concatenate(*present), metric)
        return
    # Searches for parameters score samples of moderate number, for which the CPU will do.
    X = np.concatenate(centre_and_scale([to_numpy(one) for one in present], metric)[0])
    dimensions = X.shape[1:] if dimensions is None else dimensions
    for lookup in found:
        # All probes of a gallery at once: in small views, calls to numpy take longer than the arithmetic.
        G, P = X[lookup.gallery], X[lookup.probes]
        scores, scorer = np.empty((len(dimensions), len(P))), make_scorer(lookup)
        for part, rows, keys, as_far in _keys_by_dimension(G, P, lookup.left_out, dimensions, metric):
            scores[part, rows] = scorer(keys, as_far, rows)
        yield lookup, scores


def score_pairs(
    latents: ViewInput,
    y: ArrayLike,
    metric: str,
    make_scorer: ScorerFactory,
    counterparts: bool = False,
) -> Array:
    """Score of every ordered pair of views, (n, n); nan where there is no probe to score."""
    views = Views(latents)
    scores = np.full((views.shape[1], views.shape[1]), np.nan)
    for lookup, of_probes in score_probes(views, y, metric, make_scorer, counterparts):
        scores[lookup.view, np.unique(lookup.views)] = lookup.mean_by_view(of_probes)[0]
    return scores


def mean_over_pairs(scores: Array) -> float:
    """Mean over the ordered pairs of views that have a score."""
    there = scores[~np.isnan(scores)]
    if not len(there):
        raise ValueError(_NO_PAIR)
    return float(there.mean())


def score_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str,
    scoring: str,
    probes: Mask | None = None,
) -> Array:
    """Mean score over the ordered pairs of views with the first components, for several numbers of them.

    The first d components of a fit are the fit with d components: one fit is enough to find the best number, and all of
    them are scored at the cost of the largest. Numbers ascend, and are capped at the number available. `scoring` is a
    key of `SCORERS`, and `probes` a mask of the samples to use as probes; the gallery is all samples in any case.

    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> score_by_dimension([photo, sketch], ["a", "b"], [1, 2], "euclidean", "accuracy")
    array([0.25, 1.  ])
    """
    if min(dimensions, default=0) < 1 or list(dimensions) != sorted(dimensions):
        raise ValueError(f"dimensions must be whole numbers of 1 or more, ascending, got {dimensions!r}.")
    new_scorer, counterparts = SCORERS[scoring]
    found = score_probes(latents, y, metric, new_scorer(), counterparts, dimensions, probes)
    scores = [lookup.mean_by_view(of_probes) for lookup, of_probes in found]
    if not scores:
        raise ValueError(_NO_PAIR)
    mean: Array = np.concatenate(scores, axis=1).mean(axis=1)
    return mean


def hits(lookup: Lookup) -> ProbeScorer:
    """Whether the nearest gallery sample has the class of the probe."""
    return lambda keys, as_far, rows: recognised(keys, as_far, lookup.g, lookup.p[rows])


def precisions(lookup: Lookup) -> ProbeScorer:
    """Average precision of a probe."""
    classes, members = members_by_class(lookup.g)
    wanted = members[np.searchsorted(classes, lookup.p)]
    return lambda keys, as_far, rows: probe_precision(keys, as_far, wanted[rows])


def ranks(lookup: Lookup) -> ProbeScorer:
    """Rank of a probe's class, which is as near as its nearest sample."""
    by_class = np.argsort(lookup.g, kind="stable")
    classes, starts = np.unique(lookup.g[by_class], return_index=True)
    place = np.searchsorted(classes, lookup.p)

    def score(keys: Array, as_far: AsFar, rows: slice) -> Array:
        nearest = np.minimum.reduceat(keys[..., by_class], starts, axis=2)
        own = np.take_along_axis(nearest, place[None, rows, None], axis=2)
        return np.asarray(np.count_nonzero(nearest <= as_far(own), axis=2), dtype=np.float64)

    return score


def one_shot(n_draws: int = N_DRAWS, random_state: RandomState = 0) -> ScorerFactory:
    """Weighted hits in galleries of one sample per class, which are drawn anew from every view."""
    if n_draws < 1:
        raise ValueError(f"n_draws must be 1 or more, got {n_draws!r}.")
    random = check_random_state(random_state)

    def make_scorer(lookup: Lookup) -> ProbeScorer:
        g, p = lookup.g, lookup.p
        drawn = draw_galleries(g, n_draws, random)
        has_other = lookup.counts[lookup.views, p] > 1
        weights = probe_weights(drawn, np.searchsorted(np.unique(g), p), lookup.own, has_other, lookup.views)
        return lambda keys, as_far, rows: one_shot_scores(keys, as_far, drawn, g, p[rows], weights[rows])

    return make_scorer


SCORERS: dict[str, tuple[Callable[[], ScorerFactory], bool]] = {
    "accuracy": (lambda: hits, False),
    "one_shot_accuracy": (one_shot, True),
    "average_precision": (lambda: precisions, False),
    "accuracy_with_counterparts": (lambda: hits, True),
}
"""Scores that a search may use: what makes the scorer, and whether counterparts stay in the gallery."""


def count_classes(views: Views, y: ArrayLike) -> tuple[Indices, Indices]:
    """The classes as numbers, and how many samples of every class every view has seen, (n, classes)."""
    if views._place == "Dask":
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


def members_by_class(g: Labels) -> tuple[Labels, Indices]:
    """The classes of a gallery, and which samples are of each, (classes, largest), filled up with -1."""
    classes, codes, counts = np.unique(g, return_inverse=True, return_counts=True)
    members = np.full((len(classes), counts.max()), -1)
    by_class = np.argsort(codes, kind="stable")
    members[codes[by_class], np.arange(len(g)) - np.repeat(np.cumsum(counts) - counts, counts)] = by_class
    return classes, members


def recognised(keys: Array, as_far: AsFar, g: Labels, p: Labels) -> Mask:
    """Which probes have no sample of another class among the nearest, (…, probes), from keys, (…, probes, gallery)."""
    keys = np.ascontiguousarray(keys)
    lines, flat = keys.reshape(-1, keys.shape[-1]), keys.reshape(-1)
    starts = np.arange(0, keys.size, keys.shape[-1]).reshape(keys.shape[:-1])
    first = keys.argmin(axis=-1)
    found: Mask = g[first] == p
    first += starts
    smallest = flat[first]
    most = as_far(smallest[..., None])[..., 0]
    # Ties are rare: the second nearest tells where to look for them.
    flat[first] = np.inf
    tied = flat[keys.argmin(axis=-1) + starts] <= most
    flat[first] = smallest
    if tied.any():
        of_probes = np.broadcast_to(p, found.shape)[tied][:, None]
        found[tied] &= ~((lines[tied.reshape(-1)] <= most[tied][:, None]) & (g != of_probes)).any(axis=1)
    return found


def same_distance(distances: Array) -> Array:
    """`AsFar` of distances that are computed coordinate by coordinate."""
    return distances * (1.0 + _SAME)


def probe_precision(keys: Array, as_far: AsFar, wanted: Indices) -> Array:
    """Average precision of every probe, (…, probes), from keys, (…, probes, gallery), and the samples of its class.

    The precision at a sample is the share of the probe's class among all that are as near or nearer. Samples at an
    infinite distance are not in the gallery.
    """
    wanted = np.broadcast_to(wanted, (*keys.shape[:-1], wanted.shape[-1]))
    own = np.take_along_axis(keys, wanted, axis=-1)
    own[wanted < 0] = np.inf
    there, limits = np.isfinite(own), as_far(own)
    of_class, of_all = _count_within(own, limits), _count_within(keys, limits)
    precision: Array = (of_class / of_all * there).sum(axis=-1) / there.sum(axis=-1)
    return precision


def _count_within(values: Array, limits: Array) -> Indices:
    """How many of the values of a row are within each of its limits, (…, limits)."""
    if limits.shape[-1] <= _MAX_COUNTED:
        columns = np.moveaxis(limits, -1, 0)[..., None]
        return np.stack([np.count_nonzero(values <= column, axis=-1) for column in columns], axis=-1)
    lines = zip(np.sort(values.reshape(-1, values.shape[-1])), limits.reshape(-1, limits.shape[-1]), strict=True)
    return np.array([np.searchsorted(line, at, side="right") for line, at in lines]).reshape(limits.shape)


def draw_galleries(g: Labels, n_draws: int, random: np.random.RandomState) -> Indices:
    """Places of one sample of every class in a gallery, (draws, classes); one draw if classes have no other sample."""
    classes, members = members_by_class(g)
    sizes = np.count_nonzero(members >= 0, axis=1)
    shares = random.uniform(size=(n_draws if sizes.max() > 1 else 1, len(classes)))
    drawn: Indices = members[np.arange(len(classes)), (shares * sizes).astype(np.intp)]
    return drawn


def probe_weights(drawn: Indices, classes: Indices, own: Indices, has_other: Mask, groups: Indices) -> Array:
    """Weights of the probes in every draw, (probes, draws), by which the sum of hits is their number times the score.

    A probe whose counterpart is drawn has none, unless its view has no other of its class. `classes` are the columns of
    the probes' classes, `own` the places of their counterparts, and probes of one view are a group.
    """
    asked = ~((drawn[:, classes] == own) & has_other)
    sizes = np.bincount(groups)
    weights: Array = asked / np.repeat(mean_by_group(asked, groups), sizes[sizes > 0], axis=1) / len(drawn)
    return weights.T


def one_shot_scores(keys: Array, as_far: AsFar, drawn: Indices, g: Labels, p: Labels, weights: Array) -> Array:
    """Weighted sums over draws of hits, (…, probes), from keys, (…, probes, gallery)."""
    total = np.zeros(keys.shape[:-1])
    for columns, weight in zip(drawn, weights.T, strict=True):
        total += weight * recognised(keys.take(columns, axis=-1), as_far, g[columns], p)
    return total


def mean_by_group(values: Array | Mask, groups: Indices) -> Array:
    """Means over the members of every group that there is, which follow each other along the last axis."""
    sizes = np.bincount(groups)
    sizes = sizes[sizes > 0]
    mean: Array = np.add.reduceat(values, sizes.cumsum() - sizes, axis=-1, dtype=np.float64) / sizes
    return mean


def _hits_of_tensors(found: Sequence[Lookup], X: Rows, metric: str) -> Iterator[tuple[Lookup, Array]]:
    """As `score_probes` with `hits`, on the device of the samples."""
    for lookup in found:
        G, P, p = X[lookup.gallery], X[lookup.probes], lookup.p
        scores, left, k = np.zeros((1, len(p))), np.arange(len(p)), 3  # the counterpart, the nearest and the next
        while len(left):
            distances, rows = nearest_tensors(G, P[left], min(k, len(G)), metric)
            there = np.where(rows == lookup.left_out[left, None], np.inf, distances)
            most = same_distance(there.min(axis=1))
            recognised = ((lookup.g[rows] == p[left, None]) | (there > most[:, None])).all(axis=1)
            scores[0, left] = recognised
            left = left[recognised & (distances[:, -1] <= most) & (k < len(G))]  # there may be further ties
            k *= 4
        yield lookup, scores


def _keys_by_dimension(
    G: Array, P: Array, left_out: Indices, dimensions: Sequence[int], metric: str
) -> Iterator[tuple[slice, slice, Array, AsFar]]:
    """Keys that rank the gallery for every probe by the first components, less what depends on the probe alone.

    They come in blocks of shape (dimensions, probes, gallery), each after the dimensions and the probes it is for. The
    next block overwrites them.
    """
    ends, columns = np.minimum(dimensions, G.shape[1]), np.ascontiguousarray(G.T)
    steps = list(pairwise([0, *ends.tolist()]))
    squares = np.cumsum(np.square(columns), axis=0)[ends - 1, None]
    slack = np.cumsum(np.square(P), axis=1).T[ends - 1, :, None]
    finish: np.ufunc = np.add if metric == "euclidean" else np.divide
    factor = -2.0 if metric == "euclidean" else -1.0
    if metric == "cosine":
        squares, slack = np.sqrt(np.where(squares, squares, 1.0)), np.sqrt(slack)
    rounding = 4.0 * np.finfo(np.float64).eps * (ends + 8)[:, None, None]
    slack *= 2.0 * rounding  # no key is below -slack / (2 · rounding)
    n_rows = min(len(P), max(_MIN_ROWS, _BLOCK // len(G)))
    n_steps = min(len(steps), max(1, _BLOCK // (n_rows * len(G))))
    keys = np.empty((n_steps, n_rows, len(G)))
    for row in range(0, len(P), n_rows):
        rows = slice(row, min(row + n_rows, len(P)))
        factors, total = np.ascontiguousarray(factor * P[rows].T), np.zeros((rows.stop - row, len(G)))
        hide(total, left_out[rows])
        for step in range(0, len(steps), n_steps):
            part = slice(step, min(step + n_steps, len(steps)))
            block = keys[: part.stop - step, : rows.stop - row]
            for out, (a, b), last in zip(block, steps[part], squares[part], strict=True):
                if b > a:
                    add_cross_product(factors[a:b], columns[a:b], total)
                finish(total, last, out=out)
            yield part, rows, block, partial(_as_far, 1.0 + rounding[part], slack[part, rows])


def _as_far(factor: Array, slack: Array, keys: Array) -> Array:
    return keys * factor + slack
