"""Large galleries: searches agree, enrolment appends, and the index goes through files."""

import copy
import pickle
import sys

import numpy as np
import pytest
from fuzz_models import encode

import crossview as cv
from crossview import _progress
from crossview.files import ModelFileError, load, save
from crossview.matching import gallery
from crossview.matching.gallery import Gallery
from crossview.metrics.scoring import score_by_dimension
from crossview.neighbours import search as searches
from crossview.neighbours.search import ExactSearch, GrowingArray

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(300, 6))
Y = RNG.permutation(np.repeat(np.arange(300), 8))
X = CENTRES[Y] + 0.2 * RNG.normal(size=(len(Y), 6))
PROBES = CENTRES[:90] + 0.3 * RNG.normal(size=(90, 6))
METRICS = ["euclidean", "cosine"]


@pytest.fixture(scope="module")
def embedding():
    return cv.PCA(6).fit([X, X + 1.0])


def matcher(embedding, **options):
    return cv.CrossViewClassifier(embedding, **options).enroll(X, Y, 0)


def literal_distances(G, P, metric):
    if metric == "euclidean":
        return np.array([[np.sqrt(np.sum((g - p) ** 2)) for g in G] for p in P])
    G, P = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (G, P))
    return np.array([[1.0 - np.dot(g, p) for g in G] for p in P])


# The search itself.


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1e7, 1.0), (10.0, 1e-120), (10.0, 1e120)])
def test_exact_search_is_literal(monkeypatch, metric, offset, scale):
    monkeypatch.setattr("crossview.neighbours.distances._CHUNK", 2800)  # many tiles, of unequal size
    monkeypatch.setattr(searches, "_PROBES", 7)
    G, P = scale * (X[:500] + offset), scale * (PROBES[:20] + offset)
    search = ExactSearch(metric).extended(G[:100]).extended(G)
    distances, rows = search.nearest(G, P, 9)
    unit = scale if metric == "euclidean" else 1.0
    expected = unit * literal_distances(G / scale, P / scale, metric)
    tolerance = 1e-6 if offset > 1e6 and metric == "euclidean" else 1e-12
    np.testing.assert_allclose(distances / unit, np.sort(expected, axis=1)[:, :9] / unit, rtol=1e-6, atol=tolerance)
    np.testing.assert_allclose(np.take_along_axis(expected, rows, axis=1), distances, rtol=1e-6, atol=tolerance * unit)
    codes = np.arange(500) % 11
    (blocks,) = zip(*((block,) for _, block in search.class_distances(G, codes, 11, P)), strict=True)
    by_class = np.stack([expected[:, codes == c].min(axis=1) for c in range(11)], axis=1)
    np.testing.assert_allclose(np.concatenate(blocks) / unit, by_class / unit, rtol=1e-6, atol=1e-7)


def test_ties_are_in_the_order_of_enrolment():
    G = np.repeat(RNG.normal(size=(40, 5)), 30, axis=0)[RNG.permutation(1200)]
    distances, rows = ExactSearch("euclidean").extended(G).nearest(G, G[:50], 30)
    assert (distances == 0.0).all()
    for k, found in enumerate(rows):
        np.testing.assert_array_equal(found, np.flatnonzero((G[k] == G).all(axis=1)))


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_angles_do_not_depend_on_lengths(scale):
    lengths = np.where(np.arange(500) % 50 == 7, scale, 1.0)[:, None]
    found = (ExactSearch("cosine").extended(G).nearest(G, PROBES, 3) for G in (X[:500], lengths * X[:500]))
    expected, (distances, rows) = found
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(distances, expected[0], atol=1e-14)
    # Samples at zero are at a right angle to all.
    G, P = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 0.0]])
    distances, rows = ExactSearch("cosine").extended(G).nearest(G, P, 3)
    np.testing.assert_array_equal(distances, [[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(rows, [[0, 1, 2], [1, 0, 2]])


# Engines.


@pytest.fixture(params=["approximate", "device", "tensors"])
def other(request, embedding):
    """A matcher with another engine than the exact one, and how to present probes to it."""
    torch = pytest.importorskip("faiss" if request.param == "approximate" else "torch")
    if request.param == "tensors":
        yield cv.CrossViewClassifier(embedding).enroll(torch.from_numpy(X), Y, 0), torch.from_numpy
        return
    with cv.config_context(device="cpu" if request.param == "device" else None):
        yield matcher(embedding, algorithm="approximate" if request.param == "approximate" else "auto"), lambda P: P


@pytest.mark.parametrize("metric", METRICS)
def test_engines_agree(embedding, other, metric):
    exact = matcher(embedding, algorithm="exact", metric=metric)
    model, present = other
    model.set_params(metric=metric)
    np.testing.assert_allclose(model.gallery_, exact.gallery_, atol=1e-13)
    asked = (model, present(PROBES)), (exact, PROBES)
    for k in (1, 10):
        (distances, rows), (expected, nearest) = (m.kneighbors(P, 1, k) for m, P in asked)
        assert type(distances) is type(rows) is np.ndarray
        agree = rows == nearest
        assert agree.mean() > 0.98
        np.testing.assert_allclose(distances[agree], expected[agree], rtol=1e-12, atol=1e-13)
    for k in (1, 5, 200):
        (labels, distances), (expected_labels, expected) = (m.rank(P, 1, k) for m, P in asked)
        assert (labels == expected_labels).mean() > 0.98
        np.testing.assert_allclose(distances, expected, rtol=0.2)
    predicted, expected = (m.predict(P, 1) for m, P in asked)
    assert (predicted == expected).mean() > 0.98
    np.testing.assert_allclose(*(m.calibrate(P, Y[:90], 1, 0.1).threshold_ for m, P in asked), rtol=0.02)
    np.testing.assert_allclose(*(m.predict_proba(P, 1) for m, P in asked), rtol=1e-9)
    found, expected = (m.score(P, np.arange(90), 1) for m, P in asked)
    assert found == pytest.approx(expected, abs=0.03)


def test_ranks_of_probes_among_many_samples_of_one_class(embedding):
    """The nearest samples are all of one class, so other classes are found by comparing with the whole gallery."""
    pytest.importorskip("faiss")
    crowd = 1e-3 * RNG.normal(size=(3000, 6))
    exact, approximate = (
        matcher(embedding, algorithm=kind).enroll(crowd, np.full(3000, 999), 0) for kind in ("exact", "approximate")
    )
    probe = np.zeros((1, 6))
    for model in (exact, approximate):
        labels, distances = model.rank(probe, 0, 3)
        assert labels[0, 0] == 999
        D = np.linalg.norm(model.gallery_ - cv.transform_view(embedding, probe, 0), axis=1)
        expected = sorted(D[model.gallery_labels_ == c].min() for c in [*range(300), 999])[:3]
        np.testing.assert_allclose(distances[0], expected, rtol=1e-9)


def test_auto_uses_an_index_for_large_galleries(embedding, monkeypatch):
    pytest.importorskip("faiss")
    assert matcher(embedding).neighbour_recall_ == 1.0
    monkeypatch.setattr(gallery, "_MIN_INDEXED", 2000)
    large = matcher(embedding)
    assert large.neighbour_recall_ >= 0.99
    assert matcher(embedding, algorithm="exact").neighbour_recall_ == 1.0
    monkeypatch.setattr(gallery, "is_installed", lambda: False)
    assert matcher(embedding).neighbour_recall_ == 1.0


def test_low_recall_is_warned_of(embedding, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(searches, "MOST_LISTS", 1)
    monkeypatch.setattr(searches, "_FIRST_LISTS", 1)
    with pytest.warns(UserWarning, match=r"approximate search finds only \d+% of .* use algorithm='exact'"):
        model = matcher(embedding, algorithm="approximate")
    assert 0.0 < model.neighbour_recall_ < 0.95


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "approximate"}, r"approximate neighbours need faiss: pip install"),
        ({"algorithm": "fast"}, "algorithm must be one of 'auto', 'exact', 'approximate', got 'fast'"),
    ],
)
def test_what_cannot_be_searched_is_not_enrolled(embedding, options, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    model = matcher(embedding).calibrate(PROBES, np.arange(90), 1, 0.1)
    threshold, size = model.threshold_, len(model.gallery_)
    for enrol in (
        lambda: model.set_params(**options).enroll(PROBES, np.arange(90), 0),
        lambda: matcher(embedding, **options),
        lambda: cv.CrossViewClassifier(None, **options).fit([X, X], Y),  # before the embedding is looked at
    ):
        with pytest.raises((ImportError, ValueError), match=message):
            enrol()
    assert (model.threshold_, len(model.gallery_)) == (threshold, size)


# Enrolment.


def test_arrays_grow_in_linear_time_and_old_values_stay():
    array = GrowingArray(np.zeros((1, 3)))
    buffers, before = set(), array.values
    for k in range(1, 2000):
        array = array.extended(np.full((1, 3), float(k)))
        buffers.add(id(array._buffer))
    assert len(buffers) < 25
    np.testing.assert_array_equal(array.values[:, 1], np.arange(2000))
    np.testing.assert_array_equal(before, np.zeros((1, 3)))


@pytest.mark.parametrize("algorithm", ["exact", "approximate"])
def test_many_enrolments_equal_one(embedding, algorithm, monkeypatch):
    if algorithm == "approximate":
        pytest.importorskip("faiss")
    words = np.array([f"class {c}" for c in Y])
    once = cv.CrossViewClassifier(embedding, algorithm=algorithm).enroll(X, words, 0)
    built = []
    monkeypatch.setattr(searches.InvertedFile, "train", count_calls(searches.InvertedFile.train, built))
    model = cv.CrossViewClassifier(embedding, algorithm=algorithm).enroll(X[:300], words[:300], 0)
    for start in [*range(300, 340), *range(340, len(X), 515)]:
        stop = start + 1 if start < 340 else min(start + 515, len(X))
        model.enroll(X[start:stop], words[start:stop], 0)
        assert model.kneighbors(X[stop - 1 : stop], 0)[1] == [[stop - 1]]
    assert len(built) == (0 if algorithm == "exact" else 2)
    for name in ("gallery_", "gallery_labels_", "gallery_ids_", "gallery_views_", "classes_"):
        a, b = getattr(model, name), getattr(once, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    found, expected = (m.rank(PROBES, 1, 3)[0] for m in (model, once))
    assert (found == expected).mean() > (0.98 if built else 0.9999)


def count_calls(function, calls):
    def counted(*args, **options):
        calls.append(1)
        return function(*args, **options)

    return counted


def test_large_labels_never_become_equal(embedding):
    y = np.array([2**53, 2**53 + 1])
    model = cv.CrossViewClassifier(embedding).enroll(X[:2], y, 0)
    assert model.predict(X[:2], 0).tolist() == y.tolist()
    for other in (np.uint64([2**63, 2**63 + 1]), np.array([1.0, 2.0]), [2**63, 1]):
        for refused in (model.enroll, model.score):
            with pytest.raises(ValueError, match=r"labels of 2\*\*53 or more must all be of one integer type: convert"):
                refused(X[2:4], other, 0)
    assert len(model.gallery_) == 2
    model.enroll(X[:2], np.uint64([2**63, 2**63 + 1]), 0, replace=True)
    assert model.classes_.tolist() == [2**63, 2**63 + 1]


def test_labels_keep_their_kind_and_codes_while_classes_are_added():
    G, view = np.zeros((3, 1)), "left"
    for first, second in (
        (np.array([1, 2, 1]), np.array([2.5, 1.0, 3.0])),
        (np.array([True, False, True]), np.array([3, 1, 0])),
        (np.array(["bo", "al", "bo"]), np.array(["grace", "al", "ada"])),
    ):
        before = Gallery.of_view(G, first, None, view)
        np.testing.assert_array_equal(before.classes, np.unique(first))
        one = before.extended(G, second, None, view)
        expected = np.concatenate([first, second])
        np.testing.assert_array_equal(one.labels, expected)
        np.testing.assert_array_equal(one.classes, np.unique(expected))
        assert one.n_classes == len(one.classes)
        assert one.labels.dtype == one.classes.dtype == expected.dtype
        assert one.vote(np.array([[3], [0]])).tolist() == expected[[3, 0]].tolist()
        assert one.enrolled(second).all()
        assert not before.enrolled(second).all()


# Files.


@pytest.fixture(scope="module")
def indexed(embedding):
    pytest.importorskip("faiss")
    return matcher(embedding, algorithm="approximate", metric="cosine")


def test_the_index_goes_through_files(indexed, tmp_path, monkeypatch):
    save(indexed, tmp_path / "model")
    monkeypatch.setattr(searches.InvertedFile, "train", None)  # must not be needed
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(indexed))):
        assert again.neighbour_recall_ == indexed.neighbour_recall_
        for found, expected in zip(again.rank(PROBES, 1), indexed.rank(PROBES, 1), strict=True):
            np.testing.assert_array_equal(found, expected)
        again.enroll(PROBES[:3], [500, 501, 502], 0)
        np.testing.assert_array_equal(again.predict(PROBES[:3], 0), [500, 501, 502])
        assert len(again._gallery.index_state["lists"]) == len(X) + 3
    again = load(tmp_path / "model")
    save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_files_know_when_the_recall_was_measured(embedding, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    search, measured = searches.ApproximateSearch, []
    monkeypatch.setattr(search, "_measure", count_calls(search._measure, measured))
    model = cv.CrossViewClassifier(embedding, algorithm="approximate").enroll(X[:60], Y[:60])
    for start in range(60, 150, 30):  # never twice as many as in the file before
        save(model, tmp_path / "model")
        model = load(tmp_path / "model").enroll(X[start : start + 30], Y[start : start + 30])
    assert len(measured) == 2


def test_a_file_with_an_index_works_without_the_library(indexed, tmp_path, monkeypatch):
    save(copy.copy(indexed).set_params(algorithm="auto"), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(gallery, "is_installed", lambda: False)
    again = load(tmp_path / "model")
    exact = copy.copy(indexed).set_params(algorithm="exact")
    np.testing.assert_array_equal(again.rank(PROBES, 1)[0], exact.rank(PROBES, 1)[0])


def test_another_distance_gets_another_index(indexed, tmp_path):
    save(indexed, tmp_path / "model")
    again = load(tmp_path / "model").set_params(metric="euclidean")
    exact = copy.copy(again).set_params(algorithm="exact")
    assert (again.rank(PROBES, 1)[0] == exact.rank(PROBES, 1)[0]).mean() > 0.98
    assert again._gallery.index_state["metric"] == "euclidean"


def test_forged_indices_are_refused(indexed, tmp_path, monkeypatch):
    state = indexed.__getstate__()
    index = state["gallery_index_"]
    lists, centroids, origin = index["lists"], index["centroids"], index["origin"]
    wrong = lists.copy()
    wrong[7] = len(centroids)
    twice = np.where(lists == lists[0], -1, lists).astype(np.int32)
    forged = {
        "lists": [wrong, twice, lists[:-1], lists.astype(np.float32), lists[:, None], lists.tolist()],
        "centroids": [centroids[:, :-1].copy(), np.full_like(centroids, np.nan), centroids.astype(float), centroids[0]],
        "origin": [origin[:-1], np.full_like(origin, np.inf)],
        "scale": [0.0, -1.0, float("nan"), "1"],
        "n_probes": [0, 10**9, 2.0],
        "recall": [float("nan")],
        "n_measured": [0, len(lists) + 1],
        "metric": ["manhattan", ["cosine"]],
        "spare": [1],
    }
    stored = [{**index, name: value} for name, values in forged.items() for value in values]
    stored += [{}, [], 1, "index", {"lists": lists}]
    for value in stored:
        monkeypatch.setattr(cv.CrossViewClassifier, "__getstate__", lambda _, v=value: state | {"gallery_index_": v})
        (tmp_path / "model").write_bytes(encode(indexed))
        with pytest.raises(ModelFileError, match=r"gallery_index_ is invalid|neighbour index|Error"):
            load(tmp_path / "model")


# Tensors.


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_metrics_take_tensors(metric, dtype):
    torch = pytest.importorskip("torch")
    latents = [CENTRES[Y[:400]] + 0.5 * RNG.normal(size=(400, 6)) for _ in range(3)]
    latents = [Z.astype(dtype).astype(np.float64) for Z in latents]
    latents[1][:9] = np.nan
    y, tensors = Y[:400], [torch.from_numpy(Z).to(getattr(torch, dtype)) for Z in latents]
    for options in ({}, {"counterparts": True}):
        found, expected = (cv.metrics.cross_view_accuracy(Z, y, metric, **options) for Z in (tensors, latents))
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)
    for name in ("cross_view_average_precision", "one_shot_accuracy"):
        score = getattr(cv.metrics, name)
        np.testing.assert_allclose(score(tensors, y, metric), score(latents, y, metric), rtol=1e-12)
    found, expected = (score_by_dimension(Z, y, [2, 6], metric, "accuracy") for Z in (tensors, latents))
    np.testing.assert_array_equal(found, expected)
    for name in ("cmc", "roc", "average_precision", "identification_rates"):
        score = getattr(cv.metrics, name)
        np.testing.assert_equal(*(score(Z[0], y, Z[2], y, metric=metric) for Z in (tensors, latents)))
    if dtype == "float64":
        latents = [1e120 * np.where(np.arange(400)[:, None] > 0, Z, 0.0) for Z in latents[::2]]
        found, expected = (
            cv.metrics.cross_view_accuracy(Z, y, metric) for Z in ([torch.from_numpy(X) for X in latents], latents)
        )
        np.testing.assert_array_equal(found, expected)


def test_a_matcher_works_with_tensors_alone(tmp_path):
    torch = pytest.importorskip("torch")
    views = [X[:600], X[:600] + 0.1 * RNG.normal(size=(600, 6))]
    tensors = [torch.tensor(Z) for Z in views]
    ours, theirs = (
        cv.CrossViewClassifier(cv.MvDA(4), calibration_folds=3).fit(given, Y[:600]) for given in (views, tensors)
    )
    np.testing.assert_allclose(theirs.gallery_, ours.gallery_, atol=1e-9)
    assert theirs.temperature_ == pytest.approx(ours.temperature_, rel=1e-6)
    np.testing.assert_array_equal(theirs.predict(tensors), ours.predict(views))
    assert theirs.score(tensors, Y[:600]) == ours.score(views, Y[:600])
    found, expected = (
        cv.evaluate_probes(model, given[1], Y[:600], 1, n_bootstrap=100).mean.accuracy.value
        for model, given in ((theirs, tensors), (ours, views))
    )
    assert found == expected
    assert cv.evaluate(theirs, tensors, Y[:600], n_bootstrap=100).mean.accuracy.value > 0.5
    tensors[1][3] = torch.nan
    with pytest.raises(ValueError, match="row 3 is missing in view 'view1'"):
        theirs.predict(tensors)
    save(theirs, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(views), theirs.predict(views))


def test_long_work_reports_progress(embedding, monkeypatch, capsys):
    pytest.importorskip("faiss")
    monkeypatch.setattr(gallery, "_MIN_REPORTED_SAMPLES", 1)
    monkeypatch.setattr(gallery, "_MIN_REPORTED_PAIRS", 1)
    monkeypatch.setattr(_progress, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(_progress, "_INTERVAL", 0.001)
    monkeypatch.setattr(searches, "_PROBES", 1)
    with cv.config_context(progress=True):
        model = matcher(embedding, algorithm="approximate")
        assert "Indexing the gallery" in capsys.readouterr().err
        model.set_params(algorithm="exact").kneighbors(PROBES, 1)
        assert "Searching the gallery" in capsys.readouterr().err
    model.kneighbors(PROBES, 1)
    assert capsys.readouterr().err == ""
