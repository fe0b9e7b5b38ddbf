from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import crossview as cv
from crossview.neighbours import classes, search

METHODS = [
    cv.MvHE(3, n_within=2, n_between=5),
    cv.KMvHE(3, n_within=2, n_between=5, n_landmarks=40),
    cv.DLA(3, n_within=2, n_between=5),
    cv.DLA(3, n_within=2, n_between=5, coupling=4.0),
    cv.MvDLA(3, n_within=4, n_between=5),
    cv.LPP(3, n_neighbors=4),
]
SEARCHED = pytest.mark.parametrize("method", METHODS, ids=str)


def views(m=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 40, size=m)
    factors = rng.normal(size=(40, 6))[y] + 0.3 * rng.normal(size=(m, 6))
    return [factors @ rng.normal(size=(6, 8)) + 0.1 * rng.normal(size=(m, 8)) for _ in range(2)], y


@pytest.fixture
def few_lists(monkeypatch):
    """Make a search on small data approximate, in a few of many lists."""
    pytest.importorskip("faiss")
    for module, name, value in (
        (search, "_LIST_SIZE", 16),
        (search, "N_PROBES", 4),
        (classes, "_EXACT_BELOW", 0),
    ):
        monkeypatch.setattr(module, name, value)


@SEARCHED
def test_searching_all_lists_gives_the_exact_fit(method, few_lists, monkeypatch):
    monkeypatch.setattr(search, "N_PROBES", 1 << 20)
    X, y = views()
    exact = clone(method).set_params(algorithm="exact").fit(X, y)
    found = clone(method).set_params(algorithm="approximate").fit(X, y)
    assert exact.neighbour_recall_ == found.neighbour_recall_ == 1.0
    for W, expected in zip(found.projections_, exact.projections_, strict=True):
        np.testing.assert_array_equal(W, expected)


@SEARCHED
def test_searching_few_lists_finds_most_neighbours(method, few_lists):
    X, y = views()
    found = clone(method).set_params(algorithm="approximate").fit(X, y)
    assert isinstance(found.neighbour_recall_, float)
    assert 0.85 < found.neighbour_recall_ < 1.0
    if isinstance(method, cv.MvHE):
        exact = clone(method).set_params(algorithm="exact").fit(X, y)
        assert abs(found.score(X, y) - exact.score(X, y)) < 0.02


@SEARCHED
def test_recall_is_saved_with_the_model(method, few_lists, tmp_path):
    X, y = views(300)
    model = clone(method).set_params(algorithm="approximate").fit(X, y)
    cv.save(model, tmp_path / "model")
    assert cv.load(tmp_path / "model").neighbour_recall_ == model.neighbour_recall_
    assert cv.load(tmp_path / "model").algorithm == "approximate"


@SEARCHED
def test_auto_is_approximate_for_many_samples(method, few_lists, monkeypatch):
    X, y = views()
    model = clone(method).set_params(algorithm="auto")
    assert model.fit(X, y).neighbour_recall_ == 1.0
    monkeypatch.setattr(classes, "_APPROXIMATE_FROM", 500)
    assert model.fit(X, y).neighbour_recall_ < 1.0


def test_recall_is_the_lowest_of_all_views(monkeypatch):
    X, y = views(100)
    monkeypatch.setattr(classes, "is_approximate", lambda *_: True)
    recalls = iter([1.0, 0.95, 1.0, 0.92])  # to choose the number of lists, and of all samples
    monkeypatch.setattr(classes, "_recall", lambda *_: next(recalls))
    assert cv.MvHE(3).fit(X, y).neighbour_recall_ == 0.92


def test_low_recall_warns_and_names_the_fix(monkeypatch):
    X, y = views(100)
    monkeypatch.setattr(classes, "is_approximate", lambda *_: True)
    monkeypatch.setattr(classes, "_recall", lambda *_: 0.8)
    with pytest.warns(UserWarning, match=r"only 80% .* algorithm='exact'"):
        cv.LPP(3).fit(X, y)


@SEARCHED
def test_unknown_search_is_refused(method):
    X, y = views(60)
    with pytest.raises(ValueError, match="algorithm must be one of 'auto', 'exact', 'approximate', got 'fast'"):
        clone(method).set_params(algorithm="fast").fit(X, y)
