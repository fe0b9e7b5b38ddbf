"""Files that are written whole or not at all."""

import contextlib
import os
import platform
import secrets
import shutil
import stat
from pathlib import Path
from typing import TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]
Content: TypeAlias = bytes | bytearray | memoryview

_TEMPORARY = f".crossview-{platform.node()}-"  # names of files being written start with it; a process id follows


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
