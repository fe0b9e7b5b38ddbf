"""The frame of a figure: heading, caption, legend, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crossview.report.markup import Markup, el, join
from crossview.report.palette import Marker, Palette
from crossview.report.svg import marks

__all__ = ["caption", "figure", "key_mark", "numbers", "swatch"]


def figure(key: str, title: str, text: str, *body: str | None, class_: str = "") -> Markup:
    """A figure under its heading and caption."""
    return el("figure", el("figcaption", *caption(title, text)), *body, id=key, class_=f"item {class_}".strip())


def caption(title: str, text: str) -> list[Markup]:
    """Heading, and caption where there is one."""
    return [el("h3", title), *([el("p", text)] if text else [])]


def numbers(tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]]) -> Markup:
    """What a figure shows as tables, folded away: each has a name, heads and rows, each beginning with a name."""
    return el(
        "details",
        el("summary", "Data"),
        join(
            el("div", _table(*table), class_="scroll", tabindex=0, role="group", aria_label=table[0])
            for table in tables
        ),
        class_="data",
    )


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    head = el("tr", *(el("th", text, scope="col") for text in heads))
    body = (el("tr", el("th", row[0], scope="row"), *(el("td", text) for text in row[1:])) for row in rows)
    return el("table", el("caption", name), el("thead", head), el("tbody", *body))


def swatch(name: str, palette: Palette) -> Markup | None:
    """A spot of a series' colour, before its name; None where the name has no colour."""
    return el("i", class_=f"swatch {palette.css_class(name)}") if name in palette else None


def key_mark(marker: Marker, class_: str, dash: str | None = None) -> Markup:
    """A marker in a legend, on a piece of its line where there is one."""
    line = None if dash is None else el("path", d="M1 7H27", class_="line", stroke_dasharray=dash or None)
    spot = el("path", d=marks([(14, 7)], marker.outline), class_=marker.css_class)
    return el(
        "svg", line, spot, viewBox="0 0 28 14" if line else "7 0 14 14", class_=f"key {class_}", aria_hidden="true"
    )
