"""Choose a method's parameters by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid, ParameterSampler, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from crossview.embeddings._base import Embedding, check_choice, check_count, check_flag, check_labels
from crossview.embeddings._parts import HybridWeights
from crossview.embeddings.hybrid import KMvHE, MvHE
from crossview.embeddings.methods import METHODS, SEARCH_SPACES
from crossview.embeddings.one_view import transform_view
from crossview.recognition.metrics import accuracy_by_dimension, mean_accuracy, precision_by_dimension
from crossview.recognition.pipelines import first_features, reducers, tuned_pipeline
from crossview.recognition.splits import ClassKFold
from crossview.views import Array, ViewInput, Views

__all__ = ["EmbeddingSearchCV", "HybridSearchCV", "tune"]

Candidate = dict[str, Any]
Rows = NDArray[np.intp]
Scores = tuple[Array, list[str]]

_PCA = (20, 40, 80, 160)
_CLASSES_PER_FOLD = 4
_SCORINGS = {"accuracy": accuracy_by_dimension, "average_precision": precision_by_dimension}
_WEIGHTS = {
    "lambda_paired": "paired",
    "lambda_intra": "intra",
    "lambda_inter": "inter",
    "beta": "beta",
    "n_within": "n_within",
    "n_between": "n_between",
}


@dataclass(frozen=True)
class _Fold:
    """Training and test samples of a fold, scaled and reduced as far as any candidate wants."""

    known: Views
    known_y: NDArray[Any]
    new: Views
    new_y: NDArray[Any]


class EmbeddingSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search for the parameters of an embedding, the PCA before it, and the distance after it.

    Features are standardised and reduced by PCA first. What costs nothing is not fitted for: the
    first components of a PCA or an embedding are the PCA or embedding with fewer, so every candidate is fitted once
    per fold for all values of ``n_components`` and all distances.

    Parameters
    ----------
    estimator : Embedding
        The method.
    param_grid : dict of str to sequence
        Values to try.
    pca : sequence of int, optional
        Dimensions of the PCA to try. In the place of those larger than the number of features, that number is tried;
        more than there are samples are left out. None: no PCA.
    pooled : bool or "auto"
        Whether scaler and PCA treat the samples of all views as one set, as the paper does for images of one kind, or
        every view by itself, as unlike sensors want. By default the former, if the views have equal numbers of
        features.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try.
    scoring : {"accuracy", "average_precision"}
        What folds are scored by: mACC, or the mean average precision over ordered pairs of views. With few classes in
        a fold nearly all nearest neighbours are right, and chance decides between candidates; the precision still
        tells them apart. But it asks for all samples of a class to be near, where accuracy asks for one.
    n_iter : int, optional
        How many candidates, combinations of PCA dimension and parameters but for ``n_components``, to draw; None tries
        all.
    n_folds : int
        Number of folds.
    cv : {"auto", "classes", "samples"}, int, iterable or splitter
        What folds are made of. Classes: those to be recognised are not among those to learn from. Samples: they are.
        By default classes, as the paper has it, if there are at least four for every fold, and samples otherwise,
        which fewer classes suggest; if there are too few samples for so many folds, there are fewer folds. Anything
        else is taken as scikit-learn takes it.
    n_jobs : int, optional
        Fits in parallel, as in joblib.
    random_state : int
        Seed of the folds and of the draw.
    progress : bool
        Show a progress bar, which needs the package rich.

    Attributes
    ----------
    best_estimator_ : Pipeline
        Scaler, PCA if any, and the method, with the best parameters, fitted on all samples.
    best_params_ : dict
        The best parameters, ``pca`` and ``metric`` among them.
    best_score_ : float
        Their mean score over the folds.
    best_index_ : int
        Their row in ``cv_results_``.
    n_splits_ : int
        How many folds there were.
    pooled_ : bool
        Whether samples of all views were scaled and reduced as one set.
    cv_results_ : dict of str to ndarray
        One row per candidate, number of components and distance: ``params``, ``param_*``, ``split*_test_score``,
        ``mean_test_score``, ``std_test_score``, ``rank_test_score``. Combinations that cannot be fitted are nan.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.01, 0.1], "n_components": [5, 9]}, pca=[10, 20])
    >>> search.fit(data.views[:600], data.y[:600]).best_params_["pca"]
    20
    """

    def __init__(
        self,
        estimator: Embedding,
        param_grid: Mapping[str, Sequence[Any]],
        *,
        pca: Sequence[int] | None = _PCA,
        pooled: bool | str = "auto",
        metrics: Sequence[str] = ("euclidean", "cosine"),
        scoring: str = "accuracy",
        n_iter: int | None = None,
        n_folds: int = 5,
        cv: Any = "auto",
        n_jobs: int | None = None,
        random_state: int = 0,
        progress: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.pca = pca
        self.pooled = pooled
        self.metrics = metrics
        self.scoring = scoring
        self.n_iter = n_iter
        self.n_folds = n_folds
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, views: ViewInput, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Score all candidates, and fit the best on all samples.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Training samples.
        y : array-like of shape (m,)
            One class label per sample.
        groups : array-like of shape (m,), optional
            For splitters that want them.

        Returns
        -------
        self
            Fitted.
        """
        checked = Views(views)
        check_labels(y, len(checked), self)
        labels = column_or_1d(y)
        for metric in self.metrics:
            check_choice(metric, "metrics", ("euclidean", "cosine"))
        check_choice(self.scoring, "scoring", tuple(_SCORINGS))
        self.pooled_ = self._check_pooled(checked)
        model, grid = self._problem()
        for name in grid:
            if name not in model.get_params():
                raise ValueError(f"{type(model).__name__} has no parameter {name!r} to search for.")
        dimensions = sorted(grid.pop("n_components", [model.get_params()["n_components"]]))
        splits = list(self._splitter(labels).split(checked, labels, groups))
        self.n_splits_ = len(splits)
        for _, test in splits:
            if len(np.unique(labels[test])) < 2:
                raise ValueError("a fold has one class to test with, in which every match is right: use fewer folds.")
        if dimensions[0] > (most := min(*checked.n_features, min(len(train) for train, _ in splits) - 1)):
            dimensions = [most]
        candidates = self._candidates(grid, checked, splits)
        folds = [self._fold(checked, labels, train, test, candidates) for train, test in splits]
        groups_of_candidates = self._groups(candidates)
        places = [(f, group) for f in range(len(folds)) for group in groups_of_candidates]
        tasks = [(folds[f], [candidates[k] for k in group], dimensions) for f, group in places]
        scores = np.full((len(folds), len(candidates), len(dimensions), len(self.metrics)), np.nan)
        failures = []
        for (f, group), (found, errors) in zip(places, self._run(model, tasks), strict=True):
            scores[f, group] = found
            failures += errors
        if np.isnan(scores).any(axis=0).all():
            raise ValueError(f"no combination of parameters can be fitted in every fold: {failures[-1]}")
        if failures:
            message = f"{len(failures)} of {len(folds) * len(candidates)} fits failed; the last: {failures[-1]}"
            warnings.warn(message, FitFailedWarning, stacklevel=2)
        self._collect(scores, candidates, dimensions)
        with _more_components_than_there_are():
            self.best_estimator_ = self.pipeline(self.best_params_).fit(checked, labels)
        return self

    def pipeline(self, params: Mapping[str, Any]) -> Pipeline:
        """Scaler, PCA if any, and the method, with the given parameters, not fitted.

        Parameters
        ----------
        params : dict
            An entry of ``cv_results_["params"]``.
        """
        check_is_fitted(self, "pooled_")
        return tuned_pipeline(self._problem()[0], params, self.pooled_)

    def transform(self, views: ViewInput) -> Any:
        """Map samples into the common space by the best estimator.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        """
        check_is_fitted(self)
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
        check_is_fitted(self)
        return transform_view(self.best_estimator_, X, view)

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Mean cross-view accuracy (mACC) by the best estimator and the best distance.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        y : array-like of shape (m,)
            Their classes.
        """
        return mean_accuracy(self.transform(views), y, self.best_params_["metric"])

    def _problem(self) -> tuple[Embedding, dict[str, Sequence[Any]]]:
        """The method, and what to try."""
        return self.estimator, dict(self.param_grid)

    def _check_pooled(self, views: Views) -> bool:
        equal = len(set(views.n_features)) == 1
        if self.pooled == "auto":
            return equal
        check_flag(self.pooled, "pooled")
        if self.pooled and not equal:
            raise ValueError(f"views with {views.n_features} features cannot be pooled: use pooled=False.")
        return bool(self.pooled)

    def _splitter(self, y: NDArray[Any]) -> Any:
        if not isinstance(self.cv, str):
            return check_cv(self.cv, y, classifier=True)
        check_choice(self.cv, "cv", ("auto", "classes", "samples"))
        check_count(self.n_folds, "n_folds", least=2)
        kind, n_folds = self._folds(y) if self.cv == "auto" else (self.cv, self.n_folds)
        if kind == "classes":
            return ClassKFold(n_folds, self.random_state)
        if n_folds > (most := np.unique(y, return_counts=True)[1].max()):
            raise ValueError(f"{n_folds} folds of samples want a class of so many, the largest has {most}: use fewer.")
        return StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state)

    def _folds(self, y: NDArray[Any]) -> tuple[str, int]:
        """What to make folds of, and how many."""
        counts = np.unique(y, return_counts=True)[1]
        if len(counts) >= _CLASSES_PER_FOLD * self.n_folds:
            return "classes", self.n_folds
        if counts.min() >= self.n_folds:
            return "samples", self.n_folds
        # There is little of both: as many folds as the better of them allows.
        possible = {"classes": len(counts) // 2, "samples": int(counts.min())}
        kind = max(possible, key=lambda name: possible[name])
        if possible[kind] < 2:
            raise ValueError("too few samples to make folds of: there must be four classes, or two samples of each.")
        return kind, min(self.n_folds, possible[kind])

    def _candidates(
        self, grid: dict[str, Sequence[Any]], views: Views, splits: Sequence[tuple[Rows, Rows]]
    ) -> list[Candidate]:
        """Everything that takes a fit of its own."""
        if self.pca is not None:
            seen = [views.mask[train].sum(axis=0) for train, _ in splits]
            samples = min(int(count.sum() if self.pooled_ else count.min()) for count in seen)
            features = min(views.n_features)
            tried = {k for k in self.pca if k <= min(features, samples)} or {min(features, samples)}
            if max(self.pca) > features and features < samples:
                tried.add(features)  # all of them: what is too much to ask for is not to mean less than there is
            grid = grid | {"pca": sorted(tried)}
        if self.n_iter is None or self.n_iter >= len(ParameterGrid(grid)):
            return list(ParameterGrid(grid))
        return list(ParameterSampler(grid, self.n_iter, random_state=self.random_state))

    def _fold(self, views: Views, y: NDArray[Any], train: Rows, test: Rows, candidates: Sequence[Candidate]) -> _Fold:
        most = None if self.pca is None else max(c["pca"] for c in candidates)
        reduce = make_pipeline(*reducers(most, self.pooled_))
        return _Fold(reduce.fit_transform(views[train]), y[train], reduce.transform(views[test]), y[test])

    def _groups(self, candidates: Sequence[Candidate]) -> list[list[int]]:
        """Candidates that are fitted one after another, by their number."""
        return [[k] for k in range(len(candidates))]

    def _run(self, model: Embedding, tasks: Sequence[tuple[_Fold, list[Candidate], list[int]]]) -> Iterator[Scores]:
        """Scores of every task, of shape (candidates, dimensions, distances), and why those that are nan are so."""
        jobs = (delayed(self._score)(model, *task) for task in tasks)
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)
        if not self.progress:
            yield from results
            return
        try:
            from rich.console import Console
            from rich.progress import track
        except ImportError as error:
            raise ImportError("a progress bar needs rich: pip install 'crossview[cli]', or progress=False.") from error
        label = f"Searching for {type(model).__name__}"
        yield from track(results, description=label, total=len(tasks), console=Console(stderr=True))

    def _score(self, model: Embedding, fold: _Fold, group: list[Candidate], dimensions: list[int]) -> Scores:
        scores = np.full((len(group), len(dimensions), len(self.metrics)), np.nan)
        errors = []
        for row, (latents, fitted) in zip(scores, self._latents(model, fold, group, dimensions), strict=True):
            if isinstance(latents, ValueError):
                errors.append(str(latents))
                continue
            possible = [d for d in dimensions if d <= fitted]
            for column, metric in enumerate(self.metrics):
                row[: len(possible), column] = _SCORINGS[self.scoring](latents, fold.new_y, possible, metric)
        return scores, errors

    def _latents(
        self, model: Embedding, fold: _Fold, group: list[Candidate], dimensions: list[int]
    ) -> Iterator[tuple[Views | ValueError, int]]:
        """The fold's test samples as every candidate maps them, and to how many components; or why it cannot."""
        for candidate in group:
            parameters = dict(candidate)
            k = parameters.pop("pca", None)
            known, new = first_features(fold.known, k), first_features(fold.new, k)

            def fit(d: int, parameters: Candidate = parameters, known: Views = known, new: Views = new) -> Views:
                with _more_components_than_there_are():
                    fitted = clone(model).set_params(n_components=d, **parameters).fit(known, fold.known_y)
                latents: Views = fitted.transform(new)
                return latents

            yield _with_most_components(fit, dimensions)

    def _collect(self, scores: Array, candidates: Sequence[Candidate], dimensions: Sequence[int]) -> None:
        params = [
            {**candidate, "n_components": d, "metric": metric}
            for candidate in candidates
            for d in dimensions
            for metric in self.metrics
        ]
        table = scores.reshape(len(scores), -1)
        mean = table.mean(axis=0)
        worth = np.where(np.isnan(mean), -np.inf, mean)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.array([p[name] for p in params], dtype=object) for name in params[0]},
            **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=0),
            "rank_test_score": np.searchsorted(-np.sort(worth)[::-1], -worth) + 1,
        }
        self.best_index_ = int(worth.argmax())
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


class HybridSearchCV(EmbeddingSearchCV):
    """Exhaustive search for the parameters of MvHE, or of KMvHE, the PCA before it, and the distance after it.

    As `EmbeddingSearchCV`, but a candidate that differs in weights or neighbours only costs one eigen-solve per fold:
    neighbours and the parts of the scatter matrix are computed once for all of them.

    Parameters
    ----------
    kernel : str or callable, optional
        The kernel of KMvHE; None searches for MvHE.
    grid : dict of str to sequence, optional
        Values to try; ``crossview.SEARCH_SPACES["MvHE"]`` or ``["KMvHE"]`` when left out.
    pca, pooled, metrics, scoring, n_iter, n_folds, cv, n_jobs, random_state, progress
        As in `EmbeddingSearchCV`.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_, pooled_, cv_results_
        As in `EmbeddingSearchCV`.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> search = cv.HybridSearchCV("rbf", n_folds=3, n_iter=10).fit(data.views[::9], data.y[::9])
    >>> bool(search.score(data.views[1::9], data.y[1::9]) > 0.7)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        *,
        pca: Sequence[int] | None = _PCA,
        pooled: bool | str = "auto",
        metrics: Sequence[str] = ("euclidean", "cosine"),
        scoring: str = "accuracy",
        n_iter: int | None = None,
        n_folds: int = 5,
        cv: Any = "auto",
        n_jobs: int | None = None,
        random_state: int = 0,
        progress: bool = False,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.pca = pca
        self.pooled = pooled
        self.metrics = metrics
        self.scoring = scoring
        self.n_iter = n_iter
        self.n_folds = n_folds
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _problem(self) -> tuple[Embedding, dict[str, Sequence[Any]]]:
        model = MvHE() if self.kernel is None else KMvHE(kernel=self.kernel)
        return model, dict(SEARCH_SPACES[type(model).__name__] if self.grid is None else self.grid)

    def _groups(self, candidates: Sequence[Candidate]) -> list[list[int]]:
        groups: dict[str, list[int]] = {}
        for k, candidate in enumerate(candidates):
            groups.setdefault(repr(_but_weights(candidate)), []).append(k)
        return list(groups.values())

    def _latents(
        self, model: Embedding, fold: _Fold, group: list[Candidate], dimensions: list[int]
    ) -> Iterator[tuple[Views | ValueError, int]]:
        assert isinstance(model, MvHE)
        shared = _but_weights(group[0])
        k = shared.pop("pca", None)
        model = clone(model).set_params(**shared)
        settings = [_weights(model, candidate) for candidate in group]
        for weights in settings:
            weights.check()

        def prepare(d: int) -> Callable[[HybridWeights, int], Views]:
            sized: MvHE = model.set_params(n_components=d)
            return sized._for_many_weights(
                first_features(fold.known, k),
                fold.known_y,
                {weights.n_within for weights in settings},
                {weights.n_between for weights in settings},
                first_features(fold.new, k),
            )

        latents, d = _with_most_components(prepare, dimensions)
        for weights in settings:
            yield (latents if isinstance(latents, ValueError) else latents(weights, d)), d


@contextmanager
def _more_components_than_there_are() -> Iterator[None]:
    """Do not warn of it: whether they do harm is for the scores to tell."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* lie where no training sample varies")
        yield


T = TypeVar("T")


def _with_most_components(fit: Callable[[int], T], dimensions: Sequence[int]) -> tuple[T | ValueError, int]:
    """What a fit gives with as many components as the data allow, and how many these are; the error if none can be."""
    failure = ValueError("there are no dimensions to try.")
    for d in reversed(dimensions):
        try:
            return fit(d), d
        except ValueError as error:
            failure = error
    return failure, 0


def _but_weights(candidate: Candidate) -> Candidate:
    return {name: value for name, value in candidate.items() if name not in _WEIGHTS}


def _weights(model: MvHE, candidate: Candidate) -> HybridWeights:
    """The weights of a candidate, where it has some, and of the model, where it has none."""
    values = {name: candidate.get(name, getattr(model, name)) for name in _WEIGHTS}
    return HybridWeights(**{_WEIGHTS[name]: value for name, value in values.items()})


def tune(
    method: str, views: ViewInput, y: ArrayLike, param_grid: Mapping[str, Sequence[Any]] | None = None, **options: Any
) -> EmbeddingSearchCV:
    """Search for the parameters of any method of the comparison.

    Parameters
    ----------
    method : str
        A name in `crossview.METHODS`.
    views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
        Training samples.
    y : array-like of shape (m,)
        One class label per sample.
    param_grid : dict of str to sequence, optional
        Values to try, in the place of ``crossview.SEARCH_SPACES[method]``.
    **options
        Further parameters of `EmbeddingSearchCV`.

    Returns
    -------
    search : EmbeddingSearchCV
        Fitted; a `HybridSearchCV` for MvHE and KMvHE.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: use one of {', '.join(METHODS)}.")
    grid = SEARCH_SPACES[method] if param_grid is None else param_grid
    if method in ("MvHE", "KMvHE"):
        return HybridSearchCV("rbf" if method == "KMvHE" else None, grid, **options).fit(views, y)
    return EmbeddingSearchCV(METHODS[method](), grid, **options).fit(views, y)
