"""What is computed of a cell: accuracy after a search for parameters."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_info

from crossview import metrics
from crossview._types import Array
from crossview._validation import check_coupling, check_equal_widths, check_two_views
from crossview._version import __version__
from crossview.datasets import Dataset
from crossview.embeddings import ALL_METHODS
from crossview.exceptions import NotApplicableError
from crossview.experiments.cells import Cell, Record, encoded, plain, space, training_size
from crossview.metrics.scoring import hits, ranks, score_probes
from crossview.model_selection.rounds import held_out_score
from crossview.model_selection.search import EmbeddingSearchCV
from crossview.model_selection.splits import matching_folds
from crossview.model_selection.tuning import max_samples, standard_pipeline
from crossview.views import Views

_MAX_RANK = 20
_CLASSES, _PER_CLASS = 8, 10  # that are drawn: more colours cannot be told apart


def not_applicable_record(cell: Cell, views: Views, n_train: int) -> Record | None:
    """A record that says why a cell's method certainly cannot be applied to views; None if it may be."""
    method = ALL_METHODS[cell.method](**dict(cell.parameters))
    tried = space(cell, views.n_features)
    pca, narrowest = tried.get("viewpca__n_components"), min(views.n_features)
    # After a PCA, views have as many components as asked for, features or samples.
    may_get_equal = pca is not None and (n_train <= narrowest or any(k is not None and k <= narrowest for k in pca))
    try:
        if method._needs_two_views:
            check_two_views(views, method)
        if not may_get_equal:
            if method._needs_equal_widths:
                check_equal_widths(views, method)
            couplings = tried.get(f"{type(method).__name__.lower()}__coupling", [getattr(method, "coupling", 0)])
            check_coupling(0.0 if "auto" in couplings else min(couplings), views)
    except NotApplicableError as error:
        reason = {"type": type(error).__name__, "message": str(error), "traceback": ""}
        return Record("", cell.to_dict(), "failed", None, reason, 0.0, 0.0, __version__, {})
    return None


@dataclass(frozen=True)
class Tuned:
    """The search for a cell, and the samples to train with and to test with."""

    cell: Cell
    search: EmbeddingSearchCV
    views: Views
    labels: NDArray[Any]
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    counterparts: bool  # whether galleries keep the counterpart of each probe

    def fitted(self, *rows: int) -> list[Any]:
        """Estimators with the settings of some rows of the search's results, fitted to the training samples."""
        return self.search.fit_rows(rows, self.views[self.train], self.labels[self.train])

    def latents(self, estimator: Any) -> Views:
        """The samples to test with in the common space of a fitted estimator."""
        return Views(estimator.transform(self.views[self.test]))

    @property
    def tested(self) -> NDArray[Any]:
        """Classes of the samples to test with."""
        return self.labels[self.test]

    def score(self, row: int, estimator: Any) -> dict[str, Any]:
        """Accuracy on new samples of an estimator with the settings of a row of the search's results."""
        results = self.search.cv_results_
        latents, metric = self.latents(estimator), str(results["metric"][row])
        return {
            "score": metrics.mean_accuracy(latents, self.tested, metric, counterparts=self.counterparts),
            "best_params": _params(self.search, row),
            "metric": metric,
            "best_score": float(results["mean_test_score"][row]),
        }


def run_cell(
    cell: Cell,
    data: Dataset,
    *,
    counterparts: bool = False,
    more: Callable[[Tuned], Mapping[str, Any]] = lambda tuned: {},
) -> dict[str, Any]:
    """Tune a cell's method on the training part of a split, and score it on the test part.

    The result is ready for JSON. ``score`` is the mean accuracy, ``accuracy`` the matrix of gallery × probe that it is
    the mean of, with None where there is nothing to compare, and ``cmc`` has the rates at rank 1 to 20, averaged over
    the ordered pairs of views. They leave each probe's counterpart out of the gallery, unless it keeps `counterparts`.
    In any case, ``one_shot`` is the accuracy with one enrolled sample per class, ``average_precision`` the mean without
    counterparts, and ``with_counterparts`` the paper's accuracy. ``best_params``, ``metric`` and ``best_score`` are the
    chosen parameters and distance, and their score in validation; ``held_out_score`` is that of
    `crossview.EmbeddingSearchCV`. ``committee`` has the scores of the committee and the parameters of its ``members``,
    if there is to be one. ``chance`` is the score of random matches, ``skipped`` the number of ``probes`` whose class
    the gallery lacks. Of the ``n_train`` training samples, ``n_train_single`` are in one view only. Results of the
    first split have the ``plane``, the first two principal components of some test samples in the common space.
    ``seconds`` has the times of the ``search``, final fit included, and of a ``fit`` of the method alone. If there is
    only one split, ``sample_scores`` has the share of correct matches of every test sample, None without a probe,
    ``sample_classes`` their classes as numbers, ``tests_on`` what is new in the test part ("classes" or "samples"), and
    ``n_new_classes`` the number of classes that were not trained on. `more` adds to the result, given the search.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        tuned = _tune(cell, data, counterparts)
        search, seconds, y = tuned.search, time.perf_counter() - start, np.asarray(data.y)
        row = search.best_index_
        best = search.best_estimator_ if search.members_ == [row] else tuned.fitted(row)[0]
        result = tuned.score(row, best)
        result |= _matching(tuned, best, result["metric"]) | {
            "held_out_score": held_out_score(search.cv_results_, search.n_splits_)
        }
        if cell.search.n_members > 1:
            result["committee"] = {
                **_matching(tuned, search.best_estimator_, search.best_metric_),
                "best_score": search.best_score_,
                "held_out_score": search.held_out_score_,
                "members": [_params(search, member) for member in search.members_],
            }
        result |= more(tuned)
        if cell.split.n_repeats == 1:
            result |= {
                "sample_classes": np.unique(tuned.tested, return_inverse=True)[1].tolist(),
                "tests_on": cell.split.tests_on(y),
                "n_new_classes": len(np.setdiff1d(tuned.tested, y[tuned.train])),
            }
        tested = tuned.views[tuned.test]
        result |= {
            "chance": metrics.chance_accuracy(tested, tuned.tested, counterparts=counterparts),
            "skipped": int(metrics.skipped_probes(tested, tuned.tested).sum()),
            "probes": int(tested.mask.sum() * (tested.shape[1] - 1)),
        }
    return {
        **result,
        "folds_of": search.folds_of_,
        "seconds": {"search": seconds, "fit": _seconds_of_fit(tuned, best)},
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "views": list(data.views.names),
        "n_train": len(tuned.train),
        "n_train_single": int((tuned.views[tuned.train].mask.sum(axis=1) == 1).sum()),
        "n_test": len(tuned.test),
        "n_train_classes": len(np.unique(tuned.labels[tuned.train])),
        "n_test_classes": len(np.unique(tuned.tested)),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }


def _tune(cell: Cell, data: Dataset, counterparts: bool) -> Tuned:
    labels = np.asarray(data.y)
    train, test = cell.split.rows(labels, cell.repeat)
    how = cell.search
    search = EmbeddingSearchCV(
        standard_pipeline(cell.method),
        space(cell, data.views.n_features, training_size(cell, data.y)),
        n_iter=how.n_iter,
        metrics=tuple(how.metrics),
        scoring=how.scoring,
        n_members=how.n_members,
        cv=matching_folds(cell.split.tests_on(labels), labels[train]),
        n_folds=how.n_folds,
        factor=how.factor,
        refine=how.refine,
        max_samples=max_samples(cell.method, data.views.shape[1]) if how.factor > 1 else None,
        random_state=cell.seed,
    ).fit(data.views[train], labels[train])
    return Tuned(cell, search, data.views, labels, train, test, counterparts)


def drawn_samples(labels: NDArray[Any]) -> NDArray[np.intp]:
    """The samples that are drawn in the plane."""
    classes = spread_out(np.unique(labels), _CLASSES)
    return np.concatenate([spread_out(np.flatnonzero(labels == label), _PER_CLASS) for label in classes])


def spread_out(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Up to `count` of some values, at even steps from the first to the last."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(np.intp)]


def _plane(latents: Views, labels: NDArray[Any]) -> list[list[float]]:
    """The first two principal components, view by view; the second is zero if there is only one."""
    drawn = latents[drawn_samples(labels)]
    Z = np.vstack([X[seen] for X, seen in zip(drawn.arrays, drawn.mask.T, strict=True)])
    plane: Array = PCA(min(2, *Z.shape), svd_solver="full").fit_transform(Z)
    return cast(list[list[float]], np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))).tolist())


def _seconds_of_fit(tuned: Tuned, fitted: Any) -> float:
    """Seconds that a fit of the method by itself takes."""
    known = fitted[:-1].transform(tuned.views[tuned.train])
    model = clone(fitted[-1])
    start = time.perf_counter()
    model.fit(known, tuned.labels[tuned.train])
    return time.perf_counter() - start


def _matching(tuned: Tuned, fitted: Any, metric: str) -> dict[str, Any]:
    """How well samples are matched in a common space."""
    cell, latents, y = tuned.cell, tuned.latents(fitted), tuned.tested
    accuracy = metrics.cross_view_accuracy(latents, y, metric, counterparts=tuned.counterparts)
    found: dict[str, Any] = {"plane": _plane(latents, y)} if cell.repeat == 0 else {}
    if cell.split.n_repeats == 1:
        of_samples = sample_scores(latents, y, metric, tuned.counterparts).tolist()
        found["sample_scores"] = [None if np.isnan(s) else round(s, 5) for s in of_samples]
    return {
        **found,
        "score": float(np.nanmean(accuracy)),
        "accuracy": [[None if np.isnan(value) else float(value) for value in line] for line in accuracy],
        "one_shot": metrics.one_shot_accuracy(latents, y, metric),
        "average_precision": metrics.mean_average_precision(latents, y, metric),
        "with_counterparts": metrics.mean_accuracy(latents, y, metric, counterparts=True),
        "cmc": _mean_cmc(latents, y, metric, tuned.counterparts).tolist(),
    }


def sample_scores(latents: Views, y: NDArray[Any], metric: str, counterparts: bool = False) -> Array:
    """For every sample, the share of the galleries in which its nearest sample is of its class; nan if it has none.

    Directions with fewer probes weigh more, so that the mean over the samples is the mean accuracy.
    """
    scores, tried, n_pairs = np.zeros(len(y)), np.zeros(len(y), dtype=bool), 0
    for lookup, (found,) in score_probes(latents, y, metric, hits, counterparts):
        sizes = np.bincount(lookup.views)
        np.add.at(scores, lookup.rows, found / sizes[lookup.views])
        tried[lookup.rows] = True
        n_pairs += int(np.count_nonzero(sizes))
    return np.where(tried, scores * tried.sum() / max(n_pairs, 1), np.nan)


def _params(search: EmbeddingSearchCV, row: int) -> dict[str, Any]:
    """The parameters of a row of a search's results, ready for JSON."""
    return {name: encoded(plain(value)) for name, value in search.cv_results_["params"][row].items()}


def _mean_cmc(latents: Views, y: NDArray[Any], metric: str, counterparts: bool) -> Array:
    """Shares of probes whose class is among the r nearest, averaged over the ordered pairs of views."""
    upto = np.arange(1, _MAX_RANK + 1)[:, None]
    found = score_probes(latents, y, metric, ranks, counterparts)
    curves = np.concatenate([lookup.mean_by_view(of_probes <= upto) for lookup, of_probes in found], axis=1)
    return np.asarray(curves.mean(axis=1))
