"""How good a fitted model is on test samples, with confidence intervals."""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from crossview._progress import progress
from crossview._text import counted, html_table
from crossview._transformer import unwrap
from crossview._types import Array, Indices, Labels
from crossview._validation import as_labels, check_choice, check_count, has_label
from crossview.engines import to_numpy
from crossview.matching.calibration import chosen_metric, labelled_samples, latent_samples
from crossview.matching.classifier import CrossViewClassifier
from crossview.matching.identification import Searches, Side, draw_weights, identify
from crossview.metrics.curves import identification_curve, place_of_class
from crossview.metrics.scoring import N_DRAWS, draw_galleries
from crossview.views import ViewInput, Views

__all__ = ["Evaluation", "evaluate", "evaluate_probes"]

Line: TypeAlias = tuple[float, ...]

_MIN_CLASSES = 20  # from which on classes are drawn
_POINTS = 200  # of a curve
_CONFUSIONS = 10
_MIN_DRAWS = 100
_ROUNDING = 1e-8  # of distances, relative to the largest value: their squares have 16 digits
_SINGLE = ("accuracy", "one_shot_accuracy", "average_precision", "accuracy_with_counterparts", "equal_error_rate")
_SHOWN = ("accuracy", "one_shot_accuracy", "average_precision", "equal_error_rate")  # in notebooks


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    >>> print(Estimate(0.9, 0.85, 0.94))
    0.900 [0.850, 0.940]
    """

    value: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Scores:
    """Scores of matching, as shares; None if there are too few comparisons, or only strangers."""

    chance: float = field(repr=False)  # expected accuracy of random matches; nan if there are only strangers
    accuracy: Estimate | None
    one_shot_accuracy: Estimate | None
    average_precision: Estimate | None
    accuracy_with_counterparts: Estimate | None = field(repr=False)  # None for probes of a matcher
    cmc: tuple[Estimate, ...] = field(repr=False)  # by rank
    equal_error_rate: Estimate | None
    true_match_rates: Mapping[float, Estimate | None] = field(repr=False)  # by false match rate
    false_negative_rates: Mapping[float, Estimate | None] = field(repr=False)  # FNIR by FPIR


@dataclass(frozen=True)
class Direction:
    """Probes of one view in a gallery of another."""

    gallery: str
    probe: str
    n_gallery: int
    n_gallery_classes: int
    n_probes: int  # whose class is in the gallery
    n_skipped: int  # other probes, which only count as non-mated searches
    n_nonmated: int  # non-mated searches
    scores: Scores
    roc: tuple[Line, Line, Line] = field(repr=False)  # false and true match rates, and thresholds
    identification: tuple[Line, Line, Line] = field(repr=False)  # FPIR, FNIR and thresholds


@dataclass(frozen=True)
class ThresholdScores:
    """What a matcher does at its threshold; None where there is nothing to count."""

    threshold: float
    n_strangers: int
    strangers_matched: Estimate | None  # share of strangers, whose class is not in the gallery, that are accepted
    false_positive_rate: Estimate | None  # FPIR: the same, with enrolled classes without their gallery samples
    false_rejection_rate: Estimate | None  # share of probes of enrolled classes that are rejected
    accuracy_accepted: Estimate | None  # share of the others that are recognised


@dataclass(frozen=True)
class Confusion:
    """How many of the probes of a class are taken for another, over all directions."""

    label: str
    taken_for: str
    count: int
    of: int


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on test samples, as `evaluate` and `evaluate_probes` return them.

    Parameters
    ----------
    mean : Scores
        Means over the directions: ``accuracy``, ``one_shot_accuracy``, ``average_precision``,
        ``accuracy_with_counterparts`` and ``equal_error_rate``, each with ``value``, ``low`` and ``high``, or None
        where they cannot be measured; ``cmc``, a tuple of these; ``true_match_rates`` and ``false_negative_rates`` by
        the share of false positives; and ``chance``, the expected accuracy of random matches.
    directions : tuple of Direction
        One per ordered pair of views: ``gallery``, ``probe``, the numbers of samples, ``scores`` as in `mean`, and the
        curves ``roc`` and ``identification`` with their thresholds.
    metric : str
        The distance.
    n_samples, n_classes, n_unlabelled : int
        Numbers of test samples, of their classes, and of the samples without a label, which were left out.
    resampled : {"classes", "samples"}
        What the bootstrap draws.
    n_bootstrap, confidence : int and float
        Number of draws, and confidence of the intervals.
    confusions : tuple of Confusion
        The most frequent errors: ``count`` probes ``of`` all of class ``label`` are ``taken_for`` another.
    at_threshold : ThresholdScores, optional
        What a calibrated matcher does at its threshold.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.MvDA(reg=0.1).fit(data.views[:900], data.y[:900])
    >>> evaluation = cv.evaluate(model, data.views[900:], data.y[900:], n_bootstrap=100)
    >>> [(direction.probe, direction.gallery) for direction in evaluation.directions]
    [('right', 'left'), ('left', 'right')]
    """

    mean: Scores
    directions: tuple[Direction, ...] = field(repr=False)
    metric: str
    n_samples: int
    n_classes: int
    n_unlabelled: int
    resampled: str
    n_bootstrap: int
    confidence: float
    confusions: tuple[Confusion, ...] = field(repr=False)
    at_threshold: ThresholdScores | None = None

    def _repr_html_(self) -> str:
        found = {**{f"{d.probe} in {d.gallery}": d.scores for d in self.directions}, "mean": self.mean}
        rows = [[name, *(getattr(scores, one) or "–" for one in _SHOWN)] for name, scores in found.items()]
        about = f"{counted(self.n_samples, 'sample')} of {counted(self.n_classes, 'class')}, {self.metric} distance"
        return html_table(about, ["probe in gallery", *(name.replace("_", " ") for name in _SHOWN)], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, text and numbers, for JSON; None stands for infinity."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    another sample there. Intervals are percentiles of the bootstrap. It draws probes, with all their views, while
    galleries stay as they are: an interval tells how much a score would vary with other probes of this kind.

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
        What is drawn. Samples of a class resemble each other: intervals from samples are too narrow for other classes.
        "auto" draws classes if there are 20 or more.
    false_positive_rates : sequence of float
        Shares of false positives at which to score the rest: FPIR for `false_negative_rates`, and false match rates of
        verification for `true_match_rates`. Of n searches or comparisons, rates below 3 / n have no score.
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
    >>> accuracy = cv.evaluate(model, data.views[900:], data.y[900:]).mean.accuracy
    >>> bool(accuracy.low < accuracy.value < accuracy.high)
    True
    """
    chosen = metric or chosen_metric(model)
    settings = _Settings(chosen, n_bootstrap, confidence, resample, tuple(false_positive_rates), random_state)
    check_is_fitted(unwrap(model)[0])
    names = Views(views).names if isinstance(views, Views | Mapping) else unwrap(model)[0].view_names_
    latents = Views({name: to_numpy(latent_samples(model, views, name, missing=True)) for name in names})
    labels = _known_labels(y, len(latents))
    known = has_label(labels) & latents.mask.any(axis=1)
    samples, classes = latents[known], labels[known]
    if len(samples.names) < 2:
        raise ValueError(f"matching needs two views or more, got one: {samples.names[0]!r}.")
    if len(np.unique(classes)) < 2:
        raise ValueError("all samples belong to one class: use test samples of two classes or more.")
    rows = {name: np.flatnonzero(seen) for name, seen in zip(samples.names, samples.mask.T, strict=True)}
    sides = {name: (name, samples[name][seen], classes[seen]) for name, seen in rows.items()}
    _warn_if_collapsed({name: X for name, X, _ in sides.values()})
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

    Scores are those of the nearest gallery sample, also if several vote. Gallery samples labelled "" are left out.

    Parameters
    ----------
    matcher : CrossViewClassifier
        With a gallery.
    X : array-like of shape (t, D_v)
        Probes; rows of NaN are left out.
    y : array-like of shape (t,)
        Their classes; "" leaves a probe out. Those of classes that are not in the gallery are strangers.
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
    latent = to_numpy(latent_samples(matcher, X, view, missing=True))
    labels = _known_labels(y, len(latent))
    probes, classes = labelled_samples(latent, labels, matcher.gallery_labels_)
    name = matcher._view_name(view)
    enrolled = has_label(matcher.gallery_labels_)
    gallery = ("gallery", matcher.gallery_[enrolled], matcher.gallery_labels_[enrolled])
    threshold = matcher._gallery.threshold.check(chosen, name)
    if threshold is None and not np.isin(classes, gallery[2]).any():
        fix = "enrol some of them, or run crossview calibrate"
        raise ValueError(f"none of these classes is enrolled, and the model is not calibrated: {fix}.")
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
            directions.append(_direction(gallery, probes, found, statistics[-1], settings))
            n_mated.append(found.n_mated_units)
            missed = found.mated & ~found.hits
            probes_by_class.update(map(str, probes[2][found.mated].tolist()))
            pairs_missed = zip(probes[2][missed].tolist(), found.nearest[missed].tolist(), strict=True)
            confused.update((str(label), str(other)) for label, other in pairs_missed)
            if threshold is not None:
                rates = {
                    name: estimate(statistics[-1][name][:, 0], len(np.unique(found.units[among])), settings.confidence)
                    for name, (_, among) in found.shares_at(threshold).items()
                }
                at_threshold = ThresholdScores(float(threshold), int((~found.mated).sum()), **rates)
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


def _direction(
    gallery: Side, probes: Side, found: Searches, statistics: Mapping[str, Array], settings: _Settings
) -> Direction:
    n_probes, nothing = int(found.mated.sum()), [np.empty(0)] * 3
    false, true = (line[0] for line in found.match_rates(np.ones((1, len(found.scores)))))
    searched = n_probes and found.n_nonmated
    return Direction(
        gallery=gallery[0],
        probe=probes[0],
        n_gallery=len(gallery[1]),
        n_gallery_classes=found.n_classes,
        n_probes=n_probes,
        n_skipped=len(found.own) - n_probes,
        n_nonmated=found.n_nonmated,
        scores=_scores(statistics, found.chance, found.n_classes, found.n_mated_units, settings),
        roc=_curve(*([false, true, np.append(found.thresholds, np.inf)] if n_probes else nothing)),
        identification=_curve(*(identification_curve(found.own, found.other, _POINTS) if searched else nothing)),
    )


def _curve(x: Array, y: Array, thresholds: Array) -> tuple[Line, Line, Line]:
    return tuple(x.tolist()), tuple(y.tolist()), tuple(thresholds.tolist())


def _scores(
    statistics: Mapping[str, Array], chance: float, n_classes: int, n_units: int, settings: _Settings
) -> Scores:
    confidence = settings.confidence
    found: dict[str, Any] = {name: estimate(statistics[name][:, 0], n_units, confidence) for name in _SINGLE}
    for name in ("true_match_rates", "false_negative_rates"):
        of_rates = zip(settings.rates, statistics[name].T, strict=True)
        found[name] = {rate: estimate(values, n_units, confidence) for rate, values in of_rates}
    shares = enumerate(statistics["cmc"].T, 1)
    estimates = (estimate(values, n_units, confidence, constant=rank >= n_classes) for rank, values in shares)
    ranks = [rank for rank in estimates if rank is not None]
    # What is found up to a rank is also found up to the next.
    lows = np.maximum.accumulate([rank.low for rank in ranks])
    cmc = tuple(Estimate(rank.value, float(low), rank.high) for rank, low in zip(ranks, lows, strict=True))
    return Scores(chance=chance, cmc=cmc, **found)


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
