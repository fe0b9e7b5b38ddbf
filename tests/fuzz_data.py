"""Load damaged and hostile files: python tests/fuzz_data.py [--mats 2000] [--arrays 2000] [--images 500].

Every file is loaded in a child process with limited memory. It must give data or an error of one line that names the
file, within 500 MB and 2 s of processor time, without a crash, and without starting a program that it names.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import numpy as np

MAX_BYTES, MAX_SECONDS, BATCH = 500 * 2**20, 2.0, 250
EXTREMES = (0, 1, 2, 4, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF8, 2**24, 2**28, 14, 15, 9)
KINDS = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "tif": "TIFF", "ppm": "PPM", "gif": "GIF", "webp": "WEBP"}


def flip(content, random):
    """Change one to eight bytes."""
    changed = bytearray(content)
    for at in random.integers(len(changed), size=random.integers(1, 9)):
        changed[at] = random.integers(256)
    return bytes(changed)


def flip_one(content, random):
    changed = bytearray(content)
    changed[random.integers(len(changed))] ^= 1 << random.integers(8)
    return bytes(changed)


def truncate(content, random):
    return content[: random.integers(len(content))]


def overwrite_word(content, random):
    """Put an extreme number where a size may be."""
    at = 4 * int(random.integers(len(content) // 4))
    return content[:at] + struct.pack("<I", EXTREMES[random.integers(len(EXTREMES))]) + content[at + 4 :]


def swap_words(content, random):
    """Swap two words, which may be sizes or types."""
    a, b = sorted(4 * int(at) for at in random.integers(len(content) // 4, size=2))
    if b - a < 4:
        return flip_one(content, random)
    return content[:a] + content[b : b + 4] + content[a + 4 : b] + content[a : a + 4] + content[b + 4 :]


def repeat(content, random):
    """Insert a piece of the file somewhere else."""
    a, b, at = random.integers(len(content), size=3)
    return content[:at] + content[min(a, b) : max(a, b)] + content[at:]


DAMAGES = (flip, flip_one, truncate, overwrite_word, swap_words, repeat)


def damaged(valid, n, random):
    """Damage named files in turn, half of compressed MATLAB files inside their compressed elements."""
    for k in range(n):
        name, content = valid[k % len(valid)]
        damage = DAMAGES[random.integers(len(DAMAGES))]
        parts, at, packed = [content[:128]], 128, name.endswith(".mat") and content[128] == 15
        while packed and at + 8 <= len(content):
            kind, size = struct.unpack_from("<II", content, at)
            inner = zlib.decompress(content[at + 8 : at + 8 + size])
            inner = zlib.compress(damage(inner, random) if random.random() < 0.6 else inner)
            parts.append(struct.pack("<II", kind, len(inner)) + inner)
            at += 8 + size
        yield name, b"".join(parts) if packed and random.random() < 0.7 else damage(content, random)


def mat_bomb(side):
    """A small compressed array that declares and inflates to much more."""
    body = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack("<IIii", 5, 8, side, side)
    body += struct.pack("<HH4s", 1, 3, b"fea\0") + struct.pack("<II", 2, side * side)
    packed = zlib.compress(struct.pack("<II", 14, len(body) + side * side) + body + bytes(side * side))
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed


def mats(n, seed=0):
    """Damaged MATLAB files, from small valid ones; and bombs."""
    import scipy.io
    import scipy.sparse

    random = np.random.default_rng(seed)
    A, B, y = random.normal(size=(8, 5)), random.integers(256, size=(8, 3), dtype=np.uint8), np.repeat([1.0, 2.0], 4)
    cells, texts = np.empty((1, 2), dtype=object), np.array(["a", "bc"] * 4, dtype=object)
    cells[0, :] = A.T, B.T
    files = [
        ("views.mat", {"X1": A, "X2": B, "y": y}),
        ("views.mat", {"X": cells, "gnd": texts}),
        ("views.mat", {"X": cells, "y": np.array(["a", "b"] * 4)}),
    ]
    for dtype in (np.uint8, np.float64, np.int16):
        for extra in ({}, {"s": {"a": 1, "b": "text"}, "c": np.array(["x", 1.0], dtype=object)}, {"z": np.eye(3) * 1j}):
            faces = {"fea": random.integers(256, size=(8, 16)).astype(dtype), "gnd": np.repeat([1, 2], 4)[:, None]}
            faces["condition"] = np.tile([1, 2, 3, 12], 2)[:, None]
            files.append(("views.mat", {**extra, "w": scipy.sparse.eye(4), **faces}))
    valid = []
    for name, variables in files:
        for compressed in (False, True):
            stream = io.BytesIO()
            scipy.io.savemat(stream, variables, do_compression=compressed)
            valid.append((name, stream.getvalue()))
    bombs = [("views.mat", mat_bomb(2**k)) for k in range(4, 15) if n >= 1000 or k > 12]
    yield from bombs
    yield from damaged(valid, n - len(bombs), random)


def arrays(n, seed=0):
    """Damaged files in numpy's formats, from small valid ones."""
    random = np.random.default_rng(seed)
    valid = []
    for name, dtype in (("view.npy", float), ("view.npy", np.uint8), ("views.npz", float)):
        stream, X = io.BytesIO(), random.integers(256, size=(8, 5)).astype(dtype)
        np.save(stream, X) if name == "view.npy" else np.savez_compressed(
            stream, a=X, b=X[:, :3], y=np.repeat([1, 2], 4)
        )
        valid.append((name, stream.getvalue()))
    return damaged(valid, n, random)


def png(width, height, mode, rows=None):
    """A PNG file of zeros, or of fewer rows than it declares."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    depth, colour, channels = mode
    line = 1 + (width * channels * depth + 7) // 8
    stream, data = zlib.compressobj(1), b""
    for _ in range(height if rows is None else rows):
        data += stream.compress(bytes(line))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**26))) if rows == 0 else b""
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + text + chunk(b"IDAT", data + stream.flush()) + chunk(b"IEND", b"")
    )


def bombs():
    """Images that are small in a file and large in memory, up to the largest that is read."""
    from PIL import Image

    for mode in ((8, 0, 1), (8, 2, 3), (8, 6, 4), (16, 0, 1)):
        yield from (png(side, side, mode) for side in (2896, 5792))
        yield png(19_000, 19_000, mode, rows=40)
        yield png(2**31 - 1, 2**31 - 1, mode, rows=0)
        yield png(4000, 2000, mode, rows=0)
    for kind, options in (
        ("TIFF", {"compression": "tiff_lzw"}),
        ("GIF", {}),
        ("BMP", {}),
        ("WEBP", {"lossless": True}),
    ):
        stream = io.BytesIO()
        Image.new("P" if kind == "GIF" else "RGB", (3000, 2000)).save(stream, kind, **options)
        content = stream.getvalue()
        yield content
        for old, new in ((3000, 60_000), (2000, 60_000)):
            yield content.replace(struct.pack("<H", old), struct.pack("<H", new))
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (6500, 5000)).save(stream, "JPEG", exif=exif)
    yield stream.getvalue()
    yield b"P6 100000 100000 255\n" + bytes(1000)
    yield b"P5 99999999999 99999999999 255\n"


def images(n, seed=0):
    """Damaged images, images of other formats under the names of usual ones, and bombs."""
    from PIL import Image

    random = np.random.default_rng(seed)
    pixels = Image.fromarray(random.integers(256, size=(24, 20, 3), dtype=np.uint8))
    hostile = [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) (w) file closefile\nshowpage\n%%EOF\n"]
    for kind in ("EPS", "ICO", "TGA", "PCX", "SGI", "PDF", "DIB", "JPEG2000", "MSP", "XBM", "DDS"):
        stream = io.BytesIO()
        pixels.convert("1" if kind in ("MSP", "XBM") else "RGB").save(stream, kind)
        hostile.append(stream.getvalue())
    hostile += islice(bombs(), None if n >= 200 else 5)
    valid = []
    for suffix, kind in KINDS.items():
        for mode in ("L", "RGB", "I;16") if kind in ("PNG", "TIFF") else ("L", "RGB"):
            stream, exif = io.BytesIO(), Image.Exif()
            exif[0x0112] = 6
            image = Image.fromarray(np.asarray(pixels.convert("L"), np.uint16) * 257) if mode == "I;16" else pixels
            options = {"exif": exif} if kind in ("PNG", "JPEG", "WEBP") else {}
            options |= {"compression": "tiff_adobe_deflate"} if kind == "TIFF" else {}
            (image if mode == "I;16" else image.convert(mode)).save(stream, kind, **options)
            valid.append((f"1.{suffix}", stream.getvalue()))
    yield from zip((f"1.{suffix}" for suffix in cycle(KINDS)), hostile, strict=False)
    yield from damaged(valid, n - len(hostile), random)


MAKERS = (mats, arrays, images)


def load(folder, name):
    """Load a case as users would."""
    import crossview as cv

    if name.startswith("view"):
        return cv.datasets.load_arrays(Path(folder, name), labelled=name != "view.npy")
    return cv.datasets.load_folder(folder, size=None if int(Path(folder).name) % 2 else (16, 16))


def child(folder):
    """Load all cases of a folder; print one line of JSON for each."""
    import crossview as cv

    cv.datasets.load_digits()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, used + MAX_BYTES))
    for case in sorted(Path(folder).iterdir(), key=lambda path: int(path.name)):
        (name,) = os.listdir(case)
        if not name.startswith("view"):
            (case / "view" / "class").mkdir(parents=True)
            (case / name).rename(case / "view" / "class" / name)
        print(json.dumps({"case": int(case.name), "started": True}), flush=True)
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
        start, outcome = sum(os.times()[:4]), "data"  # with that of other processes
        try:
            load(case, name)
        except (ValueError, OSError) as error:
            short = name in str(error) and "\n" not in str(error) and not isinstance(error.__cause__, MemoryError)
            outcome = "error" if short else f"bad error: {error!r} from {error.__cause__!r}"
        except BaseException as error:
            outcome = f"bad exception: {error!r}"
        seconds = sum(os.times()[:4]) - start
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peak = int(status["VmHWM"].split()[0]) * 1024
        print(json.dumps({"case": int(case.name), "outcome": outcome, "seconds": seconds, "peak": peak}), flush=True)


def run(cases):
    """Load all cases in children; the numbers of outcomes, the slowest and the largest, and the failures."""
    outcomes, failures, slowest, largest = Counter(), [], 0.0, 0
    cases = list(cases)
    for start in range(0, len(cases), BATCH):
        with tempfile.TemporaryDirectory() as folder:
            for k, (name, content) in enumerate(cases[start : start + BATCH], start=start):
                path = Path(folder, "cases", str(k), name)
                path.parent.mkdir(parents=True)
                path.write_bytes(content)
            # A program that an EPS file starts would leave a trace.
            trace, fake = Path(folder, "started"), Path(folder, "bin", "gs")
            fake.parent.mkdir()
            fake.write_text(f"#!/bin/sh\ntouch {trace}\n")
            fake.chmod(0o755)
            environment = os.environ | {"PATH": f"{fake.parent}:{os.environ['PATH']}", "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, "-W", "ignore", __file__, "--child", str(Path(folder, "cases"))]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            ended = [line for line in lines if "outcome" in line]
            for line in ended:
                outcomes[line["outcome"].split(":")[0]] += 1
                slowest, largest = max(slowest, line["seconds"]), max(largest, line["peak"])
                if (
                    line["outcome"] not in ("data", "error")
                    or line["seconds"] > MAX_SECONDS
                    or line["peak"] > MAX_BYTES
                ):
                    failures.append(line)
            if done.returncode or len(ended) < len(cases[start : start + BATCH]):
                failures.append({"crash": lines[-1:], "status": done.returncode, "stderr": done.stderr[-500:]})
            if trace.exists():
                failures.append({"started": "Ghostscript"})
    return {"outcomes": dict(outcomes), "slowest": slowest, "largest": largest, "failures": failures}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for make in MAKERS:
        parser.add_argument(f"--{make.__name__}", type=int, default=500 if make is images else 2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child")
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    failed = False
    for make in MAKERS:
        kind = make.__name__
        found = run(make(getattr(given, kind), given.seed))
        print(
            f"{kind}: {found['outcomes']}, slowest {found['slowest']:.2f} s, largest {found['largest'] >> 20} MB, "
            f"{len(found['failures'])} failures"
        )
        for failure in found["failures"][:20]:
            print("  ", failure)
        failed |= bool(found["failures"])
    sys.exit(failed)


if __name__ == "__main__":
    main()
