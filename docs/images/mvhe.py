"""Draw what the three parts of MvHE do to one sample: python docs/images/mvhe.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, CLASS, OTHER = "#222222", "#0072b2", "#ffffff"
PULL, PUSH = "#009e73", "#d55e00"
MARKERS = ("o", "^")

SAMPLE = np.array([[1.25, 0.95], [4.75, 0.95]])  # the sample in either view
WITHIN = [np.array([[2.05, 1.45]]), np.array([[5.35, 1.5]])]  # its nearest of the same class
BETWEEN = [
    np.array([[0.35, 1.45], [2.1, 0.4], [0.5, 0.3]]),  # its nearest of other classes
    np.array([[4.0, 1.55], [5.5, 0.55], [4.15, 0.3]]),
]


def pull(ax, a, b):
    """Two arrows that meet between a and b."""
    middle = (a + b) / 2
    for end in (a, b):
        _arrow(ax, end, middle, "-|>", PULL, "-", shrink=(9, 0))


def push(ax, a, b):
    """An arrow from a to b, which has to go."""
    _arrow(ax, a, b, "-|>", PUSH, (0, (3, 1.5)), shrink=(9, 7))


def _arrow(ax, a, b, style, colour, dashes, shrink):
    patch = FancyArrowPatch(
        a, b, arrowstyle=style, mutation_scale=13, linewidth=1.8, color=colour, linestyle=dashes,
        shrinkA=shrink[0], shrinkB=shrink[1],
    )  # fmt: skip
    ax.add_patch(patch)


def draw_samples(ax, title, patch=None):
    """Both views of the sample, and its neighbours: strong in the view of the patch, pale in the other."""
    for v, left in enumerate((0.0, 3.5)):
        box = FancyBboxPatch(
            (left + 0.05, 0.0),
            2.4,
            1.8,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor="#eef1f4",
            edgecolor="none",
        )
        ax.add_patch(box)
        ax.text(
            left + 1.25,
            -0.08,
            f"view {v + 1}",
            ha="center",
            va="top",
            fontsize=10.5,
            color=INK,
        )
        style = {
            "marker": MARKERS[v],
            "s": 80,
            "edgecolors": INK,
            "linewidths": 1,
            "zorder": 3,
        }
        strong = style | {"s": 150, "linewidths": 2.5}
        style["alpha"] = 1.0 if v == patch else 0.3
        ax.scatter(*WITHIN[v].T, facecolors=CLASS, **style)
        ax.scatter(*BETWEEN[v].T, facecolors=OTHER, **style)
        ax.scatter(*SAMPLE[v], facecolors=CLASS, **strong)
    ax.set_title(title, fontsize=12, loc="left", color=INK, pad=4)
    ax.set(xlim=(0, 6), ylim=(-0.35, 1.85), aspect="equal")
    ax.axis("off")


def draw_patch(ax, centre, v):
    """Pull the neighbours of the same class in view v to the centre, and push the others away."""
    for neighbour in WITHIN[v]:
        pull(ax, centre, neighbour)
    for neighbour in BETWEEN[v]:
        push(ax, centre, neighbour)


def main() -> None:
    """Draw one panel per part, and a legend."""
    plt.rcParams["svg.hashsalt"] = "crossview"
    figure, axes = plt.subplots(3, 1, figsize=(5, 7), facecolor="white")
    draw_samples(axes[0], "LE-paired: the views of the sample")
    pull(axes[0], *SAMPLE)
    draw_samples(axes[1], "LDE-intra: its neighbours in its own view", patch=0)
    draw_patch(axes[1], SAMPLE[0], 0)
    draw_samples(axes[2], "LDE-inter: its neighbours in the other view", patch=1)
    draw_patch(axes[2], SAMPLE[0], 1)
    marker = {"ls": "", "marker": "s", "markersize": 9, "markeredgecolor": INK}
    handles = [
        Line2D([], [], color=PULL, linewidth=2.5, label="pull together"),
        Line2D(
            [], [], color=PUSH, linewidth=2.5, linestyle=(0, (3, 1.5)), label="push apart"
        ),
        Line2D([], [], markerfacecolor=CLASS, label="same class", **marker),
        Line2D([], [], markerfacecolor=OTHER, label="other classes", **marker),
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        ncol=2,
        frameon=False,
        fontsize=11,
        labelcolor=INK,
    )
    figure.subplots_adjust(left=0.02, right=0.98, top=0.955, bottom=0.09, hspace=0.12)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
