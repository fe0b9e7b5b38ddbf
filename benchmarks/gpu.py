"""Time and memory of whole fits on a GPU, next to the floor: the products of one neighbour search in half precision.

    python benchmarks/gpu.py [--check] [--table FILE]

Samples are float32 tensors on the device, two views with 20 samples per class unless stated; MvHE has p1 = 3 and
p2 = 15. Every neighbour is exact: certified, or computed again. ``--check`` first compares all methods on the device
with NumPy on small data.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import linear

import crossview as cv
from crossview.neighbours.classes import class_neighbours

DEVICE = torch.device("cuda")
N_VIEWS = 2


def make_views(m: int, D: int, n_classes: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Class centres, mixed differently in every view, and noise."""
    generator = torch.Generator(device=DEVICE).manual_seed(0)
    y = torch.randint(0, n_classes, (m,), generator=generator, device=DEVICE)
    centres = torch.randn(n_classes, D, generator=generator, device=DEVICE)
    views = []
    for _ in range(N_VIEWS):
        mixing = torch.randn(D, D, generator=generator, device=DEVICE) / math.sqrt(D)
        views.append(centres[y] @ mixing + torch.randn(m, D, generator=generator, device=DEVICE))
    return views, y


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds and peak GiB of the fastest of two runs."""
    seconds = []
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds), torch.cuda.max_memory_allocated() / 2**30


def floor(m: int, D: int) -> float:
    """Seconds for all products of samples with each other in half precision, in every view, with no search."""
    X = torch.randn(m, D, device=DEVICE, dtype=torch.float16)
    rows, repeats = min(m, 4096), 10
    linear(X[:rows], X)
    seconds, _ = measure(lambda: [linear(X[:rows], X) for _ in range(repeats)])
    return seconds / repeats * m / rows * N_VIEWS


Row = tuple[str, int, int, float, float, float, str]


def linear_fits() -> Iterator[Row]:
    """MvHE, and the search for its neighbours alone."""
    for m, D, n_classes, target in (
        (102_400, 128, 5_120, "0.15 s"),
        (1_024_000, 128, 51_200, "5 s, 20 GiB"),
        (1_024_000, 128, 10, "no slower"),
        (1_024_000, 512, 51_200, "8 s, 20 GiB"),
    ):
        views, y = make_views(m, D, n_classes)
        model = cv.MvHE(n_components=20, n_within=3, n_between=15)
        least = floor(m, D)
        yield f"MvHE, {n_classes:,} classes", m, D, *measure(partial(model.fit, views, y)), least, target
        codes = y.cpu().numpy()
        search = partial(lambda views, codes: [class_neighbours(X, codes, 3, 15) for X in views], views, codes)
        yield "its neighbours alone", m, D, *measure(search), least, ""


def kernel_fit(m: int = 1_024_000, D: int = 64) -> Iterator[Row]:
    """KMvHE with landmarks."""
    views, y = make_views(m, D, m // 20)
    model = cv.KMvHE(n_components=20, n_within=3, n_between=15, n_landmarks=4000, random_state=0)
    yield "KMvHE, 4,000 landmarks", m, D, *measure(partial(model.fit, views, y)), floor(m, D), "30 s"


def identification(m: int = 1_024_000, D: int = 64, n_probes: int = 102_400) -> Iterator[Row]:
    """Probes in an enrolled gallery."""
    views, y = make_views(m, D, m // 20)
    matcher = cv.CrossViewClassifier(cv.MvDA(n_components=D).fit(views, y)).enroll(views[0], y, 0)
    identify = partial(matcher.predict, views[1][:n_probes], view=1)
    yield f"identify {n_probes:,} probes", m, D, *measure(identify), floor(m, D) / N_VIEWS * n_probes / m, "1 s"


def check() -> None:
    """Compare all methods on the device with NumPy."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 20)
    centres = rng.normal(size=(100, 16))
    arrays = [centres[y] @ rng.normal(size=(16, 16)) + 0.5 * rng.normal(size=(2000, 16)) for _ in range(2)]
    for name, cls in [*cv.METHODS.items(), ("LPP", cv.LPP)]:
        options = {"n_landmarks": 200} if name.startswith("K") else {}
        latents = cls(n_components=5, **options).fit(arrays, y).transform(arrays)
        for dtype, tolerance in ((torch.float64, 1e-8), (torch.float32, 1e-4)):
            tensors = [torch.as_tensor(X, dtype=dtype, device=DEVICE) for X in arrays]
            others = cls(n_components=5, **options).fit(tensors, y).transform(tensors)
            sine = max(angle(Z, other.double().cpu().numpy()) for Z, other in zip(latents, others, strict=True))
            print(f"{name:8} {dtype!s:14} {sine:.1e} {'' if sine < tolerance else 'DIFFERS'}", flush=True)


def angle(Z: np.ndarray, other: np.ndarray) -> float:
    """Sine of the largest angle between two subspaces."""
    Q, R = (np.linalg.qr(A)[0] for A in (Z, other))
    return float(np.linalg.norm(Q - R @ (R.T @ Q), 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.check:
        check()
    lines = [
        "# A GPU",
        "",
        "Written by `python benchmarks/gpu.py --table benchmarks/gpu.md`. "
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}. The floor is the time of the products alone.",
        "",
        "| work | samples | D | seconds | floor | GiB | target |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, m, D, seconds, memory, least, target in chain(linear_fits(), kernel_fit(), identification()):
        lines.append(f"| {name} | {m:,} | {D} | {seconds:.2f} | {least:.2f} | {memory:.1f} | {target} |")
        print(lines[-1], flush=True)
    if options.table:
        options.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
