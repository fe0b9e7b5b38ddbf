"""OneViewInput of one view in the common space, whether given alone or among all views."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from crossview._transformer import MultiViewTransformer, map_view, unwrap
from crossview._types import Labels, Rows
from crossview._validation import as_labels, check_same_kind, has_label
from crossview.engines import nan_rows
from crossview.views import ViewInput, Views, index_of_view

OneViewInput: TypeAlias = "ViewInput | ArrayLike"


def latent_samples(embedding: Any, X: OneViewInput, view: int | str, *, missing: bool = False) -> Rows:
    """OneViewInput of a view in the common space; only if wanted with rows of NaN for missing ones."""
    first = unwrap(embedding)[0]
    v = index_of_view(view, first.view_names_)
    latent = map_view(embedding, _one_view(X, v, first), v)
    if not missing and (gaps := nan_rows(latent)[1]).any():
        where = f"row {gaps.argmax()} is missing in view {first.view_names_[v]!r} (NaN)"
        raise ValueError(f"{where}: leave such rows out.")
    return latent


def labelled_samples(latent: Rows, y: ArrayLike, classes: Labels) -> tuple[Rows, Labels]:
    """The samples that are present and have a label, which must be comparable with the classes; and their labels."""
    labels = as_labels(y, len(latent))
    check_same_kind(labels, classes)
    there = has_label(labels) & ~nan_rows(latent)[1]
    if not there.any():
        raise ValueError("no probe has a label and is present in this view: check the view and the labels.")
    return latent[there], labels[there]


def _one_view(X: OneViewInput, v: int, first: MultiViewTransformer) -> Any:
    """The samples of view v, taken out of all views, or given as they are; `first` knows the views."""
    names = first.view_names_
    if isinstance(X, Views | Mapping):
        given = X.names if isinstance(X, Views) else list(X)
        if names[v] not in given:
            raise ValueError(f"view {names[v]!r} is not among the views given: {', '.join(map(repr, given))}.")
        return first._take(X, names[v]) if isinstance(X, Views) else X[names[v]]
    if not isinstance(X, list | tuple) or not X or np.ndim(X[0]) < 2:
        return X
    if len(X) != len(names):
        raise ValueError(f"got {len(X)} views, but the model was fitted on {len(names)}: {', '.join(names)}.")
    return X[v]
