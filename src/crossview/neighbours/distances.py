"""Distances between samples, accurate at any scale, the nearest of candidates, and slices that fit into memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from crossview._types import Array, Indices, Labels
from crossview._validation import check_choice
from crossview.engines import unit_rows

SAFE_EXPONENT = 300
"""Power of 2 up to which squares are accurate."""

_CHUNK = 1 << 22  # numbers held at a time: 32 MB as float64
_SPARE = 16  # by which differences are fewer than fit into memory, so that they stay in the processor's cache
_MAX_EXPONENT = 1000  # power of 2 up to which sums are finite


def chunks(n: int, width: int, *, limit: int | None = None, least: int = 1, most: int | None = None) -> Iterator[slice]:
    """Slices of n rows, `least` to `most` at a time, that hold up to `limit` numbers if each row holds `width`."""
    step = max(least, min(most or n, (limit or _CHUNK) // max(width, 1)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def check_metric(metric: str) -> None:
    """Refuse an unknown distance."""
    check_choice(metric, "metric", ("euclidean", "cosine"))


def centre_and_scale(samples: Sequence[Array], metric: str) -> tuple[list[Array], int]:
    """Samples whose distances, times 2 to the exponent returned, are those of the given ones and can be computed.

    Distances are differences of squares: far from zero they are lost in rounding, so that samples are centred, and
    beyond 1e±90 squares overflow or vanish, so that they are scaled by powers of 2, which does not round.
    """
    check_metric(metric)
    if metric == "cosine":  # lengths do not matter
        exponents = [np.frexp(np.abs(X).max(axis=1, initial=0.0, keepdims=True))[1] for X in samples]
        if max(np.abs(exponent).max(initial=0) for exponent in exponents) <= SAFE_EXPONENT:
            return list(samples), 0
        return [np.ldexp(X, -exponent) for X, exponent in zip(samples, exponents, strict=True)], 0
    if _exponent(samples) > _MAX_EXPONENT:
        raise ValueError("the samples are too large for distances between them: divide them by 1e10.")
    origin = next((X.mean(axis=0) for X in samples if len(X)), 0.0)
    centred = [X - origin for X in samples]
    exponent = _exponent(centred)
    if abs(exponent) <= SAFE_EXPONENT:
        return centred, 0
    return [np.ldexp(X, -exponent) for X in centred], exponent


def _exponent(samples: Sequence[Array]) -> int:
    """Power of 2 just above the largest absolute value; 0 if all are 0."""
    return int(np.frexp(max(max(X.max(initial=0.0), -X.min(initial=0.0)) for X in samples))[1])


def distances_in_chunks(gallery: Array, probes: Array, metric: str) -> Iterator[tuple[slice, Array]]:
    """Distances of some probes at a time to all of the gallery, (probes, gallery), after the rows of these probes.

    They are computed coordinate by coordinate, so that equal samples are at equal distances.
    """
    (G, P), exponent = centre_and_scale([gallery, probes], metric)
    if metric == "cosine":
        G, P = unit_rows(G), unit_rows(P)
    for rows in chunks(len(P), len(G)):
        if metric == "cosine":
            distances = 0.5 * cdist(P[rows], G, "sqeuclidean")
            distances[~(P[rows].any(axis=1, keepdims=True) & G.any(axis=1))] = 1.0
            yield rows, distances
        else:
            distances = cdist(P[rows], G)
            yield rows, np.ldexp(distances, exponent) if exponent else distances


def class_distances_in_chunks(
    gallery: Array, labels: Labels, probes: Array, metric: str
) -> tuple[Labels, Iterator[tuple[slice, Array]]]:
    """The classes, and distances to the nearest sample of each, (probes, classes), in chunks."""
    order = np.argsort(labels, kind="stable")
    classes, starts = np.unique(labels[order], return_index=True)
    blocks = distances_in_chunks(gallery[order], probes, metric)
    return classes, ((rows, np.minimum.reduceat(distances, starts, axis=1)) for rows, distances in blocks)


def pair_distances(samples: Array, probes: Array, columns: Indices, rows: Indices, metric: str) -> Array:
    """Distances between the samples `columns` and the probes `rows`, pair by pair and coordinate by coordinate.

    The metric may also be ``"sqeuclidean"``.
    """
    distances = np.empty(len(rows))
    for pairs in chunks(len(rows), _SPARE * samples.shape[1]):
        distances[pairs] = _distances(samples[columns[pairs]], probes[rows[pairs]], metric)
    return distances


def table_distances(samples: Array, probes: Array, table: Indices, metric: str) -> Array:
    """As `pair_distances`, between every probe and the samples in its row of a table; infinite where that is -1."""
    distances = np.full(table.shape, np.inf)
    rows, ranks = np.nonzero(table >= 0)
    distances[rows, ranks] = pair_distances(samples, probes, table[rows, ranks], rows, metric)
    return distances


def _distances(X: Array, Y: Array, metric: str) -> Array:
    if metric == "cosine":
        cosines: Array = np.einsum("...k,...k->...", unit_rows(X), unit_rows(Y))
        return np.clip(1.0 - cosines, 0.0, 2.0)
    Z = X - Y
    distances: Array = np.einsum("...k,...k->...", Z, Z)
    return np.sqrt(distances, out=distances) if metric == "euclidean" else distances


def propose(
    tiles: Iterable[tuple[slice, Array]], k: int, margin: Callable[[Any], Any]
) -> tuple[Indices, Indices, Array]:
    """Rows and columns of the keys that may be among the k smallest of their row, and these keys, which ascend by row.

    Keys come in tiles, after the columns they are for; what is not eligible has a key of infinity. ``margin(b)`` is
    twice the rounding error of keys up to b.
    """

    def limit_of(bound: Any) -> Any:
        return np.minimum(bound + margin(bound), np.finfo(np.float64).max)

    bound: Any = np.inf
    found = []
    for tile, keys in tiles:
        bound = np.minimum(bound, _upper_bound(keys, k))
        places = np.flatnonzero(keys <= limit_of(bound)[:, None])  # several times as fast as np.nonzero
        rows, columns = np.divmod(places, keys.shape[1])
        found.append((rows, columns + tile.start, keys.take(places)))
    rows, columns, keys = (np.concatenate(part) for part in zip(*found, strict=True))
    kept = np.flatnonzero(keys <= limit_of(bound)[rows])
    kept = kept[np.lexsort((keys[kept], rows[kept]))]
    rows, columns, keys = rows[kept], columns[kept], keys[kept]
    ends = np.searchsorted(rows, np.arange(len(bound)), side="right")
    last = np.searchsorted(rows, np.arange(len(bound))) + k - 1
    bound = np.where(last < ends, np.append(keys, np.inf)[np.minimum(last, len(keys))], np.inf)
    kept = keys <= limit_of(bound)[rows]
    return rows[kept], columns[kept], keys[kept]


def _upper_bound(keys: Array, k: int) -> Array:
    """A bound on the k-th smallest key of every row: the k-th smallest of the minima of k groups or more."""
    n = keys.shape[1]
    if n < k:
        return np.full(len(keys), np.inf)
    n_groups = n // max(1, min(64, n // (4 * k)))
    # The columns of a group are far apart: minima of adjacent ones are slow.
    minima = keys[:, : n // n_groups * n_groups].reshape(len(keys), -1, n_groups).min(axis=1)
    bound: Array = np.partition(minima, k - 1, axis=1)[:, k - 1]
    return bound


def nearest_of_tiles(
    tiles: Iterable[tuple[slice, Array]],
    k: int,
    margin: Callable[[Any], Any],
    samples: Array,
    probes: Array,
    metric: str,
    order: Indices | None = None,
    *,
    only_ids: bool = False,
) -> tuple[Array, Indices]:
    """Exact distances and numbers of the k nearest samples of every probe, padded with infinity and -1; ties by number.

    Tiles and margin are as `propose` takes them. The columns of the tiles are the samples, in an order if one is given.
    With `only_ids`, distances are computed for probes whose keys are too close to rank the samples, and are keys
    otherwise.
    """
    rows, columns, keys = propose(tiles, k, margin)
    ids = columns if order is None else order[columns]
    if not only_ids:
        return rank_pairs(rows, ids, pair_distances(samples, probes, ids, rows, metric), len(probes), k)
    # Rows ascend, and the keys in a row.
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(probes)))[rows]
    distances, table = np.full((len(probes), k), np.inf), np.full((len(probes), k), -1, dtype=np.intp)
    first = rank < k
    distances[rows[first], rank[first]], table[rows[first], rank[first]] = keys[first], ids[first]
    furthest = distances.max(axis=1, where=table >= 0, initial=-np.inf)
    close = (np.diff(rows) == 0) & (np.diff(keys) <= margin(furthest)[rows[1:]])
    tied = np.zeros(len(probes), dtype=bool)
    tied[rows[1:][close]] = True
    if tied.any():
        some = tied[rows]
        at, ids = (np.cumsum(tied) - 1)[rows[some]], ids[some]
        exact = pair_distances(samples, probes[tied], ids, at, metric)
        distances[tied], table[tied] = rank_pairs(at, ids, exact, int(tied.sum()), k)
    return distances, table


def rank_pairs(rows: Indices, ids: Indices, distances: Array, n_rows: int, k: int) -> tuple[Array, Indices]:
    """Distances and ids of the k nearest of every row, (n_rows, k), padded with infinity and -1; ties by id."""
    order = np.lexsort((ids, distances, rows))
    rows, ids, distances = rows[order], ids[order], distances[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(n_rows))[rows]
    at = rows[rank < k], rank[rank < k]
    tables = np.full((n_rows, k), np.inf), np.full((n_rows, k), -1, dtype=np.intp)
    tables[0][at], tables[1][at] = distances[rank < k], ids[rank < k]
    return tables


def rank_tables(distances: Array, ids: Indices, k: int) -> tuple[Array, Indices]:
    """The k nearest in every row of tables of distances and ids; ties by id."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def nearest(blocks: Iterable[tuple[slice, Array]], k: int) -> tuple[Array, Indices]:
    """Distances and columns of the k nearest in every row of all blocks, ascending; ties in the columns' order."""
    tables = []
    for _, block in blocks:
        candidates = propose([(slice(0, block.shape[1]), block)], k, np.zeros_like)
        tables.append(rank_pairs(*candidates, len(block), k))
    distances, columns = (np.concatenate(part) for part in zip(*tables, strict=True))
    return distances, columns
