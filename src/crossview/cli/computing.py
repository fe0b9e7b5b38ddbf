"""Computing cells, and printing their results."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from crossview._progress import progress
from crossview._text import counted
from crossview.cli import reports
from crossview.cli.app import err, print_json
from crossview.datasets import Dataset
from crossview.experiments import Cell, Record, Store, run, run_cell
from crossview.report import ResultTable
from crossview.report.results import not_applicable


class _ConsoleHandler(logging.Handler):
    """Prints log messages one per line, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(self.format(record), markup=False, soft_wrap=True)


logging.getLogger("crossview").addHandler(_ConsoleHandler())
logging.getLogger("crossview").setLevel(logging.INFO)


def compute_cells(
    cells: Sequence[Cell],
    load: Callable[[str, dict[str, Any]], Dataset],
    store: Path,
    n_jobs: int,
    scheduler: str | None,
    retry: bool,
    compute: Callable[[Cell, Dataset], Mapping[str, Any]] = run_cell,
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
            options: dict[str, Any] = {"n_jobs": n_jobs, "scheduler": scheduler, "retry_failed": retry}
            options |= {"started": started, "told": told, "progress": finished, "compute": compute}
            records = run(cells, load, opened, **options)
    except KeyboardInterrupt:
        err.print("Stopped. Finished results are stored; run the same command again to resume.", soft_wrap=True)
        raise typer.Exit(130) from None
    return dict(zip(cells, records, strict=True))


def reasons(records: Iterable[Record]) -> list[str]:
    """Which methods failed, and why, each once."""
    found = (f"{record.cell['method']}: {(record.error or {}).get('message', '')}" for record in records)
    return list(dict.fromkeys(found))


def print_outcome(
    tables: Sequence[ResultTable],
    results: Mapping[Cell, Record],
    page: Path,
    as_json: bool,
    summary: str = "",
    facts: Mapping[str, Any] | None = None,
    note: str = "",
) -> None:
    """Print the results, the path of the report, and what failed; the exit status is 1 if everything did."""
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
