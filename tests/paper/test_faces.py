import numpy as np
import pytest

from paper.faces import load_cufsf, load_hfb


@pytest.fixture
def cufsf(tmp_path, draw):
    root = tmp_path / "cufsf"
    for k, name in enumerate(("00002fb", "00010fa", "00001fa")):
        draw(root / "photo" / f"{name}.png", 10 * k)
        draw(root / "sketch" / "cropped" / f"{name}.bmp", 100 + 10 * k)
    return root


@pytest.fixture
def hfb(tmp_path, draw):
    """Person 7 has three images in visible light and two in infrared, numbered on; person 12 one of each."""
    root = tmp_path / "hfb"
    for name, grey in {"VIS-007-1": 1, "VIS-007-2": 2, "VIS-007-10": 3, "VIS-012-1": 4}.items():
        draw(root / "vis" / f"{name}.png", grey)
    for name, grey in {"007_11": 11, "007_12": 12, "012_4": 14}.items():
        draw(root / "NIR" / f"{name}.png", grey)
    return root


def test_cufsf_pairs_by_name_and_keeps_people_without_a_sketch(cufsf, pack, draw):
    data = load_cufsf(cufsf, size=(6, 4))
    assert data.view_names == ["photo", "sketch"]
    assert data.class_names == ["00001fa", "00002fb", "00010fa"]
    np.testing.assert_array_equal(data.y, [1, 2, 3])
    np.testing.assert_allclose(data.views["photo"][:, 0] * 255, [20, 0, 10])
    np.testing.assert_allclose(data.views["sketch"][:, 0] * 255, [120, 100, 110])
    assert load_cufsf(cufsf).image_shape == (80, 64)
    packed = load_cufsf(pack(cufsf), size=None)
    np.testing.assert_array_equal(packed.views["sketch"], data.views["sketch"])
    draw(cufsf / "photo" / "00003fa.png", 50)
    data = load_cufsf(cufsf, size=4)
    np.testing.assert_array_equal(data.views.mask[:, 1], [True, True, False, True])


def test_cufsf_says_what_is_wrong(cufsf, tmp_path, draw):
    with pytest.raises(FileNotFoundError, match=r"nowhere does not.*Chinese University of Hong Kong.*photo and sketch"):
        load_cufsf(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no folder drawing with images.*photo and drawing"):
        load_cufsf(cufsf, views=("photo", "drawing"))
    with pytest.raises(ValueError, match="views must be the names of two folders"):
        load_cufsf(cufsf, views=("photo", "photo"))
    with pytest.raises(ValueError, match=r"size must be a whole number, 1 or more, got 0"):
        load_cufsf(cufsf, size=0)
    draw(cufsf / "other" / "1.png")
    with pytest.raises(ValueError, match=r"no image of photo \(00001fa, .*\) has a counterpart in other \(1\)"):
        load_cufsf(cufsf, views=("photo", "other"))
    draw(cufsf / "photo" / "00001fa.bmp")
    with pytest.raises(ValueError, match=r"photo/00001fa\.png.* names must differ"):
        load_cufsf(cufsf)


def test_hfb_pairs_by_person_and_order(hfb):
    data = load_hfb(hfb, size=None)
    assert data.view_names == ["VIS", "NIR"]
    np.testing.assert_array_equal(data.y, [7, 7, 7, 12])
    assert data.class_names == ["7", "12"]
    np.testing.assert_allclose(data.views["VIS"][:, 0] * 255, [1, 2, 3, 4])
    np.testing.assert_allclose(data.views["NIR"][:, 0] * 255, [11, 12, np.nan, 14])
    np.testing.assert_array_equal(data.views.mask[:, 1], [True, True, False, True])
    assert load_hfb(hfb).image_shape == (32, 32)


def test_hfb_says_what_is_wrong(hfb, tmp_path, draw):
    help_text = r"Chinese Academy of Sciences.*VIS and NIR.*007_2\.png"
    with pytest.raises(FileNotFoundError, match=f"nowhere does not.*{help_text}"):
        load_hfb(tmp_path / "nowhere")
    draw(hfb / "NIR" / "7_11.png")
    with pytest.raises(ValueError, match=r"'007_11' and '7_11' in one view, both of which are image 11 of person 7"):
        load_hfb(hfb)
    (hfb / "NIR" / "7_11.png").rename(hfb / "NIR" / "somebody.png")
    with pytest.raises(ValueError, match="an image called 'somebody', without person and number"):
        load_hfb(hfb)
