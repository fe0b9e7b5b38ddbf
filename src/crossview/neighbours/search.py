"""Search for the nearest samples of a gallery: exactly, by an approximate index, or on a device.

An engine keeps what it needs to know about the samples besides the samples themselves, which are passed to each call.
It never changes, so any number of threads may search; `extended` gives another engine for these and further samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._progress import report
from crossview._types import Array, Indices, Rows
from crossview.engines import concatenate, squared_norms, to_device, to_numpy, unit_rows
from crossview.neighbours.distances import (
    SAFE_EXPONENT,
    centre_and_scale,
    check_metric,
    chunks,
    nearest_of_tiles,
    rank_tables,
    table_distances,
)

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

N_PROBES = 64
"""Lists that a search visits by default."""

_LIST_SIZE = 128  # samples per list: fewer make finding the lists, more make searching them the larger part
_MAX_LISTS = 1 << 14  # from two million samples on, lists grow instead, and training takes constant time
_TRAINING_SAMPLES = 16  # per list: more, or more iterations, hardly improve the search
_ITERATIONS = 3  # of k-means
_ORDINARY = 0.99  # share of the samples whose coordinates are 1 at most; others are outliers
_CUT_OFF = 1e4  # coordinates of outliers are cut off here, so that they fit into half precision


class GrowingArray:
    """An array that can be extended, in time that is linear overall.

    `values` is the beginning of a larger buffer, which its extensions share, so only the latest one may be extended.
    Texts become wider as needed.

    Examples
    --------
    >>> names = GrowingArray(np.array(["ada"]))
    >>> names.extended(np.array(["grace"])).values
    array(['ada', 'grace'], dtype='<U5')
    """

    def __init__(self, values: NDArray[Any], buffer: NDArray[Any] | None = None) -> None:
        self.values, self._buffer = values, values if buffer is None else buffer

    def __len__(self) -> int:
        return len(self.values)

    def extended(self, rows: NDArray[Any]) -> GrowingArray:
        """The array with rows added at the end."""
        held, size, buffer = len(self.values), len(self.values) + len(rows), self._buffer
        dtype = np.promote_types(buffer.dtype, rows.dtype)
        if size > len(buffer) or dtype != buffer.dtype:
            # What is not filled yet takes addresses, but no memory.
            buffer = np.empty((max(size, held + held // 2), *rows.shape[1:]), dtype)
            buffer[:held] = self.values
        buffer[held:size] = rows
        return GrowingArray(buffer[:size], buffer)


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
        distances, found = np.empty((len(probes), k)), np.empty((len(probes), k), dtype=np.intp)
        for rows in chunks(len(probes), 1, most=_PROBES):
            some = probes[rows]
            tiles, margin = engine._tiles(samples, some, least=k), partial(engine._margin, some)
            distances[rows], found[rows] = nearest_of_tiles(tiles, k, margin, samples, some, self.metric)
            report(rows.stop - rows.start)
        return np.ldexp(distances, exponent), found

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
            yield rows, np.ldexp(distances, exponent)
            report(rows.stop - rows.start)

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

    def _margin(self, probes: Array, keys: Any) -> Array:
        """Twice the rounding error of the keys of every probe, however large they are."""
        unit = 4.0 * (probes.shape[1] + 8) * np.finfo(np.float64).eps
        if self.metric == "cosine":
            return np.full(len(probes), unit)
        reach = np.sqrt(self._largest)
        margin: Array = unit * (np.linalg.norm(probes - self._origin, axis=1) * (self._offset + reach) + self._largest)
        return margin


def is_installed() -> bool:
    """Whether faiss can be imported."""
    return find_spec("faiss") is not None


def list_count(n_samples: int) -> int:
    """Number of lists of a new index."""
    return int(np.clip(n_samples // _LIST_SIZE, 1, _MAX_LISTS))


def check_state(state: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> None:
    """Refuse arrays that are no index of samples of this shape. Does not need faiss."""
    centroids, origin, scale, lists = (state[name] for name in ("centroids", "origin", "scale", "lists"))
    shapes = [np.shape(array) for array in (centroids, origin, scale, lists)]
    if centroids.ndim != 2 or shapes[1:] != [centroids.shape[1:], (), shape[:1]] or shape[1:] != origin.shape:
        raise ValueError("the arrays of the neighbour index do not fit together: build it again.")
    finite = np.isfinite(centroids).all() and np.isfinite(origin).all() and np.isfinite(scale) and scale > 0
    if not finite or lists.dtype.kind not in "iu" or np.any((lists < 0) | (lists >= len(centroids))):
        raise ValueError("the neighbour index holds invalid values: build it again.")


class InvertedFile:
    """Index of samples, (m, D), by the nearest of some centroids.

    Samples are numbered from 0 in the order in which they are added; threads may search meanwhile. Inside, they are in
    half precision, relative to the centroids: distances are good enough to propose candidates, not to order close ones.
    For the cosine distance, samples are scaled to unit length. Then `origin`, (D,), is subtracted, and they are divided
    by `scale`. These are the coordinates of the centroids, (n_lists, D).

    Examples
    --------
    >>> import numpy as np
    >>> index = InvertedFile.build(np.arange(1000.0)[:, None])
    >>> index.add(np.array([[5.2]]))
    >>> index.search(np.array([[5.0]]), 3).tolist()
    [[5, 1000, 6]]
    """

    def __init__(self, centroids: Array, origin: Array, scale: float, metric: str = "euclidean") -> None:
        faiss = load_faiss()
        self.metric = metric
        self.centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self.origin = np.asarray(origin, dtype=np.float64)
        self.scale = float(scale)
        self._lock = Lock()
        n_lists, D = self.centroids.shape
        self._lists = GrowingArray(np.empty(0, dtype=np.int32))
        self._sizes = np.zeros(n_lists, dtype=np.int64)
        self._quantiser = faiss.IndexFlatL2(D)
        self._quantiser.add(self.centroids)
        # Differences from the centroids in half precision: half the memory, and less of it to read in a search.
        half = faiss.ScalarQuantizer.QT_fp16
        self._index = faiss.IndexIVFScalarQuantizer(self._quantiser, D, n_lists, half, faiss.METRIC_L2, True)
        self._index.is_trained = True

    @classmethod
    def build(cls, X: Array) -> InvertedFile:
        """Find centroids by k-means on a sample of the rows of X, and add all rows."""
        index = cls.train(X)
        index.add(X)
        return index

    @classmethod
    def train(cls, X: Array, metric: str = "euclidean") -> InvertedFile:
        """Find centroids by k-means on a sample of the rows of X, without adding them."""
        n_lists = list_count(len(X))
        rows = np.random.default_rng(0).permutation(len(X))[: _TRAINING_SAMPLES * n_lists]
        sample = unit_rows(X[np.sort(rows)]) if metric == "cosine" else X[np.sort(rows)]
        origin = np.median(sample, axis=0)
        sample -= origin
        largest = np.abs(sample).max(axis=1)
        scale = float(np.quantile(largest, _ORDINARY)) or float(largest.max()) or 1.0
        kmeans = load_faiss().Kmeans(X.shape[1], n_lists, niter=_ITERATIONS, seed=0, min_points_per_centroid=1)
        kmeans.train(np.clip(sample / scale, -_CUT_OFF, _CUT_OFF).astype(np.float32))
        return cls(kmeans.centroids, origin, scale, metric)

    @property
    def lists(self) -> Indices:
        """List of every sample, (m,)."""
        return self._lists.values

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, X: Array, lists: Indices | None = None) -> None:
        """Append samples, to the lists given or to those of the nearest centroids.

        Centroids stay as they are: build a new index if the samples have become many times more.
        """
        from faiss.contrib.ivf_tools import add_preassigned

        for rows in chunks(len(X), X.shape[1]):
            x = self._single(X[rows])
            nearest = self._quantiser.search(x, 1)[1][:, 0] if lists is None else lists[rows].astype(np.int64)
            with self._lock:
                add_preassigned(self._index, x, nearest)
                self._lists = self._lists.extended(nearest.astype(np.int32))
                self._sizes += np.bincount(nearest, minlength=len(self._sizes))

    def search(
        self,
        queries: Array,
        k: int,
        *,
        n_probes: int = N_PROBES,
        inside: slice | None = None,
        outside: slice | None = None,
    ) -> Indices:
        """Numbers of about the k nearest samples, (q, k), nearest first, padded with -1.

        `inside` or `outside` restricts the search to consecutive samples, or to all others. Only lists that hold such
        samples count as probes, so a query surrounded by samples that are left out still reaches the others.
        """
        found = np.empty((len(queries), k), dtype=np.intp)
        for rows in chunks(len(queries), queries.shape[1]):
            with self._lock:
                params = self._parameters(n_probes, inside, outside)
                found[rows] = self._index.search(self._single(queries[rows]), k, params=params)[1]
        return found

    def _parameters(self, n_probes: int, inside: slice | None, outside: slice | None) -> Any:
        faiss = load_faiss()
        n_probes = min(n_probes, len(self.centroids))
        some = inside or outside
        if some is None:
            return faiss.SearchParametersIVF(nprobe=n_probes)
        selector = faiss.IDSelectorRange(some.start, some.stop)
        counts = np.bincount(self.lists[some], minlength=len(self._sizes))
        if outside is not None:
            excluded, selector, counts = selector, faiss.IDSelectorNot(selector), self._sizes - counts
            selector.excluded = excluded  # old releases of faiss do not keep it alive
        lists = faiss.SearchParameters(sel=faiss.IDSelectorBatch(np.flatnonzero(counts)))
        return faiss.SearchParametersIVF(nprobe=n_probes, sel=selector, quantizer_params=lists)

    def _single(self, X: Array) -> Array:
        X = unit_rows(X) if self.metric == "cosine" else X
        return np.ascontiguousarray(np.clip((X - self.origin) / self.scale, -_CUT_OFF, _CUT_OFF), dtype=np.float32)


def load_faiss() -> ModuleType:
    """Import faiss."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("approximate neighbours need faiss: pip install 'crossview[approximate]'.") from error
    module: ModuleType = faiss
    return module


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
        index = InvertedFile(*(state[name] for name in ("centroids", "origin", "scale", "metric")))
        index.add(samples[: len(state["lists"])], state["lists"])
        return cls(index, *(state[name] for name in ("n_probes", "recall", "n_measured")))

    @property
    def state(self) -> dict[str, Any]:
        """Plain arrays and numbers that, together with the samples, make up the index."""
        of_index = {name: getattr(self.index, name) for name in ("centroids", "origin", "scale", "metric")}
        measured = {"n_probes": self.n_probes, "recall": self.recall, "n_measured": self._n_measured}
        return {**of_index, "lists": self.index.lists[: self.size], **measured}

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
