"""Recombining the five parts of the scatter equals computing it anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import problems

import crossview as cv
from crossview.embeddings._parts import HybridProblem, HybridWeights
from crossview.linalg.eigen import smallest_eigenpairs

WITHIN, BETWEEN = (0, 1, 3), (0, 2, 5)


def problem_of(model, views, y, n_within, n_between):
    data = model._prepare(views, y)
    return HybridProblem(data.with_patches(n_within, n_between))


@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_recombining_equals_refitting(problem):
    whole = problem_of(cv.MvHE(1), problem.incomplete, problem.y, max(WITHIN), max(BETWEEN))
    parts = whole.parts(WITHIN, BETWEEN)
    for n_within, n_between in itertools.product(WITHIN, BETWEEN):
        model = cv.MvHE(1, 0.7, 0.2, 0.4, 0.3, n_within, n_between)
        anew = problem_of(model, problem.incomplete, problem.y, n_within, n_between).scatter(model._hybrid_weights())
        combined = parts.combine(model._hybrid_weights())
        scale = max(np.abs(anew).max(), 1.0)
        assert np.abs(np.tril(combined) - np.tril(anew)).max() <= 1e-12 * scale


@pytest.mark.parametrize("cls", [cv.MvHE, cv.KMvHE])
@pytest.mark.parametrize("dropped", [None, "paired", "intra", "inter", "beta"])
def test_eigenvalues_of_recombined_parts_are_those_of_a_fit(cls, dropped):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 6
    arrays = [rng.normal(size=(6, D))[y] + rng.normal(size=(60, D)) for D in (5, 7)]
    weights = {"paired": 1.0, "intra": 0.2, "inter": 0.5, "beta": 0.1}
    if dropped:
        weights[dropped] = 0.0
    model = cls(4, *weights.values(), 2, 5).fit(arrays, y)
    parts = problem_of(model, arrays, y, 3, 8).parts([1, 2, 3], [5, 8])
    values, _ = smallest_eigenpairs(parts.combine(HybridWeights(**weights, n_within=2, n_between=5)), 4)
    np.testing.assert_allclose(values, model.eigenvalues_, rtol=0, atol=1e-12 * 60)
