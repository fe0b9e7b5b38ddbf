"""Tables as LaTeX, Markdown and CSV, and reports as Markdown."""

import csv
import io
import re

from crossview._text import spreadsheet_safe
from crossview.report.document import Facts, Item, MatchBrowser, Report, ResultTable
from crossview.report.formatting import markdown
from crossview.report.rendering import render_template

_FIELDS = (
    *("mean", "sd", "se", "low", "high", "published", "published_sd"),
    *("difference", "deviations", "loss", "published_loss", "note"),
)


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


def table_markdown(table: ResultTable) -> str:
    """A table as Markdown, the best of a column in bold and the second best in italics."""
    return render_template("table.md", table=table)


def table_latex(table: ResultTable) -> str:
    """A table as a LaTeX ``tabular`` that needs no package, the best of a column in bold and the second underlined."""
    return render_template("table.tex", table=table)


FORMATS = {
    "csv": ("CSV", "text/csv", table_csv),
    "md": ("Markdown", "text/markdown", table_markdown),
    "tex": ("LaTeX", "application/x-tex", table_latex),
}
"""Name, media type and writer of a table, by suffix."""


def report_markdown(report: Report, figures: bool) -> str:
    """A report as Markdown: text, tables and facts, and links to its figures if they are there."""
    sections = [
        (section, [(item, content) for item in section.items if (content := _content(item, figures))])
        for section in report.sections
    ]
    text = render_template("report.md", report=report, sections=sections)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _content(item: Item, figures: bool) -> str:
    """What follows the caption; empty for what is only on the page."""
    if isinstance(item, ResultTable):
        return table_markdown(item)
    if isinstance(item, Facts):
        return "\n".join(f"- {markdown(name)}: {markdown(value)}" for name, value in item.rows.items())
    shown = figures and not isinstance(item, MatchBrowser)
    return f"![{markdown(item.title)}](figures/{item.key}.svg)" if shown else ""
