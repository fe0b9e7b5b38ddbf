"""Patches for the methods that search for neighbours, and how well they were found."""

import warnings

from crossview._backend import is_tensor
from crossview._types import Indices, Rows
from crossview._validation import check_choice
from crossview.graphs.neighbours import METHODS, class_neighbours, neighbour_recall, resolve
from crossview.graphs.patches import Patches

LOW_RECALL = 0.9
"""Recall below which a fit warns."""


def check_neighbours(method: str) -> None:
    """Refuse an unknown way to search, and one whose library is missing."""
    check_choice(method, "neighbours", METHODS)
    resolve(method, 0, 0)


def find_patches(
    X: Rows,
    classes: Indices,
    n_within: int,
    n_between: int,
    method: str = "exact",
    *,
    centres: Indices | None = None,
) -> tuple[Patches, float]:
    """Patches of some or all samples, and the recall of their neighbours against exact search."""
    if method == "approximate" and is_tensor(X):
        raise ValueError("neighbours='approximate' does not work on tensors (set device=None): use neighbours='auto'.")
    method = "exact" if is_tensor(X) else resolve(method, len(X), len(X) if centres is None else len(centres))
    within, between = class_neighbours(X, classes, n_within, n_between, centres=centres, method=method)
    approximate = method == "approximate"
    recall = neighbour_recall(X, classes, within, between, centres=centres) if approximate else 1.0
    if recall < LOW_RECALL:
        warnings.warn(
            f"only {recall:.0%} of the nearest neighbours were found by approximate search: "
            "use neighbours='exact', or reduce the number of features first.",
            stacklevel=2,
        )
    return Patches(within, between), recall
