"""The operations of `crossview.engines` on Dask arrays: in blocks of rows, on whatever scheduler is active.

Nothing here brings rows to the client: it only ever receives sums over blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute, persist
from dask.delayed import Delayed, delayed

from crossview._types import Rows
from crossview.engines import is_whole_map

_FAN_IN = 8  # blocks whose results one task adds
_BLOCK_BYTES = 1 << 26  # of a block of rows of all views, as float64


class Blocks:
    """Blocks of rows, each an object in the memory of the worker that needs it.

    What is done to a block is one task, however many steps it has: workers keep no intermediate results. A step is a
    function with its arguments after the block.
    """

    def __init__(self, parts: Iterable[Delayed], steps: tuple[tuple[Callable[..., Any], Any], ...] = ()) -> None:
        self.parts = list(parts)
        self.steps = steps

    def map(self, function: Callable[..., Any], *args: object) -> Blocks:
        """``function(block, *args)`` of every block."""
        return Blocks(self.parts, (*self.steps, (function, args)))

    def map_each(self, function: Callable[..., Any], values: Iterable[object]) -> Blocks:
        """``function(block, value)`` of every block with its value."""
        steps = delayed(self.steps, traverse=False)
        pairs = zip(self.parts, values, strict=True)
        return Blocks(delayed(_apply)(part, steps, function, value) for part, value in pairs)

    def tasks(self, *last: Any) -> list[Delayed]:
        """The blocks, after a last function, if given, with arguments that may be other tasks."""
        steps = delayed(self.steps, traverse=False)  # shared, instead of a copy in every task
        shared = [delayed(value, traverse=False) for value in last]
        return [delayed(_apply)(part, steps, *shared) for part in self.parts]

    def applied_to(self, part: Delayed) -> Delayed:
        """Another part, after the same steps."""
        return Blocks([part], self.steps).tasks()[0]

    def total(self, statistic: Callable[..., Any], *args: object) -> Any:
        """Sum of ``statistic(block, *args)``, computed in a tree; blocks that give None do not count."""
        return compute(self.lazy_total(statistic, *args))[0]

    def lazy_total(self, statistic: Callable[..., Any], *args: object) -> Delayed:
        """As `total`, to be computed later."""
        parts = self.tasks(statistic, *args)
        while len(parts) > 1:
            parts = [delayed(_add)(*parts[k : k + _FAN_IN]) for k in range(0, len(parts), _FAN_IN)]
        return parts[0]

    def compute(self, function: Callable[..., Any], *args: object) -> list[Any]:
        """``function(block, *args)`` of every block, which must be small: the client receives all of them."""
        return list(compute(*self.tasks(function, *args)))


def _apply(block: Any, steps: Any, function: Callable[..., Any] | None = None, *args: object) -> Any:
    for step, values in steps:
        block = step(block, *values)
    return block if function is None else function(block, *args)


def _add(*parts: Any) -> Any:
    return sum_of(part for part in parts if part is not None)


def sum_of(parts: Iterable[Any]) -> Any:
    """Sum of arrays, or of lists of them; None if there are none."""

    def plus(a: Any, b: Any) -> Any:
        if a is None:
            return b
        return [x + y for x, y in zip(a, b, strict=True)] if isinstance(a, list) else a + b

    return reduce(plus, parts, None)


def keep(*values: Delayed) -> list[Delayed]:
    """Compute values and keep them where the scheduler keeps results; returns when they are there."""
    kept = list(persist(*values))
    compute(*(delayed(type)(value) for value in kept))  # small, after each value
    return kept


def row_blocks(arrays: Sequence[Rows]) -> Blocks:
    """Blocks of rows of arrays, each a list of arrays in memory."""
    columns = [X.to_delayed().ravel() for X in arrays]
    # As arguments, unlike in a list, tasks are passed on as they are.
    return Blocks(delayed(_listed)(*parts) for parts in zip(*columns, strict=True))


def _listed(*arrays: Any) -> list[Any]:
    return list(arrays)


def place(X: Rows) -> str:
    return "Dask"


def map_rows(X: Rows, function: Callable[..., Any], *args: object, width: int | None = None) -> Rows:
    if width is None:
        return X.map_blocks(function, *args, dtype=np.intp)
    chunks = X.chunks[0], (width,)
    return X.map_blocks(function, *args, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))


def labels_like(mask: Rows, y: Any, read: Callable[[Any], Any]) -> Rows:
    if not isinstance(y, da.Array):
        labels = read(y)
        return da.from_array(labels, chunks=(mask.chunks[0] if len(labels) == len(mask) else -1,))
    if y.ndim != 1 or np.isnan(y.shape).any():
        raise ValueError("y must be a 1-d Dask array with chunks of known size: call y.compute_chunk_sizes() first.")
    return y.rechunk(mask.chunks[:1]) if len(y) == len(mask) else y


def checked_rows(X: Rows, check: Callable[..., Any], label: str, trusted: bool = False) -> Rows:
    return X if trusted else X.map_blocks(_check_block, check, label, dtype=np.float64, meta=np.empty((0, 0)))


def _check_block(X: Any, check: Callable[..., Any], label: str, block_info: Any = None) -> Any:
    (first, _), _ = block_info[0]["array-location"]
    return check(X, label, first)


def mask_of(X: Rows, *others: Rows) -> Rows:
    return da.concatenate([~da.isnan(Z[:, :1]) for Z in (X, *others)], axis=1).rechunk({1: -1})


def hide_rows(X: Rows, seen: Any, value: float = np.nan) -> Rows:
    return da.where(da.asarray(seen).rechunk(X.chunks[:1])[:, None], X, value)


def from_storage(matrices: Sequence[Any]) -> list[Any]:
    """Matrices as Dask arrays in equal blocks of rows, which workers read from the files of memory maps.

    What is no matrix, or a tensor or data frame, is left for later checks to refuse.
    """
    shapes: list[Any] = [getattr(X, "shape", ()) for X in matrices]
    if any(len(shape) != 2 for shape in shapes):
        return list(matrices)
    lazy = [X.chunks[0] for X in matrices if isinstance(X, da.Array)]
    alike = len({m for m, _ in shapes}) == 1
    rows = lazy[0] if lazy and alike else max(1, _BLOCK_BYTES // (8 * max(1, sum(D for _, D in shapes))))
    return [_stored(X, rows) for X in matrices]


def _stored(X: Any, rows: Any) -> Any:
    if isinstance(X, da.Array) or not isinstance(getattr(X, "dtype", None), np.dtype):
        return X
    if not is_whole_map(X):
        return da.from_array(X, chunks=(rows, -1), name=False)
    file = str(X.filename), X.dtype, "r", X.offset, X.shape
    chunks = da.core.normalize_chunks((rows, -1), X.shape)
    return da.map_blocks(_read_rows, file, chunks=chunks, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))


def _read_rows(file: tuple[Any, ...], block_info: Any = None) -> Any:
    (start, stop), _ = block_info[None]["array-location"]
    return np.array(np.memmap(*file)[start:stop])
