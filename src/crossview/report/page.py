"""A report as one page of HTML that needs nothing besides itself, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from crossview.report.charts import bars, curves
from crossview.report.document import Bars, Curves, Embeddings, Facts, HeatMaps, Item, MatchBrowser, Report, ResultTable
from crossview.report.markup import Markup, el, join
from crossview.report.matches import match_browser
from crossview.report.palette import Palette, css
from crossview.report.panels import embeddings, heat_maps
from crossview.report.tables import facts, result_table

__all__ = ["check", "render"]

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='6' cy='8' r='5' fill='%232a66b8'/%3E%3Ccircle cx='10' cy='8' r='5' fill='%23d9772b' opacity='.8'/%3E"
    "%3C/svg%3E"
)


def render(report: Report) -> str:
    """A report as a page.

    Parameters
    ----------
    report : Report
        What to show.

    Returns
    -------
    html : str
        The page, with its styles, script, drawings, pictures and tables. A policy in its head keeps it from loading or
        sending anything.

    Examples
    --------
    >>> from crossview.report import Facts, Report, Section
    >>> page = render(Report("A run", "What came of it.", [Section("How", [Facts("seeds", "Seeds", {"seed": "7"})])]))
    >>> page.startswith("<!doctype html>")
    True
    """
    check(report)
    palette = Palette.of(report)
    style, script = _asset("report.css") + css(), _asset("report.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", report.title),
        el("link", rel="icon", href=_ICON),
        el("style", Markup(style)),
    )
    body = el(
        "body",
        el("a", "Skip to the results", href="#main", class_="skip"),
        _header(report),
        el(
            "div",
            el("nav", el("h2", "Contents"), _contents(report), class_="toc", aria_label="Contents"),
            el("details", el("summary", "Contents"), _contents(report), class_="toc-folded"),
            el("main", *(_section(k, report, palette) for k in range(len(report.sections))), id="main"),
            class_="columns",
        ),
        el("div", id="tip", role="tooltip", hidden=True),
        el("div", id="said", class_="unseen", aria_live="polite"),
        el("script", Markup(script)),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def check(report: Report) -> None:
    """Refuse keys that cannot stand in links and names of files, and rows that have too few or too many entries."""
    keys: set[str] = set()
    for item in (item for section in report.sections for item in section.items):
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", item.key) or item.key in ("main", "tip", "said"):
            raise ValueError(
                f"the key {item.key!r} must be letters, digits and hyphens, and no name of the page's own."
            )
        if item.key.casefold() in keys:
            raise ValueError(f"the key {item.key!r} is there twice: give every item of a report a key of its own.")
        keys.add(item.key.casefold())
        if isinstance(item, ResultTable | Bars):
            rows, heads = (item.rows, item.columns) if isinstance(item, ResultTable) else (item.series, item.groups)
            for name, entries in rows.items():
                if len(entries) != len(heads):
                    raise ValueError(
                        f"{item.key!r} has {len(entries)} entries for {name!r}, but {len(heads)} columns: "
                        "give Entry() where nothing was measured."
                    )


def _asset(name: str) -> str:
    return (files("crossview.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(report: Report) -> Markup:
    modes = [
        el("button", mode, type="button", data_mode=mode, aria_pressed="true" if mode == "auto" else "false")
        for mode in ("auto", "light", "dark")
    ]
    command = el(
        "div",
        el("pre", el("code", *_unbroken(report.command)), tabindex=0, role="group", aria_label="command"),
        el("button", "Copy", type="button", class_="copy scripted"),
        class_="command",
    )
    return el(
        "header",
        el("div", *modes, class_="modes scripted", role="group", aria_label="colours"),
        el("h1", report.title),
        _paragraphs(report.summary, "summary"),
        command if report.command else None,
    )


def _unbroken(command: str) -> list[str]:
    """A command that is broken between its words only, not after their hyphens."""
    return [el("span", part) if part.strip() else part for part in re.split(r"(\s+)", command) if part]


def _paragraphs(text: str, class_: str) -> Markup | None:
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return el("div", *(el("p", part) for part in parts), class_=class_) if parts else None


def _contents(report: Report) -> Markup:
    return el(
        "ol",
        *(
            el(
                "li",
                el("a", section.title, href=f"#section.{k}"),
                el("ol", *(el("li", el("a", item.title, href=f"#{item.key}")) for item in section.items))
                if section.items
                else None,
            )
            for k, section in enumerate(report.sections, 1)
        ),
    )


def _section(k: int, report: Report, palette: Palette) -> Markup:
    section = report.sections[k]
    items = join(_item(item, palette) for item in section.items)
    return el("section", el("h2", section.title), _paragraphs(section.text, "prose"), items, id=f"section.{k + 1}")


def _item(item: Item, palette: Palette) -> Markup:
    match item:
        case ResultTable():
            return result_table(item, palette)
        case Bars():
            return bars(item, palette)
        case Curves():
            return curves(item, palette)
        case HeatMaps():
            return heat_maps(item, palette)
        case Embeddings():
            return embeddings(item, palette)
        case MatchBrowser():
            return match_browser(item)
        case Facts():
            return facts(item)
