import io
import struct
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from crossview.datasets._matlab import read_matlab

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool")


def saved(compressed=False, **arrays):
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, do_compression=compressed)
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_what_scipy_reads(dtype, compressed):
    random = np.random.default_rng(0)
    for shape in ((3, 16), (1, 1), (2, 3, 4), (5, 1), (0, 3)):
        array = (50 * random.normal(size=shape)).astype(dtype)
        others = {"cells": np.array(["a", "bc"], dtype=object), "sparse": scipy.sparse.eye(3), "text": "text"}
        content = saved(compressed, **others, fea=array, a={"b": 1}, gnd=np.arange(3))
        expected, found = scipy.io.loadmat(io.BytesIO(content)), read_matlab(content, "x.mat", ("fea", "gnd"))
        assert set(found) == {"fea", "gnd"}
        for name, values in found.items():
            assert values.dtype == expected[name].dtype
            np.testing.assert_array_equal(values, expected[name])


def test_big_endian_files():
    """The same tags and values as a little-endian file, in the other order of bytes."""
    values = np.arange(6, dtype=">f8")
    flags = struct.pack(">IIII", 6, 8, 6, 0)
    shape = struct.pack(">IIii", 5, 8, 2, 3)
    name = struct.pack(">HH4s", 3, 1, b"fea\0")
    body = flags + shape + name + struct.pack(">II", 9, 48) + values.tobytes()
    content = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body
    expected = scipy.io.loadmat(io.BytesIO(content))["fea"]
    np.testing.assert_array_equal(read_matlab(content, "x.mat", ("fea",))["fea"], expected)


def declared(shape):
    """A compressed array of zeros whose shape and sizes are declared, whatever the data."""
    count = int(np.prod([float(side) for side in shape]))
    body = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack(f"<II{len(shape)}i", 5, 4 * len(shape), *shape)
    body += struct.pack("<HH4s", 1, 3, b"fea\0") + struct.pack("<II", 2, count & 0xFFFFFFFF)
    return body, count


def packed(body, size):
    stream = zlib.compress(struct.pack("<II", 14, size & 0xFFFFFFFF) + body)
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(stream)) + stream


def test_what_inflates_beyond_bounds_is_refused():
    body, count = declared((2**13, 2**13))
    with pytest.raises(ValueError, match=r"x\.mat: fea has more than 16,777,216 values: split the file"):
        read_matlab(packed(body + bytes(count), len(body) + count), "x.mat", ("fea",))
    body, count = declared((2, 4))
    assert read_matlab(packed(body + bytes(count), len(body) + count), "x.mat", ("fea",))["fea"].shape == (2, 4)
    for content, size in (
        (body + bytes(2**20), len(body) + count),  # more data than declared
        (body + bytes(count), len(body) + 2**31),  # a larger element than there could be
        (body + bytes(count - 1), len(body) + count),  # less data than declared
        (body + bytes(count), 10),  # a smaller element than its array
    ):
        with pytest.raises(ValueError, match=r"x\.mat is not a readable MATLAB file"):
            read_matlab(packed(content, size), "x.mat", ("fea",))


@pytest.mark.parametrize("shape", [(-1, 4), (2, -4), (0x7FFFFFFF, 0x7FFFFFFF), (3, 4)])
def test_shapes_that_do_not_fit_their_data(shape):
    body, _ = declared(shape)
    with pytest.raises(ValueError, match=r"^x\.mat"):
        read_matlab(packed(body + bytes(8), len(body) + 8), "x.mat", ("fea",))


def test_other_versions_are_named():
    header = saved(fea=np.eye(2))[:124]
    with pytest.raises(ValueError, match=r"x\.mat is in format 7\.3: save it in MATLAB with -v7"):
        read_matlab(header + b"\x00\x02IM", "x.mat", ("fea",))
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"fea": np.eye(9)}, format="4")
    with pytest.raises(ValueError, match=r"x\.mat is not a MATLAB file of version 5 to 7: save it"):
        read_matlab(stream.getvalue(), "x.mat", ("fea",))
