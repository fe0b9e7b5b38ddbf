from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from commands import run
from methods import make

import crossview as cv
from crossview._progress import _State
from crossview.cli.reports import Watch
from crossview.datasets.registry import open_dataset
from crossview.experiments import Cell, Store
from crossview.report.comparison import comparison_report

ARRAYS, Y = make(m=96, sizes=(8, 8), n_classes=24)
SMALL = ("--methods", "PCA,MvDA,MvHE", "--repeats", 2, "--n-iter", 2, "--pca", "4,6", "--jobs", 1, "--no-static")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    return path


def stored(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT key, record FROM results ORDER BY key").fetchall()
    records = [(key, json.loads(text)) for key, text in rows]
    return [(key, record["result"], record["created"]) for key, record in records]


def test_compare_writes_a_report_and_the_same_command_computes_only_what_is_damaged(data, tmp_path):
    out_folder = tmp_path / "[bold]x[/]"  # no markup
    path = out_folder / "results.db"
    result = run("compare", data, "-o", out_folder, *SMALL)
    assert "MvHE" in result.stdout
    assert "±" in result.stdout
    assert "MvHE × 8 is a committee of the 8 best settings of the search" in result.stdout
    assert "A probe's own counterpart, the same sample in the other view, is left out" in result.stdout
    page = re.sub("<[^>]+>", "", (out_folder / "report.html").read_text())
    assert f"crossview compare {data} --output" in page
    assert f"report: {out_folder}/report.html" in result.stdout
    assert {path.name for path in (out_folder / "tables").iterdir()} >= {"comparison.csv", "comparison.tex"}
    before = stored(path)
    assert len(before) == 6
    found = json.loads(run("compare", data, "-o", out_folder, *SMALL, "--json").stdout)
    assert stored(path) == before
    assert found["failed"] == 0
    assert {entry["row"] for entry in found["entries"]} == {"PCA", "MvDA", "MvHE", "MvHE × 8"}
    assert {entry["table"] for entry in found["entries"]} == {"comparison", "comparison-directions"}
    assert "mean average precision" in {entry["column"] for entry in found["entries"]}
    assert "over folds of classes" in found["summary"]
    best = {entry["row"]: entry["mean"] for entry in found["entries"] if entry["column"] == "accuracy"}
    assert best["MvHE"] > best["PCA"]
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE results SET digest = 'x' WHERE key = ?", (before[0][0],))
    told = run("compare", data, "-o", out_folder, *SMALL).stderr
    assert f"{path}: the result with key {before[0][0]} is damaged" in told
    after = stored(path)
    assert after[0][1]["score"] == before[0][1]["score"]
    assert after[0][2] > before[0][2]
    assert after[1:] == before[1:]


def test_a_log_says_what_is_computed_and_what_was_restored(data, tmp_path, monkeypatch):
    monkeypatch.setattr("crossview._progress._FIRST_LINE", 0.001)
    monkeypatch.setattr("crossview._progress._INTERVAL", 0.001)
    options = ("--repeats", 1, "--n-iter", 2, "--pca", "4", "--jobs", 1, "--no-static", "-o", tmp_path / "out")
    told = run("compare", data, "--methods", "MvHE", *options).stderr
    assert re.search(r"Computing: 0 of 1 results, 0:00 elapsed; now MvHE, split 1( \(0 of \d+ fits\))?\n", told)
    told = run("compare", data, "--methods", "MvHE,PCA", *options).stderr
    assert "Computing: resuming with 1 of 2 results done\n" in told
    assert "now PCA, split 1" in told
    report = lambda *given: time.sleep(0.2) or comparison_report(*given)  # noqa: E731
    monkeypatch.setattr("crossview.cli.comparison.comparison_report", report)
    assert "Preparing the report: 0 of 1" in run("compare", data, "--methods", "MvHE", *options).stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_says_how_far_a_slow_method_is(jobs, data, tmp_path, monkeypatch):
    monkeypatch.setattr("crossview._progress._FIRST_LINE", 0.001)
    monkeypatch.setattr("crossview._progress._INTERVAL", 0.001)
    monkeypatch.setattr("crossview._progress._BETWEEN", 0.0)  # of this process alone
    options = ("--methods", "MvHE", "--repeats", 2, "--n-iter", 4, "--pca", "4", "--no-static", "-o", tmp_path / "out")
    told = run("compare", data, *options, "--jobs", jobs).stderr
    more = " and 1 more" if jobs == 2 else ""
    found = re.findall(rf"now MvHE, split 1 \((\d+) of (\d+) fits\){more}\n", told)
    assert len(set(found)) >= (4 if jobs == 1 else 1)
    assert all(int(done) <= int(total) for done, total in found)


def test_the_time_left_is_what_is_known_of_it(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    state = _State("Computing", 7, "results")
    watch = Watch(7, state.advance)
    kernel, linear = ([Cell(data="digits", method=name, repeat=k) for k in range(3)] for name in ("KMvHE", "PCA"))
    for cell in (*kernel, *linear):
        watch("waits", cell, None)

    def told(seconds, event, cell, about=None):
        clock[0] += seconds
        watch(event, cell, about)
        return re.sub("; now.*", "", state.line)

    assert told(0, "starts", kernel[0]) == "Computing: 1 of 7 results, 0:00 elapsed"  # one was restored
    assert told(0, "starts", kernel[1]) == "Computing: 1 of 7 results, 0:00 elapsed"
    # A quarter took 60 seconds, so these two take 180 more each, and the third 240; of PCA, nothing is known.
    assert told(60, "fits", kernel[0], (10, 40)).endswith("1:00 elapsed, at least 5:00 left")
    assert told(0, "fits", kernel[1], (10, 40)).endswith("at least 5:00 left")
    clock[0] += 60
    assert state.line.partition(";")[0].endswith("at least 4:00 left")
    told(180, "ends", kernel[0])
    assert told(0, "starts", kernel[2]).endswith("at least 5:00 left")
    told(0, "ends", kernel[1])
    assert told(200, "starts", linear[0]).endswith("at least 1:40 left")
    told(10, "ends", linear[0])
    assert told(0, "starts", linear[1]).endswith("about 1:30 left")
    assert told(40, "fits", linear[1], (1, 2)).endswith("at least 0:50 left")  # longer than the first one took
    told(0, "ends", linear[1])
    told(50, "ends", kernel[2])
    assert told(0, "starts", linear[2]).endswith("6 of 7 results, 10:00 elapsed, about 0:25 left")
    assert "left" not in told(60, "fits", linear[2], (0, 9))


def test_compare_loads_its_data_once(data, tmp_path, monkeypatch):
    opened, opening = [], open_dataset
    for where in ("crossview.cli.data", "crossview.experiments.plans"):
        monkeypatch.setattr(f"{where}.open_dataset", lambda *a, **o: opened.append(a[0]) or opening(*a, **o))
    how = ("--train-data", data, "--test-data", data)
    few = ("--methods", "PCA,MvDA", "--n-iter", 1, "--pca", 4, "--jobs", 1, "--no-static")
    run("compare", *how, *few, "-o", tmp_path / "out")
    assert opened == [str(data)] * 2


def test_the_recommended_model_is_made_by_the_command(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = (*SMALL[2:], "--methods", "RawFeatures,MvDA,MvHE", "--seed", 3, "--scoring", "average_precision")
    few = (*few, "--split", "samples", "--train", 2)
    found = json.loads(run("compare", data, "-o", "out", *few, "--json").stdout)
    columns = ["accuracy", "one-shot", "mean average precision", "with counterparts", "in validation"]
    entries = [entry for entry in found["entries"] if entry["table"] == "comparison"]
    assert list(dict.fromkeys(entry["column"] for entry in entries)) == columns
    assert entries[0]["row"] == "RawFeatures"
    means = {(entry["row"], entry["column"]): entry["mean"] for entry in entries}
    row, validation, command = (found["recommended"][name] for name in ("row", "validation", "command"))
    assert means[row, "in validation"] == pytest.approx(100 * validation)
    assert row != "RawFeatures"  # coordinates have nothing in common
    options, method = "--n-iter 2 --scoring average_precision --seed 3", row.replace(" × ", " --n-members ")
    assert command == f"crossview tune {data} --cv samples {options} --method {method} -o my.model"
    assert f"Recommended by validation scores alone: {row}" in found["summary"]
    told = run("compare", data, "-o", "out", *few).stdout.splitlines()
    assert told[told.index("To make this model, run:") + 1] == command
    page = (tmp_path / "out" / "report.html").read_text()
    assert command in re.sub("<[^>]+>", "", page)
    with open(tmp_path / "out" / "tables" / "comparison.csv", newline="") as file:
        assert {line["column"] for line in csv.DictReader(file)} == set(columns)
    run(*command.split()[1:])
    assert cv.load(tmp_path / "my.model").folds_of_ == "samples"


@pytest.fixture
def parts(tmp_path):
    """Training and test samples of the same classes, and test samples of other classes."""
    known, new = Y < 18, np.array([label not in Y[:k] for k, label in enumerate(Y)])
    for name, rows in (("train", known & ~new), ("test", known & new), ("others", ~known)):
        np.savez(tmp_path / f"{name}.npz", photo=ARRAYS[0][rows], sketch=ARRAYS[1][rows], y=Y[rows])
    return tmp_path


GIVEN = ("--n-iter", 2, "--pca", "4,6", "--jobs", 1, "--no-static")


def test_compare_on_a_given_test_set(parts, tmp_path):
    where = ("--train-data", parts / "train.npz", "--test-data")
    few = (*GIVEN, "--methods", "PCA,MvDA", "--json")
    found = json.loads(run("compare", *where, parts / "test.npz", "-o", tmp_path / "a", *few).stdout)
    train, test = (np.load(parts / f"{name}.npz")["y"] for name in ("train", "test"))
    assert found["sizes"] == {
        "train": {"samples": len(train), "classes": len(np.unique(train))},
        "test": {"samples": len(test), "classes": len(np.unique(test))},
    }
    assert found["data"] == {"name": str(parts / "train.npz"), "test_data": str(parts / "test.npz")}
    assert found["split"] == {"kind": "given", "n_train": len(train), "n_repeats": 1, "seed": 0}
    assert found["folds_of"] == "samples"
    assert found["standard_errors_over"] == "test samples"
    assert found["report"] == str(tmp_path / "a" / "report.html")
    accuracy = {entry["row"]: entry for entry in found["entries"] if entry["column"] == "accuracy"}
    assert all(entry["se"] > 0 and entry["sd"] is None for entry in accuracy.values())
    assert found["best"] == ["MvDA"]
    assert "all of them seen in training, in the given test set" in found["summary"]
    other = json.loads(run("compare", *where, parts / "others.npz", "-o", tmp_path / "b", *few).stdout)
    assert other["folds_of"] == "classes"
    assert other["standard_errors_over"] == "test classes"
    assert "none of them seen in training" in other["summary"]
    assert stored(tmp_path / "a" / "results.db")[0][0] != stored(tmp_path / "b" / "results.db")[0][0]


def test_the_error_of_a_given_test_set_is_labelled_and_samples_in_both_are_warned_of(parts, tmp_path):
    where = ("--train-data", parts / "train.npz", "--test-data", parts / "train.npz")
    result = run("compare", *where, "-o", tmp_path / "a", *GIVEN, "--methods", "MvDA")
    page = (tmp_path / "a" / "report.html").read_text()
    assert "± standard error over the test samples" in " ".join(result.stdout.split())
    assert "± standard error over the test samples" in page
    assert "warning: " in result.stderr
    assert "test samples are also in the training data" in result.stderr
    assert "test samples are also in the training data" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train-data", "train.npz"], "--train-data and --test-data belong together: pass both"),
        (["digits", "--train-data", "train.npz", "--test-data", "test.npz"], "leave out DATA, --repeats"),
        (["--train-data", "train.npz", "--test-data", "test.npz", "--train", 3], "leave out DATA, --repeats"),
        (["--train-data", "train.npz", "--test-data", "digits"], "digits has no view 'photo', which train.npz has"),
        (["pairs.npz", "--train", 1], "needs two training samples of every class, or four training classes"),
        (["one.npz"], "one.npz has only 'a'"),
        (["same.npz"], "same.npz belong to one class"),
        (["nowhere"], "nowhere is neither a data set"),
        (["--methods", "mvhe,mvda vc"], "unknown method 'mvda vc': use one of PCA"),
        (["--methods", ","], "--methods is empty"),
        (["--pca", "ten"], "--pca must be numbers separated by commas"),
        (["--train", "2000"], "2000"),
        (["data.npz", "--scheduler", "there"], "scheduler must be an address such as tcp://"),
        (["data.npz", "-o", "data.npz"], "data.npz is a file, not a folder: choose another --output"),
        (["data.npz", "-o", "data.npz/out"], "choose another --output"),
        (["data.npz", "-o", "[i].npz"], "error: [i].npz is a file"),
    ],
)
def test_what_cannot_be_a_comparison_is_refused_in_a_line(arguments, message, parts, data, monkeypatch):
    monkeypatch.chdir(parts)
    np.savez("pairs.npz", a=ARRAYS[0][:9], b=ARRAYS[1][:9], y=np.arange(9) % 3)
    np.savez("one.npz", a=ARRAYS[0], y=Y)
    np.savez("same.npz", a=ARRAYS[0], b=ARRAYS[1], y=np.zeros(96, dtype=int))
    (parts / "[i].npz").touch()
    result = run("compare", *GIVEN, "-o", "out", *arguments, status=1)
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert not list(parts.glob("out/report*"))


def test_a_second_run_computes_what_is_new_and_replaces_no_report_on_other_data(data, tmp_path):
    where = ("compare", data, "-o", tmp_path / "out", *SMALL[2:])
    run(*where, "--methods", "PCA")
    found = json.loads(run(*where, "--methods", "MvDA,PCA", "--json").stdout)
    assert {entry["row"] for entry in found["entries"]} == {"PCA", "MvDA"}
    records = stored(tmp_path / "out" / "results.db")
    assert len(records) == 4
    run(*where, "--methods", "PCA,MvDA")
    assert stored(tmp_path / "out" / "results.db") == records
    run(*where, "--methods", "PCA", "--seed", 1)
    assert len(stored(tmp_path / "out" / "results.db")) == 6
    before = (tmp_path / "out" / "report.html").read_bytes()
    np.savez(data, photo=ARRAYS[0], sketch=ARRAYS[1], y=Y[::-1])
    told = run(*where, "--methods", "PCA", status=1).stderr
    assert "out holds another report, or one on other data or another model: choose another --output" in told
    assert (tmp_path / "out" / "report.html").read_bytes() == before
    run(*where, "--methods", "PCA", "--overwrite")
    assert (tmp_path / "out" / "report.html").read_bytes() != before


def test_the_default_of_train_is_told(tmp_path):
    few = ("--methods", "PCA", "--repeats", 1, "--n-iter", 1, "--pca", 8, "--jobs", 1, "--no-static")
    result = run("compare", "digits", "-o", tmp_path / "out", *few)
    told = "Training takes 20 samples per class, the default: 200 of 1797 samples. --train changes it."
    assert told in result.stderr
    assert told in " ".join(result.stdout.split())
    assert told in (tmp_path / "out" / "report.html").read_text()
    assert "in 1 random split." in " ".join(result.stdout.split())


def test_a_method_that_is_not_applicable_is_shown_and_does_not_stop_the_rest(tmp_path):
    path = tmp_path / "singles.npz"
    np.savez(path, a=ARRAYS[0], b=ARRAYS[1], y=np.arange(len(Y)))  # no class twice in a view, as MULDA needs
    result = run("compare", path, "-o", tmp_path / "out", *SMALL[2:], "--methods", "MULDA,MvDA")
    assert "n/a" in result.stdout
    assert "Not applicable: MULDA: each class has at most one sample" in result.stderr
    assert "failed" not in result.stderr
    assert "MvDA" in result.stdout
    run("compare", path, "-o", tmp_path / "none", *SMALL[2:], "--methods", "MULDA", status=1)
    page = (tmp_path / "none" / "report.html").read_text()
    assert "No method could be run. MULDA: each class has at most one sample" in page


def test_what_methods_need_of_views_is_told(tmp_path):
    path = tmp_path / "three.npz"
    np.savez(path, a=ARRAYS[0], b=ARRAYS[1], c=ARRAYS[0] + 1, y=Y)
    few = ("--repeats", 1, "--n-iter", 1, "--pca", "6", "--no-static", "--json")
    found = json.loads(run("compare", path, "-o", tmp_path / "out", *few).stdout)
    notes = {entry["row"]: entry["note"] for entry in found["entries"] if entry["column"] == "accuracy"}
    assert next(iter(notes)) == "RawFeatures"
    assert notes.keys() == {"RawFeatures", *cv.METHODS, "MvHE × 8", "KMvHE × 8"}
    assert {row for row, note in notes.items() if "takes 2 views, got 3" in note} == {"CCA", "KCCA", "PLS"}
    result = run("compare", path, "-o", tmp_path / "none", *few, "--methods", "PLS,CCA", status=1)
    assert "error: no method can be applied to these data. PLS: PLS takes 2 views, got 3" in result.stderr
    assert not (tmp_path / "none").exists()


def test_a_folder_in_use_is_told_of(data, tmp_path):
    with Store(tmp_path / "results.db"):
        result = run("compare", data, "-o", tmp_path, *SMALL, status=1)
    assert (
        result.stderr == f"error: {tmp_path} is in use by another run: wait until it ends, or choose another folder.\n"
    )


def test_an_interrupt_is_told_of_in_a_line(data, tmp_path, monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("crossview.experiments.tasks._tune", interrupt)
    result = run("compare", data, "-o", tmp_path, *SMALL, status=130)
    assert result.stderr == "Stopped. Finished results are stored; run the same command again to resume.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "whole", "wait"), [(signal.SIGINT, True, 0.0), (signal.SIGINT, True, 1.0), (signal.SIGTERM, False, 0.5)]
)
def test_stopping_a_run_while_its_workers_start_is_told_of_in_a_line(data, tmp_path, number, whole, wait):
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    words = ["compare", str(data), "-o", str(tmp_path / "out"), "--no-static", "--repeats", "8", "--jobs", "2"]
    words += ["--methods", "PCA,MvDA,MvHE", "--n-iter", "0", "--pca", "4,6"]
    with subprocess.Popen([sys.executable, "-m", "crossview", *words], **options) as process:
        started = psutil.Process(process.pid)
        end = time.monotonic() + 60
        while not any("spawn_main" in " ".join(child.cmdline()) for child in started.children()):
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(wait)
        workers = started.children(recursive=True)
        (os.killpg if whole else os.kill)(process.pid, number)
        _, told = process.communicate(timeout=60)
    told = [line for line in told.splitlines() if not line.startswith("Computing: ")]
    assert told == ["Stopped. Finished results are stored; run the same command again to resume."]
    assert process.returncode == 130
    assert not psutil.wait_procs(workers, timeout=10)[1]


def test_a_report_that_cannot_be_written_is_told_of(data, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("crossview.cli.reports.write_report", full)
    result = run("compare", data, "-o", tmp_path, *SMALL, status=1)
    line = result.stderr.splitlines()[-1]
    assert f"the report cannot be written to {tmp_path}: free some space" in line
    assert "No space left on device" in line
