"""Match left halves of handwritten digits with right halves, and show the common space.

Fits MvHE and KMvHE on half of the digits, with parameters chosen by cross-validation on that half alone, and compares
cross-view accuracy on the other half with that of plain PCA.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline

import crossview as cv

GRIDS = {
    "MvHE": (
        make_pipeline(cv.ViewPCA(25, pooled=False), cv.MvHE()),
        {"mvhe__n_components": [10, 20], "mvhe__lambda_inter": [0.1, 1.0, 10.0], "mvhe__beta": [0.03, 0.1, 0.3]},
    ),
    "KMvHE": (cv.KMvHE(), {"n_components": [10, 20, 30], "beta": [0.03, 0.1, 0.3]}),
}


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="folder for the picture")
    output = parser.parse_args().output

    data = cv.datasets.load_digits()
    train, test, y_train, y_test = train_test_split(data.views, data.y, test_size=0.5, stratify=data.y, random_state=0)
    print(f"{data.description}\ntrain: {train!r}\ntest:  {test!r}\n")
    print("Cross-view accuracy on test samples (the gallery is one half, the probe the other):")

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    latents = {"PCA": cv.ViewPCA(20).fit(train).transform(test)}
    print(f"  {'PCA':6} {cv.metrics.mean_accuracy(latents['PCA'], y_test):6.1%}")
    for name, (estimator, grid) in GRIDS.items():
        start = time.perf_counter()
        print(f"  {name:6} searching for parameters on the training samples ...", end="\r", flush=True)
        search = GridSearchCV(estimator, grid, cv=folds).fit(train, y_train)
        seconds = time.perf_counter() - start
        latents[name] = search.transform(test)
        chosen = ", ".join(f"{key.split('__')[-1]}={value}" for key, value in search.best_params_.items())
        print(f"  {name:6} {search.score(test, y_test):6.1%}   chosen on training data: {chosen} ({seconds:.0f} s)")

    output.mkdir(parents=True, exist_ok=True)
    picture = output / "common_space.png"
    draw(latents, y_test, picture)
    print(f"\nThe first two dimensions of the common spaces: {picture}")


def draw(latents: dict[str, cv.Views], y, path: Path) -> None:
    """Scatter plots of all common spaces, a colour per class and a marker per view."""
    figure, axes = plt.subplots(1, len(latents), figsize=(5 * len(latents), 4.8), layout="constrained")
    for axis, (title, views) in zip(axes, latents.items(), strict=True):
        for marker, name in zip("ox", views.names, strict=True):
            points = axis.scatter(*views[name][:, :2].T, c=y, cmap="tab10", marker=marker, s=14, lw=0.8, alpha=0.7)
        accuracy = cv.metrics.mean_accuracy(views, y)
        axis.set(title=f"{title}: {accuracy:.0%} in {views.n_features[0]} dimensions", xticks=[], yticks=[])
        axis.set(xlabel="first dimension", ylabel="second dimension")
    colours, digits = points.legend_elements()
    for handle in colours:
        handle.set_marker("s")
    figure.legend(colours, digits, loc="outside right upper", title="digit")
    markers = [plt.Line2D([], [], ls="", marker=m, c="grey") for m in "ox"]
    figure.legend(markers, latents["PCA"].names, loc="outside right lower", title="view")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
