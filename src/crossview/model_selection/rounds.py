"""The rounds of a search: successive halving over the folds, refinement of the best, and the choice of a committee.

Scores can be kept in a file as they are computed, so that a killed search can resume.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags

from crossview._config import for_workers
from crossview._progress import Advance, silent
from crossview._store import DamagedStoreError, Store, StoreError, delete_store
from crossview._types import Array, Indices, Mask
from crossview._version import __version__
from crossview.exceptions import NotApplicableError
from crossview.metrics.scoring import score_by_dimension
from crossview.model_selection.space import Candidate, Fold, SharedFit, Space, shared_fits
from crossview.views import Views

Score: TypeAlias = Array | ValueError

_ERRORS = {error.__name__: error for error in (ValueError, NotApplicableError)}

MIN_KEPT = 8
"""Settings that are scored on every fold."""

_N_STARTS = 3  # best settings from which a refinement steps
_LEAD = 0.03  # of the best setting after no fold; steps from it that are further behind are dropped


@dataclass
class Trial:
    """A search under way: its candidates, the folds to score them on, and the scores that are known, by name."""

    space: Space
    candidates: list[Candidate]
    views: Views
    y: NDArray[Any]
    folds: Sequence[Fold]
    metrics: Sequence[str]
    scoring: str
    kept: ScoreFile
    n_jobs: int | None
    advance: Advance
    scores: dict[str, Score] = field(init=False)

    def __post_init__(self) -> None:
        self.scores = dict(self.kept.known)

    def take(self, fold: int) -> tuple[Views, Views]:
        """Training and test samples of a fold. Columns of kernel matrices are training samples."""
        train, test, _ = self.folds[fold]
        known, new = self.views[train], self.views[test]
        if get_tags(self.space.estimator).input_tags.pairwise:
            known, new = (
                Views._trusted([np.ascontiguousarray(X[:, train]) for X in part.arrays], part.names, part.mask)
                for part in (known, new)
            )
        return known, new

    def score(self, fold: int, numbers: Sequence[int]) -> None:
        """Score candidates on a fold, unless their scores are known; errors if fits fail."""
        running, in_process = deque[str](), effective_n_jobs(self.n_jobs) == 1
        names = {number: name for number in numbers if (name := _name(fold, number)) not in self.scores}
        if not names:
            return

        def jobs() -> Iterator[Any]:
            (train, test, probes), (known, new) = self.folds[fold], self.take(fold)
            how = self.y[test], probes, self.metrics, self.scoring, self.kept, self.advance if in_process else silent
            for shared in shared_fits(self.space, self.candidates, numbers, known, self.y[train], new):
                missing = {number: self.candidates[number] for number in shared.numbers if number in names}
                if missing:
                    running.append(next(iter(missing.values())).description)
                    self.advance(0, running[0])
                    yield delayed(for_workers(_scores))(shared, missing, names, *how)

        for scores in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs()):
            self.scores |= scores
            running.popleft()
            if not in_process:
                self.advance(len(scores), running[0] if running else None)

    def best_score(self, number: int, n_folds: int) -> float:
        """Highest mean score of a candidate over the first folds; minus infinity if it lacks one."""
        scores = [self.scores.get(_name(fold, number)) for fold in range(n_folds)]
        if not all(isinstance(score, np.ndarray) for score in scores):
            return -np.inf
        return float(np.nanmax(np.mean(np.array(scores), axis=0)))

    def leaders(self, numbers: Sequence[int], n_folds: int) -> list[int]:
        """The candidates with scores on all of the first folds, best first."""
        scores = {number: self.best_score(number, n_folds) for number in numbers}
        return sorted((c for c in scores if np.isfinite(scores[c])), key=lambda c: -scores[c])

    def table(self, n_given: int) -> Array:
        """Scores by fold, and by candidate, number of components and distance, (folds, rows); nan without a fit.

        Raises an error if no candidate can be fitted in every fold. Failures count for the given candidates, the first
        ones: values beyond the lists may be impossible.
        """
        n_folds, n_candidates = len(self.folds), len(self.candidates)
        known = [[self.scores.get(_name(fold, c)) for c in range(n_candidates)] for fold in range(n_folds)]
        failures = [score for row in known for score in row[:n_given] if isinstance(score, ValueError)]
        empty = [np.full((len(candidate.dimensions), len(self.metrics)), np.nan) for candidate in self.candidates]
        rows = [[s if isinstance(s, np.ndarray) else e for s, e in zip(row, empty, strict=True)] for row in known]
        table = np.array([np.concatenate(row, axis=None) for row in rows])
        if np.isnan(table).any(axis=0).all():
            if all(isinstance(error, NotApplicableError) for error in failures):
                raise failures[-1]
            raise ValueError(f"no setting can be fitted in every fold: {failures[-1]}")
        if failures:
            tried = sum(score is not None for row in known for score in row[:n_given])
            message = f"{len(failures)} of {tried} fits failed; the last: {failures[-1]}"
            warnings.warn(message, FitFailedWarning, stacklevel=4)  # where fit was called
        return table


def halving_schedule(n_settings: int, n_folds: int, factor: float, least: int) -> list[int]:
    """Number of settings to score on every fold, if all can be fitted."""
    sizes = [n_settings]
    for _ in range(n_folds - 1):
        sizes.append(min(sizes[-1], max(round(sizes[-1] / factor), least)))
    return sizes


def halve(trial: Trial, schedule: Sequence[int], factor: float, least: int) -> list[int]:
    """Score the candidates on one fold after another; one in `factor`, but at least so many, stays after each."""
    alive = list(range(len(trial.candidates)))
    for fold, expected in enumerate(schedule):
        trial.advance(0, more=len(alive) - expected)
        trial.score(fold, alive)
        alive = trial.leaders(alive, fold + 1)[: max(round(len(alive) / factor), least)]
    return alive


def refine(trial: Trial, n_rounds: int) -> None:
    """Score candidates that are a step away from the best ones, until there are no others."""
    n_folds = len(trial.folds)
    for _ in range(n_rounds):
        n_tried = len(trial.candidates)
        leaders = trial.leaders(range(n_tried), n_folds)
        trial.candidates += trial.space.around([trial.candidates[c] for c in leaders], _N_STARTS, trial.candidates)
        new = list(range(n_tried, len(trial.candidates)))
        if not new:
            return
        for fold in range(n_folds):
            trial.advance(0, more=len(new))
            trial.score(fold, new)
            # The best setting may owe its lead to the first folds.
            least = trial.best_score(leaders[0], fold + 1) - _LEAD * (1 - (fold + 1) / n_folds)
            new = [c for c in new if trial.best_score(c, fold + 1) > least]


def held_out_score(results: Mapping[str, Array], n_folds: int) -> float:
    """Mean score of the best setting, chosen for every fold by the other folds, if there are any."""
    if n_folds == 1:
        return float(np.nanmax(results["mean_test_score"]))
    scores = np.array([results[f"split{fold}_test_score"] for fold in range(n_folds)])
    scores = scores[:, ~np.isnan(scores).any(axis=0)]
    chosen = (scores.sum(axis=0) - scores).argmax(axis=1)
    return float(scores[np.arange(len(scores)), chosen].mean())


def choose_members(mean: Array, eligible: Mask, origins: Sequence[str], n_members: int) -> list[int]:
    """The best row of each of the best origins, best first: settings that are alike make the same mistakes."""
    eligible = eligible & ~np.isnan(mean)
    order: Indices = np.flatnonzero(eligible)[np.argsort(-mean[eligible], kind="stable")]
    _, first = np.unique(np.array(origins)[order], return_index=True)
    return [int(row) for row in order[np.sort(first)][:n_members]]


def _scores(
    shared: SharedFit,
    wanted: Mapping[int, Candidate],
    names: Mapping[int, str],
    y: NDArray[Any],
    probes: Mask | None,
    metrics: Sequence[str],
    scoring: str,
    kept: ScoreFile,
    advance: Advance,
) -> dict[str, Score]:
    """Scores of some candidates of a shared fit on a fold, by name; the errors that prevent them are among them."""
    found, fits = dict[str, Score](), shared.fit(list(wanted))
    for number, (_, dimensions, description, _) in wanted.items():
        advance(0, description)
        score = fitted = next(fits)
        if not isinstance(fitted, ValueError):
            try:
                score = _score(fitted._mapped(shared.test), y, dimensions, metrics, scoring, probes)
            except ValueError as error:
                score = error
        kept.append(names[number], score)
        found[names[number]] = score
        advance()
    return found


def _score(
    latents: Views,
    y: NDArray[Any],
    dimensions: Sequence[int],
    metrics: Sequence[str],
    scoring: str,
    probes: Mask | None,
) -> Array:
    """Scores by number of components and distance."""
    found = [score_by_dimension(latents, y, dimensions, metric, scoring, probes) for metric in metrics]
    scores = np.column_stack(found)
    if "euclidean" in metrics and "cosine" in metrics:
        # The angle between samples of one component is that of their signs, so most matches are ties.
        single = np.minimum(dimensions, min(latents.n_features)) == 1
        scores[single, list(metrics).index("cosine")] = np.nan
    return scores


def _name(fold: int, number: int) -> str:
    """Name of a score that is kept."""
    return f"fold {fold}, candidate {number}"


class ScoreFile:
    """Scores by name, or the errors of what cannot be fitted, in a file that is created if it does not exist.

    `search` is everything that determines the scores; `known` are those that the file has of it. Scores of other
    searches are ignored, and a damaged file is replaced. Without a path, nothing is kept. Copies in other processes may
    append, too.
    """

    def __init__(self, path: str | os.PathLike[str] | None, search: Any = None) -> None:
        self.known: dict[str, Score] = {}
        self._path: Path | None = None
        self._store: Store | None = None
        if path is not None:
            versions = [__version__, np.__version__, scipy.__version__, sklearn.__version__]
            self._key = hashlib.sha256(json.dumps([versions, describe(search)]).encode()).hexdigest()
            self._path = Path(path).absolute()  # worker processes may have another working directory
            try:
                self._store = Store(self._path)
            except DamagedStoreError:  # its scores can be computed again
                delete_store(self._path)
                self._store = Store(self._path)
            for entry in self._store.results():
                key, _, name = entry["key"].partition(" ")
                if key == self._key:
                    self.known[name] = _kept_score(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._store is not None:
            self._store.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None}

    def append(self, name: str, score: Score) -> None:
        """Add a score. Several processes may do so at the same time."""
        if self._path is None:
            return
        entry: dict[str, Any] = {"key": f"{self._key} {name}"}
        if isinstance(score, ValueError):
            entry |= {"error": type(score).__name__, "message": str(score)}
        else:
            entry["score"] = np.where(np.isnan(score), None, score).tolist()  # type: ignore[call-overload]
        try:
            if self._store is not None:
                self._store.put(entry)
            elif self._path.exists():
                with Store(self._path) as store:
                    store.put(entry)
        except StoreError:
            if self._path.exists():  # if it was deleted meanwhile, there is nothing to resume
                raise


def fingerprint(views: Views, y: NDArray[Any]) -> str:
    """The SHA-256 of samples, mask, names of views, and labels, whatever their memory layout."""
    head = {"names": views.names, "shapes": [X.shape for X in views.arrays], "y": np.asarray(y).tolist()}
    digest = hashlib.sha256(json.dumps(head, default=str).encode())
    digest.update(np.packbits(np.ascontiguousarray(views.mask)).tobytes())
    for X, seen in zip(views.arrays, views.mask.T, strict=True):
        # NaN has many bit patterns, and zero two; adding zero leaves one of the latter.
        digest.update((np.where(seen[:, None], X, 0.0) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def describe(value: Any) -> Any:
    """What JSON can hold, equal for equal values only."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": [value.dtype.str, list(value.shape), content]}
    if isinstance(value, Mapping):
        return {"dict": sorted([str(key), describe(item)] for key, item in value.items())}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [describe(item) for item in value]
    if isinstance(value, BaseEstimator):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return {kind: [getattr(value, "_revision", None), describe(value.get_params(deep=False))]}
    raise ValueError(
        f"resume cannot tell whether {value!r} is the same as in the last run: use numbers, strings and arrays as "
        "parameters, such as a kernel by its name and a seed as random_state, or resume=None."
    )


def _kept_score(entry: Mapping[str, Any]) -> Score:
    if "error" in entry:
        return _ERRORS.get(entry["error"], ValueError)(entry["message"])
    return np.array(entry["score"], dtype=np.float64)
