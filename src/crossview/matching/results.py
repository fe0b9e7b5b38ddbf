"""Scores of a model on test samples, as an evaluation returns them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from crossview._text import counted, html_table

Line: TypeAlias = tuple[float, ...]

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

    chance: float = field(repr=False)
    """Expected accuracy of random matches; nan if there are only strangers."""
    accuracy: Estimate | None
    """Share of probes whose nearest gallery sample has their class, without the probe's counterpart."""
    one_shot_accuracy: Estimate | None
    """Accuracy with one enrolled sample per class; see `crossview.metrics.one_shot_accuracy`."""
    average_precision: Estimate | None
    """Mean average precision."""
    accuracy_with_counterparts: Estimate | None = field(repr=False)
    """Accuracy with each probe's counterpart in the gallery, as in the paper; None for probes of a matcher."""
    cmc: tuple[Estimate, ...] = field(repr=False)
    """Shares of probes whose class is among the 1, 2, … nearest classes."""
    equal_error_rate: Estimate | None
    """Error rate of verification where false matches and false non-matches are equally frequent."""
    true_match_rates: Mapping[float, Estimate | None] = field(repr=False)
    """True match rate of verification by false match rate."""
    false_negative_rates: Mapping[float, Estimate | None] = field(repr=False)
    """FNIR by FPIR; see `crossview.metrics.identification_rates`."""


@dataclass(frozen=True)
class Direction:
    """Probes of one view in a gallery of another."""

    gallery: str
    probe: str
    n_gallery: int
    n_gallery_classes: int
    n_probes: int
    """Number of probes whose class is in the gallery."""
    n_skipped: int
    """Number of other probes, which only count as non-mated searches."""
    n_nonmated: int
    """Number of non-mated searches."""
    scores: Scores
    roc: tuple[Line, Line, Line] = field(repr=False)
    """False match rates, true match rates and thresholds of verification."""
    identification: tuple[Line, Line, Line] = field(repr=False)
    """FPIR, FNIR and thresholds of open-set identification."""


@dataclass(frozen=True)
class ThresholdScores:
    """What a matcher does at its threshold."""

    threshold: float
    n_strangers: int
    strangers_matched: Estimate | None
    """Share of strangers, whose class is not in the gallery, that are accepted; None without strangers."""
    false_positive_rate: Estimate | None
    """FPIR: the same share with probes of enrolled classes too, each without the gallery samples of its class."""
    false_rejection_rate: Estimate | None
    """Share of probes of enrolled classes that are rejected."""
    accuracy_accepted: Estimate | None
    """Share of the others whose nearest gallery sample has their class."""


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
        curves ``roc`` and ``identification``.
    metric : str
        The distance.
    n_samples, n_classes : int
        Numbers of test samples and of their classes.
    n_unlabelled : int
        Number of samples without a label, which were left out.
    resampled : {"classes", "samples"}
        What the bootstrap draws.
    n_bootstrap : int
        Number of draws.
    confidence : float
        Confidence of the intervals.
    confusions : tuple of Confusion
        The most frequent errors: ``count`` probes ``of`` all of class ``label`` are ``taken_for`` another.
    at_threshold : ThresholdScores, optional
        What a calibrated matcher does at its threshold: ``strangers_matched``, ``false_positive_rate``,
        ``false_rejection_rate`` and ``accuracy_accepted``.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.MvDA(reg=0.1).fit(data.views[:900], data.y[:900])
    >>> evaluation = cv.evaluate(model, data.views[900:], data.y[900:], n_bootstrap=100)
    >>> print(evaluation.mean.accuracy)
    0... [0..., 0...]
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
