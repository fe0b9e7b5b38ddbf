"""Which methods are the best of a comparison, which are tied with them, and how uncertain a score is."""

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
    """The rows with the highest printed score, those tied with one of them, and what standard errors are over."""

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


def observations(found: Sequence[Record], score: str = "score") -> Observations | None:
    """The scores of several splits or, if there is a single one, of its test samples; None if any is missing.

    Only accuracy, ``"score"``, is known of test samples.

    Test classes that were not trained on stand for others like them, so their samples form groups; test samples of
    known classes stand for further samples.
    """
    done = finished(found)
    if not done or len(done) < len(found):
        return None
    if len(done) > 1 or score != "score" or "sample_scores" not in done[0]:
        over = "splits" if len(done) >= _ENOUGH else ""
        return Observations(np.array([result[score] for result in done]), None, over)
    scores = np.array(done[0]["sample_scores"], dtype=np.float64)
    known = ~np.isnan(scores)
    if done[0]["tests_on"] == "classes" and done[0]["n_test_classes"] >= _ENOUGH:
        return Observations(scores[known], np.array(done[0]["sample_classes"])[known], "test classes")
    return Observations(scores[known], None, "test samples")


def standing(panel: Panel, results: Results, column: str, score: str = "score") -> Standing:
    """The best rows of a column, and those whose difference from one of them is within two standard errors."""
    known = known_scores(panel, results, column, score)
    printed = {row: round(100 * float(scores.values.mean()), _DIGITS) for row, scores in known.items()}
    order = sorted(printed, key=lambda row: -known[row].values.mean())
    best = [row for row in order if printed[row] == printed[order[0]]]
    tied = [row for row in order if row not in best and any(_tied(known[one], known[row]) for one in best)]
    return Standing(best, tied, known[best[0]].over if best else "")


def leaders(panel: Panel, results: Results, column: str, score: str = "score") -> dict[str, float]:
    """The best rows by a score and those tied with them, with their means, best first.

    With too few splits to tell ties, rows are tied within two standard errors of a share of the test samples.
    """
    best, tied, over = standing(panel, results, column, score)
    means = {row: float(one.values.mean()) for row, one in known_scores(panel, results, column, score).items()}
    if best and not over:
        top = means[best[0]]
        n_test = np.mean([result["n_test"] for result in finished(records(panel, results, best[0], column))])
        least = top - 2 * np.sqrt(max(top * (1 - top), 0.0) / n_test)
        tied = [row for row in sorted(means, key=lambda row: -means[row]) if row not in best and means[row] >= least]
    return {row: means[row] for row in (*best, *tied)}


def known_scores(panel: Panel, results: Results, column: str, score: str = "score") -> dict[str, Observations]:
    """The scores of the rows that have a result in every split."""
    found = {row: observations(records(panel, results, row, column), score) for row in panel.rows}
    return {row: scores for row, scores in found.items() if scores is not None}


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
