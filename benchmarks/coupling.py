"""What coupling gains where coordinates correspond, costs where they do not, and takes in time.

    python benchmarks/coupling.py DATA   # DATA: the folder with coil-100/, cmu-pie/ and deep/

The first table has the accuracy of KMvHE at fixed settings, without counterparts, for several couplings; "rotated"
turns every view but the first by a random rotation, which leaves distances within views as they are. The second has the
time of fits relative to those without coupling, at the sizes of CMU PIE in the paper.
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

import cases
import crossview as cv
from crossview.metrics import mean_accuracy
from recommendation import problems

COUPLINGS = (0.0, 4.0, 16.0, np.inf)
DATA_SETS = ("CMU PIE", "COIL-100 2", "CMU PIE, network")


def rotated(views: cv.Views) -> cv.Views:
    rng = np.random.default_rng(0)
    first, *others = views.arrays
    return cv.Views([first, *(X @ np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0] for X in others)])


def accuracies(folder: Path, name: str, turn: bool, n_splits: int = 3) -> list[float]:
    open_data, split, _ = problems(folder)[name]
    data = open_data()
    views, y = rotated(data.views) if turn else data.views, np.asarray(data.y)
    scores = []
    for k in range(n_splits):
        train, test = split(y, k)
        # Principal components of each view by itself, so that rotated views have the same ones.
        steps = cv.ViewScaler("view"), cv.ViewPCA(160, pooled=False) if turn else cv.ViewPCA(160)
        model = cv.KMvHE(80, gamma_scale=0.3, whitening=1.0)
        before = make_pipeline(*steps).fit(views[train])
        known, new = before.transform(views[train]), before.transform(views[test])
        latents = (model.set_params(coupling=c).fit(known, y[train]).transform(new) for c in COUPLINGS)
        scores.append([100 * mean_accuracy(Z, y[test], "cosine") for Z in latents])
    return np.mean(scores, axis=0).tolist()


def ratios(model: cv.MvHE, n_views: int, rounds: int = 15) -> list[float]:
    """Processor time of fits with coupling 16 and infinity, relative to those without."""
    arrays, y = cases.samples(n_views, 180, 140, seed=n_views)
    times: dict[float, list[float]] = {c: [] for c in (0.0, 16.0, np.inf)}
    for _ in range(rounds):
        for c, found in times.items():
            start = time.process_time()
            model.set_params(coupling=c).fit(arrays, y)
            found.append(time.process_time() - start)
    base, *others = (statistics.median(found) for found in times.values())
    return [other / base for other in others]


if __name__ == "__main__":
    print("| coupling |", " | ".join(f"{c:g}" for c in COUPLINGS), "|\n| --- | ---: | ---: | ---: | ---: |")
    for name in DATA_SETS:
        for turn in (False, True):
            scores = accuracies(Path(sys.argv[1]), name, turn)
            print(f"| {name}{', rotated' * turn} |", " | ".join(f"{s:.1f}" for s in scores), "|", flush=True)
    print("\n| | 2 views | 3 views | 7 views |\n| --- | ---: | ---: | ---: |")
    for model in (cv.MvHE(20), cv.MvDA(20), cv.GMA(20), cv.MvMDA(20)):
        found = np.array([ratios(model, n) for n in (2, 3, 7)])
        for what, row in zip(("coupling 16", "one map"), found.T, strict=True):
            cells = " | ".join(f"{ratio:.2f}" for ratio in row)
            print(f"| {type(model).__name__}, {what} | {cells} |", flush=True)
