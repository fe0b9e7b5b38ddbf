"""All methods of the paper's comparison, by name, and where to look for their parameters."""

from __future__ import annotations

from typing import Any

from crossview.embeddings._base import Embedding
from crossview.embeddings.correlation import CCA, KCCA, MCCA, PLS
from crossview.embeddings.discriminant import GMA, LDA, MULDA, MvDA, MvDAVC, MvMDA
from crossview.embeddings.hybrid import KMvHE, MvHE
from crossview.embeddings.locality import DLA, MvDLA
from crossview.embeddings.projection import PCA

__all__ = ["METHODS", "SEARCH_SPACES"]

METHODS: dict[str, type[Embedding]] = {
    "PCA": PCA,
    "LDA": LDA,
    "DLA": DLA,
    "CCA": CCA,
    "KCCA": KCCA,
    "MCCA": MCCA,
    "PLS": PLS,
    "MvDLA": MvDLA,
    "GMA": GMA,
    "MULDA": MULDA,
    "MvDA": MvDA,
    "MvMDA": MvMDA,
    "MvDA-VC": MvDAVC,
    "MvHE": MvHE,
    "KMvHE": KMvHE,
}
"""Name → class, in the order of the paper's tables."""

_DIMENSIONS = [5, 10, 20, 30, 40, 60]
_RIDGES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2]
_WIDTHS = [0.1, 0.3, 1.0, 3.0]
_WEIGHTS = [1e-2, 1e-1, 1.0, 1e1, 1e2]

SEARCH_SPACES: dict[str, dict[str, list[Any]]] = {
    "PCA": {"n_components": _DIMENSIONS},
    "LDA": {"n_components": _DIMENSIONS, "reg": _RIDGES},
    "DLA": {"n_components": _DIMENSIONS, "beta": [0.03, 0.1, 0.3], "n_within": [1, 3, 7], "n_between": [5, 15]},
    "CCA": {"n_components": _DIMENSIONS, "reg": _RIDGES},
    "KCCA": {"n_components": _DIMENSIONS, "reg": _RIDGES, "gamma_scale": _WIDTHS},
    "MCCA": {"n_components": _DIMENSIONS, "reg": _RIDGES},
    "PLS": {"n_components": _DIMENSIONS},
    "MvDLA": {
        # Within-class neighbours are found across views only where a patch holds more than a class has in one view.
        "n_components": _DIMENSIONS,
        "beta": [0.1, 0.3, 1.0],
        "n_within": [10, 20, 40, 80],
        "n_between": [15, 50, 100],
    },
    "GMA": {"n_components": _DIMENSIONS, "reg": _RIDGES[2:], "mu": _WEIGHTS[:3]},
    "MULDA": {"n_components": _DIMENSIONS, "reg": _RIDGES[2:], "mu": _WEIGHTS[:3]},
    "MvDA": {"n_components": _DIMENSIONS, "reg": _RIDGES},
    "MvMDA": {"n_components": _DIMENSIONS, "reg": _RIDGES},
    "MvDA-VC": {"n_components": _DIMENSIONS, "reg": _RIDGES, "lambda_consistency": _WEIGHTS},
    "MvHE": {
        # Of ten data sets, none has a setting elsewhere that is better by more than a point (benchmarks/defaults.md).
        "n_components": _DIMENSIONS,
        "lambda_intra": [0.01, 0.1],
        "lambda_inter": [0.05, 0.3],
        "beta": [0.1, 0.3],
        "n_within": [1, 3],
        "n_between": [15, 30],
    },
    "KMvHE": {
        # Where the paper finds it at its best, λ2 is smaller and β larger than for MvHE.
        "n_components": _DIMENSIONS,
        "lambda_intra": [0.001, 0.005, 0.01, 0.1],
        "lambda_inter": [0.001, 0.01, 0.05, 0.3],
        "beta": [0.1, 0.3, 1.1],
        "n_within": [1, 3],
        "n_between": [15, 30],
        "gamma_scale": _WIDTHS,
    },
}
"""Name → parameters with values to try, for scikit-learn's searches."""
