from __future__ import annotations

import numpy as np
import pytest

from crossview.linalg import eigen
from crossview.linalg.eigen import component_signs, largest_singular_triplets, smallest_eigenpairs


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


SPECTRA = {
    "indefinite": np.concatenate([-np.geomspace(0.02, 0.001, 40), np.linspace(0, 50, 360)]),
    "deeply indefinite": np.concatenate([-np.linspace(100, 1, 200), np.linspace(0, 50, 200)]),
    "positive": np.linspace(1.0, 3.0, 400),
    "singular": np.concatenate([np.zeros(100), np.linspace(0.1, 9.0, 300)]),
    "tight cluster": np.concatenate([-1.0 - 1e-9 * np.arange(20), np.linspace(0, 5, 380)]),
    "double": np.repeat(np.linspace(-1, 4, 200), 2),
    "large": 1e8 * np.linspace(-1, 3, 400),
}


class TestInverseIteration:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        for name, value in {"_ITERATE_FROM": 100, "_BLOCK": 8, "_STEPS": 20}.items():
            monkeypatch.setattr(eigen, name, value)

    @pytest.fixture
    def only_iterate(self, monkeypatch):
        monkeypatch.setattr(eigen.scipy.linalg, "eigh", guarded(eigen.scipy.linalg.eigh, below=400))

    @pytest.mark.parametrize("spectrum", SPECTRA)
    @pytest.mark.parametrize("d", [1, 6])
    def test_agrees_with_the_spectrum(self, only_iterate, spectrum, d):
        values = np.sort(SPECTRA[spectrum])
        S, vectors = with_spectrum(values)
        found, W = smallest_eigenpairs(np.tril(S), d)
        scale = np.abs(values).max()
        np.testing.assert_allclose(found, values[:d], rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(W.T @ W, np.eye(d), atol=1e-11)
        np.testing.assert_allclose(S @ W, W * found, rtol=0, atol=1e-11 * scale)
        if values[d] - values[d - 1] > 1e-4 * scale:
            projected = vectors[:, :d] @ (vectors[:, :d].T @ W)
            np.testing.assert_allclose(projected, W, atol=1e-9)

    def test_a_missed_eigenvalue_is_noticed(self):
        values = np.concatenate([[-3.0, -2.0, -1.0], np.linspace(0, 5, 397)])
        S, vectors = with_spectrum(values)
        assert eigen._complete(np.tril(S), values[:3], vectors[:, :3], 1.0)
        kept = [0, 2, 3]
        assert not eigen._complete(np.tril(S), values[kept], vectors[:, kept], 1.0)
        close = np.concatenate([[-1.0, -1.0 + 1e-6], np.linspace(0, 5, 398)])
        S, vectors = with_spectrum(close)
        assert not eigen._complete(np.tril(S), close[1:2], vectors[:, 1:2], 1.0)

    def test_the_dense_solver_steps_in(self, monkeypatch):
        monkeypatch.setattr(eigen, "_ATTEMPTS", 0)
        values = np.sort(SPECTRA["indefinite"])
        S, _ = with_spectrum(values)
        found, _ = smallest_eigenpairs(np.tril(S), 4)
        np.testing.assert_allclose(found, values[:4], rtol=0, atol=1e-12)


def with_spectrum(values):
    Q, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(len(values), len(values))))
    S = (Q * values) @ Q.T
    return (S + S.T) / 2, Q


def guarded(eigh, below):
    def checked(a, **options):
        assert len(a) < below, "the dense solver was called"
        return eigh(a, **options)

    return checked


@pytest.mark.parametrize("kind", ["any", "zero", "low rank", "repeated"])
def test_singular_triplets_by_iteration(kind, monkeypatch):
    rng = np.random.default_rng(0)
    C = rng.normal(size=(60, 50))
    if kind == "zero":
        C[:] = 0.0
    elif kind == "low rank":
        C = C[:, :2] @ rng.normal(size=(2, 50))
    elif kind == "repeated":
        C = np.eye(60)[:, :50] * np.repeat([3.0, 2.0], [20, 30])
    monkeypatch.setattr("crossview.linalg.eigen._SVD_ITERATE_FROM", 1)
    U, values, V = largest_singular_triplets(C, 2)
    np.testing.assert_allclose(values, np.linalg.svd(C, compute_uv=False)[:2], atol=1e-10)
    np.testing.assert_allclose(C @ V, U * values, atol=1e-10)
    for Q in (U, V):
        np.testing.assert_allclose(Q.T @ Q, np.eye(2), atol=1e-10)
