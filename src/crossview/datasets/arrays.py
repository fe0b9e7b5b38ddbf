"""Features from arrays in a file or from tables in a folder."""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview.datasets._dataset import Dataset, as_labels, class_names, paired
from crossview.datasets._files import check_name, listed, natural, one_line, unreadable
from crossview.datasets._matlab_views import read_views
from crossview.datasets._npy import NO_OBJECTS, read_npy, read_npy_file
from crossview.datasets._pairing import check_pairs, keys_by_pattern
from crossview.datasets._tables import Table, read_table
from crossview.views import Views

__all__ = ["ARRAY_SUFFIXES", "load_arrays"]

_HELP = (
    "Pass a file made by numpy.savez(path, photo=…, sketch=…, y=…), a .mat file with a matrix per view and y, or a "
    "folder with one table per view, for example photo.csv and sketch.parquet, with the columns id and label, or with "
    "photo.npy, sketch.npy and y.npy."
)
TABLE_SUFFIXES = (".csv", ".parquet")
ARRAY_SUFFIXES = (*TABLE_SUFFIXES, ".npy")  # of files with one view each
_MAX_SMALL = 2**28  # bytes to which any .npz file may unpack; larger data must not be a bomb
_MAX_RATIO = 200


def load_arrays(
    path: str | Path,
    *,
    y_name: str = "y",
    id_column: str = "id",
    label_column: str = "label",
    labelled: bool = True,
    pair_by: str | None = None,
) -> Dataset:
    r"""Features from numpy's ``.npz`` or from one table per view.

    Parameters
    ----------
    path : str or Path
        Either an ``.npz`` file with one array of shape (m, D_v) per view, row k of each the same sample, the labels of
        shape (m,), and optionally identities of shape (m,); or a folder with one ``.csv`` (commas, a line of names
        first, UTF-8) or ``.parquet`` file per view; or one such file, which gives one view. Rows of tables are matched
        by their identity: where a view lacks one, or has no value for it, its row is NaN. Parquet needs pyarrow.
    y_name : str
        Name of the array of labels.
    id_column : str
        The column of tables, or the name of the array, that identifies samples.
    label_column : str
        The column of tables with the labels. All other columns are features.
    labelled : bool
        Whether every sample must have a label, as fitting requires. Otherwise missing labels are empty text.

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
        return _from_tables(files, source, id_column, label_column, labelled, pair_by)
    if pair_by is not None:
        raise ValueError(f"{source} needs no pair_by: row k of every array is the same sample. Leave it out.")
    if suffixes == {".npy"}:
        arrays = {file.stem: read_npy_file(file) for file in files}
    elif suffixes == {".mat"}:
        arrays = read_views(source, y_name, id_column, labelled)
    else:
        arrays = _read_npz(source)
    return _from_arrays(arrays, source, y_name, id_column, labelled)


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
    return _dataset(views, labels, source, identities)


def _check_each(what: str, values: NDArray[Any], name: str, n_samples: int) -> NDArray[Any]:
    """Labels or identities, one per sample."""
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
    return values


def _read_npz(source: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(source) as archive:
            return _read_entries(archive, source)
    except OSError as error:
        raise unreadable(source, error) from error
    except Exception as error:
        # A decoder raises any kind of error on damaged data; the user needs the file's name.
        raise ValueError(
            f"{source} is not a readable .npz file of numbers and text ({one_line(error)}). {NO_OBJECTS} {_HELP}"
        ) from error


def _read_entries(archive: zipfile.ZipFile, source: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, unless they unpack to far more than its size."""
    entries = archive.infolist()
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ValueError("it is compressed in a way that numpy never uses")
    if sum(entry.file_size for entry in entries) > max(_MAX_SMALL, _MAX_RATIO * source.stat().st_size):
        raise ValueError(f"it unpacks to more than {_MAX_RATIO} times its size: save it with numpy.savez")
    arrays = {}
    for entry in entries:
        with archive.open(entry) as stream:
            arrays[entry.filename.removesuffix(".npy")] = read_npy(stream, entry.file_size, entry.filename)
    return arrays


def _files_in(folder: Path) -> list[Path]:
    """The tables, or otherwise the .npy files, of a folder."""
    try:
        entries = [check_name(file) for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError as error:
        raise unreadable(folder, error) from error
    tables = [file for file in entries if file.suffix.lower() in TABLE_SUFFIXES]
    arrays = [file for file in entries if file.suffix.lower() == ".npy"]
    if not tables and not arrays:
        raise FileNotFoundError(f"{folder} has no .csv, .parquet or .npy file. {_HELP}")
    if tables and arrays:
        both = f"{tables[0].name} and {arrays[0].name}"
        raise ValueError(f"{folder} has tables and .npy files, {both}: keep one kind.")
    return sorted(tables or arrays, key=lambda file: natural(file.name))


def _from_tables(
    files: Sequence[Path], source: Path, id_column: str, label_column: str, labelled: bool, pair_by: str | None
) -> Dataset:
    tables: dict[str, Table] = {}
    for file in files:
        if file.stem in tables:
            raise ValueError(f"{source} has two tables of the view {file.stem!r}, as .csv and .parquet: remove one.")
        table = read_table(file, id_column, label_column)
        tables[file.stem] = table if pair_by is None else _by_key(table, pair_by)
    labels = _labels(tables.values(), id_column)
    if labelled:
        _check_labels(tables.values(), labels, id_column, label_column)
        seen = {view: {key for key, row in table.rows.items() if row[0] == row[0]} for view, table in tables.items()}
        fix = f"The column {id_column!r} must match: correct it, or give a pattern for what ids share, such as "
        fix += r"--pair-by '(\d+)$' (pair_by=…)."
        check_pairs(seen, lambda view, key: f"{id_column} {key!r} of {tables[view].file}", "{}", fix)
    joined = paired({view: table.rows for view, table in tables.items()}, list(labels))
    views = Views(joined, feature_names=[table.columns for table in tables.values()])
    return _dataset(views, as_labels(list(labels.values())), source, np.array(list(labels)))


def _by_key(table: Table, pattern: str) -> Table:
    """The same table, its rows named after what a pattern finds in their identities."""
    keys = ["-".join(filter(None, found)) for found in keys_by_pattern(pattern, list(table.rows))]
    first: dict[str, str] = {}
    for identity, key in zip(table.rows, keys, strict=True):
        if (other := first.setdefault(key, identity)) != identity:
            both = f"{other!r} and {identity!r} of {table.file}"
            raise ValueError(f"pair_by finds {key!r} in {both}: write a pattern that tells them apart.")
    rows = dict(zip(keys, table.rows.values(), strict=True))
    return table._replace(rows=rows, labels=dict(zip(keys, table.labels.values(), strict=bool(table.labels))))


def _labels(tables: Iterable[Table], id_column: str) -> dict[str, str]:
    """The label of every identity, empty text if no table has one."""
    labels: dict[str, tuple[str, Path]] = {}
    for table in tables:
        for identity in table.rows:
            label = table.labels.get(identity, "")
            first, file = labels.get(identity, ("", table.file))
            if not first:
                labels[identity] = label, table.file
            elif label and first != label:
                raise ValueError(
                    f"{id_column} {identity!r} has the label {first!r} in {file}, but {label!r} in {table.file}: "
                    "correct one of them."
                )
    return {identity: label for identity, (label, _) in labels.items()}


def _check_labels(tables: Iterable[Table], labels: Mapping[str, str], id_column: str, label_column: str) -> None:
    """Refuse samples without a label."""
    for table in tables:
        missing = [identity for identity in table.rows if not labels[identity]]
        if missing and not table.labels:
            there = listed([repr(name) for name in (id_column, *table.columns)], 10)
            raise ValueError(
                f"{table.file} has no column {label_column!r}, only {there}: add it to one of the tables, "
                "or rename the column that has the classes (in Python, pass its name as label_column)."
            )
        if missing:
            raise ValueError(f"{table.file} has no {label_column} for {id_column} {missing[0]!r}: fill it in.")


def _dataset(views: Views, y: NDArray[Any], source: Path, ids: NDArray[Any] | None) -> Dataset:
    names = class_names(y)
    description = f"Features in {source.name}: {len(y)} samples of {len(names)} classes."
    return Dataset(views, y, names, description=description, ids=ids)
