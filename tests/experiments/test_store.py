from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import fakes
import pytest

import crossview as cv
from crossview.experiments import Owner, Store, StoreError

CELL = {"method": "MvHE"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


@pytest.fixture
def store(path):
    with Store(path) as store:
        yield store


@contextlib.contextmanager
def process():
    """Another process, which does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            yield other
        finally:
            other.kill()


def owner_of(pid):
    from crossview.experiments.owners import _started

    return Owner(Owner.current().host, pid, _started(pid))


def change(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_what_is_put_comes_back(path, store):
    before = time.time()
    assert store.put("a", CELL, {"score": 0.25, "accuracy": [[None, 1.0]]}, 1.5)
    assert store.get("b") is None
    store.close()
    record = store.get("a")
    assert (record.key, record.cell, record.status, record.error) == ("a", CELL, "done", None)
    assert record.result == {"score": 0.25, "accuracy": [[None, 1.0]]}
    assert record.seconds == 1.5
    assert before <= record.created <= time.time()
    assert record.version == cv.__version__
    assert record.environment["python"] == sys.version.split()[0]


def test_an_error_comes_back_with_its_traceback(store):
    with pytest.raises(KeyError) as caught:
        {}["nothing here"]
    assert store.fail("a", CELL, caught.value, 0.5)
    record = store.get("a")
    assert (record.status, record.result) == ("failed", None)
    assert record.error["type"] == "KeyError"
    assert record.error["message"] == "'nothing here'"
    assert "test_an_error_comes_back" in record.error["traceback"]


def test_what_failed_may_be_done_later_and_what_is_done_stays(store):
    store.fail("a", CELL, ValueError("no"), 0.5)
    assert store.put("a", CELL, {"score": 1}, 1.0)
    assert not store.put("a", CELL, {"score": 2}, 1.0)
    assert not store.fail("a", CELL, ValueError("no"), 0.5)
    assert store.get("a").result == {"score": 1}
    assert len(store) == 1


def test_results_come_in_order_page_by_page(store, monkeypatch):
    monkeypatch.setattr("crossview.experiments.store._PAGE", 3)
    for k in range(8):
        (store.fail if k == 4 else store.put)(f"k{k}", CELL, ValueError() if k == 4 else {}, 0.0)
    assert [record.key for record in store.results()] == [f"k{k}" for k in range(8)]
    assert [record.key for record in store.results("failed")] == ["k4"]
    assert len(list(store.results("done"))) == 7
    with pytest.raises(ValueError, match="status must be"):
        next(store.results("open"))


def test_one_may_write_while_results_are_gone_through(store):
    store.put("a", CELL, {}, 0.0)
    for record in store.results():
        if len(store) < 5:
            store.put(record.key + "x", CELL, {}, 0.0)
    assert len(store) == 5


def test_what_is_not_json_is_refused_and_changes_nothing(store):
    for result in ({"score": float("nan")}, {"score": object()}):
        with pytest.raises((TypeError, ValueError)):
            store.put("a", CELL, result, 0.0)
    assert store.get("a") is None


def test_claims_are_of_what_is_open_only(store):
    me = Owner.current()
    store.put("done", CELL, {}, 0.0)
    store.fail("failed", CELL, ValueError(), 0.0)
    assert store.claim(["done", "failed", "open"], me) == ["open"]
    assert store.claim(["open"], replace(me, token="another run")) == []
    assert store.claims() == {"open": me}
    store.put("open", CELL, {}, 0.0)
    assert store.claims() == {}
    assert store.claim(["open"], me) == []


def test_failures_are_claimed_if_they_are_old_enough(store):
    store.put("done", CELL, {}, 0.0)
    store.fail("failed", CELL, ValueError(), 0.0)
    at = store.get("failed").created
    assert store.claim(["failed"], Owner.current(), retry_before=at) == []
    assert store.claim(["failed", "done"], Owner.current(), retry_before=at + 1) == ["failed"]


def test_only_the_owner_releases(store):
    me = Owner.current()
    store.claim(["a", "b"], me)
    store.release(["a", "b"], replace(me, token="another run"))
    assert set(store.claims()) == {"a", "b"}
    store.release(["a"], me)
    assert set(store.claims()) == {"b"}


def test_a_living_process_keeps_its_claims_and_a_dead_one_does_not(store):
    me = Owner.current()
    with process() as other:
        owner = owner_of(other.pid)
        assert store.claim(["a"], owner) == ["a"]
        assert owner.lives() is True
        assert store.claim(["a"], me) == []
        other.kill()
        end = time.monotonic() + 10
        while owner.lives() and time.monotonic() < end:
            time.sleep(0.001)
        assert other.returncode is None  # it has not been asked about, so that the system still lists it
        assert store.claim(["a"], me) == ["a"]
    assert owner.lives() is False
    assert store.claims() == {"a": me}


def test_another_process_of_the_same_number_is_not_the_owner(store):
    with process() as other:
        earlier = replace(owner_of(other.pid), started="when another had the number")
        store.claim(["a"], earlier)
        assert store.claim(["a"], Owner.current()) == ["a"]


def test_claims_from_elsewhere_end_when_they_are_not_renewed(path):
    me, far = Owner.current(), Owner("far away", 1, "then")
    assert far.lives() is None
    with Store(path, claim_timeout=0.4) as store:
        store.claim(["a"], far)
        for _ in range(4):
            time.sleep(0.15)
            store.renew(far)
            assert store.claim(["a"], me) == []
        time.sleep(0.5)
        assert store.claim(["a"], me) == ["a"]


def test_the_start_of_a_process_can_be_had_from_ps():
    from crossview.experiments.owners import _started_by_ps

    with process() as other:
        first = _started_by_ps(other.pid)
        assert first
        assert first == _started_by_ps(other.pid)
    assert _started_by_ps(other.pid) == ""


def test_threads_share_a_store(store):
    def work(k):
        for j in range(10):
            if store.claim([f"{j}"], replace(Owner.current(), token=str(k))):
                won.append(j)
                store.put(f"{j}", CELL, {"by": k}, 0.0)

    won = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(10))
    assert len(store) == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_store_may_be_open_when_a_process_forks(path):
    # In a process of its own, as others' threads would be warned of here.
    code = """
import os, sys
from crossview.experiments import Store
store = Store(sys.argv[1])
store.put("before", {}, {}, 0.0)
child = os.fork()
if child == 0:
    store.put("child", {}, {}, 0.0)
    assert store.get("before") is not None
    for k in range(20):
        store.put(f"child {k}", {}, {}, 0.0)
    os._exit(0)
for k in range(20):
    store.put(f"parent {k}", {}, {}, 0.0)
store.close()
assert os.waitpid(child, 0)[1] == 0
assert len(store) == 42, len(store)
store.close()
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert len(fakes.table(path)[0]) == 42


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_processes_make_one_store_at_once(path):
    code = """
import os, sys
from crossview.experiments import Store
end, begin = os.pipe()
children = []
for k in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        os.close(begin)
        os.read(end, 1)  # until nobody could write any more
        with Store(sys.argv[1]) as store:
            won = sum(store.put(f"{j}", {}, {"by": k}, 0.0) for j in range(20))
        os._exit(won)
os.close(begin)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
    command = [sys.executable, "-c", code, str(path)]
    won = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert sum(map(int, won)) == 20
    assert len(fakes.table(path)[0]) == 20


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with Store(path) as store:
        store.put("a", CELL, {}, 0.0)
        assert len(store) == 1


def test_a_file_that_is_no_store_is_refused_and_left_alone(path):
    for content in (b"key,score\na,1\n" * 100, b"short", b"\0" * 5000):
        path.write_bytes(content)
        for read_only in (False, True):
            with pytest.raises(StoreError, match="is no store"):
                Store(path, read_only=read_only)
        assert path.read_bytes() == content
    with pytest.raises(StoreError, match="is not a file"):
        Store(path.parent)


def test_a_database_of_another_kind_is_refused_and_left_alone(path):
    change(path, "CREATE TABLE results (key TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another kind"):
        Store(path)
    assert path.read_bytes() == before


def test_a_newer_store_is_refused(path, store):
    store.put("a", CELL, {}, 0.0)
    store.close()
    change(path, "PRAGMA user_version = 2")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="newer crossview: upgrade"):
            Store(path, read_only=read_only)


def test_a_damaged_store_is_refused(path, store):
    for k in range(200):
        store.put(f"{k:064}", CELL, {"score": k, "text": "x" * 200}, 0.0)
    store.close()
    whole = path.read_bytes()
    page = 4096
    for damaged in (
        whole[: len(whole) // 2 + 100],
        whole[: 3 * page] + b"\xa5" * page + whole[4 * page :],
        whole[:100] + b"\xff" * 200 + whole[300:],
    ):
        path.write_bytes(damaged)
        for read_only in (False, True):
            with pytest.raises(StoreError, match="damaged"):
                Store(path, read_only=read_only)
    path.write_bytes(whole)
    with Store(path) as store:
        assert len(store) == 200


def test_a_result_that_is_damaged_is_told_by_its_key(path, store):
    store.put("a", CELL, {"score": 1}, 0.0)
    change(path, "UPDATE results SET result = '{\"sco'")
    with pytest.raises(StoreError, match="damaged at key a"):
        store.get("a")


def test_a_store_that_another_keeps_is_told_of(path, store):
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
        Store(path, busy_timeout=0.1) as mine,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process has kept .* for 0\.1 s"):
            mine.put("a", CELL, {}, 0.0)
        assert mine.get("a") is None  # reading goes on
        other.execute("COMMIT")
        assert mine.put("a", CELL, {}, 0.0)


def test_what_was_interrupted_leaves_nothing_locked(path, store, monkeypatch):
    class Interrupted:
        def __iter__(self):
            yield "a"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.claim(Interrupted(), Owner.current())
    with Store(path, busy_timeout=0.1) as other:
        assert other.claims() == {}
        assert other.put("b", CELL, {}, 0.0)


def test_a_store_is_read_without_being_written_to(path, store):
    store.put("a", CELL, {"score": 1}, 0.0)
    with Store(path, read_only=True) as reader:  # while the other is open, and has not written back its log
        assert reader.get("a").result == {"score": 1}
        store.put("b", CELL, {}, 0.0)
        assert [record.key for record in reader.results()] == ["a", "b"]
        for write in (
            lambda: reader.put("c", CELL, {}, 0.0),
            lambda: reader.claim(["c"], Owner.current()),
            lambda: reader.renew(Owner.current()),
        ):
            with pytest.raises(StoreError, match="without read_only=True"):
                write()
    assert len(store) == 2
    with pytest.raises(FileNotFoundError, match=r"no store .* to read"):
        Store(path.with_name("other.db"), read_only=True)
    with pytest.raises(FileNotFoundError, match="make it first"):
        Store(path.parent / "nowhere" / "results.db")


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_a_file_in_a_folder_that_may_not_be_written_to_is_read():
    code = """
import os, sys
from crossview.experiments import Store, StoreError
if os.geteuid() == 0:  # who may write anywhere
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with Store(sys.argv[1], read_only=True) as store:
    print(store.get("a").result["score"], os.access(os.path.dirname(sys.argv[1]), os.W_OK))
try:
    Store(sys.argv[1])
except StoreError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "results.db"
        with Store(path) as store:
            store.put("a", CELL, {"score": 1}, 0.0)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            command = [sys.executable, "-c", code, str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            path.parent.chmod(0o755)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "1 False"
        assert "open it with read_only=True" in lines[1]
        assert [file.name for file in path.parent.iterdir()] == ["results.db"]
