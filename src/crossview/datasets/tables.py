"""Tables with a view's features and the identity and the label of every row, joined by the identities."""

import csv
import math
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview.datasets.dataset import check_pairs, keys_by_pattern, paired, unique
from crossview.datasets.files import check_regular, most_unpacked, reading
from crossview.views import Views

_OLDEST_PYARROW = 16  # older ones can be made to execute what a file says
_MAX_BATCH = 1024  # rows that are unpacked at a time
_VALUE_BYTES = 32  # of a value as a Python object
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")


class Table(NamedTuple):
    """Names and values of a view's features, all NaN where a row has none, and labels if there are any, by identity."""

    file: Path
    columns: list[str]
    rows: dict[str, Array]
    labels: dict[str, str]


def join_tables(
    files: Sequence[Path], id_column: str, label_column: str, labelled: bool, pair_by: str | None
) -> tuple[Views, dict[str, str]]:
    """Join one table per view by the identities of their rows, or by what a pattern finds in them.

    Returns the views and, by identity, the labels, in the order in which samples first appear; a label is empty text if
    there is none.
    """
    by_view = unique(
        ((file.stem, file) for file in files),
        lambda view, file, _: f"{file.parent} has two tables of the view {view!r}, as .csv and .parquet: remove one.",
    )
    tables = {view: _read_table(file, id_column, label_column, pair_by) for view, file in by_view.items()}
    labels = _labels(tables.values(), id_column, label_column, labelled)
    rows = {(view, key): row for view, table in tables.items() for key, row in table.rows.items()}
    if labelled:
        seen = {
            (view, key): f"{id_column} {key!r} of {tables[view].file}"
            for (view, key), row in rows.items()
            if not np.isnan(row[0])
        }
        fix = f"The column {id_column!r} must match: correct it, or give a pattern for what ids share, such as "
        fix += r"--pair-by '(\d+)$' (pair_by=…)."
        check_pairs(list(tables), seen, "", fix, pair_by is not None)
    columns = [table.columns for table in tables.values()]
    return Views(paired(rows, tables, list(labels)), feature_names=columns), labels


def _labels(tables: Collection[Table], id_column: str, label_column: str, labelled: bool) -> dict[str, str]:
    """The label of every identity; empty text if no table has one, which is an error if `labelled`."""
    known: dict[str, tuple[str, Path]] = {}
    for table in tables:
        for identity, label in table.labels.items():
            first, file = known.setdefault(identity, (label, table.file)) if label else ("", table.file)
            if label != first:
                raise ValueError(
                    f"{id_column} {identity!r} has the label {first!r} in {file}, but {label!r} in {table.file}: "
                    "correct one of them."
                )
    for table in tables if labelled else ():
        missing = [identity for identity in table.rows if identity not in known]
        if missing and not table.labels:
            there = first_few([*map(repr, (id_column, *table.columns))], 10)
            fix = "add it to one of the tables, or rename the column that has the classes (label_column=… in Python)"
            raise ValueError(f"{table.file} has no column {label_column!r}, only {there}: {fix}.")
        if missing:
            raise ValueError(f"{table.file} has no {label_column} for {id_column} {missing[0]!r}: fill it in.")
    return {identity: known.get(identity, ("",))[0] for table in tables for identity in table.rows}


def _read_table(file: Path, id_column: str, label_column: str, pair_by: str | None) -> Table:
    """Read a ``.csv`` or ``.parquet`` file, with or without labels; a pattern finds what identifies a row in its id."""
    check_regular(file)
    is_parquet = file.suffix.lower() == ".parquet"
    names, cells = _read_parquet(file) if is_parquet else _read_csv(file, (id_column, label_column))
    # pandas writes the numbers of its rows by default, and they would pass for a feature.
    if any(not name.strip() or name.startswith(("__index_level_", "Unnamed: ")) for name in names):
        fix = "remove it, or write the table with index=False"
        raise ValueError(f"{file} has a column without a name, as pandas writes for row numbers: {fix}.")
    columns = unique(
        zip(names, cells, strict=True), lambda name, *_: f"{file} has two columns called {name!r}: rename one."
    )
    if id_column not in columns:
        fix = "add it, or rename the column that says which sample a row is (id_column=… in Python)"
        raise ValueError(f"{file} has no column {id_column!r}, only {first_few([*map(repr, columns)], 10)}: {fix}.")
    try:
        identities, labels = ([*map(_text, columns.pop(name, ()))] for name in (id_column, label_column))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} has names that are not in UTF-8 ({error}): save them as text.") from error
    if not columns:
        raise ValueError(f"{file} has no features: add columns of numbers next to {id_column!r} and {label_column!r}.")
    if not identities:
        raise ValueError(f"{file} has no rows: add some, or remove the file.")
    if "" in identities:
        raise ValueError(f"{file} has no {id_column} in row {identities.index('') + 1}: fill it in.")
    keys = identities
    if pair_by is not None:
        keys = ["-".join(filter(None, found)) for found in keys_by_pattern(pair_by, identities)]
    places = unique(
        zip(keys, range(len(keys)), strict=True),
        lambda key, one, other: (
            f"{file} has {id_column} {key!r} more than once: keep one of the rows."
            if pair_by is None
            else f"pair_by finds {key!r} in {identities[one]!r} and {identities[other]!r} of {file}: write a pattern "
            "that tells them apart."
        ),
    )
    hint = ", or remove it" if labels else f", remove it, or rename it to {label_column!r} if it has the classes"
    X = np.column_stack([_numbers(values, name, file, hint) for name, values in columns.items()])
    unknown = np.isnan(X)
    for k in np.flatnonzero(unknown.any(axis=1) & ~unknown.all(axis=1)):
        column = list(columns)[int(unknown[k].argmax())]
        fix = "fill it in, or leave out the whole row if the sample was not seen in this view"
        raise ValueError(f"{file} has no value in column {column!r} for {id_column} {identities[k]!r}: {fix}.")
    return Table(file, list(columns), {key: X[k] for key, k in places.items()}, dict(zip(keys, labels, strict=False)))


def _read_csv(file: Path, texts: Collection[str]) -> tuple[list[str], list[list[str]]]:
    """Names and cells of the columns; the given columns hold text rather than numbers."""
    with reading(file, "table", ": save it as CSV in UTF-8."), file.open(newline="", encoding="utf-8-sig") as stream:
        first = next((line for line in stream if line.strip()), "")
        stream.seek(0)
        mark = next((mark for mark in ";\t|" if mark in first and "," not in first), ",")
        header, *rows = [line for line in csv.reader(stream, strict=True, delimiter=mark) if line] or [[]]
    if not header:
        raise ValueError(f"{file} is empty: its first line must name the columns.")
    for k, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"{file} has {len(row)} cells in row {k}, but {len(header)} columns: correct the row.")
    names = [name.strip() for name in header]
    columns = [[row[c].strip() for row in rows] for c in range(len(names))]
    numbers = [c for c, name in enumerate(names) if name not in texts]
    cells = [cell for c in numbers for cell in columns[c]]
    # Decimal commas, unless some commas or points may separate thousands.
    if mark != "," and not any("." in cell or ("," in cell and not _DECIMAL_COMMA.fullmatch(cell)) for cell in cells):
        for c in numbers:
            columns[c] = [cell.replace(",", ".") for cell in columns[c]]
    return names, columns


def _read_parquet(file: Path) -> tuple[list[str], list[list[Any]]]:
    """Names and cells of the columns, unless they take far more memory than the file, where equal cells take none."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("reading parquet needs pyarrow: pip install 'crossview[parquet]'.") from error
    version, upgrade = pyarrow.__version__, "pip install --upgrade 'crossview[parquet]'"
    if int(version.split(".")[0]) < _OLDEST_PYARROW:
        raise ImportError(f"pyarrow {version} is too old to read parquet safely: {upgrade}.")
    bomb = ValueError("it unpacks to far more than its size, or has lists for cells: save it as CSV")
    with reading(file, "parquet file"), file.open("rb") as stream:
        most, source = most_unpacked(file), pyarrow.parquet.ParquetFile(stream)
        columns: list[list[Any]] = [[] for _ in source.schema_arrow.names]
        size = sum(source.metadata.row_group(k).total_byte_size for k in range(source.num_row_groups))
        most_rows = min(_MAX_BATCH, most // (size + 1))  # as no row is larger than all cells that differ
        if not most_rows:
            raise bomb
        for k, column in (found for batch in source.iter_batches(most_rows) for found in enumerate(batch.columns)):
            values = column.dictionary_decode() if isinstance(column, pyarrow.DictionaryArray) else column
            size += values.nbytes + _VALUE_BYTES * len(values)
            if size > most or pyarrow.types.is_nested(values.type):
                raise bomb
            columns[k].extend(values.to_pylist())
    return source.schema_arrow.names, columns


def _text(value: Any) -> str:
    """An identity or a label as text without blanks around it, the same from text, UTF-8 and numbers."""
    value = value.decode() if isinstance(value, bytes) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _numbers(values: Sequence[Any], column: str, file: Path, hint: str) -> Array:
    """A column of features; a cell without a value is NaN. Errors about names end in the hint."""
    numbers = np.empty(len(values))
    for k, value in enumerate(values):
        # Python reads 12_3 as 123, but a cell with that text is a name.
        try:
            numbers[k] = number = math.nan if value is None or value == "" else float(value)
        except (TypeError, ValueError):
            number = math.inf
        if math.isinf(number) or not isinstance(value, int | float | str | None) or "_" in str(value):
            comma = _DECIMAL_COMMA.fullmatch(str(value))
            fix = "write 1.5 instead of 1,5" if comma else f"encode the column as numbers{hint}"
            where = f"{value!r} in row {k + 1} of column {column!r}"
            raise ValueError(f"{file} has a feature that is not a finite number, {where}: {fix}.")
    return numbers
