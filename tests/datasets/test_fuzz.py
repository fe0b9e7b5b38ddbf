"""A sample of `python tests/fuzz_data.py`."""

import sys
from itertools import islice

import fuzz_data
import fuzzing
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory with Linux's means")


@pytest.mark.parametrize(("kind", "n"), [("mats", 40), ("arrays", 100), ("images", 60)])
def test_damaged_files_give_data_or_one_line(kind, n):
    make, _, _ = fuzz_data.MAKERS[kind]
    found = fuzzing.run("fuzz_data", islice(make(seed=1), n))
    assert found["failures"] == []
    assert set(found["outcomes"]) == {"data", "error"}
    assert sum(found["outcomes"].values()) == n
