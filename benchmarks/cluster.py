"""Fits of Dask arrays on worker processes, next to their floor and to fits in memory.

Usage: python benchmarks/cluster.py [--samples 100000,400000] [--rows 20000] [--features 64] [--patches 2000]
[--methods MvDA,MvHE] [--workers 1,2]

Two views of random samples around class means, classes of 20, which workers draw anew whenever they need them: the
client never holds any. MvHE aligns the patches of as many randomly drawn samples as `--patches` says. Every fit has a
fresh cluster, with one thread per worker. The floor is one pass over the data on the same workers that draws every
block and, for MvHE, multiplies it with as many rows as there are patches. The fit in memory has as many threads as
workers. CPU seconds, of the workers and of the client, mean more than seconds where others use the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

import crossview as cv
from crossview.engines import inner_products

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


def measure(method: str, n_workers: int, m: int, rows: int, D: int, n_patches: int) -> list[str]:
    """Times of the floor, of a fit on workers and of one in memory, and the largest memory that a worker had."""
    views, y = make_views(m, rows, D)
    blocks = [block for X in views for block in X.to_delayed().ravel()]
    model = cv.METHODS[method]()
    if method == "MvHE":
        model.set_params(n_patches=n_patches, algorithm="exact")
    n_products = n_patches if method == "MvHE" else 0
    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": "localhost:0"}
    options["security"] = True  # other users of this machine cannot connect
    with LocalCluster(silence_logs=50, **options) as cluster, Client(cluster) as client:
        client.run(__import__, "crossview.samples.lazy")
        floor = timed(lambda: dask.compute(*(delayed(multiply)(block, n_products) for block in blocks)), client)
        lazy = timed(lambda: model.fit(views, y), client)
        memory = max(client.run(peak_memory).values())
    arrays, labels = dask.compute(views, y, scheduler="synchronous")
    with threadpool_limits(n_workers):
        in_memory = timed(lambda: model.fit(arrays, labels))
    return [floor, lazy, in_memory, f"{memory:.0f} MiB"]


def multiply(X: np.ndarray, n: int) -> None:
    """Inner products of the samples of a block with n rows."""
    for a in range(0, n, 256):
        inner_products(X[: min(256, n - a)], X)


def timed(work: Callable[[], object], client: Client | None = None) -> str:
    """Seconds, and CPU seconds of this process and of all workers."""
    start, cpu = time.perf_counter(), cpu_seconds(client)
    work()
    return f"{time.perf_counter() - start:.1f} s ({cpu_seconds(client) - cpu:.1f} s)"


def cpu_seconds(client: Client | None) -> float:
    return time.process_time() + (sum(client.run(time.process_time).values()) if client else 0.0)


def peak_memory() -> float:
    """In MiB, as Linux tells it; a worker's `ru_maxrss` would start from that of the client."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", default="100000,400000")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--patches", type=int, default=2000)
    parser.add_argument("--methods", default="MvDA,MvHE")
    parser.add_argument("--workers", default="1,2")
    options = parser.parse_args()
    print("| method | samples | data | workers | floor (CPU) | fit (CPU) | in memory (CPU) | memory of a worker |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for method in options.methods.split(","):
        for m in map(int, options.samples.split(",")):
            size = 2 * m * options.features * 8 / 1e6
            for n_workers in map(int, options.workers.split(",")):
                found = measure(method, n_workers, m, options.rows, options.features, options.patches)
                print(f"| {method} | {m} | {size:.0f} MB | {n_workers} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
