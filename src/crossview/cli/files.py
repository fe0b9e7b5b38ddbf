"""Tables that commands write, and locks on files that they change."""

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from crossview._store import write_atomically
from crossview._text import spreadsheet_safe
from crossview.cli.options import check_writable


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other commands from changing a file, or a link's target: they wait. A lock ends with its process."""
    target = path.resolve()
    check_writable(target.parent)
    while True:
        with target.with_name(f".{target.name}.lock").open("ab") as file:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # otherwise, the command before has removed the file: make another
                try:
                    yield
                finally:
                    with suppress(OSError):  # Windows removes no open file
                        os.unlink(file.name)
                return


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
