import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from paper.cmu_pie import CASES, load_cmu_pie


def faces(offset, people=(1, 2, 5), conditions=(1, 2, 3, 12, 13), side=4):
    """Images whose first pixel tells pose, person and condition, and whose pixel right of it is brighter by one."""
    gnd, condition = np.meshgrid(people, conditions, indexing="ij")
    first = offset + 20 * gnd.ravel() + condition.ravel()
    images = np.zeros((gnd.size, side, side), dtype=np.uint8)
    images[:, 0, 0], images[:, 0, 1] = first, first + 1
    return {"fea": images.reshape(len(images), -1), "gnd": gnd.reshape(-1, 1), "condition": condition.reshape(-1, 1)}


@pytest.fixture
def pie(tmp_path):
    folder = tmp_path / "pie"
    folder.mkdir()
    for k, pose in enumerate(("C05", "C27", "C29")):
        content = faces(k)
        order = np.random.default_rng(k).permutation(len(content["gnd"]))
        scipy.io.savemat(folder / f"{pose}.mat", {name: rows[order] for name, rows in content.items()})
    return folder


def test_pairs_by_person_and_condition(pie, pack):
    data = load_cmu_pie(pie)
    assert data.view_names == ["C05", "C27", "C29"]
    assert data.image_shape == (4, 4)
    np.testing.assert_array_equal(data.y, np.repeat([1, 2, 5], 4))
    assert data.class_names == ["1", "2", "5"]
    expected = 20 * data.y + np.tile([1, 2, 3, 12], 3)
    for k, X in enumerate(data.views.arrays):
        np.testing.assert_allclose(X[:, 0] * 255, expected + k)
        np.testing.assert_allclose(X[:, 1] * 255, expected + k + 1)
    packed = load_cmu_pie(pack(pie), case=1)
    assert packed.view_names == ["C27", "C29"]
    np.testing.assert_array_equal(packed.views["C29"], data.views["C29"])


def test_conditions_and_size(pie):
    small = load_cmu_pie(pie, case=1, conditions=None, size=(2, 3))
    assert len(small.y) == 15
    assert (small.image_shape, small.views.n_features) == ((2, 3), (6, 6))
    np.testing.assert_array_equal(load_cmu_pie(pie, case=1, conditions=[13]).y, [1, 2, 5])
    with pytest.raises(ValueError, match=r"conditions 77, 78 are not in .*conditions=None"):
        load_cmu_pie(pie, case=1, conditions=[1, 77, 78])
    for wrong in ([], 3):
        with pytest.raises(ValueError, match="conditions must be a list of whole numbers, or None"):
            load_cmu_pie(pie, conditions=wrong)


def test_missing_images_and_fractions_between_0_and_1(pie):
    some = faces(1, people=(1, 2))
    scipy.io.savemat(pie / "C27.mat", some | {"fea": some["fea"] / 255.0})
    data = load_cmu_pie(pie, case=1)
    np.testing.assert_array_equal(data.views.mask[:, 0], data.y != 5)
    assert data.views.mask[:, 1].all()
    known = data.views[data.y != 5]
    np.testing.assert_allclose(known["C27"][:, 0] * 255 + 1, known["C29"][:, 0] * 255)


def test_the_common_layout_is_read_by_columns_and_paired_by_order(tmp_path):
    for k, pose in ((1, "27"), (2, "29")):
        content = faces(k)
        del content["condition"]
        content["fea"] = content["fea"].reshape(-1, 4, 4).transpose(0, 2, 1).reshape(-1, 16).astype(float)
        scipy.io.savemat(tmp_path / f"Pose{pose}_4x4.mat", content)
    data = load_cmu_pie(tmp_path, case=1, conditions=[1, 4])
    np.testing.assert_array_equal(data.y, [1, 1, 2, 2, 5, 5])
    expected = 20 * data.y + np.tile([1, 12], 3)
    np.testing.assert_allclose(data.views["C27"][:, :2] * 255, np.column_stack([expected + 1, expected + 2]))


@pytest.mark.parametrize("names", [("1", "2", "10"), ("first", "second", "third")])
def test_folders_of_images(tmp_path, draw, names):
    for pose in ("C27", "pose_29"):
        for person in (3, 11):
            for k, name in enumerate(names):
                draw(tmp_path / "faces64" / pose / f"{person:02d}" / f"{name}.png", person + 100 * k)
    data = load_cmu_pie(tmp_path, case=1, conditions=None)
    assert data.image_shape == (6, 4)
    np.testing.assert_array_equal(data.y, [3, 3, 3, 11, 11, 11])
    for X in data.views.arrays:
        np.testing.assert_allclose(X[:, 0] * 255, [3, 103, 203, 11, 111, 211])
    known = (1, 10) if names[0] == "1" else (1, 3)
    data = load_cmu_pie(tmp_path, case=1, conditions=known)
    np.testing.assert_allclose(data.views["C29"][:, 0] * 255, [3, 203, 11, 211])


def test_missing_poses_and_possible_cases_are_named(pie, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"lacks C37, C11 of case 5\. Possible cases: 1, 4\."):
        load_cmu_pie(pie, case=5)
    (pie / "C27.mat").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks C27 of case 4\. Possible cases: none\. .*Carnegie Mellon"):
        load_cmu_pie(pie)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*Carnegie Mellon University"):
        load_cmu_pie(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"case must be one of 1, 2, .*8, got 9"):
        load_cmu_pie(pie, case=9)


def test_the_cases_are_the_papers():
    assert [len(poses) for poses in CASES.values()] == [2, 2, 2, 3, 3, 3, 5, 7]
    assert all("C27" in poses for poses in CASES.values())
    assert set(CASES[8]) == {"C14", "C11", "C29", "C27", "C05", "C37", "C02"}


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_damaged_files_are_named(pie, keep):
    path = pie / "C27.mat"
    scipy.io.savemat(path, faces(0), do_compression=True)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"C27\.mat (is not a (readable )?MATLAB file|has no variable)"):
        load_cmu_pie(pie, case=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fea": np.zeros((15, 15))}, r"C27\.mat: fea must be one square image per row, got float64 of shape"),
        ({"fea": np.full((15, 16), 300.0)}, r"C27\.mat: fea must be grey values from 0 to 255"),
        ({"fea": np.full((15, 16), np.nan)}, r"C27\.mat: fea must be grey values from 0 to 255"),
        ({"fea": np.full((15, 16), np.inf)}, r"C27\.mat: fea must be grey values from 0 to 255"),
        ({"fea": np.zeros((15, 25))}, r"C27\.mat are 5 × 5, .*C29\.mat are 4 × 4\. Choose a size"),
        ({"fea": "text"}, r"C27\.mat: fea is not numbers: save it as a full array of real numbers"),
        ({"fea": scipy.sparse.eye(15, 16)}, r"C27\.mat: fea is a sparse matrix: save it as a full array"),
        ({"fea": np.zeros((15, 16), dtype=complex)}, r"C27\.mat: fea is not an array of real numbers"),
        ({"gnd": np.arange(14)}, r"C27\.mat: gnd must be 15 finite whole numbers, .*14"),
        ({"gnd": np.full(15, 1.5)}, r"C27\.mat: gnd must be 15 finite whole numbers"),
        ({"gnd": np.full(15, np.inf)}, r"C27\.mat: gnd must be 15 finite whole numbers"),
        ({"gnd": np.full(15, 1e300)}, r"C27\.mat: gnd must be 15 finite whole numbers"),
        ({"condition": np.ones(15)}, r"C27\.mat has two images of person 1 in condition 1"),
        ({"condition": np.full(15, np.nan)}, r"C27\.mat: condition must be 15 finite whole numbers"),
    ],
)
def test_wrong_contents_are_named(pie, change, message):
    scipy.io.savemat(pie / "C27.mat", faces(0) | change)
    with pytest.raises(ValueError, match=message):
        load_cmu_pie(pie, case=1)


def test_poses_that_cannot_be_paired(pie, draw):
    content = faces(0)
    del content["condition"]
    scipy.io.savemat(pie / "C27.mat", content)
    with pytest.raises(ValueError, match=r"C29\.mat has conditions, .*C27\.mat has none"):
        load_cmu_pie(pie, case=1)
    scipy.io.savemat(pie / "Pose27_4x4.mat", content)
    with pytest.raises(ValueError, match=r"C27\.mat and .*Pose27_4x4\.mat are both of pose C27"):
        load_cmu_pie(pie)


def test_folders_that_are_wrong(tmp_path, draw):
    for pose in ("C27", "C29"):
        draw(tmp_path / pose / "1" / "1.png")
    draw(tmp_path / "C27" / "1" / "01.png")
    with pytest.raises(ValueError, match=r"C27 has two images of person 1 in condition 1: remove one"):
        load_cmu_pie(tmp_path, case=1, conditions=None)
    (tmp_path / "C27" / "1" / "01.png").unlink()
    draw(tmp_path / "C29" / "ada" / "1.png")
    with pytest.raises(ValueError, match=r"C29 has a folder 'ada', but people must be numbers"):
        load_cmu_pie(tmp_path, case=1, conditions=None)


@pytest.mark.skipif("CROSSVIEW_DATA" not in os.environ, reason="needs CROSSVIEW_DATA, a folder that holds cmu-pie/")
def test_cmu_pie_real():
    folder = Path(os.environ["CROSSVIEW_DATA"]) / "cmu-pie"
    data = load_cmu_pie(folder)
    assert data.views.shape == (268, 3)
    assert data.views.mask.all()
    assert len(data.class_names) == 67
    assert data.image_shape == (32, 32)
    for X in data.views.arrays:
        assert 0.0 <= X.min() < 0.05
        assert 0.8 < X.max() <= 1.0
    with pytest.raises(FileNotFoundError, match=r"lacks C14 of case 3\. Possible cases: 1, 4"):
        load_cmu_pie(folder, case=3)
