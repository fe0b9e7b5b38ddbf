"""The embeddings, one map per view into a common space: all methods by name, and their search spaces."""

from typing import Any

from crossview._schema import register
from crossview.embeddings._base import Embedding
from crossview.embeddings.baselines import RawFeatures, SemanticMatching
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.correlation import CCA, MCCA, PCA, PLS
from crossview.embeddings.discriminant import GMA, LDA, MULDA, MvDA, MvDAVC, MvMDA
from crossview.embeddings.hybrid import MvHE
from crossview.embeddings.kernel import KCCA, KMvHE
from crossview.embeddings.locality import DLA, LPP, NCA, MvDLA

__all__ = ["ALL_METHODS", "BASELINES", "METHODS", "SEARCH_SPACES", "method_name"]

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
"""Name → class, in the order of the tables in the paper."""

BASELINES: dict[str, type[Embedding]] = {
    "RawFeatures": RawFeatures,
    "Contrastive": Contrastive,
    "SemanticMatching": SemanticMatching,
    "NCA": NCA,
}
"""Name → class of methods that are not in the paper, for comparisons with them: doing nothing, and alternatives."""

ALL_METHODS: dict[str, type[Embedding]] = METHODS | BASELINES
"""Name → class of everything that can be tuned and compared by name."""

for _method in (*ALL_METHODS.values(), LPP):
    register(_method)

SEARCH_SPACES: dict[str, dict[str, list[Any]]] = {
    name: {parameter: list(values) for parameter, values in method.search_space.items()}
    for name, method in ALL_METHODS.items()
}
"""Name → parameter grid for searches."""


def method_name(given: str) -> str:
    """The name of a method in `ALL_METHODS`, whatever the case and hyphens of the given one.

    >>> method_name("mvdavc"), method_name("K-MvHE")
    ('MvDA-VC', 'KMvHE')
    """
    known = {name.lower().replace("-", ""): name for name in ALL_METHODS}
    try:
        return known[str(given).lower().replace("-", "")]
    except KeyError:
        raise ValueError(f"unknown method {given!r}: use one of {', '.join(ALL_METHODS)}.") from None
