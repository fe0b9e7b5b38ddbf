"""The README's Python runs, in the order in which it is read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import crossview as cv

README = Path(__file__).parents[1] / "README.md"


def test_the_python_examples_run(monkeypatch, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    rng = np.random.default_rng(0)
    names = {"photos": rng.normal(size=(5, 3)), "sketches": rng.normal(size=(5, 2)), "people": list("aabbc")}
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(block, names)
    assert names["model"].score(names["test"], names["y_test"]) == pytest.approx(0.90, abs=0.01)
    assert names["views"].names == ["photo", "sketch"]
    assert names["search"].best_score_ > 0.6
    assert names["other"].score(names["test"], names["y_test"]) > 0.5
    assert -1 in names["matcher"].predict(names["test"]["right"], "right")
    assert (tmp_path / "right.onnx").exists()
    assert cv.datasets.load_arrays(tmp_path / "my.npz").view_names == ["photo", "sketch"]
