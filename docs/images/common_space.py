"""Draw the README's picture: python docs/images/common_space.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import crossview as cv

DIGITS = [0, 1, 2, 3, 4, 6]
STYLES = {"left": ("o", True), "right": ("^", False)}


def draw(ax, arrays, labels, title):
    """Samples of both views along the two directions in which they vary most."""
    plane = PCA(2).fit(np.vstack(arrays))
    for X, (marker, filled) in zip(arrays, STYLES.values(), strict=True):
        points = plane.transform(X)
        for k, digit in enumerate(DIGITS):
            colour = plt.get_cmap("tab10")(k)
            x, y = points[labels == digit].T
            ax.scatter(
                x,
                y,
                s=26,
                marker=marker,
                facecolors=colour if filled else "none",
                edgecolors=colour,
            )
    ax.set(title=title, xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_color("#cccccc")


def main() -> None:
    """Draw pixels and the common space side by side."""
    data = cv.datasets.load_digits()
    train, test, y_train, y_test = train_test_split(data.views, data.y, random_state=0)
    rows = np.flatnonzero(np.isin(y_test, DIGITS))[:150]
    model = cv.KMvHE().fit(train, y_train)
    before, after = cv.metrics.mean_accuracy(test, y_test), model.score(test, y_test)
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.9), dpi=110)
    draw(axes[0], test[rows].arrays, y_test[rows], f"Pixels: {100 * before:.0f} % matched")
    draw(
        axes[1],
        model.transform(test[rows]).arrays,
        y_test[rows],
        f"Common space: {100 * after:.0f} % matched",
    )
    handles = [
        Line2D(
            [],
            [],
            ls="",
            color="#555555",
            marker=marker,
            fillstyle="full" if filled else "none",
            label=f"{name} halves",
        )
        for name, (marker, filled) in STYLES.items()
    ]
    figure.legend(handles=handles, loc="lower center", ncol=2, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(Path(__file__).with_suffix(".png").with_stem("common-space"))


if __name__ == "__main__":
    main()
