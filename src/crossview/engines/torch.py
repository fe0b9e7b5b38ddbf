"""The operations of `crossview.engines` on torch tensors of float32 or float64, on any device.

Sums over rows accumulate in float64, whatever the type of the data.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossview import engines
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


def place(X: Tensor) -> str:
    return str(X.device)


def to_numpy(X: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = X.detach().cpu().numpy()
    return array.astype(np.float64) if array.dtype == np.float32 else array


def like(X: Tensor, values: NDArray[Any]) -> Tensor:
    return torch.as_tensor(_writable(values), device=X.device)


def matching(X: Tensor, values: Array) -> Tensor:
    return like(X, values).to(X.dtype)


def chunks(X: Tensor, width: int | None = None) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // max(1, X[0].numel() if width is None else width))
    return (slice(a, min(a + step, len(X))) for a in range(0, len(X), step))


def product(A: Tensor, B: Array) -> Tensor:
    factor = like(A, B)
    if A.dtype == torch.float64:
        return A @ factor
    out = A.new_empty(len(A), B.shape[1])
    for rows in chunks(A):
        out[rows] = A[rows].double() @ factor
    return out


def zeros(X: Tensor, n_rows: int, n_columns: int) -> Tensor:
    return torch.zeros(n_rows, n_columns, dtype=torch.float64, device=X.device)


def add_cross_product(A: Tensor, B: Tensor, total: Tensor) -> None:
    for rows in chunks(A):
        total.addmm_(A[rows].double().T, B[rows].double())


def column_sums(X: Tensor) -> Array:
    return to_numpy(X.sum(dim=0, dtype=torch.float64))


def squared_norms(X: Tensor, axis: int = 1) -> Array:
    norms: Array = np.square(to_numpy(torch.linalg.vector_norm(X, dim=axis, dtype=torch.float64)))
    return norms


def column_ranges(X: Tensor) -> tuple[Array, Array]:
    if not len(X):
        return np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    return to_numpy(X.amin(dim=0)), to_numpy(X.amax(dim=0))


def fill_missing(X: Tensor, seen: Mask, value: float = 0.0) -> Tensor:
    if seen.all():
        return X
    filled = X.new_full((len(seen), X.shape[1]), value)
    filled[like(X, seen)] = X
    return filled


def hide_rows(X: Tensor, seen: Mask, value: float = np.nan) -> Tensor:
    return X if seen.all() else torch.where(like(X, seen)[:, None], X, value)


def concatenate(first: Tensor, *others: Tensor) -> Tensor:
    return torch.cat([first, *others])


def class_sums(X: Tensor, weights: Array, classes: Indices, n_classes: int) -> Array:
    sums = torch.zeros(n_classes, X.shape[1], dtype=torch.float64, device=X.device)
    codes, factors = like(X, classes), like(X, weights[:, None])
    for rows in chunks(X):
        sums.index_add_(0, codes[rows], X[rows] * factors[rows])
    return to_numpy(sums)


def neighbour_sums(X: Tensor, ids: Tensor, weights: Array) -> Tensor:
    factors, found = _edge_weights(ids, weights), ids.clamp(min=0)
    sums = torch.zeros(len(ids), X.shape[1], dtype=torch.float64, device=X.device)
    for rank in range(ids.shape[1]):
        sums.addcmul_(X[found[:, rank]].double(), factors[:, rank, None])
    return sums


def _edge_weights(ids: Tensor, weights: Array) -> Tensor:
    """Weights of all edges, (c, p), 0 where there is none."""
    return torch.where(ids >= 0, like(ids, weights), 0.0)


def incoming(ids: Tensor, weights: Array, n_nodes: int, factors: Array | None = None) -> Array:
    weighted = _edge_weights(ids, weights)
    if factors is not None:
        weighted = weighted * like(ids, factors[:, None])
    total = torch.zeros(n_nodes, dtype=torch.float64, device=ids.device)
    return to_numpy(total.index_add_(0, ids.clamp(min=0).flatten(), weighted.flatten()))


def row_factor(X: Tensor) -> Array:
    factor = X[:0].double()
    for rows in chunks(X):
        factor = torch.linalg.qr(torch.cat([factor, X[rows].double()]), mode="r").R
    return to_numpy(factor)


def rounding_errors(X: Tensor) -> Array:
    eps = 0.0 if X.dtype == torch.float64 else torch.finfo(X.dtype).eps
    return 4.0 * eps * np.sqrt(squared_norms(X, axis=0))


def solve_rows(X: Tensor, L: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(L.T, X.double(), upper=True, left=False)
    return solved


def dense_eigenpairs(X: Tensor, S: Array) -> tuple[Array, Array] | None:
    if not X.is_cuda or len(S) < _EIGEN_ORDER:
        return None
    values, vectors = torch.linalg.eigh(like(X, S))
    return to_numpy(values), to_numpy(vectors)


def unit_rows(X: Tensor) -> Tensor:
    norms = torch.linalg.vector_norm(X, dim=1, keepdim=True, dtype=torch.float64)  # no squares in single precision
    units: Tensor = X / norms.where(norms > 0.0, 1.0).to(X.dtype)
    return units


def kernel_values(X: Tensor, Y: Array, kernel: str | Callable[..., float], params: Mapping[str, Any]) -> Tensor:
    A, B, gamma = X.double(), like(X, Y).double(), params.get("gamma", 1.0 / Y.shape[1])
    # Kernels with parameters of their own are left to scikit-learn.
    name = kernel if params.keys() <= {"gamma", "degree", "coef0"} else None
    if name == "rbf":
        squared = torch.addmm((A * A).sum(dim=1, keepdim=True), A, B.T, alpha=-2.0).add_((B * B).sum(dim=1))
        return squared.clamp_(min=0.0).mul_(-gamma).exp_()
    if name == "laplacian":
        return torch.cdist(A, B, p=1.0).mul_(-gamma).exp_()
    if name == "cosine":
        return unit_rows(A) @ unit_rows(B).T
    if name == "linear":
        return A @ B.T
    if name in ("poly", "polynomial"):
        return (A @ B.T).mul_(gamma).add_(params.get("coef0", 1)).pow_(params.get("degree", 3))
    if name == "sigmoid":
        return (A @ B.T).mul_(gamma).add_(params.get("coef0", 1)).tanh_()
    return like(X, engines.kernel_values(to_numpy(X), Y, kernel, params))
