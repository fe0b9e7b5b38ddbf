"""Text for people: words of messages, tables in notebooks, cells of spreadsheets."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_FORMULA = re.compile(r"\s*([=@＝＠]|[+\-＋－](?![0-9.]+\Z))")
_SHORT = {"viewscaler__by": "scaling", "viewpca__n_components": "pca"}


def counted(count: int, noun: str) -> str:
    """A number and a noun, in the plural unless there is one.

    >>> counted(1, "class"), counted(2, "class"), counted(0, "random split")
    ('1 class', '2 classes', '0 random splits')
    """
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun}{ending}"


def first_few(names: Sequence[object], most: int = 3) -> str:
    """The first few of many names.

    >>> first_few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def html_table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table for notebooks."""
    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in line) for tag, line in lines)
    return f"<table><caption>{escape(caption)}</caption>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"


def settings_text(params: Mapping[str, Any]) -> str:
    """Parameters of a pipeline without the names of its steps, for people to read.

    >>> settings_text({"viewscaler__by": "feature", "viewpca__n_components": 40, "kmvhe__gamma_scale": 0.5})
    'scaling=feature, pca=40, gamma_scale=0.5'
    """
    return ", ".join(f"{_SHORT.get(name, name.rpartition('__')[2])}={value}" for name, value in params.items())


def spreadsheet_safe(value: object) -> object:
    """A cell for a CSV file: text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> [spreadsheet_safe(value) for value in ("=1+1", "@SUM(A1)", "-a", "-5", "a-b", -1.5)]
    ["'=1+1", "'@SUM(A1)", "'-a", '-5', 'a-b', -1.5]
    """
    if not isinstance(value, str):
        return value
    value = re.sub(r"\r\n?", "\n", value)  # a lone carriage return would not be quoted, and begin a cell
    return f"'{value}" if _FORMULA.match(value) else value
