from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import crossview as cv


def literal(latents, y, mask, distance):
    n = len(latents)
    result = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            hits = []
            for p in np.flatnonzero(mask[:, j]):
                gallery = np.flatnonzero(mask[:, i])
                d = [distance(latents[i][g], latents[j][p]) for g in gallery]
                hits.append(y[gallery[int(np.argmin(d))]] == y[p])
            result[i, j] = np.mean(hits)
    return result


def euclidean(a, b):
    return np.linalg.norm(a - b)


def cosine(a, b):
    return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 4), metric=st.sampled_from([euclidean, cosine]))
def test_equals_the_literal_definition(seed, n, metric):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size=12)
    mask = rng.random((12, n)) < 0.8
    mask[0] = True
    latents = [np.where(mask[:, [v]], rng.normal(size=(12, 3)), np.nan) for v in range(n)]
    got = cv.metrics.cross_view_accuracy(latents, y, metric=metric.__name__)
    expected = literal(latents, y, mask, metric)
    np.testing.assert_array_equal(got, expected)
    assert cv.metrics.mean_accuracy(latents, y, metric.__name__) == pytest.approx(np.nanmean(expected))


def test_latents_far_from_zero():
    X = np.random.default_rng(0).normal(size=(40, 3)) + 1e8
    assert cv.metrics.mean_accuracy([X, X], np.arange(40)) == 1.0


def test_a_view_without_samples_is_left_out_of_the_mean():
    X = np.eye(3)
    latents = [X, X, np.full((3, 3), np.nan)]
    assert np.isnan(cv.metrics.cross_view_accuracy(latents, [0, 1, 2])[2]).all()
    assert cv.metrics.mean_accuracy(latents, [0, 1, 2]) == 1.0


@pytest.mark.parametrize(
    ("latents", "y", "metric", "match"),
    [
        ([np.eye(3), np.eye(3)], [0, 1], "euclidean", "y has 2 labels for 3 samples"),
        ([np.eye(3), np.ones((3, 2))], [0, 1, 2], "euclidean", r"equal dimensions .* got \(3, 2\)"),
        ([np.eye(3), np.eye(3)], [0, 1, 2], "manhattan", "metric must be 'euclidean' or 'cosine'"),
        ([np.eye(3)], [0, 1, 2], "euclidean", "no pair of views"),
    ],
)
def test_bad_input(latents, y, metric, match):
    with pytest.raises(ValueError, match=match):
        cv.metrics.mean_accuracy(latents, y, metric)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 4), metric=st.sampled_from(["euclidean", "cosine"]))
def test_by_dimension_equals_one_after_another(seed, n, metric):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size=15)
    mask = rng.random((15, n)) < 0.8
    mask[:2] = True
    latents = cv.Views([rng.normal(size=(15, 6)) + 3 for _ in range(n)], mask=mask)
    dimensions = [1, 2, 5, 9]
    found = cv.metrics.accuracy_by_dimension(latents, y, dimensions, metric)
    wanted = [
        cv.metrics.mean_accuracy(cv.Views([X[:, :d] for X in latents.arrays], mask=mask), y, metric) for d in dimensions
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_by_dimension_refuses():
    X = np.eye(3)
    for dimensions in ([], [0, 1], [2, 1]):
        with pytest.raises(ValueError, match="dimensions must be whole numbers of 1 or more, ascending"):
            cv.metrics.accuracy_by_dimension([X, X], [0, 1, 2], dimensions)
    with pytest.raises(ValueError, match="no pair of views"):
        cv.metrics.accuracy_by_dimension([X], [0, 1, 2], [1])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_by_dimension_does_not_depend_on_chunks(metric, monkeypatch):
    rng = np.random.default_rng(0)
    latents, y = [rng.normal(size=(40, 7)) for _ in range(3)], rng.integers(0, 8, size=40)
    at_once = cv.metrics.accuracy_by_dimension(latents, y, [2, 3, 7], metric)
    monkeypatch.setattr(cv.metrics, "_CHUNK", 300)
    np.testing.assert_array_equal(cv.metrics.accuracy_by_dimension(latents, y, [2, 3, 7], metric), at_once)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("chunk", [60, 10**6])
def test_precision_by_dimension_is_that_of_every_pair_of_views(metric, chunk, monkeypatch):
    monkeypatch.setattr(cv.metrics, "_CHUNK", chunk)
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(8), 5)
    mask = rng.random((40, 3)) < 0.7
    mask[y == 0, 1] = False  # a class that one view has not seen
    latents = cv.Views([rng.normal(size=(40, 6)) + 0.3 * y[:, None] for _ in range(3)], mask=mask)
    found = cv.metrics.precision_by_dimension(latents, y, [2, 4, 6, 9], metric)
    for d, precision in zip([2, 4, 6, 9], found, strict=True):
        seen = [(X[rows, :d], y[rows]) for X, rows in zip(latents.arrays, mask.T, strict=True)]
        pairs = [
            cv.metrics.average_precision(*gallery, *probes, metric)
            for gallery in seen
            for probes in seen
            if gallery is not probes
        ]
        assert precision == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("few", [1, 100])
def test_precision_is_that_of_scikit_learn_ties_included(few, monkeypatch):
    monkeypatch.setattr(cv.metrics, "_FEW", few)
    rng = np.random.default_rng(5)
    G, P = rng.integers(0, 3, size=(40, 2)).astype(float), rng.integers(0, 3, size=(15, 2)).astype(float)
    g, p = rng.integers(0, 4, size=40), rng.integers(0, 4, size=15)
    distances = literal_distances(G, P, "euclidean")
    wanted = [average_precision_score(g == label, -line) for line, label in zip(distances, p, strict=True)]
    assert cv.metrics.average_precision(G, g, P, p) == pytest.approx(np.mean(wanted), abs=1e-12)


def test_precision_by_dimension_refuses_views_without_a_class_in_common():
    mask = [[True, False], [True, False], [False, True]]
    views = cv.Views([np.eye(3), np.eye(3)], mask=mask)
    with pytest.raises(ValueError, match="two views share no class"):
        cv.metrics.precision_by_dimension(views, [0, 0, 1], [1])


@pytest.fixture(params=["euclidean", "cosine"])
def matching(request):
    """Gallery and probes with a class that is in one of them only, and several samples per class."""
    rng = np.random.default_rng(1)
    g, p = rng.integers(0, 6, size=30), rng.integers(0, 7, size=25)
    centres = rng.normal(size=(7, 4))
    return centres[g] + 0.8 * rng.normal(size=(30, 4)), g, centres[p] + 0.8 * rng.normal(size=(25, 4)), p, request.param


def literal_distances(G, P, metric):
    return np.array([[(euclidean if metric == "euclidean" else cosine)(g, p) for g in G] for p in P])


@pytest.mark.parametrize("chunk", [10, 10**6])
def test_verification_and_identification_are_literal(matching, chunk, monkeypatch):
    monkeypatch.setattr(cv.metrics, "_CHUNK", chunk)
    G, g, P, p, metric = matching
    D = literal_distances(G, P, metric)

    ranks = []
    for row, label in zip(D, p, strict=True):
        nearest = sorted((min(row[g == c]), c) for c in set(g))
        classes = [c for _, c in nearest]
        ranks.append(classes.index(label) + 1 if label in classes else 99)
    found = cv.metrics.cmc(G, g, P, p, metric=metric)
    np.testing.assert_allclose(found, [np.mean(np.array(ranks) <= r) for r in range(1, len(set(g)) + 1)])
    assert found[0] < found[-1] < 1.0
    np.testing.assert_allclose(cv.metrics.cmc(G, g, P, p, 3, metric), found[:3])
    np.testing.assert_allclose(cv.metrics.cmc(G, g, P, p, 9, metric), np.append(found, [found[-1]] * (9 - len(found))))

    same = p[:, None] == g
    false, true, thresholds = cv.metrics.roc(G, g, P, p, metric)
    assert len(thresholds) == same.sum() + 1
    assert (false[-1], true[-1], thresholds[-1]) == (1.0, 1.0, np.inf)
    for f, t, threshold in zip(false, true, thresholds, strict=True):
        assert f == pytest.approx(np.mean(D[~same] <= threshold), abs=1e-12)
        assert t == pytest.approx(np.mean(D[same] <= threshold + 1e-12), abs=1e-12)
    few = cv.metrics.roc(G, g, P, p, metric, max_points=7)
    assert len(few[0]) == 8
    assert set(few[2]) <= set(thresholds)
    np.testing.assert_allclose(few[1], true[np.searchsorted(thresholds, few[2])])
    missed = cv.metrics.det(G, g, P, p, metric)
    np.testing.assert_allclose(missed[1], 1 - true)
    np.testing.assert_allclose(missed[0], false)

    precisions = []
    for row, label in zip(D, p, strict=True):
        hits = g[np.argsort(row, kind="stable")] == label
        if hits.any():
            at = np.flatnonzero(hits)
            precisions.append(np.mean([(k + 1) / (rank + 1) for k, rank in enumerate(at)]))
    assert cv.metrics.average_precision(G, g, P, p, metric) == pytest.approx(np.mean(precisions), abs=1e-12)


def test_ties_do_not_flatter():
    """Where everything is at the same distance, the right class comes last."""
    nothing = np.zeros((4, 2))
    np.testing.assert_array_equal(cv.metrics.cmc(nothing, [0, 1, 2, 3], nothing, [0, 1, 2, 3]), [0, 0, 0, 1])


def test_many_comparisons_are_never_held_at_once():
    rng = np.random.default_rng(0)
    G, P = rng.normal(size=(20_000, 2)), rng.normal(size=(3_000, 2))
    g, p = rng.integers(0, 500, size=20_000), rng.integers(0, 500, size=3_000)
    tracemalloc.start()
    cv.metrics.cmc(G, g, P, p)
    cv.metrics.roc(G, g, P, p, max_points=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * len(G) * len(P)


@pytest.mark.parametrize("function", [cv.metrics.cmc, cv.metrics.roc, cv.metrics.det, cv.metrics.average_precision])
def test_verification_refuses(function):
    X = np.eye(3)
    with pytest.raises(ValueError, match="gallery: 2 labels for 3 samples"):
        function(X, [0, 1], X, [0, 1, 2])
    with pytest.raises(ValueError, match="equal dimensions, got 3 and 2"):
        function(X, [0, 1, 2], X[:, :2], [0, 1, 2])
    with pytest.raises(ValueError, match="metric must be"):
        function(X, [0, 1, 2], X, [0, 1, 2], metric="manhattan")


def test_nothing_to_verify():
    X = np.eye(2)
    with pytest.raises(ValueError, match="needs pairs of one class and pairs of two"):
        cv.metrics.roc(X, [0, 0], X, [0, 0])
    with pytest.raises(ValueError, match="no probe has its class"):
        cv.metrics.average_precision(X, [0, 1], X, [2, 3])
    with pytest.raises(ValueError, match="max_rank must be 1 or more"):
        cv.metrics.cmc(X, [0, 1], X, [0, 1], max_rank=0)
