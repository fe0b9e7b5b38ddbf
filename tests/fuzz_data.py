"""Load damaged and hostile data files: ``python tests/fuzz_data.py [--mats 2000] [--arrays 2000] [--images 500]``.

Every file must give data or an error of one line that names it, in little memory and time. No file may start a program
but the reader of MATLAB files.
"""

from __future__ import annotations

import io
import struct
import sys
import zlib
from itertools import cycle

import numpy as np
import scipy.io
import scipy.sparse
from fuzzing import damage, main
from PIL import Image

import crossview as cv

SUFFIXES = {"PNG": "png", "JPEG": "jpg", "BMP": "bmp", "TIFF": "tif", "PPM": "ppm", "GIF": "gif", "WEBP": "webp"}


def saved(compressed=False, **variables):
    """A MATLAB file of some variables."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, do_compression=compressed)
    return stream.getvalue()


def cells(*values):
    """What MATLAB calls {a, b, c}."""
    array = np.empty((1, len(values)), dtype=object)
    array[0, :] = values
    return array


def declared(shape, name=b"fea"):
    """A MATLAB array of bytes whose shape and sizes are declared, without its data; and the number of its bytes."""
    count = int(np.prod([float(side) for side in shape]))
    body = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack(f"<II{len(shape)}i", 5, 4 * len(shape), *shape)
    body += struct.pack("<HH4s", 1, len(name), name.ljust(4, b"\0")) + struct.pack("<II", 2, count & 0xFFFFFFFF)
    return body, count


def packed(*elements):
    """A MATLAB file of compressed elements, with the sizes that they declare."""
    content = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    for body, size in elements:
        stream = zlib.compress(struct.pack("<II", 14, size & 0xFFFFFFFF) + body, 1)
        content += struct.pack("<II", 15, len(stream)) + stream
    return content


def damaged_inside(content, random):
    """Change the compressed elements of a MATLAB file before they are compressed."""
    parts, at = [content[:128]], 128
    while at + 8 <= len(content):
        kind, size = struct.unpack_from("<II", content, at)
        inner = zlib.decompress(content[at + 8 : at + 8 + size])
        inner = zlib.compress(damage(inner, random) if random.random() < 0.6 else inner)
        parts.append(struct.pack("<II", kind, len(inner)) + inner)
        at += 8 + size
    return b"".join(parts)


def mats(seed):
    """A bomb, and damaged MATLAB files."""
    random = np.random.default_rng(seed)
    body, count = declared((2**13, 2**13))
    yield "views.mat", packed((body + bytes(count), len(body) + count))
    A, B, y = random.normal(size=(8, 5)), random.integers(256, size=(8, 3), dtype=np.uint8), np.repeat([1.0, 2.0], 4)
    files = [
        {"X1": A, "X2": B, "y": y},
        {"X": cells(A.T, B.T), "gnd": np.array(["a", "bc"] * 4, dtype=object)},
        {"X": cells(A.T, B.T), "y": np.array(["a", "b"] * 4)},
        {"X1": B.astype(np.int16), "X2": A, "gnd": y, "s": {"a": 1, "b": "text"}},
        {"X1": A, "X2": B, "gt": y, "c": np.array(["x", 1.0], dtype=object)},
        {"X1": A, "X2": B, "y": y, "z": np.eye(3) * 1j},
        {"X1": A, "X2": B, "y": y, "w": scipy.sparse.eye(4)},
    ]
    for content in cycle([saved(compressed, **variables) for variables in files for compressed in (False, True)]):
        inside = content[128] == 15 and random.random() < 0.7
        yield "views.mat", damaged_inside(content, random) if inside else damage(content, random)


def arrays(seed):
    """Damaged files in numpy's formats."""
    random = np.random.default_rng(seed)
    valid = []
    for dtype in (np.float64, np.uint8):
        X = random.integers(256, size=(8, 5)).astype(dtype)
        one, several = io.BytesIO(), io.BytesIO()
        np.save(one, X)
        np.savez_compressed(several, a=X, b=X[:, :3], y=np.repeat([1, 2], 4))
        valid += [("view.npy", one.getvalue()), ("views.npz", several.getvalue())]
    for name, content in cycle(valid):
        yield name, damage(content, random)


def png(width, height, mode=(8, 2, 3), rows=None, text=b""):
    """A PNG file of zeros, or of fewer rows than it declares; mode is depth, type of colour and channels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    depth, colour, channels = mode
    stream, line = zlib.compressobj(1), bytes(1 + (width * channels * depth + 7) // 8 if rows != 0 else 0)
    data = b"".join(stream.compress(line) for _ in range(height if rows is None else rows)) + stream.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(text)) if text else b""
    return b"\x89PNG\r\n\x1a\n" + header + text + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def written(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def bombs():
    """Images that are small in a file and large in memory, up to the largest that is read."""
    for mode in ((8, 0, 1), (8, 2, 3), (8, 6, 4), (16, 0, 1)):
        yield from (png(side, side, mode) for side in (2896, 5792))
        yield png(19_000, 19_000, mode, rows=40)
        yield from (png(*size, mode, rows=0, text=bytes(2**26)) for size in ((2**31 - 1, 2**31 - 1), (4000, 2000)))
    for kind, options in {
        "TIFF": {"compression": "tiff_lzw"},
        "GIF": {},
        "BMP": {},
        "WEBP": {"lossless": True},
    }.items():
        content = written(Image.new("P" if kind == "GIF" else "RGB", (3000, 2000)), kind, **options)
        yield content
        yield from (content.replace(struct.pack("<H", side), struct.pack("<H", 60_000)) for side in (3000, 2000))
    yield written(Image.new("RGB", (6500, 5000)), "JPEG", exif=turned())
    yield b"P6 100000 100000 255\n" + bytes(1000)
    yield b"P5 99999999999 99999999999 255\n"


def turned():
    """What cameras write that were held sideways."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def images(seed):
    """Images of other formats under the names of usual ones, bombs, and damaged images."""
    random = np.random.default_rng(seed)
    pixels = Image.fromarray(random.integers(256, size=(24, 20, 3), dtype=np.uint8))
    others = ("EPS", "ICO", "TGA", "PCX", "SGI", "PDF", "DIB", "JPEG2000", "DDS")
    hostile = [*(written(pixels, kind) for kind in others), *bombs()]
    yield from zip((f"1.{suffix}" for suffix in cycle(SUFFIXES.values())), hostile, strict=False)
    deep = Image.fromarray(np.asarray(pixels.convert("L"), np.uint16) * 257)
    options = {kind: {"exif": turned()} for kind in ("PNG", "JPEG", "WEBP")} | {"TIFF": {"compression": "tiff_lzw"}}
    valid = [
        (f"1.{suffix}", written(image, kind, **options.get(kind, {})))
        for kind, suffix in SUFFIXES.items()
        for image in (pixels, pixels.convert("L"), *([deep] if kind in ("PNG", "TIFF") else []))
    ]
    for name, content in cycle(valid):
        yield name, damage(content, random)


# In the child.


def prepare():
    """Import what is imported on first use."""
    cv.datasets.load_digits()
    Image.init()


def forbids(event, arguments):
    return event in ("os.system", "os.exec") or (event == "subprocess.Popen" and arguments[0] != sys.executable)


def load(path):
    """Load a file as users would, images in different sizes."""
    folder = path.parent
    try:
        if path.name.startswith("view"):
            cv.datasets.load_arrays(path, labelled=path.name != "view.npy")
        else:
            target = folder / "view" / "class" / path.name
            target.parent.mkdir(parents=True)
            path.rename(target)
            cv.datasets.load_folder(folder, size=None if int(folder.name) % 2 else (16, 16))
    except (ValueError, OSError) as error:
        short = path.name in str(error) and "\n" not in str(error) and not isinstance(error.__cause__, MemoryError)
        return "error" if short else f"bad error: {error!r} from {error.__cause__!r}"
    return "data"


MAKERS = {"mats": (mats, None, 2000), "arrays": (arrays, None, 2000), "images": (images, None, 500)}

if __name__ == "__main__":
    main("fuzz_data", MAKERS, __doc__)
