"""Scaling and reducing views before an embedding, each view by itself or all pooled."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from crossview._blas import product
from crossview.embeddings._base import MultiViewTransformer, check_count, check_flag
from crossview.views import Array, ViewInput, Views, seen_by_several

__all__ = ["ViewPCA", "ViewScaler"]

_NEGLIGIBLE = 1e-8  # share of the largest variance: below, rounding of products of samples would be felt


class _ViewWise(MultiViewTransformer):
    """One scikit-learn transformer per view, or one fitted on the samples of all views."""

    transformers_: list[Any]

    def __init__(self, pooled: bool = True) -> None:
        self.pooled = pooled

    def _fitted(self, X: Array) -> Any:
        raise AssertionError("a subclass defines the transformer")

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn from the training views.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples; rows of NaN are left out, and so are samples that one view alone has seen, as embeddings do,
            unless a view has no others.
        y : ignored
            Not used.

        Returns
        -------
        self
            Fitted.
        """
        check_flag(self.pooled, "pooled")
        checked = Views(views)
        for name, seen in zip(checked.names, checked.mask.sum(axis=0), strict=True):
            if not seen:
                raise ValueError(f"view {name!r} has no sample to learn from: leave it out.")
        mask = seen_by_several(checked.mask)
        mask = mask if mask.any(axis=0).all() else checked.mask
        rows = [X if seen.all() else X[seen] for X, seen in zip(checked.arrays, mask.T, strict=True)]
        if self.pooled:
            if len(set(checked.n_features)) > 1:
                raise ValueError(
                    f"views with {', '.join(map(str, checked.n_features))} features cannot be pooled: "
                    f"use {type(self).__name__}(pooled=False) for one per view."
                )
            rows = [np.concatenate(rows)]
        self._check_rows(rows)
        fitted = [self._fitted(X) for X in rows]
        self.transformers_ = fitted * checked.shape[1] if self.pooled else fitted
        self._remember(checked)
        return self

    def _check_rows(self, rows: list[Array]) -> None:
        """Refuse what the transformer could not learn from."""

    def _n_outputs(self, v: int) -> int:
        return len(self.transformers_[v].get_feature_names_out())

    def _map(self, X: Array, v: int) -> Array:
        mapped: Array = self.transformers_[v].transform(X)
        return mapped


class ViewScaler(_ViewWise):
    """Standardise every feature to zero mean and unit variance.

    Parameters
    ----------
    pooled : bool
        Take mean and variance over the samples of all views together, which then need equal numbers of features;
        False takes them per view.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> scaled = cv.ViewScaler(pooled=False).fit_transform(data.views)
    >>> print(f"{scaled['right'].var(axis=0).max():.3f}")
    1.000
    """

    def _fitted(self, X: Array) -> StandardScaler:
        return StandardScaler().fit(X)


class ViewPCA(_ViewWise):
    """Reduce views to their principal components.

    Parameters
    ----------
    n_components : int
        Number of components, at most the number of features and of samples. With ``pooled``, those along which no
        sample varies are left out.
    pooled : bool
        Find one set of components for the samples of all views together, as the paper does; the views then need equal
        numbers of features. False finds components per view.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.ViewPCA(10).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 10 features, right: 10 features)
    """

    def __init__(self, n_components: int = 80, pooled: bool = True) -> None:
        super().__init__(pooled)
        self.n_components = n_components

    def _fitted(self, X: Array) -> PCA:
        wide = len(X) < X.shape[1] and 3 * self.n_components <= len(X)
        quick = _pca_of_few_samples(X, self.n_components) if wide else None
        pca = PCA(self.n_components, svd_solver="full").fit(X) if quick is None else quick
        # Each view by itself keeps them, so that views of different ranks have equal numbers of components.
        return _without_empty(pca) if self.pooled else pca

    def _check_rows(self, rows: list[Array]) -> None:
        check_count(self.n_components, "n_components", least=1)
        possible = min(min(X.shape) for X in rows)
        if self.n_components > possible:
            raise ValueError(
                f"n_components={self.n_components} is more than the {possible} that the data allow (features and "
                f"samples): choose {possible} or fewer."
            )


def _without_empty(pca: PCA) -> PCA:
    """The components along which samples vary by more than rounding; one at least."""
    size = max(pca.n_samples_, pca.n_features_in_)
    varies = pca.singular_values_ > size * np.finfo(float).eps * pca.singular_values_[0]
    pca.n_components_ = max(int(varies.sum()), 1)
    for name in ("components_", "singular_values_", "explained_variance_", "explained_variance_ratio_"):
        setattr(pca, name, getattr(pca, name)[: pca.n_components_])
    return pca


def _pca_of_few_samples(X: Array, k: int) -> PCA | None:
    """The first k principal components by products of samples, several times faster than by singular values.

    Products square the singular values, and so lose the small ones: None, if some of the k are among these.
    """
    mean = X.mean(axis=0)
    centred = X - mean
    products = product(centred, centred.T)
    values, U = scipy.linalg.eigh(products, subset_by_index=[len(X) - k, len(X) - 1], check_finite=False)
    values, U = values[::-1], U[:, ::-1]
    if values[-1] <= _NEGLIGIBLE * values[0]:
        return None
    components = product(U.T, centred) / np.sqrt(values)[:, None]
    largest = np.take_along_axis(components, abs(components).argmax(axis=1)[:, None], axis=1)
    total, freedom = np.trace(products), len(X) - 1
    pca = PCA(k, svd_solver="full")
    pca.mean_, pca.components_ = mean, components * np.sign(largest)
    pca.n_samples_, pca.n_features_in_, pca.n_components_ = len(X), X.shape[1], k
    pca.singular_values_ = np.sqrt(values)
    pca.explained_variance_, pca.explained_variance_ratio_ = values / freedom, values / total
    pca.noise_variance_ = float((total - values.sum()) / freedom / (len(X) - k))
    return pca
