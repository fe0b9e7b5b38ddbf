"""Preprocessing before an embedding: scaling, PCA and kernel maps."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.utils import Tags, check_random_state

from crossview._backend import column_sums, divide_columns, inner_products, product, shift, to_numpy
from crossview._transformer import MultiViewTransformer
from crossview._types import Array, Indices, Rows
from crossview._validation import check_choice, check_count, check_flag, check_lazy, check_weight, per_view
from crossview.kernels import (
    WITH_WIDTH,
    Kernel,
    KernelMap,
    check_kernel_params,
    kernel_features,
    median_gamma,
    median_rows,
)
from crossview.landmarks import LANDMARKS, choose_landmarks, n_candidates
from crossview.linalg.classes import grams
from crossview.linalg.samples import Samples, moments, view_sums
from crossview.views import ViewInput, Views, seen_by_several

if TYPE_CHECKING:
    from crossview.linalg.lazy import LazySamples

__all__ = ["KernelTransformer", "ViewKernel", "ViewPCA", "ViewScaler"]

_GRAM_PRECISION = 1e-8  # share of the largest variance below which a Gram matrix loses components to rounding


class _ViewWise(MultiViewTransformer):
    """An affine map per view, learnt from that view or from the pooled samples of all views.

    A subclass defines `_learn`, which returns a map for one set of samples, and `_store`, which keeps one map per view.
    """

    pooled: bool | str

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
        self._check()
        checked = _learnable(views)
        samples = Samples.of(checked)
        self.pooled_ = self._is_pooled(checked)
        sets = [samples.pooled()] if self.pooled_ else [*samples.single_views()]
        maps = [self._learn(one) for one in sets]
        self._store(maps * checked.shape[1] if self.pooled_ else maps)
        self._remember(checked)
        return self

    def _is_pooled(self, views: Views) -> bool:
        equal = len(set(views.n_features)) == 1
        if self.pooled == "auto":
            return equal
        check_flag(self.pooled, "pooled")
        if self.pooled and not equal:
            raise ValueError(
                f"views with {', '.join(map(str, views.n_features))} features cannot be pooled: "
                f"use {type(self).__name__}(pooled=False) to treat each view separately."
            )
        return bool(self.pooled)

    def _check(self) -> None:
        """Refuse invalid parameters."""

    def _learn(self, samples: Samples) -> Any:
        raise AssertionError("a subclass defines the map")

    def _store(self, maps: Sequence[Any]) -> None:
        raise AssertionError("a subclass defines the map")


class ViewScaler(_ViewWise):
    """Centre views and bring them to a common scale.

    Parameters
    ----------
    by : {"feature", "view"} or None
        ``"feature"`` scales each feature to unit variance. ``"view"`` divides the whole view by one number, so that its
        features have unit variance on average and keep their relative variances: use it if these carry information, as
        for principal components. None leaves the views unchanged.
    pooled : bool or "auto"
        Whether ``by="feature"`` computes means and variances over the samples of all views, which suits images of the
        same kind and needs views of equal width, or per view. ``"auto"`` pools views of equal width.

    Attributes
    ----------
    means_, scales_ : list of ndarray, each of shape (D_v,)
        Offset subtracted from the features of each view, and the divisor applied afterwards.
    pooled_ : bool
        Whether the samples of all views were pooled.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> scaled = cv.ViewScaler(by="feature", pooled=False).fit_transform(data.views)
    >>> print(f"{scaled['right'].var(axis=0).max():.3f}")
    1.000
    >>> scaled = cv.ViewScaler(by="view").fit_transform(data.views)
    >>> print(f"{scaled['right'].var(axis=0).mean():.3f}")
    1.000
    """

    means_: list[Array]
    scales_: list[Array]

    def __init__(self, by: str | None = "feature", pooled: bool | str = "auto") -> None:
        self.by = by
        self.pooled = pooled

    def _check(self) -> None:
        if self.by is not None:
            check_choice(self.by, "by", ("feature", "view"))

    def _is_pooled(self, views: Views) -> bool:
        return super()._is_pooled(views) and self.by == "feature"

    def _learn(self, samples: Samples) -> tuple[Array, Array]:
        (D,) = samples.n_features
        if self.by is None:
            return np.zeros(D), np.ones(D)
        mean, variances = moments(samples)
        if self.by == "view":
            return mean, np.full(D, np.sqrt(variances.mean()) or 1.0)
        # A constant column may have a variance due to rounding.
        rounding = float(samples.n_seen[0]) * np.finfo(np.float64).eps
        constant = variances <= rounding * variances + np.square(rounding * mean)
        return mean, np.where(constant, 1.0, np.sqrt(variances))

    def _store(self, maps: Sequence[tuple[Array, Array]]) -> None:
        self.means_, self.scales_ = map(list, zip(*maps, strict=True))

    def _n_outputs(self, v: int) -> int:
        return len(self.means_[v])

    def _names_out(self, v: int, inputs: list[str]) -> list[str]:
        return inputs

    def _map(self, X: Rows, v: int) -> Rows:
        return divide_columns(shift(X, self.means_[v]), self.scales_[v])


class ViewPCA(_ViewWise):
    """Reduce views to their principal components.

    Parameters
    ----------
    n_components : int, float or None
        Maximum number of components per view; a view with fewer keeps all, so a narrow view does not limit a wide one.
        A number between 0 and 1 keeps as many as explain that share of a view's variance. None keeps all. Components
        along which no training sample varies are always dropped.
    pooled : bool or "auto"
        Whether to compute one set of components from the samples of all views, as in the paper, which needs views of
        equal width, or one per view. ``"auto"`` pools views of equal width.

    Attributes
    ----------
    means_ : list of ndarray, each of shape (D_v,)
        Mean subtracted from each view.
    components_ : list of ndarray, each of shape (k_v, D_v)
        Components of each view, one per row.
    explained_variance_ratio_ : list of ndarray, each of shape (k_v,)
        Share of the view's variance along each component.
    pooled_ : bool
        Whether the samples of all views were pooled.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.ViewPCA(10).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 10 features, right: 10 features)
    >>> cv.ViewPCA(0.9, pooled=False).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 10 features, right: 13 features)
    """

    means_: list[Array]
    components_: list[Array]
    explained_variance_ratio_: list[Array]

    _refits = ("n_components",)

    def __init__(self, n_components: float | None = 80, pooled: bool | str = "auto") -> None:
        self.n_components = n_components
        self.pooled = pooled

    def _check(self) -> None:
        k = self.n_components
        share = isinstance(k, Real) and not isinstance(k, bool | np.bool_) and 0 < k < 1
        if k is not None and not share:
            check_count(k, "n_components", least=1)

    def _learn(self, samples: Samples) -> tuple[Array, Array, Array]:
        limit = None if self.n_components is None or self.n_components < 1 else int(self.n_components)
        mean, _ = moments(samples)
        components, shares = _principal_components(samples.shifted([mean]), limit)
        k = _n_kept(shares, self.n_components)
        return mean, components[:k], shares[:k]

    def _store(self, maps: Sequence[tuple[Array, Array, Array]]) -> None:
        self.means_, self.components_, self.explained_variance_ratio_ = map(list, zip(*maps, strict=True))

    def _n_outputs(self, v: int) -> int:
        return len(self.components_[v])

    def _map(self, X: Rows, v: int) -> Rows:
        return product(shift(X, self.means_[v]), np.ascontiguousarray(self.components_[v].T))

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Decompose once: the first components of a PCA are those of a PCA with fewer components."""
        numbers = [setting.get("n_components", self.n_components) for setting in settings]
        whole = [int(k) for k in numbers if isinstance(k, Integral)]
        most = max(whole) if len(whole) == len(numbers) and min(whole) >= 1 else None
        fitted: ViewPCA = clone(self).set_params(n_components=most).fit(views)
        maps = list(zip(fitted.means_, fitted.components_, fitted.explained_variance_ratio_, strict=True))

        def refit(setting: Mapping[str, Any]) -> Any:
            cut = clone(self).set_params(**setting)
            cut._check()
            cut.pooled_ = fitted.pooled_
            counts = [_n_kept(shares, cut.n_components) for _, _, shares in maps]
            cut._store([(mean, C[:k], s[:k]) for (mean, C, s), k in zip(maps, counts, strict=True)])
            cut._remember(views)
            return cut

        return refit


def _n_kept(shares: Array, n_components: float | None) -> int:
    """Number of components to keep, given their shares of the variance."""
    if n_components is None or not len(shares):
        return len(shares)
    if n_components >= 1:
        return min(int(n_components), len(shares))
    return min(int(np.searchsorted(np.cumsum(shares), n_components, side="right")) + 1, len(shares))


def _principal_components(samples: Samples, limit: int | None) -> tuple[Array, Array]:
    """Components of centred samples, one per row, and the share of variance along each.

    The Gram matrix of samples or features, whichever is smaller, is several times faster than a singular value
    decomposition. It squares the singular values, however, so small ones drown in rounding error: if these are needed,
    the singular values are computed.
    """
    (m,), (D,) = samples.n_seen, samples.n_features
    most = min(m, D) if limit is None else min(limit, m, D)
    if m < D:
        X = samples.factors()[0]
        gram = inner_products(X, X)
    else:
        (gram,) = grams(samples)
    total = float(np.trace(gram)) or 1.0
    order = len(gram)
    values, V = scipy.linalg.eigh(gram, subset_by_index=[order - most, order - 1], check_finite=False)
    values, V = values[::-1], V.T[::-1]
    kept = int(np.sum(values > _GRAM_PRECISION * values[0]))
    if 0 < kept >= min(most, m - 1):  # m centred samples vary in at most m - 1 directions
        if m < D:
            V = product(np.ascontiguousarray(V[:kept]), X) / np.sqrt(values[:kept])[:, None]
        return _with_signs(V[:kept]), values[:kept] / total
    _, singular, Vt = scipy.linalg.svd(samples.factors()[0], full_matrices=False, check_finite=False)
    varies = singular > max(m, D) * np.finfo(np.float64).eps * singular[0]
    kept = min(max(int(varies.sum()), 1), most)
    return _with_signs(Vt[:kept]), np.square(singular[:kept]) / total


def _with_signs(components: Array) -> Array:
    """Flip the signs of components to make their largest entries positive."""
    largest = np.take_along_axis(components, abs(components).argmax(axis=1)[:, None], axis=1)
    return components * np.where(largest < 0.0, -1.0, 1.0)


class KernelTransformer(MultiViewTransformer):
    """Base of the transformers with a kernel per view, whose parameters `ViewKernel` documents."""

    kernels_: list[Kernel]
    landmarks_: list[Any]
    gamma_: list[float | None]

    def __init__(
        self,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | Sequence[float] | None = None,
        gamma_scale: float = 1.0,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        landmarks: str = "uniform",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state

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
        check_choice(self.landmarks, "landmarks", LANDMARKS)
        if self.gamma is not None:
            per_view(self.gamma, "gamma", views.shape[1], positive=True)
        check_weight(self.gamma_scale, "gamma_scale", positive=True)
        check_weight(self.degree, "degree")
        check_weight(self.coef0, "coef0")
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
        random = check_random_state(self.random_state)
        used = np.flatnonzero(views.mask.any(axis=1))
        shuffled = used[random.permutation(len(used))]
        maps, features = [], []
        for v, (X, seen) in enumerate(zip(views.arrays, views.mask.T, strict=True)):
            ids = np.flatnonzero(seen)
            rows = X if seen.all() else X[np.ix_(ids, ids)] if self.kernel == "precomputed" else X[ids]
            origin = column_sums(rows) / len(rows) if self._has_origin(center) else None
            kernel = self._view_kernel(v, views.shape[1], rows, origin)
            landmarks = None
            if self.n_landmarks is not None and self.n_landmarks < len(rows):
                order = np.searchsorted(ids, shuffled[seen[shuffled]])
                points = rows if self.landmarks == "uniform" else to_numpy(rows)
                landmarks = choose_landmarks(self.landmarks, kernel, points, self.n_landmarks, order, random)
            kernel_map, R = KernelMap.fit(kernel, rows, landmarks, ids)
            maps.append(kernel_map)
            features.append(R)
        return maps, features

    def _fit_lazy_kernel_maps(
        self, views: Views, classes: Any = None, *, center: bool = False
    ) -> "tuple[list[KernelMap], LazySamples]":
        """Map of each view of Dask arrays, and the samples. The client receives those that it draws."""
        from crossview.linalg.lazy import LazySamples, fetch

        assert self.n_landmarks is not None
        self._check_kernel(views)
        samples = LazySamples.of(views, classes)
        random = check_random_state(self.random_state)
        sums, numbers = view_sums(samples)
        needs_median = self.gamma is None and self.kernel in WITH_WIDTH
        views_of = map(samples.single_view, range(len(sums) if needs_median else 0))
        few = fetch((one, median_rows(len(one))) for one in views_of)
        drawn = samples.first_present(random.permutation(len(samples)), n_candidates(self.landmarks, self.n_landmarks))
        maps = []
        for v, (X, order) in enumerate(drawn):
            origin = sums[v] / numbers[v] if self._has_origin(center) else None
            kernel = self._view_kernel(v, len(sums), few[v].arrays[0] if few else X, origin)
            if self.n_landmarks < numbers[v]:
                X = X[choose_landmarks(self.landmarks, kernel, X, self.n_landmarks, order, random)]
            maps.append(KernelMap.fit(kernel, X)[0])
        return maps, samples

    def _has_origin(self, center: bool) -> bool:
        # Centring makes the origin of a linear kernel arbitrary.
        return self.kernel == "rbf" or (self.kernel == "linear" and center)

    def _view_kernel(self, v: int, n_views: int, rows: Rows, origin: Array | None) -> Kernel:
        gamma = None if self.gamma is None else per_view(self.gamma, "gamma", n_views, positive=True)[v]
        median = median_gamma(rows, self.kernel) if gamma is None else None
        width = gamma if median is None else self.gamma_scale * median
        return Kernel(self.kernel, width, self.degree, self.coef0, self.kernel_params, origin)

    def _instead_of_lazy(self) -> str | None:
        """What to do instead of passing Dask arrays, if these parameters do not allow it."""
        if self.kernel == "precomputed":
            return "pass kernel matrices as arrays in memory, or choose another kernel"
        if self.n_landmarks is None:
            return "set n_landmarks, the number of samples that span the map of a view"
        return "choose landmarks='uniform' or 'k-means++'" if self.landmarks == "leverage" else None

    def _store_kernels(self, maps: Sequence[KernelMap]) -> None:
        self.kernels_ = [kernel_map.kernel for kernel_map in maps]
        self.landmarks_ = [kernel_map.landmarks for kernel_map in maps]
        self.gamma_ = [kernel.gamma for kernel in self.kernels_]


class ViewKernel(KernelTransformer):
    r"""Map each view into the feature space of a kernel.

    The features of a sample are its coordinates in the part of the feature space that the training samples, or
    landmarks among them, span: their inner products are the kernel values. A linear method after this step becomes a
    kernel method, for example ``make_pipeline(ViewKernel(), MvDA())``.

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
    degree, coef0 : float
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, optional
        Additional keyword arguments of the kernel.
    n_landmarks : int, optional
        Number of training samples that span the map of a view (Nyström). All by default, which is exact. Dask arrays
        need a number.
    landmarks : {"uniform", "k-means++", "leverage"}
        How to choose them: at random; far from each other [1]_; or at random in proportion to their approximate ridge
        leverage scores [2]_ [3]_, which prefers samples that others do not represent well and needs arrays in memory.
    random_state : int, RandomState or None
        Seed for drawing the landmarks.

    Attributes
    ----------
    kernels_ : list of Kernel
        Kernel of each view with its fitted parameters.
    landmarks_ : list of ndarray
        Training samples that kernel values are taken against, (r_v, D_v) per view, or their indices, (r_v,), for a
        precomputed kernel. Their number is at most the rank of the kernel matrix.
    factors_ : list of ndarray, each of shape (r_v, r_v)
        Lower triangular factors of the landmarks' kernel matrices.
    gamma_ : list of float or None
        Kernel width of each view; None for the default of the kernel.

    References
    ----------
    .. [1] D. Arthur, S. Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007.
    .. [2] A. Alaoui, M. W. Mahoney, "Fast Randomized Kernel Ridge Regression with Statistical Guarantees", NIPS 2015.
    .. [3] C. Musco, C. Musco, "Recursive Sampling for the Nyström Method", NIPS 2017.

    Examples
    --------
    >>> import crossview as cv
    >>> from sklearn.pipeline import make_pipeline
    >>> data = cv.datasets.load_digits()
    >>> kernel_mvda = make_pipeline(cv.ViewKernel(), cv.MvDA()).fit(data.views[:300], data.y[:300])
    >>> kernel_mvda.transform(data.views)
    Views(1797 samples; left: 9 features, right: 9 features)
    """

    factors_: list[Array]

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples. Rows of NaN are ignored, and so are samples that only one view has.
        y : ignored
            Not used.

        Returns
        -------
        self
            The fitted transformer.
        """
        checked = _learnable(views)
        if checked._lazy:
            check_lazy(self, self.device, self._instead_of_lazy())
        maps = (self._fit_lazy_kernel_maps if checked._lazy else self._fit_kernel_maps)(checked)[0]
        self._store_kernels(maps)
        self.factors_ = [kernel_map.factor for kernel_map in maps]
        self._remember(checked)
        return self

    def _map(self, X: Rows, v: int) -> Rows:
        features: Rows = kernel_features(self.kernels_[v], self.landmarks_[v], self.factors_[v], X)
        return features

    def _n_outputs(self, v: int) -> int:
        return len(self.factors_[v])


def _learnable(views: ViewInput) -> Views:
    """Samples to learn from: those that several views have, unless this leaves a view without any."""
    checked = Views(views)
    n_seen, n_paired = checked._total(_counts)
    for name, number in zip(checked.names, n_seen, strict=True):
        if not number:
            raise ValueError(f"view {name!r} has no samples to learn from: remove it.")
    complete = n_seen.min() == len(checked)
    return checked if complete or not n_paired.all() else Views(checked, mask=seen_by_several(checked.mask))


def _counts(views: Views) -> list[Indices]:
    """Number of samples in each view, and of those that another view has, too."""
    return [views.mask.sum(axis=0), seen_by_several(views.mask).sum(axis=0)]
