from __future__ import annotations

import itertools
from functools import partial

import methods
import numpy as np
import oracles
import pytest
import scipy.linalg
import threadpoolctl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from strategies import problems

import crossview as cv
from crossview.embeddings.hybrid import _Terms
from crossview.kernels import median_gamma

BOTH = pytest.mark.parametrize("cls", [cv.MvHE, cv.KMvHE])


make = partial(methods.make, sizes=(6, 4, 5))


def model_for(problem, cls=cv.MvHE, **options):
    w = problem.weights
    return cls(
        lambda_paired=w["paired"],
        lambda_intra=w["intra"],
        lambda_inter=w["inter"],
        beta=w["beta"],
        n_within=problem.n_within,
        n_between=problem.n_between,
        **options,
    )


def several(problem):
    """The samples that are learnt from, of which there must be two classes."""
    mask = oracles.seen_by_several(problem.mask)
    assume(len(set(problem.y[mask.any(axis=1)])) > 1)
    return mask


def projector(W):
    Q, _ = np.linalg.qr(W)
    return Q @ Q.T


def assert_same_subspace(W, expected, tolerance=1e-8):
    assert np.linalg.norm(projector(W) - projector(expected), 2) <= tolerance


def assert_gap(values, d):
    """Only a gap after the d-th eigenvalue makes the subspace of the first d well defined."""
    assume(d == len(values) or values[d] - values[d - 1] > 1e-3 * np.abs(values).max())


@pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")
@settings(max_examples=100, deadline=None)
@given(problem=problems(), center=st.booleans(), d=st.integers(1, 4))
def test_mvhe_equals_the_literal_problem(problem, center, d):
    mask = several(problem)
    found = oracles.patches(problem.arrays, problem.y, mask, problem.n_within, problem.n_between)
    L = oracles.laplacian(found, mask, **problem.weights)
    arrays = [np.where(mask[:, [v]], X, 0.0) for v, X in enumerate(problem.arrays)]
    if center:
        arrays = oracles.centred(problem.arrays, mask)
    values, vectors = oracles.smallest_in_span(oracles.scatter(arrays, L), arrays)
    model = model_for(problem, n_components=d, coupling=0.0, center=center).fit(problem.incomplete, problem.y)
    d = min(d, len(values))
    assert model.n_components_ == d
    scale = max(np.abs(values).max(), 1.0)
    np.testing.assert_allclose(model.eigenvalues_, values[:d], atol=1e-10 * scale)
    W = np.vstack(model.projections_)
    n = len(arrays)
    np.testing.assert_allclose(W.T @ W, n * np.eye(d), atol=1e-10)
    latents = [X @ w for X, w in zip(arrays, model.projections_, strict=True)]
    value = oracles.objective(latents, mask, found, **problem.weights)
    assert value == pytest.approx(n * model.eigenvalues_.sum(), abs=1e-9 * scale * n)
    assert_gap(values, d)
    assert_same_subspace(W, vectors[:, :d])


def test_mvhe_equals_the_papers_matrices_on_complete_views():
    arrays, y = make()
    settings = {"intra": 0.3, "inter": 0.5, "beta": 0.2, "n_within": 2, "n_between": 4}
    values, W = oracles.literal_mvhe(arrays, y, d=5, **settings)
    model = cv.MvHE(5, lambda_intra=0.3, lambda_inter=0.5, beta=0.2, n_within=2, n_between=4, center=False).fit(
        arrays, y
    )
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-10 * np.abs(values).max())
    assert_same_subspace(np.vstack(model.projections_), W)


@pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")
@settings(max_examples=40, deadline=None)
@given(problem=problems(ties=False), kernel=st.sampled_from(["rbf", "poly", "linear", "cosine", "laplacian"]))
def test_kmvhe_equals_the_generalised_problem(problem, kernel):
    mask = several(problem)
    seen = [np.flatnonzero(column) for column in mask.T]
    gammas = [median_gamma(X[rows], kernel) for X, rows in zip(problem.arrays, seen, strict=True)]
    kernels, distances = [], []
    for X, gamma in zip(problem.arrays, gammas, strict=True):
        parameters = {} if gamma is None else {"gamma": gamma}
        K = pairwise_kernels(X, metric=kernel, **parameters)
        kernels.append(K)
        distances.append(np.diag(K)[:, None] + np.diag(K) - 2 * K)
    # The order of tied kernel distances is the kernel's own affair.
    for d, rows in zip(distances, seen, strict=True):
        for k in rows:
            others = np.sort(np.delete(d[k, rows], np.flatnonzero(rows == k)))
            assume((np.diff(others) > 1e-9).all())
    found = oracles.patches(problem.arrays, problem.y, mask, problem.n_within, problem.n_between, distances)
    L = oracles.laplacian(found, mask, **problem.weights)
    nodes = np.concatenate([rows + v * len(problem.y) for v, rows in enumerate(seen)])
    blocks = [K[np.ix_(rows, rows)] for K, rows in zip(kernels, seen, strict=True)]
    assume(sum(map(np.linalg.matrix_rank, blocks)) >= 2)
    values, A = oracles.literal_kmvhe(blocks, L[np.ix_(nodes, nodes)], d=2)
    everything, _ = oracles.literal_kmvhe(blocks, L[np.ix_(nodes, nodes)], d=None)
    model = model_for(problem, cv.KMvHE, n_components=2, kernel=kernel, center=False)
    model.fit(problem.incomplete, problem.y)
    scale = np.abs(everything).max()
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-8 * scale)
    # Where the smallest eigenvalues are not those of the null space, the latent samples agree up to rotation.
    assert_gap(everything, 2)
    assume(np.abs(values).min() > 1e-3 * scale)
    edges = np.cumsum([len(rows) for rows in seen])[:-1]
    literal = [K @ a for K, a in zip(blocks, np.split(A, edges), strict=True)]
    mapped = [model.transform_view(X[rows], v) for v, (X, rows) in enumerate(zip(problem.arrays, seen, strict=True))]
    literal, mapped = np.vstack(literal), np.vstack(mapped)
    difference = mapped @ mapped.T - literal @ literal.T
    assert np.abs(difference).max() <= 1e-7 * np.abs(literal @ literal.T).max()


@pytest.mark.parametrize("center", [True, False])
def test_linear_kernel_is_mvhe_on_the_span_of_the_data(center):
    arrays, y = make()
    options = {"n_components": 3, "lambda_intra": 1.0, "lambda_inter": 1.0, "beta": 0.5, "center": center}
    plain = cv.MvHE(**options).fit(arrays, y)
    kernel = cv.KMvHE(kernel="linear", **options).fit(arrays, y)
    assert (plain.eigenvalues_ < 0).all()
    np.testing.assert_allclose(kernel.eigenvalues_, plain.eigenvalues_, rtol=1e-9)
    for a, b in zip(plain.transform(arrays), kernel.transform(arrays), strict=True):
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-8)


@BOTH
def test_order_of_views_does_not_matter(cls):
    arrays, y = make()
    first = cls(4).fit(arrays, y).transform(arrays)
    second = cls(4).fit(arrays[::-1], y).transform(arrays[::-1])[::-1]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-6)


def test_rotating_a_view_rotates_its_projection():
    arrays, y = make()
    Q, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))
    first = cv.MvHE(5).fit(arrays, y)
    second = cv.MvHE(5).fit([arrays[0], arrays[1] @ Q, arrays[2]], y)
    W, V = np.vstack(first.projections_), np.vstack(second.projections_)
    V[6:10] = Q @ V[6:10]
    assert_same_subspace(V, W)


@pytest.mark.parametrize("factor", [0.25, 3.0, 1e4])
def test_common_factor_of_the_weights_does_not_matter(factor):
    arrays, y = make()
    first = cv.MvHE(5, lambda_intra=0.2, lambda_inter=0.4).fit(arrays, y)
    second = cv.MvHE(5, lambda_paired=factor, lambda_intra=0.2 * factor, lambda_inter=0.4 * factor).fit(arrays, y)
    np.testing.assert_allclose(second.eigenvalues_, factor * first.eigenvalues_, rtol=1e-8)
    assert_same_subspace(np.vstack(second.projections_), np.vstack(first.projections_))


@BOTH
def test_results_are_the_same_bit_for_bit_however_the_samples_are_given(cls):
    arrays, y = make()
    mask = np.random.default_rng(0).random((len(y), 3)) < 0.8
    missing = [np.where(mask[:, [v]], X, np.nan) for v, X in enumerate(arrays)]
    complete = [arrays, arrays, cv.Views(arrays, mask=np.ones((len(y), 3), dtype=bool))]
    for same in (complete, [missing, cv.Views(arrays, mask=mask)]):
        first, *others = (cls(4).fit(views, y).projections_ for views in same)
        for other in others:
            for a, b in zip(first, other, strict=True):
                np.testing.assert_array_equal(a, b)


def test_the_largest_entry_of_a_component_is_positive():
    W = np.vstack(cv.MvHE(5).fit(*make()).projections_)
    assert (W[np.abs(W).argmax(axis=0), np.arange(5)] > 0).all()


@BOTH
def test_threads_do_not_change_the_result(cls):
    arrays, y = make(m=600, sizes=(30, 20), n_classes=60)
    results = []
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads):
            model = cls(5).fit(arrays, y)
            results.append([model.eigenvalues_, *model.transform(arrays)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * np.abs(a).max())


def test_large_class_counts_take_what_there_is():
    arrays, y = make()
    modest = cv.MvHE(3, n_within=9, n_between=50).fit(arrays, y)
    huge = cv.MvHE(3, n_within=10**9, n_between=10**12).fit(arrays, y)
    np.testing.assert_array_equal(modest.eigenvalues_, huge.eigenvalues_)


def test_samples_that_two_of_three_views_have():
    """They take part in the pairs that they have, and in the patches of both views; others in nothing."""
    arrays, y = make()
    mask = np.ones((len(y), 3), dtype=bool)
    mask[40:50, 1] = False
    mask[50:, 1:] = False
    left = oracles.seen_by_several(mask)
    found = oracles.patches(arrays, y, left, 1, 15)
    L = oracles.laplacian(found, left, 1.0, 0.1, 0.3, 0.1)
    expected = np.linalg.eigvalsh(oracles.scatter(oracles.centred(arrays, left), L))[:4]
    model = cv.MvHE(4).fit(cv.Views(arrays, mask=mask), y)
    np.testing.assert_allclose(model.eigenvalues_, expected, atol=1e-10)
    fewer = cv.MvHE(4).fit([X[:40] for X in arrays], y[:40])
    assert np.abs(model.eigenvalues_ - fewer.eigenvalues_).max() > 1e-3


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("make_model", [cv.MvHE, cv.KMvHE, lambda d: cv.KMvHE(d, kernel="linear")])
def test_an_offset_does_not_matter(offset, make_model):
    arrays, y = make()
    arrays = [np.round(X * 2**20) / 2**20 for X in arrays]  # exact with the offset, too
    plain = make_model(4).fit(arrays, y)
    moved = make_model(4).fit([X + offset for X in arrays], y)
    np.testing.assert_allclose(moved.eigenvalues_, plain.eigenvalues_, rtol=0, atol=1e-7)
    assert moved.score([X + offset for X in arrays], y) == plain.score(arrays, y)


@BOTH
@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_recombining_the_terms_of_the_scatter_equals_computing_it_anew(cls, problem):
    within, between = (0, 1, 3), (0, 2, 5)
    largest = cls(1, n_within=max(within), n_between=max(between))
    terms = _Terms(largest._prepare(problem.incomplete, problem.y), within, between)
    for n_within, n_between in itertools.product(within, between):
        weights = {name if name == "beta" else f"lambda_{name}": value for name, value in problem.weights.items()}
        model = cls(1, n_within=n_within, n_between=n_between, **weights)
        anew = model._scatter(model._prepare(problem.incomplete, problem.y))
        scale = max(np.abs(anew).max(), 1.0)
        assert np.abs(np.tril(terms.scatter(model)) - np.tril(anew)).max() <= 1e-12 * scale


class TestKernels:
    def test_changing_parameters_after_fit_changes_nothing(self):
        arrays, y = make()
        model = cv.KMvHE(3, kernel="poly").fit(arrays, y)
        before = model.transform(arrays)
        model.set_params(kernel="linear", gamma=7.0)
        for a, b in zip(model.transform(arrays), before, strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")
    def test_the_direction_that_centring_empties_is_no_component(self):
        """Exact features of a positive definite kernel hold a constant, of which centring leaves nothing."""
        arrays, y = make(m=12, sizes=(3, 2))
        model = cv.KMvHE(100, gamma=1.0, beta=0.0).fit(arrays, y)
        assert model.n_components_ == 22
        latents = np.vstack(model.transform(arrays))
        assert (np.square(latents).sum(axis=0) > 1e-10).all()

    @pytest.mark.parametrize("complete", [True, False])
    def test_callable_and_precomputed_agree_with_the_named_kernel(self, complete):
        arrays, y = make(m=40)
        mask, gamma = np.ones((40, 3), dtype=bool), 0.3
        mask[5, 1] = mask[9, 0] = complete
        models = cv.KMvHE(4, gamma=gamma), cv.KMvHE(4, kernel=lambda a, b: np.exp(-gamma * ((a - b) ** 2).sum()))
        named, called = (model.fit(cv.Views(arrays, mask=mask), y) for model in models)
        grams = [pairwise_kernels(X, metric="rbf", gamma=gamma) for X in arrays]
        ready = cv.KMvHE(4, kernel="precomputed").fit(cv.Views(grams, mask=mask), y)
        for v, X in enumerate(arrays):
            new = X[:7] + 0.01
            expected, against = named.transform_view(new, v), pairwise_kernels(new, X, metric="rbf", gamma=gamma)
            np.testing.assert_allclose(called.transform_view(new, v), expected, atol=1e-6)
            np.testing.assert_allclose(ready.transform_view(against, v), expected, atol=1e-6)

    def test_width_per_view(self):
        arrays, y = make(m=40)
        model = cv.KMvHE(4).fit(arrays, y)
        assert model.gamma_ == [median_gamma(X, "rbf") for X in arrays]
        assert len(set(model.gamma_)) == 3
        given = cv.KMvHE(4, gamma=model.gamma_).fit(arrays, y)
        np.testing.assert_array_equal(given.eigenvalues_, model.eigenvalues_)

    def test_singular_kernel_matrix(self):
        arrays, y = make(m=40)
        doubled = [np.vstack([X, X]) for X in arrays]
        model = cv.KMvHE(4).fit(doubled, np.tile(y, 2))
        assert all(len(z) <= 40 for z in model.landmarks_)
        latent = model.transform(doubled)
        for Z in latent:
            np.testing.assert_allclose(Z[:40], Z[40:], atol=1e-8)
        assert np.isfinite(np.vstack(latent)).all()

    def test_more_landmarks_approach_all_samples(self):
        arrays, y = make(m=120)
        exact = cv.KMvHE(3, gamma=0.05).fit(arrays, y)
        errors = []
        for n_landmarks in (10, 30, 90):
            some = cv.KMvHE(3, gamma=0.05, n_landmarks=n_landmarks, random_state=0, reg=None).fit(arrays, y)
            assert all(len(z) <= n_landmarks for z in some.landmarks_)
            assert (some.eigenvalues_ >= exact.eigenvalues_ - 1e-9).all()
            errors.append(np.abs(some.eigenvalues_ - exact.eigenvalues_).max())
        assert errors[2] < 0.1 * errors[0]

    @pytest.mark.parametrize("n_landmarks", [20, 119, None])
    @pytest.mark.parametrize("missing", [False, True])
    def test_with_a_ridge_components_have_unit_variance(self, missing, n_landmarks):
        arrays, y = make(m=120)
        mask = np.ones((120, 3), dtype=bool)
        if missing:
            mask[::7, 1] = False
            arrays[1] = np.where(mask[:, [1]], arrays[1], np.nan)
        model = cv.KMvHE(4, n_landmarks=n_landmarks, random_state=0, reg=0.2, coupling=0).fit(arrays, y)

        features = cv.ViewKernel(n_landmarks=n_landmarks, random_state=0).fit(arrays).transform(arrays)
        filled = [np.where(seen[:, None], R, 0.0) for R, seen in zip(features, mask.T, strict=True)]
        centred = oracles.centred(filled, mask)
        found = oracles.patches([np.nan_to_num(X) for X in arrays], y, mask, 1, 15)
        S = oracles.scatter(centred, oracles.laplacian(found, mask, 1.0, 0.01, 0.05, 0.1))
        blocks = [slice(a, b) for a, b in itertools.pairwise(np.cumsum([0, *(R.shape[1] for R in features)]))]
        C = np.zeros_like(S)
        for R, seen, block in zip(centred, mask.T, blocks, strict=True):
            identity = np.eye(R.shape[1])
            covariance = np.cov(R[seen].T, bias=True)
            C[block, block] = covariance + 1e-5 * np.diag(covariance).mean() * identity
            S[block, block] += 0.2 * np.abs(np.diag(S)[block]).mean() * identity
        values, W = scipy.linalg.eigh(S, C, subset_by_index=[0, 3])
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-8)
        for Z, R, seen, block in zip(model.transform(arrays), centred, mask.T, blocks, strict=True):
            expected = np.sqrt(3) * R[seen] @ W[block]
            signs = np.sign((expected * Z[seen]).sum(axis=0))
            np.testing.assert_allclose(Z[seen], signs * expected, atol=1e-6 * np.abs(expected).max())

    def test_few_landmarks_match_many_small_classes(self):
        random = np.random.default_rng(0)
        y = np.arange(1500) // 10
        factors = random.normal(size=(150, 10))[y] + 0.3 * random.normal(size=(1500, 10))
        arrays = [np.tanh(factors @ random.normal(size=(10, 32))) for _ in range(2)]
        train, test = slice(0, 1200), slice(1200, None)
        fit, new = ([X[part] for X in arrays] for part in (train, test))
        scores = {
            reg: cv.KMvHE(10, n_landmarks=60, random_state=0, reg=reg).fit(fit, y[train]).score(new, y[test])
            for reg in (None, "auto")
        }
        linear = cv.MvHE(10).fit(fit, y[train]).score(new, y[test])
        assert scores[None] < scores["auto"] - 0.1
        assert scores["auto"] > linear - 0.02

    @pytest.mark.parametrize(("n_landmarks", "reg"), [(39, 0.05), (500, 0.05), (None, None)])
    def test_parameters_alone_decide_the_constraint(self, n_landmarks, reg):
        arrays, y = make(m=120)
        automatic, given = (
            cv.KMvHE(3, n_landmarks=n_landmarks, random_state=0, reg=r).fit(arrays, y) for r in ("auto", reg)
        )
        np.testing.assert_array_equal(automatic.eigenvalues_, given.eigenvalues_)
        other = cv.KMvHE(3, n_landmarks=n_landmarks, random_state=0, reg=0.05 if reg is None else None).fit(arrays, y)
        assert not np.allclose(automatic.eigenvalues_, other.eigenvalues_, rtol=1e-3)

    @pytest.mark.parametrize("coupling", [0.0, 4.0])
    def test_unit_variance_without_a_ridge_keeps_clear_of_directions_without_variance(self, coupling):
        arrays, y = make(m=60, sizes=(6, 6), n_classes=6)
        model = cv.KMvHE(4, beta=0.0, coupling=coupling, reg=0.0).fit(arrays, y)  # no eigenvalue is negative
        variances = np.mean([np.var(Z, axis=0) for Z in model.transform(arrays)], axis=0)
        assert variances.min() > 0.5

    def test_many_samples_are_mapped_like_each_alone(self):
        arrays, y = make(m=60)
        model = cv.KMvHE(3, n_landmarks=10, random_state=0).fit(arrays, y)
        many = model.transform_view(np.tile(arrays[0], (40, 1)), 0)  # in chunks
        np.testing.assert_allclose(many, np.tile(model.transform_view(arrays[0], 0), (40, 1)), rtol=1e-12, atol=1e-12)


class TestComponentsThatSetViewsApart:
    """All components together say nothing about which samples belong together; unsuitable weights find no others."""

    DATA = cv.datasets.load_digits()
    VIEWS, Y = DATA.views[:300], DATA.y[:300]

    @pytest.mark.parametrize(
        "model",
        [
            cv.MvHE(1000),
            cv.KMvHE(1000),
            cv.MvHE(1000, coupling=8.0),
            make_pipeline(cv.ViewScaler(), cv.ViewPCA(10), cv.MvHE(20)),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_are_warned_of(self, model):
        with pytest.warns(UserWarning, match="keeps all .* use n_components='auto', or at most") as caught:
            many = model.fit(self.VIEWS, self.Y)
        tested = self.DATA.views[300:700], self.DATA.y[300:700]
        most = int(str(caught[0].message).split()[-1].rstrip("."))
        name = "mvhe__n_components" if hasattr(model, "steps") else "n_components"
        few = clone(model).set_params(**{name: most}).fit(self.VIEWS, self.Y)
        assert many.score(*tested) < few.score(*tested) - 0.25

    @pytest.mark.parametrize(
        "model",
        [
            cv.MvHE(),
            cv.KMvHE(),
            cv.MvHE(40),
            cv.KMvHE(160),
            cv.MvHE(1000, lambda_paired=0.0, lambda_inter=0.0),
            cv.MvHE(1000, coupling=np.inf),
            cv.DLA(1000),
            cv.MvDA(1000),
        ],
        ids=repr,
    )
    def test_others_are_not(self, model):
        assert model.fit(self.VIEWS, self.Y).n_components_ >= 9

    @pytest.mark.parametrize("n", [500, 700, 900])
    @pytest.mark.parametrize(
        ("model", "shuffled"), [(cv.KMvHE(kernel="linear"), False), (cv.MvHE(), True)], ids=["weights", "rows"]
    )
    def test_views_that_agree_along_few_components_are_warned_of(self, model, shuffled, n):
        left, right = self.DATA.views[:n].arrays
        order = np.random.default_rng(0).permutation(n) if shuffled else slice(None)
        with pytest.warns(UserWarning, match="hardly agree along any .* rows correspond, or search for other"):
            model.fit([left, right[order]], self.DATA.y[:n])
        assert model.n_components_ <= 6
        assert model.score(self.DATA.views[n:].arrays, self.DATA.y[n:]) < 0.2

    def test_searches_try_them_in_silence(self):
        narrow = cv.Views([X[:, :8] for X in self.VIEWS.arrays])
        search = cv.tune("MvHE", narrow, self.Y, n_iter=4, n_members=3)
        tried = search.cv_results_["param_mvhe__n_components"]
        assert max(tried) == 160 > sum(narrow.n_features)
        cv.CrossViewClassifier(search.best_estimator_).fit(narrow, self.Y)
