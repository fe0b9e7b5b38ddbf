from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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


@pytest.fixture
def draw():
    """Write an image of one grey, or of the given values."""

    def write(path, grey=0, size=(6, 4)):
        path.parent.mkdir(parents=True, exist_ok=True)
        height, width = size
        values = np.full((height, width), grey, dtype=np.uint8) if np.isscalar(grey) else np.asarray(grey)
        Image.fromarray(values).save(path)
        return path

    return write


@pytest.fixture
def pack(tmp_path):
    """Put a folder into a zip archive, below a folder of its name, as archives have it."""

    def write(folder):
        target = tmp_path / f"{folder.name}-packed.zip"
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, f"{folder.name}/{path.relative_to(folder)}")
            archive.writestr(f"__MACOSX/{folder.name}/._1.png", b"rubbish")
        return target

    return write
