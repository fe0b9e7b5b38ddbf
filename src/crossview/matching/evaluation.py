"""How good a fitted model is on test samples, with confidence intervals."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from crossview._progress import progress
from crossview._transformer import map_view, unwrap
from crossview._types import Array, Indices, Labels
from crossview._validation import as_labels, check_choice, check_count, has_label
from crossview.engines import to_numpy
from crossview.matching.classifier import CrossViewClassifier, chosen_metric
from crossview.matching.identification import Searches, Side, identify
from crossview.matching.probes import labelled_samples
from crossview.matching.results import Confusion, Direction, Estimate, Evaluation, Line, Scores, ThresholdScores
from crossview.metrics.curves import identification_curve, place_of_class
from crossview.metrics.scoring import N_DRAWS, draw_galleries
from crossview.views import ViewInput, Views

__all__ = ["Evaluation", "evaluate", "evaluate_probes"]

_MIN_CLASSES = 20  # from which on classes are drawn
_POINTS = 200  # of a curve
_CONFUSIONS = 10
_MIN_DRAWS = 100
_ROUNDING = 1e-8  # of distances, relative to the largest value: their squares have 16 digits
_MAX_WEIGHTS = 4_000_000  # held at a time
_SINGLE = ("accuracy", "one_shot_accuracy", "average_precision", "accuracy_with_counterparts", "equal_error_rate")


def evaluate(
    model: Any,
    views: ViewInput,
    y: ArrayLike,
    *,
    metric: str | None = None,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    resample: str = "auto",
    false_positive_rates: Sequence[float] = (0.1, 0.01),
    random_state: int = 0,
) -> Evaluation:
    """Score a fitted model on test samples: every view is looked up in every other.

    The gallery is all samples of a view, except the probe's counterpart, the same row in that view, if its class has
    another sample there. Accuracies with one enrolled sample per class, and with the counterparts, as in the paper, are
    given too.

    Intervals are percentiles of the bootstrap. It draws probes, always with all their views, while galleries stay as
    they are: an interval tells how much a score would vary with other probes of this kind.

    Parameters
    ----------
    model : estimator
        A fitted embedding, pipeline, search, committee or matcher.
    views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
        Test samples in two views or more of the model; rows of NaN are missing samples. A list has all views of the
        model, in order.
    y : array-like of shape (m,)
        Their classes. Samples with the label "" are left out.
    metric : {"euclidean", "cosine"}, optional
        The distance; by default the model's.
    n_bootstrap : int
        Number of draws, 100 or more.
    confidence : float
        Confidence of the intervals, between 0 and 1.
    resample : {"auto", "classes", "samples"}
        What is drawn. Samples of a class resemble each other, and intervals from samples are too narrow for other
        classes than these. "auto" draws classes if there are 20 or more.
    false_positive_rates : sequence of float
        Shares of false positives at which to score the rest: false positive identification rates (FPIR) for
        `false_negative_rates`, and false match rates (FMR) of verification for `true_match_rates`. Of n searches or
        comparisons, rates below 3 / n have no score.
    random_state : int
        Seed of the draws, of probes and of galleries with one sample per class.

    Returns
    -------
    evaluation : Evaluation
        Scores of every direction and their means.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.MvDA(reg=0.1).fit(data.views[:900], data.y[:900])
    >>> evaluation = cv.evaluate(model, data.views[900:], data.y[900:])
    >>> evaluation.resampled
    'samples'
    >>> bool(evaluation.mean.accuracy.low < evaluation.mean.accuracy.value < evaluation.mean.accuracy.high)
    True
    """
    chosen = metric or chosen_metric(model)
    settings = _Settings(chosen, n_bootstrap, confidence, resample, tuple(false_positive_rates), random_state)
    latents = _latents(model, views)
    labels = _known_labels(y, len(latents))
    known = has_label(labels) & latents.mask.any(axis=1)
    samples, classes = latents[known], labels[known]
    if len(samples.names) < 2:
        raise ValueError(f"matching needs two views or more, got one: {samples.names[0]!r}.")
    if len(np.unique(classes)) < 2:
        raise ValueError("all samples belong to one class: use test samples of two classes or more.")
    _warn_if_collapsed({name: samples[name][seen] for name, seen in zip(samples.names, samples.mask.T, strict=True)})
    rows = {name: np.flatnonzero(seen) for name, seen in zip(samples.names, samples.mask.T, strict=True)}
    sides = {name: (name, samples[name][seen], classes[seen]) for name, seen in rows.items()}
    pairs = [
        (sides[g], sides[p], rows[p], place_of_class(rows[g], rows[p]))
        for g, p in permutations(samples.names, 2)
        if np.isin(classes[rows[p]], classes[rows[g]]).any()
    ]
    if not pairs:
        raise ValueError("no class has samples in two views: check the labels.")
    return _evaluate(pairs, classes, labels, settings)


def evaluate_probes(
    matcher: CrossViewClassifier,
    X: ArrayLike,
    y: ArrayLike,
    view: int | str,
    *,
    metric: str | None = None,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    resample: str = "auto",
    false_positive_rates: Sequence[float] = (0.1, 0.01),
    random_state: int = 0,
) -> Evaluation:
    """Score a matcher with its own gallery on probes of one view, also at its threshold if it is calibrated.

    Gallery samples with the label "" are left out. Scores are those of the nearest gallery sample and class, also if
    the matcher lets several neighbours vote.

    Parameters
    ----------
    matcher : CrossViewClassifier
        With a gallery.
    X : array-like of shape (t, D_v)
        Probes; rows of NaN are left out.
    y : array-like of shape (t,)
        Their classes. Probes of classes that are not in the gallery are strangers; if all are, only the scores at the
        threshold are given. Those with the label "" are left out.
    view : int or str
        The view, by position or name.
    metric, n_bootstrap, confidence, resample, false_positive_rates, random_state
        As in `evaluate`.

    Returns
    -------
    evaluation : Evaluation
        Scores of one direction, whose gallery is called "gallery".

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> matcher = cv.CrossViewClassifier(cv.MvDA(reg=0.1)).fit(data.views[:900], data.y[:900])
    >>> matcher = matcher.enroll(data.views["left"][:900], data.y[:900], "left", replace=True)
    >>> matcher = matcher.calibrate(data.views["right"][900:1300], data.y[900:1300], "right", max_fpir=0.1)
    >>> evaluation = cv.evaluate_probes(matcher, data.views["right"][1300:], data.y[1300:], "right")
    >>> bool(evaluation.at_threshold.false_positive_rate.high > 0.1)
    True
    """
    if not isinstance(matcher, CrossViewClassifier):
        raise TypeError(f"a {type(matcher).__name__} has no gallery: use evaluate, or pass a CrossViewClassifier.")
    if not len(getattr(matcher, "gallery_", ())):
        raise ValueError("the gallery is empty: call enroll first, or use evaluate to match test samples of all views.")
    chosen = metric or chosen_metric(matcher)
    settings = _Settings(chosen, n_bootstrap, confidence, resample, tuple(false_positive_rates), random_state)
    latent = to_numpy(map_view(matcher, X, view))
    labels = _known_labels(y, len(latent))
    probes, classes = labelled_samples(latent, labels, matcher.gallery_labels_)
    name = matcher._view_name(view)
    enrolled = has_label(matcher.gallery_labels_)
    gallery = ("gallery", matcher.gallery_[enrolled], matcher.gallery_labels_[enrolled])
    threshold = matcher._gallery.threshold.check(chosen, name)
    if threshold is None and not np.isin(classes, gallery[2]).any():
        raise ValueError(
            "none of these classes is enrolled, and the model is not calibrated: enrol some of them, or run crossview "
            "calibrate."
        )
    _warn_if_collapsed({name: probes, "gallery": gallery[1]})
    pair = (gallery, (name, probes, classes), np.arange(len(probes)), None)
    return _evaluate([pair], classes, labels, settings, threshold)


@dataclass(frozen=True)
class _Settings:
    """How scores and their intervals are computed."""

    metric: str
    n_bootstrap: int
    confidence: float
    resample: str
    rates: tuple[float, ...]
    random_state: int

    def __post_init__(self) -> None:
        check_choice(self.metric, "metric", ("euclidean", "cosine"))
        check_count(self.n_bootstrap, "n_bootstrap", least=_MIN_DRAWS)
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, for example 0.95, got {self.confidence!r}.")
        check_choice(self.resample, "resample", ("auto", "classes", "samples"))
        if not self.rates or not all(0.0 < rate < 1.0 for rate in self.rates):
            raise ValueError(f"false_positive_rates must be shares between 0 and 1, got {self.rates!r}.")

    def estimate(self, values: Array, n_units: int, *, constant: bool = False) -> Estimate | None:
        """The first of some values with the interval of the others, as in `estimate`."""
        return estimate(values, n_units, self.confidence, constant=constant)


def draw_weights(n_units: int, n_bootstrap: int, random_state: int | None, size: int = 1) -> Iterator[Array]:
    """Weights of the units, in batches of shape (b, n_units): first all 1, then how often each unit is drawn.

    The same seed gives the same weights. Batches are small enough for arrays of `size` numbers per draw.
    """
    rng = np.random.default_rng(random_state)
    yield np.ones((1, n_units))
    for batch in gen_batches(n_bootstrap, max(1, _MAX_WEIGHTS // max(n_units, size))):
        draws = batch.stop - batch.start
        yield rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=draws).astype(np.float64)


def estimate(values: Array, n_units: int, confidence: float, *, constant: bool = False) -> Estimate | None:
    """The first of some shares with the percentile interval of the others, its draws; None if it is nan.

    Where no draw differs from 0 or 1, the percentiles would say that the share is known exactly. Instead, the interval
    is the exact binomial one of `n_units` trials without a failure, unless the value is `constant` by definition. A
    single unit says nothing about others.
    """
    value, draws = float(values[0]), values[1:][~np.isnan(values[1:])]
    if np.isnan(value):
        return None
    tail = (1.0 - confidence) / 2
    low, high = (float(end) for end in np.quantile(draws, [tail, 1.0 - tail])) if len(draws) else (value, value)
    if value in (0.0, 1.0) and low == high == value and not constant:
        bound = tail ** (1.0 / n_units)
        return Estimate(value, bound, 1.0) if value == 1.0 else Estimate(value, 0.0, 1.0 - bound)
    return Estimate(value, 0.0, 1.0) if n_units < 2 and not constant else Estimate(value, low, high)


def _evaluate(
    pairs: Sequence[tuple[Side, Side, Indices, Indices | None]],
    classes: Labels,
    labels: Labels,
    settings: _Settings,
    threshold: float | None = None,
) -> Evaluation:
    """Scores of every gallery and its probes; `labels` are all that exist.

    Probes are given with their rows among the classes, and with their counterparts as in `identify`.
    """
    names, units = np.unique(classes, return_inverse=True)
    resample = settings.resample
    if resample == "auto":
        resample = "classes" if len(names) >= _MIN_CLASSES else "samples"
    if resample == "samples":
        units = np.arange(len(classes))
    n_units, random, drawn = int(units.max()) + 1, check_random_state(settings.random_state), dict[str, Indices]()
    directions, statistics, n_mated = list[Direction](), list[dict[str, Array]](), list[int]()
    probes_by_class, confused, at_threshold = Counter[str](), Counter[tuple[str, str]](), None
    with progress("Evaluating", 2 * len(pairs)) as advance:
        for gallery, probes, rows, counterparts in pairs:
            advance(0, f"{probes[0]} in {gallery[0]}")
            if gallery[0] not in drawn:
                drawn[gallery[0]] = draw_galleries(gallery[2], N_DRAWS, random)
            found = identify(gallery, probes, units[rows], n_units, settings.metric, drawn[gallery[0]], counterparts)
            advance(1, f"intervals of {probes[0]} in {gallery[0]}")
            draws = draw_weights(n_units, settings.n_bootstrap, settings.random_state, size=len(found.own))
            parts = [found.statistics(weights, settings.rates, threshold) for weights in draws]
            statistics.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
            directions.append(_direction(found, statistics[-1], settings))
            n_mated.append(found.n_mated_units)
            _count_confusions(found, probes_by_class, confused)
            if threshold is not None:
                at_threshold = _at_threshold(found, statistics[-1], threshold, settings)
            advance(1)
    mean = {name: _mean([one[name] for one in statistics]) for name in statistics[0]}
    chance = float(np.mean([one.scores.chance for one in directions]))
    n_classes = max(one.n_gallery_classes for one in directions)
    most_frequent = sorted(confused.items(), key=lambda item: (-item[1], item[0]))[:_CONFUSIONS]
    return Evaluation(
        mean=_scores(mean, chance, n_classes, min(n_mated), settings),
        directions=tuple(directions),
        metric=settings.metric,
        n_samples=len(classes),
        n_classes=len(names),
        n_unlabelled=int((~has_label(labels)).sum()),
        resampled=resample,
        n_bootstrap=settings.n_bootstrap,
        confidence=settings.confidence,
        confusions=tuple(Confusion(*pair, count, probes_by_class[pair[0]]) for pair, count in most_frequent),
        at_threshold=at_threshold,
    )


def _direction(found: Searches, statistics: Mapping[str, Array], settings: _Settings) -> Direction:
    n_probes, nothing = int(found.mated.sum()), ((), (), ())
    false, true = (line[0] for line in found.match_rates(np.ones((1, len(found.scores)))))
    identified = n_probes and found.n_nonmated
    return Direction(
        gallery=found.gallery,
        probe=found.probe,
        n_gallery=found.n_gallery,
        n_gallery_classes=found.n_classes,
        n_probes=n_probes,
        n_skipped=len(found.own) - n_probes,
        n_nonmated=found.n_nonmated,
        scores=_scores(statistics, found.chance, found.n_classes, found.n_mated_units, settings),
        roc=_curve(false, true, np.append(found.thresholds, np.inf)) if n_probes else nothing,
        identification=_curve(*identification_curve(found.own, found.other, _POINTS)) if identified else nothing,
    )


def _at_threshold(
    found: Searches, statistics: Mapping[str, Array], threshold: float, settings: _Settings
) -> ThresholdScores:
    rates = {
        name: settings.estimate(statistics[name][:, 0], len(np.unique(found.units[among])))
        for name, (_, among) in found.shares_at(threshold).items()
    }
    return ThresholdScores(threshold=float(threshold), n_strangers=int((~found.mated).sum()), **rates)


def _scores(
    statistics: Mapping[str, Array], chance: float, n_classes: int, n_units: int, settings: _Settings
) -> Scores:
    found: dict[str, Any] = {name: settings.estimate(statistics[name][:, 0], n_units) for name in _SINGLE}
    for name in ("true_match_rates", "false_negative_rates"):
        of_rates = zip(settings.rates, statistics[name].T, strict=True)
        found[name] = {rate: settings.estimate(values, n_units) for rate, values in of_rates}
    shares = enumerate(statistics["cmc"].T, 1)
    estimates = (settings.estimate(values, n_units, constant=rank >= n_classes) for rank, values in shares)
    ranks = [rank for rank in estimates if rank is not None]
    # What is found up to a rank is also found up to the next.
    lows = np.maximum.accumulate([rank.low for rank in ranks])
    cmc = tuple(Estimate(rank.value, float(low), rank.high) for rank, low in zip(ranks, lows, strict=True))
    return Scores(chance=chance, cmc=cmc, **found)


def _latents(model: Any, views: ViewInput) -> Views:
    """The samples in the common space; of a mapping or Views, any views of the model."""
    first = unwrap(model)[0]
    check_is_fitted(first)
    checked, known = Views(views), first.view_names_
    if not isinstance(views, Views | Mapping):
        if len(checked.names) != len(known):
            raise ValueError(
                f"got {len(checked.names)} views, but the model was fitted on {len(known)}: {', '.join(known)}. "
                "Pass a dict to evaluate some of them."
            )
        checked = Views(checked, known)
    if unknown := [name for name in checked.names if name not in known]:
        what = f"unknown view {unknown[0]!r}: the model was fitted on {', '.join(map(repr, known))}"
        raise ValueError(f"{what}. Give the views these names.")
    return Views({name: to_numpy(map_view(model, first._take(checked, name), name)) for name in checked.names})


def _warn_if_collapsed(latents: Mapping[str, Array]) -> None:
    """Warn of views whose samples are one point of the common space, up to rounding: their matches mean nothing."""
    rounding = _ROUNDING * max(np.abs(X).max() for X in latents.values())
    for name in (name for name, X in latents.items() if len(X) > 1 and np.ptp(X, axis=0).max() <= rounding):
        what = "all samples of the gallery are" if name == "gallery" else f"all samples of view {name!r} map to"
        warnings.warn(f"{what} the same point: check the columns and scaling.", UserWarning, stacklevel=3)


def _known_labels(y: ArrayLike, n: int) -> Labels:
    labels = as_labels(y, n)
    if not has_label(labels).any():
        raise ValueError("no sample has a label: an evaluation needs to know the classes.")
    return labels


def _mean(values: Sequence[Array]) -> Array:
    """Mean over directions that have a value; nan if none has."""
    # Match curves have a point per class of the gallery, up to which everything is found.
    width = max(one.shape[1] for one in values)
    stack = np.stack([np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=1.0) for one in values])
    there = ~np.isnan(stack)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(there, stack, 0.0).sum(axis=0) / there.sum(axis=0)
    return mean


def _count_confusions(found: Searches, probes: Counter[str], confused: Counter[tuple[str, str]]) -> None:
    """Count the mated probes by class, and those that are taken for another class by both."""
    missed = found.mated & ~found.hits
    probes.update(map(str, found.labels[found.mated].tolist()))
    pairs = zip(found.labels[missed].tolist(), found.nearest[missed].tolist(), strict=True)
    confused.update((str(label), str(other)) for label, other in pairs)


def _curve(x: Array, y: Array, thresholds: Array) -> tuple[Line, Line, Line]:
    return tuple(x.tolist()), tuple(y.tolist()), tuple(thresholds.tolist())
