"""Operations on rows of samples, as NumPy arrays or, by `crossview._backend.torch`, as torch tensors.

What has one row per sample stays on its engine: a NumPy array, or a tensor on its device. What has the size of features
or classes is a NumPy array of float64. So a fitted model is the same wherever it was fitted. An operation that gives
rows returns the type of its first argument; one that sums over rows returns NumPy.

SciPy's BLAS multiplies NumPy arrays. The wheels of NumPy and SciPy each carry a BLAS with threads of its own, and those
of one go on spinning for a while when their work is done, at the cost of the other: an eigen-solve of order 400 right
after a NumPy product was measured to take 10 times as long as alone. Taking the products of a linear fit from SciPy
keeps it in one pool. This can go when the two share a BLAS.
"""

from collections.abc import Iterator, Sequence
from functools import singledispatch
from importlib.util import find_spec
from mmap import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm
from sklearn.preprocessing import normalize

from crossview._types import Array, Indices, Mask, Rows

_CHUNK_ROWS = 1024  # rows of an intermediate result in memory at a time
_MAPS_IN_MEMORY = 1 << 30  # bytes as float64 up to which memory maps are treated like arrays


def is_tensor(X: object) -> bool:
    """Whether X is a torch tensor; then the operations on tensors are there."""
    if not _is_a(X, "torch", "Tensor"):
        return False
    import crossview._backend.torch  # noqa: F401

    return True


def is_lazy(X: object) -> bool:
    """Whether X is a Dask array."""
    return _is_a(X, "dask", "Array")


def _is_a(X: object, package: str, name: str) -> bool:
    """Whether X is of a class of a package, which need not be installed, and which a thread may just be importing."""
    return any(cls.__name__ == name and str(cls.__module__).partition(".")[0] == package for cls in type(X).__mro__)


def lazy_if_stored(matrices: Sequence[Any]) -> list[Any]:
    """Dask arrays if one of the matrices is stored on disk, as a zarr array or large memory map, and Dask is there."""
    maps = sum(8 * X.size for X in matrices if _is_whole_map(X))
    stored = maps > _MAPS_IN_MEMORY or any(_is_a(X, "zarr", "Array") for X in matrices)
    if not stored or find_spec("dask") is None:
        return list(matrices)
    from crossview._backend.dask import from_storage

    return from_storage([(X, _is_whole_map(X)) for X in matrices])


def _is_whole_map(X: Any) -> bool:
    """Whether X is all of a file of rows, so that any process can read some of them."""
    return (
        isinstance(X, np.memmap) and isinstance(X.base, mmap) and X.mode != "c" and X.ndim == 2 and X.flags.c_contiguous
    )


def to_device(X: Any, device: Any) -> Rows:
    """X as a tensor of float32 or float64 on a device."""
    from crossview._backend.torch import tensor_on

    return tensor_on(X, device)


@singledispatch
def to_numpy(X: Any) -> NDArray[Any]:
    """X as a NumPy array."""
    return np.asarray(X)


@singledispatch
def like(X: Rows, values: NDArray[Any]) -> Any:
    """NumPy values on the engine of X."""
    return values


@singledispatch
def chunks(X: Rows, width: int | None = None) -> Iterator[slice]:
    """Slices of the rows of X to work on at a time, for results with as many columns as X, or `width`."""
    return (slice(a, min(a + _CHUNK_ROWS, len(X))) for a in range(0, len(X), _CHUNK_ROWS))


@singledispatch
def product(A: Rows, B: Array) -> Any:
    """``A B`` of C-ordered matrices, without copying them."""
    return dgemm(1.0, B.T, A.T).T


@singledispatch
def cross_product(A: Rows, B: Rows) -> Array:
    """``A' B`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(1.0, B.T, A.T, trans_b=1).T
    return product


@singledispatch
def zeros(X: Rows, n_rows: int, n_columns: int) -> Any:
    """A matrix of zeros of float64 on the engine of X."""
    return np.zeros((n_rows, n_columns))


@singledispatch
def add_cross_product(A: Rows, B: Rows, total: Any) -> None:
    """Add ``A' B`` to a C-ordered matrix from `zeros`."""
    dgemm(1.0, B.T, A.T, trans_b=1, beta=1.0, c=total.T, overwrite_c=1)


def inner_products(A: Array, B: Array, scale: float = 1.0) -> Array:
    """``scale · A B'`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(scale, B.T, A.T, trans_a=1).T
    return product


@singledispatch
def column_sums(X: Rows, weights: Array | None = None) -> Array:
    """Sum of every column, with weights if given, (m,)."""
    sums: Array = X.sum(axis=0) if weights is None else cross_product(weights[:, None], X)[0]
    return sums


@singledispatch
def squared_norms(X: Rows, axis: int = 1) -> Array:
    """Sum of squares of every row or, for axis 0, of every column."""
    norms: Array = np.einsum("ij,ij->i" if axis else "ij,ij->j", X, X)
    return norms


@singledispatch
def column_ranges(X: Rows) -> tuple[Array, Array]:
    """Smallest and largest value of every column; ∞ and -∞ if there are no rows."""
    return X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)


@singledispatch
def shift(X: Rows, offset: Array, *, overwrite: bool = False) -> Any:
    """``X - offset``, with an offset for every column."""
    return np.subtract(X, offset, out=X if overwrite else None)


@singledispatch
def scale_rows(X: Rows, factors: Array) -> Any:
    """``diag(factors) X``."""
    return X * factors[:, None]


@singledispatch
def divide_columns(X: Rows, divisors: Array) -> Any:
    """Every column divided by a number."""
    return X / divisors


@singledispatch
def fill_missing(X: Rows, seen: Mask, value: float = 0.0) -> Any:
    """Insert rows of a value where `seen` is False; X holds the other rows."""
    if seen.all():
        return X
    filled = np.full((len(seen), X.shape[1]), value)
    filled[seen] = X
    return filled


@singledispatch
def hide_rows(X: Rows, seen: Mask, value: float = np.nan) -> Any:
    """A copy with rows of a value where `seen` is False."""
    return np.where(seen[:, None], X, value)


@singledispatch
def concatenate(first: Rows, *others: Rows) -> Any:
    """Rows of all arrays, one below the other."""
    return np.concatenate([first, *others])


@singledispatch
def class_sums(X: Rows, weights: Array, classes: Indices, n_classes: int) -> Array:
    """Weighted sum of the rows of every class, (C, D)."""
    members = sp.csr_array((weights, classes, np.arange(len(X) + 1)), shape=(len(X), n_classes)).T.tocsr()
    sums: Array = members @ X
    return sums


@singledispatch
def residuals(X: Rows, means: Array, classes: Indices) -> Any:
    """Rows minus the mean of their class, (C, D)."""
    return X - means[classes]


@singledispatch
def neighbour_sums(X: Rows, ids: Any, weights: Array) -> Any:
    """Weighted sums of rows of X, (c, D): row k is the sum of ``X[ids[k]]``, without entries of -1.

    `weights` has the shape of `ids`, (c, p), or (p,).
    """
    there = ids >= 0
    indptr = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
    data = np.broadcast_to(weights, ids.shape)[there]
    graph = sp.csr_array((data, ids[there].astype(np.int32), indptr.astype(np.int32)), shape=(len(ids), len(X)))
    return graph @ X


@singledispatch
def outgoing(ids: Any, weights: Array) -> Array:
    """Total weight, (c,), of the edges to the nodes `ids`, (c, p), without entries of -1; weights as above."""
    total: Array = ((ids >= 0) * weights).sum(axis=1)
    return total


@singledispatch
def incoming(ids: Any, weights: Array, n_nodes: int, factors: Array | None = None) -> Array:
    """Total weight, (n_nodes,), of the edges that end in each node; `factors`, (c,), multiply the weights of a row."""
    there = ids >= 0
    weighted = np.broadcast_to(weights if factors is None else weights * factors[:, None], ids.shape)
    return np.bincount(ids[there], weighted[there], n_nodes).astype(np.float64, copy=False)


@singledispatch
def row_factor(X: Rows) -> Array:
    """A matrix with as many columns as X and the same Gram matrix, in memory."""
    return np.asarray(X)


@singledispatch
def rounding_errors(X: Rows) -> Array:
    """Bound on the norm of the errors of every column in single precision, after a few operations."""
    return np.zeros(X.shape[1])


@singledispatch
def empty_rows(X: Rows, width: int) -> Any:
    """As many rows as X, of float64 that has yet to be filled in."""
    return np.empty((len(X), width))


@singledispatch
def solve_rows(X: Rows, L: Rows) -> Any:
    """``X L^-T`` for a lower triangular matrix L on the engine of X."""
    return solve_triangular(L, X.T, lower=True, check_finite=False).T


@singledispatch
def dense_eigenpairs(X: Rows, S: Array) -> tuple[Array, Array] | None:
    """All eigenpairs of a symmetric matrix, ascending, where the engine of X is much faster than LAPACK; or None."""
    return None


@singledispatch
def unit_rows(X: Rows) -> Any:
    """Rows divided by their lengths; zeros stay."""
    return normalize(X)


@singledispatch
def kernel_values(X: Rows, Y: Array, metric: str, gamma: float | None, degree: float, coef0: float) -> Any:
    """Values of a kernel of scikit-learn between rows and samples, or None if there is no faster way than it."""
    return None


@singledispatch
def nan_rows(X: Rows) -> tuple[Mask, Mask]:
    """Which rows are all NaN, and which are partly NaN."""
    nan = np.isnan(X)
    return np.all(nan, axis=1), np.any(nan, axis=1)


@singledispatch
def frobenius_norm(X: Rows) -> float:
    """Square root of the sum of squares."""
    return float(np.sqrt(np.einsum("ij,ij->", X, X)))
