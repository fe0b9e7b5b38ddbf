"""Arrays from MATLAB files (versions 5 to 7), by bounds-checked slices alone.

SciPy's reader is compiled and crashes the interpreter on a single changed byte. A validator in front of it would have
to parse all of what is parsed here, and agree with it on every damaged file.
"""

import math
import struct
import zlib
from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_HEADER = 128
_INT32, _UINT32, _MATRIX, _COMPRESSED = 5, 6, 14, 15
_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
_CELL, _TEXT = 1, 4
_OTHER_CLASSES = {_CELL: "a cell array", 2: "a structure", 3: "an object", _TEXT: "text", 5: "a sparse matrix"}
_NUMERIC_CLASSES = range(6, 16)
_MORE = (_CELL, _TEXT)
_IGNORED_CLASSES = (2, 3, 16, 17)  # structures, objects, functions: hardly features
_COMPLEX = 0x800
_HEAD = 4096  # bytes that hold the flags, shape and name of every array that MATLAB writes
_MAX_VALUES = 2**24  # of an array: more than all images of a pose, 64 × 64, and 128 MB
_MAX_CELLS = 2**16
_MAX_CHARACTERS = 2**20
_MAX_BYTES = 2**28  # of all arrays that are read

Value: TypeAlias = "NDArray[Any] | list[Value]"
"""Numbers; a text (of no dimension) or one per row (of one); or what is in a cell array."""


def read_matlab(content: bytes, label: str, names: Collection[str] | None = None) -> dict[str, Value]:
    """All variables that are numbers, text, or cell arrays of them, or else the arrays of numbers with given names.

    Arrays have the type in which they are stored. Errors start with the label.
    """
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(content[124:_HEADER])
    if order is None:
        what = "in format 7.3" if content[124:_HEADER] == b"\x00\x02IM" else "not a MATLAB file of version 5 to 7"
        raise ValueError(f"{label} is {what}: save it in MATLAB with -v7.")
    try:
        return _read_variables(memoryview(content), names, order)
    except _UnsupportedError as error:
        raise ValueError(f"{label}: {error}") from error
    except (ValueError, zlib.error) as error:
        raise ValueError(f"{label} is not a readable MATLAB file ({error}): replace it.") from error


class _UnsupportedError(ValueError):
    """An array that is intact but of a kind that is not read."""


def _read_variables(content: memoryview, names: Collection[str] | None, order: str) -> dict[str, Value]:
    """The arrays of numbers with the given names, or else all variables but structures and objects."""
    found: dict[str, Value] = {}
    at, n_bytes = _HEADER, 0
    while at < len(content):
        kind, data, at = _element(content, at, order)
        packed = data if kind == _COMPRESSED else None
        if packed is not None:
            kind, size, data = _inflated_head(packed, order)
        if kind != _MATRIX or not len(data):
            continue
        flags, shape, name, start = _describe(data, order)
        array_class = flags & 0xFF
        if name not in names if names is not None else array_class in _IGNORED_CLASSES:
            continue
        _check_supported(flags, shape, name, _NUMERIC_CLASSES if names is not None else (*_NUMERIC_CLASSES, *_MORE))
        if packed is not None:
            data = _inflate(packed, size)
        n_bytes += len(data)
        if n_bytes > _MAX_BYTES:
            raise _UnsupportedError(f"its arrays have more than {_MAX_BYTES >> 20} MB: save them as .npz.")
        found[name] = _value(data, array_class, shape, start, name, order)
    return found


def _check_supported(flags: int, shape: tuple[int, ...], name: str, classes: Collection[int]) -> None:
    if flags & 0xFF not in classes or flags & _COMPLEX:
        is_what = _OTHER_CLASSES.get(flags & 0xFF, "not an array of real numbers")
        raise _UnsupportedError(f"{name} is {is_what}: save it as a full array of real numbers.")
    if math.prod(shape) > _MAX_VALUES:
        raise _UnsupportedError(f"{name} has more than {_MAX_VALUES:,} values: split the file, or save it as .npz.")


def _value(data: memoryview, array_class: int, shape: tuple[int, ...], start: int, name: str, order: str) -> Value:
    """What an array that begins at an offset holds."""
    if array_class == _CELL:
        return _cells(data, shape, start, name, order)
    kind, values, _ = _element(data, start, order)
    if array_class == _TEXT:
        return _text(values, kind, shape, name, order)
    dtype = np.dtype(order + _DTYPES.get(kind, "V1"))
    if dtype.kind == "V" or len(values) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} does not have the size that its shape {shape} needs")
    return np.frombuffer(values, dtype).reshape(shape, order="F")


def _cells(data: memoryview, shape: tuple[int, ...], at: int, name: str, order: str) -> list[Value]:
    """The arrays in a cell array that has none but numbers and text."""
    if math.prod(shape) > _MAX_CELLS:
        raise _UnsupportedError(f"{name} has more than {_MAX_CELLS:,} cells: save it as a full array.")
    cells: list[Value] = []
    for _ in range(math.prod(shape)):
        kind, cell, at = _element(data, at, order)
        if kind != _MATRIX or not len(cell):
            raise ValueError(f"a cell of {name} is no array")
        flags, sides, _, start = _describe(cell, order)
        _check_supported(flags, sides, f"a cell of {name}", (_TEXT, *_NUMERIC_CLASSES))
        cells.append(_value(cell, flags & 0xFF, sides, start, name, order))
    return cells


def _text(values: memoryview, kind: int, shape: tuple[int, ...], name: str, order: str) -> NDArray[np.str_]:
    """One text, or as many as an array of characters has rows, without the blanks at their end."""
    if len(values) > _MAX_CHARACTERS:
        raise _UnsupportedError(f"{name} has more than {_MAX_CHARACTERS:,} bytes of text: save it as numbers.")
    encoding = _ENCODINGS.get(kind, "")
    if encoding == "utf-16":
        encoding += "-le" if order == "<" else "-be"
    text = bytes(values).decode(encoding or "ascii")
    if shape[0] <= 1:
        return np.array(text)
    if len(shape) != 2 or len(text) != math.prod(shape):
        raise ValueError(f"{name} does not have the size that its shape {shape} needs")
    return np.array([text[row :: shape[0]].rstrip() for row in range(shape[0])])


def _element(data: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Type and content of the element at an offset, and the offset of the next."""
    if at + 8 > len(data):
        raise ValueError("it is cut off")
    kind, size = struct.unpack_from(order + "II", data, at)
    start, padding = at + 8, 0 if kind == _COMPRESSED else -size % 8
    if kind >> 16:  # four bytes or fewer lie within the tag
        kind, size, start, padding = kind & 0xFFFF, kind >> 16, at + 4, 4 - (kind >> 16)
    if padding < 0 or start + size > len(data):
        raise ValueError("an element is larger than what contains it")
    return kind, data[start : start + size], start + size + padding


def _describe(data: memoryview, order: str) -> tuple[int, tuple[int, ...], str, int]:
    """Flags, shape and name of an array, and the offset of its values."""
    flags_kind, flags, at = _element(data, 0, order)
    shape_kind, shape, at = _element(data, at, order)
    _, name, at = _element(data, at, order)
    valid = (flags_kind, shape_kind, len(flags)) == (_UINT32, _INT32, 8)
    if not valid or len(shape) % 4 or not 8 <= len(shape) <= 128:
        raise ValueError("an array has no valid description")
    sides = struct.unpack(f"{order}{len(shape) // 4}i", shape)
    if min(sides) < 0:
        raise ValueError(f"an array has the shape {sides}")
    return struct.unpack_from(order + "I", flags)[0], sides, bytes(name).decode("latin-1"), at


def _inflated_head(packed: memoryview, order: str) -> tuple[int, int, memoryview]:
    """Type and size of a compressed element, and its first bytes."""
    head = memoryview(zlib.decompressobj().decompress(packed, _HEAD))
    if len(head) < 8:
        raise ValueError("it is cut off")
    kind, size = struct.unpack_from(order + "II", head)
    return kind, size, head[8 : 8 + size]


def _inflate(packed: memoryview, size: int) -> memoryview:
    """The content of a compressed element, which must have exactly the size that it declares."""
    if size > 8 * _MAX_VALUES + _HEAD:
        raise ValueError("an element is larger than its array")
    stream = zlib.decompressobj()
    content = stream.decompress(packed, size + 9)
    if len(content) != size + 8 or not stream.eof:
        raise ValueError("compressed data are cut off or longer than declared")
    return memoryview(content)[8:]
