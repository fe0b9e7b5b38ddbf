"""Search values of parameters that several methods share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["GAMMA_SCALES", "N_COMPONENTS", "RIDGES", "WEIGHTS", "SearchSpace"]

SearchSpace: TypeAlias = Mapping[str, Sequence[Any]]

N_COMPONENTS = [5, 10, 20, 30, 40, 60]
RIDGES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2]
WEIGHTS = [1e-2, 1e-1, 1.0, 1e1, 1e2]
GAMMA_SCALES = [0.1, 0.3, 1.0, 3.0]
