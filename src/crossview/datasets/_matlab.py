"""Variables of MATLAB files (versions 5 to 7), read by SciPy in a process that a hostile file may crash or fill.

Views, labels and identities have the names that are usual for them.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._text import first_few
from crossview.datasets._files import natural, read_file

_LABELS = ("y", "Y", "gnd", "gt", "label", "labels")
_MAX_SECONDS = 120
# The process has this one's path, so that it finds the same SciPy, and nothing else of its surroundings.
_START = "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[2]); runpy.run_path(sys.argv[1], None, '__main__')"

Value: TypeAlias = "NDArray[Any] | list[NDArray[Any]]"
"""Numbers; a text (of no dimension) or one per row (of one); or a list of those from a cell array."""


def read_matlab(content: bytes, label: str, names: Sequence[str] | None = None) -> dict[str, Value]:
    """All variables that are numbers, text, or cell arrays of them, or else the arrays of numbers with given names.

    Arrays have the type in which they are stored. Errors start with the label.
    """
    version = content[124:128]
    if version not in (b"\x00\x01IM", b"\x01\x00MI"):
        what = "in format 7.3" if version == b"\x00\x02IM" else "not a MATLAB file of version 5 to 7"
        raise ValueError(f"{label} is {what}: save it in MATLAB with -v7.")
    reader, path = Path(__file__).with_name("_matlab_reader.py"), [str(entry) for entry in sys.path]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START, str(reader), json.dumps(path), json.dumps(names)],
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


def read_views(source: Path, y_name: str, id_name: str, labelled: bool) -> dict[str, NDArray[Any]]:
    """The arrays of a MATLAB file, as in an ``.npz`` file: views, samples in rows; labels; identities, if any."""
    variables = read_matlab(read_file(source), str(source))
    columns = {name: column for name, value in variables.items() if (column := _column(value)) is not None}
    labels = [name for name in dict.fromkeys((y_name, *_LABELS)) if name in columns]
    if len(labels) > 1:
        raise ValueError(f"{source} has several variables of labels, {', '.join(labels)}: keep one.")
    if labelled and not labels:
        raise ValueError(
            f"{source} has no variable of labels, {', '.join(_LABELS)}, with one value per sample, only "
            f"{first_few(list(variables), 10) or 'structures'}: add it, or, in Python, pass its name as y_name."
        )
    roles = dict(zip([y_name], labels, strict=False))
    if id_name in columns:
        roles[id_name] = id_name
    views = _views({name: value for name, value in variables.items() if name not in roles.values()}, source)
    if labelled and len(views) < 2:
        only = f"has one view, {next(iter(views))}" if views else "has no view"
        raise ValueError(
            f"{source} {only}, but matching needs two or more: save a matrix per view, X1 and X2, or a cell array, "
            f"X = {{X1, X2}}, with the labels y."
        )
    if labels:
        views = _samples_in_rows(views, len(columns[labels[0]]), labels[0], source)
    return views | {role: columns[name] for role, name in roles.items()}


def _column(value: Value) -> NDArray[Any] | None:
    """One value per sample; None if there are more."""
    if isinstance(value, list):
        one_each = bool(value) and all(cell.size == 1 for cell in value)
        return np.array([str(_whole(cell.ravel())[0]) for cell in value]) if one_each else None
    is_column = value.ndim == 1 or (value.ndim == 2 and value.size > 0 and 1 in value.shape)
    return _whole(value.ravel()) if is_column else None


def _whole(flat: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers where all values are, because MATLAB stores them as floating-point ones."""
    # NaN and infinity fail the comparison.
    is_whole = flat.dtype.kind == "f" and (np.abs(flat) < 2**53).all() and (flat == np.floor(flat)).all()
    return flat.astype(np.int64) if is_whole else flat


def _views(variables: Mapping[str, Value], source: Path) -> dict[str, NDArray[Any]]:
    """The matrices of a cell array, or all matrices; single numbers and text are no views."""
    cells = {name: value for name, value in variables.items() if isinstance(value, list)}
    matrices = {
        name: value
        for name, value in variables.items()
        if not isinstance(value, list) and value.dtype.kind in "biuf" and value.size > 1
    }
    if not cells:
        return {name: matrices[name] for name in sorted(matrices, key=natural)}
    if len(cells) > 1 or matrices:
        both = first_few([*cells, *matrices])
        raise ValueError(f"{source} has views in a cell array and elsewhere, {both}: keep one cell array, or matrices.")
    ((name, values),) = cells.items()
    for k, value in enumerate(values, start=1):
        if value.dtype.kind not in "biuf":
            raise ValueError(f"{source}: {name}{k} is text: all cells of {name} must be matrices of numbers.")
    return {f"{name}{k}": value for k, value in enumerate(values, start=1)}


def _samples_in_rows(views: Mapping[str, NDArray[Any]], m: int, y_name: str, source: Path) -> dict[str, NDArray[Any]]:
    """Views transposed where columns are the samples: where there are as many as labels."""
    for name, X in views.items():
        if X.ndim != 2 or m not in X.shape:
            size = " × ".join(map(str, X.shape))
            raise ValueError(
                f"{source}: {name} is {size}, but {y_name} has {m} labels: rows or columns of a view must be the "
                "samples. Remove what is no view."
            )
    # A square view does not say; the others do.
    in_columns = any(X.shape[0] != m for X in views.values()) and all(X.shape[1] == m for X in views.values())
    return {name: X.T if in_columns or X.shape[0] != m else X for name, X in views.items()}
