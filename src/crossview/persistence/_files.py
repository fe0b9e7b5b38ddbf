"""Files: how they are written whole or not at all, and what is checked before their content is used."""

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._version import __version__

PathLike: TypeAlias = str | os.PathLike[str]
Content: TypeAlias = bytes | bytearray | memoryview

AGAIN = "Restore it from a copy, or save the model again with crossview.save."
WRITTEN_BY = "written by crossview.save or the commands fit, tune and enroll"
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What content of an unexpected form leads to."""

_FORMAT = 2
_MARK = re.compile(r"format=(\d{1,6}) version=((\d{1,6})[0-9A-Za-z.+!-]{0,40}) sha256=([0-9a-f]{64}) (.*)", re.DOTALL)
_NO_DIGEST = b"0" * 64
_TEMPORARY = f".crossview-{platform.node()}-"  # names of files being written start with it; a process id follows
_LARGEST_HEADER = 16 * 2**20
_MOST_VALUES = 10**6  # an empty list or dict takes 30 times the memory of its two characters
_LARGEST_SIZE, _MOST_DIMENSIONS = 2**48, 8
_DTYPES = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_DTYPES |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
_DTYPE_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


class ModelFileError(ValueError):
    """A file is not a model, is damaged, was written by a newer crossview, or contains what no model has."""


def check_target(path: PathLike) -> Path:
    """The file to write, or a link's target: there must be none yet, or a regular one."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: add the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"output folder {target.parent} does not exist: create it first.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is a device, a pipe or a socket: choose the name of a file.")
    return target


def write_atomically(path: PathLike, *parts: Content) -> None:
    """Write a file, or a link's target, so that its name stands for the old content or the new, whatever happens."""
    target = check_target(path)
    temporary = target.parent / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}.tmp"
    # Whoever may not read the old content may not read the new either, while it is being written.
    rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _remove_abandoned(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            fix = "check free space and permissions, or choose another folder"
            raise type(error)(f"cannot write {target} ({error.strerror or error}): {fix}.") from error
        raise


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes on this machine were writing when they were killed."""
    for path in folder.glob(f"{_TEMPORARY}*.tmp") if os.name == "posix" else ():
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(path.name.removeprefix(_TEMPORARY).partition("-")[0]), 0)
            except ProcessLookupError:
                path.unlink()


def pack(model: str, arrays: Mapping[str, NDArray[Any]], version: str = __version__) -> list[Content]:
    """The parts of a file: a header with the description of a model in JSON, and arrays, which are not copied."""
    mark = f"format={_FORMAT} version={version} sha256={_NO_DIGEST.decode()} "
    entries: dict[str, Any] = {"__metadata__": {"crossview": mark + model}}
    data: list[Content] = []
    end = 0
    # Wide numbers first, so that all are aligned.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        dtype = _DTYPE_NAMES[array.dtype.newbyteorder("<")]
        content = np.ascontiguousarray(array, dtype=_DTYPES[dtype]).reshape(-1).view(np.uint8)
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [end, end + len(content)]}
        data.append(content.data)
        end += len(content)
    header = bytearray(json.dumps(entries, separators=(",", ":")).encode())
    header += b" " * (-len(header) % 8)
    if len(header) > _LARGEST_HEADER or _count(header) > _MOST_VALUES:
        raise ValueError(
            f"everything but its arrays takes more than {_LARGEST_HEADER // 2**20} MiB or more than a million values: "
            "save best_estimator_ of a large search, and labels as arrays of strings or numbers"
        )
    _layout({name: entry for name, entry in entries.items() if name != "__metadata__"})
    start = len(header).to_bytes(8, "little")
    digest = hashlib.sha256(start + header)
    for part in data:
        digest.update(part)
    place = header.index(_NO_DIGEST)
    header[place : place + 64] = digest.hexdigest().encode()
    return [start, header, *data]


def unpack(file: io.BufferedIOBase, name: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The description of a model and its arrays, once all sizes, the digest and the version are known to be right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8)
    length = int.from_bytes(start, "little")
    raw = file.read(length) if 2 <= length <= min(size - 8, _LARGEST_HEADER) else b""
    mark = None
    with contextlib.suppress(*MALFORMED):
        header = parse(raw)
        mark = _MARK.fullmatch(header.pop("__metadata__")["crossview"])
    if mark is None:
        raise ModelFileError(
            f"{name} is not a model of crossview, or its beginning is damaged: load a file {WRITTEN_BY}. "
            "Pickles are never loaded."
        )
    number, version, major, stated, model = mark.groups()
    newer = f"{name} was written by crossview {version}, this is {__version__}: upgrade crossview to load it."
    if int(number) > _FORMAT:
        raise ModelFileError(newer)
    if int(number) < _FORMAT:
        older = f"{name} was written by crossview {version}, in a format that is no longer read"
        raise ModelFileError(f"{older}: fit the model again, and save it with crossview.save.")
    layout = _layout(header)
    expected = 8 + length + sum(prod(shape) * dtype.itemsize for _, dtype, shape in layout)
    if size != expected:
        problem = "cut short" if size < expected else "damaged"
        raise ModelFileError(f"{name} is {problem}: it has {size} bytes instead of {expected}. {AGAIN}")
    digest = hashlib.sha256(start + raw.replace(stated.encode(), _NO_DIGEST, 1))
    arrays = {}
    for key, dtype, shape in layout:
        arrays[key] = np.zeros(shape, dtype)
        octets = arrays[key].reshape(-1).view(np.uint8)
        file.readinto(octets.data)  # what cannot be read any more changes the digest
        digest.update(octets.data)
        if dtype == np.bool_ and octets.max(initial=0) > 1:
            raise ValueError(f"the array {key!r} has truth values other than 0 and 1")
    if digest.hexdigest() != stated:
        raise ModelFileError(f"{name} is damaged: its content has changed since it was written. {AGAIN}")
    if int(major) > int(__version__.split(".")[0]):
        raise ModelFileError(newer)
    return parse(model.encode()), arrays


def _count(text: bytes | bytearray) -> int:
    """The most values that JSON can have."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parse(text: bytes) -> Any:
    """JSON, unless it would take much memory."""
    if _count(text) > _MOST_VALUES:
        raise ValueError("there are more than a million values")
    return json.loads(text.decode(), object_pairs_hook=_unambiguous)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys, of which Python takes the last and other programs the first."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has a key more than once")
    return found


def _layout(header: Mapping[str, Any]) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Name, type and shape of all arrays in the order of the file, without gaps and overlaps."""
    found, end = [], 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        first, last = entry["data_offsets"]
        whole = all(type(size) is int and 0 <= size <= _LARGEST_SIZE for size in (*shape, first, last))
        if not whole or len(shape) > _MOST_DIMENSIONS or (0 in shape and shape != (0,)):
            raise ValueError(f"the array {name!r} has an invalid shape")
        if first != end or last - first != prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name!r} is incomplete")
        found.append((name, dtype, shape))
        end = last
    return found
