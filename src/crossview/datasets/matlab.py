"""Variables of MATLAB files (versions 5 to 7), read by SciPy in a process that a hostile file may crash or fill.

Run as a program, this module is that process: its memory is limited, and it imports nothing of this package. It reads
the file from standard input, and writes an ``.npz`` archive: the JSON text of an error, or else of the number of cells
of every variable (null if it is no cell array), then the arrays.
"""

import io
import json
import math
import os
import subprocess
import sys
import warnings
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Value: TypeAlias = "NDArray[Any] | list[NDArray[Any]]"
"""Numbers; a text (of no dimension) or one per row (of one); or a list of those from a cell array."""

_MAX_SECONDS = 120
_MAX_MEMORY = 2**31  # bytes, of the process
_MAX_BYTES = 2**28  # of all arrays
_MAX_VALUES, _MAX_CELLS = 2**24, 2**16  # of an array
# The process has this one's path, so that it finds the same SciPy, and nothing else of its surroundings.
_START = "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[2]); runpy.run_path(sys.argv[1], None, '__main__')"
_NOT_NUMBERS = {"cell": "a cell array", "sparse": "a sparse matrix", "unknown": "not an array of real numbers"}
_IGNORED = ("struct", "object", "function", "opaque")  # hardly features


def read_matlab(content: bytes, label: str) -> dict[str, Value]:
    """All variables but structures and objects, in the type in which they are stored. Errors start with the label."""
    version = content[124:128]
    if version not in (b"\x00\x01IM", b"\x01\x00MI"):
        what = "in format 7.3" if version == b"\x00\x02IM" else "not a MATLAB file of version 5 to 7"
        raise ValueError(f"{label} is {what}: save it in MATLAB with -v7.")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START, __file__, json.dumps([str(entry) for entry in sys.path])],
            input=content,
            capture_output=True,
            check=True,
            timeout=_MAX_SECONDS,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # each further thread reserves memory
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        with np.load(io.BytesIO(done.stdout)) as answer:
            layout, *arrays = answer.values()
    except subprocess.SubprocessError as error:
        if isinstance(error, subprocess.CalledProcessError) and error.returncode == 1:  # an error at the start
            raise RuntimeError(f"SciPy cannot be started to read {label}: {error.stderr.decode()[-500:]}") from error
        reason = "it takes too long" if isinstance(error, subprocess.TimeoutExpired) else "SciPy crashes on it"
        raise ValueError(f"{label} is not a readable MATLAB file ({reason}): replace it.") from error
    found = json.loads(layout.item())
    if isinstance(found, str):
        raise ValueError(label + found)
    left = iter(arrays)
    return {name: next(left) if n is None else [next(left) for _ in range(n)] for name, n in found.items()}


# The process.


class _UnsupportedError(ValueError):
    """A variable that is intact but of a kind or size that is not read."""


def _main() -> None:
    """Read the file and write the answer."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows, or limited more strictly already
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    warnings.simplefilter("ignore")
    answer = io.BytesIO()
    try:
        layout, arrays = _read(sys.stdin.buffer.read())
        np.savez(answer, json.dumps(layout), *arrays)
    except Exception as error:  # a decoder raises any kind on damaged data
        reason = " ".join(str(error).split()) or type(error).__name__
        known = isinstance(error, _UnsupportedError)
        message = f": {reason}" if known else f" is not a readable MATLAB file ({reason}): replace it."
        answer = io.BytesIO()
        np.savez(answer, json.dumps(message))
    sys.stdout.buffer.write(answer.getbuffer())


def _read(content: bytes) -> tuple[dict[str, int | None], list[Any]]:
    """The number of cells of every variable, None if it is no cell array, and all arrays in their order."""
    import scipy.io

    wanted: dict[str, bool] = {}  # whether it is a cell array
    for name, shape, kind in scipy.io.whosmat(io.BytesIO(content)):
        if kind not in _IGNORED:
            if min(shape, default=0) < 0:
                raise ValueError(f"{name} has the shape {shape}")
            if kind == "cell" and math.prod(shape) > _MAX_CELLS:
                raise _UnsupportedError(f"{name} has more than {_MAX_CELLS:,} cells: save it as a full array.")
            wanted[name] = kind == "cell"
            _check(name, "numbers" if kind == "cell" else kind, math.prod(shape))
    found = scipy.io.loadmat(io.BytesIO(content), variable_names=[*wanted])
    layout, arrays = dict[str, int | None](), list[Any]()
    for name, has_cells in wanted.items():
        values = found[name].ravel(order="F") if has_cells else [found[name]]
        layout[name] = len(values) if has_cells else None
        for value in values:
            _check(f"a cell of {name}" if has_cells else name, _kind(value), np.size(value))
            arrays.append(_texts(value) if value.dtype.kind == "U" else value)
    if sum(array.nbytes for array in arrays) > _MAX_BYTES:
        raise _UnsupportedError(f"its arrays have more than {_MAX_BYTES >> 20} MB: save them as .npz.")
    return layout, arrays


def _check(name: str, kind: str, size: int) -> None:
    """Refuse what is too large, and what is neither numbers nor text."""
    if kind in _NOT_NUMBERS:
        raise _UnsupportedError(f"{name} is {_NOT_NUMBERS[kind]}: save it as a full array of real numbers.")
    if size > _MAX_VALUES:
        raise _UnsupportedError(f"{name} has more than {_MAX_VALUES:,} values: split the file, or save it as .npz.")


def _kind(value: Any) -> str:
    """What SciPy has read."""
    if isinstance(value, str):  # in which SciPy says why it cannot read a variable
        raise ValueError(value)
    if type(value) is not np.ndarray or value.dtype.kind in "cV":
        return "sparse" if hasattr(value, "nnz") else "unknown"
    return "cell" if value.dtype.kind == "O" else "numbers"


def _texts(value: Any) -> Any:
    """One text, of no dimension, or one per row of characters, without the blanks at their end."""
    return np.array("".join(value.flat)) if value.size <= 1 else np.char.rstrip(value)


if __name__ == "__main__":
    _main()
