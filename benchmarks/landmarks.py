"""Cost and benefit of landmarks: kernel methods tuned with all training samples as landmarks, and with fewer.

Usage: python benchmarks/landmarks.py [--data DIR] [--only digits,mfeat] [--sizes 500,1000,2000] [--landmarks 200,500]
[--method KMvHE] [--n-iter 8] [--seeds 2], where DIR contains mfeat/mfeat.npz.

That many samples are drawn for training, and up to 1,000 others for testing, of other classes if there are at least 20.
Parameters are tuned on the training samples with three folds, the same settings for all numbers of landmarks. Shown are
the accuracy on the other samples and the processor time of the search, as means over the seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.model_selection.tuning import search_space

N_TEST = 1000
SAMPLES_PER_CLASS = 4  # of turntable and captions; captions-15 has 15 large classes


def data_sets(folder: Path | None, largest: int) -> dict[str, Callable[[], cv.datasets.Dataset]]:
    n_classes = (largest + N_TEST) // SAMPLES_PER_CLASS
    found = {
        "digits": cv.datasets.load_digits,
        "descriptors": cv.datasets.load_descriptors,
        "turntable": lambda: cv.datasets.make_turntable(n_classes, size=16, random_state=0),
        "captions": lambda: cv.datasets.make_captions(n_classes, SAMPLES_PER_CLASS, random_state=0),
        "captions-15": lambda: cv.datasets.make_captions(15, (largest + N_TEST) // 15, random_state=0),
    }
    return found if folder is None else found | {"mfeat": lambda: cv.datasets.load_arrays(folder / "mfeat/mfeat.npz")}


def measure(
    method: str, data: cv.datasets.Dataset, m: int, landmarks: int | None, n_iter: int, seed: int
) -> tuple[float, float]:
    """Accuracy in percent on new samples, and the processor time of the search in seconds."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(data.y))
    classes, y = np.unique(data.y, return_inverse=True)
    if len(classes) >= 20:
        order = np.argsort(random.permutation(len(classes))[y], kind="stable")
    train, test = order[:m], order[m : m + N_TEST]
    grid = search_space(method, data.views.n_features)
    grid[f"{method.lower()}__n_landmarks"] = [landmarks]
    start = time.process_time()
    search = cv.tune(method, data.views[train], data.y[train], grid, n_iter=n_iter, n_folds=3, random_state=seed)
    seconds = time.process_time() - start
    return 100 * search.score(data.views[test], data.y[test]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--sizes", default="500,1000,2000,4000")
    parser.add_argument("--landmarks", default="200,500,1000")
    parser.add_argument("--method", default="KMvHE")
    parser.add_argument("--n-iter", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    sizes, numbers = ([int(part) for part in given.split(",")] for given in (options.sizes, options.landmarks))
    print("| method | data | views | training samples | landmarks | accuracy | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with threadpool_limits(1):
        for name, load in data_sets(options.data, max(sizes)).items():
            if options.only is not None and name not in options.only.split(","):
                continue
            data = load()
            for m in (m for m in sizes if m + N_TEST // 3 <= len(data.y)):
                for k in [None, *(k for k in numbers if k < m)]:
                    found = [measure(options.method, data, m, k, options.n_iter, seed) for seed in range(options.seeds)]
                    accuracy, seconds = np.mean(found, axis=0)
                    shown = f"| {options.method} | {name} | {len(data.views.names)} | {m:,} | {k or 'all'}"
                    print(f"{shown} | {accuracy:.1f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
