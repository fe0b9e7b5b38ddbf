"""Figures in files: the page's own drawings, as SVG, PNG and PDF."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from crossview.report import Entry, ResultTable
from crossview.report import document as doc
from crossview.report.drawing import figure_files
from crossview.report.figures import figure_of
from crossview.report.palette import Palette

FIGURES = ["accuracy-bars", "match-curves", "dimensions", "parameters", "spaces", "matches"]


def draw(item, palette):
    return figure_files(figure_of(item, palette))


@pytest.fixture(scope="module")
def files(report):
    """Every figure of the report in every format."""
    return {item.key: draw(item, Palette.of(report)) for item in report.items if item.key in FIGURES}


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("key", FIGURES)
def test_files_have_the_drawings_of_the_page(html, files, key):
    (figure,) = re.findall(rf'<figure id="{key}".*?</figure>', html, re.DOTALL)
    svg = files[key]["svg"].decode()
    assert set(texts(figure)) <= set(texts(svg))
    if key == "matches":
        heads = re.findall(r'<div class="first"><h4>([^<]+)</h4>', figure)
    else:
        heads = re.findall(r"<h4>(?:<svg.*?</svg>)?([^<]*)</h4>|<button.*?<span>([^<]+)</span>", figure)
        heads = [one or other for one, other in heads]
    assert heads
    assert set(heads) <= set(texts(svg))


@pytest.mark.parametrize("key", FIGURES)
def test_files_are_read_by_programs_that_are_no_browsers(files, key):
    svg = files[key]["svg"].decode()
    ElementTree.fromstring(svg)
    for unknown in ("var(", "light-dark(", "@media"):
        assert unknown not in svg
    width, height = (float(size) for size in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups())
    image = Image.open(io.BytesIO(files[key]["png"])).convert("RGB")
    assert image.size == pytest.approx((2 * width, 2 * height), abs=2)
    assert image.getpixel((1, 1)) == (255, 255, 255)
    assert len(image.getcolors(image.size[0] * image.size[1])) > 50
    assert files[key]["pdf"].startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[([\d. ]+)\]", files[key]["pdf"])[1]
    assert [float(number) for number in box.split()] == pytest.approx([0, 0, width, height], rel=0.01)


def test_lines_have_the_colours_of_their_methods(report, files):
    image = Image.open(io.BytesIO(files["match-curves"]["png"])).convert("RGB")
    seen = {colour for _, colour in image.getcolors(image.size[0] * image.size[1])}
    for name in ("KMvHE", "MvHE", "PCA"):
        colour = Palette.of(report)[name]["color"]
        assert tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5)) in seen


def test_files_are_the_same_each_time(report, files):
    item = report.sections[1].items[1]
    assert draw(item, Palette.of(report)) == files[item.key]


@pytest.mark.parametrize("views", [("left", "right"), ("photograph", "composite sketch"), ("0–35°", "180–215°")])
def test_probes_are_named_in_full(views):
    names = [f"{method}: {one} looked up in {other}" for method in ("KMvHE", "MvDA-VC") for one, other in (views,)]
    item = doc.MatchBrowser(
        "m", "t", np.zeros((1, 8, 4), dtype=np.uint8), ["0"], {name: [(0, [(0, 0.1)] * 8)] for name in names}
    )
    assert [text for text in texts(draw(item, Palette(()))["svg"].decode()) if text in names] == names


def test_long_names_are_cut_and_legends_stand_in_columns():
    labels = [f"{k} " + "W" * 200 for k in range(60)]
    points = np.random.default_rng(0).normal(size=(60, 2))
    found = draw(doc.Embeddings("e", "t", {"W" * 200: points}, ["a"] * 60, labels), Palette(()))
    assert Image.open(io.BytesIO(found["png"])).size[0] < 3000
    assert max(map(len, texts(found["svg"].decode()))) <= 34


@pytest.mark.parametrize("name", ["a\x00b\x0bc\ud800d\uffff", "_a", "$a", "二", ""])
def test_all_names_are_drawn(name):
    items = [
        doc.Bars("b", name, [name], {name: [Entry(1.0)]}),
        doc.Embeddings("e", name, {name: np.eye(2)}, [name, name], [name, name]),
        doc.HeatMaps("h", name, [name], [name], {name: np.eye(1)}, name, name, "", name),
    ]
    for item in items:
        found = draw(item, Palette([name]))
        assert re.sub("[\x00\x0b\ud800\uffff]", "�", name) in found["svg"].decode()
        assert found["png"].startswith(b"\x89PNG")


def test_figures_may_have_nothing_to_show(empty):
    for item in empty:
        if not isinstance(item, ResultTable | doc.Facts):
            assert draw(item, Palette(["m"]))["png"].startswith(b"\x89PNG")
