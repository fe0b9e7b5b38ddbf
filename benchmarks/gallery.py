"""A large gallery: time to enrol and to rank, recall, memory, size of the model file, and time to load it.

Usage: python benchmarks/gallery.py [--sizes 10000,100000,1000000] [--block 100000] [--probes 50] [--folder DIR]
[--engines]

Samples have 64 dimensions and classes of ten samples, whose centres lie near a subspace of 16 dimensions. Probes are
further samples of enrolled classes, seen from another view, which adds noise. Each size runs in a fresh process. Time
to enrol is per 100,000 samples, with the index. `rank` finds the five nearest classes of one probe; shown is the median
over the probes, searched exactly and approximately. Recall is the share of the ten nearest samples found, of probes,
and as measured on enrolled samples (`neighbour_recall_`). Memory is the peak of the process.

With --engines, the processor time of searches for the five nearest samples, which does not depend on other work.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import crossview as cv
from crossview.neighbours.search import ApproximateSearch, ExactSearch

D, INTRINSIC, CLASS_SIZE = 64, 16, 10
SPREAD, NOISE = 0.35, 0.25
DRAWN = 1000  # classes whose centres are drawn at a time
COLUMNS = {
    "samples": "{samples:,}",
    "enrol 10⁵": "{enrol:.1f} s",
    "rank, exact": "{exact:.1f} ms",
    "rank, approximate": "{approximate:.1f} ms",
    "recall": "{recall:.3f}",
    "`neighbour_recall_`": "{measured:.3f}",
    "lists visited": "{lists}",
    "memory": "{memory:.1f} GB",
    "file": "{file:.2f} GB",
    "save": "{save:.1f} s",
    "load": "{load:.1f} s",
    "first rank": "{first:.1f} s",
}


def draw(n: int, start: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples number `start` to ``start + n``, and their classes."""
    y = np.arange(start, start + n) // CLASS_SIZE
    return centres(y) + SPREAD * rng.normal(size=(n, D)), y


def centres(y: np.ndarray) -> np.ndarray:
    """Centres of classes, without storing those of all."""
    classes, codes = np.unique(y, return_inverse=True)
    basis = np.random.default_rng(0).normal(size=(INTRINSIC, D)) / np.sqrt(INTRINSIC)
    drawn = np.empty((len(classes), INTRINSIC))
    blocks = classes // DRAWN
    for block in np.unique(blocks):
        all_of_block = np.random.default_rng(block + 1).normal(size=(DRAWN, INTRINSIC))
        drawn[blocks == block] = all_of_block[classes[blocks == block] % DRAWN]
    return (drawn @ basis)[codes]


def latency(model: cv.CrossViewClassifier, probes: np.ndarray) -> float:
    """Median time to rank one probe, in milliseconds."""
    times = []
    for probe in probes:
        start = time.perf_counter()
        model.rank(probe[None], 1)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times))


def compare_engines(size: int) -> list[float]:
    """Processor time of the product with one probe, of searches for 1 and 200 probes, and of indexing, in ms."""
    rng = np.random.default_rng(1)
    G, _ = draw(size, 0, rng)
    P = G[:200] + NOISE * rng.normal(size=(200, D))
    exact = ExactSearch("euclidean").extended(G)
    start = time.process_time()
    index = ApproximateSearch.build(G, exact)
    build = 1000 * (time.process_time() - start)
    searches = [lambda: G @ P[0]]
    for n in (1, 200):
        searches += [lambda n=n: exact.nearest(G, P[:n], 5), lambda n=n: index.nearest(G, P[:n], 5, exact)]
    return [*map(processor_time, searches), build]


def processor_time(search: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        search()
        times.append(time.process_time() - start)
    return 1000 * float(np.median(times))


def measure(size: int, block: int, n_probes: int, folder: Path) -> dict[str, float]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, D))
    model = cv.CrossViewClassifier(cv.PCA(D).fit([X, X]), algorithm="approximate")
    seconds = 0.0
    for start in range(0, size, block):
        samples, y = draw(min(block, size - start), start, rng)
        begin = time.perf_counter()
        model.enroll(samples, y, 0)
        seconds += time.perf_counter() - begin
    chosen = rng.choice(size // CLASS_SIZE, n_probes, replace=False)
    probes = centres(chosen) + np.hypot(SPREAD, NOISE) * rng.normal(size=(n_probes, D))
    found = {"approximate": latency(model, probes), "measured": model.neighbour_recall_}
    found["lists"] = model._gallery.index_state["n_probes"]
    neighbours = model.kneighbors(probes, 1, 10)[1]
    begin = time.perf_counter()
    cv.save(model, folder / "model")
    found["save"] = time.perf_counter() - begin
    nearest = model.set_params(algorithm="exact").kneighbors(probes, 1, 10)[1]
    found["recall"] = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(neighbours, nearest, strict=True)])
    found["exact"] = latency(model, probes[: max(3, n_probes // 10)])
    del model, samples
    begin = time.perf_counter()
    loaded = cv.load(folder / "model")
    found["load"] = time.perf_counter() - begin
    begin = time.perf_counter()
    loaded.rank(probes[:1], 1)
    found["first"] = time.perf_counter() - begin
    return found | {
        "samples": size,
        "enrol": seconds / (size / 1e5),
        "file": (folder / "model").stat().st_size / 1e9,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--block", type=int, default=100_000)
    parser.add_argument("--probes", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where model files are written; by default a temporary folder")
    parser.add_argument("--alone", action="store_true", help="measure one size in this process, and print JSON")
    parser.add_argument("--engines", action="store_true", help="compare the processor time of searches")
    given = parser.parse_args()
    if given.engines:
        print("| samples | floor | exact, 1 | approximate, 1 | exact, 200 | approximate, 200 | build |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for size in map(int, given.sizes.split(",")):
            print(f"| {size:,} | {' | '.join(f'{time:.1f}' for time in compare_engines(size))} |", flush=True)
        return
    if given.alone:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            print(json.dumps(measure(int(given.sizes), given.block, given.probes, Path(folder))))
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{' ---: |' * len(COLUMNS)}", flush=True)
    for size in given.sizes.split(","):
        options = ["--sizes", size, "--block", str(given.block), "--probes", str(given.probes), "--alone"]
        options += ["--folder", str(given.folder)] if given.folder else []
        done = subprocess.run([sys.executable, __file__, *options], check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout)
        print(f"| {' | '.join(form.format(**row) for form in COLUMNS.values())} |", flush=True)


if __name__ == "__main__":
    main()
