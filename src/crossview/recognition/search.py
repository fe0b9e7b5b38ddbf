"""Choose a method's parameters by cross-validation over classes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from crossview.embeddings._base import Embedding
from crossview.embeddings.methods import METHODS, SEARCH_SPACES
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.recognition.metrics import accuracy_by_dimension, mean_accuracy
from crossview.recognition.splits import ClassKFold
from crossview.views import Array, ViewInput, Views

__all__ = ["EmbeddingSearchCV", "tune"]

Candidate = dict[str, Any]


class EmbeddingSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search for the parameters of an embedding, the PCA before it, and the distance after it.

    Scores are mACC on classes that a fit has not seen. Features are standardised and reduced by PCA first. What costs
    nothing is not fitted for: the first components of a PCA or an embedding are the PCA or embedding with fewer, so
    every candidate is fitted once per fold for all values of ``n_components`` and all distances.

    Parameters
    ----------
    estimator : Embedding
        The method.
    param_grid : dict of str to sequence
        Values to try; those of ``n_components`` ascending.
    pca : sequence of int, optional
        Dimensions of the PCA to try; those that the data do not allow are left out. None: no PCA.
    metrics : sequence of {"euclidean", "cosine"}
        Distances to try.
    n_iter : int, optional
        How many candidates, pairs of PCA dimension and parameters but for ``n_components``, to draw; None tries all.
    cv : int, or scikit-learn splitter
        Number of class-disjoint folds, or any splitter.
    n_jobs : int, optional
        Folds in parallel, as in joblib.
    random_state : int
        Seed of the folds and of the draw.

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
    >>> search = cv.tune("MvDA", data.views[:600], data.y[:600], pca=[10, 20], n_iter=4)
    >>> sorted(search.best_params_)
    ['metric', 'n_components', 'pca', 'reg']
    """

    def __init__(
        self,
        estimator: Embedding,
        param_grid: Mapping[str, Sequence[Any]],
        *,
        pca: Sequence[int] | None = (20, 40, 80, 160),
        metrics: Sequence[str] = ("euclidean", "cosine"),
        n_iter: int | None = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.pca = pca
        self.metrics = metrics
        self.n_iter = n_iter
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

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
        self : EmbeddingSearchCV
            Fitted.
        """
        checked, labels = Views(views), np.asarray(y)
        cv = ClassKFold(self.cv, self.random_state) if isinstance(self.cv, int) else check_cv(self.cv)
        dimensions = self._dimensions()
        candidates = self._candidates(checked)
        scores = Parallel(n_jobs=self.n_jobs)(
            delayed(self._score_fold)(checked, labels, train, test, candidates, dimensions)
            for train, test in cv.split(checked, labels)
        )
        self._collect(np.array(scores), candidates, dimensions)
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
        return make_pipeline(ViewScaler(pooled), *reduce, clone(self.estimator).set_params(**own))

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

    def _dimensions(self) -> list[int]:
        return sorted(self.param_grid.get("n_components", [self.estimator.n_components]))

    def _candidates(self, views: Views) -> list[Candidate]:
        """Everything that takes a fit of its own."""
        grid = {name: list(values) for name, values in self.param_grid.items() if name != "n_components"}
        if self.pca is not None:
            samples = len(views) * (views.shape[1] if _poolable(views) else 1)
            possible = min(min(views.n_features), samples // 2)
            grid["pca"] = [k for k in sorted(self.pca) if k <= possible] or [possible]
        if self.n_iter is None or self.n_iter >= len(ParameterGrid(grid)):
            return list(ParameterGrid(grid))
        return list(ParameterSampler(grid, self.n_iter, random_state=self.random_state))

    def _score_fold(
        self,
        views: Views,
        y: NDArray[Any],
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        candidates: Sequence[Candidate],
        dimensions: Sequence[int],
    ) -> Array:
        """Scores in one fold, of shape (candidates, dimensions, distances)."""
        scaler = ViewScaler(_poolable(views)).fit(views[train])
        known, new = scaler.transform(views[train]), scaler.transform(views[test])
        if self.pca is not None:
            pca = ViewPCA(max(c["pca"] for c in candidates), _poolable(views)).fit(known)
            known, new = pca.transform(known), pca.transform(new)
        scores = np.full((len(candidates), len(dimensions), len(self.metrics)), np.nan)
        for row, candidate in zip(scores, candidates, strict=True):
            parameters = dict(candidate)
            k = parameters.pop("pca", None)
            model = self._fit(_first(known, k), y[train], parameters, dimensions)
            if model is None:
                continue
            latents = model.transform(_first(new, k))
            fitted = model.get_params()["n_components"]
            possible = [d for d in dimensions if d <= fitted]
            for column, metric in enumerate(self.metrics):
                row[: len(possible), column] = accuracy_by_dimension(latents, y[test], possible, metric)
        return scores

    def _fit(self, views: Views, y: NDArray[Any], parameters: Candidate, dimensions: Sequence[int]) -> Embedding | None:
        """The method with as many components as the data allow; None where it cannot be fitted at all."""
        for d in reversed(dimensions):
            model: Embedding = clone(self.estimator).set_params(n_components=d, **parameters)
            try:
                with warnings.catch_warnings():
                    # There may be more components than the data have: that is for the scores to tell.
                    warnings.filterwarnings("ignore", message=".* lie where no training sample varies")
                    model.fit(views, y)
            except ValueError:
                continue
            return model
        return None

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
            raise ValueError("no combination of parameters can be fitted in every fold: check param_grid and pca.")
        worth = np.where(np.isnan(mean), -np.inf, mean)
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.array([p[name] for p in params], dtype=object) for name in params[0]},
            **{f"split{fold}_test_score": row for fold, row in enumerate(table)},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=0),
            "rank_test_score": (worth[:, None] < worth).sum(axis=1) + 1,
        }
        self.best_index_ = int(worth.argmax())
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


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
        Fitted.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: use one of {', '.join(METHODS)}.")
    grid = SEARCH_SPACES[method] if param_grid is None else param_grid
    return EmbeddingSearchCV(METHODS[method](), grid, **options).fit(views, y)


def _poolable(views: Views) -> bool:
    return len(set(views.n_features)) == 1


def _first(views: Views, k: int | None) -> Views:
    """The first k features of every view."""
    if k is None:
        return views
    return Views([X[:, :k] for X in views.arrays], names=views.names, mask=views.mask)
