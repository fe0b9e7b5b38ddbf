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
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from crossview import _store
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


def test_what_is_put_comes_back_and_replaces_what_was_there(path, store):
    store.put(RECORD)
    store.put(FAILED)
    assert (store.get("a"), store.get("b"), store.get("c")) == (RECORD, FAILED, None)
    later = replace(RECORD, seconds=2.0)
    store.put(later)
    store.close()
    with Store(path) as again:
        assert list(again.results()) == [FAILED, later]
        assert len(again) == 2


def test_what_is_not_json_is_refused_and_changes_nothing(store):
    for result in ({"score": float("nan")}, {"score": object()}):
        with pytest.raises((TypeError, ValueError)):
            store.put(replace(RECORD, result=result))
    assert store.get("a") is None


def test_a_second_run_is_refused_but_not_a_reader(path, store):
    store.put(RECORD)
    with pytest.raises(StoreError, match=rf"{path.parent} is in use by another run: wait until it ends"):
        Store(path)
    code = "import sys\nfrom crossview.experiments import Store, StoreError\ntry:\n    Store(sys.argv[1])\n"
    code += "except StoreError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    assert "is in use by another run" in done.stdout
    with _store.Store(path) as reader:  # while the other is open, and has not written back its log
        assert reader.get("a") == asdict(RECORD)
        store.put(FAILED)
        assert list(reader.results()) == [asdict(RECORD), asdict(FAILED)]
    store.close()
    with Store(path) as other:
        assert len(other) == 2


def test_processes_write_at_the_same_time_unless_one_excludes_others(path):
    code = (
        "import sys\nfrom crossview._store import Store\nfor k in range(20):\n    with Store(sys.argv[1]) as store:\n"
    )
    code += "        store.put({'key': f'{sys.argv[2]} {k}'})"
    with _store.Store(path) as store:
        writers = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abc"]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
        assert {entry["key"] for entry in store.results()} == {f"{name} {k}" for name in "abc" for k in range(20)}
    _store.delete_store(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("begun", [lambda path: path.touch(), lambda path: change(path, "PRAGMA journal_mode = WAL")])
def test_a_store_whose_creation_was_cut_short_is_completed(path, begun):
    begun(path)
    with Store(path) as store:
        store.put(RECORD)
        assert store.get("a") == RECORD


def test_other_files_are_refused_and_left_alone(path):
    for content in (b"key,score\na,1\n" * 100, b"short", b"\0" * 5000):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="does not hold results of crossview"):
            Store(path)
        assert path.read_bytes() == content
    with pytest.raises(StoreError, match="does not hold results of crossview"):
        Store(path.parent)
    path.unlink()
    change(path, "CREATE TABLE results (key TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another kind"):
        Store(path)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist: create it first"):
        Store(path.parent / "nowhere" / "results.db")


def test_a_store_of_another_version_is_refused(path, store):
    store.close()
    change(path, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="another version of crossview: use that one, or another folder"):
        Store(path)


def test_a_damaged_store_is_refused(path, store):
    for k in range(200):
        store.put(replace(RECORD, key=f"{k:064}", result={"score": k, "text": "x" * 200}))
    store.close()
    whole = path.read_bytes()
    page = 4096
    for damaged in (
        whole[:7],
        whole[: len(whole) // 2 + 100],
        whole[: 3 * page] + b"\xa5" * page + whole[4 * page :],
        whole[:100] + b"\xff" * 200 + whole[300:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(_store.DamagedStoreError, match="damaged"):
            Store(path)
    path.write_bytes(whole)
    with Store(path) as store:
        assert len(store) == 200


def row(text):
    text = text if isinstance(text, str) else json.dumps(text)
    return "record = ?, digest = ?", text, hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "damage",
    [
        ("record = replace(record, '0.25', '0.26')",),
        ("record = substr(record, 1, 20)",),
        ("record = CAST(x'7b22ff' AS TEXT)",),
        ("record = 7",),
        ("record = x'00'",),
        ("digest = 'b'",),
        row(asdict(RECORD) | {"more": 1}),
        row({"key": "a"}),
        row(asdict(RECORD) | {"key": "b"}),
        row(asdict(RECORD) | {"result": None}),
        row(asdict(RECORD) | {"result": "x"}),
        row(asdict(FAILED) | {"key": "a", "error": 5}),
        row(7),
        row("[" * 100_000),
        row("{"),
    ],
)
def test_a_damaged_row_is_reported_and_ignored(path, store, caplog, damage):
    store.put(RECORD)
    store.put(FAILED)
    statement, *values = damage
    change(path, f"UPDATE results SET {statement} WHERE key = 'a'", *values)
    assert store.get("a") is None
    assert caplog.messages == [f"{path}: the result with key a is damaged; a run computes it again."]
    assert list(store.results()) == [FAILED]
    store.put(RECORD)
    assert store.get("a") == RECORD


def test_no_flipped_bit_loses_a_record_without_a_word(path, store, caplog):
    records = [replace(RECORD, key=hashlib.sha256(bytes([k])).hexdigest(), seconds=k / 7) for k in range(40)]
    for record in records:
        store.put(record)
    store.close()
    whole, chance, damaged = path.read_bytes(), random.Random(0), 0
    for _ in range(600):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        caplog.clear()
        try:
            with _store.Store(path) as other:
                lost = [record for record in records if other.get(record.key) != asdict(record)]
        except StoreError:
            damaged += 1
        else:
            assert len(caplog.messages) >= len(lost)
    assert 40 < damaged < 560


def test_a_store_that_another_program_keeps_locked_is_told_of(path, monkeypatch):
    monkeypatch.setattr("crossview._store._TIMEOUT", 0.1)
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
    with pytest.raises(StoreError, match=r"results\.db cannot be written: check the disk and its free space"):
        store.put(replace(FAILED, error={"message": "x" * 50_000}))
    store._connection.execute("PRAGMA max_page_count = 3000")
    store.put(FAILED)
    assert list(store.results()) == [RECORD, FAILED]


@pytest.mark.skipif(os.name != "posix", reason="permissions are others here")
def test_what_may_not_be_written_to_is_named_with_the_fix():
    code = """
import os, sys, crossview.experiments
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in (sys.argv[1], sys.argv[1] + "-new"):
    try:
        crossview.experiments.Store(path)
    except crossview.experiments.StoreError as error:
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
            done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
        finally:
            path.parent.chmod(0o755)
        fix = "cannot be written: make it and its folder writable, or choose another folder"
        for line, file in zip(done.stdout.splitlines(), (path, f"{path}-new"), strict=True):
            assert line.startswith(f"{file} {fix}")
        assert set(path.parent.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "results.db")
    with pytest.raises(StoreError, match=r"results\.db does not hold results of crossview: choose another name"):
        Store(tmp_path / "results.db")
