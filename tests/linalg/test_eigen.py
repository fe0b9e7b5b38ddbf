from __future__ import annotations

import numpy as np
import pytest

from crossview.linalg.eigen import component_signs, smallest_eigenpairs


@pytest.fixture
def symmetric():
    A = np.random.default_rng(0).normal(size=(12, 12))
    return A + A.T


@pytest.mark.parametrize("d", [1, 5, 12])
def test_agrees_with_numpy_and_reads_the_lower_triangle_only(symmetric, d):
    values, vectors = smallest_eigenpairs(np.tril(symmetric), d)
    expected = np.linalg.eigvalsh(symmetric)[:d]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_allclose(symmetric @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(d), atol=1e-12)


def test_keeps_the_matrix_unless_told_otherwise(symmetric):
    before = symmetric.copy()
    smallest_eigenpairs(symmetric, 3)
    np.testing.assert_array_equal(symmetric, before)


def test_largest_entry_becomes_positive(symmetric):
    vectors = symmetric * component_signs(symmetric)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(12)] > 0).all()


def test_rounding_does_not_decide_the_sign():
    v = np.array([0.5, -0.5, 0.5, -0.5])
    for nudge in (np.array([1e-15, 0, 0, 0]), np.array([0, -1e-15, 0, 0])):
        assert component_signs((v + nudge)[:, None]) == 1
        assert component_signs(-(v + nudge)[:, None]) == -1
