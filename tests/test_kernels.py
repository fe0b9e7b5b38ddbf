"""Kernels, their feature maps, landmarks, and the transformer made of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.kernels import Kernel, KernelMap, median_gamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
KERNELS = ["rbf", "poly", "polynomial", "linear", "cosine", "laplacian", "chi2"]


def samples_for(kernel):
    return np.abs(X) if kernel == "chi2" else X


class TestKernelMap:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_features_reproduce_the_kernel(self, kernel):
        A = samples_for(kernel)
        kernel_map, R = KernelMap.fit(Kernel(kernel), A)
        K = pairwise_kernels(A, metric=kernel, **({"coef0": 1} if kernel.startswith("poly") else {}))
        np.testing.assert_allclose(R @ R.T, K, atol=1e-10 * np.abs(K).max())
        assert R.shape[1] == len(kernel_map.landmarks) == np.linalg.matrix_rank(K)
        assert {*map(tuple, kernel_map.landmarks)} <= {*map(tuple, A)}
        np.testing.assert_allclose(kernel_map.features(A[:9]), R[:9], atol=1e-7)
        W = RNG.normal(size=(R.shape[1], 3))
        coefficients = kernel_map.coefficients(W)
        np.testing.assert_allclose(Kernel(kernel)(A, kernel_map.landmarks) @ coefficients, R @ W, atol=1e-7)

    def test_landmarks_are_nystroem(self):
        rows = np.array([3, 5, 11, 20, 39])
        kernel_map, R = KernelMap.fit(Kernel("rbf", gamma=0.1), X, rows)
        K = pairwise_kernels(X, metric="rbf", gamma=0.1)
        expected = K[:, rows] @ np.linalg.inv(K[np.ix_(rows, rows)]) @ K[rows]
        np.testing.assert_allclose(R @ R.T, expected, atol=1e-10)
        assert {*map(tuple, kernel_map.landmarks)} == {*map(tuple, X[rows])}

    def test_precomputed_kernels_name_their_landmarks_and_are_left_alone(self):
        K = pairwise_kernels(X, metric="rbf")
        before, ids = K.copy(), np.arange(100, 140)
        kernel_map, R = KernelMap.fit(Kernel("precomputed"), K, ids=ids)
        np.testing.assert_allclose(R @ R.T, before, atol=1e-12)
        np.testing.assert_allclose(R[kernel_map.landmarks - 100], kernel_map.factor)
        np.testing.assert_array_equal(K, before)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_order_of_kernel_distances(self, kernel):
        A, k = samples_for(kernel), Kernel(kernel)
        K = k(A, A)
        points = k.euclidean_points(A)
        points = KernelMap.fit(k, A)[1] if points is None else points
        d = np.diag(K)[:, None] + np.diag(K) - 2 * K
        np.testing.assert_array_equal(np.argsort(d[np.triu_indices(len(A), k=1)]), np.argsort(pdist(points)))

    @pytest.mark.parametrize("seed", range(5))
    def test_rounding_does_not_raise_the_rank(self, seed):
        few = np.random.default_rng(seed).normal(size=(5, 2)) + 100
        assert KernelMap.fit(Kernel("linear"), few)[1].shape[1] <= 2

    def test_matrices_that_are_no_kernels_are_refused(self):
        K = pairwise_kernels(X, metric="rbf")
        K[0, 1] += 1e-4
        with pytest.raises(ValueError, match="symmetric"):
            KernelMap.fit(Kernel("precomputed"), K)
        indefinite = pairwise_kernels(X, metric="rbf") - 0.5
        with pytest.raises(ValueError, match="not positive semi-definite"):
            cv.ViewKernel("precomputed", n_landmarks=30, random_state=0).fit([indefinite, indefinite])

    def test_parameters_and_callables(self):
        k = Kernel("poly", gamma=0.5, kernel_params={"degree": 2, "coef0": 3})
        np.testing.assert_allclose(k(X, X), (0.5 * X @ X.T + 3) ** 2)
        k = Kernel(lambda a, b, power: float(a @ b) ** power, kernel_params={"power": 2})
        np.testing.assert_allclose(k(X[:4], X[:3]), (X[:4] @ X[:3].T) ** 2)

    def test_a_callable_is_called_once_per_pair(self):
        calls = []
        views, y = [X, X[::-1].copy()], np.arange(40) % 4
        cv.KMvHE(2, kernel=lambda a, b: calls.append(1) or float(a @ b)).fit(views, y)
        assert len(calls) == 2 * 40 * 41 // 2


class TestMedianGamma:
    def test_is_that_of_all_pairs(self):
        assert median_gamma(X, "rbf") == pytest.approx(1 / (2 * np.median(pdist(X)) ** 2))
        assert median_gamma(X, "laplacian") == pytest.approx(1 / np.median(pdist(X, "cityblock")))
        assert median_gamma(X, "poly") is None
        assert median_gamma(X, lambda a, b: 0.0) is None
        assert median_gamma(X + 1e8, "rbf") == pytest.approx(median_gamma(X, "rbf"), rel=1e-6)

    def test_of_many_samples_in_periodic_order(self):
        classes = 10.0 * RNG.normal(size=(10, 3))
        many = classes[np.arange(20_000) % 10] + RNG.normal(size=(20_000, 3))
        assert median_gamma(many, "rbf") == pytest.approx(1 / (2 * np.median(pdist(many[:3000])) ** 2), rel=0.1)

    def test_of_duplicates(self):
        apart = RNG.normal(size=(10, 4))
        mostly_equal = np.vstack([np.repeat(apart[:1], 40, axis=0), apart])
        distances = pdist(mostly_equal)
        assert np.median(distances) == 0
        assert median_gamma(mostly_equal, "rbf") == pytest.approx(1 / (2 * np.median(distances[distances > 0]) ** 2))
        assert median_gamma(np.zeros((4, 2)), "rbf") == 1.0


ARRAYS = [RNG.normal(size=(200, 4)), RNG.normal(size=(200, 3))]
Y = RNG.integers(4, size=200)


class TestLandmarks:
    def test_are_samples_decided_by_the_seed(self, tmp_path):
        model, same, other = (cv.KMvHE(3, n_landmarks=12, random_state=seed).fit(ARRAYS, Y) for seed in (0, 0, 1))
        for A, Z, again, others in zip(ARRAYS, model.landmarks_, same.landmarks_, other.landmarks_, strict=True):
            assert len({tuple(z) for z in Z} & {tuple(x) for x in A}) == 12
            np.testing.assert_array_equal(Z, again)
            assert not np.array_equal(Z, others)
        cv.save(model, tmp_path / "model")
        np.testing.assert_array_equal(cv.load(tmp_path / "model").transform(ARRAYS)[0], model.transform(ARRAYS)[0])

    def test_all_samples_are_drawn_alike(self):
        few = [A[:40] for A in ARRAYS]
        drawn = [cv.ViewKernel(n_landmarks=10, random_state=seed).fit(few).landmarks_[0][:, 0] for seed in range(80)]
        counts = np.unique(np.concatenate(drawn), return_counts=True)[1]
        assert len(counts) == 40
        assert 8 < counts.min() < counts.max() < 35

    def test_of_incomplete_views(self):
        mask = np.ones((200, 2), dtype=bool)
        mask[::5, 1] = False
        for model in (
            cv.ViewKernel(n_landmarks=15, random_state=0),
            cv.KMvHE(3, n_landmarks=15, random_state=0),
            cv.KCCA(3, n_landmarks=15, random_state=0),
        ):
            model.fit(cv.Views(ARRAYS, mask=mask), Y)
            assert [len(z) for z in model.landmarks_] == [15, 15]
            assert {tuple(z) for z in model.landmarks_[1]} <= {tuple(x) for x in ARRAYS[1][mask[:, 1]]}
        grams = [pairwise_kernels(A, metric="rbf", gamma=0.5) for A in ARRAYS]
        ready = cv.KMvHE(3, kernel="precomputed", n_landmarks=15, random_state=0).fit(cv.Views(grams, mask=mask), Y)
        named = cv.ViewKernel(gamma=0.5, n_landmarks=15, random_state=0).fit(cv.Views(ARRAYS, mask=mask))
        for A, columns, samples in zip(ARRAYS, ready.landmarks_, named.landmarks_, strict=True):
            assert {tuple(x) for x in A[columns]} == {tuple(z) for z in samples}

    def test_of_callable_kernels(self):
        called = cv.ViewKernel(lambda a, b: (a @ b + 1.0) ** 2, n_landmarks=10, random_state=0).fit(ARRAYS)
        named = cv.ViewKernel("poly", gamma=1.0, kernel_params={"degree": 2}, n_landmarks=10, random_state=0).fit(
            ARRAYS
        )
        for one, other in zip(called.landmarks_, named.landmarks_, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_all_samples_are_exact(self):
        exact = cv.KMvHE(3).fit(ARRAYS, Y)
        same = cv.KMvHE(3, n_landmarks=200, random_state=0, reg=None).fit(ARRAYS, Y)
        np.testing.assert_array_equal(same.eigenvalues_, exact.eigenvalues_)


def shared_factors(m=60, sizes=(6, 4), n_classes=6, seed=3):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    z = rng.normal(size=(n_classes, 4))[y] + 0.4 * rng.normal(size=(m, 4))
    return [np.tanh(z @ rng.normal(size=(4, D))) + 0.05 * rng.normal(size=(m, D)) for D in sizes], y


class TestViewKernel:
    arrays, y = shared_factors()
    new = tuple(X[::-1] + 0.1 for X in arrays)

    @pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine", "laplacian"])
    def test_inner_products_are_the_kernel(self, kernel):
        model = cv.ViewKernel(kernel=kernel, gamma=0.5).fit(self.arrays)
        options = {"linear": {}, "cosine": {}}.get(kernel, {"gamma": 0.5})
        maps = zip(self.arrays, self.new, model.transform(self.arrays), model.transform(self.new), strict=True)
        for X, new, R, Z in maps:
            shift = X.mean(axis=0) if kernel == "rbf" else 0.0
            K = pairwise_kernels(new - shift, X - shift, metric=kernel, **options)
            np.testing.assert_allclose(Z @ R.T, K, atol=1e-7 * np.abs(K).max())

    @pytest.mark.parametrize(
        ("whole", "behind"),
        [
            (cv.KMvHE(4), cv.MvHE(4, lambda_intra=0.01, lambda_inter=0.05)),
            (
                cv.KMvHE(4, n_within=3, center=False),
                cv.MvHE(4, lambda_intra=0.01, lambda_inter=0.05, n_within=3, center=False),
            ),
            (cv.KCCA(3), cv.CCA(3)),
            (cv.KCCA(3, reg=[0.1, 0.5]), cv.CCA(3, reg=[0.1, 0.5])),
        ],
    )
    @pytest.mark.parametrize("options", [{}, {"gamma_scale": 0.3}, {"kernel": "poly"}, {"kernel": "linear"}])
    def test_kernel_methods_are_linear_methods_behind_it(self, whole, behind, options):
        whole = clone(whole).set_params(**options).fit(self.arrays, self.y)
        pipeline = make_pipeline(cv.ViewKernel(**options), behind).fit(self.arrays, self.y)
        np.testing.assert_allclose(whole.eigenvalues_, pipeline[-1].eigenvalues_, rtol=1e-8, atol=1e-8)
        for one, other in zip(whole.transform(self.new), pipeline.transform(self.new), strict=True):
            signs = np.sign((one * other).sum(axis=0))
            np.testing.assert_allclose(one, other * signs, atol=1e-8 * np.abs(one).max())

    def test_missing_samples_stay_missing(self):
        mask = np.ones((60, 2), dtype=bool)
        mask[::5, 1] = False
        mapped = cv.ViewKernel(n_landmarks=12, random_state=1).fit_transform(cv.Views(self.arrays, mask=mask))
        assert mapped.n_features == (12, 12)
        np.testing.assert_array_equal(mapped.mask, mask)

    def test_precomputed_kernels(self):
        kernels = [pairwise_kernels(X, metric="rbf", gamma=0.5) for X in self.arrays]
        given = cv.ViewKernel("precomputed").fit_transform(kernels)
        own = cv.ViewKernel(gamma=0.5).fit_transform(self.arrays)
        for one, other in zip(given, own, strict=True):
            np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-10)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kernel": "cubic"}, "unknown kernel"),
            ({"kernel": "precomputed"}, "square matrix"),
            ({"gamma": -1.0}, "gamma must be"),
            ({"gamma": [1.0]}, "1 values for 2 views"),
            ({"n_landmarks": 0}, "n_landmarks"),
        ],
    )
    def test_bad_parameters(self, options, message):
        for model in (cv.ViewKernel(), cv.KMvHE(), cv.KCCA()):
            with pytest.raises(ValueError, match=message):
                model.set_params(**options).fit(self.arrays, self.y)
