from __future__ import annotations

from importlib.util import find_spec

import pytest

# What `make test-core` and `make test-oldest` do without.
MISSING = [name for name in ("cca_zoo", "faiss", "torch") if find_spec(name) is None]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test that needs what is not installed."""
    try:
        return (yield)
    except ImportError as error:
        if any(name in str(error).lower() for name in MISSING):
            pytest.skip(str(error))
        raise
