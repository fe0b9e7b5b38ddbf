import numpy as np
import pytest

import crossview as cv
from crossview.datasets.dataset import keys_by_pattern
from crossview.datasets.registry import open_dataset


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
    message = r"1 of 3 samples is in one view only \(first: photo/10/b\.png\); training leaves it out\. .*use --pair-by"
    with pytest.warns(UserWarning, match=message):
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
def test_an_archive_and_links_to_folders_give_the_same(tree, tmp_path, pack):
    data, packed = cv.datasets.load_folder(tree), cv.datasets.load_folder(pack(tree))
    (tree / "photo" / "10").rename(tmp_path / "elsewhere")
    (tree / "photo" / "10").symlink_to(tmp_path / "elsewhere")
    (tree / "sketch").rename(tmp_path / "drawings")
    (tree / "sketch").symlink_to(tmp_path / "drawings")
    for other in (packed, cv.datasets.load_folder(tree)):
        assert (other.ids.tolist(), other.y.tolist()) == (data.ids.tolist(), data.y.tolist())
        for X, Y in zip(other.views.arrays, data.views.arrays, strict=True):
            np.testing.assert_array_equal(X, Y)


def test_links_that_never_end_are_refused(tree):
    (tree / "photo" / ".hidden").symlink_to(tree)  # which is never read
    (tree / "photo" / "again").symlink_to(tree)
    (tree / "sketch" / "again").symlink_to(tree)
    with pytest.raises(ValueError, match=r"again.* is too deep, perhaps because of a link to a folder above it: re"):
        cv.datasets.load_folder(tree)


def test_what_cannot_be_read_is_refused_rather_than_skipped(tree):
    for link in (tree / "sketch" / "10" / "b.png", tree / "sketch" / "11", tree / "pose"):
        link.symlink_to(tree / "nowhere")
        with pytest.raises(OSError, match=f"{link.name} cannot be read .No such file or directory.: check that it is"):
            cv.datasets.load_folder(tree)
        link.unlink()


def test_mixed_sizes_want_a_size(tree, draw):
    draw(tree / "sketch" / "10" / "b.png", 200, size=(8, 8))
    with pytest.raises(ValueError, match=r"photo/2/a\.png is 6 × 4 .*sketch/10/b\.png is 8 × 8\. Resize .*--size 6x4"):
        cv.datasets.load_folder(tree)
    data = cv.datasets.load_folder(tree, size=3)
    assert data.views.n_features == (9, 9)
    assert data.views.mask.all()


def test_a_class_folder_with_a_single_sample_may_be_a_typing_error(tmp_path, draw):
    for view in ("photo", "sketch"):
        for name in ("ada/1", "ada/2", "ada/3", "bob/1", "bob/2", "bob/3", "bbo/4"):
            draw(tmp_path / view / f"{name}.png")
    with pytest.warns(UserWarning, match="a class with a single sample: 'bbo'"):
        data = cv.datasets.load_folder(tmp_path)
    assert data.class_names == ["ada", "bbo", "bob"]


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


def test_vectors_of_features_instead_of_images(tmp_path, draw):
    rng = np.random.default_rng(0)
    photo, text = rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    for k, name in enumerate(("ada/1", "ada/2", "bob/1")):
        for view, X in (("photo", photo), ("text", text)):
            path = tmp_path / view / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, X[k])
    data = open_dataset(tmp_path)
    assert (data.view_names, data.ids.tolist()) == (["photo", "text"], ["ada/1", "ada/2", "bob/1"])
    np.testing.assert_array_equal(data.views["photo"], photo)
    np.testing.assert_array_equal(data.views["text"], text)
    # One view may be images and another features.
    for name in ("ada/1", "ada/2", "bob/1"):
        (tmp_path / "photo" / f"{name}.npy").unlink()
        draw(tmp_path / "photo" / f"{name}.png")
    data = open_dataset(tmp_path, size=3)
    assert (data.views.n_features, data.image_shape) == ((9, 2), None)
    for wrong in (np.ones((2, 2)), np.array(["a"]), np.float64(3), np.ones(0), np.array([None])):
        np.save(tmp_path / "text" / "ada" / "1.npy", wrong)
        with pytest.raises(
            ValueError, match=r"text/ada/1\.npy (must be one vector of numbers|is not a readable \.npy)"
        ):
            open_dataset(tmp_path)


@pytest.fixture
def mismatched(tmp_path, draw):
    """Twelve samples per view, in four classes, whose names differ between views."""
    for c in range(4):
        for k in range(3):
            draw(tmp_path / "photo" / f"c{c}" / f"F2-{c:03d}-0{k}.jpg", 10 * c + k)
            draw(tmp_path / "sketch" / f"c{c}" / f"sk{c}_0{k}.png", 100 + 10 * c + k)
    return tmp_path


def test_names_that_do_not_match(mismatched, draw):
    message = r"photo/c0/F2-000-00\.jpg has no counterpart in sketch/; 12 of 12 unmatched\. File names must match"
    with pytest.raises(ValueError, match=message):
        cv.datasets.load_folder(mismatched)
    # A single name that happens to agree does not change that.
    draw(mismatched / "photo" / "c0" / "sk0_00.png")
    with pytest.raises(ValueError, match=r"12 of 13 unmatched.* --pair-by '\(\\d\+\)\$'"):
        cv.datasets.load_folder(mismatched)
    assert len(cv.datasets.load_folder(mismatched, labelled=False).y) == 24


def test_a_small_view_may_belong_to_a_large_gallery(tmp_path, draw):
    for k in range(30):
        draw(tmp_path / "photo" / "ada" / f"{k}.png")
    draw(tmp_path / "sketch" / "ada" / "7.png")
    with pytest.warns(
        UserWarning, match=r"29 of 30 samples are in one view only \(first: photo/ada/0\.png\); .*leaves them"
    ):
        cv.datasets.load_folder(tmp_path)
    # But a third view that nothing matches is of no use.
    draw(tmp_path / "x-ray" / "ada" / "x7.png")
    with pytest.raises(ValueError, match=r"x-ray/ada/x7\.png has no counterpart in photo/ or sketch/; 1 of 1 un"):
        cv.datasets.load_folder(tmp_path)


def test_files_are_paired_by_a_pattern(mismatched):
    data = cv.datasets.load_folder(mismatched, pair_by=r"(\d+)$")
    assert data.views.mask.all()
    assert data.ids[:4].tolist() == ["c0/00", "c0/01", "c0/02", "c1/00"]
    np.testing.assert_allclose(data.views["sketch"][:, 0] - data.views["photo"][:, 0], 100 / 255, atol=0.02)
    data = cv.datasets.load_folder(mismatched, pair_by=r"(\d)[-_](0)(\d)$")
    assert data.ids[4] == "c1/1-0-1"
    (mismatched / "photo" / "c0" / "F2-000-00.jpg").unlink()
    with pytest.warns(UserWarning, match=r"1 of 12 samples is in one view only .*; training leaves it out\.$"):
        cv.datasets.load_folder(mismatched, pair_by=r"(\d+)$")


def test_class_folders_that_do_not_match(mismatched):
    for c in range(4):
        (mismatched / "sketch" / f"c{c}").rename(mismatched / "sketch" / f"person {c}")
    with pytest.raises(ValueError, match=r"Names of class folders and of files must match: .*\(\?P<class>") as caught:
        cv.datasets.load_folder(mismatched)
    assert "12 of 12 unmatched" in str(caught.value)
    suggested = str(caught.value).partition("--pair-by '")[2].partition("'")[0]
    data = cv.datasets.load_folder(mismatched, pair_by=suggested)
    assert data.views.mask.all()
    assert (data.y[:4].tolist(), data.ids[3]) == ([0, 0, 0, 1], "1/00")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(\d+", r"pair_by is not a regular expression, \(\\d\+ \(missing \)"),
        (r"\d+", r"pair_by has no group, .*: put the part that identifies a sample in parentheses"),
        (r"(x)", r"pair_by does not match c0/F2-000-00, .* and 21 more \(24 of 24 names\)"),
        (r"(\d)", r"pair_by finds '0' in photo/c0/F2-000-00\.jpg and photo/c0/F2-000-01\.jpg: write a pattern that"),
    ],
)
def test_patterns_that_are_wrong(mismatched, pattern, message):
    with pytest.raises(ValueError, match=message):
        cv.datasets.load_folder(mismatched, pair_by=pattern)
    with pytest.raises(ValueError, match="has more than 1000 characters, too many for pair_by"):
        keys_by_pattern("(a)", ["a" * 1001])


def test_large_images_get_a_hint(tmp_path, draw):
    for view in ("photo", "sketch"):
        draw(tmp_path / view / "ada" / "1.png", size=(768, 1024))
    message = r"images have 768 × 1024 = 786,432 pixels each: .* --size 48x64 \(size=\(48, 64\)\), for faster fits"
    with pytest.warns(UserWarning, match=message):
        cv.datasets.load_folder(tmp_path)
    assert cv.datasets.load_folder(tmp_path, size=(48, 64)).image_shape == (48, 64)
    assert cv.datasets.load_folder(tmp_path, labelled=False).image_shape == (768, 1024)
