"""Fits of Dask arrays on one and two worker processes: time and peak memory of a worker against the number of samples.

Usage: python benchmarks/cluster.py [--samples 100000,400000] [--rows 20000] [--features 64] [--patches 2000]
[--methods MvDA,MvHE] [--workers 1,2]

Two views of random samples around class means, classes of 20, which workers draw anew whenever they need them: the
client never holds any. MvHE aligns the patches of as many randomly drawn samples as `--patches` says. Every fit has a
fresh cluster, with one thread per worker.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import crossview as cv

SAMPLES_PER_CLASS = 20


def draw(seed: int, rows: int, D: int, block_info: Any = None) -> np.ndarray:
    """A block of rows: samples around the mean of their class."""
    (start, stop), _ = block_info[None]["array-location"]
    means = np.random.default_rng([seed, start]).normal(size=(1 + rows // SAMPLES_PER_CLASS, D))
    noise = np.random.default_rng([seed, start, 1]).normal(size=(stop - start, D))
    return means[np.arange(stop - start) // SAMPLES_PER_CLASS] + noise


def make_views(m: int, rows: int, D: int) -> tuple[list[da.Array], da.Array]:
    chunks = da.core.normalize_chunks((rows, -1), (m, D))
    views = [
        da.map_blocks(draw, seed, rows, D, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0))) for seed in (0, 1)
    ]
    return views, da.arange(m, chunks=rows) // SAMPLES_PER_CLASS % 1000


def measure(method: str, n_workers: int, m: int, rows: int, D: int, n_patches: int) -> tuple[float, float]:
    """Seconds of a fit, and the largest memory that a worker had, in MiB."""
    views, y = make_views(m, rows, D)
    model = cv.MvHE(n_patches=n_patches) if method == "MvHE" else cv.METHODS[method]()
    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": "localhost:0"}
    with LocalCluster(silence_logs=50, **options) as cluster, Client(cluster) as client:
        client.run(__import__, "crossview.linalg.lazy")
        start = time.perf_counter()
        model.fit(views, y)
        seconds = time.perf_counter() - start
        return seconds, max(client.run(peak_memory).values())


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", default="100000,400000")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--patches", type=int, default=2000)
    parser.add_argument("--methods", default="MvDA,MvHE")
    parser.add_argument("--workers", default="1,2")
    options = parser.parse_args()
    print("| method | samples | data | workers | time | memory of a worker |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for method in options.methods.split(","):
        for m in map(int, options.samples.split(",")):
            size = 2 * m * options.features * 8 / 1e6
            for n_workers in map(int, options.workers.split(",")):
                found = measure(method, n_workers, m, options.rows, options.features, options.patches)
                print(
                    f"| {method} | {m} | {size:.0f} MB | {n_workers} | {found[0]:.1f} s | {found[1]:.0f} MiB |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
