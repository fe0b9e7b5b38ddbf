"""What a search leaves behind: the best score in the whole space by the same folds, minus that of the search.

    python benchmarks/search_regret.py DATA RESULTS [NAME...]   # compute, resumable
    python benchmarks/search_regret.py --table RESULTS          # write the table to stdout

DATA is the folder of `recommendation.py`, whose first split of every data set this uses. Searches may step beyond the
listed values and do not try all of them, so the regret can be negative.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import crossview as cv
from crossview.recognition.tuning import search_space, standard_pipeline
from recommendation import DRAWS, load, problems

METHODS = ("MvDA", "MvHE")


def scores(method: str, views: cv.Views, y: np.ndarray, folds: str) -> dict[str, float]:
    """Best score of the search and of all settings, and the processor time of each."""
    start = time.process_time()
    found = cv.tune(method, views, y, n_iter=DRAWS, cv=folds, refit=False)
    between = time.process_time()
    grid = search_space(method, views.n_features)
    every = cv.EmbeddingSearchCV(standard_pipeline(method), grid, cv=folds, refit=False).fit(views, y)
    return {
        "search": found.best_score_,
        "all": every.best_score_,
        "seconds": between - start,
        "seconds_all": time.process_time() - between,
    }


def compute(folder: Path, path: Path, names: list[str]) -> None:
    done = {(r["data"], r["method"]) for r in load(path)}
    for name, (open_data, split, _) in problems(folder).items():
        for method in METHODS:
            if (names and name not in names) or (name, method) in done:
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
    for method in METHODS:
        regret = np.mean([100 * (r["all"] - r["search"]) for r in records if r["method"] == method])
        print(f"\nMean regret of {method}: {regret:.2f} points.")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[1] == "--table":
        table(Path(sys.argv[2]))
    else:
        compute(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
