"""Computing cells, and printing their results."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from crossview._progress import Advance, Left, progress
from crossview._text import counted
from crossview.cli import reports
from crossview.cli.app import err, print_json
from crossview.datasets import Dataset
from crossview.experiments import Cell, Record, Store, run, run_cell
from crossview.report import ResultTable
from crossview.report.ranking import not_applicable


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
    try:
        with Store(store) as opened, progress("Computing", total := len(set(cells)), unit="results") as advance:
            advance(0, "preparing")
            options: dict[str, Any] = {"n_jobs": n_jobs, "scheduler": scheduler, "retry_failed": retry}
            records = run(cells, load, opened, **options, watch=Watch(total, advance), compute=compute)
    except KeyboardInterrupt:
        err.print("Stopped. Finished results are stored; run the same command again to resume.", soft_wrap=True)
        raise typer.Exit(130) from None
    return dict(zip(cells, records, strict=True))


class Watch:
    """Shows what is being computed, and what is known about the time left."""

    def __init__(self, total: int, advance: Advance) -> None:
        self._total, self._advance, self._lock = total, advance, threading.Lock()
        self._waiting: dict[Cell, None] = {}
        self._running: dict[Cell, tuple[float, float, str]] = {}  # start, least seconds by its fits, and those in words
        self._ended: dict[str, list[float]] = {}  # seconds by method

    def __call__(self, event: str, cell: Cell, about: Any) -> None:
        """Note an event of `crossview.experiments.run`."""
        with self._lock:  # of other threads, on a cluster
            steps = restored = 0
            if event == "waits":
                self._waiting[cell] = None
                return
            if event == "starts":
                first = not self._running and not self._ended
                restored = self._total - len(self._waiting) if first else 0
                del self._waiting[cell]
                self._running[cell] = time.monotonic(), 0.0, ""
            elif event == "ends":
                started, *_ = self._running.pop(cell)
                self._ended.setdefault(cell.method, []).append(time.monotonic() - started)
                steps = 1
            elif cell in self._running:
                started, (done, total) = self._running[cell][0], about
                least = (time.monotonic() - started) * total / done if done else 0.0
                self._running[cell] = started, least, f" ({done} of {total} fits)"
            others = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
            shown = [f"{c.method}, split {c.repeat + 1}{fits}{others}" for c, (_, _, fits) in self._running.items()]
            self._advance(steps, "".join(shown[:1]), restored=restored, left=self._left())

    def _left(self) -> Left:
        """What is known: the time that results of a method have taken, and by its fits the least that another takes."""
        mean = {method: sum(found) / len(found) for method, found in self._ended.items()}
        least, left = dict(mean), []
        sure = all(cell.method in mean for cell in self._waiting)
        for cell, (started, by_fits, _) in self._running.items():
            spent = time.monotonic() - started
            whole = max(spent, by_fits)
            sure &= whole <= mean.get(cell.method, -1.0)
            if cell.method not in mean:
                least[cell.method] = max(least.get(cell.method, 0.0), whole)
            left.append(max(least[cell.method], whole) - spent)
        work = sum(left) + sum(least.get(cell.method, 0.0) for cell in self._waiting)
        return max([*left, work / max(len(left), 1)]), "about" if sure else "at least"


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
