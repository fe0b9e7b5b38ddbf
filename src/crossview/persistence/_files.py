"""Files: a line with a digest, an archive after it, and how they are written and read."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from crossview._version import __version__

__all__ = ["AGAIN", "SCHEMA", "ModelFileError", "PathLike", "line", "pack", "read", "unpack", "write_atomically"]

PathLike: TypeAlias = str | os.PathLike[str]

AGAIN = "Restore it from a copy, or save the model again with crossview.save."
SCHEMA = "schema.json"

_FORMAT = 1
_START = re.compile(rb"crossview-model format=(\d{1,6}) version=(\d{1,6}[0-9A-Za-z.+!-]{0,40}) ")
_LINE = re.compile(rb"(crossview-model format=[1-9]\d* version=\S+ size=(\d{1,15})) sha256=([0-9a-f]{64})\n")
_LONGEST_LINE = 256
_LARGEST_SCHEMA = 64 * 2**20


class ModelFileError(ValueError):
    """A file is no model, is damaged, was written by a newer crossview, or holds what no model is made of."""


def write_atomically(path: PathLike, data: bytes) -> None:
    """Write a file so that, whatever happens meanwhile, its name stands for the old content or the new.

    Parameters
    ----------
    path : str or path
        The file. If it is a link, what it leads to is written.
    data : bytes
        Its content.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} to: create it first.")
    temporary = target.parent / f".crossview-{secrets.token_hex(8)}.tmp"
    # Who may not read the old content may not read the new either, while it is being written.
    rights = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, rights)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


# The line before the archive.


def line(payload: bytes, version: str) -> bytes:
    """The line that an archive written by some version of crossview gets."""
    start = f"crossview-model format={_FORMAT} version={version} size={len(payload)}".encode()
    return start + f" sha256={_digest(start, payload)}\n".encode()


def _digest(start: bytes, payload: bytes) -> str:
    digest = hashlib.sha256(start)
    digest.update(payload)
    return digest.hexdigest()


def read(path: PathLike) -> bytes:
    """The archive in a file, once its mark, size, digest and version are known to be right."""
    name = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {name}: check the name.")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError(f"{name} is not a file: give the name of one that crossview.save wrote.")
    with open(path, "rb") as file:
        first, payload = file.readline(_LONGEST_LINE), file.read()
    mark = _START.match(first)
    if mark is None:
        raise ModelFileError(
            f"{name} is no model of crossview's, or its beginning is damaged: load what crossview.save wrote. "
            "Pickles are never loaded."
        )
    version = mark[2].decode()
    newer = f"{name} was written by crossview {version}, this is {__version__}: upgrade crossview to load it."
    if int(mark[1]) > _FORMAT:
        raise ModelFileError(newer)
    _check_digest(name, first, payload)
    if _major(version) > _major(__version__):
        raise ModelFileError(newer)
    return payload


def _check_digest(name: str, first: bytes, payload: bytes) -> None:
    """Refuse an archive that is not what the line before it says."""
    fields = _LINE.fullmatch(first)
    if fields is None:
        raise ModelFileError(f"the beginning of {name} is damaged. {AGAIN}")
    size = int(fields[2])
    if len(payload) != size:
        problem = "cut short" if len(payload) < size else "damaged"
        raise ModelFileError(f"{name} is {problem}: it has {len(payload)} bytes in the place of {size}. {AGAIN}")
    if _digest(fields[1], payload) != fields[3].decode():
        raise ModelFileError(f"{name} is damaged: its content has changed since it was written. {AGAIN}")


def _major(version: str) -> int:
    return int(re.split(r"\D", version, maxsplit=1)[0])


# The archive: a schema, and members that it names.


def pack(schema: bytes, members: Mapping[str, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    """An archive without dates. Only the schema is worth compressing."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(ZipInfo(name), data, ZIP_STORED)
        archive.writestr(ZipInfo(SCHEMA), schema, compression)
    return buffer.getvalue()


def unpack(payload: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Schema and members of an archive, none of them larger than it may be."""
    members = {}
    with ZipFile(io.BytesIO(payload)) as archive:
        for name, entry in _entries(archive, len(payload)).items():
            # Reading no more than the stated size, a member cannot unfold into more than that.
            with archive.open(entry) as member:
                members[name] = member.read(entry.file_size + 1)
            if len(members[name]) != entry.file_size:
                raise ValueError(f"{name} has another size than is stated")
    return members.pop(SCHEMA), members


def _entries(archive: ZipFile, size: int) -> dict[str, ZipInfo]:
    """What an archive of some size holds, by name, if it is what `pack` could have written."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    if len(entries) < len(archive.infolist()):
        raise ValueError("a member is there twice")
    if SCHEMA not in entries:
        raise ValueError(f"there is no {SCHEMA}")
    if entries[SCHEMA].compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        # zipfile unfolds the other kinds as far as they go, however little of them is to be read.
        raise ValueError("the description of the model is compressed in a way that crossview.save never uses")
    if entries[SCHEMA].file_size > _LARGEST_SCHEMA:
        raise ValueError(
            f"the description of the model takes more than {_LARGEST_SCHEMA // 2**20} MiB: of a large search, save "
            "best_estimator_"
        )
    stored = [entry for name, entry in entries.items() if name != SCHEMA]
    if any(entry.compress_type != ZIP_STORED for entry in stored):
        raise ValueError("arrays are compressed, which crossview.save never does")
    if sum(entry.file_size for entry in stored) > size:
        raise ValueError("members overlap")
    return entries
