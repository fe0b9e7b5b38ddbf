"""Today's alternatives to the methods of the paper, by name."""

from crossview.embeddings._base import Embedding
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.neighbourhood import NCA
from crossview.embeddings.semantic import SemanticMatching

__all__ = ["OPPONENTS"]

OPPONENTS: dict[str, type[Embedding]] = {
    "Contrastive": Contrastive,
    "SemanticMatching": SemanticMatching,
    "NCA": NCA,
}
"""Name → class of methods that are not in the paper, for comparisons with them."""
