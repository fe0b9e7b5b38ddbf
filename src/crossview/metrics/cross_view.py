"""Scores of every pair of views: samples of one are looked up among those of another."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossview._types import Array, Indices
from crossview._validation import code_labels
from crossview.metrics import scoring
from crossview.neighbours.classes import Nearest, Points, nearest_by_class
from crossview.samples import Samples, samples_of
from crossview.views import ViewInput, Views


def cross_view_accuracy(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> Array:
    """Share of probes of one view whose nearest gallery sample of another view has their class.

    The gallery is all samples of a view, except the probe's counterpart: the same row in the gallery's view. The
    counterpart stays only if it is the one gallery sample of its class. Of gallery samples at the same distance,
    those of other classes come first: the order of the gallery has no influence, and the accuracy is `cmc` at rank 1.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space; rows of NaN are left out. Torch tensors are compared on their device.
        Dask arrays are accepted, too, with the Euclidean distance.
    y : array-like of shape (m,)
        The classes.
    metric : {"euclidean", "cosine"}
        The distance.
    counterparts : bool
        True keeps each probe's counterpart in the gallery, as in the paper.

    Returns
    -------
    accuracy : ndarray of shape (n, n)
        Row: view of the gallery. Column: view of the probe. A probe is skipped if the gallery has no sample of its
        class, see `skipped_probes`. The diagonal is nan, and so is a pair of views in which every probe is skipped.

    Examples
    --------
    >>> import numpy as np
    >>> photo, sketch = np.array([[0.0], [1.0], [5.0]]), np.array([[0.2], [0.8], [0.1]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b", "b"])
    array([[       nan, 0.33333333],
           [0.33333333,        nan]])
    >>> cross_view_accuracy([photo, sketch], ["a", "b", "b"], counterparts=True)
    array([[       nan, 0.66666667],
           [0.66666667,        nan]])
    """
    views = Views(latents)
    if views._place == "Dask" and metric == "euclidean":
        return _accuracy_of_blocks(views, y, counterparts)
    return scoring.score_pairs(views, y, metric, scoring.hits, counterparts)


def mean_accuracy(latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False) -> float:
    """Mean of `cross_view_accuracy` over all ordered pairs of views that have one.

    With ``counterparts=True``, it is the paper's mACC.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_accuracy([[[0.0], [1.0]], [[0.1], [0.8]]], ["a", "b"])
    1.0
    """
    return scoring.mean_over_pairs(cross_view_accuracy(latents, y, metric, counterparts=counterparts))


def cross_view_average_precision(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> Array:
    """`average_precision` of the probes of one view in the gallery of another.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`, and so are the rows, columns, skipped probes and nan of the result.

    Examples
    --------
    >>> cross_view_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    array([[ nan, 0.75],
           [0.5 ,  nan]])
    """
    return scoring.score_pairs(latents, y, metric, scoring.precisions, counterparts)


def mean_average_precision(
    latents: ViewInput, y: ArrayLike, metric: str = "euclidean", *, counterparts: bool = False
) -> float:
    """Mean of `cross_view_average_precision` over all ordered pairs of views that have one.

    Parameters
    ----------
    latents, y, metric, counterparts
        As in `cross_view_accuracy`.

    Examples
    --------
    >>> mean_average_precision([[[0.0], [1.0]], [[0.2], [0.1]]], ["a", "b"])
    0.625
    """
    return scoring.mean_over_pairs(cross_view_average_precision(latents, y, metric, counterparts=counterparts))


def one_shot_accuracy(
    latents: ViewInput,
    y: ArrayLike,
    metric: str = "euclidean",
    *,
    n_draws: int = scoring.N_DRAWS,
    random_state: scoring.RandomState = 0,
) -> float:
    """Accuracy with one enrolled sample per class: mean over draws of the gallery and over ordered pairs of views.

    Each gallery is one random sample per class of its view. A probe is skipped if its counterpart is drawn, unless its
    view has no other sample of its class. With one sample per class, this is `mean_accuracy`.

    Parameters
    ----------
    latents, y, metric
        As in `cross_view_accuracy`.
    n_draws : int
        Number of galleries drawn from every view.
    random_state : int, RandomState instance or None
        Determines the draws, with `y` and the rows of NaN: the latent samples do not matter.

    Examples
    --------
    >>> photo, sketch = [[0.0], [1.0], [3.0], [4.0]], [[0.2], [0.8], [2.9], [4.1]]
    >>> one_shot_accuracy([photo, sketch], ["a", "a", "b", "b"])
    1.0
    """
    return scoring.mean_over_pairs(
        scoring.score_pairs(latents, y, metric, scoring.one_shot(n_draws, random_state), counterparts=True)
    )


def chance_accuracy(views: ViewInput, y: ArrayLike, *, counterparts: bool = False) -> float:
    """Expected `mean_accuracy` of a matcher that picks a gallery sample at random.

    For a pair of views, it is the share of gallery samples with the class of a probe, averaged over the probes.

    Parameters
    ----------
    views, y, counterparts
        As `latents`, `y` and `counterparts` in `cross_view_accuracy`; or features: only rows of NaN matter, which are
        left out.

    Examples
    --------
    >>> photo, sketch = [[0.0], [1.0], [2.0], [3.0]], [[0.2], [0.1], [0.3], [0.4]]
    >>> chance_accuracy([photo, sketch], ["a", "a", "b", "b"])
    0.3333333333333333
    >>> chance_accuracy([photo, sketch], ["a", "a", "b", "b"], counterparts=True)
    0.5
    """
    found = []
    for lookup in scoring.lookups(Views(views), y, counterparts):
        n_out = lookup.left_out >= 0
        shares = (lookup.counts[lookup.view, lookup.p] - n_out) / (len(lookup.g) - n_out)
        found.append(lookup.mean_by_view(shares))
    return scoring.mean_over_pairs(np.concatenate([*found, []]))


def skipped_probes(latents: ViewInput, y: ArrayLike) -> Indices:
    """Number of probes of one view whose class has no gallery sample in another, so that no matcher can find it.

    Parameters
    ----------
    latents, y
        As in `cross_view_accuracy`.

    Returns
    -------
    skipped : ndarray of int, shape (n, n)
        Row: view of the gallery. Column: view of the probe. The diagonal is 0.

    Examples
    --------
    >>> nan = float("nan")
    >>> skipped_probes([[[0.0], [1.0]], [[0.1], [nan]]], ["a", "b"])
    array([[0, 0],
           [1, 0]])
    """
    counts = scoring.count_classes(Views(latents), y)[1]
    skipped: Indices = (counts == 0) @ counts.T
    return skipped


def _accuracy_of_blocks(views: Views, y: Any, counterparts: bool) -> Array:
    """`cross_view_accuracy` of Dask arrays: every block of probes meets every block of the gallery."""
    from dask.base import compute
    from dask.delayed import delayed

    from crossview.engines.dask import Blocks, keep

    samples: Any = samples_of(views, code_labels(y, views)[0])
    samples = replace(samples, blocks=Blocks(keep(*samples.blocks.tasks())))
    sizes, n = samples.class_sizes, len(views.n_features)
    hits = np.zeros((n, n))
    for probes in samples.blocks.parts:
        found = samples.blocks.lazy_total(_nearest_in_block, probes, sizes, counterparts)
        hits += compute(delayed(_count_hits)(found, probes))[0]
    with np.errstate(invalid="ignore"):
        shares: Array = hits / ((sizes > 0).T @ sizes)
    np.fill_diagonal(shares, np.nan)
    return shares


def _nearest_in_block(block: Samples, probes: Samples, sizes: Indices, counterparts: bool) -> list[Nearest]:
    """The nearest sample of its class, and of others, for the probes of every view in every other view of a block."""
    found, numbers = list[Nearest](), probes.ids
    for i, j in permutations(range(len(block.arrays)), 2):
        gallery = Points(block.arrays[i], block.ids, block.labels).at(block.mask[:, i])
        # The search leaves out the sample with the number of the probe.
        left_out = np.where((sizes[probes.labels, i] > 1) & (not counterparts), numbers, -1)
        found += nearest_by_class(gallery, Points(probes.arrays[j], left_out, probes.labels), 1, 1)
    return found


def _count_hits(found: Sequence[Nearest], probes: Samples) -> Array:
    """Number of probes of each view (column) that are recognised in each gallery view (row)."""
    n = len(probes.arrays)
    hits = np.zeros((n, n))
    for (i, j), own, other in zip(permutations(range(n), 2), found[::2], found[1::2], strict=True):
        recognised = scoring.same_distance(own.squared[:, 0]) < other.squared[:, 0]
        hits[i, j] = np.count_nonzero(recognised & probes.mask[:, j])
    return hits
