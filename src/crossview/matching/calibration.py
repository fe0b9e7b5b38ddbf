"""What a matcher decides by: probes in the common space, a threshold, and class probabilities from distances.

Probabilities are a softmax whose temperature is estimated on samples that were held out.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from crossview._transformer import map_view, unwrap
from crossview._types import Array, Indices, Labels, Mask, Rows
from crossview._validation import as_labels, check_same_kind, has_label
from crossview.engines import nan_rows, to_numpy
from crossview.metrics.scoring import hide, leave_out
from crossview.model_selection.search import EmbeddingSearchCV
from crossview.model_selection.splits import folds, matching_folds
from crossview.neighbours.distances import distances_in_chunks
from crossview.views import ViewInput, Views, index_of_view

OneViewInput: TypeAlias = "ViewInput | ArrayLike"

LEAST_ERRORS = 3
"""Errors that a rate must allow: with fewer, it cannot be told from 0 (the "rule of 3" of ISO/IEC 19795-1)."""

_CLEAR = 1e-9  # relative
_ROUNDING = 1 + 1e-12  # so that 0.29 of 100 is 29
_MAX_PROBES = 2_000  # that a temperature is estimated on
_MAX_DISTANCES = 20_000_000  # from probes to classes, likewise, unless there would be too few probes
_MIN_PROBES = 20
_RANGE = 12.0  # temperatures from e^-12 to e^12 times the typical distance are tried


def latent_samples(model: Any, X: OneViewInput, view: int | str, *, missing: bool = False) -> Rows:
    """Samples of a view in the common space, given alone or among all views; `missing` allows for rows of NaN."""
    first = unwrap(model)[0]
    names, v = first.view_names_, index_of_view(view, first.view_names_)
    if isinstance(X, Views | Mapping):
        given = X.names if isinstance(X, Views) else list(X)
        if names[v] not in given:
            raise ValueError(f"view {names[v]!r} is not among the views given: {', '.join(map(repr, given))}.")
        X = first._take(X, names[v]) if isinstance(X, Views) else X[names[v]]
    elif isinstance(X, list | tuple) and X and np.ndim(X[0]) > 1:
        if len(X) != len(names):
            raise ValueError(f"got {len(X)} views, but the model was fitted on {len(names)}: {', '.join(names)}.")
        X = X[v]
    latent = map_view(model, cast(Any, X), v)
    if not missing and (gaps := nan_rows(latent)[1]).any():
        where = f"row {gaps.argmax()} is missing in view {names[v]!r} (NaN)"
        raise ValueError(f"{where}: leave such rows out.")
    return latent


def labelled_samples(latent: Rows, y: ArrayLike, classes: Labels) -> tuple[Rows, Labels]:
    """The samples that are present and have a label, which must be comparable with the classes; and their labels."""
    labels = as_labels(y, len(latent))
    check_same_kind(labels, classes)
    there = has_label(labels) & ~nan_rows(latent)[1]
    if not there.any():
        raise ValueError("no probe has a label and is present in this view: check the view and the labels.")
    return latent[there], labels[there]


def chosen_metric(model: Any) -> str:
    """Return the distance that suits a fitted model: the matcher's, the one a search chose, or else Euclidean."""
    if isinstance(model, FrozenEstimator):
        return chosen_metric(model.estimator)
    if isinstance(model, Pipeline):
        return chosen_metric(model.steps[-1][1])
    if isinstance(model, EmbeddingSearchCV):
        return model.best_metric_
    if hasattr(model, "embedding"):
        return model.metric or chosen_metric(getattr(model, "embedding_", model.embedding))
    return chosen_metric(model.best_estimator_) if hasattr(model, "best_estimator_") else "euclidean"


def reject(predicted: Labels, far: Mask, unknown: Any) -> Labels:
    """Predictions with the unknown label for the probes that are too far from the gallery."""
    unknown, kind = np.asarray(unknown), predicted.dtype.kind
    mixed = (unknown.dtype.kind == "U") != (kind == "U")
    if mixed or (kind in "iu" and np.result_type(unknown, predicted).kind == "f"):
        predicted = predicted.astype(object)  # numbers must not become text, nor large ones equal
    return np.where(far, unknown, predicted)


def supported(n: int, rates: Sequence[float]) -> Mask:
    """Which error rates can be told from 0 by n trials."""
    return np.asarray(rates) * n >= LEAST_ERRORS * (1 - 1e-12)


def largest_threshold(other: Array, max_fpir: float) -> float:
    """Largest distance at which at most a share of further searches returns a class on average; 0 if there is none.

    From the distances of n searches to the nearest class: a further one is below the k-th smallest with a probability
    of k / (n + 1). The threshold stays clear of that: computed again, with other threads or in other chunks, a distance
    may differ in the last digits.
    """
    k = int(max_fpir * (len(other) + 1) * _ROUNDING)
    return float(np.sort(other)[k - 1] * (1.0 - _CLEAR)) if k else 0.0


def warn_of_few_probes(n: int, max_fpir: float, threshold: float) -> None:
    """Warn of a rate that so many calibration probes cannot support."""
    if supported(n, [max_fpir]).all():
        return
    least = f"{ceil(LEAST_ERRORS / max_fpir - 1e-9)} probes or more" if max_fpir else "infinitely many"
    effect = "the threshold is uncertain" if threshold else "the threshold is 0, so every probe is unknown"
    warnings.warn(
        f"a false positive identification rate of {100 * max_fpir:.6g} % needs {least}, got {n}: {effect}; choose a "
        "higher rate, or calibrate with more samples.",
        stacklevel=3,
    )


def probabilities(distances: Array, temperature: float, metric: str) -> Array:
    """Softmax of the negative distances to the classes, (probes, classes), over the temperature.

    In place of the cosine distance stands the Euclidean one of samples of unit length, which measures better: the log
    loss on digits is 0.33 instead of 0.43. Squares of Euclidean distances measure worse, 0.35 instead of 0.29.

    >>> probabilities(np.array([[0.0, 1.0], [2.0, 2.0]]), 1.0, "euclidean").round(2)
    array([[0.73, 0.27],
           [0.5 , 0.5 ]])
    """
    found: Array = np.exp(log_softmax(-_lengths(distances, metric) / temperature, axis=1))
    return found


def fit_temperature(distances: Array, codes: Indices, metric: str) -> float:
    """Temperature with the smallest log loss, from distances to the classes, (probes, classes), and the right classes.

    One more probe is added that belongs to every class alike. Without it, the temperature would be 0 if all probes are
    nearest to their own class [1]_.

    .. [1] J. Platt (1999), "Probabilistic outputs for support vector machines".
    """
    distances = _lengths(distances, metric)
    n, n_classes = distances.shape
    typical = float(np.median(distances))
    if n_classes < 2 or not typical > 0.0:
        return 1.0
    targets = np.full_like(distances, 1.0 / n_classes / (n + 1))
    targets[np.arange(n), codes] += n / (n + 1)

    def log_loss(log_temperature: float) -> float:
        scaled = distances / (typical * np.exp(log_temperature))
        return float(-np.sum(targets * log_softmax(-scaled, axis=1)))

    # Convex in the inverse of the temperature, so there is one minimum.
    return typical * float(np.exp(minimize_scalar(log_loss, bounds=(-_RANGE, _RANGE), method="bounded").x))


def choose_probes(rows: Indices, random_state: int, n_classes: int) -> Indices:
    """At most so many of the rows as a temperature is estimated on."""
    most = min(_MAX_PROBES, max(_MIN_PROBES, _MAX_DISTANCES // n_classes))
    return np.random.default_rng(random_state).permutation(rows)[:most]


def held_out_temperature(
    embedding: Any, views: Views, y: Labels, pair: Sequence[int], metric: str, n_folds: int, random_state: int
) -> float | None:
    """Temperature over `spread` for probes that were not learned from; None if too few samples can be held out.

    In every fold, a copy of the embedding is fitted without the probes. The gallery holds all samples but the probe's
    own row, which stays only if its class has no other. The pair is that of the gallery's view and the probes'. As
    the scale of a common space depends on the number of samples learned from, distances are relative to the spread of
    the gallery, which halves the calibration error on digits.
    """
    known, asked = (views.mask[:, v] for v in pair)
    classes, codes = np.unique(y[known], return_inverse=True)
    chosen = choose_probes(np.flatnonzero(asked & np.isin(y, classes)), random_state, len(classes))
    distances, right = [], []
    for fitted, fold, test in _held_out(embedding, views, y, n_folds, random_state):
        probes = np.intersect1d(test, chosen)
        if len(probes):
            G, P = (
                to_numpy(map_view(fitted, fold.arrays[v][rows], v))
                for v, rows in zip(pair, (known, probes), strict=True)
            )
            own = np.where(known[probes], np.cumsum(known)[probes] - 1, -1)
            distances.append(_other_distances(G, codes, P, own, metric) / spread(G, metric))
            right.append(np.searchsorted(classes, y[probes]))
    return fit_temperature(np.concatenate(distances), np.concatenate(right), metric) if right else None


def spread(gallery: Array, metric: str) -> float:
    """Root mean square distance of samples from their mean; 1 for the cosine distance, which has no scale.

    >>> spread(np.array([[0.0, 3e200], [0.0, -3e200]]), "euclidean")
    3e+200
    """
    centred = gallery - gallery.mean(axis=0)
    largest = float(np.abs(centred).max())
    if metric == "cosine" or largest == 0.0:
        return 1.0
    return largest * float(np.sqrt(np.square(centred / largest).sum(axis=1).mean()))


def _lengths(distances: Array, metric: str) -> Array:
    return np.sqrt(2.0 * np.maximum(distances, 0.0)) if metric == "cosine" else distances


def _held_out(
    embedding: Any, views: Views, y: Labels, n_folds: int, random_state: int
) -> Iterator[tuple[Any, Views, Indices]]:
    """A fitted copy of the embedding for every fold, samples as it takes them, and the rows it was fitted without."""
    try:
        # Probes of the classes that were learned are what a matcher sees whose gallery is the training data.
        splitter, kind = folds(matching_folds("samples", y), y, n_folds, random_state)
    except ValueError:
        splitter, kind = KFold(min(n_folds, len(y)), shuffle=True, random_state=random_state), "samples"
    pairwise = get_tags(embedding).input_tags.pairwise
    for train, test in splitter.split(y, y, y if kind == "classes" else None):
        fold = Views([X[:, train] for X in views.arrays], views.names, views.mask) if pairwise else views
        try:
            yield clone(embedding).fit(fold[train], y[train]), fold, test
        except ValueError:  # too little is left to learn from
            continue


def _other_distances(gallery: Array, codes: Indices, probes: Array, own: Indices, metric: str) -> Array:
    """Distances to the nearest sample of every class but the probe's own row (-1 for none), (probes, classes)."""
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    left_out = leave_out(np.where(own >= 0, np.argsort(order)[own], -1), counts[codes[own]])
    starts, parts = np.cumsum(counts) - counts, []
    for rows, distances in distances_in_chunks(gallery[order], probes, metric):
        hide(distances, left_out[rows])
        parts.append(np.minimum.reduceat(distances, starts, axis=1))
    return np.concatenate(parts)
