"""How figures are written, and tables in files."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from crossview.report import Entry, ResultTable
from crossview.report.figures import clip
from crossview.report.tables import (
    best_two,
    decimals,
    finite,
    latex,
    markdown,
    measured,
    number,
    published,
    spread,
    table_csv,
    table_latex,
    table_markdown,
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (finite(None), False),
        (finite(float("nan")), False),
        (number(-2.06, 1), "−2.1"),
        (number(2.06, 1, signed=True), "+2.1"),
        (number(-0.04, 1, signed=True), "0.0"),
        (number(None, 1), "–"),
        (decimals([84.31, 7.5]), 1),
        (decimals([0.031, None]), 4),
        (decimals([]), 1),
        (spread(84.31, None, 1), "84.3"),
        (measured(Entry(84.31, 1.68), 1), "84.3 ± 1.7"),
        (measured(Entry(93.06, low=91.0, high=95.24), 1), "93.1 [91.0, 95.2]"),
        (measured(Entry(note="5 of 5 failed: singular"), 1), "failed"),
        (measured(Entry(note="not applicable: CCA takes 2 views"), 1), "n/a"),
        (measured(Entry(), 1), "–"),
        (published(Entry(84.3, 1.7, 86.4, 1.75), 1), "published 86.4 ± 1.8, −2.1"),
        (published(Entry(published=86.4), 1), "published 86.4"),
        (published(Entry(84.3), 1), ""),
        (latex("50 % of x_1 ± λ"), r"50 \% of x\_1 $\pm$ $\lambda$"),
        (latex("\\~"), r"\textbackslash{}\textasciitilde{}"),
        (markdown("a|b\n<c>"), r"a\|b &lt;c&gt;"),
        (clip("discriminant", 6), "discr…"),
        (clip("a\x00b\x0bc\ud800d\uffff", 9), "a�b�c�d�"),  # what XML does not allow
    ],
)
def test_formats(found, expected):
    assert found == expected


def column(*means):
    return ResultTable("t", "title", ["c"], {f"m{k}": [Entry(mean)] for k, mean in enumerate(means)})


def test_best_two_are_marked_as_the_printed_digits_tell_them_apart():
    table = column(80.04, 79.96, 70.0, 71.0, None)
    assert best_two(table) == [{"m0": 1, "m1": 1, "m3": 2}]
    assert best_two(replace(table, best="lowest")) == [{"m2": 1, "m3": 2}]
    assert best_two(replace(table, best="")) == [{}]
    assert [best_two(column(*means)) for means in ([1.0], [1.0, 2.0])] == [[{}], [{"m1": 1}]]  # there is no second


@pytest.fixture
def table():
    rows = {
        "A_1 & B": [Entry(84.3, 1.7, 86.4, 1.75), Entry(50.25)],
        "50% of {x}": [Entry(80.0, 1.0), Entry(note='N/A: a|b, "c"\nd')],
        "~^\\#$": [Entry(70.0), Entry(note="failed")],
    }
    return ResultTable("t", "title", ["case_1", "photo → sketch"], rows)


def test_csv_reads_back_in_full(table):
    rows = list(csv.DictReader(io.StringIO(table_csv(table))))
    assert [(row["row"], row["column"]) for row in rows] == [(n, c) for n in table.rows for c in table.columns]
    for row, entry in zip(rows, table.entries, strict=True):
        for field in ("mean", "sd", "published", "published_sd", "difference"):
            assert (float(row[field]) if row[field] else None) == getattr(entry, field)
        assert row["note"] == entry.note


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1"])
def test_spreadsheets_do_not_execute_cells(text):
    table = ResultTable("t", "title", [text], {text: [Entry(-1.5, published=2.0, note=text)]})
    (row,) = csv.DictReader(io.StringIO(table_csv(table), newline=""))
    assert [row[name] for name in ("row", "column", "note")] == ["'" + text.replace("\r", "\n")] * 3
    assert (row["mean"], row["difference"]) == ("-1.5", "-3.5")  # numbers stay numbers


def test_latex_is_escaped_and_marked(table):
    assert table_latex(table).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\hline",
        r"method & case\_1 & photo $\to$ sketch \\",
        r"\hline",
        r"A\_1 \& B & \textbf{84.3 $\pm$ 1.7} (published 86.4 $\pm$ 1.8, $-$2.1) & 50.2 \\",
        r"50\% of \{x\} & \underline{80.0 $\pm$ 1.0} & -- \\",
        r"\textasciitilde{}\textasciicircum{}\textbackslash{}\#\$ & 70.0 & failed \\",
        r"\hline",
        r"\end{tabular}",
    ]


def test_markdown_keeps_its_columns(table, hostile):
    lines = table_markdown(table).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    assert lines[2] == r"| A\_1 &amp; B | **84.3 ± 1.7** (published 86.4 ± 1.8, −2.1) | 50.2 |"
    assert "| *80.0 ± 1.0* | – |" in lines[3]
    assert "<" not in table_markdown(hostile.items[0])
