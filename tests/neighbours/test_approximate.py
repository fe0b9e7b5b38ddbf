"""Approximate search: the index, tables of neighbours, and fits that use them."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from sklearn.base import clone

import crossview as cv
from crossview.neighbours import classes, search
from crossview.neighbours.classes import class_neighbours, find_neighbours
from crossview.neighbours.search import InvertedFile

faiss = pytest.importorskip("faiss")
RNG = np.random.default_rng(0)
LISTS = 1 << 20  # more than there are
METHODS = [
    cv.MvHE(3, n_within=2, n_between=5),
    cv.KMvHE(3, n_within=2, n_between=5, n_landmarks=40, random_state=0),
    cv.DLA(3, n_within=2, n_between=5, coupling=4.0),
    cv.MvDLA(3, n_within=4, n_between=5),
    cv.LPP(3, n_neighbors=4),
]


def clustered(sizes, D=8, seed=0):
    """Classes of the given sizes around random centres, in random order."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = 2.0 * rng.normal(size=(len(sizes), D))[y] + rng.normal(size=(len(y), D))
    order = rng.permutation(len(y))
    return X[order], y[order]


def nearest(queries, X, k, allowed=slice(None)):
    ids = np.arange(len(X))[allowed]
    d = np.square(queries[:, None] - X[ids]).sum(axis=-1)
    return ids[np.argsort(d, axis=1, kind="stable")[:, :k]]


def share(found, expected):
    return np.mean([np.isin(e, f).mean() for f, e in zip(found, expected, strict=True)])


@pytest.fixture(autouse=True)
def many_lists(monkeypatch):
    """Small data make up many lists, and are not searched exactly."""
    monkeypatch.setattr(search, "_LIST_SIZE", 16)
    monkeypatch.setattr("crossview.neighbours.distances._CHUNK", 1 << 13)
    monkeypatch.setattr(classes, "_EXACT_BELOW", 0)


# The index.


def test_more_lists_find_more_and_all_lists_find_all():
    X = RNG.normal(size=(2000, 12))
    index = InvertedFile.build(X)
    assert len(index.centroids) == 125
    recalls = [share(index.search(X[:200], 10, n_probes=n), nearest(X[:200], X, 10)) for n in (1, 8, LISTS)]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.999  # in half precision, the last two of ten may change places


def test_index_restricted_to_samples_or_to_all_others():
    y = np.repeat([0, 1], [1500, 500])
    X = RNG.normal(size=(2000, 6)) + 8.0 * y[:, None]  # the nearest lists of either class hold none of the other
    index = InvertedFile.build(X)
    part = slice(0, 1500)
    for restriction, allowed in (({"inside": part}, part), ({"outside": part}, slice(1500, 2000))):
        for queries in (X[:100], X[-100:]):
            ids = index.search(queries, 5, n_probes=16, **restriction)
            assert np.isin(ids, np.arange(2000)[allowed]).all()
            assert share(ids, nearest(queries, X, 5, allowed)) > 0.95


def test_distances_keep_their_precision_with_outliers_and_tight_clusters():
    X = np.repeat(RNG.normal(size=(50, 6)), 40, axis=0) + 1e-4 * RNG.normal(size=(2000, 6))
    X[0] = 1e5
    index = InvertedFile.build(X)
    assert share(index.search(X[1:200], 10), nearest(X[1:200], X, 10)) > 0.95


def test_too_few_samples_are_padded():
    index = InvertedFile.build(RNG.normal(size=(3, 2)))
    assert sorted(index.search(np.zeros((1, 2)), 5)[0]) == [-1, -1, 0, 1, 2]


def test_added_samples_are_found_and_the_others_stay():
    X, _ = clustered([40] * 50)
    index = InvertedFile.build(X[:1500])
    for start in range(1500, 2000, 100):
        index.add(X[start : start + 100])
    assert len(index) == len(index.lists) == 2000
    assert share(index.search(X[:200], 10, n_probes=32), nearest(X[:200], X, 10)) > 0.98
    np.testing.assert_array_equal(index.search(X[1900:], 1)[:, 0], np.arange(1900, 2000))


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("lists", np.full(800, 50, np.int32), "invalid values"),
        ("lists", np.full(800, -1, np.int32), "invalid values"),
        ("lists", np.zeros(800), "invalid values"),
        ("lists", np.zeros(799, np.int32), "do not fit together"),
        ("origin", np.zeros(3), "do not fit together"),
        ("origin", np.full(8, np.nan), "invalid values"),
        ("centroids", np.zeros(8, np.float32), "do not fit together"),
        ("centroids", np.full((50, 8), np.inf, np.float32), "invalid values"),
        ("scale", np.array(0.0), "invalid values"),
        ("scale", np.ones(2), "do not fit together"),
    ],
)
def test_forged_arrays_are_refused(name, value, match):
    arrays = {"centroids": np.zeros((50, 8), np.float32), "origin": np.zeros(8), "scale": np.array(1.0)}
    arrays["lists"] = np.zeros(800, np.int32)
    search.check_state(arrays, (800, 8))
    with pytest.raises(ValueError, match=match):
        search.check_state(arrays | {name: value}, (800, 8))


@pytest.mark.parametrize("factor", [1e-100, 1e100])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_index_works_at_any_scale_and_far_from_zero(factor, offset):
    X, _ = clustered([40] * 20)
    expected = nearest(X[:100], X, 5)
    index = InvertedFile.build((X + offset) * factor)
    assert share(index.search((X[:100] + offset) * factor, 5, n_probes=32), expected) > 0.98


# Tables of neighbours.

CLASSES = {
    "tiny": [1, 2, 3] * 200,
    "small": [20] * 60,
    "medium": [100] * 12,
    "huge": [700, 500],
    "mixed": [800, 100, *[10] * 30, 1, 1],
    "one": [1200],
}


@pytest.mark.parametrize("sizes", CLASSES.values(), ids=CLASSES)
def test_approximate_tables_have_nearly_all_neighbours(sizes):
    X, y = clustered(sizes)
    rows = np.arange(len(y))[:, None]
    exact = class_neighbours(X, y, 3, 15)
    *found, recall = find_neighbours(X, y, 3, 15, "approximate")
    assert recall > 0.95
    for table, expected, same in zip(found, exact, (True, False), strict=True):
        np.testing.assert_array_equal(table >= 0, expected >= 0)
        agree = (table == expected)[expected >= 0]
        assert agree.mean() > 0.9 if agree.size else True
        assert ((y[table] == y[:, None]) == same)[table >= 0].all()
        assert (table != rows).all()
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in table)


def test_all_lists_give_the_exact_tables_with_ties(monkeypatch):
    monkeypatch.setattr(search, "N_PROBES", LISTS)
    X = RNG.integers(0, 5, size=(900, 3)).astype(float)  # many ties, fewer than candidates
    X[:, 2] += RNG.normal(size=900)
    X[450:] = X[:450]  # every sample twice
    y = np.concatenate([np.arange(450) % 9, (np.arange(450) + 1) % 9])
    *found, recall = find_neighbours(X, y, 4, 6, "approximate")
    assert recall == 1.0
    for table, expected in zip(found, class_neighbours(X, y, 4, 6), strict=True):
        np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("method", ["exact", "approximate"])
@pytest.mark.parametrize("sizes", [*CLASSES.values(), [5] * 10], ids=[*CLASSES, "few"])
def test_centres_get_the_rows_that_all_samples_would(method, sizes):
    X, y = clustered(sizes)
    centres = RNG.permutation(len(y))[: len(y) // 5]
    some = find_neighbours(X, y, 3, 7, method, centres=centres)[:2]
    for table, everything in zip(some, find_neighbours(X, y, 3, 7, method)[:2], strict=True):
        np.testing.assert_array_equal(table, everything[centres])


def test_more_lists_are_searched_until_recall_suffices(monkeypatch):
    X = RNG.normal(size=(3000, 12))  # without clusters: a few lists hold few neighbours
    y = RNG.integers(0, 300, size=3000)
    monkeypatch.setattr(search, "N_PROBES", 1)
    assert 0.85 < find_neighbours(X, y, 3, 15, "approximate")[2] < 1.0
    monkeypatch.setattr(classes, "_EXACT_SHARE", 0.1)
    assert find_neighbours(X, y, 3, 15, "approximate")[2] == 1.0
    monkeypatch.setattr(classes, "_ENOUGH", 0.0)
    with pytest.warns(UserWarning, match=r"only [4-6]\d% of the nearest .* algorithm='exact'"):
        assert find_neighbours(X, y, 3, 15, "approximate")[2] < 0.7


def test_neighbours_at_the_same_distance_are_as_good(monkeypatch):
    monkeypatch.setattr(classes, "_EXACT_SHARE", 2.0)
    X, y = np.repeat(RNG.normal(size=(10, 6)), 300, axis=0), np.arange(3000) % 7
    *found, recall = find_neighbours(X, y, 3, 15, "approximate")
    assert (found[1] != class_neighbours(X, y, 3, 15)[1]).any()
    assert recall == 1.0


def test_auto_is_exact_for_few_samples_and_without_faiss(monkeypatch):
    assert not classes.is_approximate("auto", 29_999, 29_999)
    assert classes.is_approximate("auto", 30_000, 30_000)
    assert not classes.is_approximate("auto", 1_000_000, 899)  # an index would take longer to build
    assert classes.is_approximate("auto", 1_000_000, 900)
    monkeypatch.setattr(search, "find_spec", lambda _: None)
    assert not classes.is_approximate("auto", 10**9, 10**9)


# Fits.


def views(m=600):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, size=m)
    factors = rng.normal(size=(40, 6))[y] + 0.3 * rng.normal(size=(m, 6))
    return [factors @ rng.normal(size=(6, 8)) + 0.1 * rng.normal(size=(m, 8)) for _ in range(2)], y


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_fits_use_the_index_for_many_samples(method, monkeypatch, tmp_path):
    X, y = views()
    model = clone(method)
    exact = model.fit(X, y).projections_
    assert model.neighbour_recall_ == 1.0
    monkeypatch.setattr(search, "N_PROBES", 4)
    monkeypatch.setattr(classes, "_APPROXIMATE_FROM", 500)
    assert 0.85 < model.fit(X, y).neighbour_recall_ < 1.0
    cv.save(model, tmp_path / "model")
    assert cv.load(tmp_path / "model").neighbour_recall_ == model.neighbour_recall_
    monkeypatch.setattr(search, "N_PROBES", LISTS)
    for W, expected in zip(model.fit(X, y).projections_, exact, strict=True):
        np.testing.assert_array_equal(W, expected)
    with pytest.raises(ValueError, match="algorithm must be one of 'auto', 'exact', 'approximate', got 'fast'"):
        model.set_params(algorithm="fast").fit(X, y)


def test_recall_is_the_lowest_of_all_views(monkeypatch):
    recalls = iter([1.0, 0.95, 1.0, 0.92])  # of each view, to choose the number of lists, and with this number
    monkeypatch.setattr(classes, "_recall", lambda *_: next(recalls))
    assert cv.MvHE(3, algorithm="approximate").fit(*views(100)).neighbour_recall_ == 0.92


def test_missing_library_names_the_extra(monkeypatch):
    original = builtins.__import__

    def fail(name, *args, **kwargs):
        if name.split(".")[0] == "faiss":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    monkeypatch.setattr(search, "find_spec", lambda _: None)
    for model in METHODS:
        with pytest.raises(ImportError, match=r"need faiss.*crossview\[approximate\]"):
            clone(model).set_params(algorithm="approximate").fit(*views(60))
        assert clone(model).fit(*views(60)).neighbour_recall_ == 1.0
