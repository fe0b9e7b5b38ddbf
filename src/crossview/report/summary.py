"""What a comparison was made with, which methods are the best, and what to use: in sentences, and for machines."""

from collections.abc import Mapping
from typing import Any

from crossview._text import counted
from crossview.experiments.plans import Panel, method_of
from crossview.report.formatting import listed
from crossview.report.ranking import RAW, known_scores, leaders, rank, recommend
from crossview.report.results import Results, at_chance, finished, not_applicable, records


def comparison_summary(panel: Panel, results: Results, remark: str = "", about: str = "") -> str:
    """Which methods are the best; what they were compared with, and `remark`; `about` the data; and what to use."""
    result = _first(panel, results)
    if result is None:
        reasons = [f"{method}: {reason}" for method, reason in failures(panel, results).items()]
        return " ".join(filter(None, ["No method could be run.", *reasons, remark]))
    protocol = [_sizes(panel, result), remark, _folds(panel, result)]
    protocol.append(f"Random matches would score {100 * result['chance']:.1f} %.")
    if result["n_test"] > result["n_test_classes"]:
        protocol.append(
            "A probe's own counterpart, the same sample in the other view, is left out of the gallery if its class has "
            "another sample there."
        )
    if result["skipped"]:
        where = "" if panel.places[0].cell.split.n_repeats == 1 else " in the first split"
        skipped = f"{counted(result['skipped'], 'probe')} of {result['probes']}"
        protocol.append(f"Not scored{where}: {skipped}, whose class the gallery lacks.")
    best = " ".join([*_best(panel, results), *_other_orders(panel, results)])
    return "\n\n".join(filter(None, [best, " ".join(filter(None, protocol)), about, advice(panel, results)]))


def committee_note(panel: Panel, results: Results) -> str:
    """What the rows of committees are, and where they have fewer members than asked for; may be empty."""
    rows = [row for row in panel.rows if row != method_of(row)]
    if not rows:
        return ""
    wanted = max(place.cell.search.n_members for place in panel.places)
    done = [result for row in rows for result in finished(records(panel, results, row, panel.columns[0]))]
    sizes = [len(result["members"]) for result in done]
    several = [size for size in sizes if size > 1] or [wanted]
    fewest, most, alone = min(several), max(several), sizes.count(1)
    had = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    fewer = "" if fewest == wanted else f"; here of {had}, as the search found no more"
    note = f"{rows[0]} is a committee of the {wanted} best settings of the search{fewer}."
    if alone:
        note += (
            f" In {alone} of {counted(len(sizes), 'search')}, it was no better than the best setting, shown instead."
        )
    return note


def comparison_facts(panel: Panel, results: Results, tune: str = "") -> dict[str, Any]:
    """The same for machines: data, sizes, split, folds, the best and those tied with it, and what did not run.

    `tune` is the start of the command that trains what is recommended.
    """
    cell, result = panel.places[0].cell, _first(panel, results) or {}
    best, tied, over = rank(panel, results)
    parts = ("train", "test") if result else ()
    sizes = {part: {"samples": result[f"n_{part}"], "classes": result[f"n_{part}_classes"]} for part in parts}
    failed, recommended = failures(panel, results), recommend(panel, results, tune)
    absent = {method for method in failed if not_applicable(_of_method(panel, results, method))}
    return {
        "data": {"name": cell.data, **dict(cell.options)},
        "views": result.get("views", []),
        "sizes": sizes or None,
        "split": cell.split.to_dict(),
        "folds_of": result.get("folds_of"),
        "best": best,
        "tied": tied,
        "standard_errors_over": over or None,
        "recommended": None if recommended is None else recommended._asdict(),
        "not_applicable": {method: reason for method, reason in failed.items() if method in absent},
        "failures": {method: reason for method, reason in failed.items() if method not in absent},
    }


def failures(panel: Panel, results: Results) -> dict[str, str]:
    """Why methods have no result, or not in all splits."""
    found = {}
    for method in dict.fromkeys(map(method_of, panel.rows)):
        errors = [record.error for record in _of_method(panel, results, method) if record.error is not None]
        if errors:
            found[method] = errors[0]["message"]
    return found


def _of_method(panel: Panel, results: Results, method: str) -> list[Any]:
    return [results[place.cell] for place in panel.places if place.row == method]


def _first(panel: Panel, results: Results) -> Mapping[str, Any] | None:
    return next(filter(None, (results[place.cell].result for place in panel.places)), None)


def _sizes(panel: Panel, result: Mapping[str, Any]) -> str:
    """What was trained on, and what was tested on."""
    split, classes = panel.places[0].cell.split, result["n_test_classes"]
    new = {"classes": classes, "samples": 0}.get(split.kind, result.get("n_new_classes", 0))
    seen = "all seen in training" if not new else "none of them seen in training"
    if 0 < new < classes:
        seen = f"{new} of them not seen in training"
    where = "in the given test set" if split.kind == "given" else f"in {counted(split.n_repeats, 'random split')}"
    trained = f"{counted(result['n_train'], 'sample')} of {counted(result['n_train_classes'], 'class')}"
    if single := result.get("n_train_single"):
        trained += f" ({single} of the samples in one view only)"
    tested = f"{counted(result['n_test'], 'sample')} of {counted(classes, 'class')}, {seen}"
    return f"Trained on {trained}, tested on {tested}, {where}."


def _folds(panel: Panel, result: Mapping[str, Any]) -> str:
    """What folds were made of, and why if they do not match the test."""
    tested = result.get("tests_on", panel.places[0].cell.split.kind)
    text = f"Parameters were chosen by cross-validation over folds of {result['folds_of']}"
    if result["folds_of"] == tested:
        return f"{text}, as the test is on new {tested}."
    return f"{text}, although the test is on new {tested}: the training samples cannot be split into folds of {tested}."


def _best(panel: Panel, results: Results) -> list[str]:
    """Which methods are the best, and how many did not run."""
    found = {method: _of_method(panel, results, method) for method in dict.fromkeys(map(method_of, panel.rows))}
    done = [method for method, records in found.items() if finished(records)]
    absent = [method for method, records in found.items() if not_applicable(records)]
    failed = [method for method in found if method not in done and method not in absent]
    others = [f"{len(absent)} not applicable" * bool(absent), f"{len(failed)} failed" * bool(failed)]
    aside = f" ({', '.join(filter(None, others))})" if any(others) else ""
    best, tied, over = rank(panel, results)
    if not best:
        return [f"No method of {len(found)} has a result in every split{aside}."]
    result = finished(records(panel, results, best[0], panel.columns[0]))
    score = 100 * sum(one["score"] for one in result) / len(result)
    verb = "is" if len(best) == 1 else "are"
    committees = len([row for row in panel.rows if row != method_of(row) and method_of(row) in done])
    more = f" and {counted(committees, 'committee')}" if committees else ""
    only = len(done) == 1 and not committees
    among = f"The only method{aside}" if only else f"The best of {counted(len(done), 'method')}{more}{aside}"
    sentences = [f"{among} {verb} {listed(best)}, with {score:.1f} %."]
    if tied:
        sentences.append(f"Tied with {'it' if len(best) == 1 else 'them'}: {listed(tied)}.")
    if over and (tied or len(best) > 1):
        sentences.append(f"Ties are differences within two standard errors over the {over}.")
    elif not over and len(done) > 1:
        sentences.append("With fewer than 5 splits, differences may be noise.")
    return sentences


def _other_orders(panel: Panel, results: Results) -> list[str]:
    """Where the best by accuracy are not among the best by another score, and what that means."""
    sentences = []
    best, enrolled = rank(panel, results).best, rank(panel, results, "with_counterparts").best
    if not set(enrolled) & set(leaders(panel, results)) and best:
        verb, it = ("leads", "it matches") if len(enrolled) == 1 else ("lead", "they match")
        sentences.append(
            f"{listed(enrolled)} {verb} only if each probe's own counterpart is enrolled (with counterparts): {it} the "
            "moment, not the class."
        )
    others = {"one_shot": "With one enrolled sample per class", "average_precision": "By mean average precision"}
    for score, where in others.items():
        ahead = leaders(panel, results, score)
        if best and not set(best) & set(ahead):
            first = next(iter(ahead))
            own = known_scores(panel, results, score)[best[0]].values.mean()
            sentences.append(
                f"{where}, {first} is ahead ({_percent(ahead[first])} against {_percent(own)} for {best[0]})."
            )
    return sentences


def advice(panel: Panel, results: Results) -> str:
    """What to use, and whether learning helps, in a few sentences; empty if no row has a result in every split."""
    chosen = recommend(panel, results)
    if chosen is None:
        return ""
    means = {row: one.values.mean() for row, one in known_scores(panel, results, "held_out_score").items()}
    best, raw = max(means, key=lambda row: means[row]), means.get(RAW)
    sentences = [f"Recommended by validation scores alone: {chosen.row}, with {_percent(chosen.validation)} there."]
    if means[best] > chosen.validation:
        sentences.append(f"{best} has {_percent(means[best])}, within one standard error, but {chosen.row} is simpler.")
    if chosen.row == RAW and len(means) > 1:
        sentences.append("Learning does not help here: match the features as they are.")
    elif raw is not None and chosen.row != RAW:
        sentences.append(f"{RAW}, which learns nothing, has {_percent(raw)}.")
        tested = known_scores(panel, results)
        gaps = tested[RAW]._replace(values=tested[RAW].values - tested[chosen.row].values)
        if gaps.values.mean() > 2 * gaps._replace(over=gaps.over or "splits").standard_error():
            found = f"{_percent(tested[RAW].values.mean())} against {_percent(tested[chosen.row].values.mean())}"
            sentences.append(
                f"On the test part, however, {RAW} is better ({found}): are the test data like the training data?"
            )
    hopeless = [row for row in means if at_chance(panel, results, row)]
    if len(hopeless) == len(means):
        sentences.append("On the test part, no method is better than chance.")
        if panel.places[0].cell.split.kind == "classes":
            sentences.append("If you will only match classes that are in the training data, use --split samples.")
        sentences.append("The checklist for poor accuracy, docs/checklist.md, has the usual causes.")
    elif chosen.row in hopeless:
        sentences.append("On the test part, it is no better than chance.")
    return " ".join(sentences)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
