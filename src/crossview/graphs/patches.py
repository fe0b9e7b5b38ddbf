"""Part optimisation: the local patch of every sample, and the sparse graph that a set of patches is.

The patch of sample k in view j holds its p1 nearest samples of the same class, weighted 1, and its p2 nearest of
other classes, weighted -β. Seen as a matrix it is row k of a directed graph ``G_j`` of shape (m, m). Whole alignment,
the sum over all patches, needs nothing else (`crossview.linalg.scatter`): a sample's inter-view patches are the same
rows, read from the other views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._types import Indices

__all__ = ["Patches"]


@dataclass(frozen=True)
class Patches:
    """Patches of one view.

    Parameters
    ----------
    within : ndarray of int, shape (m, p1)
        Nearest samples of the same class, nearest first, -1 for none.
    between : ndarray of int, shape (m, p2)
        Nearest samples of other classes, nearest first, -1 for none.
    """

    within: Indices
    between: Indices

    def spread(self, seen: NDArray[np.bool_]) -> Patches:
        """Patches over all samples, from patches over only those that the view has seen."""
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
        """Directed graph from every sample to the neighbours of the given ranks.

        Parameters
        ----------
        within, between : slice or int
            Ranks, counted from 0; an int p stands for the first p.
        between_weight : float
            Weight of edges to other classes, -β in the paper; that of edges to the same class is 1.

        Returns
        -------
        graph : csr_array of shape (m, m)
            Row k holds the weights of the patch of sample k.
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
