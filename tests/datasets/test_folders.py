import numpy as np
import pytest

import crossview as cv


@pytest.fixture
def tree(tmp_path, draw):
    """Two views of two classes; the sketch of the second sample of class 10 is missing."""
    root = tmp_path / "tree"
    greys = {"photo/2/a": 10, "photo/10/a": 20, "photo/10/b": 30, "sketch/2/a": 110, "sketch/10/a": 120}
    for name, grey in greys.items():
        draw(root / f"{name}.{'jpg' if name.startswith('sketch') else 'png'}", grey)
    (root / "README.txt").write_text("not an image")
    return root


def test_pairs_by_class_and_name_and_leaves_gaps(tree):
    with pytest.warns(UserWarning, match=r"1 of 3 samples are in one view only, .* photo/10/b\.png: fits leave"):
        data = cv.datasets.load_folder(tree)
    assert data.view_names == ["photo", "sketch"]
    assert data.image_shape == (6, 4)
    np.testing.assert_array_equal(data.y, [2, 10, 10])
    assert data.class_names == ["2", "10"]
    assert data.ids.tolist() == ["2/a", "10/a", "10/b"]
    np.testing.assert_array_equal(data.views.mask, [[True, True], [True, True], [True, False]])
    np.testing.assert_allclose(data.views["photo"][:, 0] * 255, [10, 20, 30])
    np.testing.assert_allclose(data.views["sketch"][:2] * 255, np.repeat([[110.0], [120.0]], 24, axis=1), atol=1.5)
    assert np.isnan(data.views["sketch"][2]).all()


@pytest.mark.filterwarnings("ignore:1 of 3 samples")
def test_an_archive_gives_the_same(tree, pack):
    data, packed = cv.datasets.load_folder(tree), cv.datasets.load_folder(pack(tree))
    np.testing.assert_array_equal(packed.y, data.y)
    for X, Y in zip(packed.views.arrays, data.views.arrays, strict=True):
        np.testing.assert_array_equal(X, Y)


@pytest.mark.filterwarnings("ignore:1 of 3 samples")
def test_views_are_chosen_and_ordered(tree, draw):
    draw(tree / "infrared" / "2" / "a.png", size=(50, 50))
    data = cv.datasets.load_folder(tree, views=["sketch", "photo"])
    assert data.view_names == ["sketch", "photo"]
    with pytest.raises(FileNotFoundError, match=r"no files of the view 'x-ray'.*<view>/<class>/<sample>"):
        cv.datasets.load_folder(tree, views=["x-ray", "photo"])


def test_mixed_sizes_want_a_size(tree, draw):
    draw(tree / "sketch" / "10" / "b.png", 200, size=(8, 8))
    with pytest.raises(ValueError, match=r"photo/2/a\.png is 6 × 4 .*sketch/10/b\.png is 8 × 8\. Resize .*--size 6x4"):
        cv.datasets.load_folder(tree)
    data = cv.datasets.load_folder(tree, size=3)
    assert data.views.n_features == (9, 9)
    assert data.views.mask.all()


def test_classes_by_name(tmp_path, draw):
    for name in ("a/cup/1", "a/dog/1", "b/cup/1", "b/dog/1"):
        draw(tmp_path / f"{name}.png")
    data = cv.datasets.load_folder(tmp_path)
    assert data.y.tolist() == data.class_names == ["cup", "dog"]


def test_says_what_is_wrong(tree, tmp_path, draw):
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*<view>/<class>/<sample>"):
        cv.datasets.load_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty has no images or \.npy files\."):
        cv.datasets.load_folder(tmp_path / "empty")
    draw(tree / "photo" / "2" / "a.bmp")
    with pytest.raises(ValueError, match=r"photo/2/a\.png and photo/2/a\.bmp|photo/2/a\.bmp and photo/2/a\.png"):
        cv.datasets.load_folder(tree)
    (tree / "photo" / "2" / "a.bmp").unlink()
    draw(tree / "photo" / "stray.png")
    with pytest.raises(ValueError, match=r"wrong place, photo/stray\.png"):
        cv.datasets.load_folder(tree)


@pytest.mark.filterwarnings("ignore:1 of 3 samples")
@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_corrupt_images_are_named_not_skipped(tree, content):
    path = tree / "photo" / "10" / "b.png"
    path.write_bytes(path.read_bytes()[:50] if content is None else content)
    with pytest.raises(ValueError, match=r"photo/10/b\.png is not a readable image"):
        cv.datasets.load_folder(tree)
