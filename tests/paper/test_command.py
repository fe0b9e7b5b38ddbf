from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run

from paper import __main__ as module

ROOT = Path(__file__).parents[2]


def reproduce(*arguments, status=0):
    return run(*arguments, status=status, of=module.app)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-8"], "unknown experiment 'table-8': use one of table-1"),
        (["table-6", "--cases", "one"], "--cases must be numbers separated by commas"),
        (["table-6", "--methods", "MvHE,NCA"], "NCA is not in the paper: leave it out here"),
        (["table-6"], "nothing can run without data"),
        (["table-6", "--cases", "9"], "--cases from 1 to 8 (CMU PIE) or 1 to 4 (COIL-100)"),
    ],
)
def test_what_cannot_be_reproduced_is_told_in_a_line(arguments, message, tmp_path):
    result = reproduce(*arguments, "-o", tmp_path / "out", status=1)
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_files_of_others_are_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("crossview.cli.reports.compute_cells", lambda *args: pytest.fail("began"))
    (tmp_path / "table-5").mkdir()
    (tmp_path / "table-5" / "report.html").write_text("mine")
    told = reproduce("table-5", "-o", tmp_path, "--quick", status=1).stderr
    assert "table-5 holds files that are no results of crossview: choose another --output" in told


@pytest.mark.skipif("CROSSVIEW_DATA" not in os.environ, reason="CROSSVIEW_DATA is not set")
def test_what_the_data_allow_runs_in_several_processes(tmp_path):
    given = f"table-2 figure-2d --quick --repeats 1 --n-iter 1 --methods PCA,MvHE --no-static --jobs 2 -o {tmp_path}"
    words = [sys.executable, "-m", "paper", *shlex.split(given), "--data", os.environ["CROSSVIEW_DATA"]]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}  # the folder of the checkout comes with -m
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "Parts of MvHE on CMU PIE" in done.stdout
    assert "cmu-pie case 5 cannot run" in done.stderr
    page = re.sub("<[^>]+>", "", (tmp_path / "table-2+figure-2d" / "report.html").read_text())
    assert "python -m paper table-2 figure-2d" in page
    assert "66.1" in page  # published
