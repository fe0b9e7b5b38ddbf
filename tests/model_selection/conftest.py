from contextlib import contextmanager

import pytest


@pytest.fixture
def told(monkeypatch):
    """What searches report as their progress; the total is the final one."""
    calls = []

    @contextmanager
    def record(label, total, *, unit):
        calls.append((label, total, unit))

        def advance(steps=1, now=None, *, restored=0, more=0):
            calls[0] = (label, calls[0][1] + more, unit)
            calls.append((steps, now, restored))

        yield advance

    monkeypatch.setattr("crossview.model_selection.search.progress", record)
    return calls
