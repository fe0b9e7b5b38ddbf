"""Which differences count: compared with slow, literal formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crossview.experiments import Cell, Record, Split
from crossview.experiments.plans import Panel, Place
from crossview.report.standing import Observations, observations, standard_error, standing

RNG = np.random.default_rng(0)
CLASSES = np.repeat(np.arange(12), 5)


def records(scores, tests_on="samples", **more):
    cell = Cell(data="x", method="MvDA", split=Split("given", 10, 1))
    result = {
        "score": float(np.nanmean(scores)),
        "sample_scores": [None if np.isnan(s) else float(s) for s in scores],
        "sample_classes": CLASSES[: len(scores)].tolist(),
        "n_test_classes": len(np.unique(CLASSES[: len(scores)])),
        "tests_on": tests_on,
        **more,
    }
    return [Record("", cell.to_dict(), "done", result, None, 0.0, 0.0, "", {})]


def compared(**scores):
    """The standing of methods with these scores of samples."""
    cells = {row: Cell(data=row, method="MvDA", split=Split("given", 10, 1)) for row in scores}
    panel = Panel("comparison", "", "accuracy", tuple(Place(row, "x", cell) for row, cell in cells.items()))
    return standing(panel, {cells[row]: records(np.asarray(found, float))[0] for row, found in scores.items()}, "x")


def test_the_error_over_samples_is_that_of_a_mean():
    scores = RNG.uniform(size=60)
    expected = np.std(scores, ddof=1) / np.sqrt(60)
    assert standard_error(records(scores)) == pytest.approx(expected)
    scores[::7] = np.nan  # samples that are no probes
    known = scores[~np.isnan(scores)]
    assert standard_error(records(scores)) == pytest.approx(np.std(known, ddof=1) / np.sqrt(len(known)))


def test_the_error_over_new_classes_is_that_of_the_means_of_classes():
    """Of classes of one size; samples of a class that are alike are worth one."""
    scores = RNG.uniform(size=12)[CLASSES] + 0.01 * RNG.uniform(size=60)
    means = [scores[c == CLASSES].mean() for c in range(12)]
    found = records(scores, "classes")
    assert observations(found).over == "test classes"
    assert standard_error(found) == pytest.approx(np.std(means, ddof=1) / np.sqrt(12))
    assert standard_error(found) > 1.9 * standard_error(records(scores))


def test_few_new_classes_say_too_little_of_others():
    assert observations(records(RNG.uniform(size=20), "classes")).over == "test samples"


def test_an_error_agrees_with_the_bootstrap():
    sizes = RNG.integers(1, 9, size=40)
    groups = np.repeat(np.arange(40), sizes)
    scores = RNG.uniform(size=40)[groups] + RNG.normal(0, 0.1, size=len(groups))
    draws = []
    for _ in range(4000):
        rows = np.concatenate([np.flatnonzero(groups == c) for c in RNG.integers(0, 40, size=40)])
        draws.append(scores[rows].mean())
    assert Observations(scores, groups, "test classes").standard_error() == pytest.approx(np.std(draws), rel=0.08)


def test_paired_differences_decide():
    easy = RNG.uniform(size=60)
    best, near, far = easy + 0.05, easy + 0.04 * RNG.choice([-1.0, 1.0], size=60) + 0.045, easy
    assert compared(A=best, B=near, C=far) == (["A"], ["B"], "test samples")
    # The spread of the scores themselves is far larger than the difference that counts.
    assert np.std(easy) / np.sqrt(60) > 0.03


def test_equal_figures_are_equally_good_whichever_comes_first():
    one = np.tile([1.0, 0.0, 1.0], 20)
    other, worse = one[::-1].copy(), np.zeros(60)
    assert compared(A=one, B=other, C=worse) == (["A", "B"], [], "test samples")
    assert compared(B=other, C=worse, A=one) == (["B", "A"], [], "test samples")


def test_what_is_tied_with_one_of_the_best_is_tied():
    """B and A are equal; C differs from B everywhere by the same, from A in a way that may be noise."""
    a = np.tile([1.0, 0.0], 30)
    b = np.full(60, 0.5)
    c = b - 0.01
    for rows in ({"A": a, "B": b, "C": c}, {"C": c, "B": b, "A": a}):
        best, tied, _ = compared(**rows)
        assert set(best) == {"A", "B"}
        assert tied == ["C"]


def test_results_without_scores_of_samples_have_no_error():
    (found,) = records(RNG.uniform(size=20))
    older = {name: value for name, value in found.result.items() if not name.startswith("sample")}
    assert standard_error([replace(found, result=older)]) is None
    assert observations([replace(found, result=older)]).over == ""
    assert observations([replace(found, result=None)]) is None
