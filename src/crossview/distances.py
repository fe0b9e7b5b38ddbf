"""Distances between latent samples, accurate at any scale, and the nearest samples and classes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances
from sklearn.utils import gen_batches

from crossview._backend import to_numpy
from crossview._types import Array, Indices, Labels, Rows
from crossview._validation import check_choice

_CHUNK = 4_000_000  # distances held at a time
_SAFE_EXPONENT, _MAX_EXPONENT = 300, 1000  # powers of 2 with accurate squares, and with finite sums


def comparable(samples: Sequence[Array], metric: str) -> tuple[list[Array], int]:
    """Samples whose distances, times 2 to the exponent returned, are those of the given ones and can be computed.

    Distances are differences of squares: far from zero they are lost in rounding, so that samples are centred, and
    beyond 1e±90 squares overflow or vanish, so that they are scaled by powers of 2, which does not round.
    """
    check_choice(metric, "metric", ("euclidean", "cosine"))
    if metric == "cosine":  # lengths do not matter
        exponents = [np.frexp(np.abs(X).max(axis=1, initial=0.0, keepdims=True))[1] for X in samples]
        if max(np.abs(exponent).max(initial=0) for exponent in exponents) <= _SAFE_EXPONENT:
            return list(samples), 0
        return [np.ldexp(X, -exponent) for X, exponent in zip(samples, exponents, strict=True)], 0
    if _exponent(samples) > _MAX_EXPONENT:
        raise ValueError("the samples are too large for distances between them: divide them by 1e10.")
    origin = next((X.mean(axis=0) for X in samples if len(X)), 0.0)
    centred = [X - origin for X in samples]
    exponent = _exponent(centred)
    if abs(exponent) <= _SAFE_EXPONENT:
        return centred, 0
    return [np.ldexp(X, -exponent) for X in centred], exponent


def _exponent(samples: Sequence[Array]) -> int:
    """Power of 2 just above the largest absolute value; 0 if all are 0."""
    return int(np.frexp(max(max(X.max(initial=0.0), -X.min(initial=0.0)) for X in samples))[1])


def distances_in_chunks(gallery: Array, probes: Array, metric: str) -> Iterator[tuple[slice, Array]]:
    """Distances of some probes at a time to all of the gallery, (probes, gallery), after the rows of these probes."""
    (G, P), exponent = comparable([gallery, probes], metric)
    for rows in gen_batches(len(P), max(1, _CHUNK // len(G))):
        distances = pairwise_distances(P[rows], G, metric=metric)
        yield rows, np.ldexp(distances, exponent) if exponent else distances


def class_distances_in_chunks(
    gallery: Array, labels: Labels, probes: Array, metric: str
) -> tuple[Labels, Iterator[tuple[slice, Array]]]:
    """The classes, and distances to the nearest sample of each, (probes, classes), in chunks."""
    order = np.argsort(labels, kind="stable")
    classes, starts = np.unique(labels[order], return_index=True)
    chunks = distances_in_chunks(gallery[order], probes, metric)
    return classes, ((rows, np.minimum.reduceat(distances, starts, axis=1)) for rows, distances in chunks)


def nearest(chunks: Iterator[tuple[slice, Array]], k: int) -> tuple[Array, NDArray[np.intp]]:
    """Distances and columns of the k nearest in every row of all chunks, ascending; ties in the columns' order."""
    distances, nearest_columns = [], []
    for _, block in chunks:
        # The k-th smallest of the minima of k groups or more bounds the k-th smallest distance: few are left to sort.
        starts = np.arange(0, block.shape[1], max(1, min(64, block.shape[1] // k)))
        bound = np.partition(np.minimum.reduceat(block, starts, axis=1), k - 1, axis=1)[:, k - 1 : k]
        rows, columns = np.nonzero(block <= bound)
        values = block[rows, columns]
        order = np.lexsort((values, rows))
        first = order[np.searchsorted(rows, np.arange(len(block)))[:, None] + np.arange(k)]
        distances.append(values[first])
        nearest_columns.append(columns[first])
    return np.concatenate(distances), np.concatenate(nearest_columns)


def nearest_tensors(gallery: Rows, probes: Rows, k: int, metric: str) -> tuple[Array, Indices]:
    """Distances and rows of the k nearest samples in a gallery, for torch tensors on one device; as NumPy arrays."""
    from crossview.graphs._torch_neighbours import nearest as nearest_on_device

    check_choice(metric, "metric", ("euclidean", "cosine"))
    lengths = [X.abs().amax(dim=1) for X in (gallery, probes)]
    longest, shortest = (max(float(x.max()) for x in lengths), min(float(x.min()) for x in lengths))
    if longest >= 2.0**_SAFE_EXPONENT or (metric == "cosine" and shortest <= 2.0**-_SAFE_EXPONENT):
        # Squares may overflow, or a length may be 0: rare enough to be left to NumPy.
        return nearest(distances_in_chunks(to_numpy(gallery), to_numpy(probes), metric), k)
    if metric == "euclidean":
        squares, rows = nearest_on_device(probes, gallery, k)
        return np.sqrt(to_numpy(squares)), to_numpy(rows)
    # Between samples of unit length, half the square of the Euclidean distance.
    units = [X.double() / X.double().norm(dim=1, keepdim=True) for X in (probes, gallery)]
    squares, rows = nearest_on_device(units[0], units[1], k)
    return 0.5 * to_numpy(squares), to_numpy(rows)
