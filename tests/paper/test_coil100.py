import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.coil100 import load_coil100

ANGLES = (0, 5, 10, 15, 40, 45, 50, 55)


@pytest.fixture(scope="module")
def coil(tmp_path_factory):
    """Images as in the archive, of one grey that tells object and angle."""
    folder = tmp_path_factory.mktemp("data") / "coil-100"
    folder.mkdir()
    for o in range(1, 101):
        for a in ANGLES:
            Image.new("RGB", (12, 12), (o, o, a)).save(folder / f"obj{o}__{a}.png")
    return folder


def test_coil100_from_a_folder_and_from_the_archive(coil, tmp_path):
    data = load_coil100(coil, case=1, size=4)
    assert data.views.shape == (400, 2)
    assert data.views.names == ["V1", "V2"]
    assert data.views.n_features == (16, 16)
    np.testing.assert_array_equal(data.y, np.repeat(np.arange(1, 101), 4))
    grey = np.asarray(Image.new("RGB", (1, 1), (3, 3, 45)).convert("L"))[0, 0] / 255
    np.testing.assert_allclose(data.views["V2"][9], grey)  # object 3, second angle
    archive = shutil.make_archive(tmp_path / "coil-100", "zip", coil.parent, coil.name)
    packed = load_coil100(archive, case=1, size=4)
    np.testing.assert_array_equal(packed.views["V1"], data.views["V1"])


def test_coil100_says_what_is_wrong(coil, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*Columbia University"):
        load_coil100(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="lacks 400 of 1200 images, among them obj100__105"):
        load_coil100(coil, case=2)
    with pytest.raises(ValueError, match="case must be 1, 2, 3 or 4, got 5"):
        load_coil100(coil, case=5)
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match="file is not a readable folder or zip archive"):
        load_coil100(tmp_path / "file")


@pytest.mark.skipif("CROSSVIEW_DATA" not in os.environ, reason="needs CROSSVIEW_DATA, a folder that holds coil-100/")
def test_coil100_real():
    data = load_coil100(Path(os.environ["CROSSVIEW_DATA"]) / "coil-100", case=4)
    assert data.views.shape == (400, 5)
    assert data.image_shape == (48, 48)
    for X in data.views.arrays:
        assert 0.0 <= X.min() < 0.05
        assert 0.8 < X.max() <= 1.0
