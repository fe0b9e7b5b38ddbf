"""Who computes a cell, and whether they still do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

__all__ = ["Owner"]

_PROC = Path("/proc")
_ENDED = "ZX"  # a process that has ended, but that its parent has not asked about, is still listed


@dataclass(frozen=True)
class Owner:
    """A process that computes cells.

    Parameters
    ----------
    host : str
        The machine; on Linux with the namespace that process numbers belong to, as containers have their own.
    pid : int
        The process's number, which others get in their turn.
    started : str
        When it started, as the system says, so that it is not taken for another of the same number.
    token : str
        Different for every owner, so that two of one process do not let go of each other's cells.

    Examples
    --------
    >>> from dataclasses import replace
    >>> me = Owner.current()
    >>> me.lives(), replace(me, host="elsewhere").lives()
    (True, None)
    """

    host: str
    pid: int
    started: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def current(cls) -> Self:
        """The process that asks."""
        return cls(_host(), os.getpid(), _started(os.getpid()) or "")

    def lives(self) -> bool | None:
        """Whether the process runs; None where that cannot be told from here."""
        if self.host != _host():
            return None
        started = _started(self.pid)
        return None if started is None else started == self.started


def _host() -> str:
    try:
        return f"{platform.node()} {os.readlink(_PROC / 'self' / 'ns' / 'pid')}"
    except OSError:
        return platform.node()


def _started(pid: int) -> str | None:
    """When a process started: empty if there is none, None if the system does not say."""
    if sys.platform == "linux":
        return _started_by_proc(pid)
    if os.name == "posix":
        return _started_by_ps(pid)
    return None


def _started_by_proc(pid: int) -> str | None:
    try:
        boot = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:
        return None
    try:
        line = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if _hidden(pid) else ""
    except OSError:
        return None
    # The name, in parentheses, may hold anything; state and clock ticks since the boot are 1st and 20th after it.
    after = line.rpartition(")")[2].split()
    return "" if after[0] in _ENDED else f"{boot} {after[19]}"


def _hidden(pid: int) -> bool:
    """Whether there is such a process after all: a system may be set up to list no other user's."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    # It has begun between the two looks, and so is not the one that was asked for.
    return False


def _started_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, env=os.environ | {"LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return None
    state, _, started = done.stdout.strip().partition(" ")
    return "" if state[:1] in _ENDED else " ".join(started.split())
