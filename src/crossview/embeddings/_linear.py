"""Linear embeddings that are one generalised eigenproblem over scatter matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import get_tags

from crossview._types import Array, Indices
from crossview._validation import check_flag, check_labels, check_two_views, check_views, check_weight
from crossview.embeddings._base import Embedding, centred, wanted_components
from crossview.linalg.eigen import component_signs
from crossview.views import ViewInput, Views

__all__ = [
    "LinearEmbedding",
    "TrainingData",
    "count_agreeing",
    "count_gains",
    "pair_weights",
]

_NO_GAIN = 1e-12  # relative to the largest
_AGREE = 0.1  # of two views that are equal, 1; of views that have nothing in common, 0


@dataclass(frozen=True)
class TrainingData:
    """Training views as a method's scatter matrices see them.

    Parameters
    ----------
    arrays : list of ndarray, each of shape (m, D_v)
        The views less their means, zero where a sample is missing.
    means : list of ndarray, each of shape (D_v,)
        What was subtracted.
    mask : ndarray of bool, shape (m, n)
        Which sample was seen in which view.
    classes : ndarray of int, shape (m,), optional
        Class of each sample, coded from 0; None for unsupervised methods.
    weights : ndarray of shape (m, n)
        How much a sample counts in the means and scatters of a view, as `pair_weights` gives it; 0 where it is missing.
    """

    arrays: list[Array]
    means: list[Array]
    mask: NDArray[np.bool_]
    classes: Indices | None
    weights: Array

    @classmethod
    def of(cls, views: Views, classes: Indices | None, *, center: bool, weights: Array | None = None) -> TrainingData:
        """Centre every view, and fill in zeros."""
        weights = pair_weights(views.mask) if weights is None else weights
        pairs = [
            centred(X if seen.all() else X[seen], seen, center=center, weights=w[seen])
            for X, seen, w in zip(views.arrays, views.mask.T, weights.T, strict=True)
        ]
        return cls([X for X, _ in pairs], [mean for _, mean in pairs], views.mask, classes, weights)

    @property
    def n_features(self) -> list[int]:
        """D_v of every view."""
        return [X.shape[1] for X in self.arrays]

    @property
    def n_classes(self) -> int:
        """C: how many classes there are."""
        return 0 if self.classes is None else int(self.classes.max()) + 1


def pair_weights(mask: NDArray[np.bool_]) -> Array:
    """Share of the other views that have seen a sample as well: 1 where no view lacks it, 0 where a view alone has it.

    It is the number of pairs that a sample has in a view, relative to that in complete views. Scatters of a view with
    these weights belong to the same pairs as the products of samples between views, whatever is missing.

    Parameters
    ----------
    mask : ndarray of bool, shape (m, n)
        Which sample was seen in which view.

    Returns
    -------
    weights : ndarray of shape (m, n)
        0 where a sample is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


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


class LinearEmbedding(Embedding):
    """Base of the linear methods. A subclass says how many components there can be, and solves its problem."""

    n_components: int | str
    center: bool
    eigenvalues_: Array

    _two_views: ClassVar[bool] = False
    _gains: ClassVar[bool] = False  # whether a component is of use only as long as what it attains is above 0
    _weights: ClassVar[tuple[str, ...]] = ("reg",)

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Views of the same m samples; a row of NaN is a sample that a view has not seen.
        y : array-like of shape (m,)
            One class label per sample; ignored by unsupervised methods.

        Returns
        -------
        self
            Fitted.
        """
        wanted = wanted_components(self)
        check_flag(self.center, "center")
        for name in self._weights:
            check_weight(getattr(self, name), name)
        checked = check_views(views, self)
        if self._two_views:
            check_two_views(checked, self)
        supervised = get_tags(self).target_tags.required
        classes = check_labels(y, len(checked), self, checked.mask) if supervised else None
        learnt = np.flatnonzero(checked.mask.any(axis=1))
        if len(learnt) < len(checked):
            # Classes of which nothing is left would count among those to tell apart.
            checked = checked[learnt]
            classes = None if classes is None else np.unique(classes[learnt], return_inverse=True)[1]
        data = self._data(checked, classes)
        eigenvalues, W = self._solve(data, min(wanted, self._max_components(data)))
        if self._gains:
            useful = count_gains(eigenvalues)
            eigenvalues, W = eigenvalues[:useful], W[:, :useful]
        signs = component_signs(W)
        self.eigenvalues_ = eigenvalues
        self.projections_ = np.split(W * signs, np.cumsum(data.n_features)[:-1])
        self.means_ = data.means
        self._remember(checked)
        return self

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        """The training data, after what only this method has to refuse."""
        return TrainingData.of(views, classes, center=self.center)

    def _max_components(self, data: TrainingData) -> int:
        """How many components the method can give."""
        return sum(data.n_features)

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        """Eigenvalues and the d components of all views, one above the other."""
        raise AssertionError("a subclass defines the problem")
