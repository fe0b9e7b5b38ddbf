"""Files that survive whatever ends the process that writes them: whole ones, and stores of JSON by key.

A store is an SQLite database in WAL mode with one row per entry, each behind a digest. Any number of processes may
read and write it, unless one has opened it `exclusive`: that one holds a lock on a second, empty database, which the
operating system releases when the process ends, however it ends. Keep both on a local disk: SQLite's write-ahead log
does not work across machines.
"""

import contextlib
import hashlib
import json
import logging
import os
import platform
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]
Content: TypeAlias = bytes | bytearray | memoryview

_TEMPORARY = f".crossview-{platform.node()}-"  # names of files being written start with it; a process id follows
_SCHEMA = 2
_APPLICATION = 0x63765253  # "cvRS", which tells the file from other SQLite databases
_MAGIC = b"SQLite format 3\0"
_CREATE = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_SCHEMA};
COMMIT;
"""  # one transaction: a killed process leaves all of it or nothing
_TIMEOUT = 30.0  # seconds to wait for another program that uses the file
_UNWRITABLE = "cannot be written: make it and its folder writable, or choose another folder"
_DAMAGED = "is damaged: restore it from a copy, or move it away and compute again"
_REASONS = {
    "BUSY": "is locked by another program: close it, and run again",
    **dict.fromkeys(("FULL", "IOERR"), "cannot be written: check the disk and its free space, and run again"),
    **dict.fromkeys(("CANTOPEN", "PERM", "READONLY"), _UNWRITABLE),
}

_log = logging.getLogger(__name__)


def check_target(path: PathLike) -> Path:
    """The file to write, or a link's target: there must be none yet, or a regular one."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: add the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"output folder {target.parent} does not exist: create it first.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is a device, a pipe or a socket: choose the name of a file.")
    return target


def write_atomically(path: PathLike, *parts: Content) -> None:
    """Write a file, or a link's target, so that its name stands for the old content or the new, whatever happens."""
    target = check_target(path)
    temporary = target.parent / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}.tmp"
    # Whoever may not read the old content may not read the new either, while it is being written.
    rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _remove_abandoned(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            fix = "check free space and permissions, or choose another folder"
            raise type(error)(f"cannot write {target} ({error.strerror or error}): {fix}.") from error
        raise


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes on this machine were writing when they were killed."""
    for path in folder.glob(f"{_TEMPORARY}*.tmp") if os.name == "posix" else ():
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(path.name.removeprefix(_TEMPORARY).partition("-")[0]), 0)
            except ProcessLookupError:
                path.unlink()


class StoreError(ValueError):
    """A file is not a store, is in use or damaged, or cannot be written."""


class DamagedStoreError(StoreError):
    """A file is a damaged store."""


class Store:
    """Entries by key, in a file that is created if it does not exist.

    With `exclusive`, others may read but not write, and an entry is on disk when `put` returns; otherwise, a power
    failure loses the latest.
    """

    def __init__(self, path: str | os.PathLike[str], *, exclusive: bool = False) -> None:
        self.path = Path(path)
        self._check_file()
        with contextlib.ExitStack() as stack, self._explained():
            if exclusive:
                stack.enter_context(contextlib.closing(self._lock()))
            connection = sqlite3.connect(self.path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
            connection.text_factory = lambda text: text.decode(errors="replace")  # the digest finds damage
            self._connection = stack.enter_context(contextlib.closing(connection))
            self._prepare(exclusive)
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

    def get(self, key: str) -> Any:
        """The entry with a key, or None if there is none, or only a damaged one."""
        return next(self._intact(self._rows("SELECT * FROM results WHERE key = ?", key)), None)

    def results(self) -> Iterator[Any]:
        """All entries but damaged ones, oldest first."""
        return self._intact(self._rows("SELECT * FROM results ORDER BY rowid"))

    def put(self, entry: Any) -> None:
        """Store an entry, a dict that includes its ``key``, replacing any with the same key."""
        text = json.dumps(entry, allow_nan=False)
        self._rows("REPLACE INTO results VALUES (?, ?, ?)", entry["key"], text, _digest(text))

    def _value(self, entry: dict[str, Any]) -> Any:
        """What an entry stands for; None or an error if it is damaged."""
        return entry

    def _intact(self, rows: list[Any]) -> Iterator[Any]:
        """Entries that match their keys and digests; others are reported, and computed again."""
        for key, text, digest in rows:
            value = None
            if _digest(str(text)) == digest:
                with contextlib.suppress(LookupError, RecursionError, TypeError, ValueError):
                    entry = json.loads(text)
                    value = self._value(entry) if entry["key"] == key else None
            if value is None:
                _log.warning("%s: the result with key %s is damaged; a run computes it again.", self.path, key)
            else:
                yield value

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

    def _prepare(self, exclusive: bool) -> None:
        """Turn an empty file into a store, and check what the file holds."""
        if self._rows("SELECT 1 FROM sqlite_master") == [] and self._rows("PRAGMA application_id") == [(0,)]:
            self._rows("PRAGMA journal_mode = WAL")
            self._connection.executescript(_CREATE)
        self._rows(f"PRAGMA synchronous = {'FULL' if exclusive else 'NORMAL'}")
        if self._rows("PRAGMA application_id") != [(_APPLICATION,)]:
            raise StoreError(f"{self.path} is a database of another kind: choose another name.")
        if self._rows("PRAGMA user_version") != [(_SCHEMA,)]:
            raise StoreError(f"{self.path} belongs to another version of crossview: use that one, or another folder.")
        if (verdict := self._rows("PRAGMA integrity_check(1)")) != [("ok",)]:
            raise sqlite3.DatabaseError(verdict[0][0])

    def _check_file(self) -> None:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"folder {self.path.parent} does not exist: create it first.")
        if self.path.is_file():
            with self.path.open("rb") as file:
                if _MAGIC.startswith(file.read(len(_MAGIC))):  # also if the file was cut off
                    return
        if self.path.exists():
            fix = "choose another name, or restore it from a copy"
            raise StoreError(f"{self.path} does not hold results of crossview: {fix}.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ones that name the file and the fix."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a mistake of the caller, such as using a closed store
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # messages may quote damaged text
            kind = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").partition("_")[0]
            explained = StoreError if kind in _REASONS else DamagedStoreError
            raise explained(f"{self.path} {_REASONS.get(kind, _DAMAGED)} ({error}).") from error


def delete_store(path: str | os.PathLike[str]) -> None:
    """Delete a file that nothing has open, and what SQLite may have left next to it."""
    for name in (f"{path}-wal", f"{path}-shm", path):
        Path(name).unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
