"""Match left halves of handwritten digits with right halves: five methods, tuned alike, a table and pictures.

Parameters are chosen by cross-validation on half of the digits; the table is of the other half.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.model_selection import train_test_split

import crossview as cv

# Draws from each method's search space; a fit of KMvHE takes as long as many of the others.
DRAWS = {"PCA": 10, "MCCA": 20, "MvDA": 20, "MvHE": 60, "KMvHE": 8}


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="folder for the pictures")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    console = Console()

    data = cv.datasets.load_digits()
    train, test, y_train, y_test = train_test_split(data.views, data.y, test_size=0.5, stratify=data.y, random_state=0)
    console.print(f"{data.description}\ntrain: {train!r}\ntest:  {test!r}\n", highlight=False)

    searches, seconds = {}, {}
    for name, draws in track(DRAWS.items(), description="Tuning", console=console, transient=True):
        start = time.perf_counter()
        searches[name] = cv.tune(name, train, y_train, pca=[10, 20, 25], n_iter=draws, n_folds=3)
        seconds[name] = time.perf_counter() - start

    table = Table(title="Cross-view accuracy on test samples: the gallery is one half, the probe the other")
    for column in ("method", "accuracy", "rank 3", "chosen on training samples", "time"):
        table.add_column(column, justify="left" if column in ("method", "chosen on training samples") else "right")
    curves = {}
    for name, search in searches.items():
        metric = search.best_params_["metric"]
        latents = search.transform(test)
        # As the accuracy, the mean of both directions.
        pairs = (("left", "right"), ("right", "left"))
        found = [cv.metrics.cmc(latents[a], y_test, latents[b], y_test, metric=metric) for a, b in pairs]
        curves[name] = sum(found) / len(found)
        chosen = ", ".join(f"{key}={value}" for key, value in search.best_params_.items())
        accuracy = search.score(test, y_test)
        table.add_row(name, f"{accuracy:.1%}", f"{curves[name][2]:.1%}", chosen, f"{seconds[name]:.0f} s")
    console.print(table)

    figure, axes = plt.subplots(1, len(searches), figsize=(4.4 * len(searches), 3.6), layout="constrained")
    for ax, (name, search) in zip(axes, searches.items(), strict=True):
        cv.plot.embedding(search.transform(test), y_test, ax=ax, max_classes=10)
        ax.set_title(f"{name}: {search.score(test, y_test):.0%} in {search.best_params_['n_components']} dimensions")
        if ax is not axes[-1]:
            ax.get_legend().remove()
    figure.savefig(output / "common_spaces.png", dpi=110)
    display = cv.plot.cmc(curves)
    display.ax_.set_title("How often the right digit is among the first matches")
    display.figure_.savefig(output / "cmc.png", dpi=110)

    best = searches["KMvHE"]
    model = cv.CrossViewClassifier(best.best_estimator_, metric=best.best_params_["metric"]).fit(train, y_train)
    model.enroll(train["left"], y_train, "left")
    _, nearest = model.kneighbors(test["right"][:6], "right", n_neighbors=6)
    probes, gallery = (X.reshape(-1, *data.image_shape) for X in (test["right"][:6], train["left"]))
    display = cv.plot.matches(probes, gallery, nearest, probe_y=y_test[:6], gallery_y=y_train)
    display.figure_.savefig(output / "matches.png", dpi=110)
    console.print(f"\nPictures: {output / 'common_spaces.png'}, {output / 'cmc.png'}, {output / 'matches.png'}")


if __name__ == "__main__":
    main()
