"""The directions in which samples vary, against singular values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from crossview.kernels import Kernel, KernelMap
from crossview.linalg.norm import constant_directions, deviations, unit_images
from crossview.samples import Samples, samples_of
from crossview.views import Views

RNG = np.random.default_rng(0)


def row_space(X):
    return Samples(arrays=[X], weights=np.ones((len(X), 1))).row_spaces()[0]


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (12, 12)])
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_the_basis_spans_the_rows(shape, rank):
    X = RNG.normal(size=(shape[0], rank)) @ RNG.normal(size=(rank, shape[1]))
    basis = row_space(X)
    if rank == shape[1]:
        assert basis is None
        return
    assert basis.shape == (shape[1], rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(X @ basis @ basis.T, X, atol=1e-10)


@pytest.mark.parametrize("small", [1e-3, 1e-7, 1e-11])
def test_small_but_real_directions_are_kept(small):
    X = RNG.normal(size=(50, 4)) * [1.0, 1.0, small, 1.0]
    assert row_space(X) is None
    mixed = X @ np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    assert row_space(mixed) is None


def test_directions_of_rounding_error_are_not():
    X = RNG.normal(size=(50, 3))
    assert row_space(np.c_[X, X @ [0.1, 0.2, 0.7]]).shape == (4, 3)
    far = np.c_[X, np.full(50, 1e6)]
    assert row_space(far - far.mean(axis=0)).shape == (4, 3)


def test_maps_lead_back_to_the_views():
    arrays = [np.c_[RNG.normal(size=(20, 3)), np.zeros(20)], RNG.normal(size=(20, 2))]
    data = samples_of(Views(arrays)).in_span()
    assert data.n_features == [3, 2]
    for X, Z, basis in zip(arrays, data.arrays, data.bases, strict=True):
        np.testing.assert_allclose(X if basis is None else X @ basis, Z, atol=1e-12)
        np.testing.assert_allclose(X, Z if basis is None else Z @ basis.T, atol=1e-12)


def test_features_of_a_kernel_hold_a_constant():
    X = RNG.normal(size=(25, 3))
    for rows, there in ((None, True), (np.arange(10), False)):
        kernel_map, R = KernelMap.fit(Kernel("rbf", 0.5), X, rows)
        images = unit_images(kernel_map.factor)
        found = constant_directions(images, deviations(R, images), len(R))
        assert len(found) == there
        for u in found:
            assert np.ptp(R @ u) < 1e-10
            centred = R - R.mean(axis=0)
            assert np.linalg.matrix_rank(centred) == np.linalg.matrix_rank(rbf_kernel(X, gamma=0.5)) - 1
