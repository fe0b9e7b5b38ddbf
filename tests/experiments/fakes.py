"""Cells that cost nothing, and a program that computes them.

Usage: python fakes.py run STORE CELLS WORKERS; or python fakes.py storm STORE CELLS KILLS SEED, a run that is killed
and begun again so many times.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import crossview as cv
from crossview.experiments import Cell, run


def cells(n, **options):
    return [Cell(data="fake", method="MvHE", seed=k, **options) for k in range(n)]


def note(what, number):
    line = f"{what} {os.getpid()} {number}\n"
    file = os.open(os.environ["FAKE_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)


def noted(path, what):
    """(process, number) of every line of a kind."""
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    return [(int(pid), int(number)) for kind, pid, number in lines if kind == what]


def computed(path):
    return Counter(number for _, number in noted(path, "compute"))


def load(data, options):
    note("load", 0)
    X = np.arange(8.0).reshape(4, 2)
    return cv.datasets.Dataset(cv.Views([X, -X]), np.array([0, 0, 1, 1]), ["a", "b"], data, "")


def load_differently(data, options):
    X = np.random.default_rng().normal(size=(4, 2))
    return cv.datasets.Dataset(cv.Views([X, -X]), np.array([0, 0, 1, 1]), ["a", "b"], data, "")


def load_turntable(data, options):
    return cv.datasets.make_turntable(12, size=12, **{"random_state": 0, **options})


def compute(cell, data):
    note("compute", cell.seed)
    orders = dict(cell.parameters)
    time.sleep(float(os.environ["FAKE_SLEEP"]))
    if "fail" in orders:
        raise ZeroDivisionError(f"cell {cell.seed} divides by nothing")
    if computed(os.environ["FAKE_LOG"])[cell.seed] <= orders.get("kill", 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if "interrupt" in orders:
        raise KeyboardInterrupt
    return {"score": cell.seed / 7, "samples": len(data.views)}


def compute_slowly(cell, data):
    """A real cell, which takes long enough for its worker to be killed."""
    from crossview.experiments import run_cell

    note("compute", cell.repeat)
    time.sleep(0.3)
    return run_cell(cell, data)


def table(path):
    """Key, cell, status, result and error of all that a store holds."""
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute("SELECT record FROM results ORDER BY key").fetchall()
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    finally:
        connection.close()
    assert verdict == "ok"
    return [{k: v for k, v in json.loads(text).items() if k not in ("seconds", "created")} for (text,) in rows]


def storm(path, n, kills, seed):
    """Kill a run at random moments, and begin it again; tell what was committed when."""
    moments = random.Random(seed)
    for turn in range(kills):
        target = computed(os.environ["FAKE_LOG"]).total() + moments.randrange(8)
        begun = os.fork()
        if begun == 0:
            run(cells(n), load, path, compute=compute)
            os._exit(0)
        while computed(os.environ["FAKE_LOG"]).total() < target:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.05))
        os.kill(begun, signal.SIGKILL)
        _, status = os.waitpid(begun, 0)
        note("killed", int(os.WIFSIGNALED(status)))
        # To look is to open, which repairs what a killed process left: every other time that is for the next run to do.
        # The first may even have been killed before there was a table.
        if turn % 2:
            with contextlib.suppress(sqlite3.OperationalError):
                for row in table(path):
                    note("committed", row["cell"]["seed"])


if __name__ == "__main__":
    what, store, count, *rest = sys.argv[1:]
    if what == "storm":
        storm(store, int(count), *map(int, rest))
    else:
        run(cells(int(count)), load, store, n_jobs=int(rest[0]), compute=compute)
