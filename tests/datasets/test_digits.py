import cmath
import math

import numpy as np
import pytest
import sklearn.datasets

import crossview as cv
from crossview.datasets.registry import open_dataset

SIDE = range(8)
IMAGES, DATA = sklearn.datasets.load_digits().images, cv.datasets.load_descriptors()
SOME = pytest.mark.parametrize("k", [0, 7, 500, 1796])


def test_digits_are_two_halves_of_one_image():
    data = cv.datasets.load_digits()
    assert data.view_names == ["left", "right"]
    assert data.image_shape == (8, 4)
    assert data.class_names == list("0123456789")
    halves = [X.reshape(-1, 8, 4) for X in data.views.arrays]
    np.testing.assert_array_equal(np.concatenate(halves, axis=2), sklearn.datasets.load_digits().images)
    assert len(data.y) == len(data.views)
    assert data.description
    assert "Alpaydin" in data.citation


def test_descriptors_are_four_unlike_views():
    assert DATA.view_names == ["pixels", "profiles", "fourier", "moments"]
    assert DATA.views.n_features == (64, 48, 34, 8)
    assert DATA.image_shape is None
    assert DATA.class_names == list("0123456789")
    np.testing.assert_array_equal(DATA.y, cv.datasets.load_digits().y)
    assert DATA.description
    assert "Alpaydin" in DATA.citation
    assert DATA.views["pixels"].tolist() == [[image[i, j] for i in SIDE for j in SIDE] for image in IMAGES]
    for name in ("profiles", "fourier", "moments"):
        assert DATA.views[name].std(axis=0).min() > 0.0
    spread = DATA.views["moments"].std(axis=0)
    assert spread.max() / spread.min() > 1e4  # natural units


def test_descriptors_are_the_same_every_time_and_by_name():
    for again in (cv.datasets.load_descriptors(), open_dataset("descriptors")):
        for X, Y in zip(DATA.views.arrays, again.views.arrays, strict=True):
            np.testing.assert_array_equal(X, Y)


@SOME
def test_profiles_by_loops(k):
    image = IMAGES[k].tolist()
    rows, columns = image, [[image[i][j] for i in SIDE] for j in SIDE]

    def blank(line):
        for position, ink in enumerate(line):
            if ink > 0:
                return position
        return len(line)

    expected = [sum(line) for line in rows + columns]
    for lines in (rows, columns):
        expected += [blank(line) for line in lines] + [blank(line[::-1]) for line in lines]
    assert DATA.views["profiles"][k].tolist() == expected


@SOME
def test_fourier_magnitudes_by_loops(k):
    magnitudes = {}
    for u in SIDE:
        for v in SIDE:
            if (-u % 8, -v % 8) not in magnitudes:
                waves = (IMAGES[k][i, j] * cmath.exp(-2j * math.pi * (u * i + v * j) / 8) for i in SIDE for j in SIDE)
                magnitudes[u, v] = abs(sum(waves))
    assert len(magnitudes) == 34
    found = DATA.views["fourier"][k]
    np.testing.assert_allclose(np.sort(found), np.sort(list(magnitudes.values())), atol=1e-9)


@SOME
def test_moments_by_loops(k):
    image = IMAGES[k]

    def moment(p, q, row=0.0, column=0.0):
        return sum(image[i, j] * (i - row) ** p * (j - column) ** q for i in SIDE for j in SIDE)

    mass = moment(0, 0)
    centroid = moment(1, 0) / mass, moment(0, 1) / mass
    mu20, mu11, mu02 = (moment(p, q, *centroid) for p, q in [(2, 0), (1, 1), (0, 2)])
    invariants = (mu20 + mu02) / mass**2, ((mu20 - mu02) ** 2 + 4 * mu11**2) / mass**4
    np.testing.assert_allclose(DATA.views["moments"][k], [mass, *centroid, mu20, mu11, mu02, *invariants])
