"""Measure neighbours of tensors on a GPU, next to the product of all samples in half precision alone.

Usage: python benchmarks/gpu_neighbours.py [--samples 100000 1000000] [--features 128 512] [--queries 100000]

Prints Markdown tables. Each answer is compared with distances in float64 for a sample of rows.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from crossview.neighbours.tensors import class_neighbours, nearest

DEVICE = torch.device("cuda")
N_WITHIN, N_BETWEEN = 3, 15
CHECKED = 64  # rows compared with brute force
TILE = 4096
Result = TypeVar("Result")


def samples(m: int, D: int, n_classes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Classes in no order, around random means."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    y = torch.randint(n_classes, (m,), generator=generator, device=DEVICE)
    means, maps, noise = (
        torch.randn(*shape, generator=generator, device=DEVICE) for shape in ((n_classes, D), (D, D), (m, D))
    )
    return (noise + (means @ maps / math.sqrt(D))[y]).to(dtype), y


def measured(run: Callable[[], Result]) -> tuple[Result, float, float]:
    """Result, seconds and GiB beyond the input. The first run, which compiles the kernels, does not count."""
    run()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return result, seconds, (torch.cuda.max_memory_allocated() - before) / 2**30


def product_seconds(n_rows: int, X: Tensor) -> float:
    """Time of the products of `n_rows` samples with all of X in half precision, from a tile of rows."""
    half = X.half()
    rows = half[:TILE]
    return measured(lambda: torch.mm(rows, half.T))[1] * n_rows / len(rows)


def wrong_rows(queries: Tensor, X: Tensor, eligible: Tensor, found: Tensor) -> int:
    """Rows of a table of neighbours that differ from a search by all distances in float64."""
    d = torch.stack([(X.double() - query.double()).square().sum(1) for query in queries])
    expected = d.masked_fill_(~eligible, torch.inf).topk(found.shape[1], largest=False)
    return int((expected.indices.masked_fill(expected.values.isinf(), -1) != found).any(1).sum())


def class_line(m: int, D: int, n_classes: int, dtype: torch.dtype) -> str:
    X, y = samples(m, D, n_classes, dtype)
    tables, seconds, memory = measured(lambda: class_neighbours(X, y, N_WITHIN, N_BETWEEN))
    rows = torch.arange(0, m, max(1, m // CHECKED), device=DEVICE)[:CHECKED]
    same = y[rows, None] == y
    others = torch.arange(m, device=DEVICE) != rows[:, None]
    wrong = sum(
        wrong_rows(X[rows], X, eligible, table[rows])
        for table, eligible in zip(tables, (same & others, ~same), strict=True)
    )
    floor = product_seconds(m, X)
    figures = f"{floor:.3f} s | {seconds:.3f} s | {seconds / floor:.2f} | {memory:.1f} GiB | {wrong} of {2 * len(rows)}"
    return f"| {m} | {D} | {n_classes} | {str(dtype).removeprefix('torch.')} | {figures} |"


def nearest_line(n_queries: int, m: int, D: int, k: int) -> str:
    X, _ = samples(m + n_queries, D, max(1, m // 20))
    queries, gallery = X[m:], X[:m]
    (_, ids), seconds, memory = measured(lambda: nearest(queries, gallery, k))
    eligible = torch.ones(CHECKED, m, dtype=torch.bool, device=DEVICE)
    wrong = wrong_rows(queries[:CHECKED], gallery, eligible, ids[:CHECKED])
    floor = product_seconds(n_queries, gallery)
    figures = f"{floor:.3f} s | {seconds:.3f} s | {seconds / floor:.2f} | {memory:.1f} GiB | {wrong} of {CHECKED}"
    return f"| {n_queries} | {m} | {D} | {k} | {figures} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--features", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--queries", type=int, default=100_000)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print(f"Neighbours of all samples of one view, {N_WITHIN} within and {N_BETWEEN} outside the class:\n")
    print("| samples | features | classes | data | products alone | time | ratio | memory beyond input | wrong rows |")
    print("| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for m in options.samples:
        for D in options.features:
            for n_classes, dtype in ((m // 20, torch.float32), (10, torch.float32), (m // 20, torch.float64)):
                print(class_line(m, D, n_classes, dtype), flush=True)
    print("\nIdentification, the nearest enrolled samples of each probe:\n")
    print(
        "| probes | enrolled | features | nearest | products alone | time | ratio | memory beyond input | wrong rows |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for D in (64, 128):
        for k in (1, 10):
            print(nearest_line(options.queries, max(options.samples), D, k), flush=True)


if __name__ == "__main__":
    main()
