"""Which methods of a comparison are the best, which are tied with them, and which one to use."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.experiments.plans import Panel
from crossview.experiments.store import Record
from crossview.report.results import Results, finished, records

RAW = "RawFeatures"

_ENOUGH = 5  # splits, or test classes, from which on their spread says which differences are noise
_DIGITS = 1  # of an accuracy in per cent: rows that print the same are equally good


class Scores(NamedTuple):
    """Scores whose mean is a method's accuracy. Those of one group depend on each other."""

    values: Array
    groups: NDArray[Any] | None = None
    over: str = ""  # "splits", "test samples" or "test classes"; empty if there are too few splits

    def standard_error(self) -> float:
        """Standard error of the mean; nan if the scores are too few to tell."""
        if not self.over:
            return np.nan
        sums = deviations = self.values - self.values.mean()
        if self.groups is not None:
            sums = np.bincount(np.unique(self.groups, return_inverse=True)[1], deviations)
        n = len(sums)
        return float(np.sqrt(n / (n - 1) * np.sum(sums**2)) / len(self.values)) if n > 1 else np.nan


class Ranking(NamedTuple):
    """The rows with the highest printed score, those tied with one of them, and what standard errors are over."""

    best: list[str]
    tied: list[str]
    over: str


class Recommendation(NamedTuple):
    """A row, its mean validation score, and the command that trains it."""

    row: str
    validation: float
    command: str


def scores_of(found: Sequence[Record], score: str = "score") -> Scores | None:
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
        return Scores(np.array([result[score] for result in done]), None, over)
    values = np.array(done[0]["sample_scores"], dtype=np.float64)
    known = ~np.isnan(values)
    if done[0]["tests_on"] == "classes" and done[0]["n_test_classes"] >= _ENOUGH:
        return Scores(values[known], np.array(done[0]["sample_classes"])[known], "test classes")
    return Scores(values[known], None, "test samples")


def known_scores(panel: Panel, results: Results, score: str = "score") -> dict[str, Scores]:
    """The scores of the rows that have a result in every split."""
    found = {row: scores_of(records(panel, results, row, panel.columns[0]), score) for row in panel.rows}
    return {row: scores for row, scores in found.items() if scores is not None}


def rank(panel: Panel, results: Results, score: str = "score") -> Ranking:
    """The best rows, and those whose difference from one of them is within two standard errors."""
    known = known_scores(panel, results, score)
    printed = {row: round(100 * float(scores.values.mean()), _DIGITS) for row, scores in known.items()}
    order = sorted(printed, key=lambda row: -known[row].values.mean())
    best = [row for row in order if printed[row] == printed[order[0]]]
    tied = [row for row in order if row not in best and any(_are_tied(known[one], known[row]) for one in best)]
    return Ranking(best, tied, known[best[0]].over if best else "")


def _are_tied(one: Scores, other: Scores) -> bool:
    """Whether paired differences are small compared with their standard error."""
    if one.values.shape != other.values.shape or one.over != other.over:
        return False
    gaps = one._replace(values=one.values - other.values)
    return bool(abs(gaps.values.mean()) <= 2 * gaps.standard_error())


def leaders(panel: Panel, results: Results, score: str = "score") -> dict[str, float]:
    """The best rows by a score and those tied with them, with their means, best first.

    With too few splits to know ties, rows are tied within two standard errors of a share of the test samples.
    """
    best, tied, over = rank(panel, results, score)
    means = {row: float(one.values.mean()) for row, one in known_scores(panel, results, score).items()}
    if best and not over:
        top = means[best[0]]
        n_test = np.mean([result["n_test"] for result in finished(records(panel, results, best[0], panel.columns[0]))])
        least = top - 2 * np.sqrt(max(top * (1 - top), 0.0) / n_test)
        tied = [row for row in sorted(means, key=lambda row: -means[row]) if row not in best and means[row] >= least]
    return {row: means[row] for row in (*best, *tied)}


def recommend(panel: Panel, results: Results, tune: str = "") -> Recommendation | None:
    """The row to use by validation scores alone: choosing by test scores would flatter the choice.

    None if no row has a result in every split. `tune` is the start of the command that trains the row, such as
    ``crossview tune DATA``.
    """
    validation = {row: one.values for row, one in known_scores(panel, results, "held_out_score").items()}
    if not validation:
        return None
    row = recommended_row(validation)
    place = next(place for place in panel.places if place.row == row)
    members = f" --n-members {place.cell.search.n_members}" if place.part else ""
    command = f"{tune} --method {place.cell.method}{members} -o my.model" if tune else ""
    return Recommendation(row, float(np.mean(validation[row])), command)


def recommended_row(validation: Mapping[str, Sequence[float] | Array]) -> str:
    """The row with the highest mean validation score; the scores are given by split.

    `RawFeatures` counts as equal if its paired difference from that row is within one standard error over the splits.
    Then it is taken: what learns nothing needs no training and no care.

    >>> recommended_row({"RawFeatures": [0.7, 0.9, 0.7], "MvDA": [0.8, 0.8, 0.8], "PCA": [0.4, 0.5, 0.4]})
    'RawFeatures'
    """
    best = max(validation, key=lambda row: np.mean(validation[row]))
    if RAW in validation:
        gaps = np.subtract(validation[best], validation[RAW])
        error = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        if gaps.mean() <= error:
            return RAW
    return best
