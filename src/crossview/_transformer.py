"""The base class of multi-view transformers, and functions that apply them to one view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from crossview._config import get_config
from crossview._schema import VIEWS, Schema
from crossview._text import first_few
from crossview._types import FeatureNames, Rows
from crossview._validation import check_choice, check_lazy, learnable_views
from crossview.engines import fill_missing, like, map_rows, mask_of, place, to_device, to_numpy
from crossview.views import ViewInput, Views, index_of_view


class MultiViewTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base of transformers with one map per view.

    A subclass calls `_remember` in ``fit`` and defines `_map` and `_n_outputs`.
    """

    view_names_: list[str]
    n_features_: tuple[int, ...]
    n_features_in_: int
    feature_names_: list[FeatureNames]
    image_shape_: tuple[int, int] | None
    _schema: ClassVar[Schema] = VIEWS

    _takes_tensors: ClassVar[bool] = True  # whether fit and `_map` work on tensors; arrays are passed otherwise
    _output: str | None = None  # the container of outputs that `set_output` chose

    _refits: ClassVar[tuple[str, ...]] = ()
    """Parameters that `_refitter` can change much faster than a fit."""

    def __init_subclass__(cls, **options: Any) -> None:
        # scikit-learn would put the views of `fit_transform` into one frame; `_contain` makes one of each.
        super().__init_subclass__(auto_wrap_output_keys=None, **options)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        if self._output is not None:
            copy._output = self._output
        return copy

    def _remember(self, views: Views) -> None:
        """Store what later input must agree with: names and widths of the views, their columns and image size."""
        self.view_names_ = list(views.names)
        self.n_features_ = views.n_features
        self.n_features_in_ = sum(views.n_features)
        self.feature_names_ = list(views.feature_names)
        self.image_shape_ = views.image_shape

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Return a function that fits a copy with one of the settings, after computing once what they share.

        Settings differ in the parameters listed in `_refits`. The function must be equivalent to
        ``clone(self).set_params(**setting).fit(views, y)``.
        """
        return lambda setting: clone(self).set_params(**setting).fit(views, y)

    def _map(self, X: Rows, v: int) -> Rows:
        """Map samples of view v, none of them missing."""
        raise NotImplementedError("a subclass defines the map")

    def _n_outputs(self, v: int) -> int:
        """Number of output features of view v."""
        raise NotImplementedError("a subclass knows the map")

    def transform(self, views: ViewInput) -> Any:
        """Map every view into the common space.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            All views that the model was fitted on, in the same order or by name. Rows of NaN mark missing samples, and
            stay rows of NaN. Data frames need the columns of fit, in the same order.

        Returns
        -------
        latents : list, dict or Views
            One (m, d) matrix per view, in a container of the same type as `views`. If `set_output` asks for data
            frames, which a `Views` cannot hold, that is a dict for a `Views`. Tensors give tensors, and Dask arrays
            give Dask arrays.
        """
        mapped = self._mapped(views)
        given = [views[name] for name in mapped.names] if isinstance(views, Views | Mapping) else views
        outputs = [self._contain(Z, X, v) for v, (Z, X) in enumerate(zip(mapped.arrays, given, strict=True))]
        if isinstance(views, Views) and outputs[0] is mapped.arrays[0]:
            return mapped
        return dict(zip(mapped.names, outputs, strict=True)) if isinstance(views, Views | Mapping) else outputs

    def _mapped(self, views: ViewInput) -> Views:
        """As `transform`, but always a `Views`: for use within the library."""
        check_is_fitted(self)
        checked = self._check_known(views)
        mapped = [self._map_rows(X, v) for v, X in enumerate(checked.arrays)]
        return Views._trusted(mapped, checked.names, checked.mask)

    def transform_view(self, X: ArrayLike, view: int | str) -> Any:
        """Map samples of a single view.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            The samples.
        view : int or str
            The view that they come from, by index or name.

        Returns
        -------
        latent : ndarray or data frame of shape (t, d)
            The samples in the common space.
        """
        return transform_view(self, X, view)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the outputs of all views, one view after another.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the features of all views, one view after another, or those that all views share. Only scaling
            keeps them.

        Returns
        -------
        names : ndarray of str
            Names that begin with that of the view, such as ``photo__viewpca0``.
        """
        check_is_fitted(self)
        inputs = self._input_names(input_features)
        return np.array([name for v, names in enumerate(inputs) for name in self._names_out(v, names)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `transform_view` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            Arrays, or a data frame per view with the columns `get_feature_names_out`. Without a choice,
            ``sklearn.set_config(transform_output=...)`` decides.

        Returns
        -------
        self
            The transformer.
        """
        if transform is not None:
            check_choice(transform, "transform", ("default", "pandas", "polars"))
            self._output = transform
        return self

    def _names_out(self, v: int, inputs: list[str]) -> list[str]:
        """Names of the outputs of view v, given those of its inputs."""
        prefix = f"{self.view_names_[v]}__{type(self).__name__.lower()}"
        return [f"{prefix}{k}" for k in range(self._n_outputs(v))]

    def _input_names(self, given: Sequence[str] | None = None) -> list[list[str]]:
        """Names of the input features of every view, each with the view's name in front."""
        widths, views = self.n_features_, self.view_names_
        if given is None:
            named = zip(self.feature_names_, widths, strict=True)
            return [*map(_prefixed, (known or [f"x{k}" for k in range(D)] for known, D in named), views)]
        shared = set(widths) == {len(given)}  # as the components of an embedding are
        if not shared and len(given) != sum(widths):
            what = f"the number of features of all views, {sum(widths)}"
            raise ValueError(f"input_features should have length equal to {what}, got {len(given)} names.")
        ends = [len(given)] * len(widths) if shared else np.cumsum(widths)
        return [_prefixed(given[end - D : end], view) for D, end, view in zip(widths, ends, views, strict=True)]

    def _contain(self, Z: Rows, X: Any, v: int) -> Any:
        """Outputs of view v as an array or data frame, as the user chose; `X` is the input, whose index is kept."""
        output = self._output or sklearn.get_config()["transform_output"]
        if output == "default" or place(Z):
            return Z
        columns = self._names_out(v, self._input_names()[v])
        try:
            library = import_module(output)
        except ImportError as error:
            raise ImportError(f"install {output} for its frames, or use set_output(transform='default').") from error
        if output == "polars":
            return library.DataFrame(Z, schema=columns, orient="row")
        index = X.index if isinstance(X, library.DataFrame) else None
        return library.DataFrame(Z, index=index, columns=columns, copy=False)

    def _map_view(self, X: Any, view: int | str) -> Rows:
        """Check and map samples of one view."""
        check_is_fitted(self)
        v = index_of_view(view, self.view_names_)
        checked = Views([X], names=[self.view_names_[v]])
        self._check_features(checked.arrays[0], v, checked.feature_names[0])
        return self._map_rows(checked.arrays[0], v)

    def _map_rows(self, X: Rows, v: int) -> Rows:
        """Map the checked samples of view v; rows of NaN, which are missing, stay so."""
        check_lazy(X, self)
        return map_rows(X, self._map_present, v, width=self._n_outputs(v))

    def _map_present(self, X: Rows, v: int) -> Rows:
        """As `_map_rows`, in memory."""
        if place(X) and not self._takes_tensors:
            return like(X, self._map_present(to_numpy(X), v))
        moved, seen = X, mask_of(X)[:, 0]
        device = get_config()["device"]
        if device is not None and self._takes_tensors and not place(X):
            moved = to_device(X, device)
        if seen.any():
            mapped = fill_missing(self._map(moved if seen.all() else moved[seen], v), seen, np.nan)
        else:
            mapped = like(moved, np.full((len(X), self._n_outputs(v)), np.nan))
        return mapped if moved is X else to_numpy(mapped)

    def _check_known(self, views: ViewInput) -> Views:
        """Check that views are like the fitted ones, and put them in the same order."""
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
            order = [checked.names.index(name) for name in known]
            arrays, features = [checked.arrays[v] for v in order], [checked.feature_names[v] for v in order]
            checked = Views._trusted(arrays, known, checked.mask[:, order], features, checked.image_shape)
        self._check_images(checked.image_shape)
        for v, (X, columns) in enumerate(zip(checked.arrays, checked.feature_names, strict=True)):
            self._check_features(X, v, columns)
        return checked

    def _take(self, views: Views, name: str) -> Rows:
        """The samples of one of the views, which must be like those in fit."""
        X: Rows = views[name]
        self._check_images(views.image_shape)
        self._check_features(X, index_of_view(name, self.view_names_), views.feature_names[views.names.index(name)])
        return X

    def _check_images(self, shape: tuple[int, int] | None) -> None:
        """Refuse images of another size than in fit, even if they have as many pixels."""
        if shape is not None and self.image_shape_ is not None and shape != self.image_shape_:
            got, fitted = (f"{height} × {width}" for height, width in (shape, self.image_shape_))
            raise ValueError(
                f"the images are {got} pixels (height × width), but {type(self).__name__} was fitted on images of "
                f"{fitted}: load them in that size."
            )

    def _check_features(self, X: Rows, v: int, columns: FeatureNames) -> None:
        """Refuse other columns than in fit.

        Columns without names are accepted without scikit-learn's warning: ``views["photo"]`` is an array.
        """
        known = self.feature_names_[v]
        if columns is not None and known is not None and columns != known:
            fix = f"pass X[model.feature_names_[{v}]], where model is the fitted {type(self).__name__}"
            raise ValueError(f"columns of view {self.view_names_[v]!r} {column_difference(columns, known)}: {fix}.")
        expected = self.n_features_[v]
        if X.shape[1] != expected:
            raise ValueError(
                f"view {self.view_names_[v]!r}: X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{expected} features as input, as in fit."
            )


class Step(MultiViewTransformer):
    """Base of the steps before an embedding: they learn from views, without labels."""

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn from the training views.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples. Rows of NaN are ignored, and so are samples that only one view has, unless a view has no
            others.
        y : ignored
            Not used.

        Returns
        -------
        self
            The fitted transformer.
        """
        checked = learnable_views(views)
        check_lazy(checked.arrays[0], self, self._instead_of_lazy())
        self._learn(checked._on_device())
        self._remember(checked)
        return self

    def _learn(self, views: Views) -> None:
        """Check the parameters, and fit."""
        raise NotImplementedError("a subclass defines the map")

    def _instead_of_lazy(self) -> str | None:
        """What to do instead of passing Dask arrays, if these parameters do not allow it."""
        return None


def _prefixed(names: Sequence[str], view: str) -> list[str]:
    """Names that begin with that of the view, once: the outputs of one step are the inputs of the next."""
    prefix = f"{view}__"
    return [name if name.startswith(prefix) else prefix + name for name in names]


def column_difference(columns: Sequence[str], known: Sequence[str]) -> str:
    """How columns differ from those in fit."""
    given, fitted = set(columns), set(known)
    others = {"missing": [c for c in known if c not in given], "unexpected": [c for c in columns if c not in fitted]}
    parts = [f"{what} {first_few([*map(repr, names)])}" for what, names in others.items() if names]
    if not parts and len(given) == len(columns) == len(known):
        return "are in another order than in fit"
    return f"differ from those in fit ({'; '.join(parts) or 'some occur more than once'})"


def transform_view(model: Any, X: ArrayLike, view: int | str) -> Any:
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
    latent : ndarray or data frame of shape (t, d)
        The samples in the common space, in the container that ``set_output`` of the embedding asks for.

    Examples
    --------
    >>> import crossview as cv
    >>> from sklearn.pipeline import make_pipeline
    >>> data = cv.datasets.load_digits()
    >>> model = make_pipeline(cv.ViewScaler(), cv.MvHE(n_components=5)).fit(data.views[:300], data.y[:300])
    >>> cv.transform_view(model, data.views["right"][300:310], "right").shape
    (10, 5)
    """
    latent, last = map_view(model, X, view), unwrap(model)[-1]
    return last._contain(latent, X, index_of_view(view, last.view_names_))


def map_view(model: Any, X: ArrayLike, view: int | str) -> Rows:
    """As `transform_view`, but always an array: for use within the library."""
    latent: Any = X
    for step in unwrap(model):
        if not isinstance(step, MultiViewTransformer):
            raise TypeError(
                f"{type(step).__name__} cannot map a single view: use crossview's transformers in the pipeline."
            )
        latent = step._map_view(latent, view)
    return latent if place(latent) else np.asarray(latent)


def unwrap(model: Any) -> list[Any]:
    """The transformers that samples go through: the steps of a pipeline, or an embedding alone.

    Takes an embedding, a pipeline, a fitted search for one (scikit-learn's searches included), a matcher, or
    scikit-learn's ``FrozenEstimator`` around any of these.
    """
    if isinstance(model, FrozenEstimator):
        return unwrap(model.estimator)
    if isinstance(model, Pipeline):
        return [inner for _, step in model.steps if step not in (None, "passthrough") for inner in unwrap(step)]
    if hasattr(model, "embedding"):
        return unwrap(getattr(model, "embedding_", model.embedding))
    if hasattr(model, "estimator"):
        check_is_fitted(model, "best_estimator_")
        return unwrap(model.best_estimator_)
    return [model]
