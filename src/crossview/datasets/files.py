"""Files of data, in a folder or in a zip archive that is never unpacked; arrays in numpy's formats.

All readers of files have the same limits and the same errors, which name the file and the fix.
"""

import io
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array

MAX_BYTES = 2**28  # of an image or a MATLAB file; the largest that the other limits admit
_MAX_RATIO = 200  # of what a larger file unpacks to: more is a bomb
_MAX_DEPTH = 16  # of folders: links to a folder above themselves have no end
_NPY = ".npy file", ": save it with numpy.save."


class File(NamedTuple):
    """A file by its path below the root, and a function that reads it."""

    path: PurePosixPath
    read: Callable[[], bytes]

    def __str__(self) -> str:
        return str(self.path)


@contextmanager
def open_files(source: str | Path, help_text: str) -> Iterator[list[File]]:
    """All files below a folder or in a zip archive in natural order, without hidden ones; errors end in the help."""
    root = check_name(Path(source))
    if root.is_dir():
        files = [File(PurePosixPath(*path.relative_to(root).parts), partial(read_file, path)) for path in _walk(root)]
        yield _tidy(files)
    elif not root.exists():
        raise FileNotFoundError(f"{root} does not exist. {help_text}")
    else:
        with _open_archive(root, "folder or zip archive", f". {help_text}") as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            yield _tidy([File(PurePosixPath(e.filename), partial(_read_entry, archive, e)) for e in entries])


def read_file(path: Path) -> bytes:
    """The content of a file."""
    _check_size(check_regular(path), path)
    with reading(path):
        return path.read_bytes()


def check_regular(path: Path) -> int:
    """The size of a file; pipes and devices, which may never end, are refused."""
    with reading(path):
        size = path.stat().st_size
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a device, a pipe or a socket: replace it by a file, or remove it.")
    return size


def most_unpacked(path: Path) -> int:
    """The most bytes that a file may unpack to."""
    return max(MAX_BYTES, _MAX_RATIO * path.stat().st_size)


@contextmanager
def reading(path: str | Path, what: str = "file", fix: str = ": replace it.") -> Iterator[None]:
    """Name the file and the fix in errors: of the system, and of a decoder, which raises any kind on damaged data."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            advice = "check that it is a file and that you may read it"
            raise OSError(f"{path} cannot be read ({error.strerror}): {advice}.") from error
        raise ValueError(f"{path} is not a readable {what} ({one_line(error)}){fix}") from error


def one_line(error: Exception) -> str:
    """What a library says of a failure, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def check_name(path: Path) -> Path:
    """Refuse a path that is not valid UTF-8: tables, reports and terminals could not show it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ValueError(f"the name {shown} is not valid UTF-8: rename the file or folder.") from None
    return path


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or made by macOS or by an office program for itself."""
    return name.startswith((".", "~$")) or name == "__MACOSX"


def natural(text: str) -> list[tuple[int, int, str]]:
    """Key that sorts names as people do: obj2 before obj10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]{1,18})", text)]


def read_npy(file: Path) -> NDArray[Any]:
    """The array in a ``.npy`` file."""
    size = check_regular(file)
    with reading(file, *_NPY), file.open("rb") as stream:
        return _read_array(stream, size, file.name)


def read_vector(content: bytes, label: str) -> Array:
    """The features of one sample, from the content of a ``.npy`` file."""
    with reading(label, *_NPY):
        vector = _read_array(io.BytesIO(content), len(content), Path(label).name)
    if vector.dtype.kind not in "biuf" or vector.size != max(vector.shape, default=0) or not vector.size:
        got = f"{vector.dtype} of shape {vector.shape}"
        raise ValueError(f"{label} must be one vector of numbers, the features of a sample, got {got}.")
    return vector.astype(np.float64).ravel()


def read_npz(source: Path, help_text: str) -> dict[str, NDArray[Any]]:
    """The arrays in an ``.npz`` file; errors end in the help."""
    what, arrays = (".npz file of numbers and text", f". {help_text}"), {}
    with _open_archive(source, *what) as archive, reading(source, *what):
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                name = entry.filename
                arrays[name.removesuffix(".npy")] = _read_array(stream, entry.file_size, name)
    return arrays


def _read_array(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """The array in a stream of `size` bytes, once the size that it declares is plausible; pickles are never read."""
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


def _open_archive(path: Path, what: str, fix: str) -> zipfile.ZipFile:
    """A zip archive, unless it is a bomb."""
    check_regular(path)
    with reading(path, what, fix):
        archive = zipfile.ZipFile(path)
        entries = archive.infolist()
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
            raise ValueError("it is compressed in a rare way: pack it again, without options")
        if sum(entry.file_size for entry in entries) > most_unpacked(path):
            raise ValueError(f"it unpacks to more than {_MAX_RATIO} times its size: pack it again")
    return archive


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    label = f"{archive.filename}: {entry.filename}"
    _check_size(entry.file_size, label)  # beyond which zipfile never inflates it
    with reading(label, "entry", ": replace the archive."):
        return archive.read(entry)


def _check_size(size: int, label: str | Path) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"{label} is larger than {MAX_BYTES >> 20} MB: split it or make it smaller.")


def _walk(root: Path) -> Iterator[Path]:
    """The files below a folder; a subfolder that cannot be listed is an error."""

    def fail(error: OSError) -> None:
        with reading(error.filename):
            raise error

    for folder, subfolders, names in os.walk(root, onerror=fail, followlinks=True):
        subfolders[:] = [name for name in subfolders if not is_hidden(name)]
        if len(Path(folder).relative_to(root).parts) > _MAX_DEPTH:
            raise ValueError(f"{folder} is too deep, perhaps because of a link to a folder above it: remove the link.")
        for path in (check_name(Path(folder, name)) for name in names):
            if not path.exists() and not is_hidden(path.name):  # perhaps a link to a folder with a whole view
                fail(FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path)))
            yield path


def _tidy(files: list[File]) -> list[File]:
    kept = [file for file in files if not any(map(is_hidden, file.path.parts))]
    return sorted(kept, key=lambda file: [natural(part) for part in file.path.parts])
