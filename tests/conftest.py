from __future__ import annotations

from importlib.util import find_spec

import pytest

MISSING = [name for name in ("faiss", "torch") if find_spec(name) is None]  # see `make test-core`


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test that needs what is not installed."""
    try:
        return (yield)
    except ImportError as error:
        if any(name in str(error).lower() for name in MISSING):
            pytest.skip(str(error))
        raise
