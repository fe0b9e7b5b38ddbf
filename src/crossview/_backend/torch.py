"""The operations of `crossview._backend` on torch tensors of float32 or float64, on any device.

Sums over rows accumulate in float64, whatever the type of the data.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossview import _backend
from crossview._types import Array, Indices, Mask

_EIGEN_ORDER = 1000  # order from which a GPU solves eigenproblems faster
_CHUNK_ENTRIES = 1 << 25  # entries of an intermediate result at a time, 256 MB as float64


def tensor_on(X: Any, device: torch.device | str) -> Tensor:
    """X as a tensor on a device, as float32 or float64."""
    tensor = torch.as_tensor(_writable(X) if isinstance(X, np.ndarray) else X, device=device)
    if not tensor.is_floating_point():
        return tensor.double()
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _writable(values: NDArray[Any]) -> NDArray[Any]:
    """The values as torch takes them, copied only if need be."""
    return np.require(values, requirements=["C", "W"])


@_backend.to_numpy.register(Tensor)
def _to_numpy(X: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = X.detach().cpu().numpy()
    return array.astype(np.float64) if array.dtype == np.float32 else array


@_backend.like.register(Tensor)
def _like(X: Tensor, values: NDArray[Any]) -> Tensor:
    return torch.as_tensor(_writable(values), device=X.device)


@_backend.chunks.register(Tensor)
def _chunks(X: Tensor, width: int | None = None) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // max(1, X[0].numel() if width is None else width))
    return (slice(a, min(a + step, len(X))) for a in range(0, len(X), step))


@_backend.product.register(Tensor)
def _product(A: Tensor, B: Array) -> Tensor:
    factor = _like(A, B)
    if A.dtype == torch.float64:
        return A @ factor
    out = A.new_empty(len(A), B.shape[1])
    for rows in _chunks(A):
        out[rows] = A[rows].double() @ factor
    return out


@_backend.zeros.register(Tensor)
def _zeros(X: Tensor, n_rows: int, n_columns: int) -> Tensor:
    return torch.zeros(n_rows, n_columns, dtype=torch.float64, device=X.device)


@_backend.add_cross_product.register(Tensor)
def _add_cross_product(A: Tensor, B: Tensor, total: Tensor) -> None:
    for rows in _chunks(A):
        total.addmm_(A[rows].double().T, B[rows].double())


@_backend.cross_product.register(Tensor)
def _cross_product(A: Tensor, B: Tensor) -> Array:
    total = _zeros(A, A.shape[1], B.shape[1])
    _add_cross_product(A, B, total)
    return _to_numpy(total)


@_backend.column_sums.register(Tensor)
def _column_sums(X: Tensor, weights: Array | None = None) -> Array:
    if weights is None:
        return _to_numpy(X.sum(dim=0, dtype=torch.float64))
    sums: Array = _cross_product(_like(X, weights[:, None]), X)[0]
    return sums


@_backend.squared_norms.register(Tensor)
def _squared_norms(X: Tensor, axis: int = 1) -> Array:
    norms: Array = np.square(_to_numpy(torch.linalg.vector_norm(X, dim=axis, dtype=torch.float64)))
    return norms


@_backend.column_ranges.register(Tensor)
def _column_ranges(X: Tensor) -> tuple[Array, Array]:
    if not len(X):
        return np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    return _to_numpy(X.amin(dim=0)), _to_numpy(X.amax(dim=0))


@_backend.shift.register(Tensor)
def _shift(X: Tensor, offset: Array, *, overwrite: bool = False) -> Tensor:
    moved = _like(X, offset).to(X.dtype)
    return X.sub_(moved) if overwrite else X - moved


@_backend.scale_rows.register(Tensor)
def _scale_rows(X: Tensor, factors: Array) -> Tensor:
    return X * _like(X, factors[:, None]).to(X.dtype)


@_backend.divide_columns.register(Tensor)
def _divide_columns(X: Tensor, divisors: Array) -> Tensor:
    return X / _like(X, divisors).to(X.dtype)


@_backend.fill_missing.register(Tensor)
def _fill_missing(X: Tensor, seen: Mask, value: float = 0.0) -> Tensor:
    if seen.all():
        return X
    filled = X.new_full((len(seen), X.shape[1]), value)
    filled[_like(X, seen)] = X
    return filled


@_backend.hide_rows.register(Tensor)
def _hide_rows(X: Tensor, seen: Mask, value: float = np.nan) -> Tensor:
    return torch.where(_like(X, seen)[:, None], X, value)


@_backend.concatenate.register(Tensor)
def _concatenate(first: Tensor, *others: Tensor) -> Tensor:
    return torch.cat([first, *others])


@_backend.class_sums.register(Tensor)
def _class_sums(X: Tensor, weights: Array, classes: Indices, n_classes: int) -> Array:
    sums = torch.zeros(n_classes, X.shape[1], dtype=torch.float64, device=X.device)
    codes, factors = _like(X, classes), _like(X, weights[:, None])
    for rows in _chunks(X):
        sums.index_add_(0, codes[rows], X[rows] * factors[rows])
    return _to_numpy(sums)


@_backend.residuals.register(Tensor)
def _residuals(X: Tensor, means: Array, classes: Indices) -> Tensor:
    return X - _like(X, means).to(X.dtype)[_like(X, classes)]


@_backend.neighbour_sums.register(Tensor)
def _neighbour_sums(X: Tensor, ids: Tensor, weights: Array) -> Tensor:
    factors, found = _edge_weights(ids, weights), ids.clamp(min=0)
    sums = torch.zeros(len(ids), X.shape[1], dtype=torch.float64, device=X.device)
    for rank in range(ids.shape[1]):
        sums.addcmul_(X[found[:, rank]].double(), factors[:, rank, None])
    return sums


def _edge_weights(ids: Tensor, weights: Array) -> Tensor:
    """Weights of all edges, (c, p), 0 where there is none."""
    return torch.where(ids >= 0, _like(ids, weights), 0.0)


@_backend.outgoing.register(Tensor)
def _outgoing(ids: Tensor, weights: Array) -> Array:
    return _to_numpy(_edge_weights(ids, weights).sum(dim=1))


@_backend.incoming.register(Tensor)
def _incoming(ids: Tensor, weights: Array, n_nodes: int, factors: Array | None = None) -> Array:
    weighted = _edge_weights(ids, weights)
    if factors is not None:
        weighted = weighted * _like(ids, factors[:, None])
    total = torch.zeros(n_nodes, dtype=torch.float64, device=ids.device)
    return _to_numpy(total.index_add_(0, ids.clamp(min=0).flatten(), weighted.flatten()))


@_backend.row_factor.register(Tensor)
def _row_factor(X: Tensor) -> Array:
    factor = X[:0].double()
    for rows in _chunks(X):
        factor = torch.linalg.qr(torch.cat([factor, X[rows].double()]), mode="r").R
    return _to_numpy(factor)


@_backend.nan_rows.register(Tensor)
def _nan_rows(X: Tensor) -> tuple[Mask, Mask]:
    nan = X.isnan()
    return _to_numpy(nan.all(dim=1)), _to_numpy(nan.any(dim=1))


@_backend.frobenius_norm.register(Tensor)
def _frobenius_norm(X: Tensor) -> float:
    return float(torch.linalg.vector_norm(X, dtype=torch.float64))


@_backend.rounding_errors.register(Tensor)
def _rounding_errors(X: Tensor) -> Array:
    eps = 0.0 if X.dtype == torch.float64 else torch.finfo(X.dtype).eps
    return 4.0 * eps * np.sqrt(_squared_norms(X, axis=0))


@_backend.empty_rows.register(Tensor)
def _empty_rows(X: Tensor, width: int) -> Tensor:
    return torch.empty(len(X), width, dtype=torch.float64, device=X.device)


@_backend.solve_rows.register(Tensor)
def _solve_rows(X: Tensor, L: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(L.T, X.double(), upper=True, left=False)
    return solved


@_backend.dense_eigenpairs.register(Tensor)
def _dense_eigenpairs(X: Tensor, S: Array) -> tuple[Array, Array] | None:
    if not X.is_cuda or len(S) < _EIGEN_ORDER:
        return None
    values, vectors = torch.linalg.eigh(_like(X, S))
    return _to_numpy(values), _to_numpy(vectors)


@_backend.unit_rows.register(Tensor)
def _unit_rows(X: Tensor) -> Tensor:
    norms = torch.linalg.vector_norm(X, dim=1, keepdim=True, dtype=torch.float64)  # no squares in single precision
    units: Tensor = X / norms.where(norms > 0.0, 1.0).to(X.dtype)
    return units


@_backend.kernel_values.register(Tensor)
def _kernel_values(X: Tensor, Y: Array, metric: str, gamma: float | None, degree: float, coef0: float) -> Tensor | None:
    A, B = X.double(), _like(X, Y).double()
    width = 1.0 / Y.shape[1] if gamma is None else gamma
    if metric == "rbf":
        squared = torch.addmm((A * A).sum(dim=1, keepdim=True), A, B.T, alpha=-2.0).add_((B * B).sum(dim=1))
        return squared.clamp_(min=0.0).mul_(-width).exp_()
    if metric == "laplacian":
        return torch.cdist(A, B, p=1.0).mul_(-width).exp_()
    if metric == "cosine":
        return _unit_rows(A) @ _unit_rows(B).T
    if metric == "linear":
        return A @ B.T
    if metric in ("poly", "polynomial"):
        return (A @ B.T).mul_(width).add_(coef0).pow_(degree)
    if metric == "sigmoid":
        return (A @ B.T).mul_(width).add_(coef0).tanh_()
    return None
