"""How figures are written, and tables as CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite, log10
from typing import TypeGuard

from crossview._text import spreadsheet_safe
from crossview.report.document import Entry, ResultTable

_FIELDS = ("mean", "sd", "se", "low", "high", "published", "published_sd", "difference", "note")
_LATEX = {
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    **{"±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "·": r"$\cdot$", "−": "$-$", "°": r"$^\circ$"},
    **{"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "λ": r"$\lambda$", "–": "--", "…": r"\ldots{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': "''"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "\n": " ", "\r": " "},
}


def latex(text: str) -> str:
    """Text in LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def markdown(text: str) -> str:
    """Text in Markdown, on one line."""
    text = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", " ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["PCA"]), listed(["PCA", "LDA"]), listed(["PCA", "LDA", "CCA"])
    ('PCA', 'PCA and LDA', 'PCA, LDA and CCA')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def finite(value: float | None) -> TypeGuard[float]:
    """Whether there is a number."""
    return value is not None and isfinite(value)


def number(value: float | None, digits: int, *, signed: bool = False) -> str:
    """A number with a true minus and a number of digits after the point; a dash for None and nan."""
    if not finite(value):
        return "–"
    value = round(float(value), digits) + 0.0  # no negative zero
    return f"{value:{'+' if signed and value else ''}.{digits}f}".replace("-", "−")


def decimals(values: Iterable[float | None]) -> int:
    """Digits after the point with which the largest of some numbers has three in all, from one to four."""
    largest = max((abs(value) for value in values if finite(value)), default=0.0)
    return 1 if largest == 0 else min(max(2 - int(log10(largest) // 1), 1), 4)


def spread(mean: float | None, sd: float | None, digits: int) -> str:
    """Mean ± standard deviation or standard error."""
    return f"{number(mean, digits)} ± {number(sd, digits)}" if finite(sd) and finite(mean) else number(mean, digits)


def measured(entry: Entry, digits: int) -> str:
    """The mean, its spread and its confidence interval in brackets, or what stands for a figure that is missing."""
    if finite(entry.mean):
        known = finite(entry.low) and finite(entry.high)
        interval = f" [{number(entry.low, digits)}, {number(entry.high, digits)}]" if known else ""
        return spread(entry.mean, entry.spread, digits) + interval
    if entry.note.startswith("not applicable"):
        return "n/a"
    return "failed" if "failed" in entry.note else "–"


def published(entry: Entry, digits: int) -> str:
    """The published figure, and measured minus published; empty if nothing was published."""
    if not finite(entry.published):
        return ""
    known = f"published {spread(entry.published, entry.published_sd, digits)}"
    return f"{known}, {number(entry.difference, digits, signed=True)}" if finite(entry.difference) else known


def best_two(table: ResultTable) -> list[dict[str, int]]:
    """For every column, the best (1) and second best (2) rows by the printed digits, unless there is no worse one."""
    marks = []
    for column in range(len(table.columns)):
        means = {name: entries[column].mean for name, entries in table.rows.items()}
        shown = {name: round(mean, table.digits) for name, mean in means.items() if finite(mean)}
        order = sorted(set(shown.values()), reverse=table.best == "highest")
        marked = order[: min(len(shown) - 1, 2)] if table.best and shown else []
        marks.append({name: marked.index(value) + 1 for name, value in shown.items() if value in marked})
    return marks


def table_csv(table: ResultTable) -> str:
    """A table as CSV, with a line per entry and full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", "column", *_FIELDS])
    for name, entries in table.rows.items():
        for column, entry in zip(table.columns, entries, strict=True):
            cells = (name, column, *(getattr(entry, field) for field in _FIELDS))
            writer.writerow(map(spreadsheet_safe, cells))
    return stream.getvalue()


def _text_rows(table: ResultTable, escape: Callable[[str], str], marks: Sequence[str]) -> Iterator[list[str]]:
    """The head and the rows as text: what was measured, marked by its place in its column, next to the published."""
    yield [escape(text) for text in (table.row_head, *table.columns)]
    best = best_two(table)
    for name, entries in table.rows.items():
        cells = [escape(name)]
        for entry, places in zip(entries, best, strict=True):
            known = published(entry, table.digits)
            text = marks[places.get(name, 0)] % escape(measured(entry, table.digits))
            cells.append(f"{text} ({escape(known)})" if known else text)
        yield cells


def table_markdown(table: ResultTable) -> str:
    """A table as Markdown, the best of a column in bold and the second best in italics."""
    head, *rows = _text_rows(table, markdown, ("%s", "**%s**", "*%s*"))
    lines = [head, ["---", *["---:"] * len(table.columns)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_latex(table: ResultTable) -> str:
    """A table as a LaTeX ``tabular`` that needs no package, the best of a column in bold and the second underlined."""
    head, *rows = (
        f"{' & '.join(row)} \\\\" for row in _text_rows(table, latex, ("%s", r"\textbf{%s}", r"\underline{%s}"))
    )
    columns = "l" + "r" * len(table.columns)
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *rows, r"\hline", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


FORMATS = {
    "csv": ("CSV", "text/csv", table_csv),
    "md": ("Markdown", "text/markdown", table_markdown),
    "tex": ("LaTeX", "application/x-tex", table_latex),
}
"""Name, media type and writer of a table, by suffix."""
