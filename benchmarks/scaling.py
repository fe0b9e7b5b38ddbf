"""Time, memory and accuracy against the number of samples, for every engine and for what other packages offer.

Usage: python benchmarks/scaling.py ENGINE SIZE [SIZE …]     measure, and add to scaling.jsonl
       python benchmarks/scaling.py --report                 write scaling.md and docs/images/scaling.svg

Two views of 64 features in classes of 20 samples; MvHE has d = 20, p1 = 3 and p2 = 15. Each fit runs in a process of
its own with all threads. Memory is the peak of the process, or of a worker, input and libraries included. CPU is the
processor time of the fit, which other processes disturb least. Accuracy is the mACC of 2,000 further samples, of new
classes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cases
import crossview as cv

N_FEATURES, N_TEST, PER_CLASS, N_PATCHES = 64, 2000, 20, 5000
RESULTS = Path(__file__).with_name("scaling.jsonl")
REPORT = Path(__file__).with_name("scaling.md")
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.svg"
Arrays = list[np.ndarray]


def mvhe(**options: Any) -> Callable[[Arrays, np.ndarray], Any]:
    return lambda arrays, y: cv.MvHE(20, n_within=3, **options).fit(arrays, y)


def on_torch(device: str) -> Callable[[Arrays, np.ndarray], Any]:
    def fit(arrays: Arrays, y: np.ndarray) -> Any:
        import torch

        tensors = [torch.as_tensor(X, dtype=torch.float32, device=device) for X in arrays]
        return cv.MvHE(20, n_within=3).fit(tensors, y)

    return fit


def on_dask(arrays: Arrays, y: np.ndarray) -> Any:
    import dask.array as da
    from distributed import Client, LocalCluster

    rows = max(1000, len(y) // 16)
    with LocalCluster(n_workers=2, threads_per_worker=1, security=True) as cluster, Client(cluster):
        blocks = [da.from_array(X, chunks=(rows, -1)) for X in arrays]
        return cv.MvHE(20, n_within=3, n_patches=N_PATCHES, random_state=0).fit(blocks, y)


def kernel_pca(arrays: Arrays, y: np.ndarray) -> Any:
    """One kernel PCA per view: the views do not share a space, so it only stands for the cost."""
    from sklearn.decomposition import KernelPCA
    from sklearn.neighbors import NearestNeighbors

    maps = [KernelPCA(20, kernel="rbf", eigen_solver="randomized").fit(X) for X in arrays]
    for X, one in zip(arrays, maps, strict=True):
        NearestNeighbors(n_neighbors=15).fit(one.transform(X))


def cca_zoo(name: str) -> Callable[[Arrays, np.ndarray], Any]:
    def fit(arrays: Arrays, y: np.ndarray) -> None:
        from cca_zoo import linear, nonparametric

        options = {"kernel": "rbf"} if name == "KCCA" else {}
        getattr(nonparametric if name == "KCCA" else linear, name)(20, shrinkage=0.1, **options).fit(arrays)

    return fit


ENGINES: dict[str, Callable[[Arrays, np.ndarray], Any]] = {
    "MvHE, exact": mvhe(algorithm="exact"),
    "MvHE, approximate": mvhe(algorithm="approximate"),
    f"MvHE, {N_PATCHES:,} patches": mvhe(algorithm="exact", n_patches=N_PATCHES),
    "MvHE, PyTorch on the CPU": on_torch("cpu"),
    "MvHE, PyTorch on a GPU": on_torch("cuda"),
    f"MvHE, Dask, {N_PATCHES:,} patches": on_dask,
    "KMvHE, 1,000 landmarks": lambda X, y: cv.KMvHE(20, n_within=3, n_landmarks=1000, random_state=0).fit(X, y),
    "MvDA": lambda X, y: cv.MvDA(20).fit(X, y),
    "scikit-learn KernelPCA and neighbours": kernel_pca,
    "cca-zoo MCCA": cca_zoo("MCCA"),
    "cca-zoo KCCA": cca_zoo("KCCA"),
}
# The least that any exact search must do: all inner products, measured for a few rows.
FLOOR = "floor: products of all samples"


def measure(engine: str, m: int) -> dict[str, float | None]:
    """Fit once: seconds, processor seconds, peak GiB and accuracy."""
    arrays, y = cases.samples(2, m + N_TEST, N_FEATURES, PER_CLASS)
    test = [X[m:].copy() for X in arrays]
    train = np.random.default_rng(1).permutation(m)
    for v in range(len(arrays)):  # one at a time, to keep the peak of memory below that of the fit
        arrays[v] = arrays[v][train]
    if engine == FLOOR:
        return {"seconds": floor(arrays)}
    if "GPU" in engine:
        ENGINES[engine](arrays, y[train])  # compiles the kernels
    start, start_cpu = time.perf_counter(), time.process_time()
    model = ENGINES[engine](arrays, y[train])
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    whose = resource.RUSAGE_CHILDREN if "Dask" in engine else resource.RUSAGE_SELF
    memory = resource.getrusage(whose).ru_maxrss / 2**20
    accuracy = None if model is None else 100 * model.score(test, y[m:])
    return {"seconds": seconds, "cpu": cpu, "memory": memory, "accuracy": accuracy}


def floor(arrays: Arrays, n_rows: int = 512, width: int = 4096) -> float:
    """Seconds for the inner products of all samples, from those of some rows, in blocks that stay in the cache."""
    m, seconds = len(arrays[0]), []
    out = np.empty((n_rows, width))
    for _ in range(3):
        start = time.perf_counter()
        for X in arrays:
            for a in range(0, m - width + 1, width):
                np.matmul(X[:n_rows], X[a : a + width].T, out=out)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * m / n_rows * m / (m // width * width)


def run(engine: str, sizes: list[int]) -> None:
    """Measure each size in a process of its own, and keep the results."""
    for m in sizes:
        command = [sys.executable, __file__, "--one", engine, str(m)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        line = json.dumps({"engine": engine, "samples": m, **json.loads(done)})
        print(line, flush=True)
        with RESULTS.open("a") as file:
            file.write(line + "\n")


def report() -> None:
    """Write the table and the figure from the results; a later result replaces an earlier one."""
    found = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    results = {(one["engine"], one["samples"]): one for one in found}
    lines = [
        "| engine | samples | seconds | CPU seconds | growth | GiB | accuracy |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    curves: dict[str, list[dict[str, float]]] = {}
    for engine in [FLOOR, *ENGINES]:
        curve = sorted((one for (name, _), one in results.items() if name == engine), key=lambda one: one["samples"])
        if curve:
            curves[engine] = curve
        for before, one in zip([None, *curve], curve, strict=False):
            growth = ""
            if before is not None:
                ratio = math.log(one["seconds"] / before["seconds"]) / math.log(one["samples"] / before["samples"])
                growth = f"m^{ratio:.2f}"
            cells = [f"{one[key]:.{digits}f}" if one.get(key) is not None else "" for key, digits in _DIGITS]
            lines.append(f"| {engine} | {one['samples']:,} | {' | '.join([*cells[:2], growth, *cells[2:]])} |")
    REPORT.write_text("# Time and memory against the number of samples\n\n" + (__doc__ or "").split("\n\n", 2)[2])
    with REPORT.open("a") as file:
        file.write("\n" + "\n".join(lines) + "\n")
    draw(curves)


_DIGITS = (("seconds", 2), ("cpu", 1), ("memory", 2), ("accuracy", 1))


def draw(curves: dict[str, list[dict[str, float]]]) -> None:
    """Plot time against samples, both on logarithmic axes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "crossview", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5.5), layout="constrained")
    for engine, curve in curves.items():
        sizes, seconds = ([one[key] for one in curve] for key in ("samples", "seconds"))
        style = {"color": "grey", "linestyle": ":"} if engine == FLOOR else {"marker": "o", "markersize": 4}
        if engine.startswith(("scikit-learn", "cca-zoo")):
            style |= {"marker": "s", "linestyle": "--"}
        axes.loglog(sizes, seconds, label=engine, **style)
    axes.set(xlabel="samples", ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", nargs="?", choices=[FLOOR, *ENGINES], metavar="ENGINE")
    parser.add_argument("sizes", nargs="*", type=int, metavar="SIZE")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        report()
    elif options.one:
        print(json.dumps(measure(options.engine, options.sizes[0])))
    else:
        run(options.engine, options.sizes)


if __name__ == "__main__":
    main()
