"""Accuracy of MvHE against the number of patches, drawn at random, on ten splits of each data set.

Usage: python benchmarks/patches.py

Parameters are the defaults, with 20 components. All other samples of a split are tested on; except for digits, they are
of other classes. Prints a Markdown table: mACC in per cent ± standard error.
"""

from __future__ import annotations

import numpy as np

import cases
import crossview as cv

NUMBERS = (50, 100, 200, 500, 1000, 2000, None)
SEEDS = range(10)


def data_sets():
    """Name, views, classes and splits."""
    digits = cv.datasets.load_digits()
    yield "digits", digits.views, digits.y, cv.SampleSplit(len(SEEDS), 0.5, random_state=0)
    turntable = cv.datasets.make_turntable(n_objects=80, random_state=0)
    yield "turntable", turntable.views, turntable.y, cv.ClassSplit(len(SEEDS), 56, random_state=0)
    arrays, y = cases.samples(2, 12_000, 64, per_class=20)
    yield "synthetic, 64 features", cv.Views(arrays), y, cv.ClassSplit(len(SEEDS), 500, random_state=0)


def accuracies(views, y, split, n_patches):
    for seed, (train, test) in zip(SEEDS, split.split(views, y), strict=True):
        model = cv.MvHE(20, n_patches=n_patches, random_state=seed).fit(views[train], y[train])
        yield 100 * model.score(views[test], y[test])


def main() -> None:
    header = " | ".join("all" if number is None else f"{number:,}" for number in NUMBERS)
    print(f"| data | training samples | {header} |")
    print("| --- | ---: " + "| ---: " * len(NUMBERS) + "|", flush=True)
    for name, views, y, split in data_sets():
        m = len(next(iter(split.split(views, y)))[0])
        cells = []
        for number in NUMBERS:
            if number is not None and number >= m:
                cells.append("")
                continue
            found = np.array(list(accuracies(views, y, split, number)))
            cells.append(f"{found.mean():.1f} ± {found.std(ddof=1) / np.sqrt(len(found)):.1f}")
        print(f"| {name} | {m:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
