from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import fakes
import numpy as np
import psutil
import pytest
from distributed import Client, Security
from distributed.comm import connect

import crossview as cv
from crossview.experiments import Cell, Search, Split, run

SCRIPT = Path(fakes.__file__)
SEARCH = Search(pca=[8, 16], n_folds=2, grid={"n_components": [2, 4]})
needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def start(path, n, n_jobs, **options):
    return subprocess.Popen([sys.executable, str(SCRIPT), "run", str(path), str(n), str(n_jobs)], **options)


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def ordered(k, **orders):
    return Cell(data="fake", method="MvHE", seed=k, parameters=orders)


def without_times(records):
    return [(r.key, r.status, {k: v for k, v in r.result.items() if k != "seconds"}) for r in records]


@contextlib.contextmanager
def cluster(folder, workers=2):
    """A scheduler and workers, started by Dask's own commands; gives its address and their processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    paths = os.pathsep.join([str(SCRIPT.parent), *sys.path])
    common = {
        "env": os.environ | {"PYTHONPATH": paths},
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "start_new_session": True,
    }
    dask = [sys.executable, "-m", "dask"]
    place = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
    with contextlib.ExitStack() as stack:

        def begin(*words):
            process = stack.enter_context(subprocess.Popen([*dask, *words], **common))
            stack.callback(end, process)
            return process

        scheduler = begin("scheduler", *place, "--no-dashboard")
        worker = ["worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        yield address, scheduler, [begin(*worker) for _ in range(workers)]


def after(n, action):
    """A watch that acts when the n-th cell ends."""
    ended = itertools.count(1)
    return lambda event, cell, about: action() if event == "ends" and next(ended) == n else None


def end(process):
    """Kill a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def test_results_come_in_the_order_of_the_cells_and_are_computed_once(path, log):
    cells = fakes.cells(4)
    wanted = [cells[2], cells[0], cells[2], cells[1]]
    calls = []
    records = run(wanted, fakes.load, path, compute=fakes.compute, watch=lambda *told: calls.append(told))
    assert [record.cell["seed"] for record in records] == [2, 0, 2, 1]
    assert [record.result["score"] for record in records] == [2 / 7, 0, 2 / 7, 1 / 7]
    assert [record.cell for record in records] == [cell.to_dict() for cell in wanted]
    assert calls[:3] == [("waits", cell, None) for cell in (cells[2], cells[0], cells[1])]
    ended = [call[1:] for call in calls if call[0] == "ends"]
    assert ended == [(cells[2], records[0]), (cells[0], records[1]), (cells[1], records[3])]

    calls.clear()
    again = run(cells, fakes.load, path, compute=fakes.compute, watch=lambda *told: calls.append(told))
    assert fakes.computed(log) == dict.fromkeys(range(4), 1)
    assert [call[:2] for call in calls] == [(event, cells[3]) for event in ("waits", "starts", "ends")]
    assert again[2] == records[0]
    assert len(fakes.noted(log, "load")) == 2  # once in each run


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cells_are_announced_before_they_are_computed(path, log, n_jobs):
    cells, calls = fakes.cells(5), []
    run(cells[:1], fakes.load, path, compute=fakes.compute)
    run(
        cells,
        lambda data, options: fakes.load(data, options),  # functions need not be of a module
        path,
        compute=fakes.compute,
        n_jobs=n_jobs,
        watch=lambda event, cell, about: calls.append((event, cell.seed)),
    )
    for seed in range(1, 5):
        assert [event for event, number in calls if number == seed] == ["waits", "starts", "ends"]
    running = np.cumsum([{"waits": 0, "starts": 1, "ends": -1}[event] for event, _ in calls])
    assert running.max() <= n_jobs


def test_slow_methods_start_first(path, log):
    methods = ("PCA", "MvDA", "KMvHE", "NCA", "MvHE", "KCCA")
    split = Split("samples", 0.5, 2)
    cells = [Cell(data="fake", method=name, split=split, repeat=k) for name in methods for k in (0, 1)]
    order = []
    watch = lambda event, cell, about: order.append(cell) if event == "starts" else None  # noqa: E731
    records = run(cells, fakes.load, path, compute=fakes.compute, watch=watch)
    assert list(dict.fromkeys(cell.method for cell in order)) == ["KMvHE", "KCCA", "NCA", "MvHE", "MvDA", "PCA"]
    assert [cell.repeat for cell in order] == [0, 1] * 6
    assert [record.cell for record in records] == [cell.to_dict() for cell in cells]


def test_one_worker_needs_no_dask(path, log):
    code = "import sys, fakes; from crossview.experiments import run\n"
    code += "run(fakes.cells(2), fakes.load, sys.argv[1], compute=fakes.compute)\n"
    code += "assert not {'dask', 'distributed'} & set(sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path])}
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=environment)
    assert fakes.computed(log) == {0: 1, 1: 1}


def test_other_data_and_revisions_are_computed_anew_but_not_other_versions(path, log, monkeypatch):
    run(fakes.cells(1), fakes.load, path, compute=fakes.compute)
    run(fakes.cells(1), fakes.load_differently, path, compute=fakes.compute)
    assert fakes.computed(log) == {0: 2}
    monkeypatch.setattr("crossview.experiments.runner.__version__", "99.0")
    (record,) = run(fakes.cells(1), fakes.load, path, compute=fakes.compute)
    assert fakes.computed(log) == {0: 2}
    assert record.version == cv.__version__
    monkeypatch.setattr(cv.MvHE, "_revision", cv.MvHE._revision + 1)
    (record,) = run(fakes.cells(1), fakes.load, path, compute=fakes.compute)
    assert fakes.computed(log) == {0: 3}
    assert record.version == "99.0"


def test_a_cell_that_fails_is_recorded_and_stops_nothing(path, log, monkeypatch):
    cells = [*fakes.cells(2), ordered(2, fail=True), fakes.cells(4)[3]]
    told = []

    def again(**options):
        return run(cells, fakes.load, path, compute=fakes.compute, watch=lambda *call: told.append(call[0]), **options)

    records = again()
    assert [record.status for record in records] == ["done", "done", "failed", "done"]
    assert records[2].error["type"] == "ZeroDivisionError"
    assert records[2].error["message"] == "cell 2 divides by nothing"
    assert "fakes.py" in records[2].error["traceback"]
    assert told.count("ends") == 4
    assert again() == records
    assert fakes.computed(log)[2] == 1
    retried = again(retry_failed=True)
    assert fakes.computed(log) == {0: 1, 1: 1, 2: 2, 3: 1}
    assert retried[2].created > records[2].created
    assert told.count("ends") == 5
    monkeypatch.setattr("time.time", lambda: 0.0)  # the clock was set back
    for attempts in (3, 4):
        assert (again(retry_failed=True)[2].status, fakes.computed(log)[2]) == ("failed", attempts)


def test_a_result_that_is_damaged_is_reported_and_computed_again(path, log, caplog):
    records = run(fakes.cells(3), fakes.load, path, compute=fakes.compute)
    with contextlib.closing(fakes.sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE results SET record = replace(record, '\"samples\": 4', '\"samples\": 5') WHERE key = ?",
            (records[1].key,),
        )
    again = run(fakes.cells(3), fakes.load, path, compute=fakes.compute)
    assert [record.result for record in again] == [record.result for record in records]
    assert fakes.computed(log) == {0: 1, 1: 2, 2: 1}
    (message,) = caplog.messages
    assert message == f"{path}: the result with key {records[1].key} is damaged; a run computes it again."
    caplog.clear()
    assert run(fakes.cells(3), fakes.load, path, compute=fakes.compute) == again
    assert caplog.messages == []


@needs_signals
def test_workers_load_data_once_and_their_death_costs_no_cell_but_one_that_always_kills(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.02")
    orders = {2: {"kill": 99}, 5: {"fail": True}, 7: {"kill": 1}}
    cells = [
        Cell(data="fake", method="MvHE", seed=k, options={"case": k % 2}, parameters=orders.get(k, {}))
        for k in range(12)
    ]
    records = run(cells, fakes.load, path, compute=fakes.compute, n_jobs=2)
    assert [k for k, record in enumerate(records) if record.status == "failed"] == [2, 5]
    assert records[2].error["type"] == "KilledWorker"
    assert "try fewer jobs" in records[2].error["message"]
    assert records[5].error["type"] == "ZeroDivisionError"
    assert records[7].result == {"score": 1.0, "samples": 4}
    counts = fakes.computed(log)
    assert (counts[2], counts[7]) == (4, 2)
    assert all(counts[k] == 1 for k in (5, *range(3)) if k != 2)
    loads = [pid for pid, _ in fakes.noted(log, "load")]
    workers = {pid for pid, _ in fakes.noted(log, "compute")}
    assert loads.count(os.getpid()) == 2
    assert os.getpid() not in workers
    assert all(1 <= loads.count(pid) <= 2 for pid in workers)


def test_data_that_differ_in_a_worker_fail(path, log):
    records = run(fakes.cells(2), fakes.load_differently, path, compute=fakes.compute, n_jobs=2)
    assert [record.status for record in records] == ["failed", "failed"]
    assert "fake was loaded twice, with different content" in records[0].error["message"]
    assert fakes.computed(log) == {}


def test_what_cannot_be_computed_is_told_of(path, monkeypatch):
    lock = threading.Lock()
    with pytest.raises(ValueError, match="or use one process"):
        run(fakes.cells(2), fakes.load_turntable, path, n_jobs=2, compute=lambda cell, data: lock)
    with pytest.raises(ValueError, match="must be a whole number, 1 or more"):
        run(fakes.cells(2), fakes.load_turntable, path, n_jobs=0)
    with pytest.raises(ValueError, match="scheduler must be an address such as tcp://"):
        run(fakes.cells(2), fakes.load_turntable, path, scheduler="here")
    (record,) = run(fakes.cells(1), fakes.load_turntable, path, compute=lambda cell, data: {"views": data.views})
    assert record.status == "failed"
    assert "not JSON serializable" in record.error["message"]
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"crossview\[dask\]', or use one process"):
        run(fakes.cells(2), fakes.load_turntable, path.with_name("new.db"), n_jobs=2)


def test_a_script_without_a_guard_is_told_to_have_one(path, log):
    code = "import fakes\nfrom crossview.experiments import run\n"
    code += f"run(fakes.cells(2), fakes.load, {str(path)!r}, n_jobs=2, compute=fakes.compute)\n"
    script = path.with_name("script.py")
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path])}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert "keep what the script does under if __name__ == '__main__':" in done.stderr


def test_real_cells_give_the_same_with_one_worker_and_two(tmp_path):
    cells = [
        Cell(data="turntable", method=method, split=Split(n_train=8), repeat=repeat, search=SEARCH)
        for method in ("MvDA", "MvHE", "KMvHE")
        for repeat in (0, 1)
    ]
    one, two = (run(cells, fakes.load_turntable, tmp_path / f"{n}.db", n_jobs=n) for n in (1, 2))
    for record in one + two:
        assert record.status == "done", record.error
        assert record.result["seconds"]["search"] > 0
        assert record.result["threads"] == 1
    assert without_times(one) == without_times(two)
    assert len({json.dumps(record.result["score"]) for record in one}) > 1


@needs_signals
def test_a_cluster_that_loses_a_worker_gives_the_same_table(tmp_path, log):
    cells = [
        Cell(data="turntable", method=method, split=Split(n_train=8), repeat=k, search=SEARCH)
        for k, method in enumerate(["MvDA", "MvHE"] * 3)
    ]
    here = run(cells, fakes.load_turntable, tmp_path / "here.db", compute=fakes.compute_slowly)
    log.write_text("")
    with cluster(tmp_path) as (address, _, workers):
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

        def kill_the_busy_worker():
            until(lambda: len({pid for pid, _ in fakes.noted(log, "compute")}) == 2)
            busy = fakes.noted(log, "compute")[-1][0]
            end(next(worker for worker in workers if os.getpgid(busy) == worker.pid))

        there = run(
            cells,
            fakes.load_turntable,
            tmp_path / "there.db",
            scheduler=address,
            compute=fakes.compute_slowly,
            watch=after(1, kill_the_busy_worker),
        )
        assert sum(worker.poll() is not None for worker in workers) == 1
    assert without_times(there) == without_times(here)
    assert [row["result"]["score"] for row in fakes.table(tmp_path / "there.db")] == [
        row["result"]["score"] for row in fakes.table(tmp_path / "here.db")
    ]


@needs_signals
def test_a_scheduler_that_dies_ends_the_run_and_loses_nothing_that_is_done(path, tmp_path, log, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("FAKE_SLEEP", "0.1")
    cells = fakes.cells(30)
    with cluster(tmp_path, workers=1) as (address, scheduler, _):
        kill = after(3, lambda: end(scheduler))
        with pytest.raises(ConnectionError, match="run the same to resume; finished cells are stored") as caught:
            run(cells, fakes.load, path, scheduler=address, compute=fakes.compute, watch=kill)
    assert "\n" not in str(caught.value)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    stored = {row["cell"]["seed"] for row in fakes.table(path)}
    assert stored >= {0, 1, 2}
    monkeypatch.setattr("crossview.experiments.runner._CONNECT_TIMEOUT", 0.5)
    with pytest.raises(ConnectionError, match=f"no scheduler answers at {address}: check the address"):
        run(cells, fakes.load, path, scheduler=address, compute=fakes.compute)
    before = fakes.computed(log)
    run(cells, fakes.load, path, compute=fakes.compute)
    assert all(fakes.computed(log)[k] == before[k] for k in stored)
    assert len(fakes.table(path)) == 30


def test_an_interrupt_or_an_error_of_a_watch_leaves_what_was_done(path, log):
    cells = [*fakes.cells(2), ordered(2, interrupt=True), fakes.cells(4)[3]]
    with pytest.raises(KeyboardInterrupt):
        run(cells, fakes.load, path, compute=fakes.compute)
    assert sorted((row["cell"]["seed"], row["status"]) for row in fakes.table(path)) == [(0, "done"), (1, "done")]

    with pytest.raises(ZeroDivisionError):
        run(fakes.cells(7), fakes.load, path, compute=fakes.compute, watch=after(2, lambda: 1 / 0))
    assert len(fakes.table(path)) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interrupt_from_the_keyboard_ends_all_workers(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.2")
    program = start(path, 50, 2, start_new_session=True, stderr=subprocess.PIPE)
    until(lambda: len({pid for pid, _ in fakes.noted(log, "compute")}) == 2)
    workers = {pid for pid, _ in fakes.noted(log, "compute")}
    for pid in workers:
        os.kill(pid, signal.SIGINT)  # which is for the parent to decide about
    begun = len(fakes.noted(log, "compute"))
    until(lambda: len(fakes.noted(log, "compute")) >= begun + 4)
    assert {pid for pid, _ in fakes.noted(log, "compute")} == workers
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate()
    assert errors.decode().strip().endswith("KeyboardInterrupt")
    assert all(gone(pid) for pid, _ in fakes.noted(log, "compute"))
    rows = fakes.table(path)
    assert 2 <= len(rows) < 50
    assert {row["status"] for row in rows} == {"done"}


async def identity(address, security):
    """What a server of Dask tells about itself to whoever has its keys; None if it does not answer."""
    try:
        async with asyncio.timeout(2):
            comm = await connect(address, timeout=1, **security.get_connection_args("client"))
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
    except OSError:
        return None


def status_of(address):
    try:
        return urllib.request.urlopen(address, timeout=1).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_nobody_else_can_use_local_workers_or_look_at_them(path, log):
    ports, pages = set(), ("health", "status", "info/main/workers.html", "json/identity.json", "metrics")

    def look():
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        found = [one for process in processes for one in process.net_connections("inet")]
        listening = [one.laddr for one in found if one.status == psutil.CONN_LISTEN]
        assert {one.ip for one in listening} == {"127.0.0.1"}
        ports.update(one.port for one in listening)
        for port in ports:
            for kind, security in (("tcp", Security()), ("tls", Security.temporary())):
                assert asyncio.run(identity(f"{kind}://127.0.0.1:{port}", security)) is None
        assert {status_of(f"http://127.0.0.1:{port}/{page}") for port in ports for page in pages} <= {None, 404}

    records = run(fakes.cells(2), fakes.load, path, compute=fakes.compute, n_jobs=2, watch=after(1, look))
    assert [record.status for record in records] == ["done", "done"]
    assert len(ports) >= 3  # of the scheduler and the workers


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_whose_client_is_killed_end(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.3")
    program = start(path, 12, 2, stderr=subprocess.DEVNULL)
    until(lambda: len(fakes.noted(log, "compute")) >= 4)
    program.kill()
    program.wait()
    stored = {row["cell"]["seed"] for row in fakes.table(path)}
    assert len(stored) >= 2
    until(lambda: all(gone(pid) for pid, _ in fakes.noted(log, "compute")), 20)
    records = run(fakes.cells(12), fakes.load, path, compute=fakes.compute)
    assert [record.status for record in records] == ["done"] * 12
    assert all(fakes.computed(log)[k] == 1 for k in stored)
    assert sum(fakes.computed(log).values()) <= 12 + 2  # the cells in flight


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_run_that_is_killed_twenty_times_ends_as_one_that_is_not(tmp_path, log, monkeypatch):
    # Each is killed within 0.05 s of its 7th cell at the latest: 20 of them cannot compute 300.
    monkeypatch.setenv("FAKE_SLEEP", "0.02")
    n, path = 300, tmp_path / "killed.db"
    subprocess.run([sys.executable, str(SCRIPT), "storm", str(path), str(n), "20", "0"], check=True)
    kills = [number for _, number in fakes.noted(log, "killed")]
    assert kills == [1] * 20  # none had ended by itself
    before = len(fakes.table(path))
    assert 0 < before < n
    monkeypatch.setenv("FAKE_SLEEP", "0")
    run(fakes.cells(n), fakes.load, path, compute=fakes.compute)

    committed = set()
    for line in log.read_text().splitlines():
        what, _, number = line.split()
        if what == "committed":
            committed.add(int(number))
        elif what == "compute":
            assert int(number) not in committed
    assert committed
    # A kill costs one cell at most.
    assert sum(fakes.computed(log).values()) <= n + 20

    run(fakes.cells(n), fakes.load, tmp_path / "undisturbed.db", compute=fakes.compute)
    assert fakes.table(path) == fakes.table(tmp_path / "undisturbed.db")
    assert len(fakes.table(path)) == n
