"""Measure the value of incomplete samples: training on all samples compared with training on complete ones.

Usage: python benchmarks/incomplete.py DATA [--methods CCA,MvHE] [--repeats 8] [--save FILE] [--before FILE], where DATA
contains coil-100/ and cmu-pie/.

A share of the training rows is removed at random, from the last view or from every view. Every method, with fixed
parameters, is trained on all remaining samples and on the complete ones, with a scaler and a PCA fitted on the same
samples, and tested on complete samples. Entries are the accuracy with complete samples and the gain from using all
samples, with the standard error of the difference. Pass results that an earlier version saved with --save as --before
to show their gain as well.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.embeddings._base import Embedding
from paper.data import load_cmu_pie, load_coil100

SHARES = (0.1, 0.3, 0.5)
METRICS = ("euclidean", "cosine")
TWO_VIEWS_ONLY = ("CCA", "KCCA", "PLS")


def models(d: int) -> dict[str, Embedding]:
    """Every method, with d components and parameters that suit these data without missing samples."""
    return {
        "PCA": cv.PCA(d),
        "LDA": cv.LDA(d, reg=0.3),
        "DLA": cv.DLA(d, n_within=7),
        "DLA, n_within=3": cv.DLA(d, n_within=3),
        "CCA": cv.CCA(d, reg=0.3),
        "KCCA": cv.KCCA(d, reg=0.3),
        "MCCA": cv.MCCA(d, reg=0.3),
        "PLS": cv.PLS(d),
        "MvDLA": cv.MvDLA(d),
        "GMA": cv.GMA(d, mu=0.1, reg=0.3),
        "GMA, mu=1": cv.GMA(d, mu=1.0, reg=0.3),
        "MULDA": cv.MULDA(d, mu=0.1, reg=0.3),
        "MvDA": cv.MvDA(d, reg=0.3),
        "MvMDA": cv.MvMDA(d, reg=0.3),
        "MvDA-VC": cv.MvDAVC(d, reg=0.3),
        "MvHE": cv.MvHE(d, lambda_intra=0.1, lambda_inter=0.3, beta=0.1, n_within=1, n_between=15),
        "KMvHE": cv.KMvHE(d, lambda_intra=0.01, lambda_inter=0.05, beta=0.3, n_within=1, n_between=15),
    }


def datasets(folder: Path) -> Iterator[tuple[str, cv.datasets.Dataset, cv.ClassSplit | cv.SampleSplit, int]]:
    """Name, data, splits and PCA dimension."""
    objects, people = cv.ClassSplit(100, 70, random_state=0), cv.ClassSplit(100, 45, random_state=0)
    yield "digits (2 views)", cv.datasets.load_digits(), cv.SampleSplit(100, 30, random_state=0), 25
    yield "turntable (3)", cv.datasets.make_turntable(random_state=0), cv.ClassSplit(100, 40, random_state=0), 60
    yield "COIL-100, case 1 (2)", load_coil100(folder / "coil-100", 1), objects, 60
    yield "COIL-100, case 2 (3)", load_coil100(folder / "coil-100", 2), objects, 60
    yield "CMU PIE, case 1 (2)", load_cmu_pie(folder / "cmu-pie", 1), people, 60


def draw_mask(m: int, n: int, where: str, share: float, seed: list[int]) -> np.ndarray:
    """Mask of m samples in n views, with a share missing in the last view or in every view."""
    rng = np.random.default_rng(seed)
    if where == "every view":
        return rng.random((m, n)) >= share
    mask = np.ones((m, n), dtype=bool)
    mask[rng.permutation(m)[: round(share * m)], -1] = False
    return mask


def accuracies(model: Embedding, train: cv.Views, y: np.ndarray, test: cv.Views, y_test: np.ndarray) -> list[float]:
    """Mean cross-view accuracy in per cent for each distance; nan if the model rejects the training samples."""
    try:
        latents = model.fit(train, y).transform(test)
    except ValueError:
        return [np.nan] * len(METRICS)
    return [100 * cv.metrics.mean_accuracy(latents, y_test, metric) for metric in METRICS]


def measure(folder: Path, methods: list[str], repeats: int) -> dict[str, list[list[float]]]:
    """Accuracies with complete and with all samples for every split, keyed by 'method|data|share|metric'."""
    found = defaultdict(list)
    for name, data, splits, k in datasets(folder):
        n = data.views.shape[1]
        drawn = list(islice(splits.split(data.views, data.y), repeats))
        for (r, (train, test)), where, share in product(enumerate(drawn), ("last view", "every view"), SHARES):
            mask = draw_mask(len(train), n, where, share, [r, round(100 * share), n])
            seen = mask.any(axis=1)
            views = cv.Views(data.views[train[seen]], mask=mask[seen])
            y, complete = data.y[train[seen]], mask[seen].all(axis=1)
            k_here = min(k, n * complete.sum() - 3)  # limited by the complete samples
            trained = []
            for rows in (complete, np.ones(len(y), dtype=bool)):
                reduce = make_pipeline(cv.ViewScaler(), cv.ViewPCA(k_here)).fit(views[rows])
                trained.append((reduce.transform(views[rows]), y[rows], reduce.transform(data.views[test])))
            for method, model in models(int(min(30, k_here, complete.sum() - 3))).items():
                if method in methods and (n == 2 or method not in TWO_VIEWS_ONLY):
                    scores = [accuracies(model, *parts, data.y[test]) for parts in trained]
                    for metric, pair in zip(METRICS, zip(*scores, strict=True), strict=True):
                        found[f"{method}|{name}|{share:.0%}|{metric}"].append(list(pair))
    return dict(found)


def select(results: dict[str, list[list[float]]], *parts: str) -> np.ndarray:
    """Pairs of accuracies under all keys with the given parts."""
    chosen = [pairs for key, pairs in results.items() if set(parts) <= set(key.split("|"))]
    return np.concatenate(chosen) if chosen else np.empty((0, 2))


def difference(pairs: np.ndarray) -> str:
    """Mean difference and its standard error, with the number of fits that failed only with all samples."""
    failed = int((np.isnan(pairs[:, 1]) & ~np.isnan(pairs[:, 0])).sum())
    gaps = np.diff(pairs)[:, 0]
    gaps = gaps[~np.isnan(gaps)]
    if not len(gaps):
        return "failed"
    text = f"{gaps.mean():+.1f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):.1f}".replace("-", "−")
    return text + (f" ({failed} failed)" if failed else "")


def table(results: dict, before: dict | None, columns: list[str], *parts: str) -> None:
    """Print methods × columns."""
    print(f"| method | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for method in dict.fromkeys(key.split("|")[0] for key in results):
        entries = []
        for column in columns:
            pairs = select(results, method, column, *parts)
            if not len(pairs):
                entries.append("–")
                continue
            differences = [difference(select(r, method, column, *parts)) for r in (before, results) if r is not None]
            entries.append(f"{np.nanmean(pairs[:, 0]):.1f}; {' → '.join(differences)}")
        print(f"| {method} | {' | '.join(entries)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--methods")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    methods = options.methods.split(",") if options.methods else list(models(1))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        results = measure(options.data, methods, options.repeats)
    if options.save:
        options.save.write_text(json.dumps(results))
    before = json.loads(options.before.read_text()) if options.before else None
    names = list(dict.fromkeys(key.split("|")[1] for key in results))
    for metric in METRICS:
        print(f"### {metric.capitalize()} distance\n")
        table(results, before, names, metric)
    print("### By share of missing rows, all data sets, both distances\n")
    table(results, before, [f"{share:.0%}" for share in SHARES])


if __name__ == "__main__":
    main()
