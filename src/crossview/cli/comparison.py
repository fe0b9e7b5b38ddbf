"""Commands that measure, and write reports: `compare` methods, and `evaluate` a model."""

import shlex
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import crossview as cv
from crossview._progress import progress
from crossview._text import counted
from crossview._validation import warn_of_kernel_matrices
from crossview.cli import common, reports
from crossview.cli.data import data_options, labels_like_gallery, load_fitted, open_for, open_labelled, open_view
from crossview.datasets import Dataset
from crossview.experiments import Cell, Record, Search, Split, fingerprint
from crossview.experiments.plans import TEST_DATA, Loader, Panel, comparison, concatenated
from crossview.experiments.tasks import not_applicable_record
from crossview.model_selection.splits import folds, matching_folds
from crossview.model_selection.tuning import FACTOR, REFINE
from crossview.report.comparison import committee_note, comparison_report, comparison_tables
from crossview.report.evaluation import evaluation_notes, evaluation_report, evaluation_summary, evaluation_tables
from crossview.report.ranking import RAW, comparison_facts, comparison_summary

_COMPARED = (RAW, *cv.METHODS)  # by default
_COMMITTEES = ("MvHE", "KMvHE")  # methods also shown as committees
_CLASSES_TO_SPLIT = 20  # from which on a split is one of classes, by default
_TRAIN_SAMPLES = 20  # per class, by default


@common.app.command()
def compare(
    context: typer.Context,
    data: common.Data = "digits",
    train_data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Train on these data, and test on those of --test-data, instead of splits."),
    ] = None,
    test_data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Test data, with the same views as --train-data.")
    ] = None,
    output: Annotated[Path | None, common.report_option("crossview-compare/DATA")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help=f"Methods to run: {', '.join(_COMPARED)}, by default all of these; or "
            f"{', '.join(name for name in cv.BASELINES if name not in _COMPARED)}.",
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 5,
    split: Annotated[
        common.Unit,
        typer.Option(
            help="Test on classes that were not trained on (classes), or on further samples of the same classes "
            "(samples). By default classes if there are 20 or more.",
        ),
    ] = common.Unit.auto,
    train: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Number of training classes, or of training samples per class; below 1, their share. By default 0.7 "
            "of the classes, or 20 samples per class, or 0.5 of them if a class has fewer than 40.",
        ),
    ] = None,
    pca: Annotated[
        str | None,
        typer.Option(
            metavar="K,L,…",
            help="Numbers of principal components per view to try; 'none' keeps all. By default 20, 40, 80 and 160, "
            "and all of them if no view has more than 320 features.",
        ),
    ] = None,
    n_iter: Annotated[int, typer.Option(min=0, help="Settings tried per search; 0 tries all.")] = 32,
    n_members: common.Members = 8,
    scoring: common.Scoring = common.ScoringName.accuracy,
    seed: Annotated[int, typer.Option(min=0, help="Seed of splits, folds and draws.")] = 0,
    n_jobs: common.Jobs = common.CORES,
    scheduler: common.Scheduler = None,
    retry: common.Retry = False,
    overwrite: common.Overwrite = False,
    static: common.Static = True,
    size: common.Size = None,
    pair_by: common.PairBy = None,
    as_json: common.Json = False,
) -> None:
    """Tune all methods on a data set, compare them with doing nothing, recommend one, and write a report.

    Splits DATA at random, or trains on --train-data and tests on --test-data. The recommended method is the best in
    validation; test scores do not count. If interrupted, run the same command again to resume. Results are stored, and
    a later run with other methods or settings computes only what is new.
    """
    chosen = common.method_names(methods, "--methods", default=_COMPARED)
    search = Search(
        _dimensions(pca),
        n_iter=n_iter or None,
        scoring=scoring.value,
        n_members=n_members,
        factor=FACTOR if n_iter else 1.0,
        refine=REFINE if n_iter else 0,
    )
    if train_data is None and test_data is None:
        name, options, loaded = data, data_options(data, size, pair_by), open_labelled(data, size, pair_by)
        planned, remark = _random_splits(np.asarray(loaded.y), split.value, train, repeats, seed)
    else:
        name, test_data = _check_given(context, train_data, test_data)
        parts = open_labelled(name, size, pair_by), open_labelled(test_data, size, pair_by)
        options = {**data_options(name, size, pair_by), TEST_DATA: test_data}
        loaded = concatenated(*parts, name, test_data)
        planned, remark = Split("given", len(parts[0].y), 1, seed), _shared_rows(*parts)
    folds_option = _folds_option(planned, np.asarray(loaded.y))
    warn_of_kernel_matrices(loaded.views)
    if remark and planned.kind != "classes":
        common.warn(remark)
    default = Path("crossview-compare") / "-".join(reports.folder_name(one) for one in (name, test_data) if one)
    output, subject = output or default, {"data_sha256": fingerprint(loaded)}
    reports.check_folder(output)
    reports.check_replaceable(output / "comparison.json", subject, overwrite)
    panel = comparison(name, options, chosen, planned, search, [method for method in _COMMITTEES if method in chosen])
    results = _not_applicable(panel, loaded)
    cells, load = [place.cell for place in panel.places if place.cell not in results], Loader()
    load(name, dict(panel.places[0].cell.options), loaded)
    results |= reports.compute_cells(cells, load, output / "results.db", n_jobs, scheduler, retry)
    words = reports.given_words(context, ("size", "pair_by", "n_iter", "scoring", "seed"))  # which tune also has
    tune = shlex.join(["crossview", "tune", name, *folds_option, *words])
    with progress("Preparing the report", 1, unit="reports"):  # fits the methods whose matches it shows
        report = comparison_report(panel, results, loaded, reports.command_line(context), remark, tune)
    tables, summary = comparison_tables(panel, results), comparison_summary(panel, results, remark)
    facts = subject | reports.outcome_facts(tables, results, output) | {"summary": summary}
    facts |= comparison_facts(panel, results, tune)
    reports.write_page(report, output, static, "comparison.json", facts)
    lines = [committee_note(panel), summary]
    if recommended := facts["recommended"]:
        lines += ["To make this model, run:", recommended["command"]]
    reports.print_outcome(tables, results, facts, lines, as_json)


@common.app.command()
def evaluate(
    context: typer.Context,
    model: common.Model,
    data: common.Data,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW",
            help="Look up the samples of this view in the model's own gallery. By default, every view of DATA is "
            "looked up in every other.",
        ),
    ] = None,
    output: Annotated[Path | None, common.report_option("crossview-evaluate/MODEL")] = None,
    bootstrap: Annotated[int, typer.Option(min=100, help="Draws for the confidence intervals.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    resample: Annotated[
        common.Unit,
        typer.Option(help="What the bootstrap draws. By default classes if there are 20 or more, otherwise samples."),
    ] = common.Unit.auto,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    overwrite: common.Overwrite = False,
    static: common.Static = True,
    size: common.Size = None,
    pair_by: common.PairBy = None,
    as_json: common.Json = False,
) -> None:
    """Measure how good a saved model is on labelled test data, and write a report.

    Use data that the model was not trained on. Samples without a label are left out.
    """
    output = output or Path("crossview-evaluate") / reports.folder_name(model)
    reports.check_folder(output)
    fitted = load_fitted(model)
    if view is None:
        loaded = open_for(fitted, data, size, pair_by)
    elif size or pair_by:
        raise ValueError("--view takes samples one by one, in the model's size: leave out --size and --pair-by.")
    elif not hasattr(fitted, "gallery_"):
        raise ValueError("the model has no gallery: run crossview enroll first, or leave out --view.")
    else:
        loaded = open_view(fitted, data, view)
    digest = sha256(model.read_bytes()).hexdigest()
    subject = {"model_sha256": digest, "data_sha256": fingerprint(loaded), "view": view}
    reports.check_replaceable(output / "evaluation.json", subject, overwrite)
    options: dict[str, Any] = {
        "n_bootstrap": bootstrap,
        "confidence": confidence,
        "resample": resample.value,
        "random_state": seed,
    }
    if view is None:
        found = cv.evaluate(fitted, loaded.views, loaded.y, **options)
    else:
        found = cv.evaluate_probes(fitted, loaded.views[view], labels_like_gallery(loaded.y, fitted), view, **options)
    about = {"model": f"{model.name}, SHA-256 {digest}", "data": f"{data}: {loaded.views!r}"}
    report, summary = (
        evaluation_report(found, loaded, model.name, about, reports.command_line(context)),
        evaluation_summary(found),
    )
    facts = {"model": model.name, "data": data, **subject, "report": str(output / "report.html"), "summary": summary}
    facts |= found.to_dict()
    page = reports.write_page(report, output, static, "evaluation.json", facts)
    if as_json:
        common.print_facts(facts, "", as_json)
    else:
        reports.print_results(evaluation_tables(found), [*dict.fromkeys(evaluation_notes(found)), summary], page)


def _random_splits(
    y: NDArray[np.generic], kind: str, train: float | None, repeats: int, seed: int
) -> tuple[Split, str]:
    """The splits, and what the default trains on."""
    _, counts = np.unique(y, return_counts=True)
    if kind == "auto":
        kind = "classes" if len(counts) >= _CLASSES_TO_SPLIT else "samples"
    if train is not None:
        return Split(kind, train, repeats, seed), ""
    if kind == "classes":
        default, what = 0.7, "70 % of the classes"
    elif counts.min() < 2 * _TRAIN_SAMPLES:
        default, what = 0.5, "half of the samples of every class"
    else:  # there are often few labels; and kernel methods grow with the third power of the number of samples
        default, what = _TRAIN_SAMPLES, f"{_TRAIN_SAMPLES} samples per class"
    split = Split(kind, default, repeats, seed)
    n_train = len(split.rows(y, 0)[0])
    return split, f"Training takes {what}, the default: {n_train} of {len(y)} samples. --train changes it."


def _check_given(context: typer.Context, train_data: str | None, test_data: str | None) -> tuple[str, str]:
    """Training and test data, if both are given, and nothing that belongs to random splits."""
    if train_data is None or test_data is None:
        raise ValueError("--train-data and --test-data belong together: pass both, or neither.")
    if any(reports.is_given(context, name) for name in ("data", "repeats", "split", "train")):
        raise ValueError("a given test set is one split: leave out DATA, --repeats, --split and --train.")
    return train_data, test_data


def _shared_rows(train: Dataset, test: Dataset) -> str:
    """A remark if samples of the test data are also in the training data."""
    rows = cv.datasets.shared_rows(train, test)
    if not len(rows):
        return ""
    example = f"row {rows[0]}" if test.ids is None else repr(str(test.ids[rows[0]]))
    both = f"{len(rows)} of {counted(len(test.y), 'test sample')} {'is' if len(rows) == 1 else 'are'}"
    fix = "accuracy will be too high; remove what is in both"
    return f"{both} also in the training data, for example {example}: {fix}."


def _folds_option(split: Split, y: NDArray[np.generic]) -> list[str]:
    """Option with which `tune` makes folds like those of the comparison, if any; an error if there can be none."""
    train, n_folds = y[split.rows(y, 0)[0]], Search().n_folds
    try:
        _, kind = folds(matching_folds(split.tests_on(y), train), train, n_folds, 0)
    except ValueError as error:
        fix = "add training data" if split.kind == "given" else "train on more with --train"
        need = "two training samples of every class, or four training classes"
        raise ValueError(f"cross-validation needs {need}: {fix}.") from error
    _, default = folds("auto", train if split.kind == "given" else y, n_folds, 0)
    return [] if default == kind else ["--cv", kind]


def _not_applicable(panel: Panel, data: Dataset) -> dict[Cell, Record]:
    """Records of the cells whose methods cannot be applied to the data; an error if none can."""
    n_train = len(panel.places[0].cell.split.rows(np.asarray(data.y), 0)[0])
    found = {place.cell: not_applicable_record(place.cell, data.views, n_train) for place in panel.places}
    known = {cell: record for cell, record in found.items() if record is not None}
    if len(known) == len(found):
        raise ValueError(f"no method can be applied to these data. {' '.join(reports.reasons(known.values()))}")
    return known


def _dimensions(given: str | None) -> tuple[int | None, ...] | None:
    if given is None:
        return None
    return tuple(None if part == "none" else common.numbers(part, "--pca")[0] for part in common.parts(given.lower()))
