"""Exact nearest neighbours of torch tensors, on the CPU or on a GPU.

Products in low precision propose candidates, whose distances are then computed in float64 from differences of
coordinates. Let r be the k-th smallest of them. A sample closer than r has a score of at least `_threshold`, whatever
the rounding errors. If all samples that were not proposed score lower, the row is certified. Otherwise, the distances
of all samples that reach the threshold are computed, so the answer is exact in any case.

Scores ``x'y - |y|²/2`` increase as distances decrease. Half precision suffices on a GPU: the distance between rounded
samples differs from the true one by no more than the norms of their rounding errors, which are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import pad

from crossview.neighbours.distances import chunks

_SMALL_CLASS = 64  # classes up to this size are searched by computing all distances
_TILE_BYTES = {"cuda": 1 << 31, "cpu": 1 << 28}  # memory for a tile of scores, unless little memory is free
_TILE_ROWS = 1 << 15
_MAX_PAIRS = 1 << 22  # distances of an exhaustive search that are sorted at once
_MAX_GROUP_SIZE = 64
_FLOOR = -1e38  # score of what is not eligible; finite, as the mantissa may hold an index


def class_neighbours(
    X: Tensor, classes: Tensor, n_within: int, n_between: int, *, centres: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Nearest samples of the same class and of other classes, as `crossview.neighbours.classes.class_neighbours`.

    X is (m, D), `classes` (m,) with codes from 0. If `centres` is given, only the neighbours of these samples are
    returned. Returns two int64 tensors on the device of X, (len(centres), n_within) and (len(centres), n_between).

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    >>> within, between = class_neighbours(X, torch.tensor([0, 0, 1, 1]), 1, 2)
    >>> within.tolist(), between.tolist()
    ([[1], [0], [3], [2]], [[2, 3], [2, 3], [1, 0], [1, 0]])
    """
    counts = torch.bincount(classes)
    smallest, largest = int(counts[counts > 0].min()), int(counts.max())
    n_within, n_between = min(n_within, largest - 1), min(n_between, len(X) - smallest)
    # Small classes first, so that classes in the same tile are of similar size.
    order = (counts[classes] * len(counts) + classes).argsort(stable=True)
    samples = _Samples.from_tensor(X, order, classes[order], *_frame(X, X))
    positions = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=X.device))
    rows, back = (positions if centres is None else positions[centres]).sort()
    within, between = (torch.full((len(rows), k), -1, device=X.device) for k in (n_within, n_between))
    if n_within and len(rows):
        within[back] = _within(samples, rows, n_within)[1]
    if n_between and len(rows):
        between[back] = _search(samples, samples, rows, n_between)[1]
    return within, between


def nearest(queries: Tensor, gallery: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and indices of the k nearest gallery samples of each query, nearest first.

    Ties go to the lower index. k is capped at the size of the gallery. Both tables are (len(queries), k).

    Examples
    --------
    >>> import torch
    >>> nearest(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [3.0]]), 2)[1]
    tensor([[1, 0]])
    """
    device, frame = gallery.device, _frame(queries, gallery)
    probes, enrolled = (
        _Samples.from_tensor(X, torch.arange(len(X), device=device), torch.full((len(X),), code, device=device), *frame)
        for X, code in ((queries, -1), (gallery, 0))
    )
    return _search(probes, enrolled, torch.arange(len(queries), device=device), min(k, len(gallery)))


@dataclass(frozen=True)
class _Samples:
    """Samples sorted by class and rounded: `rounded` is ``(X[ids] - centre) * scale`` up to `errors`."""

    X: Tensor  # as given, contiguous
    ids: Tensor  # indices in X of the sorted samples
    codes: Tensor  # classes of the sorted samples, int32
    starts: Tensor  # first position of the class of each sorted sample
    stops: Tensor  # position behind the last one
    scale: float
    rounded: Tensor
    norms: Tensor  # of the rounded samples, float64
    errors: Tensor  # norms of the rounding errors, float64

    @classmethod
    def from_tensor(cls, X: Tensor, ids: Tensor, codes: Tensor, centre: Tensor, scale: float) -> _Samples:
        """Round the samples `ids` of X, whose classes are `codes`."""
        m, D = X.shape
        sizes = torch.unique_consecutive(codes, return_counts=True)[1]
        stops = sizes.cumsum(0)
        starts = (stops - sizes).repeat_interleave(sizes)
        # With a lower setting, products of float32 may be less precise than the certificate assumes.
        single = torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64
        kernels = _kernels(X.device)
        width = D if kernels is None else kernels.padded_width(D)
        rounded = torch.zeros(m, width, dtype=torch.float16 if X.is_cuda else single, device=X.device)
        norms, errors = (torch.empty(m, dtype=torch.float64, device=X.device) for _ in range(2))
        for rows in chunks(m, 32 * D, limit=_tile_bytes(X.device)):
            exact = (X[ids[rows]].double() - centre) * scale
            low = exact.to(rounded.dtype)
            rounded[rows, :D] = low
            norms[rows] = torch.linalg.vector_norm(low.double(), dim=1)
            # The last term is for the rounding of the difference from the centre.
            errors[rows] = torch.linalg.vector_norm(exact - low.double(), dim=1) + 2.0**-51 * norms[rows]
        stops = stops.repeat_interleave(sizes)
        return cls(X.contiguous(), ids, codes.int(), starts, stops, scale, rounded, norms, errors)

    @cached_property
    def bias(self) -> Tensor:
        """``-|y|²/2`` of the rounded samples."""
        return (-0.5 * self.norms.square()).float()

    @cached_property
    def _error_ceiling(self) -> tuple[Tensor, Tensor]:
        radii, order = (self.norms - self.errors).sort()
        ceiling = self.errors[order].cummax(0).values
        return radii, torch.cat([ceiling.new_zeros(1), ceiling])

    def error_within(self, radius: Tensor) -> Tensor:
        """Largest rounding error of the samples that lie within a radius of the centre."""
        radii, ceiling = self._error_ceiling
        return ceiling[torch.searchsorted(radii, radius, right=True)]


def _frame(X: Tensor, Y: Tensor) -> tuple[Tensor, float]:
    """Origin among the samples of Y, and the power of two that brings all values into the range of half precision.

    The median of some samples is robust to outliers.
    """
    centre = Y[:: max(1, len(Y) // 1000)].median(0).values.double()
    extremes = torch.stack([extreme.double() for Z in (X, Y) if len(Z) for extreme in Z.aminmax(dim=0)])
    largest = float((extremes - centre).abs().max())
    return centre, 2.0 ** min(14 - math.frexp(largest)[1], 1000)


def _within(samples: _Samples, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Nearest samples of the same class: all distances are computed in small classes."""
    sizes = (samples.stops - samples.starts)[rows]
    n_small = int((sizes <= _SMALL_CLASS).sum())
    found = []
    for chunk in chunks(n_small, 100 * _SMALL_CLASS, limit=_tile_bytes(rows.device)):
        r = rows[chunk]
        columns = samples.starts[r, None] + torch.arange(int(sizes[chunk][-1]), device=r.device)
        eligible = (columns < samples.stops[r, None]) & (columns != r[:, None])
        found.append(_ranked(samples, samples, r, columns, eligible, k))
    if n_small < len(rows):
        found.append(_search(samples, samples, rows[n_small:], k, same=True))
    distances, ids = zip(*found, strict=True)
    return torch.cat(distances), torch.cat(ids)


def _search(X: _Samples, Y: _Samples, rows: Tensor, k: int, *, same: bool = False) -> tuple[Tensor, Tensor]:
    """Squared distances and indices of the k nearest samples in Y for some rows of X, which ascend.

    Eligible are the samples of other classes or, if `same`, of the same class.
    """
    distances, ids = _empty_tables(len(rows), k, rows.device)
    thresholds = torch.empty(len(rows), dtype=torch.float32, device=rows.device)
    certified = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    left = torch.arange(len(rows), device=rows.device)
    proposers: list[Callable[..., _Tiles]] = [_tiles_of_products]
    if _kernels(rows.device) is not None:
        proposers = [_tiles_of_maxima, partial(_tiles_of_maxima, refinement=8)]
    for propose in proposers:  # each for the rows that the one before leaves uncertified
        for tile, columns, scores, rest in propose(X, Y, rows[left], 2 * k + 18, same=same):
            t, r = left[tile], rows[left[tile]]
            distances[t], ids[t] = d, _ = _ranked(X, Y, r, columns, scores > 0.5 * _FLOOR, k)
            thresholds[t] = threshold = _threshold(X, Y, r, d[:, -1])
            certified[t] = rest < threshold
        left = (~certified).nonzero()[:, 0]
    if len(left):
        distances[left], ids[left] = _exhaustive(X, Y, rows[left], thresholds[left], k, same=same)
    return distances, ids


def _threshold(X: _Samples, Y: _Samples, rows: Tensor, squared_distances: Tensor) -> Tensor:
    """Score that each sample of Y within a distance of a row of X reaches, whatever the rounding errors."""
    D, norms = X.X.shape[1], X.norms[rows]
    radius = squared_distances.sqrt() * (X.scale * (1 + D * 2.0**-52)) + X.errors[rows]
    radius = radius + Y.error_within(norms + radius)  # bounds the distance between the rounded samples
    y_norms = norms + radius
    # Sums in float32 lose up to D units in the last place, and an index in the mantissa those it overwrites.
    error = (D + 8 + _MAX_GROUP_SIZE) * 2.0**-23 * y_norms * (norms + 0.5 * y_norms)
    return (0.5 * (norms - radius) * (norms + radius) - error).clamp(min=0.5 * _FLOOR).float()


# Rows of a tile, columns of their candidates, scores of these, and the highest score that any other column can have.
_Tiles = Iterator[tuple[slice, Tensor, Tensor, Tensor]]


def _tiles_of_products(X: _Samples, Y: _Samples, rows: Tensor, n_candidates: int, *, same: bool) -> _Tiles:
    """Candidates from all scores of some rows at a time."""
    for tile in chunks(len(rows), 8 * len(Y.ids), limit=_tile_bytes(rows.device), most=_TILE_ROWS):
        start, S = _scores(X, Y, rows[tile], same=same)
        scores, columns = _largest(S, n_candidates)
        yield tile, columns + start, scores, _rest(scores, S)


def _tiles_of_maxima(
    X: _Samples, Y: _Samples, rows: Tensor, n_candidates: int, *, same: bool, refinement: int = 1
) -> _Tiles:
    """Candidates from the maxima over groups of columns, which a kernel finds without storing all scores.

    `refinement` divides the size of the groups.
    """
    kernels = _kernels(rows.device)
    assert kernels is not None
    if not len(rows):
        return
    n, size = len(rows), kernels.ROWS
    rows = torch.cat([rows, rows[-1:].expand(-n % size)])
    blocks = _blocks(X, Y, rows.view(-1, size), same=same)
    spans = (blocks[:, 1] - blocks[:, 0]).tolist()
    grouping = partial(_grouping, n_candidates=n_candidates, refinement=refinement)
    step = max(1, min(_TILE_ROWS, _tile_bytes(rows.device) // (8 * grouping(max(spans))[1])) // size)
    for a in range(0, len(spans), step):
        b = min(a + step, len(spans))
        group_size, n_groups = grouping(max(spans[a:b]))
        maxima, second = kernels.group_maxima(
            *(X.rounded, Y.rounded, Y.bias, X.codes, Y.codes, rows[a * size : b * size], blocks[a:b]),
            group_size=group_size,
            n_groups=n_groups,
            same=same,
            floor=_FLOOR,
        )
        tile = slice(a * size, min(b * size, n))
        scores, groups = _largest(maxima, n_candidates)
        start, stop, gap_start, _, gap = blocks[a:b].repeat_interleave(size, dim=0)[:, None].unbind(2)
        columns = start + (scores.view(torch.int32) & (group_size - 1)) * n_groups + groups
        columns = torch.minimum(columns, stop - 1)
        columns += torch.where(columns >= gap_start, gap, 0)
        rest = torch.maximum(second, _rest(scores, maxima))
        present = slice(tile.stop - tile.start)
        yield tile, columns[present], scores[present], rest[present]


def _blocks(X: _Samples, Y: _Samples, rows: Tensor, *, same: bool) -> Tensor:
    """Columns to search for blocks of rows, which ascend, as `crossview.neighbours._triton.group_maxima` takes them.

    If all rows of a block are of one class, a search in this class need only check for the rows themselves, and a
    search in other classes skips it.
    """
    first, last = rows[:, 0], rows[:, -1]
    none = torch.zeros_like(first)
    own_start, own_stop = (X.starts[first], X.stops[last]) if X is Y else (none, none)
    alone = X.starts[first] == X.starts[last]
    if same:
        checks = torch.where(alone, first, own_start), torch.where(alone, last + 1, own_stop)
        return torch.stack([own_start, own_stop, *checks, none], dim=1).int()
    gap = torch.where(alone, own_stop - own_start, 0)
    return torch.stack([none, len(Y.ids) - gap, own_start, own_stop, gap], dim=1).int()


def _grouping(n_columns: int, *, n_candidates: int, refinement: int) -> tuple[int, int]:
    """Number of columns in a group, a power of two, and number of groups.

    With few groups, neighbours of a sample often share one, and all but the nearest of them are missed. The number of
    groups is an odd multiple of 64, so that neighbours that share a group in the first search rarely do in the second.
    """
    size = min(_MAX_GROUP_SIZE, n_columns // (4 * n_candidates**2)) // refinement
    size = 1 << max(1, size).bit_length() - 1
    return size, 64 * (-(-n_columns // (64 * size)) | 1)


def _rest(scores: Tensor, S: Tensor) -> Tensor:
    """Bound on the entries of S that are not among the given largest ones."""
    return scores[:, -1] if scores.shape[1] < S.shape[1] else torch.full_like(scores[:, 0], _FLOOR)


def _largest(S: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each row, in order, and their columns.

    The maxima of groups of columns tell which groups matter: much faster than one long top-k. Columns of a group are
    far apart, since maxima over adjacent columns are slow.
    """
    size = 8
    n_groups = S.shape[1] // size
    if n_groups <= 4 * k:
        largest = S.topk(min(k, S.shape[1]), dim=1)
        return largest.values, largest.indices
    maxima = S[:, : n_groups * size].view(len(S), size, n_groups).amax(1)
    groups = _largest(maxima, k)[1]
    columns = (groups[:, :, None] + n_groups * torch.arange(size, device=S.device)).flatten(1)
    remainder = torch.arange(n_groups * size, S.shape[1], device=S.device).expand(len(S), -1)
    columns = torch.cat([columns, remainder], dim=1)
    values, best = S.gather(1, columns).topk(k, dim=1)
    return values, columns.gather(1, best)


def _scores(X: _Samples, Y: _Samples, rows: Tensor, *, same: bool) -> tuple[int, Tensor]:
    """First column, and scores of rows, which ascend, for a range of columns that includes all eligible ones."""
    start, stop = (int(X.starts[rows[0]]), int(X.stops[rows[-1]])) if same else (0, len(Y.ids))
    x, y = X.rounded[rows], Y.rounded[start:stop].T
    S = torch.mm(x, y, out_dtype=torch.float32) if x.dtype == torch.float16 else x @ y
    S += Y.bias[start:stop]
    eligible = (X.codes[rows, None] == Y.codes[start:stop]) == same
    if same:
        eligible &= rows[:, None] != torch.arange(start, stop, device=rows.device)
    return start, S.masked_fill_(~eligible, _FLOOR)


def _exhaustive(
    X: _Samples, Y: _Samples, rows: Tensor, thresholds: Tensor, k: int, *, same: bool
) -> tuple[Tensor, Tensor]:
    """Nearest of all samples whose scores reach the thresholds."""
    distances, ids = _empty_tables(len(rows), k, rows.device)
    for tile in chunks(len(rows), 8 * len(Y.ids), limit=_tile_bytes(rows.device)):
        start, S = _scores(X, Y, rows[tile], same=same)
        reached = thresholds[tile, None] <= S
        ends = reached.sum(1).cumsum(0)
        a = 0
        while a < len(S):
            before = ends[a - 1] if a else 0
            b = max(a + 1, int((ends - before <= _MAX_PAIRS).sum()))
            part = slice(tile.start + a, tile.start + b)
            r, columns = reached[a:b].nonzero(as_tuple=True)
            _rank_pairs(X, Y, rows[part], r, columns + start, distances[part], ids[part])
            a = b
    return distances, ids


def _rank_pairs(
    X: _Samples, Y: _Samples, rows: Tensor, r: Tensor, columns: Tensor, distances: Tensor, ids: Tensor
) -> None:
    """Fill tables with the nearest samples, where r and `columns` list the pairs to compare."""
    found = Y.ids[columns]
    d = _squared_distances(X, Y, rows[r], found[:, None])[:, 0]
    order = found.argsort()
    for key in (d, r):
        order = order[key[order].argsort(stable=True)]
    r, d, found = r[order], d[order], found[order]
    rank = torch.arange(len(r), device=r.device) - torch.searchsorted(r, r)
    kept = rank < distances.shape[1]
    distances[r[kept], rank[kept]] = d[kept]
    ids[r[kept], rank[kept]] = found[kept]


def _ranked(X: _Samples, Y: _Samples, rows: Tensor, columns: Tensor, eligible: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest of the eligible candidates of each row: squared distances, and indices padded with -1."""
    m = len(Y.ids)
    ids = torch.where(eligible, Y.ids[columns], m).sort(1).values
    d = _squared_distances(X, Y, rows, ids.clamp(max=m - 1))
    d, order = d.masked_fill_(ids == m, torch.inf).sort(stable=True, dim=1)
    ids = ids.gather(1, order[:, :k])
    short = (0, k - ids.shape[1])
    return pad(d[:, :k], short, value=torch.inf), pad(ids.masked_fill_(ids == m, -1), short, value=-1)


def _squared_distances(X: _Samples, Y: _Samples, rows: Tensor, ids: Tensor) -> Tensor:
    """Squared distances from rows to the samples `ids` of each, (len(rows), n), in float64 by differences."""
    kernels, x = _kernels(rows.device), X.ids[rows]
    if kernels is not None:
        found: Tensor = kernels.squared_distances(X.X, Y.X, x, ids)
        return found
    d = torch.empty(ids.shape, dtype=torch.float64, device=ids.device)
    for chunk in chunks(len(d), 24 * ids.shape[1] * X.X.shape[1], limit=_tile_bytes(ids.device)):
        difference = Y.X[ids[chunk]].double() - X.X[x[chunk], None].double()
        # The order of summation must not depend on the alignment of a row, or equal samples would differ.
        d[chunk] = pad(difference, (0, -difference.shape[-1] % 8)).square().sum(-1)
    return d


def _empty_tables(n: int, k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    distances = torch.full((n, k), torch.inf, dtype=torch.float64, device=device)
    return distances, torch.full((n, k), -1, device=device)


def _tile_bytes(device: torch.device) -> int:
    limit = _TILE_BYTES[device.type]
    if device.type == "cpu":
        return limit
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    reserved, allocated = (int(stats[key]["all"]["current"]) for key in ("reserved_bytes", "allocated_bytes"))
    return min(limit, (torch.cuda.mem_get_info(device)[0] + reserved - allocated) // 8)


@cache
def _kernels(device: torch.device) -> ModuleType | None:
    """The kernels for a GPU, where Triton is installed."""
    if device.type != "cuda":
        return None
    try:
        from crossview.neighbours import _triton
    except ImportError:
        return None
    return _triton
