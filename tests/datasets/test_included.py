import cmath
import math

import numpy as np
import pytest
import scipy.ndimage
import sklearn.datasets
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.datasets.registry import open_dataset
from crossview.datasets.turntable import draw_solid, render

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
    np.testing.assert_array_equal(DATA.y, cv.datasets.load_digits().y)
    assert DATA.views["pixels"].tolist() == [[image[i, j] for i in SIDE for j in SIDE] for image in IMAGES]
    for X, Y in zip(DATA.views.arrays, open_dataset("descriptors").views.arrays, strict=True):
        np.testing.assert_array_equal(X, Y)
        assert X[:, 1:8].std(axis=0).max() > 0.0


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


@pytest.fixture(scope="module")
def turntable():
    return cv.datasets.make_turntable(random_state=0)


def arrays(name, **options):
    return getattr(cv.datasets, f"make_{name}")(**{"random_state": 0, **options}).views.arrays


@pytest.mark.parametrize(
    ("name", "small", "other"),
    [
        # An object, and a view, do not depend on how many there are.
        ("turntable", {"n_objects": 3}, {"n_objects": 5}),
        ("manifolds", {"n_views": 2}, {"n_views": 3}),
        ("captions", {}, {}),
    ],
)
def test_data_come_from_their_seed(name, small, other):
    drawn = arrays(name, **small, random_state=np.random.RandomState(0))
    for X, Y, Z, U in zip(
        arrays(name, **small), arrays(name, **other), arrays(name, **small, random_state=1), drawn, strict=False
    ):
        np.testing.assert_array_equal(X, Y[: len(X)])
        np.testing.assert_array_equal(X, U)
        assert np.abs(X - Z).max() > 0.1
    once, again = (arrays(name, **small, random_state=None)[0] for _ in range(2))
    assert np.abs(once - again).max() > 0.1


def test_turntable_is_what_it_says(turntable):
    assert turntable.views.shape == (240, 3)
    assert turntable.view_names == ["V1", "V2", "V3"]
    assert turntable.image_shape == (32, 32)
    assert turntable.views.n_features == (1024,) * 3
    np.testing.assert_array_equal(turntable.y, np.repeat(np.arange(1, 61), 4))
    assert len(turntable.class_names) == 60
    for X in turntable.views.arrays:
        assert X.min() == 0.0
        assert 0.7 < X.max() <= 1.0


def test_pairs_by_position_and_full_turns():
    angles = {"a": (0, 90), "b": (360, 450), "c": [0, 180]}
    data = cv.datasets.make_turntable(2, angles, size=16, noise=0, random_state=0)
    a, b, c = data.views.arrays
    np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_array_equal(a[::2], c[::2])
    assert np.abs(a - c)[1::2].max() > 0.1
    np.testing.assert_array_equal(data.y, [1, 1, 2, 2])


def test_noise_is_as_strong_as_said():
    clean, noisy = (cv.datasets.make_turntable(4, noise=noise, random_state=0) for noise in (0, 0.05))
    inside = clean.views["V1"] > 0.3  # far enough from black, where grey values end
    assert np.std((noisy.views["V1"] - clean.views["V1"])[inside]) == pytest.approx(0.05, rel=0.05)


def test_the_lamp_lights_its_side():
    left, right = (-1.0, 0.0, 0.2), (1.0, 0.0, 0.2)
    data = cv.datasets.make_turntable(8, {"a": [0], "b": [0]}, light={"a": left, "b": right}, noise=0, random_state=0)
    lit_left, lit_right = (X.reshape(-1, 32, 32) for X in data.views.arrays)
    difference = (lit_left - lit_right).sum(axis=(0, 1))
    assert difference[:16].sum() > 5.0
    assert difference[16:].sum() < -5.0
    same = cv.datasets.make_turntable(8, {"a": [0]}, light=left, noise=0, random_state=0)
    np.testing.assert_array_equal(same.views["a"], data.views["a"])


@pytest.mark.parametrize("size", [8, 32, 64])
def test_solids_have_no_holes(size):
    for o in range(4):
        image = render(draw_solid(np.random.default_rng(o), size), 30.0, np.array([0.0, 0.0, 1.0]), size)
        filled = image > 0
        assert filled.mean() > 0.05
        np.testing.assert_array_equal(scipy.ndimage.binary_fill_holes(filled), filled)
        if size >= 32:
            assert not np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]]).any()


def test_normals_are_those_of_the_surface():
    solid = draw_solid(np.random.default_rng(0), 24)
    rng = np.random.default_rng(1)
    for k in rng.integers(1000, len(solid.points) - 1000, 50):
        steps = solid.points - solid.points[k]
        distance = np.linalg.norm(steps, axis=1)
        near = np.argsort(distance)[1:5]
        slant = steps[near] @ solid.normals[k] / distance[near]
        assert np.abs(slant).max() < 0.25
    assert np.einsum("ij,ij->i", solid.points, solid.normals).mean() > 0.1  # outwards


def test_turntable_is_neither_trivial_nor_hopeless(turntable):
    train, test = next(cv.ClassSplit(1, 2 / 3, random_state=0).split(turntable.views, turntable.y))
    scores = []
    for embedding in (cv.PCA(40), cv.MvHE(40, coupling=4.0)):
        model = make_pipeline(cv.ViewScaler(), cv.ViewPCA(40), embedding).fit(
            turntable.views[train], turntable.y[train]
        )
        scores.append(model.score(turntable.views[test], turntable.y[test]))
    assert 0.1 < scores[0] < scores[1] - 0.15
    assert scores[1] < 0.9


def test_manifolds_are_what_they_say():
    data = cv.datasets.make_manifolds(50, 4, 3, n_features=[3, 5, 8], random_state=0)
    assert data.views.shape == (50, 3)
    assert data.views.n_features == (3, 5, 8)
    assert np.bincount(data.y).tolist() == [13, 13, 12, 12]
    assert len(data.class_names) == 4
    assert data.image_shape is None

    for X in arrays("manifolds", n_features=10, noise=0):  # without noise, a view is a roll in three dimensions
        assert np.linalg.matrix_rank(X, tol=1e-8) == 3


@pytest.mark.parametrize(("n_views", "seed"), [(2, 0), (3, 1)])
def test_linear_maps_do_not_unroll(n_views, seed):
    data = cv.datasets.make_manifolds(n_views=n_views, random_state=seed)
    known, new = slice(0, 150), slice(150, 300)
    kernel, linear, discriminant = (
        model.fit(data.views[known], data.y[known]).score(data.views[new], data.y[new])
        for model in (cv.KMvHE(5), cv.MvHE(5), cv.MvDA(5))
    )
    assert kernel > 0.95
    assert max(linear, discriminant) < kernel - 0.3


@pytest.fixture(scope="module")
def captions():
    return cv.datasets.make_captions(random_state=0)


def test_captions_are_what_they_say(captions):
    assert captions.view_names == ["image", "text"]
    assert captions.views.n_features == (128, 10)
    assert captions.image_shape is None
    np.testing.assert_array_equal(captions.y, np.repeat(np.arange(300), 4))
    assert len(captions.class_names) == 300
    assert captions.views["text"].min() > 0.0
    np.testing.assert_allclose(captions.views["text"].sum(axis=1), 1.0)
    spread = captions.views["image"].std(axis=0)
    assert spread.max() / spread.min() > 100
    small = cv.datasets.make_captions(3, 1, n_image_features=1, n_topics=2, random_state=0)
    assert small.views.n_features == (1, 2)
    assert small.y.tolist() == [0, 1, 2]
    # A view does not depend on the other's width.
    np.testing.assert_array_equal(arrays("captions", n_image_features=16)[1], captions.views["text"])
    np.testing.assert_array_equal(arrays("captions", n_topics=5)[0], captions.views["image"])


def test_noise_is_added_to_image_features_and_logits():
    clean, one, two = (cv.datasets.make_captions(noise=noise, random_state=0).views for noise in (0.0, 0.1, 0.2))
    assert clean["image"].min() == 0.0  # rectified
    np.testing.assert_allclose(two["image"] - clean["image"], 2 * (one["image"] - clean["image"]), atol=1e-9)
    logits = [np.log(views["text"]) - np.log(views["text"]).mean(axis=1, keepdims=True) for views in (clean, one, two)]
    np.testing.assert_allclose(logits[2] - logits[0], 2 * (logits[1] - logits[0]), atol=1e-9)
    assert np.std(logits[1] - logits[0]) == pytest.approx(0.1 * np.sqrt(0.9), rel=0.05)  # less the mean of 10 topics


def test_captions_are_neither_trivial_nor_hopeless(captions):
    train, test = next(cv.ClassSplit(1, random_state=0).split(captions.views, captions.y))
    scaler = cv.ViewScaler(pooled=False).fit(captions.views[train])
    known, new = scaler.transform(captions.views[train]), scaler.transform(captions.views[test])
    for model in (cv.CCA(7, reg=1.0), cv.MvDA(7, reg=0.1)):
        # Chance is 1 in 90 classes.
        assert 0.3 < model.fit(known, captions.y[train]).score(new, captions.y[test]) < 0.7


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("turntable", {"n_objects": 0}, "n_objects must be a whole number, 1 or more, got 0"),
        ("turntable", {"size": 2}, "size must be a whole number, 4 or more"),
        ("turntable", {"noise": -1.0}, "noise must be a finite number of 0 or more"),
        ("turntable", {"views": {}}, "views must map the names of views to angles"),
        ("turntable", {"views": {"a": [0, 5], "b": [0]}}, "angles of view 'b' must be finite numbers, equally many in"),
        ("turntable", {"views": {"a": [np.nan]}}, "angles of view 'a' must be finite numbers"),
        ("turntable", {"light": (0, 0, 0)}, "light must be three numbers that are not all 0"),
        ("turntable", {"light": {"V1": (0, 0, 1)}}, "light must be .* for each of 'V1', 'V2', 'V3'"),
        ("manifolds", {"n_samples": 3}, "n_samples must be a whole number, 6 or more"),
        ("manifolds", {"n_features": [5]}, "n_features must be one number, or one for each of 2 views"),
        ("manifolds", {"n_features": 2}, "n_features must be a whole number, 3 or more"),
        ("manifolds", {"turns": 0}, "turns must be a finite number above 0"),
        ("captions", {"n_per_class": 1.5}, "n_per_class must be a whole number, 1 or more, got 1.5"),
        ("captions", {"n_topics": 1}, "n_topics must be a whole number, 2 or more"),
        ("captions", {"noise": -0.1}, "noise must be a finite number of 0 or more"),
    ],
)
def test_wrong_parameters_are_refused(name, wrong, message):
    with pytest.raises(ValueError, match=message):
        getattr(cv.datasets, f"make_{name}")(**wrong)
