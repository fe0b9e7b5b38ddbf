"""Accuracy against the number of landmarks, and time and memory on many samples.

Usage: python benchmarks/landmark_choice.py [--method KMvHE] [--landmarks 50,100,200,400,800] [--splits 10]
       python benchmarks/landmark_choice.py --ridges 0.02,0.05,0.1,0.2 [--landmarks 50,100,200,400] [--splits 5]
       python benchmarks/landmark_choice.py --scale [--method KMvHE] [--samples 100000] [--landmarks 1000,2000]

The first form trains on 1,400 digits, or on 300 objects of turntable with 4 samples each, and tests on the others. A
model has default parameters behind the standard scaling and a PCA to 40 components, both fitted on the training
samples, so nothing is chosen on test samples. All numbers get the same splits and seeds. The second form shows the
accuracy of KMvHE for several values of `reg`, trained on 70 % of the training samples and tested
on the other 30 %. The third form fits the method to two views of synthetic samples, each fit in a process of its own on
one thread, and shows the processor time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import product

import numpy as np
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import crossview as cv

N_COMPONENTS = 20
PCA_COMPONENTS = 40
N_FEATURES, CLASS_SIZE, N_BETWEEN = 64, 20, 3  # of the fits that --scale measures


def data_sets(n_splits: int) -> dict[str, tuple[cv.datasets.Dataset, cv.ClassSplit | cv.SampleSplit]]:
    """Data and splits: new samples of the same classes for digits, new classes for turntable."""
    return {
        "digits": (cv.datasets.load_digits(), cv.SampleSplit(n_splits, 140, random_state=0)),
        "turntable": (
            cv.datasets.make_turntable(400, size=16, random_state=0),
            cv.ClassSplit(n_splits, 300, random_state=0),
        ),
        "descriptors": (cv.datasets.load_descriptors(), cv.SampleSplit(n_splits, 100, random_state=0)),
        "captions": (cv.datasets.make_captions(random_state=0), cv.ClassSplit(n_splits, 200, random_state=0)),
    }


def accuracies(method: str, name: str, numbers: list[int], n_splits: int) -> dict[int | None, list[float]]:
    """Accuracy in per cent on each split, by number of landmarks; None are all samples."""
    data, splits = data_sets(n_splits)[name]
    found: dict[int | None, list[float]] = {number: [] for number in (*numbers, None)}
    for seed, (train, test) in enumerate(splits.split(data.views, data.y)):
        for number, scores in found.items():
            model = cv.METHODS[method](N_COMPONENTS, n_landmarks=number, random_state=seed)
            scores.append(accuracy(model, data, train, test))
    return found


def accuracy(model: cv.KMvHE | cv.KCCA, data: cv.datasets.Dataset, train: np.ndarray, test: np.ndarray) -> float:
    """Accuracy in per cent of a model trained on some samples and tested on others."""
    steps = make_pipeline(cv.ViewScaler(), cv.ViewPCA(PCA_COMPONENTS), model)
    return 100 * steps.fit(data.views[train], data.y[train]).score(data.views[test], data.y[test])


def print_ridges(numbers: list[int], ridges: list[float], n_splits: int) -> None:
    """Print the accuracy with the constraint of the paper and with ridges, on a part of the training samples."""
    for name, (data, splits) in data_sets(n_splits).items():
        found: dict[tuple[int, float | None], list[float]] = {}
        for seed, (rows, _) in enumerate(splits.split(data.views, data.y)):
            inner = type(splits)(1, 0.7, random_state=seed)
            train, test = (rows[part] for part in next(iter(inner.split(data.views[rows], data.y[rows]))))
            for number, reg in product(numbers, [None, *ridges]):
                model = cv.KMvHE(N_COMPONENTS, n_landmarks=number, reg=reg, random_state=seed)
                found.setdefault((number, reg), []).append(accuracy(model, data, train, test))
        print(f"### {name}, {len(train):,} samples\n")
        print(f"| landmarks | {' | '.join(['unit norm', *(f'reg = {reg:g}' for reg in ridges)])} |")
        print(f"| ---: |{' ---: |' * (1 + len(ridges))}")
        for number in numbers:
            shown = [with_error(np.array(found[number, reg])) for reg in (None, *ridges)]
            print(f"| {number} | {' | '.join(shown)} |")
        print(flush=True)


def with_error(values: np.ndarray) -> str:
    """Mean and standard error."""
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def print_accuracies(method: str, numbers: list[int], n_splits: int) -> None:
    """Print one table per data set."""
    for name in ("digits", "turntable"):
        print(f"### {method} on {name}\n\n| landmarks | accuracy |\n| ---: | ---: |")
        for number, scores in accuracies(method, name, numbers, n_splits).items():
            print(f"| {number or 'all'} | {with_error(np.array(scores))} |", flush=True)
        print()


def fit_large(method: str, m: int, n_landmarks: int) -> dict[str, float]:
    """Processor time of a fit in seconds, and its peak memory beyond what the process held before, in bytes."""
    rng = np.random.default_rng(0)
    y = np.arange(m) // CLASS_SIZE
    factors = rng.normal(size=(y[-1] + 1, 16))[y] + 0.5 * rng.normal(size=(m, 16))
    arrays = [factors @ rng.normal(size=(16, N_FEATURES)) + 0.5 * rng.normal(size=(m, N_FEATURES)) for _ in range(2)]
    model = cv.METHODS[method](N_COMPONENTS, n_landmarks=n_landmarks)
    if method == "KMvHE":
        model.set_params(n_between=N_BETWEEN)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with threadpool_limits(1):
        model.fit(arrays, y)
    seconds, after = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "bytes": 1024 * (after - before)}


def print_scale(method: str, m: int, numbers: list[int]) -> None:
    """Print the time and memory of fits, each in a fresh process."""
    print("| method | samples | landmarks | seconds | memory | memory / features |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for number in numbers:
        command = [sys.executable, __file__, "--fit", json.dumps([method, m, number])]
        cost = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        features = 2 * m * number * 8
        shown = f"| {method} | {m:,} | {number:,} | {cost['seconds']:.0f} | {cost['bytes'] / 1e9:.2f} GB"
        print(f"{shown} | {cost['bytes'] / features:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="KMvHE", choices=["KMvHE", "KCCA"])
    parser.add_argument("--landmarks")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--ridges", help="compare values of reg")
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit is not None:
        print(json.dumps(fit_large(*json.loads(options.fit))))
        return
    given = options.landmarks or ("1000,2000" if options.scale else "50,100,200,400,800")
    numbers = [int(part) for part in given.split(",")]
    if options.scale:
        print_scale(options.method, options.samples, numbers)
        return
    with threadpool_limits(1):
        if options.ridges:
            print_ridges(numbers, [float(part) for part in options.ridges.split(",")], options.splits)
            return
        print_accuracies(options.method, numbers, options.splits)


if __name__ == "__main__":
    main()
