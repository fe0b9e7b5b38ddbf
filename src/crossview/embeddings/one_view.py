"""One view alone through pipelines, whose own methods know whole sets of views only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline

from crossview.views import Array

__all__ = ["transform_view"]


def transform_view(model: Any, X: ArrayLike, view: int | str) -> Array:
    """Map samples of one view by a fitted embedding, a pipeline of crossview's estimators, a search, or a matcher.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (t, D_v)
        Samples as the view sees them.
    view : int or str
        The view, by position or name.

    Returns
    -------
    latent : ndarray of shape (t, d)
        The samples in the common space.
    """
    model = getattr(model, "embedding_", model)  # of a matcher
    model = getattr(model, "best_estimator_", model)  # of a search, scikit-learn's among them
    steps = [step for _, step in model.steps if step != "passthrough"] if isinstance(model, Pipeline) else [model]
    for step in steps:
        if not hasattr(step, "transform_view"):
            raise TypeError(
                f"{type(step).__name__} cannot map one view alone: use crossview's estimators in the pipeline."
            )
        X = step.transform_view(X, view)
    return np.asarray(X)
