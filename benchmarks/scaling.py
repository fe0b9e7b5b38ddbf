"""Time, memory, recall and accuracy of a whole MvHE fit against the number of samples.

Usage: python benchmarks/scaling.py [--engine approximate] [--sizes 50000,100000,200000] [--per-class 20]

Two views of 64 features, d = 5, p1 = 3, p2 = 15; each fit runs in a process of its own with all threads. Memory is the
peak of the process, input and libraries included. CPU is the processor time of the fit, which other processes disturb
least; the exponent is that of its growth since the size before.
Accuracy is the mACC of 4,000 further samples: of new classes, or of the same ones if there are fewer than 1,000.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import numpy as np

import cases
import crossview as cv
from crossview.embeddings import _data

N_FEATURES, N_TEST = 64, 4000
ENGINES = ("exact", "approximate")


def measure(engine: str, m: int, per_class: int) -> dict[str, float]:
    """Fit once; seconds in all and for the search, peak memory in GiB, recall and accuracy."""
    arrays, y = cases.samples(2, m + N_TEST, N_FEATURES, per_class)
    order = np.arange(m + N_TEST) if m >= 1000 * per_class else np.random.default_rng(0).permutation(m + N_TEST)
    test = [X[order[m:]] for X in arrays]
    train = np.random.default_rng(1).permutation(order[:m])
    for v in range(len(arrays)):  # one at a time, to keep the peak of memory below that of the fit
        arrays[v] = arrays[v][train]
    seconds = {"search": 0.0}
    original = _data.find_patches

    def timed(*args: object) -> object:
        start = time.perf_counter()
        found = original(*args)
        seconds["search"] += time.perf_counter() - start
        return found

    _data.find_patches = timed
    start, start_cpu = time.perf_counter(), time.process_time()
    model = cv.MvHE(5, n_within=3, neighbours=engine).fit(arrays, y[train])
    seconds["total"], seconds["cpu"] = time.perf_counter() - start, time.process_time() - start_cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        **seconds,
        "memory": memory,
        "recall": model.neighbour_recall_,
        "accuracy": 100 * model.score(test, y[order[m:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, default="approximate")
    parser.add_argument("--sizes", default="50000,100000,200000")
    parser.add_argument("--per-class", type=int, default=20)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(part) for part in options.sizes.split(",")]
    if options.one:
        print(json.dumps(measure(options.engine, sizes[0], options.per_class)))
        return
    print("| samples | per class | engine | search | other | fit | CPU | exponent | memory | recall | accuracy |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    before: tuple[int, float] | None = None
    for m in sizes:
        command = [sys.executable, __file__, "--one", "--engine", options.engine, "--sizes", str(m)]
        command += ["--per-class", str(options.per_class)]
        done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        total = done["total"]
        exponent = f"{math.log(done['cpu'] / before[1]) / math.log(m / before[0]):.2f}" if before else "–"
        print(
            f"| {m:,} | {options.per_class:,} | {options.engine} | {done['search']:.1f} s "
            f"| {total - done['search']:.1f} s | {total:.1f} s | {done['cpu']:.1f} s | {exponent} "
            f"| {done['memory']:.2f} GiB | {done['recall']:.3f} | {done['accuracy']:.2f} |",
            flush=True,
        )
        before = m, done["cpu"]


if __name__ == "__main__":
    main()
