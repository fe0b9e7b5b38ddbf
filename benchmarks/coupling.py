"""What coupling gains where coordinates correspond, and costs where they do not.

    python benchmarks/coupling.py DATA   # DATA: the folder with coil-100/, cmu-pie/ and deep/

The table has the accuracy of KMvHE at fixed settings, without counterparts, for several couplings; "rotated"
turns every view but the first by a random rotation, which leaves distances within views as they are.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

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


if __name__ == "__main__":
    print("| coupling |", " | ".join(f"{c:g}" for c in COUPLINGS), "|\n| --- | ---: | ---: | ---: | ---: |")
    for name in DATA_SETS:
        for turn in (False, True):
            scores = accuracies(Path(sys.argv[1]), name, turn)
            print(f"| {name}{', rotated' * turn} |", " | ".join(f"{s:.1f}" for s in scores), "|", flush=True)
