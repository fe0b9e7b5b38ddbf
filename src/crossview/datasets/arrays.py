"""Features from arrays in a file or from tables in a folder."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._text import first_few
from crossview.datasets.dataset import Dataset, as_labels, described, warn_of_single_samples
from crossview.datasets.files import check_name, is_hidden, natural, read_file, read_npy, read_npz, reading
from crossview.datasets.images import IMAGE_SUFFIXES
from crossview.datasets.matlab import Value, read_matlab
from crossview.datasets.tables import join_tables
from crossview.views import Views

__all__ = ["ARRAY_SUFFIXES", "load_arrays"]

_HELP = (
    "Pass a file made by numpy.savez(path, photo=…, sketch=…, y=…), a .mat file with a matrix per view and y, or a "
    "folder with one table per view, for example photo.csv and sketch.parquet, with the columns id and label, or with "
    "photo.npy, sketch.npy and y.npy."
)
TABLE_SUFFIXES = (".csv", ".parquet")
ARRAY_SUFFIXES = (*TABLE_SUFFIXES, ".npy")  # of files with one view each
_LABELS = ("y", "Y", "gnd", "gt", "label", "labels")  # in MATLAB files


def load_arrays(
    path: str | Path,
    *,
    y_name: str = "y",
    id_column: str = "id",
    label_column: str = "label",
    labelled: bool = True,
    pair_by: str | None = None,
) -> Dataset:
    r"""Features from arrays or tables: ``.npz``, ``.npy``, ``.mat``, ``.csv`` or ``.parquet``.

    Parameters
    ----------
    path : str or Path
        - An ``.npz`` file, or a folder of ``.npy`` files, with one array of shape (m, D_v) per view, row k of each the
          same sample, the labels of shape (m,), and optionally identities of shape (m,).
        - A ``.mat`` file (up to version 7) with a matrix per view, such as ``X1`` and ``X2``, or a cell array of them,
          and the labels as ``y``, ``Y``, ``gnd``, ``gt``, ``label`` or ``labels``. Samples are the rows, or else the
          columns, of which there are as many as labels.
        - A folder with one ``.csv`` (a line of names first, UTF-8) or ``.parquet`` file per view. Rows are matched by
          their identity: where a view lacks one, or has no value for it, its row is NaN. A label in one of the tables
          suffices. Parquet needs pyarrow.
        - One ``.csv``, ``.parquet`` or ``.npy`` file, which gives one view.
    y_name, id_column, label_column : str
        Name of the array of labels; the column of tables, or the array, that identifies samples; the column of tables
        with the labels. All other columns are features.
    labelled : bool
        Whether every sample must have a label, as fitting requires, and tables must have samples in common. Otherwise
        missing labels are empty text.
    pair_by : str, optional
        For tables whose identities differ, a regular expression: rows in whose identity its groups find the same text
        are the same sample. ``r"(\d+)$"`` takes the number at the end.

    Returns
    -------
    data : Dataset
        Views are named after the arrays, or after the tables without their ending. Samples keep the order in which they
        first appear.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "photo.csv").write_text("id,label,a,b\nx,cat,1,2\ny,dog,3,4\n")
    ...     written = Path(folder, "sketch.csv").write_text("id,c\ny,5\nx,6\n")
    ...     data = load_arrays(folder)
    >>> data.views, data.y
    (Views(2 samples; photo: 2 features, sketch: 1 feature), array(['cat', 'dog'], dtype='<U3'))
    """
    source = check_name(Path(path))
    if not source.is_file() and not source.is_dir():
        raise FileNotFoundError(f"{source} does not exist, or is neither a file nor a folder. {_HELP}")
    files = [source] if source.is_file() else _files_in(source)
    suffixes = {file.suffix.lower() for file in files}
    if suffixes <= set(TABLE_SUFFIXES):
        views, labels = join_tables(files, id_column, label_column, labelled, pair_by)
        data = described(views, as_labels(list(labels.values())), np.array(list(labels)), source)
    elif pair_by is not None:
        raise ValueError(f"{source} needs no pair_by: row k of every array is the same sample. Leave it out.")
    else:
        if suffixes == {".npy"}:
            arrays = {file.stem: read_npy(file) for file in files}
        elif suffixes == {".mat"}:
            arrays = _read_mat(source, y_name, id_column, labelled)
        elif suffixes == {".npz"} or zipfile.is_zipfile(source):
            arrays = read_npz(source, _HELP)
        else:
            kinds = f".npz, .npy, .mat, .csv or .parquet file, an image ({', '.join(IMAGE_SUFFIXES)}), or a folder"
            raise ValueError(f"{source} is of no kind that is read: pass a {kinds}.")
        data = _from_arrays(arrays, source, y_name, id_column, labelled)
    if labelled:
        warn_of_single_samples(data)
    return data


def _files_in(folder: Path) -> list[Path]:
    """The tables, or otherwise the .npy files, of a folder."""
    with reading(folder):
        found = sorted(folder.iterdir(), key=lambda file: natural(file.name))
    files = [check_name(file) for file in found if not is_hidden(file.name) and file.suffix.lower() in ARRAY_SUFFIXES]
    arrays = [file for file in files if file.suffix.lower() == ".npy"]
    if not files:
        raise FileNotFoundError(f"{folder} has no .csv, .parquet or .npy file. {_HELP}")
    if 0 < len(arrays) < len(files):
        raise ValueError(f"{folder} has tables and .npy files, such as {arrays[0].name}: keep one kind.")
    return files


def _from_arrays(arrays: dict[str, NDArray[Any]], source: Path, y_name: str, id_name: str, labelled: bool) -> Dataset:
    if labelled and y_name not in arrays:
        fix = "add it, or, in Python, pass its name as y_name"
        raise ValueError(f"{source} has no array of labels {y_name!r}, only {', '.join(arrays)}: {fix}.")
    y = arrays.pop(y_name, None)
    # A view of that name has two dimensions.
    ids = arrays.pop(id_name) if id_name in arrays and arrays[id_name].ndim == 1 else None
    if not arrays:
        raise ValueError(f"{source} has no view. {_HELP}")
    try:
        views = Views(arrays)
        labels = np.full(len(views), "") if y is None else _check_each("label", y, y_name, len(views))
        identities = None if ids is None else _check_each("identity", ids, id_name, len(views))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return described(views, labels, identities, source)


def _check_each(what: str, values: NDArray[Any], name: str, n_samples: int) -> NDArray[Any]:
    """Labels or identities, one per sample, as text without blanks around it."""
    finite = values.dtype.kind != "f" or np.isfinite(values).all()
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not finite:
        got = f"{values.dtype} of shape {values.shape}"
        raise ValueError(f"{name} must be one {what} per sample, whole numbers or text, got {got}.")
    if len(values) != n_samples:
        raise ValueError(f"{name} has {len(values)} entries, but the views have {n_samples} rows.")
    return np.char.strip(values, " ") if values.dtype.kind == "U" else values


def _read_mat(source: Path, y_name: str, id_name: str, labelled: bool) -> dict[str, NDArray[Any]]:
    """The arrays of a MATLAB file, as in an ``.npz`` file: views, samples in rows; labels; identities, if any."""
    variables = read_matlab(read_file(source), str(source))
    columns = {name: column for name, value in variables.items() if (column := _column(value)) is not None}
    labels = [name for name in dict.fromkeys((y_name, *_LABELS)) if name in columns]
    if len(labels) > 1:
        raise ValueError(f"{source} has several variables of labels, {', '.join(labels)}: keep one.")
    if labelled and not labels:
        there = first_few(list(variables), 10) or "structures"
        needs = f"has no variable of labels, {', '.join(_LABELS)}, with one value per sample, only {there}"
        raise ValueError(f"{source} {needs}: add it, or, in Python, pass its name as y_name.")
    roles = dict(zip([y_name], labels, strict=False)) | ({id_name: id_name} if id_name in columns else {})
    views = _matrices({name: value for name, value in variables.items() if name not in roles.values()}, source)
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


def _matrices(variables: Mapping[str, Value], source: Path) -> dict[str, NDArray[Any]]:
    """The matrices of a cell array, or all matrices; single numbers and text are no views."""
    cells = {name: value for name, value in variables.items() if isinstance(value, list)}
    matrices = {
        name: value
        for name, value in sorted(variables.items(), key=lambda item: natural(item[0]))
        if not isinstance(value, list) and value.dtype.kind in "biuf" and value.size > 1
    }
    if not cells:
        return matrices
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
            sizes = f"{name} is {' × '.join(map(str, X.shape))}, but {y_name} has {m} labels"
            raise ValueError(
                f"{source}: {sizes}: rows or columns of a view must be the samples. Remove what is no view."
            )
    # A square view does not say; the others do.
    in_columns = any(X.shape[0] != m for X in views.values()) and all(X.shape[1] == m for X in views.values())
    return {name: X.T if in_columns or X.shape[0] != m else X for name, X in views.items()}
