"""Which methods of a comparison are the best, which are tied with them, and which one to use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._text import counted
from crossview._types import Array
from crossview.exceptions import NotApplicableError
from crossview.experiments.cells import Cell, Record
from crossview.experiments.plans import Panel, method_of
from crossview.report.tables import listed

Results: TypeAlias = Mapping[Cell, Record]

RAW = "RawFeatures"
AT_CHANCE = "no better than chance"
"""Note on a result that random matches would have reached."""

_ENOUGH = 5  # splits, or test classes, from which on their spread says which differences are noise
_DIGITS = 1  # of an accuracy in per cent: rows that print the same are equally good


def records(panel: Panel, results: Results, row: str, column: str | None = None) -> list[Record]:
    """The results of a row in a column, by default the first, or the parts of them that belong there."""
    where = row, panel.columns[0] if column is None else column
    found = []
    for place in panel.places:
        if (place.row, place.column) == where:
            record = results[place.cell]
            if place.part and record.result is not None:
                shared = {k: value for k, value in record.result.items() if k not in ("euclidean", "by_pca")}
                record = replace(record, result={**shared, **record.result[place.part]})
            found.append(record)
    return found


def finished(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """The results of those that were computed."""
    return [record.result for record in records if record.result is not None]


def not_applicable(records: Sequence[Record]) -> bool:
    """Whether results are missing only because the method cannot be applied to the data."""
    errors = [record.error for record in records if record.error is not None]
    return bool(errors) and all(error["type"] == NotApplicableError.__name__ for error in errors)


class Scores(NamedTuple):
    """Scores whose mean is a method's accuracy. Those of one group depend on each other."""

    values: Array
    groups: NDArray[Any] | None = None
    over: str = ""  # "splits", "test samples" or "test classes"; empty if there are too few splits

    def standard_error(self) -> float:
        """Standard error of the mean; nan if the scores are too few to tell."""
        if not self.over:
            return np.nan
        sums = deviations = self.values - self.values.mean()
        if self.groups is not None:
            sums = np.bincount(np.unique(self.groups, return_inverse=True)[1], deviations)
        n = len(sums)
        return float(np.sqrt(n / (n - 1) * np.sum(sums**2)) / len(self.values)) if n > 1 else np.nan


class Ranking(NamedTuple):
    """The rows with the highest printed accuracy, those tied with one of them, and what standard errors are over."""

    best: list[str]
    tied: list[str]
    over: str


def scores_of(found: Sequence[Record], score: str = "score") -> Scores | None:
    """The scores of several splits or, if there is a single one, of its test samples; None if any is missing.

    Only accuracy, ``"score"``, is known of test samples. Test classes that were not trained on stand for others like
    them, so their samples form groups; test samples of known classes stand for further samples.
    """
    done = finished(found)
    if not done or len(done) < len(found):
        return None
    if len(done) > 1 or score != "score" or "sample_scores" not in done[0]:  # which only single splits have
        over = "splits" if len(done) >= _ENOUGH else ""
        return Scores(np.array([result[score] for result in done]), None, over)
    values = np.array(done[0]["sample_scores"], dtype=np.float64)
    known = ~np.isnan(values)
    if done[0]["tests_on"] == "classes" and done[0]["n_test_classes"] >= _ENOUGH:
        return Scores(values[known], np.array(done[0]["sample_classes"])[known], "test classes")
    return Scores(values[known], None, "test samples")


def known_scores(panel: Panel, results: Results, score: str = "score") -> dict[str, Scores]:
    """The scores of the rows that have a result in every split, the best first."""
    found = {row: scores_of(records(panel, results, row), score) for row in panel.rows}
    known = {row: scores for row, scores in found.items() if scores is not None}
    return dict(sorted(known.items(), key=lambda item: -item[1].values.mean()))


def rank(panel: Panel, results: Results) -> Ranking:
    """The rows with the best accuracy, and those whose difference from one of them is within two standard errors."""
    known = known_scores(panel, results)
    printed = {row: round(100 * float(scores.values.mean()), _DIGITS) for row, scores in known.items()}
    best = [row for row, accuracy in printed.items() if accuracy == max(printed.values())]
    tied = [row for row in known if row not in best and any(_are_tied(known[one], known[row]) for one in best)]
    return Ranking(best, tied, known[best[0]].over if best else "")


def _are_tied(one: Scores, other: Scores) -> bool:
    """Whether paired differences are small compared with their standard error."""
    gaps = one._replace(values=one.values - other.values)
    return bool(abs(gaps.values.mean()) <= 2 * gaps.standard_error())


def leaders(panel: Panel, results: Results, score: str) -> dict[str, float]:
    """The means of the best row by a score and of those within two standard errors of a share of the test samples."""
    known = known_scores(panel, results, score)
    means = {row: float(one.values.mean()) for row, one in known.items()}
    top = max(means.values(), default=0.0)
    n_test = np.mean([result["n_test"] for row in known for result in finished(records(panel, results, row))] or [1])
    return {row: mean for row, mean in means.items() if mean >= top - 2 * np.sqrt(max(top * (1 - top), 0.0) / n_test)}


def at_chance(panel: Panel, results: Results, row: str) -> bool:
    """Whether a method matches no better than chance: within two standard errors of what random matches score."""
    done = finished(records(panel, results, row))
    # Splits share their samples, so that several say little more than one.
    means = [float(np.mean([result[name] for result in done])) for name in ("score", "chance", "n_test") if done]
    return bool(done) and no_better(*means)


def no_better(score: float, chance: float, n: float) -> bool:
    """Whether the accuracy of n samples is within two standard errors of what random matches score."""
    return bool(score <= chance + 2 * np.sqrt(chance * (1 - chance) / n))


def recommend(panel: Panel, results: Results, tune: str) -> dict[str, Any] | None:
    """The row to use, its mean validation score, and the command that trains it, which starts with `tune`.

    Validation scores alone decide: choosing by test scores would flatter the choice. None if no row has a result in
    every split.
    """
    validation = {row: one.values for row, one in known_scores(panel, results, "held_out_score").items()}
    if not validation:
        return None
    row = recommended_row(validation)
    place = next(place for place in panel.places if place.row == row)
    members = f" --n-members {place.cell.search.n_members}" if place.part else ""
    command = f"{tune} --method {place.cell.method}{members} -o my.model"
    return {"row": row, "validation": float(np.mean(validation[row])), "command": command}


def recommended_row(validation: Mapping[str, Sequence[float] | Array]) -> str:
    """The row with the highest mean validation score; the scores are given by split.

    `RawFeatures` counts as equal if its paired difference from that row is within one standard error over the splits.
    Then it is taken: what learns nothing needs no training and no care.

    >>> recommended_row({"RawFeatures": [0.7, 0.9, 0.7], "MvDA": [0.8, 0.8, 0.8], "PCA": [0.4, 0.5, 0.4]})
    'RawFeatures'
    """
    best = max(validation, key=lambda row: np.mean(validation[row]))
    if RAW in validation:
        gaps = np.subtract(validation[best], validation[RAW])
        error = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        if gaps.mean() <= error:
            return RAW
    return best


def comparison_summary(panel: Panel, results: Results, remark: str = "", about: str = "") -> str:
    """Which methods are the best; what they were compared with, and `remark`; `about` the data; and what to use."""
    result = _first(panel, results)
    if result is None:
        reasons = [f"{method}: {reason}" for found in failures(panel, results) for method, reason in found.items()]
        return " ".join(["No method could be run.", *reasons, remark]).strip()
    folds, tested = result["folds_of"], result.get("tests_on", panel.places[0].cell.split.kind)
    protocol = [
        _sizes(panel, result),
        remark,
        f"Parameters were chosen by cross-validation over folds of {folds}; the test is on new {tested}.",
        f"Random matches would score {_percent(result['chance'])}.",
        "A probe's own counterpart, the same sample in the other view, is left out of the gallery if its class has "
        "another sample there.",
    ]
    if result["skipped"]:
        skipped = f"{counted(result['skipped'], 'probe')} of {result['probes']}"
        protocol.append(f"Not scored: {skipped}, whose class the gallery lacks.")
    best = " ".join([*_best(panel, results), *_other_orders(panel, results)])
    return "\n\n".join(filter(None, [best, " ".join(filter(None, protocol)), about, advice(panel, results)]))


def _first(panel: Panel, results: Results) -> Mapping[str, Any] | None:
    return next(filter(None, (results[place.cell].result for place in panel.places)), None)


def _sizes(panel: Panel, result: Mapping[str, Any]) -> str:
    """What was trained on, and what was tested on."""
    split, classes = panel.places[0].cell.split, result["n_test_classes"]
    new = result.get("n_new_classes", classes if split.kind == "classes" else 0)
    seen = {0: "all", classes: "none"}.get(new, f"{classes - new}")
    where = "in the given test set" if split.kind == "given" else f"in {counted(split.n_repeats, 'random split')}"
    trained = f"{counted(result['n_train'], 'sample')} of {counted(result['n_train_classes'], 'class')}"
    if single := result["n_train_single"]:
        trained += f" ({single} of the samples in one view only)"
    tested = f"{counted(result['n_test'], 'sample')} of {counted(classes, 'class')}"
    return f"Trained on {trained}, tested on {tested}, {seen} of them seen in training, {where}."


def _best(panel: Panel, results: Results) -> list[str]:
    """Which methods are the best, and how many did not run."""
    known, (best, tied, over) = known_scores(panel, results), rank(panel, results)
    missing = zip(("not applicable", "failed"), failures(panel, results), strict=True)
    others = ", ".join(f"{len(found)} {what}" for what, found in missing if found)
    aside = f" ({others})" if others else ""
    if not best:
        return [f"No method has a result in every split{aside}."]
    n_methods = len([row for row in known if row == method_of(row)])
    committees = f" and {counted(len(known) - n_methods, 'committee')}" if len(known) > n_methods else ""
    among = f"The best of {counted(n_methods, 'method')}{committees}{aside}"
    score = _percent(known[best[0]].values.mean())
    sentences = [f"{among} {'is' if len(best) == 1 else 'are'} {listed(best)}, with {score}."]
    if tied:
        sentences.append(f"Tied with the best: {listed(tied)}.")
    if over and (tied or len(best) > 1):
        sentences.append(f"Ties are differences within two standard errors over the {over}.")
    elif not over and len(known) > 1:
        sentences.append("With fewer than 5 splits, differences may be noise.")
    return sentences


def _other_orders(panel: Panel, results: Results) -> list[str]:
    """Where none of the best by accuracy is among the best by another score."""
    best, sentences = rank(panel, results).best, []
    others = {
        "with_counterparts": "With its own counterpart enrolled for each probe",
        "one_shot": "With one enrolled sample per class",
        "average_precision": "By mean average precision",
    }
    for score, where in others.items():
        ahead = leaders(panel, results, score)
        if best and not set(best) & set(ahead):
            first, own = next(iter(ahead)), known_scores(panel, results, score)[best[0]].values.mean()
            found = f"{_percent(ahead[first])} against {_percent(own)} for {best[0]}"
            means = ": it matches the moment, not the class" if score == "with_counterparts" else ""
            sentences.append(f"{where}, {first} is ahead ({found}){means}.")
    return sentences


def advice(panel: Panel, results: Results) -> str:
    """What to use, and whether learning helps, in a few sentences; empty if no row has a result in every split."""
    rows, tested = known_scores(panel, results, "held_out_score"), known_scores(panel, results)
    if not rows:
        return ""
    means = {row: _percent(one.values.mean()) for row, one in rows.items()}
    chosen = recommended_row({row: one.values for row, one in rows.items()})
    sentences = [f"Recommended by validation scores alone: {chosen}, with {means[chosen]} there."]
    if chosen == RAW and len(rows) > 1:
        sentences.append("Learning does not help here: match the features as they are.")
    elif RAW in rows and chosen != RAW:
        sentences.append(f"{RAW}, which learns nothing, has {means[RAW]}.")
        raw, own = tested[RAW], tested[chosen]
        gaps = raw._replace(values=raw.values - own.values, over=raw.over or "splits")
        if gaps.values.mean() > 2 * gaps.standard_error():
            found = f"{_percent(raw.values.mean())} against {_percent(own.values.mean())}"
            sentences.append(
                f"On the test part, however, {RAW} is better ({found}): are the test data like the training data?"
            )
    hopeless = [row for row in rows if at_chance(panel, results, row)]
    if len(hopeless) == len(rows):
        sentences.append("On the test part, no method is better than chance.")
        if panel.places[0].cell.split.kind == "classes":
            sentences.append("If you will only match classes that are in the training data, use --split samples.")
        sentences.append("The checklist for poor accuracy, docs/checklist.md, has the usual causes.")
    elif chosen in hopeless:
        sentences.append("On the test part, it is no better than chance.")
    return " ".join(sentences)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def failures(panel: Panel, results: Results) -> tuple[dict[str, str], dict[str, str]]:
    """Why methods cannot be applied, and why others have no result in some splits."""
    absent: dict[str, str] = {}
    failed: dict[str, str] = {}
    for method in dict.fromkeys(map(method_of, panel.rows)):
        found = records(panel, results, method)
        if errors := [record.error for record in found if record.error is not None]:
            (absent if not_applicable(found) else failed)[method] = errors[0]["message"]
    return absent, failed


def comparison_facts(panel: Panel, results: Results, tune: str) -> dict[str, Any]:
    """The summary for machines: data, sizes, split, folds, the best and those tied with it, and what did not run.

    `tune` is the start of the command that trains what is recommended.
    """
    cell, result = panel.places[0].cell, _first(panel, results) or {}
    best, tied, over = rank(panel, results)
    absent, failed = failures(panel, results)
    parts = ("train", "test") if result else ()
    sizes = {part: {"samples": result[f"n_{part}"], "classes": result[f"n_{part}_classes"]} for part in parts}
    return {
        "data": {"name": cell.data, **dict(cell.options)},
        "views": result.get("views", []),
        "sizes": sizes or None,
        "split": cell.split.to_dict(),
        "folds_of": result.get("folds_of"),
        "best": best,
        "tied": tied,
        "standard_errors_over": over or None,
        "recommended": recommend(panel, results, tune),
        "not_applicable": absent,
        "failures": failed,
    }
