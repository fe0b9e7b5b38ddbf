"""What is computed for the paper: accuracy, its dependence on parameters, and training times."""

import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from crossview._types import Array
from crossview.datasets import Dataset
from crossview.embeddings import METHODS
from crossview.experiments.cells import Cell, plain
from crossview.experiments.tasks import Tuned, run_cell
from crossview.metrics.scoring import score_by_dimension
from crossview.model_selection.search import EmbeddingSearchCV
from paper.data import permute_labels
from paper.literal import literal_kmvhe, literal_mvhe

_SCORING = "accuracy_with_counterparts"
_DIMENSION_STEP = 5
_TIME_LIMIT = 20.0  # seconds after which no further run starts
_LITERAL: dict[str, Callable[..., list[Array]]] = {"MvHE": literal_mvhe, "KMvHE": literal_kmvhe}

SENSITIVITY: Mapping[str, Mapping[str, Sequence[float]]] = {
    "weights": {
        "lambda_intra": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        "lambda_inter": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    },
    "neighbours": {"n_within": (1, 2, 3), "n_between": (5, 10, 15, 20, 30, 40)},
    "beta": {"beta": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)},
}
"""The paper's groups of parameters, and the values to evaluate."""


@dataclass(frozen=True, kw_only=True)
class PaperCell(Cell):
    """A cell of the paper's experiments."""

    outliers: float = 0.0  # share of the training labels that `permute_labels` permutes
    task: str = "accuracy"  # what to compute: see `run_paper_cell`


def run_paper_cell(cell: Any, data: Dataset) -> dict[str, Any]:
    """Compute a cell by its task, and return a result for JSON.

    - ``"accuracy"``: as `crossview.experiments.run_cell`, with counterparts. In addition, ``euclidean`` has the result
      of the best parameters with the Euclidean distance and, if the cell lists several numbers of principal components,
      ``by_pca`` the ``score`` and ``euclidean`` score of the best parameters with each: the paper chose the number by
      these scores on test samples;
    - ``"dimensions"``: accuracy, also by number of components;
    - ``"parameters"``, for MvHE and KMvHE: accuracy, also by the parameters in `SENSITIVITY`, one group at a time;
    - ``"time"`` and ``"literal-time"``: the training time of this package's implementation, and of the algorithm as
      printed in the paper, for all samples.
    """
    if cell.task.endswith("time"):
        return time_cell(cell, data)
    return run_cell(cell, with_outliers(cell, data), counterparts=True, more=_MORE[cell.task])


def with_outliers(cell: PaperCell, data: Dataset) -> Dataset:
    """The data with the wrong labels of a cell; splits of classes stay the same."""
    labels = np.array(data.y)
    train, _ = cell.split.rows(labels, cell.repeat)
    labels[train] = permute_labels(labels[train], cell.outliers, cell.seed)
    return replace(data, y=labels)


def time_cell(cell: PaperCell, data: Dataset, repeats: int = 7) -> dict[str, Any]:
    """Time the fit of a cell's method, with the cell's parameters, to all samples.

    A first fit warms caches and does not count. At most `repeats` fits are timed; none starts after 20 seconds. The
    caller limits the number of threads.
    """
    if cell.task == "literal-time":
        fit: Callable[[], object] = partial(_LITERAL[cell.method], data.views.arrays, data.y, **dict(cell.parameters))
    else:
        fit = partial(METHODS[cell.method](**dict(cell.parameters)).fit, data.views, data.y)
    runs: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
        while len(runs) < repeats and sum(runs) < _TIME_LIMIT:
            start = time.perf_counter()
            fit()
            runs.append(time.perf_counter() - start)
    return {
        "seconds": {"fit": statistics.median(runs), "runs": runs},
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }


def _by_distance_and_pca(tuned: Tuned) -> dict[str, Any]:
    """Test accuracy with the Euclidean distance, and by number of principal components."""
    search, how = tuned.search, tuned.cell.search
    euclidean = _best_row(search, metric="euclidean") if len(how.metrics) > 1 else None
    by_pca: dict[Any, dict[str, int]] = {}
    if len(how.pca or ()) > 1:
        drawn = set(search.cv_results_.get("param_viewpca__n_components", ()))
        for k in sorted(drawn, key=lambda k: np.inf if k is None else k):
            best = {"score": _best_row(search, viewpca__n_components=k)}
            if "euclidean" in how.metrics:
                best["euclidean"] = _best_row(search, metric="euclidean", viewpca__n_components=k)
            by_pca[k] = {name: row for name, row in best.items() if row is not None}
    rows = {row for best in by_pca.values() for row in best.values()} | set([] if euclidean is None else [euclidean])
    scores = {row: tuned.score(row, fitted) for row, fitted in zip(rows, tuned.fitted(*rows), strict=True)}
    result: dict[str, Any] = {} if euclidean is None else {"euclidean": scores[euclidean]}
    if any(by_pca.values()):
        result["by_pca"] = [
            {"pca": plain(k), **{name: scores[row]["score"] for name, row in best.items()}}
            for k, best in by_pca.items()
            if best
        ]
    return result


def _best_row(search: EmbeddingSearchCV, metric: str | None = None, **fixed: Any) -> int | None:
    """The best row of a search's results that has given values; None if none of them could be fitted."""
    results = search.cv_results_
    scores = results["mean_test_score"]
    rows = [
        row
        for row, params in enumerate(results["params"])
        if all(params[name] == value for name, value in fixed.items())
        and metric in (None, results["metric"][row])
        and not np.isnan(scores[row])
    ]
    return max(rows, key=lambda row: scores[row], default=None)


def _by_dimension(tuned: Tuned) -> dict[str, Any]:
    """Test accuracy by number of components, from one fit."""
    search, views = tuned.search, tuned.views
    # At most as many components as the narrowest view has principal components.
    k = search.best_params_["viewpca__n_components"]
    widths = [D if k is None or k < 1 else min(int(k), D) for D in views.n_features]
    most = int(min(*widths, views.mask[tuned.train].sum(axis=0).min()))
    estimator = search.pipeline({**search.best_params_, f"{_prefix(search)}n_components": most})
    latents = tuned.latents(estimator.fit(views[tuned.train], tuned.labels[tuned.train]))
    tried = list(range(_DIMENSION_STEP, most + 1, _DIMENSION_STEP)) or [most]
    scores = score_by_dimension(latents, tuned.tested, tried, _best_single_metric(search), _SCORING)
    return {"dimensions": tried, "by_dimension": [float(score) for score in scores]}


def _by_parameters(tuned: Tuned) -> dict[str, Any]:
    """Test accuracy by the parameters in `SENSITIVITY`."""
    search, prefix, found = tuned.search, _prefix(tuned.search), {}
    for group, values in SENSITIVITY.items():
        grid = {prefix + name: list(tried) for name, tried in values.items()}
        metrics, split = [_best_single_metric(search)], [(tuned.train, tuned.test)]
        best = search.pipeline(search.best_params_)
        varied = EmbeddingSearchCV(best, grid, metrics=metrics, cv=split, scoring=_SCORING, refit=False)
        results = varied.fit(tuned.views, tuned.labels).cv_results_
        found[group] = [
            {**{name: row[prefix + name] for name in values}, "score": float(score)}
            for row, score in zip(results["params"], results["mean_test_score"], strict=True)
        ]
    return {"by_parameters": found}


def _prefix(search: EmbeddingSearchCV) -> str:
    """Prefix of the embedding's parameter names."""
    return f"{search.estimator.steps[-1][0]}__"


def _best_single_metric(search: EmbeddingSearchCV) -> str:
    """The best distance for the best single setting, whether or not there is a committee."""
    return str(search.cv_results_["metric"][search.best_index_])


_MORE = {"accuracy": _by_distance_and_pca, "dimensions": _by_dimension, "parameters": _by_parameters}
