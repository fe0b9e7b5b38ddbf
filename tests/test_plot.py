from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

import crossview as cv

mpl.use("agg")

DATA = cv.datasets.load_digits()


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def test_embedding_has_a_colour_per_class_and_a_marker_per_view():
    mask = np.ones((60, 2), dtype=bool)
    mask[:5, 1] = False
    views = cv.Views([X[:60] for X in DATA.views.arrays], names=["left", "right"], mask=mask)
    latents = cv.MvDA(3).fit(views, DATA.y[:60]).transform(views)
    _, (_, ax) = pyplot.subplots(1, 2)
    assert cv.plot.embedding(latents, DATA.y[:60], ax=ax) is ax
    drawn = [points for points in ax.lines if len(points.get_xdata())]
    assert len(drawn) == 8 * 2
    assert sum(len(points.get_xdata()) for points in drawn) == mask[DATA.y[:60] < 8].sum()
    np.testing.assert_allclose(drawn[0].get_xydata(), latents["left"][DATA.y[:60] == 0][:, :2])
    assert len({points.get_color() for points in drawn}) == 8
    assert len({points.get_marker() for points in drawn}) == 2
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [*"01234567", "left", "right"]


def test_cmc():
    gallery, probes = np.eye(3), np.eye(3)[[0, 1, 1]]
    rates = cv.metrics.cmc(gallery, [0, 1, 2], probes, [0, 1, 2])
    ax = cv.plot.cmc({"one": rates, "two": [0.5, 1.0, 1.0]})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), rates)
    assert [line.get_label() for line in ax.lines] == ["one", "two"]
    assert cv.plot.cmc(rates).get_legend() is None


def test_matches_are_framed():
    images = np.random.default_rng(0).random((5, 8, 4))
    axes = cv.plot.matches(images[:2], images, [[0, 1], [3, 2]], probe_y=[0, 1], gallery_y=[0, 0, 1, 0, 1])
    assert axes.shape == (2, 3)
    assert [[ax.get_xlabel() for ax in row[1:]] for row in axes] == [["✓", "✓"], ["✗", "✓"]]
    np.testing.assert_array_equal(axes[1, 1].images[0].get_array(), images[3])
    np.testing.assert_array_equal(axes[1, 0].images[0].get_array(), images[1])
    plain = cv.plot.matches(images[:1], images, [[1]])
    assert plain[0, 1].get_xlabel() == ""
    axes[0, 0].figure.canvas.draw()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: cv.plot.embedding([X, X], [0, 1]), "y has 2 labels for 3 samples"),
        (lambda X: cv.plot.embedding([X[:, :1]] * 2, [0, 1, 1]), "the common space has one component"),
        (lambda X: cv.plot.cmc([0.5, 1.5]), "must be shares from 0 to 1"),
        (lambda X: cv.plot.matches(X, X[None], [[0]]), "probe_images must be images"),
        (lambda X: cv.plot.matches(X[None], X[None], [[1]]), "from 0 to 0"),
        (lambda X: cv.plot.matches(X[None], X[None], [0]), "a row of gallery numbers for every probe"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.eye(3))
