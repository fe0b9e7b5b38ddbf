"""What every embedding shares. Think twice before adding anything."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossview._blas import product
from crossview._transformer import MultiViewTransformer
from crossview._types import Array
from crossview._validation import check_count
from crossview.metrics import mean_accuracy
from crossview.views import ViewInput

__all__ = [
    "AUTO_COMPONENTS",
    "Embedding",
    "wanted_components",
]


AUTO_COMPONENTS = 20
"""How many components there are at the most with ``n_components="auto"``."""


class Embedding(MultiViewTransformer):
    """Base of the supervised and unsupervised embeddings.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v, one per view.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from a view before it is projected.
    """

    _revision: ClassVar[int] = 1  # raise it when the method's results change, so that stored ones are computed again

    projections_: list[Array]
    means_: list[Array]

    @property
    def n_components_(self) -> int:
        """How many components there are: ``n_components``, or as many as the method can find in the data."""
        check_is_fitted(self)
        return self._n_outputs(0)

    def _map(self, X: Array, v: int) -> Array:
        return product(X - self.means_[v], np.ascontiguousarray(self.projections_[v]))

    def _n_outputs(self, v: int) -> int:
        return int(self.projections_[v].shape[1])

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Mean cross-view accuracy (mACC) of 1-nearest-neighbour matching in the common space.

        As in the paper, the gallery is all samples as one view sees them, the probe's own counterpart among them. See
        `crossview.metrics.mean_accuracy`.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        y : array-like of shape (m,)
            Their classes.

        Returns
        -------
        accuracy : float
            Mean over all ordered pairs of views, one the gallery, the other the probe.
        """
        return mean_accuracy(self.transform(views), y)


def centred(
    rows: Array, seen: NDArray[np.bool_], *, center: bool, overwrite: bool = False, weights: Array | None = None
) -> tuple[Array, Array]:
    """Samples less their mean, spread over all samples, zero where a view has not seen one; and the mean.

    Parameters
    ----------
    rows : ndarray of shape (number seen, D_v)
        The samples that the view has seen.
    seen : ndarray of bool, shape (m,)
        Which of all samples these are.
    center : bool
        Whether to subtract the mean; otherwise zero stands in its place.
    overwrite : bool
        Whether rows may be destroyed, which saves their copy.
    weights : ndarray of shape (number seen,), optional
        How much each sample counts in the mean; all alike when left out.
    """
    mean = np.average(rows, axis=0, weights=weights) if center else np.zeros(rows.shape[1])
    if center:
        rows = np.subtract(rows, mean, out=rows if overwrite else None)
    if seen.all():
        return rows, mean
    spread = np.zeros((len(seen), rows.shape[1]))
    spread[seen] = rows
    return spread, mean


def wanted_components(estimator: Any) -> int:
    """How many components an embedding is to find, at the most; "auto" is for those that have it as their default."""
    wanted = estimator.n_components
    if wanted == "auto" and inspect.signature(type(estimator)).parameters["n_components"].default == "auto":
        return AUTO_COMPONENTS
    check_count(wanted, "n_components", least=1)
    return int(wanted)
