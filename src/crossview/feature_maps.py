"""Kernel feature maps of views."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.utils import Tags, check_random_state

from crossview._parameters import parameters
from crossview._schema import VIEWS, Schema, Sizes, has_shape, number, register
from crossview._transformer import MultiViewTransformer, Step
from crossview._types import Array, Indices, Mask, Rows
from crossview._validation import (
    check_count,
    check_equal_widths,
    check_flag,
    check_weight,
    per_view,
)
from crossview.engines import column_sums, concatenate, shift
from crossview.exceptions import NotApplicableError
from crossview.kernels import (
    WITH_WIDTH,
    Kernel,
    KernelMap,
    check_kernel_params,
    median_gamma,
    median_rows,
)
from crossview.samples import samples_of
from crossview.views import Views

if TYPE_CHECKING:
    from crossview.samples.lazy import LazySamples

__all__ = ["KernelTransformer", "ViewKernel"]


def _stored_kernel(value: Any, sizes: Sizes) -> bool:
    """Whether a value from a model file is a kernel of samples of its view."""
    check_kernel_params(value.kernel, value.kernel_params)
    sizes["precomputed", sizes["view"]] = value.precomputed
    return type(value) is Kernel and (value.origin is None or has_shape(value.origin, "D", sizes))


def _stored_landmarks(value: Any, sizes: Sizes) -> bool:
    """Whether a value from a model file holds samples, or columns of a precomputed kernel."""
    if not sizes["precomputed", sizes["view"]]:
        return has_shape(value, "r D", sizes)
    columns = has_shape(value, "r", sizes, np.intp)
    return columns and bool(0 <= value.min() <= value.max() < sizes["D", sizes["view"]])


@parameters
class KernelTransformer(MultiViewTransformer):
    r"""Base of the transformers with a kernel per view.

    Parameters
    ----------
    kernel : str or callable
        ``"rbf"``, ``"poly"``, ``"linear"``, ``"cosine"`` or any other name in scikit-learn's ``kernel_metrics()``; a
        callable ``kernel(x, z)`` that returns a number for two samples; or ``"precomputed"``: the views are then (m, m)
        kernel matrices in ``fit``, and (t, m) kernel values against the training samples afterwards. A missing sample
        is then a row of NaN, or False in the mask; its column is ignored but must be finite.
    gamma : float or sequence of float, optional
        Kernel width, one for all views or one per view. By default, the median heuristic per view for rbf,
        :math:`1 / (2 \sigma^2)` where σ is the median distance, and for laplacian, 1 / σ; scikit-learn's default for
        other kernels.
    gamma_scale : float
        Factor on the widths of the median heuristic. Search over it rather than over `gamma`: it does not depend on
        the units of the data.
    kernel_params : dict, optional
        Other arguments of the kernel, such as ``{"degree": 2, "coef0": 0}`` for ``"poly"``.
    n_landmarks : int, optional
        Number of training samples that span the map of a view (Nyström). All by default, which is exact. Dask arrays
        need a number.
    random_state : int, RandomState or None
        Seed for drawing the landmarks.

    Attributes
    ----------
    kernels_ : list of Kernel
        Kernel of each view with its fitted parameters.
    landmarks_ : list of ndarray
        Training samples that kernel values are taken against, (r_v, D_v) per view, or their indices, (r_v,), for a
        precomputed kernel. Their number is at most the rank of the kernel matrix.
    gamma_ : list of float or None
        Kernel width of each view; None for the default of the kernel.
    """

    kernel: str | Callable[..., float] = "rbf"
    gamma: float | Sequence[float] | None = None
    gamma_scale: float = 1.0
    kernel_params: dict[str, Any] | None = None
    n_landmarks: int | None = None
    random_state: int | np.random.RandomState | None = None

    _schema: ClassVar[Schema] = {
        **VIEWS,
        "kernels_": [_stored_kernel],
        "landmarks_": [_stored_landmarks],
        "gamma_": [number(optional=True)],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check_kernel(self, views: Views) -> None:
        """Refuse invalid kernels and parameters before any work is done."""
        known = sorted(kernel_metrics())
        if not callable(self.kernel) and self.kernel not in (*known, "precomputed"):
            raise ValueError(
                f"unknown kernel {self.kernel!r}: use a callable, 'precomputed', or one of {', '.join(known)}."
            )
        if self.n_landmarks is not None:
            check_count(self.n_landmarks, "n_landmarks", least=1)
        if self.gamma is not None:
            per_view(self.gamma, "gamma", views.shape[1], positive=True)
        check_weight(self.gamma_scale, "gamma_scale", positive=True)
        check_kernel_params(self.kernel, self.kernel_params)
        if self.kernel == "precomputed":
            for name, X in zip(views.names, views.arrays, strict=True):
                if X.shape[0] != X.shape[1]:
                    raise ValueError(
                        f"view {name!r} has shape {tuple(X.shape)}: with kernel='precomputed', fit needs the square "
                        "matrix of kernel values between all training samples."
                    )

    def _fit_kernel_maps(self, views: Views, *, center: bool = False) -> tuple[list[KernelMap], list[Rows]]:
        """Map of each view, and the features of the samples present there, which the caller may centre."""
        self._check_kernel(views)
        used = np.flatnonzero(views.mask.any(axis=1))
        shuffled = used[check_random_state(self.random_state).permutation(len(used))]
        fitted = []
        for v, (X, seen) in enumerate(zip(views.arrays, views.mask.T, strict=True)):
            ids = np.flatnonzero(seen)
            rows = X if seen.all() else X[np.ix_(ids, ids)] if self.kernel == "precomputed" else X[ids]
            origin = column_sums(rows) / len(rows) if self._has_origin(center) else None
            kernel = self._view_kernel(v, views.shape[1], rows, origin)
            fitted.append(KernelMap.fit(kernel, rows, self._draw(shuffled, seen), ids))
        return [one for one, _ in fitted], [R for _, R in fitted]

    def _fit_pooled_kernel_maps(self, views: Views, weights: Array) -> tuple[list[KernelMap], list[Rows], Indices]:
        """As `KernelMap.fit_pooled`: one kernel and one set of landmarks for all views, each moved to its mean."""
        self._check_kernel(views)
        if self.kernel == "precomputed":
            raise NotApplicableError(
                "views with precomputed kernels have no kernel values between each other: use coupling=0, or "
                "pooled=False for ViewKernel."
            )
        shuffled = check_random_state(self.random_state).permutation(len(views))
        rows = [X if seen.all() else X[seen] for X, seen in zip(views.arrays, views.mask.T, strict=True)]
        origins = [column_sums(X) / len(X) for X in rows]
        centred = concatenate(*map(shift, rows, origins))
        kernels = [self._view_kernel(0, len(rows), centred, origin) for origin in origins]
        return KernelMap.fit_pooled(
            kernels, origins, rows, [self._draw(shuffled, seen) for seen in views.mask.T], weights
        )

    def _fit_lazy_kernel_maps(
        self, views: Views, classes: Any = None, *, center: bool = False
    ) -> "tuple[list[KernelMap], LazySamples]":
        """Map of each view of Dask arrays, and the samples. The client receives those that it draws."""
        from crossview.samples.lazy import LazySamples, fetch

        assert self.n_landmarks is not None
        self._check_kernel(views)
        samples = samples_of(views, classes)
        assert isinstance(samples, LazySamples)
        sums, numbers = samples.view_sums()
        needs_median = self.gamma is None and self.kernel in WITH_WIDTH
        views_of = map(samples.single_view, range(len(sums) if needs_median else 0))
        few = fetch((one, median_rows(len(one))) for one in views_of)
        order = check_random_state(self.random_state).permutation(len(samples))
        maps = []
        for v, X in enumerate(samples.first_present(order, self.n_landmarks)):
            origin = sums[v] / numbers[v] if self._has_origin(center) else None
            kernel = self._view_kernel(v, len(sums), few[v].arrays[0] if few else X, origin)
            maps.append(KernelMap.fit(kernel, X)[0])
        return maps, samples

    def _draw(self, shuffled: Indices, seen: Mask) -> Indices | None:
        """Landmarks among the present samples of a view, the first in a random order of all; None for all."""
        if self.n_landmarks is None or self.n_landmarks >= seen.sum():
            return None
        return np.sort(np.searchsorted(np.flatnonzero(seen), shuffled[seen[shuffled]])[: self.n_landmarks])

    def _has_origin(self, center: bool) -> bool:
        # Centring makes the origin of a linear kernel arbitrary.
        return self.kernel == "rbf" or (self.kernel == "linear" and center)

    def _view_kernel(self, v: int, n_views: int, rows: Rows, origin: Array | None) -> Kernel:
        gamma = None if self.gamma is None else per_view(self.gamma, "gamma", n_views, positive=True)[v]
        median = median_gamma(rows, self.kernel) if gamma is None else None
        width = gamma if median is None else self.gamma_scale * median
        return Kernel(self.kernel, width, self.kernel_params, origin)

    def _instead_of_lazy(self) -> str | None:
        """What to do instead of passing Dask arrays, if these parameters do not allow it."""
        if self.kernel == "precomputed":
            return "pass kernel matrices as arrays in memory, or choose another kernel"
        if getattr(self, "pooled", False):
            return "set pooled=False"
        return (
            "set n_landmarks, the number of samples that span the map of a view" if self.n_landmarks is None else None
        )

    def _store_kernels(self, maps: Sequence[KernelMap]) -> None:
        self.kernels_: list[Kernel] = [kernel_map.kernel for kernel_map in maps]
        self.landmarks_: list[Any] = [kernel_map.landmarks for kernel_map in maps]
        self.gamma_: list[float | None] = [kernel.gamma for kernel in self.kernels_]


@register
@parameters
class ViewKernel(KernelTransformer, Step):
    r"""Map each view into the feature space of a kernel.

    Inner products of features are kernel values. A linear method after this step becomes a kernel method, for
    example ``make_pipeline(ViewKernel(), MvDA())``.

    Parameters
    ----------
    pooled : bool
        Whether all views share their coordinates: one kernel, and the samples of all views as landmarks, centred per
        view. A method after this step can then couple the maps; `KMvHE` with `coupling` does the same faster.

    Attributes
    ----------
    factors_ : list of ndarray, each of shape (r_v, r_v)
        Lower triangular factors of the landmarks' kernel matrices.

    Examples
    --------
    >>> import crossview as cv
    >>> from sklearn.pipeline import make_pipeline
    >>> data = cv.datasets.load_digits()
    >>> kernel_mvda = make_pipeline(cv.ViewKernel(), cv.MvDA()).fit(data.views[:300], data.y[:300])
    >>> kernel_mvda.transform(data.views)
    Views(1797 samples; left: 9 features, right: 9 features)
    """

    kernel: str | Callable[..., float] = field(default="rbf", kw_only=False)
    pooled: bool = False

    _schema: ClassVar[Schema] = {**KernelTransformer._schema, "factors_": ["r r"]}

    def _learn(self, views: Views) -> None:
        check_flag(self.pooled, "pooled")
        if self.pooled:
            check_equal_widths(views, self)
            n = views.shape[1]
            maps = self._fit_pooled_kernel_maps(views, np.ones((n, n)))[0]
        else:
            maps = (self._fit_lazy_kernel_maps if views._place == "Dask" else self._fit_kernel_maps)(views)[0]
        self._store_kernels(maps)
        self.factors_ = [kernel_map.factor for kernel_map in maps]

    def _map(self, X: Rows, v: int) -> Rows:
        features: Rows = KernelMap(self.kernels_[v], self.landmarks_[v], self.factors_[v]).features(X)
        return features

    def _n_outputs(self, v: int) -> int:
        return len(self.factors_[v])
