"""Arrays that are extended at the end, and slices of rows that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 22  # numbers held at a time: 32 MB as float64


def chunks(n: int, width: int, *, limit: int | None = None, least: int = 1, most: int | None = None) -> Iterator[slice]:
    """Slices of n rows, `least` to `most` at a time, that hold up to `limit` numbers if each row holds `width`."""
    step = max(least, min(most or n, (limit or _CHUNK) // max(width, 1)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


class GrowingArray:
    """An array that can be extended, in time that is linear overall.

    `values` is the beginning of a larger buffer, which its extensions share, so only the latest one may be extended.
    Texts become wider as needed.

    Examples
    --------
    >>> names = GrowingArray(np.array(["ada"]))
    >>> names.extended(np.array(["grace"])).values
    array(['ada', 'grace'], dtype='<U5')
    """

    def __init__(self, values: NDArray[Any], buffer: NDArray[Any] | None = None) -> None:
        self.values, self._buffer = values, values if buffer is None else buffer

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, rows: NDArray[Any]) -> GrowingArray:
        """The array with rows added at the end."""
        held, size, buffer = len(self.values), len(self.values) + len(rows), self._buffer
        dtype = np.promote_types(buffer.dtype, rows.dtype)
        if size > len(buffer) or dtype != buffer.dtype:
            # What is not filled yet takes addresses, but no memory.
            buffer = np.empty((max(size, held + held // 2), *rows.shape[1:]), dtype)
            buffer[:held] = self.values
        buffer[held:size] = rows
        return GrowingArray(buffer[:size], buffer)
