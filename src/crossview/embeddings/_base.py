"""What every embedding shares. Think twice before adding anything."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from crossview._blas import cross_product, product
from crossview.graphs.neighbours import Indices
from crossview.recognition.metrics import mean_accuracy
from crossview.views import Array, ViewInput, Views, check_matrix, index_of_view, seen_by_several

__all__ = [
    "AUTO_COMPONENTS",
    "Embedding",
    "MultiViewTransformer",
    "check_count",
    "check_flag",
    "check_labels",
    "check_views",
    "check_weight",
    "wanted_components",
]


AUTO_COMPONENTS = 20
"""How many components there are at the most with ``n_components="auto"``."""


class MultiViewTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A transformer of several views, each by its own map.

    A subclass calls `_remember` in ``fit`` and defines `_map` and `_n_outputs`.
    """

    view_names_: list[str]
    n_features_: tuple[int, ...]
    n_features_in_: int

    _refits: ClassVar[tuple[str, ...]] = ()
    """Parameters that can change at a small part of the cost of a fit, by `_refitter`."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _remember(self, views: Views) -> None:
        """Store what later input is checked against."""
        self.view_names_ = list(views.names)
        self.n_features_ = views.n_features
        self.n_features_in_ = sum(views.n_features)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """What fits copies with each of the given settings, having computed once what these share.

        A search calls it with settings that differ in the parameters named in `_refits`; what is returned gives the
        same as ``clone(self).set_params(**setting).fit(views, y)``.
        """
        return lambda setting: clone(self).set_params(**setting).fit(views, y)

    def _map(self, X: Array, v: int) -> Array:
        """Map samples of view v, every one of them seen."""
        raise AssertionError("a subclass defines the map")

    def _n_outputs(self, v: int) -> int:
        """How many features view v is mapped to."""
        raise AssertionError("a subclass knows the map")

    def transform(self, views: ViewInput) -> Any:
        """Map every view into the common space.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            All the views that the model was fitted on: in the same order, or by name where they are named. Rows of
            NaN are samples that a view has not seen, and stay rows of NaN.

        Returns
        -------
        latents : list of ndarray, dict or Views
            One (m, d) matrix per view, in the kind of container that came in.
        """
        check_is_fitted(self)
        checked = self._check_known(views)
        mapped = [
            self._map_seen(X, seen, v) for v, (X, seen) in enumerate(zip(checked.arrays, checked.mask.T, strict=True))
        ]
        if isinstance(views, Views):
            return Views._trusted(mapped, checked.names, checked.mask)
        if isinstance(views, Mapping):
            return dict(zip(checked.names, mapped, strict=True))
        return mapped

    def transform_view(self, X: ArrayLike, view: int | str) -> Array:
        """Map new samples of one view alone.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            The samples.
        view : int or str
            The view they come from, by index or name.

        Returns
        -------
        latent : ndarray of shape (t, d)
            The samples in the common space.
        """
        check_is_fitted(self)
        v = index_of_view(view, self.view_names_)
        checked, seen = check_matrix(X, f"view {self.view_names_[v]!r}")
        self._check_features(checked, v)
        return self._map_seen(checked, seen, v)

    def _map_seen(self, X: Array, seen: NDArray[np.bool_], v: int) -> Array:
        if seen.all():
            return self._map(X, v)
        mapped = np.full((len(X), self._n_outputs(v)), np.nan)
        if seen.any():
            mapped[seen] = self._map(X[seen], v)
        return mapped

    def _check_known(self, views: ViewInput) -> Views:
        """Views in the order of the fitted ones, each with the features it should have."""
        checked, known = Views(views), self.view_names_
        if checked.shape[1] != len(known):
            raise ValueError(
                f"got {checked.shape[1]} views, but {type(self).__name__} was fitted on {len(known)}: "
                f"{', '.join(known)}. Use transform_view for samples of one view alone."
            )
        if isinstance(views, Views | Mapping) and checked.names != known:
            unknown = [name for name in checked.names if name not in known]
            if unknown:
                raise ValueError(
                    f"unknown view {unknown[0]!r}: {type(self).__name__} was fitted on {', '.join(map(repr, known))}. "
                    "Give the views these names, or pass them as a list, in this order."
                )
            order = [index_of_view(name, known) for name in checked.names]
            inverse = np.argsort(order)
            checked = Views._trusted([checked.arrays[v] for v in inverse], known, checked.mask[:, inverse])
        for v, X in enumerate(checked.arrays):
            self._check_features(X, v)
        return checked

    def _check_features(self, X: Array, v: int) -> None:
        expected = self.n_features_[v]
        if X.shape[1] != expected:
            raise ValueError(
                f"view {self.view_names_[v]!r}: X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{expected} features as input, as in fit."
            )


class Embedding(MultiViewTransformer):
    """Base of the supervised and unsupervised embeddings.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v, one per view.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from a view before it is projected.
    """

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


def check_views(views: ViewInput, estimator: object) -> Views:
    """Views fit to learn from: two or more, each of which varies and shares samples with another.

    Samples that one view alone has seen are marked as missing there, too.
    """
    checked = Views(views)
    name = type(estimator).__name__
    if checked.shape[1] < 2:
        raise ValueError(f"{name} needs 2 views or more, got {checked.shape[1]}: pass one matrix per view.")
    _check_numbers(checked, "has {} sample(s)", name)
    if not checked.mask.all():
        _check_connected(checked)
        checked = Views(checked, mask=seen_by_several(checked.mask))
        _check_numbers(checked, "shares {} sample(s) with other views", name)
    for v, (X, seen) in enumerate(zip(checked.arrays, checked.mask.T, strict=True)):
        label = f"view {checked.names[v]!r}"
        rows = X if seen.all() else X[seen]
        with np.errstate(over="ignore"):
            if not np.isfinite(np.einsum("ij,ij->", rows, rows)):
                raise ValueError(f"{label} has values too large to be squared: scale it down.")
            if 0.0 < np.abs(rows).max() < 1e-140:
                raise ValueError(f"{label} has values too small to be squared: scale it up.")
        if (rows[1:] == rows[0]).all():
            raise ValueError(f"{label} is constant in every column: there is nothing to learn from it, leave it out.")
    return checked


def _check_numbers(views: Views, what: str, name: str) -> None:
    """Refuse a view with fewer than two samples."""
    for view, number in zip(views.names, views.mask.sum(axis=0), strict=True):
        if number < 2:
            raise ValueError(f"view {view!r} {what.format(number)}, but {name} needs at least 2 to learn from.")


def _check_connected(views: Views) -> None:
    """Refuse groups of views that no sample ties together."""
    seen = views.mask.astype(np.float64)
    n_groups, group = connected_components(cross_product(seen, seen) > 0, directed=False)
    if n_groups > 1:
        groups = [", ".join(repr(views.names[v]) for v in np.flatnonzero(group == g)) for g in range(n_groups)]
        raise ValueError(
            f"these groups of views share no sample with each other: {' | '.join(groups)}. Nothing ties them to one "
            "common space. Row k of every view must be the same sample."
        )


def check_labels(y: ArrayLike | None, m: int, estimator: object, mask: NDArray[np.bool_] | None = None) -> Indices:
    """Classes coded from 0, of which there are at least two, also among the samples that the mask leaves."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: give one class label "
            "per sample."
        )
    labels = column_or_1d(y, warn=True)
    if len(labels) != m:
        raise ValueError(f"y has {len(labels)} labels, but the views have {m} samples: give one label per row.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity: give every sample a class, or leave it out.")
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels):
        # Numbers in an object array are numbers, and anything else among strings is a missing or mistaken label.
        try:
            labels = labels.astype(np.float64)
        except (TypeError, ValueError):
            other = next(label for label in labels if not isinstance(label, str))
            raise ValueError(f"y mixes strings with {other!r}: give every sample one class label.") from None
    with warnings.catch_warnings():
        # That many classes have few samples is what recognition is like, and no sign of a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only ({classes[0]}): {type(estimator).__name__} needs at least 2 classes to tell apart."
        )
    left = labels if mask is None else labels[mask.any(axis=1)]
    if (left == left[0]).all():
        raise ValueError(
            f"the samples that two views or more have seen are of one class only ({left[0]}): "
            f"{type(estimator).__name__} needs at least 2 classes to tell apart."
        )
    return codes.astype(np.intp)


def check_count(value: object, name: str, *, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}.")


def wanted_components(estimator: Any) -> int:
    """How many components an embedding is to find, at the most; "auto" is for those that have it as their default."""
    wanted = estimator.n_components
    if wanted == "auto" and inspect.signature(type(estimator)).parameters["n_components"].default == "auto":
        return AUTO_COMPONENTS
    check_count(wanted, "n_components", least=1)
    return int(wanted)


def check_choice(value: object, name: str, choices: Sequence[str]) -> None:
    """Refuse what is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_flag(value: object, name: str) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_weight(value: object, name: str, *, positive: bool = False) -> None:
    """Refuse what is not a finite number, 0 or more (or above 0)."""
    fine = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and np.isfinite(float(value))
    if not fine or float(value) < 0 or (positive and value == 0):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be a finite number {'above 0' if positive else 'of 0 or more'}, got {value!r}.")
