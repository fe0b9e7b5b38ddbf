"""A report as one page of HTML that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crossview.report import formatting
from crossview.report.charts import bars, curves
from crossview.report.document import Bars, Curves, Embeddings, Facts, HeatMaps, Item, MatchBrowser, Report, ResultTable
from crossview.report.drawing import Figure, clip, coordinate
from crossview.report.export import table_csv, table_latex, table_markdown
from crossview.report.heatmaps import heat_maps
from crossview.report.matches import match_browser
from crossview.report.palette import Palette, css
from crossview.report.scatter import embeddings

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["asset", "check", "environment", "figure_of", "render"]

_DOWNLOADS = (
    ("CSV", "csv", "text/csv", table_csv),
    ("Markdown", "md", "text/markdown", table_markdown),
    ("LaTeX", "tex", "application/x-tex", table_latex),
)


def render(report: Report) -> str:
    """A report as a page, with its styles, script, drawings, pictures and tables.

    A policy in its head keeps it from loading or sending anything.

    Examples
    --------
    >>> from crossview.report import Facts, Report, Section
    >>> page = render(Report("A run", "Two methods.", [Section("How", [Facts("seeds", "Seeds", {"seed": "7"})])]))
    >>> page.startswith("<!doctype html>")
    True
    """
    check(report)
    palette = Palette.of(report)
    style, script = asset("drawings.css") + css() + asset("report.css"), asset("report.js")
    sections = [(section, [_block(item, palette) for item in section.items]) for section in report.sections]
    template = environment().get_template("page.html")
    return template.render(report=report, sections=sections, palette=palette, style=style, script=script) + "\n"


def check(report: Report) -> None:
    """Reject keys that cannot stand in links and names of files, and rows with too few or too many entries."""
    keys: set[str] = set()
    for item in (item for section in report.sections for item in section.items):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", item.key) or item.key in ("main", "tip", "said"):
            raise ValueError(f"the key {item.key!r} must be letters, digits and hyphens, and not main, tip or said.")
        if item.key.casefold() in keys:
            raise ValueError(f"the key {item.key!r} is there twice: give every item of a report a different key.")
        keys.add(item.key.casefold())
        if isinstance(item, ResultTable | Bars):
            rows, heads = (item.rows, item.columns) if isinstance(item, ResultTable) else (item.series, item.groups)
            for name, entries in rows.items():
                if len(entries) != len(heads):
                    raise ValueError(
                        f"{item.key!r} has {len(entries)} entries for {name!r}, but {len(heads)} columns: "
                        "give Entry() where nothing was measured."
                    )


def _block(item: Item, palette: Palette) -> tuple[str, Any]:
    """The macro that writes an item, and what it takes."""
    if isinstance(item, ResultTable):
        return "table", item
    return ("facts", item) if isinstance(item, Facts) else ("figure", figure_of(item, palette))


def figure_of(item: Bars | Curves | HeatMaps | Embeddings | MatchBrowser, palette: Palette) -> Figure:
    """The drawings of an item."""
    match item:
        case Bars():
            return bars(item, palette)
        case Curves():
            return curves(item, palette)
        case HeatMaps():
            return heat_maps(item)
        case Embeddings():
            return embeddings(item)
        case MatchBrowser():
            return match_browser(item)


@cache
def environment() -> Environment:
    """Templates that escape everything, and the functions they call."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install 'crossview[cli]'.") from error
    made = Environment(
        loader=PackageLoader("crossview.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {"xy": coordinate, "digest": _digest, "base64": _base64}
    made.globals |= {name: getattr(formatting, name) for name in formatting.__all__}
    made.globals |= {
        "clip": clip,
        "downloads": _DOWNLOADS,
        "split_paragraphs": lambda text: [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()],
        "split_words": lambda text: [part for part in re.split(r"(\s+)", text) if part],
    }
    return made


def asset(name: str) -> str:
    """A file of the package."""
    return (files("crossview.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What the policy allows a style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _base64(text: str) -> str:
    """Text for a data URI; surrogates, which names of files may have, become question marks."""
    return base64.b64encode(text.encode(errors="replace")).decode()
