"""Results in a file that survives whatever ends the process that writes it.

The file is an SQLite database with two tables: results, and claims of cells that are being computed. A result and the
end of its claim are one transaction. Several processes may use one store at once, on one machine; SQLite's write-ahead
log does not work across machines.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from crossview._version import __version__
from crossview.experiments.environment import environment
from crossview.experiments.owners import Owner

__all__ = ["PathLike", "Record", "Store", "StoreError"]

PathLike: TypeAlias = str | os.PathLike[str]

_SCHEMA = 1
_APPLICATION = 0x63765253  # "cvRS", by which the file is told from other SQLite databases
_MAGIC = b"SQLite format 3\0"
_PAGE = 200  # results read at a time
_COLUMNS = "key, cell, status, result, error, seconds, created, version, environment"
_TEXTS = ("cell", "result", "error", "environment")  # columns of JSON
_TABLES = """
CREATE TABLE results (
    key TEXT PRIMARY KEY,
    cell TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    result TEXT,
    error TEXT,
    seconds REAL NOT NULL,
    created REAL NOT NULL,
    version TEXT NOT NULL,
    environment TEXT NOT NULL,
    CHECK ((status = 'done') = (result IS NOT NULL) AND (status = 'failed') = (error IS NOT NULL))
);
CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    token TEXT NOT NULL,
    beat REAL NOT NULL
);
"""


class StoreError(ValueError):
    """A file is no store, is damaged, was written by a newer crossview, or cannot be written to."""


@dataclass(frozen=True)
class Record:
    """What a store knows of a cell.

    Parameters
    ----------
    key : str
        What the cell is stored under.
    cell : dict
        The cell, as `Cell.to_dict` gives it.
    status : {"done", "failed"}
        How it ended.
    result : dict or None
        Its result, if it is done.
    error : dict or None
        ``type``, ``message`` and ``traceback`` of the error, if it failed.
    seconds : float
        How long it took.
    created : float
        When it ended, in seconds since 1970.
    version : str
        Of the crossview that computed it.
    environment : dict
        Versions of Python and of packages, and the platform.
    """

    key: str
    cell: dict[str, Any]
    status: str
    result: dict[str, Any] | None
    error: dict[str, str] | None
    seconds: float
    created: float
    version: str
    environment: dict[str, str]


class Store:
    """Results of cells, in a file.

    Parameters
    ----------
    path : str or path
        The file, which is made where there is none.
    read_only : bool
        Only read, as from a file or folder that may not be written to.
    busy_timeout : float
        Seconds to wait for another process that writes.
    claim_timeout : float
        Seconds after which a claim that its owner has not renewed is another's to take, where it cannot be told
        whether the owner lives.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Store(f"{folder}/results.db") as store:
    ...     mine = store.claim(["a", "b"], Owner.current())
    ...     stored = store.put("a", {"method": "MvHE"}, {"score": 0.9}, seconds=1.5)
    ...     print(mine, store.get("a").result, store.get("b"), len(store))
    ['a', 'b'] {'score': 0.9} None 1
    """

    def __init__(
        self, path: PathLike, *, read_only: bool = False, busy_timeout: float = 60.0, claim_timeout: float = 120.0
    ) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self.claim_timeout = claim_timeout
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        _STORES.add(self)
        try:
            with self._lock, self._explained():
                self._check_file()
                self._check_content(self._connect())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with self._reading() as connection:
            (count,) = connection.execute("SELECT count(*) FROM results").fetchone()
        return int(count)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def close(self) -> None:
        """Let go of the file; what is asked of the store afterwards opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def get(self, key: str) -> Record | None:
        """What is known of a cell.

        Parameters
        ----------
        key : str
            The cell's.

        Returns
        -------
        record : Record or None
            None if it has neither been done nor failed.
        """
        with self._reading() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM results WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._record(row)

    def results(self, status: str | None = None) -> Iterator[Record]:
        """All that is known, oldest first.

        Parameters
        ----------
        status : {"done", "failed"}, optional
            What to leave the rest out for.

        Yields
        ------
        record : Record
            One for every cell.
        """
        if status not in (None, "done", "failed"):
            raise ValueError(f"status must be 'done', 'failed' or None, got {status!r}.")
        last = -1
        while True:
            # A page at a time: whoever takes their time over a result holds up nobody's writing.
            with self._reading() as connection:
                rows = connection.execute(
                    f"SELECT rowid, {_COLUMNS} FROM results WHERE rowid > ? AND (? IS NULL OR status = ?) "
                    "ORDER BY rowid LIMIT ?",
                    (last, status, status, _PAGE),
                ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield from (self._record(row[1:]) for row in rows)

    def put(self, key: str, cell: Mapping[str, Any], result: Mapping[str, Any], seconds: float) -> bool:
        """Store a result, and end the claim of its cell.

        Parameters
        ----------
        key : str
            The cell's.
        cell : mapping
            The cell, as `Cell.to_dict` gives it.
        result : mapping
            Ready for JSON.
        seconds : float
            How long it took.

        Returns
        -------
        stored : bool
            False if there was a result already, which is kept.
        """
        return self._write(key, cell, "done", json.dumps(result, allow_nan=False), None, seconds)

    def fail(self, key: str, cell: Mapping[str, Any], error: BaseException | Mapping[str, str], seconds: float) -> bool:
        """Store why there is no result, and end the claim of the cell.

        Parameters
        ----------
        key, cell, seconds
            As in `put`.
        error : exception, or mapping
            What went wrong; a mapping has its ``type``, ``message`` and ``traceback``.

        Returns
        -------
        stored : bool
            False if there was a result already, which is kept.
        """
        if isinstance(error, BaseException):
            trace = "".join(traceback.format_exception(error))
            error = {"type": type(error).__name__, "message": str(error), "traceback": trace}
        return self._write(key, cell, "failed", None, json.dumps(dict(error)), seconds)

    def claim(self, keys: Iterable[str], owner: Owner, *, retry_before: float | None = None) -> list[str]:
        """Take cells for oneself, so that no other process computes them.

        Parameters
        ----------
        keys : iterable of str
            Those wanted.
        owner : Owner
            Who wants them.
        retry_before : float, optional
            Cells that failed before this time, in seconds since 1970, are wanted too.

        Returns
        -------
        claimed : list of str
            Those that have neither been done nor failed, and that no living owner has claimed. A dead owner's are
            taken over at once, if it can be told from here that the owner is dead.
        """
        claimed = []
        with self._writing() as connection:
            now = time.time()
            for key in keys:
                row = connection.execute("SELECT status, created FROM results WHERE key = ?", (key,)).fetchone()
                if row is not None and (row[0] == "done" or retry_before is None or row[1] >= retry_before):
                    continue
                held = connection.execute("SELECT host, pid, started, token, beat FROM claims WHERE key = ?", (key,))
                if (row := held.fetchone()) is not None and self._holds(Owner(*row[:4]), row[4], owner, now):
                    continue
                connection.execute(
                    "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                    (key, owner.host, owner.pid, owner.started, owner.token, now),
                )
                claimed.append(key)
        return claimed

    def renew(self, owner: Owner) -> None:
        """Say that an owner is still at work on what it has claimed.

        Parameters
        ----------
        owner : Owner
            Who is.
        """
        with self._writing() as connection:
            connection.execute("UPDATE claims SET beat = ? WHERE token = ?", (time.time(), owner.token))

    def release(self, keys: Iterable[str], owner: Owner) -> None:
        """Give back what was claimed and will not be computed.

        Parameters
        ----------
        keys : iterable of str
            Those to give back.
        owner : Owner
            Who has claimed them; the claims of others stay.
        """
        with self._writing() as connection:
            connection.executemany(
                "DELETE FROM claims WHERE key = ? AND token = ?", [(key, owner.token) for key in keys]
            )

    def claims(self) -> dict[str, Owner]:
        """Cells that are claimed, and by whom, be they alive or dead."""
        with self._reading() as connection:
            rows = connection.execute("SELECT key, host, pid, started, token FROM claims ORDER BY rowid").fetchall()
        return {row[0]: Owner(*row[1:]) for row in rows}

    def _holds(self, holder: Owner, beat: float, asking: Owner, now: float) -> bool:
        """Whether a claim still stands."""
        lives = holder.lives()
        if lives and (holder.host, holder.pid) == (asking.host, asking.pid):
            # Both are of one process, which says nothing about what has become of the other.
            lives = None
        # A beat in the future is that of a clock which has been set back since: it would never grow old.
        return abs(now - beat) < self.claim_timeout if lives is None else lives

    def _write(
        self,
        key: str,
        cell: Mapping[str, Any],
        status: str,
        result: str | None,
        error: str | None,
        seconds: float,
    ) -> bool:
        row = (key, json.dumps(dict(cell)), status, result, error, seconds, time.time(), __version__)
        with self._writing() as connection:
            # What failed may be done in the end; what is done stays, whoever else has computed it meanwhile.
            written = connection.execute(
                f"INSERT INTO results ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "cell = excluded.cell, status = excluded.status, result = excluded.result, error = excluded.error, "
                "seconds = excluded.seconds, created = excluded.created, version = excluded.version, "
                "environment = excluded.environment WHERE results.status = 'failed'",
                (*row, json.dumps(environment())),
            )
            connection.execute("DELETE FROM claims WHERE key = ?", (key,))
            return written.rowcount > 0

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            yield self._connect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All that is done inside, or nothing of it."""
        if self.read_only:
            raise StoreError(f"{self.path} was opened to be read only: open it without read_only=True to write to it.")
        with self._lock, self._explained():
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                # An interrupt can come at any time: nothing must stay locked for others.
                if connection.in_transaction:
                    connection.rollback()

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        mode = "ro" if self.read_only else "rwc"
        if self.read_only and not self._log("-wal").exists() and not os.access(self.path.parent, os.W_OK):
            # There is nothing but the file itself, and SQLite could not make the files that it shares with writers.
            mode = "ro&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=self.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if not self.read_only:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make an empty file a store; nothing is changed in a file that is none."""
        if _is_empty(connection):
            _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), self.busy_timeout)
            connection.execute("BEGIN IMMEDIATE")
            try:
                if _is_empty(connection):  # still: another process may have been faster
                    for statement in _TABLES.split(";\n")[:-1]:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.rollback()
        # A result that is said to be stored is on the disk, even if the power fails.
        connection.execute("PRAGMA synchronous = FULL")

    def _check_file(self) -> None:
        if not self.path.exists():
            if self.read_only:
                raise FileNotFoundError(f"there is no store {self.path} to read: check the name.")
            if not self.path.parent.is_dir():
                raise FileNotFoundError(f"there is no folder {self.path.parent} to keep a store in: make it first.")
            return
        if not self.path.is_file():
            raise StoreError(f"{self.path} is not a file: give the name of a store, or of a file to make.")
        if not self.read_only and not os.access(self.path, os.W_OK):
            raise StoreError(f"{self.path} may not be written to: open it with read_only=True, or change that.")
        with self.path.open("rb") as file:
            start = file.read(len(_MAGIC))
        if start and start != _MAGIC:
            raise StoreError(
                f"{self.path} is no store of results, or its beginning is damaged: give another name, or restore it."
            )

    def _check_content(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise StoreError(f"{self.path} is a database of another kind, no store of results: give another name.")
        if schema > _SCHEMA:
            raise StoreError(f"{self.path} was written by a newer crossview: upgrade crossview to use it.")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what SQLite's errors mean for who uses the store."""
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # of the caller's making
        except sqlite3.DatabaseError as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_BUSY"):
                reason = f"another process has kept {self.path} for {self.busy_timeout:g} s: wait for it to end"
            elif name.startswith("SQLITE_FULL"):
                reason = f"there is no room on the disk for {self.path}: make some, and run the same again"
            elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
                reason = f"{self.path} or its folder may not be written to: copy it, with {self._log('-wal')} if any"
            elif name.startswith("SQLITE_IOERR"):
                reason = f"the disk that holds {self.path} does not answer as it should: look after it"
            else:
                reason = f"{self.path} is damaged: restore it from a copy, or move it away and compute again"
            raise StoreError(f"{reason} ({error}).") from error

    def _record(self, row: tuple[Any, ...]) -> Record:
        values = dict(zip(_COLUMNS.split(", "), row, strict=True))
        try:
            texts = {name: json.loads(values[name]) for name in _TEXTS if values[name] is not None}
        except ValueError as error:
            raise StoreError(f"{self.path} is damaged at key {row[0]}: restore it from a copy ({error}).") from error
        return Record(**(values | texts))

    def _log(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _is_empty(connection: sqlite3.Connection) -> bool:
    """Whether nobody has made anything of a database yet, nor claimed it as their kind."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    return (tables, application, schema) == (0, 0, 0)


def _patiently(action: Any, seconds: float) -> None:
    """Try again while the database is busy: SQLite itself does not wait when the journal is changed."""
    end = time.monotonic() + seconds
    while True:
        try:
            action()
            return
        except sqlite3.OperationalError as error:
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
        time.sleep(0.01)


# A connection that a fork copies would share locks with its original, and what either writes could be lost. So none is
# open while a process forks; both sides open their own when they next need one.
_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_FORKING: list[Store] = []


def _before_fork() -> None:
    for store in list(_STORES):
        store._lock.acquire()
        _FORKING.append(store)
        store.close()


def _after_fork() -> None:
    while _FORKING:
        _FORKING.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
