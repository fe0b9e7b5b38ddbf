"""Elements of HTML and SVG, in which everything that is not markup already is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

__all__ = ["Markup", "el", "join", "json_script"]

_VOID = frozenset({"br", "input", "link", "meta"})
_SELF_CLOSED = frozenset({"circle", "image", "line", "path", "rect", "use"})


class Markup(str):
    """Text that is markup, and so is not escaped again."""

    __slots__ = ()


def el(tag: str, *children: str | None, **attributes: Any) -> Markup:
    """An element.

    Parameters
    ----------
    tag : str
        Its name.
    *children : str or None
        What it holds: markup as it is, other text escaped, None left out.
    **attributes : object
        Of which ``class_`` loses its underscore, and other underscores become hyphens; None and False are left out,
        True stands for an attribute without a value.

    Examples
    --------
    >>> el("p", "a < b & ", el("b", "c"), class_="note")
    '<p class="note">a &lt; b &amp; <b>c</b></p>'
    """
    start = tag + "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _SELF_CLOSED and not children:
        return Markup(f"<{start}/>")
    if tag in _VOID:
        return Markup(f"<{start}>")
    return Markup(f"<{start}>{join(child for child in children if child is not None)}</{tag}>")


def join(parts: Iterable[str]) -> Markup:
    """Parts one after the other, escaped unless they are markup."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def json_script(value: Any) -> Markup:
    r"""Data for the page's script.

    Nothing in it can end the element early, whatever strings it has:

    >>> print(json_script(["</script>"]))
    <script type="application/json">["\u003c/script\u003e"]</script>
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json">{text}</script>')
