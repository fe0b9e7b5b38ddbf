"""The path that every method takes: check → data → scatters → solve → store. Think twice before adding anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._blas import product
from crossview._transformer import MultiViewTransformer
from crossview._types import Array, Indices
from crossview._validation import (
    check_count,
    check_equal_widths,
    check_flag,
    check_labels,
    check_two_views,
    check_views,
    check_weight,
)
from crossview.embeddings._data import TrainingData
from crossview.embeddings._spaces import SearchSpace
from crossview.linalg.eigen import component_signs
from crossview.metrics import mean_accuracy
from crossview.views import ViewInput, Views

__all__ = ["AUTO_COMPONENTS", "Embedding", "count_agreeing", "count_gains"]

AUTO_COMPONENTS = 20
"""How many components there are at the most with ``n_components="auto"``."""

_NO_GAIN = 1e-12  # relative to the largest
_AGREE = 0.1  # of two views that are equal, 1; of views that have nothing in common, 0


class Embedding(MultiViewTransformer):
    """Base of the methods.

    A method declares what it needs, and solves its problem in `_solve`. It may also refuse parameters
    (`_check_params`), prepare its training data (`_data`) and limit the number of components (`_max_components`).

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v, one per view.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from a view before it is projected.
    eigenvalues_ : ndarray of shape (d,)
        What the components attain.
    """

    n_components: int | str
    center: bool
    projections_: list[Array]
    means_: list[Array]
    eigenvalues_: Array

    search_space: ClassVar[SearchSpace] = {}
    """Values of the method's parameters that `crossview.tune` tries."""

    _revision: ClassVar[int] = 1  # raise it when the method's results change, so that stored ones are computed again
    _needs_labels: ClassVar[bool] = False
    _needs_two_views: ClassVar[bool] = False
    _needs_equal_widths: ClassVar[bool] = False
    _auto_components: ClassVar[bool] = False  # whether n_components may be "auto"
    _in_span: ClassVar[bool] = False  # whether maps are restricted to the span of the training samples
    _gains: ClassVar[bool] = False  # whether a component is of use only as long as what it attains is above 0
    _weights: ClassVar[tuple[str, ...]] = ()  # parameters that must be numbers, 0 or more

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        return tags

    @property
    def n_components_(self) -> int:
        """How many components there are: ``n_components``, or as many as the method can find in the data."""
        check_is_fitted(self)
        return self._n_outputs(0)

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Two views or more of the same m samples; a row of NaN is a sample that a view has not seen.
        y : array-like of shape (m,)
            One class label per sample; ignored by unsupervised methods.

        Returns
        -------
        self
            Fitted.
        """
        data = self._prepare(views, y)
        return self._store(data, *self._solve(data, min(self._wanted(), self._max_components(data))))

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

    def _prepare(self, views: ViewInput, y: ArrayLike | None) -> TrainingData:
        """Refuse what cannot be learnt from, and prepare the rest."""
        self._wanted()
        check_flag(self.center, "center")
        for name in self._weights:
            check_weight(getattr(self, name), name)
        checked = check_views(views, self)
        if self._needs_two_views:
            check_two_views(checked, self)
        if self._needs_equal_widths:
            check_equal_widths(checked, self)
        self._check_params(checked.shape[1])
        classes = check_labels(y, len(checked), self, checked.mask) if self._needs_labels else None
        learnt = np.flatnonzero(checked.mask.any(axis=1))
        if len(learnt) < len(checked) and not get_tags(self).input_tags.pairwise:
            # Classes of which nothing is left would count among those to tell apart.
            checked = checked[learnt]
            classes = None if classes is None else np.unique(classes[learnt], return_inverse=True)[1]
        data = self._data(checked, classes)
        return data.in_span() if self._in_span else data

    def _wanted(self) -> int:
        """How many components to find, at the most."""
        if self.n_components == "auto" and self._auto_components:
            return AUTO_COMPONENTS
        check_count(self.n_components, "n_components", least=1)
        return int(self.n_components)

    def _check_params(self, n_views: int) -> None:
        """Refuse parameters that make no sense."""

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        """The training data."""
        return TrainingData.of(views, classes, center=self.center)

    def _max_components(self, data: TrainingData) -> int:
        """How many components the method can give."""
        return data.rank

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        """Eigenvalues and the d components of all views, one above the other."""
        raise AssertionError("a subclass defines the problem")

    def _ties_views(self) -> bool:
        """Whether the objective has a part across views, without which they have no reason to agree."""
        return True

    def _store(self, data: TrainingData, eigenvalues: Array, W: Array) -> Self:
        """Keep the components that are of use."""
        kept = count_gains(eigenvalues) if self._gains else W.shape[1]
        if self.n_components == "auto" and self._ties_views():
            kept = min(kept, count_agreeing(data.latents(W)))
        self.eigenvalues_ = eigenvalues[..., :kept]
        self._store_maps(data, W[:, :kept])
        self._remember(data.views)
        return self

    def _store_maps(self, data: TrainingData, W: Array) -> None:
        bases = data.bases or [None] * len(data.arrays)
        maps = [
            w if B is None else product(B, np.ascontiguousarray(w)) for w, B in zip(data.split(W), bases, strict=True)
        ]
        signs = component_signs(np.vstack(maps))
        self.projections_ = [w * signs for w in maps]
        self.means_ = data.means

    def _map(self, X: Array, v: int) -> Array:
        return product(X - self.means_[v], np.ascontiguousarray(self.projections_[v]))

    def _n_outputs(self, v: int) -> int:
        return int(self.projections_[v].shape[1])


def count_gains(values: Array) -> int:
    """How many components come before the first that attains nothing."""
    gains = values > _NO_GAIN * max(values[0], 0.0)
    if not gains[0]:
        raise ValueError("no component makes the objective larger than 0: check weights, labels and views.")
    return int(gains.argmin()) if not gains.all() else len(gains)


def count_agreeing(latents: Sequence[Array]) -> int:
    """How many components come before the first along which the views agree by less than 0.1; at least 1.

    Views agree by the sum of the products of their latent samples, over all pairs of views and samples, relative to
    what it would be if the views were equal. A component that only one view varies along brings noise, and one along
    which views are opposed sets them apart.

    Parameters
    ----------
    latents : sequence of ndarray, each of shape (m, d)
        Training samples in the common space, centred, zero where a sample is missing.
    """
    squares = sum(np.square(Z).sum(axis=0) for Z in latents)
    products = np.square(sum(latents)).sum(axis=0) - squares  # over all ordered pairs of views
    apart = products < _AGREE * (len(latents) - 1) * squares
    return max(int(apart.argmax()), 1) if apart.any() else len(apart)
