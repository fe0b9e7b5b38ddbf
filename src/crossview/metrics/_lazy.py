"""Cross-view accuracy of latent samples in Dask arrays."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import delayed

from crossview._types import Array
from crossview._validation import code_labels
from crossview.engines.dask import Blocks, keep
from crossview.neighbours.classes import Nearest, Points, nearest_by_class
from crossview.samples import Samples, samples_of
from crossview.samples.lazy import LazySamples, numbers_of
from crossview.views import Views


def accuracy(views: Views, y: Any, counterparts: bool) -> Array:
    """`cross_view_accuracy` by Euclidean distance: every block of probes meets every block of the gallery."""
    samples = samples_of(views, code_labels(y, views)[0])
    assert isinstance(samples, LazySamples)
    samples = replace(samples, blocks=Blocks(keep(*samples.blocks.tasks())))
    sizes, n = samples.class_sizes, len(views.n_features)
    hits = np.zeros((n, n))
    for probes in samples.blocks.parts:
        found = samples.blocks.lazy_total(_nearest_samples, probes, samples.n_classes)
        hits += compute(delayed(_hits)(found, probes, sizes, counterparts))[0]
    with np.errstate(invalid="ignore"):
        shares: Array = hits / ((sizes > 0).T @ sizes)
    np.fill_diagonal(shares, np.nan)
    return shares


def _nearest_samples(block: Samples, probes: Samples, n_classes: int) -> list[Nearest]:
    """The two nearest samples in a block of each gallery view, for the probes of each other view."""
    # Numbers from which the class follows, in the order of the rows. All are of other classes than the probes.
    ids = numbers_of(block) * n_classes + block.labels
    gallery = [Points(X, ids, np.zeros_like(ids)).at(seen) for X, seen in zip(block.arrays, block.mask.T, strict=True)]
    queries = [Points(X, numbers_of(probes), np.ones(len(probes), dtype=np.intp)) for X in probes.arrays]
    pairs = permutations(range(len(gallery)), 2)
    return [nearest_by_class(gallery[i], queries[j], 0, 2)[1] for i, j in pairs]


def _hits(found: Sequence[Nearest], probes: Samples, sizes: Array, counterparts: bool) -> Array:
    """Number of probes of each view (column) whose nearest sample in each gallery view (row) has their class."""
    n_classes, n = sizes.shape
    hits = np.zeros((n, n))
    for (i, j), one in zip(permutations(range(n), 2), found, strict=True):
        rows, labels = np.divmod(one.ids, n_classes)
        # The second nearest, if the nearest is the counterpart and not the only sample of its class.
        left_out = (rows[:, 0] == probes.ids) & (sizes[probes.labels, i] > 1) & (not counterparts)
        first = np.where(left_out, labels[:, 1], labels[:, 0])
        hits[i, j] = np.sum((first == probes.labels) & (rows[:, 0] >= 0) & probes.mask[:, j])
    return hits
