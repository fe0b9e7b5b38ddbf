"""Tables of results and of facts."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from crossview.report.document import Entry, Facts, ResultTable
from crossview.report.export import table_csv, table_latex, table_markdown
from crossview.report.figure import caption, swatch
from crossview.report.markup import Markup, el, join
from crossview.report.palette import Palette
from crossview.report.words import absent, best_two, compare, finite, number, spread, with_unit

__all__ = ["facts", "result_table"]

_FAR = 2.0  # published standard deviations from which a difference is pointed out
_WIDE = 5  # columns up to which there is room for a published figure and the difference side by side
_NARROW = 3  # columns below which a table would have more gaps than figures, were it as wide as the page


def result_table(table: ResultTable, palette: Palette) -> Markup:
    """A table that can be sorted, with the best two of every column marked, and its notes below."""
    notes = list(dict.fromkeys(entry.note for entries in table.rows.values() for entry in entries if entry.note))
    best = best_two(table)
    rows = [
        el(
            "tr",
            el("th", swatch(name, palette), name, scope="row"),
            *(_cell(table, entry, best[k].get(name, 0), notes) for k, entry in enumerate(entries)),
        )
        for name, entries in table.rows.items()
    ]
    head = el("tr", *(_head(text, first=k == 0) for k, text in enumerate([table.row_head, *table.columns])))
    grid = el(
        "table",
        el("caption", table.title, class_="unseen"),
        el("thead", head),
        el("tbody", *rows),
        class_=f"results {_width(len(table.columns))}".strip(),
        data_best=table.best or "highest",
    )
    return el(
        "section",
        *caption(table.title, table.caption),
        el("div", grid, class_="scroll", tabindex=0, role="group", aria_label=table.title),
        el("p", _explanation(table), class_="explanation"),
        _footnotes(table.key, notes),
        _downloads(table),
        id=table.key,
        class_="item",
    )


def _width(columns: int) -> str:
    return "stacked" if columns > _WIDE else "narrow" if columns < _NARROW else ""


def _head(text: str, *, first: bool) -> Markup:
    arrow = el("span", class_="arrow", aria_hidden="true")
    parts = (text, arrow) if first else (arrow, text)  # so that heads and figures end at the same place
    return el("th", el("button", *parts, type="button"), scope="col", class_="first" if first else None)


def _cell(table: ResultTable, entry: Entry, rank: int, notes: Sequence[str]) -> Markup:
    mark = _note(table.key, entry.note, notes) if entry.note else None
    lines = [el("div", *_measured(table, entry, rank), mark, class_="measured")]
    if finite(entry.published):
        text = compare(entry, table.digits)
        lines.append(
            el(
                "div",
                el(
                    "span",
                    el("span", "published ", class_="unseen"),
                    spread(entry.published, entry.published_sd, table.digits),
                ),
                *(
                    (
                        el("span", " · ", class_="dot"),
                        el("span", text, class_="difference far" if _is_far(entry) else "difference"),
                    )
                    if text
                    else ()
                ),
                class_="published",
            )
        )
    if finite(entry.loss):
        known = f" ({number(entry.published_loss, 1)})" if finite(entry.published_loss) else ""
        lines.append(el("div", f"loss {with_unit(number(entry.loss, 1), '%')}{known}", class_="published"))
    return el("td", *lines, data_v=repr(float(entry.mean)) if entry.mean is not None and finite(entry.mean) else None)


def _measured(table: ResultTable, entry: Entry, rank: int) -> list[Markup]:
    if not finite(entry.mean):
        return [el("span", absent(entry), class_="none")]
    parts = [
        el(
            ("span", "b", "u")[rank],
            number(entry.mean, table.digits),
            class_=("mean", "mean best", "mean second")[rank],
        )
    ]
    if finite(entry.sd):
        parts.append(el("span", f" ± {number(entry.sd, table.digits)}", class_="sd"))
    if rank:
        parts.append(el("span", (" (best)", " (second best)")[rank - 1], class_="unseen"))
    return parts


def _is_far(entry: Entry) -> bool:
    return entry.deviations is not None and abs(entry.deviations) >= _FAR


def _note(key: str, note: str, notes: Sequence[str]) -> Markup:
    place = notes.index(note) + 1
    return el(
        "sup", el("a", str(place), href=f"#{key}.note-{place}", data_tip=note, aria_label=f"note {place}: {note}")
    )


def _explanation(table: ResultTable) -> str:
    """How to read the table, of which nothing is said that it does not have."""
    entries = [entry for row in table.rows.values() for entry in row]
    unit = f", {table.unit}" if table.unit else ""
    parts = [f"Measured mean{' ± standard deviation' if any(finite(entry.sd) for entry in entries) else ''}{unit}."]
    if any(finite(entry.published) for entry in entries):
        known = any(finite(entry.deviations) for entry in entries)
        more = ", also in published standard deviations" if known else ""
        parts.append(f"Below it the published figure, and measured less published{more}.")
    if any(_is_far(entry) for entry in entries):
        parts.append("A difference of two or more of these is coloured.")
    if any(finite(entry.loss) for entry in entries):
        known = any(finite(entry.published_loss) for entry in entries)
        parts.append(f"Loss is relative{', with the published one in brackets' if known else ''}.")
    if table.best and any(best_two(table)):
        parts.append(f"Bold: {table.best} of the column; underlined: second.")
    return " ".join(parts)


def _footnotes(key: str, notes: Sequence[str]) -> Markup | None:
    if not notes:
        return None
    return el("ol", *(el("li", note, id=f"{key}.note-{k}") for k, note in enumerate(notes, 1)), class_="notes")


def _downloads(table: ResultTable) -> Markup:
    kinds = (
        ("CSV", "csv", "text/csv", table_csv),
        ("Markdown", "md", "text/markdown", table_markdown),
        ("LaTeX", "tex", "application/x-tex", table_latex),
    )
    links = (
        el("a", name, href=_data_uri(kind, write(table)), download=f"{table.key}.{suffix}")
        for name, suffix, kind, write in kinds
    )
    return el("p", "Download ", join(links), class_="downloads")


def _data_uri(kind: str, text: str) -> str:
    return f"data:{kind};charset=utf-8;base64," + base64.b64encode(text.encode(errors="replace")).decode()


def facts(item: Facts) -> Markup:
    """Names and values."""
    rows = (el("div", el("dt", name), el("dd", value)) for name, value in item.rows.items())
    return el("section", *caption(item.title, item.caption), el("dl", *rows), id=item.key, class_="item facts")
