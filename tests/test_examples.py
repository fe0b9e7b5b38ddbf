import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_from_data_to_decision(tmp_path):
    pytest.importorskip("onnxruntime")
    command = [sys.executable, str(EXAMPLES / "from_data_to_decision.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = re.findall(r"The same (\d+) answers without crossview, (\d+) of them 'unknown'", done.stdout)
    assert [int(probes) for probes, _ in answers] == [60, 200]
    assert all(int(unknown) < int(probes) for probes, unknown in answers)
    # 20 probes show objects, and about 40 digits, that are not enrolled.
    assert all(int(unknown) > 0.05 * int(probes) for probes, unknown in answers)
    for data in ("images", "tables"):
        for page in ("comparison", "evaluation"):
            assert (tmp_path / data / page / "report.html").is_file()


def test_an_example_without_its_folder_says_how_to_run_it():
    pytest.importorskip("onnxruntime")
    command = [sys.executable, str(EXAMPLES / "from_data_to_decision.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "usage: python examples/from_data_to_decision.py FOLDER\n"
