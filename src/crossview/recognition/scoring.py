"""Score the candidates of a search on its folds, and keep what was scored."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning

from crossview._progress import Advance, silent
from crossview._types import Array
from crossview.exceptions import NotApplicableError
from crossview.metrics import accuracy_by_dimension, precision_by_dimension
from crossview.recognition.score_file import Score, ScoreFile
from crossview.recognition.shared_fits import Params, SharedFit
from crossview.views import Views

SCORERS = {"accuracy": accuracy_by_dimension, "average_precision": precision_by_dimension}


class Candidate(NamedTuple):
    """Parameters to fit, the numbers of components to score, and the other parameters in words."""

    params: Params
    dimensions: list[int]
    description: str


@dataclass(frozen=True)
class Scorer:
    """Scores candidates, in this process or in another, unless their scores are kept."""

    candidates: list[Candidate]
    metrics: Sequence[str]
    scoring: str
    kept: ScoreFile

    def __call__(self, fold: int, shared: SharedFit, y: NDArray[Any], advance: Advance = silent) -> dict[str, Score]:
        """Scores of those candidates of a shared fit that miss one, by name."""
        found = {}
        missing = self.missing(fold, shared.candidates)
        fits = shared.fit(missing)
        for number in missing:
            advance(0, self.candidates[number].description)
            score = self._score(number, next(fits), shared.test, y)
            self.kept.append(_name(fold, number), score)
            found[_name(fold, number)] = score
            advance()
        return found

    def missing(self, fold: int, numbers: Iterable[int]) -> list[int]:
        """The candidates whose scores on a fold are not kept."""
        return [number for number in numbers if _name(fold, number) not in self.kept.known]

    def collect(self, found: Mapping[str, Score], n_splits: int) -> list[Array]:
        """Scores of every candidate by fold, number of components and distance; nan if a fit fails.

        Raises an error if no candidate can be fitted in every fold.
        """
        table = [[found[_name(fold, c)] for c in range(len(self.candidates))] for fold in range(n_splits)]
        failures = [score for row in table for score in row if isinstance(score, ValueError)]
        scores = [np.full((n_splits, len(c.dimensions), len(self.metrics)), np.nan) for c in self.candidates]
        for fold, row in enumerate(table):
            for of_candidate, score in zip(scores, row, strict=True):
                if not isinstance(score, ValueError):
                    of_candidate[fold] = score
        if all(np.isnan(one).any(axis=0).all() for one in scores):
            if all(isinstance(error, NotApplicableError) for error in failures):
                raise failures[-1]
            raise ValueError(f"no setting can be fitted in every fold: {failures[-1]}")
        if failures:
            message = f"{len(failures)} of {n_splits * len(scores)} fits failed; the last: {failures[-1]}"
            warnings.warn(message, FitFailedWarning, stacklevel=5)  # where fit was called
        return scores

    def _score(self, number: int, fitted: Any, test: Views, y: NDArray[Any]) -> Score:
        """Scores by number of components and distance, or the error that prevents them."""
        if isinstance(fitted, ValueError):
            return fitted
        try:
            latents = fitted.transform(test)
            dimensions = self.candidates[number].dimensions
            return np.column_stack([SCORERS[self.scoring](latents, y, dimensions, metric) for metric in self.metrics])
        except ValueError as error:
            return error


def _name(fold: int, number: int) -> str:
    """Name of a score that is kept."""
    return f"fold {fold}, candidate {number}"
