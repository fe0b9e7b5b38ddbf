"""Reports of commands: computing their results, their folders, their pages, and their tables in a terminal."""

import json
import logging
import os
import shlex
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from crossview._progress import Advance, Left, progress
from crossview._store import check_target, write_atomically
from crossview._text import counted
from crossview.cli.common import err, jsonable, out, print_facts
from crossview.datasets import Dataset
from crossview.experiments import Cell, Record, Store, run, run_cell
from crossview.files.models import MALFORMED
from crossview.report import Entry, Report, ResultTable, write_report
from crossview.report.ranking import AT_CHANCE, not_applicable
from crossview.report.tables import best_two, listed, measured

_ANY_WIDTH = 10_000  # wider than any table


class _ConsoleHandler(logging.Handler):
    """Prints log messages one per line, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        err.tell(self.format(record))


logging.getLogger("crossview").addHandler(_ConsoleHandler())
logging.getLogger("crossview").setLevel(logging.INFO)


def is_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter is on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_words(context: typer.Context, only: Sequence[str] | None = None) -> list[str]:
    """Arguments and options as they were given, or only some of them, by parameter name."""
    words: list[str] = []
    for parameter in context.command.params:
        if not is_given(context, parameter.name or "") or (only is not None and parameter.name not in only):
            continue
        value = context.params[parameter.name]
        if parameter.param_type_name == "argument":
            words += map(str, value if isinstance(value, list | tuple) else [value])
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [parameter.opts[0], str(value)]
    return words


def command_line(context: typer.Context) -> str:
    """The command as it was given."""
    return shlex.join(["crossview", str(context.info_name), *given_words(context)])


def folder_name(data: str | Path) -> str:
    """A name for a folder of results: that of the data or the model, without its ending."""
    return Path(os.path.abspath(data)).stem.strip(".") or "data"


def check_folder(path: Path) -> None:
    """Refuse a folder for results that cannot be created, before any work is done."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file, not a folder: choose another --output.")


def check_replaceable(record: Path, subject: Mapping[str, Any], overwrite: bool) -> None:
    """Refuse to replace files of others, and a report whose record has another subject."""
    if overwrite or not holds_report(record.parent, record.name):
        return
    try:
        earlier = json.loads(check_target(record).read_text(encoding="utf-8"))
        same = all(earlier[name] == value for name, value in subject.items())
    except (OSError, *MALFORMED):
        same = False
    if not same:
        fix = "choose another --output, or pass --overwrite to replace it"
        raise ValueError(f"{record.parent} holds another report, or one on other data or another model: {fix}.")


def holds_report(folder: Path, *more: str) -> bool:
    """Whether a folder has files that a report would replace."""
    return any((folder / name).exists() for name in ("report.html", "tables", "figures", *more))


def create_folder(path: Path) -> None:
    """Create the folder for results if it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot create {path}: choose another --output ({error.strerror}).") from error


def write_page(report: Report, folder: Path, static: bool, record: str = "", facts: Any = None) -> Path:
    """Write a report and, first, a record of what it is on; return the path of its page."""
    create_folder(folder)
    try:
        if record:
            write_atomically(folder / record, json.dumps(jsonable(facts), indent=1).encode())
        with progress("Writing the report", 1, unit="pages"):
            return write_report(report, folder, static=static)
    except OSError as error:
        fix = "free some space, make it writable, or choose another --output"
        raise OSError(f"the report cannot be written to {folder}: {fix} ({error.strerror or error}).") from error


def compute_cells(
    cells: Sequence[Cell],
    load: Callable[[str, dict[str, Any]], Dataset],
    store: Path,
    n_jobs: int,
    scheduler: str | None,
    retry: bool,
    compute: Callable[[Any, Dataset], Mapping[str, Any]] = run_cell,
) -> dict[Cell, Record]:
    """Compute what is not stored yet, and show what is being computed."""
    if not cells:
        return {}
    create_folder(store.parent)
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
                self._waiting.pop(cell, None)
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


def outcome_facts(tables: Sequence[ResultTable], results: Mapping[Cell, Record], folder: Path) -> dict[str, Any]:
    """What programs get: the page of the report, the number of failures, and the entries of the tables."""
    entries = [
        {"table": table.key, "row": row, "column": column, **vars(entry)}
        for table in tables
        for row, found in table.rows.items()
        for column, entry in zip(table.columns, found, strict=True)
    ]
    failed = [record for record in results.values() if record.status == "failed" and not not_applicable([record])]
    return {"report": str(folder / "report.html"), "failed": len(failed), "entries": entries}


def print_outcome(
    tables: Sequence[ResultTable],
    results: Mapping[Cell, Record],
    facts: Mapping[str, Any],
    lines: Iterable[str],
    as_json: bool,
) -> None:
    """Print the results, and what has none; the exit status is 1 if nothing has."""
    if as_json:
        print_facts(facts, "", as_json)
    else:
        print_results(tables, lines, facts["report"])
    unfinished = [record for record in results.values() if record.status == "failed"]
    absent = [record for record in unfinished if not_applicable([record])]
    for reason in reasons(absent):
        err.tell(f"Not applicable: {reason}")
    if facts["failed"]:
        number = f"{facts['failed']} of {counted(len(results), 'computation')} failed"
        err.print(f"{number}. Run again with --retry to retry:", style="yellow")
        for reason in reasons(record for record in unfinished if record not in absent):
            err.tell(f"  {reason}")
    if results and len(unfinished) == len(results):
        raise typer.Exit(1)


def print_results(tables: Iterable[ResultTable], lines: Iterable[str], page: str | Path) -> None:
    """Print the tables that fit into the terminal, the lines that belong to them, and the path of the report."""
    wide = []
    for table in tables:
        shown = terminal_table(table)
        if Measurement.get(out, out.options.update(max_width=_ANY_WIDTH), shown).maximum <= out.width:
            out.print(shown)
        else:
            wide.append(table.title)
    more = f"Wider than the terminal, and only in the report: {listed(wide)}." if wide else ""
    for line in filter(None, [*lines, more, f"report: {page}"]):
        out.tell(line)


def terminal_table(table: ResultTable) -> Table:
    """A table for a terminal, as narrow as its entries; intervals are below what they are of."""
    caption = f"± {table.spread}" if table.spread else None
    shown = Table(title=escape(table.title), caption=caption, box=SIMPLE, show_edge=False, padding=(0, 1, 0, 0))
    shown.add_column(escape(table.row_head), no_wrap=True)
    best = best_two(table)
    rows = {
        row: [_cell(entry, table, places.get(row, 0)) for entry, places in zip(entries, best, strict=True)]
        for row, entries in table.rows.items()
    }
    for k, column in enumerate(table.columns):
        widths = [len(line) for cells in rows.values() for line in cells[k].plain.splitlines()]
        wrapped = textwrap.fill(column, max(widths, default=1), break_long_words=False)
        shown.add_column(escape(wrapped), justify="right", no_wrap=True)
    for row, cells in rows.items():
        shown.add_row(escape(row), *cells)
    return shown


def _cell(entry: Entry, table: ResultTable, place: int) -> Text:
    text = measured(entry, table.digits).replace(" [", "\n[")
    if entry.note == AT_CHANCE:
        return Text(f"{text}, chance", "red")
    return Text(text, {1: "bold green", 2: "underline"}.get(place, ""))
