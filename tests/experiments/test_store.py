from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from crossview.experiments import Record, Store, StoreError

RECORD = Record("a", {"method": "MvHE"}, "done", {"score": 0.25, "cmc": [[None, 1.0]]}, None, 1.5, 7.25, "1", {})
FAILED = replace(RECORD, key="b", status="failed", result=None, error={"type": "KeyError", "message": "x"})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


@pytest.fixture
def store(path):
    with Store(path) as store:
        yield store


def change(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def unprivileged(code, *arguments):
    """Run code as a user who may not write anywhere."""
    drop = """
import os, crossview.experiments
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
    command = [sys.executable, "-c", drop + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_put_comes_back(path, store):
    store.put(RECORD)
    store.put(FAILED)
    assert (store.get("a"), store.get("b"), store.get("c")) == (RECORD, FAILED, None)
    store.close()
    with Store(path) as again:
        assert list(again.results()) == [RECORD, FAILED]
        assert len(again) == 2


def test_a_record_replaces_an_earlier_one(store):
    store.put(RECORD)
    store.put(FAILED)
    store.put(replace(RECORD, seconds=2.0))
    assert store.get("a").seconds == 2.0
    assert [record.key for record in store.results()] == ["b", "a"]


def test_one_may_write_while_results_are_gone_through(store):
    store.put(RECORD)
    for record in store.results():
        store.put(replace(record, key=record.key + "x"))
    assert len(store) == 2


def test_what_is_not_json_is_refused_and_changes_nothing(store):
    for result in ({"score": float("nan")}, {"score": object()}):
        with pytest.raises((TypeError, ValueError)):
            store.put(replace(RECORD, result=result))
    assert store.get("a") is None


def test_a_second_writer_is_refused(path, store):
    store.put(RECORD)
    with pytest.raises(StoreError, match=rf"{path.parent} is in use by another run: wait until it ends"):
        Store(path)
    code = "import sys\nfrom crossview.experiments import Store, StoreError\ntry:\n    Store(sys.argv[1])\n"
    code += "except StoreError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    assert "is in use by another run" in done.stdout
    store.put(FAILED)
    store.close()
    with Store(path) as other:
        assert len(other) == 2


def test_threads_exclude_each_other(path):
    held, refused = [], []
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        try:
            with Store(path):
                held.append(1)
                barrier.wait()
        except StoreError:
            refused.append(1)
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with Store(path) as store:
        store.put(RECORD)
        assert len(store) == 1


def test_a_store_whose_creation_was_cut_short_is_completed(path):
    change(path, "PRAGMA journal_mode = WAL")
    with Store(path) as store:
        store.put(RECORD)
        assert store.get("a") == RECORD


def test_a_file_that_is_no_store_is_refused_and_left_alone(path):
    for content in (b"key,score\na,1\n" * 100, b"short", b"\0" * 5000):
        path.write_bytes(content)
        for read_only in (False, True):
            with pytest.raises(StoreError, match="is not a store"):
                Store(path, read_only=read_only)
        assert path.read_bytes() == content
    with pytest.raises(StoreError, match="is not a store"):
        Store(path.parent)


def test_a_database_of_another_kind_is_refused_and_left_alone(path):
    change(path, "CREATE TABLE results (key TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another kind"):
        Store(path)
    assert path.read_bytes() == before


def test_a_store_of_another_version_is_refused(path, store):
    store.put(RECORD)
    store.close()
    change(path, "PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="another version of crossview: use that one, or another folder"):
            Store(path, read_only=read_only)


def test_a_damaged_store_is_refused(path, store):
    for k in range(200):
        store.put(replace(RECORD, key=f"{k:064}", result={"score": k, "text": "x" * 200}))
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


@pytest.mark.parametrize(
    "damage",
    [
        "record = replace(record, '0.25', '0.26')",
        "record = substr(record, 1, 20)",
        "record = CAST(x'7b22ff' AS TEXT)",
        "record = 7",
        "record = x'00'",
        "digest = 'b'",
    ],
)
def test_a_damaged_row_is_reported_and_ignored(path, store, caplog, damage):
    store.put(RECORD)
    store.put(FAILED)
    change(path, f"UPDATE results SET {damage} WHERE key = 'a'")
    assert store.get("a") is None
    assert caplog.messages == [f"{path}: the result with key a is damaged; a run computes it again."]
    assert list(store.results()) == [FAILED]
    store.put(RECORD)
    assert store.get("a") == RECORD


@pytest.mark.parametrize(
    "text",
    [
        asdict(RECORD) | {"more": 1},
        {"key": "a"},
        asdict(RECORD) | {"result": None},
        asdict(RECORD) | {"result": "x"},
        asdict(FAILED) | {"key": "a", "error": 5},
        7,
        "[" * 100_000,
        "{",
    ],
)
def test_a_row_with_other_fields_is_reported_and_ignored(path, store, caplog, text):
    text = text if isinstance(text, str) else json.dumps(text)
    store.put(FAILED)
    store._rows("INSERT INTO results VALUES (?, ?, ?)", "a", text, hashlib.sha256(text.encode()).hexdigest())
    assert store.get("a") is None
    assert caplog.messages == [f"{path}: the result with key a is damaged; a run computes it again."]
    assert list(store.results()) == [FAILED]


def test_no_flipped_bit_loses_a_record_without_a_word(path, store, caplog):
    records = [replace(RECORD, key=hashlib.sha256(bytes([k])).hexdigest(), seconds=k / 7) for k in range(40)]
    for record in records:
        store.put(record)
    store.close()
    whole, chance, damaged = path.read_bytes(), random.Random(0), 0
    for _ in range(1500):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        caplog.clear()
        try:
            with Store(path, read_only=True) as other:
                lost = [record for record in records if other.get(record.key) != record]
        except StoreError:
            damaged += 1
        else:
            assert len(caplog.messages) >= len(lost)
    assert 100 < damaged < 1400


def test_rows_that_change_places_are_damaged(path, store, caplog):
    store.put(RECORD)
    store.put(FAILED)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        change(path, "UPDATE results SET key = ? WHERE key = ?", new, old)
    assert (store.get("a"), store.get("b")) == (None, None)
    assert len(caplog.messages) == 2


def test_a_store_that_another_program_keeps_locked_is_told_of(path, monkeypatch):
    monkeypatch.setattr("crossview.experiments.store._TIMEOUT", 0.1)
    with Store(path) as store, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"results\.db is locked by another program: close it, and run again"):
            store.put(RECORD)
        assert store.get("a") is None  # reading goes on
        other.execute("COMMIT")
        store.put(RECORD)


def test_a_full_disk_is_told_of(path, store):
    store.put(RECORD)
    store._connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(StoreError, match=r"results\.db cannot be written, as the disk is full: free some space"):
        store.put(replace(FAILED, error={"message": "x" * 50_000}))
    store._connection.execute("PRAGMA max_page_count = 3000")
    store.put(FAILED)
    assert list(store.results()) == [RECORD, FAILED]


def test_a_store_is_read_without_being_written_to(path, store):
    store.put(RECORD)
    with Store(path, read_only=True) as reader:  # while the other is open, and has not written back its log
        assert reader.get("a") == RECORD
        store.put(FAILED)
        assert list(reader.results()) == [RECORD, FAILED]
        with pytest.raises(StoreError, match="without read_only=True"):
            reader.put(RECORD)
    assert len(store) == 2
    with pytest.raises(FileNotFoundError, match=r"does not exist\. Check the name"):
        Store(path.with_name("other.db"), read_only=True)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist\. Create it first"):
        Store(path.parent / "nowhere" / "results.db")


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_what_may_not_be_written_to_is_read_or_named_with_the_fix():
    code = """
import os, sys
from crossview.experiments import Store, StoreError
with Store(sys.argv[1], read_only=True) as store:
    print(store.get("a").result["score"], os.access(os.path.dirname(sys.argv[1]), os.W_OK))
for path in (sys.argv[1], sys.argv[1] + "-new"):
    try:
        Store(path)
    except StoreError as error:
        print(error)
"""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "results.db"
        with Store(path) as store:
            store.put(RECORD)
        before = set(path.parent.iterdir())
        for file in before:
            file.chmod(0o444)
        path.parent.chmod(0o555)
        try:
            lines = unprivileged(code, path)
        finally:
            path.parent.chmod(0o755)
        assert lines[0] == "0.25 False"
        fix = "cannot be written: make it and its folder writable, or choose another folder"
        assert lines[1].startswith(f"{path} {fix}")
        assert lines[2].startswith(f"{path}-new {fix}")
        assert set(path.parent.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "results.db")
    with pytest.raises(StoreError, match=r"results\.db is not a store of results: choose another name"):
        Store(tmp_path / "results.db")
