"""The command: ``python -m paper table-6 --data DIR``, from the root of a checkout."""

import shlex
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import crossview as cv
from crossview.cli import common as opt
from crossview.cli import reports
from crossview.cli.common import err, told_in_lines
from crossview.experiments import Cell, Record
from crossview.report import ResultTable
from paper.data import PaperLoader
from paper.protocols import EXPERIMENTS, QUICK, Effort, plan
from paper.report import reproduction_report
from paper.tasks import run_paper_cell

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> None:
        with told_in_lines():
            super().invoke(ctx)


@app.command(cls=_Command)
def reproduce(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help=f"{', '.join(EXPERIMENTS)}, or 'all'.")],
    folder: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder that contains coil-100/, cmu-pie/ and so on.")
    ] = None,
    output: Annotated[Path | None, opt.report_option("build/paper")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, coarser grids and fewer points.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random splits; by default 10, as in the paper.")] = None,
    n_iter: Annotated[
        int | None, typer.Option(min=0, help="Settings tried per search; 0 tries all. By default 48.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,…", help=f"Methods to run: {', '.join(cv.METHODS)}; by default all.")
    ] = None,
    cases: Annotated[
        str | None, typer.Option(metavar="1,2,…", help="Cases of tables with several; by default all.")
    ] = None,
    n_members: opt.Members = 1,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="Also search for the coupling, which the paper lacks.")
    ] = False,
    scoring: opt.Scoring = opt.ScoringName.accuracy_with_counterparts,
    n_jobs: opt.Jobs = opt.CORES,
    scheduler: opt.Scheduler = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits.")] = 0,
    retry: opt.Retry = False,
    static: opt.Static = True,
    as_json: opt.Json = False,
) -> None:
    """Run the paper's experiments and report measured next to published figures.

    As in the paper, test scores keep the counterpart of each probe, the same sample in the other view, in the gallery.
    Pass the folder that contains your copies of the data sets with --data. Missing data sets are named, and everything
    else runs. If interrupted, run the same command again to resume. Commands with the same --output share results;
    each choice of names has its own report.
    """
    effort = QUICK if quick else Effort()
    chosen = opt.method_names(methods, "--methods", default=cv.METHODS)
    if others := [name for name in chosen if name not in cv.METHODS]:
        raise ValueError(f"{others[0]} is not in the paper: leave it out here.")
    effort = replace(
        effort,
        repeats=effort.repeats if repeats is None else repeats,
        n_iter=effort.n_iter if n_iter is None else n_iter or None,
        methods=tuple(chosen),
        cases=() if cases is None else opt.numbers(cases, "--cases"),
        scoring=scoring.value,
        n_members=n_members,
        coupled=coupled,
        seed=seed,
    )
    load = PaperLoader(folder=folder)
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    experiments = [plan(name, effort, load.lacks) for name in wanted]
    for reason in dict.fromkeys(reason for experiment in experiments for reason in experiment.missing):
        err.tell(reason)
    if not any(experiment.cells for experiment in experiments):
        where = "pass the folder of your data with --data, and --cases from 1 to 8 (CMU PIE) or 1 to 4 (COIL-100)"
        raise ValueError(f"nothing can run without data: {where}.")
    output = output or Path("build/paper")
    reports.check_folder(output)
    store, pages = output / "results.db", output / ("all" if "all" in names else "+".join(wanted))
    if reports.holds_report(pages) and not store.exists():
        raise ValueError(f"{pages} holds files that are no results of crossview: choose another --output.")
    results: dict[Cell, Record] = {}
    for alone in (False, True):
        cells = [cell for e in experiments for cell in e.cells if cell.task.endswith("time") == alone]
        # Times are measured here, while nothing else runs.
        on = (1, None) if alone else (n_jobs, scheduler)
        results |= reports.compute_cells(cells, load, store, *on, retry, run_paper_cell)
    command = shlex.join(["python", "-m", "paper", *reports.given_words(context)])
    report = reproduction_report(experiments, results, load, command)
    reports.write_page(report, pages, static)
    tables = [item for item in report.items if isinstance(item, ResultTable)]
    reports.print_outcome(tables, results, reports.outcome_facts(tables, results, pages), [], as_json)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that workers end
    app(prog_name="python -m paper")
