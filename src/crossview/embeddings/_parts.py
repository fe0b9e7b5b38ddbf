"""MvHE before its weights are chosen: data and patches, from which any weighting is cheap.

The objective is a sum, so its scatter is too::

    S = paired·S_J + intra·(S_U⁺ - β·S_U⁻) + inter·(S_V⁺ - β·S_V⁻)

and each of the last four grows with the number of neighbours by what the further neighbours add. `HybridProblem`
gives S for one setting directly; `HybridProblem.parts` computes the five summands once, for as many neighbour counts
as wanted, and from then on another setting costs a weighted sum and an eigen-solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._types import Array
from crossview._validation import check_count, check_weight
from crossview.embeddings._data import TrainingData
from crossview.graphs.patches import Patches
from crossview.linalg.scatter import patch_scatter

__all__ = ["HybridParts", "HybridProblem", "HybridWeights"]


@dataclass(frozen=True)
class HybridWeights:
    """Weights of the objective: the paper's 1, λ1, λ2, β, p1 and p2."""

    paired: float
    intra: float
    inter: float
    beta: float
    n_within: int
    n_between: int

    @property
    def valid(self) -> bool:
        """Whether `check` has nothing to refuse."""
        try:
            self.check()
        except ValueError:
            return False
        return True

    def check(self) -> None:
        """Refuse what cannot be, by the names that MvHE gives it."""
        check_count(self.n_within, "n_within", least=0)
        check_count(self.n_between, "n_between", least=0)
        for name in ("paired", "intra", "inter"):
            check_weight(getattr(self, name), f"lambda_{name}")
        check_weight(self.beta, "beta")
        if not (self.paired or self.intra or self.inter):
            raise ValueError("lambda_paired, lambda_intra and lambda_inter are all 0: give at least one a weight.")


@dataclass(frozen=True)
class HybridProblem:
    """What the objective sees of the training data.

    Parameters
    ----------
    arrays : sequence of ndarray, each of shape (m, D_v)
        Features of every view, zero where a sample is missing.
    mask : ndarray of bool, shape (m, n)
        Which sample was seen in which view.
    patches : sequence of Patches
        The patches of every view, at least as large as any weights ask for.
    """

    arrays: Sequence[Array]
    mask: NDArray[np.bool_]
    patches: Sequence[Patches]

    @classmethod
    def of(cls, data: TrainingData, n_within: int, n_between: int) -> HybridProblem:
        """The problem of patches with up to the given numbers of neighbours."""
        return cls(data.arrays, data.mask, data.patches(n_within, n_between))

    def scatter(self, weights: HybridWeights) -> Array:
        """Scatter matrix of the whole objective, shape (ΣD_v, ΣD_v); lower triangle of blocks."""
        graphs = [p.graph(weights.n_within, weights.n_between, between_weight=-weights.beta) for p in self.patches]
        return patch_scatter(
            self.arrays, self.mask, graphs, paired=weights.paired, intra=weights.intra, inter=weights.inter
        )

    def parts(self, within: Iterable[int], between: Iterable[int]) -> HybridParts:
        """Compute the five summands for the given numbers of neighbours.

        Parameters
        ----------
        within, between : iterable of int
            The values of p1 and p2 that will be combined.
        """
        m, n = self.mask.shape
        no_patches = [sp.csr_array((m, m))] * n
        return HybridParts(
            paired=patch_scatter(self.arrays, self.mask, no_patches, paired=1.0),
            within=self._cumulative(within, lambda patches, ranks: patches.graph(ranks, 0)),
            between=self._cumulative(between, lambda patches, ranks: patches.graph(0, ranks)),
        )

    def _cumulative(
        self, counts: Iterable[int], graph: Callable[[Patches, slice], sp.csr_array]
    ) -> dict[int, tuple[Array, Array]]:
        """Intra- and inter-view scatter for every count, each count adding to the one before."""
        order = sum(X.shape[1] for X in self.arrays)
        intra = inter = np.zeros((order, order))
        scatters, done = {}, 0
        for count in sorted(set(counts)):
            if count > done:
                graphs = [graph(patches, slice(done, count)) for patches in self.patches]
                intra = intra + patch_scatter(self.arrays, self.mask, graphs, intra=1.0)
                inter = inter + patch_scatter(self.arrays, self.mask, graphs, inter=1.0)
            scatters[count], done = (intra, inter), count
        return scatters


@dataclass(frozen=True)
class HybridParts:
    """The five summands of the scatter: S_J, and (S_U, S_V) for every number of neighbours of either kind."""

    paired: Array
    within: dict[int, tuple[Array, Array]]
    between: dict[int, tuple[Array, Array]]

    def combine(self, weights: HybridWeights) -> Array:
        """Scatter matrix of the whole objective, equal to `HybridProblem.scatter` of the same weights."""
        S = weights.paired * self.paired
        for (intra, inter), sign in (
            (self.within[weights.n_within], 1.0),
            (self.between[weights.n_between], -weights.beta),
        ):
            if weights.intra and sign:
                S += weights.intra * sign * intra
            if weights.inter and sign:
                S += weights.inter * sign * inter
        return S
