"""Upper bounds on COIL-100: the accuracy of a method with parameters chosen on the test objects.

Usage: python benchmarks/bounds.py DATA --method KMvHE --case 1 [--n-iter 200], where DATA contains coil-100/.

The bounds help to interpret results and are not results themselves. If a bound is below a published figure, the
published method was different, had other data, or had its parameters chosen on test objects.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.model_selection.tuning import search_space
from paper.data import load_coil100
from paper.protocols import Effort

REPEATS = 10


def bounds(method: str, data: cv.datasets.Dataset, n_iter: int | None) -> dict[str, dict[str, float]]:
    """Mean accuracy of the best setting, of the best setting per split, and of the median setting, by distance."""
    splits = list(cv.ClassSplit(REPEATS, 70, random_state=0).split(data.views, data.y))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = search_space(method, data.views.n_features, pca=Effort().pca)
        search = cv.tune(method, data.views, data.y, space, n_iter=n_iter, cv=splits, refit=False)
    scores = 100 * np.array([search.cv_results_[f"split{k}_test_score"] for k in range(REPEATS)])
    distances = search.cv_results_["metric"]
    found = {}
    for name in ("euclidean", "cosine"):
        rows = scores[:, distances == name]
        found[name] = {
            "best setting for all splits": float(np.nanmax(rows.mean(axis=0))),
            "best setting per split": float(np.nanmax(rows, axis=1).mean()),
            "median setting": float(np.nanmedian(rows.mean(axis=0))),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--method", default="KMvHE", choices=list(cv.METHODS))
    parser.add_argument("--case", type=int, default=1, choices=(1, 2, 3, 4))
    parser.add_argument("--n-iter", type=int, default=0, help="number of combinations to try; 0 tries all")
    options = parser.parse_args()
    data = load_coil100(options.data / "coil-100", options.case)
    print(json.dumps(bounds(options.method, data, options.n_iter or None), indent=1))


if __name__ == "__main__":
    main()
