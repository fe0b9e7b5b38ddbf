"""The report of an evaluation of one model on test samples."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, log10

import numpy as np

from crossview._text import counted
from crossview.datasets import Dataset
from crossview.matching.calibration import LEAST_ERRORS
from crossview.matching.evaluation import Direction, Estimate, Evaluation, Scores
from crossview.report.comparison import environment_section
from crossview.report.document import Curve, Curves, Entry, Facts, Item, Report, ResultTable, Section
from crossview.report.ranking import AT_CHANCE, no_better

_RANKS = (1, 5, 10)
_MOST_RANKS = 20  # of a curve
_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # of a decade, where curves are drawn
_TOO_FEW = f"Too few pairs of two classes, or searches for strangers: a rate r needs {LEAST_ERRORS} / r or more."
_FMR = "The false match rate (FMR) is the share of pairs of two classes that match."
_FPIR_FNIR = (
    "The false positive identification rate (FPIR) is the share of searches for strangers, whose class is not in the "
    "gallery, that return a class. The false negative identification rate (FNIR) is the share of searches for enrolled "
    "classes that do not return the right one."
)
_OPEN_SET = (
    f"A search returns the nearest class if it is within a threshold. {_FPIR_FNIR} A lower threshold trades false "
    "positives for false negatives. Every probe is searched in the gallery as it is, and once more without the samples "
    "of its class, as a stranger."
)
_VERIFICATION = (
    "Verification asks whether a probe and a gallery sample are of the same class. The false match rate is the share "
    "of pairs of two classes within a threshold, the true match rate that of pairs of one class. At the equal error "
    "rate, as large a share of the former match as of the latter do not."
)


def evaluation_report(
    evaluation: Evaluation, data: Dataset, model: str, facts: Mapping[str, str], command: str
) -> Report:
    """The page of an evaluation; the facts name the model and the data."""
    items: dict[str, Item] = {table.key: table for table in evaluation_tables(evaluation)}
    items |= {curves.key: curves for curves in _curves(evaluation)}
    planned = [
        ("Accuracy", ("accuracy",), ""),
        ("How soon a match is found", ("ranks", "cmc"), ""),
        ("Unknown probes", ("identification", "threshold", "open-set"), _OPEN_SET),
        ("Verification", ("verification", "roc", "det"), _VERIFICATION),
    ]
    sections = [Section(title, [items[key] for key in keys if key in items], text) for title, keys, text in planned]
    if evaluation.confusions:
        sections.append(Section("Errors", [_confusions(evaluation, data)]))
    about = {**facts, "distance": evaluation.metric, "intervals": _how_intervals(evaluation)}
    for one in evaluation.directions:
        strangers = f", and {counted(one.n_skipped, 'stranger')}" if one.n_skipped else ""
        sizes = f"{counted(one.n_probes, 'probe')} in {counted(one.n_gallery, 'gallery sample')}"
        about[_name(one)] = sizes + strangers
    sections += [Section("Setting", [Facts("setting", "What was evaluated", about)]), environment_section([], data)]
    summary = " ".join(filter(None, (data.description, evaluation_summary(evaluation))))
    return Report(f"Evaluation of {model}", summary, [one for one in sections if one.items], command)


def evaluation_summary(evaluation: Evaluation) -> str:
    """What was evaluated and how good it is, in a few sentences."""
    mean, at = evaluation.mean, evaluation.at_threshold
    samples = f"{counted(evaluation.n_samples, 'test sample')} of {counted(evaluation.n_classes, 'class')}"
    sentences = [f"{samples}, matched in {counted(len(evaluation.directions), 'direction')}."]
    if mean.accuracy is not None:
        verdict = f", {AT_CHANCE}" if _at_chance(mean, evaluation.n_samples) else ""
        chance = f"random matches would score {100 * mean.chance:.1f} %"
        sentences.append(f"Accuracy is {_percent(mean.accuracy)}{verdict}; {chance}.")
    if skipped := sum(one.n_skipped for one in evaluation.directions):
        probes = f"{counted(skipped, 'probe')} whose class is not in the gallery"
        sentences.append(f"Strangers, which accuracy leaves out: {probes}.")
    if at is not None and at.strangers_matched is not None:
        sentences.append(f"At the threshold, {_percent(at.strangers_matched)} of the strangers are accepted.")
    sentences.append(f"In brackets: {_how_intervals(evaluation)}.")
    if mean.one_shot_accuracy is not None and _several_per_class(evaluation):
        sentences.append(f"With one enrolled sample per class, accuracy is {_percent(mean.one_shot_accuracy)}.")
        if mean.accuracy_with_counterparts is not None:
            sentences.append(
                "The gallery leaves out each probe's own counterpart, the same sample in the other view. With it, "
                f"as in the paper, accuracy is {_percent(mean.accuracy_with_counterparts)}."
            )
    if evaluation.n_unlabelled:
        sentences.append(f"Left out without a label: {counted(evaluation.n_unlabelled, 'sample')}.")
    return " ".join(sentences)


def _several_per_class(evaluation: Evaluation) -> bool:
    """Whether a gallery has several samples of a class."""
    return any(one.n_gallery > one.n_gallery_classes for one in evaluation.directions)


def evaluation_notes(evaluation: Evaluation) -> list[str]:
    """What tables alone do not say: why values are missing, and what the rates are shares of."""
    tables = evaluation_tables(evaluation)
    notes = [entry.note for table in tables for entry in table.entries if entry.mean is None]
    terms = {"verification": _FMR, "identification": _FPIR_FNIR}
    terms |= {table.key: table.caption for table in tables if table.key == "threshold"}
    return [*notes, *(terms[table.key] for table in tables if table.key in terms)]


def evaluation_tables(evaluation: Evaluation) -> list[ResultTable]:
    """Accuracy, verification and identification by direction, and what a matcher does at its threshold.

    If all probes are strangers, there is only the last.
    """
    if evaluation.mean.accuracy is None:
        return _threshold_table(evaluation)
    accuracy = (
        "Accuracy is the share of probes whose nearest gallery sample is of their class. Mean average precision also "
        "counts the ranks of the other samples of the class. "
    )
    if _several_per_class(evaluation):
        accuracy += "One enrolled sample per class: the accuracy in galleries of one random sample per class. "
        if evaluation.mean.accuracy_with_counterparts is not None:
            accuracy += (
                "The gallery leaves out the probe's own counterpart, the same sample in the other view, if its class "
                "has another. With own counterpart: the accuracy if it stays, as in the paper. "
            )
    ranked = "The share of probes whose class is among the nearest classes, up to the rank. "
    failed = "The share of searches for enrolled classes that fail, by that of strangers who match. "
    tables = [
        ("accuracy", "Accuracy by direction", accuracy),
        ("ranks", "Matches by rank", ranked),
        ("verification", "Verification by direction", f"{_FMR} "),
        ("identification", "Open-set identification", failed),
    ]
    return [*(_table(evaluation, *table) for table in tables), *_threshold_table(evaluation)]


def _table(evaluation: Evaluation, key: str, title: str, caption: str) -> ResultTable:
    """A table with a row per direction, and one of their means."""
    found = [(_name(one), one.scores, one.n_probes) for one in evaluation.directions]
    if len(found) > 1:
        found.append(("mean", evaluation.mean, evaluation.n_samples))
    rows = {}
    for row, scores, n in found:
        values = _values(evaluation, scores)[key]
        rows[row] = [_entry(value, _TOO_FEW) for value in values.values()]
        if key == "accuracy" and _at_chance(scores, n):
            rows[row][0] = replace(rows[row][0], note=AT_CHANCE)
    caption += "A row is a direction: probes of one view in a gallery of another."
    return ResultTable(key, title, list(values), rows, caption, row_head="direction", best="")


def _values(evaluation: Evaluation, scores: Scores) -> dict[str, dict[str, Estimate | None]]:
    """Scores by table and column; an evaluation has the same columns for all directions."""
    accuracy = {"accuracy": scores.accuracy}
    several = _several_per_class(evaluation)
    if several:
        accuracy["one enrolled sample per class"] = scores.one_shot_accuracy
    accuracy["mean average precision"] = scores.average_precision
    if several and evaluation.mean.accuracy_with_counterparts is not None:
        accuracy["with own counterpart"] = scores.accuracy_with_counterparts
    # Up to the number of classes, everything is found.
    shown = [rank for rank in _RANKS if rank == 1 or rank < len(evaluation.mean.cmc)]
    true = {f"true match rate at FMR {rate:.10g}": value for rate, value in scores.true_match_rates.items()}
    return {
        "accuracy": accuracy,
        "ranks": {f"rank {rank}": scores.cmc[min(rank, len(scores.cmc)) - 1] for rank in shown},
        "verification": {"equal error rate": scores.equal_error_rate, **true},
        "identification": {f"FNIR at FPIR {r:.10g}": value for r, value in scores.false_negative_rates.items()},
    }


def _at_chance(scores: Scores, n: int) -> bool:
    return scores.accuracy is not None and no_better(scores.accuracy.value, scores.chance, n)


def _threshold_table(evaluation: Evaluation) -> list[ResultTable]:
    """What the matcher does at its threshold; empty if it has none."""
    at = evaluation.at_threshold
    if at is None:
        return []
    (direction,) = evaluation.directions
    columns = {"strangers matched": _entry(at.strangers_matched, "There are no strangers among the probes.")}
    caption = (
        f"At the model's threshold, {at.threshold:.4g}. Strangers matched: of the {counted(at.n_strangers, 'probe')} "
        "whose class is not in the gallery, the share that is accepted."
    )
    if direction.n_probes:
        columns |= {
            "FPIR": _entry(at.false_positive_rate),
            "enrolled rejected": _entry(at.false_rejection_rate),
            "accuracy of the accepted": _entry(at.accuracy_accepted),
        }
        caption += (
            f" FPIR: the same share of {counted(direction.n_nonmated, 'search')}, in which probes of enrolled classes "
            "are strangers too: each is searched in the gallery without its class. Enrolled rejected: of the "
            f"{counted(direction.n_probes, 'probe')} of enrolled classes, the share that is rejected. Accuracy of "
            "the accepted: of the others, the share whose nearest gallery sample is of their class."
        )
    rows = {_name(direction): list(columns.values())}
    return [ResultTable("threshold", "At the threshold", list(columns), rows, caption, row_head="direction", best="")]


def _curves(evaluation: Evaluation) -> list[Curves]:
    """Match curves, ROC, DET and the open-set trade-off of all directions that have such comparisons."""
    matched, true, missed, failed = {}, {}, {}, {}
    for one in evaluation.directions:
        name, scores = _name(one), one.scores
        if scores.cmc:
            shares = [100 * rank.value for rank in scores.cmc[:_MOST_RANKS]]
            matched[name] = Curve(range(1, len(shares) + 1), shares)
        if scores.equal_error_rate:
            rates = _levels(one.n_gallery * (one.n_probes + one.n_skipped))
            found = np.interp(rates, [0.0, *one.roc[0]], [0.0, *one.roc[1]])
            true[name] = Curve(_percents(rates), (100 * found).tolist())
            if found[0] < 1:  # a rate of 0 has no logarithm: the curve ends there
                missed[name] = Curve(_percents(rates), np.where(found < 1, 100 - 100 * found, np.nan).tolist())
        if one.identification[0]:
            fpir, fnir = np.array(one.identification[0]), np.array(one.identification[1])
            rates = _levels(one.n_nonmated)
            least = [100 * float(min(fnir[fpir <= rate], default=1.0)) for rate in rates]
            failed[name] = Curve(_percents(rates), least)
    ranked = "The share of probes whose class is among the nearest classes of the gallery, up to the rank."
    lower = "Lower is better. Rates that would allow fewer than three false positives are not drawn."
    fmr, fpir_label = "false match rate, %", "false positive identification rate (FPIR), %"
    frames = [
        Curves("cmc", "Cumulative match curves", matched, "rank", "probes found, %", ranked),
        Curves("roc", "Receiver operating characteristic", true, fmr, "true match rate, %", log_x=True),
        Curves("det", "Detection error trade-off", missed, fmr, "false non-match rate, %", log_x=True, log_y=True),
        Curves("open-set", "Open-set error trade-off", failed, fpir_label, "FNIR, %", lower, log_x=True),
    ]
    return [frame for frame in frames if frame.curves]


def _levels(n: int) -> list[float]:
    """Rates of round numbers up to 1 that n trials can tell from 0."""
    rates = [step * 10.0**decade for decade in range(-ceil(log10(max(n, 10))), 0) for step in _STEPS]
    return [*(rate for rate in rates if rate * n >= LEAST_ERRORS), 1.0]


def _percents(rates: list[float]) -> list[float]:
    return [float(f"{100 * rate:.6g}") for rate in rates]


def _confusions(evaluation: Evaluation, data: Dataset) -> Facts:
    names = dict(zip(map(str, np.unique(data.y).tolist()), data.class_names, strict=True))
    rows = {
        f"{names.get(one.label, one.label)} taken for {names.get(one.taken_for, one.taken_for)}": (
            f"{one.count} of {counted(one.of, 'probe')}"
        )
        for one in evaluation.confusions
    }
    return Facts("confusions", "Most frequent confusions", rows, "Over all directions.")


def _how_intervals(evaluation: Evaluation) -> str:
    return (
        f"{100 * evaluation.confidence:g} % confidence intervals from {evaluation.n_bootstrap} bootstrap draws of "
        f"{evaluation.resampled}"
    )


def _name(direction: Direction) -> str:
    return f"{direction.probe} in {direction.gallery}"


def _entry(found: Estimate | None, note: str = "") -> Entry:
    if found is None:
        return Entry(note=note)
    return Entry(100 * found.value, low=100 * found.low, high=100 * found.high)


def _percent(found: Estimate) -> str:
    return f"{100 * found.value:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"
