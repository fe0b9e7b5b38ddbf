"""A report in a folder: the page, and its tables and figures as files."""

import os
import re
from functools import cache
from pathlib import Path

from crossview.files import write_atomically
from crossview.report.document import Facts, Item, MatchBrowser, Report, ResultTable
from crossview.report.drawing import Figure
from crossview.report.export import FORMATS, report_markdown
from crossview.report.matches import first_probes
from crossview.report.page import check, figure_of, render
from crossview.report.palette import Palette
from crossview.report.rendering import asset, render_template

_GAP, _HEAD, _MARGIN = 28.0, 26.0, 14.0  # between panels, above each, and around all
_LEGEND_ROWS, _LEGEND_STEP = 22, 19.0
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML does not allow


def write_report(report: Report, folder: str | os.PathLike[str], static: bool = True) -> Path:
    """Write a report into a folder, created if missing, and return the path of the page, ``report.html``.

    Next to it, ``report.md`` has its text and tables in Markdown, ``tables/KEY.tex``, ``.md`` and ``.csv`` have the
    tables, and, if `static`, ``figures/KEY.svg``, ``.png`` and ``.pdf`` the figures, which need vl-convert-python.
    """
    check(report)
    palette = Palette.of(report)
    contents: dict[str, bytes] = {}
    for item in report.items:
        if isinstance(item, ResultTable):
            for suffix, (_, _, write) in FORMATS.items():
                contents[f"tables/{item.key}.{suffix}"] = write(item).encode(errors="replace")
        elif static:
            contents |= {f"figures/{item.key}.{kind}": data for kind, data in draw(item, palette).items()}
    contents["report.md"] = report_markdown(report, figures=static).encode(errors="replace")
    contents["report.html"] = render(report).encode(errors="replace")
    for name, data in contents.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return Path(folder) / "report.html"


def draw(item: Item, palette: Palette) -> dict[str, bytes]:
    """A figure as SVG, PNG (twice the SVG's size) and PDF, by kind; nothing for tables and facts."""
    if isinstance(item, ResultTable | Facts):
        return {}
    try:
        import vl_convert
    except ImportError as error:
        hint = "pip install 'crossview[cli]', or write the report with static=False."
        raise ImportError(f"figures in files need vl-convert-python: {hint}") from error
    svg = figure_svg(figure_of(first_probes(item) if isinstance(item, MatchBrowser) else item, palette))
    return {"svg": svg.encode(), "png": vl_convert.svg_to_png(svg, scale=2), "pdf": vl_convert.svg_to_pdf(svg)}


def figure_svg(figure: Figure) -> str:
    """The drawings of a figure, as on the page in light colours, with the legend to their right, as one SVG."""
    panels, y, right = [], _MARGIN, _MARGIN
    rows = [figure.drawings[k : k + figure.columns] for k in range(0, len(figure.drawings), figure.columns)]
    for row in [*rows, *([[figure.scale]] if figure.scale else [])]:
        y += _HEAD if row[0].head else 0.0
        for k, drawing in enumerate(row):
            x = _MARGIN + k * (drawing.size[0] + _GAP)
            panels.append((x, y, drawing))
            right = max(right, x + drawing.size[0] + _MARGIN)
        y += max(drawing.size[1] for drawing in row) + _GAP / 2
    bottom, legend = y, []
    entries = [entry for group in figure.legends.values() for entry in group]
    room = 54 + 7 * min(max((len(entry.name) for entry in entries), default=0), 24)
    for k, entry in enumerate(entries):
        column, line = divmod(k, _LEGEND_ROWS)
        top = _MARGIN + (_HEAD if figure.drawings[0].head else 0.0)
        legend.append((right + column * room, top + line * _LEGEND_STEP, entry))
        bottom = max(bottom, top + (line + 1) * _LEGEND_STEP + _MARGIN)
    width = right + room * -(-len(entries) // _LEGEND_ROWS)
    places = {"panels": panels, "legend": legend, "width": width, "height": bottom}
    svg = render_template("figure.svg", figure=figure, style=_light_css(), **places)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", svg)


@cache
def _light_css() -> str:
    """Styles of the drawings with the light colours in place of variables, which other programs do not read."""
    text = re.sub(r"light-dark\(([^,]+),[^)]*\)", r"\1", asset("drawings.css"))
    values = dict(re.findall(r"--([\w-]+): ([^;]+);", text))
    rules = re.sub(r"(?s)/\*.*?\*/|:root.*?\}\n", "", text)
    return re.sub(r"var\(--([\w-]+)\)", lambda found: values[found[1]], rules)
