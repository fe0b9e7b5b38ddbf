"""Defaults of coupling, whitening and number of components, for `MvHE` and `KMvHE` without a search.

    python benchmarks/plain_defaults.py DATA > benchmarks/plain_defaults.md

DATA is the folder of `recommendation.py`. Its data sets are used with splits that no other table uses. Every setting is
fitted to the training parts, to the features as they are ("raw", up to 2,000 features) and behind a scaler and a PCA
with default parameters ("standard"), and scored on the test parts without counterparts. Its loss on a data set is the
difference from the best setting there. A coupling applies where ``coupling="auto"`` would couple; elsewhere, it is 0.
"""

import sys
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

import crossview as cv
from recommendation import problems

COUPLINGS, WHITENINGS, COMPONENTS = (0.0, 4.0, 8.0, 16.0), (None, 1.0), (20, 30, 40, 60, 80)
WHERE = tuple(product(("raw", "standard"), ("euclidean", "cosine")))
FIRST_SEED, N_SPLITS = 1000, 2
Setting = tuple[float, float | None, int]  # coupling, whitening, number of components


def scores(method: str, data: cv.datasets.Dataset, splits: list, before: tuple) -> dict[tuple[Setting, str], float]:
    """Accuracy by setting and distance."""
    y, model = np.asarray(data.y), cv.METHODS[method]()
    name = method.lower()
    train = data.views[splits[0][0]]
    auto = make_pipeline(*before, model).fit(train, y[splits[0][0]])[-1].coupling_
    grid = {"coupling": COUPLINGS if auto else [0.0], "whitening": WHITENINGS, "n_components": COMPONENTS}
    search = cv.EmbeddingSearchCV(
        make_pipeline(*before, model),
        {f"{name}__{key}": values for key, values in grid.items()},
        cv=splits,
        refit=False,
    )
    results = search.fit(data.views, y).cv_results_
    found = {}
    for params, metric, score in zip(results["params"], results["metric"], results["mean_test_score"], strict=True):
        one = {key.split("__")[1]: value for key, value in params.items()}
        for coupling in (one["coupling"],) if auto else COUPLINGS:
            found[(coupling, one["whitening"], one["n_components"]), metric] = 100 * score
    return found


def losses(method: str, folder: Path) -> dict[Setting, list[float]]:
    """Mean loss of every setting in each of `WHERE`."""
    by_place = defaultdict(list)
    for open_data, split, _ in problems(folder).values():
        data = open_data()
        splits = [split(np.asarray(data.y), FIRST_SEED + k) for k in range(N_SPLITS)]
        for kind, before in {"raw": (), "standard": (cv.ViewScaler(), cv.ViewPCA())}.items():
            if kind == "raw" and max(data.views.n_features) > 2000:
                continue
            found = scores(method, data, splits, before)
            for (setting, metric), score in found.items():
                by_place[setting, (kind, metric)].append(max(found.values()) - score)
    settings = {setting for setting, _ in by_place}
    return {setting: [float(np.mean(by_place[setting, place])) for place in WHERE] for setting in settings}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print("# Defaults of coupling, whitening and number of components")
    print("\nWritten by `python benchmarks/plain_defaults.py DATA > benchmarks/plain_defaults.md`.\n")
    print(__doc__.split("\n\n", 2)[2])
    for method in ("MvHE", "KMvHE"):
        found = losses(method, Path(sys.argv[1]))
        order = sorted(found, key=lambda setting: np.mean(found[setting]))
        print(f"## {method}\n\n| coupling | whitening | components | mean loss | {' | '.join(map(' '.join, WHERE))} |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for setting in dict.fromkeys([*order[:10], (8.0, None, 40), (8.0, 1.0, 40), (0.0, None, 20)]):
            cells = " | ".join(f"{loss:.1f}" for loss in found[setting])
            coupling, whitening, d = setting
            print(f"| {coupling:g} | {whitening} | {d} | **{np.mean(found[setting]):.1f}** | {cells} |", flush=True)
        print()
