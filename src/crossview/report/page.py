"""A report as one page of HTML that loads nothing, and in a folder with its tables and figures as files."""

import base64
import hashlib
import io
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from crossview._store import write_atomically
from crossview.report.document import Facts, Item, MatchBrowser, Report, ResultTable
from crossview.report.figures import DARK, Look, figure_files, figure_of, key_svg, page_svg, palette
from crossview.report.tables import FORMATS, best_two, decimals, finite, measured, number, published

_TEMPLATES = Environment(
    loader=PackageLoader("crossview.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
_TEMPLATES.globals |= {function.__name__: function for function in (best_two, finite, measured, number, published)}
_TEMPLATES.filters |= {
    "base64": lambda text: base64.b64encode(text.encode(errors="replace")).decode(),
    "digest": lambda text: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
}
_PRINTED = 6  # probes of the match browser that are there without a script, and on paper


def write_report(report: Report, folder: str | os.PathLike[str], static: bool = True) -> Path:
    """Write a report into a folder, created if missing, and return the path of the page, ``report.html``.

    Next to it, ``tables/KEY.csv``, ``.md`` and ``.tex`` have the tables, and, if `static`, ``figures/KEY.svg`` and
    ``.pdf`` the figures.
    """
    looks = palette(report)
    contents = {"report.html": render(report).encode(errors="replace")}
    for item in report.items:
        if isinstance(item, ResultTable):
            for suffix, (_, _, write) in FORMATS.items():
                contents[f"tables/{item.key}.{suffix}"] = write(item).encode(errors="replace")
        elif static and not isinstance(item, Facts | MatchBrowser):
            drawn = figure_files(figure_of(item, looks))
            contents |= {f"figures/{item.key}.{kind}": data for kind, data in drawn.items()}
    for name, data in contents.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    return Path(folder) / "report.html"


def render(report: Report) -> str:
    """A report as a page; a policy in its head keeps it from loading or sending anything."""
    looks = palette(report)
    assets = files("crossview.report") / "assets"
    values = {
        "report": report,
        "sections": [(section, [_block(item, looks) for item in section.items]) for section in report.sections],
        "swatches": {name: f"light-dark({look['color']}, {DARK[look['color']]})" for name, look in looks.items()},
        "style": (assets / "report.css").read_text(encoding="utf-8"),
        "script": (assets / "report.js").read_text(encoding="utf-8"),
        "formats": FORMATS,
    }
    return _TEMPLATES.get_template("page.html").render(values)


def _block(item: Item, looks: Mapping[str, Look]) -> tuple[str, dict[str, Any]]:
    """The macro that writes an item, and what it takes."""
    if isinstance(item, ResultTable):
        return "table", {"table": item}
    if isinstance(item, Facts):
        return "facts", {"item": item}
    if isinstance(item, MatchBrowser):
        return "browser", {"item": item, "pictures": _pictures(item), "data": _match_data(item)}
    figure = figure_of(item, looks)
    drawings = [(panel.head, *page_svg(figure, k)) for k, panel in enumerate(figure.panels)]
    legends = {
        kind: [(name, key_svg(f"{item.key}.{kind}-{k}", look)) for k, (name, look) in enumerate(named.items())]
        for kind, named in figure.legends.items()
    }
    return "figure", {"figure": figure, "drawings": drawings, "legends": legends}


def _match_data(item: MatchBrowser) -> dict[str, Any]:
    """What the page's script needs to browse."""
    _, height, width = item.images.shape
    digits = decimals(distance for probes in item.probes.values() for _, matches in probes for _, distance in matches)
    shown = max(1, _PRINTED // max(len(item.probes), 1))
    data = {"size": (width, height), "key": item.key, "digits": digits, "labels": item.labels, "shown": shown}
    return data | {"probes": list(item.probes.values())}


def _pictures(item: MatchBrowser) -> dict[int, str]:
    """The pictures that are shown, as data URIs by number."""
    used = {k for some in item.probes.values() for probe, matches in some for k in (probe, *(m for m, _ in matches))}
    pictures = {}
    for k in sorted(used):
        stream = io.BytesIO()
        Image.fromarray(np.asarray(item.images[k], dtype=np.uint8)).save(stream, "PNG", optimize=True)
        pictures[k] = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return pictures
