from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.linalg
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

import crossview as cv
from crossview.kernels import median_gamma
from paper.literal import literal_kmvhe, literal_mvhe

PAPER = {"lambda_intra": 0.01, "lambda_inter": 0.05, "beta": 0.1, "n_within": 1, "n_between": 15}
SETTINGS = [
    PAPER,
    {"lambda_intra": 0.3, "lambda_inter": 0.5, "beta": 0.2, "n_within": 2, "n_between": 4},
    {"lambda_intra": 0.0, "lambda_inter": 2.0, "beta": 1.0, "n_within": 3, "n_between": 1},
    {"lambda_intra": 1.0, "lambda_inter": 0.0, "beta": 0.4, "n_within": 1, "n_between": 6},
]
SIZES = [(6, 4), (6, 4, 5), (3, 7, 4, 5)]


def make(sizes=(6, 4, 5), m=36, n_classes=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    z = rng.normal(size=(n_classes, 4))[y] + 0.4 * rng.normal(size=(m, 4))
    return [np.tanh(z @ rng.normal(size=(4, D))) + 0.1 * rng.normal(size=(m, D)) for D in sizes], y


def oracle_settings(values):
    return {"intra": values["lambda_intra"], "inter": values["lambda_inter"], "beta": values["beta"]}


def neighbours(values):
    return {name: values[name] for name in ("n_within", "n_between")}


def assert_same_up_to_rotation(found, expected):
    """By all distances between latent samples, of all views."""
    found, expected = (euclidean_distances(np.vstack(latents)) for latents in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-8 * expected.max())


def assert_same_up_to_signs(found, expected):
    found, expected = np.vstack(found), np.vstack(expected)
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_mvhe_is_the_estimator_and_the_oracle(sizes, settings):
    arrays, y = make(sizes)
    W = literal_mvhe(arrays, y, 4, **settings)
    model = cv.MvHE(4, center=False, **settings).fit(arrays, y)
    assert [w.shape for w in W] == [(D, 4) for D in sizes]
    assert_same_up_to_signs(W, model.projections_)
    _, expected = oracles.literal_mvhe(arrays, y, d=4, **oracle_settings(settings), **neighbours(settings))
    assert_same_up_to_signs(W, [expected])
    stacked = np.vstack(W)
    np.testing.assert_allclose(stacked.T @ stacked, len(sizes) * np.eye(4), atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_kmvhe_is_the_estimator_and_the_oracle(sizes, settings):
    arrays, y = make(sizes)
    A = literal_kmvhe(arrays, y, 4, **settings)
    kernels = [rbf_kernel(X, gamma=median_gamma(X, "rbf")) for X in arrays]
    latents = [K @ a for K, a in zip(kernels, A, strict=True)]
    model = cv.KMvHE(4, center=False, **settings).fit(arrays, y)
    assert_same_up_to_rotation(latents, list(model.transform(arrays)))

    mask = np.ones((len(y), len(arrays)), dtype=bool)
    found = oracles.patches(arrays, y, mask, **neighbours(settings))
    L = oracles.laplacian(found, mask, paired=1.0, **oracle_settings(settings))
    _, expected = oracles.literal_kmvhe(kernels, L, 4)
    K = scipy.linalg.block_diag(*kernels)
    assert_same_up_to_rotation(latents, [K @ expected])
    stacked = np.vstack(A)
    np.testing.assert_allclose(stacked.T @ K @ stacked, len(sizes) * np.eye(4), atol=1e-8)


@pytest.mark.parametrize("gamma", [0.3, (0.1, 0.5, 1.0)])
def test_kmvhe_with_given_widths(gamma):
    arrays, y = make()
    A = literal_kmvhe(arrays, y, 3, gamma=gamma)
    widths = np.broadcast_to(gamma, 3)
    latents = [rbf_kernel(X, gamma=g) @ a for X, g, a in zip(arrays, widths, A, strict=True)]
    model = cv.KMvHE(3, center=False, gamma=gamma, **PAPER).fit(arrays, y)
    assert_same_up_to_rotation(latents, list(model.transform(arrays)))


def test_small_classes_give_the_neighbours_they_have():
    arrays, _ = make(m=20)
    y = np.array(["a"] * 10 + ["b"] * 7 + ["c"] * 2 + ["d"])
    settings = {"lambda_intra": 0.5, "lambda_inter": 0.7, "beta": 0.3, "n_within": 4, "n_between": 12}
    model = cv.MvHE(3, center=False, **settings).fit(arrays, y)
    assert_same_up_to_signs(literal_mvhe(arrays, y, 3, **settings), model.projections_)
    fewer = literal_mvhe(arrays, y, 3, **settings | {"n_within": 3})
    assert np.abs(np.abs(np.vstack(fewer)) - np.abs(np.vstack(model.projections_))).max() > 1e-3


def test_ties_go_to_the_lower_index():
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 3, size=(30, D)).astype(float) for D in (5, 4)]
    y = np.arange(30) % 5
    settings = {"lambda_intra": 0.4, "lambda_inter": 0.6, "beta": 0.2, "n_within": 2, "n_between": 5}
    model = cv.MvHE(3, center=False, **settings).fit(arrays, y)
    assert_same_up_to_signs(literal_mvhe(arrays, y, 3, **settings), model.projections_)
