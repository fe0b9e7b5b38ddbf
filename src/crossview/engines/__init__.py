"""Operations on rows of samples. They run where the samples are: in NumPy, torch or Dask.

An operation is a function of this module, written for NumPy arrays. `crossview.engines.torch` and
`crossview.engines.dask` define functions of the same names for their arrays; the first argument decides which one runs.

What has one row per sample stays on its engine: a NumPy array, a tensor on its device, or a Dask array. What has the
size of features or classes is a NumPy array of float64. So a fitted model is the same wherever it was fitted. An
operation that gives rows returns the type of its first argument; one that sums over rows returns NumPy.

SciPy's BLAS multiplies NumPy arrays. The wheels of NumPy and SciPy each carry a BLAS with threads of its own, and those
of one go on spinning for a while when their work is done, at the cost of the other: an eigen-solve of order 400 right
after a NumPy product was measured to take 10 times as long as alone. Taking the products of a linear fit from SciPy
keeps it in one pool. This can go when the two share a BLAS.
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
from sklearn.preprocessing import normalize

from crossview._types import Array, Indices, Mask, Rows

F = TypeVar("F", bound=Callable[..., Any])

_CHUNK_ROWS = 1024  # rows of an intermediate result in memory at a time
_MAPS_IN_MEMORY = 1 << 30  # bytes as float64 up to which memory maps are treated like arrays


@cache
def _engine(kind: type) -> ModuleType | None:
    """The module with the operations on arrays of a type; None for NumPy."""
    for library, name in (("torch", "Tensor"), ("dask", "Array")):
        if (library, name) in _owners(kind):
            return import_module(f"crossview.engines.{library}")
    return None


def _owners(kind: type) -> list[tuple[str, str]]:
    """Libraries and names of a type and its bases: a library need not be installed, or a thread may just import it."""
    return [(str(cls.__module__).partition(".")[0], cls.__name__) for cls in kind.__mro__]


def operation(function: F) -> F:
    """Let the engine of the first argument take over, if it is not NumPy and has a function of this name."""

    @wraps(function)
    def on_engine(X: Any, *args: Any, **options: Any) -> Any:
        engine = _engine(cast(Hashable, type(X)))
        return (function if engine is None else getattr(engine, function.__name__, function))(X, *args, **options)

    return cast(F, on_engine)


def is_tensor(X: object) -> bool:
    """Whether X is a torch tensor."""
    engine = _engine(cast(Hashable, type(X)))
    return engine is not None and engine.__name__.endswith("torch")


@operation
def place(X: Any) -> str:
    """Where X is: a device of torch, "Dask", or "" for the memory of this process."""
    return ""


class Whole:
    """All rows as a single block in memory, where Dask has many (`crossview.engines.dask.Blocks`)."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """``statistic(block, *args)``, which is the sum over all blocks."""
        return statistic(self.block, *args)


@operation
def row_blocks(X: Rows, *others: Rows) -> Any:
    """Blocks of rows of arrays, each a list of arrays in memory."""
    return Whole([X, *others])


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


@operation
def mask_of(X: Rows, *others: Rows) -> Any:
    """Which rows of which array are present, (m, n): those of NaN are not. A row is NaN as a whole or not at all."""
    return np.column_stack([~np.isnan(Z[:, 0]) for Z in (X, *others)])


@operation
def take_rows(X: Rows, rows: Any) -> Any:
    """Some rows, by a slice or an array of numbers or of bool."""
    return X[rows]


@operation
def n_missing(mask: Any) -> int | None:
    """Number of entries of a mask that are False; None if that is unknown without reading the samples."""
    return int(mask.size - mask.sum())


@operation
def rows_in_use(mask: Any) -> Indices | None:
    """Rows of samples that some view has, by their mask, (m, n); None for all, or if blocks leave out the others."""
    used = mask.any(axis=1)
    return None if used.all() else np.flatnonzero(used)


def lazy_if_stored(matrices: Sequence[Any]) -> list[Any]:
    """Dask arrays if one of the matrices is stored on disk, as a zarr array or large memory map, and Dask is there."""
    maps = sum(8 * X.size for X in matrices if _is_whole_map(X))
    stored = maps > _MAPS_IN_MEMORY or any(("zarr", "Array") in _owners(type(X)) for X in matrices)
    if not stored or find_spec("dask") is None:
        return list(matrices)
    lazy: list[Any] = import_module("crossview.engines.dask").from_storage([(X, _is_whole_map(X)) for X in matrices])
    return lazy


def _is_whole_map(X: Any) -> bool:
    """Whether X is all of a file of rows, so that any process can read some of them."""
    return (
        isinstance(X, np.memmap) and isinstance(X.base, mmap) and X.mode != "c" and X.ndim == 2 and X.flags.c_contiguous
    )


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
def chunks(X: Rows, width: int | None = None) -> Iterator[slice]:
    """Slices of the rows of X to work on at a time, for results with as many columns as X, or `width`."""
    return (slice(a, min(a + _CHUNK_ROWS, len(X))) for a in range(0, len(X), _CHUNK_ROWS))


@operation
def product(A: Rows, B: Array) -> Any:
    """``A B`` of C-ordered matrices, without copying them."""
    return dgemm(1.0, B.T, A.T).T


@operation
def cross_product(A: Rows, B: Rows) -> Array:
    """``A' B`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(1.0, B.T, A.T, trans_b=1).T
    return product


@operation
def zeros(X: Rows, n_rows: int, n_columns: int) -> Any:
    """A matrix of zeros of float64 on the engine of X."""
    return np.zeros((n_rows, n_columns))


@operation
def add_cross_product(A: Rows, B: Rows, total: Any) -> None:
    """Add ``A' B`` to a C-ordered matrix from `zeros`."""
    dgemm(1.0, B.T, A.T, trans_b=1, beta=1.0, c=total.T, overwrite_c=1)


def inner_products(A: Array, B: Array, scale: float = 1.0) -> Array:
    """``scale · A B'`` of C-ordered matrices, without copying them."""
    product: Array = dgemm(scale, B.T, A.T, trans_a=1).T
    return product


@operation
def column_sums(X: Rows, weights: Array | None = None) -> Array:
    """Sum of every column, with weights if given, (m,)."""
    sums: Array = X.sum(axis=0) if weights is None else cross_product(weights[:, None], X)[0]
    return sums


@operation
def squared_norms(X: Rows, axis: int = 1) -> Array:
    """Sum of squares of every row or, for axis 0, of every column."""
    norms: Array = np.einsum("ij,ij->i" if axis else "ij,ij->j", X, X)
    return norms


@operation
def column_ranges(X: Rows) -> tuple[Array, Array]:
    """Smallest and largest value of every column; ∞ and -∞ if there are no rows."""
    return X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)


@operation
def shift(X: Rows, offset: Array, *, overwrite: bool = False) -> Any:
    """``X - offset``, with an offset for every column."""
    return np.subtract(X, offset, out=X if overwrite else None)


@operation
def scale_rows(X: Rows, factors: Array) -> Any:
    """``diag(factors) X``."""
    return X * factors[:, None]


@operation
def divide_columns(X: Rows, divisors: Array) -> Any:
    """Every column divided by a number."""
    return X / divisors


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


@operation
def concatenate(first: Rows, *others: Rows) -> Any:
    """Rows of all arrays, one below the other."""
    return np.concatenate([first, *others])


@operation
def class_sums(X: Rows, weights: Array, classes: Indices, n_classes: int) -> Array:
    """Weighted sum of the rows of every class, (C, D)."""
    members = sp.csr_array((weights, classes, np.arange(len(X) + 1)), shape=(len(X), n_classes)).T.tocsr()
    sums: Array = members @ X
    return sums


@operation
def residuals(X: Rows, means: Array, classes: Indices) -> Any:
    """Rows minus the mean of their class, (C, D)."""
    return X - means[classes]


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


@operation
def outgoing(ids: Any, weights: Array) -> Array:
    """Total weight, (c,), of the edges to the nodes `ids`, (c, p), without entries of -1; weights as above."""
    total: Array = ((ids >= 0) * weights).sum(axis=1)
    return total


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
def rounding_errors(X: Rows) -> Array:
    """Bound on the norm of the errors of every column in single precision, after a few operations."""
    return np.zeros(X.shape[1])


@operation
def empty_rows(X: Rows, width: int) -> Any:
    """As many rows as X, of float64 that has yet to be filled in."""
    return np.empty((len(X), width))


@operation
def solve_rows(X: Rows, L: Rows) -> Any:
    """``X L^-T`` for a lower triangular matrix L on the engine of X."""
    return solve_triangular(L, X.T, lower=True, check_finite=False).T


@operation
def dense_eigenpairs(X: Rows, S: Array) -> tuple[Array, Array] | None:
    """All eigenpairs of a symmetric matrix, ascending, where the engine of X is much faster than LAPACK; or None."""
    return None


@operation
def unit_rows(X: Rows) -> Any:
    """Rows divided by their lengths; zeros stay."""
    return normalize(X)


@operation
def kernel_values(
    X: Rows,
    Y: Array,
    kernel: str | Callable[..., float],
    gamma: float | None,
    degree: float,
    coef0: float,
    others: Mapping[str, Any],
) -> Any:
    """Values of one of scikit-learn's kernels, or of a function of two samples, (len(X), len(Y))."""
    if callable(kernel):
        return np.asarray(pairwise_kernels(X, Y, metric=kernel, **others))
    named = {"degree": degree, "coef0": coef0, **({} if gamma is None else {"gamma": gamma}), **others}
    return np.asarray(pairwise_kernels(X, Y, metric=kernel, filter_params=True, **named))


@operation
def nan_rows(X: Rows) -> tuple[Mask, Mask]:
    """Which rows are all NaN, and which are partly NaN."""
    nan = np.isnan(X)
    return np.all(nan, axis=1), np.any(nan, axis=1)


@operation
def frobenius_norm(X: Rows) -> float:
    """Square root of the sum of squares."""
    return float(np.sqrt(np.einsum("ij,ij->", X, X)))
