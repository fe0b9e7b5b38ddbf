"""Choose the parameters of an embedding, and of what comes before it, by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._transformer import MultiViewTransformer, transform_view
from crossview._types import Array
from crossview._validation import check_choice, check_count, check_labels
from crossview.embeddings._base import AUTO_COMPONENTS, Embedding
from crossview.exceptions import NotApplicableError
from crossview.metrics import accuracy_by_dimension, mean_accuracy, precision_by_dimension
from crossview.recognition.branches import LAST, Branch, Setting, grow
from crossview.recognition.committee import Committee, unit_length
from crossview.recognition.splits import folds
from crossview.views import ViewInput, Views

__all__ = ["EmbeddingSearchCV"]

Rows = NDArray[np.intp]
Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_SCORINGS = {"accuracy": accuracy_by_dimension, "average_precision": precision_by_dimension}


class EmbeddingSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search for the parameters of an embedding, or of a pipeline that ends in one, and for the distance after it.

    This is scikit-learn's ``GridSearchCV`` (``RandomizedSearchCV`` with `n_iter`) for embeddings: scores and parameter
    names are the same, but what need not be fitted again is not. Steps before the embedding are fitted once per fold
    for all candidates that share them, every embedding gives all numbers of components from one fit, and estimators
    that can change some parameters cheaply do so: `ViewPCA` its number of components, `MvHE` and `KMvHE` their weights
    and numbers of neighbours, at one eigen-solve per candidate.

    Parameters
    ----------
    estimator : Embedding or Pipeline
        An embedding, or a pipeline of multi-view transformers that ends in one.
    param_grid : dict or list of dict
        Values to try by parameter name, as in ``set_params``: ``mvhe__beta`` in a pipeline made by ``make_pipeline``.
        Values are lists, or distributions with a method ``rvs`` if `n_iter` is given.
    n_iter : int, optional
        How many settings to draw at random; None tries all. The embedding's number of components does not count, since
        all that are listed come from one fit. The estimator's own parameters, where they are listed, are always among
        the settings.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try.
    scoring : {"accuracy", "average_precision"}
        What folds are scored by: mACC, or the mean average precision over ordered pairs of views.
    members : int
        With more than 1, the best estimator is a `Committee` of that many of the best different settings.
    cv : {"auto", "classes", "samples"}, int, iterable or splitter
        What folds are made of. With ``"classes"``, classes to be recognised are not among those to learn from; with
        ``"samples"`` they are. Choose what your test data are like. ``"auto"`` takes classes if there are at least four
        for every fold, and samples otherwise. Anything else is taken as scikit-learn takes it.
    n_folds : int
        Number of folds; fewer where there are too few classes or samples for so many.
    refit : bool
        Fit the best estimator on all samples in the end. Without, there is no ``best_estimator_``.
    n_jobs : int, optional
        Fits in parallel, as in joblib.
    random_state : int
        Seed of the folds and of the draw.
    progress : bool
        Show a progress bar, which needs the package rich.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best parameters, fitted on all samples; a `Committee` if there are members.
    best_params_ : dict
        The best parameters: ``estimator.set_params(**search.best_params_)`` has them.
    best_metric_ : str
        The best distance for ``best_estimator_``.
    best_score_ : float
        Mean score of ``best_estimator_`` over the folds.
    best_index_ : int
        Row of the best parameters in ``cv_results_``.
    members_ : list of int
        Rows of the committee's members in ``cv_results_``, best first; the best row alone without a committee.
    n_splits_ : int
        Number of folds.
    folds_of_ : {"classes", "samples", "given"}
        What the folds were made of; ``"given"`` if `cv` is a splitter.
    cv_results_ : dict of str to ndarray
        One row per setting, number of components and distance: ``params``, ``param_*``, ``metric``,
        ``split*_test_score``, ``mean_test_score``, ``std_test_score`` and ``rank_test_score``. Settings that cannot be
        fitted score nan.

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

    def __init__(
        self,
        estimator: Any,
        param_grid: Grid,
        *,
        n_iter: int | None = None,
        metrics: Sequence[str] = ("euclidean", "cosine"),
        scoring: str = "accuracy",
        members: int = 1,
        cv: Any = "auto",
        n_folds: int = 5,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: int = 0,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_iter = n_iter
        self.metrics = metrics
        self.scoring = scoring
        self.members = members
        self.cv = cv
        self.n_folds = n_folds
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, views: ViewInput, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Score all candidates, and fit the best on all samples.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Training samples; with ``kernel="precomputed"``, square kernel matrices.
        y : array-like of shape (m,)
            One class label per sample.
        groups : array-like of shape (m,), optional
            For splitters that need them.

        Returns
        -------
        self
            Fitted.
        """
        checked = Views(views)
        check_labels(y, len(checked), self)
        labels = column_or_1d(y)
        self._check()
        candidates, dimensions = self._candidates()
        splitter, self.folds_of_ = folds(self.cv, labels, self.n_folds, self.random_state)
        splits = list(splitter.split(checked, labels, groups))
        self.n_splits_ = len(splits)
        for _, test in splits:
            if len(np.unique(labels[test])) < 2:
                raise ValueError("a fold has one class to test with, in which every match is right: use fewer folds.")
        scores = self._scores(checked, labels, splits, candidates, dimensions)
        candidate_of = self._collect(scores, candidates, dimensions)
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_metric_ = str(self.cv_results_["metric"][self.best_index_])
        self.members_ = self._choose_members(candidate_of)
        if len(self.members_) > 1:
            # Latent samples of unit length have no other distance than that of their angles.
            self.best_metric_ = "euclidean"
            self.best_score_ = self._committee_score(checked, labels, splits)
        if self.refit:
            self.best_estimator_ = self._best(checked, labels)
        return self

    def pipeline(self, params: Mapping[str, Any]) -> Any:
        """The estimator with given parameters, not fitted.

        Parameters
        ----------
        params : dict
            An entry of ``cv_results_["params"]``.
        """
        return clone(self.estimator).set_params(**params)

    def fit_rows(self, rows: Sequence[int], views: ViewInput, y: ArrayLike) -> list[Any]:
        """Fit several settings to the same samples, sharing what they have in common.

        Parameters
        ----------
        rows : sequence of int
            The settings, as rows of ``cv_results_``.
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        y : array-like of shape (m,)
            Their classes.

        Returns
        -------
        estimators : list of estimator
            One per row, fitted.
        """
        check_is_fitted(self, "cv_results_")
        everyone = np.arange(len(column_or_1d(y)))
        found = self._fit_rows(rows, Views(views), column_or_1d(y), everyone, everyone[:1])
        return [self._assembled(steps) for steps, _ in found]

    def transform(self, views: ViewInput) -> Any:
        """Map samples into the common space of the best estimator.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(views)

    def transform_view(self, X: ArrayLike, view: int | str) -> Array:
        """Map samples of one view alone by the best estimator.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Samples as the view sees them.
        view : int or str
            The view, by position or name.
        """
        check_is_fitted(self, "best_estimator_")
        return transform_view(self.best_estimator_, X, view)

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Mean cross-view accuracy (mACC) of the best estimator with the best distance.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        y : array-like of shape (m,)
            Their classes.
        """
        return mean_accuracy(self.transform(views), y, self.best_metric_)

    def _check(self) -> None:
        if not self.metrics:
            raise ValueError("metrics is empty: name at least one distance, for example ('euclidean',).")
        for metric in self.metrics:
            check_choice(metric, "metrics", ("euclidean", "cosine"))
        check_choice(self.scoring, "scoring", tuple(_SCORINGS))
        check_count(self.members, "members", least=1)
        steps = self._steps()
        if not isinstance(steps[-1][1], Embedding):
            raise TypeError(
                f"the search needs an embedding, or a pipeline that ends in one, got {type(steps[-1][1]).__name__}."
            )
        for _, step in steps:
            if not isinstance(step, MultiViewTransformer):
                raise TypeError(f"{type(step).__name__} is no multi-view transformer: use those of crossview.")

    def _steps(self) -> list[tuple[str, Any]]:
        """The steps with what their parameters' names start with; nothing where there is no pipeline."""
        if not isinstance(self.estimator, Pipeline):
            return [("", self.estimator)]
        return [(f"{name}__", step) for name, step in self.estimator.steps if step not in (None, "passthrough")]

    def _candidates(self) -> tuple[list[Setting], list[list[int]]]:
        """Settings that take a fit of their own, and the numbers of components to score of each."""
        last = self._steps()[-1][0] + LAST
        given = self.estimator.get_params()
        grids = self._grids()
        for grid in grids:
            for name in grid:
                if name not in given or (isinstance(self.estimator, Pipeline) and "__" not in name):
                    known = ", ".join(sorted(name for name in given if "__" in name or self._steps()[0][0] == ""))
                    raise ValueError(f"{name!r} is no parameter of the estimator to search for: use one of {known}.")
            if last in grid and not hasattr(grid[last], "rvs"):
                grid[last] = [tuple(sorted(grid[last]))]
        total = None if any(hasattr(v, "rvs") for grid in grids for v in grid.values()) else len(ParameterGrid(grids))
        if total is None and self.n_iter is None:
            raise ValueError("param_grid has a distribution: say how many settings to draw, by n_iter.")
        if self.n_iter is None or (total is not None and self.n_iter >= total):
            drawn = list(ParameterGrid(grids))
        else:
            check_count(self.n_iter, "n_iter", least=1)
            drawn = list(ParameterSampler(grids, self.n_iter, random_state=self.random_state))
            own = {name: _listed(given[name], values) for name, values in grids[0].items()}
            if own not in drawn:
                drawn = [own, *drawn[:-1]]
        dimensions = [self._numbers(candidate) for candidate in drawn]
        for d in {d for numbers in dimensions for d in numbers}:
            check_count(d, last, least=1)
        return drawn, dimensions

    def _grids(self) -> list[Setting]:
        return [dict(grid) for grid in ([self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid)]

    def _numbers(self, candidate: Setting) -> list[int]:
        """Numbers of components to score of a candidate."""
        name = self._steps()[-1][0] + LAST
        own = self.estimator.get_params()[name]
        value = candidate.get(name, AUTO_COMPONENTS if own == "auto" else own)
        return list(value) if isinstance(value, tuple) else [value]

    def _scores(
        self,
        views: Views,
        y: NDArray[Any],
        splits: Sequence[tuple[Rows, Rows]],
        candidates: list[Setting],
        dimensions: list[list[int]],
    ) -> list[Array]:
        """For every candidate, its scores by fold, number of components and distance; nan where it has no fit."""
        scores = [np.full((len(splits), len(numbers), len(self.metrics)), np.nan) for numbers in dimensions]
        branches = (
            (f, y[train], y[test], branch)
            for f, (train, test) in enumerate(splits)
            for branch in self._branches(views, y, train, test, candidates, dimensions)
        )
        jobs = (
            delayed(_score)(branch, known_y, new_y, dimensions, self.metrics, self.scoring, f)
            for f, known_y, new_y, branch in branches
        )
        failures: list[ValueError] = []
        total = len(splits) * len(candidates)
        with _progress(f"Searching for {type(self._steps()[-1][1]).__name__}", total, self.progress) as advance:
            for f, found in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
                for number, row in found:
                    if isinstance(row, ValueError):
                        failures.append(row)
                    else:
                        scores[number][f] = row
                advance(len(found))
        if all(np.isnan(found).any(axis=0).all() for found in scores):
            if all(isinstance(error, NotApplicableError) for error in failures):
                raise failures[-1]
            raise ValueError(f"no setting can be fitted in every fold: {failures[-1]}")
        if failures:
            message = f"{len(failures)} of {total} fits failed; the last: {failures[-1]}"
            warnings.warn(message, FitFailedWarning, stacklevel=3)
        return scores

    def _branches(
        self,
        views: Views,
        y: NDArray[Any],
        train: Rows,
        test: Rows,
        candidates: Sequence[Setting],
        dimensions: Sequence[Sequence[int]],
    ) -> Iterator[Branch]:
        """What is to be fitted of the candidates on the training rows, each step before the embedding once."""
        known, new = views[train], views[test]
        if get_tags(self.estimator).input_tags.pairwise:
            # Kernel values against the training samples: columns are samples, too.
            known, new = (_columns(part, train) for part in (known, new))
        steps = self._steps()
        own = [
            [
                {name.removeprefix(prefix): value for name, value in candidate.items() if name.startswith(prefix)}
                for prefix, _ in steps
            ]
            for candidate in candidates
        ]
        for settings, numbers in zip(own, dimensions, strict=True):
            if LAST in settings[-1]:
                settings[-1][LAST] = max(numbers)
        return grow(steps, own, list(range(len(candidates))), (), known, y[train], new)

    def _collect(self, scores: list[Array], candidates: list[Setting], dimensions: list[list[int]]) -> Rows:
        """Fill ``cv_results_``, and say which candidate every row of it belongs to."""
        last = self._steps()[-1][0] + LAST
        rows = [
            (number, {**candidate, last: d} if last in candidate else candidate, metric)
            for number, (candidate, numbers) in enumerate(zip(candidates, dimensions, strict=True))
            for d in numbers
            for metric in self.metrics
        ]
        params = [one for _, one, _ in rows]
        table = np.concatenate([found.reshape(len(found), -1) for found in scores], axis=1)
        mean = table.mean(axis=0)
        worth = np.where(np.isnan(mean), -np.inf, mean)
        names = dict.fromkeys(name for one in params for name in one)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": _objects([one.get(name) for one in params]) for name in names},
            "metric": np.array([metric for _, _, metric in rows]),
            **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=0),
            "rank_test_score": np.searchsorted(-np.sort(worth)[::-1], -worth) + 1,
        }
        self.best_index_ = int(worth.argmax())
        self.best_params_ = params[self.best_index_]
        return np.array([number for number, _, _ in rows])

    def _choose_members(self, candidate_of: Rows) -> list[int]:
        """The best row of each of the best candidates, best first."""
        if self.members == 1:
            return [self.best_index_]
        mean = self.cv_results_["mean_test_score"]
        # In a committee samples are compared by angles: where these were tried, they decide.
        counts = ~np.isnan(mean) & ((self.cv_results_["metric"] == "cosine") | ("cosine" not in self.metrics))
        order = np.flatnonzero(counts)[np.argsort(-mean[counts], kind="stable")]
        _, first = np.unique(candidate_of[order], return_index=True)
        return [int(row) for row in order[np.sort(first)][: self.members]]

    def _committee_score(self, views: Views, y: NDArray[Any], splits: Sequence[tuple[Rows, Rows]]) -> float:
        """Mean score of the committee over the folds."""
        scores = []
        for train, test in splits:
            fitted = self._fit_rows(self.members_, views, y, train, test)
            latents = [steps[-1].transform(new).arrays for steps, new in fitted]
            joined = [np.hstack([unit_length(Z) for Z in parts]) for parts in zip(*latents, strict=True)]
            scores.append(_SCORINGS[self.scoring](joined, y[test], [joined[0].shape[1]], "euclidean")[0])
        return float(np.mean(scores))

    def _best(self, views: Views, y: NDArray[Any]) -> Any:
        """The best estimator, or the committee of the best, fitted on all samples."""
        fitted = self.fit_rows(self.members_, views, y)
        if len(fitted) == 1:
            return fitted[0]
        members = [self.pipeline(self.cv_results_["params"][row]) for row in self.members_]
        return Committee(members)._of(fitted, views)

    def _fit_rows(
        self, rows: Sequence[int], views: Views, y: NDArray[Any], train: Rows, test: Rows
    ) -> list[tuple[tuple[Any, ...], Views]]:
        """Fitted steps of every setting, and the test samples before the last of them."""
        chosen = [dict(self.cv_results_["params"][row]) for row in rows]
        dimensions = [self._numbers(candidate) for candidate in chosen]
        found: dict[int, tuple[tuple[Any, ...], Views]] = {}
        for branch in self._branches(views, y, train, test, chosen, dimensions):
            for number, fitted in branch.fits(y[train]):
                if isinstance(fitted, ValueError):
                    raise fitted
                found[number] = ((*branch.steps, fitted), branch.new)
        return [found[number] for number in range(len(chosen))]

    def _assembled(self, fitted: Sequence[Any]) -> Any:
        """Fitted steps as one estimator."""
        if not isinstance(self.estimator, Pipeline):
            return fitted[0]
        names = [name for name, step in self.estimator.steps if step not in (None, "passthrough")]
        return Pipeline(list(zip(names, fitted, strict=True)))


def _score(
    branch: Branch,
    known_y: NDArray[Any],
    new_y: NDArray[Any],
    dimensions: list[list[int]],
    metrics: Sequence[str],
    scoring: str,
    fold: int,
) -> tuple[int, list[tuple[int, Array | ValueError]]]:
    """The fold, and for every candidate of a branch its number and scores by number of components and distance."""
    found: list[tuple[int, Array | ValueError]] = []
    for number, fitted in branch.fits(known_y):
        try:
            if isinstance(fitted, ValueError):
                raise fitted
            latents = fitted.transform(branch.new)
            columns = [_SCORINGS[scoring](latents, new_y, dimensions[number], metric) for metric in metrics]
            found.append((number, np.column_stack(columns)))
        except ValueError as error:
            found.append((number, error))
    return fold, found


@contextmanager
def _progress(label: str, total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar; what is given advances it."""
    if not wanted:
        yield lambda steps: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError as error:
        raise ImportError("a progress bar needs rich: pip install 'crossview[cli]', or progress=False.") from error
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def _listed(value: Any, values: Any) -> Any:
    """A value, or the first of those listed where it is not among them."""
    return value if hasattr(values, "rvs") or value in list(values) else values[0]


def _columns(views: Views, columns: Rows) -> Views:
    """Some columns of every view."""
    return Views._trusted([np.ascontiguousarray(X[:, columns]) for X in views.arrays], views.names, views.mask)


def _objects(values: list[Any]) -> NDArray[Any]:
    """A column of values, whatever these are."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
