import zipfile

import numpy as np
import pytest
from PIL import Image


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
