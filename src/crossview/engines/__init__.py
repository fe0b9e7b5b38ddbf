"""Operations on rows of samples. They run where the samples are: in NumPy, torch or Dask.

What has one row per sample stays on its engine: a NumPy array, a tensor on its device, or a Dask array. What has the
size of features or classes is a NumPy array of float64. So a fitted model is the same wherever it was fitted. A
function that gives rows returns the type of its first argument; one that sums over rows returns NumPy.

A function marked as an operation is for NumPy arrays. `crossview.engines.torch` and `crossview.engines.dask` define
functions of the same names for their arrays; the type of the first argument decides which one runs. The others are made
of operations.

SciPy's BLAS multiplies NumPy arrays. The wheels of NumPy and SciPy each carry a BLAS with threads of its own, and those
of one go on spinning for a while when their work is done, at the cost of the other: an eigen-solve of order 400 right
after a NumPy product was measured to take 10 times as long as alone. This can go when the two share a BLAS.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from mmap import mmap
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm
from sklearn.metrics.pairwise import pairwise_kernels

from crossview._types import Array, Indices, Mask, Rows

F = TypeVar("F", bound=Callable[..., Any])

_CHUNK_ROWS = 1024  # rows of an intermediate result in memory at a time
_MAPS_IN_MEMORY = 1 << 30  # bytes as float64 up to which memory maps are treated like arrays


def operation(function: F) -> F:
    """Let the engine of the first argument take over, if it is not NumPy and has a function of this name."""

    @wraps(function)
    def on_engine(X: Any, *args: Any, **options: Any) -> Any:
        engine = _engine(cast(Hashable, type(X)))
        return (function if engine is None else getattr(engine, function.__name__, function))(X, *args, **options)

    return cast(F, on_engine)


@cache
def _engine(kind: type) -> ModuleType | None:
    """The module with the operations on arrays of a type; None for NumPy."""
    for library, name in (("torch", "Tensor"), ("dask", "Array")):
        if _is_kind(kind, library, name):
            return import_module(f"crossview.engines.{library}")
    return None


def _is_kind(kind: type, library: str, name: str) -> bool:
    """Whether a type is of a library, which need not be installed, and which a thread may just import."""
    return any((cls.__module__.partition(".")[0], cls.__name__) == (library, name) for cls in kind.__mro__)


# Where arrays are.


@operation
def place(X: Any) -> str:
    """Where X is: a device of torch, "Dask", or "" for the memory of this process."""
    return ""


def is_tensor(X: object) -> bool:
    """Whether X is a torch tensor."""
    return place(X) not in ("", "Dask")


def to_device(X: Any, device: Any) -> Rows:
    """X as a tensor of float32 or float64 on a device."""
    return import_module("crossview.engines.torch").tensor_on(X, device)


@operation
def to_numpy(X: Any) -> NDArray[Any]:
    """X as a NumPy array."""
    return np.asarray(X)


@operation
def like(X: Rows, values: NDArray[Any]) -> Any:
    """NumPy values on the engine of X."""
    return values


@operation
def matching(X: Rows, values: Array) -> Any:
    """NumPy values on the engine of X, and in its precision."""
    return values


@operation
def zeros(X: Rows, n_rows: int, n_columns: int) -> Any:
    """A matrix of zeros of float64 on the engine of X."""
    return np.zeros((n_rows, n_columns))


@operation
def chunks(X: Rows, width: int | None = None) -> Iterator[slice]:
    """Slices of the rows of X to work on at a time, for results with as many columns as X, or `width`."""
    return (slice(a, min(a + _CHUNK_ROWS, len(X))) for a in range(0, len(X), _CHUNK_ROWS))


def lazy_if_stored(matrices: Sequence[Any]) -> list[Any]:
    """Dask arrays if one of the matrices is stored on disk, as a zarr array or large memory map, and Dask is there."""
    maps = sum(8 * X.size for X in matrices if is_whole_map(X))
    stored = maps > _MAPS_IN_MEMORY or any(_is_kind(type(X), "zarr", "Array") for X in matrices)
    if not stored or find_spec("dask") is None:
        return list(matrices)
    lazy: list[Any] = import_module("crossview.engines.dask").from_storage(matrices)
    return lazy


def is_whole_map(X: Any) -> bool:
    """Whether X is all of a file of rows, so that any process can read some of them."""
    return (
        isinstance(X, np.memmap) and isinstance(X.base, mmap) and X.mode != "c" and X.ndim == 2 and X.flags.c_contiguous
    )


# Blocks of rows: one in memory, many in Dask.


def row_total(statistic: Callable[..., Any], arrays: Sequence[Rows]) -> Any:
    """Sum of ``statistic(arrays)`` over blocks of their rows in memory."""
    if place(arrays[0]) == "Dask":
        return import_module("crossview.engines.dask").row_blocks(arrays).total(statistic)
    return statistic(arrays)


@operation
def map_rows(X: Any, function: Callable[..., Any], *args: object, width: int | None = None) -> Any:
    """``function(X, *args)``, which gives as many rows of a width, or whole numbers."""
    return function(X, *args)


@operation
def labels_like(mask: Any, y: Any, read: Callable[[Any], Any]) -> Any:
    """Labels where a mask is; `read` makes an array of them."""
    return read(y)


@operation
def checked_rows(X: Rows, check: Callable[..., Rows], label: str, trusted: bool = False) -> Any:
    """``check(X, label)``, which gives rows. Blocks are checked when they are computed, unless they are trusted."""
    return check(X, label)


# Missing samples are rows of NaN.


@operation
def mask_of(X: Rows, *others: Rows) -> Any:
    """Which rows of which array are present, (m, n). A row is NaN as a whole or not at all."""
    return np.column_stack([to_numpy(Z[:, 0] == Z[:, 0]) for Z in (X, *others)])


def nan_rows(X: Rows) -> tuple[Mask, Mask]:
    """Which rows are all NaN, and which are partly NaN."""
    nan = X != X
    return to_numpy(nan.all(axis=1)), to_numpy(nan.any(axis=1))


def n_missing(mask: Any) -> int | None:
    """Number of entries of a mask that are False; None if that is unknown without reading the samples."""
    return int(mask.size - mask.sum()) if isinstance(mask, np.ndarray) else None


@operation
def fill_missing(X: Rows, seen: Mask, value: float = 0.0) -> Any:
    """Insert rows of a value where `seen` is False; X holds the other rows."""
    if seen.all():
        return X
    filled = np.full((len(seen), X.shape[1]), value)
    filled[seen] = X
    return filled


@operation
def hide_rows(X: Rows, seen: Mask, value: float = np.nan) -> Any:
    """X with rows of a value where `seen` is False: a copy, unless all are seen."""
    return X if seen.all() else np.where(seen[:, None], X, value)


# Rows from rows.


@operation
def concatenate(first: Rows, *others: Rows) -> Any:
    """Rows of all arrays, one below the other."""
    return np.concatenate([first, *others])


def shift(X: Rows, offset: Array) -> Any:
    """``X - offset``, with an offset for every column."""
    return X - matching(X, offset)


def scale_rows(X: Rows, factors: Array) -> Any:
    """``diag(factors) X``."""
    return X * matching(X, factors[:, None])


def residuals(X: Rows, means: Array, classes: Indices) -> Any:
    """Rows minus the mean of their class, (C, D)."""
    return X - matching(X, means)[like(X, classes)]


@operation
def unit_rows(X: Rows) -> Any:
    """Rows scaled to unit length, however small or large they are; zero stays zero."""
    largest = np.abs(X).max(axis=-1, keepdims=True)
    scaled = X / np.where(largest, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return scaled / np.where(lengths, lengths, 1.0)


@operation
def product(A: Rows, B: Array) -> Any:
    """``A B`` of C-ordered matrices, without copying them."""
    return dgemm(1.0, B.T, A.T).T


def inner_products(A: Array, B: Array, scale: float = 1.0) -> Array:
    """``scale · A B'`` of C-ordered NumPy arrays, without copying them."""
    product: Array = dgemm(scale, B.T, A.T, trans_a=1).T
    return product


@operation
def solve_rows(X: Rows, L: Rows) -> Any:
    """``X L^-T`` for a lower triangular matrix L on the engine of X."""
    return solve_triangular(L, X.T, lower=True, check_finite=False).T


@operation
def kernel_values(X: Rows, Y: Array, kernel: str | Callable[..., float], params: Mapping[str, Any]) -> Any:
    """Values of one of scikit-learn's kernels, or of a function of two samples, (len(X), len(Y))."""
    return np.asarray(pairwise_kernels(X, Y, metric=kernel, filter_params=not callable(kernel), **params))


@operation
def neighbour_sums(X: Rows, ids: Any, weights: Array) -> Any:
    """Weighted sums of rows of X, (c, D): row k is the sum of ``X[ids[k]]``, without entries of -1.

    `weights` has the shape of `ids`, (c, p), or (p,).
    """
    there = ids >= 0
    indptr = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
    data = np.broadcast_to(weights, ids.shape)[there]
    graph = sp.csr_array((data, ids[there].astype(np.int32), indptr.astype(np.int32)), shape=(len(ids), len(X)))
    return graph @ X


# Sums over rows.


@operation
def column_sums(X: Rows) -> Array:
    """Sum of every column."""
    sums: Array = X.sum(axis=0)
    return sums


@operation
def column_ranges(X: Rows) -> tuple[Array, Array]:
    """Smallest and largest value of every column; ∞ and -∞ if there are no rows."""
    return X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)


@operation
def squared_norms(X: Rows, axis: int = 1) -> Array:
    """Sum of squares of every row or, for axis 0, of every column."""
    norms: Array = np.einsum("ij,ij->i" if axis else "ij,ij->j", X, X)
    return norms


@operation
def rounding_errors(X: Rows) -> Array:
    """Bound on the norm of the errors of every column in single precision, after a few operations."""
    return np.zeros(X.shape[1])


@operation
def add_cross_product(A: Rows, B: Rows, total: Any) -> None:
    """Add ``A' B`` of C-ordered matrices to one from `zeros`, without copying them."""
    dgemm(1.0, B.T, A.T, trans_b=1, beta=1.0, c=total.T, overwrite_c=1)


def cross_product(A: Rows, B: Rows) -> Array:
    """``A' B`` of C-ordered matrices, without copying them."""
    total = zeros(A, A.shape[1], B.shape[1])
    add_cross_product(A, B, total)
    return to_numpy(total)


@operation
def class_sums(X: Rows, weights: Array, classes: Indices, n_classes: int) -> Array:
    """Weighted sum of the rows of every class, (C, D)."""
    members = sp.csr_array((weights, classes, np.arange(len(X) + 1)), shape=(len(X), n_classes)).T.tocsr()
    sums: Array = members @ X
    return sums


def outgoing(ids: Any, weights: Array) -> Array:
    """Total weight, (c,), of the edges to the nodes `ids`, (c, p), without entries of -1; weights as above."""
    return to_numpy(((ids >= 0) * like(ids, weights)).sum(axis=1))


@operation
def incoming(ids: Any, weights: Array, n_nodes: int, factors: Array | None = None) -> Array:
    """Total weight, (n_nodes,), of the edges that end in each node; `factors`, (c,), multiply the weights of a row."""
    there = ids >= 0
    weighted = np.broadcast_to(weights if factors is None else weights * factors[:, None], ids.shape)
    return np.bincount(ids[there], weighted[there], n_nodes).astype(np.float64, copy=False)


@operation
def row_factor(X: Rows) -> Array:
    """A matrix with as many columns as X, no more rows than columns or X, and the same Gram matrix."""
    if len(X) <= X.shape[1]:
        return np.asarray(X)
    R: Array = scipy.linalg.qr(X, mode="r", check_finite=False)[0][: X.shape[1]]
    return np.ascontiguousarray(R)


@operation
def dense_eigenpairs(X: Rows, S: Array) -> tuple[Array, Array] | None:
    """All eigenpairs of a symmetric matrix, ascending, where the engine of X is much faster than LAPACK; or None."""
    return None
