"""Cross-view accuracy of latent samples in Dask arrays."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import delayed

from crossview._backend.dask import Blocks, keep
from crossview._types import Array
from crossview._validation import code_labels
from crossview.graphs.candidates import Nearest, Points, nearest_candidates
from crossview.linalg.lazy import LazySamples, NumberedSamples
from crossview.views import Views


def accuracy(views: Views, y: Any) -> Array:
    """`cross_view_accuracy` by Euclidean distance: every block of probes meets every block of the gallery."""
    samples = LazySamples.of(views, code_labels(y, views)[0])
    samples = replace(samples, blocks=Blocks(keep(*samples.blocks.tasks())))
    sizes, n = samples.class_sizes, len(views.n_features)
    hits = np.zeros((n, n))
    for probes in samples.blocks.parts:
        found = samples.blocks.lazy_total(_nearest_samples, probes, samples.n_classes)
        hits += compute(delayed(_hits)(found, probes, sizes))[0]
    with np.errstate(invalid="ignore"):
        shares: Array = hits / ((sizes > 0).T @ sizes)
    np.fill_diagonal(shares, np.nan)
    return shares


def _nearest_samples(block: NumberedSamples, probes: NumberedSamples, n_classes: int) -> list[Nearest]:
    """Nearest sample in a block of each gallery view, for the probes of each other view."""
    gallery, queries = (
        # Numbers that also tell the class, in the order of the rows.
        [Points(X, rows.ids * n_classes + rows.labels, rows.labels) for X in rows.arrays]
        for rows in (block, probes)
    )
    found = []
    for i, j in permutations(range(len(gallery)), 2):
        found.append(nearest_candidates(queries[j], gallery[i].at(block.mask[:, i])))
    return found


def _hits(found: Sequence[Nearest], probes: NumberedSamples, sizes: Array) -> Array:
    """Number of probes of each view (column) whose nearest sample in each gallery view (row) has their class."""
    n_classes, n = sizes.shape
    hits = np.zeros((n, n))
    for (i, j), one in zip(permutations(range(n), 2), found, strict=True):
        hits[i, j] = np.sum((one.ids[:, 0] % n_classes == probes.labels) & probes.mask[:, j])
    return hits
