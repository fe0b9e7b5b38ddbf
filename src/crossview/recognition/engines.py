"""Search for the nearest enrolled samples: exactly, by an approximate index, or on a device.

An engine keeps what it needs to know about the samples besides the samples themselves, which are passed to each call.
It never changes, so any number of threads may search; `extended` gives another engine for these and further samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np

from crossview._backend import concatenate, to_device
from crossview._progress import report
from crossview._types import Array, Indices, Rows
from crossview.distances import distances_in_chunks, nearest, nearest_tensors
from crossview.graphs.approximate import InvertedFile, list_count
from crossview.recognition.arrays import GrowingArray, batches

_TILE = 1 << 20  # distances held at a time
_PROBES = 256  # compared with a tile of the gallery at a time
_BATCH = 1 << 12  # probes whose candidates are held at a time
_PAIRS = 1 << 16  # distances computed from differences at a time
_SAFE = 2.0**300  # squares of larger values, and of smaller ones than its inverse, may overflow or vanish
_FIRST = 1 << 10  # samples whose mean is the origin
_FAR = 1e3  # distance of the samples from zero, in units of their spread, up to which products are accurate

_QUERIES, _NEIGHBOURS = 200, 10  # of the sample that recall is measured on
_RECALL = 0.99  # wanted
_LOW_RECALL = 0.95
_GROWTH = 4  # lists are kept until there should be this many times more
_FIRST_LISTS = 8
MOST_LISTS = 1024
"""Lists that a search visits at most."""


class ExactSearch:
    """Compare probes with all samples.

    Products of matrices give distances up to rounding. Those that may belong to the nearest samples are then computed
    from differences, so the order of close samples, and of ties, does not depend on how the products are rounded.
    """

    def __init__(self, metric: str) -> None:
        self.metric, self.size = metric, 0
        self._norms = GrowingArray(np.empty(0))  # squares of distances from the origin, or lengths for cosines
        self._origin: Any = None
        self._largest = self._total = self._longest = 0.0

    def extended(self, samples: Array) -> ExactSearch:
        """The engine for these samples, of which it knows the first ones."""
        # The origin depends on the samples alone, not on how they came: a gallery from a file gives the same answers.
        new = copy(self) if self.size >= _FIRST else ExactSearch(self.metric)
        start, new.size = new.size, len(samples)
        if not start:
            new._origin = samples[:_FIRST].mean(axis=0) * (self.metric == "euclidean")
        for rows in batches(len(samples) - start, _PAIRS):
            X = samples[start:][rows]
            centred = X - new._origin
            lengths = _lengths(X)
            with np.errstate(over="ignore"):
                squares = np.einsum("ij,ij->i", centred, centred)
                new._total += float(squares.sum())
            new._longest = max(new._longest, float(lengths.max()))
            new._largest = max(new._largest, float(np.abs(centred).max()))
            new._norms = new._norms.extended(squares if self.metric == "euclidean" else np.where(lengths, lengths, 1.0))
        return new

    def is_regular(self, probes: Array) -> bool:
        """Whether products give distances that are accurate enough to tell candidates."""
        largest = max(self._largest, float(np.abs(probes - self._origin).max()))
        if not 1 / _SAFE < largest < _SAFE:
            return False
        if self.metric == "cosine":  # lengths may differ
            lengths = np.concatenate([self._norms.values, np.abs(probes).max(axis=1)])
            return bool(lengths[lengths > 0].min() > 1 / _SAFE)
        return bool(np.linalg.norm(self._origin) <= _FAR * np.sqrt(self._total / len(self._norms)))

    def nearest(self, samples: Array, probes: Array, k: int) -> tuple[Array, Indices]:
        """Distances and rows of the k nearest samples, (t, k), nearest first; ties in the order of the samples."""
        if not self.is_regular(probes):
            return nearest(distances_in_chunks(samples, probes, self.metric), k)
        parts = []
        for rows in batches(len(probes), _PROBES):
            parts.append(self._nearest(samples, probes[rows], k))
            report(rows.stop - rows.start)
        distances, found = (np.concatenate(part) for part in zip(*parts, strict=True))
        return distances, found

    def class_distances(
        self, samples: Array, codes: Indices, n_classes: int, probes: Array
    ) -> Iterator[tuple[slice, Array]]:
        """Distances to the nearest sample of every class, (probes, classes), for some probes at a time."""
        regular = self.is_regular(probes)
        for rows in batches(len(probes), max(1, min(_PROBES, 4 * _TILE // n_classes))):
            smallest = np.full((rows.stop - rows.start, n_classes), np.inf)
            if regular:
                for tile, keys in self._tiles(samples, probes[rows]):
                    for line, of_probe in zip(smallest, keys, strict=True):
                        np.minimum.at(line, codes[tile], of_probe)
                yield rows, self._lengths(probes[rows], smallest)
            else:
                for some, block in distances_in_chunks(samples, probes[rows], self.metric):
                    for line, of_probe in zip(smallest[some], block, strict=True):
                        np.minimum.at(line, codes, of_probe)
                yield rows, smallest
            report(rows.stop - rows.start)

    def _nearest(self, samples: Array, probes: Array, k: int) -> tuple[Array, Indices]:
        bound, found = np.full(len(probes), np.inf), []
        margin = self._margin(probes)
        for tile, keys in self._tiles(samples, probes, least=k):
            bound = np.minimum(bound, _upper_bound(keys, k))
            rows, columns = np.nonzero(keys <= (bound + margin)[:, None])
            found.append((rows, columns + tile.start, keys[rows, columns]))
        rows, columns, candidates = (np.concatenate(part) for part in zip(*found, strict=True))
        kept = candidates <= (bound + margin)[rows]
        rows, columns = rows[kept], columns[kept]
        distances = pair_distances(samples, probes, columns, rows, self.metric)
        order = np.lexsort((columns, distances, rows))
        first = order[np.searchsorted(rows[order], np.arange(len(probes)))[:, None] + np.arange(k)]
        return distances[first], columns[first]

    def _tiles(self, samples: Array, probes: Array, least: int = 1) -> Iterator[tuple[slice, Array]]:
        """Keys that order some samples at a time as their distances do, (probes, samples), after these samples."""
        factors = -2.0 * (probes - self._origin) if self.metric == "euclidean" else -_unit(probes)
        for tile in batches(len(samples), max(least, _TILE // len(probes))):
            keys = factors @ samples[tile].T
            if self.metric == "euclidean":
                keys += self._norms.values[tile]
            else:
                keys /= self._norms.values[tile]
            yield tile, keys

    def _lengths(self, probes: Array, keys: Array) -> Array:
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
        lengths = np.linalg.norm(probes - self._origin, axis=1)
        margin: Array = unit * (lengths * self._longest + self._norms.values.max())
        return margin


class ApproximateSearch:
    """Ask an inverted file for candidates, and compute their distances exactly.

    The number of lists that a search visits is the smallest power of two that finds 99 % of the nearest samples, as
    measured on samples of the gallery. `recall` is the share found. Extensions share the file, in which an engine
    ignores what it does not know.
    """

    def __init__(self, metric: str, index: InvertedFile, n_probes: int, recall: float, n_measured: int) -> None:
        self.metric, self.index, self.size = metric, index, len(index)
        self.n_probes, self.recall, self._n_measured = n_probes, recall, n_measured

    @classmethod
    def build(cls, samples: Array, exact: ExactSearch) -> ApproximateSearch:
        """Index samples, and measure the recall."""
        report(now=f"clustering {len(samples):,} samples")
        found = cls(exact.metric, InvertedFile.train(_rows(samples, exact.metric)), 1, 1.0, 0)
        return found.extended(samples, exact)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], samples: Array) -> ApproximateSearch:
        """Restore what `state` describes."""
        metric = str(state["metric"])
        index = InvertedFile.from_state(state, _rows(samples[: len(state["lists"])], metric))
        return cls(metric, index, int(state["n_probes"]), float(state["recall"]), int(state["n_measured"]))

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
        for rows in batches(len(new), _PAIRS):
            self.index.add(_rows(new[rows], self.metric))
            report(rows.stop - rows.start)
        found.size = len(samples)
        if len(samples) >= 2 * self._n_measured:
            found._measure(samples, exact)
        return found

    def nearest(self, samples: Array, probes: Array, k: int, exact: ExactSearch) -> tuple[Array, Indices]:
        """As `ExactSearch.nearest`, but a sample may be missed."""
        parts = []
        for rows in batches(len(probes), _BATCH):
            parts.append(self._nearest(samples, probes[rows], k, self.n_probes))
            report(rows.stop - rows.start)
        distances, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        short = np.flatnonzero(columns[:, -1] < 0)  # the lists that were visited hold too few samples
        if len(short):
            distances[short], columns[short] = exact.nearest(samples, probes[short], k)
        return distances, columns

    def _nearest(self, samples: Array, probes: Array, k: int, n_probes: int) -> tuple[Array, Indices]:
        """As above, padded with -1."""
        n_candidates = min(len(samples), k + k // 4 + 8)  # in single precision, the order of close ones is uncertain
        candidates, _ = self.index.search(_rows(probes, self.metric), n_candidates, n_probes=n_probes)
        candidates[candidates >= self.size] = -1
        rows, places = np.nonzero(candidates >= 0)
        distances = np.full(candidates.shape, np.inf)
        columns = candidates[rows, places]
        distances[rows, places] = pair_distances(samples, probes, columns, rows, self.metric)
        order = np.lexsort((candidates, distances))[:, :k]
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)

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
            found = self._nearest(samples, samples[rows], k, self.n_probes)[0]
            # Of samples at the same distance, any will do. One hit, the sample itself, does not count.
            self.recall = float(((found <= bound).sum() - len(rows)) / (len(rows) * (k - 1)))
            if self.recall >= _RECALL or self.n_probes >= min(MOST_LISTS, len(self.index.centroids)):
                break
            self.n_probes *= 2
        if self.recall < _LOW_RECALL:
            warnings.warn(
                f"approximate search finds only {self.recall:.0%} of the nearest samples of the gallery: use "
                "neighbours='exact'.",
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


class _UnitRows:
    """Rows scaled to unit length when they are taken, so that there is no second copy of all of them."""

    def __init__(self, X: Array) -> None:
        self._X, self.shape = X, X.shape

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, rows: Any) -> Array:
        return _unit(self._X[rows])


def _rows(X: Array, metric: str) -> Any:
    """Rows whose Euclidean distances have the order of the distances of X."""
    return _UnitRows(X) if metric == "cosine" else X


def _unit(X: Array) -> Array:
    """Rows scaled to unit length; zero stays zero."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    scaled: Array = X / np.where(largest, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(lengths, lengths, 1.0)


def _lengths(X: Array) -> Array:
    """Lengths of rows, however small or large."""
    largest = np.abs(X).max(axis=1)
    lengths: Array = largest * np.linalg.norm(X / np.where(largest, largest, 1.0)[:, None], axis=1)
    return lengths


def pair_distances(samples: Array, probes: Array, columns: Indices, rows: Indices, metric: str) -> Array:
    """Distances between the samples `columns` and the probes `rows`, pair by pair."""
    distances = np.empty(len(rows))
    for pairs in batches(len(rows), _PAIRS):
        X, Y = samples[columns[pairs]], probes[rows[pairs]]
        if metric == "euclidean":
            Z = X - Y
            distances[pairs] = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        else:
            distances[pairs] = np.clip(1.0 - np.einsum("ij,ij->i", _unit(X), _unit(Y)), 0.0, 2.0)
    return distances


def _upper_bound(keys: Array, k: int) -> Any:
    """A bound on the k-th smallest key of every row: the k-th smallest of the minima of k groups or more."""
    n = keys.shape[1]
    if n < k:
        return np.inf
    starts = np.arange(0, n, max(1, min(64, n // k)))
    return np.partition(np.minimum.reduceat(keys, starts, axis=1), k - 1, axis=1)[:, k - 1]
