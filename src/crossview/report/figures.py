"""The figures of a report: as SVG in the page, and in files; and their colours.

matplotlib draws them. A page may use neither inline styles nor an id twice, and it has dark colours, too. So what
matplotlib writes is rewritten for it: styles become attributes, ids get a prefix, and a colour becomes
``light-dark(…)``. Altair was tried instead: it needs inline styles and 0.9 MB of script, and its points cannot be
reached by keyboard.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite
from typing import Any
from xml.etree import ElementTree

import numpy as np
from sklearn.preprocessing import minmax_scale

from crossview._text import counted
from crossview.embeddings import METHODS
from crossview.experiments.plans import method_of
from crossview.plot import draw_points
from crossview.report.document import Curves, Embeddings, Item, Report
from crossview.report.tables import decimals, number, spread

INK, SOFT, GRID = "#1c222b", "#56606e", "#e7eaee"
# Made in the space OKLCH, in which equal steps look equal. Neighbours differ in lightness as well as in hue, for those
# who cannot tell some hues apart.
_PAIRS = """
1762b6-70acf8 d26707-ffa367 038660-71c5a2 982b98-df81dc a18222-d4ba70 b51d29-fd7d78 1f93b8-75c9e9 5d35ad-a68df7
4b7f28-91bf77 6e401e-bf9274 d25186-ff92bc 04585c-70a8ab 777777-b4b4b4 1d3983-7493d9 475017-97a171
"""
SERIES = {f"#{light}": f"#{dark}" for light, dark in (pair.split("-") for pair in _PAIRS.split())}
DARK = {INK: "#e3e7ed", SOFT: "#9ea8b6", GRID: "#272d36", **SERIES}
"""The colour on a dark page, by that on a light one."""

_MARKERS = "oXs^DvP"
_DASHES = ("-", (0, (3.5, 1.5)), (0, (1.2, 1.2)), (0, (4.5, 1.5, 1.2, 1.5)))
_COMMITTEE = 13  # from the marker and dash of a method to those of its committee
_MOST_MARKERS = 14
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML does not allow
_STYLE = {
    **{"figure.dpi": 72, "font.size": 11, "axes.labelsize": 11, "pdf.fonttype": 42, "lines.linewidth": 2},
    **{"svg.fonttype": "none", "svg.hashsalt": "crossview", "text.parse_math": False, "axes.titleweight": "bold"},
    **{"text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT},
    **{"axes.spines.top": False, "axes.spines.right": False, "grid.color": GRID, "axes.axisbelow": True},
    **{"axes.facecolor": "none", "axes.labelpad": 8, "xtick.major.pad": 6, "ytick.major.pad": 6},
    **{"figure.constrained_layout.w_pad": 0.06, "figure.constrained_layout.h_pad": 0.06},
}
_NO_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}

Look = dict[str, Any]
"""How a line or its points are drawn, as matplotlib's properties."""


def series_look(k: int) -> Look:
    """The colour and marker with number k; they recur after 15 and 7."""
    return {"color": list(SERIES)[k % len(SERIES)], "marker": _MARKERS[k % len(_MARKERS)]}


def palette(report: Report) -> dict[str, Look]:
    """How the curves of a report look, by name.

    Methods look the same in every report, other names come in their order. A committee has the colour of its method.
    """
    names = dict.fromkeys(name for item in report.items if isinstance(item, Curves) for name in item.curves)
    methods = {name: k for k, name in enumerate(METHODS)}
    used = {methods.get(method_of(name)) for name in names}
    others = (k for k in count() if k not in used)
    looks = {}
    for name in names:
        method = method_of(name)
        k = methods[method] if method in methods else next(others)
        variant = k + _COMMITTEE * (name != method)
        dash = _DASHES[variant % len(_DASHES)]
        looks[name] = series_look(variant) | {"color": series_look(k)["color"], "linestyle": dash}
    return looks


@dataclass(frozen=True)
class Panel:
    """One chart of a figure: how to draw it, and what it shows, for screen readers.

    ``points`` are the series that the page's script goes through: their names, and the x, y and text of their points.
    """

    head: str
    draw: Callable[[Any], None]  # on matplotlib axes
    description: str
    points: Sequence[tuple[str, Sequence[tuple[float, float, str]]]]


@dataclass(frozen=True)
class Figure:
    """The panels of an item of a report (in files, ``columns`` in a row), and what belongs to all of them."""

    item: Item
    kind: str
    panels: Sequence[Panel]
    size: tuple[float, float]  # of a panel, in pixels
    columns: int
    legends: Mapping[str, Mapping[str, Look]]  # name → look, by what is named
    table: Sequence[Sequence[str]] = ()  # the values in rows, the first of which is the head


def clip(text: str, length: int) -> str:
    """Text cut to a number of characters, without those that cannot be drawn."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= length else text[: max(length - 1, 1)] + "…"


def figure_of(item: Curves | Embeddings, looks: Mapping[str, Look]) -> Figure:
    """The drawings of an item; its curves look as `looks` says."""
    return _curves(item, looks) if isinstance(item, Curves) else _embeddings(item)


def _curves(item: Curves, looks: Mapping[str, Look]) -> Figure:
    """Lines with bands and markers, and a legend that shows and hides them."""
    values = _finite_values(item, "y")
    digits = decimals(values)
    texts: dict[float, dict[str, str]] = {}
    for name, curve in item.curves.items():
        sds: Sequence[float | None] = curve.sd or [None] * len(curve.x)
        for x, y, sd in zip(curve.x, curve.y, sds, strict=True):
            texts.setdefault(x, {})[name] = spread(y, sd, digits)

    def draw(ax: Any) -> None:
        for k, (name, curve) in enumerate(item.curves.items()):
            every = max(1, -(-len(curve.x) // _MOST_MARKERS))
            look = looks[name] | {"clip_on": False, "gid": f"data-series={k}", "markevery": every}
            ax.plot(curve.x, curve.y, markersize=5, **look)
            if curve.sd is not None:
                band = np.subtract(curve.y, curve.sd), np.add(curve.y, curve.sd)
                ax.fill_between(curve.x, *band, color=look["color"], alpha=0.13, linewidth=0, gid=look["gid"])
        _set_axes(ax, item)
        ax.set(xlabel=clip(item.x_label, 80), ylabel=clip(item.y_label, 48))
        ax.grid(axis="y")

    points = []
    for name, curve in item.curves.items():
        known = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(y)]
        points.append((name, [(x, y, f"{item.x_label} {x:g}: {texts[x][name]}") for x, y in known]))
    ends = f", from {number(min(values), digits)} to {number(max(values), digits)}" if values else ""
    description = f"{counted(len(item.curves), 'curve')} of {item.y_label} against {item.x_label}{ends}."
    rows = [[f"{x:g}", *(texts[x].get(name, "") for name in item.curves)] for x in sorted(texts)]
    legend = {name: looks[name] for name in item.curves}
    table = [[item.x_label, *item.curves], *rows]
    return Figure(item, "curves", [Panel("", draw, description, points)], (640, 400), 1, {"curves": legend}, table)


def _finite_values(item: Curves, axis: str) -> list[float]:
    return [float(value) for curve in item.curves.values() for value in getattr(curve, axis) if isfinite(value)]


def _set_axes(ax: Any, item: Curves) -> None:
    """Limits and ticks; bands of shares end at 0 and 100 %."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    for name, axis, is_log in (("x", ax.xaxis, item.log_x), ("y", ax.yaxis, item.log_y)):
        values = _finite_values(item, name) or [1.0]
        low, high = min(values), max(values)
        if is_log:
            ax.set(**{f"{name}scale": "log"})
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
            axis.set_minor_locator(NullLocator())
        elif name == "x":
            is_whole = all(value.is_integer() for value in values)
            # Of whole numbers, such as ranks, the first has a tick, with some room to the next.
            least = low + 0.05 * (high - low) if is_whole else low
            ticks = MaxNLocator(6, steps=[1, 2, 5, 10], integer=is_whole).tick_values(low, high)
            inside = {float(tick) for tick in ticks if least <= tick <= high}
            ax.set_xticks(sorted(inside | {low} if is_whole else inside))
        else:
            axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
            if "%" in item.y_label and low >= 0 and high <= 100:
                ax.set_ylim(max(ax.get_ylim()[0], 0.0), min(ax.get_ylim()[1], 100.0))
        axis.set_major_formatter("{x:g}")


def _embeddings(item: Embeddings) -> Figure:
    """A panel per method; a colour per class and a marker per view, the same in all of them."""
    labels, views = (list(dict.fromkeys(names)) for names in (item.labels, item.views))
    groups: dict[tuple[int, int], list[int]] = {}
    for k, (label, view) in enumerate(zip(item.labels, item.views, strict=True)):
        groups.setdefault((labels.index(label), views.index(view)), []).append(k)
    sizes = (counted(len(item.labels), "sample"), counted(len(labels), "class"), counted(len(views), "view"))
    description = "{} of {} and {} in the plane.".format(*sizes)

    def panel(name: str) -> Panel:
        places = minmax_scale(item.panels[name]) if groups else np.empty((0, 2))

        def draw(ax: Any) -> None:
            for (c, v), rows in groups.items():
                look = {"color": series_look(c)["color"], "marker": series_look(v)["marker"]}
                draw_points(ax, places[rows], clip_on=False, gid=f"data-c={c} data-v={v}", **look)
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[])
            ax.spines[:].set(visible=True, color=SOFT, linewidth=0.6)

        points = [
            (labels[c], [(*places[k], f"{views[v]}\n{item.names[k]}") for k in rows]) for (c, v), rows in groups.items()
        ]
        return Panel(name, draw, description, points)

    legends = {
        "view": {view: {"color": SOFT, "marker": series_look(v)["marker"]} for v, view in enumerate(views)},
        "class": {label: {"color": series_look(c)["color"], "marker": "s"} for c, label in enumerate(labels)},
    }
    return Figure(item, "scatter", [panel(name) for name in item.panels], (240, 240), 4, legends)


def figure_files(figure: Figure) -> dict[str, bytes]:
    """All panels of a figure with the legend to their right, as SVG and PDF, by suffix."""
    n, (width, height) = len(figure.panels), figure.size
    columns = max(min(figure.columns, n), 1)
    rows = max(-(-n // columns), 1)
    looks = {name: look for names in figure.legends.values() for name, look in names.items()}
    with _styled() as new_figure:
        drawn = new_figure(columns * width + 190, max(rows * height, 17 * len(looks)))
        axes = drawn.subplots(rows, columns, squeeze=False).ravel()
        for panel, ax in zip(figure.panels, axes, strict=False):
            panel.draw(ax)
            ax.set_title(clip(panel.head, int(width / 7)))
        for ax in axes[n:]:
            ax.remove()
        handles, labels = [_key(look) for look in looks.values()], [clip(name, 24) for name in looks]
        drawn.legend(handles, labels, loc="outside right upper", frameon=False)
        return {kind: _saved(drawn, kind, "white") for kind in _NO_DATE}


def page_svg(figure: Figure, k: int) -> tuple[str, list[dict[str, Any]]]:
    """The k-th panel as SVG to be part of a page, and its points in the coordinates of this SVG."""
    panel, name = figure.panels[k], f"{figure.item.key}.{k}"
    title = ", ".join(filter(None, [figure.item.title, panel.head]))
    with _styled() as new_figure:
        drawn = new_figure(*figure.size)
        panel.draw(drawn.subplots())
        root = _adapted(drawn, figure.kind, name)
        rows = []
        for series, points in panel.points:
            places = drawn.axes[0].transData.transform([point[:2] for point in points]).tolist() if points else []
            pixels = [(round(x, 1), round(figure.size[1] - y, 1)) for x, y in places]
            rows.append({"n": series, "p": [(*at, point[2]) for at, point in zip(pixels, points, strict=True)]})
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}.title {name}.words"}
    for tag, key, text in (("desc", "words", panel.description), ("title", "title", title)):
        element = ElementTree.Element(tag, {"id": f"{name}.{key}"})
        element.text = clip(text, 1000)
        root.insert(0, element)
    return ElementTree.tostring(root, encoding="unicode"), rows


def key_svg(name: str, look: Look) -> str:
    """A line with a marker, or a marker alone, as it is in a legend of a page."""
    with _styled() as new_figure:
        drawn, line = new_figure(28 if "linestyle" in look else 14, 14), _key({"markersize": 5, **look})
        line.set(xdata=[0.02, 0.5, 0.98], ydata=[0.5, 0.5, 0.5], markevery=[1])
        drawn.add_artist(line)
        root = _adapted(drawn, "key", name)
    root.attrib |= {"aria-hidden": "true"}
    return ElementTree.tostring(root, encoding="unicode")


def _key(look: Look) -> Any:
    """The line of a legend, which is only a marker if the look has no line."""
    from matplotlib.lines import Line2D

    alone: Look = {} if "linestyle" in look else {"linestyle": "none", "markersize": 8}
    return Line2D([], [], **alone | look)


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
        if "href" in attributes:
            attributes["href"] = attributes["href"].replace("#", f"#{name}.", 1)
        parent.attrib = {key: _value(value, name) for key, value in attributes.items()}
    root.attrib = {"viewBox": root.attrib["viewBox"], "class": f"chart {kind}"}
    return root


def _value(value: str, name: str) -> str:
    if value.lower() in DARK:
        return f"light-dark({value.lower()}, {DARK[value.lower()]})"
    value = value.replace("url(#", f"url(#{name}.")
    return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", value)


@contextlib.contextmanager
def _styled() -> Iterator[Callable[[float, float], Any]]:
    """A function that makes a figure of a size in pixels, within matplotlib's settings for reports."""
    import matplotlib.figure
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(["default", _STYLE]):
        warnings.simplefilter("ignore")  # of characters that its font lacks, and of panels too small for their names
        yield lambda width, height: matplotlib.figure.Figure((width / 72, height / 72), layout="constrained")


def _saved(figure: Any, kind: str, ground: str) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=_NO_DATE[kind], facecolor=ground)
    return stream.getvalue()
