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
from crossview.report.folder import draw
from crossview.report.page import render
from crossview.report.palette import Palette
from crossview.report.rendering import asset

FIGURES = ["accuracy-bars", "match-curves", "dimensions", "parameters", "spaces", "matches"]


@pytest.fixture(scope="module")
def files(report):
    """Every figure of the report in every format."""
    return {item.key: draw(item, Palette.of(report)) for item in report.items if item.key in FIGURES}


def drawings(text):
    """The shapes of every drawing, by its id."""
    root = ElementTree.fromstring(text)
    charts = [element for element in root.iter("svg") if element.get("aria-labelledby")]
    return {chart.get("aria-labelledby"): [ElementTree.tostring(child) for child in chart] for chart in charts}


def without_namespace(data):
    return data.decode().replace(' xmlns="http://www.w3.org/2000/svg"', "")


@pytest.mark.parametrize("key", FIGURES)
def test_files_have_the_drawings_of_the_page(report, files, key):
    (figure,) = re.findall(rf'<figure id="{key}".*?</figure>', render(report), re.DOTALL)
    shown = drawings(figure)
    assert shown
    assert drawings(without_namespace(files[key]["svg"])) == shown


@pytest.mark.parametrize("key", FIGURES)
def test_files_are_read_by_programs_that_are_no_browsers(files, key):
    svg = files[key]["svg"].decode()
    for unknown in ("var(", "light-dark(", "@media", "http://", "https://"):
        assert unknown not in svg.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r'[hv]0[M"]', svg)  # readers of PDF leave out lines of no length, dots among them
    width, height = (float(size) for size in re.search(r'width="([\d.]+)" height="([\d.]+)"', svg).groups())
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
    palette = Palette.of(report)
    for name in ("KMvHE", "MvHE", "PCA"):
        colour = re.search(rf"\.{palette[name].css_class} {{ color: light-dark\((#\w+),", asset("drawings.css"))[1]
        assert tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5)) in seen


def test_files_are_the_same_each_time(report, files):
    item = report.sections[1].items[1]
    again = draw(item, Palette.of(report))
    assert again["svg"] == files[item.key]["svg"]
    assert again["png"] == files[item.key]["png"]
    # The converter lists graphics states in any order.
    assert sorted(again["pdf"].splitlines()) == sorted(files[item.key]["pdf"].splitlines())


def texts(item, names=()):
    root = ElementTree.fromstring(without_namespace(draw(item, Palette(names))["svg"]))
    return [element.text for element in root.iter("text")]


@pytest.mark.parametrize("views", [("left", "right"), ("photograph", "composite sketch"), ("0–35°", "180–215°")])
def test_probes_are_named_in_full(views):
    probes = [doc.Probe(0, "0", [doc.Match(0, "0", 0.1)] * 8)]
    names = [f"{method}: {one} looked up in {other}" for method in ("KMvHE", "MvDA-VC") for one, other in (views,)]
    shown = texts(doc.MatchBrowser("m", "t", np.zeros((1, 8, 4), dtype=np.uint8), dict.fromkeys(names, probes)))
    assert [text for text in shown if text in names] == names


def test_rank_one_has_a_tick():
    ranks = list(range(1, 21))
    shown = texts(doc.Curves("c", "t", {"PCA": doc.Curve(ranks, [float(rank) for rank in ranks])}, "rank"), ["PCA"])
    start = shown.index("1")
    assert shown[start : start + 5] == ["1", "5", "10", "15", "20"]


def test_long_names_are_cut_and_legends_stand_in_columns():
    labels = [f"{k} " + "W" * 200 for k in range(60)]
    points = np.random.default_rng(0).normal(size=(60, 2))
    found = draw(doc.Embeddings("e", "t", {"W" * 200: doc.Embedding2D(points, ["a"] * 60, labels)}), Palette(()))
    assert Image.open(io.BytesIO(found["png"])).size[0] < 3000
    assert max(len(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", found["svg"].decode())) <= 34


def test_names_that_xml_does_not_allow_are_drawn():
    name = "a\x00b\x0bc\ud800d\uffff"
    found = draw(doc.Bars("b", name, [name], {name: [Entry(1.0)]}), Palette([name]))
    assert "a�b�c�d�" in found["svg"].decode()
    assert found["png"].startswith(b"\x89PNG")


def test_figures_may_have_nothing_to_show(empty):
    for item in empty:
        if not isinstance(item, ResultTable | doc.Facts):
            assert draw(item, Palette(["m"]))["png"].startswith(b"\x89PNG")


def test_tables_and_facts_are_no_figures():
    assert draw(doc.Facts("f", "t", {}), Palette(())) == {}
