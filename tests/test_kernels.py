from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import pairwise_kernels

import crossview as cv
from crossview.kernels import Kernel, KernelMap, median_gamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
KERNELS = ["rbf", "poly", "polynomial", "linear", "cosine", "laplacian", "chi2"]


def samples_for(kernel):
    return np.abs(X) if kernel == "chi2" else X


@pytest.mark.parametrize("kernel", KERNELS)
def test_features_reproduce_the_kernel_matrix(kernel):
    A = samples_for(kernel)
    kernel_map, R = KernelMap.fit(Kernel(kernel), A)
    K = pairwise_kernels(A, metric=kernel, **({"coef0": 1} if kernel.startswith("poly") else {}))
    np.testing.assert_allclose(R @ R.T, K, atol=1e-10 * np.abs(K).max())
    assert R.shape[1] == len(kernel_map.landmarks) == np.linalg.matrix_rank(K)
    np.testing.assert_array_equal(kernel_map.landmarks, A[kernel_map.pivots])


@pytest.mark.parametrize("kernel", KERNELS)
def test_coefficients_map_new_samples(kernel):
    A = samples_for(kernel)
    kernel_map, R = KernelMap.fit(Kernel(kernel), A)
    W = RNG.normal(size=(R.shape[1], 3))
    coefficients = KernelMap.coefficients(R[kernel_map.pivots], W)
    np.testing.assert_allclose(Kernel(kernel)(A, kernel_map.landmarks) @ coefficients, R @ W, atol=1e-7)


def test_landmarks_are_nystroem():
    rows = np.array([3, 5, 11, 20, 39])
    kernel_map, R = KernelMap.fit(Kernel("rbf", gamma=0.1), X, rows)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    expected = K[:, rows] @ np.linalg.inv(K[np.ix_(rows, rows)]) @ K[rows]
    np.testing.assert_allclose(R @ R.T, expected, atol=1e-10)
    assert set(kernel_map.pivots) == set(rows)


def test_precomputed_names_its_landmarks():
    K = pairwise_kernels(X, metric="rbf")
    ids = np.arange(100, 140)
    kernel_map, R = KernelMap.fit(Kernel("precomputed"), K.copy(), ids=ids)
    np.testing.assert_allclose(R @ R.T, K, atol=1e-12)
    np.testing.assert_array_equal(kernel_map.landmarks, ids[kernel_map.pivots])


def test_the_input_is_left_alone():
    K = pairwise_kernels(X, metric="rbf")
    before = K.copy()
    KernelMap.fit(Kernel("precomputed"), K)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_order_of_kernel_distances(kernel):
    A = samples_for(kernel)
    k = Kernel(kernel)
    K = k(A, A)
    points = k.euclidean_points(A)
    if points is None:
        points = KernelMap.fit(k, A)[1]
    d = np.diag(K)[:, None] + np.diag(K) - 2 * K
    np.testing.assert_array_equal(np.argsort(d[np.triu_indices(len(A), k=1)]), np.argsort(pdist(points)))


def test_median_gamma():
    assert median_gamma(X, "rbf") == pytest.approx(1 / (2 * np.median(pdist(X)) ** 2))
    assert median_gamma(X, "laplacian") == pytest.approx(1 / np.median(pdist(X, "cityblock")))
    assert median_gamma(X, "poly") is None
    assert median_gamma(X, lambda a, b: 0.0) is None


def test_median_gamma_of_many_samples_in_periodic_order():
    classes = 10.0 * RNG.normal(size=(10, 3))
    many = classes[np.arange(20_000) % 10] + RNG.normal(size=(20_000, 3))
    assert median_gamma(many, "rbf") == pytest.approx(1 / (2 * np.median(pdist(many[:3000])) ** 2), rel=0.1)


def test_median_gamma_of_duplicates():
    apart = RNG.normal(size=(10, 4))
    mostly_equal = np.vstack([np.repeat(apart[:1], 40, axis=0), apart])
    distances = pdist(mostly_equal)
    assert np.median(distances) == 0
    assert median_gamma(mostly_equal, "rbf") == pytest.approx(1 / (2 * np.median(distances[distances > 0]) ** 2))
    assert median_gamma(np.zeros((4, 2)), "rbf") == 1.0


def test_median_gamma_far_from_zero():
    assert median_gamma(X + 1e8, "rbf") == pytest.approx(median_gamma(X, "rbf"), rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_does_not_raise_the_rank(seed):
    few = np.random.default_rng(seed).normal(size=(5, 2)) + 100
    assert KernelMap.fit(Kernel("linear"), few)[1].shape[1] <= 2


def test_almost_symmetric_is_not_symmetric():
    K = pairwise_kernels(X, metric="rbf")
    K[0, 1] += 1e-4
    with pytest.raises(ValueError, match="symmetric"):
        KernelMap.fit(Kernel("precomputed"), K)


def test_a_callable_is_called_once_per_pair():
    calls = []

    def dot(a, b):
        calls.append(1)
        return float(a @ b)

    views, y = [X, X[::-1].copy()], np.arange(40) % 4
    cv.KMvHE(2, kernel=dot).fit(views, y)
    assert len(calls) == 2 * 40 * 41 // 2


def test_kernel_parameters_reach_the_kernel():
    k = Kernel("poly", gamma=0.5, degree=2, coef0=3)
    np.testing.assert_allclose(k(X, X), (0.5 * X @ X.T + 3) ** 2)
    k = Kernel(lambda a, b, power: float(a @ b) ** power, kernel_params={"power": 2})
    np.testing.assert_allclose(k(X[:4], X[:3]), (X[:4] @ X[:3].T) ** 2)
