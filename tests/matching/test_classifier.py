import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.matching.calibration import chosen_metric, fit_temperature, largest_threshold

DATA = cv.datasets.load_digits()
TRAIN, TEST = slice(0, 500), slice(500, 900)
LEFT, RIGHT, Y = DATA.views["left"], DATA.views["right"], DATA.y


@pytest.fixture(scope="module")
def fitted():
    return cv.CrossViewClassifier(cv.KMvHE(n_components=10), calibration_folds=3).fit(DATA.views[TRAIN], Y[TRAIN])


@pytest.fixture
def enrolled(fitted):
    return pickle.loads(pickle.dumps(fitted))


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
    model.enroll([[0.0], [1.0]], ["b", "a"], 0, replace=True)
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


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
def test_threshold_is_literal(enrolled, rate):
    enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", max_fpir=rate)
    latent = enrolled.embedding_.transform_view(RIGHT[TEST], 1)
    D = np.linalg.norm(enrolled.gallery_ - latent[:, None], axis=2)
    nearest = np.where(enrolled.gallery_labels_ == Y[TEST][:, None], np.inf, D).min(axis=1)
    k = int(rate * 401)  # a further probe is nearer than the k-th smallest of n distances with probability k / (n + 1)
    assert np.sum(nearest <= enrolled.threshold_ * (1 - 1e-9)) == k - 1
    assert np.sum(nearest <= enrolled.threshold_ * (1 + 2e-9)) == k


@pytest.mark.parametrize(("rate", "n"), [(0.01, 100), (0.01, 98), (0.05, 20), (0.05, 139), (0.29, 100), (0.0, 50)])
def test_a_threshold_keeps_the_rate_on_average(rate, n):
    rng = np.random.default_rng(0)
    accepted = [largest_threshold(rng.uniform(size=n), rate) for _ in range(20_000)]  # of uniform distances, the share
    assert np.mean(accepted) <= rate + 1e-3
    assert np.mean(accepted) >= rate - 1 / (n + 1) - 1e-3
    assert (np.max(accepted) == 0.0) == (rate * (n + 1) < 1)


def test_a_rate_that_the_probes_cannot_support_is_warned_of(enrolled):
    for rate, n, message in (
        (0.03, 99, "identification rate of 3 % needs 100 probes or more, got 99: the threshold is uncertain"),
        (0.01, 98, "needs 300 probes or more, got 98: the threshold is 0, so every probe is unkno"),
        (0.0, 50, "identification rate of 0 % needs infinitely many, got 50: the threshold is 0, so"),
    ):
        with pytest.warns(UserWarning, match=message):
            enrolled.calibrate(RIGHT[TEST][:n], Y[TEST][:n], "right", rate)
        assert (enrolled.predict(RIGHT[900:], "right") == -1).all() == (enrolled.threshold_ == 0.0)
    enrolled.calibrate(RIGHT[TEST][:100], Y[TEST][:100], "right", 0.03)


def test_a_threshold_is_for_one_view_and_one_distance(enrolled):
    enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", 0.1)
    assert (enrolled.threshold_view_, enrolled.temperature_metric_) == ("right", "euclidean")
    expected = enrolled.predict(RIGHT[TEST])
    for method, *more in ((enrolled.predict,), (enrolled.score, Y[TEST])):
        with pytest.raises(ValueError, match="is for view 'right': calibrate with probes of view 'left'"):
            method(LEFT[TEST], *more, view="left")
        enrolled.set_params(metric="cosine")
        with pytest.raises(ValueError, match="for metric='euclidean': calibrate again for 'cosine', or set it"):
            method(RIGHT[TEST], *more, view="right")
        enrolled.set_params(metric=None)
    assert enrolled.kneighbors(LEFT[TEST], "left")[0].shape == (400, 1)  # decides nothing
    np.testing.assert_array_equal(enrolled.predict(RIGHT[TEST]), expected)
    enrolled.set_params(metric="cosine").calibrate(RIGHT[TEST], Y[TEST] + 10, "right", 0.1)  # strangers only
    assert enrolled.predict(RIGHT[TEST]).shape == (400,)
    with pytest.raises(ValueError, match="has not been estimated for metric='cosine': call calibrate"):
        enrolled.predict_proba(RIGHT[TEST])
    again = pickle.loads(pickle.dumps(enrolled.calibrate(LEFT[TEST], Y[TEST], "left", 0.1)))
    assert (again.threshold_, again.threshold_view_) == (enrolled.threshold_, "left")
    with pytest.raises(ValueError, match="is for view 'left'"):
        again.predict(RIGHT[TEST])
    again.threshold_ = 0.3  # chosen by hand, for whatever is asked
    assert again.predict(RIGHT[TEST]).shape == again.predict(LEFT[TEST], "left").shape == (400,)
    assert enrolled.enroll(LEFT[:5], Y[:5]).threshold_view_ is None


def test_strangers_are_accepted_about_as_often_as_wanted(enrolled):
    """Classes that are not enrolled, and samples that the threshold was not set on."""
    accepted = []
    for stranger in range(10):
        known = Y[TRAIN] != stranger
        enrolled.enroll(LEFT[TRAIN][known], Y[TRAIN][known], "left", replace=True)
        enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", max_fpir=0.2)
        accepted.append(np.mean(enrolled.predict(RIGHT[900:][Y[900:] == stranger], "right") != -1))
    assert 0.1 < np.mean(accepted) < 0.3


def test_the_unknown_label_may_be_text(enrolled):
    """Also where classes are numbers, and however long it is."""
    enrolled.calibrate(RIGHT[TEST], Y[TEST], "right", 0.3)
    found, score = enrolled.predict(RIGHT[TEST], "right"), enrolled.score(RIGHT[TEST], Y[TEST], "right")
    enrolled.set_params(unknown_label="nobody")
    named = enrolled.predict(RIGHT[TEST], "right")
    assert named.tolist() == ["nobody" if label == -1 else label for label in found.tolist()]
    assert 0 < enrolled.score(RIGHT[TEST], Y[TEST], "right") == score
    words = Y.astype(str)
    enrolled.set_params(unknown_label=None).enroll(LEFT[TRAIN], words[TRAIN], "left", replace=True)
    for label in ("unknown", "a stranger whose name is long"):
        assert label in enrolled.calibrate(RIGHT[TEST], words[TEST], 1, 0.01).predict(RIGHT[TEST], 1)
        enrolled.set_params(unknown_label="a stranger whose name is long")


@pytest.mark.parametrize(
    ("dtype", "offset"),
    [("uint8", 0), ("int64", 2**53), ("uint64", 0), ("uint64", 2**63)],
)
def test_labels_stay_what_they_are_after_calibration(enrolled, dtype, offset):
    y = Y.astype(dtype) + np.array(offset, dtype=dtype)
    for unknown_label in (None, "nobody"):
        enrolled.set_params(unknown_label=unknown_label).enroll(LEFT[TRAIN], y[TRAIN], replace=True)
        assert enrolled.gallery_labels_.dtype == (np.int64 if (dtype, offset) == ("uint64", 0) else y.dtype)
        right = (enrolled.predict(RIGHT[TEST]) == y[TEST]).tolist()
        expected = np.where(np.array(right), y[TEST].astype(object), None).tolist()
        found = enrolled.calibrate(RIGHT[TEST], y[TEST], max_fpir=0.1).predict(RIGHT[TEST])
        assert found.dtype.kind in "iO"
        unknown = -1 if unknown_label is None else unknown_label
        rejected = [label == unknown for label in found.tolist()]
        assert 0 < sum(rejected) < 400
        for label, own, hit, no in zip(found.tolist(), expected, right, rejected, strict=True):
            assert no or (label == own) == hit
        share = np.mean([hit and not no for hit, no in zip(right, rejected, strict=True)])
        assert enrolled.score(RIGHT[TEST], y[TEST]) == share < 1.0


def test_votes_take_little_memory(enrolled):
    enrolled.set_params(n_neighbors=400)
    tracemalloc.start()
    try:
        enrolled.predict(RIGHT[TEST])
        assert tracemalloc.get_traced_memory()[1] < 400**3 / 1.5  # not a byte for every pair of votes of every probe
    finally:
        tracemalloc.stop()


def test_the_unknown_label_is_no_class(enrolled):
    signs = np.where(Y % 2, 1, -1)
    enrolled.enroll(LEFT[TRAIN], signs[TRAIN], replace=True)  # usual for two classes; nothing is unknown yet
    assert set(enrolled.predict(RIGHT[TEST])) == {-1, 1}
    with pytest.raises(ValueError, match="unknown_label=-1 is also a class: choose another label, or rename the class"):
        enrolled.calibrate(RIGHT[TEST], signs[TEST], max_fpir=0.1)
    assert enrolled.threshold_ is None
    enrolled.set_params(unknown_label=0).calibrate(RIGHT[TEST], signs[TEST], max_fpir=0.1)
    assert set(enrolled.predict(RIGHT[TEST])) == {-1, 0, 1}
    enrolled.set_params(unknown_label=1)
    for method, *more in ((enrolled.predict,), (enrolled.score, signs[TEST])):
        with pytest.raises(ValueError, match="unknown_label=1 is also a class"):
            method(RIGHT[TEST], *more)
    size = len(enrolled.gallery_)
    with pytest.raises(ValueError, match="unknown_label='nobody' is also a class"):
        enrolled.set_params(unknown_label="nobody").enroll(LEFT[:2], ["ada", "nobody"], replace=True)
    assert len(enrolled.gallery_) == size


@pytest.mark.parametrize(
    ("message", "mistake"),
    [
        ("not fitted: call fit, or give it a", lambda _: cv.CrossViewClassifier(cv.CCA()).predict(RIGHT)),
        ("the gallery is empty: call enroll first", lambda m: cv.CrossViewClassifier(m.embedding_).predict(RIGHT[:3])),
        ("y has 2 labels for 3 samples", lambda m: m.enroll(LEFT[:3], [0, 1], "left")),
        ("y contains NaN", lambda m: m.enroll(LEFT[:2], [1.0, np.nan], "left")),
        ("must be of the same kind: use either strings or", lambda m: m.enroll(LEFT[:2], ["a", "b"], "left")),
        ("must be of the same kind", lambda m: m.score(RIGHT[TEST], Y[TEST].astype(str), "right")),
        ("must be of the same kind", lambda m: m.calibrate(RIGHT[TEST], Y[TEST].astype(str), "right")),
        ("'top'", lambda m: m.predict(RIGHT[:3], "top")),
        ("n_neighbors=501 is more than the 500 samples in the", lambda m: m.kneighbors(RIGHT[:3], "right", 501)),
        ("k=11 is more than the 10 classes", lambda m: m.rank(RIGHT[:3], "right", 11)),
        ("max_fpir must be a share", lambda m: m.calibrate(RIGHT[:3], Y[:3], "right", 1.0)),
        ("view 'right' is not among the views given: 'left'", lambda m: m.predict({"left": LEFT[:3]})),
        ("got 1 views, but the model was fitted on 2: left, right", lambda m: m.predict([RIGHT[:3]])),
        ("the images are 4 × 8 pixels", lambda m: m.predict(cv.Views(DATA.views[:3], image_shape=(4, 8)))),
        (
            "the gallery has only one class",
            lambda m: m.enroll(LEFT[:1], Y[:1], "left", replace=True).calibrate(RIGHT[:1], Y[:1], "right"),
        ),
        *(
            ("mixes strings|Unknown label type", lambda m, y=labels: m.enroll(LEFT[:2], y, replace=True))
            for labels in (np.array(["a", 1], dtype=object), [None, None], np.array([b"a", b"b"]), ["a", None])
        ),
        *(
            (message, lambda _, o=options: cv.CrossViewClassifier(cv.MvDA(), **o).fit(DATA.views[TRAIN], Y[TRAIN]))
            for message, options in (
                ("metric must be one of 'euclidean', 'cosine', got 'manhattan'", {"metric": "manhattan"}),
                ("calibration_folds must be a whole number, 2 or more, got 1", {"calibration_folds": 1}),
                ("unknown view 'top'", {"probe_view": "top"}),
            )
        ),
    ],
)
def test_mistakes(enrolled, message, mistake):
    with pytest.raises(ValueError, match=message):
        mistake(enrolled)


def test_fit_enrols_what_the_gallery_view_has_seen():
    views = cv.Views(DATA.views[TRAIN], mask=np.column_stack([np.arange(500) % 7 > 0, np.arange(500) % 5 > 0]))
    model = cv.CrossViewClassifier(cv.MvDA(5), gallery_view="right", probe_view="left").fit(views, Y[TRAIN])
    rows = np.flatnonzero(views.mask[:, 1])
    assert model.gallery_ids_.tolist() == [str(row) for row in rows]
    assert set(model.gallery_views_) == {"right"}
    np.testing.assert_array_equal(model.gallery_labels_, Y[rows])
    np.testing.assert_array_equal(model.gallery_, model.embedding_.transform_view(RIGHT[rows], "right"))
    assert model.threshold_ is None
    views = cv.Views(DATA.views[:50], mask=np.arange(2)[None] == np.zeros((50, 1)))
    with pytest.raises(ValueError, match="view 'right' has no samples to enrol: choose another gallery_view"):
        clone(model).fit(views, Y[:50])


def test_probes_may_be_all_views_or_one_matrix(enrolled):
    test = DATA.views[TEST]
    expected = enrolled.predict(RIGHT[TEST], "right")
    named = dict(zip(test.names, test.arrays, strict=True))
    for probes in (test, named, test.arrays, tuple(test.arrays), RIGHT[TEST], RIGHT[TEST].tolist()):
        np.testing.assert_array_equal(enrolled.predict(probes), expected)
    np.testing.assert_array_equal(enrolled.predict(test, "left"), enrolled.predict(LEFT[TEST], "left"))
    distances, _ = enrolled.kneighbors(test, n_neighbors=2)
    np.testing.assert_array_equal(distances, enrolled.kneighbors(RIGHT[TEST], "right", 2)[0])


def test_score_leaves_out_what_cannot_be_recognised(enrolled):
    right = enrolled.predict(DATA.views[TEST]) == Y[TEST]
    assert enrolled.score(DATA.views[TEST], Y[TEST]) == right.mean()
    holes = np.arange(400) % 3 > 0
    incomplete = cv.Views(DATA.views[TEST], mask=np.column_stack([np.ones(400, bool), holes]))
    assert enrolled.score(incomplete, Y[TEST]) == right[holes].mean()
    with pytest.raises(ValueError, match=r"row 0 is missing in view 'right' \(NaN\): leave such rows out"):
        enrolled.predict(incomplete)
    known = Y[TRAIN] < 7
    enrolled.enroll(LEFT[TRAIN][known], Y[TRAIN][known], replace=True)
    right = enrolled.predict(DATA.views[TEST]) == Y[TEST]
    assert enrolled.score(DATA.views[TEST], Y[TEST]) == right[Y[TEST] < 7].mean()
    with pytest.raises(ValueError, match="no probe has its class in the gallery: check the labels"):
        enrolled.score(DATA.views[TEST], Y[TEST] + 20)
    enrolled.calibrate(DATA.views[900:], Y[900:], max_fpir=0.2)
    found = enrolled.predict(DATA.views[TEST])
    assert enrolled.score(DATA.views[TEST], Y[TEST]) == np.where(Y[TEST] < 7, found == Y[TEST], found == -1).mean()


def test_samples_without_a_label_are_never_wrong(enrolled):
    words = Y.astype(str)
    enrolled.enroll(LEFT[TRAIN], words[TRAIN], replace=True)
    some = np.where(np.arange(400) % 2, words[TEST], "")
    assert enrolled.score(DATA.views[TEST], some) == enrolled.score(RIGHT[TEST][1::2], words[TEST][1::2])
    threshold = enrolled.calibrate(DATA.views[TEST], some, max_fpir=0.1).threshold_
    expected = enrolled.calibrate(RIGHT[TEST][1::2], words[TEST][1::2], max_fpir=0.1).threshold_
    assert threshold == pytest.approx(expected, rel=1e-9)  # products of other sizes round in another way
    with pytest.raises(ValueError, match="no probe has a label and is present in this view"):
        enrolled.score(DATA.views[TEST], np.full(400, ""))


def test_gallery_keeps_identities(enrolled):
    enrolled.enroll(LEFT[:3], Y[:3], "left", ids=["ada", "bob", 7], replace=True)
    assert enrolled.gallery_ids_.tolist() == ["ada", "bob", "7"]
    enrolled.enroll(RIGHT[:2], Y[:2], "right", ids=["ada", "bob"])  # of another view
    enrolled.enroll(LEFT[3:6], Y[3:6], "left")
    enrolled.enroll(LEFT[6:8], Y[6:8], "left")  # running numbers skip ids that are taken
    assert enrolled.gallery_ids_.tolist() == ["ada", "bob", "7", "ada", "bob", "3", "4", "5", "6", "8"]
    assert enrolled.gallery_views_.tolist() == ["left"] * 3 + ["right"] * 2 + ["left"] * 5
    before = enrolled.gallery_
    with pytest.raises(ValueError, match="'4' of view 'left' is already in the gallery"):
        enrolled.enroll(LEFT[:1], Y[:1], "left", ids=["4"])
    with pytest.raises(ValueError, match="'bob' of view 'right' is already in the gallery: pass replace=True"):
        enrolled.enroll(RIGHT[:2], Y[:2], "right", ids=["eve", "bob"])
    with pytest.raises(ValueError, match="ids has 'eve' more than once: every sample needs its own id"):
        enrolled.enroll(RIGHT[:2], Y[:2], "right", ids=["eve", "eve"])
    with pytest.raises(ValueError, match="ids has 1 names for 2 samples: give one per row"):
        enrolled.enroll(RIGHT[:2], Y[:2], "right", ids=["eve"])
    assert enrolled.gallery_ is before
    enrolled.enroll(RIGHT[:2], Y[:2], "right", replace=True).enroll(RIGHT[2:4], Y[2:4], "right")
    assert enrolled.gallery_ids_.tolist() == ["0", "1", "2", "3"]
    with pytest.raises(ValueError, match="'2' of view 'right' is already in the gallery"):
        enrolled.enroll(RIGHT[:1], Y[:1], "right", ids=["2"])
    enrolled.enroll(RIGHT[:2], Y[:2], "right", ids=["5", "a"]).enroll(RIGHT[:3], Y[:3], "right")
    assert enrolled.gallery_ids_.tolist()[4:] == ["5", "a", "6", "7", "8"]


def test_a_fitted_embedding_is_used_as_it_is(monkeypatch):
    pipeline = make_pipeline(cv.ViewScaler(), cv.MvDA())
    search = cv.EmbeddingSearchCV(pipeline, {"mvda__reg": [0.1, 1.0]}, n_folds=2, metrics=["cosine"])
    search.fit(DATA.views[TRAIN], Y[TRAIN])
    monkeypatch.setattr(cv.EmbeddingSearchCV, "fit", lambda *arguments: pytest.fail("the search is repeated"))
    for embedding in (search, FrozenEstimator(search), make_pipeline(search), FrozenEstimator(make_pipeline(search))):
        model = cv.CrossViewClassifier(embedding).enroll(LEFT[TRAIN], Y[TRAIN], "left")
        assert chosen_metric(embedding) == chosen_metric(model) == "cosine"
        assert model.embedding_ is model.embedding
        distances, _ = model.kneighbors(RIGHT[TEST][:5])
        G, P = (search.transform_view(X, v) for X, v in ((LEFT[TRAIN], 0), (RIGHT[TEST][:5], 1)))
        cosines = P @ G.T / np.linalg.norm(P, axis=1)[:, None] / np.linalg.norm(G, axis=1)
        np.testing.assert_allclose(distances[:, 0], 1.0 - cosines.max(axis=1))
        assert model.calibrate(RIGHT[TEST], Y[TEST]).predict_proba(RIGHT[TEST]).shape == (400, 10)
    frozen = cv.CrossViewClassifier(FrozenEstimator(search), calibration_folds=3).fit(DATA.views[TEST], Y[TEST])
    np.testing.assert_array_equal(frozen.gallery_, search.transform_view(LEFT[TEST], "left"))
    assert frozen.temperature_ > 0.0
    grid = GridSearchCV(cv.MvDA(), {"reg": [0.1]}, cv=2).fit(DATA.views[TRAIN], Y[TRAIN])
    assert chosen_metric(grid) == "euclidean"
    assert len(cv.CrossViewClassifier(grid).enroll(LEFT[:9], Y[:9]).gallery_) == 9


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_probabilities_are_literal_and_agree_with_predictions(enrolled, metric):
    enrolled.set_params(metric=metric).calibrate(RIGHT[TEST], Y[TEST])
    enrolled.temperature_ = 0.02
    probabilities = enrolled.predict_proba(DATA.views[TEST])
    G, P = enrolled.gallery_, enrolled.embedding_.transform_view(RIGHT[TEST], 1)
    if metric == "cosine":
        G, P = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (G, P))
    D = np.linalg.norm(G - P[:, None], axis=2)
    nearest = np.stack([D[:, Y[TRAIN] == c].min(axis=1) for c in range(10)], axis=1)
    np.testing.assert_allclose(probabilities, softmax(-nearest / 0.02, axis=1), atol=1e-7)
    enrolled.threshold_ = None
    np.testing.assert_array_equal(enrolled.classes_[probabilities.argmax(axis=1)], enrolled.predict(DATA.views[TEST]))


def expected_calibration_error(probabilities, y, n_bins=10):
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return sum(abs((confidence - right)[bins == b].sum()) for b in range(n_bins)) / len(y)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_probabilities_are_calibrated(metric):
    train, test, y_train, y_test = train_test_split(DATA.views, Y, random_state=0)
    embedding = cv.KMvHE(15, n_landmarks=300, random_state=0, reg=None)
    model = cv.CrossViewClassifier(embedding, metric=metric, calibration_folds=3).fit(train, y_train)
    probabilities = model.predict_proba(test)
    assert expected_calibration_error(probabilities, y_test) < 0.06
    certain = np.clip(np.eye(10)[model.predict(test)], 1e-3, None)
    loss = log_loss(y_test, probabilities)
    assert loss < 0.6 * log_loss(y_test, certain / certain.sum(axis=1, keepdims=True))
    assert loss < 0.2 * np.log(10)
    best = clone(model).set_params(calibration_folds=None).fit(train, y_train).calibrate(test, y_test)
    assert loss < 1.02 * log_loss(y_test, best.predict_proba(test))  # as if the test data had been known


def test_probabilities_do_not_depend_on_the_scale_of_the_common_space():
    views, y = DATA.views[TRAIN], Y[TRAIN]
    expected = cv.CrossViewClassifier(cv.PCA(8), calibration_folds=3).fit(views, y).predict_proba(DATA.views[TEST])
    for scale in (1e-120, 1e130):
        scaled = cv.Views([scale * X for X in views.arrays], names=views.names)
        model = cv.CrossViewClassifier(cv.PCA(8), calibration_folds=3).fit(scaled, y)
        np.testing.assert_allclose(model.predict_proba(scale * RIGHT[TEST]), expected, atol=1e-4)


def test_temperature_is_that_of_the_smallest_log_loss():
    rng = np.random.default_rng(0)
    codes = rng.integers(4, size=500)
    D = rng.gamma(2.0, size=(500, 4)) + 1.0
    D[np.arange(500), codes] -= 0.8
    temperature = fit_temperature(D, codes, "euclidean")
    losses = {t: -np.log(softmax(-D / t, axis=1)[np.arange(500), codes]).mean() for t in np.geomspace(0.05, 50, 400)}
    assert temperature == pytest.approx(min(losses, key=losses.get), rel=0.03)
    assert fit_temperature(1000.0 * D, codes, "euclidean") == pytest.approx(1000.0 * temperature, rel=1e-3)
    # The temperature of probes that are all right is small, but not 0.
    D[np.arange(500), codes] = 0.0
    certain = fit_temperature(D, codes, "euclidean")
    assert 1e-3 < certain < temperature
    assert fit_temperature(np.zeros((3, 2)), np.zeros(3, int), "euclidean") == 1.0


def test_temperature_holds_out_probes_and_their_counterparts():
    """A model that knows its training samples by heart would be certain; on others it must not be."""
    rng = np.random.default_rng(0)
    arrays, y = [rng.normal(size=(40, 60)) for _ in range(2)], np.arange(40) % 4  # nothing to learn
    model = cv.CrossViewClassifier(cv.MvDA(3, reg=1e-6), calibration_folds=3).fit(arrays, y)
    assert model.score(arrays, y) == 1.0
    assert model.predict_proba([rng.normal(size=(200, 60))] * 2).max(axis=1).mean() < 0.4


def test_classes_with_one_sample_and_missing_views_have_probabilities():
    y = np.arange(500) // 2
    y[:2] = 1000, 1001
    for views, labels in (
        (DATA.views[TRAIN], y),
        (DATA.views[:60], np.arange(60)),
        (DATA.views[:5], np.array([0, 0, 1, 1, 2])),
        (cv.Views(DATA.views[:90], mask=np.column_stack([np.arange(90) % 4 > 0, np.arange(90) % 3 > 0])), Y[:90]),
    ):
        model = cv.CrossViewClassifier(cv.CCA(3, reg=0.1), calibration_folds=3).fit(views, labels)
        np.testing.assert_allclose(model.predict_proba(RIGHT[:7]).sum(axis=1), 1.0)


def test_precomputed_kernels_have_probabilities():
    kernels = [X[:200] @ X[:200].T for X in DATA.views.arrays]
    model = cv.CrossViewClassifier(cv.KCCA(5, kernel="precomputed", reg=0.1), calibration_folds=3)
    plain = cv.CrossViewClassifier(cv.KCCA(5, kernel="linear", reg=0.1), calibration_folds=3)
    model.fit(kernels, Y[:200])
    plain.fit(DATA.views[:200], Y[:200])
    assert model.temperature_ == pytest.approx(plain.temperature_, rel=0.05)


def test_fit_is_one_fit_by_default(monkeypatch):
    """And with a search, one search, even if folds estimate the temperature."""
    views, y = DATA.views[TRAIN], Y[TRAIN]
    fits = {}
    for cls in (cv.MvDA, cv.EmbeddingSearchCV):
        calls, fit = fits.setdefault(cls, []), cls.fit
        monkeypatch.setattr(cls, "fit", lambda self, *given, c=calls, f=fit: c.append(self) or f(self, *given))
    model = cv.CrossViewClassifier(cv.MvDA(9)).fit(views, y)
    assert len(fits[cv.MvDA]) == 1
    assert model.temperature_ is None
    with pytest.raises(ValueError, match="call calibrate with samples that were not used for training, or fit with"):
        model.predict_proba(views)
    held = model.calibrate(DATA.views[TEST], Y[TEST]).temperature_
    assert model.enroll(LEFT[TEST], Y[TEST]).temperature_ == held > 0.0  # distances keep their scale
    assert model.calibrate(DATA.views[TEST], Y[TEST] + 10).temperature_ == held  # strangers only
    search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1, 1.0]}, n_folds=2)
    assert cv.CrossViewClassifier(search, calibration_folds=3).fit(views, y).temperature_ > 0.0
    assert len(fits[cv.EmbeddingSearchCV]) == 1


def test_is_a_classifier_in_scikit_learns_tools():
    views, y = DATA.views[:400], Y[:400]
    model = cv.CrossViewClassifier(make_pipeline(cv.ViewScaler(), cv.MvDA(9)), calibration_folds=2)
    assert is_classifier(model)
    scores = cross_val_score(model, views, y, cv=3)
    assert scores.min() > 0.3
    assert cross_val_score(model, views, y, cv=2, scoring="neg_log_loss").min() > -np.log(10)
    grid = GridSearchCV(model, {"embedding__mvda__reg": [0.1, 10.0], "n_neighbors": [1, 3]}, cv=2).fit(views, y)
    assert grid.best_score_ == max(grid.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(grid.classes_, range(10))
    assert np.mean(cross_val_predict(model, views, y, cv=3) == y) == pytest.approx(scores.mean(), abs=0.01)


@pytest.mark.parametrize("rate", [0.29, 0.57, 0.58])
def test_calibration_accepts_as_many_as_it_may(enrolled, rate):
    """Not one fewer because of rounding: 0.29 * 100 is less than 29."""
    enrolled.calibrate(RIGHT[TEST][:99], Y[TEST][:99], "right", rate)
    found = cv.evaluate_probes(enrolled, RIGHT[TEST][:99], Y[TEST][:99], "right", n_bootstrap=100)
    assert 99 * found.at_threshold.false_positive_rate.value == pytest.approx(100 * rate - 1)
