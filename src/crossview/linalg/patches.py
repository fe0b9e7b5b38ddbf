"""Part optimisation: the local patch of each sample, and the directed edges that a set of patches forms.

The patch of sample k in view j holds its p1 nearest samples of the same class, with weight 1, and its p2 nearest
samples of other classes, with weight -β: row k of a directed graph ``G_j``. Whole alignment, the sum over all patches,
needs nothing else (`crossview.linalg.scatter`): inter-view patches are the same rows, taken from other views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import incoming, like, neighbour_sums, outgoing


@dataclass(frozen=True)
class Edges:
    """Weighted edges from the centre of each patch to its neighbours: row k of a directed graph G is patch k."""

    ids: Any  # (c, p): neighbours of each centre, padded with -1
    weights: Array  # (p,), or (c, p)

    def sums(self, X: Rows, rows: slice = slice(None)) -> Rows:
        """``G X``, for some rows of G."""
        weights = self.weights if self.weights.ndim == 1 else self.weights[rows]
        return neighbour_sums(X, self.ids[rows], weights)

    def into(self, nodes: slice) -> Edges:
        """Edges that end in a range of nodes, which are then numbered from 0."""
        inside = (self.ids >= nodes.start) & (self.ids < nodes.stop)
        return Edges((self.ids - nodes.start + 1) * inside - 1, self.weights)

    def outgoing(self) -> Array:
        """Total weight of the edges of each centre, (c,)."""
        return outgoing(self.ids, self.weights)

    def incoming(self, n_nodes: int, factors: Array | None = None) -> Array:
        """Total weight of the edges that end in each node, (n_nodes,), times factors of their centres, (c,)."""
        return incoming(self.ids, self.weights, n_nodes, factors)


@dataclass(frozen=True)
class Patches:
    """Patches of one view: tables from `class_neighbours`, `within` (c, p1) and `between` (c, p2), padded with -1."""

    within: Any
    between: Any

    def spread(self, seen: Mask, at: Indices | None = None) -> Patches:
        """Expand patches over the samples present in the view to patches over all samples.

        `at` are the rows of the centres, if not all samples are; those that the view has have patches.
        """
        if seen.all():
            return self
        ids = np.append(np.flatnonzero(seen), -1)
        present = seen if at is None else seen[at]
        tables = []
        for table in (self.within, self.between):
            spread = like(table, np.full((len(present), table.shape[1]), -1, dtype=np.int64))
            spread[like(table, present)] = like(table, ids)[table]
            tables.append(spread)
        return Patches(*tables)

    def edges(self, within: slice | int, between: slice | int, between_weight: float = 1.0) -> Edges:
        """Edges to the neighbours of the given ranks.

        Ranks start at 0; an int p means the first p. Edges within a class have weight 1, others `between_weight`, -β in
        the paper.
        """
        same = self.within[:, within if isinstance(within, slice) else slice(within)]
        other = self.between[:, between if isinstance(between, slice) else slice(between)]
        ids = like(same, np.empty((len(same), same.shape[1] + other.shape[1]), dtype=np.int64))
        ids[:, : same.shape[1]], ids[:, same.shape[1] :] = same, other
        return Edges(ids, np.repeat([1.0, between_weight], [same.shape[1], other.shape[1]]))
