from __future__ import annotations

import numpy as np
import pytest

from crossview.report import Entry, Report, ResultTable, Section
from crossview.report import document as doc
from crossview.report.page import render

METHODS = "PCA LDA LPP DLA CCA KCCA MCCA PLS GMA MULDA MvDA MvDA-VC MvMDA MvHE KMvHE".split()  # noqa: SIM905
CASES = ["case 1", "case 2", "case 3", "case 4"]
NOT_APPLICABLE = "not applicable: CCA is defined for two views, and this case has five."
FAILED = "3 of 10 failed: the eigenproblem has no positive definite right-hand side."


@pytest.fixture(scope="session")
def report() -> Report:
    return sample_report()


@pytest.fixture(scope="session")
def html(report: Report) -> str:
    return render(report)


@pytest.fixture(scope="session")
def hostile() -> Report:
    """A report in which every text tries to get out of its place."""
    bad = "<script>alert(1)</script>"
    end = "\"'</script><img src=x onerror=alert(2)>]]>-->"
    entry = Entry(1.0, 0.1, 2.0, 0.5, note=bad + end)
    image = np.zeros((2, 3, 4), dtype=np.uint8)
    items = [
        ResultTable("a", bad, [end, "$x_1$"], {bad: [entry, Entry(note=end)], end: [entry, entry]}, end, bad, end),
        doc.Curves("c", bad, {bad: doc.Curve([1, 2], [1, 2], [1, 1]), end: doc.Curve([1], [3])}, end, bad, end),
        doc.Embeddings("e", end, {bad: np.eye(2)}, [bad, end], [end, bad], [bad, end], bad),
        doc.MatchBrowser("f", bad, image, [bad, end], {end: [(0, [(1, 0.5)])]}, end),
        doc.Facts("g", end, {bad: end, end: bad}, bad),
    ]
    return Report(bad, end, [Section(end, items, bad)], bad + end)


@pytest.fixture
def empty() -> list[doc.Item]:
    """Items with nothing to show."""
    return [
        ResultTable("a", "t", [], {}),
        ResultTable("b", "t", ["c"], {"m": [Entry()]}),
        doc.Curves("e", "t", {}, "x"),
        doc.Curves("f", "t", {"m": doc.Curve([3], [float("nan")])}, "x", log_x=True),
        doc.Embeddings("i", "t", {"m": np.zeros((0, 2))}, [], [], []),
        doc.Embeddings("j", "t", {}, [], [], []),
        doc.MatchBrowser("k", "t", np.zeros((0, 4, 4), dtype=np.uint8), [], {"m": []}),
        doc.Facts("l", "t", {}),
    ]


def sample_report() -> Report:
    """A report with everything in it, of the size that a real one has."""
    rng = np.random.default_rng(7)
    rows = _rows(rng)
    caption = "Gallery at 0–35°, probes at 180–215°. Classes of the test are unseen in training."
    table = ResultTable("accuracy", "Rank-1 accuracy by method and case", CASES, rows, caption)
    return Report(
        title="Cross-view recognition on COIL-100",
        summary=(
            "Fifteen methods match objects seen from one side with objects seen from another, in four cases of "
            "training and test classes. Every figure is the mean over ten repeats, next to what was published."
        ),
        command="crossview experiment coil-100 --methods all --cases 1 2 3 4 --repeats 10 --seed 7 --out runs/coil-100",
        sections=[
            Section("Rank-1 accuracy", [table], "KMvHE is the best in every case.\n\nMost differ little."),
            Section("Match curves", [_curves(rng), _dimensions(rng)], "How soon the right object is found."),
            Section("Common spaces", [_embeddings(rng), _matches(rng)]),
            Section("How it was run", [_times(rng), _facts()]),
        ],
    )


def _rows(rng: np.random.Generator) -> dict[str, list[Entry]]:
    rows = {}
    for k, name in enumerate(METHODS):
        means = np.clip(35 + 3.6 * k + np.array([4, -3, 8, -9]) + rng.normal(0, 2.5, 4), 5, 99)
        published = means + rng.normal(0.4, 1.6, 4)
        rows[name] = [
            Entry(round(float(m), 2), round(float(s), 2), round(float(p), 1), round(float(q), 1))
            for m, s, p, q in zip(means, rng.uniform(0.6, 2.8, 4), published, rng.uniform(0.8, 2.5, 4), strict=True)
        ]
    rows["CCA"][3] = Entry(note=NOT_APPLICABLE)
    rows["PLS"][3] = Entry(note=NOT_APPLICABLE)
    rows["KCCA"][2] = Entry(published=66.2, published_sd=2.1, note=FAILED)
    rows["MULDA"][1] = Entry(55.2, 1.4, note="Nothing was published for this case.")
    return rows


def _curves(rng: np.random.Generator) -> doc.Curves:
    ranks = np.arange(1, 21)
    curves = {}
    for k, name in enumerate(["KMvHE", "MvHE", "MvDA", "GMA", "MCCA", "PCA"]):
        y = 100 - (18 + 9 * k) * np.exp(-ranks / (6 + k))
        curves[name] = doc.Curve(ranks.tolist(), y.round(2).tolist(), rng.uniform(0.5, 2.5, 20).round(2).tolist())
    title = "Cumulative match curves"
    return doc.Curves("match-curves", title, curves, "rank", "probes found, %", "Case 1, ten repeats.")


def _dimensions(rng: np.random.Generator) -> doc.Curves:
    sizes = [2, 5, 10, 20, 50, 100, 200]
    curves = {
        name: doc.Curve(sizes, (30 + 3 * k + 14 * np.log10(sizes) + rng.normal(0, 1, 7)).round(2).tolist())
        for k, name in enumerate(METHODS)
    }
    return doc.Curves("dimensions", "Accuracy against the number of components", curves, "components", log_x=True)


def _embeddings(rng: np.random.Generator) -> doc.Embeddings:
    classes = np.repeat(np.arange(20), 20)
    views = np.tile(np.repeat(["front", "back"], 10), 20).tolist()
    labels = [f"object {c}" for c in classes]
    names = [f"obj{c}__{5 * k}.png" for c, k in zip(classes, np.tile(np.arange(20), 20), strict=True)]
    panels = {}
    for k, name in enumerate(METHODS):
        centres = rng.normal(size=(20, 2))
        offset = np.where(np.array(views) == "front", 1, -1)[:, None] * [(15 - k) / 12, 0.2]
        panels[name] = centres[classes] * (0.4 + k / 10) + offset + rng.normal(scale=0.12, size=(400, 2))
    caption = "Twenty objects of the test, two components."
    return doc.Embeddings("spaces", "The common space of each method", panels, views, labels, names, caption)


def _matches(rng: np.random.Generator) -> doc.MatchBrowser:
    y, x = np.mgrid[0:16, 0:16]
    waves = [np.sin(x * (1 + k % 5) / 6 + k) * np.cos(y * (1 + k % 3) / 5 + k / 2) for k in range(60)]
    images = (127 + 120 * np.stack(waves)).astype(np.uint8)

    # A picture of each class for every probe and every place in the gallery.
    labels = [f"object {k % 10}" for k in range(60)]

    def match(k: int, rank: int, skill: float) -> tuple[int, float]:
        label = k % 10 if rng.random() < skill / (rank + 1) else (k + rank + 1) % 10
        return 20 + 10 * (rank % 4) + label, 0.2 + 0.1 * rank

    probes = {
        name: [(k, [match(k, rank, skill) for rank in range(6)]) for k in range(12)]
        for name, skill in (("KMvHE: front → back", 0.8), ("PCA: front → back", 0.2))
    }
    title = "Probes and what they were matched with"
    return doc.MatchBrowser("matches", title, images, labels, probes, "Nearest first.")


def _times(rng: np.random.Generator) -> ResultTable:
    rows = {name: [Entry(float(v)) for v in rng.uniform(0.01, 3.0, 2)] for name in METHODS[:5]}
    return ResultTable("times", "Seconds to fit and to map", ["fit", "map"], rows, unit="s", best="lowest", digits=2)


def _facts() -> doc.Facts:
    rows = {
        "crossview": "0.1.0",
        "numpy": "2.1.0",
        "seeds": "7, 8, 9, …, 16",
        "machine": "2 cores, 8 GiB",
        "data": "sha256 " + "0f" * 32,
    }
    return doc.Facts("environment", "Environment", rows, "What the figures were made with.")
