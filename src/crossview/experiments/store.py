"""Results in a file that survives whatever ends the process that writes it.

The file is an SQLite database in WAL mode with one row per cell. One process at a time may write to it, and any number
may read. The writer holds a lock on a second, empty database; the operating system releases it when the process ends,
however it ends. Keep both on a local disk: SQLite's write-ahead log does not work across machines.
"""

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from crossview.files import PathLike

_SCHEMA = 2
_APPLICATION = 0x63765253  # "cvRS", which tells the file from other SQLite databases
_MAGIC = b"SQLite format 3\0"
_CREATE = f"""
BEGIN;
CREATE TABLE results (key TEXT PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_SCHEMA};
COMMIT;
"""  # one transaction: a killed process leaves all of it or nothing
_TIMEOUT = 30.0  # seconds to wait for another program that uses the file
_UNWRITABLE = "cannot be written: make it and its folder writable, or choose another folder"
_DAMAGED = "is damaged: restore it from a copy, or move it away and compute again"
_REASONS = {
    "BUSY": "is locked by another program: close it, and run again",
    "FULL": "cannot be written, as the disk is full: free some space, and run again",
    "IOERR": "cannot be read or written: check the disk and its free space, and run again",
    **dict.fromkeys(("CANTOPEN", "PERM", "READONLY"), _UNWRITABLE),
}

_log = logging.getLogger(__name__)


class StoreError(ValueError):
    """A file is not a store, is in use or damaged, or cannot be written."""


@dataclass(frozen=True)
class Record:
    """What a store knows about a cell."""

    key: str  # by `crossview.experiments.key`
    cell: dict[str, Any]  # by `Cell.to_dict`
    status: str  # "done" or "failed"
    result: dict[str, Any] | None
    error: dict[str, str] | None  # its type, message and traceback
    seconds: float
    created: float  # in seconds since 1970
    version: str  # of crossview
    environment: dict[str, str]


class Store:
    """Results of cells, in a file that is created if it does not exist.

    Reading works while another process writes, and with `read_only` also in folders that cannot be written.
    """

    def __init__(self, path: PathLike, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._check_file()
        with contextlib.ExitStack() as stack, self._explained():
            if not read_only:
                stack.enter_context(contextlib.closing(self._lock()))
            self._connection = stack.enter_context(contextlib.closing(self._connect()))
            self._prepare()
            self._resources = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM results")[0][0])

    def close(self) -> None:
        """Close the file, and release the lock."""
        self._resources.close()

    def get(self, key: str) -> Record | None:
        """The record of the cell with a key, or None if there is none, or only a damaged one."""
        return next(self._intact(self._rows("SELECT * FROM results WHERE key = ?", key)), None)

    def results(self) -> Iterator[Record]:
        """All records but damaged ones, oldest first."""
        return self._intact(self._rows("SELECT * FROM results ORDER BY rowid"))

    def put(self, record: Record) -> None:
        """Store a record, replacing any with the same key; it is on disk when this returns."""
        if self.read_only:
            raise StoreError(f"{self.path} was opened to be read: open it without read_only=True to write.")
        text = json.dumps(asdict(record), allow_nan=False)
        self._rows("REPLACE INTO results VALUES (?, ?, ?)", record.key, text, _digest(text))

    def _intact(self, rows: list[Any]) -> Iterator[Record]:
        """Records whose content matches their digest; others are reported, and a run computes them again."""
        for key, text, digest in rows:
            record = _parsed(text) if _digest(str(text)) == digest else None
            if record is not None and record.key == key:
                yield record
            else:
                _log.warning("%s: the result with key %s is damaged; a run computes it again.", self.path, key)

    def _rows(self, statement: str, *values: str) -> list[Any]:
        with self._explained():
            return self._connection.execute(statement, values).fetchall()

    def _lock(self) -> sqlite3.Connection:
        """Keep other writers out for as long as the connection is open."""
        connection = sqlite3.connect(f"{self.path}.lock", timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            fix = "wait until it ends, or choose another folder"
            raise StoreError(f"{self.path.absolute().parent} is in use by another run: {fix}.") from None
        return connection

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc"
        if self.read_only and not (Path(f"{self.path}-wal").exists() or os.access(self.path.parent, os.W_OK)):
            mode = "ro&immutable=1"  # SQLite could not create the files that readers share with a writer
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None)
        connection.text_factory = lambda text: text.decode(errors="replace")  # the digest finds damage
        return connection

    def _prepare(self) -> None:
        """Check what the file holds, and turn an empty one into a store."""
        if not self.read_only:
            if self._rows("SELECT 1 FROM sqlite_master") == [] and self._rows("PRAGMA application_id") == [(0,)]:
                self._rows("PRAGMA journal_mode = WAL")
                self._connection.executescript(_CREATE)
            self._rows("PRAGMA synchronous = FULL")  # results survive a power failure, too
        if self._rows("PRAGMA application_id") != [(_APPLICATION,)]:
            raise StoreError(f"{self.path} is a database of another kind: choose another name.")
        if self._rows("PRAGMA user_version") != [(_SCHEMA,)]:
            raise StoreError(f"{self.path} belongs to another version of crossview: use that one, or another folder.")
        if (verdict := self._rows("PRAGMA integrity_check(1)")) != [("ok",)]:
            raise sqlite3.DatabaseError(verdict[0][0])

    def _check_file(self) -> None:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"Folder {self.path.parent} does not exist. Create it first.")
        if self.read_only and not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist. Check the name.")
        if self.path.exists():
            if self.path.is_file():
                with self.path.open("rb") as file:
                    if file.read(len(_MAGIC)) in (b"", _MAGIC):
                        return
            fix = "choose another name, or restore it from a copy"
            raise StoreError(f"{self.path} is not a store of results: {fix}.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ones that name the file and the fix."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a mistake of the caller, such as using a closed store
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # messages may quote damaged text
            kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").partition("_")[0]
            raise StoreError(f"{self.path} {_REASONS.get(kind, _DAMAGED)} ({error}).") from error


def _parsed(text: str) -> Record | None:
    """The record that a row holds; None if its fields are not those of a record."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        record = Record(**json.loads(text))
        if isinstance(record.result if record.status == "done" else record.error, dict):
            return record
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
