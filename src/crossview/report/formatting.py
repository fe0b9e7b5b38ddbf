"""Numbers in words: how figures, spreads and differences are written, and which of a column are the best."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, log10

from crossview.report.document import Entry, ResultTable

__all__ = ["absent", "best_two", "compare", "decimals", "finite", "number", "spread", "with_unit"]


def finite(value: float | None) -> bool:
    """Whether there is a number.

    >>> finite(1.0), finite(None), finite(float("nan"))
    (True, False, False)
    """
    return value is not None and isfinite(value)


def number(value: float | None, digits: int, *, signed: bool = False) -> str:
    """A number with so many digits after the point, and a true minus; a dash for none.

    >>> number(-2.06, 1), number(2.06, 1, signed=True), number(None, 1)
    ('−2.1', '+2.1', '–')
    """
    if value is None or not isfinite(value):
        return "–"
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if not any(digit in text for digit in "123456789"):  # nothing is left to have a sign
        text = text.lstrip("+-")
    return text.replace("-", "−")


def decimals(values: Iterable[float | None]) -> int:
    """Digits after the point with which the largest of some numbers has three in all, from one to four.

    >>> decimals([84.31, 7.5]), decimals([0.031])
    (1, 4)
    """
    largest = max((abs(value) for value in values if value is not None and isfinite(value)), default=0.0)
    return 1 if largest == 0 else min(max(2 - int(log10(largest) // 1), 1), 4)


def spread(mean: float | None, sd: float | None, digits: int) -> str:
    """Mean ± standard deviation.

    >>> spread(84.31, 1.68, 1), spread(84.31, None, 1)
    ('84.3 ± 1.7', '84.3')
    """
    return f"{number(mean, digits)} ± {number(sd, digits)}" if finite(sd) and finite(mean) else number(mean, digits)


def compare(entry: Entry, digits: int) -> str:
    """The difference from the published figure, with its number of standard deviations; empty where there is none.

    >>> compare(Entry(84.3, 1.7, 86.4, 1.75), 1)
    '−2.1 (−1.2 sd)'
    """
    if not (finite(entry.mean) and finite(entry.published)):
        return ""
    text = number(entry.difference, digits, signed=True)
    return f"{text} ({number(entry.deviations, 1, signed=True)} sd)" if finite(entry.deviations) else text


def with_unit(text: str, unit: str) -> str:
    """A number, and its unit after a space that does not break."""
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def absent(entry: Entry) -> str:
    """What stands for a figure that was not measured.

    >>> absent(Entry(note="not applicable: CCA takes 2 views")), absent(Entry(note="5 of 5 failed: singular"))
    ('n/a', 'failed')
    """
    if entry.note.startswith("not applicable"):
        return "n/a"
    return "failed" if "failed" in entry.note.casefold() else "–"


def best_two(table: ResultTable) -> list[dict[str, int]]:
    """For every column, the rows that are best (1) and second best (2), as the printed digits tell them apart.

    A column of one figure has no best one, and of two, no second best one.
    """
    marks = []
    for column in range(len(table.columns)):
        means = {name: entries[column].mean for name, entries in table.rows.items()}
        shown = {name: round(mean, table.digits) for name, mean in means.items() if mean is not None and isfinite(mean)}
        order = sorted(set(shown.values()), reverse=table.best == "highest")
        ranks = dict(zip(order, (1, 2), strict=False)) if table.best and len(shown) > 1 else {}
        if len(shown) < 3:
            ranks = {value: rank for value, rank in ranks.items() if rank == 1}
        marks.append({name: ranks[value] for name, value in shown.items() if value in ranks})
    return marks
