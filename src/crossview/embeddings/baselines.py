"""Methods that are not in the paper, by name: doing nothing, and today's alternatives."""

from crossview.embeddings._base import Embedding
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.neighbourhood import NCA
from crossview.embeddings.raw import RawFeatures
from crossview.embeddings.semantic import SemanticMatching

__all__ = ["BASELINES"]

BASELINES: dict[str, type[Embedding]] = {
    "RawFeatures": RawFeatures,
    "Contrastive": Contrastive,
    "SemanticMatching": SemanticMatching,
    "NCA": NCA,
}
"""Name → class of methods that are not in the paper, for comparisons with them."""
