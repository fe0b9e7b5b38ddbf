"""Progress of long work: a bar on a terminal, lines on stderr otherwise.

SciPy's eigen-solvers hold Python's global lock, and no other thread can print during a long one. So another process
prints the lines: it runs this file, which imports nothing but the standard library, and reads what is done from a pipe.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

_FIRST_LINE = 5.0  # seconds until the first line; shorter work is silent
_INTERVAL = 20.0  # seconds between lines: on a busy machine, they come late, but within 30 seconds
_BETWEEN = 1.0  # seconds between what a watcher is told
CONTROL = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
"""What to show instead of control characters, by which labels and names in files could steer a terminal."""

Left: TypeAlias = tuple[float, str]  # seconds, and "about" or "at least"


class Advance(Protocol):
    """Count finished steps, and say what runs now. Threads may share it."""

    def __call__(
        self, steps: int = 1, now: str | None = None, *, restored: int = 0, more: int = 0, left: Left | None = None
    ) -> None:
        """Add `steps` to those done. None leaves the description of what runs as it is.

        `restored` steps were done in an earlier run, and say nothing about the speed of this one. `more` steps turn out
        to be needed. `left` is an estimate of the time left by someone who knows more than the steps done; 0 is none.
        """


def silent(*args: object, **options: object) -> None:
    """An `Advance` that shows nothing."""


_shown: ContextVar[bool] = ContextVar("shown", default=False)  # whether the work is part of other work that is shown
_reporter: ContextVar[Advance] = ContextVar("reporter", default=silent)
watcher: ContextVar[Callable[[int, int], object] | None] = ContextVar("watcher", default=None)
"""Is told about once a second how many fits are done, and of how many, of a search that shows no progress itself."""


@contextlib.contextmanager
def progress(label: str, total: int, *, unit: str = "steps") -> Iterator[Advance]:
    """Show how much of some work is done, what runs, and the time left; yield the function to call as it proceeds.

    Nothing is shown unless the configuration asks for it, nor for parts of other work that is shown. A terminal shows a
    bar if rich is installed. Without either, lines are printed, also during a long step.

    >>> with progress("Searching for MvHE", total=2, unit="fits") as advance:
    ...     advance(0, "beta=0.1")
    ...     advance(1, "beta=0.3")
    ...     advance()
    """
    from crossview._config import get_config  # which the process that prints lines cannot import

    if _shown.get() or not get_config()["progress"]:
        watched = watcher.get() if unit == "fits" else None
        yield silent if watched is None else _State(label, total, unit, watcher=watched).advance
        return
    try:
        from rich.console import Console

        is_terminal = Console(stderr=True).is_terminal
    except ImportError:
        is_terminal = False
    if is_terminal:
        show = _bar
    elif sys.stderr is not None and sys.stderr is sys.__stderr__ and sys.executable:
        show = _lines_of_process
    else:  # another process does not see what sys.stderr was replaced by, for example in a notebook
        show = _lines
    with show(_State(label, total, unit)) as advance:
        token = _shown.set(True)
        try:
            yield advance
        finally:
            _shown.reset(token)


@contextlib.contextmanager
def reporting(label: str, *, unit: str = "samples") -> Iterator[None]:
    """As `progress`, but functions called meanwhile announce and count steps with `report`, however deep they are."""
    with progress(label, 0, unit=unit) as advance:
        token = _reporter.set(_reporter.get() if advance is silent else advance)
        try:
            yield
        finally:
            _reporter.reset(token)


def report(steps: int = 0, now: str | None = None, *, more: int = 0) -> None:
    """Count steps of the work that is being reported on, if any: see `Advance`."""
    _reporter.get()(steps, now, more=more)


class _State:
    """What is known about the work."""

    def __init__(self, label: str, total: int, unit: str, watcher: Callable[[int, int], object] | None = None) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.now = ""
        self._left: Left | None = None  # with the time at which there is none, instead of seconds
        self._watcher, self._told = watcher, float("-inf")
        self.done = self._restored = 0
        self._start = self._first = self._last = time.monotonic()
        self._lock = threading.Lock()

    def advance(
        self, steps: int = 1, now: str | None = None, *, restored: int = 0, more: int = 0, left: Left | None = None
    ) -> None:
        with self._lock:
            if left is not None:
                self._left = time.monotonic() + left[0], left[1]
            self.now = self.now if now is None else now.translate(CONTROL)
            self.total += more
            self.done += steps + restored
            self._restored += restored
            if steps or restored:
                self._last = time.monotonic()
            if restored:
                self._first = self._last
            if self._watcher and time.monotonic() >= self._told + _BETWEEN:
                self._told = time.monotonic()
                self._watcher(self.done, self.total)
        if restored:
            _print(f"{self.label}: resuming with {restored} of {self.total} {self.unit} done")

    @property
    def status(self) -> str:
        """Steps done, if counted, and times; steps left take as long as those so far, unless told otherwise."""
        with self._lock:
            time_now, computed = time.monotonic(), self.done - self._restored
            parts = [f"{min(self.done, self.total):,} of {self.total:,} {self.unit}"] if self.total else []
            parts.append(f"{_clock(time_now - self._start)} elapsed")
            end, how = self._left or (0.0, "")
            if self._left is None and computed:
                end = self._last + (self._last - self._first) / computed * (self.total - self.done)
                how = "at least" if self.unit == "fits" else "about"  # searches add fits as they refine settings
            parts += [f"{how} {_clock(end - time_now)} left"] if end > time_now else []
        return ", ".join(parts)

    @property
    def line(self) -> str:
        return f"{self.label}: {self.status}" + (f"; now {self.now}" if self.now else "")


@contextlib.contextmanager
def _bar(state: _State) -> Iterator[Advance]:
    from rich.console import Console, Group, RenderableType
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def draw() -> RenderableType:
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=state.total or None, completed=state.done, width=12)
        row.add_row(Text(state.label), bar, Text(state.status))
        return Group(row, Text(state.now, overflow="ellipsis", no_wrap=True, style="dim")) if state.now else row

    with Live(get_renderable=draw, console=Console(stderr=True), transient=True):
        yield state.advance


@contextlib.contextmanager
def _lines(state: _State) -> Iterator[Advance]:
    ended = threading.Event()

    def report() -> None:
        wait = _FIRST_LINE
        while not ended.wait(wait):
            _print(state.line)
            wait = _INTERVAL

    thread = threading.Thread(target=report, name="crossview-progress", daemon=True)
    thread.start()
    try:
        yield state.advance
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _lines_of_process(state: _State) -> Iterator[Advance]:
    work = json.dumps([state.label, state.total, state.unit, _FIRST_LINE, _INTERVAL])
    process = subprocess.Popen([sys.executable, "-I", "-S", __file__, work], stdin=subprocess.PIPE)
    assert process.stdin is not None
    pipe, lock = process.stdin, threading.Lock()

    def advance(*args: Any, **options: Any) -> None:
        with lock, contextlib.suppress(OSError, ValueError):  # as in _print
            pipe.write(json.dumps([args, options]).encode() + b"\n")
            pipe.flush()

    try:
        yield advance
    finally:
        with contextlib.suppress(OSError):
            pipe.close()
        process.wait()


def _print(line: str) -> None:
    # A reader of the log that went away must not end the work.
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


if __name__ == "__main__":  # the process that prints until the pipe is closed, at the latest when the work ends
    *work, _FIRST_LINE, _INTERVAL = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches this process, which has to outlast the other
    with _lines(_State(*work)) as advance:
        for line in sys.stdin:
            args, options = json.loads(line)
            advance(*args, **options)
