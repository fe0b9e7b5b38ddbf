import io
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from fuzz_data import cells, declared, packed, saved

import crossview as cv
from crossview.datasets import matlab
from crossview.datasets.matlab import read_matlab
from crossview.datasets.registry import open_dataset, open_probes

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool")
RNG = np.random.default_rng(0)
A, B, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 3)), np.repeat([3, 1, 2], 2)


@pytest.fixture
def save(tmp_path):
    def write(**variables):
        (tmp_path / "data.mat").write_bytes(saved(len(variables) % 2 == 0, **variables))
        return tmp_path / "data.mat"

    return write


@pytest.mark.parametrize("compressed", [False, True])
def test_reads_what_scipy_reads(compressed):
    shapes = (3, 16), (1, 1), (2, 3, 4), (5, 1), (0, 3)
    arrays = {f"{d}_{k}": (50 * RNG.normal(size=shape)).astype(d) for d in DTYPES for k, shape in enumerate(shapes)}
    others = {"c": cells(A, "ü", B.astype("i2")), "text": "text", "s": {"b": 1}}
    content = saved(compressed, **others, **arrays)
    expected, found = scipy.io.loadmat(io.BytesIO(content)), read_matlab(content, "x.mat")
    assert list(found) == ["c", "text", *arrays]  # structures are ignored
    for name in arrays:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(found[name], expected[name])
    assert found["text"].item() == "text"
    for mine, theirs in zip(found["c"], expected["c"][0], strict=True):
        np.testing.assert_array_equal(np.ravel(mine), np.ravel(theirs))


def test_big_endian_files():
    """The same tags and values as a little-endian file, in the other order of bytes."""
    values = np.arange(6, dtype=">f8")
    flags = struct.pack(">IIII", 6, 8, 6, 0)
    shape = struct.pack(">IIii", 5, 8, 2, 3)
    name = struct.pack(">HH4s", 3, 1, b"fea\0")
    body = flags + shape + name + struct.pack(">II", 9, 48) + values.tobytes()
    content = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body
    np.testing.assert_array_equal(read_matlab(content, "x.mat")["fea"], values.reshape(2, 3, order="F"))


def test_sizes_that_do_not_fit_give_an_error_or_what_is_there():
    body, count = declared((2, 4))
    for content, size in (
        (body + bytes(2**20), len(body) + count),  # more data than declared
        (body + bytes(count), len(body) + 2**31),  # a larger element than there could be
        (body + bytes(count - 1), len(body) + count),  # less data than declared
        (body + bytes(count), 10),  # a smaller element than its array
    ):
        try:
            assert read_matlab(packed((content, size)), "x.mat")["fea"].tolist() == [[0] * 4] * 2
        except ValueError as error:
            assert str(error).startswith("x.mat is not a readable MATLAB file (")  # noqa: PT017
    for shape in ((-1, 4), (2, -4), (3, 4)):
        body, _ = declared(shape)
        with pytest.raises(ValueError, match=r"^x\.mat is not a readable MATLAB file \(.*\): replace it\.$"):
            read_matlab(packed((body + bytes(8), len(body) + 8)), "x.mat")


def test_what_is_too_large_is_refused():
    for shape in ((2**13, 2**13), (0x7FFFFFFF, 0x7FFFFFFF)):
        body, count = declared(shape)
        with pytest.raises(ValueError, match=r"x\.mat: fea has more than 16,777,216 values: split the file"):
            read_matlab(packed((body + bytes(min(count, 2**26)), len(body) + count)), "x.mat")
    elements = []
    for k in range(17):
        body, count = declared((2**12, 2**12), b"%d" % k)
        elements.append((body + bytes(count), len(body) + count))
    with pytest.raises(ValueError, match=r"x\.mat: its arrays have more than 256 MB: save them as \.npz"):
        read_matlab(packed(*elements), "x.mat")
    with pytest.raises(ValueError, match=r"c has more than 65,536 cells: save it as a full array"):
        read_matlab(saved(c=cells(*[1] * (2**16 + 1))), "x.mat")


@pytest.mark.parametrize(
    ("program", "seconds", "error", "message"),
    [
        ("import os; os.abort()", 60, ValueError, r"x\.mat is not a readable MATLAB file \(SciPy crashes on it\): rep"),
        ("while True: pass", 1, ValueError, r"x\.mat is not a readable MATLAB file \(it takes too long\): replace it"),
        ("import absent", 60, RuntimeError, r"SciPy cannot be started to read x\.mat: .*'absent'"),
    ],
)
def test_the_caller_survives_the_end_of_the_reader(monkeypatch, program, seconds, error, message):
    monkeypatch.setattr(matlab, "_START", program)
    monkeypatch.setattr(matlab, "_MAX_SECONDS", seconds)
    with pytest.raises(error, match=f"(?s){message}"):
        read_matlab(saved(a=A), "x.mat")


def test_other_versions_are_named():
    header = saved(fea=np.eye(2))[:124]
    with pytest.raises(ValueError, match=r"x\.mat is in format 7\.3: save it in MATLAB with -v7"):
        read_matlab(header + b"\x00\x02IM", "x.mat")
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"fea": np.eye(9)}, format="4")
    with pytest.raises(ValueError, match=r"x\.mat is not a MATLAB file of version 5 to 7: save it"):
        read_matlab(stream.getvalue(), "x.mat")


@pytest.mark.parametrize("labels", ["y", "gnd", "labels"])
def test_a_matrix_per_view(save, labels):
    data = cv.datasets.load_arrays(save(X2=B, X1=A, **{labels: Y.astype(float)[:, None]}))
    assert (data.view_names, data.y.tolist(), data.class_names) == (["X1", "X2"], Y.tolist(), ["1", "2", "3"])
    np.testing.assert_array_equal(data.views["X1"], A)
    np.testing.assert_array_equal(data.views["X2"], B)


def test_a_cell_array_of_views_with_samples_in_columns(save):
    data = open_dataset(save(X=cells(A.T, B.T), gnd=Y, note="text", k=7, options={"a": 1}))
    assert data.view_names == ["X1", "X2"]
    np.testing.assert_array_equal(data.views["X1"], A)
    np.testing.assert_array_equal(data.views["X2"], B)


def test_a_square_view_is_read_as_the_others_are(save):
    square = RNG.normal(size=(6, 6))
    for other, expected in ((B, square), (B.T, square.T)):
        data = cv.datasets.load_arrays(save(photo=square, sketch=other, y=Y))
        np.testing.assert_array_equal(data.views["photo"], expected)
        np.testing.assert_array_equal(data.views["sketch"], B)


@pytest.mark.parametrize("labels", [cells("a", "b", "ç", "ab", "a", "b"), np.array(["a", "b", "c", "ab", "a", "b"])])
def test_labels_and_identities_as_text(save, labels):
    data = cv.datasets.load_arrays(save(photo=A, sketch=B, y=labels, id=np.arange(6)))
    assert data.y.tolist() == ["a", "b", str(labels.ravel()[2]), "ab", "a", "b"]
    assert data.ids.tolist() == list(range(6))


def test_probes_need_neither_labels_nor_a_second_view(save):
    data = open_probes(save(X=A), "photo")
    np.testing.assert_array_equal(data.views["photo"], A)
    assert data.y.tolist() == [""] * 6
    np.testing.assert_array_equal(open_probes(save(photo=A.T, sketch=B.T, y=Y), "sketch").views["sketch"], B)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"y": Y}, r"has no view\. Pass a file"),
        ({"X1": A, "X2": B}, r"has no variable of labels, y, .*gnd.*only X1, X2: add it.*y_name"),
        ({"X1": A, "X2": B, "y": np.eye(6)}, r"has no variable of labels"),
        ({"X1": A, "X2": B, "y": Y, "gnd": Y}, r"several variables of labels, y, gnd: keep one"),
        ({"X1": A, "X2": B, "W": np.eye(5), "y": Y}, r"W is 5 × 5, but y has 6 labels: rows or columns .* Remove what"),
        ({"X1": A, "X2": np.ones((6, 2, 2)), "y": Y}, r"X2 is 6 × 2 × 2, but y has 6 labels"),
        ({"X": cells(A, B), "Z": A, "y": Y}, r"views in a cell array and elsewhere, X, Z: keep one"),
        ({"X": cells(A, "text"), "y": Y}, r"X2 is text: all cells of X must be matrices"),
        ({"X": cells(A, scipy.sparse.csc_matrix(B)), "y": Y}, r"a cell of X is a sparse matrix: save it as a full"),
        ({"X": cells(A, cells(B)), "y": Y}, r"a cell of X is a cell array"),
        ({"X1": scipy.sparse.csc_matrix(A), "X2": B, "y": Y}, r"X1 is a sparse matrix: save it as a full array"),
        ({"X1": A * 1j, "X2": B, "y": Y}, r"X1 is not an array of real numbers"),
        ({"X1": A, "X2": B, "y": np.where(Y == 1, np.nan, Y)}, r"y must be one label per sample"),
    ],
)
def test_files_that_are_wrong(save, variables, message):
    with pytest.raises(ValueError, match=rf"data\.mat.*{message}"):
        cv.datasets.load_arrays(save(**variables))
