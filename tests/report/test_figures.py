"""Figures in the page, and in files."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from crossview.report import Report, Section
from crossview.report import document as doc
from crossview.report.figures import DARK, GRID, figure_files, figure_of, page_svg, palette, series_look

FIGURES = ["match-curves", "dimensions", "spaces"]


def palette_of(*names):
    curves = doc.Curves("c", "t", dict.fromkeys(names, doc.Curve([], [])), "x")
    return palette(Report("t", "s", [Section("s", [curves])]))


def draw(item):
    return figure_files(figure_of(item, palette(Report("t", "s", [Section("s", [item])]))))


@pytest.fixture(scope="module")
def files(report):
    """Every figure of the report in every format."""
    looks = palette(report)
    return {item.key: figure_files(figure_of(item, looks)) for item in report.items if item.key in FIGURES}


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("key", FIGURES)
def test_files_have_the_drawings_of_the_page_and_are_read_by_other_programs(html, files, key):
    svg, pdf = files[key]["svg"].decode(), files[key]["pdf"]
    (figure,) = re.findall(rf'<figure id="{key}".*?</figure>', html, re.DOTALL)
    heads = re.findall(r"<h4>(?:<svg.*?</svg>)?([^<]*)</h4>|<button.*?<span>([^<]+)</span>", figure)
    assert heads
    assert {one or other for one, other in heads} | set(texts(figure)) <= set(texts(svg))
    ElementTree.fromstring(svg)
    assert not re.search(r"var\(|light-dark\(|@media", svg)
    size = [float(side) for side in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()]
    box = re.search(rb"/MediaBox \[([\d. ]+)\]", pdf)[1]
    assert [float(number) for number in box.split()] == pytest.approx([0, 0, *size], rel=0.01)


def test_files_are_the_same_each_time_and_have_the_colours_of_their_methods(report, files):
    item, looks = report.sections[1].items[0], palette(report)
    assert figure_files(figure_of(item, looks)) == files[item.key]
    for name in item.curves:
        assert looks[name]["color"] in files[item.key]["svg"].decode()


def test_long_names_are_cut():
    labels = [f"{k} " + "W" * 200 for k in range(2)]
    svg = draw(doc.Embeddings("e", "t", {"W" * 200: np.eye(2)}, ["a"] * 2, labels, labels))["svg"].decode()
    assert float(re.search(r'width="([\d.]+)pt"', svg)[1]) < 1500
    assert max(map(len, texts(svg))) <= 34


@pytest.mark.parametrize("name", ["a\x00b\x0bc\ud800d\uffff", "_a", "$a", "二", ""])
def test_all_names_are_drawn(name):
    items = [
        doc.Curves("c", name, {name: doc.Curve([1.0], [2.0])}, name, name),
        doc.Embeddings("e", name, {name: np.eye(2)}, [name, name], [name, name], [name, name]),
    ]
    for item in items:
        assert re.sub("[\x00\x0b\ud800\uffff]", "�", name) in draw(item)["svg"].decode()


def test_series_differ_in_more_than_colour_and_committees_have_the_colour_of_their_method():
    looks = list(palette_of(*map(str, range(28))).values())
    assert len({(look["linestyle"], look["marker"]) for look in looks}) == 28
    assert len({look["color"] for look in looks[:15]}) == 15
    looks = palette_of("PCA", "MvHE", "MvHE × 8", "KMvHE × 8", "KMvHE", "other")
    for method in ("MvHE", "KMvHE"):
        one, committee = looks[method], looks[f"{method} × 8"]
        assert [name for name in one if one[name] == committee[name]] == ["color"]
    assert len({looks[name]["color"] for name in ("PCA", "MvHE", "KMvHE", "other")}) == 4


@pytest.mark.parametrize(("mode", "ground"), [(0, "#ffffff"), (1, "#14171c")])
def test_colours_are_seen_on_their_ground(mode, ground):
    assert {series_look(k)["color"] for k in range(99)} <= DARK.keys()
    for pair in DARK.items():
        assert pair[0] == GRID or contrast(pair[mode], ground) >= 3


def contrast(one, other):
    def luminance(colour):
        shares = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def curves(x, y, **options):
    return doc.Curves("c", "C", {"m": doc.Curve(x, y), "n": doc.Curve([], [])}, "rank", **options)


def svg_of(item):
    return page_svg(figure_of(item, palette_of("m", "n")), 0)


def test_gaps_break_lines():
    svg, _ = svg_of(curves([1, 2, 3, 4, 5], [1.0, 2.0, float("nan"), 4.0, 5.0]))
    line = re.search(r'<g data-series="0"><path d="([^"]+)"', svg)[1]
    assert line.count("M") == 2


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (range(1, 6), [1, 2, 3, 4, 5]),
        (range(1, 21), [1, 5, 10, 15, 20]),
        ([3], [3]),
        ([48, 100, 200, 300], [48, 100, 150, 200, 250, 300]),  # no room for 50
        ([0.37, 1.5, 2.0], [0.5, 1.0, 1.5, 2.0]),
    ],
)
def test_whole_numbers_have_a_tick_at_the_first(x, found):
    svg, _ = svg_of(curves(list(x), [1.0] * len(x)))
    assert texts(svg)[: texts(svg).index("rank")] == [f"{tick:g}" for tick in found]


def test_a_logarithmic_vertical_axis():
    item = curves([1, 10, 100], [50, 5, float("nan")], log_x=True, log_y=True)
    svg, (rows, _) = svg_of(item)
    found = re.findall(r'<text [^>]*?y="([\d.]+)"[^>]*text-anchor="end"[^>]*>(\w+)<', svg)
    ticks = {text: float(y) - 4 for y, text in found}  # the middle of a text is above its line
    assert ticks["5"] - ticks["10"] == pytest.approx(ticks["10"] - ticks["20"], abs=0.1)
    assert [point[1] for point in rows["p"]] == pytest.approx([ticks["50"], ticks["5"]], abs=1)
