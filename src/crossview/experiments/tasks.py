"""What is computed of a cell: accuracy after a search for parameters, and how it depends on what was searched for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_info

from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, grid, plain
from crossview.experiments.timing import time_cell, time_literal_cell
from crossview.recognition.metrics import accuracy_by_dimension, cmc, cross_view_accuracy
from crossview.recognition.pipelines import first_features, reducers
from crossview.recognition.search import EmbeddingSearchCV, HybridSearchCV, tune
from crossview.recognition.splits import permute_labels
from crossview.views import Array, Views

__all__ = ["SENSITIVITY", "run_cell"]

_MAX_RANK = 20
_STEP = 5  # between two dimensions of the common space

SENSITIVITY: Mapping[str, Mapping[str, Sequence[float]]] = {
    "weights": {
        "lambda_intra": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        "lambda_inter": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    },
    "neighbours": {"n_within": (1, 2, 3), "n_between": (5, 10, 15, 20, 30, 40)},
    "beta": {"beta": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)},
}
"""The paper's groups of parameters, and the values at which accuracy is looked at."""


def run_cell(cell: Cell, data: Dataset) -> dict[str, Any]:
    """Compute a cell.

    Parameters
    ----------
    cell : Cell
        What to compute; its ``task`` is one of

        - ``"accuracy"``: tune the method on the training part of a split, and score it on the test part;
        - ``"dimensions"``: the same, and how accuracy on the test part depends on the number of components;
        - ``"parameters"``, for MvHE and KMvHE: the same, and how it depends on the parameters in `SENSITIVITY`, group
          by group;
        - ``"time"`` and ``"literal-time"``: how long a fit takes, by this package and by the paper's algorithm to the
          letter; see `crossview.experiments.timing`.
    data : Dataset
        The data that the cell names.

    Returns
    -------
    result : dict
        Ready for JSON. ``score`` is mACC, ``accuracy`` the matrix of gallery × probe that it is the mean of, with None
        where there is nothing to compare, ``cmc`` the rates at rank 1 to 20, averaged over the ordered pairs of views;
        ``best_params`` and ``best_score`` are the parameters chosen and their score in validation. ``euclidean`` has
        these five for the best parameters with the Euclidean distance, where others were tried too. ``by_pca`` has, for
        every PCA dimension that was tried, ``pca``, the ``score`` of the best parameters with that dimension, and that
        with the Euclidean distance: the paper chose the dimension by them, which are of test samples. ``seconds`` are
        those of the ``search``, which ends with a fit by the best parameters, and of a ``fit`` of the method by itself;
        ``threads`` is how many linear algebra could use. The rest says what was trained and tested with, and
        ``warnings`` what was warned of.

    Examples
    --------
    >>> import crossview as cv
    >>> from crossview.experiments import Cell, Search, Split
    >>> search = Search(pca=[10], n_folds=2, grid={"n_components": [2, 4], "reg": [0.1]})
    >>> cell = Cell(data="turntable", method="MvDA", split=Split(n_train=8), search=search)
    >>> result = run_cell(cell, cv.datasets.make_turntable(12, size=12))
    >>> result["n_train_classes"], result["n_test_classes"], sorted(result["best_params"])
    (8, 4, ['metric', 'n_components', 'pca', 'reg'])
    """
    return _TASKS[cell.task](cell, data)


@dataclass(frozen=True)
class _Tuned:
    """A search, and the samples: those to train with, whose labels may have been permuted, and those to test with."""

    search: EmbeddingSearchCV
    views: Views
    labels: NDArray[Any]
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    seconds: float

    @cached_property
    def reduced(self) -> tuple[Views, Views]:
        """The samples to train with and to test with, scaled, and reduced as far as any of the candidates wants."""
        candidates = self.search.cv_results_["params"]
        most = None if self.search.pca is None else max(params["pca"] for params in candidates)
        reduce = make_pipeline(*reducers(most, self.search.pooled_))
        return reduce.fit_transform(self.views[self.train]), reduce.transform(self.views[self.test])

    def latents(self, params: Mapping[str, Any]) -> tuple[Views, float]:
        """The samples to test with in the common space of given parameters, and the seconds that the fit took."""
        known, new = (first_features(views, params.get("pca")) for views in self.reduced)
        model = self.search.pipeline(params)[-1]
        start = time.perf_counter()
        model.fit(known, self.labels[self.train])
        seconds = time.perf_counter() - start
        return model.transform(new), seconds


def _tune(cell: Cell, data: Dataset) -> _Tuned:
    labels = np.array(data.y)
    train, test = cell.split.rows(labels, cell.repeat)
    labels[train] = permute_labels(labels[train], cell.outliers, random_state=cell.seed)
    how = cell.search
    start = time.perf_counter()
    search = tune(
        cell.method,
        data.views[train],
        labels[train],
        grid(cell),
        pca=how.pca,
        metrics=tuple(how.metrics),
        scoring=how.scoring,
        n_iter=how.n_iter,
        n_folds=how.n_folds,
        cv=how.cv,
        random_state=cell.seed,
    )
    return _Tuned(search, data.views, labels, train, test, time.perf_counter() - start)


def _accuracy(cell: Cell, data: Dataset, more: Callable[[_Tuned], Mapping[str, Any]] | None = None) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tuned = _tune(cell, data)
        search = tuned.search
        scores, fit = _scores(tuned, search.best_index_)
        result = dict(scores)
        if "euclidean" in cell.search.metrics and len(cell.search.metrics) > 1:
            # As without the other distances; a fit is spared where the best of all distances is the Euclidean one.
            best = _best_with(search, metric="euclidean")
            result["euclidean"] = dict(scores) if best in (None, search.best_index_) else _scores(tuned, best)[0]
        if cell.search.pca is not None and len(cell.search.pca) > 1:
            result["by_pca"] = _by_pca(tuned)
        if more is not None:
            result |= more(tuned)
    return {
        **result,
        "seconds": {"search": tuned.seconds, "fit": fit},
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "views": list(data.views.names),
        "pooled": bool(search.pooled_),
        "n_train": len(tuned.train),
        "n_test": len(tuned.test),
        "n_train_classes": len(np.unique(tuned.labels[tuned.train])),
        "n_test_classes": len(np.unique(tuned.labels[tuned.test])),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }


def _dimensions(cell: Cell, data: Dataset) -> dict[str, Any]:
    def by_dimension(tuned: _Tuned) -> dict[str, Any]:
        params = dict(tuned.search.best_params_)
        most = _most_components(tuned, params)
        latents, _ = tuned.latents(params | {"n_components": most})
        tried = list(range(_STEP, most + 1, _STEP)) or [most]
        scores = accuracy_by_dimension(latents, tuned.labels[tuned.test], tried, params["metric"])
        return {"dimensions": tried, "by_dimension": [float(score) for score in scores]}

    return _accuracy(cell, data, by_dimension)


def _most_components(tuned: _Tuned, params: Mapping[str, Any]) -> int:
    """How many components a method can have: as many as there are features in a view, or training samples."""
    known = tuned.reduced[0]
    features = params.get("pca", min(known.n_features))
    return int(min(features, known.mask.sum(axis=0).min()))


def _sensitivity(cell: Cell, data: Dataset) -> dict[str, Any]:
    if cell.method not in ("MvHE", "KMvHE"):
        raise ValueError(f"{cell.method} has no such parameters: their effect is computed for MvHE and KMvHE.")

    def by_parameters(tuned: _Tuned) -> dict[str, Any]:
        params = dict(tuned.search.best_params_)
        found = {}
        for group, values in SENSITIVITY.items():
            again = HybridSearchCV(
                "rbf" if cell.method == "KMvHE" else None,
                {name: [value] for name, value in params.items() if name not in ("pca", "metric")} | dict(values),
                pca=None if "pca" not in params else [params["pca"]],
                metrics=[params["metric"]],
                pooled=tuned.search.pooled_,
                cv=[(tuned.train, tuned.test)],
            ).fit(tuned.views, tuned.labels)
            results = again.cv_results_
            found[group] = [
                {**{name: row[name] for name in values}, "score": float(score)}
                for row, score in zip(results["params"], results["mean_test_score"], strict=True)
            ]
        return {"by_parameters": found}

    return _accuracy(cell, data, by_parameters)


def _scores(tuned: _Tuned, row: int) -> tuple[dict[str, Any], float]:
    """What one row of a search's results is worth on new samples, and the seconds that its fit took."""
    results = tuned.search.cv_results_
    params, y = results["params"][row], tuned.labels[tuned.test]
    latents, seconds = tuned.latents(params)
    accuracy = cross_view_accuracy(latents, y, params["metric"])
    if np.isnan(accuracy).all():
        raise ValueError("there is no pair of views to compare: use two views or more, each with samples to test with.")
    scores = {
        "score": float(np.nanmean(accuracy)),
        "accuracy": [[None if np.isnan(value) else float(value) for value in line] for line in accuracy],
        "cmc": _mean_cmc(latents, y, params["metric"]).tolist(),
        "best_params": {name: plain(value) for name, value in params.items()},
        "best_score": float(results["mean_test_score"][row]),
    }
    return scores, seconds


def _by_pca(tuned: _Tuned) -> list[dict[str, float]]:
    """What the best parameters with every PCA dimension are worth."""
    found = []
    for k in sorted({params["pca"] for params in tuned.search.cv_results_["params"]}):
        rows = {"score": _best_with(tuned.search, pca=k)}
        if "euclidean" in tuned.search.metrics:
            rows["euclidean"] = _best_with(tuned.search, pca=k, metric="euclidean")
        scores = {row: _scores(tuned, row)[0]["score"] for row in {row for row in rows.values() if row is not None}}
        found.append({"pca": k} | {name: scores[row] for name, row in rows.items() if row is not None})
    return found


def _best_with(search: EmbeddingSearchCV, **fixed: Any) -> int | None:
    """The best row of a search's results that has given values; None if none of them could be fitted."""
    scores = search.cv_results_["mean_test_score"]
    rows = [
        row
        for row, params in enumerate(search.cv_results_["params"])
        if all(params[name] == value for name, value in fixed.items()) and not np.isnan(scores[row])
    ]
    return max(rows, key=lambda row: scores[row], default=None)


def _mean_cmc(latents: Views, y: NDArray[Any], metric: str) -> Array:
    samples = [(X[seen], y[seen]) for X, seen in zip(latents.arrays, latents.mask.T, strict=True) if seen.any()]
    curves = [cmc(*gallery, *probes, _MAX_RANK, metric) for gallery, probes in permutations(samples, 2)]
    mean: Array = np.mean(curves, axis=0)
    return mean


_TASKS: dict[str, Callable[[Cell, Dataset], dict[str, Any]]] = {
    "accuracy": _accuracy,
    "dimensions": _dimensions,
    "parameters": _sensitivity,
    "time": time_cell,
    "literal-time": time_literal_cell,
}
