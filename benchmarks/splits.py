"""Variation between sets of ten random splits of COIL-100: MvHE and KMvHE with the paper's default parameters.

Usage: python benchmarks/splits.py DATA [--cases 1,2] [--seeds 12], where DATA contains coil-100/.

Nothing is searched for: weights and neighbours are the paper's defaults, the PCA has 80 dimensions and the common space
30, and the kernel width follows the median heuristic. For every seed, the mean over ten splits is shown, as in the
paper's tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import crossview as cv
from paper.data import load_coil100

MODELS = {
    "MvHE": cv.MvHE(30, lambda_intra=1e-2, lambda_inter=5e-2, n_within=1, n_between=15, beta=0.1),
    "KMvHE": cv.KMvHE(30, lambda_intra=5e-3, lambda_inter=1e-3, n_within=3, n_between=15, beta=1.1),
}


def means(name: str, data: cv.datasets.Dataset, seeds: int) -> dict[str, list[float]]:
    """Mean accuracy over ten splits for every seed, by distance."""
    found: dict[str, list[float]] = {"euclidean": [], "cosine": []}
    for seed in range(seeds):
        scores: dict[str, list[float]] = {metric: [] for metric in found}
        for train, test in cv.ClassSplit(10, 70, random_state=seed).split(data.views, data.y):
            model = make_pipeline(cv.ViewScaler(), cv.ViewPCA(80), MODELS[name])
            latents = model.fit(data.views[train], data.y[train]).transform(data.views[test])
            for metric, values in scores.items():
                values.append(100 * cv.metrics.mean_accuracy(latents, data.y[test], metric))
        for metric, values in scores.items():
            found[metric].append(float(np.mean(values)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cases", default="1,2,3,4")
    parser.add_argument("--seeds", type=int, default=12)
    options = parser.parse_args()
    print("| method | case | distance | mean of all splits | lowest and highest mean of ten | deviation | seed 0 |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    with threadpool_limits(1):
        for case in map(int, options.cases.split(",")):
            data = load_coil100(options.data / "coil-100", case)
            for name in MODELS:
                for metric, values in means(name, data, options.seeds).items():
                    low, high = min(values), max(values)
                    print(
                        f"| {name} | {case} | {metric} | {np.mean(values):.1f} | {low:.1f} to {high:.1f} "
                        f"| {np.std(values):.1f} | {values[0]:.1f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
