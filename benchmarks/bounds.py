"""What a method could reach on COIL-100 if its parameters were chosen on the test objects themselves.

Usage: python benchmarks/bounds.py DATA --method KMvHE --case 1 [--draws 200], where DATA holds coil-100/.

Nothing here is a result: it is looked at to understand results. A method whose bound is below a published figure was
not the same method there, or was not given the same data, or had its parameters chosen on test objects.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.paper.protocols import Effort
from crossview.recognition.tuning import search_space

REPEATS = 10


def bounds(method: str, data: cv.datasets.Dataset, draws: int | None) -> dict[str, dict[str, float]]:
    """Per distance, the best that one setting reaches on average, and the average of the best of every split."""
    splits = list(cv.ClassSplit(REPEATS, 70, random_state=0).split(data.views, data.y))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = search_space(method, data.views.n_features, pca=Effort().pca)
        search = cv.tune(method, data.views, data.y, space, n_iter=draws, cv=splits, refit=False)
    scores = 100 * np.array([search.cv_results_[f"split{k}_test_score"] for k in range(REPEATS)])
    distances = search.cv_results_["metric"]
    found = {}
    for name in ("euclidean", "cosine"):
        rows = scores[:, distances == name]
        found[name] = {
            "one setting for all splits": float(np.nanmax(rows.mean(axis=0))),
            "the best of every split": float(np.nanmax(rows, axis=1).mean()),
            "the median setting": float(np.nanmedian(rows.mean(axis=0))),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", default="KMvHE", choices=list(cv.METHODS))
    parser.add_argument("--case", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--draws", type=int, default=0, help="combinations to try; 0 tries all")
    options = parser.parse_args()
    data = cv.datasets.load_coil100(options.data / "coil-100", options.case)
    print(json.dumps(bounds(options.method, data, options.draws or None), indent=1))


if __name__ == "__main__":
    main()
