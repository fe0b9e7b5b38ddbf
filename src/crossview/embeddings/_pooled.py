"""Single-view methods applied to several views: one map for all views, or one per view."""

from typing import ClassVar

import numpy as np

from crossview._blas import product
from crossview._types import Array, Indices
from crossview._validation import check_equal_widths, check_flag
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.linalg.eigen import component_signs
from crossview.linalg.span import row_space
from crossview.views import Views


class PooledEmbedding(Embedding):
    """Base of the single-view methods. A subclass defines `_solve_one`."""

    pooled: bool
    _restrict_sets_to_span: ClassVar[bool] = False  # as `_restrict_to_span`, per set of samples that shares a map

    def _training_data(self, views: Views, classes: Indices | None) -> TrainingData:
        check_flag(self.pooled, "pooled")
        weights = views.mask.astype(np.float64)  # views are not paired, so all samples have the same weight
        if not self.pooled:
            return TrainingData.from_views(views, classes, center=self.center, weights=weights)
        check_equal_widths(views, self)
        mean = np.concatenate(views._present_rows()).mean(axis=0) if self.center else np.zeros(views.n_features[0])
        arrays = [np.where(seen[:, None], X - mean, 0.0) for X, seen in zip(views.arrays, views.mask.T, strict=True)]
        return TrainingData(views, classes, arrays, [mean] * len(arrays), weights)

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        seen = list(data.mask.T)
        rows = [X[s] for X, s in zip(data.arrays, seen, strict=True)]
        if self.pooled:
            classes = None if data.classes is None else np.concatenate([data.classes[s] for s in seen])
            values, W = self._solve_set(np.concatenate(rows), classes, d)
            return values, np.tile(W, (len(rows), 1))
        labels = [None if data.classes is None else data.classes[s] for s in seen]
        solutions = [self._solve_set(X, y, d) for X, y in zip(rows, labels, strict=True)]
        d = min(len(values) for values, _ in solutions)
        # The signs of different views are unrelated, so each view gets its own.
        stacked = np.vstack([W[:, :d] * component_signs(W[:, :d]) for _, W in solutions])
        return np.array([values[:d] for values, _ in solutions]), stacked

    def _solve_set(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        basis = row_space(X) if self._restrict_sets_to_span else None
        if basis is None:
            return self._solve_one(X, classes, d)
        values, W = self._solve_one(product(X, basis), classes, min(d, basis.shape[1]))
        return values, basis @ W

    def _solve_one(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        """Eigenvalues and up to d components of one set of samples."""
        raise AssertionError("a subclass defines the problem")
