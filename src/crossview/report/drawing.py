"""Figures drawn with matplotlib: each panel as SVG in the page, and all of them in files.

A page may use neither inline styles nor an id twice, and it has dark colours, too. So what matplotlib writes is
rewritten for it: styles become attributes, ids get a prefix, and a colour becomes ``light-dark(…)``. Altair was tried
instead: it needs inline styles and 0.9 MB of script, and its points cannot be reached by keyboard.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from crossview.report.document import Item
from crossview.report.palette import DARK, GRID, INK, SOFT, Look

_HEAD, _LEGEND_ROWS, _LEGEND_WIDTH = 24, 22, 190
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML does not allow
_STYLE = {
    **{"figure.dpi": 72, "font.size": 11, "axes.labelsize": 11, "pdf.fonttype": 42, "lines.linewidth": 2},
    **{"svg.fonttype": "none", "svg.hashsalt": "crossview", "text.parse_math": False},
    **{"text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT},
    **{"axes.spines.top": False, "axes.spines.right": False, "grid.color": GRID, "axes.axisbelow": True},
    **{"axes.facecolor": "none", "axes.labelpad": 8, "xtick.major.pad": 6, "ytick.major.pad": 6},
    **{"figure.constrained_layout.w_pad": 0.06, "figure.constrained_layout.h_pad": 0.06},
}
_METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: its size in pixels, how to draw it, and what it shows, for screen readers.

    ``points`` are the series that the page's script goes through: their names, and the x, y and text of their points.
    """

    head: str
    size: tuple[float, float]
    draw: Callable[[Any], None]  # on matplotlib axes
    description: str = ""
    points: Sequence[tuple[str, Sequence[tuple[float, float, str]]]] = ()


@dataclass(frozen=True)
class Figure:
    """The panels of an item of a report (in files, ``columns`` in a row), and what belongs to all of them."""

    item: Item
    kind: str
    panels: Sequence[Panel]
    columns: int = 1
    legends: Mapping[str, Mapping[str, Look]] = field(default_factory=dict)  # name → look, by what is named
    explanation: str = ""
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = ()  # names, heads and rows
    data: Any = None  # more data for the page's script


def clip(text: str, length: int) -> str:
    """Text cut to a number of characters, without those that cannot be drawn."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"


def figure_files(figure: Figure) -> dict[str, bytes]:
    """All panels of a figure with the legend to their right: SVG, PNG (twice its size) and PDF, by suffix."""
    columns = max(min(figure.columns, len(figure.panels)), 1)
    rows = [figure.panels[k : k + columns] for k in range(0, len(figure.panels), columns)]
    heights = [max(panel.size[1] + _HEAD * bool(panel.head) for panel in row) for row in rows] or [40]
    widths = [max(row[k].size[0] for row in rows if k < len(row)) for k in range(columns)] if rows else [200]
    looks = [(clip(name, 24), look) for names in figure.legends.values() for name, look in names.items()]
    if looks:
        widths.append(_LEGEND_WIDTH * -(-len(looks) // _LEGEND_ROWS))
        heights[-1] += max(17 * min(len(looks), _LEGEND_ROWS) + 20 - sum(heights), 0)
    with _styled() as new_figure:
        whole = new_figure(sum(widths), sum(heights))
        parts = whole.subfigures(len(heights), len(widths), squeeze=False, width_ratios=widths, height_ratios=heights)
        for row, parts_of_row in zip(rows, parts, strict=False):
            for panel, part in zip(row, parts_of_row, strict=False):
                if panel.head:
                    part.suptitle(clip(panel.head, int(panel.size[0] / 7)), fontsize=11, fontweight="bold")
                panel.draw(part.subplots())
        if looks:
            _draw_legend(parts[0, -1] if len(rows) < 2 else whole, looks)
        whole.draw_without_rendering()
        whole.set_layout_engine("none")  # the layout is the same in all files
        return {kind: _saved(whole, kind, "white") for kind in _METADATA}


def _draw_legend(part: Any, looks: Sequence[tuple[str, Look]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_key(look)) for _, look in looks]
    columns = -(-len(looks) // _LEGEND_ROWS)
    legend = part.legend(handles, [""] * len(looks), loc="upper right", ncols=columns, frameon=False, handlelength=2.5)
    for text, (name, _) in zip(legend.get_texts(), looks, strict=True):
        text.set_text(name)  # given above, a name that starts with an underscore would be left out


def page_svg(panel: Panel, kind: str, name: str, title: str) -> tuple[str, list[dict[str, Any]]]:
    """A panel as SVG to be part of a page, and its points in the coordinates of this SVG.

    `name` starts its ids, so that these differ from all others in the page.
    """
    with _styled() as new_figure:
        drawn = new_figure(*panel.size)
        panel.draw(drawn.subplots())
        root = _adapted(drawn, kind, name)
        rows, h = [], panel.size[1]
        for series, points in panel.points:
            places = drawn.axes[0].transData.transform([point[:2] for point in points]).tolist() if points else []
            texts = (point[2] for point in points)
            found = [[round(x, 1), round(h - y, 1), t] for (x, y), t in zip(places, texts, strict=True)]
            rows.append({"n": series, "p": found})
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}.title {name}.words"}
    for tag, key, text in (("desc", "words", panel.description), ("title", "title", title)):
        element = ElementTree.Element(tag, {"id": f"{name}.{key}"})
        element.text = clip(text, 1000)
        root.insert(0, element)
    return ElementTree.tostring(root, encoding="unicode"), rows


def key_svg(name: str, look: Look) -> str:
    """A line with a marker, or a marker alone, as it is in a legend of a page."""
    with _styled() as new_figure:
        from matplotlib.lines import Line2D

        drawn, shown = new_figure(28 if "linestyle" in look else 14, 14), {"markersize": 5, **_key(look)}
        drawn.add_artist(Line2D([0.02, 0.5, 0.98], [0.5, 0.5, 0.5], markevery=[1], **shown))
        root = _adapted(drawn, "key", name)
    root.attrib |= {"aria-hidden": "true"}
    return ElementTree.tostring(root, encoding="unicode")


def _key(look: Look) -> Look:
    """How the marker of a legend is drawn if it has no line."""
    return look if "linestyle" in look else {"linestyle": "none", "markersize": 8} | look


def _adapted(drawn: Any, kind: str, name: str) -> Any:
    """What matplotlib writes as SVG, rewritten for a page: see the head of this module."""
    root: Any = ElementTree.fromstring(_saved(drawn, "svg", "none"))
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        parent.text = parent.text if parent.tag == "text" else None
        for child in list(parent):
            child.tail = None
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
        attributes = {key.rpartition("}")[2]: value for key, value in parent.attrib.items()}
        attributes |= dict(re.findall(r"([\w-]+): ?([^;]+)", attributes.pop("style", "")))
        attributes.pop("font-family", None)
        if font := re.search(r"([\d.]+px)", attributes.pop("font", "")):  # before matplotlib 3.9
            attributes["font-size"] = font[1]
        given = attributes.pop("id", "")
        if given.startswith("data-"):
            attributes |= dict(pair.split("=") for pair in given.split())
        elif given and parent.tag != "g":  # groups have ids that nothing refers to
            attributes["id"] = f"{name}.{given}"
        if attributes.get("transform", "").startswith("rotate(-0 "):
            del attributes["transform"]
        if "href" in attributes:
            attributes["href"] = attributes["href"].replace("#", f"#{name}.", 1)
        parent.attrib = {key: _value(value, name) for key, value in attributes.items()}
    for group in root.iter("g"):
        _share(group)
    root.attrib = {"viewBox": root.attrib["viewBox"], "class": f"chart {kind}"}
    return root


def _value(value: str, name: str) -> str:
    if value.lower() in DARK:
        return f"light-dark({value.lower()}, {DARK[value.lower()]})"
    value = value.replace("url(#", f"url(#{name}.")
    return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", value)


def _share(group: Any) -> None:
    """Move what all marks of a group have in common to the group: thousands of them are most of a page."""
    marks = list(group)
    if len(marks) > 1 and all(mark.tag == "use" for mark in marks):
        for key in [key for key in marks[0].attrib if key not in ("href", "x", "y")]:
            if len({mark.get(key) for mark in marks}) == 1:
                group.set(key, marks[0].get(key))
                for mark in marks:
                    del mark.attrib[key]


@contextlib.contextmanager
def _styled() -> Iterator[Callable[[float, float], Any]]:
    """A function that makes a figure of a size in pixels, within matplotlib's settings for reports."""
    try:
        import matplotlib.figure
        import matplotlib.style
    except ImportError as error:
        raise ImportError("figures of reports need matplotlib: pip install 'crossview[cli]'.") from error
    with warnings.catch_warnings(), matplotlib.style.context(["default", _STYLE]):
        warnings.simplefilter("ignore")  # of characters that its font lacks, and of panels too small for their names
        yield lambda width, height: matplotlib.figure.Figure((width / 72, height / 72), layout="constrained")


def _saved(figure: Any, kind: str, ground: str) -> bytes:
    stream = io.BytesIO()
    dpi = 144 if kind == "png" else 72
    figure.savefig(stream, format=kind, dpi=dpi, metadata=_METADATA[kind], facecolor=ground)
    return stream.getvalue()
