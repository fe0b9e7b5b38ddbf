"""Commands that run experiments: `compare` and `reproduce`."""

import logging
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from joblib import cpu_count

import crossview as cv
from crossview._progress import progress
from crossview._text import counted
from crossview._validation import warn_of_kernel_matrices
from crossview.cli import options as opt
from crossview.cli import reports
from crossview.cli.app import app, err, print_json
from crossview.cli.comparison import (
    SplitData,
    check_folds,
    given_split,
    inapplicable,
    random_splits,
    reasons,
    with_earlier,
)
from crossview.cli.data import DataOptions
from crossview.embeddings.methods import ALL_METHODS, method_name
from crossview.experiments import Cell, Record, Search, Store, fingerprint, run
from crossview.experiments.comparisons import Comparison
from crossview.experiments.loading import Loader
from crossview.experiments.plans import Panel
from crossview.model_selection.tuning import FACTOR, REFINE
from crossview.paper import EXPERIMENTS, QUICK, Effort, PaperLoader, plan, reproduction_report, run_paper_cell
from crossview.report import ResultTable
from crossview.report.compose import comparison_report, comparison_tables
from crossview.report.formatting import listed
from crossview.report.ranking import RAW
from crossview.report.results import not_applicable
from crossview.report.summary import committee_note, comparison_facts, comparison_summary

_CORES = int(cpu_count())
_COMPARED = (RAW, *cv.METHODS)  # by default

MethodsOption = Annotated[
    str | None, typer.Option(metavar="A,B,…", help=f"Methods to run: {', '.join(cv.METHODS)}; by default all.")
]
ComparedOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help=f"Methods to run: {', '.join(_COMPARED)}, by default all of these; or "
        f"{', '.join(name for name in cv.BASELINES if name not in _COMPARED)}.",
    ),
]
MembersOption = Annotated[
    int, typer.Option(min=1, help="Size of the committees of best settings; 1 for no committees.")
]
WorkersOption = Annotated[int, typer.Option(min=1, help="Processes, each with one thread; 1 starts no others.")]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Compute on the Dask cluster with this scheduler instead.")
]
RetryOption = Annotated[bool, typer.Option("--retry", help="Retry what failed before.")]


def _report_option(default: str) -> Any:
    return typer.Option(
        "--output", "-o", metavar="FOLDER", help=f"Folder for results and the report; by default {default}."
    )


@app.command()
def compare(
    context: typer.Context,
    data: opt.Data = "digits",
    train_data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Train on these data, and test on those of --test-data, instead of splits."),
    ] = None,
    test_data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Test data, with the same views as --train-data.")
    ] = None,
    output: Annotated[Path | None, _report_option("crossview-compare/DATA")] = None,
    methods: ComparedOption = None,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 5,
    split: Annotated[
        opt.Unit,
        typer.Option(
            help="Test on classes that were not trained on (classes), or on further samples of the same classes "
            "(samples). By default classes if there are 20 or more.",
        ),
    ] = opt.Unit.auto,
    train: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Number of training classes, or of training samples per class; below 1, their share. By default 0.7 "
            "of the classes, or 20 samples per class, or 0.5 of them if a class has fewer than 40.",
        ),
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(
            metavar="feature,view,none",
            help="Scalings to try: unit variance for every feature, one factor per view, or none.",
        ),
    ] = "feature,view",
    pca: Annotated[
        str | None,
        typer.Option(
            metavar="K,L,…",
            help="Numbers of principal components per view to try; 'none' keeps all. By default 20, 40, 80 and 160, "
            "and all of them if no view has more than 320 features.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=0, help="Settings tried per search; 0 tries all.")] = 32,
    members: MembersOption = 8,
    committees: Annotated[
        str, typer.Option(metavar="A,B,…", help="Methods also shown as committees; 'all' for all.")
    ] = "MvHE,KMvHE",
    scoring: opt.Scoring = opt.ScoringName.accuracy,
    seed: Annotated[int, typer.Option(min=0, help="Seed of splits, folds and draws.")] = 0,
    workers: WorkersOption = _CORES,
    scheduler: SchedulerOption = None,
    retry: RetryOption = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the report in the folder, whatever it shows; stored results are kept."
        ),
    ] = False,
    static: opt.Static = True,
    folder: opt.Folder = None,
    case: opt.Case = None,
    size: opt.Size = None,
    pair_by: opt.PairBy = None,
    as_json: opt.Json = False,
) -> None:
    """Tune all methods on a data set, compare them with doing nothing, recommend one, and write a report.

    Splits DATA at random, or trains on --train-data and tests on --test-data. The recommended method is the best in
    validation; test scores do not count. If interrupted, run the same command again to resume. Methods computed later
    with the same settings are added to the report.
    """
    chosen = _methods(methods, default=_COMPARED)
    tried = None if pca is None else _dimensions(pca)
    search = Search(tried, _scalings(scaling), draws or None, scoring=scoring.value, members=members)
    if draws:
        search = replace(search, factor=FACTOR, refine=REFINE)
    shown_together = chosen if committees.lower() == "all" else _methods(committees, "--committees")
    together = [name for name in shown_together if name in chosen]
    how = DataOptions(folder, case, size, pair_by)
    if train_data is None and test_data is None:
        problem = random_splits(data, how, split.value, train, repeats, seed)
    else:
        problem = given_split(*_check_given(context, train_data, test_data), how, seed)
    check_folds(problem.split, search, np.asarray(problem.data.y))
    wanted = Comparison(
        data=problem.name,
        options=problem.options,
        contents=fingerprint(problem.data),
        split=problem.split,
        search=search,
        methods=tuple(chosen),
        committees=tuple(together),
        commands=(reports.command_line(context),),
    )
    _tell_in_advance(problem, wanted.panel)
    output = reports.output_folder(
        output or Path("crossview-compare") / "-".join(reports.folder_name(d) for d in (wanted.data, test_data) if d)
    )
    shown = wanted if overwrite else with_earlier(wanted, output, as_json)
    panel = shown.panel
    results = inapplicable(panel, problem.data)
    cells, load = [place.cell for place in panel.places if place.cell not in results], Loader(folder)
    load(problem.name, dict(panel.places[0].cell.options), problem.data)
    results |= _run(cells, load, output / "results.db", workers, scheduler, retry)
    earlier = [method for method in shown.methods if method not in wanted.methods]
    added = f"Computed by an earlier run: {listed(earlier)}." if earlier else ""
    remark = " ".join(filter(None, [problem.remark, added]))
    tune = shlex.join(["crossview", "tune", problem.name, *problem.folds_option(), *_words_for_tune(context)])
    with progress("Preparing the report", 1, unit="reports"):  # fits the methods whose matches it shows
        report = comparison_report(panel, results, problem.data, "\n".join(shown.commands), remark, tune)
    shown.save(output)  # first, so that what a killed command leaves is known for its own
    page = reports.write_page(report, output, static)
    summary, facts = comparison_summary(panel, results, remark), comparison_facts(panel, results, tune)
    _finish(
        comparison_tables(panel, results), results, page, as_json, summary, facts, note=committee_note(panel, results)
    )


def _words_for_tune(context: typer.Context) -> list[str]:
    """Options that `tune` also has, as they were given."""
    return reports.given_words(context, ("folder", "case", "size", "pair_by", "draws", "scoring", "seed"))


def _check_given(context: typer.Context, train_data: str | None, test_data: str | None) -> tuple[str, str]:
    """Training and test data, if both are given, and nothing that belongs to random splits."""
    if train_data is None or test_data is None:
        missing = "--test-data" if test_data is None else "--train-data"
        raise ValueError(f"--train-data and --test-data belong together: add {missing}.")
    if reports.is_given(context, "data"):
        raise ValueError("pass either DATA, to split it at random, or --train-data and --test-data.")
    for name in ("repeats", "split", "train"):
        if reports.is_given(context, name):
            raise ValueError(f"a fixed test set has one split: leave out --{name}.")
    return train_data, test_data


def _tell_in_advance(problem: SplitData, panel: Panel) -> None:
    """Print what is known before the work: warnings, and methods that cannot be applied; an error if none can."""
    warn_of_kernel_matrices(problem.data.views)
    if problem.warning:
        err.print(problem.warning, markup=False, soft_wrap=True, style="yellow")
    known = inapplicable(panel, problem.data)
    told = reasons(known.values())
    if len(known) == len({place.cell for place in panel.places}):
        raise ValueError(f"no method can be applied to these data. {' '.join(told)}")
    for reason in told:
        err.print(f"Not applicable: {reason}", markup=False, soft_wrap=True)


@app.command()
def reproduce(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help=f"{', '.join(EXPERIMENTS)}, or 'all'.")],
    folder: opt.Folder = None,
    output: Annotated[Path | None, _report_option("crossview-reproduce")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, coarser grids and fewer points.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random splits; by default 10, as in the paper.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=0, help="Settings tried per search; 0 tries all. By default 48.")
    ] = None,
    methods: MethodsOption = None,
    cases: Annotated[
        str | None, typer.Option(metavar="1,2,…", help="Cases of tables with several; by default all.")
    ] = None,
    members: MembersOption = 1,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="Also search for the coupling, which the paper lacks.")
    ] = False,
    scoring: opt.Scoring = opt.ScoringName.accuracy_with_counterparts,
    workers: WorkersOption = _CORES,
    scheduler: SchedulerOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits.")] = 0,
    retry: RetryOption = False,
    static: opt.Static = True,
    as_json: opt.Json = False,
) -> None:
    """Run the paper's experiments and report measured next to published figures.

    As in the paper, test scores keep the counterpart of each probe, the same sample in the other view, in the gallery.
    Pass the folder that contains your copies of the data sets with --data. Missing data sets are named, and everything
    else runs. If interrupted, run the same command again to resume. Commands with the same --output share results;
    each choice of names has its own report.
    """
    effort = _effort(quick, repeats, draws, methods, cases)
    effort = replace(effort, scoring=scoring.value, members=members, coupled=coupled, seed=seed)
    load = PaperLoader(folder)
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    experiments = [plan(name, effort, load.lacks) for name in wanted]
    for reason in dict.fromkeys(reason for experiment in experiments for reason in experiment.missing):
        where = ", ".join(experiment.name for experiment in experiments if reason in experiment.missing)
        err.print(f"{reason} ({where})", markup=False, soft_wrap=True, style="yellow")
    if not any(experiment.cells for experiment in experiments):
        hint = "" if cases is None else ", and choose --cases among 1 to 8 (CMU PIE) or 1 to 4 (COIL-100)"
        raise ValueError(f"nothing can run without data: pass the folder that contains your data with --data{hint}.")
    output = output or Path("crossview-reproduce")
    store = reports.output_folder(output) / "results.db"
    pages = output / ("all" if "all" in names else "+".join(wanted))
    if reports.holds_report(pages) and not store.exists():
        raise ValueError(f"{pages} holds files that are no results of crossview: choose another --output.")
    results: dict[Cell, Record] = {}
    for alone in (False, True):
        cells = [cell for e in experiments for cell in e.cells if cell.task.endswith("time") == alone]
        # Times are measured here, while nothing else runs.
        results |= _run(cells, load, store, 1 if alone else workers, None if alone else scheduler, retry)
    report = reproduction_report(experiments, results, load, reports.command_line(context))
    page = reports.write_page(report, pages, static)
    tables = [item for section in report.sections for item in section.items if isinstance(item, ResultTable)]
    _finish(tables, results, page, as_json)


def _effort(quick: bool, repeats: int | None, draws: int | None, methods: str | None, cases: str | None) -> Effort:
    wanted = () if cases is None else _numbers(cases, "--cases")
    chosen = _methods(methods)
    if others := [name for name in chosen if name not in cv.METHODS]:
        raise ValueError(f"{others[0]} is not in the paper: leave it out here, and use `crossview compare` for it.")
    effort = replace(QUICK if quick else Effort(), methods=tuple(chosen), cases=wanted)
    if repeats is not None:
        effort = replace(effort, repeats=repeats)
    return effort if draws is None else replace(effort, draws=draws or None)


def _methods(given: str | None, option: str = "--methods", default: Iterable[str] = cv.METHODS) -> list[str]:
    chosen = list(default) if given is None else dict.fromkeys(map(method_name, _parts(given)))
    if not chosen:
        raise ValueError(f"{option} is empty: use one or more of {', '.join(ALL_METHODS)}.")
    return list(chosen)


def _dimensions(given: str) -> tuple[int | None, ...]:
    return tuple(None if part == "none" else _numbers(part, "--pca")[0] for part in _parts(given.lower()))


def _scalings(given: str) -> tuple[str | None, ...]:
    parts = dict.fromkeys(_parts(given.lower()))
    if unknown := [part for part in parts if part not in ("feature", "view", "none")]:
        raise ValueError(f"--scaling must be feature, view or none, or several of them, got {unknown[0]!r}.")
    return tuple(None if part == "none" else part for part in parts)


def _numbers(given: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, given.split(",")))
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {given!r}.") from None


def _parts(given: str) -> list[str]:
    return [part.strip() for part in given.split(",") if part.strip()]


class _ConsoleHandler(logging.Handler):
    """Prints log messages one per line, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(self.format(record), markup=False, soft_wrap=True)


def _run(
    cells: Sequence[Cell], load: Loader, store: Path, workers: int, scheduler: str | None, retry: bool
) -> dict[Cell, Record]:
    """Compute what is not stored yet, and show what is being computed."""
    if not cells:
        return {}
    running: list[Cell] = []
    computed: list[Cell] = []
    inside: dict[Cell, str] = {}

    def now() -> str:
        others = f" and {len(running) - 1} more" if len(running) > 1 else ""
        shown = [f"{cell.method}, split {cell.repeat + 1}{inside.get(cell, '')}{others}" for cell in running[:1]]
        return "".join(shown)

    def told(cell: Cell, text: str) -> None:
        inside[cell] = f" ({text})"
        advance(0, now())

    def started(done: int, total: int, cell: Cell) -> None:
        restored = 0 if running or computed else done
        running.append(cell)
        advance(0, now(), restored=restored)

    def finished(done: int, total: int, cell: Cell, record: Record) -> None:
        running.remove(cell)
        computed.append(cell)
        advance(1, now())

    try:
        with Store(store) as opened, progress("Computing", len(set(cells)), unit="results") as advance:
            advance(0, "preparing")
            records = run(
                cells,
                load,
                opened,
                workers=workers,
                scheduler=scheduler,
                started=started,
                progress=finished,
                told=told,
                retry_failed=retry,
                compute=run_paper_cell,
            )
    except KeyboardInterrupt:
        err.print("Stopped. Finished results are stored; run the same command again to resume.", soft_wrap=True)
        raise typer.Exit(130) from None
    return dict(zip(cells, records, strict=True))


logging.getLogger("crossview").addHandler(_ConsoleHandler())
logging.getLogger("crossview").setLevel(logging.INFO)


def _finish(
    tables: Sequence[ResultTable],
    results: dict[Cell, Record],
    page: Path,
    as_json: bool,
    summary: str = "",
    facts: dict[str, Any] | None = None,
    note: str = "",
) -> None:
    """Print the results and the path of the report."""
    unfinished = [record for record in results.values() if record.status == "failed"]
    failed = [record for record in unfinished if not not_applicable([record])]
    known = facts or {}
    if as_json:
        rows = [
            {"table": table.key, "row": row, "column": column, **vars(entry)}
            for table in tables
            for row, found in table.rows.items()
            for column, entry in zip(table.columns, found, strict=True)
        ]
        print_json({"report": str(page), "failed": len(failed), "summary": summary, **known, "entries": rows})
    else:
        lines = [note, summary]
        if recommended := known.get("recommended"):
            lines += ["To make this model, run:", recommended["command"]]
        if not summary or len(unfinished) < len(results):  # otherwise the summary has the reasons
            absent = reasons(record for record in unfinished if record not in failed)
            lines += [f"Not applicable: {reason}" for reason in absent]
        reports.print_results(tables, lines, page, known.get("best", ()), known.get("views", ()))
    if failed:
        number = f"{len(failed)} of {counted(len(results), 'computation')} failed"
        err.print(f"{number}. Run again with --retry to retry:", style="yellow")
        for reason in reasons(failed):
            err.print(f"  {reason}", markup=False, soft_wrap=True)
    if results and len(unfinished) == len(results):
        raise typer.Exit(1)
