from __future__ import annotations

import pytest

from crossview.report import Entry
from crossview.report.drawing import clip
from crossview.report.figures import tick_text
from crossview.report.formatting import absent, compare, decimals, finite, latex, markdown, measured, number, spread

NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (finite(1.0), True),
        (finite(None), False),
        (finite(NAN), False),
        (number(-2.06, 1), "−2.1"),
        (number(2.06, 1, signed=True), "+2.1"),
        (number(-0.04, 1, signed=True), "0.0"),
        (number(None, 1), "–"),
        (decimals([84.31, 7.5]), 1),
        (decimals([0.031, None]), 4),
        (decimals([]), 1),
        (spread(84.31, 1.68, 1), "84.3 ± 1.7"),
        (spread(84.31, None, 1), "84.3"),
        (measured(Entry(84.31, 1.68), 1), "84.3 ± 1.7"),
        (measured(Entry(note="5 of 5 failed: singular"), 1), "failed"),
        (compare(Entry(84.3, 1.7, 86.4, 1.75), 1), "−2.1 (−1.2 sd)"),
        (compare(Entry(84.3, 1.7, 86.4), 1), "−2.1"),
        (compare(Entry(84.3), 1), ""),
        (absent(Entry(note="not applicable: CCA takes 2 views")), "n/a"),
        (absent(Entry()), "–"),
        (latex("50 % of x_1 ± λ"), r"50 \% of x\_1 $\pm$ $\lambda$"),
        (latex("\\~"), r"\textbackslash{}\textasciitilde{}"),
        (markdown("a|b\n<c>"), r"a\|b &lt;c&gt;"),
        (tick_text(20.0), "20"),
        (tick_text(-0.5), "−0.5"),
        (tick_text(1e-7), "1e-07"),
        (clip("discriminant", 6), "discr…"),
        (clip("a\x00b\x0bc\ud800d\uffff", 9), "a�b�c�d�"),  # what XML does not allow
    ],
)
def test_formats(found, expected):
    assert found == expected
