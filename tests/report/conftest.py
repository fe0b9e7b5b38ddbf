from __future__ import annotations

import numpy as np
import pytest

from crossview.report import Entry, Report, ResultTable, Section
from crossview.report import document as doc
from crossview.report.page import render

METHODS = "PCA LDA LPP DLA CCA KCCA MCCA PLS GMA MULDA MvDA MvDA-VC MvMDA MvHE KMvHE".split()  # noqa: SIM905
NOT_APPLICABLE = "not applicable: CCA is defined for two views, and this case has five."


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
    rows = {
        name: [Entry(30 + 4 * k + case, 1.0 + k / 10, 31 + 4 * k, 2.0) for case in range(4)]
        for k, name in enumerate(METHODS)
    }
    for name in ("CCA", "PLS"):
        rows[name][3] = Entry(note=NOT_APPLICABLE)
    rows["KCCA"][2] = Entry(published=66.2, note="3 of 10 failed: singular")
    cases = [f"case {k}" for k in range(1, 5)]
    table = ResultTable("accuracy", "Rank-1 accuracy by method and case", cases, rows, "Poses differ.")
    seconds = {name: [Entry(value) for value in rng.uniform(0.01, 3.0, 2).tolist()] for name in METHODS[:5]}
    times = ResultTable("times", "Seconds", ["fit", "map"], seconds, unit="s", best="lowest", digits=2)
    facts = {"crossview": "0.1.0", "machine": "2 cores, 8 GiB", "data": "sha256 " + "0f" * 32}
    return Report(
        title="Cross-view recognition on COIL-100",
        summary="Fifteen methods match objects seen from one side with objects seen from another, in four cases.",
        command="crossview compare coil-100 --methods all --repeats 10 --seed 7 --output runs/coil-100",
        sections=[
            Section("Rank-1 accuracy", [table], "KMvHE is the best in every case.\n\nMost differ little."),
            Section("Match curves", [_curves(), _dimensions()], "How soon the right object is found."),
            Section("Common spaces", [_embeddings(rng), _matches(rng)]),
            Section("How it was run", [times, doc.Facts("environment", "Environment", facts, "The machine.")]),
        ],
    )


def _curves() -> doc.Curves:
    ranks = np.arange(1, 21)
    curves = {}
    for k, name in enumerate(["KMvHE", "MvHE", "MvDA", "GMA", "MCCA", "PCA"]):
        y = 100 - (18 + 9 * k) * np.exp(-ranks / (6 + k))
        curves[name] = doc.Curve(ranks.tolist(), y.tolist(), (3 / ranks).tolist())
    return doc.Curves("match-curves", "Cumulative match curves", curves, "rank", "probes found, %", "Case 1.")


def _dimensions() -> doc.Curves:
    sizes = [2, 5, 10, 20, 50, 100, 200]
    curves = {name: doc.Curve(sizes, (30 + 3 * k + 9 * np.log10(sizes)).tolist()) for k, name in enumerate(METHODS)}
    return doc.Curves("dimensions", "Accuracy against the number of components", curves, "components", log_x=True)


def _embeddings(rng: np.random.Generator) -> doc.Embeddings:
    classes = np.repeat(np.arange(6), 20)
    views = np.tile(np.repeat(["front", "back"], 10), 6).tolist()
    names = [f"obj{c}__{5 * k}.png" for c, k in zip(classes, np.tile(np.arange(20), 6), strict=True)]
    centres = rng.normal(size=(6, 2))[classes]
    panels = {name: centres * k + rng.normal(size=(120, 2)) for k, name in enumerate(METHODS[:5])}
    labels = [f"object {c}" for c in classes]
    return doc.Embeddings("spaces", "The common space of each method", panels, views, labels, names, "Two components.")


def _matches(rng: np.random.Generator) -> doc.MatchBrowser:
    """Of images 0 to 59, each of class k % 10, the first twelve are probes."""
    y, x = np.mgrid[0:16, 0:16]
    waves = [np.sin(x * (1 + k % 5) / 6 + k) * np.cos(y * (1 + k % 3) / 5 + k / 2) for k in range(60)]
    images = (127 + 120 * np.stack(waves)).astype(np.uint8)

    def match(k: int, rank: int, skill: float) -> tuple[int, float]:
        label = k % 10 if rng.random() < skill / (rank + 1) else (k + rank + 1) % 10
        return 20 + 10 * (rank % 4) + label, 0.2 + 0.1 * rank

    probes = {
        name: [(k, [match(k, rank, skill) for rank in range(8)]) for k in range(12)]
        for name, skill in (("KMvHE: front → back", 0.8), ("PCA: front → back", 0.2))
    }
    labels = [f"object {k % 10}" for k in range(60)]
    return doc.MatchBrowser("matches", "Probes and their matches", images, labels, probes, "Nearest first.")
