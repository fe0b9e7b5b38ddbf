"""Benchmark cases. Run as a program, this file measures one case in a separate process.

Usage: python cases.py NAME M [VIEWS], where NAME is a key of FITS. Prints one line of JSON.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors

import crossview as cv

COMPONENTS = 20
STATUS = Path("/proc/self/status")


def samples(n_views: int, m: int, n_features: int, per_class: int = 4, seed: int = 0):
    """Views of shared factors, in many classes with few samples each, as in recognition."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) // per_class
    factors = rng.normal(size=(y[-1] + 1, 20))[y] + 0.3 * rng.normal(size=(m, 20))
    maps = rng.normal(size=(n_views, 20, n_features))
    return [np.tanh(factors @ A) + 0.3 * rng.normal(size=(m, n_features)) for A in maps], y


def search_floor(arrays, n_neighbors: int = 16) -> None:
    """Lower bound of any fit: scikit-learn's brute-force neighbour search, once per view."""
    for X in arrays:
        NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X).kneighbors(X)


def eigen_floor(S) -> None:
    """Lower bound of any fit: one eigen-solve of the order of all features."""
    scipy.linalg.eigh(S, subset_by_index=[0, COMPONENTS - 1])


def symmetric(order: int):
    """A random symmetric matrix."""
    A = np.random.default_rng(0).normal(size=(order, order))
    return A + A.T


def fit_mvhe(arrays, y) -> None:
    cv.MvHE(COMPONENTS, algorithm="exact").fit(arrays, y)  # as the floor, whether or not faiss is installed


def fit_kmvhe(arrays, y) -> None:
    cv.KMvHE(COMPONENTS).fit(arrays, y)


def fit_kcca(arrays, y=None):
    from cca_zoo.nonparametric import KCCA

    return KCCA(COMPONENTS, kernel="rbf", gamma=_gammas(arrays), shrinkage=0.1).fit(arrays)


def _gammas(arrays) -> list[float]:
    return [cv.kernels.median_gamma(X, "rbf") for X in arrays]


def fit_our_kcca(arrays, y=None, n_landmarks=None):
    """Solve the problem of `fit_kcca`, whose regulariser is absolute, with our relative one."""
    gammas = _gammas(arrays)
    some = [X[:1000] for X in arrays]
    variances = [1.0 - rbf_kernel(X, gamma=gamma).mean() for X, gamma in zip(some, gammas, strict=True)]
    absolute = 0.1 * (len(arrays[0]) - 1) / 0.9
    regs = [absolute / variance for variance in variances]
    return cv.KCCA(COMPONENTS, reg=regs, gamma=gammas, n_landmarks=n_landmarks, random_state=0).fit(arrays)


def _peer(name: str):
    def fit(arrays, y=None):
        from cca_zoo import linear

        return getattr(linear, name)(COMPONENTS).fit(arrays)

    return fit


# Both packages solve the same problem: no ridge, and MCCA with one constraint over all views.
CORRELATION = {
    "CCA": (lambda arrays, y=None: cv.CCA(COMPONENTS, reg=0.0).fit(arrays), _peer("CCA")),
    "MCCA": (lambda arrays, y=None: cv.MCCA(COMPONENTS, constraint="joint", reg=0.0).fit(arrays), _peer("MCCA")),
    "PLS": (lambda arrays, y=None: cv.PLS(COMPONENTS).fit(arrays), _peer("PLS")),
    "KCCA": (fit_our_kcca, fit_kcca),
}


def correlations(model, arrays):
    """Correlation between the first two views along every component."""
    latents = model.transform(arrays)
    return np.array([abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(latents[0].T, latents[1].T, strict=True)])


FITS = {
    "MvHE": fit_mvhe,
    "KMvHE": fit_kmvhe,
    "KCCA 1000 landmarks": lambda arrays, y: fit_our_kcca(arrays, n_landmarks=1000),
    **{name: ours for name, (ours, _) in CORRELATION.items()},
    **{f"cca-zoo {name}": theirs for name, (_, theirs) in CORRELATION.items()},
}


def memory(key: str) -> float:
    """Resident memory in bytes: now (VmRSS) or at its peak (VmHWM)."""
    found = re.search(rf"{key}:\s+(\d+) kB", STATUS.read_text())
    assert found, "needs Linux"
    return 1024.0 * int(found[1])


def main() -> None:
    name, m = sys.argv[1], int(sys.argv[2])
    fit = FITS[name]
    arrays, y = samples(int(sys.argv[3]) if len(sys.argv) > 3 else 2, m, 200)
    fit([X[:240] for X in arrays], y[:240])  # load code and start threads
    Path("/proc/self/clear_refs").write_text("5")  # reset the memory peak
    before = memory("VmRSS")
    start = time.perf_counter()
    fit(arrays, y)
    seconds = time.perf_counter() - start
    used = memory("VmHWM") - before
    print(json.dumps({"seconds": seconds, "memory": used, "input": float(sum(X.nbytes for X in arrays))}))


if __name__ == "__main__":
    main()
