from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    monkeypatch.setattr(cv.metrics, "_CHUNK", 900)
    np.testing.assert_array_equal(cv.metrics.accuracy_by_dimension(latents, y, [2, 3, 7], metric), at_once)
