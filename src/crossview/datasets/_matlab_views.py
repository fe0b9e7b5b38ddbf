"""Views and labels in a MATLAB file, under the names that are usual for them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._text import first_few
from crossview.datasets._files import natural, read_file
from crossview.datasets._matlab import Value, read_matlab

_LABELS = ("y", "Y", "gnd", "gt", "label", "labels")


def read_views(source: Path, y_name: str, id_name: str, labelled: bool) -> dict[str, NDArray[Any]]:
    """The arrays of a MATLAB file, as in an ``.npz`` file: views, samples in rows; labels; identities, if any."""
    variables = read_matlab(read_file(source), str(source))
    arrays: dict[str, NDArray[Any]] = {}
    name = _name_of_labels(variables, y_name, source, labelled)
    if name is not None:
        arrays[y_name] = _column(variables.pop(name))
    if id_name in variables and _is_column(variables[id_name]):
        arrays[id_name] = _column(variables.pop(id_name))
    views = _views(variables, source)
    if labelled and len(views) < 2:
        only = f"has one view, {next(iter(views))}" if views else "has no view"
        raise ValueError(
            f"{source} {only}, but matching needs two or more: save a matrix per view, X1 and X2, or a cell array, "
            f"X = {{X1, X2}}, with the labels y."
        )
    if name is not None:
        views = _samples_in_rows(views, len(arrays[y_name]), name, source)
    return {**views, **arrays}


def _name_of_labels(variables: Mapping[str, Value], y_name: str, source: Path, labelled: bool) -> str | None:
    names = [name for name in dict.fromkeys((y_name, *_LABELS)) if name in variables and _is_column(variables[name])]
    if len(names) > 1:
        raise ValueError(f"{source} has several variables of labels, {', '.join(names)}: keep one.")
    if labelled and not names:
        raise ValueError(
            f"{source} has no variable of labels, {', '.join(_LABELS)}, with one value per sample, only "
            f"{first_few(list(variables), 10) or 'structures'}: add it, or, in Python, pass its name as y_name."
        )
    return names[0] if names else None


def _is_column(value: Value) -> bool:
    """Whether there is one value per sample: a row or a column of numbers, or texts."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(cell, np.ndarray) and cell.size == 1 for cell in value)
    return value.ndim == 1 or (value.ndim == 2 and value.size > 0 and 1 in value.shape)


def _column(value: Value) -> NDArray[Any]:
    """Values as whole numbers where they are, because MATLAB stores numbers as floating-point ones."""
    if isinstance(value, list):
        return np.array([str(_column(cell).item()) for cell in value if isinstance(cell, np.ndarray)])
    flat = value.ravel()
    # NaN and infinity fail the comparison.
    if flat.dtype.kind == "f" and (np.abs(flat) < 2**53).all() and (flat == np.floor(flat)).all():
        flat = flat.astype(np.int64)
    return flat


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
    views = {f"{name}{k + 1}": value for k, value in enumerate(values) if isinstance(value, np.ndarray)}
    for view, value in views.items():
        if value.dtype.kind not in "biuf":
            raise ValueError(f"{source}: {view} is text: all cells of {name} must be matrices of numbers.")
    return views


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
