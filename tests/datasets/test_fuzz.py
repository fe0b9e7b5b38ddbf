"""A sample of `python tests/fuzz_data.py`."""

import sys

import fuzz_data
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory with Linux's means")


@pytest.mark.parametrize(("make", "n"), [(fuzz_data.mats, 60), (fuzz_data.arrays, 120), (fuzz_data.images, 70)])
def test_damaged_files_give_data_or_one_line(make, n):
    found = fuzz_data.run(make(n, seed=1))
    assert found["failures"] == []
    assert set(found["outcomes"]) == {"data", "error"}
    assert sum(found["outcomes"].values()) == n
