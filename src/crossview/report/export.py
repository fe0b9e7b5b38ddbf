"""Tables as LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

from crossview.report.document import Entry, Facts, Item, MatchBrowser, Report, ResultTable
from crossview.report.formatting import absent, best_two, compare, finite, number, spread

__all__ = ["report_markdown", "table_csv", "table_latex", "table_markdown"]

_LATEX = {
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    **{
        sign: f"$\\{name}$"
        for sign, name in zip(
            "±→×·αβγλ", ["pm", "to", "times", "cdot", "alpha", "beta", "gamma", "lambda"], strict=True
        )
    },
    **{
        sign: rf"\text{name}{{}}"
        for sign, name in zip(
            "\\~^<>|", ["backslash", "asciitilde", "asciicircum", "less", "greater", "bar"], strict=True
        )
    },
    **{"−": "$-$", "–": "--", "…": r"\ldots{}", "°": r"$^\circ$", '"': "''", "\n": " ", "\r": " "},
}
_FIELDS = ("mean", "sd", "published", "published_sd", "difference", "deviations", "loss", "published_loss", "note")


def table_csv(table: ResultTable) -> str:
    """A table as CSV, with a line per entry and full precision.

    >>> from crossview.report import Entry, ResultTable
    >>> print(table_csv(ResultTable("t", "A table", ["case 1"], {"PCA": [Entry(48.5, 1.5)]})).strip())
    row,column,mean,sd,published,published_sd,difference,deviations,loss,published_loss,note
    PCA,case 1,48.5,1.5,,,,,,,
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", "column", *_FIELDS])
    for name, entries in table.rows.items():
        for column, entry in zip(table.columns, entries, strict=True):
            values = (getattr(entry, field) for field in _FIELDS)
            writer.writerow([_csv(value) for value in (name, column, *values)])
    return stream.getvalue()


def _csv(value: str | float | None) -> str | float:
    """A cell; an apostrophe keeps a spreadsheet from taking text for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    value = re.sub(r"\r\n?", "\n", value)  # a lone carriage return would not be quoted, and begin a cell
    return f"'{value}" if re.match(r"\s*[=+\-@＝＋－＠]", value) else value


def table_markdown(table: ResultTable) -> str:
    """A table as Markdown, the best of a column in bold and the second best in italics.

    >>> from crossview.report import Entry, ResultTable
    >>> print(table_markdown(ResultTable("t", "A table", ["case 1"], {"PCA": [Entry(48.5, 1.5)]})))
    | method | case 1 |
    | --- | ---: |
    | PCA | 48.5 ± 1.5 |
    """
    best = best_two(table)
    wrap = ("{}", "**{}**", "*{}*")

    def cell(name: str, column: int, entry: Entry) -> str:
        shown = spread(entry.mean, entry.sd, table.digits) if finite(entry.mean) else absent(entry)
        text = wrap[best[column].get(name, 0)].format(shown)
        asides = _asides(table, entry, _markdown)
        return f"{text} ({'; '.join(asides)})" if asides else text

    lines = [[_markdown(text) for text in (table.row_head, *table.columns)], ["---", *["---:"] * len(table.columns)]]
    for name, entries in table.rows.items():
        lines.append([_markdown(name), *(cell(name, k, entry) for k, entry in enumerate(entries))])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def report_markdown(report: Report, figures: bool) -> str:
    """A report as Markdown: text, tables and facts, and, if wanted, links to its figures (not to pictures of samples)."""
    parts = [f"# {_markdown(report.title)}", _markdown(report.summary)]
    if report.command:
        parts.append(f"```\n{report.command}\n```")
    for section in report.sections:
        found = [f"- {_markdown(line)}" for line in section.text.splitlines() if line]
        found += [part for item in section.items for part in _item_markdown(item, figures)]
        parts += [f"## {_markdown(section.title)}", *found] if found else []
    return "\n\n".join(part for part in parts if part).replace("\n\n- ", "\n- ") + "\n"


def _item_markdown(item: Item, figures: bool) -> list[str]:
    head = [f"### {_markdown(item.title)}", _markdown(item.caption)]
    if isinstance(item, ResultTable):
        return [*head, table_markdown(item).rstrip()]
    if isinstance(item, Facts):
        return [*head, *(f"- {_markdown(name)}: {_markdown(value)}" for name, value in item.rows.items())]
    if figures and not isinstance(item, MatchBrowser):
        return [*head, f"![{_markdown(item.title)}](figures/{item.key}.svg)"]
    return []


def _asides(table: ResultTable, entry: Entry, escape: Callable[[str], str]) -> list[str]:
    asides = []
    if finite(entry.published):
        known = f"published {spread(entry.published, entry.published_sd, table.digits)}"
        difference = compare(entry, table.digits)
        asides.append(f"{known}, {difference.replace(' (', ', ').rstrip(')')}" if difference else known)
    if finite(entry.loss):
        known = f", published {number(entry.published_loss, 1)} %" if finite(entry.published_loss) else ""
        asides.append(f"loss {number(entry.loss, 1)} %{known}")
    return [*asides, escape(entry.note)] if entry.note else asides


def _markdown(text: str) -> str:
    text = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", " ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table_latex(table: ResultTable) -> str:
    r"""A table as a LaTeX ``tabular`` that needs no package; published figures and losses have lines below.

    >>> from crossview.report import Entry, ResultTable
    >>> print(table_latex(ResultTable("t", "A table", ["case_1"], {"PCA": [Entry(48.5, 1.5)]})))
    \begin{tabular}{lr}
    \hline
    method & case\_1 \\
    \hline
    PCA & 48.5 $\pm$ 1.5 \\
    \hline
    \end{tabular}
    """
    best = best_two(table)
    body: list[list[str]] = []
    for name, entries in table.rows.items():
        measured = (_measured(entry, best[k].get(name, 0), table.digits) for k, entry in enumerate(entries))
        body.append([_latex(name), *measured])
        if any(finite(entry.published) for entry in entries):
            body.append([r"\quad published", *(_published(entry, table.digits) for entry in entries)])
        if any(finite(entry.loss) for entry in entries):
            body.append([r"\quad loss, \%", *(_loss(entry) for entry in entries)])
    head = " & ".join(_latex(text) for text in (table.row_head, *table.columns))
    rows = "".join(f"{' & '.join(line)} \\\\\n" for line in body)
    columns = "l" + "r" * len(table.columns)
    return f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{head} \\\\\n\\hline\n{rows}\\hline\n\\end{{tabular}}\n"


def _measured(entry: Entry, rank: int, digits: int) -> str:
    if not finite(entry.mean):
        return _latex(absent(entry))
    wrap = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")[rank]
    mean, *sd = spread(entry.mean, entry.sd, digits).split(" ", 1)
    return " ".join([wrap.format(_latex(mean)), *map(_latex, sd)])


def _published(entry: Entry, digits: int) -> str:
    if not finite(entry.published):
        return ""
    difference = number(entry.difference, digits, signed=True) if finite(entry.mean) else ""
    return _latex(spread(entry.published, entry.published_sd, digits) + (f" ({difference})" if difference else ""))


def _loss(entry: Entry) -> str:
    if not finite(entry.loss):
        return ""
    return _latex(
        number(entry.loss, 1) + (f" ({number(entry.published_loss, 1)})" if finite(entry.published_loss) else "")
    )


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
