"""Kernel feature maps: explicit coordinates for the part of a kernel's feature space that the samples span.

With K = R R', any method that works on features works on the rows of R, and orthonormality in the coordinates of R is
orthonormality in the feature space of the kernel. R comes from a pivoted Cholesky factorisation, which also determines
the rank of K, so K may be singular. The map is exact if all training samples are landmarks; with fewer, it is the
Nyström approximation (Williams & Seeger, 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.metrics.pairwise import euclidean_distances, kernel_metrics, manhattan_distances

from crossview._schema import Schema, number, register
from crossview._types import Array, Indices, Rows
from crossview.engines import chunks, kernel_values, like, shift, solve_rows, to_numpy, unit_rows, zeros

WITH_WIDTH = ("rbf", "laplacian")
"""Kernels for which `median_gamma` finds a width."""

_MEDIAN_SAMPLES = 1000  # samples used by the median heuristic


@register
@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel and its parameters, for one view.

    `kernel` is a name from scikit-learn's ``kernel_metrics()``, a callable ``kernel(x, z)`` on two samples, or
    ``"precomputed"``, where samples are rows of kernel values against the training samples. `origin`, (D,), is
    subtracted from all samples first. For kernels that only depend on differences, it merely reduces the rounding error
    of samples far from zero.
    """

    kernel: str | Callable[..., float]
    gamma: float | None = None
    kernel_params: dict[str, Any] | None = None
    origin: Array | None = None

    _schema: ClassVar[Schema] = {
        "kernel": lambda value, sizes: value in ("precomputed", *kernel_metrics()),
        "gamma": number(optional=True),
    }

    @property
    def precomputed(self) -> bool:
        """Whether samples are rows of kernel values."""
        return self.kernel == "precomputed"

    def __call__(self, X: Rows, Y: Array) -> Any:
        """Kernel values between the samples of X and Y, shape (len(X), len(Y))."""
        if self.origin is not None:
            # Keep X and Y the same object if they are: scikit-learn then computes half and sets d(x, x) exactly to 0.
            moved = shift(X, self.origin)
            X, Y = moved, moved if X is Y else Y - self.origin
        width = {} if callable(self.kernel) or self.gamma is None else {"gamma": self.gamma}
        return kernel_values(X, Y, self.kernel, width | (self.kernel_params or {}))

    def against(self, landmarks: NDArray[Any], X: Rows) -> Any:
        """Kernel values of samples against landmarks, which are column indices if the kernel is precomputed."""
        return X[:, landmarks] if self.precomputed else self(X, landmarks)

    def euclidean_points(self, X: Rows) -> Rows | None:
        """Points whose Euclidean distances rank like the kernel distance, ``k(x, x) + k(z, z) - 2 k(x, z)``.

        The samples for the rbf and linear kernels, normalised samples for the cosine kernel, None for others.
        """
        if self.kernel in ("rbf", "linear"):
            return X
        return unit_rows(X) if self.kernel == "cosine" else None


@dataclass(frozen=True)
class KernelMap:
    """Feature map of a kernel, fitted by `KernelMap.fit`."""

    kernel: Kernel
    landmarks: NDArray[Any]  # samples that span the map, (r, D), or their indices, (r,), if the kernel is precomputed
    factor: Array  # features of the landmarks, (r, r): the triangular factor of their kernel matrix

    @classmethod
    def fit(
        cls, kernel: Kernel, X: Rows, rows: Indices | None = None, ids: Indices | None = None
    ) -> tuple[KernelMap, Rows]:
        """Factor the kernel matrix of the training samples, or of landmarks among them.

        X holds training samples, (m, D), or their kernel matrix, (m, m), if the kernel is precomputed; `rows` selects
        the landmarks, all by default; `ids`, (m,), are the columns of the samples in a precomputed kernel matrix, 0 to
        m - 1 by default. Returns the map and the features of the training samples, R of shape (m, r).
        """
        chosen = np.arange(len(X)) if rows is None else rows
        Z = to_numpy(X if rows is None else X[rows])
        L, order = _pivoted_cholesky(Z[:, chosen] if kernel.precomputed else kernel(Z, Z), kernel)  # of a copy
        rank = L.shape[1]
        pivots = chosen[order[:rank]]
        landmarks = pivots if kernel.precomputed else to_numpy(X[pivots])
        fitted = cls(kernel, landmarks, L[:rank].copy())
        if rows is None:
            features = zeros(X, len(X), rank)
            features[like(features, order)] = like(features, L)
        else:
            features = fitted.features(X)
        return replace(fitted, landmarks=landmarks if ids is None or not kernel.precomputed else ids[pivots]), features

    @classmethod
    def fit_pooled(
        cls,
        kernels: Sequence[Kernel],
        origins: Sequence[Array],
        rows: Sequence[Rows],
        chosen: Sequence[Indices | None],
        weights: Array,
    ) -> tuple[list[KernelMap], list[Rows], Indices]:
        """One map for the samples of all views, whose kernel values are multiplied by a weight for every pair of views.

        The kernels only differ in their `origins`, to which samples refer. `rows` are the present samples of each view,
        `chosen` the landmarks among them, all by default, and `weights`, (n, n), is positive semi-definite. Returns the
        map of each view, whose landmarks are those of all views moved to its origin; the features of its samples; and
        the view that each landmark comes from.
        """
        kernel = replace(kernels[0], origin=None)
        centred = [shift(X, origin) for X, origin in zip(rows, origins, strict=True)]
        some = [to_numpy(X if at is None else X[at]) for X, at in zip(centred, chosen, strict=True)]
        Z, of = np.concatenate(some), np.repeat(np.arange(len(some)), [*map(len, some)])
        parts = [slice(*ends) for ends in pairwise(np.cumsum([0, *map(len, some)]))]
        K = kernel(Z, Z)
        for v, part in enumerate(parts):
            K[part] *= weights[v, of]
        L, order = _pivoted_cholesky(K, kernel)
        del K
        factor, pivots = L[: L.shape[1]], order[: L.shape[1]]
        landmarks, views_of = Z[pivots], of[pivots]
        maps = [cls(k, landmarks + origin, factor) for k, origin in zip(kernels, origins, strict=True)]
        features, place = [], np.argsort(order)
        for v, (X, at, part) in enumerate(zip(centred, chosen, parts, strict=True)):
            if at is None:  # all are among the rows of L
                features.append(like(X, L[place[part]]))
                continue
            R = zeros(X, len(X), len(factor))
            for rows_at in chunks(X, len(factor)):
                K = kernel(X[rows_at], landmarks) * like(R, weights[v, views_of])
                R[rows_at] = solve_rows(K, like(R, factor))
            features.append(R)
        return maps, features, views_of

    def features(self, X: Rows) -> Any:
        """Features of any samples, (len(X), r)."""
        features = zeros(X, len(X), len(self.factor))
        factor = like(features, self.factor)
        for rows in chunks(X, len(factor)):
            features[rows] = solve_rows(self.kernel.against(self.landmarks, X[rows]), factor)
        return features

    def coefficients(self, W: Array) -> Array:
        """Turn directions W, (r, d), in the coordinates of the map into coefficients A of kernel values.

        The projection of any sample x is ``k(x, landmarks) @ A``.
        """
        A: Array = solve_triangular(self.factor, W, trans=1, lower=True)
        return A


def _pivoted_cholesky(K: Array, kernel: Kernel) -> tuple[Array, Indices]:
    """Factor ``K[order][:, order] = L L'``; the number of columns of L is the numerical rank of K. Overwrites K."""
    name = f"{kernel.kernel!r} kernel" if isinstance(kernel.kernel, str) else "kernel"
    probes = np.random.default_rng(0).standard_normal((len(K), 4))
    image = K @ probes
    scale = np.abs(image).max()
    if not np.isfinite(scale) or np.abs(K.T @ probes - image).max() > 1e-8 * scale:
        raise ValueError(f"the {name} matrix must be finite and symmetric: check the kernel and its input.")
    # A pivot below the rounding error of K would add a direction of noise.
    tolerance = 10.0 * max(len(K), 10) * np.finfo(np.float64).eps * np.diagonal(K).max()
    L, order, rank, _ = dpstrf(K.T, tol=tolerance, lower=1, overwrite_a=1)
    order = order.astype(np.intp) - 1
    L = np.tril(L[:, :rank])
    rebuilt = np.empty_like(image)
    rebuilt[order] = L @ (L.T @ probes[order])
    if rank == 0 or np.abs(rebuilt - image).max() > 1e-6 * scale:
        raise ValueError(
            f"the {name} matrix is not positive semi-definite and has no feature map: use a positive definite "
            "kernel such as 'rbf', change the parameters, or clip the negative eigenvalues of a precomputed matrix."
        )
    return L, order


def check_kernel_params(kernel: str | Callable[..., float], kernel_params: object) -> None:
    """Refuse parameters unknown to a named kernel, which scikit-learn would silently ignore."""
    if kernel_params is None:
        return
    if not isinstance(kernel_params, Mapping):
        raise ValueError(f"kernel_params must be a dict of keyword arguments, got {kernel_params!r}.")
    if isinstance(kernel, str):
        taken = () if kernel == "precomputed" else signature(kernel_metrics()[kernel]).parameters
        for name, value in kernel_params.items():
            if name not in taken or name == "gamma":
                raise ValueError(
                    f"kernel_params has {name!r}, which the {kernel!r} kernel does not take there: remove it. "
                    "gamma is a parameter of the estimator."
                )
            if name in ("degree", "coef0") and not (isinstance(value, Real) and np.isfinite(float(value))):
                raise ValueError(f"{name} must be a finite number, got {value!r}.")


def median_gamma(X: Rows, kernel: str | Callable[..., float]) -> float | None:
    """Kernel width by the median heuristic: γ = 1 / (2 σ²), where σ is the median distance between samples.

    1 / σ for the laplacian kernel, where σ is the median city-block distance; None, scikit-learn's default, for kernels
    without a width. Uses at most 1 000 samples, drawn with a fixed seed.
    """
    if kernel not in WITH_WIDTH:
        return None
    X = to_numpy(X if len(X) <= _MEDIAN_SAMPLES else X[median_rows(len(X))])
    X = X - X.mean(axis=0)
    distances = 2.0 * euclidean_distances(X, squared=True) if kernel == "rbf" else manhattan_distances(X)
    distances = distances[np.triu_indices(len(X), k=1)]
    # If most pairs are duplicates (distance 0 up to rounding), use the other pairs.
    apart = distances[distances > 1e-12 * distances.max(initial=0.0)]
    width = np.median(distances if 2 * len(apart) > len(distances) else apart) if len(apart) else 1.0
    return float(1.0 / width)


def median_rows(m: int) -> Indices:
    """The rows, in order, of m samples that the median heuristic uses."""
    if m <= _MEDIAN_SAMPLES:
        return np.arange(m)
    return np.sort(np.random.default_rng(0).choice(m, _MEDIAN_SAMPLES, replace=False))
