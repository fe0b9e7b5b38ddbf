"""What computes here."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import sklearn

__all__ = ["environment"]


def environment() -> dict[str, str]:
    """Versions of Python and of packages, and the platform."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": platform.platform(),
    }
