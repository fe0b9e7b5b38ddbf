"""What the probes of one view find in a gallery, in a form that is scored for any weights of the probes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array, Indices, Labels, Mask
from crossview.distances import distances_in_chunks
from crossview.metrics.matching import count_pairs, members_by_class, places, probe_precision
from crossview.metrics.one_shot import one_shot_scores, probe_weights
from crossview.metrics.open_set import false_negative_rate, place_of_class, split_by_class

Side: TypeAlias = tuple[str, Array, Labels]  # a name, samples and their classes

_MAX_RANK = 50
_LEVELS = 128  # of the false non-match rate, even in its logarithm, and as many even in the rate

LEAST_ERRORS = 3
"""Errors that a rate must allow: with fewer, it cannot be told from 0 (the "rule of 3" of ISO/IEC 19795-1)."""


@dataclass(frozen=True)
class Searches:
    """Results of all probes, and sums of them over every unit of resampling.

    Probes whose class is in the gallery are mated; the others are strangers, which count as non-mated searches and in
    pairs of two classes only.
    """

    gallery: str
    probe: str
    n_gallery: int
    n_classes: int  # in the gallery
    chance: float
    units: Indices  # of every probe
    own: Array  # distance to the nearest gallery sample of the probe's class, infinite if there is none
    other: Array  # that to the nearest of another class
    hits: Mask  # whether the nearest of all is of the probe's class
    labels: Labels  # of the probes
    nearest: Labels  # the class of the nearest gallery sample
    scores: Array  # (units, 6 + ranks): see `_sum_scores`
    has_counterparts: bool
    thresholds: Array
    genuine: Array  # (units, thresholds + 1): pairs of one class within each threshold, and all
    impostor: Array  # the same of pairs of two classes

    @property
    def mated(self) -> Mask:
        """Which probes have their class in the gallery."""
        return np.isfinite(self.own)

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
        mated, hits, precision, all_hits, one_shot, asked, cmc = np.split(
            weights @ self.scores, [1, 2, 3, 4, 5, 6], axis=1
        )
        false, true = self.match_rates(weights)
        drawn = weights[:, self.units]
        with np.errstate(invalid="ignore"):
            accuracy, precision, cmc, all_hits = (sums / mated for sums in (hits, precision, cmc, all_hits))
            at_threshold = {
                name: (drawn @ (some & among) / (drawn @ among))[:, None]
                for name, (some, among) in self.shares_at(threshold).items()
            }
            one_shot = one_shot / asked
        return {
            "accuracy": accuracy,
            "one_shot_accuracy": one_shot,
            "average_precision": precision,
            "accuracy_with_counterparts": all_hits if self.has_counterparts else np.full_like(all_hits, np.nan),
            "cmc": cmc,
            "equal_error_rate": _equal_error_rate(false, true)[:, None],
            "true_match_rates": self._true_match_rates(false, true, rates),
            "false_negative_rates": self._false_negative_rates(drawn, rates),
            **at_threshold,
        }

    def match_rates(self, weights: Array) -> tuple[Array, Array]:
        """False and true match rates at the thresholds and in the end, (b, thresholds + 1)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # older releases of numpy take 0 / 0 for the former
            false, true = (
                sums / sums[:, -1:] for sums in (weights @ counts for counts in (self.impostor, self.genuine))
            )
        return false, true

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

    def _true_match_rates(self, false: Array, true: Array, rates: Sequence[float]) -> Array:
        n_pairs = self.impostor[:, -1].sum()
        found = np.array(
            [np.interp(rates, np.append(0.0, f), np.append(0.0, t)) for f, t in zip(false, true, strict=True)]
        )
        return np.where(supported(n_pairs, rates), found, np.nan)

    def _false_negative_rates(self, drawn: Array, rates: Sequence[float]) -> Array:
        found = np.column_stack([false_negative_rate(self.own, self.other, rate, drawn) for rate in rates])
        return np.where(supported(self.n_nonmated, rates), found, np.nan)


def supported(n: int, rates: Sequence[float]) -> Mask:
    """Which error rates can be told from 0 by n trials."""
    return np.asarray(rates) * n >= LEAST_ERRORS * (1 - 1e-12)


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


def search(
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
    of the probes' own samples, -1 for a probe that has none there.
    """
    (gallery_name, G, gallery_labels), (probe_name, P, labels) = gallery, probes
    classes, g, counts = np.unique(gallery_labels, return_inverse=True, return_counts=True)
    p = place_of_class(classes, labels)  # -1 for strangers
    own = np.full(len(P), -1) if counterparts is None else counterparts
    left_out = np.where((p >= 0) & (counts[p] > 1), own, -1)
    mated, n_out = p >= 0, left_out >= 0
    weights = np.zeros((len(P), len(drawn)))
    if mated.any():
        has_other = np.bincount(p[mated])[p[mated]] > 1
        weights[mated] = probe_weights(drawn, p[mated], own[mated], has_other, np.zeros_like(p[mated]))
    found, genuine = _compare(G, g, P, p, metric, left_out, drawn, weights)
    thresholds = _thresholds(genuine)
    of_one, of_two = count_pairs(G, g, P, p, thresholds, units, n_units, metric, left_out)
    return Searches(
        gallery=gallery_name,
        probe=probe_name,
        n_gallery=len(G),
        n_classes=len(classes),
        chance=float(((counts[p] - n_out) / (len(G) - n_out))[mated].mean()) if mated.any() else np.nan,
        units=units,
        own=found["own"],
        other=found["other"],
        hits=found["nearest"] == p,
        labels=labels,
        nearest=classes[found["nearest"]],
        scores=_sum_scores(found, p, units, n_units, min(len(classes), _MAX_RANK)),
        has_counterparts=counterparts is not None,
        thresholds=thresholds,
        genuine=of_one,
        impostor=of_two,
    )


def _compare(
    G: Array, g: Indices, P: Array, p: Indices, metric: str, left_out: Indices, drawn: Indices, weights: Array
) -> tuple[dict[str, NDArray[Any]], Array]:
    """What every probe finds without the sample that is left out, and the distances of all pairs of one class."""
    order = np.argsort(g, kind="stable")
    starts = np.flatnonzero(np.diff(g[order], prepend=-1))
    _, members = members_by_class(g)
    genuine, parts = [], []
    for rows, distances in distances_in_chunks(G, P, metric):
        nearest_of_all = distances.argmin(axis=1)
        one_shot = one_shot_scores(distances, drawn, g, p[rows], weights[rows])
        distances[places(left_out[rows])] = np.inf
        by_class = np.minimum.reduceat(distances[:, order], starts, axis=1)
        own, other = split_by_class(by_class, p[rows])
        rank = (by_class <= own[:, None]).sum(axis=1)
        by_class[places(p[rows])] = np.nextafter(own[p[rows] >= 0], np.inf)  # as in ranks, another class wins a tie
        mated, precision = p[rows] >= 0, np.zeros(len(own))
        wanted = members[p[rows][mated]]
        precision[mated] = probe_precision(distances[mated], wanted)
        compared = np.take_along_axis(distances[mated], wanted, axis=1)
        genuine.append(compared[(wanted >= 0) & np.isfinite(compared)])
        parts.append(
            {
                "own": own,
                "other": other,
                "nearest": by_class.argmin(axis=1),
                "nearest_of_all": g[nearest_of_all],
                "one_shot": one_shot,
                "one_shot_weight": weights[rows].sum(axis=1),
                "precision": precision,
                "rank": rank,
            }
        )
    pairs = np.concatenate(genuine)
    pairs.sort()
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, pairs


def _sum_scores(found: dict[str, NDArray[Any]], p: Indices, units: Indices, n_units: int, n_ranks: int) -> Array:
    """Sums over the mated probes of every unit, (units, 6 + ranks).

    Their number, hits, average precision, hits with the counterparts, weighted hits in galleries of one sample per
    class, the weights, and found up to each rank.
    """
    mated = p >= 0
    of = units[mated]
    columns = [np.ones(len(p)), found["nearest"] == p, found["precision"], found["nearest_of_all"] == p]
    columns += [found["one_shot"], found["one_shot_weight"]]
    sums = np.column_stack([np.bincount(of, weights=column[mated], minlength=n_units) for column in columns])
    ranks = np.minimum(found["rank"][mated], n_ranks + 1) - 1
    at_rank = np.bincount(of * (n_ranks + 1) + ranks, minlength=n_units * (n_ranks + 1)).reshape(n_units, -1)
    return np.hstack([sums, np.cumsum(at_rank, axis=1)[:, :n_ranks]])


def _thresholds(genuine: Array) -> Array:
    """Distances of pairs of one class at levels of the false non-match rate, small ones as exactly as large ones."""
    n = len(genuine)
    if not n:
        return genuine
    beyond = np.concatenate([np.geomspace(1, n, _LEVELS), np.linspace(1, n, _LEVELS)]).round().astype(np.intp)
    return np.unique(genuine[n - beyond])
