"""Result tables in a terminal."""

from collections.abc import Iterator, Sequence
from math import isfinite

from rich.box import HEAVY_HEAD, SIMPLE
from rich.markup import escape
from rich.table import Table

from crossview.report import Entry, ResultTable
from crossview.report.compose import AT_CHANCE
from crossview.report.formatting import absent, best_two, interval
from crossview.report.results import direction_names

_MOST_COLUMNS = 6  # the page has wider ones


def console_tables(
    tables: Sequence[ResultTable], best: Sequence[str] = (), views: Sequence[str] = ()
) -> Iterator[Table]:
    """Tables for a terminal; other wide ones than those by direction of these views are left to the page."""
    for table in tables:
        if len(table.columns) <= _MOST_COLUMNS:
            yield _table(table)
        elif list(table.columns) == direction_names(views):
            yield _extremes(table)
            yield from (_matrix(table, row, views) for row in best[:1])


def _table(table: ResultTable) -> Table:
    box = SIMPLE if table.has("low") else HEAVY_HEAD  # intervals need room
    shown = Table(title=escape(table.title), caption=f"± {table.spread}" if table.spread else None, box=box)
    shown.add_column(table.row_head)
    for column in table.columns:
        shown.add_column(escape(column), justify="right")
    best = best_two(table)
    for row, found in table.rows.items():
        shown.add_row(escape(row), *(_cell(entry, table, best[k].get(row)) for k, entry in enumerate(found)))
    return shown


def _cell(entry: Entry, table: ResultTable, place: int | None = None) -> str:
    if entry.mean is None or not isfinite(entry.mean):
        return absent(entry)
    text = f"{entry.mean:.{table.digits}f}"
    if entry.spread is not None:
        text += f" ± {entry.spread:.{table.digits}f}"
    text += escape(interval(entry, table.digits))
    if entry.difference is not None and table.unit == "%":
        text += f" ({entry.difference:+.{table.digits}f})"
    if entry.note == AT_CHANCE:
        return f"[red]{text}, chance[/]"
    return {1: f"[bold green]{text}[/]", 2: f"[underline]{text}[/]"}.get(place or 0, text)


def _extremes(table: ResultTable) -> Table:
    """The worst and the best direction of every method."""
    shown = Table(table.row_head, "worst", "", "best", "", title=escape(table.title))
    shown.columns[1].justify = shown.columns[3].justify = "right"
    for row, found in table.rows.items():
        known = {c: e for c, e in zip(table.columns, found, strict=True) if e.mean is not None and isfinite(e.mean)}
        order = sorted(known, key=lambda column: known[column].mean or 0.0)
        ends = [cell for c in (order[0], order[-1]) for cell in (_cell(known[c], table), escape(c))] if order else []
        shown.add_row(escape(row), *(ends or [absent(found[0])]))
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
