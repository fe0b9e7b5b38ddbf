import importlib.util
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from paper.data import (
    COIL_CASES,
    PIE_CASES,
    PaperLoader,
    load_cmu_pie,
    load_coil100,
    load_cufsf,
    load_hfb,
    paper_sizes,
    permute_labels,
)

CASES = Path(__file__).parents[2] / "benchmarks" / "cases.py"
needs_data = pytest.mark.skipif("CROSSVIEW_DATA" not in os.environ, reason="CROSSVIEW_DATA is not set")


@pytest.fixture(scope="module")
def coil(tmp_path_factory):
    """Images as in the archive, of one grey that tells object and angle."""
    folder = tmp_path_factory.mktemp("data") / "coil-100"
    folder.mkdir()
    for o in range(1, 101):
        for a in (0, 5, 10, 15, 40, 45, 50, 55):
            Image.new("RGB", (12, 12), (o, o, a)).save(folder / f"obj{o}__{a}.png")
    return folder


def test_coil100_from_a_folder_and_from_the_archive(coil, tmp_path):
    data = load_coil100(coil, case=1, size=4)
    assert (data.views.shape, data.views.names, data.views.n_features) == ((400, 2), ["V1", "V2"], (16, 16))
    np.testing.assert_array_equal(data.y, np.repeat(np.arange(1, 101), 4))
    grey = np.asarray(Image.new("RGB", (1, 1), (3, 3, 45)).convert("L"))[0, 0] / 255
    np.testing.assert_allclose(data.views["V2"][9], grey)  # object 3, second angle
    archive = shutil.make_archive(tmp_path / "coil-100", "zip", coil.parent, coil.name)
    np.testing.assert_array_equal(load_coil100(archive, case=1, size=4).views["V1"], data.views["V1"])
    with pytest.raises(FileNotFoundError, match=r"lacks 400 images, among them obj100__105.*Columbia University"):
        load_coil100(coil, case=2)


def faces(offset, people=(1, 2, 5), conditions=(1, 2, 3, 12, 13), side=4):
    """Images whose first pixel tells pose, person and condition, and whose pixel right of it is brighter by one."""
    gnd, condition = np.meshgrid(people, conditions, indexing="ij")
    first = offset + 20 * gnd.ravel() + condition.ravel()
    images = np.zeros((gnd.size, side, side), dtype=np.uint8)
    images[:, 0, 0], images[:, 0, 1] = first, first + 1
    return {"fea": images.reshape(len(images), -1), "gnd": gnd.reshape(-1, 1), "condition": condition.reshape(-1, 1)}


def test_cmu_pie_pairs_by_person_and_condition(tmp_path):
    for k, pose in enumerate(("C05", "C27", "C29")):
        content = faces(k)
        order = np.random.default_rng(k).permutation(len(content["gnd"]))
        scipy.io.savemat(tmp_path / f"{pose}.mat", {name: rows[order] for name, rows in content.items()})
    data = load_cmu_pie(tmp_path)
    assert (data.view_names, data.image_shape, data.class_names) == (["C05", "C27", "C29"], (4, 4), ["1", "2", "5"])
    np.testing.assert_array_equal(data.y, np.repeat([1, 2, 5], 4))
    expected = 20 * data.y + np.tile([1, 2, 3, 12], 3)
    for k, X in enumerate(data.views.arrays):
        np.testing.assert_allclose(X[:, :2] * 255, np.column_stack([expected + k, expected + k + 1]))
    assert len(load_cmu_pie(tmp_path, case=1, conditions=None).y) == 15
    some = faces(1, people=(1, 2))  # fractions between 0 and 1, and a person who is missing
    scipy.io.savemat(tmp_path / "C27.mat", some | {"fea": some["fea"] / 255.0})
    data = load_cmu_pie(tmp_path, case=1)
    np.testing.assert_array_equal(data.views.mask, np.column_stack([data.y != 5, data.y > 0]))
    known = data.views[data.y != 5]
    np.testing.assert_allclose(known["C27"][:, 0] * 255 + 1, known["C29"][:, 0] * 255)
    with pytest.raises(FileNotFoundError, match=r"lacks C37, C11 of case 5\. .*Carnegie Mellon"):
        load_cmu_pie(tmp_path, case=5)
    scipy.io.savemat(tmp_path / "C27.mat", faces(0) | {"condition": np.ones(15)})
    with pytest.raises(ValueError, match=r"C27\.mat has two images of person 1 in condition 1"):
        load_cmu_pie(tmp_path, case=1)


def test_cmu_pie_in_the_common_layout_is_read_by_columns_and_paired_by_order(tmp_path):
    for k, pose in ((1, "27"), (2, "29")):
        content = faces(k)
        del content["condition"]
        content["fea"] = content["fea"].reshape(-1, 4, 4).transpose(0, 2, 1).reshape(-1, 16).astype(float)
        scipy.io.savemat(tmp_path / f"Pose{pose}_4x4.mat", content)
    data = load_cmu_pie(tmp_path, case=1, conditions=[1, 4])
    np.testing.assert_array_equal(data.y, [1, 1, 2, 2, 5, 5])
    expected = 20 * data.y + np.tile([1, 12], 3)
    np.testing.assert_allclose(data.views["C27"][:, :2] * 255, np.column_stack([expected + 1, expected + 2]))


def test_cufsf_pairs_by_name_and_keeps_people_without_a_sketch(tmp_path, draw):
    for k, name in enumerate(("00002fb", "00010fa", "00001fa")):
        draw(tmp_path / "photo" / f"{name}.png", 10 * k)
        draw(tmp_path / "sketch" / "cropped" / f"{name}.bmp", 100 + 10 * k)
    data = load_cufsf(tmp_path, size=(6, 4))
    assert (data.view_names, data.class_names) == (["photo", "sketch"], ["00001fa", "00002fb", "00010fa"])
    np.testing.assert_allclose(data.views["photo"][:, 0] * 255, [20, 0, 10])
    np.testing.assert_allclose(data.views["sketch"][:, 0] * 255, [120, 100, 110])
    assert load_cufsf(tmp_path).image_shape == (80, 64)
    draw(tmp_path / "photo" / "00003fa.png", 50)
    assert load_cufsf(tmp_path, size=4).views.mask[:, 1].tolist() == [True, True, False, True]
    shutil.rmtree(tmp_path / "sketch")
    with pytest.raises(FileNotFoundError, match=r"no folder sketch with images.*Chinese University of Hong Kong"):
        load_cufsf(tmp_path)


def test_hfb_pairs_by_person_and_order(tmp_path, draw):
    """Person 7 has three images in visible light and two in infrared, numbered on; person 12 one of each."""
    for name, grey in {"VIS-007-1": 1, "VIS-007-2": 2, "VIS-007-10": 3, "VIS-012-1": 4}.items():
        draw(tmp_path / "vis" / f"{name}.png", grey)
    for name, grey in {"007_11": 11, "007_12": 12, "012_4": 14}.items():
        draw(tmp_path / "NIR" / f"{name}.png", grey)
    data = load_hfb(tmp_path, size=None)
    assert (data.view_names, data.class_names) == (["VIS", "NIR"], ["7", "12"])
    np.testing.assert_array_equal(data.y, [7, 7, 7, 12])
    np.testing.assert_allclose(data.views["VIS"][:, 0] * 255, [1, 2, 3, 4])
    np.testing.assert_allclose(data.views["NIR"][:, 0] * 255, [11, 12, np.nan, 14])
    draw(tmp_path / "NIR" / "somebody.png")
    with pytest.raises(ValueError, match="an image is called 'somebody', without person and number"):
        load_hfb(tmp_path)


@needs_data
def test_the_data_of_others_are_read():
    folder = Path(os.environ["CROSSVIEW_DATA"])
    for data, shape, size, classes in (
        (load_coil100(folder / "coil-100", case=4), (400, 5), (48, 48), 100),
        (load_cmu_pie(folder / "cmu-pie"), (268, 3), (32, 32), 67),
    ):
        assert (data.views.shape, data.image_shape, len(data.class_names)) == (shape, size, classes)
        assert data.views.mask.all()
        for X in data.views.arrays:
            assert 0.0 <= X.min() < 0.05
            assert 0.8 < X.max() <= 1.0


def test_the_cases_are_the_papers():
    assert [len(views) for views in COIL_CASES.values()] == [2, 3, 4, 5]
    assert [len(poses) for poses in PIE_CASES.values()] == [2, 2, 2, 3, 3, 3, 5, 7]
    assert all("C27" in poses for poses in PIE_CASES.values())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_permuted_labels(share):
    y = np.repeat(np.arange(100), 2)
    permuted = permute_labels(y, share, 0)
    np.testing.assert_array_equal(permuted, permute_labels(y, share, 0))
    np.testing.assert_array_equal(np.sort(permuted), y)
    assert 0.9 * share <= np.mean(permuted != y) <= share


def test_paper_sizes_are_the_data_of_the_benchmarks():
    spec = importlib.util.spec_from_file_location("cases", CASES)
    cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cases)
    arrays, y = cases.samples(3, 180, 140, seed=4)
    data = paper_sizes(3, seed=4)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.views.arrays, arrays)


def test_the_loader_loads_once_and_says_what_is_missing(tmp_path):
    load = PaperLoader(folder=tmp_path)
    assert load("digits", {}) is load("digits", {})
    assert load.lacks("digits", {}) is None
    assert load.lacks("nowhere", {}).startswith("nowhere is neither a data set")
    assert load.lacks("coil100", {"case": 1}).endswith("has no folder coil-100")
    assert PaperLoader().lacks("hfb", {}) == "hfb is not included: pass the folder that contains hfb/ with --data"
    assert load("paper-sizes", {"n_views": 3}).views.shape == (180, 3)
