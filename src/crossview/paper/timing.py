"""How long a fit takes: by this package, and by the paper's algorithm to the letter."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from crossview._types import Array
from crossview._validation import check_count
from crossview.datasets import Dataset, cmu_pie
from crossview.embeddings.methods import METHODS
from crossview.experiments.cells import Cell
from crossview.experiments.loading import Loader
from crossview.paper.literal import literal_kmvhe, literal_mvhe
from crossview.views import Views

__all__ = ["PAPER_CASES", "PaperLoader", "paper_sizes", "time_cell", "time_literal_cell"]

PAPER_CASES = {case: len(cmu_pie.CASES[case]) for case in (1, 4, 7, 8)}
"""Case of CMU PIE in the paper's table of training times → its number of views."""

_LITERAL: dict[str, Callable[..., list[Array]]] = {"MvHE": literal_mvhe, "KMvHE": literal_kmvhe}
_PEOPLE, _IMAGES = 45, 4  # that the paper trains with, and of each in every view
_FACTORS = 20
_LONG_ENOUGH = 20.0  # seconds, after which no further run is begun


def time_cell(cell: Cell, data: Dataset, repeats: int = 7) -> dict[str, Any]:
    """Time the fit of a cell's method, with the parameters that the cell fixes and the defaults of others.

    The method learns from all samples of the data; of split, search and outliers no use is made. A first fit loads code
    and warms caches, and does not count. How many threads there are is for the caller to limit, as
    `crossview.experiments.run` does.

    Parameters
    ----------
    cell : Cell
        Says which method, by which parameters.
    data : Dataset
        What to fit it to.
    repeats : int
        How many fits to time. None is begun once those before have taken 20 seconds.

    Returns
    -------
    result : dict
        Ready for JSON. ``seconds`` has those of all timed ``runs``, and their median as ``fit``; ``method`` is the
        cell's, ``threads`` is how many linear algebra could use. The rest says what was learnt from, and ``warnings``
        what was warned of.

    Examples
    --------
    >>> cell = Cell(data="sizes", method="MvDA", parameters={"reg": 0.01}, task="time")
    >>> result = time_cell(cell, paper_sizes(2, n_features=30), repeats=3)
    >>> result["method"], result["n_views"], result["n_samples"], len(result["seconds"]["runs"])
    ('MvDA', 2, 180, 3)
    """
    model = METHODS[cell.method]().set_params(**dict(cell.parameters))
    return _timed(cell, data, repeats, lambda: model.fit(data.views, data.y))


def time_literal_cell(cell: Cell, data: Dataset, repeats: int = 7) -> dict[str, Any]:
    """Time the paper's algorithm to the letter, by `crossview.paper.literal`, in the place of a method's fit.

    Parameters
    ----------
    cell : Cell
        Of MvHE or KMvHE; its parameters are those that the literal algorithm has.
    data : Dataset
        Complete views.
    repeats : int
        As in `time_cell`.

    Returns
    -------
    result : dict
        As `time_cell` gives it.
    """
    if cell.method not in _LITERAL:
        raise ValueError(f"there is no literal algorithm for {cell.method}: choose {' or '.join(_LITERAL)}.")
    if not data.views.mask.all():
        raise ValueError("the literal algorithm takes complete views: leave out samples that some view has not seen.")
    literal = _LITERAL[cell.method]
    parameters = dict(cell.parameters)
    known = [name for name in signature(literal).parameters if name not in ("arrays", "y")]
    if unknown := sorted(set(parameters) - set(known)):
        raise ValueError(
            f"the literal {cell.method} has no {', '.join(unknown)}: its parameters are {', '.join(known)}."
        )
    return _timed(cell, data, repeats, lambda: literal(data.views.arrays, data.y, **parameters))


def paper_sizes(n_views: int, seed: int = 0, n_features: int = 140) -> Dataset:
    """Data of the size of the paper's CMU PIE training sets: 45 people, 4 images of each in every view.

    Views are smooth functions of shared factors, and noise. The time of a fit depends on the sizes, and hardly on what
    the features are.

    Parameters
    ----------
    n_views : int
        How many views; `PAPER_CASES` says how many a case has.
    seed : int
        Seed of the draw. The package's benchmarks take the number of the case.
    n_features : int
        D: features in every view, what PCA leaves of an image.

    Returns
    -------
    data : Dataset
        180 samples of 45 classes.

    Examples
    --------
    >>> paper_sizes(PAPER_CASES[4]).views
    Views(180 samples; view0: 140 features, view1: 140 features, view2: 140 features)
    """
    for name, value, least in (("n_views", n_views, 1), ("seed", seed, 0), ("n_features", n_features, 1)):
        check_count(value, name, least=least)
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(_PEOPLE), _IMAGES)
    factors = rng.normal(size=(_PEOPLE, _FACTORS))[y] + 0.3 * rng.normal(size=(len(y), _FACTORS))
    maps = rng.normal(size=(n_views, _FACTORS, n_features))
    arrays = [np.tanh(factors @ A) + 0.3 * rng.normal(size=(len(y), n_features)) for A in maps]
    names = [str(person + 1) for person in range(_PEOPLE)]
    return Dataset(Views(arrays), y, names, None, "Random views of the sizes of CMU PIE.", "")


class PaperLoader(Loader):
    """Loads data by name or path, and ``"paper-sizes"`` by `paper_sizes`."""

    def open(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """Load a data set anew."""
        return paper_sizes(**options) if data == "paper-sizes" else super().open(data, options)


def _timed(cell: Cell, data: Dataset, repeats: int, fit: Callable[[], object]) -> dict[str, Any]:
    check_count(repeats, "repeats", least=1)
    runs: list[float] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
        while len(runs) < repeats and sum(runs) < _LONG_ENOUGH:
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
