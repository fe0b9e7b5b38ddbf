"""The base class of multi-view transformers, and functions that apply them to one view."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from crossview._types import Array
from crossview.views import ViewInput, Views, check_matrix, index_of_view


class MultiViewTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base of transformers with one map per view.

    A subclass calls `_remember` in ``fit`` and defines `_map` and `_n_outputs`.
    """

    view_names_: list[str]
    n_features_: tuple[int, ...]
    n_features_in_: int

    _refits: ClassVar[tuple[str, ...]] = ()
    """Parameters that `_refitter` can change much faster than a fit."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _remember(self, views: Views) -> None:
        """Store the names and widths of the views, to check later input."""
        self.view_names_ = list(views.names)
        self.n_features_ = views.n_features
        self.n_features_in_ = sum(views.n_features)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Return a function that fits a copy with one of the settings, after computing once what they share.

        Settings differ in the parameters listed in `_refits`. The function must be equivalent to
        ``clone(self).set_params(**setting).fit(views, y)``.
        """
        return lambda setting: clone(self).set_params(**setting).fit(views, y)

    def _map(self, X: Array, v: int) -> Array:
        """Map samples of view v, none of them missing."""
        raise AssertionError("a subclass defines the map")

    def _n_outputs(self, v: int) -> int:
        """Number of output features of view v."""
        raise AssertionError("a subclass knows the map")

    def transform(self, views: ViewInput) -> Any:
        """Map every view into the common space.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            All views that the model was fitted on, in the same order or by name. Rows of NaN mark missing samples, and
            stay rows of NaN.

        Returns
        -------
        latents : list of ndarray, dict or Views
            One (m, d) matrix per view, in a container of the same type as `views`.
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
        """Map samples of a single view.

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
        """Check the names and widths of views, and put them in the order of the fitted ones."""
        checked, known = Views(views), self.view_names_
        if checked.shape[1] != len(known):
            raise ValueError(
                f"got {checked.shape[1]} views, but {type(self).__name__} was fitted on {len(known)}: "
                f"{', '.join(known)}. Use transform_view for a single view."
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


def transform_view(model: Any, X: ArrayLike, view: int | str) -> Array:
    """Map samples of a single view with a fitted embedding, pipeline, search or matcher.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (t, D_v)
        Samples as the view sees them.
    view : int or str
        The view, by position or name.

    Returns
    -------
    latent : ndarray of shape (t, d)
        The samples in the common space.
    """
    for step in unwrap(model):
        if not hasattr(step, "transform_view"):
            raise TypeError(
                f"{type(step).__name__} cannot map a single view: use crossview's transformers in the pipeline."
            )
        X = step.transform_view(X, view)
    return np.asarray(X)


def unwrap(model: Any) -> list[Any]:
    """The transformers that samples go through: the steps of a pipeline, or an embedding alone.

    Takes an embedding, a pipeline, a fitted search for one (scikit-learn's searches included), a fitted matcher, or
    scikit-learn's ``FrozenEstimator`` around any of these.
    """
    if isinstance(model, FrozenEstimator):
        return unwrap(model.estimator)
    if isinstance(model, Pipeline):
        return [inner for _, step in model.steps if step not in (None, "passthrough") for inner in unwrap(step)]
    for given, fitted in (("embedding", "embedding_"), ("estimator", "best_estimator_")):
        if hasattr(model, given):
            check_is_fitted(model, fitted)
            return unwrap(getattr(model, fitted))
    return [model]
