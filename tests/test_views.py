from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

import crossview as cv


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(6, 3)), rng.normal(size=(6, 2))]


def test_basics(arrays):
    views = cv.Views(arrays, names=["photo", "sketch"])
    assert (len(views), views.shape, views.n_features) == (6, (6, 2), (3, 2))
    assert views.names == ["photo", "sketch"]
    assert views.mask.shape == (6, 2)
    assert views.mask.all()
    assert repr(views) == "Views(6 samples; photo: 3 features, sketch: 2 features)"
    assert views["sketch"] is views.arrays[1] is arrays[1], "nothing is copied that need not be"
    with pytest.raises(ValueError, match=r"unknown view 'c': the views are 'photo', 'sketch'"):
        views["c"]
    with pytest.raises(TypeError):
        iter(views)
    with pytest.raises(TypeError, match=r"take \.arrays"):
        np.asarray(views)


def test_from_dict_and_from_views(arrays):
    views = cv.Views({"a": arrays[0], "b": arrays[1]})
    again = cv.Views(views)
    assert again.names == ["a", "b"]
    assert again.arrays[1] is arrays[1]
    assert cv.Views(views, names=["x", "y"]).names == ["x", "y"]


@pytest.mark.parametrize("rows", [slice(1, 4), [0, 2], np.array([5, 1]), np.arange(6) > 2, (0, 3), [], -1], ids=repr)
def test_rows_are_selected_as_numpy_does(arrays, rows):
    rows_ = [rows] if isinstance(rows, int) else list(rows) if isinstance(rows, tuple) else rows
    chosen = cv.Views(arrays)[list(rows) if isinstance(rows, tuple) else rows]
    expected = arrays[0][np.array(rows_, dtype=int) if isinstance(rows_, list) else rows_]
    np.testing.assert_array_equal(chosen.arrays[0], expected)
    assert len(chosen.mask) == len(expected)


def test_wrong_indices(arrays):
    views = cv.Views(arrays)
    with pytest.raises(IndexError, match="out of range"):
        views[6]
    for key in ((0, 1), np.array([[0, 1]]), [1.5], ["a", "b"], ...):
        with pytest.raises(IndexError, match="indexed by samples"):
            views[key]


def test_train_test_split(arrays):
    train, test, y_train, _ = train_test_split(cv.Views(arrays), np.arange(6), random_state=0, test_size=2)
    assert (len(train), len(test)) == (4, 2)
    np.testing.assert_array_equal(train.arrays[1], arrays[1][y_train])


def test_missing_rows_and_masks(arrays):
    mask = np.ones((6, 2), dtype=bool)
    mask[2, 0] = mask[3, 1] = False
    before = arrays[0].copy()
    views = cv.Views(arrays, mask=mask)
    assert np.isnan(views.arrays[0][2]).all()
    np.testing.assert_array_equal(arrays[0], before)
    assert repr(views).endswith("; 2 rows missing)")
    hidden = np.ma.masked_array(before, mask=np.repeat(~mask[:, :1], 3, axis=1))
    arrays[0][2, 1], arrays[1][3, 0] = np.nan, np.inf  # masked rows may hold anything
    for same in (views, cv.Views(views), cv.Views(arrays, mask=mask), cv.Views([hidden, views.arrays[1]])):
        np.testing.assert_array_equal(same.mask, mask)
        np.testing.assert_array_equal(same[1:].mask, mask[1:])
        np.testing.assert_array_equal(same.arrays[0], views.arrays[0])


def test_mask_must_fit(arrays):
    with pytest.raises(ValueError, match=r"boolean array of shape \(6, 2\)"):
        cv.Views(arrays, mask=np.ones((2, 6), dtype=bool))
    with pytest.raises(ValueError, match="got dtype int64"):
        cv.Views(arrays, mask=np.ones((6, 2), dtype=int))
    arrays[0][1] = np.nan
    with pytest.raises(ValueError, match="sample 1 was seen in view 'view0', but its row is NaN"):
        cv.Views(arrays, mask=np.ones((6, 2), dtype=bool))


def test_frames(arrays):
    with_nan = arrays[0].copy()
    with_nan[1] = np.nan
    expected = cv.Views([with_nan, arrays[1]])
    for first in (
        pd.DataFrame(with_nan),
        pd.DataFrame(with_nan).convert_dtypes(),
        pl.DataFrame(with_nan),
        pl.DataFrame(with_nan).fill_nan(None),
    ):
        views = cv.Views([first, type(first)(arrays[1])])
        np.testing.assert_array_equal(views.arrays[0], expected.arrays[0])
        np.testing.assert_array_equal(views.mask, expected.mask)


def test_columns_of_frames_are_kept(arrays):
    columns = [["a", "b", "c"], ["d", "e"]]
    expected = [columns[0], None]
    for library in (pd, pl):
        frame = library.DataFrame(dict(zip("abc", arrays[0].T, strict=True)))
        views = cv.Views([frame, arrays[1]])
        for same in (views, views[1:3], cv.Views(views), cv.Views(views, mask=views.mask)):
            assert same.feature_names == expected
        assert cv.Views(views, feature_names=columns).feature_names == columns
    assert cv.Views([pd.DataFrame(arrays[0]), arrays[1]]).feature_names == [None, None]
    assert cv.Views(arrays, feature_names=[None, np.array(["d", "e"])]).feature_names == [None, ["d", "e"]]
    with pytest.raises(TypeError, match=r"view 'view0' has columns with and without a string as name, among them 0"):
        cv.Views([pd.DataFrame(arrays[0], columns=["a", 0, "c"])])


@pytest.mark.parametrize("names", ["abc", [None], [["a", "b"], None], ["abc", None], [None, ["a", 1]]], ids=repr)
def test_bad_feature_names(arrays, names):
    match = r"feature_names must have one entry per view, None or .* \(3 for 'view0', 2 for 'view1'\), got"
    with pytest.raises(ValueError, match=match):
        cv.Views(arrays, feature_names=names)


def test_the_size_of_images_is_kept(arrays):
    views = cv.Views([arrays[0], -arrays[0]], image_shape=[np.int64(1), 3])
    for same in (views, views[[0, 2]], cv.Views(views)):
        assert same.image_shape == (1, 3)
    assert cv.Views(views, image_shape=(3, 1)).image_shape == (3, 1)
    with pytest.raises(ValueError, match=r"image_shape=\(1, 3\) means 3 pixels, but view 'view1' has 2 features"):
        cv.Views(arrays, image_shape=(1, 3))
    for shape in ((3,), (3, 1, 1), (-1, -3), (1.0, 3), (True, 3), "13", 3):
        with pytest.raises(ValueError, match="image_shape must be the height and width"):
            cv.Views([arrays[0]], image_shape=shape)


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, bool])
def test_any_numbers_become_float64(arrays, dtype):
    X = arrays[0].astype(dtype)
    assert cv.Views([X, X]).arrays[0].dtype == np.float64


def test_values_whose_sum_overflows_are_fine():
    huge = np.full((4, 3), 1e308)
    np.testing.assert_array_equal(cv.Views([huge]).arrays[0], huge)


X = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("views", "error", "match"),
    [
        ([], ValueError, "got no views"),
        (X, TypeError, "pass a list with one .* matrix per view"),
        ([X, X[:3]], ValueError, "'view0' has 4, 'view1' has 3"),
        ([X, sp.csr_array(X)], TypeError, "view 'view1' is a scipy.sparse matrix"),
        ([X, X.astype(str)], ValueError, "view 'view1' has dtype <U32"),
        ([X, None], ValueError, "dtype object, not numbers"),
        ([X, pd.DataFrame(X).assign(c="z")], ValueError, "view 'view1' has a non-numeric column, 'c'"),
        ([X, pd.DataFrame(X).astype(str)], ValueError, "view 'view1' has a non-numeric column, 0"),
        ([pd.DataFrame(X), pd.DataFrame(X, index=range(1, len(X) + 1))], ValueError, "share index labels"),
        ([pd.DataFrame(X), pd.DataFrame(X)[::-1]], ValueError, "share index labels, but in different rows"),
        ([X, pl.DataFrame(X).with_columns(c=pl.lit("z"))], ValueError, "dtype object"),
        ([X, X + 1j], ValueError, "Complex data not supported"),
        ([X, X[:, 0]], ValueError, r"shape \(4,\). Reshape your data"),
        ([X, X[None]], ValueError, r"must be a matrix .* shape \(1, 4, 3\)"),
        ([X[:0], X[:0]], ValueError, r"0 sample\(s\)"),
        ([X, X[:, :0]], ValueError, r"0 feature\(s\) \(shape=\(4, 0\)\)"),
        ([X, [[1, 2], [3]]], ValueError, "rows have different lengths"),
        ([X, np.where(X == 4, np.inf, X)], ValueError, r"contains infinity \(row 1, column 1\)"),
        ([X, np.where(X == 4, np.nan, X)], ValueError, "contains NaN in part of row 1"),
        ([X, cv.Views([X])], TypeError, "a Views is not one array: take .arrays"),
        ({"a": X, 3: X}, ValueError, "2 different strings"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_views(views, error, match):
    with pytest.raises(error, match=match):
        cv.Views(views)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], "ab"])
def test_bad_names(names):
    with pytest.raises(ValueError, match="2 different strings"):
        cv.Views([X, X], names=names)
