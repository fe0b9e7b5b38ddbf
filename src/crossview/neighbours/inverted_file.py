"""Approximate nearest neighbours on the CPU: an inverted file, searched by faiss.

Samples are kept in lists, one per centroid of a coarse k-means clustering, and a search visits the lists whose
centroids are nearest to the query. With lists of constant size, the time of a search hardly depends on the number of
samples. Of the libraries compared in ``benchmarks/neighbours.md``, this index of faiss is the quickest to build and to
search, can be restricted to the samples of a class, takes new samples without rebuilding, and is made of plain arrays:
a stored index never makes faiss parse foreign bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array, Indices
from crossview.neighbours.arrays import GrowingArray, chunks
from crossview.neighbours.distances import unit_rows

N_PROBES = 64
"""Lists that a search visits by default."""

_LIST_SIZE = 128  # samples per list: fewer make finding the lists, more make searching them the larger part
_MAX_LISTS = 1 << 14  # from two million samples on, lists grow instead, and training takes constant time
_TRAINING_SAMPLES = 16  # per list: more, or more iterations, hardly improve the search
_ITERATIONS = 3  # of k-means
_ORDINARY = 0.99  # share of the samples whose coordinates are 1 at most; others are outliers
_FAR = 1e4  # coordinates of outliers are cut off here, so that they fit into half precision


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
        kmeans.train(np.clip(sample / scale, -_FAR, _FAR).astype(np.float32))
        return cls(kmeans.centroids, origin, scale, metric)

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]], X: Array, metric: str = "euclidean") -> InvertedFile:
        """Restore an index from its `state` and its samples, without searching for their lists again."""
        check_state(state, X.shape)
        index = cls(state["centroids"], state["origin"], float(state["scale"]), metric)
        index.add(X, state["lists"])
        return index

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that, together with the samples, make up the index."""
        scale = np.array(self.scale)
        return {"centroids": self.centroids, "origin": self.origin, "scale": scale, "lists": self.lists}

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
        return np.ascontiguousarray(np.clip((X - self.origin) / self.scale, -_FAR, _FAR), dtype=np.float32)


def load_faiss() -> ModuleType:
    """Import faiss."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("approximate neighbours need faiss: pip install 'crossview[approximate]'.") from error
    module: ModuleType = faiss
    return module
