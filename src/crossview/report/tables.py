"""What the page says about a table of results: notes, explanation and downloads."""

from __future__ import annotations

import base64

from crossview.report.document import Entry, ResultTable
from crossview.report.export import table_csv, table_latex, table_markdown
from crossview.report.formatting import best_two, finite

__all__ = ["downloads", "explanation", "is_far", "notes_of"]

_FAR = 2.0  # published standard deviations from which a difference is pointed out


def notes_of(table: ResultTable) -> list[str]:
    """The notes of all entries, each once."""
    return list(dict.fromkeys(entry.note for entries in table.rows.values() for entry in entries if entry.note))


def is_far(entry: Entry) -> bool:
    """Whether an entry is far from the published figure."""
    return entry.deviations is not None and abs(entry.deviations) >= _FAR


def explanation(table: ResultTable) -> str:
    """How to read the table; only what it contains is mentioned."""
    entries = [entry for row in table.rows.values() for entry in row]
    unit = f", {table.unit}" if table.unit else ""
    parts = [f"Measured mean{' ± standard deviation' if any(finite(entry.sd) for entry in entries) else ''}{unit}."]
    if any(finite(entry.published) for entry in entries):
        known = any(finite(entry.deviations) for entry in entries)
        more = ", also in published standard deviations" if known else ""
        parts.append(f"Below it the published figure, and measured less published{more}.")
    if any(is_far(entry) for entry in entries):
        parts.append("A difference of two or more of these is coloured.")
    if any(finite(entry.loss) for entry in entries):
        known = any(finite(entry.published_loss) for entry in entries)
        parts.append(f"Loss is relative{', with the published one in brackets' if known else ''}.")
    if table.best and any(best_two(table)):
        parts.append(f"Bold: {table.best} of the column; underlined: second.")
    return " ".join(parts)


def downloads(table: ResultTable) -> list[tuple[str, str, str]]:
    """Name, suffix and data URI of the table in every format."""
    kinds = (
        ("CSV", "csv", "text/csv", table_csv),
        ("Markdown", "md", "text/markdown", table_markdown),
        ("LaTeX", "tex", "application/x-tex", table_latex),
    )
    return [
        (name, suffix, f"data:{kind};charset=utf-8;base64,{base64.b64encode(_bytes(write(table))).decode()}")
        for name, suffix, kind, write in kinds
    ]


def _bytes(text: str) -> bytes:
    """Text in UTF-8; surrogates, which names of files may have, become question marks."""
    return text.encode(errors="replace")
