"""Choose default parameters: the mean loss of every setting over many data sets.

Usage: python benchmarks/defaults.py [METHOD ...] [--data DATA] [--n-iter 300] > benchmarks/defaults.md

Every setting is fitted to the training part of some splits of every data set and scored on the test part. Its loss on a
data set is the difference from the best setting there. The tables show the settings with the smallest mean loss, the
defaults of the class and the paper's values. DATA is a folder that contains coil-100/, cmu-pie/ and mfeat/; missing
data sets are skipped, and the tables name those used. Views are scaled by feature and reduced to 80 principal
components, and the distance is Euclidean.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.embeddings import SEARCH_SPACES
from crossview.model_selection.tuning import standard_pipeline
from paper.data import PaperLoader

SETS = {
    "digits": {},
    "descriptors": {},
    "turntable": {},
    "captions": {},
    "manifolds": {},
    "coil100 1": {"case": 1},
    "coil100 2": {"case": 2},
    "cmu-pie 1": {"case": 1},
    "cmu-pie 4": {"case": 4},
    "mfeat": {},
}
PAPER = {
    "MvHE": {"lambda_intra": 0.01, "lambda_inter": 0.05, "beta": 0.1, "n_within": 1, "n_between": 15},
    "KMvHE": {"lambda_intra": 0.005, "lambda_inter": 0.001, "beta": 1.1, "n_within": 3, "n_between": 15},
}
SPLITS, TRAIN, TEST = 3, 200, 400


def data_sets(folder: Path | None) -> dict[str, cv.datasets.Dataset]:
    """Available data sets, by name."""
    found, load = {}, PaperLoader(folder=folder)
    for name, options in SETS.items():
        source = name.split()[0]
        try:
            if source == "mfeat":
                found[name] = cv.datasets.load_arrays(folder / "mfeat" / "mfeat.npz")
            else:
                found[name] = load(source, options)
        except (TypeError, ValueError, FileNotFoundError):
            continue
    return found


def splits(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits of classes if there are many, and of samples otherwise, with at most TRAIN and TEST samples."""
    _, counts = np.unique(y, return_counts=True)
    splitter = cv.ClassSplit if len(counts) >= 20 else cv.SampleSplit
    found = []
    size = 0.7 if len(counts) >= 20 else 0.5
    for train, test in splitter(SPLITS, size, random_state=0).split(y, y):
        random = np.random.default_rng(0)
        found.append((_some(y, train, TRAIN, random), _some(y, test, TEST, random)))
    return found


def _some(y: np.ndarray, rows: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """Draw at most so many rows: whole classes if they are small, and some samples of every class otherwise."""
    if len(rows) <= most:
        return rows
    classes, counts = np.unique(y[rows], return_counts=True)
    if counts.max() <= 10:
        kept = random.permutation(classes)[: int(most / counts.mean())]
        return rows[np.isin(y[rows], kept)]
    each = most // len(classes)
    return np.concatenate([random.permutation(rows[y[rows] == c])[:each] for c in classes])


def scores(method: str, data: cv.datasets.Dataset, n_iter: int) -> dict[str, float]:
    """Accuracy by setting."""
    name = cv.METHODS[method].__name__.lower()
    space = {f"{name}__{key}": values for key, values in SEARCH_SPACES[method].items()}
    fixed = [{f"{name}__{key}": [value] for key, value in PAPER[method].items()}] if method in PAPER else []
    fixed = [{**one, f"{name}__n_components": space[f"{name}__n_components"]} for one in fixed]
    found: dict[str, float] = {}
    y = np.asarray(data.y)
    for grid, n_tried in ((space, n_iter), *((one, None) for one in fixed)):
        search = cv.EmbeddingSearchCV(
            standard_pipeline(method), grid, n_iter=n_tried, metrics=["euclidean"], cv=splits(y), refit=False
        )
        results = search.fit(data.views, y).cv_results_
        for params, score in zip(results["params"], results["mean_test_score"], strict=True):
            found[label({key.split("__")[1]: value for key, value in params.items()})] = 100 * score
    return found


def label(params: dict[str, object]) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in sorted(params.items()))


def report(method: str, sets: dict[str, cv.datasets.Dataset], n_iter: int) -> None:
    table = {}
    for name, data in sets.items():
        try:
            table[name] = scores(method, data, n_iter)
        except cv.exceptions.NotApplicableError:
            continue
    shared = sorted(set.intersection(*(set(found) for found in table.values())))
    values = np.array([[found[setting] for setting in shared] for found in table.values()])
    losses = values.max(axis=1, keepdims=True) - values
    mean = losses.mean(axis=0)
    model = cv.METHODS[method]()
    own = {key: getattr(model, key) for key in SEARCH_SPACES[method] if key != "n_components"}
    rows = [("smallest mean loss", k) for k in np.argsort(mean)[:3]]
    for what, params in (("defaults", own), ("the paper's", PAPER.get(method))):
        if params is not None:
            alike = [
                k for k, s in enumerate(shared) if all(part in s.split(", ") for part in label(params).split(", "))
            ]
            rows += [(what, min(alike, key=lambda k: mean[k]))] if alike else []
    print(
        f"\n## {method}\n\nBest accuracy: "
        + ", ".join(f"{n} {v.max():.0f}" for n, v in zip(table, values, strict=True))
    )
    print(f"\n| setting | | mean loss | {' | '.join(table)} |\n| --- | --- | ---: |{' ---: |' * len(table)}")
    for what, k in rows:
        cells = " | ".join(f"{loss:.1f}" for loss in losses[:, k])
        print(f"| {what} | {shared[k]} | **{mean[k]:.1f}** | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=[name for name in cv.METHODS if name not in ("PCA", "PLS")])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--n-iter", type=int, default=300)
    options = parser.parse_args()
    with threadpool_limits(1):
        sets = data_sets(options.data)
        print(
            "# Default parameters\n\nWritten by `python benchmarks/defaults.py --data DATA > benchmarks/defaults.md`."
        )
        print("\n".join(__doc__.split("\n\n", 2)[2].split("\n")).join(["\n", ""]), flush=True)
        for method in options.methods:
            report(method, sets, options.n_iter)


if __name__ == "__main__":
    main()
