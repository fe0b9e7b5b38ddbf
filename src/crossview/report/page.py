"""A report as one page of HTML that loads nothing."""

import re
from typing import Any

from crossview.report.charts import bars, curves
from crossview.report.document import Bars, Curves, Embeddings, Facts, HeatMaps, Item, MatchBrowser, Report, ResultTable
from crossview.report.drawing import Figure
from crossview.report.export import FORMATS
from crossview.report.heatmaps import heat_maps
from crossview.report.matches import match_browser
from crossview.report.palette import Palette
from crossview.report.rendering import asset, render_template
from crossview.report.scatter import embeddings


def render(report: Report) -> str:
    """A report as a page; a policy in its head keeps it from loading or sending anything."""
    check(report)
    palette = Palette.of(report)
    return render_template(
        "page.html",
        report=report,
        sections=[(section, [_block(item, palette) for item in section.items]) for section in report.sections],
        palette=palette,
        style=asset("drawings.css") + asset("report.css"),
        script=asset("report.js"),
        formats=FORMATS,
    )


def check(report: Report) -> None:
    """Reject keys that cannot be used in links and file names, and rows with too few or too many entries."""
    keys: set[str] = set()
    for item in report.items:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", item.key) or item.key in ("main", "tip", "said"):
            raise ValueError(f"the key {item.key!r} must be letters, digits and hyphens, and not main, tip or said.")
        if item.key.casefold() in keys:
            raise ValueError(f"the key {item.key!r} is used twice: give every item of a report a different key.")
        keys.add(item.key.casefold())
        if isinstance(item, ResultTable | Bars):
            rows, heads = (item.rows, item.columns) if isinstance(item, ResultTable) else (item.series, item.groups)
            for name, entries in rows.items():
                if len(entries) != len(heads):
                    found = f"{item.key!r} has {len(entries)} entries for {name!r}, but {len(heads)} columns"
                    raise ValueError(f"{found}: use Entry() where nothing was measured.")


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
