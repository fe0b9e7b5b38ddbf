"""Recombining the terms of the scatter equals computing it anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import problems

import crossview as cv
from crossview.embeddings.hybrid import _Terms

WITHIN, BETWEEN = (0, 1, 3), (0, 2, 5)


@pytest.mark.parametrize("cls", [cv.MvHE, cv.KMvHE])
@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_recombining_equals_refitting(cls, problem):
    largest = cls(1, n_within=max(WITHIN), n_between=max(BETWEEN))
    terms = _Terms(largest._prepare(problem.incomplete, problem.y), WITHIN, BETWEEN)
    for n_within, n_between in itertools.product(WITHIN, BETWEEN):
        weights = {name if name == "beta" else f"lambda_{name}": value for name, value in problem.weights.items()}
        model = cls(1, n_within=n_within, n_between=n_between, **weights)
        anew = model._scatter(model._prepare(problem.incomplete, problem.y))
        scale = max(np.abs(anew).max(), 1.0)
        assert np.abs(np.tril(terms.scatter(model)) - np.tril(anew)).max() <= 1e-12 * scale
