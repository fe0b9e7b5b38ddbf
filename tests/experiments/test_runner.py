from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fakes
import pytest

from crossview.experiments import Cell, Owner, Search, Split, Store, run

SCRIPT = Path(fakes.__file__)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


def start(path, n, workers):
    return subprocess.Popen([sys.executable, str(SCRIPT), "run", str(path), str(n), str(workers)])


def go(path, log, programs):
    """Let programs begin once all are ready."""
    until(lambda: len(fakes.told(log, "ready")) >= programs)
    path.with_name(path.name + ".go").touch()


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


def test_results_come_in_the_order_of_the_cells_and_are_computed_once(path, log):
    cells = fakes.cells(4)
    wanted = [cells[2], cells[0], cells[2], cells[1]]
    calls = []
    records = run(wanted, fakes.load, path, compute=fakes.compute, progress=lambda *told: calls.append(told))
    assert [record.cell["seed"] for record in records] == [2, 0, 2, 1]
    assert [record.result["score"] for record in records] == [2 / 7, 0, 2 / 7, 1 / 7]
    assert all(Cell.from_dict(record.cell) == cell for record, cell in zip(records, wanted, strict=True))
    assert [call[:3] for call in calls] == [(1, 3, cells[2]), (2, 3, cells[0]), (3, 3, cells[1])]
    assert [call[3] for call in calls] == [records[0], records[1], records[3]]

    calls.clear()
    again = run(cells, fakes.load, path, compute=fakes.compute, progress=lambda *told: calls.append(told))
    assert fakes.computed(log) == dict.fromkeys(range(4), 1)
    assert [call[:3] for call in calls] == [(4, 4, cells[3])]
    assert again[2] == records[0]
    assert len(fakes.told(log, "load")) == 2  # once in each run


def test_other_data_and_other_versions_are_computed_anew(path, log, monkeypatch):
    run(fakes.cells(1), fakes.load, path, compute=fakes.compute)
    run(fakes.cells(1), fakes.load_differently, path, compute=fakes.compute)
    monkeypatch.setattr("crossview.__version__", "99.0")
    (record,) = run(fakes.cells(1), fakes.load, path, compute=fakes.compute)
    assert record.version == "99.0"
    assert fakes.computed(log) == {0: 3}


def test_a_cell_that_fails_is_recorded_and_stops_nothing(path, log):
    cells = [*fakes.cells(2), Cell(data="fake", method="MvHE", seed=2, parameters={"fail": True}), fakes.cells(4)[3]]
    told = []

    def again(**options):
        return run(
            cells, fakes.load, path, compute=fakes.compute, progress=lambda *call: told.append(call[:2]), **options
        )

    records = again()
    assert [record.status for record in records] == ["done", "done", "failed", "done"]
    assert records[2].error["type"] == "ZeroDivisionError"
    assert records[2].error["message"] == "cell 2 divides by nothing"
    assert "fakes.py" in records[2].error["traceback"]
    assert told == [(k, 4) for k in (1, 2, 3, 4)]
    assert again() == records
    assert fakes.computed(log)[2] == 1
    retried = again(retry_failed=True)
    assert fakes.computed(log) == {0: 1, 1: 1, 2: 2, 3: 1}
    assert retried[2].created > records[2].created
    assert told[4:] == [(4, 4)]
    assert fakes.table(path)[1] == []


def test_a_result_that_is_not_json_is_a_failure(path):
    (record,) = run(fakes.cells(1), fakes.load_turntable, path, compute=lambda cell, data: {"views": data.views})
    assert record.status == "failed"
    assert "not JSON serializable" in record.error["message"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_workers_load_data_once_and_fail_or_are_killed_for_one_cell_alone(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.02")
    orders = {2: {"kill": True}, 5: {"fail": True}}
    cells = [
        Cell(data="fake", method="MvHE", seed=k, options={"case": k % 2}, parameters=orders.get(k, {}))
        for k in range(12)
    ]
    records = run(cells, fakes.load, path, compute=fakes.compute, workers=2)
    assert [k for k, record in enumerate(records) if record.status == "failed"] == [2, 5]
    assert records[2].error["type"] == "WorkerEnded"
    assert "signal 9" in records[2].error["message"]
    assert records[5].error["type"] == "ZeroDivisionError"
    assert fakes.computed(log) == dict.fromkeys(range(12), 1)
    assert fakes.table(path)[1] == []
    loads = [pid for pid, _ in fakes.told(log, "load")]
    workers = {pid for pid, _ in fakes.told(log, "compute")}
    assert loads.count(os.getpid()) == 2
    assert os.getpid() not in workers
    assert all(1 <= loads.count(pid) <= 2 for pid in workers)


def test_data_that_are_not_the_same_in_a_worker_fail(path, log):
    (record,) = run(fakes.cells(1), fakes.load_differently, path, compute=fakes.compute, workers=2)
    assert record.status == "failed"
    assert "different content" in record.error["message"]
    assert fakes.computed(log) == {}


def test_what_cannot_be_sent_to_workers_is_told_of(path):
    with pytest.raises(ValueError, match="functions of a module, or workers=1"):
        run(fakes.cells(2), lambda data, options: fakes.load_turntable(data, options), path, workers=2)
    for options in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(ValueError, match="must be a whole number, 1 or more"):
            run(fakes.cells(2), fakes.load_turntable, path, **options)


def test_a_script_without_a_guard_is_told_to_have_one(path, log):
    code = "import fakes\nfrom crossview.experiments import run\n"
    code += f"run(fakes.cells(1), fakes.load, {str(path)!r}, workers=2, compute=fakes.compute)\n"
    script = path.with_name("script.py")
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert "keep what the script does under if __name__ == '__main__':" in done.stderr


def test_real_cells_give_the_same_with_one_worker_and_two(tmp_path):
    grid = {"n_components": [2, 4]}
    search = Search(pca=[8, 16], n_folds=2, grid=grid)
    cells = [
        Cell(data="turntable", method=method, split=Split(n_train=8), repeat=repeat, search=search, outliers=share)
        for method in ("MvDA", "MvHE", "KMvHE")
        for repeat, share in ((0, 0.0), (1, 0.2))
    ]
    one, two = (run(cells, fakes.load_turntable, tmp_path / f"{n}.db", workers=n) for n in (1, 2))
    for record in one + two:
        assert record.status == "done", record.error
        assert record.result.pop("seconds")["search"] > 0
        assert record.result["threads"] == 1
    assert [record.result for record in one] == [record.result for record in two]
    assert [record.key for record in one] == [record.key for record in two]
    assert len({json.dumps(record.result) for record in one}) == 6


def test_an_interrupt_leaves_what_was_done_and_no_claim(path, log):
    cells = [
        *fakes.cells(2),
        Cell(data="fake", method="MvHE", seed=2, parameters={"interrupt": True}),
        fakes.cells(4)[3],
    ]
    with pytest.raises(KeyboardInterrupt):
        run(cells, fakes.load, path, compute=fakes.compute)
    rows, claims = fakes.table(path)
    assert sorted((json.loads(row[1])["seed"], row[2]) for row in rows) == [(0, "done"), (1, "done")]
    assert claims == []


def test_what_progress_raises_ends_the_run(path, log):
    def progress(done, total, cell, record):
        if done == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run(fakes.cells(5), fakes.load, path, compute=fakes.compute, progress=progress)
    assert len(fakes.table(path)[0]) == 2
    assert fakes.table(path)[1] == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interrupt_from_the_keyboard_ends_all_workers(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.2")
    program = subprocess.Popen(
        [sys.executable, str(SCRIPT), "run", str(path), "50", "2"], start_new_session=True, stderr=subprocess.PIPE
    )
    go(path, log, 1)
    until(lambda: len({pid for pid, _ in fakes.told(log, "compute")}) == 2)
    workers = {pid for pid, _ in fakes.told(log, "compute")}
    for pid in workers:
        os.kill(pid, signal.SIGINT)  # which is for the parent to decide about
    begun = len(fakes.told(log, "compute"))
    until(lambda: len(fakes.told(log, "compute")) >= begun + 4)
    assert {pid for pid, _ in fakes.told(log, "compute")} == workers
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate()
    assert errors.decode().strip().endswith("KeyboardInterrupt")
    assert all(gone(pid) for pid, _ in fakes.told(log, "compute"))
    rows, claims = fakes.table(path)
    assert 2 <= len(rows) < 50
    assert {row[2] for row in rows} == {"done"}
    assert claims == []


def test_two_runs_on_one_store_compute_every_cell_once(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.005")
    programs = [start(path, 150, 1), start(path, 150, 1)]
    go(path, log, 2)
    assert [program.wait() for program in programs] == [0, 0]
    assert fakes.computed(log) == dict.fromkeys(range(150), 1)
    by = [pid for pid, _ in fakes.told(log, "compute")]
    assert all(by.count(program.pid) > 10 for program in programs)  # they were at it together
    rows, claims = fakes.table(path)
    assert len(rows) == 150
    assert claims == []


def test_a_cell_that_another_run_is_at_is_waited_for(path, log):
    from crossview.experiments.runner import _Bench

    cells = fakes.cells(3)
    task = _Bench(fakes.load, fakes.compute, 1, None).task(cells[1])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other, Store(path) as store:
        from crossview.experiments.owners import _started

        assert store.claim([task.key], Owner(Owner.current().host, other.pid, _started(other.pid))) == [task.key]
        seen = []

        def progress(done, total, cell, record):
            seen.append(cell.seed)
            if done == 2:  # the others are done, and the one that is claimed is left
                store.put(task.key, task.cell.to_dict(), {"score": "by the other"}, 0.0)

        records = run(cells, fakes.load, store, compute=fakes.compute, progress=progress)
        other.kill()
    assert seen == [0, 2, 1]
    assert records[1].result == {"score": "by the other"}
    assert fakes.computed(log) == {0: 1, 2: 1}


def test_what_a_dead_run_was_at_is_taken_over(path, log):
    from crossview.experiments.runner import _Bench

    cells = fakes.cells(3)
    tasks = [_Bench(fakes.load, fakes.compute, 1, None).task(cell) for cell in cells]
    with Store(path) as store:
        dead = Owner(Owner.current().host, os.getpid(), "before this process")
        assert store.claim([task.key for task in tasks], dead) == [task.key for task in tasks]
        begun = time.monotonic()
        run(cells, fakes.load, store, compute=fakes.compute)
        assert time.monotonic() - begun < 10  # and not after a timeout
    assert fakes.computed(log) == {0: 1, 1: 1, 2: 1}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_whose_parent_is_killed_store_what_they_were_at(path, log, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.3")
    program = start(path, 12, 2)
    go(path, log, 1)
    until(lambda: len(fakes.told(log, "compute")) >= 4)
    program.kill()
    program.wait()
    records = run(fakes.cells(12), fakes.load, path, compute=fakes.compute)
    assert [record.status for record in records] == ["done"] * 12
    assert fakes.computed(log) == dict.fromkeys(range(12), 1)
    until(lambda: all(gone(pid) for pid, _ in fakes.told(log, "compute") if pid != os.getpid()), 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_run_that_is_killed_twenty_times_ends_as_one_that_is_not(tmp_path, log, monkeypatch):
    # Twenty moments of 0.2 s at most are 200 cells at most, even if nothing but sleeping took time.
    monkeypatch.setenv("FAKE_SLEEP", "0.02")
    n, path = 205, tmp_path / "killed.db"
    subprocess.run([sys.executable, str(SCRIPT), "storm", str(path), str(n), "20", "0"], check=True)
    kills = [number for _, number in fakes.told(log, "killed")]
    assert kills == [1] * 20  # none had ended by itself
    before = len(fakes.table(path)[0])
    assert 0 < before < n
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

    monkeypatch.setenv("FAKE_SLEEP", "0")
    run(fakes.cells(n), fakes.load, tmp_path / "undisturbed.db", compute=fakes.compute)
    rows, claims = fakes.table(path)
    assert (rows, claims) == fakes.table(tmp_path / "undisturbed.db")
    assert len(rows) == n
    assert claims == []
