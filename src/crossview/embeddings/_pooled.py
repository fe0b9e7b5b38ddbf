"""Single-view methods applied to several views: one map for all views, or one per view."""

from typing import ClassVar

import numpy as np

from crossview._types import Array, Indices
from crossview._validation import check_equal_widths, check_flag
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.linalg.eigen import component_signs
from crossview.linalg.samples import Samples
from crossview.views import Views


class PooledEmbedding(Embedding):
    """Base of the single-view methods. A subclass defines `_solve_one`."""

    pooled: bool
    _restrict_sets_to_span: ClassVar[bool] = False  # as `_restrict_to_span`, per set of samples that shares a map

    def _training_data(self, views: Views, classes: Indices | None) -> TrainingData:
        check_flag(self.pooled, "pooled")
        if self.pooled:
            check_equal_widths(views, self)
        # Views are not paired, so all samples have the same weight.
        return TrainingData.from_views(views, classes, center=self.center, weigh=None, pooled=self.pooled)

    def _max_components(self, data: TrainingData) -> int:
        return min(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        if self.pooled:
            values, W = self._solve_set(data.pooled(), d)
            return values, np.tile(W, (len(data.n_features), 1))
        solutions = [self._solve_set(samples, d) for samples in data.single_views()]
        d = min(len(values) for values, _ in solutions)
        # The signs of different views are unrelated, so each view gets its own.
        stacked = np.vstack([W[:, :d] * component_signs(W[:, :d]) for _, W in solutions])
        return np.array([values[:d] for values, _ in solutions]), stacked

    def _solve_set(self, samples: Samples, d: int) -> tuple[Array, Array]:
        basis = samples.row_spaces()[0] if self._restrict_sets_to_span else None
        if basis is None:
            return self._solve_one(samples, d)
        values, W = self._solve_one(samples.in_coordinates([basis]), min(d, basis.shape[1]))
        return values, basis @ W

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues and up to d components of one set of samples, none of them missing."""
        raise AssertionError("a subclass defines the problem")
