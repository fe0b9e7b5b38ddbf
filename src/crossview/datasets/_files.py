"""Files of a data set, in a folder or in a zip archive that is never unpacked."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["File", "listed", "natural", "open_files"]

File = tuple[tuple[str, ...], Callable[[], bytes]]
"""Parts of a file's path below the root, and what reads it."""

_RUBBISH = ("__MACOSX",)


@contextmanager
def open_files(source: str | Path, help_text: str) -> Iterator[list[File]]:
    """All files below a folder, or in a zip archive, in natural order; hidden ones are left out.

    Parameters
    ----------
    source : str or Path
        The folder or the archive.
    help_text : str
        Where the data can be had and how they should look, for errors.
    """
    root = Path(source)
    if root.is_dir():
        found = [(path.relative_to(root).parts, path.read_bytes) for path in root.rglob("*") if path.is_file()]
        yield _tidy(found)
    elif zipfile.is_zipfile(root):
        try:
            archive = zipfile.ZipFile(root)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{root} is a damaged zip archive ({error}): replace it. {help_text}") from error
        with archive:
            yield _tidy([_entry(archive, entry) for entry in archive.infolist() if not entry.is_dir()])
    elif root.exists():
        raise ValueError(f"{root} is neither a folder nor a zip archive. {help_text}")
    else:
        raise FileNotFoundError(f"there is no {root}. {help_text}")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Key by which names are sorted as people do, 2 before 10.

    Examples
    --------
    >>> sorted(["obj10", "obj2", "cup"], key=natural)
    ['cup', 'obj2', 'obj10']
    """
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", text)]


def listed(names: Sequence[object], most: int = 3) -> str:
    """The first few of many names, for an error.

    Examples
    --------
    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> File:
    return tuple(entry.filename.split("/")), lambda: archive.read(entry)


def _tidy(files: list[File]) -> list[File]:
    kept = [file for file in files if not any(part.startswith(".") or part in _RUBBISH for part in file[0])]
    return sorted(kept, key=lambda file: [natural(part) for part in file[0]])
