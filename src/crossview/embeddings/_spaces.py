"""Values of parameters that several methods have in common, for searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["NUMBERS", "RIDGES", "WEIGHTS", "WIDTHS", "SearchSpace"]

SearchSpace: TypeAlias = Mapping[str, Sequence[Any]]

NUMBERS = [5, 10, 20, 30, 40, 60]  # of components
RIDGES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2]
WEIGHTS = [1e-2, 1e-1, 1.0, 1e1, 1e2]
WIDTHS = [0.1, 0.3, 1.0, 3.0]  # of kernels, as factors on the median heuristic
