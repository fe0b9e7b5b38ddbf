"""Scatter matrices of graphs over (view, sample) nodes, computed without building the graph Laplacian.

Let ``G_j`` be the directed graph of the patches of view j (row k is the patch of sample k) and ``Z_j = G_j X_j``. A
node (i, k) is sample k in view i. The terms of the paper are Laplacians over n·m nodes; their scatters ``X' L X``
consist of blocks whose size is the number of features:

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

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._blas import cross_product
from crossview._types import Array

_CHUNK_ROWS = 1024  # rows of Z in memory at a time


def patch_scatter(
    arrays: Sequence[Array],
    mask: NDArray[np.bool_],
    graphs: Sequence[sp.csr_array],
    *,
    paired: float = 0.0,
    intra: float = 0.0,
    inter: float = 0.0,
) -> Array:
    """Scatter of ``paired · J + intra · U + inter · V`` (the matrices of the paper) in blocks of views.

    `arrays` are the views, (m, D_v) each, zero where a sample is missing; `mask`, (m, n), tells which samples are
    present; `graphs` are the patches ``G_v`` of each view, (m, m). Returns a (ΣD_v, ΣD_v) matrix. Only
    its lower triangle of blocks is filled; the blocks above the diagonal are zero.
    """
    sizes = [X.shape[1] for X in arrays]
    blocks = [slice(a, b) for a, b in pairwise(np.cumsum([0, *sizes]))]
    degrees = _degrees(mask, graphs, paired, intra, inter)
    S = np.zeros((sum(sizes), sum(sizes)))
    for start in range(0, len(mask), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        X = [array[rows] for array in arrays]
        whole = len(mask) <= _CHUNK_ROWS  # slicing a sparse matrix is slower than a small product
        Z = [(graph if whole else graph[rows]) @ array for graph, array in zip(graphs, arrays, strict=True)]
        for i, block in enumerate(blocks):
            half = X[i] * (0.5 * degrees[rows, i, None])
            half -= intra * Z[i]
            H = cross_product(X[i], half)
            S[block, block] += H
            S[block, block] += H.T
        if not (paired or inter):
            continue
        for x, z in zip(X, Z, strict=True):
            z *= inter
            z += paired * x
        for i, j in combinations(range(len(blocks)), 2):
            S[blocks[j], blocks[i]] -= cross_product(X[j], Z[i])
            S[blocks[j], blocks[i]] -= cross_product(Z[j], X[i])
    return S


def graph_scatter(arrays: Sequence[Array], graph: sp.csr_array) -> tuple[Array, Array]:
    """Scatter of any directed graph over all (view, sample) nodes; edges may connect different views.

    `arrays` hold the nodes of each view, (m_v, D_v); `graph`, (Σm_v, Σm_v), the edge weights, nodes ordered by view.
    Returns two symmetric (ΣD_v, ΣD_v) matrices: S, where ``tr W'SW`` sums ``|y_a - y_b|²`` over all edges (a, b) with
    their weights, and D, where ``tr W'DW`` sums ``|y|²`` over all nodes with their degrees. The degree of a node is
    half the total weight of its incoming and outgoing edges.
    """
    rows = [slice(a, b) for a, b in pairwise(np.cumsum([0, *(len(X) for X in arrays)]))]
    blocks = [slice(a, b) for a, b in pairwise(np.cumsum([0, *(X.shape[1] for X in arrays)]))]
    degrees = graph.sum(axis=1) + graph.T @ np.ones(graph.shape[0])
    S = np.zeros((blocks[-1].stop, blocks[-1].stop))
    D = np.zeros_like(S)
    for i, X in enumerate(arrays):
        weighted = cross_product(X, X * degrees[rows[i], None])
        S[blocks[i], blocks[i]] += weighted
        D[blocks[i], blocks[i]] += 0.5 * weighted
        for j, Y in enumerate(arrays):
            H = cross_product(X, graph[rows[i], rows[j]] @ Y)
            S[blocks[i], blocks[j]] -= H
            S[blocks[j], blocks[i]] -= H.T
    return S, D


def _degrees(
    mask: NDArray[np.bool_], graphs: Sequence[sp.csr_array], paired: float, intra: float, inter: float
) -> Array:
    """Diagonal of the Laplacian: the degree of each node (i, k), shape (m, n)."""
    seen = mask.astype(np.float64)
    others = seen.sum(axis=1, keepdims=True) - seen
    out = np.column_stack([G.sum(axis=1) for G in graphs])
    degrees: Array = 2.0 * paired * others + intra * out + inter * (out.sum(axis=1, keepdims=True) - out)
    for i, G in enumerate(graphs):
        degrees[:, i] += G.T @ (intra + inter * others[:, i])
    return degrees
