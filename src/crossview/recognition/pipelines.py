"""What a search puts together: scaler, PCA and a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from crossview.embeddings._base import Embedding
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.views import Views

__all__ = ["first_features", "reducers", "tuned_pipeline"]


def reducers(k: int | None, pooled: bool) -> list[ViewScaler | ViewPCA]:
    """Scaler, and PCA if any, not fitted.

    Parameters
    ----------
    k : int, optional
        Dimension of the PCA; None: no PCA.
    pooled : bool
        Whether they treat the samples of all views as one set.
    """
    return [ViewScaler(pooled), *([] if k is None else [ViewPCA(k, pooled)])]


def tuned_pipeline(model: Embedding, params: Mapping[str, Any], pooled: bool) -> Pipeline:
    """Scaler, PCA if any, and a method, with the parameters that a search has found, not fitted.

    Parameters
    ----------
    model : Embedding
        The method.
    params : dict
        Its parameters, with ``pca`` and ``metric``, as in ``best_params_``.
    pooled : bool
        Whether scaler and PCA treat the samples of all views as one set.
    """
    own = {name: value for name, value in params.items() if name not in ("pca", "metric")}
    return make_pipeline(*reducers(params.get("pca"), pooled), clone(model).set_params(**own))


def first_features(views: Views, k: int | None) -> Views:
    """The first k features of every view.

    Parameters
    ----------
    views : Views
        Principal components, say.
    k : int, optional
        How many; None for all.
    """
    if k is None:
        return views
    return Views([X[:, :k] for X in views.arrays], names=views.names, mask=views.mask)
