"""Accuracy with one enrolled sample per class."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from crossview._types import Array, Indices, Labels, Mask
from crossview.metrics.cross_view import (
    Lookup,
    ProbeScorer,
    ScorerFactory,
    mean_by_dimension,
    mean_by_group,
    mean_over_pairs,
    score_pairs,
)
from crossview.metrics.matching import members_by_class
from crossview.views import ViewInput

RandomState: TypeAlias = int | np.random.RandomState | None

N_DRAWS = 10


def one_shot_accuracy(
    latents: ViewInput,
    y: ArrayLike,
    metric: str = "euclidean",
    *,
    n_draws: int = N_DRAWS,
    random_state: RandomState = 0,
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
    return mean_over_pairs(score_pairs(latents, y, metric, _make_scorer(n_draws, random_state), counterparts=True))


def one_shot_by_dimension(
    latents: ViewInput,
    y: ArrayLike,
    dimensions: Sequence[int],
    metric: str = "euclidean",
    *,
    n_draws: int = N_DRAWS,
    random_state: RandomState = 0,
    probes: Mask | None = None,
) -> Array:
    """`one_shot_accuracy` of the first components, for several numbers of them, as in `accuracy_by_dimension`.

    Parameters
    ----------
    latents, y, dimensions, metric, probes
        As in `accuracy_by_dimension`.
    n_draws, random_state
        As in `one_shot_accuracy`. All numbers of components are scored on the same draws.

    Examples
    --------
    >>> photo, sketch = [[0.0, 3.0], [1.0, 0.0]], [[0.9, 3.0], [0.8, 0.0]]
    >>> one_shot_by_dimension([photo, sketch], ["a", "b"], [1, 2])
    array([0.25, 1.  ])
    """
    scorer = _make_scorer(n_draws, random_state)
    return mean_by_dimension(latents, y, dimensions, metric, scorer, counterparts=True, probes=probes)


def draw_galleries(g: Labels, n_draws: int, random: np.random.RandomState) -> Indices:
    """Places of one sample of every class in a gallery, (draws, classes); one draw if classes have no other sample."""
    classes, members = members_by_class(g)
    sizes = np.count_nonzero(members >= 0, axis=1)
    shares = random.uniform(size=(n_draws if sizes.max() > 1 else 1, len(classes)))
    drawn: Indices = members[np.arange(len(classes)), (shares * sizes).astype(np.intp)]
    return drawn


def probe_weights(drawn: Indices, classes: Indices, own: Indices, has_other: Mask, groups: Indices) -> Array:
    """Weights of the probes in every draw, (probes, draws), by which the sum of hits is their number times the score.

    A probe whose counterpart is drawn has none, unless its view has no other of its class. `classes` are the columns of
    the probes' classes, `own` the places of their counterparts, and probes of one view are a group.
    """
    asked = ~((drawn[:, classes] == own) & has_other)
    sizes = np.bincount(groups)
    weights: Array = asked / np.repeat(mean_by_group(asked, groups), sizes[sizes > 0], axis=1) / len(drawn)
    return weights.T


def one_shot_scores(distances: Array, drawn: Indices, g: Labels, p: Labels, weights: Array) -> Array:
    """Weighted sums over draws of hits, (…, probes), from distances of shape (…, probes, gallery)."""
    total = np.zeros(distances.shape[:-1])
    for columns, weight in zip(np.sort(drawn, axis=1), weights.T, strict=True):
        total += weight * (g[columns[distances.take(columns, axis=-1).argmin(axis=-1)]] == p)
    return total


def _make_scorer(n_draws: int, random_state: RandomState) -> ScorerFactory:
    if n_draws < 1:
        raise ValueError(f"n_draws must be 1 or more, got {n_draws!r}.")
    return partial(_scorer, n_draws=n_draws, random=check_random_state(random_state))


def _scorer(lookup: Lookup, n_draws: int, random: np.random.RandomState) -> ProbeScorer:
    drawn = draw_galleries(lookup.g, n_draws, random)
    has_other = lookup.counts[lookup.views, lookup.p] > 1
    weights = probe_weights(drawn, np.searchsorted(np.unique(lookup.g), lookup.p), lookup.own, has_other, lookup.views)
    return lambda order, rows: one_shot_scores(order, drawn, lookup.g, lookup.p[rows], weights[rows])
