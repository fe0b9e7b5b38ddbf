"""What kernel methods share: a feature map per view, and how new samples go through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.utils import Tags, check_random_state

from crossview._types import Array, Indices
from crossview._validation import check_count, check_weight
from crossview.kernels import Kernel, KernelMap, check_kernel_params, median_gamma
from crossview.views import Views

__all__ = ["KernelViews"]


class KernelViews:
    """Kernels and landmarks of every view. Stands before the embedding whose features they are."""

    kernel: str | Callable[..., float]
    gamma: float | Sequence[float] | None
    gamma_scale: float
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    n_landmarks: int | None
    random_state: int | np.random.RandomState | None
    center: bool

    gamma_: list[float | None]
    kernels_: list[Kernel]
    landmarks_: list[Any]
    offsets_: list[Array]
    projections_: list[Array]

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _check_kernel(self, views: Views) -> None:
        """Refuse kernels and parameters that do not exist, before any work is done."""
        known = sorted(kernel_metrics())
        if not callable(self.kernel) and self.kernel not in (*known, "precomputed"):
            raise ValueError(
                f"unknown kernel {self.kernel!r}: use a callable, 'precomputed', or one of {', '.join(known)}."
            )
        if self.n_landmarks is not None:
            check_count(self.n_landmarks, "n_landmarks", least=1)
        for gamma in self._gammas(views.shape[1]):
            if gamma is not None:
                check_weight(gamma, "gamma", positive=True)
        check_weight(self.gamma_scale, "gamma_scale", positive=True)
        check_weight(self.degree, "degree")
        check_weight(self.coef0, "coef0")
        check_kernel_params(self.kernel, self.kernel_params)
        if self.kernel == "precomputed":
            for name, X in zip(views.names, views.arrays, strict=True):
                if X.shape[0] != X.shape[1]:
                    raise ValueError(
                        f"view {name!r} has shape {X.shape}: with kernel='precomputed', fit takes the square matrix "
                        "of kernel values between all training samples."
                    )

    def _gammas(self, n: int) -> list[Any]:
        """The kernel width of every view, as given."""
        if not isinstance(self.gamma, Sequence | np.ndarray) or isinstance(self.gamma, str) or np.ndim(self.gamma) == 0:
            return [self.gamma] * n
        if len(self.gamma) != n:
            raise ValueError(f"gamma has {len(self.gamma)} values for {n} views: give one number, or one per view.")
        return list(self.gamma)

    def _kernel_views(self, views: Views) -> Iterator[tuple[Kernel, Array, Indices | None, NDArray[np.bool_]]]:
        """Kernel, samples seen, landmarks among these (None for all), and which samples they are, view by view."""
        shuffled = check_random_state(self.random_state).permutation(len(views))
        for X, seen, gamma in zip(views.arrays, views.mask.T, self._gammas(views.shape[1]), strict=True):
            ids = np.flatnonzero(seen)
            rows = X if seen.all() else X[np.ix_(ids, ids)] if self.kernel == "precomputed" else X[ids]
            median = median_gamma(rows, self.kernel) if gamma is None else None
            width = float(gamma) if gamma is not None else None if median is None else self.gamma_scale * median
            shifts = self.kernel == "rbf" or (self.kernel == "linear" and self.center)
            origin = rows.mean(axis=0) if shifts else None
            kernel = Kernel(self.kernel, width, self.degree, self.coef0, self.kernel_params, origin)
            landmarks = None
            if self.n_landmarks is not None and self.n_landmarks < len(rows):
                landmarks = np.searchsorted(ids, np.sort(shuffled[seen[shuffled]][: self.n_landmarks]))
            yield kernel, rows, landmarks, seen

    def _store_maps(
        self, maps: Sequence[KernelMap], factors: Iterable[Array], W: Sequence[Array], means: Sequence[Array]
    ) -> None:
        """Keep what maps new samples: coefficients of kernel values, and the training means in the common space."""
        self.projections_ = [KernelMap.coefficients(factor, w) for factor, w in zip(factors, W, strict=True)]
        self.offsets_ = [mean @ w for mean, w in zip(means, W, strict=True)]
        self.kernels_ = [kernel_map.kernel for kernel_map in maps]
        self.landmarks_ = [kernel_map.landmarks for kernel_map in maps]
        self.gamma_ = [kernel.gamma for kernel in self.kernels_]

    def _map(self, X: Array, v: int) -> Array:
        kernel, landmarks = self.kernels_[v], self.landmarks_[v]
        K = X[:, landmarks] if kernel.precomputed else kernel(X, landmarks)
        return K @ self.projections_[v] - self.offsets_[v]
