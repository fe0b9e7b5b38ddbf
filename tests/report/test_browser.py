"""What a reader sees and can do, in a real browser."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from PIL import Image

from crossview.report import Entry, Report, ResultTable, Section, write_report
from crossview.report import document as doc

sync_api = pytest.importorskip("playwright.sync_api", reason="the page's tests in a browser need playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the page's tests in a browser need chromium")

# Which elements have text in too little contrast with what is painted behind it (WCAG 2.1).
POOR = """(elements) => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (element) => {
    const paint = parse(getComputedStyle(element).backgroundColor);
    return paint[3] === 0 ? ground(element.parentElement) : paint;
  };
  const contrast = (element) => {
    const { fill, color } = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? fill : color);
    const [low, high] = [luminance(ink), luminance(ground(element))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  return elements.filter((element) => contrast(element) < 4.5).map((element) => element.outerHTML.slice(0, 90));
}"""


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    return write_report(report, tmp_path_factory.mktemp("report"), static=False)


@pytest.fixture
def visit(chromium):
    """Opens pages, and afterwards sees to it that none complained or asked for anything."""
    contexts, troubles = [], []

    def open_page(path, width=1280, height=900, **options):
        options = {"reduced_motion": "reduce", **options}
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: troubles.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(visit, path):
    return visit(path)


def names(page, table="accuracy"):
    return page.locator(f"#{table} tbody th").all_inner_texts()


def tip(page):
    return page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else ""


def test_marks_stay_inside_their_drawings(page):
    outside = page.evaluate("""() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
      const frame = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text, path:not(defs *), use")].filter((mark) => {
        const box = mark.getBoundingClientRect();
        return box.left < frame.left - 4 || box.right > frame.right + 4 || box.bottom > frame.bottom + 4;
      }).map((mark) => `${svg.getAttribute("aria-labelledby")}: ${mark.outerHTML.slice(0, 80)}`);
    })""")
    assert outside == []


def test_a_table_is_sorted_by_click_and_put_back(page):
    given = names(page)
    head = page.locator("#accuracy thead th").nth(4)  # case 4, in which two have no figure
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page)[:2] == ["KMvHE", "MvHE"]
    assert sorted(names(page)[-2:]) == ["CCA", "PLS"]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page)[0] == "PCA"
    assert sorted(names(page)[-2:]) == ["CCA", "PLS"]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert names(page) == given
    page.locator("#times thead button").nth(1).focus()  # where the lowest is the best
    page.keyboard.press("Enter")
    values = [float(text) for text in page.locator("#times tbody td:nth-child(2) .mean").all_inner_texts()]
    assert values == sorted(values)


def test_notes_are_read_by_pointer_and_keyboard(page):
    link = page.locator("#accuracy sup a").first
    link.hover()
    assert tip(page).startswith("not applicable: CCA")
    page.mouse.move(5, 5)
    assert tip(page) == ""
    link.focus()
    assert tip(page).startswith("not applicable: CCA")
    page.keyboard.press("Escape")
    assert tip(page) == ""


def test_the_nearest_point_of_a_curve_says_its_values(page, report):
    curve = report.sections[1].items[0].curves["KMvHE"]
    page.locator("#match-curves").scroll_into_view_if_needed()
    box = page.locator('#match-curves g[data-series="0"]:has(use) > path').bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + box["height"] - 1)
    assert tip(page) == f"KMvHE\nrank 1: {curve.y[0]:.1f} ± {curve.sd[0]:.1f}"
    page.mouse.move(5, 5)
    assert tip(page) == ""


def test_curves_are_gone_through_by_keyboard_and_hidden_by_the_legend(page, report):
    curves = report.sections[1].items[0].curves
    page.locator("#match-curves .plot").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert tip(page).startswith(f"KMvHE\nrank 3: {curves['KMvHE'].y[2]:.1f}")
    button = page.get_by_role("button", name="MvHE", exact=True).first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    page.locator("#match-curves .plot").focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert tip(page).startswith("MvDA\nrank 1")  # what is hidden is passed over
    assert page.locator("#said").inner_text().startswith("MvDA")
    button.click()
    assert page.locator('#match-curves g[data-series="1"]').first.is_visible()


def test_points_of_an_embedding_say_what_they_are_and_stand_out_by_class_and_view(page, report):
    spaces = report.sections[2].items[0]
    page.locator("#spaces .plot").first.focus()
    page.keyboard.press("ArrowRight")
    assert tip(page) == "\n".join([spaces.labels[0], spaces.views[0], spaces.names[0]])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert tip(page) == "\n".join([spaces.labels[11], spaces.views[11], spaces.names[11]])
    ring = page.locator("#spaces .ring").bounding_box()
    page.keyboard.press("Escape")
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    assert len(tip(page).splitlines()) == 3

    page.get_by_role("button", name="object 3", exact=True).click()
    seen = page.locator("#spaces .scatter [data-c]:not(.dim)")
    assert seen.count() == 5 * 2  # in all panels
    page.get_by_role("button", name="back", exact=True).click()
    assert seen.count() == 5
    assert seen.first.get_attribute("data-c") == "3"


def test_probes_are_leafed_through_and_filtered(page, report):
    browser = page.locator("#matches .browser")
    place = browser.locator(".place")
    browser.get_by_role("button", name="next probe").click()
    assert place.inner_text() == "probe 2 of 12, class object 1"
    browser.focus()
    for key, at in (("ArrowRight", 3), ("ArrowLeft", 2)):
        page.keyboard.press(key)
        assert place.inner_text() == f"probe {at} of 12, class object {at - 1}"
    item = report.sections[2].items[1]
    name, probes = list(item.probes.items())[1]
    wrong = [(probe, matches) for probe, matches in probes if item.labels[matches[0][0]] != item.labels[probe]]
    assert 0 < len(wrong) < len(probes)
    browser.get_by_label("method").select_option(label=name)
    browser.get_by_label("probes").select_option(label="wrong only")
    probe, matches = wrong[0]
    assert place.inner_text() == f"probe 1 of {len(wrong)}, class {item.labels[probe]}"
    shown = [
        f"{'✓' if item.labels[image] == item.labels[probe] else '✗'} {item.labels[image]}\n{distance:.3f}"
        for image, distance in matches
    ]
    assert browser.locator(".ranked .card").all_inner_texts() == shown
    browser.get_by_label("probes").select_option(label="right only")
    assert place.inner_text().startswith(f"probe 1 of {len(probes) - len(wrong)}")


def test_pictures_are_shown_in_even_rows(visit, path):
    page = visit(path)
    picture = page.locator("#matches .browser .picture").first
    low, high = Image.open(io.BytesIO(picture.screenshot())).convert("L").crop((8, 8, 60, 60)).getextrema()
    assert high - low > 100
    for width, media, where, rows in (
        (1280, "screen", ".browser", [8]),
        (390, "screen", ".browser", [4, 4]),
        (718, "print", ".first:first-child .cards:first-of-type", [8]),  # A4 between the margins of a browser
    ):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media=media)
        top = "cards => cards.map((card) => Math.round(card.getBoundingClientRect().top))"
        tops = page.locator(f"{where} .ranked .card").evaluate_all(top)
        assert [tops.count(top) for top in sorted(set(tops))] == rows


@pytest.mark.parametrize("width", [360, 768])
def test_small_screens_do_not_scroll_sideways(visit, path, width):
    page = visit(path, width=width, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".toc-folded").is_visible()
    assert not page.locator(".toc").is_visible()
    page.locator(".toc-folded summary").click()
    assert page.locator(".toc-folded").get_by_text("Environment").is_visible()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_texts_can_be_read(visit, path, mode):
    page = visit(path, color_scheme=mode)
    page.locator("#accuracy sup a").first.focus()
    selectors = (
        "h1, h2, h3, h4, .summary p, .toc a, .copy, code, .prose p, .explanation, .notes li, "
        ".downloads a, thead button, tbody th, .mean, .sd, .published span, .none, sup a, figcaption p, "
        ".chart text, .legend button, .legend-head, .card .head, .card .below, .place, "
        ".controls label, dt, dd, summary, #tip"
    )
    assert page.locator(selectors).count() > 400
    assert page.locator(selectors).evaluate_all(POOR) == []


def test_print_leaves_out_what_paper_cannot_do(page):
    page.emulate_media(media="print", color_scheme="dark")
    for selector in (".toc", ".copy", ".browser", ".downloads", "details.data"):
        assert not page.locator(selector).first.is_visible(), selector
    for selector in (".firsts", ".notes", "#environment dd", "#accuracy .mean", ".command code"):
        assert page.locator(selector).first.is_visible(), selector
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_a_script_everything_is_there(visit, path):
    page = visit(path, java_script_enabled=False)
    assert page.locator(".firsts .first").count() == 2
    assert page.locator("#spaces .scatter").first.is_visible()
    for selector in (".copy", ".browser", "#tip"):
        assert not page.locator(selector).first.is_visible()


def test_hostile_texts_do_nothing(visit, hostile, tmp_path):
    page = visit(write_report(hostile, tmp_path, static=False))
    bad = "<script>alert(1)</script>"
    assert page.locator("h1").inner_text() == bad
    page.locator("#e .plot").focus()
    page.keyboard.press("ArrowRight")
    assert bad in tip(page)
    assert page.locator("#f .place").inner_text() == f"probe 1 of 1, class {bad}"
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("width", [360, 1280])
def test_long_names_do_not_widen_the_page(visit, tmp_path, width):
    long = "W" * 200
    image = np.zeros((1, 8, 8), dtype=np.uint8)
    items = [
        ResultTable("a", long, [long, "x"], {long: [Entry(1.0, note=long), Entry(2.0)]}, row_head=long),
        doc.Curves("c", long, {long: doc.Curve([1, 2], [1.0, 2.0])}, "x"),
        doc.Embeddings("e", long, {long: np.eye(2)}, [f"{long}v", "b"], [f"{long}c", "d"], [long, long]),
        doc.MatchBrowser("f", long, image, [long], {long: [(0, [(0, 0.1 * k) for k in range(8)])]}),
        doc.Facts("g", long, {long: long}),
    ]
    page = visit(write_report(Report(long, long, [Section(long, items, long)], long), tmp_path, static=False), width)
    for key in ("c", "e"):
        page.locator(f"#{key} .plot").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#tip").bounding_box()["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = """(width) => [...document.querySelectorAll("button, h1, h2, h3, h4, p, dt, dd, select, .card")]
      .filter((element) => !element.closest(".scroll") && element.getBoundingClientRect().right > width + 1)
      .map((element) => element.outerHTML.slice(0, 60))"""
    assert page.evaluate(wide, width) == []
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 800})
    assert page.evaluate(wide, 718) == []


def test_the_command_is_copied_and_tables_are_downloaded(visit, path, report):
    page = visit(path, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == report.command
    with page.expect_download() as download:
        page.locator("#accuracy .downloads a").first.click()
    assert download.value.suggested_filename == "accuracy.csv"
    assert download.value.path().read_text(encoding="utf-8").splitlines()[1].startswith("PCA,case 1,")
