from __future__ import annotations

import io
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from crossview.report import Entry, Report, ResultTable, Section, write_report
from crossview.report import document as doc
from crossview.report.figures import x_ticks
from crossview.report.formatting import best_two
from crossview.report.page import render
from crossview.report.palette import DARK, GRID, Palette, class_colour
from crossview.report.rendering import png


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


def test_the_page_is_the_same_each_time_and_light(report, html):
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
    assert sum("alert" in data for tag, data in parsed.texts if tag == "script") > 3  # data, escaped


def test_svgs_say_in_words_what_they_show(html):
    drawings = re.findall(r'<svg [^>]*role="img"[^>]*>.*?</desc>', html, re.DOTALL)
    assert len(drawings) == 4 + 2 + 3 + 15
    for drawing in drawings:
        assert re.search(r"<title [^>]+>[^<]+</title><desc [^>]+>[^<]+</desc>", drawing)
    assert "highest: KMvHE" in html
    assert "nan" not in text_of(html).split()


def test_best_two_are_marked_as_the_printed_digits_tell_them_apart():
    table = table_of([Entry(80.04), Entry(79.96), Entry(70.0), Entry(71.0), Entry()], digits=1)
    assert best_two(table) == [{"m0": 1, "m1": 1, "m3": 2}]
    assert best_two(replace(table, best="lowest")) == [{"m2": 1, "m3": 2}]
    assert best_two(replace(table, best="")) == [{}]
    html = page_of(table)
    assert re.findall(r'<b class="mean best">([^<]+)</b>', html) == ["80.0", "80.0"]
    assert re.findall(r'<u class="mean second">([^<]+)</u>', html) == ["71.0"]
    assert html.count("(best)") == 2
    assert html.count("(second best)") == 1


@pytest.mark.parametrize(("means", "marks"), [([1.0], {}), ([1.0, 2.0], {"m1": 1}), ([1.0, 1.0], {"m0": 1, "m1": 1})])
def test_few_figures_have_no_second_best(means, marks):
    assert best_two(table_of([Entry(mean) for mean in means])) == [marks]


def test_published_figures_differences_and_losses_are_shown():
    html = page_of(table_of([Entry(84.3, 1.7, 86.4, 1.75, loss=3.21, published_loss=2.9), Entry(50.0, 1.0, 40.0, 2.0)]))
    text = text_of(html)
    assert "84.3 ± 1.7 (best) published 86.4 ± 1.8 · −2.1 (−1.2 sd)" in text
    assert "loss 3.2 % (2.9)" in text
    assert html.count("difference far") == 1
    assert "Below: the published figure" in text


def test_tables_without_published_figures_do_not_speak_of_them():
    html = page_of(table_of([Entry(84.3, 1.7), Entry(50.0)]))
    assert "ublished" not in text_of(html[html.index("<main") : html.index("<script>")])
    assert 'class="published"' not in html


def test_notes_stand_below_the_table_once():
    html = page_of(table_of([Entry(note="N/A: one view"), Entry(note="N/A: one view"), Entry(note="Failed: singular")]))
    assert re.findall(r'<li id="(t\.note-\d)">([^<]+)</li>', html) == [
        ("t.note-1", "N/A: one view"),
        ("t.note-2", "Failed: singular"),
    ]
    assert re.findall(r'<span class="none">([^<]+)</span>', html) == ["–", "–", "failed"]
    assert html.count('href="#t.note-1"') == 2


def test_names_keep_their_colours_over_the_page(report, html):
    for name, look in Palette.of(report).items():
        if name in ("PCA", "KMvHE"):
            buttons = re.findall(rf"<button[^>]*>((?:(?!</button>).)*)<span>{name}</span>", html)
            swatches = re.findall(rf'<svg class="swatch"((?:(?!</svg>).)*)</svg>{name}<', html)
            assert (len(buttons), len(swatches)) == (2, 3)
            for drawn in buttons + swatches:
                assert set(re.findall(r"#[\da-f]{6}", drawn)) == {look["color"], DARK[look["color"]]}


def test_fifteen_series_differ_in_more_than_colour():
    looks = list(Palette(str(k) for k in range(28)).values())
    assert len({(look["linestyle"], look["marker"]) for look in looks}) == 28
    assert len({look["color"] for look in looks[:15]}) == 15


def test_committees_have_the_colour_of_their_method_and_another_look():
    palette = Palette(["PCA", "MvHE", "MvHE × 8", "KMvHE × 8", "KMvHE", "other"])
    for method in ("MvHE", "KMvHE"):
        one, committee = palette[method], palette[f"{method} × 8"]
        assert [name for name in one if one[name] == committee[name]] == ["color"]
    assert len({palette[name]["color"] for name in ("PCA", "MvHE", "KMvHE", "other")}) == 4


def test_standard_errors_are_called_so():
    table = table_of([Entry(84.3, se=1.7), Entry(50.0)], over="test samples")
    text = text_of(page_of(table))
    assert "84.3 ± 1.7" in text
    assert "Measured mean ± standard error over the test samples, %." in text
    bars = doc.Bars("b", "", ["x"], {"PCA": [Entry(84.3, se=1.7)]})
    assert "whisker: one standard error each way" in text_of(page_of(bars))


@pytest.mark.parametrize(("mode", "ground"), [(0, "#ffffff"), (1, "#14171c")])
def test_colours_are_seen_on_their_ground(mode, ground):
    series = {look["color"] for look in Palette(map(str, range(99))).values()}
    assert series | {class_colour(k) for k in range(99)} <= DARK.keys()
    assert len(DARK) >= 15 + 30
    for pair in DARK.items():
        assert pair[0] == GRID or contrast(pair[mode], ground) >= 3


def contrast(one, other):
    def luminance(colour):
        shares = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_gaps_break_lines_and_leave_cells_empty():
    curve = doc.Curve([1, 2, 3, 4, 5], [1.0, 2.0, float("nan"), 4.0, 5.0])
    html = page_of(doc.Curves("c", "t", {"m": curve}, "x"))
    line = re.search(r'<g data-series="0"><path d="([^"]+)"', html)[1]
    assert line.count("M") == 2
    html = page_of(doc.HeatMaps("h", "t", ["a", "b", "c"], ["d"], {"m": np.array([[np.nan, 1.0, 2.0]])}, "x", "y"))
    assert re.findall(r"<g data-cell=\"1\"><text[^>]*>([^<]*)", html) == ["1.00", "2.00"]


def test_a_page_may_have_nothing_to_show(empty):
    ids = {attributes.get("id") for _, attributes in outline(page_of(*empty)).elements}
    assert {item.key for item in empty} <= ids


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([doc.Facts("a b", "t", {})], "letters, digits and hyphens"),
        ([doc.Facts("../x", "t", {})], "letters, digits and hyphens"),
        ([doc.Facts("main", "t", {})], "not main, tip or said"),
        ([doc.Facts("a", "t", {}), doc.Facts("A", "t", {})], "is used twice"),
        ([ResultTable("a", "t", ["x", "y"], {"m": [Entry()]})], "1 entries for 'm', but 2 columns"),
        ([doc.Curves("a", "t", {"m": doc.Curve([0, 1], [1, 2])}, "x", log_x=True)], "has no logarithm"),
    ],
)
def test_bad_reports_are_refused_before_anything_is_written(items, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_report(Report("t", "s", [Section("s", items)]), tmp_path / "new", static=False)
    assert not (tmp_path / "new").exists()


def test_png_can_be_read_back():
    image = np.random.default_rng(0).integers(0, 256, (5, 7), dtype=np.uint8)
    np.testing.assert_array_equal(Image.open(io.BytesIO(png(image))), image)


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (range(1, 11), list(range(1, 11))),
        (range(1, 21), [1, 5, 10, 15, 20]),
        (range(1, 51), [1, 10, 20, 30, 40, 50]),
        ([1, 2], [1, 2]),
        ([3], [3]),
        ([48, 100, 200, 300], [48, 100, 150, 200, 250, 300]),  # no room for 50
        ([0.37, 1.5, 2.0], [0.5, 1.0, 1.5, 2.0]),
    ],
)
def test_whole_numbers_have_a_tick_at_the_first(x, found):
    item = doc.Curves("c", "t", {"m": doc.Curve(list(x), [1.0] * len(x)), "n": doc.Curve([], [])}, "rank")
    assert x_ticks(item) == found
    shown = re.findall(r"<text [^>]*>([^<]+)<", page_of(item))
    assert shown[: len(found)] == [f"{tick:g}" for tick in found]


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_what_is_missing_is_named_before_anything_is_written(missing, tmp_path):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from crossview.report import Entry, Report, Section, write_report
from crossview.report.document import Bars
report = Report('t', 's', [Section('s', [Bars('b', 't', ['g'], {{'m': [Entry(1.0)]}})])])
for static in (True, False):
    try:
        print(write_report(report, {str(tmp_path / "new")!r}, static=static).name)
    except ImportError as error:
        print(error)
"""
    lines = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    assert "pip install 'crossview[cli]'" in lines[0]
    assert lines[0] == lines[1]
    assert not (tmp_path / "new").exists()
