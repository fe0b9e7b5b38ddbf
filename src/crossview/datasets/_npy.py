"""Arrays in numpy's format, once their declared sizes are known to be plausible; pickles are never read."""

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.datasets._files import check_regular, one_line, unreadable


def read_npy(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """The array in a stream of `size` bytes; numpy raises any kind of error on damaged data."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        start = stream.tell()
        if int.from_bytes(stream.read(4), "little") > size:  # which numpy would allocate
            raise ValueError(f"{name} is smaller than its header")
        stream.seek(start)
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.kind not in "biufSU":
        raise ValueError(
            f"{name} is of dtype {dtype}, which is never read: save features as numbers, and labels as numbers or as "
            "text, np.array(labels, dtype=str)"
        )
    if math.prod(shape) * max(dtype.itemsize, 1) > size:  # numpy allocates what a header declares
        raise ValueError(f"{name} is smaller than its shape {shape}")
    stream.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def read_npy_file(file: Path) -> NDArray[Any]:
    """The array in a ``.npy`` file; errors name the file and the fix."""
    try:
        size = check_regular(file)
        with file.open("rb") as stream:
            return _checked(stream, size, str(file))
    except OSError as error:
        raise unreadable(file, error) from error


def read_vector(read: Callable[[], bytes], label: str) -> Array:
    """The features of one sample, from the content of a ``.npy`` file."""
    content = read()
    vector = _checked(io.BytesIO(content), len(content), label)
    if vector.dtype.kind not in "biuf" or vector.size != max(vector.shape, default=0) or not vector.size:
        got = f"{vector.dtype} of shape {vector.shape}"
        raise ValueError(f"{label} must be one vector of numbers, the features of a sample, got {got}.")
    return vector.astype(np.float64).ravel()


def _checked(stream: IO[bytes], size: int, label: str) -> NDArray[Any]:
    try:
        return read_npy(stream, size, Path(label).name)
    except OSError:
        raise
    except Exception as error:
        # A decoder raises any kind of error on damaged data; the user needs the file's name.
        raise ValueError(
            f"{label} is not a readable .npy file ({one_line(error)}): save it with numpy.save."
        ) from error
