"""Files of a data set, in a folder or in a zip archive that is never unpacked."""

import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MAX_BYTES = 2**28  # an image or a MATLAB file; the largest that the other limits admit
MAX_RATIO = 200  # of what a larger file unpacks to: more is a bomb
_MAX_DEPTH = 16  # of folders: links to a folder above themselves have no end


class File(NamedTuple):
    """A file by its path below the root, and a function that reads it."""

    path: PurePosixPath
    read: Callable[[], bytes]

    def __str__(self) -> str:
        return str(self.path)


@contextmanager
def open_files(source: str | Path, help_text: str) -> Iterator[list[File]]:
    """All files below a folder or in a zip archive in natural order, without hidden ones; errors end in the help."""
    root = check_name(Path(source))
    if root.is_dir():
        yield _tidy(
            [File(PurePosixPath(*path.relative_to(root).parts), partial(read_file, path)) for path in _walk(root)]
        )
    elif not root.exists():
        raise FileNotFoundError(f"{root} does not exist. {help_text}")
    elif not root.is_file() or not zipfile.is_zipfile(root):
        raise ValueError(f"{root} is neither a folder nor a zip archive. {help_text}")
    else:
        try:
            archive = zipfile.ZipFile(root)
        except Exception as error:  # of any kind, from damaged data
            raise ValueError(f"{root} is a damaged zip archive ({one_line(error)}): replace it. {help_text}") from error
        with archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            yield _tidy([File(PurePosixPath(e.filename), partial(_read_entry, archive, e)) for e in entries])


def read_file(path: Path) -> bytes:
    """The content of a file; an error names the file and the fix."""
    if check_regular(path) > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES >> 20} MB: split it or make it smaller.")
    with reading(path):
        return path.read_bytes()


def check_regular(path: Path) -> int:
    """The size of a file; pipes and devices, which may never end, are refused."""
    with reading(path):
        size = path.stat().st_size
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a device, a pipe or a socket: replace it by a file, or remove it.")
    return size


@contextmanager
def reading(path: str | Path, what: str = "file", fix: str = ": replace it.") -> Iterator[None]:
    """Name the file and the fix in errors: of the system, and of a decoder, which raises any kind on damaged data."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            advice = "check that it is a file and that you may read it"
            raise OSError(f"{path} cannot be read ({error.strerror}): {advice}.") from error
        raise ValueError(f"{path} is not a readable {what} ({one_line(error)}){fix}") from error


def one_line(error: Exception) -> str:
    """What a library says of a failure, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def check_name(path: Path) -> Path:
    """Refuse a path that is not valid UTF-8: tables, reports and terminals could not show it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ValueError(f"the name {shown} is not valid UTF-8: rename the file or folder.") from None
    return path


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or made by macOS or by an office program for itself."""
    return name.startswith((".", "~$")) or name == "__MACOSX"


def natural(text: str) -> list[tuple[int, int, str]]:
    """Key that sorts names as people do: obj2 before obj10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]{1,18})", text)]


def _walk(root: Path) -> Iterator[Path]:
    """The files below a folder; a subfolder that cannot be listed is an error."""

    def fail(error: OSError) -> None:
        with reading(error.filename):
            raise error

    for folder, subfolders, names in os.walk(root, onerror=fail, followlinks=True):
        subfolders[:] = [name for name in subfolders if not is_hidden(name)]
        if len(Path(folder).relative_to(root).parts) > _MAX_DEPTH:
            raise ValueError(f"{folder} is too deep, perhaps because of a link to a folder above it: remove the link.")
        for path in (check_name(Path(folder, name)) for name in names):
            if not path.exists() and not is_hidden(path.name):  # perhaps a link to a folder with a whole view
                fail(FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path)))
            yield path


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    label = f"{archive.filename}: {entry.filename}"
    # zipfile never inflates an entry beyond the size that the archive declares.
    if entry.file_size > MAX_BYTES:
        raise ValueError(f"{label} is larger than {MAX_BYTES >> 20} MB: make it smaller.")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{archive.filename} uses a rare kind of compression: pack it again, without options.")
    try:
        return archive.read(entry)
    except Exception as error:
        raise ValueError(f"{label} cannot be unpacked ({one_line(error)}): replace the archive.") from error


def _tidy(files: list[File]) -> list[File]:
    kept = [file for file in files if not any(map(is_hidden, file.path.parts))]
    return sorted(kept, key=lambda file: [natural(part) for part in file.path.parts])
