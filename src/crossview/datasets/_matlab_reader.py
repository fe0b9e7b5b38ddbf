"""A program that reads a MATLAB file from standard input, with memory limited, because a damaged one may crash SciPy.

`_matlab.py` runs it as a process of its own; it imports nothing of this package. Its argument is a JSON list of names
of variables, or null for all that can be views, labels or identities. It writes an ``.npz`` archive: the JSON text of
an error, or else of the number of cells of every variable (null if it is no cell array), then the arrays.
"""

import io
import json
import math
import sys
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

_MAX_MEMORY = 2**31  # bytes, of this process
_MAX_BYTES = 2**28  # of all arrays
_MAX_VALUES, _MAX_CELLS = 2**24, 2**16  # of an array
_NOT_NUMBERS = {
    "cell": "a cell array",
    "char": "text",
    "sparse": "a sparse matrix",
    "struct": "a structure",
    "object": "an object",
    **dict.fromkeys(("function", "opaque", "unknown"), "not an array of real numbers"),
}
_IGNORED = ("struct", "object", "function", "opaque")  # hardly features


class _UnsupportedError(ValueError):
    """A variable that is intact but of a kind or size that is not read."""


def _read(content: bytes, names: list[str] | None) -> tuple[dict[str, int | None], list[Any]]:
    """The number of cells of every variable, None if it is no cell array, and all arrays in their order."""
    others = ("cell", "char") if names is None else ()
    wanted: dict[str, bool] = {}  # whether it is a cell array
    for name, shape, kind in scipy.io.whosmat(io.BytesIO(content)):
        if kind not in _IGNORED if names is None else name in names:
            if min(shape, default=0) < 0:
                raise ValueError(f"{name} has the shape {shape}")
            _check(name, kind, math.prod(shape), others)
            wanted[name] = kind == "cell"
    found = scipy.io.loadmat(io.BytesIO(content), variable_names=[*wanted])
    layout, arrays = dict[str, int | None](), list[Any]()
    for name, has_cells in wanted.items():
        values = found[name].ravel(order="F") if has_cells else [found[name]]
        layout[name] = len(values) if has_cells else None
        for value in values:
            _check(f"a cell of {name}" if has_cells else name, _class(value), np.size(value), ("char",))
            arrays.append(_texts(value) if value.dtype.kind == "U" else value)
    if sum(array.nbytes for array in arrays) > _MAX_BYTES:
        raise _UnsupportedError(f"its arrays have more than {_MAX_BYTES >> 20} MB: save them as .npz.")
    return layout, arrays


def _check(name: str, kind: str, size: int, others: tuple[str, ...]) -> None:
    """Refuse what is too large, and what is neither numbers nor of the other kinds given."""
    if kind in _NOT_NUMBERS and kind not in others:
        raise _UnsupportedError(f"{name} is {_NOT_NUMBERS[kind]}: save it as a full array of real numbers.")
    if kind == "cell" and size > _MAX_CELLS:
        raise _UnsupportedError(f"{name} has more than {_MAX_CELLS:,} cells: save it as a full array.")
    if size > _MAX_VALUES:
        raise _UnsupportedError(f"{name} has more than {_MAX_VALUES:,} values: split the file, or save it as .npz.")


def _class(value: Any) -> str:
    """MATLAB's class of what SciPy has read."""
    if isinstance(value, str):  # in which SciPy says why it cannot read a variable
        raise ValueError(value)
    if scipy.sparse.issparse(value):
        return "sparse"
    if type(value) is not np.ndarray or value.dtype.kind == "c":
        return "unknown"
    return {"O": "cell", "U": "char", "V": "struct"}.get(value.dtype.kind, "numbers")


def _texts(value: Any) -> Any:
    """One text, of no dimension, or one per row of characters, without the blanks at their end."""
    return np.array("".join(value.flat)) if value.size <= 1 else np.char.rstrip(value)


def main() -> None:
    """Read the file and write the answer."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows, or limited more strictly already
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    warnings.simplefilter("ignore")
    answer = io.BytesIO()
    try:
        layout, arrays = _read(sys.stdin.buffer.read(), json.loads(sys.argv[-1]))
        np.savez(answer, json.dumps(layout), *arrays)
    except Exception as error:  # a decoder raises any kind on damaged data
        reason = " ".join(str(error).split()) or type(error).__name__
        known = isinstance(error, _UnsupportedError)
        answer = io.BytesIO()
        np.savez(
            answer, json.dumps(f": {reason}" if known else f" is not a readable MATLAB file ({reason}): replace it.")
        )
    sys.stdout.buffer.write(answer.getbuffer())


if __name__ == "__main__":
    main()
