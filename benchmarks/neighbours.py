"""Which library finds neighbours fastest: faiss, pynndescent or usearch, against exact search.

Usage: python benchmarks/neighbours.py [--sizes 50000,200000] [--engines "faiss IVF,usearch HNSW"] [--recall 0.99]

Samples have 64 features and come in classes of 20, in random order. Every sample is searched for its 36 nearest: enough
for 15 neighbours of other classes, whatever the class. Each engine runs in a process of its own with all threads. Its
setting grows until the recall on 500 samples reaches the target; the search of all samples is timed with that setting.
Memory is the peak of the process beyond what it held before the index was built.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import cases

WIDTH = 36
SETTINGS = [8, 16, 32, 64, 128, 256, 512, 1024]
Search = Callable[[np.ndarray, int], np.ndarray]


def faiss_ivf(X: np.ndarray) -> Search:
    import faiss

    n_lists = len(X) // 128
    sample = X[np.random.default_rng(0).permutation(len(X))[: 32 * n_lists]]
    kmeans = faiss.Kmeans(X.shape[1], n_lists, niter=4, min_points_per_centroid=1)
    kmeans.train(sample)
    quantiser = faiss.IndexHNSWFlat(X.shape[1], 16)
    quantiser.add(kmeans.centroids)
    index = faiss.IndexIVFFlat(quantiser, X.shape[1], n_lists)
    index.is_trained = True
    quantiser.hnsw.efSearch = 64
    index.add(X)

    def search(queries: np.ndarray, n_probes: int) -> np.ndarray:
        index.nprobe = n_probes
        quantiser.hnsw.efSearch = max(64, 2 * n_probes)
        return index.search(queries, WIDTH)[1]

    return search


def faiss_hnsw(X: np.ndarray) -> Search:
    import faiss

    index = faiss.IndexHNSWFlat(X.shape[1], 16)
    index.hnsw.efConstruction = 100
    index.add(X)

    def search(queries: np.ndarray, effort: int) -> np.ndarray:
        index.hnsw.efSearch = effort
        return index.search(queries, WIDTH)[1]

    return search


def usearch_hnsw(X: np.ndarray) -> Search:
    from usearch.index import Index

    index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=100)
    index.add(np.arange(len(X)), X)

    def search(queries: np.ndarray, effort: int) -> np.ndarray:
        index.expansion_search = effort
        return index.search(queries, WIDTH).keys

    return search


def pynndescent(X: np.ndarray) -> Search:
    """The neighbour graph that building an index yields; its settings are left at their defaults."""
    from pynndescent import NNDescent

    ids = NNDescent(X, n_neighbors=WIDTH, random_state=0).neighbor_graph[0]
    rows = {x.tobytes(): row for x, row in zip(X, ids, strict=True)}
    return lambda queries, _: np.array([rows[x.tobytes()] for x in queries])


ENGINES = {
    "faiss IVF": faiss_ivf,
    "faiss HNSW": faiss_hnsw,
    "usearch HNSW": usearch_hnsw,
    "pynndescent": pynndescent,
}


def exact(queries: np.ndarray, X: np.ndarray) -> np.ndarray:
    import faiss

    return faiss.knn(queries, X, WIDTH)[1]


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(engine: str, m: int, target: float) -> dict[str, float]:
    """Seconds to build and to search, recall, setting, and memory in MB."""
    X = cases.samples(1, m, 64, per_class=20)[0][0].astype(np.float32)
    X = X[np.random.default_rng(1).permutation(m)]
    sample = X[:500]
    before = peak()
    if engine == "exact":
        start = time.perf_counter()
        exact(X[:5000], X)
        seconds = (time.perf_counter() - start) * m / 5000
        return {"build": 0.0, "search": seconds, "recall": 1.0, "setting": 0, "memory": peak() - before}
    nearest = exact(sample, X)
    start = time.perf_counter()
    search = ENGINES[engine](X)
    build = time.perf_counter() - start
    for setting in SETTINGS:
        found = search(sample, setting)
        recall = float(np.mean([np.isin(a, b).mean() for a, b in zip(nearest, found, strict=True)]))
        if recall >= target or engine == "pynndescent":
            break
    start = time.perf_counter()
    if engine != "pynndescent":
        search(X, setting)
    seconds = time.perf_counter() - start
    return {"build": build, "search": seconds, "recall": recall, "setting": setting, "memory": peak() - before}


def rows(sizes: list[int], engines: list[str], target: float) -> Iterator[str]:
    yield "| samples | engine | setting | recall | build | search | total | memory |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for m in sizes:
        for engine in engines:
            command = [sys.executable, __file__, "--one", engine, "--sizes", str(m), "--recall", str(target)]
            done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            yield (
                f"| {m:,} | {engine} | {done['setting']} | {done['recall']:.3f} | {done['build']:.1f} s "
                f"| {done['search']:.1f} s | {done['build'] + done['search']:.1f} s | {done['memory']:.0f} MB |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="50000,200000")
    parser.add_argument("--engines", default=",".join(["exact", *ENGINES]))
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(part) for part in options.sizes.split(",")]
    if options.one:
        print(json.dumps(measure(options.one, sizes[0], options.recall)))
        return
    for row in rows(sizes, options.engines.split(","), options.recall):
        print(row, flush=True)


if __name__ == "__main__":
    main()
