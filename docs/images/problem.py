"""Draw the picture of the page on the problem: python docs/images/problem.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import ConnectionPatch
from sklearn.model_selection import train_test_split

import crossview as cv

COLOURS = {0: "#0072b2", 3: "#d55e00", 4: "#009e73", 6: "#8a4f9e"}
INK = "#222222"


def split_digits():
    """Training and test halves of the digits that are drawn."""
    data = cv.datasets.load_digits()
    rows = np.isin(data.y, [*COLOURS])
    return train_test_split(data.views[rows], data.y[rows], random_state=0)


def draw_half(figure, bounds, pixels, colour, label):
    """Half of a digit in a frame, with a label below."""
    ax = figure.add_axes(bounds)
    ax.imshow(pixels.reshape(8, -1), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(label, fontsize=13, fontweight="bold", color=colour, labelpad=3)
    for spine in ax.spines.values():
        spine.set(color=colour, linewidth=2.5)
    return ax


def draw_space(ax, gallery, labels, probe, nearest):
    """The gallery, the probe, and the match of the probe in the common space."""
    for digit, colour in COLOURS.items():
        ax.scatter(*gallery[labels == digit].T, s=22, color=colour, alpha=0.75, linewidths=0)
    ax.plot(*np.array([probe, gallery[nearest]]).T, color=INK, linewidth=1.5)
    ax.scatter(
        *probe,
        s=200,
        marker="*",
        color="#f0c000",
        edgecolors=INK,
        zorder=3,
        label="the probe",
    )
    ax.scatter(
        *gallery[nearest],
        s=90,
        facecolors="none",
        edgecolors=INK,
        linewidths=1.5,
        label="its match",
    )
    ax.legend(loc="upper right", fontsize=11, frameon=False, labelcolor=INK)
    ax.set(xticks=[], yticks=[])
    ax.set_title("Common space: look up the nearest", fontsize=12, color=INK)
    ax.margins(0.08)
    for spine in ax.spines.values():
        spine.set_color("#999999")


def draw_arrow(figure, start, end, text, at, align):
    """An arrow from a view to the common space."""
    arrow = ConnectionPatch(
        start,
        end,
        "figure fraction",
        arrowstyle="-|>",
        mutation_scale=18,
        linewidth=2,
        color="#555555",
    )
    figure.add_artist(arrow)
    figure.text(*at, text, fontsize=11.5, ha=align, va="center", color=INK)


def main() -> None:
    """Draw the gallery and a probe, and both in the common space of a fitted model."""
    plt.rcParams["svg.hashsalt"] = "crossview"
    train, test, y_train, y_test = split_digits()
    model = cv.KMvHE(n_components=2).fit(train, y_train)
    gallery = model.transform_view(test["left"], "left")
    probes = model.transform_view(test["right"], "right")
    distances = np.linalg.norm(probes[:, None] - gallery, axis=2)
    nearest = distances.argmin(axis=1)
    right = np.flatnonzero((y_test == 4) & (y_test[nearest] == 4))
    row = right[
        np.argsort(distances[right].min(axis=1))[-5]
    ]  # far enough from its match to see both

    figure = plt.figure(figsize=(5, 5.6), facecolor="white")
    figure.text(0.36, 0.965, "Gallery: one view", fontsize=12, ha="center", color=INK)
    figure.text(0.81, 0.965, "Probe: another view", fontsize=12, ha="center", color=INK)
    for k, (digit, colour) in enumerate(COLOURS.items()):
        pixels = test["left"][np.flatnonzero(y_test == digit)[1]]
        draw_half(figure, (0.06 + 0.155 * k, 0.77, 0.13, 0.165), pixels, colour, str(digit))
    draw_half(figure, (0.745, 0.77, 0.13, 0.165), test["right"][row], INK, "?")
    draw_arrow(
        figure,
        (0.36, 0.715),
        (0.36, 0.575),
        "map of the\ngallery's view",
        (0.33, 0.65),
        "right",
    )
    draw_arrow(
        figure,
        (0.81, 0.715),
        (0.81, 0.575),
        "map of the\nprobe's view",
        (0.78, 0.65),
        "right",
    )
    draw_space(
        figure.add_axes((0.06, 0.03, 0.88, 0.49)), gallery, y_test, probes[row], nearest[row]
    )
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
