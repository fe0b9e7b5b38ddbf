"""A report as one page of HTML that loads nothing, and in a folder with its tables and figures as files."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from crossview._store import write_atomically
from crossview.report.document import Bars, Facts, Item, MatchBrowser, Report, ResultTable
from crossview.report.drawing import Figure, figure_files, key_svg, page_svg
from crossview.report.export import FORMATS, report_markdown
from crossview.report.figures import figure_of
from crossview.report.palette import DARK, Palette
from crossview.report.rendering import asset, png, render_template


def write_report(report: Report, folder: str | os.PathLike[str], static: bool = True) -> Path:
    """Write a report into a folder, created if missing, and return the path of the page, ``report.html``.

    Next to it, ``report.md`` has its text and tables in Markdown, ``tables/KEY.tex``, ``.md`` and ``.csv`` have the
    tables, and, if `static`, ``figures/KEY.svg``, ``.png`` and ``.pdf`` the figures.
    """
    palette = Palette.of(report)
    contents = {"report.html": render(report).encode(errors="replace")}
    contents["report.md"] = report_markdown(report, figures=static).encode(errors="replace")
    for item in report.items:
        if isinstance(item, ResultTable):
            for suffix, (_, _, write) in FORMATS.items():
                contents[f"tables/{item.key}.{suffix}"] = write(item).encode(errors="replace")
        elif static and not isinstance(item, Facts):
            files = figure_files(figure_of(item, palette))
            contents |= {f"figures/{item.key}.{kind}": data for kind, data in files.items()}
    for name, data in contents.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return Path(folder) / "report.html"


def render(report: Report) -> str:
    """A report as a page; a policy in its head keeps it from loading or sending anything."""
    _check(report)
    palette = Palette.of(report)
    return render_template(
        "page.html",
        report=report,
        sections=[(section, [_block(item, palette) for item in section.items]) for section in report.sections],
        swatches={name: f"light-dark({look['color']}, {DARK[look['color']]})" for name, look in palette.items()},
        style=asset("report.css"),
        script=asset("report.js"),
        formats=FORMATS,
    )


def _check(report: Report) -> None:
    """Reject keys that cannot be used in links and file names, and rows with too few or too many entries."""
    keys: set[str] = set()
    for item in report.items:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", item.key) or item.key in ("main", "tip", "said"):
            raise ValueError(f"the key {item.key!r} must be letters, digits and hyphens, and not main, tip or said.")
        if item.key.casefold() in keys:
            raise ValueError(f"the key {item.key!r} is used twice: give every item of a report a different key.")
        keys.add(item.key.casefold())
        if isinstance(item, ResultTable | Bars):
            for name, entries in item.rows.items():
                if len(entries) != len(item.columns):
                    found = f"{item.key!r} has {len(entries)} entries for {name!r}, but {len(item.columns)} columns"
                    raise ValueError(f"{found}: use Entry() where nothing was measured.")


def _block(item: Item, palette: Palette) -> tuple[str, dict[str, Any]]:
    """The macro that writes an item, and what it takes."""
    if isinstance(item, ResultTable):
        return "table", {"table": item}
    if isinstance(item, Facts):
        return "facts", {"item": item}
    figure = figure_of(item, palette)
    if isinstance(item, MatchBrowser):
        return "browser", {"figure": figure, "pictures": _pictures(item)}
    return "figure", {"figure": figure, "drawings": _drawings(figure), "legends": _legends(figure)}


def _drawings(figure: Figure) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The head, SVG and points of every panel."""
    named = [(panel, ", ".join(filter(None, [figure.item.title, panel.head]))) for panel in figure.panels]
    return [
        (panel.head, *page_svg(panel, figure.kind, f"{figure.item.key}.{k}", title))
        for k, (panel, title) in enumerate(named)
    ]


def _legends(figure: Figure) -> dict[str, list[tuple[str, str]]]:
    """Names with their keys, by what they name."""
    return {
        kind: [(name, key_svg(f"{figure.item.key}.{kind}-{k}", look)) for k, (name, look) in enumerate(looks.items())]
        for kind, looks in figure.legends.items()
    }


def _pictures(item: MatchBrowser) -> dict[int, str]:
    """The pictures that are shown, as data URIs by number."""
    used = {k for some in item.probes.values() for probe, matches in some for k in (probe, *(m for m, _ in matches))}
    images = np.asarray(item.images, dtype=np.uint8)
    return {k: "data:image/png;base64," + base64.b64encode(png(images[k])).decode() for k in sorted(used)}
