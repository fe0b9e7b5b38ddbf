"""The gallery of a matcher: enrolled samples with their classes, ids and views, and the search among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from itertools import count, islice
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from crossview._progress import report, reporting
from crossview._schema import Schema, Sizes, number
from crossview._types import Array, Indices, Labels, Mask, Rows
from crossview.engines import is_tensor, to_numpy
from crossview.neighbours.distances import chunks, nearest
from crossview.neighbours.search import (
    MOST_LISTS,
    ApproximateSearch,
    ExactSearch,
    GrowingArray,
    TensorSearch,
    check_state,
    is_installed,
)

_MIN_INDEXED = 200_000  # samples for which "auto" builds an index: a probe takes 10 ms exactly (benchmarks/gallery.md)
_MAX_NEIGHBOURS = 1024  # asked of an index for the sake of their classes
_MIN_REPORTED_SAMPLES = 10_000  # samples that take a while to index
_MIN_REPORTED_PAIRS = 10**9  # pairs of probes and samples that take a while to compare
_CHUNK = 1 << 16  # labels that are Python objects at a time
_ARRAYS_OF_INDEX = {"centroids": np.float32, "origin": np.float64, "lists": np.int32}
_OF_INDEX = {*_ARRAYS_OF_INDEX, "scale", "metric", "n_probes", "recall", "n_measured"}


class SearchOptions(NamedTuple):
    """How to search: the distance, and parameters of the matcher."""

    metric: str
    algorithm: str = "auto"
    device: str | None = None


class Threshold(NamedTuple):
    """Distance beyond which a probe is unknown, if there is one, and the metric and the view of probes it is for."""

    distance: float | None = None
    metric: str | None = None  # None if it is not known: in files of earlier versions
    view: str | None = None

    def check(self, metric: str, view: str | None = None) -> float | None:
        """The distance, unless it is for another metric or for probes of another view."""
        if self.metric not in (None, metric):
            raise ValueError(
                f"the threshold is for metric={self.metric!r}: calibrate again for {metric!r}, or set it back."
            )
        if view is not None and self.view not in (None, view):
            raise ValueError(f"the threshold is for view {self.view!r}: calibrate with probes of view {view!r}.")
        return self.distance


class Gallery:
    """Enrolled samples and the threshold that was set for them, which never change.

    `extended` gives another gallery, in time in proportion to what is added, on average. It shares memory with this
    one, so only the latest may be extended, by one thread at a time; any number of threads may search all of them.

    Parameters
    ----------
    samples : array of shape (g, d)
        In the common space.
    labels, ids, views : array of shape (g,)
        Their classes, ids, and names of their views.
    index : mapping, optional
        State of an approximate index of the samples.
    """

    def __init__(
        self, samples: Array, labels: Labels, ids: Labels, views: Labels, index: Mapping[str, Any] | None = None
    ) -> None:
        self._samples, self._ids = GrowingArray(samples), GrowingArray(ids)
        self._classes, self._views = _Codes(labels).extended(labels), _Codes(views).extended(views)
        self._taken: dict[str, set[str]] = {}  # ids by view, once they are needed
        self._added = "", ids[:0]  # the view and the ids of the last extension
        self._engines: dict[tuple[str, str | None], Any] = {}  # by metric and device
        self._index: ApproximateSearch | None = None
        self._index_state = index  # until the index is needed
        self._lock = RLock()  # of the engines
        self.threshold = Threshold()

    @classmethod
    def of_view(cls, samples: Array, labels: Labels, ids: ArrayLike | None, view: str) -> Gallery:
        """A gallery of samples of one view."""
        nothing = np.empty(0, dtype="U1")
        return cls(samples[:0], labels[:0], nothing, nothing).extended(samples, labels, ids, view)

    def extended(self, samples: Array, labels: Labels, ids: ArrayLike | None, view: str) -> Gallery:
        """The gallery with samples of a view added, and without a threshold, which depends on the samples."""
        new, taken = copy(self), self._ids_taken(view)
        names = _free_numbers(taken, len(samples)) if ids is None else _check_ids(ids, len(samples), taken, view)
        new._added = view, names
        new._samples, new._ids = self._samples.extended(samples), self._ids.extended(names)
        new._classes, new._views = self._classes.extended(labels), self._views.extended(np.full(len(samples), view))
        new._engines, new._lock, new.threshold = dict(self._engines), RLock(), Threshold()
        return new

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Gallery:
        """The gallery that `state` describes; files of earlier versions lack some of it."""
        parts: list[Any] = [state.get(name) for name in PARTS]
        return cls(*parts[:5]).calibrated(*parts[5:])

    @property
    def state(self) -> dict[str, Any]:
        """The gallery as plain values."""
        parts = self.samples, self.labels, self.ids, self.views, self.index_state, *self.threshold
        return dict(zip(PARTS, parts, strict=True))

    def calibrated(self, *threshold: Any) -> Gallery:
        """The same gallery with a threshold."""
        new = copy(self)
        new.threshold = Threshold(*threshold)
        return new

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def samples(self) -> Array:
        """Enrolled samples, (g, d)."""
        return self._samples.values

    @property
    def ids(self) -> Labels:
        """Their ids, (g,)."""
        return self._ids.values

    @property
    def labels(self) -> Labels:
        """Their classes, (g,)."""
        return self._classes.values

    @property
    def views(self) -> Labels:
        """Names of their views, (g,)."""
        return self._views.values

    @property
    def classes(self) -> Labels:
        """The classes, in sorted order."""
        return self._classes.unique[0]

    @property
    def n_classes(self) -> int:
        """Their number, known without sorting them."""
        return len(self._classes.names)

    def vote(self, rows: Indices) -> Labels:
        """The class of most samples in every row of a table, (t, k); of classes with as many, the first."""
        codes = self._classes.codes[rows]
        votes = sum(codes == column[:, None] for column in codes.T)  # as many numbers at a time as there are distances
        return np.asarray(self._classes.names[codes[np.arange(len(codes)), np.argmax(votes, axis=1)]])

    def enrolled(self, labels: Labels) -> Mask:
        """Which labels are classes of the gallery."""
        return self._classes.contains(labels)

    def unknown_label(self, wanted: Any) -> Any:
        """The label of probes of no class: the one wanted, or else the usual one."""
        default = "unknown" if self.classes.dtype.kind == "U" else -1
        unknown = default if wanted is None else wanted
        if self.enrolled(np.array([unknown])).any():
            raise ValueError(f"unknown_label={unknown!r} is also a class: choose another label, or rename the class.")
        return unknown

    def _ids_taken(self, view: str) -> set[str]:
        """The ids of a view. An extension adds its own only when it is extended in turn: it may have been given up."""
        if self._added[0] in self._taken:
            self._taken[self._added[0]].update(self._added[1].tolist())
        if view not in self._taken:
            self._taken[view] = set(self.ids[self.views == view].tolist())
        return self._taken[view]

    @property
    def index_state(self) -> Mapping[str, Any] | None:
        """State of the approximate index, if there is one."""
        return self._index_state if self._index is None else self._index.state

    @property
    def recall(self) -> float:
        """Share of the nearest samples that searches find; 1 if there is no index."""
        state = self.index_state
        return 1.0 if state is None else float(state["recall"])

    def prepare(self, options: SearchOptions) -> None:
        """Make ready what searches need: the index if they are to use one, which is dropped otherwise."""
        if self._is_approximate(options):
            n_new = len(self) - (0 if self._index is None else self._index.size)
            with reporting("Indexing the gallery") if n_new >= _MIN_REPORTED_SAMPLES else nullcontext():
                self._approximate(options.metric)
        else:
            self._index = self._index_state = None
            self._engine(options.metric, options.device)

    def reporting(self, n_probes: int) -> AbstractContextManager[None]:
        """Report on the progress of searches in this context if they may take seconds."""
        long = n_probes * len(self) >= _MIN_REPORTED_PAIRS
        return reporting("Searching the gallery", unit="probes") if long else nullcontext()

    def nearest(self, probes: Rows, k: int, options: SearchOptions) -> tuple[Array, Indices]:
        """Distances and rows of the k nearest samples of every probe, (t, k), nearest first."""
        device = options.device
        if device is None and is_tensor(probes) and probes.device.type != "cpu":
            device = str(probes.device)
        with self.reporting(len(probes)):
            report(more=len(probes))
            if self._is_approximate(options) and (device is None or options.algorithm == "approximate"):
                exact, index = self._engine(options.metric), self._approximate(options.metric)
                return index.nearest(self.samples, to_numpy(probes), k, exact)
            engine: ExactSearch | TensorSearch = self._engine(options.metric, device)
            return engine.nearest(self.samples, to_numpy(probes) if device is None else probes, k)

    def nearest_classes(self, probes: Rows, k: int, options: SearchOptions) -> tuple[Labels, Array]:
        """The k nearest classes of every probe, (t, k), and their distances: those to their nearest samples.

        They are the classes of the nearest samples, in order of appearance. If a probe is surrounded by many samples of
        few classes, it is compared with the whole gallery.
        """
        codes = np.empty((len(probes), k), dtype=np.int32)
        distances = np.empty((len(probes), k))
        left = np.arange(len(probes))
        few = 4 * k + 12
        depths = [few, _MAX_NEIGHBOURS] if self._is_approximate(options) else [few]
        for depth in depths if 4 * k < self.n_classes else ():
            found, rows = self.nearest(probes[left], min(depth, len(self)), options)
            of_classes = self._classes.codes[rows]
            first = _first_occurrences(of_classes)
            enough = first.sum(axis=1) >= k
            chosen = first & (np.cumsum(first, axis=1) <= k) & enough[:, None]
            codes[left[enough]] = of_classes[chosen].reshape(-1, k)
            distances[left[enough]] = found[chosen].reshape(-1, k)
            left = left[~enough]
            if not len(left):
                return self._classes.names[codes], distances
        distances[left], columns = nearest(self.class_distances(probes[left], options), k)
        codes[left] = self._classes.unique[1][columns]
        return self._classes.names[codes], distances

    def class_distances(self, probes: Rows, options: SearchOptions) -> Iterator[tuple[slice, Array]]:
        """Distances to the nearest sample of every class, (probes, classes), for some probes at a time; exact."""
        codes, (classes, order) = self._classes.codes, self._classes.unique
        exact: ExactSearch = self._engine(options.metric)
        with self.reporting(len(probes)):
            report(more=len(probes))
            for rows, block in exact.class_distances(self.samples, codes, len(classes), to_numpy(probes)):
                yield rows, block[:, order]

    def _is_approximate(self, options: SearchOptions) -> bool:
        if options.algorithm == "auto":
            return options.device is None and len(self) >= _MIN_INDEXED and is_installed()
        return options.algorithm == "approximate"

    def _engine(self, metric: str, device: str | None = None) -> Any:
        """What `prepare` makes ready; after loading, or with other parameters, the first search does."""
        key = metric, device
        with self._lock:
            if key not in self._engines:
                self._engines[key] = ExactSearch(metric) if device is None else TensorSearch(metric, device)
            if self._engines[key].size < len(self):
                self._engines[key] = self._engines[key].extended(self.samples)
            return self._engines[key]

    def _approximate(self, metric: str) -> ApproximateSearch:
        with self._lock:
            exact, state, index = self._engine(metric), self._index_state, self._index
            if index is None and state is not None and state["metric"] == metric:
                index = ApproximateSearch.from_state(state, self.samples)
            if index is None or index.metric != metric:
                index = ApproximateSearch.build(self.samples, exact)
            elif index.size < len(self):
                index = index.extended(self.samples, exact)
            self._index, self._index_state = index, None
            return index


class _Codes:
    """Labels as numbers in the order in which they first occur: small, and quick to compare. At first, none."""

    def __init__(self, labels: Labels) -> None:
        self._numbers: dict[Any, int] = {}  # also of labels that extensions have
        self._codes = GrowingArray(np.empty(0, dtype=np.int32))
        self._names = GrowingArray(labels[:0])
        self._unique: tuple[Labels, Indices] | None = None

    def extended(self, labels: Labels) -> _Codes:
        found = copy(self)
        if len(self._numbers) > len(self.names):  # of an extension that was given up
            found._numbers = {name: code for code, name in enumerate(self.names.tolist())}
        numbers = found._numbers
        for rows in chunks(len(labels), 1, most=_CHUNK):
            some = labels[rows]
            codes = np.array([numbers.setdefault(label, len(numbers)) for label in some.tolist()], dtype=np.int32)
            new = np.flatnonzero(codes >= len(found.names))
            found._names = found._names.extended(some[new[np.unique(codes[new], return_index=True)[1]]])
            found._codes = found._codes.extended(codes)
        if len(found.names) > len(self.names) or found.names.dtype != self.names.dtype:
            found._unique = None
        return found

    @property
    def codes(self) -> Indices:
        return self._codes.values

    @property
    def names(self) -> Labels:
        """Labels by code."""
        return self._names.values

    @property
    def unique(self) -> tuple[Labels, Indices]:
        """Labels in sorted order, and their codes."""
        if self._unique is None:
            order = np.argsort(self.names, kind="stable")
            self._unique = self.names[order], order
        return self._unique

    @property
    def values(self) -> Labels:
        """All labels."""
        return self.names[self.codes]

    def contains(self, labels: Labels) -> Mask:
        n = len(self.names)
        return np.array([self._numbers.get(label, n) < n for label in labels.tolist()], dtype=bool)


def _first_occurrences(codes: Indices) -> Mask:
    """Which entries of every row differ from all entries before."""
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    first = np.ones(codes.shape, dtype=bool)
    np.put_along_axis(first, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    return first


def _free_numbers(taken: set[str], n: int) -> Labels:
    """The first n numbers from the number of ids on that are not ids."""
    return np.array(list(islice((name for name in map(str, count(len(taken))) if name not in taken), n)))


def _check_ids(ids: ArrayLike, n: int, taken: set[str], view: str) -> Labels:
    """Ids of n samples of a view, as text."""
    names: Labels = np.asarray(column_or_1d(ids)).astype(str)
    if len(names) != n:
        raise ValueError(f"ids has {len(names)} names for {n} samples: give one per row.")
    listed = names.tolist()
    for name in listed:
        if name in taken:
            fix = "pass replace=True (--replace) to empty the gallery first, or leave it out"
            raise ValueError(f"{name!r} of view {view!r} is already in the gallery: {fix}.")
    if len(set(listed)) < n:
        unique, counts = np.unique(names, return_counts=True)
        raise ValueError(f"ids has {str(unique[counts.argmax()])!r} more than once: every sample needs its own id.")
    return np.array(listed)  # as wide as the longest


def _labels_fit(value: Any, sizes: Sizes, kinds: str = "biufU") -> bool:
    """One label per sample of the gallery."""
    finite = id(value) not in sizes["infinite"]
    return finite and value.dtype.kind in kinds and bool(value.shape == (sizes["g"],))


def _ids_fit(value: Any, sizes: Sizes) -> bool:
    """One text per sample of the gallery."""
    return _labels_fit(sizes.setdefault("ids", value), sizes, "U")


def _views_fit(value: Any, sizes: Sizes) -> bool:
    """Views of the samples of the gallery, each of which has its own id in its view."""
    if not _labels_fit(value, sizes, "U"):
        return False
    hashes = []  # which take less memory than pairs; those of different pairs are never the same in practice
    for part in chunks(len(value), 64):
        names = value[part].tolist()
        if not set(sizes["names"]).issuperset(names):
            return False
        hashes.append(np.fromiter(map(hash, zip(names, sizes["ids"][part].tolist(), strict=True)), np.int64))
    ordered = np.sort(np.concatenate(hashes))
    return bool((ordered[1:] != ordered[:-1]).all())


def _index_fits(value: Any, sizes: Sizes) -> bool:
    """An approximate index of the samples of the gallery, or None."""
    if value is None:
        return True
    if type(value) is not dict or set(value) != _OF_INDEX or value["metric"] not in ("euclidean", "cosine"):
        return False
    arrays = all(
        isinstance(X := value[name], np.ndarray) and X.dtype == dtype for name, dtype in _ARRAYS_OF_INDEX.items()
    )
    shares = all(type(value[name]) is float and 0.0 <= value[name] < np.inf for name in ("scale", "recall"))
    most = {"n_probes": MOST_LISTS, "n_measured": sizes["g"]}
    counts = all(type(value[name]) is int and 1 <= value[name] <= most[name] for name in most)
    if not (arrays and shares and counts):
        return False
    check_state(value, (sizes["g"], sizes["d"]))
    return True


SCHEMA: Schema = {
    "gallery_?": "g d",
    "gallery_labels_?": _labels_fit,
    "gallery_ids_?": _ids_fit,
    "gallery_views_?": _views_fit,
    "gallery_index_?": _index_fits,
    "threshold_?": number(0.0, optional=True),
    "threshold_metric_?": lambda value, sizes: value in (None, "euclidean", "cosine"),
    "threshold_view_?": lambda value, sizes: value in (None, *sizes["names"]),
}
"""What model files may hold of a gallery; see `crossview._schema`."""

PARTS = [name.rstrip("?") for name in SCHEMA]
"""Plain values that a gallery is stored as."""
