"""Tables that commands write."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossview._validation import spreadsheet_safe
from crossview.persistence import write_atomically


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of a table as CSV that no spreadsheet runs."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_safe(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a table as .csv or .parquet."""
    if path.suffix == ".csv":
        write_atomically(path, csv_text(rows).encode())
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("writing parquet needs pyarrow: pip install 'crossview[parquet]'.") from error
    stream = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    write_atomically(path, stream.getvalue().to_pybytes())
