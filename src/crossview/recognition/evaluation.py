"""How good a fitted model is on test samples, with confidence intervals."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from crossview._progress import progress as show_progress
from crossview._transformer import transform_view, unwrap
from crossview._types import Array, Indices
from crossview._validation import check_choice, check_count
from crossview.distances import Labels
from crossview.metrics import has_label, identification_curve
from crossview.recognition.bootstrap import Estimate, draw_weights, estimate
from crossview.recognition.matcher import CrossViewClassifier, chosen_metric
from crossview.recognition.scores import Confusion, Direction, Evaluation, Line, Scores, ThresholdScores
from crossview.recognition.searches import Searches, search
from crossview.views import ViewInput, Views

__all__ = ["Evaluation", "evaluate", "evaluate_probes"]

_MANY_CLASSES = 20  # from which on classes are drawn
_POINTS = 200  # of a curve
_CONFUSIONS = 10
_LEAST_DRAWS = 100


def evaluate(
    model: Any,
    views: ViewInput,
    y: ArrayLike,
    *,
    metric: str | None = None,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    resample: str = "auto",
    false_match_rates: Sequence[float] = (0.1, 0.01),
    random_state: int = 0,
    progress: bool = False,
) -> Evaluation:
    """Score a fitted model on test samples: every view is looked up in every other.

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
    false_match_rates : sequence of float
        False match rates of verification, and false positive rates of identification, at which to give the other
        error. Of n comparisons or searches, rates below 3 / n have no score.
    random_state : int
        Seed of the draws.
    progress : bool
        Whether to show progress on stderr.

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
    latents = _latents(model, views)
    labels = _labels(y, len(latents))
    known = has_label(labels) & latents.mask.any(axis=1)
    samples, classes = latents[known], labels[known]
    if len(samples.names) < 2:
        raise ValueError(f"matching needs two views or more, got one: {samples.names[0]!r}.")
    if len(np.unique(classes)) < 2:
        raise ValueError("all samples belong to one class: use test samples of two classes or more.")
    drawn, units, n_units = _units(classes, resample)
    seen = dict(zip(samples.names, samples.mask.T, strict=True))
    pairs = [(g, p) for g, p in permutations(samples.names, 2) if np.isin(classes[seen[p]], classes[seen[g]]).any()]
    if not pairs:
        raise ValueError("no class has samples in two views: check the labels.")
    chosen = metric or chosen_metric(model)
    settings = _Settings(n_bootstrap, confidence, tuple(false_match_rates), random_state)
    with show_progress("Evaluating", 2 * len(pairs), progress, unit="steps") as advance:
        done = []
        for g, p in pairs:
            advance(0, f"{p} in {g}")
            gallery, probes = ((name, samples[name][seen[name]], classes[seen[name]]) for name in (g, p))
            found = search(gallery, probes, units[seen[p]], n_units, chosen)
            advance(1, f"intervals of {p} in {g}")
            done.append((found, settings.statistics(found, n_units)))
            advance(1)
    return settings.evaluation(
        done,
        metric=chosen,
        n_samples=len(samples),
        n_unlabelled=int((~has_label(labels)).sum()),
        n_classes=len(np.unique(classes)),
        resampled=drawn,
    )


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
    false_match_rates: Sequence[float] = (0.1, 0.01),
    random_state: int = 0,
    progress: bool = False,
) -> Evaluation:
    """Score a matcher with its own gallery on probes of one view, also at its threshold if it is calibrated.

    Scores are those of the nearest gallery sample and class, also if the matcher lets several neighbours vote.

    Parameters
    ----------
    matcher : CrossViewClassifier
        With a gallery.
    X : array-like of shape (t, D_v)
        Probes; rows of NaN are left out.
    y : array-like of shape (t,)
        Their classes. Probes of classes that are not in the gallery are strangers. Those with the label "" are left
        out.
    view : int or str
        The view, by position or name.
    metric, n_bootstrap, confidence, resample, false_match_rates, random_state, progress
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
    >>> matcher = matcher.calibrate(data.views["right"][900:1300], data.y[900:1300], "right", false_match_rate=0.1)
    >>> evaluation = cv.evaluate_probes(matcher, data.views["right"][1300:], data.y[1300:], "right")
    >>> bool(evaluation.at_threshold.false_positive_rate.high > 0.1)
    True
    """
    if not isinstance(matcher, CrossViewClassifier):
        raise TypeError(f"a {type(matcher).__name__} has no gallery: use evaluate, or pass a CrossViewClassifier.")
    if not len(getattr(matcher, "gallery_", ())):
        raise ValueError("the gallery is empty: call enroll first, or use evaluate to match test samples of all views.")
    latent = transform_view(matcher, X, view)
    labels = _labels(y, len(latent))
    known = has_label(labels) & ~np.isnan(latent).all(axis=1)
    probes, classes = latent[known], labels[known]
    if not len(probes):
        raise ValueError("every probe is missing or has no label.")
    _check_kinds(classes, matcher.gallery_labels_)
    drawn, units, n_units = _units(classes, resample)
    name = unwrap(matcher)[0].view_names_[view] if isinstance(view, int) else view
    chosen = metric or chosen_metric(matcher)
    settings = _Settings(n_bootstrap, confidence, tuple(false_match_rates), random_state)
    with show_progress("Evaluating", 2, progress, unit="steps") as advance:
        advance(0, f"{name} in the gallery")
        gallery = ("gallery", matcher.gallery_, matcher.gallery_labels_)
        found = search(gallery, (name, probes, classes), units, n_units, chosen)
        advance(1, "intervals")
        done = [(found, settings.statistics(found, n_units))]
        advance(1)
    threshold = getattr(matcher, "threshold_", None)
    at_threshold = None if threshold is None else settings.at_threshold(found, threshold, n_units)
    return settings.evaluation(
        done,
        metric=chosen,
        n_samples=len(probes),
        n_unlabelled=int((~has_label(labels)).sum()),
        n_classes=len(np.unique(classes)),
        resampled=drawn,
        at_threshold=at_threshold,
    )


@dataclass(frozen=True)
class _Settings:
    """How scores and intervals are computed."""

    n_bootstrap: int
    confidence: float
    rates: tuple[float, ...]
    random_state: int

    def __post_init__(self) -> None:
        check_count(self.n_bootstrap, "n_bootstrap", least=_LEAST_DRAWS)
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, for example 0.95, got {self.confidence!r}.")
        if not self.rates or not all(0.0 < rate < 1.0 for rate in self.rates):
            raise ValueError(f"false_match_rates must be shares between 0 and 1, got {self.rates!r}.")

    def statistics(self, found: Searches, n_units: int) -> dict[str, Array]:
        """Scores for the data, then for every draw: (1 + draws, k) each."""
        parts = [found.statistics(weights, self.rates) for weights in self._draws(found, n_units)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def at_threshold(self, found: Searches, threshold: float, n_units: int) -> ThresholdScores:
        """Scores of a matcher at its threshold."""
        rates = {}
        for name, (some, among) in found.shares_at(threshold).items():
            draws = [found.share(weights, some, among) for weights in self._draws(found, n_units)]
            rates[name] = self._estimate(np.concatenate(draws), len(np.unique(found.units[among])))
        return ThresholdScores(threshold=float(threshold), n_strangers=int((~found.mated).sum()), **rates)

    def evaluation(self, done: Sequence[tuple[Searches, dict[str, Array]]], **facts: Any) -> Evaluation:
        """Everything together."""
        n_ranks = max(found["cmc"].shape[1] for _, found in done)
        most = max(searches.n_classes for searches, _ in done)
        # From the number of classes on, everything is found.
        padded = [
            {**found, "cmc": np.pad(found["cmc"], ((0, 0), (0, n_ranks - found["cmc"].shape[1])), constant_values=1.0)}
            for _, found in done
        ]
        mean = {name: _mean([found[name] for found in padded]) for name in padded[0]}
        chance = float(np.mean([searches.chance for searches, _ in done]))
        return Evaluation(
            mean=self._scores(mean, chance, most, min(searches.n_mated_units for searches, _ in done)),
            directions=tuple(self._direction(searches, found) for searches, found in done),
            n_bootstrap=self.n_bootstrap,
            confidence=self.confidence,
            confusions=_confusions([searches for searches, _ in done]),
            **facts,
        )

    def _draws(self, found: Searches, n_units: int) -> Iterator[Array]:
        return draw_weights(n_units, self.n_bootstrap, self.random_state, size=len(found.own))

    def _direction(self, searches: Searches, found: dict[str, Array]) -> Direction:
        false, true = (line[0] for line in searches.match_rates(np.ones((1, len(searches.scores)))))
        open_set = identification_curve(searches.own, searches.other, _POINTS)
        n_probes = int(searches.mated.sum())
        return Direction(
            gallery=searches.gallery,
            probe=searches.probe,
            n_gallery=searches.n_gallery,
            n_probes=n_probes,
            n_skipped=len(searches.own) - n_probes,
            n_nonmated=searches.n_nonmated,
            scores=self._scores(found, searches.chance, searches.n_classes, searches.n_mated_units),
            roc=_curve(false, true, np.append(searches.thresholds, np.inf)),
            identification=_curve(*open_set) if searches.n_nonmated else ((), (), ()),
        )

    def _scores(self, found: dict[str, Array], chance: float, n_classes: int, n_units: int) -> Scores:
        single = {
            name: self._estimate(found[name][:, 0], n_units)
            for name in ("accuracy", "average_precision", "equal_error_rate")
        }
        ranks = [
            self._estimate(values, n_units, constant=rank >= n_classes) for rank, values in enumerate(found["cmc"].T, 1)
        ]
        # What is found up to a rank is also found up to the next.
        lows = np.maximum.accumulate([one.low for one in ranks if one is not None])
        ranks = [Estimate(one.value, float(low), one.high) for one, low in zip(ranks, lows, strict=True) if one]
        at_rates = {
            name: {
                rate: self._estimate(values, n_units) for rate, values in zip(self.rates, found[name].T, strict=True)
            }
            for name in ("true_match_rates", "false_negative_rates")
        }
        return Scores(chance=chance, cmc=tuple(ranks), **single, **at_rates)  # type: ignore[arg-type]

    def _estimate(self, values: Array, n_units: int, constant: bool = False) -> Estimate | None:
        return estimate(values, n_units, self.confidence, constant=constant)


def _latents(model: Any, views: ViewInput) -> Views:
    """The samples in the common space; of a mapping or Views, any views of the model."""
    first = unwrap(model)[0]
    check_is_fitted(first)
    checked, known = Views(views), first.view_names_
    if isinstance(views, Views | Mapping):
        names = checked.names
        if unknown := [name for name in names if name not in known]:
            raise ValueError(
                f"unknown view {unknown[0]!r}: the model was fitted on {', '.join(map(repr, known))}. "
                "Give the views these names."
            )
    elif len(checked.names) != len(known):
        raise ValueError(
            f"got {len(checked.names)} views, but the model was fitted on {len(known)}: {', '.join(known)}. "
            "Pass a dict to evaluate some of them."
        )
    else:
        names = known
    return Views({name: transform_view(model, X, name) for name, X in zip(names, checked.arrays, strict=True)})


def _labels(y: ArrayLike, n: int) -> Labels:
    labels: Labels = column_or_1d(y)
    if len(labels) != n:
        raise ValueError(f"y has {len(labels)} labels for {n} samples: give one label per row.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("y contains NaN: give every sample a class, or use text labels with '' where it is unknown.")
    if not has_label(labels).any():
        raise ValueError("no sample has a label: an evaluation needs to know the classes.")
    return labels


def _check_kinds(labels: Labels, gallery_labels: Labels) -> None:
    """Refuse labels that cannot be equal to those of the gallery."""
    if (labels.dtype.kind in "OU") != (gallery_labels.dtype.kind in "OU"):
        raise ValueError("y and the gallery's labels must be of the same kind: use either strings or numbers.")


def _units(classes: Labels, resample: str) -> tuple[str, Indices, int]:
    """What is drawn, the unit of every sample, and the number of units."""
    check_choice(resample, "resample", ("auto", "classes", "samples"))
    codes = np.unique(classes, return_inverse=True)[1]
    if resample == "auto":
        resample = "classes" if codes.max() + 1 >= _MANY_CLASSES else "samples"
    units = codes.astype(np.intp) if resample == "classes" else np.arange(len(classes))
    return resample, units, int(units.max()) + 1


def _mean(values: Sequence[Array]) -> Array:
    """Mean over directions that have a value; nan if none has."""
    stack = np.stack(values)
    there = ~np.isnan(stack)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(there, stack, 0.0).sum(axis=0) / there.sum(axis=0)
    return mean


def _confusions(done: Sequence[Searches]) -> tuple[Confusion, ...]:
    """The pairs of classes that are confused most often."""
    wrong: Counter[tuple[str, str]] = Counter()
    probes: Counter[str] = Counter()
    for found in done:
        probes.update(map(str, found.labels[found.mated].tolist()))
        missed = found.mated & ~found.hits
        wrong.update(
            zip(map(str, found.labels[missed].tolist()), map(str, found.nearest[missed].tolist()), strict=True)
        )
    first = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:_CONFUSIONS]
    return tuple(Confusion(label, other, count, probes[label]) for (label, other), count in first)


def _texts(labels: Labels) -> list[str]:
    return [str(label) for label in labels.tolist()]


def _curve(x: Array, y: Array, thresholds: Array) -> tuple[Line, Line, Line]:
    return tuple(x.tolist()), tuple(y.tolist()), tuple(thresholds.tolist())
