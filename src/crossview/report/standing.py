"""Which methods are the best of a comparison, which are tied with them, and how uncertain an accuracy is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.experiments.plans import Panel
from crossview.experiments.store import Record
from crossview.report.results import Results, finished, records

_ENOUGH = 5  # splits, or test classes, from which on their spread says which differences are noise
_DIGITS = 1  # of an accuracy in per cent: rows that print the same are equally good


class Standing(NamedTuple):
    """The rows with the highest printed accuracy, those tied with one of them, and what standard errors are over."""

    best: list[str]
    tied: list[str]
    over: str  # "splits", "test samples" or "test classes"; empty if there are too few splits


class Observations(NamedTuple):
    """Scores whose mean is a method's accuracy. Those of one group depend on each other."""

    values: Array
    groups: NDArray[Any] | None = None
    over: str = ""

    def standard_error(self) -> float:
        """Standard error of the mean; nan if the observations are too few to tell."""
        if not self.over:
            return np.nan
        deviations = self.values - self.values.mean()
        sums = deviations
        if self.groups is not None:
            sums = np.bincount(np.unique(self.groups, return_inverse=True)[1], deviations)
        n = len(sums)
        return float(np.sqrt(n / (n - 1) * np.sum(sums**2)) / len(self.values)) if n > 1 else np.nan


def observations(found: Sequence[Record]) -> Observations | None:
    """The scores of several splits or, if there is a single one, of its test samples; None if any is missing.

    Test classes that were not trained on stand for others like them, so their samples form groups; test samples of
    known classes stand for further samples.
    """
    done = finished(found)
    if not done or len(done) < len(found):
        return None
    if len(done) > 1 or "sample_scores" not in done[0]:
        over = "splits" if len(done) >= _ENOUGH else ""
        return Observations(np.array([result["score"] for result in done]), None, over)
    scores = np.array(done[0]["sample_scores"], dtype=np.float64)
    known = ~np.isnan(scores)
    if done[0]["tests_on"] == "classes" and done[0]["n_test_classes"] >= _ENOUGH:
        return Observations(scores[known], np.array(done[0]["sample_classes"])[known], "test classes")
    return Observations(scores[known], None, "test samples")


def standing(panel: Panel, results: Results, column: str) -> Standing:
    """The best rows of a column, and those whose difference from one of them is within two standard errors."""
    found = {row: observations(records(panel, results, row, column)) for row in panel.rows}
    known = {row: scores for row, scores in found.items() if scores is not None}
    printed = {row: round(100 * float(scores.values.mean()), _DIGITS) for row, scores in known.items()}
    order = sorted(printed, key=lambda row: -known[row].values.mean())
    best = [row for row in order if printed[row] == printed[order[0]]]
    tied = [row for row in order if row not in best and any(_tied(known[one], known[row]) for one in best)]
    return Standing(best, tied, known[best[0]].over if best else "")


def standard_error(found: Sequence[Record]) -> float | None:
    """Standard error of an accuracy over the test samples or classes of a single split; None with several splits."""
    scores = observations(found)
    if scores is None or not scores.over.startswith("test"):
        return None
    error = scores.standard_error()
    return None if np.isnan(error) else error


def _tied(one: Observations, other: Observations) -> bool:
    """Whether paired differences are small compared with their standard error."""
    if one.values.shape != other.values.shape or one.over != other.over:
        return False
    gaps = one._replace(values=one.values - other.values)
    return bool(abs(gaps.values.mean()) <= 2 * gaps.standard_error())
