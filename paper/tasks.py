"""Tasks of the paper's experiments beyond accuracy: its dependence on parameters, and training times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, plain
from crossview.experiments.tasks import Tuned, run_cell, score_cell
from crossview.metrics.scoring import score_by_dimension
from crossview.model_selection.search import EmbeddingSearchCV
from paper.outliers import permute_labels
from paper.timing import time_cell, time_literal_cell

_DIMENSION_STEP = 5
_ACCURACY = {False: "accuracy", True: "accuracy_with_counterparts"}

SENSITIVITY: Mapping[str, Mapping[str, Sequence[float]]] = {
    "weights": {
        "lambda_intra": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        "lambda_inter": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
    },
    "neighbours": {"n_within": (1, 2, 3), "n_between": (5, 10, 15, 20, 30, 40)},
    "beta": {"beta": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)},
}
"""The paper's groups of parameters, and the values to evaluate."""


def run_paper_cell(cell: Cell, data: Dataset) -> dict[str, Any]:
    """Compute a cell by its task, and return a result for JSON.

    - ``"accuracy"``: as `crossview.experiments.run_cell`. In addition, ``euclidean`` has the result of the best
      parameters with the Euclidean distance and, if the cell lists several numbers of principal components,
      ``by_pca`` the ``score`` and ``euclidean`` score of the best parameters with each: the paper chose the number by
      these scores on test samples;
    - ``"dimensions"``: accuracy, also by number of components;
    - ``"parameters"``, for MvHE and KMvHE: accuracy, also by the parameters in `SENSITIVITY`, one group at a time;
    - ``"time"`` and ``"literal-time"``: the training time of this package's implementation, and of the algorithm as
      printed in the paper; see `paper.timing`.
    """
    return _TASKS.get(cell.task, run_cell)(cell, with_outliers(cell, data))


@dataclass(frozen=True, eq=False, kw_only=True)
class PaperCell(Cell):
    """A cell that may have wrong labels."""

    outliers: float = 0.0  # share of the training labels that `permute_labels` permutes


def with_outliers(cell: Cell, data: Dataset) -> Dataset:
    """The data with the wrong labels of a cell; splits of classes stay the same."""
    if not isinstance(cell, PaperCell) or not cell.outliers:
        return data
    labels = np.array(data.y)
    train, _ = cell.split.rows(labels, cell.repeat)
    labels[train] = permute_labels(labels[train], cell.outliers, random_state=cell.seed)
    return replace(data, y=labels)


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
    metric, scoring = _best_single_metric(search), _ACCURACY[tuned.cell.counterparts]
    scores = score_by_dimension(latents, tuned.tested, tried, metric, scoring)
    return {"dimensions": tried, "by_dimension": [float(score) for score in scores]}


def _sensitivity(cell: Cell, data: Dataset) -> dict[str, Any]:
    if cell.method not in ("MvHE", "KMvHE"):
        raise ValueError(f"{cell.method} has no such parameters: choose MvHE or KMvHE.")
    return score_cell(cell, data, _by_parameters)


def _by_parameters(tuned: Tuned) -> dict[str, Any]:
    """Test accuracy by the parameters in `SENSITIVITY`."""
    search, prefix = tuned.search, _prefix(tuned.search)
    found = {}
    for group, values in SENSITIVITY.items():
        grid = {prefix + name: list(tried) for name, tried in values.items()}
        metrics, split = [_best_single_metric(search)], [(tuned.train, tuned.test)]
        best, scoring = search.pipeline(search.best_params_), _ACCURACY[tuned.cell.counterparts]
        varied = EmbeddingSearchCV(best, grid, metrics=metrics, cv=split, scoring=scoring, refit=False)
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


_TASKS: dict[str, Callable[[Cell, Dataset], dict[str, Any]]] = {
    "accuracy": partial(score_cell, more=_by_distance_and_pca),
    "dimensions": partial(score_cell, more=_by_dimension),
    "parameters": _sensitivity,
    "time": time_cell,
    "literal-time": time_literal_cell,
}
