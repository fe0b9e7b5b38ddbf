"""Part optimisation: the local patch of each sample, and the sparse graph that a set of patches forms.

The patch of sample k in view j holds its p1 nearest samples of the same class, with weight 1, and its p2 nearest
samples of other classes, with weight -β: row k of a directed graph ``G_j`` of shape (m, m). Whole alignment, the sum
over all patches, needs nothing else (`crossview.linalg.scatter`): inter-view patches are the same rows, taken from
other views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._types import Indices


@dataclass(frozen=True)
class Patches:
    """Patches of one view: tables from `class_neighbours`, `within` (m, p1) and `between` (m, p2), padded with -1."""

    within: Indices
    between: Indices

    def spread(self, seen: NDArray[np.bool_]) -> Patches:
        """Expand patches over the samples present in the view to patches over all samples."""
        if seen.all():
            return self
        ids = np.append(np.flatnonzero(seen), -1)
        tables = []
        for table in (self.within, self.between):
            spread = np.full((len(seen), table.shape[1]), -1, dtype=np.intp)
            spread[seen] = ids[table]
            tables.append(spread)
        return Patches(*tables)

    def graph(self, within: slice | int, between: slice | int, *, between_weight: float = 1.0) -> sp.csr_array:
        """Directed graph, (m, m), from each sample to its neighbours of the given ranks; row k is patch k.

        Ranks start at 0; an int p means the first p. Edges within a class have weight 1, others `between_weight`, -β in
        the paper.
        """
        same = self.within[:, within if isinstance(within, slice) else slice(within)]
        other = self.between[:, between if isinstance(between, slice) else slice(between)]
        ids = np.hstack([same, other])
        weights = np.repeat([1.0, between_weight], [same.shape[1], other.shape[1]])
        present = ids >= 0
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
        data = np.broadcast_to(weights, ids.shape)[present]
        m = len(ids)
        return sp.csr_array((data, ids[present].astype(np.int32), indptr.astype(np.int32)), shape=(m, m))
