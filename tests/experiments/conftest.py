from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Workers are told the path, and so find the functions they are given.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The file in which the functions of `fakes` note what they do, here and in all processes that are started."""
    path = tmp_path / "log.txt"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    monkeypatch.setenv("FAKE_SLEEP", "0")
    return path
