"""A report in a folder: the page, and its tables and figures as files."""

from __future__ import annotations

import os
from pathlib import Path

from crossview.persistence import write_atomically
from crossview.report.document import Report, ResultTable
from crossview.report.export import FORMATS, report_markdown
from crossview.report.page import check, render
from crossview.report.palette import Palette
from crossview.report.static import draw

__all__ = ["write_report"]


def write_report(report: Report, folder: str | os.PathLike[str], static: bool = True) -> Path:
    """Write a report into a folder.

    Parameters
    ----------
    report : Report
        What to write.
    folder : str or path
        Where to; created if missing.
    static : bool
        Whether to write every figure as SVG, PNG and PDF, too. This needs vl-convert-python; the page needs jinja2.

    Returns
    -------
    path : Path
        The page, ``report.html``. Next to it, ``report.md`` has its text and tables in Markdown, ``tables/KEY.tex``,
        ``.md`` and ``.csv`` have the tables, and ``figures/KEY.svg``, ``.png`` and ``.pdf`` the figures.

    Examples
    --------
    >>> import tempfile
    >>> from crossview.report import Entry, Report, ResultTable, Section
    >>> table = ResultTable("ranks", "Rank 1", ["case 1"], {"PCA": [Entry(48.5, 1.5)], "MvHE": [Entry(84.3, 1.7)]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(Report("A run", "Two methods.", [Section("Results", [table])]), folder, static=False)
    ...     sorted(file.name for file in (path.parent / "tables").iterdir())
    ['ranks.csv', 'ranks.md', 'ranks.tex']
    """
    check(report)
    items = [item for section in report.sections for item in section.items]
    contents: dict[str, bytes] = {}
    for table in (item for item in items if isinstance(item, ResultTable)):
        for suffix, (_, _, write) in FORMATS.items():
            contents[f"tables/{table.key}.{suffix}"] = write(table).encode(errors="replace")
    if static:
        palette = Palette.of(report)
        for item in items:
            contents |= {f"figures/{item.key}.{kind}": data for kind, data in draw(item, palette).items()}
    contents["report.md"] = report_markdown(report, figures=static).encode(errors="replace")
    contents["report.html"] = render(report).encode(errors="replace")
    for name, data in contents.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return Path(folder) / "report.html"
