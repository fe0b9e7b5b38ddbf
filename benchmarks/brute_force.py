"""Compare a search with the best single setting, for every method on a data set with views of different kinds.

Usage: python benchmarks/brute_force.py [METHOD ...] [--dataset descriptors] [--n-iter 24] [--settings 300]

On one split, compare the parameters that a search chooses on training samples with the best of many settings chosen on
the test samples, an upper bound. The gap is the cost of choosing without test data.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.datasets.registry import open_dataset
from crossview.exceptions import NotApplicableError
from crossview.model_selection.tuning import search_space


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=list(cv.METHODS))
    parser.add_argument("--dataset", default="descriptors")
    parser.add_argument("--train", type=int, default=20, help="training samples per class")
    parser.add_argument("--n-iter", type=int, default=24)
    parser.add_argument("--test", type=int, default=60, help="test samples per class")
    parser.add_argument("--settings", type=int, default=300, help="number of settings to try on the test samples")
    options = parser.parse_args()
    data = open_dataset(options.dataset)
    views, y = data.views, np.asarray(data.y)
    train, rest = next(cv.SampleSplit(1, options.train, random_state=0).split(y, y))
    test = rest[next(cv.SampleSplit(1, options.test, random_state=0).split(rest, y[rest]))[0]]
    print("| method | search | committee of 8 | best setting on test samples | gap | search, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for method in options.methods:
        space = search_space(method, views.n_features)
        try:
            with threadpool_limits(1):
                start = time.perf_counter()
                found = cv.tune(method, views[train], y[train], n_iter=options.n_iter, cv="samples")
                seconds = time.perf_counter() - start
                committee = cv.tune(method, views[train], y[train], n_iter=options.n_iter, cv="samples", n_members=8)
                both = np.concatenate([train, test])
                rows = (np.arange(len(train)), np.arange(len(train), len(both)))
                best = cv.tune(
                    method, views[both], y[both], space, n_iter=options.settings, cv=[rows], refit=False
                ).best_score_
        except NotApplicableError as reason:
            print(f"| {method} | n/a | | | | {str(reason).partition(': ')[2]} |", flush=True)
            continue
        score, together = (100 * search.score(views[test], y[test]) for search in (found, committee))
        figures = (score, together, 100 * best, 100 * best - score, seconds)
        print(f"| {method} | {' | '.join(f'{figure:.1f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
