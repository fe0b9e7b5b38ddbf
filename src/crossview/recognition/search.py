"""Choose the parameters of an embedding, and of the steps before it, by cross-validation."""

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._progress import Advance, progress, silent
from crossview._schema import Schema, register
from crossview._text import settings_text
from crossview._transformer import MultiViewTransformer, transform_view
from crossview._types import Array, Indices
from crossview._validation import (
    check_choice,
    check_count,
    check_labels,
    check_lazy,
    check_weight,
    label_array,
    warn_of_kernel_matrices,
)
from crossview.embeddings._base import AUTO_COMPONENTS, Embedding
from crossview.recognition import stored
from crossview.recognition.candidates import SCORERS, Candidate, Fold, Params, Scorer, SharedFit, shared_fits, steps
from crossview.recognition.committee import Committee
from crossview.recognition.score_file import Score, ScoreFile, fingerprint
from crossview.recognition.splits import folds
from crossview.views import ViewInput, Views

__all__ = ["EmbeddingSearchCV"]

Grid: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_LEAST_KEPT = 8  # settings that are scored on every fold
_STARTS = 3  # best settings from which a refinement steps
_LEAD = 0.03  # of the best setting after no fold; steps from it that are further behind are dropped
_ALL_COMPONENTS = sys.maxsize  # the number to score where it is not searched for; scores cap it


@register
class EmbeddingSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search for the parameters of an embedding, or of a pipeline that ends in one, and for the distance.

    This is scikit-learn's ``GridSearchCV`` (``RandomizedSearchCV`` with `n_iter`) for embeddings, with the same scores.
    Shared work is done only once: candidates share the steps before the embedding, one fit serves all numbers of
    components, and new weights or numbers of neighbours of `MvHE` and `KMvHE` cost one eigen-solve each.

    Parameters
    ----------
    estimator : Embedding or Pipeline
        An embedding, or a pipeline of multi-view transformers that ends in one.
    param_grid : dict or list of dict
        Values to try, by parameter name as in ``set_params``, for example ``mvhe__beta`` in a pipeline made by
        ``make_pipeline``. Values are lists or, if `n_iter` is given, distributions with an ``rvs`` method.
    n_iter : int, optional
        Number of settings to draw at random; None tries all. The embedding's number of components and its whitening do
        not count, because one fit serves all listed values, except for `Contrastive` and `NCA`. The estimator's current
        parameters, if listed, are always tried.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try.
    scoring : {"accuracy", "one_shot_accuracy", "average_precision", "accuracy_with_counterparts"}
        Score of a fold: `metrics.mean_accuracy`, `metrics.one_shot_accuracy`, `metrics.mean_average_precision`, or the
        paper's accuracy, with each probe's counterpart in the gallery.
    members : int
        If more than 1, the best estimator is a `Committee` of that many of the best settings that differ in more than
        the whitening or a refinement, unless its score is no better than the ``held_out_score_`` of a single setting.
    factor : float
        Successive halving over the folds: after every fold, only the best settings stay, one in `factor`, but at least
        8. 1 scores all settings on all folds.
    refine : int
        Maximum number of rounds of refinement. A round tries settings that differ from one of the three best by one
        step in one parameter, also beyond the ends of its list of values, until there are no others.
    max_samples : int, optional
        Maximum number of samples that settings are fitted to in a fold, drawn at random: whole classes if folds split
        classes. As many samples of the test part, drawn at random, are probes; the gallery is all of it. The best
        setting is fitted to all samples. Set it for kernel methods, whose time grows with the third power of the number
        of samples.
    cv : {"auto", "classes", "samples"}, int, iterable or splitter
        How to make the folds. With ``"classes"``, the classes of the test part do not occur in the training part; with
        ``"samples"``, they do. Choose whichever resembles your test data. ``"auto"`` splits classes if there are at
        least four per fold, and samples otherwise. Other values work as in scikit-learn.
    n_folds : int
        Number of folds. Fewer are used if there are too few classes or samples.
    refit : bool
        Whether to fit ``best_estimator_`` on all samples.
    n_jobs : int, optional
        Number of parallel fits, as in joblib.
    random_state : int
        Seed of the folds and of the random draw.
    progress : bool
        Whether to show what is tried and the time left: as a bar on a terminal if rich is installed, otherwise as lines
        on stderr, at least every 30 seconds.
    resume : str or path, optional
        File that keeps the scores as they are computed. If the search is interrupted, run it again with the same data,
        parameters and file to continue. Scores of another search are ignored. Delete the file when you are done.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best parameters, or the `Committee` if it is better, fitted on all samples.
    best_params_ : dict
        The best parameters, ready for ``estimator.set_params(**search.best_params_)``.
    best_metric_, best_score_ : str and float
        The best distance for ``best_estimator_``, and its mean score over the folds.
    held_out_score_ : float
        Mean score of the best setting if it is chosen for every fold by the other folds; that of a committee is its
        ``best_score_``. The best of many scores flatters, so this one is better for comparing methods.
    best_index_, members_ : int and list of int
        Rows of ``cv_results_``: that of the best parameters, and those of the members of the committee, best first.
        Without a committee, the only member is the best row.
    n_splits_ : int
        Number of folds.
    folds_of_ : {"classes", "samples", "given"}
        What the folds split; ``"given"`` if `cv` is not a string.
    cv_results_ : dict of str to ndarray
        One row per setting, number of components and distance: ``params``, ``param_*``, ``metric``,
        ``split*_test_score``, ``mean_test_score``, ``std_test_score`` and ``rank_test_score``. Settings that cannot be
        fitted, or that were dropped after a fold, score nan, and so do angles along a single component, which are ties.

    Examples
    --------
    >>> import crossview as cv
    >>> from sklearn.pipeline import make_pipeline
    >>> data = cv.datasets.load_digits()
    >>> pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), cv.MvDA())
    >>> grid = {"viewscaler__by": ["feature", "view"], "viewpca__n_components": [10, 20], "mvda__reg": [0.01, 0.1]}
    >>> search = cv.EmbeddingSearchCV(pipeline, grid).fit(data.views[:600], data.y[:600])
    >>> search.best_params_["viewpca__n_components"]
    20
    """

    _schema: ClassVar[Schema] = {
        "estimator": stored.searchable,
        "param_grid": stored.settings,
        "folds_of_": str,
        "n_splits_": int,
        "cv_results_": stored.results,
        "best_index_": stored.rows,
        "best_params_": lambda value, sizes: stored.settings([value], sizes),
        "best_score_": float,
        "held_out_score_": float,
        "best_metric_": str,
        "members_": stored.rows,
        "best_estimator_?": stored.embedding,
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Grid,
        *,
        n_iter: int | None = None,
        metrics: Sequence[str] = ("euclidean", "cosine"),
        scoring: str = "accuracy",
        members: int = 1,
        factor: float = 1.0,
        refine: int = 0,
        max_samples: int | None = None,
        cv: Any = "auto",
        n_folds: int = 3,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
        progress: bool = False,
        resume: str | os.PathLike[str] | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_iter = n_iter
        self.metrics = metrics
        self.scoring = scoring
        self.members = members
        self.factor = factor
        self.refine = refine
        self.max_samples = max_samples
        self.cv = cv
        self.n_folds = n_folds
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.resume = resume

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.input_tags.two_d_array, tags.target_tags.required = False, True
        return tags

    def fit(self, views: ViewInput, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Score all candidates, and fit the best one on all samples.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Training samples; with ``kernel="precomputed"``, square kernel matrices.
        y : array-like of shape (m,)
            One class label per sample.
        groups : array-like of shape (m,), optional
            Groups for splitters that need them.

        Returns
        -------
        self
            The fitted search.
        """
        checked = Views(views)
        if checked._lazy:
            check_lazy(self, None, "pass arrays in memory")
        check_labels(y, checked, self)
        labels = label_array(y)
        self._check_params()
        if not get_tags(self).input_tags.pairwise:
            warn_of_kernel_matrices(checked)
        candidates = self._candidates()
        splitter, self.folds_of_ = folds(self.cv, labels, self.n_folds, self.random_state)
        splits = list(splitter.split(checked, labels, labels if self.folds_of_ == "classes" else groups))
        splits = [self._fold(train, test, labels) for train, test in splits]
        self.n_splits_ = len(splits)
        if any(len(np.unique(labels[fold.test])) < 2 for fold in splits):
            most = f"at most half as many folds as classes, {len(np.unique(labels)) // 2}"
            raise ValueError(f"a fold tests a single class, where every match is correct: use {most}.")
        self._search(checked, labels, splits, candidates)
        return self

    @property
    def extended_(self) -> Params:
        """Best parameters whose values lie beyond the listed ones, by name."""
        lists = self._lists
        return {name: value for name, value in self.best_params_.items() if value not in lists.get(name, [value])}

    def pipeline(self, params: Mapping[str, Any]) -> Any:
        """Return an unfitted copy of the estimator with the given parameters.

        Parameters
        ----------
        params : dict
            An entry of ``cv_results_["params"]``.
        """
        return clone(self.estimator).set_params(**params)

    def fit_rows(self, rows: Sequence[int], views: ViewInput, y: ArrayLike) -> list[Any]:
        """Fit several settings to the same samples, doing shared work once.

        Parameters
        ----------
        rows : sequence of int
            The settings, as rows of ``cv_results_``.
        views, y
            As in `fit`.

        Returns
        -------
        estimators : list of estimator
            One fitted estimator per row.
        """
        check_is_fitted(self, "cv_results_")
        checked, labels = Views(views), label_array(y)
        candidates = [self._candidate(self.cv_results_["params"][row]) for row in rows]
        names = [prefix.removesuffix("__") for prefix, _ in self._steps()]
        fitted: dict[int, Any] = {}
        for shared in self._shared_fits(checked, checked[:1], labels, candidates, range(len(candidates))):
            for number, embedding in zip(shared.candidates, shared.fit(), strict=True):
                if isinstance(embedding, ValueError):
                    raise embedding
                steps = list(zip(names, (*shared.steps, embedding), strict=True))
                fitted[number] = Pipeline(steps) if isinstance(self.estimator, Pipeline) else embedding
        return [fitted[number] for number in range(len(rows))]

    def transform(self, views: ViewInput) -> Any:
        """Map samples into the common space of the best estimator.

        Parameters
        ----------
        views
            As in `fit`.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(views)

    def transform_view(self, X: ArrayLike, view: int | str) -> Any:
        """Map samples of a single view with the best estimator.

        Parameters
        ----------
        X, view
            As in `crossview.transform_view`.
        """
        check_is_fitted(self, "best_estimator_")
        return transform_view(self.best_estimator_, X, view)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the components of the best estimator.

        Parameters
        ----------
        input_features : ignored
            Not used.
        """
        check_is_fitted(self, "best_estimator_")
        names: NDArray[Any] = self.best_estimator_.get_feature_names_out(input_features)
        return names

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Return the score that `scoring` names of the best estimator with the best distance.

        Like `metrics.mean_accuracy`, it leaves each probe's counterpart out of the gallery, unless `scoring` says
        otherwise.

        Parameters
        ----------
        views, y
            As in `fit`.
        """
        return float(SCORERS[self.scoring](self.transform(views), y, [_ALL_COMPONENTS], self.best_metric_)[0])

    def _check_params(self) -> None:
        if not self.metrics:
            raise ValueError("metrics is empty: name at least one distance, for example ('euclidean',).")
        for metric in self.metrics:
            check_choice(metric, "metrics", ("euclidean", "cosine"))
        check_choice(self.scoring, "scoring", tuple(SCORERS))
        check_count(self.members, "members", least=1)
        check_count(self.refine, "refine", least=0)
        if self.max_samples is not None:
            check_count(self.max_samples, "max_samples", least=2)
        check_weight(self.factor, "factor", positive=True)
        if self.factor < 1:
            raise ValueError(f"factor must be 1 or more, got {self.factor!r}.")
        *before, end = (step for _, step in self._steps())
        if isinstance(end, Committee):
            raise TypeError("cannot search for a Committee: search for one embedding, with members=8 for a committee.")
        if not isinstance(end, Embedding):
            raise TypeError(f"estimator must be an embedding or a pipeline that ends in one, got {type(end).__name__}.")
        for step in before:
            if not isinstance(step, MultiViewTransformer):
                raise TypeError(f"{type(step).__name__} is not a multi-view transformer: use one from crossview.")
        pairwise = get_tags(self).input_tags.pairwise
        if any((kernel == "precomputed") != pairwise for kernel in self._lists.get(f"{self._steps()[0][0]}kernel", [])):
            raise ValueError(
                "param_grid mixes kernels of features with kernel='precomputed', or the estimator has another kind: "
                "views are either features or kernel matrices, so search for each apart."
            )

    def _steps(self) -> list[tuple[str, Any]]:
        """Steps of the estimator, each with the prefix of its parameter names."""
        if not isinstance(self.estimator, Pipeline):
            return [("", self.estimator)]
        return [(f"{name}__", step) for name, step in self.estimator.steps if step not in (None, "passthrough")]

    @property
    def _lists(self) -> dict[str, list[Any]]:
        """Listed values of all grids, by parameter name."""
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        lists: dict[str, list[Any]] = {}
        for name, values in (item for grid in grids for item in grid.items() if not hasattr(item[1], "rvs")):
            lists[name] = [*lists.get(name, []), *values]
        return lists

    @property
    def _whitening_name(self) -> str:
        """Full name of the embedding's whitening."""
        return f"{self._steps()[-1][0]}whitening"

    @property
    def _components_name(self) -> str:
        """Full name of the embedding's number of components, if one fit serves all values; empty otherwise."""
        prefix, embedding = self._steps()[-1]
        return f"{prefix}n_components" if embedding._nested_components else ""

    def _candidates(self) -> list[Candidate]:
        """Candidates from the grid, all or drawn at random."""
        current, given = self.estimator.get_params(), self.param_grid
        searchable = sorted(name for name in current if "__" in name or not isinstance(self.estimator, Pipeline))
        grids = [dict(grid) for grid in ([given] if isinstance(given, Mapping) else given)]
        for grid in grids:
            for name in grid:
                if name not in searchable:
                    raise ValueError(f"cannot search for {name!r}: use one of {', '.join(searchable)}.")
            components = grid.get(self._components_name)
            if components is not None and not hasattr(components, "rvs"):
                grid[self._components_name] = self._shared_components(list(components))
        sampled = any(hasattr(values, "rvs") for grid in grids for values in grid.values())
        if sampled and self.n_iter is None:
            raise ValueError("param_grid contains a distribution: set n_iter to the number of settings to draw.")
        drawn = self._drawn(grids, current, sampled)
        candidates = [self._candidate(params) for params in drawn]
        for d in {d for candidate in candidates for d in candidate.dimensions}:
            check_count(d, self._components_name, least=1)
        return candidates

    def _shared_components(self, listed: list[Any]) -> list[Any]:
        """Numbers of components as one tuple, which a single fit serves, and "auto", which depends on the samples."""
        automatic = ["auto"] if self._steps()[-1][1]._allows_auto_components and "auto" in listed else []
        numbers = [d for d in listed if d not in automatic]
        for d in numbers:
            check_count(d, self._components_name, least=1)
        return ([tuple(sorted(numbers))] if numbers else []) + automatic

    def _drawn(self, grids: list[dict[str, Any]], current: Params, sampled: bool) -> list[Params]:
        """Settings from the grids: all of them, or the current one and others at random.

        Values of the whitening share an eigen-solve, so all are tried with every draw, and so are those of the number
        of components.
        """
        free = {
            name: values
            for name, values in grids[0].items()
            if name in (self._whitening_name, self._components_name)
            and isinstance(values, Sequence)
            and all(grid.get(name) == values for grid in grids)
        }
        rest = [{name: values for name, values in grid.items() if name not in free} for grid in grids]
        if self.n_iter is None or (not sampled and self.n_iter >= len(ParameterGrid(rest))):
            return list(ParameterGrid(grids))
        check_count(self.n_iter, "n_iter", least=1)
        draws = list(ParameterSampler(rest, self.n_iter, random_state=self.random_state))
        default = {
            name: current[name] if hasattr(values, "rvs") or current[name] in list(values) else values[0]
            for name, values in rest[0].items()
        }
        if default not in draws:
            draws = [default, *draws[:-1]]
        return [{**draw, **one} for draw in draws for one in ParameterGrid(free)]

    def _candidate(self, params: Params, origin: str = "") -> Candidate:
        origin = origin or _text(params, self._whitening_name, self._components_name)
        if not self._components_name:
            return Candidate(params, [_ALL_COMPONENTS], settings_text(params), origin)
        value = params.get(self._components_name, self.estimator.get_params()[self._components_name])
        value = AUTO_COMPONENTS if value == "auto" else value
        others = settings_text({name: item for name, item in params.items() if name != self._components_name})
        return Candidate(params, list(value) if isinstance(value, tuple) else [value], others, origin)

    def _search(self, views: Views, y: NDArray[Any], splits: Sequence[Fold], candidates: list[Candidate]) -> None:
        """Score the candidates, choose, and fit the best."""
        scorer = Scorer(candidates, self.metrics, self.scoring, self._score_file(views, y, splits, candidates))
        n_given, sizes = len(candidates), [len(candidates)]
        for _ in splits[1:]:
            sizes.append(min(sizes[-1], self._n_kept(sizes[-1])))
        # A committee counts as its members in every fold, and so does the final fit.
        total = sum(sizes) + len(splits) * self.members * (self.members > 1) + self.members * self.refit
        label = f"Searching for {type(self._steps()[-1][1]).__name__}"
        with progress(label, total, self.progress, unit="fits") as advance:
            found = dict(scorer.kept.known)
            advance(0, restored=sum("candidate" in name for name in found))

            def score(fold: int, numbers: Sequence[int], expected: int = 0) -> None:
                advance(0, more=len(numbers) - expected)
                self._score_fold(scorer, fold, numbers, views, y, splits[fold], found, advance)

            alive = list(range(n_given))
            for fold, size in enumerate(sizes):
                score(fold, alive, size)
                alive = scorer.leaders(found, fold + 1, alive)[: self._n_kept(len(alive))]
            for _ in range(self.refine if alive else 0):
                if not (new := self._refined(scorer, found, len(splits))):
                    break
                best = scorer.leaders(found, len(splits), range(len(candidates) - len(new)))[0]
                for k in range(1, len(splits) + 1):
                    score(k - 1, new)
                    # The best setting may owe its lead to the first folds.
                    least = scorer.best(found, k, best) - _LEAD * (1 - k / len(splits))
                    new = [c for c in new if scorer.best(found, k, c) > least]
            origins = self._store_results(scorer.collect(found, len(splits), n_given), candidates)
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            self.held_out_score_ = self._held_out_score()
            self.best_metric_ = str(self.cv_results_["metric"][self.best_index_])
            self.members_ = self._choose_members(origins)
            if len(self.members_) > 1:
                committee_score = self._committee_score(scorer.kept, views, y, splits, advance)
                if committee_score > self.held_out_score_:
                    # Between samples of unit length, the Euclidean distance depends on the angle alone, as the cosine.
                    self.best_metric_, self.best_score_ = "euclidean", committee_score
                    self.held_out_score_ = committee_score
                else:
                    self.members_ = [self.best_index_]
            if self.refit:
                advance(0, "fitting the best to all samples")
                self.best_estimator_ = self._fit_best(views, y)
                advance(self.members)

    def _n_kept(self, n_settings: int) -> int:
        """Number of settings to keep after a fold, if so many can be fitted."""
        return max(round(n_settings / self.factor), 2 * self.members, _LEAST_KEPT)

    def _refined(self, scorer: Scorer, found: Mapping[str, Score], n_folds: int) -> list[int]:
        """Add candidates that differ from one of the best by a step in one parameter; return their numbers."""
        candidates, lists, free = scorer.candidates, self._lists, (self._whitening_name, self._components_name)
        known, first = {_text(candidate.params) for candidate in candidates}, len(candidates)
        starts: dict[str, Candidate] = {}  # whitening and number of components aside, whose values are all tried
        for number in scorer.leaders(found, n_folds, range(first)):
            starts.setdefault(_text(candidates[number].params, *free), candidates[number])
        for start, *_, origin in list(starts.values())[:_STARTS]:
            for name in sorted(lists.keys() & start.keys() - {self._components_name}):
                for other in steps(lists[name], start[name]):
                    params = {**start, name: other}
                    if (text := _text(params)) not in known:
                        known.add(text)
                        candidates.append(self._candidate(params, origin))
        return list(range(first, len(candidates)))

    def _score_file(
        self, views: Views, y: NDArray[Any], splits: Sequence[Fold], candidates: list[Candidate]
    ) -> ScoreFile:
        """The file that keeps the scores of exactly this search, if there is to be one."""
        if self.resume is None:
            return ScoreFile(None)
        # Candidates are kept by number, so all that decides which ones are dropped and added counts.
        course = [self._lists, self.factor, self._n_kept(0)]
        what = [fingerprint(views, y), self._steps(), splits, candidates, self.metrics, self.scoring, course]
        return ScoreFile(self.resume, what)

    def _score_fold(
        self,
        scorer: Scorer,
        fold: int,
        numbers: Sequence[int],
        views: Views,
        y: NDArray[Any],
        split: Fold,
        found: dict[str, Score],
        advance: Advance,
    ) -> None:
        """Add the scores of candidates on one fold to those found; errors if fits fail."""
        running, in_process = deque[str](), effective_n_jobs(self.n_jobs) == 1
        missing, (train, test, probes) = scorer.missing(fold, numbers), split
        if not missing:
            return

        def jobs() -> Iterator[Any]:
            for shared in self._shared_fits(*self._parts(views, train, test), y[train], scorer.candidates, numbers):
                if first := scorer.missing(fold, shared.candidates)[:1]:
                    running.append(scorer.candidates[first[0]].description)
                    advance(0, running[0])
                    yield delayed(scorer)(fold, shared, y[test], probes, advance if in_process else silent)

        for scores in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs()):
            found |= scores
            running.popleft()
            if not in_process:
                advance(len(scores), running[0] if running else None)

    def _fold(self, train: Indices, test: Indices, labels: NDArray[Any]) -> Fold:
        """A fold with at most `max_samples` to fit settings to, and as many probes."""
        probes, n = None, self.max_samples
        if n is not None and len(test) > n:
            probes = np.zeros(len(test), dtype=bool)
            probes[np.random.RandomState(self.random_state).permutation(len(test))[:n]] = True
        return Fold(self._some(train, labels), test, probes)

    def _some(self, train: Indices, labels: NDArray[Any]) -> Indices:
        """At most `max_samples` of the training samples of a fold: whole classes, or as many of each."""
        if self.max_samples is None or len(train) <= self.max_samples:
            return train
        random = np.random.RandomState(self.random_state)
        shuffled = random.permutation(train)
        _, codes, counts = np.unique(labels[shuffled], return_inverse=True, return_counts=True)
        if self.folds_of_ == "classes":
            order = random.permutation(len(counts))
            n_classes = np.searchsorted(np.cumsum(counts[order]), self.max_samples, side="right")
            if n_classes > 1:
                return np.sort(shuffled[np.isin(codes, order[:n_classes])])
        by_class = np.argsort(codes, kind="stable")
        place = np.empty(len(train), dtype=np.intp)  # of every sample within its class
        place[by_class] = np.arange(len(train)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(shuffled[np.argsort(place, kind="stable")[: self.max_samples]])

    def _parts(self, views: Views, train: Indices, test: Indices) -> tuple[Views, Views]:
        """Training and test samples. Columns of kernel matrices are training samples."""
        known, new = views[train], views[test]
        if not get_tags(self.estimator).input_tags.pairwise:
            return known, new
        kernels = [[np.ascontiguousarray(X[:, train]) for X in part.arrays] for part in (known, new)]
        return Views._trusted(kernels[0], views.names, known.mask), Views._trusted(kernels[1], views.names, new.mask)

    def _shared_fits(
        self, train: Views, test: Views, y: NDArray[Any], candidates: Sequence[Candidate], numbers: Sequence[int]
    ) -> Iterator[SharedFit]:
        """Fits of some of the candidates, grouped by what they share."""
        prefixes, steps = zip(*self._steps(), strict=True)
        name, params = self._components_name, []
        for c in candidates:
            given = {**c.params, name: max(c.dimensions)} if c.params.get(name, "auto") != "auto" else c.params
            params.append([{key.removeprefix(p): given[key] for key in given if key.startswith(p)} for p in prefixes])
        return shared_fits(steps, params, list(numbers), train, y, test)

    def _store_results(self, scores: list[Array], candidates: list[Candidate]) -> list[str]:
        """Fill ``cv_results_``; return the origin of each of its rows."""
        name = self._components_name
        rows = [
            (number, {**params, name: d} if params.get(name, "auto") != "auto" else params, metric)
            for number, (params, dimensions, *_) in enumerate(candidates)
            for d in dimensions
            for metric in self.metrics
        ]
        params = [one for _, one, _ in rows]
        table = np.concatenate([found.reshape(len(found), -1) for found in scores], axis=1)
        mean = table.mean(axis=0)
        comparable = np.where(np.isnan(mean), -np.inf, mean)
        columns = dict.fromkeys(name for one in params for name in one)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.fromiter((one.get(name) for one in params), dtype=object) for name in columns},
            "metric": np.array([metric for _, _, metric in rows]),
            **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=0),
            "rank_test_score": rankdata(-comparable, method="min").astype(np.intp),
        }
        self.best_index_ = int(comparable.argmax())
        self.best_params_ = params[self.best_index_]
        return [candidates[number].origin for number, _, _ in rows]

    def _choose_members(self, origins: Sequence[str]) -> list[int]:
        """The best row of each of the best origins, best first: settings that are alike make the same mistakes."""
        if self.members == 1:
            return [self.best_index_]
        mean = self.cv_results_["mean_test_score"]
        # A committee compares samples by angles, so cosine scores decide if there are any.
        eligible = ~np.isnan(mean) & ((self.cv_results_["metric"] == "cosine") | ("cosine" not in self.metrics))
        order = np.flatnonzero(eligible)[np.argsort(-mean[eligible], kind="stable")]
        _, first = np.unique(np.array(origins)[order], return_index=True)
        members = [int(row) for row in order[np.sort(first)][: self.members]]
        return members if len(members) > 1 else [self.best_index_]

    def _held_out_score(self) -> float:
        """Mean score of the best setting, chosen for every fold by the other folds."""
        if self.n_splits_ == 1:
            return self.best_score_
        scores = np.array([self.cv_results_[f"split{fold}_test_score"] for fold in range(self.n_splits_)])
        scores = scores[:, ~np.isnan(scores).any(axis=0)]
        chosen = (scores.sum(axis=0) - scores).argmax(axis=1)
        return float(scores[np.arange(len(scores)), chosen].mean())

    def _committee_score(
        self, kept: ScoreFile, views: Views, y: NDArray[Any], splits: Sequence[Fold], advance: Advance
    ) -> float:
        """Mean score of the committee over the folds."""
        scores = []
        for fold, (train, test, probes) in enumerate(splits):
            advance(0, f"scoring the committee, fold {fold + 1} of {len(splits)}")
            name = f"fold {fold}, committee of {self.members_}"
            score = kept.known.get(name)
            if not isinstance(score, np.ndarray):
                known, new = self._parts(views, train, test)
                committee = self._fit_best(known, y[train])
                latents = committee._mapped(new)
                dimensions = [committee.n_components_]
                score = SCORERS[self.scoring](latents, y[test], dimensions, "euclidean", probes=probes)
                kept.append(name, score)
            scores.append(score)
            advance(self.members)
        return float(np.mean(scores))

    def _fit_best(self, views: Views, y: NDArray[Any]) -> Any:
        """Fit the best estimator, or the committee of the best."""
        fitted = self.fit_rows(self.members_, views, y)
        members = [self.pipeline(self.cv_results_["params"][row]) for row in self.members_]
        return fitted[0] if len(fitted) == 1 else Committee(members)._of(fitted, views)


def _text(params: Params, *but: str) -> str:
    """Parameters in words, whatever their order, but for some."""
    return settings_text({name: params[name] for name in sorted(params) if name not in but})
