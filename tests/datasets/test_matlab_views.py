"""Views and labels in MATLAB files, through the loader of arrays."""

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import crossview as cv
from crossview.datasets._matlab import read_matlab
from crossview.datasets.registry import open_dataset, open_probes

RNG = np.random.default_rng(0)
A, B, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 3)), np.repeat([3, 1, 2], 2)


def cells(*values):
    """What MATLAB calls {a, b, c}."""
    array = np.empty((1, len(values)), dtype=object)
    array[0, :] = values
    return array


@pytest.fixture
def save(tmp_path):
    def write(**variables):
        scipy.io.savemat(tmp_path / "data.mat", variables, do_compression=len(variables) % 2 == 0)
        return tmp_path / "data.mat"

    return write


@pytest.mark.parametrize("labels", ["y", "Y", "gnd", "gt", "label", "labels"])
def test_a_matrix_per_view(save, labels):
    data = cv.datasets.load_arrays(save(X2=B, X1=A, **{labels: Y.astype(float)[:, None]}))
    assert data.view_names == ["X1", "X2"]
    np.testing.assert_array_equal(data.views["X1"], A)
    np.testing.assert_array_equal(data.views["X2"], B)
    np.testing.assert_array_equal(data.y, Y)
    assert data.class_names == ["1", "2", "3"]


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
        ({"X": A, "y": Y}, r"has one view, X, but matching needs two or more: .*X1 and X2.*X = \{X1, X2\}"),
        ({"X": cells(A), "y": Y}, r"has one view, X1, but matching needs two"),
        ({"y": Y}, r"has no view, but matching needs two"),
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


def test_variables_are_what_scipy_reads():
    variables = {"a": A, "t": "text", "c": cells(A, "ü", B.astype("i2")), "s": {"f": 1}, "e": np.empty((0, 3))}
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables)
    expected, found = scipy.io.loadmat(io.BytesIO(stream.getvalue())), read_matlab(stream.getvalue(), "x.mat")
    assert set(found) == {"a", "t", "c", "e"}
    assert found["t"].item() == expected["t"].item() == "text"
    assert found["c"][1].item() == expected["c"][0, 1].item() == "ü"
    for mine, theirs in (
        (found["a"], expected["a"]),
        (found["c"][2], expected["c"][0, 2]),
        (found["e"], expected["e"]),
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_all_arrays_together_are_limited(monkeypatch):
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"a": np.zeros(1000), "b": np.zeros(1000)}, do_compression=True)
    assert set(read_matlab(stream.getvalue(), "x.mat")) == {"a", "b"}
    monkeypatch.setattr("crossview.datasets._matlab._MAX_BYTES", 12_000)
    with pytest.raises(ValueError, match=r"x\.mat: its arrays have more than 0 MB: save them as \.npz"):
        read_matlab(stream.getvalue(), "x.mat")
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"c": cells(*"abc"), "t": "abc"})
    for limit, message in (
        ("_MAX_CELLS", "c has more than 2 cells"),
        ("_MAX_CHARACTERS", "t has more than 2 bytes of"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"crossview.datasets._matlab.{limit}", 2)
            with pytest.raises(ValueError, match=message):
                read_matlab(stream.getvalue(), "x.mat")
