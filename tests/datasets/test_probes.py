"""Samples of one view, for a model that is fitted."""

import numpy as np
import pytest

from crossview.datasets.registry import open_probes


def test_one_image_is_resized_to_what_the_model_has_seen(tmp_path, draw):
    path = draw(tmp_path / "new.jpg", 51, size=(60, 40))
    data = open_probes(path, "sketch", image_shape=(6, 4))
    assert (data.view_names, data.y.tolist(), data.ids.tolist()) == (["sketch"], [""], ["new"])
    assert data.image_shape == (6, 4)
    np.testing.assert_allclose(data.views["sketch"], np.full((1, 24), 0.2), atol=1e-2)


@pytest.mark.parametrize(
    ("names", "ids", "labels"),
    [
        (["2.png", "10.png"], ["2", "10"], ["", ""]),
        (["bob/1.png", "ada/1.png"], ["ada/1", "bob/1"], ["ada", "bob"]),
        (["sketch/2.png", "photo/1.png"], ["2"], [""]),
        (["sketch/ada/2.png", "photo/bob/1.png", "photo/x.png"], ["ada/2"], ["ada"]),
        (["sketch/ada/2.png", "sketch/3.png"], ["3", "ada/2"], ["", ""]),
        (["sketch/ada/2.png", "sketch/bob/3.png", "photo/3.png"], ["ada/2", "bob/3"], ["ada", "bob"]),
        (["a.png", "a.jpg", "b.png"], ["a.jpg", "a.png", "b"], ["", "", ""]),
        (["ada/1.png", "ada/1.bmp"], ["ada/1.bmp", "ada/1.png"], ["ada", "ada"]),
        (["ada/2.png", "3.png"], ["3", "ada/2"], ["", ""]),
    ],
)
def test_folders_of_images_with_and_without_views_and_classes(tmp_path, draw, pack, names, ids, labels):
    root = tmp_path / "new"
    for name in names:
        draw(root / name, 10 * len(name))
    for source in (root, pack(root).rename(tmp_path / "new.zip")):
        data = open_probes(source, "sketch", image_shape=(3, 2))
        assert (data.view_names, data.ids.tolist(), data.y.tolist()) == (["sketch"], ids, labels)
        assert data.views.n_features == (6,)


def test_classes_of_probes_may_be_numbers(tmp_path, draw):
    draw(tmp_path / "7" / "a.png")
    assert open_probes(tmp_path, "sketch").y.tolist() == [7]


def test_other_views_are_not_read(tmp_path, draw):
    draw(tmp_path / "sketch" / "ada" / "1.png")
    (tmp_path / "photo" / "ada").mkdir(parents=True)
    (tmp_path / "photo" / "ada" / "1.png").write_bytes(b"damaged")
    assert open_probes(tmp_path, "sketch").ids.tolist() == ["ada/1"]


def test_vectors_one_per_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 5))
    for k, row in enumerate(X):
        np.save(tmp_path / f"{k}.npy", row if k else row[None])
    data = open_probes(tmp_path, "sketch")
    np.testing.assert_array_equal(data.views["sketch"], X)
    assert (data.ids.tolist(), data.image_shape) == (["0", "1"], None)
    np.testing.assert_array_equal(open_probes(tmp_path / "1.npy", "sketch").views["sketch"], X[1:])


def test_one_file_of_one_view_may_have_any_name(tmp_path):
    X = np.random.default_rng(0).normal(size=(3, 2))
    np.save(tmp_path / "monday.npy", X)
    data = open_probes(tmp_path / "monday.npy", "sketch")
    np.testing.assert_array_equal(data.views["sketch"], X)
    assert data.ids.tolist() == [0, 1, 2]
    (tmp_path / "tuesday.csv").write_text("id,label,f\nu,ada,1\nv,,\nw,,2\n")
    data = open_probes(tmp_path / "tuesday.csv", "sketch")
    # A row without values was not seen.
    assert (data.ids.tolist(), data.y.tolist()) == (["u", "w"], ["ada", ""])


def test_a_view_is_taken_from_other_data(tmp_path):
    X = np.random.default_rng(0).normal(size=(3, 2))
    X[1] = np.nan
    np.savez(tmp_path / "data.npz", photo=np.eye(3), sketch=X, y=[5, 6, 7])
    data = open_probes(tmp_path / "data.npz", "sketch")
    np.testing.assert_array_equal(data.views["sketch"], X[[0, 2]])
    assert (data.y.tolist(), data.ids.tolist(), data.class_names) == ([5, 7], [0, 2], ["5", "7"])
    with pytest.raises(ValueError, match=r"data\.npz has no view 'x-ray', only 'photo', 'sketch': choose one of them"):
        open_probes(tmp_path / "data.npz", "x-ray")
    for view in ("photo", "sketch"):
        np.save(tmp_path / f"{view}.npy", np.ones((2, 3)))
    (tmp_path / "data.npz").unlink()
    assert open_probes(tmp_path, "sketch").views.shape == (2, 1)
    assert open_probes("digits", "right").views.shape[1] == 1
    np.savez(tmp_path / "data.npz", photo=np.eye(2), sketch=np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match=r"data\.npz has no sample of the view 'sketch'"):
        open_probes(tmp_path / "data.npz", "sketch")


def test_images_for_a_model_that_knows_no_size(tmp_path, draw):
    draw(tmp_path / "1.png", size=(6, 4))
    assert open_probes(tmp_path, "sketch").image_shape == (6, 4)
    draw(tmp_path / "2.png", size=(8, 4))
    message = r"1\.png is 6 × 4 .* 2\.png is 8 × 4\. The model was not trained on images of a known size: pass a table"
    with pytest.raises(ValueError, match=message) as caught:
        open_probes(tmp_path, "sketch")
    assert "--size" not in str(caught.value)


def test_probes_that_are_wrong(tmp_path, draw):
    with pytest.raises(FileNotFoundError, match="nowhere is neither a data set"):
        open_probes(tmp_path / "nowhere", "sketch")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty has no images or \.npy files\. Put images .* directly into"):
        open_probes(tmp_path / "empty", "sketch")
    (tmp_path / "Thumbs.db").write_bytes(b"of another program")
    with pytest.raises(ValueError, match=r"Thumbs\.db is of no kind that is read: .*\.csv .* image \(.*\.png"):
        open_probes(tmp_path / "Thumbs.db", "sketch")
    draw(tmp_path / "photo" / "ada" / "1.png")
    with pytest.raises(FileNotFoundError, match="no files of the view 'sketch', only photo"):
        open_probes(tmp_path, "sketch")
    draw(tmp_path / "new" / "1.png")
    np.save(tmp_path / "new" / "2.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"images and vectors of the view 'sketch', 1\.png and 2\.npy"):
        open_probes(tmp_path / "new", "sketch")
    (tmp_path / "new" / "1.png").unlink()
    np.save(tmp_path / "new" / "3.npy", np.ones(4))
    with pytest.raises(ValueError, match=r"2\.npy has 3 features, 3\.npy has 4"):
        open_probes(tmp_path / "new", "sketch")
