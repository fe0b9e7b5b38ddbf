"""Features from arrays in a file or from tables in a folder."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview.datasets._dataset import Dataset, as_labels, described, warn_of_single_samples
from crossview.datasets._files import check_name, is_hidden, natural, reading
from crossview.datasets._images import IMAGE_SUFFIXES
from crossview.datasets._matlab import read_views
from crossview.datasets._npy import read_npy_file, read_npz
from crossview.datasets._tables import join_tables
from crossview.views import Views

__all__ = ["ARRAY_SUFFIXES", "load_arrays"]

_HELP = (
    "Pass a file made by numpy.savez(path, photo=…, sketch=…, y=…), a .mat file with a matrix per view and y, or a "
    "folder with one table per view, for example photo.csv and sketch.parquet, with the columns id and label, or with "
    "photo.npy, sketch.npy and y.npy."
)
TABLE_SUFFIXES = (".csv", ".parquet")
ARRAY_SUFFIXES = (*TABLE_SUFFIXES, ".npy")  # of files with one view each


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
        - A folder with one ``.csv`` (commas or semicolons, a line of names first, UTF-8) or ``.parquet`` file per view.
          Rows are matched by their identity: where a view lacks one, or has no value for it, its row is NaN. A label in
          one of the tables suffices. Parquet needs pyarrow.
        - One ``.csv``, ``.parquet`` or ``.npy`` file, which gives one view.
    y_name : str
        Name of the array of labels.
    id_column : str
        The column of tables, or the name of the array, that identifies samples.
    label_column : str
        The column of tables with the labels. All other columns are features.
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
            arrays = {file.stem: read_npy_file(file) for file in files}
        elif suffixes == {".mat"}:
            arrays = read_views(source, y_name, id_column, labelled)
        elif suffixes == {".npz"} or zipfile.is_zipfile(source):
            arrays = read_npz(source, _HELP)
        else:
            raise ValueError(
                f"{source} is of no kind that is read: pass a .npz, .npy, .mat, .csv or .parquet file, an image "
                f"({', '.join(IMAGE_SUFFIXES)}), or a folder."
            )
        data = _from_arrays(arrays, source, y_name, id_column, labelled)
    if labelled:
        warn_of_single_samples(data)
    return data


def _from_arrays(arrays: dict[str, NDArray[Any]], source: Path, y_name: str, id_name: str, labelled: bool) -> Dataset:
    if labelled and y_name not in arrays:
        raise ValueError(
            f"{source} has no array of labels {y_name!r}, only {', '.join(arrays)}: add it, or, in Python, pass its "
            "name as y_name."
        )
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
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not in UTF-8 ({error}): save it as text.") from error
    finite = values.dtype.kind != "f" or np.isfinite(values).all()
    if values.ndim != 1 or values.dtype.kind not in "biufU" or not finite:
        got = f"{values.dtype} of shape {values.shape}"
        raise ValueError(f"{name} must be one {what} per sample, whole numbers or text, got {got}.")
    if len(values) != n_samples:
        raise ValueError(f"{name} has {len(values)} entries, but the views have {n_samples} rows.")
    return np.char.strip(values, " ") if values.dtype.kind == "U" else values


def _files_in(folder: Path) -> list[Path]:
    """The tables, or otherwise the .npy files, of a folder."""
    with reading(folder):
        found = list(folder.iterdir())
    entries = [check_name(file) for file in found if not is_hidden(file.name)]
    tables = [file for file in entries if file.suffix.lower() in TABLE_SUFFIXES]
    arrays = [file for file in entries if file.suffix.lower() == ".npy"]
    if not tables and not arrays:
        raise FileNotFoundError(f"{folder} has no .csv, .parquet or .npy file. {_HELP}")
    if tables and arrays:
        both = f"{tables[0].name} and {arrays[0].name}"
        raise ValueError(f"{folder} has tables and .npy files, {both}: keep one kind.")
    return sorted(tables or arrays, key=lambda file: natural(file.name))
