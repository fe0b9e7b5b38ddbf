"""Which methods are the best, which are tied, which one is recommended, and what is said of it.

Errors are compared with slow, literal formulas; recommendations are made on records made by hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crossview.experiments import Cell, Search, Split
from crossview.experiments.plans import Panel, Place, comparison
from crossview.report.ranking import (
    Scores,
    advice,
    comparison_facts,
    comparison_summary,
    rank,
    recommend,
    recommended_row,
    scores_of,
)
from records import record, recorded, result

RNG = np.random.default_rng(0)
CLASSES = np.repeat(np.arange(12), 5)
NOISE = np.array([0.02, -0.02, 0.01, -0.01, 0.0])


def records(scores, tests_on="samples"):
    cell = Cell(data="x", method="MvDA", split=Split("given", 10, 1))
    more = {
        "sample_scores": [None if np.isnan(s) else float(s) for s in scores],
        "sample_classes": CLASSES[: len(scores)].tolist(),
        "n_test_classes": len(np.unique(CLASSES[: len(scores)])),
    }
    return [record(cell, result(float(np.nanmean(scores)), tests_on=tests_on, **more))]


def ranked(n_repeats=1, **scores):
    """The ranking of methods with these scores of samples, or of splits if there are several."""
    split = Split("samples", 10, n_repeats)
    cells = {row: [Cell(data=row, method="MvDA", split=split, repeat=k) for k in range(n_repeats)] for row in scores}
    places = tuple(Place(row, "x", cell) for row, its in cells.items() for cell in its)
    if n_repeats > 1:
        results = {place.cell: record(place.cell, result(scores[place.row][place.cell.repeat])) for place in places}
    else:
        results = {cells[row][0]: records(np.asarray(found, float))[0] for row, found in scores.items()}
    return rank(Panel("comparison", "", places), results)


def test_the_error_over_samples_is_that_of_a_mean():
    scores = RNG.uniform(size=60)
    scores[::7] = np.nan  # samples that are no probes
    known = scores[~np.isnan(scores)]
    assert scores_of(records(scores)).standard_error() == pytest.approx(np.std(known, ddof=1) / np.sqrt(len(known)))


def test_the_error_over_new_classes_is_that_of_the_means_of_classes():
    """Of classes of one size; samples of a class that are alike are worth one."""
    scores = RNG.uniform(size=12)[CLASSES] + 0.01 * RNG.uniform(size=60)
    means = [scores[c == CLASSES].mean() for c in range(12)]
    found = records(scores, "classes")
    assert scores_of(found).over == "test classes"
    assert scores_of(found).standard_error() == pytest.approx(np.std(means, ddof=1) / np.sqrt(12))
    assert scores_of(found).standard_error() > 1.9 * scores_of(records(scores)).standard_error()
    assert scores_of(records(RNG.uniform(size=20), "classes")).over == "test samples"  # too few classes


def test_an_error_agrees_with_the_bootstrap():
    sizes = RNG.integers(1, 9, size=40)
    groups = np.repeat(np.arange(40), sizes)
    scores = RNG.uniform(size=40)[groups] + RNG.normal(0, 0.1, size=len(groups))
    draws = []
    for _ in range(4000):
        rows = np.concatenate([np.flatnonzero(groups == c) for c in RNG.integers(0, 40, size=40)])
        draws.append(scores[rows].mean())
    assert Scores(scores, groups, "test classes").standard_error() == pytest.approx(np.std(draws), rel=0.08)


def test_paired_differences_decide():
    easy = RNG.uniform(size=60)
    best, near, far = easy + 0.05, easy + 0.04 * RNG.choice([-1.0, 1.0], size=60) + 0.045, easy
    assert ranked(A=best, B=near, C=far) == (["A"], ["B"], "test samples")
    # The spread of the scores themselves is far larger than the difference that counts.
    assert np.std(easy) / np.sqrt(60) > 0.03


@pytest.mark.parametrize(("scores", "tied"), [((0.4, 0.8) * 3, ["A"]), ((0.5,) * 6, []), ((0.4, 0.8), [])])
def test_ties_are_told_by_the_splits(scores, tied):
    """A is behind by 0.1 on average: with differences that vary much a tie, with equal ones not."""
    n = len(scores)
    assert ranked(n_repeats=n, A=scores, B=[0.7] * n) == (["B"], tied, "splits" if n >= 5 else "")


def test_what_is_tied_with_one_of_the_best_is_tied():
    """B and A are equal; C differs from B everywhere by the same, from A in a way that may be noise."""
    a = np.tile([1.0, 0.0], 30)
    b = np.full(60, 0.5)
    c = b - 0.01
    assert ranked(A=a, B=b, C=c) == (["A", "B"], ["C"], "test samples")
    assert ranked(C=c, B=b, A=a) == (["B", "A"], ["C"], "test samples")  # in their order


def compared(rows, committees=(), kind="classes", **shared):
    """A comparison, and its results: row → score → values by split. Scores that are not given are all alike."""
    methods = [row for row in rows if "×" not in row]
    n = len(next(iter(next(iter(rows.values())).values())))
    split = Split("given", 100, 1) if kind == "given" else Split(kind, 0.5, n)
    panel = comparison("faces", {"case": 2}, methods, split, Search(n_members=8), committees)
    alike = dict.fromkeys(("score", "held_out_score", "one_shot", "average_precision", "with_counterparts"), [0.5] * n)

    def of_row(row, k):
        found = alike | rows[row]
        found = {"sample_scores": [found["score"][k]] * 2} | found
        return {name: values[k] if name in alike else values for name, values in found.items()}

    def compute(place):
        committee = of_row(f"{place.row} × 8", place.cell.repeat) if place.row in committees else {}
        return result(0.5, committee=committee) | shared | of_row(place.row, place.cell.repeat)

    own = replace(panel, places=tuple(place for place in panel.places if not place.part))
    return panel, recorded(own, compute)


def around(mean, noise=0.0):
    return (mean + noise * NOISE).tolist()


def test_doing_nothing_wins_within_one_standard_error_of_the_paired_difference():
    gaps = np.array([0.05, 0.01, -0.01, 0.03, 0.0])
    error = np.sqrt(np.mean((gaps - gaps.mean()) ** 2) * 5 / 4 / 5)
    best = np.array([0.9, 0.3, 0.5, 0.7, 0.6])  # splits differ far more than methods do
    for factor, chosen in ((0.99, "RawFeatures"), (1.01, "KMvHE × 8")):
        other = (best - gaps + gaps.mean() - factor * error).tolist()
        assert recommended_row({"KMvHE × 8": best.tolist(), "RawFeatures": other}) == chosen
        assert recommended_row({"KMvHE × 8": best.tolist(), "MvDA": other}) == "KMvHE × 8"
    # A single split has no standard error.
    assert recommended_row({"RawFeatures": [0.5], "MvDA": [0.501], "KMvHE": [0.502]}) == "KMvHE"
    assert recommended_row({"KMvHE": [0.5], "RawFeatures": [0.5]}) == "RawFeatures"


def test_validation_decides_and_not_the_test():
    rows = {
        "RawFeatures": {"held_out_score": around(0.4), "score": around(0.3)},
        "MvDA": {"held_out_score": around(0.8), "score": around(0.5)},
        "PCA": {"held_out_score": around(0.6), "score": around(0.9)},
    }
    panel, results = compared(rows)
    facts = comparison_facts(panel, results, "crossview tune faces --case 2")
    assert facts["best"] == ["PCA"]
    command = "crossview tune faces --case 2 --method MvDA -o my.model"
    assert facts["recommended"] == {"row": "MvDA", "validation": pytest.approx(0.8), "command": command}
    said = (
        "Recommended by validation scores alone: MvDA, with 80.0 % there. "
        "RawFeatures, which learns nothing, has 40.0 %."
    )
    assert comparison_summary(panel, results, about="About the data.").split("\n\n")[2:] == ["About the data.", said]
    rows = {"MvHE": {"held_out_score": around(0.6)}, "MvHE × 8": {"held_out_score": around(0.7)}}
    panel, results = compared(rows, committees=["MvHE"])
    found = recommend(panel, results, "crossview tune faces")
    assert found["row"] == "MvHE × 8"
    assert found["command"] == "crossview tune faces --method MvHE --n-members 8 -o my.model"
    assert "RawFeatures" not in advice(panel, results)  # it did not run


@pytest.mark.parametrize("learned", [0.5, 0.699, 0.701])
def test_learning_that_does_not_help_is_called_so(learned):
    rows = {"RawFeatures": {"held_out_score": around(0.7, 1)}, "MvDA": {"held_out_score": around(learned)}}
    panel, results = compared(rows)
    assert "Learning does not help here: match the features as they are." in advice(panel, results)
    assert recommend(panel, results, "crossview tune faces")["row"] == "RawFeatures"
    del rows["MvDA"]
    assert advice(*compared(rows)).endswith("RawFeatures, with 70.0 % there.")


@pytest.mark.parametrize(("gap", "warned"), [(0.3, True), (0.012, False), (-0.3, False)])
@pytest.mark.parametrize("n", [2, 5])
def test_a_choice_that_fails_the_test_is_warned_of(gap, warned, n):
    """Two standard errors of the difference are 0.014 with five splits, and 0.04 with the first two."""
    rows = {
        "RawFeatures": {"held_out_score": around(0.4)[:n], "score": around(0.6, 1)[:n]},
        "MvDA": {"held_out_score": around(0.8)[:n], "score": around(0.6 - gap)[:n]},
    }
    text = advice(*compared(rows))
    assert ("On the test part, however, RawFeatures is better (60.0 % against 30.0 %)" in text) == warned


def test_a_given_test_set_is_judged_sample_by_sample():
    def rows(own):
        shared = {"tests_on": "samples", "sample_classes": [0] * 90, "n_new_classes": 0}
        raw = {"held_out_score": [0.4], "score": [2 / 3], "sample_scores": [1.0, 0.0, 1.0] * 30}
        learned = {"held_out_score": [0.8], "score": [np.mean(own)], "sample_scores": own}
        return compared({"RawFeatures": raw, "MvDA": learned}, kind="given", **shared)

    assert "however, RawFeatures is better (66.7 % against 33.3 %)" in advice(*rows([1.0, 0.0, 0.0] * 30))
    assert "however" not in advice(*rows([1.0, 1.0, 0.0] * 30))


def test_what_is_at_chance_is_called_so():
    chance = {"held_out_score": around(0.2), "score": around(0.1)}
    other = {"held_out_score": around(0.1), "score": around(0.5)}
    said = advice(*compared({"MvHE": chance, "PCA": other}))
    assert said.endswith("On the test part, it is no better than chance.")


@pytest.mark.parametrize(("kind", "told"), [("classes", True), ("samples", False), ("given", False)])
def test_if_all_methods_are_at_chance_the_causes_are_pointed_to(kind, told):
    chance = {"held_out_score": around(0.2), "score": around(0.1)}
    said = advice(*compared({"MvHE": chance, "RawFeatures": chance}, kind=kind))
    assert "On the test part, no method is better than chance." in said
    assert "docs/checklist.md" in said
    assert ("use --split samples" in said) == told


def test_without_a_complete_row_nothing_is_recommended():
    panel, results = compared({"PCA": {"score": around(0.5)}, "MvDA": {}})
    failed = {cell: one if cell.repeat else record(cell, error="singular") for cell, one in results.items()}
    assert recommend(panel, failed, "") is None
    assert advice(panel, failed) == ""
    assert comparison_facts(panel, failed, "")["recommended"] is None


@pytest.mark.parametrize(
    ("score", "said"),
    [
        ("with_counterparts", "With its own counterpart enrolled for each probe, LDA is ahead (53.8 % against"),
        ("one_shot", "With one enrolled sample per class, LDA is ahead (53.8 % against 12.2 % for MvHE)."),
        ("average_precision", "By mean average precision, LDA is ahead (53.8 % against 12.2 % for MvHE)."),
    ],
)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_another_order_by_another_score_is_told(score, said, n):
    rows = {
        "LDA": {"score": around(0.7)[:n], score: around(0.538)[:n]},
        "MvHE": {"score": around(0.72)[:n], score: around(0.122)[:n]},
    }
    assert said in comparison_summary(*compared(rows))
    rows["MvHE"][score] = around(0.53, 1)[:n]  # within the noise of 90 samples
    assert "is ahead" not in comparison_summary(*compared(rows))
