"""Choose the parameters of an embedding, and of the steps before it, by cross-validation."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._parameters import parameters
from crossview._progress import progress
from crossview._schema import Schema, Sizes, register
from crossview._transformer import MultiViewTransformer, transform_view
from crossview._types import Array
from crossview._validation import (
    check_choice,
    check_count,
    check_labels,
    check_lazy,
    check_weight,
    label_array,
    warn_of_kernel_matrices,
)
from crossview.metrics.scoring import SCORERS, score_by_dimension
from crossview.model_selection.committee import Committee, is_fitted_embedding
from crossview.model_selection.rounds import (
    MIN_KEPT,
    ScoreFile,
    Trial,
    choose_members,
    fingerprint,
    halve,
    halving_schedule,
    held_out_score,
    refine,
)
from crossview.model_selection.space import ALL_COMPONENTS, Grid, Params, Space, part_of_fold, shared_fits
from crossview.model_selection.splits import folds
from crossview.views import ViewInput, Views

__all__ = ["EmbeddingSearchCV"]


def _is_searchable(value: Any, sizes: Sizes) -> bool:
    """A transformer, or a pipeline of these."""
    sizes["pipeline"] = isinstance(value, Pipeline)
    steps = [step for _, step in value.steps if step is not None] if isinstance(value, Pipeline) else [value]
    return all(isinstance(step, MultiViewTransformer) or step == "passthrough" for step in steps)


def _are_settings(value: Any, sizes: Sizes) -> bool:
    """Parameters of what is searched for, or a list of these."""
    given = value if isinstance(value, list | tuple) else [value]
    for name in (name for setting in given for name in setting if "__" not in name and sizes["pipeline"]):
        raise ValueError(f"a search for {name!r} of a pipeline itself could bring in a cache, or other steps")
    return all(type(setting) is dict for setting in given)


def _are_results(value: Any, sizes: Sizes) -> bool:
    """Columns with a row per setting."""
    sizes["rows"] = range(len(value["params"]))
    return _are_settings(value["params"], sizes) and all(len(column) == len(sizes["rows"]) for column in value.values())


def _are_rows(value: Any, sizes: Sizes) -> bool:
    """A row of the results, or a list of these."""
    return all(type(row) is int and row in sizes["rows"] for row in (value if type(value) is list else [value]))


@register
@parameters
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
    n_members : int
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

    estimator: Any = field(kw_only=False)
    param_grid: Grid = field(kw_only=False)
    n_iter: int | None = None
    metrics: Sequence[str] = ("euclidean", "cosine")
    scoring: str = "accuracy"
    n_members: int = 1
    factor: float = 1.0
    refine: int = 0
    max_samples: int | None = None
    cv: Any = "auto"
    n_folds: int = 3
    refit: bool = True
    n_jobs: int | None = None
    random_state: int = 0
    resume: str | os.PathLike[str] | None = None

    _schema: ClassVar[Schema] = {
        "estimator": _is_searchable,
        "param_grid": _are_settings,
        "folds_of_": str,
        "n_splits_": int,
        "cv_results_": _are_results,
        "best_index_": _are_rows,
        "best_params_": lambda value, sizes: _are_settings([value], sizes),
        "best_score_": float,
        "held_out_score_": float,
        "best_metric_": str,
        "members_": _are_rows,
        "best_estimator_?": is_fitted_embedding,
    }

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
        check_lazy(checked.arrays[0], self, instead="pass arrays in memory")
        check_labels(y, checked, self)
        labels, space = label_array(y), Space(self.estimator, self.param_grid)
        self._check_params()
        space.check()
        if not get_tags(self).input_tags.pairwise:
            warn_of_kernel_matrices(checked)
        candidates = space.draw(self.n_iter, self.random_state)
        splitter, self.folds_of_ = folds(self.cv, labels, self.n_folds, self.random_state)
        splits = splitter.split(checked, labels, labels if self.folds_of_ == "classes" else groups)
        part = self.max_samples, self.folds_of_ == "classes", self.random_state
        parts = [part_of_fold(train, test, labels, *part) for train, test in splits]
        self.n_splits_ = len(parts)
        if any(len(np.unique(labels[fold.test])) < 2 for fold in parts):
            most = f"at most half as many folds as classes, {len(np.unique(labels)) // 2}"
            raise ValueError(f"a fold tests a single class, where every match is correct: use {most}.")
        least = max(2 * self.n_members, MIN_KEPT)
        schedule = halving_schedule(len(candidates), len(parts), self.factor, least)
        # Candidates are kept by number, so all that decides which ones are dropped and added counts.
        what = [space.steps, parts, candidates, self.metrics, self.scoring, space.lists, self.factor, least]
        kept = ScoreFile(self.resume, None if self.resume is None else [fingerprint(checked, labels), *what])
        # A committee counts as its members in every fold, and so does the final fit.
        total = sum(schedule) + len(parts) * self.n_members * (self.n_members > 1) + self.n_members * self.refit
        label = f"Searching for {type(space.steps[-1][1]).__name__}"
        with kept, progress(label, total, unit="fits") as advance:
            how = self.metrics, self.scoring, kept, self.n_jobs, advance
            trial = Trial(space, candidates, checked, labels, parts, *how)
            advance(0, restored=sum("candidate" in name for name in trial.scores))
            if halve(trial, schedule, self.factor, least):
                refine(trial, self.refine)
            self._choose(trial, schedule[0])
        return self

    @property
    def extended_(self) -> Params:
        """Best parameters whose values lie beyond the listed ones, by name."""
        lists = Space(self.estimator, self.param_grid).lists
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
        space = Space(self.estimator, self.param_grid)
        candidates = [space.candidate(self.cv_results_["params"][row]) for row in rows]
        names = [prefix.removesuffix("__") for prefix, _ in space.steps]
        fitted: dict[int, Any] = {}
        for shared in shared_fits(space, candidates, range(len(rows)), checked, labels, checked[:1]):
            for number, embedding in zip(shared.numbers, shared.fit(), strict=True):
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
        latents = self.transform(views)
        return float(score_by_dimension(latents, y, [ALL_COMPONENTS], self.best_metric_, self.scoring)[0])

    def _check_params(self) -> None:
        if not self.metrics:
            raise ValueError("metrics is empty: name at least one distance, for example ('euclidean',).")
        for metric in self.metrics:
            check_choice(metric, "metrics", ("euclidean", "cosine"))
        check_choice(self.scoring, "scoring", tuple(SCORERS))
        check_count(self.n_members, "n_members", least=1)
        check_count(self.refine, "refine", least=0)
        if self.max_samples is not None:
            check_count(self.max_samples, "max_samples", least=2)
        check_weight(self.factor, "factor", positive=True)
        if self.factor < 1:
            raise ValueError(f"factor must be 1 or more, got {self.factor!r}.")

    def _choose(self, trial: Trial, n_given: int) -> None:
        """Store the scores, choose the best setting or a committee, and fit it."""
        origins = self._store_results(trial, trial.table(n_given))
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.held_out_score_ = held_out_score(self.cv_results_, self.n_splits_)
        self.best_metric_ = str(self.cv_results_["metric"][self.best_index_])
        self.members_ = [self.best_index_]
        # A committee compares samples by angles, so cosine scores decide if there are any.
        eligible = (self.cv_results_["metric"] == "cosine") | ("cosine" not in self.metrics)
        members = choose_members(self.cv_results_["mean_test_score"], eligible, origins, self.n_members)
        if self.n_members > 1 and len(members) > 1:
            self.members_ = members
            committee_score = self._committee_score(trial)
            if committee_score > self.held_out_score_:
                # Between samples of unit length, the Euclidean distance depends on the angle alone, as the cosine.
                self.best_metric_, self.best_score_ = "euclidean", committee_score
                self.held_out_score_ = committee_score
            else:
                self.members_ = [self.best_index_]
        if self.refit:
            trial.advance(0, "fitting the best to all samples")
            self.best_estimator_ = self._fit_best(trial.views, trial.y)
            trial.advance(self.n_members)

    def _store_results(self, trial: Trial, table: Array) -> list[str]:
        """Fill ``cv_results_``; return the origin of each of its rows."""
        rows = [
            (trial.space.with_components(candidate, d), metric, candidate.origin)
            for candidate in trial.candidates
            for d in candidate.dimensions
            for metric in self.metrics
        ]
        params, metrics, origins = (list(column) for column in zip(*rows, strict=True))
        mean = table.mean(axis=0)
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        columns = dict.fromkeys(name for one in params for name in one)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.fromiter((one.get(name) for one in params), dtype=object) for name in columns},
            "metric": np.array(metrics),
            **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=0),
            "rank_test_score": rankdata(-ranked, method="min").astype(np.intp),
        }
        self.best_index_ = int(ranked.argmax())
        self.best_params_ = params[self.best_index_]
        return origins

    def _committee_score(self, trial: Trial) -> float:
        """Mean score of the committee over the folds."""
        scores = []
        for fold, (train, test, probes) in enumerate(trial.folds):
            trial.advance(0, f"scoring the committee, fold {fold + 1} of {self.n_splits_}")
            name = f"fold {fold}, committee of {self.members_}"
            score = trial.scores.get(name)
            if not isinstance(score, np.ndarray):
                known, new = trial.take(fold)
                latents = self._fit_best(known, trial.y[train])._mapped(new)
                score = score_by_dimension(latents, trial.y[test], [ALL_COMPONENTS], "euclidean", self.scoring, probes)
                trial.kept.append(name, score)
            scores.append(score)
            trial.advance(self.n_members)
        return float(np.mean(scores))

    def _fit_best(self, views: Views, y: NDArray[Any]) -> Any:
        """Fit the best estimator, or the committee of the best."""
        fitted = self.fit_rows(self.members_, views, y)
        members = [self.pipeline(self.cv_results_["params"][row]) for row in self.members_]
        return fitted[0] if len(fitted) == 1 else Committee(members)._of(fitted, views)
