from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import crossview as cv

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=(20, 5)) * [1, 2, 3, 4, 5], RNG.normal(size=(20, 5)) + 3]
POOLED = np.vstack(ARRAYS)


def test_pooled_scaling_is_that_of_all_samples():
    got = cv.ViewScaler().fit_transform(ARRAYS)
    scaler = StandardScaler().fit(POOLED)
    for X, Y in zip(ARRAYS, got, strict=True):
        np.testing.assert_allclose(Y, scaler.transform(X))


def test_scaling_per_view():
    for X, Y in zip(ARRAYS, cv.ViewScaler(pooled=False).fit_transform(ARRAYS), strict=True):
        np.testing.assert_allclose(Y, StandardScaler().fit_transform(X))


def test_pooled_components_are_those_of_all_samples():
    got = cv.ViewPCA(3).fit_transform(ARRAYS)
    pca = PCA(3, svd_solver="full").fit(POOLED)
    for X, Y in zip(ARRAYS, got, strict=True):
        same_up_to_sign(Y, pca.transform(X))


def test_one_factor_per_view_keeps_relative_variances():
    for X, Y in zip(ARRAYS, cv.ViewScaler(by="view").fit_transform(ARRAYS), strict=True):
        centred = X - X.mean(axis=0)
        np.testing.assert_allclose(Y, centred / np.sqrt(np.mean(X.var(axis=0))))
        assert Y.var(axis=0).mean() == pytest.approx(1.0)


def test_no_scaling():
    for X, Y in zip(ARRAYS, cv.ViewScaler(by=None).fit_transform(ARRAYS), strict=True):
        np.testing.assert_array_equal(X, Y)


@pytest.mark.parametrize("by", ["feature", "view"])
def test_constant_views_are_not_divided_by_zero(by):
    scaled = cv.ViewScaler(by, pooled=False).fit_transform([ARRAYS[0], np.ones((20, 3))])
    np.testing.assert_array_equal(scaled[1], np.zeros((20, 3)))


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)])
@pytest.mark.parametrize("k", [1, 5, 13, None])
def test_components_are_those_of_scikit_learn(k, shape):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(shape[0], 30)) @ rng.normal(size=(30, shape[1])) * np.linspace(1, 20, shape[1]) + 7
    ours = cv.ViewPCA(k).fit([X[::2], X[1::2]])
    theirs = PCA(k or 30, svd_solver="full").fit(X)
    C = ours.components_[0]
    np.testing.assert_allclose(abs(C @ theirs.components_.T), np.eye(k or 30), atol=1e-8)
    np.testing.assert_allclose(C @ C.T, np.eye(k or 30), atol=1e-10)
    np.testing.assert_allclose(ours.explained_variance_ratio_[0], theirs.explained_variance_ratio_, rtol=1e-8)
    assert (C[np.arange(len(C)), abs(C).argmax(axis=1)] > 0).all()


def test_components_that_products_would_lose_are_found_all_the_same():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 6)) * [1, 1e-2, 1e-4, 1e-5, 1e-6, 1e-7] @ rng.normal(size=(6, 50))
    found = cv.ViewPCA(6).fit([X, X]).components_[0]
    wanted = PCA(6, svd_solver="full").fit(np.vstack([X, X])).components_
    np.testing.assert_allclose(abs(found @ wanted.T), np.eye(6), atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.8, 0.99])
def test_a_share_of_the_variance_per_view(share):
    got = cv.ViewPCA(share, pooled=False).fit_transform(ARRAYS)
    for X, Y in zip(ARRAYS, got, strict=True):
        assert Y.shape[1] == PCA(share, svd_solver="full").fit(X).n_components_


def test_a_narrow_view_does_not_limit_a_wide_one():
    arrays = [ARRAYS[0], ARRAYS[1][:, :2]]
    assert [Y.shape[1] for Y in cv.ViewPCA(4).fit_transform(arrays)] == [4, 2]
    assert [Y.shape[1] for Y in cv.ViewPCA(40).fit_transform(arrays)] == [5, 2]
    assert [Y.shape[1] for Y in cv.ViewPCA(40).fit_transform(ARRAYS)] == [5, 5]


def same_up_to_sign(Y, Z):
    np.testing.assert_allclose(Y * np.sign((Y * Z).sum(axis=0)), Z, atol=1e-12)


def test_components_per_view_of_unequal_views():
    arrays = [ARRAYS[0], ARRAYS[1][:, :4]]
    for X, Y in zip(arrays, cv.ViewPCA(3, pooled=False).fit_transform(arrays), strict=True):
        same_up_to_sign(Y, PCA(3, svd_solver="full").fit_transform(X))


@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_missing_rows_are_left_out_and_stay_missing(transformer):
    holes = [X.copy() for X in ARRAYS]
    holes[0][3] = np.nan
    got = transformer.fit_transform(holes)
    assert np.isnan(got[0][3]).all()
    assert np.isfinite(np.delete(got[0], 3, axis=0)).all()
    assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("transformer", [cv.ViewScaler(), cv.ViewPCA(2)], ids=repr)
def test_samples_of_one_view_alone_are_not_learnt_from(transformer, pooled):
    transformer = clone(transformer).set_params(pooled=pooled)
    holes = [X.copy() for X in ARRAYS]
    holes[0][3] = holes[1][5:9] = np.nan
    complete = np.delete(np.arange(20), [3, 5, 6, 7, 8])
    got = clone(transformer).fit(holes).transform(ARRAYS)
    expected = clone(transformer).fit([X[complete] for X in ARRAYS]).transform(ARRAYS)
    for X, Y in zip(got, expected, strict=True):
        np.testing.assert_allclose(X, Y)


def test_views_that_share_no_sample_are_learnt_from_as_they_are():
    holes = [X.copy() for X in ARRAYS]
    holes[0][:12] = holes[1][12:] = np.nan
    scaler = cv.ViewScaler(pooled=False).fit(holes)
    np.testing.assert_allclose(scaler.transform_view(ARRAYS[0][12:], 0).mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("transformer", [cv.ViewScaler(pooled=True), cv.ViewPCA(2, pooled=True)], ids=repr)
def test_unequal_views_cannot_be_pooled(transformer):
    with pytest.raises(ValueError, match=r"5, 4 features cannot be pooled: use View\w+\(pooled=False\)"):
        transformer.fit([ARRAYS[0], ARRAYS[1][:, :4]])


def test_a_view_without_samples():
    with pytest.raises(ValueError, match="view 'view1' has no samples"):
        cv.ViewScaler().fit([ARRAYS[0], np.full((20, 5), np.nan)])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "all", True])
def test_numbers_of_components_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="n_components must be a whole number, 1 or more"):
        cv.ViewPCA(wrong).fit(ARRAYS)


def test_ways_of_scaling_that_do_not_exist():
    with pytest.raises(ValueError, match="by must be one of 'feature', 'view', got 'sample'"):
        cv.ViewScaler("sample").fit(ARRAYS)
    with pytest.raises(ValueError, match="pooled must be True or False, got 'yes'"):
        cv.ViewPCA(2, pooled="yes").fit(ARRAYS)


@pytest.mark.parametrize("pooled", [True, False])
def test_components_along_which_nothing_varies_are_left_out(pooled):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(20, 6)) for _ in range(2)]
    for X in arrays:
        X[:, 4] = 3.0
        X[:, 5] = X[:, 0] - X[:, 1]
    reduced = cv.ViewPCA(6, pooled=pooled).fit_transform(arrays)
    assert [X.shape for X in reduced] == [(20, 4), (20, 4)]
    np.testing.assert_allclose(reduced[0], cv.ViewPCA(4, pooled=pooled).fit_transform(arrays)[0])


def shared_factors(m=60, sizes=(6, 4), n_classes=6, seed=3):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    z = rng.normal(size=(n_classes, 4))[y] + 0.4 * rng.normal(size=(m, 4))
    return tuple(np.tanh(z @ rng.normal(size=(4, D))) + 0.05 * rng.normal(size=(m, D)) for D in sizes), y


class TestViewKernel:
    arrays, y = shared_factors()
    new = tuple(X[::-1] + 0.1 for X in arrays)

    @pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine", "laplacian"])
    def test_inner_products_are_the_kernel(self, kernel):
        model = cv.ViewKernel(kernel=kernel, gamma=0.5).fit(list(self.arrays))
        for X, new, R, Z in zip(
            self.arrays, self.new, model.transform(list(self.arrays)), model.transform(list(self.new)), strict=True
        ):
            options = {"linear": {}, "cosine": {}}.get(kernel, {"gamma": 0.5})
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
        whole = clone(whole).set_params(**options).fit(list(self.arrays), self.y)
        pipeline = make_pipeline(cv.ViewKernel(**options), behind).fit(list(self.arrays), self.y)
        np.testing.assert_allclose(whole.eigenvalues_, pipeline[-1].eigenvalues_, rtol=1e-8, atol=1e-8)
        for one, other in zip(whole.transform(list(self.new)), pipeline.transform(list(self.new)), strict=True):
            signs = np.sign((one * other).sum(axis=0))
            np.testing.assert_allclose(one, other * signs, atol=1e-8 * np.abs(one).max())

    def test_landmarks_and_missing_samples(self):
        mask = np.ones((60, 2), dtype=bool)
        mask[::5, 1] = False
        views = cv.Views(list(self.arrays), mask=mask)
        model = cv.ViewKernel(n_landmarks=12, random_state=1)
        mapped = model.fit_transform(views)
        assert mapped.n_features == (12, 12)
        np.testing.assert_array_equal(mapped.mask, mask)
        assert model.fit(views).transform(views).arrays[1][1:5] == pytest.approx(mapped.arrays[1][1:5], abs=1e-9)

    def test_precomputed_kernels(self):
        kernels = [pairwise_kernels(X, metric="rbf", gamma=0.5) for X in self.arrays]
        given = cv.ViewKernel("precomputed").fit_transform(kernels)
        own = cv.ViewKernel(gamma=0.5).fit_transform(list(self.arrays))
        for one, other in zip(given, own, strict=True):
            np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-10)
        with pytest.raises(ValueError, match="square matrix"):
            cv.ViewKernel("precomputed").fit(list(self.arrays))

    def test_a_search_reaches_its_parameters(self):
        pipeline = make_pipeline(cv.ViewKernel(), cv.MvDA())
        grid = {"viewkernel__gamma_scale": [0.1, 1.0], "mvda__reg": [0.01, 0.1]}
        search = cv.EmbeddingSearchCV(pipeline, grid, n_folds=3, cv="samples").fit(list(self.arrays), self.y)
        assert search.best_score_ > 0.5
        assert pipeline.set_params(**search.best_params_)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kernel": "cubic"}, "unknown kernel"),
            ({"gamma": -1.0}, "gamma must be"),
            ({"gamma": [1.0]}, "1 values for 2 views"),
            ({"n_landmarks": 0}, "n_landmarks"),
        ],
    )
    def test_bad_parameters(self, options, message):
        with pytest.raises(ValueError, match=message):
            cv.ViewKernel(**options).fit(list(self.arrays))


@pytest.mark.parametrize("by", ["view", None])
def test_scaling_that_pools_nothing_takes_views_of_unequal_width(by):
    views = [np.arange(12.0).reshape(4, 3), np.arange(8.0).reshape(4, 2)]
    scaled = cv.ViewScaler(by=by, pooled=True).fit(views)
    assert not scaled.pooled_
    expected = cv.ViewScaler(by=by, pooled=False).fit_transform(views)
    for X, Z in zip(scaled.transform(views), expected, strict=True):
        np.testing.assert_array_equal(X, Z)
    with pytest.raises(ValueError, match="pooled must be True or False, got 'no'"):
        cv.ViewScaler(by=by, pooled="no").fit(views)
