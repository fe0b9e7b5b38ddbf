import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.recognition.matcher import chosen_metric

DATA = cv.datasets.load_digits()
TRAIN, TEST = slice(0, 500), slice(500, 900)
LEFT, RIGHT, Y = DATA.views["left"], DATA.views["right"], DATA.y


@pytest.fixture(scope="module")
def fitted():
    return cv.CrossViewClassifier(cv.KMvHE(n_components=10)).fit(DATA.views[TRAIN], Y[TRAIN])


@pytest.fixture
def enrolled(fitted):
    return pickle.loads(pickle.dumps(fitted)).enroll(LEFT[TRAIN], Y[TRAIN], "left")


@pytest.mark.parametrize("n_neighbors", [1, 5])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_predicts_as_scikit_learn_does_in_the_common_space(enrolled, n_neighbors, metric):
    enrolled.set_params(n_neighbors=n_neighbors, metric=metric)
    gallery, probes = (enrolled.embedding_.transform_view(X, v) for X, v in ((LEFT[TRAIN], 0), (RIGHT[TEST], 1)))
    reference = KNeighborsClassifier(n_neighbors, metric=metric, algorithm="brute").fit(gallery, Y[TRAIN])
    distances, indices = enrolled.kneighbors(RIGHT[TEST], "right")
    expected_distances, expected = reference.kneighbors(probes)
    np.testing.assert_allclose(distances, expected_distances, atol=1e-6)
    np.testing.assert_array_equal(indices, expected)
    agree = np.mean(enrolled.predict(RIGHT[TEST], 1) == reference.predict(probes))
    assert agree == 1.0 if n_neighbors == 1 else agree > 0.97  # even votes go to the nearest, not to the smallest label
    assert enrolled.score(RIGHT[TEST], Y[TEST], "right") > 0.75


def test_even_votes_go_to_the_nearest():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y = np.array(list("abcabc"))
    model = cv.CrossViewClassifier(cv.PCA(1), n_neighbors=2).fit([X, X], y)
    model.enroll([[0.0], [1.0]], ["b", "a"], 0)
    np.testing.assert_array_equal(model.predict([[0.1], [0.9]], 1), ["b", "a"])


def test_ranks_are_of_classes_and_literal(enrolled):
    labels, distances = enrolled.rank(RIGHT[TEST][:30], "right", k=4)
    gallery = enrolled.gallery_
    probes = enrolled.embedding_.transform_view(RIGHT[TEST][:30], 1)
    for probe, row, gaps in zip(probes, labels, distances, strict=True):
        nearest = {c: min(np.linalg.norm(gallery[Y[TRAIN] == c] - probe, axis=1)) for c in range(10)}
        order = sorted(nearest, key=nearest.get)[:4]
        assert list(row) == order
        np.testing.assert_allclose(gaps, [nearest[c] for c in order], atol=1e-8)
    np.testing.assert_array_equal(labels[:, 0], enrolled.predict(RIGHT[TEST][:30], "right"))


def test_gallery_grows_and_is_replaced(enrolled):
    enrolled.enroll(RIGHT[TEST], Y[TEST], "right")
    assert len(enrolled.gallery_) == len(enrolled.gallery_labels_) == 900
    enrolled.enroll(LEFT[:20], Y[:20], "left", replace=True)
    assert len(enrolled.gallery_) == 20
    with pytest.raises(ValueError, match="must be of the same kind: use either strings or numbers"):
        enrolled.enroll(LEFT[:2], ["a", "b"], "left")


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3])
def test_threshold_is_literal(enrolled, rate):
    enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", false_match_rate=rate)
    latent = enrolled.embedding_.transform_view(RIGHT[TEST], 1)
    D = np.linalg.norm(enrolled.gallery_ - latent[:, None], axis=2)
    nearest = np.where(enrolled.gallery_labels_ == Y[TEST][:, None], np.inf, D).min(axis=1)
    assert np.mean(nearest <= enrolled.threshold_ * (1 - 1e-9)) <= rate
    assert np.mean(nearest <= enrolled.threshold_ * (1 + 1e-9)) >= rate


def test_strangers_are_accepted_about_as_often_as_wanted(enrolled):
    """Classes that are not enrolled, and samples that the threshold was not set on."""
    accepted = []
    for stranger in range(10):
        known = Y[TRAIN] != stranger
        enrolled.enroll(LEFT[TRAIN][known], Y[TRAIN][known], "left", replace=True)
        enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", false_match_rate=0.2)
        accepted.append(np.mean(enrolled.predict(RIGHT[900:][Y[900:] == stranger], "right") != -1))
    assert 0.1 < np.mean(accepted) < 0.3


def test_unknown_label(enrolled):
    assert set(np.unique(enrolled.calibrate(RIGHT[TEST], Y[TEST], 1, 0.0).predict(RIGHT[TEST], 1))) >= {-1}
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[Y]
    enrolled.enroll(LEFT[TRAIN], words[TRAIN], "left", replace=True)
    found = enrolled.calibrate(RIGHT[TEST], words[TEST], 1, 0.0).predict(RIGHT[TEST], 1)
    assert "unknown" in found
    enrolled.set_params(unknown_label="a stranger whose name is long")
    assert "a stranger whose name is long" in enrolled.predict(RIGHT[TEST], 1)


def test_embedding_may_be_a_pipeline_or_a_search():
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(20), cv.MvDA())
    search = cv.EmbeddingSearchCV(pipeline, {"mvda__reg": [0.1]}, n_folds=3, metrics=["cosine"])
    for embedding in (pipeline, search):
        model = cv.CrossViewClassifier(embedding).fit(DATA.views[TRAIN], Y[TRAIN])
        model.enroll(LEFT[TRAIN], Y[TRAIN], "left")
        assert model.score(RIGHT[TEST], Y[TEST], "right") > 0.4
        assert chosen_metric(model) == ("cosine" if embedding is search else "euclidean")


def test_clone_has_no_gallery(enrolled):
    fresh = clone(enrolled)
    assert not hasattr(fresh, "gallery_")
    assert fresh.get_params()["embedding__n_components"] == 10


def test_mistakes(fitted, enrolled):
    with pytest.raises(ValueError, match="the gallery is empty: call enroll first"):
        fitted.predict(RIGHT[:3], "right")
    with pytest.raises(ValueError, match=r"y has 2 labels for 3 samples"):
        enrolled.enroll(LEFT[:3], [0, 1], "left")
    with pytest.raises(ValueError, match="'top'"):
        enrolled.predict(RIGHT[:3], "top")
    with pytest.raises(ValueError, match="n_neighbors=501 is more than the 500 samples in the gallery"):
        enrolled.kneighbors(RIGHT[:3], "right", 501)
    with pytest.raises(ValueError, match="k=11 is more than the 10 classes"):
        enrolled.rank(RIGHT[:3], "right", 11)
    with pytest.raises(ValueError, match="false_match_rate must be a share"):
        enrolled.calibrate(RIGHT[:3], Y[:3], "right", 1.0)
    with pytest.raises(ValueError, match="metric must be one of 'euclidean', 'cosine', got 'manhattan'"):
        cv.CrossViewClassifier(cv.MvDA(), metric="manhattan").fit(DATA.views[TRAIN], Y[TRAIN])
    enrolled.enroll(LEFT[:1], Y[:1], "left", replace=True)
    with pytest.raises(ValueError, match="the gallery has only one class"):
        enrolled.calibrate(RIGHT[:1], Y[:1], "right")
