"""Scaling and reducing views before an embedding, each view by itself or all pooled."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from crossview.embeddings._base import MultiViewTransformer, check_count, check_flag
from crossview.views import Array, ViewInput, Views

__all__ = ["ViewPCA", "ViewScaler"]


class _ViewWise(MultiViewTransformer):
    """One scikit-learn transformer per view, or one fitted on the samples of all views."""

    transformers_: list[Any]

    def __init__(self, pooled: bool = True) -> None:
        self.pooled = pooled

    def _new(self) -> Any:
        raise AssertionError("a subclass defines the transformer")

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn from the training views.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples; rows of NaN are left out.
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
        rows = [X if seen.all() else X[seen] for X, seen in zip(checked.arrays, checked.mask.T, strict=True)]
        if self.pooled:
            if len(set(checked.n_features)) > 1:
                raise ValueError(
                    f"views with {', '.join(map(str, checked.n_features))} features cannot be pooled: "
                    f"use {type(self).__name__}(pooled=False) for one per view."
                )
            rows = [np.concatenate(rows)]
        self._check_rows(rows)
        fitted = [self._new().fit(X) for X in rows]
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

    def _new(self) -> StandardScaler:
        return StandardScaler()


class ViewPCA(_ViewWise):
    """Reduce views to their principal components.

    Parameters
    ----------
    n_components : int
        Number of components, at most the number of features and of samples.
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

    def _new(self) -> PCA:
        return PCA(self.n_components, svd_solver="full")

    def _check_rows(self, rows: list[Array]) -> None:
        check_count(self.n_components, "n_components", least=1)
        possible = min(min(X.shape) for X in rows)
        if self.n_components > possible:
            raise ValueError(
                f"n_components={self.n_components} is more than the {possible} that the data allow (features and "
                f"samples): choose {possible} or fewer."
            )
