"""Threads that enrol, predict and calibrate at the same time see what a sequential run would have shown them.

CROSSVIEW_STRESS_SECONDS lengthens the test; the default keeps the suite quick.
"""

import copy
import os
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from sklearn.base import clone

import crossview as cv
from crossview.neighbours.search import ExactSearch, TensorSearch

SECONDS = float(os.environ.get("CROSSVIEW_STRESS_SECONDS", "2"))
RNG = np.random.default_rng(0)
FIRST, NEW, PROBES = (RNG.normal(size=(n, 4)) for n in (40, 4000, 30))
N_CLASSES = 12


@pytest.fixture(autouse=True)
def eager_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="module")
def embedding():
    return cv.PCA(4).fit([FIRST, FIRST + 1.0])


def matcher(embedding, **options):
    return cv.CrossViewClassifier(embedding, **options).enroll(FIRST, np.arange(40) % N_CLASSES, 0)


def together(*functions):
    """Run functions in a thread each, which start at the same time, on the device of this thread."""
    barrier, device = Barrier(len(functions)), cv.get_config()["device"]

    def start(function):
        barrier.wait()
        with cv.config_context(device=device):
            return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [task.result() for task in [pool.submit(start, function) for function in functions]]


def decide(model):
    """What `predict` decides about the probes."""
    return tuple(model.predict(PROBES, 1).tolist())


@pytest.fixture(params=[None, "cpu"])
def device(request):
    if request.param:
        pytest.importorskip("torch")
    with cv.config_context(device=request.param):
        yield request.param


@pytest.mark.parametrize(
    ("options", "device"),
    [({}, None), ({"algorithm": "approximate"}, None), ({}, "cpu")],
    ids=str,
    indirect=["device"],
)
def test_eight_threads_see_what_a_sequential_run_shows(embedding, options, device):
    if options:
        pytest.importorskip("faiss")
    model, end = matcher(embedding, **options), time.monotonic() + SECONDS / 3
    seen, thresholds = set(), set()
    limit = len(NEW) // 3

    def enrol(first):
        for k in range(first, limit, 4):
            if time.monotonic() > end:
                return
            rows = np.arange(3 * k, 3 * k + 3)
            model.enroll(NEW[rows], rows % N_CLASSES, 0, ids=[f"new {row}" for row in rows])

    def predict():
        while time.monotonic() < end:
            seen.add(decide(model))
            distances, found = model.kneighbors(PROBES, 1, 2)
            np.testing.assert_allclose(np.linalg.norm(latent[:, None] - model.gallery_[found], axis=2), distances)

    def calibrate():
        while time.monotonic() < end:
            model.calibrate(PROBES, np.arange(30) % N_CLASSES, 1, 0.4)
            thresholds.add(model.threshold_)
            again = pickle.loads(pickle.dumps(model))
            assert len(again.gallery_) == len(again.gallery_labels_) == len(again.gallery_ids_)

    latent = cv.transform_view(embedding, PROBES, 1)
    together(*(lambda k=k: enrol(k) for k in range(4)), predict, predict, calibrate, calibrate)

    rows = np.array([int(name.split()[1]) for name in model.gallery_ids_[40:]])
    assert len(set(rows.tolist())) == len(rows) >= 12
    np.testing.assert_array_equal(model.gallery_labels_[40:], rows % N_CLASSES)
    np.testing.assert_allclose(model.gallery_[40:], cv.transform_view(embedding, NEW[rows], 0))
    np.testing.assert_array_equal(model.classes_, range(N_CLASSES))
    if "algorithm" in options:
        return  # the lists that a search visits depend on when they were counted
    alone, possible, exact = matcher(embedding), set(), {None}
    for batch in [[], *rows.reshape(-1, 3)]:
        if len(batch):
            alone.enroll(NEW[batch], batch % N_CLASSES, 0)
        possible.add(decide(alone))
        exact.add(alone.calibrate(PROBES, np.arange(30) % N_CLASSES, 1, 0.4).threshold_)
        possible.add(decide(alone))
    assert len(seen) > 1
    assert seen <= possible
    known = np.array([value for value in exact if value is not None])
    for value in thresholds - {None}:
        assert np.abs(known / value - 1.0).min() < 1e-9


def test_first_searches_at_the_same_time_share_their_preparation(embedding):
    """Of a gallery from a file, nothing is prepared yet: norms of more samples than are computed at a time."""
    many = RNG.normal(size=(70_000, 4))
    expected = cv.CrossViewClassifier(embedding).enroll(many, np.arange(70_000), 0).kneighbors(PROBES, 1, 3)
    state = pickle.dumps(cv.CrossViewClassifier(embedding).enroll(many, np.arange(70_000), 0))
    for _ in range(5):
        model = pickle.loads(state)
        for found in together(*[lambda model=model: model.kneighbors(PROBES, 1, 3)] * 4):
            np.testing.assert_array_equal(found[1], expected[1])
        assert len(model._gallery._engine("euclidean")._norms) == 70_000


def test_searching_changes_nothing(embedding, monkeypatch):
    """Enrolling prepares the search; another one is prepared once."""
    pytest.importorskip("torch")
    for device, engine in ((None, ExactSearch), ("cpu", TensorSearch)):
        prepared, extended = [], engine.extended
        monkeypatch.setattr(engine, "extended", lambda *given, e=extended, p=prepared: p.append(1) or e(*given))
        with cv.config_context(device=device):
            model = matcher(embedding).enroll(NEW[:5], np.arange(5), 0)
            n, before = len(prepared), model._gallery
            model.predict(PROBES, 1)
            model.kneighbors(PROBES, 1, 3)
        assert len(prepared) == n == 2
        assert model._gallery is before


def test_a_failed_enrolment_leaves_everything_as_it_was(embedding, monkeypatch):
    """As when Ctrl-C interrupts the preparation of the search."""
    model = matcher(embedding).calibrate(PROBES, np.arange(30) % N_CLASSES, 1, 0.4)
    expected, threshold = model.kneighbors(PROBES, 1, 3), model.threshold_
    prepare = type(model._gallery).prepare
    monkeypatch.setattr(type(model._gallery), "prepare", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.enroll(NEW[:7], np.full(7, 77), 0, ids=list("abcdefg"))
    assert (len(model.gallery_), model.threshold_) == (40, threshold)
    np.testing.assert_array_equal(model.kneighbors(PROBES, 1, 3)[1], expected[1])
    monkeypatch.setattr(type(model._gallery), "prepare", prepare)
    model.enroll(NEW[7:10], [88, 1, 88], 0, ids=list("abc"))
    assert model.gallery_labels_[40:].tolist() == [88, 1, 88]
    assert model.classes_.tolist() == [*range(N_CLASSES), 88]
    np.testing.assert_allclose(model.gallery_[40:], cv.transform_view(embedding, NEW[7:10], 0))


def test_an_index_is_searched_while_samples_are_added(embedding):
    pytest.importorskip("faiss")
    from crossview.neighbours.search import InvertedFile

    index = InvertedFile.build(FIRST)
    found = index.search(FIRST, 3)

    def search():
        for _ in range(200):
            np.testing.assert_array_equal(index.search(FIRST, 3, inside=slice(0, 40)), found)
            assert len(index.lists) >= 40

    def add():
        for k in range(200):
            index.add(NEW[3 * k : 3 * k + 3])

    together(search, add, search)
    assert len(index) == len(index.lists) == 640


def test_an_index_that_a_failed_enrolment_extended_is_built_again(embedding, monkeypatch):
    pytest.importorskip("faiss")
    model = matcher(embedding, algorithm="approximate")
    search = type(model._gallery._index)
    extended = search.extended
    monkeypatch.setattr(search, "extended", lambda *given: (extended(*given), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        model.enroll(NEW[:7], np.full(7, 77), 0)
    assert model.kneighbors(NEW[:7], 0, 40)[1].max() == 39
    assert len(model._gallery.index_state["lists"]) == 40
    monkeypatch.setattr(search, "extended", extended)
    model.enroll(NEW[7:14], np.arange(7), 0)
    np.testing.assert_array_equal(model.kneighbors(NEW[7:14], 0, 1)[1][:, 0], range(40, 47))


def test_locks_stay_out_of_copies(embedding):
    model = matcher(embedding)
    cloned = clone(model).set_params(embedding=embedding)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), cloned):
        other.enroll(NEW[:2], [0, 1], 0)
        assert other._lock is not model._lock
    assert len(model.gallery_) == 40
