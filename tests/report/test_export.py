from __future__ import annotations

import csv
import io
import re

import pytest

from crossview.report import Entry, Report, ResultTable, write_report
from crossview.report.document import Facts, MatchBrowser
from crossview.report.export import report_markdown, table_csv, table_latex, table_markdown


@pytest.fixture
def table():
    rows = {
        "A_1 & B": [Entry(84.3, 1.7, 86.4, 1.75), Entry(50.25, loss=3.2, published_loss=2.9)],
        "50% of {x}": [Entry(80.0, 1.0), Entry(note='N/A: a|b, "c"\nd')],
        "~^\\#$": [Entry(70.0), Entry(note="failed")],
    }
    return ResultTable("t", "title", ["case_1", "photo → sketch"], rows)


def test_csv_reads_back_in_full(table):
    rows = list(csv.DictReader(io.StringIO(table_csv(table))))
    assert [(row["row"], row["column"]) for row in rows] == [(n, c) for n in table.rows for c in table.columns]
    for row, entry in zip(rows, table.entries, strict=True):
        for field in ("mean", "sd", "published", "published_sd", "difference", "deviations", "loss", "published_loss"):
            value = getattr(entry, field)
            assert (float(row[field]) if row[field] else None) == value
        assert row["note"] == entry.note


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1"])
def test_spreadsheets_do_not_execute_cells(text):
    table = ResultTable("t", "title", [text], {text: [Entry(-1.5, published=2.0, note=text)]})
    (row,) = csv.DictReader(io.StringIO(table_csv(table), newline=""))
    assert [row[name] for name in ("row", "column", "note")] == ["'" + text.replace("\r", "\n")] * 3
    assert (row["mean"], row["difference"]) == ("-1.5", "-3.5")  # numbers stay numbers


def test_latex_is_escaped_and_marked(table):
    text = table_latex(table)
    assert r"A\_1 \& B & \textbf{84.3} $\pm$ 1.7 & 50.2 \\" in text
    assert r"50\% of \{x\} & \underline{80.0} $\pm$ 1.0 & -- \\" in text
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{}\#\$ & 70.0 & failed \\" in text
    assert r"\quad published & 86.4 $\pm$ 1.8 ($-$2.1) &  \\" in text
    assert r"\quad loss, \% &  & 3.2 (2.9) \\" in text
    assert r"method & case\_1 & photo $\to$ sketch \\" in text
    columns = {len(re.findall(r"(?<!\\)&", line)) for line in text.splitlines() if line.endswith(r"\\")}
    assert columns == {2}


def test_markdown_keeps_its_columns(table):
    lines = table_markdown(table).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    assert r"| A\_1 &amp; B | **84.3 ± 1.7** (published 86.4 ± 1.8, −2.1, −1.2 sd) |" in lines[2]
    assert "50.2 (loss 3.2 %, published 2.9 %)" in lines[2]
    assert "| *80.0 ± 1.0* |" in lines[3]
    assert r"– (N/A: a\|b" in lines[3]


def test_hostile_tables_have_no_markup_in_markdown(hostile):
    assert "<" not in table_markdown(hostile.items[0])


def test_a_report_in_markdown_has_its_words_tables_and_figures(report):
    text = report_markdown(report, figures=True)
    tables = [item for item in report.items if isinstance(item, ResultTable)]
    assert all(table_markdown(table).rstrip() in text for table in tables)
    assert f"```\n{report.command}\n```" in text
    figures = {item.key for item in report.items if not isinstance(item, ResultTable | Facts | MatchBrowser)}
    assert set(re.findall(r"\]\(figures/(.+)\.svg\)", text)) == figures
    assert "figures/" not in report_markdown(report, figures=False)


def test_a_report_in_markdown_has_no_markup_of_others(hostile):
    assert "<script" not in report_markdown(hostile, figures=True).replace(hostile.command, "")


def test_a_folder_has_the_page_the_tables_and_the_figures(hostile, tmp_path):
    path = write_report(hostile, tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "report.html"
    files = {str(file.relative_to(path.parent)): file.read_bytes() for file in path.parent.rglob("*.*")}
    figures = {f"figures/{key}.{kind}" for key in "bcdef" for kind in ("png", "svg", "pdf")}
    assert files.keys() == {"report.html", "report.md", "tables/a.tex", "tables/a.md", "tables/a.csv"} | figures
    for name, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        assert all(data.startswith(start) for file, data in files.items() if file.endswith(name))


def test_a_report_is_written_over_an_older_one(tmp_path):
    for title in ("old", "new"):
        path = write_report(Report(title, "s"), tmp_path, static=False)
    assert "<title>new</title>" in path.read_text(encoding="utf-8")
    assert {file.name for file in tmp_path.iterdir()} == {"report.html", "report.md"}
