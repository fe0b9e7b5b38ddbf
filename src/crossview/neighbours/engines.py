"""Search for the nearest samples of a gallery: exactly, by an approximate index, or on a device.

An engine keeps what it needs to know about the samples besides the samples themselves, which are passed to each call.
It never changes, so any number of threads may search; `extended` gives another engine for these and further samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np

from crossview._progress import report
from crossview._types import Array, Indices, Rows
from crossview.engines import concatenate, squared_norms, to_device, to_numpy
from crossview.neighbours.arrays import GrowingArray, chunks
from crossview.neighbours.distances import (
    SAFE_EXPONENT,
    centre_and_scale,
    check_metric,
    pair_distances,
    propose,
    rank_pairs,
    rank_tables,
    table_distances,
    unit_rows,
)
from crossview.neighbours.inverted_file import InvertedFile, list_count

_PROBES = 256  # compared with a tile of the gallery at a time
_BATCH = 1 << 12  # whose candidates are held at a time
_FIRST = 1 << 10  # samples whose mean is the origin
_FAR = 1e3  # distance of the samples from zero, in units of their spread, up to which products are accurate
_SAFE = 2.0**SAFE_EXPONENT

_QUERIES, _NEIGHBOURS = 200, 10  # of the sample that recall is measured on
_RECALL = 0.99  # wanted
_LOW_RECALL = 0.95
_GROWTH = 4  # lists are kept until there should be this many times more
_FIRST_LISTS = 8
MOST_LISTS = 1024
"""Lists that a search visits at most."""


class ExactSearch:
    """Compare probes with all samples, as `crossview.neighbours` describes."""

    def __init__(self, metric: str) -> None:
        self.metric, self.size = metric, 0
        self._origin: Any = None
        self._offset = 0.0  # of the origin from zero
        self._norms = GrowingArray(np.empty(0))  # squares of distances from the origin, or lengths for cosines
        self._smallest, self._largest, self._total = np.inf, 0.0, 0.0  # of them

    def extended(self, samples: Array) -> ExactSearch:
        """The engine for these samples, of which it knows the first ones."""
        # The origin depends on the samples alone, not on how they came: a gallery from a file gives the same answers.
        new = copy(self) if self.size >= _FIRST else ExactSearch(self.metric)
        start, new.size = new.size, len(samples)
        if not start:
            new._origin = samples[:_FIRST].mean(axis=0) * (self.metric == "euclidean")
            new._offset = float(new._origin @ unit_rows(new._origin[None])[0])
        for rows in chunks(len(samples) - start, 2 * samples.shape[1]):
            X = samples[start:][rows]
            with np.errstate(over="ignore"):
                if self.metric == "euclidean":
                    norms = squared_norms(X - new._origin)
                else:
                    lengths = np.einsum("ij,ij->i", X, unit_rows(X))
                    norms = np.where(lengths, lengths, 1.0)
                new._total += float(norms.sum())
            new._norms = new._norms.extended(norms)
            new._smallest, new._largest = min(new._smallest, norms.min()), max(new._largest, norms.max())
        return new

    def nearest(self, samples: Array, probes: Array, k: int) -> tuple[Array, Indices]:
        """Distances and rows of the k nearest samples, (t, k), nearest first; ties in the order of the samples."""
        engine, samples, probes, exponent = self._regular(samples, probes)
        parts = []
        for rows in chunks(len(probes), 1, most=_PROBES):
            parts.append(engine._nearest(samples, probes[rows], k))
            report(rows.stop - rows.start)
        distances, found = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.ldexp(distances, exponent) if exponent else distances, found

    def class_distances(
        self, samples: Array, codes: Indices, n_classes: int, probes: Array
    ) -> Iterator[tuple[slice, Array]]:
        """Distances to the nearest sample of every class, (probes, classes), for some probes at a time."""
        engine, samples, probes, exponent = self._regular(samples, probes)
        for rows in chunks(len(probes), n_classes, most=_PROBES):
            smallest = np.full((rows.stop - rows.start, n_classes), np.inf)
            for tile, keys in engine._tiles(samples, probes[rows]):
                for line, of_probe in zip(smallest, keys, strict=True):
                    np.minimum.at(line, codes[tile], of_probe)
            distances = engine._distances(probes[rows], smallest)
            yield rows, np.ldexp(distances, exponent) if exponent else distances
            report(rows.stop - rows.start)

    def _nearest(self, samples: Array, probes: Array, k: int) -> tuple[Array, Indices]:
        margin = self._margin(probes)
        rows, columns, _ = propose(self._tiles(samples, probes, least=k), k, lambda bound: margin)
        distances = pair_distances(samples, probes, columns, rows, self.metric)
        return rank_pairs(rows, columns, distances, len(probes), k)

    def _regular(self, samples: Array, probes: Array) -> tuple[ExactSearch, Array, Array, int]:
        """An engine for which products are accurate, with its samples and probes, as `centre_and_scale` gives them."""
        if self._is_regular(probes):
            return self, samples, probes, 0
        (samples, probes), exponent = centre_and_scale([samples, probes], self.metric)
        return ExactSearch(self.metric).extended(samples), samples, probes, exponent

    def _is_regular(self, probes: Array) -> bool:
        """Whether products give distances that are accurate enough to find candidates."""
        if self.metric == "cosine":  # lengths may differ
            lengths = np.abs(probes).max(axis=1)
            shortest = lengths.min(where=lengths > 0, initial=self._smallest)
            return bool(shortest > 1 / _SAFE and max(self._largest, lengths.max()) < _SAFE)
        largest = max(np.sqrt(self._largest), np.abs(probes - self._origin).max())
        far = self._offset > _FAR * np.sqrt(self._total / self.size)
        return bool(1 / _SAFE < largest < _SAFE and not far)

    def _tiles(self, samples: Array, probes: Array, least: int = 1) -> Iterator[tuple[slice, Array]]:
        """Keys that order some samples at a time as their distances do, (probes, samples), after these samples."""
        factors = -2.0 * (probes - self._origin) if self.metric == "euclidean" else -unit_rows(probes)
        for tile in chunks(len(samples), 4 * len(probes), least=least):
            keys = factors @ samples[tile].T
            if self.metric == "euclidean":
                keys += self._norms.values[tile]
            else:
                keys /= self._norms.values[tile]
            yield tile, keys

    def _distances(self, probes: Array, keys: Array) -> Array:
        """Distances from keys."""
        if self.metric == "cosine":
            return np.clip(1.0 + keys, 0.0, 2.0)
        centred = probes - self._origin
        # As products are with samples that are not centred, the origin is subtracted here.
        squares = keys + np.einsum("ij,ij->i", centred, centred + 2.0 * self._origin)[:, None]
        distances: Array = np.sqrt(np.maximum(squares, 0.0))
        return distances

    def _margin(self, probes: Array) -> Array:
        """Twice the rounding error of the keys of every probe."""
        unit = 4.0 * (probes.shape[1] + 8) * np.finfo(np.float64).eps
        if self.metric == "cosine":
            return np.full(len(probes), unit)
        reach = np.sqrt(self._largest)
        margin: Array = unit * (np.linalg.norm(probes - self._origin, axis=1) * (self._offset + reach) + self._largest)
        return margin


class ApproximateSearch:
    """Ask an inverted file for candidates, and compute their distances exactly.

    The number of lists that a search visits is the smallest power of two that finds 99 % of the nearest samples, as
    measured on samples of the gallery. `recall` is the share found. Extensions share the file, in which an engine
    ignores what it does not know.
    """

    def __init__(self, index: InvertedFile, n_probes: int, recall: float, n_measured: int) -> None:
        self.metric, self.index, self.size = index.metric, index, len(index)
        self.n_probes, self.recall, self._n_measured = n_probes, recall, n_measured

    @classmethod
    def build(cls, samples: Array, exact: ExactSearch) -> ApproximateSearch:
        """Index samples, and measure the recall."""
        report(now=f"clustering {len(samples):,} samples")
        found = cls(InvertedFile.train(samples, exact.metric), 1, 1.0, 0)
        return found.extended(samples, exact)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], samples: Array) -> ApproximateSearch:
        """Restore what `state` describes."""
        index = InvertedFile.from_state(state, samples[: len(state["lists"])], str(state["metric"]))
        return cls(index, int(state["n_probes"]), float(state["recall"]), int(state["n_measured"]))

    @property
    def state(self) -> dict[str, Any]:
        """Plain arrays and numbers that, together with the samples, make up the index."""
        parts = {**self.index.state, "lists": self.index.lists[: self.size], "scale": float(self.index.scale)}
        measured = {"n_probes": self.n_probes, "recall": self.recall, "n_measured": self._n_measured}
        return {**parts, "metric": self.metric, **measured}

    def extended(self, samples: Array, exact: ExactSearch) -> ApproximateSearch:
        """The index with new samples at the end, or a new one if their number has become a multiple."""
        # There are other samples in the index if an enrolment has failed after they were added.
        if list_count(len(samples)) >= _GROWTH * len(self.index.centroids) or len(self.index) > self.size:
            return ApproximateSearch.build(samples, exact)
        found, new = copy(self), samples[self.size :]
        report(more=len(new), now="adding samples to the index")
        for rows in chunks(len(new), new.shape[1]):
            self.index.add(new[rows])
            report(rows.stop - rows.start)
        found.size = len(samples)
        if len(samples) >= 2 * self._n_measured:
            found._measure(samples, exact)
        return found

    def nearest(self, samples: Array, probes: Array, k: int, exact: ExactSearch) -> tuple[Array, Indices]:
        """As `ExactSearch.nearest`, but a sample may be missed."""
        distances, columns = self._candidates(samples, probes, k)
        short = np.flatnonzero(columns[:, -1] < 0)  # the lists that were visited hold too few samples
        if len(short):
            distances[short], columns[short] = exact.nearest(samples, probes[short], k)
        return distances, columns

    def _candidates(self, samples: Array, probes: Array, k: int) -> tuple[Array, Indices]:
        """The k nearest that the index finds, padded with infinity and -1."""
        n_candidates = min(len(samples), k + k // 4 + 8)  # in single precision, the order of close ones is uncertain
        distances, columns = np.empty((len(probes), k)), np.empty((len(probes), k), dtype=np.intp)
        for rows in chunks(len(probes), n_candidates, most=_BATCH):
            table = self.index.search(probes[rows], n_candidates, n_probes=self.n_probes)
            table[table >= self.size] = -1
            found = table_distances(samples, probes[rows], table, self.metric)
            distances[rows], columns[rows] = rank_tables(found, table, k)
            report(rows.stop - rows.start)
        return distances, columns

    def _measure(self, samples: Array, exact: ExactSearch) -> None:
        """Choose the number of lists to visit, and measure the recall among the nearest other samples."""
        self._n_measured = len(samples)
        if len(samples) < 2:
            return
        report(now="measuring the recall")
        rows = np.random.default_rng(0).choice(len(samples), min(_QUERIES, len(samples)), replace=False)
        k = min(_NEIGHBOURS + 1, len(samples))
        bound = exact.nearest(samples, samples[rows], k)[0][:, -1:]
        self.n_probes = _FIRST_LISTS
        while True:
            found = self._candidates(samples, samples[rows], k)[0]
            # Of samples at the same distance, any will do. One hit, the sample itself, does not count.
            self.recall = float(((found <= bound).sum() - len(rows)) / (len(rows) * (k - 1)))
            if self.recall >= _RECALL or self.n_probes >= min(MOST_LISTS, len(self.index.centroids)):
                break
            self.n_probes *= 2
        if self.recall < _LOW_RECALL:
            warnings.warn(
                f"approximate search finds only {self.recall:.0%} of the nearest samples of the gallery: use "
                "algorithm='exact'.",
                UserWarning,
                stacklevel=2,
            )


class TensorSearch:
    """Compare probes with all samples on a device; answers are exact."""

    def __init__(self, metric: str, device: Any) -> None:
        self.metric, self.device, self.size = metric, device, 0
        self._samples: Rows = None

    def extended(self, samples: Array) -> TensorSearch:
        """As `ExactSearch.extended`."""
        new, added = copy(self), to_device(samples[self.size :], self.device)
        new.size, new._samples = len(samples), concatenate(self._samples, added) if self.size else added
        return new

    def nearest(self, samples: Array, probes: Rows, k: int) -> tuple[Array, Indices]:
        """As `ExactSearch.nearest`."""
        return nearest_tensors(self._samples, to_device(probes, self.device), k, self.metric)


def nearest_tensors(gallery: Rows, probes: Rows, k: int, metric: str) -> tuple[Array, Indices]:
    """Distances and rows of the k nearest samples in a gallery, for torch tensors on one device; as NumPy arrays."""
    from crossview.neighbours.tensors import nearest

    check_metric(metric)
    lengths = [X.abs().amax(dim=1) for X in (gallery, probes)]
    longest, shortest = (max(float(x.max()) for x in lengths), min(float(x.min()) for x in lengths))
    if longest >= _SAFE or (metric == "cosine" and shortest <= 1 / _SAFE):
        # Squares may overflow, or a length may be 0: rare enough to be left to NumPy.
        samples = to_numpy(gallery)
        return ExactSearch(metric).extended(samples).nearest(samples, to_numpy(probes), k)
    if metric == "euclidean":
        squares, rows = nearest(probes, gallery, k)
        return np.sqrt(to_numpy(squares)), to_numpy(rows)
    # Between samples of unit length, half the square of the Euclidean distance.
    units = [X.double() / X.double().norm(dim=1, keepdim=True) for X in (probes, gallery)]
    squares, rows = nearest(units[0], units[1], k)
    return 0.5 * to_numpy(squares), to_numpy(rows)
