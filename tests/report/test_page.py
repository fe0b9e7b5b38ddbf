from __future__ import annotations

import re
from html.parser import HTMLParser

from crossview.report import Entry, Report, ResultTable, Section, write_report
from crossview.report.figures import DARK, palette
from crossview.report.page import render


class Outline(HTMLParser):
    """Elements and texts of a page, and whether every element that is opened is closed."""

    VOID = frozenset({"meta", "link", "br", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


def outline(html):
    parsed = Outline()
    parsed.feed(html)
    parsed.close()
    assert parsed.open == []
    return parsed


def page_of(*items):
    return render(Report("title", "summary", [Section("section", items)]))


def text_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def table_of(*columns, **options):
    rows = {f"m{k}": list(entries) for k, entries in enumerate(zip(*columns, strict=True))}
    return ResultTable("t", "title", [f"c{k}" for k in range(len(columns))], rows, **options)


def test_the_page_is_well_formed_and_names_everything(report, html):
    parsed = outline(html)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"][1:] for tag, a in parsed.elements if tag == "a" and a["href"].startswith("#")}
    assert links <= set(ids)
    assert {item.key for item in report.items} <= links
    for tag, attributes in parsed.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids), tag
    assert len(re.findall(r'role="img"[^>]*><title [^>]+>[^<]+</title><desc [^>]+>[^<]+</desc>', html)) == 2 + 5
    assert "nan" not in text_of(html).split()
    assert html == render(report)
    assert len(html.encode()) < 1_000_000


def test_the_page_asks_for_nothing_and_allows_nothing(html):
    parsed = outline(html)
    policy = next(a["content"] for tag, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in parsed.elements:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), tag
        assert "style" not in attributes  # the policy would refuse it
        assert not any(name.startswith("on") for name in attributes)


def test_hostile_texts_stay_texts(hostile):
    parsed = outline(render(hostile))
    scripts = [attributes for tag, attributes in parsed.elements if tag == "script"]
    assert [a for a in scripts if a.get("type") != "application/json"] == [{}]
    assert not [tag for tag, _ in parsed.elements if tag in ("img", "iframe", "object")]
    shown = [data for tag, data in parsed.texts if "alert(1)" in data and tag != "script"]
    assert len(shown) > 10
    assert sum("alert" in data for tag, data in parsed.texts if tag == "script") == 3  # data, escaped


def test_tables_mark_the_best_and_name_what_follows_the_mean():
    entries = [Entry(80.04), Entry(79.96), Entry(70.0), Entry(71.0, se=1.7), Entry()]
    html = page_of(table_of(entries, over="test samples"))
    marked = [("best", "80.0"), ("best", "80.0"), ("second", "71.0")]
    assert re.findall(r'<(?:b|u) class="mean (\w+)">([^<]+)</', html) == marked
    text = text_of(html[html.index("<main") : html.index("<script>")])
    assert "71.0 ± 1.7 (second best)" in text
    assert "Measured mean ± standard error over the test samples, %." in text
    assert "ublished" not in text
    text = text_of(page_of(table_of([Entry(84.3, 1.7, 86.4, 1.75), Entry(50.0, low=41.0, high=58.04)])))
    assert "84.3 ± 1.7 (best) published 86.4 ± 1.8, −2.1" in text
    assert "50.0 [41.0, 58.0]" in text
    assert "Below: the published figure" in text


def test_names_keep_their_colours_over_the_page(report, html):
    for name in ("PCA", "KMvHE"):
        colour = palette(report)[name]["color"]
        buttons = re.findall(rf"<button[^>]*>((?:(?!</button>).)*)<span>{name}</span>", html)
        swatches = re.findall(rf'<svg class="swatch"((?:(?!</svg>).)*)</svg>{name}<', html)
        assert len(buttons) == 2
        assert swatches
        for drawn in buttons + swatches:
            assert set(re.findall(r"#[\da-f]{6}", drawn)) == {colour, DARK[colour]}


def test_notes_stand_below_the_table_once():
    html = page_of(table_of([Entry(note="one view"), Entry(note="one view"), Entry(note="1 of 2 failed: singular")]))
    notes = [("t.note-1", "one view"), ("t.note-2", "1 of 2 failed: singular")]
    assert re.findall(r'<li id="(t\.note-\d)">([^<]+)</li>', html) == notes
    assert re.findall(r'<span class="none">([^<]+)</span>', html) == ["–", "–", "failed"]
    assert html.count('href="#t.note-1"') == 2


def test_a_page_may_have_nothing_to_show(empty, tmp_path):
    path = write_report(Report("title", "summary", [Section("section", empty)]), tmp_path)
    ids = {attributes.get("id") for _, attributes in outline(path.read_text(encoding="utf-8")).elements}
    assert {item.key for item in empty} <= ids


def test_a_folder_has_the_page_the_tables_and_the_figures(hostile, tmp_path):
    path = write_report(hostile, tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "report.html"
    files = {str(file.relative_to(path.parent)) for file in path.parent.rglob("*.*")}
    figures = {f"figures/{key}.{kind}" for key in "ce" for kind in ("svg", "pdf")}
    assert files == {"report.html", "tables/a.tex", "tables/a.md", "tables/a.csv"} | figures
    write_report(Report("new", "s"), path.parent)
    assert "<title>new</title>" in path.read_text(encoding="utf-8")
