from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from crossview import _progress, config_context
from crossview._progress import progress


@pytest.fixture(autouse=True)
def wanted():
    with config_context(progress=True):
        yield


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(_progress, "_FIRST_LINE", 0.02)
    monkeypatch.setattr(_progress, "_INTERVAL", 0.02)


@pytest.fixture
def clock(monkeypatch):
    """The time, as the module sees it, which a test sets."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def wait_for(capsys, pattern):
    """What was printed until a pattern occurred."""
    printed = ""
    for _ in range(500):
        printed += capsys.readouterr().err
        if re.search(pattern, printed):
            return printed
        threading.Event().wait(0.01)
    raise AssertionError(f"{pattern!r} is not in {printed!r}")


def test_a_long_step_is_told_of_while_it_runs(quick, capsys):
    with progress("Searching for KMvHE", 250, unit="fits") as advance:
        advance(37, "kmvhe__beta=0.5")
        line = r"Searching for KMvHE: 37 of 250 fits, 0:00 elapsed(, at least \d+:\d\d left)?; now kmvhe__beta=0.5\n"
        wait_for(capsys, f"({line}){{2}}")
        advance(1)
        wait_for(capsys, "38 of 250 fits.*; now kmvhe__beta=0.5\n")


def test_nothing_is_printed_after_the_end(quick, capsys):
    with progress("Working", 2) as advance:
        advance()
        wait_for(capsys, "1 of 2 steps")
    with pytest.raises(KeyError, match="inside"), progress("Working", 2):
        raise KeyError("inside")
    capsys.readouterr()
    assert not [thread for thread in threading.enumerate() if thread.name == "crossview-progress"]


def test_short_and_unwanted_work_is_silent(monkeypatch, capsys):
    with progress("Working", 2) as advance:
        advance(2, "this")
    monkeypatch.setattr(_progress, "_FIRST_LINE", 0.01)
    with config_context(progress=False), progress("Working", 2) as advance:
        time.sleep(0.05)
        advance(1, "this", restored=1)
    assert capsys.readouterr() == ("", "")


def test_parts_of_work_that_is_shown_are_silent(quick, capsys):
    with progress("Working", 2), progress("A part", 2) as advance:
        advance(1, "this", restored=1)
        assert "A part" not in wait_for(capsys, "Working: 0 of 2 steps")
    with progress("More work", 2):
        wait_for(capsys, "More work: 0 of 2 steps")


def test_restored_steps_say_nothing_about_the_speed(clock):
    state = _progress._State("Working", 100, "steps")
    clock[0] += 7
    state.advance(0, restored=50)  # after data were read
    clock[0] += 10
    assert state.line == "Working: 50 of 100 steps, 0:17 elapsed"
    state.advance(5)
    assert state.line == "Working: 55 of 100 steps, 0:17 elapsed, about 1:30 left"
    clock[0] += 60
    assert state.line == "Working: 55 of 100 steps, 1:17 elapsed, about 0:30 left"
    state.unit = "fits"  # of a search, which may add others
    assert state.line == "Working: 55 of 100 fits, 1:17 elapsed, at least 0:30 left"


def test_the_time_left_may_be_given_and_is_not_told_when_a_step_outlasts_it(clock):
    state = _progress._State("Working", 3, "steps")
    clock[0] += 2
    state.advance(2, "the long one", left=(90.0, "at least"))
    assert state.line == "Working: 2 of 3 steps, 0:02 elapsed, at least 1:30 left; now the long one"
    clock[0] += 3600
    assert state.line == "Working: 2 of 3 steps, 1:00:02 elapsed; now the long one"


def test_a_closed_log_does_not_end_the_work(quick, monkeypatch, tmp_path):
    closed = (tmp_path / "log").open("w")
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    with progress("Working", 2) as advance:
        advance(0, restored=1)
        time.sleep(0.1)
        advance()
    assert closed.closed


def test_a_terminal_shows_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with progress("Searching for MvDA", 4, unit="fits") as advance:
        advance(3, "mvda__reg=[0.1] of \x1b]0;owned\x07")
        shown = wait_for(capsys, "mvda__reg")
    assert r"of \x1b]0;owned\x07" in shown
    assert "\x1b]" not in shown
    assert "Searching for MvDA" in shown
    assert "━" in shown
    assert "[0.1]" in shown  # not taken for markup


def test_lines_without_rich(quick, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress("Working", 2) as advance:
        advance()
        assert "━" not in wait_for(capsys, "Working: 1 of 2 steps, 0:00 elapsed")


# Sorting holds the global lock, as SciPy's eigen-solvers do: no thread of the process can print meanwhile.
SCRIPT = """
import random, sys, time
from crossview import _progress, set_config
set_config(progress=True)
_progress._FIRST_LINE = _progress._INTERVAL = 0.05
with _progress.progress("Working", 9, unit="fits") as advance:
    advance(0, restored=2)
    advance(1, "beta=0.3, α")
    numbers = [random.random() for _ in range(300_000)]
    start = time.perf_counter()
    while time.perf_counter() - start < 0.3:
        numbers = [random.random() for _ in range(2 * len(numbers))]
        start = time.perf_counter()
        numbers.sort()
    advance(3)
    {end}
print("after", file=sys.stderr)
"""


def follow(end="pass", **options):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(end=end)], stderr=subprocess.PIPE, text=True, **options
    )


def test_lines_go_on_while_the_global_lock_is_held():
    told = follow().communicate()[1].splitlines()
    assert told[0] == "Working: resuming with 2 of 9 fits done"
    held = [line for line in told if line.startswith("Working: 3 of 9 fits, 0:0") and line.endswith("now beta=0.3, α")]
    assert len(held) >= 3
    assert told[-1] == "after"


@pytest.mark.parametrize("end", ["raise ValueError('inside')", "import os; os.kill(os.getpid(), 9)"])
def test_the_process_that_prints_ends_with_the_work(end):
    process = follow(end)
    told = process.communicate()[1]  # ends when every process that may write to the pipe has ended
    assert process.returncode in (1, -signal.SIGKILL)
    assert "after" not in told
    assert ("ValueError: inside" in told) == (process.returncode == 1)
