"""Which row of a comparison to use, by validation scores alone: choosing by test scores would flatter the choice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crossview.experiments.plans import Panel
from crossview.report.results import Results, at_chance
from crossview.report.standing import known_scores

RAW = "RawFeatures"


class Recommendation(NamedTuple):
    """A row, its mean validation score, and the command that trains it."""

    row: str
    validation: float
    command: str


def recommended_row(validation: Mapping[str, Sequence[float]]) -> str:
    """The row with the highest mean validation score; the scores are given by split.

    `RawFeatures` counts as equal if its paired difference from that row is within one standard error over the splits.
    Then it is taken: what learns nothing needs no training and no care.

    >>> recommended_row({"RawFeatures": [0.7, 0.9, 0.7], "MvDA": [0.8, 0.8, 0.8], "PCA": [0.4, 0.5, 0.4]})
    'RawFeatures'
    """
    means = {row: float(np.mean(scores)) for row, scores in validation.items()}
    best = max(means, key=lambda row: means[row])
    return RAW if RAW in validation and _is_equal(validation[best], validation[RAW]) else best


def _is_equal(best: Sequence[float], other: Sequence[float]) -> bool:
    gaps = np.subtract(best, other)
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return bool(gaps.mean() <= error)


def recommend(panel: Panel, results: Results, tune: str = "") -> Recommendation | None:
    """The recommended row; None if no row has a result in every split.

    `tune` is the start of the command that trains it, such as ``crossview tune DATA``.
    """
    validation = _validation(panel, results)
    if not validation:
        return None
    row = recommended_row(validation)
    place = next(place for place in panel.places if place.row == row)
    members = f" --members {place.cell.search.members}" if place.part else ""
    command = f"{tune} --method {place.cell.method}{members} -o my.model" if tune else ""
    return Recommendation(row, float(np.mean(validation[row])), command)


def advice(panel: Panel, results: Results) -> str:
    """What to use, and whether learning helps, in a few sentences; empty if no row has a result in every split."""
    chosen = recommend(panel, results)
    if chosen is None:
        return ""
    means = {row: float(np.mean(scores)) for row, scores in _validation(panel, results).items()}
    best, raw = max(means, key=lambda row: means[row]), means.get(RAW)
    sentences = [f"Recommended by validation scores alone: {chosen.row}, with {_percent(chosen.validation)} there."]
    if means[best] > chosen.validation:
        sentences.append(f"{best} has {_percent(means[best])}, within one standard error, but {chosen.row} is simpler.")
    if chosen.row == RAW and len(means) > 1:
        sentences.append("Learning does not help here: match the features as they are.")
    elif raw is not None and chosen.row != RAW:
        sentences.append(f"{RAW}, which learns nothing, has {_percent(raw)}.")
        sentences += _warning(panel, results, chosen.row)
    hopeless = [row for row in means if at_chance(panel, results, row, panel.columns[0])]
    if len(hopeless) == len(means):
        sentences.append("On the test part, no method is better than chance.")
        if panel.places[0].cell.split.kind == "classes":
            sentences.append("If you will only match classes that are in the training data, use --split samples.")
        sentences.append("The checklist for poor accuracy, docs/checklist.md, has the usual causes.")
    elif chosen.row in hopeless:
        sentences.append("On the test part, it is no better than chance.")
    return " ".join(sentences)


def _warning(panel: Panel, results: Results, row: str) -> list[str]:
    """A warning if doing nothing is better on the test part by more than two standard errors."""
    scores = known_scores(panel, results, panel.columns[0])
    raw, own = scores[RAW], scores[row]
    gaps = raw._replace(values=raw.values - own.values, over=raw.over or "splits")
    if not gaps.values.mean() > 2 * gaps.standard_error():
        return []
    found = f"{_percent(raw.values.mean())} against {_percent(own.values.mean())}"
    return [f"On the test part, however, {RAW} is better ({found}): are the test data like the training data?"]


def _validation(panel: Panel, results: Results) -> dict[str, list[float]]:
    """Validation scores by split of the rows that have a result in every split."""
    found = known_scores(panel, results, panel.columns[0], "held_out_score")
    return {row: scores.values.tolist() for row, scores in found.items()}


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
