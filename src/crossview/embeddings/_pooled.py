"""Single-view methods applied to several views: one map for all views."""

import numpy as np

from crossview._types import Array, Indices
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.linalg.samples import Samples
from crossview.views import Views


class PooledEmbedding(Embedding):
    """Base of methods that learn one map from the pooled samples of all views. A subclass defines `_solve_one`."""

    coupling_ = np.inf
    _needs_equal_widths = True

    def _training_data(self, views: Views, classes: Indices | None) -> TrainingData:
        # Views are not paired, so all samples have the same weight.
        return TrainingData.from_views(views, classes, center=self.center, weigh=None)

    def _max_components(self, data: TrainingData) -> int:
        return data.n_features[0]

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        values, W = self._solve_one(data.pooled(), d)
        return values, np.tile(W, (len(data.n_features), 1))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues and d components of one set of samples, none of them missing."""
        raise AssertionError("a subclass defines the problem")
