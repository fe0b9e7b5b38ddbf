"""The kinds of arrays that functions pass to each other."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Any
"""One row per sample: a NumPy array of float64, or a torch tensor."""
Indices: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = NDArray[Any]
"""Classes of samples, as text or numbers."""
FeatureNames: TypeAlias = list[str] | None
"""Names of the columns of one view, if it has any."""
