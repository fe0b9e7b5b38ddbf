"""Choose a method's parameters by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from crossview.embeddings._base import Embedding, check_choice, check_count
from crossview.embeddings._parts import HybridWeights
from crossview.embeddings.hybrid import KMvHE, MvHE
from crossview.embeddings.methods import METHODS, SEARCH_SPACES
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.recognition.metrics import accuracy_by_dimension, mean_accuracy
from crossview.recognition.splits import ClassKFold
from crossview.views import Array, ViewInput, Views

__all__ = ["EmbeddingSearchCV", "HybridSearchCV", "tune"]

Candidate = dict[str, Any]

_PCA = (20, 40, 80, 160)
_CLASSES_PER_FOLD = 4
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

    Features are standardised and reduced by PCA first; scores are mACC. What costs nothing is not fitted for: the
    first components of a PCA or an embedding are the PCA or embedding with fewer, so every candidate is fitted once
    per fold for all values of ``n_components`` and all distances.

    Parameters
    ----------
    estimator : Embedding
        The method.
    param_grid : dict of str to sequence
        Values to try.
    pca : sequence of int, optional
        Dimensions of the PCA to try; those that the data do not allow are left out. None: no PCA.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try.
    n_iter : int, optional
        How many candidates, combinations of PCA dimension and parameters but for ``n_components``, to draw; None tries
        all.
    n_folds : int
        Number of folds.
    cv : {"auto", "classes", "samples"} or splitter
        What folds are made of. Classes: those to be recognised are not among those to learn from. Samples: they are.
        By default classes, as the paper has it, if there are at least four for every fold, and samples otherwise,
        which fewer classes suggest. Any splitter of scikit-learn's will do.
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
        metrics: Sequence[str] = ("euclidean", "cosine"),
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
        self.metrics = metrics
        self.n_iter = n_iter
        self.n_folds = n_folds
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, views: ViewInput, y: ArrayLike) -> Self:
        """Score all candidates, and fit the best on all samples.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Training samples.
        y : array-like of shape (m,)
            One class label per sample.

        Returns
        -------
        self
            Fitted.
        """
        checked, labels = Views(views), np.asarray(y)
        for metric in self.metrics:
            check_choice(metric, "metrics", ("euclidean", "cosine"))
        model, grid = self._problem()
        for name in grid:
            if name not in model.get_params():
                raise ValueError(f"{type(model).__name__} has no parameter {name!r} to search for.")
        dimensions = sorted(grid.pop("n_components", [model.get_params()["n_components"]]))
        candidates = self._candidates(grid, checked)
        splits = list(self._splitter(labels).split(checked, labels))
        folds = [self._fold(checked, labels, train, test, candidates) for train, test in splits]
        groups = self._groups(candidates)
        tasks = [(fold, [candidates[k] for k in group], dimensions) for fold in folds for group in groups]
        scores = np.full((len(folds), len(candidates), len(dimensions), len(self.metrics)), np.nan)
        places = [(f, group) for f in range(len(folds)) for group in groups]
        for (f, group), found in zip(places, self._run(model, tasks), strict=True):
            scores[f, group] = found
        self._collect(scores, candidates, dimensions)
        self.best_estimator_ = self.pipeline(self.best_params_, pooled=_poolable(checked)).fit(checked, labels)
        return self

    def pipeline(self, params: Mapping[str, Any], *, pooled: bool = True) -> Pipeline:
        """Scaler, PCA if any, and the method, with the given parameters, not fitted.

        Parameters
        ----------
        params : dict
            An entry of ``cv_results_["params"]``.
        pooled : bool
            Whether scaler and PCA treat the samples of all views as one set.
        """
        own = {name: value for name, value in params.items() if name not in ("pca", "metric")}
        reduce = [ViewPCA(params["pca"], pooled)] if "pca" in params else []
        return make_pipeline(ViewScaler(pooled), *reduce, clone(self._problem()[0]).set_params(**own))

    def transform(self, views: ViewInput) -> Any:
        """Map samples into the common space by the best estimator.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(views)

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

    def _splitter(self, y: NDArray[Any]) -> Any:
        if not isinstance(self.cv, str):
            return self.cv
        check_choice(self.cv, "cv", ("auto", "classes", "samples"))
        check_count(self.n_folds, "n_folds", least=2)
        many = len(np.unique(y)) >= _CLASSES_PER_FOLD * self.n_folds
        if self.cv == "classes" or (self.cv == "auto" and many):
            return ClassKFold(self.n_folds, self.random_state)
        return StratifiedKFold(self.n_folds, shuffle=True, random_state=self.random_state)

    def _candidates(self, grid: dict[str, Sequence[Any]], views: Views) -> list[Candidate]:
        """Everything that takes a fit of its own."""
        if self.pca is not None:
            samples = len(views) * (views.shape[1] if _poolable(views) else 1)
            possible = min(min(views.n_features), samples // 2)
            grid = grid | {"pca": [k for k in sorted(self.pca) if k <= possible] or [possible]}
        if self.n_iter is None or self.n_iter >= len(ParameterGrid(grid)):
            return list(ParameterGrid(grid))
        return list(ParameterSampler(grid, self.n_iter, random_state=self.random_state))

    def _fold(
        self,
        views: Views,
        y: NDArray[Any],
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        candidates: Sequence[Candidate],
    ) -> _Fold:
        steps = [ViewScaler(_poolable(views))]
        if self.pca is not None:
            steps.append(ViewPCA(max(c["pca"] for c in candidates), _poolable(views)))
        reduce = make_pipeline(*steps)
        return _Fold(reduce.fit_transform(views[train]), y[train], reduce.transform(views[test]), y[test])

    def _groups(self, candidates: Sequence[Candidate]) -> list[list[int]]:
        """Candidates that are fitted one after another, by their number."""
        return [[k] for k in range(len(candidates))]

    def _run(self, model: Embedding, tasks: Sequence[tuple[_Fold, list[Candidate], list[int]]]) -> Iterator[Array]:
        """Scores of every task, of shape (candidates, dimensions, distances)."""
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

    def _score(self, model: Embedding, fold: _Fold, group: list[Candidate], dimensions: list[int]) -> Array:
        scores = np.full((len(group), len(dimensions), len(self.metrics)), np.nan)
        for row, (latents, fitted) in zip(scores, self._latents(model, fold, group, dimensions), strict=True):
            possible = [d for d in dimensions if d <= fitted]
            for column, metric in enumerate(self.metrics):
                if possible:
                    row[: len(possible), column] = accuracy_by_dimension(latents, fold.new_y, possible, metric)
        return scores

    def _latents(
        self, model: Embedding, fold: _Fold, group: list[Candidate], dimensions: list[int]
    ) -> Iterator[tuple[Views, int]]:
        """The fold's test samples as every candidate maps them, and to how many components; 0 if it cannot."""
        for candidate in group:
            parameters = dict(candidate)
            k = parameters.pop("pca", None)
            for d in reversed(dimensions):
                fitted = clone(model).set_params(n_components=d, **parameters)
                try:
                    with warnings.catch_warnings():
                        # There may be more components than the data have: that is for the scores to tell.
                        warnings.filterwarnings("ignore", message=".* lie where no training sample varies")
                        fitted.fit(_first(fold.known, k), fold.known_y)
                except ValueError:
                    continue
                yield fitted.transform(_first(fold.new, k)), d
                break
            else:
                yield fold.new, 0

    def _collect(self, scores: Array, candidates: Sequence[Candidate], dimensions: Sequence[int]) -> None:
        params = [
            {**candidate, "n_components": d, "metric": metric}
            for candidate in candidates
            for d in dimensions
            for metric in self.metrics
        ]
        table = scores.reshape(len(scores), -1)
        mean = table.mean(axis=0)
        if np.isnan(mean).all():
            raise ValueError("no combination of parameters can be fitted in every fold: check the grid and pca.")
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
    pca, metrics, n_iter, n_folds, cv, n_jobs, random_state, progress
        As in `EmbeddingSearchCV`.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, best_index_, cv_results_
        As in `EmbeddingSearchCV`.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> search = cv.HybridSearchCV(n_folds=3, n_iter=20).fit(data.views[:300], data.y[:300])
    >>> bool(search.score(data.views[300:600], data.y[300:600]) > 0.5)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        *,
        pca: Sequence[int] | None = _PCA,
        metrics: Sequence[str] = ("euclidean", "cosine"),
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
        self.metrics = metrics
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
    ) -> Iterator[tuple[Views, int]]:
        assert isinstance(model, MvHE)
        shared = _but_weights(group[0])
        k = shared.pop("pca", None)
        settings = [_weights(clone(model).set_params(**shared), candidate) for candidate in group]
        for weights in settings:
            weights.check()
        for d in reversed(dimensions):
            try:
                latents = (
                    clone(model)
                    .set_params(n_components=d, **shared)
                    ._for_many_weights(
                        _first(fold.known, k),
                        fold.known_y,
                        {weights.n_within for weights in settings},
                        {weights.n_between for weights in settings},
                        _first(fold.new, k),
                    )
                )
            except ValueError:
                continue
            yield from ((latents(weights, d), d) for weights in settings)
            return
        yield from ((fold.new, 0) for _ in group)


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


def _poolable(views: Views) -> bool:
    return len(set(views.n_features)) == 1


def _first(views: Views, k: int | None) -> Views:
    """The first k features of every view."""
    if k is None:
        return views
    return Views([X[:, :k] for X in views.arrays], names=views.names, mask=views.mask)
