from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

import crossview as cv
from crossview.kernels import LANDMARKS, Kernel, KernelMap, choose_landmarks

# Most samples lie in one dense cluster, a few far from it and from each other.
RNG = np.random.default_rng(0)
DENSE, SPARSE = 0.1 * RNG.normal(size=(180, 4)), 3.0 * RNG.normal(size=(20, 4))
X = np.vstack([DENSE, SPARSE])
ARRAYS = [X, X @ RNG.normal(size=(4, 3)) + 0.05 * RNG.normal(size=(200, 3))]
Y = RNG.integers(4, size=200)
RBF = Kernel("rbf", gamma=0.5)


def choose(method, kernel=RBF, samples=X, n_landmarks=20, seed=0):
    random = np.random.RandomState(seed)
    return choose_landmarks(method, kernel, samples, n_landmarks, random.permutation(len(samples)), random)


@pytest.mark.parametrize("method", LANDMARKS)
@pytest.mark.parametrize("kernel", [RBF, Kernel("cosine"), Kernel("poly", gamma=0.1), Kernel("precomputed")])
def test_landmarks_are_different_samples_decided_by_the_seed(method, kernel):
    samples = RBF(X, X) if kernel.precomputed else X
    rows = choose(method, kernel, samples)
    assert len(rows) == len(set(rows)) == 20
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, choose(method, kernel, samples))
    assert not np.array_equal(rows, choose(method, kernel, samples, seed=1))


def test_uniform_draws_all_samples_alike():
    counts = np.bincount(np.concatenate([choose("uniform", seed=seed) for seed in range(300)]), minlength=200)
    assert counts.min() > 10
    assert counts.max() < 60


@pytest.mark.parametrize(
    ("kernel", "samples", "n_landmarks", "share"),
    [
        (RBF, X, 25, 0.5),
        (Kernel("precomputed"), RBF(X, X), 25, 0.5),
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
    rows = choose("k-means++", samples=np.repeat(X[::20], 20, axis=0), n_landmarks=15)
    assert len(rows) <= 15
    kernel_map, R = KernelMap.fit(RBF, np.repeat(X[::20], 20, axis=0), rows)
    assert R.shape[1] == len(kernel_map.landmarks) == 10


def test_far_from_zero():
    for method in LANDMARKS:
        kernel = Kernel("rbf", gamma=0.5, origin=np.full(4, 2.0**20))
        np.testing.assert_array_equal(choose(method, kernel, X.round(6) + 2.0**20), choose(method, RBF, X.round(6)))


@pytest.mark.parametrize("method", LANDMARKS)
class TestEstimators:
    def test_incomplete_views(self, method):
        mask = np.ones((200, 2), dtype=bool)
        mask[::5, 1] = False
        views = cv.Views(ARRAYS, mask=mask)
        for model in (cv.ViewKernel(), cv.KMvHE(3), cv.KCCA(3)):
            model.set_params(n_landmarks=15, landmarks=method).fit(views, Y)
            assert [len(z) for z in model.landmarks_] == [15, 15]
            assert {tuple(z) for z in model.landmarks_[1]} <= {tuple(x) for x in ARRAYS[1][mask[:, 1]]}

    def test_precomputed_kernels_of_incomplete_views(self, method):
        mask = np.ones((200, 2), dtype=bool)
        mask[::5, 1] = False
        grams = [pairwise_kernels(A, metric="rbf", gamma=0.5) for A in ARRAYS]
        options = {"n_landmarks": 15, "landmarks": method}
        ready = cv.KMvHE(3, kernel="precomputed", **options).fit(cv.Views(grams, mask=mask), Y)
        assert mask[ready.landmarks_[1], 1].all()
        assert all(len(columns) == 15 for columns in ready.landmarks_)
        if method != "k-means++":  # which measures distances between samples of the rbf kernel directly
            named = cv.ViewKernel(gamma=0.5, **options).fit(cv.Views(ARRAYS, mask=mask))
            for A, columns, samples in zip(ARRAYS, ready.landmarks_, named.landmarks_, strict=True):
                assert {tuple(x) for x in A[columns]} == {tuple(z) for z in samples}

    def test_callable_kernels(self, method):
        options = {"n_landmarks": 10, "landmarks": method}
        called = cv.ViewKernel(lambda a, b: (a @ b + 1.0) ** 2, **options).fit([A[::2] for A in ARRAYS])
        named = cv.ViewKernel("poly", gamma=1.0, degree=2, **options).fit([A[::2] for A in ARRAYS])
        for one, other in zip(called.landmarks_, named.landmarks_, strict=True):
            assert {tuple(z) for z in one} == {tuple(z) for z in other}

    def test_random_state_decides(self, method):
        fits = [cv.KMvHE(3, n_landmarks=12, landmarks=method, random_state=s).fit(ARRAYS, Y) for s in (0, 0, 1)]
        np.testing.assert_array_equal(fits[0].landmarks_[0], fits[1].landmarks_[0])
        assert not np.array_equal(fits[0].landmarks_[0], fits[2].landmarks_[0])

    def test_all_samples_are_exact(self, method):
        exact = cv.KMvHE(3).fit(ARRAYS, Y)
        same = cv.KMvHE(3, n_landmarks=200, landmarks=method, reg=None).fit(ARRAYS, Y)
        np.testing.assert_array_equal(same.eigenvalues_, exact.eigenvalues_)

    def test_saved_and_loaded(self, method, tmp_path):
        model = cv.KMvHE(3, n_landmarks=12, landmarks=method).fit(ARRAYS, Y)
        cv.save(model, tmp_path / "model")
        again = cv.load(tmp_path / "model")
        assert again.landmarks == method
        np.testing.assert_array_equal(again.transform(ARRAYS)[0], model.transform(ARRAYS)[0])


@pytest.mark.parametrize("cls", [cv.ViewKernel, cv.KMvHE, cv.KCCA])
@pytest.mark.parametrize("wrong", ["kmeans", None, 3, ["uniform"]])
def test_unknown_ways_are_refused(cls, wrong):
    with pytest.raises(ValueError, match=r"landmarks must be one of 'uniform', 'k-means\+\+', got"):
        cls(landmarks=wrong).fit(ARRAYS, Y)


def test_an_indefinite_kernel_is_refused():
    K = RBF(X, X) - 0.5
    for method in LANDMARKS:
        with pytest.raises(ValueError, match="not positive semi-definite"):
            cv.ViewKernel("precomputed", n_landmarks=30, landmarks=method).fit([K, K])
