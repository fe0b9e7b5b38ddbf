"""What a search leaves behind: the best score of all settings by the same folds, minus that of the search.

    python benchmarks/search_regret.py DATA RESULTS [--sets NAME...] [--methods NAME...]   # compute, resumable
    python benchmarks/search_regret.py --table RESULTS          # write the table to stdout

DATA is the folder of `recommendation.py`, whose first split of every data set this uses. Of spaces with more than 1,000
settings, "all" are 1,000 at random; the number of components, the whitening and the distance do not count. Searches may
step beyond the listed values, so the regret can be negative.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import crossview as cv
from crossview.model_selection.tuning import max_samples, search_space, standard_pipeline
from recommendation import DRAWS, load, problems

METHODS = ("MvDA", "MvHE", "KMvHE")
MOST = 1000  # settings to try of spaces that are larger


def scores(method: str, views: cv.Views, y: np.ndarray, folds: str) -> dict[str, float]:
    """Best score of the search and of all settings, and the processor time of each."""
    start = time.process_time()
    found = cv.tune(method, views, y, n_iter=DRAWS, cv=folds, refit=False)
    between = time.process_time()
    options = {"cv": folds, "refit": False, "n_iter": MOST, "max_samples": max_samples(method, views.shape[1])}
    grid = search_space(method, views.n_features)
    every = cv.EmbeddingSearchCV(standard_pipeline(method), grid, **options).fit(views, y)
    return {
        "search": found.best_score_,
        "all": every.best_score_,
        "seconds": between - start,
        "seconds_all": time.process_time() - between,
    }


def compute(options: argparse.Namespace) -> None:
    folder, path = options.files
    done = {(r["data"], r["method"]) for r in load(path)}
    for name, (open_data, split, _) in problems(folder).items():
        for method in options.methods:
            if (options.sets and name not in options.sets) or (name, method) in done:
                continue
            data = open_data()
            y = np.asarray(data.y)
            train, test = split(y, 0)
            folds = "samples" if np.isin(y[test], y[train]).any() else "classes"
            found = scores(method, data.views[train], y[train], folds)
            with path.open("a") as file:
                file.write(json.dumps({"data": name, "method": method, **found}) + "\n")
            print(name, method, found, flush=True)


def table(path: Path) -> None:
    print("| data | method | search | all settings | regret | time, all / search |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    records = list(load(path))
    for r in records:
        cells = f"{100 * r['search']:.1f} | {100 * r['all']:.1f} | {100 * (r['all'] - r['search']):.1f}"
        print(f"| {r['data']} | {r['method']} | {cells} | {r['seconds_all'] / r['seconds']:.0f} |")
    for method in dict.fromkeys(r["method"] for r in records):
        regret = np.mean([100 * (r["all"] - r["search"]) for r in records if r["method"] == method])
        print(f"\nMean regret of {method}: {regret:.2f} points.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="DATA and RESULTS, or RESULTS only with --table")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--methods", nargs="+", default=METHODS)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    if given.table:
        table(given.files[0])
    else:
        compute(given)
