"""Reading of images, whichever loader asks for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from crossview.datasets._files import natural, open_files
from crossview.datasets._images import check_size, read_images, resize_images

RAMP = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10


def read(folder, size=None):
    with open_files(folder, "Help.") as files:
        images, shape = read_images(files, folder, size)
    return {"/".join(path): image for path, image in images.items()}, shape


def test_pixels_are_read_row_by_row_as_they_are(tmp_path, draw):
    draw(tmp_path / "a.png", RAMP)
    images, shape = read(tmp_path)
    assert shape == (4, 6)
    np.testing.assert_array_equal(images["a.png"], RAMP.ravel() / 255)


def test_size_is_height_and_width(tmp_path, draw):
    draw(tmp_path / "a.png", RAMP)
    draw(tmp_path / "b.png", 51, size=(9, 2))
    images, shape = read(tmp_path, (2, 3))
    assert shape == (2, 3)
    np.testing.assert_allclose(images["b.png"], 0.2)
    assert (np.diff(images["a.png"].reshape(2, 3), axis=0) > 0.1).all()


def test_sixteen_bits_are_not_cut_off(tmp_path, draw):
    draw(tmp_path / "deep.png", RAMP.astype(np.uint16) * 257)
    images, _ = read(tmp_path)
    np.testing.assert_allclose(images["deep.png"], RAMP.ravel() / 255, atol=1e-6)


def test_photos_are_turned_upright(tmp_path):
    image = Image.fromarray(RAMP)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "phone.png", exif=exif)
    images, shape = read(tmp_path)
    assert shape == (6, 4)
    np.testing.assert_array_equal(images["phone.png"].reshape(shape), np.rot90(RAMP, -1) / 255)


def test_fractions_are_refused(tmp_path):
    Image.fromarray(np.zeros((3, 3), dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif is not an image that can be read \(its pixels are fractions"):
        read(tmp_path)


def test_mixed_sizes_name_two_files(tmp_path, draw):
    draw(tmp_path / "a.png", size=(4, 6))
    draw(tmp_path / "b.png", size=(6, 4))
    with pytest.raises(ValueError, match=r"a\.png is 4 × 6 .*b\.png is 6 × 4\. Give a size"):
        read(tmp_path)


def test_hidden_files_are_left_out_and_order_is_natural(tmp_path, draw):
    for name in ("10.png", "2.png", ".1.png", ".cache/3.png"):
        draw(tmp_path / name)
    with open_files(tmp_path, "Help.") as files:
        assert [path for path, _ in files] == [("2.png",), ("10.png",)]
    assert sorted(["b", "2b", "2", "10", "a1"], key=natural) == ["2", "2b", "10", "a1", "b"]


def test_a_damaged_archive_is_named(tmp_path, draw, pack):
    folder = tmp_path / "images"
    draw(folder / "a.png", RAMP)
    archive = pack(folder)
    content = bytearray(archive.read_bytes())
    start = content.index(b"\x89PNG")
    content[start + 20 : start + 60] = bytes(40)
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"packed\.zip: images/a\.png is not an image"):
        read(archive)
    # The directory at the end says where the entries begin.
    content[content.index(b"PK\x01\x02")] = 0
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"packed\.zip is a damaged zip archive .*Help\."):
        read(archive)


@pytest.mark.parametrize("size", [0, -3, 2.5, (4,), (4, 0), "32", True])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="size must be"):
        check_size(size)


def test_arrays_are_resized_like_images():
    images = np.stack([RAMP, RAMP[::-1]]) / 255.0
    assert resize_images(images, None) is images
    small = resize_images(images, (2, 3))
    assert small.shape == (2, 2, 3)
    np.testing.assert_allclose(small[0], small[1][::-1], atol=1e-6)
    assert small.min() >= 0.0
    assert np.mean(small) == pytest.approx(np.mean(images), abs=0.01)


def test_without_pillow_the_extra_is_named(tmp_path, draw):
    draw(tmp_path / "a" / "b" / "1.png")
    code = f"""
import sys
sys.modules["PIL"] = None
import crossview as cv
try:
    cv.datasets.load_folder({str(tmp_path)!r})
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "pip install 'crossview[images]'" in out
