"""Kernels, their feature maps, landmarks, and the transformer made of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview.kernels import LANDMARKS, Kernel, KernelMap, choose_landmarks, median_gamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
KERNELS = ["rbf", "poly", "polynomial", "linear", "cosine", "laplacian", "chi2"]
RBF = Kernel("rbf", gamma=0.5)


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
        for method in LANDMARKS:
            with pytest.raises(ValueError, match="not positive semi-definite"):
                cv.ViewKernel("precomputed", n_landmarks=30, landmarks=method).fit([indefinite, indefinite])

    def test_parameters_and_callables(self):
        k = Kernel("poly", gamma=0.5, degree=2, coef0=3)
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


# Most samples lie in one dense cluster, a few far from it and from each other.
CLUSTERED = np.vstack([0.1 * RNG.normal(size=(180, 4)), 3.0 * RNG.normal(size=(20, 4))])
ARRAYS = [CLUSTERED, CLUSTERED @ RNG.normal(size=(4, 3)) + 0.05 * RNG.normal(size=(200, 3))]
Y = RNG.integers(4, size=200)


def choose(method, kernel=RBF, samples=CLUSTERED, n_landmarks=20, seed=0):
    random = np.random.RandomState(seed)
    return choose_landmarks(method, kernel, samples, n_landmarks, random.permutation(len(samples)), random)


@pytest.mark.parametrize("method", LANDMARKS)
class TestLandmarks:
    @pytest.mark.parametrize("kernel", [RBF, Kernel("cosine"), Kernel("poly", gamma=0.1), Kernel("precomputed")])
    def test_are_different_samples_decided_by_the_seed(self, method, kernel):
        samples = RBF(CLUSTERED, CLUSTERED) if kernel.precomputed else CLUSTERED
        rows = choose(method, kernel, samples)
        assert len(rows) == len(set(rows)) == 20
        assert (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(rows, choose(method, kernel, samples))
        assert not np.array_equal(rows, choose(method, kernel, samples, seed=1))

    def test_far_from_zero(self, method):
        rounded, kernel = CLUSTERED.round(6), Kernel("rbf", gamma=0.5, origin=np.full(4, 2.0**20))
        np.testing.assert_array_equal(choose(method, kernel, rounded + 2.0**20), choose(method, RBF, rounded))

    def test_of_incomplete_views(self, method):
        mask = np.ones((200, 2), dtype=bool)
        mask[::5, 1] = False
        options = {"n_landmarks": 15, "landmarks": method}
        for model in (cv.ViewKernel(), cv.KMvHE(3), cv.KCCA(3)):
            model.set_params(**options).fit(cv.Views(ARRAYS, mask=mask), Y)
            assert [len(z) for z in model.landmarks_] == [15, 15]
            assert {tuple(z) for z in model.landmarks_[1]} <= {tuple(x) for x in ARRAYS[1][mask[:, 1]]}
        grams = [pairwise_kernels(A, metric="rbf", gamma=0.5) for A in ARRAYS]
        ready = cv.KMvHE(3, kernel="precomputed", **options).fit(cv.Views(grams, mask=mask), Y)
        assert mask[ready.landmarks_[1], 1].all()
        assert all(len(columns) == 15 for columns in ready.landmarks_)
        if method != "k-means++":  # which measures distances between samples of the rbf kernel directly
            named = cv.ViewKernel(gamma=0.5, **options).fit(cv.Views(ARRAYS, mask=mask))
            for A, columns, samples in zip(ARRAYS, ready.landmarks_, named.landmarks_, strict=True):
                assert {tuple(x) for x in A[columns]} == {tuple(z) for z in samples}

    def test_of_callable_kernels(self, method):
        options = {"n_landmarks": 10, "landmarks": method}
        called = cv.ViewKernel(lambda a, b: (a @ b + 1.0) ** 2, **options).fit([A[::2] for A in ARRAYS])
        named = cv.ViewKernel("poly", gamma=1.0, degree=2, **options).fit([A[::2] for A in ARRAYS])
        for one, other in zip(called.landmarks_, named.landmarks_, strict=True):
            assert {tuple(z) for z in one} == {tuple(z) for z in other}

    def test_all_samples_are_exact(self, method):
        exact = cv.KMvHE(3).fit(ARRAYS, Y)
        same = cv.KMvHE(3, n_landmarks=200, landmarks=method, reg=None).fit(ARRAYS, Y)
        np.testing.assert_array_equal(same.eigenvalues_, exact.eigenvalues_)

    def test_saved_and_loaded(self, method, tmp_path):
        model, other = (cv.KMvHE(3, n_landmarks=12, landmarks=method, random_state=s).fit(ARRAYS, Y) for s in (0, 1))
        assert not np.array_equal(model.landmarks_[0], other.landmarks_[0])
        cv.save(model, tmp_path / "model")
        again = cv.load(tmp_path / "model")
        assert again.landmarks == method
        np.testing.assert_array_equal(again.transform(ARRAYS)[0], model.transform(ARRAYS)[0])


def test_uniform_landmarks_draw_all_samples_alike():
    counts = np.bincount(np.concatenate([choose("uniform", seed=seed) for seed in range(300)]), minlength=200)
    assert counts.min() > 10
    assert counts.max() < 60


@pytest.mark.parametrize(
    ("kernel", "samples", "n_landmarks", "share"),
    [
        (RBF, CLUSTERED, 25, 0.5),
        (Kernel("precomputed"), RBF(CLUSTERED, CLUSTERED), 25, 0.5),
        (RBF, np.random.default_rng(0).standard_t(3, size=(3000, 2)), 50, 0.8),  # draws among candidates only
    ],
    ids=["samples", "precomputed", "many samples"],
)
def test_sparse_regions_are_covered_better_than_by_uniform_landmarks(kernel, samples, n_landmarks, share):
    errors = {}
    for way in LANDMARKS:
        drawn = [choose(way, kernel, samples, n_landmarks, seed) for seed in range(5)]
        found = [np.square(KernelMap.fit(kernel, samples, rows)[1]).sum() for rows in drawn]
        errors[way] = np.mean(len(samples) - np.array(found))
    assert errors["k-means++"] < share * errors["uniform"]


def test_k_means_draws_no_duplicates():
    repeated = np.repeat(CLUSTERED[::20], 20, axis=0)
    rows = choose("k-means++", samples=repeated, n_landmarks=15)
    assert len(rows) <= 15
    assert KernelMap.fit(RBF, repeated, rows)[1].shape[1] == 10


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
            *(({"landmarks": way}, "landmarks must be one of 'uniform', .*, got") for way in ("kmeans", None, ["one"])),
        ],
    )
    def test_bad_parameters(self, options, message):
        for model in (cv.ViewKernel(), cv.KMvHE(), cv.KCCA()):
            with pytest.raises(ValueError, match=message):
                model.set_params(**options).fit(self.arrays, self.y)
