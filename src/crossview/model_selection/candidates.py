"""Fit the candidates of a search, each step once for all that share its parameters, and score them on its folds."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from crossview._progress import Advance, silent
from crossview._types import Array, Indices, Mask
from crossview.exceptions import NotApplicableError
from crossview.metrics import accuracy_by_dimension, one_shot_by_dimension, precision_by_dimension
from crossview.recognition.score_file import Score, ScoreFile
from crossview.views import Views

Params = dict[str, Any]

SCORERS: dict[str, Callable[..., Array]] = {
    "accuracy": accuracy_by_dimension,
    "one_shot_accuracy": one_shot_by_dimension,
    "average_precision": precision_by_dimension,
    "accuracy_with_counterparts": partial(accuracy_by_dimension, counterparts=True),
}


class Fold(NamedTuple):
    """Rows to fit settings to, rows to score them on, and which of the latter are probes; None if all are."""

    train: Indices
    test: Indices
    probes: Mask | None = None


@dataclass(frozen=True)
class SharedFit:
    """Candidates that share all steps before the embedding, and all parameters of it that are costly to change.

    `steps` are fitted and the embedding is not. `error` says why one of the steps cannot be fitted.
    """

    steps: tuple[Any, ...]
    embedding: Any
    candidates: list[int]
    params: list[Params]
    train: Views
    y: NDArray[Any]
    test: Views
    error: ValueError | None = None

    def fit(self, wanted: Sequence[int] | None = None) -> Iterator[Any]:
        """The fitted embeddings of the candidates, or of those wanted, or the errors that prevent the fits."""
        rows = [k for k, candidate in enumerate(self.candidates) if wanted is None or candidate in wanted]
        if self.error is not None:
            return iter([self.error] * len(rows))
        return _fit_each(self.embedding, self.params, self.train, self.y, rows)


def shared_fits(
    steps: Sequence[Any],
    params: Sequence[Sequence[Params]],
    candidates: list[int],
    train: Views,
    y: NDArray[Any],
    test: Views,
    fitted: tuple[Any, ...] = (),
) -> Iterator[SharedFit]:
    """Fit the steps before the embedding, each once for all candidates that share it.

    `params` has one dict per candidate and step. `fitted` are the first steps; `train` and `test` have passed them.
    """
    i, step = len(fitted), steps[len(fitted)]
    is_embedding = i == len(steps) - 1
    cheap = {*step._refits, "n_components"} if is_embedding else {*step._refits}
    costly = {c: {name: value for name, value in params[c][i].items() if name not in cheap} for c in candidates}
    changes = {c: {name: value for name, value in params[c][i].items() if name in cheap} for c in candidates}
    for group in _group(candidates, costly):
        model = clone(step).set_params(**costly[group[0]])
        if is_embedding:
            yield SharedFit(fitted, model, group, [changes[c] for c in group], train, y, test)
            continue
        equal = _group(group, changes)
        fits = _fit_each(model, [changes[same[0]] for same in equal], train, y)
        for same, fit in zip(equal, fits, strict=True):
            if isinstance(fit, ValueError):
                yield SharedFit(fitted, model, same, [], train, y, test, fit)
            else:
                mapped = fit._mapped(train), y, fit._mapped(test)
                yield from shared_fits(steps, params, same, *mapped, (*fitted, fit))


def _fit_each(
    model: Any, params: Sequence[Params], views: Views, y: NDArray[Any], rows: Sequence[int] | None = None
) -> Iterator[Any]:
    """Yield the model fitted with each of the parameters, or those in some rows, or the error that prevents the fit.

    What is prepared for them depends on all parameters, not on the rows, so a search that resumes gets the same fits.
    """
    rows = range(len(params)) if rows is None else rows
    try:
        refit = model._refitter(views, y, params)
    except ValueError as error:
        yield from [error] * len(rows)
        return
    for row in rows:
        try:
            yield refit(params[row])
        except ValueError as error:
            yield error


def _group(candidates: Sequence[int], params: Mapping[int, Params]) -> list[list[int]]:
    """Group candidates with equal parameters. Values that are not plain, such as arrays, are compared by identity."""
    plain = (str, bool, int, float, np.generic, type(None))
    groups: dict[Any, list[int]] = {}
    for candidate in candidates:
        key = tuple(
            (name, type(value).__name__, value if isinstance(value, plain) else id(value))
            for name, value in sorted(params[candidate].items())
        )
        groups.setdefault(key, []).append(candidate)
    return list(groups.values())


def steps(values: Sequence[Any], value: Any) -> list[Any]:
    """The values next to one among those listed, or beyond them by the ratio of the last two; None comes last.

    >>> steps([0.1, 0.3], 0.3), steps([1, 3], 1), steps(["a", "b", "c"], "a"), steps([0.0, 1.0, float("inf")], 0.0)
    ([0.1, 0.9], [3], ['b', 'c'], [1.0])
    """
    is_number = [isinstance(v, Real) and not isinstance(v, bool) for v in (*values, value)]
    numbers: list[Any] = sorted({v for v, number in zip((*values, value), is_number, strict=True) if number})
    others = [v for v, number in zip(values, is_number, strict=False) if not number and v != value]
    if not is_number[-1]:
        return others + numbers[-1:]
    k = numbers.index(value)
    near = numbers[max(k - 1, 0) : k] + numbers[k + 1 : k + 2]
    listed = [v for v in numbers if v in values]
    if len(near) == 1 and len(listed) > 1 and numbers[0] > 0 and np.isfinite(numbers[-1]):
        inner, outer = listed[1::-1] if k == 0 else listed[-2:]
        beyond = value * outer / inner
        beyond = round(beyond) if all(isinstance(v, Integral) for v in numbers) else float(f"{beyond:.2g}")
        near += [beyond] if beyond > 0 and beyond != value else []
    return near + (others if k == len(numbers) - 1 else [])


class Candidate(NamedTuple):
    """Parameters to fit, the numbers of components to score, the other parameters in words, and where they come from.

    Settings of one origin are alike: they differ in the whitening, or in a few steps of a refinement.
    """

    params: Params
    dimensions: list[int]
    description: str
    origin: str


@dataclass(frozen=True)
class Scorer:
    """Scores candidates, in this process or in another, unless their scores are kept."""

    candidates: list[Candidate]
    metrics: Sequence[str]
    scoring: str
    kept: ScoreFile

    def __call__(
        self, fold: int, shared: SharedFit, y: NDArray[Any], probes: Mask | None, advance: Advance = silent
    ) -> dict[str, Score]:
        """Scores of those candidates of a shared fit that miss one, by name."""
        found = {}
        missing = self.missing(fold, shared.candidates)
        fits = shared.fit(missing)
        for number in missing:
            advance(0, self.candidates[number].description)
            score = self._score(number, next(fits), shared.test, y, probes)
            self.kept.append(_name(fold, number), score)
            found[_name(fold, number)] = score
            advance()
        return found

    def missing(self, fold: int, numbers: Iterable[int]) -> list[int]:
        """The candidates whose scores on a fold are not kept."""
        return [number for number in numbers if _name(fold, number) not in self.kept.known]

    def best(self, found: Mapping[str, Score], n_folds: int, number: int) -> float:
        """Highest mean score of a candidate over the first folds; minus infinity if it lacks one."""
        scores = [found.get(_name(fold, number)) for fold in range(n_folds)]
        if not all(isinstance(score, np.ndarray) for score in scores):
            return -np.inf
        return float(np.nanmax(np.mean(np.array(scores), axis=0)))

    def leaders(self, found: Mapping[str, Score], n_folds: int, numbers: Iterable[int]) -> list[int]:
        """The candidates with scores on all of the first folds, best first."""
        scores = {number: self.best(found, n_folds, number) for number in numbers}
        return sorted((c for c in scores if np.isfinite(scores[c])), key=lambda c: -scores[c])

    def collect(self, found: Mapping[str, Score], n_splits: int, n_given: int) -> list[Array]:
        """Scores of every candidate by fold, number of components and distance; nan without a fit.

        Raises an error if no candidate can be fitted in every fold. Failures count for the given candidates, the first
        ones: values beyond the lists may be impossible.
        """
        table = [[found.get(_name(fold, c)) for c in range(len(self.candidates))] for fold in range(n_splits)]
        failures = [score for row in table for score in row[:n_given] if isinstance(score, ValueError)]
        scores = [np.full((n_splits, len(c.dimensions), len(self.metrics)), np.nan) for c in self.candidates]
        for fold, row in enumerate(table):
            for of_candidate, score in zip(scores, row, strict=True):
                if isinstance(score, np.ndarray):
                    of_candidate[fold] = score
        if all(np.isnan(one).any(axis=0).all() for one in scores):
            if all(isinstance(error, NotApplicableError) for error in failures):
                raise failures[-1]
            raise ValueError(f"no setting can be fitted in every fold: {failures[-1]}")
        if failures:
            tried = sum(score is not None for row in table for score in row[:n_given])
            message = f"{len(failures)} of {tried} fits failed; the last: {failures[-1]}"
            warnings.warn(message, FitFailedWarning, stacklevel=4)  # where fit was called
        return scores

    def _score(self, number: int, fitted: Any, test: Views, y: NDArray[Any], probes: Mask | None) -> Score:
        """Scores by number of components and distance, or the error that prevents them."""
        if isinstance(fitted, ValueError):
            return fitted
        try:
            latents = fitted._mapped(test)
            dimensions, scorer = self.candidates[number].dimensions, SCORERS[self.scoring]
            scores = np.column_stack([scorer(latents, y, dimensions, metric, probes=probes) for metric in self.metrics])
        except ValueError as error:
            return error
        if "euclidean" in self.metrics and "cosine" in self.metrics:
            # The angle between samples of one component is that of their signs, so most matches are ties.
            single = np.minimum(dimensions, min(Views(latents).n_features)) == 1
            scores[single, list(self.metrics).index("cosine")] = np.nan
        return scores


def _name(fold: int, number: int) -> str:
    """Name of a score that is kept."""
    return f"fold {fold}, candidate {number}"
