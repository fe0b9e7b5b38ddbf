"""Training data: one type for samples in memory, with a subclass for blocks of rows that Dask computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import Whole, hide_rows, mask_of, row_blocks
from crossview.samples.memory import Samples
from crossview.views import Views

__all__ = ["Samples", "pair_weights", "samples_of"]


def pair_weights(mask: Mask) -> Array:
    """Share of the other views that also have a sample, shape (m, n): 1 if all have it, 0 if only one view has it.

    This is the number of pairs of a sample in a view, relative to complete views. With these weights, the scatter of a
    view refers to the same pairs as the products between views, whatever is missing.
    """
    seen = mask.astype(np.float64)
    weights: Array = seen * (seen.sum(axis=1, keepdims=True) - 1.0) / (seen.shape[1] - 1.0)
    return weights


def samples_of(views: Views, classes: Indices | None = None, weigh: Callable[[Mask], Array] | None = None) -> Samples:
    """The samples of views, with weight 1 or those that a function of the mask gives.

    Blocks leave out samples that no view has.
    """
    parts = [] if classes is None else [classes]
    blocks = row_blocks(*views.arrays, *parts)
    if isinstance(blocks, Whole):
        return replace(_in_memory(blocks.block, len(views.arrays), weigh), points=views.arrays, views=views)
    from crossview.samples.lazy import LazySamples

    return LazySamples.of(blocks.map(_used, len(views.arrays), weigh), views)


def _in_memory(rows: Sequence[Any], n: int, weigh: Callable[[Mask], Array] | None) -> Samples:
    """The samples of n views, followed by their classes if there are any."""
    mask = mask_of(*rows[:n])
    weights = mask.astype(np.float64) if weigh is None else weigh(mask)
    arrays: list[Rows] = [hide_rows(X, w > 0, 0.0) for X, w in zip(rows[:n], weights.T, strict=True)]
    return Samples(arrays=arrays, weights=weights, classes=rows[n] if len(rows) > n else None)


def _used(rows: Sequence[Any], n: int, weigh: Callable[[Mask], Array] | None) -> Samples:
    """As `_in_memory`, without the samples that no view has."""
    used = mask_of(*rows[:n]).any(axis=1)
    return _in_memory(rows if used.all() else [X[used] for X in rows], n, weigh)
