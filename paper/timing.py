"""Training times of this package's implementation, and of the algorithm as printed in the paper."""

import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from crossview._types import Array
from crossview._validation import check_count
from crossview.datasets import Dataset
from crossview.embeddings import METHODS
from crossview.experiments.cells import Cell
from crossview.experiments.loading import Loader
from crossview.views import Views
from paper.cmu_pie import CASES, load_cmu_pie
from paper.coil100 import load_coil100
from paper.faces import load_cufsf, load_hfb
from paper.literal import literal_kmvhe, literal_mvhe

PAPER_CASES = {case: len(CASES[case]) for case in (1, 4, 7, 8)}
"""Case of CMU PIE in the paper's table of training times → its number of views."""

_LITERAL: dict[str, Callable[..., list[Array]]] = {"MvHE": literal_mvhe, "KMvHE": literal_kmvhe}
_N_PEOPLE, _N_IMAGES = 45, 4  # the paper's training set: people, and images of each in every view
_N_FACTORS = 20
_TIME_LIMIT = 20.0  # seconds after which no further run starts


def time_cell(cell: Cell, data: Dataset, repeats: int = 7) -> dict[str, Any]:
    """Time the fit of a cell's method, with the cell's parameters, to all samples.

    The split, search and outliers of the cell are ignored. A first fit warms caches and does not count. At most
    `repeats` fits are timed; none starts after 20 seconds. The caller limits the number of threads.
    """
    model = METHODS[cell.method]().set_params(**dict(cell.parameters))
    return _time(cell, data, repeats, lambda: model.fit(data.views, data.y))


def time_literal_cell(cell: Cell, data: Dataset, repeats: int = 7) -> dict[str, Any]:
    """Time the algorithm as printed in the paper (`paper.literal`); otherwise as `time_cell`."""
    if cell.method not in _LITERAL:
        raise ValueError(f"there is no literal algorithm for {cell.method}: choose {' or '.join(_LITERAL)}.")
    if not data.views.mask.all():
        raise ValueError("the literal algorithm takes complete views: leave out samples with missing views.")
    literal = partial(_LITERAL[cell.method], data.views.arrays, data.y, **dict(cell.parameters))
    return _time(cell, data, repeats, literal)


def paper_sizes(n_views: int, seed: int = 0, n_features: int = 140) -> Dataset:
    """Create data of the size of the paper's CMU PIE training sets: 45 people with 4 images in every view.

    Views are smooth functions of shared factors plus noise. `n_features` is the width of every view after PCA.
    """
    for name, value, least in (("n_views", n_views, 1), ("seed", seed, 0), ("n_features", n_features, 1)):
        check_count(value, name, least=least)
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(_N_PEOPLE), _N_IMAGES)
    factors = rng.normal(size=(_N_PEOPLE, _N_FACTORS))[y] + 0.3 * rng.normal(size=(len(y), _N_FACTORS))
    maps = rng.normal(size=(n_views, _N_FACTORS, n_features))
    arrays = [np.tanh(factors @ A) + 0.3 * rng.normal(size=(len(y), n_features)) for A in maps]
    names = [str(person + 1) for person in range(_N_PEOPLE)]
    return Dataset(Views(arrays), y, names, "Random views of the sizes of CMU PIE.", "")


_LOADERS: dict[str, tuple[Callable[..., Dataset], str]] = {
    "coil100": (load_coil100, "coil-100"),
    "cmu-pie": (load_cmu_pie, "cmu-pie"),
    "cufsf": (load_cufsf, "cufsf"),
    "hfb": (load_hfb, "hfb"),
}


@dataclass
class PaperLoader(Loader):
    """Loads data by name, each once: those in a folder, such as coil-100/, and ``"paper-sizes"`` with `paper_sizes`."""

    folder: Path | None = None

    def open(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """Load a data set anew."""
        if data == "paper-sizes":
            return paper_sizes(**options)
        if data not in _LOADERS:
            return super().open(data, options)
        load, name = _LOADERS[data]
        if self.folder is None:
            raise ValueError(f"{data} is not included: pass the folder that contains {name}/ with --data.")
        root = self.folder / name
        if not root.exists():
            raise FileNotFoundError(f"{self.folder} has no folder {name}.")
        return load(root, **options)

    def lacks(self, data: str, options: Mapping[str, Any]) -> str | None:
        """Why data cannot be loaded, in a sentence; None if they can."""
        try:
            self(data, options)
        except (OSError, ValueError) as error:
            return " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        return None


def _time(cell: Cell, data: Dataset, repeats: int, fit: Callable[[], object]) -> dict[str, Any]:
    check_count(repeats, "repeats", least=1)
    runs: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
        while len(runs) < repeats and sum(runs) < _TIME_LIMIT:
            start = time.perf_counter()
            fit()
            runs.append(time.perf_counter() - start)
    return {
        "method": cell.method,
        "seconds": {"fit": statistics.median(runs), "runs": runs},
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "n_views": len(data.views.names),
        "n_features": list(data.views.n_features),
        "n_samples": len(data.views),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
