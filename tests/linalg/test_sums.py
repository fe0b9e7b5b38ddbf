"""Scatters of classes and pairs, with missing samples, against sums over views, classes, samples and pairs."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from strategies import problems

from crossview.samples import Samples, pair_weights, samples_of
from crossview.views import Views, seen_by_several


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-10 * max(1.0, np.abs(expected).max()))


@settings(max_examples=50, deadline=None)
@given(problem=problems())
def test_weights_count_pairs(problem):
    several = seen_by_several(problem.mask)
    np.testing.assert_array_equal(several, oracles.seen_by_several(problem.mask))
    weights = pair_weights(problem.mask)
    close(weights, oracles.pair_weights(problem.mask))
    np.testing.assert_array_equal(weights > 0, several)
    if problem.mask.all():
        assert (weights == 1.0).all()


@settings(max_examples=50, deadline=None)
@given(problem=problems())
def test_pairs_and_covariances_belong_together(problem):
    """One sum over pairs gives the means, the products between views and the covariances."""
    data = samples_of(Views(problem.incomplete), None, pair_weights).centred()
    arrays = oracles.pair_centred(problem.arrays, problem.mask)
    pairs, own = data.pair_matrix(), data.grams()
    expected_pairs, expected_own = oracles.pair_products(arrays, problem.mask)
    for X, expected, weights in zip(data.arrays, arrays, data.weights.T, strict=True):
        close(X[weights > 0], expected[weights > 0])
    close(pairs, expected_pairs)
    for found, expected in zip(own, expected_own, strict=True):
        close(found, expected)
    # Whatever is missing, no correlation is above 1: |x_i - x_j|² summed over pairs is not negative.
    sizes = np.cumsum([0, *(len(B) for B in own)])
    whole = -pairs
    for a, b, B in zip(sizes[:-1], sizes[1:], own, strict=True):
        whole[a:b, a:b] = (len(own) - 1) * B
    assert np.linalg.eigvalsh(whole).min() >= -1e-10 * max(1.0, np.abs(whole).max())


@settings(max_examples=50, deadline=None)
@given(problem=problems())
def test_scatters_equal_the_weighted_sums(problem):
    weights = pair_weights(problem.mask)
    arrays = [np.where(problem.mask[:, [v]], X, 0.0) for v, X in enumerate(problem.arrays)]
    samples = Samples(arrays=arrays, weights=weights, classes=problem.y)
    given = arrays, weights, problem.y
    for name in ("view_scatters", "joint_scatters"):
        for found, expected in zip(getattr(samples, name)(), getattr(oracles, name)(*given), strict=True):
            for A, B in zip(found, expected, strict=True):
                close(A, B)


def test_the_weights_matter():
    rng = np.random.default_rng(0)
    arrays, y = [rng.normal(size=(30, 3)) for _ in range(3)], np.arange(30) % 5
    mask = rng.random((30, 3)) < 0.7
    arrays = [np.where(mask[:, [v]], X, 0.0) for v, X in enumerate(arrays)]
    plain, weighted = (
        Samples(arrays=arrays, weights=weights, classes=y) for weights in (mask.astype(float), pair_weights(mask))
    )
    for name in ("grams", "view_scatters", "joint_scatters"):
        for a, b in zip(getattr(plain, name)(), getattr(weighted, name)(), strict=True):
            assert np.abs(np.array(a) - np.array(b)).max() > 0.1


def test_a_class_that_a_view_has_not_seen_adds_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)) + 5.0, np.repeat([0, 2], 10)
    gapped, closed = (
        Samples(arrays=[X], weights=np.ones((20, 1)), classes=classes).joint_scatters() for classes in (y, y // 2)
    )
    for a, b in zip(gapped, closed, strict=True):
        assert a == pytest.approx(b, rel=1e-12)
