"""Affine maps of views before an embedding: scaling and PCA."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.base import clone

from crossview._parameters import parameters
from crossview._schema import VIEWS, Schema, register
from crossview._transformer import Step
from crossview._types import Array, Rows
from crossview._validation import check_choice, check_count, check_flag
from crossview.engines import inner_products, matching, product, shift
from crossview.samples import Samples, samples_of
from crossview.views import Views

__all__ = ["ViewPCA", "ViewScaler"]

_GRAM_PRECISION = 1e-8  # share of the largest variance below which a Gram matrix loses components to rounding


@parameters
class _ViewWise(Step):
    """An affine map per view, learnt from that view or from the pooled samples of all views.

    A subclass checks its parameters in `_check` and learns a map from one set of samples in `_map_of`; the lists
    `_learnt` hold what it consists of, one value per view.

    Parameters
    ----------
    pooled : bool or "auto"
        Whether to learn one map from the samples of all views, as in the paper, which needs views of equal width, or
        one per view. ``"auto"`` pools views of equal width.

    Attributes
    ----------
    means_ : list of ndarray, each of shape (D_v,)
        Mean subtracted from each view.
    pooled_ : bool
        Whether the samples of all views were pooled.
    """

    pooled: bool | str = "auto"
    _learnt: ClassVar[tuple[str, ...]]

    def _learn(self, views: Views) -> None:
        self._check()
        check_flag(self.pooled == "auto" or self.pooled, "pooled")
        equal = len(set(views.n_features)) == 1
        self.pooled_ = self._may_pool and bool(equal if self.pooled == "auto" else self.pooled)
        if self.pooled_ and not equal:
            raise ValueError(
                f"views with {', '.join(map(str, views.n_features))} features cannot be pooled: "
                f"use {type(self).__name__}(pooled=False) to treat each view separately."
            )
        samples = samples_of(views)
        maps = [*map(self._map_of, [samples.pooled()] if self.pooled_ else samples.single_views())]
        self._store(maps * views.shape[1] if self.pooled_ else maps)

    def _store(self, maps: Sequence[tuple[Array, ...]]) -> None:
        for name, values in zip(self._learnt, zip(*maps, strict=True), strict=True):
            setattr(self, name, list(values))

    @property
    def _may_pool(self) -> bool:
        return True

    def _check(self) -> None:
        raise NotImplementedError

    def _map_of(self, samples: Samples) -> tuple[Array, ...]:
        raise NotImplementedError


@register
@parameters
class ViewScaler(_ViewWise):
    """Centre views and bring them to a common scale.

    Parameters
    ----------
    by : {"feature", "view"} or None
        ``"feature"`` scales each feature to unit variance. ``"view"`` divides the whole view by one number, so that its
        features have unit variance on average and keep their relative variances: use it if these carry information, as
        for principal components. None leaves the views unchanged. Only ``"feature"`` pools views.

    Attributes
    ----------
    scales_ : list of ndarray, each of shape (D_v,)
        Number that each feature is divided by.

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

    by: str | None = field(default="feature", kw_only=False)

    _schema: ClassVar[Schema] = {**VIEWS, "means_": ["D"], "scales_": ["D"], "pooled_": bool}
    _learnt = ("means_", "scales_")

    def _check(self) -> None:
        if self.by is not None:
            check_choice(self.by, "by", ("feature", "view"))

    @property
    def _may_pool(self) -> bool:
        return self.by == "feature"

    def _map_of(self, samples: Samples) -> tuple[Array, ...]:
        (D,) = samples.n_features
        if self.by is None:
            return np.zeros(D), np.ones(D)
        mean, variances = samples.moments()
        if self.by == "view":
            return mean, np.full(D, np.sqrt(variances.mean()) or 1.0)
        # A constant column may have a variance due to rounding.
        rounding = float(samples.n_seen[0]) * np.finfo(np.float64).eps
        constant = variances <= rounding * variances + np.square(rounding * mean)
        return mean, np.where(constant, 1.0, np.sqrt(variances))

    def _n_outputs(self, v: int) -> int:
        return len(self.means_[v])

    def _names_out(self, v: int, inputs: list[str]) -> list[str]:
        return inputs

    def _map(self, X: Rows, v: int) -> Rows:
        return shift(X, self.means_[v]) / matching(X, self.scales_[v])


@register
@parameters
class ViewPCA(_ViewWise):
    """Reduce views to their principal components.

    Parameters
    ----------
    n_components : int, float or None
        Maximum number of components per view; a view with fewer keeps all, so a narrow view does not limit a wide one.
        A number between 0 and 1 keeps as many as explain that share of a view's variance. None keeps all. Components
        along which no training sample varies are always dropped.

    Attributes
    ----------
    components_ : list of ndarray, each of shape (k_v, D_v)
        Components of each view, one per row.
    explained_variance_ratio_ : list of ndarray, each of shape (k_v,)
        Share of the view's variance along each component.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.ViewPCA(10).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 10 features, right: 10 features)
    >>> cv.ViewPCA(0.9, pooled=False).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 10 features, right: 13 features)
    """

    n_components: float | None = field(default=80, kw_only=False)

    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": ["D"],
        "components_": ["k D"],
        "explained_variance_ratio_": ["k"],
        "pooled_": bool,
    }
    _learnt = ("means_", "components_", "explained_variance_ratio_")
    _refits = ("n_components",)

    def _check(self) -> None:
        k = self.n_components
        share = isinstance(k, Real) and not isinstance(k, bool | np.bool_) and 0 < k < 1
        if k is not None and not share:
            check_count(k, "n_components", least=1)

    def _map_of(self, samples: Samples) -> tuple[Array, ...]:
        limit = None if self.n_components is None or self.n_components < 1 else int(self.n_components)
        mean, _ = samples.moments()
        components, shares = _principal_components(samples.shifted([mean]), limit)
        k = _n_kept(shares, self.n_components)
        return mean, components[:k], shares[:k]

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

        def refit(setting: Mapping[str, Any]) -> Any:
            cut = clone(self).set_params(**setting)
            cut._check()
            cut.pooled_ = fitted.pooled_
            counts = [_n_kept(shares, cut.n_components) for shares in fitted.explained_variance_ratio_]
            maps = zip(fitted.means_, fitted.components_, fitted.explained_variance_ratio_, counts, strict=True)
            cut._store([(mean, C[:k], shares[:k]) for mean, C, shares, k in maps])
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
        X = samples.factor()
        gram = inner_products(X, X)
    else:
        (gram,) = samples.grams()
    total = float(np.trace(gram)) or 1.0
    order = len(gram)
    values, V = scipy.linalg.eigh(gram, subset_by_index=[order - most, order - 1], check_finite=False)
    values, V = values[::-1], V.T[::-1]
    kept = int(np.sum(values > _GRAM_PRECISION * values[0]))
    if 0 < kept >= min(most, m - 1):  # m centred samples vary in at most m - 1 directions
        if m < D:
            V = product(np.ascontiguousarray(V[:kept]), X) / np.sqrt(values[:kept])[:, None]
        return _with_signs(V[:kept]), values[:kept] / total
    _, singular, Vt = scipy.linalg.svd(samples.factor(), full_matrices=False, check_finite=False)
    varies = singular > max(m, D) * np.finfo(np.float64).eps * singular[0]
    kept = min(max(int(varies.sum()), 1), most)
    return _with_signs(Vt[:kept]), np.square(singular[:kept]) / total


def _with_signs(components: Array) -> Array:
    """Flip the signs of components to make their largest entries positive."""
    largest = np.take_along_axis(components, abs(components).argmax(axis=1)[:, None], axis=1)
    return components * np.where(largest < 0.0, -1.0, 1.0)
