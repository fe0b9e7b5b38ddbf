"""Single-view methods for several views: one map for all of them, or one for each by itself."""

from __future__ import annotations

import numpy as np

from crossview._types import Array, Indices
from crossview._validation import check_flag
from crossview.embeddings._linear import LinearEmbedding, TrainingData
from crossview.exceptions import NotApplicableError
from crossview.linalg.eigen import component_signs
from crossview.views import Views

__all__ = ["PooledEmbedding"]


class PooledEmbedding(LinearEmbedding):
    """Base of the single-view methods. A subclass defines `_solve_one`."""

    pooled: bool

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        check_flag(self.pooled, "pooled")
        each = views.mask.astype(np.float64)  # views are not paired: every sample counts alike
        if not self.pooled:
            return TrainingData.of(views, classes, center=self.center, weights=each)
        if len(set(views.n_features)) > 1:
            raise NotApplicableError(
                f"views with {', '.join(map(str, views.n_features))} features cannot share one map: "
                f"use {type(self).__name__}(pooled=False) for one per view."
            )
        rows = [X[seen] for X, seen in zip(views.arrays, views.mask.T, strict=True)]
        mean = np.concatenate(rows).mean(axis=0) if self.center else np.zeros(views.n_features[0])
        arrays = [np.where(seen[:, None], X - mean, 0.0) for X, seen in zip(views.arrays, views.mask.T, strict=True)]
        return TrainingData(arrays, [mean] * len(arrays), views.mask, classes, each)

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        seen = list(data.mask.T)
        rows = [X[s] for X, s in zip(data.arrays, seen, strict=True)]
        labels = [None if data.classes is None else data.classes[s] for s in seen]
        if self.pooled:
            pooled = None if data.classes is None else np.concatenate([data.classes[s] for s in seen])
            values, W = self._solve_one(np.concatenate(rows), pooled, d)
            return values, np.tile(W, (len(rows), 1))
        solutions = [self._solve_one(X, y, d) for X, y in zip(rows, labels, strict=True)]
        shared = min(len(values) for values, _ in solutions)
        # Nothing ties the views' signs to each other: each is set by itself.
        stacked = np.vstack([W[:, :shared] * component_signs(W[:, :shared]) for _, W in solutions])
        return np.array([values[:shared] for values, _ in solutions]), stacked

    def _solve_one(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        """Eigenvalues and the d components of one set of samples, or as many as it has."""
        raise AssertionError("a subclass defines the problem")
