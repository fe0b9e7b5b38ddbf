"""Reading of images, whichever loader asks for it."""

import io
import os
import struct
import sys
import zipfile

import numpy as np
import pytest
from fuzz_data import png
from PIL import Image

from crossview.datasets.files import natural, open_files
from crossview.datasets.images import check_size, read_images

RAMP = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10


def read(folder, size=None):
    with open_files(folder, "Help.") as files:
        return read_images({str(file): file for file in files}, folder, size)


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


def black_line(mode):
    """A black line on a transparent background, which is almost black as well, and what marks it as transparent."""
    grey = np.array([[0, 0, 0], [1, 1, 1]], dtype=np.uint16 if mode == "I;16" else np.uint8)
    image = Image.fromarray(grey)
    if mode == "P":
        image.putpalette(list(range(256)) * 3)
    elif mode in ("RGBA", "LA"):
        image.putalpha(Image.fromarray(np.uint8(255 * (grey == 0))))
        return image.convert(mode), {}
    return image.convert(mode), {"transparency": (1, 1, 1) if mode == "RGB" else 1}


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "RGB", "I;16"])
def test_transparent_pixels_are_white(tmp_path, mode):
    image, options = black_line(mode)
    image.save(tmp_path / "a.png", **options)
    with Image.open(tmp_path / "a.png") as stored:
        assert stored.mode == mode
    images, _ = read(tmp_path)
    np.testing.assert_allclose(images["a.png"], [0, 0, 0, 1, 1, 1], atol=1 / 255)
    Image.new("LA", (1, 1), (100, 51)).save(tmp_path / "a.png")  # half transparent
    images, _ = read(tmp_path)
    np.testing.assert_allclose(images["a.png"], (51 / 255 * 100 + 204 / 255 * 255) / 255, atol=0.5 / 255)


def tiff(values, bits, photometric=1, sample_format=1):
    """An uncompressed TIFF file of whole numbers, (height, width), whose rows begin at full bytes."""
    height, width = values.shape
    if bits == 12:
        lines = ["".join(f"{value:012b}" for value in row) for row in values.tolist()]
        data = b"".join(int(line + "0" * (-len(line) % 8), 2).to_bytes(-(-len(line) // 8)) for line in lines)
    else:
        data = values.astype(f"<{'iu'[sample_format == 1]}{bits // 8}").tobytes()
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: photometric, 273: 0, 277: 1, 278: height, 279: len(data)}
    tags |= {339: sample_format}
    tags[273] = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + data


SHARES = np.arange(24).reshape(4, 6) / 23


@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 8])
def test_sixteen_bits_are_turned_upright_like_eight(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name, values in (("deep", RAMP.astype(np.uint16) * 257), ("plain", RAMP)):
        Image.fromarray(values).save(tmp_path / f"{name}.png", exif=exif)
    images, shape = read(tmp_path)
    assert shape == ((6, 4) if orientation > 4 else (4, 6))
    np.testing.assert_allclose(images["deep.png"], images["plain.png"], atol=1e-6)
    turned = {1: RAMP, 3: np.rot90(RAMP, 2), 6: np.rot90(RAMP, -1), 8: np.rot90(RAMP)}
    if orientation in turned:
        np.testing.assert_array_equal(images["plain.png"].reshape(shape), turned[orientation] / 255)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_bits_are_scaled_and_white_is_zero_in_some_files(tmp_path, bits):
    top = 2**bits - 1
    values = np.round(top * SHARES).astype(int)
    (tmp_path / "a.tif").write_bytes(tiff(values, bits))
    if bits != 12:
        (tmp_path / "b.tif").write_bytes(tiff(top - values, bits, photometric=0))
    images, _ = read(tmp_path)
    np.testing.assert_allclose(images["a.tif"], SHARES.ravel(), atol=0.5 / top)
    np.testing.assert_allclose(images.get("b.tif", images["a.tif"]), images["a.tif"], atol=1e-6)


@pytest.mark.parametrize(("bits", "sample_format"), [(32, 1), (32, 2), (16, 2), (8, 2)])
def test_numbers_of_unknown_range_are_refused(tmp_path, bits, sample_format):
    (tmp_path / "a.tif").write_bytes(tiff(np.arange(24).reshape(4, 6), bits, sample_format=sample_format))
    with pytest.raises(ValueError, match=r"a\.tif \(.*signed or 32-bit numbers of unknown range\) is not a readable"):
        read(tmp_path)
    Image.fromarray(np.zeros((3, 3), dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif \(its pixels are floating-point.*\) is not a readable image"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_all_images_that_cannot_be_read_are_reported_at_once(tmp_path, draw, content):
    whole = draw(tmp_path / "a.png", RAMP).read_bytes()
    (tmp_path / "b.png").write_bytes(whole[:50] if content is None else content)
    with pytest.raises(ValueError, match=r"b\.png \(.*\) is not a readable image: replace or remove it"):
        read(tmp_path)
    for name in "cdef":
        (tmp_path / f"{name}.png").write_bytes(b"damaged")
    message = r"b\.png \(.*\), c\.png .*, d\.png .* and 2 more are not readable images \(5 of 6\): replace or remove"
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path)
    assert "e.png" not in str(caught.value)


def test_hidden_files_are_left_out_and_order_is_natural(tmp_path, draw):
    for name in ("10.png", "2.png", ".1.png", ".cache/3.png"):
        draw(tmp_path / name)
    with open_files(tmp_path, "Help.") as files:
        assert [str(file) for file in files] == ["2.png", "10.png"]
    assert sorted(["b", "2b", "2", "10", "a1"], key=natural) == ["2", "2b", "10", "a1", "b"]


def test_a_damaged_archive_is_named(tmp_path, draw, pack):
    folder = tmp_path / "images"
    draw(folder / "a.png", RAMP)
    archive = pack(folder)
    content = bytearray(archive.read_bytes())
    start = content.index(b"\x89PNG")
    content[start + 20 : start + 60] = bytes(40)
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"packed\.zip: images/a\.png is not a readable entry .*replace the archive"):
        read(archive)
    # The directory at the end says where the entries begin.
    content[content.index(b"PK\x01\x02")] = 0
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"packed\.zip is not a readable folder or zip archive .*Help\."):
        read(archive)


def test_archives_with_any_damage_are_named(tmp_path, draw, pack):
    folder = tmp_path / "images"
    draw(folder / "a.png", RAMP)
    content, random, failed = pack(folder).read_bytes(), np.random.default_rng(0), 0
    directory = content.index(b"PK\x01\x02")
    for _ in range(200):
        changed = bytearray(content)
        for place in random.integers(directory - 60, len(content), size=random.integers(1, 6)):
            changed[place] = random.integers(256)
        (tmp_path / "a.zip").write_bytes(changed)
        try:
            read(tmp_path / "a.zip")
        except (ValueError, OSError) as error:
            assert "a.zip" in str(error)  # noqa: PT017
            failed += 1
    assert failed > 20


@pytest.mark.parametrize("size", [0, -3, 2.5, (4,), (4, 0), "32", True])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="size must be"):
        check_size(size)


def test_without_pillow_the_extra_is_named(tmp_path, draw, monkeypatch):
    draw(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'crossview\[images\]'"):
        read(tmp_path)


@pytest.mark.parametrize("kind", ["EPS", "ICO", "TGA"])
def test_other_formats_are_never_tried(tmp_path, kind, monkeypatch):
    called = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *args, **kwargs: called.append(args))
    stream = io.BytesIO()
    Image.new("RGB", (20, 20), "red").save(stream, kind)
    (tmp_path / "a.png").write_bytes(stream.getvalue())
    with pytest.raises(ValueError, match=r"a\.png \(it is not one of PNG, .*\) is not a readable image: replace or"):
        read(tmp_path)
    assert not called


def test_every_accepted_format_is_read(tmp_path):
    kinds = {"PNG": "png", "JPEG": "jpg", "BMP": "bmp", "TIFF": "tif", "PPM": "pgm", "GIF": "gif", "WEBP": "webp"}
    for kind, suffix in kinds.items():
        Image.new("L", (8, 8), 102).save(tmp_path / f"a.{suffix}", kind)
    images, _ = read(tmp_path)
    assert len(images) == len(kinds)
    for image in images.values():
        np.testing.assert_allclose(image, 0.4, atol=0.02)


@pytest.mark.parametrize("size", [(6000, 6000), (2**31 - 1, 1), (8000, 8000), (2**25, 1), (1, 40_000)])
def test_images_with_too_many_pixels_are_not_decoded(tmp_path, size, monkeypatch):
    def decode(self):
        raise AssertionError("decoded")

    (tmp_path / "a.png").write_bytes(png(*size, rows=0))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decode)
    with pytest.raises(ValueError, match=r"a\.png \((it has \d+ × \d+ pixels|Image size).* is not a readable"):
        read(tmp_path, (8, 8))


def test_sizes_that_would_exhaust_memory_are_refused(tmp_path, draw, monkeypatch):
    with pytest.raises(
        ValueError, match=r"size must be at most 8,388,608 pixels, 32,768 per side, got 999999 × 999999: make it"
    ):
        check_size((999_999, 999_999))
    with pytest.raises(ValueError, match=r"32,768 per side, got 1 × 8000000"):
        check_size((1, 8_000_000))
    for name in "abc":
        draw(tmp_path / f"{name}.png")
    monkeypatch.setattr("crossview.datasets.images._MAX_VALUES", 2 * 64)
    with pytest.raises(ValueError, match=r"3 images of 8 × 8 pixels need \d+ GB of memory: choose a smaller size"):
        read(tmp_path, (8, 8))


def test_names_that_are_not_utf8_are_refused(tmp_path, draw):
    root = tmp_path / "images"
    draw(root / "photo" / "a.png")
    os.rename(os.fsencode(root / "photo"), os.fsencode(root) + b"/caf\xe9")
    with pytest.raises(ValueError, match=r"the name .*/caf\\xe9/a\.png is not valid UTF-8: rename the file or folder"):
        read(root)
    with pytest.raises(ValueError, match=r"the name .*/caf\\xe9 is not valid UTF-8: rename"):
        read(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))


def test_files_that_cannot_be_read_are_named(tmp_path, draw, monkeypatch):
    path = draw(tmp_path / "a.png")
    monkeypatch.setattr("crossview.datasets.files.MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"a\.png is larger than"):
        read(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.png")
    with pytest.raises(ValueError, match=r"a\.zip: a\.png is larger than"):
        read(tmp_path / "a.zip")

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.undo()
    for function, name in (("pathlib.Path.read_bytes", r"a\.png"), ("os.scandir", tmp_path.name)):
        with monkeypatch.context() as patch:
            patch.setattr(function, denied)
            with pytest.raises(OSError, match=rf"{name} cannot be read \(Permission denied\): check that"):
                read(tmp_path)
