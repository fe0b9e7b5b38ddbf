"""Arrays in numpy's formats, once their declared sizes are known to be plausible; pickles are never read."""

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.datasets._files import MAX_BYTES, MAX_RATIO, check_regular, reading

_NPY = ".npy file", ": save it with numpy.save."


def read_npy_file(file: Path) -> NDArray[Any]:
    """The array in a ``.npy`` file."""
    size = check_regular(file)
    with reading(file, *_NPY), file.open("rb") as stream:
        return _read_npy(stream, size, file.name)


def read_vector(content: bytes, label: str) -> Array:
    """The features of one sample, from the content of a ``.npy`` file."""
    with reading(label, *_NPY):
        vector = _read_npy(io.BytesIO(content), len(content), Path(label).name)
    if vector.dtype.kind not in "biuf" or vector.size != max(vector.shape, default=0) or not vector.size:
        got = f"{vector.dtype} of shape {vector.shape}"
        raise ValueError(f"{label} must be one vector of numbers, the features of a sample, got {got}.")
    return vector.astype(np.float64).ravel()


def read_npz(source: Path, help_text: str) -> dict[str, NDArray[Any]]:
    """The arrays in an ``.npz`` file, unless they unpack to far more than its size; errors end in the help."""
    with reading(source, ".npz file of numbers and text", f". {help_text}"), zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
            raise ValueError("it is compressed in a way that numpy never uses")
        if sum(entry.file_size for entry in entries) > max(MAX_BYTES, MAX_RATIO * source.stat().st_size):
            raise ValueError(f"it unpacks to more than {MAX_RATIO} times its size: save it with numpy.savez")
        arrays = {}
        for entry in entries:
            with archive.open(entry) as stream:
                arrays[entry.filename.removesuffix(".npy")] = _read_npy(stream, entry.file_size, entry.filename)
        return arrays


def _read_npy(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
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
