"""The scatter of MvHE, decomposed into parts that make any other weighting cheap.

The objective is a sum, and so is its scatter::

    S = paired·S_J + intra·(S_U⁺ - β·S_U⁻) + inter·(S_V⁺ - β·S_V⁻)

The last four terms are cumulative in the number of neighbours. `HybridProblem.scatter` computes S for one setting;
`HybridProblem.parts` computes the five terms once, for several numbers of neighbours. Another setting then costs a
weighted sum and an eigen-solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from crossview._types import Array
from crossview._validation import check_count, check_weight
from crossview.embeddings._data import TrainingData


@dataclass(frozen=True)
class HybridWeights:
    """Weights of the objective: 1, λ1, λ2, β, p1 and p2 in the paper."""

    paired: float
    intra: float
    inter: float
    beta: float
    n_within: int
    n_between: int

    @property
    def valid(self) -> bool:
        """Whether `check` passes."""
        try:
            self.check()
        except ValueError:
            return False
        return True

    def check(self) -> None:
        """Refuse invalid weights, under their names in MvHE."""
        check_count(self.n_within, "n_within", least=0)
        check_count(self.n_between, "n_between", least=0)
        for name in ("paired", "intra", "inter"):
            check_weight(getattr(self, name), f"lambda_{name}")
        check_weight(self.beta, "beta")
        if not (self.paired or self.intra or self.inter):
            raise ValueError("lambda_paired, lambda_intra and lambda_inter are all 0: set at least one above 0.")


@dataclass(frozen=True)
class HybridProblem:
    """The objective on given data, whose patches are at least as large as any weights ask for."""

    data: TrainingData

    def scatter(self, weights: HybridWeights) -> Array:
        """Scatter matrix of the objective, (ΣD_v, ΣD_v); lower triangle of blocks."""
        return self.data.patch_scatter(
            weights.n_within,
            weights.n_between,
            between_weight=-weights.beta,
            paired=weights.paired,
            intra=weights.intra,
            inter=weights.inter,
        )

    def parts(self, within: Iterable[int], between: Iterable[int]) -> HybridParts:
        """Compute the five terms for all given values of p1 and p2."""
        paired = self.data.patch_scatter(0, 0, paired=1.0)
        return HybridParts(
            paired=paired,
            within=self._cumulative(within, np.zeros_like(paired), lambda ranks: (ranks, 0)),
            between=self._cumulative(between, np.zeros_like(paired), lambda ranks: (0, ranks)),
        )

    def _cumulative(
        self, counts: Iterable[int], nothing: Array, kinds: Callable[[slice], tuple[slice | int, slice | int]]
    ) -> dict[int, tuple[Array, Array]]:
        """Intra- and inter-view scatter for each number of neighbours, each adding to the previous one."""
        intra = inter = nothing
        scatters, done = {}, 0
        for count in sorted(set(counts)):
            if count > done:
                ranks = kinds(slice(done, count))
                intra = intra + self.data.patch_scatter(*ranks, intra=1.0)
                inter = inter + self.data.patch_scatter(*ranks, inter=1.0)
            scatters[count], done = (intra, inter), count
        return scatters


@dataclass(frozen=True)
class HybridParts:
    """The five terms of the scatter: S_J, and (S_U, S_V) for each number of neighbours of either kind."""

    paired: Array
    within: dict[int, tuple[Array, Array]]
    between: dict[int, tuple[Array, Array]]

    def combine(self, weights: HybridWeights) -> Array:
        """Scatter matrix of the objective, equal to `HybridProblem.scatter`."""
        S = weights.paired * self.paired
        within, between = self.within[weights.n_within], self.between[weights.n_between]
        for (intra, inter), factor in ((within, 1.0), (between, -weights.beta)):
            if weights.intra and factor:
                S += weights.intra * factor * intra
            if weights.inter and factor:
                S += weights.inter * factor * inter
        return S
