"""Reports of commands: their folders, their pages, and their tables in a terminal."""

import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.box import HEAVY_HEAD, SIMPLE
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from crossview._progress import progress
from crossview.cli.app import err, out, printable
from crossview.report import Entry, Report, ResultTable, write_report
from crossview.report.comparison import direction_names
from crossview.report.ranking import AT_CHANCE
from crossview.report.tables import best_two, finite, measured, number

_MOST_COLUMNS = 6  # the page has wider ones
_ANY_WIDTH = 10_000  # wider than any table


def check_folder(path: Path) -> None:
    """Refuse a folder for results that cannot be created, before any work is done."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file, not a folder: choose another --output.")


def output_folder(path: Path) -> Path:
    """The folder for results, created if missing."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot create {path}: choose another --output ({error.strerror}).") from error
    return path


def folder_name(data: str | Path) -> str:
    """A name for a folder of results: that of the data or the model, without its ending."""
    return Path(os.path.abspath(data)).stem.strip(".") or "data"


def holds_report(folder: Path, *more: str) -> bool:
    """Whether a folder has files that a report would replace."""
    return any((folder / name).exists() for name in ("report.html", "tables", "figures", *more))


def confirm_replacing(path: Path, what: str, as_json: bool, *, thing: str = "report") -> None:
    """Ask whether to replace the report in a folder, or the thing in a file, or fail if there is no one to answer."""
    found = printable(f"{path} holds {what}")
    if as_json or not _is_attended() or not typer.confirm(f"{found}. Replace the {thing}?", err=True):
        raise ValueError(f"{found}: choose another --output, or pass --overwrite to replace the {thing}.")


def _is_attended() -> bool:
    return sys.stdin.isatty() and err.is_terminal


def write_page(report: Report, folder: Path, static: bool) -> Path:
    """Write a report into a folder, and return the path of its page."""
    try:
        with progress("Writing the report", 1, unit="pages"):
            return write_report(report, folder, static=static)
    except OSError as error:
        fix = "free some space, make it writable, or choose another --output"
        raise OSError(f"the report cannot be written to {folder}: {fix} ({error.strerror or error}).") from error


def is_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter is on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def command_line(context: typer.Context) -> str:
    """The command as it was given."""
    return shlex.join(["crossview", str(context.info_name), *given_words(context)])


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


def print_results(
    tables: Sequence[ResultTable],
    lines: Iterable[str],
    page: Path,
    best: Sequence[str] = (),
    views: Sequence[str] = (),
) -> None:
    """Print tables, the lines that belong to them, each once, and the path of the report."""
    for table in console_tables(tables, best, views):
        out.print(table)
    for line in dict.fromkeys(filter(None, [*lines, f"report: {page}"])):
        out.print(line, markup=False, soft_wrap=True)


def console_tables(
    tables: Sequence[ResultTable], best: Sequence[str] = (), views: Sequence[str] = ()
) -> Iterator[Table]:
    """Tables for a terminal; other wide ones than those by direction of these views are left to the page."""
    for table in tables:
        if len(table.columns) <= _MOST_COLUMNS:
            yield from _fitting(table)
        elif list(table.columns) == direction_names(views):
            yield _extremes(table)
            yield from (_matrix(table, row, views) for row in best[:1])


def _fitting(table: ResultTable) -> Iterator[Table]:
    """A table, with wrapped heads and no edge if it is wider than the terminal, or several with some columns each."""
    n, unlimited = len(table.columns), out.options.update(max_width=_ANY_WIDTH)
    for wrap_heads, has_edge in ((False, True), (True, True), (True, False)):
        shown = _table(table, wrap_heads, has_edge)
        if Measurement.get(out, unlimited, shown).maximum <= out.width or (wrap_heads and n == 1):
            yield shown
            return
    for part in (slice(0, (n + 1) // 2), slice((n + 1) // 2, n)):
        rows = {row: found[part] for row, found in table.rows.items()}
        yield from _fitting(replace(table, columns=table.columns[part], rows=rows))


def _table(table: ResultTable, wrap_heads: bool, has_edge: bool) -> Table:
    box = SIMPLE if table.has("low") or not has_edge else HEAVY_HEAD  # intervals need room
    caption = f"± {table.spread}" if table.spread else None
    shown = Table(title=escape(table.title), caption=caption, box=box, show_edge=has_edge, pad_edge=has_edge)
    shown.add_column(table.row_head)
    best = best_two(table)
    cells = {row: [_cell(entry, table, best[k].get(row)) for k, entry in enumerate(e)] for row, e in table.rows.items()}
    for k, column in enumerate(table.columns):
        widest = max((Text.from_markup(found[k]).cell_len for found in cells.values()), default=1)
        head = textwrap.fill(column, widest, break_long_words=False) if wrap_heads else column
        shown.add_column(escape(head), justify="right", no_wrap=True)
    for row, found in cells.items():
        shown.add_row(escape(row), *found)
    return shown


def _cell(entry: Entry, table: ResultTable, place: int | None = None) -> str:
    text = escape(measured(entry, table.digits))
    if entry.difference is not None and table.unit == "%":
        text += f" ({number(entry.difference, table.digits, signed=True)})"
    if entry.note == AT_CHANCE:
        return f"[red]{text}, chance[/]"
    return {1: f"[bold green]{text}[/]", 2: f"[underline]{text}[/]"}.get(place or 0, text)


def _extremes(table: ResultTable) -> Table:
    """The worst and the best direction of every method."""
    shown = Table(table.row_head, "worst", "", "best", "", title=escape(table.title))
    shown.columns[1].justify = shown.columns[3].justify = "right"
    for row, found in table.rows.items():
        known = {c: e for c, e in zip(table.columns, found, strict=True) if finite(e.mean)}
        order = sorted(known, key=lambda column: known[column].mean or 0.0)
        ends = [cell for c in (order[0], order[-1]) for cell in (_cell(known[c], table), escape(c))] if order else []
        shown.add_row(escape(row), *(ends or [measured(found[0], table.digits)]))
    return shown


def _matrix(table: ResultTable, row: str, views: Sequence[str]) -> Table:
    """Accuracy of one method for every gallery and probe."""
    found = iter(table.rows[row])
    shown = Table("gallery", title=escape(f"{row}: gallery in rows, probe in columns"))
    for view in views:
        shown.add_column(escape(view), justify="right")
    for gallery in range(len(views)):
        cells = ["" if probe == gallery else _cell(next(found), table) for probe in range(len(views))]
        shown.add_row(escape(views[gallery]), *cells)
    return shown
