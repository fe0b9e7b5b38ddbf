"""What the probes of one view find in a gallery, in a form that is scored for any weights of the probes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.utils import gen_batches

from crossview._types import Array, Indices, Labels, Mask
from crossview.matching.calibration import supported
from crossview.metrics import scoring
from crossview.metrics.curves import count_pairs, false_negative_rate, place_of_class, rank_classes
from crossview.neighbours.distances import distances_in_chunks

Side: TypeAlias = tuple[str, Array, Labels]  # a name, samples and their classes

_MAX_RANK = 50
_MAX_WEIGHTS = 4_000_000  # held at a time
_LEVELS = 128  # of the false non-match rate, even in its logarithm, and as many even in the rate


@dataclass(frozen=True)
class Searches:
    """Results of all probes, and sums of them over every unit of resampling.

    Probes whose class is in the gallery are mated; the others are strangers, which count as non-mated searches and in
    pairs of two classes only.
    """

    n_classes: int  # in the gallery
    chance: float
    units: Indices  # of every probe
    own: Array  # distance to the nearest gallery sample of the probe's class, infinite if there is none
    other: Array  # that to the nearest of another class
    nearest: Labels  # the class of the nearest gallery sample
    scores: Array  # (units, 6 + ranks), sums over the mated probes: see `identify`
    has_counterparts: bool
    thresholds: Array
    genuine: Array  # (units, thresholds + 1): pairs of one class within each threshold, and all
    impostor: Array  # the same of pairs of two classes

    @property
    def mated(self) -> Mask:
        """Which probes have their class in the gallery."""
        return np.isfinite(self.own)

    @property
    def hits(self) -> Mask:
        """Which probes are recognised."""
        return self.own < self.other

    @property
    def n_mated_units(self) -> int:
        """Number of units with a mated probe."""
        return int(np.count_nonzero(self.scores[:, 0]))

    @property
    def n_nonmated(self) -> int:
        """Number of non-mated searches."""
        return int(np.isfinite(self.other).sum())

    def statistics(self, weights: Array, rates: Sequence[float], threshold: float | None) -> dict[str, Array]:
        """Scores for every row of weights of the units, (b, units), each of shape (b, k); nan where there is none."""
        mated, *sums, one_shot, asked, cmc = np.split(weights @ self.scores, [1, 2, 3, 4, 5, 6], axis=1)
        false, true = self.match_rates(weights)
        drawn = weights[:, self.units]
        with np.errstate(invalid="ignore"):
            accuracy, precision, with_counterparts, cmc = (one / mated for one in (*sums, cmc))
            at_threshold = {
                name: (drawn @ (some & among) / (drawn @ among))[:, None]
                for name, (some, among) in self.shares_at(threshold).items()
            }
            one_shot = one_shot / asked
        true_rates = [np.interp(rates, [0.0, *f], [0.0, *t]) for f, t in zip(false, true, strict=True)]
        missed = np.column_stack([false_negative_rate(self.own, self.other, rate, drawn) for rate in rates])
        return {
            "accuracy": accuracy,
            "one_shot_accuracy": one_shot,
            "average_precision": precision,
            "accuracy_with_counterparts": with_counterparts * (1.0 if self.has_counterparts else np.nan),
            "cmc": cmc,
            "equal_error_rate": _equal_error_rate(false, true)[:, None],
            "true_match_rates": np.where(supported(self.impostor[:, -1].sum(), rates), true_rates, np.nan),
            "false_negative_rates": np.where(supported(self.n_nonmated, rates), missed, np.nan),
            **at_threshold,
        }

    def match_rates(self, weights: Array) -> tuple[Array, Array]:
        """False and true match rates at the thresholds and in the end, (b, thresholds + 1)."""
        false, true = weights @ self.impostor, weights @ self.genuine
        with np.errstate(divide="ignore", invalid="ignore"):  # older releases of numpy take 0 / 0 for the former
            return false / false[:, -1:], true / true[:, -1:]

    def shares_at(self, threshold: float | None) -> dict[str, tuple[Mask, Mask]]:
        """Error rates at a threshold, if there is one: the probes of each, and those that it is a share of."""
        if threshold is None:
            return {}
        accepted = np.minimum(self.own, self.other) <= threshold
        return {
            "strangers_matched": (accepted, ~self.mated),
            "false_positive_rate": (self.other <= threshold, np.isfinite(self.other)),
            "false_rejection_rate": (~accepted, self.mated),
            "accuracy_accepted": (self.hits, self.mated & accepted),
        }


def draw_weights(n_units: int, n_bootstrap: int, random_state: int | None, size: int = 1) -> Iterator[Array]:
    """Weights of the units, in batches of shape (b, n_units): first all 1, then how often each unit is drawn.

    The same seed gives the same weights. Batches are small enough for arrays of `size` numbers per draw.
    """
    rng = np.random.default_rng(random_state)
    yield np.ones((1, n_units))
    for batch in gen_batches(n_bootstrap, max(1, _MAX_WEIGHTS // max(n_units, size))):
        draws = batch.stop - batch.start
        yield rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=draws).astype(np.float64)


def identify(
    gallery: Side,
    probes: Side,
    units: Indices,
    n_units: int,
    metric: str,
    drawn: Indices,
    counterparts: Indices | None = None,
) -> Searches:
    """Compare all probes with all of a gallery, a part of them at a time; `units` are those of the probes.

    `drawn` are galleries of one sample per class, as of `draw_galleries`, and `counterparts` the places in the gallery
    of the probes' own samples, -1 for a probe that has none there. Scores of a probe are 1, whether it is a hit, its
    precision, whether it is a hit with the counterparts, weighted hits in galleries of one sample per class, their
    weight, and whether its class is found up to each rank.
    """
    (_, G, gallery_labels), (_, P, labels) = gallery, probes
    classes, g, counts = np.unique(gallery_labels, return_inverse=True, return_counts=True)
    p = place_of_class(classes, labels)  # -1 for strangers
    own_place = np.full(len(P), -1) if counterparts is None else counterparts
    mated, left_out = p >= 0, scoring.leave_out(own_place, counts[p] * (p >= 0))
    weights = np.zeros((len(P), len(drawn)))
    if mated.any():
        has_other = np.bincount(p[mated])[p[mated]] > 1
        weights[mated] = scoring.probe_weights(drawn, p[mated], own_place[mated], has_other, np.zeros_like(p[mated]))
    order, members = np.argsort(g, kind="stable"), scoring.members_by_class(g)[1]
    starts = np.cumsum(counts) - counts
    ranks = np.arange(1, min(len(classes), _MAX_RANK) + 1)
    found, pairs = [], []
    for rows, distances in distances_in_chunks(G, P, metric):
        place, some = p[rows], np.flatnonzero(mated[rows])
        with_counterparts = scoring.recognised(distances, scoring.same_distance, g, place)
        one_shot = scoring.one_shot_scores(distances, scoring.same_distance, drawn, g, place, weights[rows])
        scoring.hide(distances, left_out[rows])
        by_class = np.minimum.reduceat(distances[:, order], starts, axis=1)
        own, other, rank = rank_classes(by_class, place)
        by_class[some[rank[some] > 1], place[some[rank[some] > 1]]] = np.inf  # another class wins a tie
        wanted, precision = members[place[some]], np.zeros(len(own))
        precision[some] = scoring.probe_precision(distances[some], scoring.same_distance, wanted)
        compared = np.take_along_axis(distances[some], wanted, axis=1)
        pairs.append(compared[(wanted >= 0) & np.isfinite(compared)])
        single = np.ones(len(own)), own < other, precision, with_counterparts, one_shot, weights[rows].sum(axis=1)
        found.append((own, other, by_class.argmin(axis=1), np.column_stack([*single, rank[:, None] <= ranks])))
    own, other, nearest, scores = (np.concatenate(part) for part in zip(*found, strict=True))
    thresholds = _thresholds(np.sort(np.concatenate(pairs)))
    genuine, impostor = count_pairs(G, g, P, p, thresholds, metric, left_out, units, n_units)
    sums = np.zeros((n_units, scores.shape[1]))
    np.add.at(sums, units[mated], scores[mated])
    n_out = left_out >= 0
    return Searches(
        n_classes=len(classes),
        chance=float(((counts[p] - n_out) / (len(G) - n_out))[mated].mean()) if mated.any() else np.nan,
        units=units,
        own=own,
        other=other,
        nearest=classes[nearest],
        scores=sums,
        has_counterparts=counterparts is not None,
        thresholds=thresholds,
        genuine=genuine,
        impostor=impostor,
    )


def _thresholds(genuine: Array) -> Array:
    """Distances of pairs of one class at levels of the false non-match rate, small ones as exactly as large ones."""
    n = len(genuine)
    if not n:
        return genuine
    beyond = np.concatenate([np.geomspace(1, n, _LEVELS), np.linspace(1, n, _LEVELS)]).round().astype(np.intp)
    return np.unique(genuine[n - beyond])


def _equal_error_rate(false: Array, true: Array) -> Array:
    """Where false matches and false non-matches are equally frequent, between two thresholds; (b,) from (b, t)."""
    start = np.zeros((len(false), 1))
    false, missed = np.hstack([start, false]), np.hstack([start + 1.0, 1.0 - true])
    rows, k = np.arange(len(false)), np.maximum((false >= missed).argmax(axis=1), 1)
    before, after = missed[rows, k - 1] - false[rows, k - 1], false[rows, k] - missed[rows, k]
    with np.errstate(invalid="ignore"):
        share = before / (before + after)
    rate: Array = false[rows, k - 1] + share * (false[rows, k] - false[rows, k - 1])
    return rate
