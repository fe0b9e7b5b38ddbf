from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

# What `make test` leaves to `make test-all`: fuzzing, kills, clusters, browsers, pages, and what else takes seconds.
# A name stands for a file, or for a test with all its parameters.
EXHAUSTIVE = tuple((Path(__file__).parent / "exhaustive.txt").read_text(encoding="utf-8").split())

# What `make test-core` and `make test-oldest` do without.
MISSING = [name for name in ("cca_zoo", "faiss", "torch") if find_spec(name) is None]


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if any(name == one or name.startswith(f"{one}::") for one in EXHAUSTIVE):
            item.add_marker(pytest.mark.exhaustive)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test that needs what is not installed."""
    try:
        return (yield)
    except ImportError as error:
        if any(name in str(error).lower() for name in MISSING):
            pytest.skip(str(error))
        raise
