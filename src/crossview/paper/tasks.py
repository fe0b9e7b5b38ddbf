"""What the paper's experiments compute beyond accuracy: how it depends on parameters, and how long a fit takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossview.datasets import Dataset
from crossview.experiments.cells import Cell
from crossview.experiments.tasks import Tuned, run_cell, score_cell
from crossview.metrics import accuracy_by_dimension
from crossview.paper.timing import time_cell, time_literal_cell
from crossview.recognition.search import EmbeddingSearchCV

__all__ = ["SENSITIVITY", "run_paper_cell"]

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


def run_paper_cell(cell: Cell, data: Dataset) -> dict[str, Any]:
    """Compute a cell of one of the paper's experiments.

    Parameters
    ----------
    cell : Cell
        What to compute. Its ``task`` is one of those of `crossview.experiments.run_cell`, or

        - ``"dimensions"``: accuracy, and how it depends on the number of components;
        - ``"parameters"``, for MvHE and KMvHE: accuracy, and how it depends on the parameters in `SENSITIVITY`, group
          by group;
        - ``"time"`` and ``"literal-time"``: how long a fit takes, by this package and by the paper's algorithm to the
          letter; see `crossview.paper.timing`.
    data : Dataset
        The data that the cell names.

    Returns
    -------
    result : dict
        Ready for JSON.
    """
    return _TASKS.get(cell.task, run_cell)(cell, data)


def _dimensions(cell: Cell, data: Dataset) -> dict[str, Any]:
    def by_dimension(tuned: Tuned) -> dict[str, Any]:
        search = tuned.search
        most = _most_components(tuned)
        name = f"{search.estimator.steps[-1][0]}__n_components"
        estimator = search.pipeline({**search.best_params_, name: most})
        latents = tuned.latents(estimator.fit(tuned.views[tuned.train], tuned.labels[tuned.train]))
        tried = list(range(_STEP, most + 1, _STEP)) or [most]
        metric = str(search.cv_results_["metric"][search.best_index_])
        scores = accuracy_by_dimension(latents, tuned.tested, tried, metric)
        return {"dimensions": tried, "by_dimension": [float(score) for score in scores]}

    return score_cell(cell, data, by_dimension)


def _most_components(tuned: Tuned) -> int:
    """How many components to look at: as many as the narrowest view has principal components."""
    views, k = tuned.views, tuned.search.best_params_["viewpca__n_components"]
    features = [D if k is None or k < 1 else min(int(k), D) for D in views.n_features]
    return int(min(*features, views.mask[tuned.train].sum(axis=0).min()))


def _sensitivity(cell: Cell, data: Dataset) -> dict[str, Any]:
    if cell.method not in ("MvHE", "KMvHE"):
        raise ValueError(f"{cell.method} has no such parameters: their effect is computed for MvHE and KMvHE.")

    def by_parameters(tuned: Tuned) -> dict[str, Any]:
        search = tuned.search
        prefix = f"{search.estimator.steps[-1][0]}__"
        found = {}
        for group, values in SENSITIVITY.items():
            again = EmbeddingSearchCV(
                search.pipeline(search.best_params_),
                {prefix + name: list(tried) for name, tried in values.items()},
                metrics=[str(search.cv_results_["metric"][search.best_index_])],
                cv=[(tuned.train, tuned.test)],
                refit=False,
            ).fit(tuned.views, tuned.labels)
            results = again.cv_results_
            found[group] = [
                {**{name: row[prefix + name] for name in values}, "score": float(score)}
                for row, score in zip(results["params"], results["mean_test_score"], strict=True)
            ]
        return {"by_parameters": found}

    return score_cell(cell, data, by_parameters)


_TASKS: dict[str, Callable[[Cell, Dataset], dict[str, Any]]] = {
    "dimensions": _dimensions,
    "parameters": _sensitivity,
    "time": time_cell,
    "literal-time": time_literal_cell,
}
