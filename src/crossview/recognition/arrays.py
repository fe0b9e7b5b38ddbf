"""Arrays that are extended at the end, and batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def batches(n: int, size: int) -> Iterator[slice]:
    """Slices of up to `size` of n rows."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
