"""Patches of samples, and scatter matrices of graphs over (view, sample) nodes, computed without the graph Laplacian.

The patch of sample k in view j holds its p1 nearest samples of the same class, with weight 1, and its p2 nearest
samples of other classes, with weight -β: row k of a directed graph ``G_j``. Whole alignment, the sum over all patches,
needs nothing else: inter-view patches are the same rows, taken from other views. The terms of the paper are Laplacians
over n·m nodes (view i, sample k). With ``Z_j = G_j X_j``, their scatters ``X' L X`` consist of blocks whose size is the
number of features:

==========  ==================================  =====================================================
term        block (i, j), i ≠ j                 block (i, i)
==========  ==================================  =====================================================
LDE-intra   0                                   ``X_i' diag(r_i + c_i) X_i - (X_i' Z_i + Z_i' X_i)``
LDE-inter   ``-(X_i' Z_j + Z_i' X_j)``          ``X_i' diag(Σ_{j≠i} r_j + Σ_{j≠i} c_i|j) X_i``
LE-paired   LDE-inter with ``G_j`` the identity
==========  ==================================  =====================================================

Here ``r_j`` are the row sums of ``G_j``, ``c_j`` its column sums, and ``c_i|j`` the column sums of ``G_i`` over the
rows present in view j. LE-paired follows from LDE-inter because a pair is a patch whose only neighbour is the same
sample in another view. A sample missing from a view is a row of zeros in ``X_i`` and an empty row in ``G_i``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from crossview._types import Array, Indices, Mask, Rows
from crossview.engines import (
    add_cross_product,
    chunks,
    cross_product,
    incoming,
    like,
    neighbour_sums,
    outgoing,
    scale_rows,
    to_numpy,
    zeros,
)


@dataclass(frozen=True)
class Edges:
    """Weighted edges from the centre of each patch to its neighbours: row k of a directed graph G is patch k."""

    ids: Any  # (c, p): neighbours of each centre, padded with -1
    weights: Array  # (p,), or (c, p)

    def sums(self, X: Rows, rows: slice = slice(None)) -> Rows:
        """``G X``, for some rows of G."""
        weights = self.weights if self.weights.ndim == 1 else self.weights[rows]
        return neighbour_sums(X, self.ids[rows], weights)

    def into(self, nodes: slice) -> Edges:
        """Edges that end in a range of nodes, which are then numbered from 0."""
        inside = (self.ids >= nodes.start) & (self.ids < nodes.stop)
        return Edges((self.ids - nodes.start + 1) * inside - 1, self.weights)

    def outgoing(self) -> Array:
        """Total weight of the edges of each centre, (c,)."""
        return outgoing(self.ids, self.weights)

    def incoming(self, n_nodes: int, factors: Array | None = None) -> Array:
        """Total weight of the edges that end in each node, (n_nodes,), times factors of their centres, (c,)."""
        return incoming(self.ids, self.weights, n_nodes, factors)


@dataclass(frozen=True)
class Patches:
    """Patches of one view: tables from `class_neighbours`, `within` (c, p1) and `between` (c, p2), padded with -1."""

    within: Any
    between: Any

    def spread(self, seen: Mask, at: Indices | None = None) -> Patches:
        """Expand patches over the samples present in the view to patches over all samples.

        `at` are the rows of the centres, if not all samples are; those that the view has have patches.
        """
        if seen.all():
            return self
        ids = np.append(np.flatnonzero(seen), -1)
        present = seen if at is None else seen[at]
        tables = []
        for table in (self.within, self.between):
            spread = like(table, np.full((len(present), table.shape[1]), -1, dtype=np.int64))
            spread[like(table, present)] = like(table, ids)[table]
            tables.append(spread)
        return Patches(*tables)

    def edges(self, within: slice | int, between: slice | int, between_weight: float = 1.0) -> Edges:
        """Edges to the neighbours of the given ranks.

        Ranks start at 0; an int p means the first p. Edges within a class have weight 1, others `between_weight`, -β in
        the paper.
        """
        same = self.within[:, within if isinstance(within, slice) else slice(within)]
        other = self.between[:, between if isinstance(between, slice) else slice(between)]
        ids = like(same, np.empty((len(same), same.shape[1] + other.shape[1]), dtype=np.int64))
        ids[:, : same.shape[1]], ids[:, same.shape[1] :] = same, other
        return Edges(ids, np.repeat([1.0, between_weight], [same.shape[1], other.shape[1]]))


def patch_scatter(
    arrays: Sequence[Rows],
    mask: Mask,
    edges: Sequence[Edges],
    *,
    centres: Indices | None = None,
    paired: float = 0.0,
    intra: float = 0.0,
    inter: float = 0.0,
    one_map: bool = False,
) -> Array:
    """Scatter of ``paired · J + intra · U + inter · V`` (the matrices of the paper) in blocks of views.

    `arrays` are the views, (m, D_v) each, zero where a sample is missing; `mask`, (m, n), tells which samples are
    present; `edges` are the patches ``G_v`` of each view, if there are any. `centres` are the rows of their centres,
    all by default. Returns a (ΣD_v, ΣD_v) matrix. Only its lower triangle of blocks is filled; the blocks above the
    diagonal are zero. With `one_map` for all views, it is the (D, D) sum of all blocks.
    """
    degrees = _degrees(mask, edges, centres, paired, intra, inter)
    total = (_OneSum if one_map else _BlockSum)(arrays)
    for rows in chunks(arrays[0]):
        X = [array[rows] for array in arrays]
        if centres is None and edges:  # every row is the centre of a patch
            total.add(X, degrees[rows], [*_sums(edges, arrays, rows)], paired, intra, inter)
        else:
            total.add(X, degrees[rows], X, paired, 0.0, 0.0)
    if centres is not None:
        some = like(arrays[0], centres)
        for rows in chunks(some, arrays[0].shape[1]):
            X = [array[some[rows]] for array in arrays]
            total.add(X, np.zeros((len(X[0]), len(X))), [*_sums(edges, arrays, rows)], 0.0, intra, inter)
    return total.matrix()


def _sums(edges: Sequence[Edges], arrays: Sequence[Rows], rows: slice) -> Iterator[Rows]:
    return (e.sums(array, rows) for e, array in zip(edges, arrays, strict=True))


class _BlockSum:
    """The blocks of a scatter matrix, summed over rows on the engine of the arrays."""

    def __init__(self, arrays: Sequence[Rows]) -> None:
        self.sizes = [X.shape[1] for X in arrays]
        self.halves = [zeros(X, D, D) for X, D in zip(arrays, self.sizes, strict=True)]  # of the diagonal blocks
        self.pairs = {
            (j, i): zeros(arrays[0], self.sizes[j], self.sizes[i]) for i, j in combinations(range(len(arrays)), 2)
        }

    def add(
        self, X: Sequence[Rows], degrees: Array, Z: Sequence[Rows], paired: float, intra: float, inter: float
    ) -> None:
        """Add some rows: samples X with their degrees, and the sums Z over their patches."""
        for x, z, degree, half in zip(X, Z, degrees.T, self.halves, strict=True):
            weighted = scale_rows(x, 0.5 * degree)
            add_cross_product(x, weighted - intra * z if intra else weighted, half)
        if paired or inter:
            mixed = [inter * z + paired * x for x, z in zip(X, Z, strict=True)]
            for (j, i), block in self.pairs.items():
                add_cross_product(X[j], mixed[i], block)
                add_cross_product(mixed[j], X[i], block)

    def matrix(self) -> Array:
        """The whole matrix, with zeros above the diagonal blocks."""
        blocks = [slice(a, b) for a, b in pairwise(np.cumsum([0, *self.sizes]))]
        S = np.zeros((sum(self.sizes), sum(self.sizes)))
        for block, half in zip(blocks, map(to_numpy, self.halves), strict=True):
            S[block, block] = half + half.T
        for (j, i), product in self.pairs.items():
            S[blocks[j], blocks[i]] = -to_numpy(product)
        return S


class _OneSum:
    """The sum of the blocks, if all views share a map. The arguments are those of `_BlockSum`."""

    def __init__(self, arrays: Sequence[Rows]) -> None:
        self.half = zeros(arrays[0], arrays[0].shape[1], arrays[0].shape[1])

    def add(
        self, X: Sequence[Rows], degrees: Array, Z: Sequence[Rows], paired: float, intra: float, inter: float
    ) -> None:
        """Add some rows: samples X with their degrees, and the sums Z over their patches."""
        mixed = [inter * z + paired * x for x, z in zip(X, Z, strict=True)] if paired or inter else []
        everywhere = sum(mixed)
        for i, (x, z, degree) in enumerate(zip(X, Z, degrees.T, strict=True)):
            image = scale_rows(x, 0.5 * degree)
            if intra:
                image = image - intra * z
            if mixed:
                image = image - (everywhere - mixed[i])
            add_cross_product(x, image, self.half)

    def matrix(self) -> Array:
        """The whole matrix."""
        half: Array = to_numpy(self.half)
        whole: Array = half + half.T
        return whole


def graph_scatter(arrays: Sequence[Rows], edges: Edges) -> tuple[Array, Array]:
    """Scatter of any directed graph over all (view, sample) nodes; edges may connect different views.

    `arrays` hold the nodes of each view, (m_v, D_v); `edges` start at every node, nodes ordered by view. Returns two
    symmetric (ΣD_v, ΣD_v) matrices: S, where ``tr W'SW`` sums ``|y_a - y_b|²`` over all edges (a, b) with their
    weights, and D, where ``tr W'DW`` sums ``|y|²`` over all nodes with their degrees. The degree of a node is half the
    total weight of its incoming and outgoing edges.
    """
    rows = [slice(a, b) for a, b in pairwise(np.cumsum([0, *(len(X) for X in arrays)]))]
    blocks = [slice(a, b) for a, b in pairwise(np.cumsum([0, *(X.shape[1] for X in arrays)]))]
    degrees = edges.outgoing() + edges.incoming(rows[-1].stop)
    S = np.zeros((blocks[-1].stop, blocks[-1].stop))
    D = np.zeros_like(S)
    for i, X in enumerate(arrays):
        weighted = cross_product(X, scale_rows(X, degrees[rows[i]]))
        S[blocks[i], blocks[i]] += weighted
        D[blocks[i], blocks[i]] += 0.5 * weighted
        for j, Y in enumerate(arrays):
            H = cross_product(X, edges.into(rows[j]).sums(Y, rows[i]))
            S[blocks[i], blocks[j]] -= H
            S[blocks[j], blocks[i]] -= H.T
    return S, D


def _degrees(
    mask: Mask, edges: Sequence[Edges], centres: Indices | None, paired: float, intra: float, inter: float
) -> Array:
    """Diagonal of the Laplacian: the degree of each node (i, k), shape (m, n)."""
    seen = mask.astype(np.float64)
    others = seen.sum(axis=1, keepdims=True) - seen
    degrees: Array = 2.0 * paired * others
    rows = slice(None) if centres is None else centres
    if edges:
        out = np.column_stack([e.outgoing() for e in edges])
        degrees[rows] += intra * out + inter * (out.sum(axis=1, keepdims=True) - out)
    for i, e in enumerate(edges):
        degrees[:, i] += e.incoming(len(mask), intra + inter * others[rows, i])
    return degrees
