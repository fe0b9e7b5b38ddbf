"""How figures, spreads and differences are written, and text in Markdown and LaTeX."""

import re
from collections.abc import Iterable, Sequence
from math import isfinite, log10
from typing import TypeGuard

from crossview.report.document import Entry, ResultTable

_LATEX = {
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    **{"±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "·": r"$\cdot$", "−": "$-$", "°": r"$^\circ$"},
    **{"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "λ": r"$\lambda$", "–": "--", "…": r"\ldots{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': "''"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "\n": " ", "\r": " "},
}


def latex(text: str) -> str:
    """Text in LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def markdown(text: str) -> str:
    """Text in Markdown, on one line."""
    text = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", " ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["PCA"]), listed(["PCA", "LDA"]), listed(["PCA", "LDA", "CCA"])
    ('PCA', 'PCA and LDA', 'PCA, LDA and CCA')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def finite(value: float | None) -> TypeGuard[float]:
    """Whether there is a number."""
    return value is not None and isfinite(value)


def number(value: float | None, digits: int, *, signed: bool = False) -> str:
    """A number with a true minus and a number of digits after the point; a dash for None and nan."""
    if not finite(value):
        return "–"
    value = round(float(value), digits) + 0.0  # no negative zero
    return f"{value:{'+' if signed and value else ''}.{digits}f}".replace("-", "−")


def decimals(values: Iterable[float | None]) -> int:
    """Digits after the point with which the largest of some numbers has three in all, from one to four."""
    largest = max((abs(value) for value in values if finite(value)), default=0.0)
    return 1 if largest == 0 else min(max(2 - int(log10(largest) // 1), 1), 4)


def spread(mean: float | None, sd: float | None, digits: int) -> str:
    """Mean ± standard deviation or standard error."""
    return f"{number(mean, digits)} ± {number(sd, digits)}" if finite(sd) and finite(mean) else number(mean, digits)


def measured(entry: Entry, digits: int) -> str:
    """What was measured, or what stands for it."""
    return spread(entry.mean, entry.spread, digits) + interval(entry, digits) if finite(entry.mean) else absent(entry)


def interval(entry: Entry, digits: int) -> str:
    """The confidence interval in brackets, after a space; empty if there is none."""
    known = finite(entry.low) and finite(entry.high)
    return f" [{number(entry.low, digits)}, {number(entry.high, digits)}]" if known else ""


def compare(entry: Entry, digits: int) -> str:
    """The difference from the published figure, also in standard deviations; empty if there is none."""
    if not (finite(entry.mean) and finite(entry.published)):
        return ""
    text = number(entry.difference, digits, signed=True)
    return f"{text} ({number(entry.deviations, 1, signed=True)} sd)" if finite(entry.deviations) else text


def with_unit(text: str, unit: str) -> str:
    """A number, and its unit after a space that does not break."""
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def absent(entry: Entry) -> str:
    """What stands for a figure that was not measured."""
    if entry.note.startswith("not applicable"):
        return "n/a"
    return "failed" if "failed" in entry.note.casefold() else "–"


def best_two(table: ResultTable) -> list[dict[str, int]]:
    """For every column, the best (1) and second best (2) rows by the printed digits, unless there is no worse one."""
    marks = []
    for column in range(len(table.columns)):
        means = {name: entries[column].mean for name, entries in table.rows.items()}
        shown = {name: round(mean, table.digits) for name, mean in means.items() if finite(mean)}
        order = sorted(set(shown.values()), reverse=table.best == "highest")
        marked = order[: min(len(shown) - 1, 2)] if table.best and shown else []
        marks.append({name: marked.index(value) + 1 for name, value in shown.items() if value in marked})
    return marks
