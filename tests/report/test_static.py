"""What stands in the figures that are files."""

from __future__ import annotations

import numpy as np
import pytest

from crossview.report import Curve, Curves, Match, MatchBrowser, Probe
from crossview.report.palette import Palette
from crossview.report.static import draw

figures = pytest.importorskip("matplotlib.figure", reason="static figures need matplotlib")


@pytest.fixture
def drawn(monkeypatch):
    """The figure that an item is drawn in."""
    found = []
    save = figures.Figure.savefig

    def keep(self, *args, **options):
        found.append(self)
        save(self, *args, **options)

    def draw_one(item, names=()):
        draw(item, Palette(names))
        return found[-1]

    monkeypatch.setattr(figures.Figure, "savefig", keep)
    return draw_one


@pytest.mark.parametrize("views", [("left", "right"), ("photograph", "composite sketch"), ("0–35°", "180–215°")])
def test_probes_are_named_in_full(drawn, views):
    images = np.zeros((1, 8, 4), dtype=np.uint8)
    probes = [Probe(0, "0", [Match(0, "0", 0.1)] * 8)]
    names = [f"{method}: {one} looked up in {other}" for method in ("KMvHE", "MvDA-VC") for one, other in (views,)]
    figure = drawn(MatchBrowser("m", "t", images, dict.fromkeys(names, probes)))
    firsts = [ax for ax in figure.axes if ax.get_ylabel()]
    assert [" ".join(ax.get_ylabel().split()) for ax in firsts] == names
    for ax in firsts:
        label = ax.yaxis.label.get_window_extent()
        assert label.x0 >= 0
        assert label.x1 <= ax.get_window_extent().x0
        assert label.height < figure.bbox.height / len(names)


def test_rank_one_has_a_tick(drawn):
    ranks = list(range(1, 21))
    figure = drawn(Curves("c", "t", {"PCA": Curve(ranks, [float(rank) for rank in ranks])}, "rank"), ["PCA"])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "5", "10", "15", "20"]
