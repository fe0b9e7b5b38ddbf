import contextlib
import io
import os
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import crossview as cv
from crossview.datasets.registry import open_dataset

PHOTO = "id,label,a,b\nx,cat,1,2\ny,dog,3,4.5\nz,cat,,\n"
SKETCH = "c,label,id\n7,dog,y\n-1e3,owl,w\n"


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "photo.csv").write_text(PHOTO)
    (tmp_path / "sketch.csv").write_text(SKETCH)
    return tmp_path


def test_npz(tmp_path):
    rng = np.random.default_rng(0)
    photo, sketch = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    sketch[2] = np.nan
    np.savez(tmp_path / "data.npz", photo=photo, sketch=sketch, y=["b", "a", "a", "b", "a"])
    data = cv.datasets.load_arrays(tmp_path / "data.npz")
    assert data.view_names == ["photo", "sketch"]
    np.testing.assert_array_equal(data.views["photo"], photo)
    np.testing.assert_array_equal(data.views.mask[:, 1], [True, True, False, True, True])
    assert data.y.tolist() == ["b", "a", "a", "b", "a"]
    assert data.class_names == ["a", "b"]
    assert data.image_shape is None
    np.savez_compressed(tmp_path / "other.npz", a=photo, target=["u", "v"] * 2 + ["u"])
    assert cv.datasets.load_arrays(tmp_path / "other.npz", y_name="target").y.tolist() == ["u", "v", "u", "v", "u"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.eye(3)}, r"no array of labels 'y', only a: add it, or, in Python, pass its name as y_name"),
        ({"y": np.arange(3)}, "has no view"),
        ({"a": np.eye(3), "y": np.arange(4)}, "y has 4 entries, but the views have 3 rows"),
        ({"a": np.eye(3), "id": [7, 8], "y": [0, 1, 1]}, "id has 2 entries, but the views have 3 rows"),
        ({"a": np.eye(3), "b": np.eye(4), "y": np.arange(4)}, r"data\.npz: all views need the same number of rows"),
        ({"a": np.eye(3), "y": np.eye(3)}, "y must be one label per sample"),
        ({"a": np.eye(3), "y": [1.0, np.nan, 2.0]}, "y must be one label per sample"),
        ({"a": np.eye(3), "y": [b"a", b"b", b"b"]}, "y must be one label per sample"),
        ({"a": np.arange(3), "y": np.arange(3)}, r"data\.npz: view 'a' must be a matrix"),
        ({"a": np.array([["u"]] * 3), "y": np.arange(3)}, r"data\.npz: view 'a' has dtype <U1, not numbers"),
        (
            {"a": np.eye(3), "y": np.array([1, None, "x"], dtype=object)},
            r"y\.npy is of dtype object, which is never read: .*np\.array\(labels, dtype=str\)",
        ),
    ],
)
def test_npz_that_is_wrong(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        cv.datasets.load_arrays(tmp_path / "data.npz")


class Trap:
    """What a pickle would call."""

    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_nothing_in_a_file_is_executed(tmp_path):
    np.savez(tmp_path / "data.npz", a=np.eye(2), y=np.array([Trap(), Trap()], dtype=object))
    with pytest.raises(ValueError, match="never read"):
        cv.datasets.load_arrays(tmp_path / "data.npz")
    pd.to_pickle(Trap(), tmp_path / "pickle.npz")
    with pytest.raises(ValueError, match=r"pickle\.npz is not a readable \.npz file"):
        cv.datasets.load_arrays(tmp_path / "pickle.npz")


@pytest.mark.parametrize("keep", [0, 10, -100])
def test_damaged_npz_is_named(tmp_path, keep):
    path = tmp_path / "data.npz"
    np.savez(path, a=np.eye(9), y=np.arange(9))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"data\.npz is not a readable \.npz file"):
        cv.datasets.load_arrays(path)
    (tmp_path / "one.dat").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"one\.dat is of no kind that is read: pass a \.npz, .* an image \(\.bmp, "):
        cv.datasets.load_arrays(tmp_path / "one.dat")


def test_a_folder_of_npy_files(tmp_path):
    rng = np.random.default_rng(0)
    photo, sketch = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)).astype(np.float32)
    np.save(tmp_path / "photo.npy", photo)
    np.save(tmp_path / "sketch.npy", sketch)
    with pytest.raises(ValueError, match=r"no array of labels 'y', only photo, sketch"):
        open_dataset(tmp_path)
    assert open_dataset(tmp_path, labelled=False).ids is None
    with (tmp_path / "y.npy").open("wb") as stream:
        np.lib.format.write_array(stream, np.array(list("abaab")), version=(2, 0))
    np.save(tmp_path / "id.npy", np.arange(5) * 2)
    for name in (".y.npy", "~$y.npy", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"of another program")
    data = open_dataset(tmp_path)
    assert (data.view_names, data.y.tolist(), data.ids.tolist()) == (
        ["photo", "sketch"],
        list("abaab"),
        [0, 2, 4, 6, 8],
    )
    np.testing.assert_array_equal(data.views["photo"], photo)
    np.testing.assert_array_equal(data.views["sketch"], sketch)
    with pytest.raises(ValueError, match=r"needs no pair_by: row k of every array is the same sample"):
        open_dataset(tmp_path, pair_by="(x)")
    np.save(tmp_path / "y.npy", np.array(list("abaab"), dtype=object))
    with pytest.raises(ValueError, match=r"y\.npy is not a readable \.npy file .*np\.array\(labels, dtype=str\)"):
        open_dataset(tmp_path)
    (tmp_path / "photo.csv").write_text(PHOTO)
    with pytest.raises(ValueError, match=r"has tables and \.npy files, such as .*\.npy: keep one kind"):
        open_dataset(tmp_path)


def test_labels_in_one_table_are_enough(tables):
    (tables / "photo.csv").write_text("id,label,f\nu,cat,1\nv,dog,2\n")
    (tables / "sketch.csv").write_text("id,g\nv,3\nu,4\n")
    data = cv.datasets.load_arrays(tables)
    assert (data.y.tolist(), data.views.mask.all()) == (["cat", "dog"], True)
    (tables / "sketch.csv").write_text("id,g\nv,3\nu,4\nw,5\n")
    with pytest.raises(ValueError, match=r"sketch\.csv has no column 'label', only 'id', 'g': add it to one of"):
        cv.datasets.load_arrays(tables)


def test_identities_that_do_not_match(tables):
    (tables / "photo.csv").write_text("id,label,f\nphoto-1,cat,1\nphoto-2,dog,2\n")
    (tables / "sketch.csv").write_text("id,label,g\nsk_2,dog,3\nsk_1,cat,4\n")
    message = r"id 'photo-1' of .*photo\.csv has no counterpart in sketch; 2 of 2 unmatched\. .* --pair-by"
    with pytest.raises(ValueError, match=message):
        cv.datasets.load_arrays(tables)
    assert cv.datasets.load_arrays(tables, labelled=False).views.shape == (4, 2)
    data = cv.datasets.load_arrays(tables, pair_by=r"(\d+)$")
    assert (data.ids.tolist(), data.y.tolist()) == (["1", "2"], ["cat", "dog"])
    np.testing.assert_array_equal(data.views["sketch"], [[4], [3]])
    with pytest.raises(ValueError, match=r"pair_by finds 'o' in 'photo-1' and 'photo-2' of .*photo\.csv: write"):
        cv.datasets.load_arrays(tables, pair_by="(o|k)")


def test_tables_are_joined_by_identity(tables):
    # A row without values, that of z, was not seen.
    with pytest.warns(
        UserWarning, match=r"2 of 3 samples are in one view only \(first: id 'x' of .*photo\.csv\); training"
    ):
        data = cv.datasets.load_arrays(tables)
    assert data.view_names == ["photo", "sketch"]
    assert data.y.tolist() == ["cat", "dog", "cat", "owl"]
    assert data.views.feature_names == [["a", "b"], ["c"]]
    nan = np.nan
    np.testing.assert_array_equal(data.views["photo"], [[1, 2], [3, 4.5], [nan, nan], [nan, nan]])
    np.testing.assert_array_equal(data.views["sketch"], [[nan], [7], [nan], [-1000]])


def test_labels_may_be_left_out_and_identities_are_kept(tables, tmp_path_factory):
    assert cv.datasets.load_arrays(tables, labelled=False).ids.tolist() == ["x", "y", "z", "w"]
    folder = tmp_path_factory.mktemp("unlabelled")
    (folder / "a.csv").write_text("id,f\nu,1\nv,2\n")
    with pytest.raises(ValueError, match="no column 'label'"):
        cv.datasets.load_arrays(folder)
    data = cv.datasets.load_arrays(folder, labelled=False)
    assert (data.y.tolist(), data.ids.tolist(), data.class_names) == (["", ""], ["u", "v"], [])
    # A label that one table has and another lacks is known.
    (folder / "b.csv").write_text("id,label,f\nv,dog,1\nu,,2\n")
    assert cv.datasets.load_arrays(folder, labelled=False).y.tolist() == ["", "dog"]
    np.savez(folder / "c.npz", a=np.eye(3), id=[7, 8, 9])
    data = cv.datasets.load_arrays(folder / "c.npz", labelled=False)
    assert (data.view_names, data.y.tolist(), data.ids.tolist()) == (["a"], ["", "", ""], [7, 8, 9])


def test_columns_may_have_other_names(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffperson, sex, f\r\n1,0,2.5\r\n\r\n2,1,3.5\r\n", encoding="utf-8")
    data = cv.datasets.load_arrays(tmp_path, id_column="person", label_column="sex")
    np.testing.assert_array_equal(data.views["a"], [[2.5], [3.5]])
    np.testing.assert_array_equal(data.y, [0, 1])
    assert data.y.dtype.kind == "i"


def test_parquet_joins_csv(tables):
    frame = pd.DataFrame({"id": ["y", "x"], "label": ["dog", "cat"], "d": [1, 2], "e": [0.5, None]})
    frame.loc[1, ["d", "e"]] = None
    frame.to_parquet(tables / "infrared.parquet")
    with pytest.warns(UserWarning, match=r"2 of 3 samples are in one view only"):
        data = cv.datasets.load_arrays(tables)
    assert data.view_names == ["infrared", "photo", "sketch"]
    assert data.y.tolist() == ["dog", "cat", "cat", "owl"]
    np.testing.assert_array_equal(data.views["infrared"][0], [1, 0.5])
    np.testing.assert_array_equal(data.views.mask[:, 0], [True, False, False, False])


def test_semicolons_and_decimal_commas(tmp_path):
    """As spreadsheet programs write CSV in many countries."""
    (tmp_path / "a.csv").write_text("id;label;f;g\n1,5;x,y;-0,25;3\n2;z;1,5e-3;4\n")
    (tmp_path / "b.csv").write_text("\ufeff\nid;h\n2;7.5\n1,5;8\n")
    data = cv.datasets.load_arrays(tmp_path)
    assert (data.ids.tolist(), data.y.tolist()) == (["1,5", "2"], ["x,y", "z"])
    np.testing.assert_array_equal(data.views["a"], [[-0.25, 3], [1.5e-3, 4]])
    np.testing.assert_array_equal(data.views["b"], [[8], [7.5]])
    (tmp_path / "b.csv").write_text("id\tlabel\th\n2\tz\t9.5\n3\tz\t8\n")
    np.testing.assert_array_equal(cv.datasets.load_arrays(tmp_path / "b.csv").views["b"], [[9.5], [8]])


@pytest.mark.parametrize(
    ("frame", "ids", "labels"),
    [
        ({"id": [10, 9], "label": [3.0, 4.0]}, ["10", "9"], [3, 4]),
        ({"id": ["10 ", "9"], "label": ["Three", " Three "]}, ["10", "9"], ["Three", "Three"]),
        ({"id": [b"10", b"9"], "label": [b"drei", "vi\u00e4r".encode()]}, ["10", "9"], ["drei", "vi\u00e4r"]),
        ({"id": ["10", "9"], "label": pd.Categorical(["cat", "dog"])}, ["10", "9"], ["cat", "dog"]),
        ({"id": ["10", "9"], "label": ["--5", "-5"]}, ["10", "9"], ["--5", "-5"]),
        ({"id": ["10", "9"], "label": ["-6", "-5"]}, ["10", "9"], [-6, -5]),
    ],
)
def test_names_are_the_same_text_however_they_are_stored(tmp_path, frame, ids, labels):
    pd.DataFrame(frame | {"f": [1.0, 2.0]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text('id,g\n"9 ",5\n 10,6\n')
    data = cv.datasets.load_arrays(tmp_path)
    assert (data.ids.tolist(), data.y.tolist()) == (ids, labels)
    np.testing.assert_array_equal(data.views["b"], [[6], [5]])


def test_names_in_other_ways(tmp_path):
    frame = pd.DataFrame({"id": ["x", "y", "z"], "label": ["cat", None, "dog"], "f": [1, None, 3]})
    frame.astype({"label": "category", "f": "Int8"}).to_parquet(tmp_path / "a.parquet", row_group_size=2)
    data = cv.datasets.load_arrays(tmp_path / "a.parquet", labelled=False)
    assert data.y.tolist() == ["cat", "", "dog"]
    np.testing.assert_array_equal(data.views["a"], [[1], [np.nan], [3]])
    pd.DataFrame({"id": [b"x", b"y"], "label": [b"x", b"\xff"], "f": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet has names that are not in UTF-8 \(.*0xff.*\): save them as text"):
        cv.datasets.load_arrays(tmp_path)
    np.savez(tmp_path / "c.npz", a=np.eye(2), b=np.eye(2), y=["Three", " Three"], id=["u ", "v"])
    data = cv.datasets.load_arrays(tmp_path / "c.npz")
    assert (data.ids.tolist(), data.class_names) == (["u", "v"], ["Three"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["six"] * 3 + ["seven"] * 4 + ["sevn"], r"a class with a single sample: 'sevn' \(check for typing errors\)"),
        (np.r_[np.repeat(np.arange(5), 20), 98, 99], r"classes with a single sample: '98', '99' \(check"),
        # One sample per class, or few, is how some data are.
        (["six", "seven", "sevn"], None),
        (["six"] * 2 + ["seven"] * 2 + ["sevn"], None),
        (["six"] * 3 + ["seven"] * 3 + ["eight"] * 3 + ["sevn", "ate"], None),
    ],
)
def test_classes_with_a_single_sample_may_be_typing_errors(tmp_path, labels, message):
    X = np.random.default_rng(0).normal(size=(len(labels), 2))
    np.savez(tmp_path / "data.npz", photo=X, sketch=X, y=labels)
    with pytest.warns(UserWarning, match=message) if message else contextlib.nullcontext():
        cv.datasets.load_arrays(tmp_path / "data.npz")
    cv.datasets.load_arrays(tmp_path / "data.npz", labelled=False)
    np.savez(tmp_path / "data.npz", photo=X, y=labels)  # gallery images of one view have no folds
    cv.datasets.load_arrays(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("sketch", "message"),
    [
        ("id,label,c\ny,cat,1\n", r"id 'y' has the label 'dog' in .*photo\.csv, but 'cat' in .*sketch\.csv"),
        ("id,label,c\nw,cat,1\nw,cat,2\n", r"sketch\.csv has id 'w' more than once"),
        ("id,label,c\n,cat,1\n", r"sketch\.csv has no id in row 1"),
        ("id,label,c\nw,,1\n", r"sketch\.csv has no label for id 'w'"),
        ("id,label,c\nw,cat,1\nv,cat,red\n", r"sketch\.csv has .*'red' in row 2 of column 'c'"),
        ("id,label,c\nw,cat,12_3\n", r"sketch\.csv has a feature that is not a finite number, '12_3'"),
        ("id,label,c\nw,cat,inf\n", r"sketch\.csv has a feature that is not a finite number, 'inf'"),
        ("id,label,c,d\nw,cat,1,\n", r"sketch\.csv has no value in column 'd' for id 'w'"),
        ("id,label,c\nw,cat\n", r"sketch\.csv has 2 cells in row 1, but 3 columns"),
        ("id,label\nw,cat\n", r"sketch\.csv has no features"),
        ("id,label,c\n", r"sketch\.csv has no rows"),
        ("id,label,c,c\nw,cat,1,2\n", r"sketch\.csv has two columns called 'c'"),
        (",id,label,c\n0,w,cat,1\n", r"sketch\.csv has a column without a name.*index=False"),
        ("id;label;c\nw;cat;1.5\nv;cat;1,5\n", r"sketch\.csv has .* '1,5' in row 2 of column 'c': write 1\.5"),
        ("id;label;c\nw;cat;1,5\nv;cat;1,500,000\n", r"sketch\.csv has .* '1,5' in row 1 of column 'c'"),
        ("id,class,c\nw,cat,1\n", r"sketch\.csv has .* 'cat' in row 1 of column 'class': .*rename it to 'label' if it"),
        ("id,class,c\nw,7,1\n", r"sketch\.csv has no column 'label', only 'id', 'class', 'c': add .*label_column"),
        ("name,label,c\nw,cat,1\n", r"sketch\.csv has no column 'id', only 'name', 'label', 'c': add it.*id_column"),
        ('id,label,c\nw,cat,"1,5"\n', r"sketch\.csv has .* '1,5' in row 1 of column 'c': write 1\.5 instead of 1,5"),
        ("", r"sketch\.csv is empty"),
        ('id,label,c\nw,"cat,1\n', r"sketch\.csv is not a readable table"),
    ],
)
def test_tables_that_are_wrong(tables, sketch, message):
    (tables / "sketch.csv").write_text(sketch)
    with pytest.raises(ValueError, match=message):
        cv.datasets.load_arrays(tables)


def test_other_files_that_are_wrong(tables, tmp_path_factory):
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*numpy\.savez.*one table per view"):
        cv.datasets.load_arrays(tables / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no \.csv, \.parquet or \.npy file"):
        cv.datasets.load_arrays(tmp_path_factory.mktemp("empty"))
    (tables / "sketch.csv").write_bytes(b"id,label,c\n\xff\xfe,cat,1\n")
    with pytest.raises(ValueError, match=r"sketch\.csv is not a readable table .*UTF-8"):
        cv.datasets.load_arrays(tables)
    (tables / "sketch.csv").write_text(SKETCH)
    (tables / "sketch.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"two tables of the view 'sketch'"):
        cv.datasets.load_arrays(tables)
    (tables / "sketch.parquet").rename(tables / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet is not a readable parquet file"):
        cv.datasets.load_arrays(tables)
    frame = pd.DataFrame({"id": ["x"], "label": ["cat"], "f": ["red"]})
    frame.to_parquet(tables / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet has .*'red' in row 1 of column 'f'"):
        cv.datasets.load_arrays(tables)
    frame.set_index(pd.Index([5])).to_parquet(tables / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet has a column without a name"):
        cv.datasets.load_arrays(tables)


def test_csv_needs_neither_pandas_nor_pyarrow_and_parquet_a_safe_pyarrow(tables, monkeypatch):
    for name in ("pandas", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cv.datasets.load_arrays(tables, labelled=False).views.shape == (4, 2)
    (tables / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"pip install 'crossview\[parquet\]'"):
        cv.datasets.load_arrays(tables)
    monkeypatch.undo()
    # Some versions can be made to execute what a file says.
    monkeypatch.setattr("pyarrow.__version__", "13.0.0")
    with pytest.raises(ImportError, match=r"pyarrow 13\.0\.0 is too old"):
        cv.datasets.load_arrays(tables)


def npy(shape, dtype="<f8", size=0):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": dtype})
    return stream.getvalue() + bytes(size)


def test_sizes_are_checked_before_anything_is_allocated(tmp_path, monkeypatch):
    monkeypatch.setattr(np.lib.format, "read_array", lambda *args, **kwargs: pytest.fail("allocated"))
    long_header = b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(50)
    for content in (
        long_header,
        npy((10**6, 10**6)),
        npy((10**12,), "<U0"),
        npy((2, 2), "|O", 32),
        npy((9, 9), size=80),
    ):
        (tmp_path / "a.npy").write_bytes(content)
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.write(tmp_path / "a.npy", "a.npy")
        for name, kind in (("a.npy", r"\.npy file"), ("a.npz", r"\.npz file of numbers and text")):
            with pytest.raises(ValueError, match=rf"{name} is not a readable {kind} \(a\.npy is .*\).*numpy\.save"):
                cv.datasets.load_arrays(tmp_path / name, labelled=False)


def test_npz_bombs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, a=np.zeros((1000, 1000)), y=np.arange(1000) % 2)
    assert cv.datasets.load_arrays(path).views.shape == (1000, 1)
    monkeypatch.setattr("crossview.datasets.files.MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"unpacks to more than 200 times its size: pack it again\)\. Pass"):
        cv.datasets.load_arrays(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("y.npy", npy((2,), size=16))
    with pytest.raises(ValueError, match=r"compressed in a rare way"):
        cv.datasets.load_arrays(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.npy"])
def test_folders_devices_and_pipes_are_not_read(tmp_path, name):
    folder = tmp_path / "tables"
    (folder / name).mkdir(parents=True)
    with pytest.raises(OSError, match=rf"{name} cannot be read \(Is a directory\): check that it is a file"):
        cv.datasets.load_arrays(folder)
    (folder / name).rmdir()
    os.mkfifo(tmp_path / "pipe")
    for target in ("/dev/zero", tmp_path / "pipe"):
        (folder / name).symlink_to(target)
        with pytest.raises(ValueError, match=rf"{name} is a device, a pipe or a socket: replace it by a file"):
            cv.datasets.load_arrays(folder)
        (folder / name).unlink()


PARQUET_BOMBS = {
    "numbers": lambda: pyarrow.array(np.zeros(2**24)),
    "nothing": lambda: pyarrow.nulls(2**24),
    "text": lambda: pyarrow.DictionaryArray.from_arrays(np.zeros(10**5, np.int32), ["x" * 10_000]),
    "lists of text": lambda: pyarrow.ListArray.from_arrays(
        [0, 2**24], pyarrow.DictionaryArray.from_arrays(np.zeros(2**24, np.int8), ["x" * 10_000])
    ),
    "one page": lambda: pyarrow.array(["x" * (2**28 + 1)]),
}


@pytest.mark.parametrize("kind", PARQUET_BOMBS)
def test_parquet_bombs_are_refused(tmp_path, kind, monkeypatch):
    path, rows = tmp_path / "a.parquet", []
    pyarrow.parquet.write_table(pyarrow.table({"id": PARQUET_BOMBS[kind]()}), path, compression="zstd")
    assert path.stat().st_size < 2**20
    decode = pyarrow.parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        pyarrow.parquet.ParquetFile,
        "iter_batches",
        lambda file, size: (rows.append(batch.num_rows) or batch for batch in decode(file, size)),
    )
    with pytest.raises(ValueError, match=r"a\.parquet is not a readable parquet file \(it unpacks to far more than"):
        cv.datasets.load_arrays(path, labelled=False)
    assert sum(rows) < 2**23 + 2**12
