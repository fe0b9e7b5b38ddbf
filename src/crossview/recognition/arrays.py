"""Arrays that grow at the end, and batches of rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class GrowingArray:
    """An array to which rows are added, in time that is linear overall.

    `values` is the beginning of a larger buffer. It is valid as it is after further rows have been added. Texts become
    wider as needed.

    Examples
    --------
    >>> names = GrowingArray(np.array(["ada"]))
    >>> names.append(np.array(["grace"]))
    >>> names.values
    array(['ada', 'grace'], dtype='<U5')
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._buffer = self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        held, size = len(self.values), len(self.values) + len(rows)
        dtype = np.promote_types(self._buffer.dtype, rows.dtype)
        if size > len(self._buffer) or dtype != self._buffer.dtype:
            # What is not filled yet takes addresses, but no memory.
            buffer = np.empty((max(size, held + held // 2), *rows.shape[1:]), dtype)
            buffer[:held] = self.values
            self._buffer = buffer
        self._buffer[held:size] = rows
        self.values = self._buffer[:size]


def batches(n: int, size: int) -> Iterator[slice]:
    """Slices of up to `size` of n rows."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
