"""Scatter matrices of graphs over (view, sample) nodes, without ever building the graph's Laplacian.

Let ``G_j`` be the directed graph of the patches of view j (row k: the patch of sample k) and ``Z_j = G_j X_j``. Over
nodes (i, k), sample k as view i sees it, the paper's terms are Laplacians of n·m nodes, and their scatters
``X' L X`` come out of blocks of the size of the features:

==========  ==================================  =====================================================
term        block (i, j), i ≠ j                 block (i, i)
==========  ==================================  =====================================================
LDE-intra   0                                   ``X_i' diag(r_i + c_i) X_i - (X_i' Z_i + Z_i' X_i)``
LDE-inter   ``-(X_i' Z_j + Z_i' X_j)``          ``X_i' diag(Σ_{j≠i} r_j + Σ_{j≠i} c_i|j) X_i``
LE-paired   LDE-inter with ``G_j`` the identity
==========  ==================================  =====================================================

Here ``r_j`` are row sums of ``G_j``, ``c_j`` its column sums, and ``c_i|j`` the column sums of ``G_i`` over the rows
that view j has seen. A pair is a patch whose only neighbour is the sample's own partner: that is why LE-paired needs
no formula of its own. Samples that a view has not seen are rows of zeros in ``X_i`` and empty rows in ``G_i``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossview._blas import cross_product
from crossview._types import Array

__all__ = ["graph_scatter", "patch_scatter"]

_CHUNK_ROWS = 1024  # samples of which Z is held at a time


def patch_scatter(
    arrays: Sequence[Array],
    mask: NDArray[np.bool_],
    graphs: Sequence[sp.csr_array],
    *,
    paired: float = 0.0,
    intra: float = 0.0,
    inter: float = 0.0,
) -> Array:
    """Scatter of ``paired · J + intra · U + inter · V`` (the paper's matrices) in blocks of views.

    Parameters
    ----------
    arrays : sequence of ndarray, each of shape (m, D_v)
        The views, zero where a sample is missing.
    mask : ndarray of bool, shape (m, n)
        Which sample was seen in which view.
    graphs : sequence of csr_array, each of shape (m, m)
        ``G_v``: the patches of every view.
    paired, intra, inter : float
        Weights of LE-paired, LDE-intra and LDE-inter; the last two for the same graphs.

    Returns
    -------
    S : ndarray of shape (ΣD_v, ΣD_v)
        Its lower triangle of blocks; the blocks above the diagonal are zero.
    """
    sizes = [X.shape[1] for X in arrays]
    edges = np.cumsum([0, *sizes])
    blocks = [slice(a, b) for a, b in pairwise(edges)]
    degrees = _degrees(mask, graphs, paired, intra, inter)
    S = np.zeros((sum(sizes), sum(sizes)))
    for start in range(0, len(mask), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        X = [array[rows] for array in arrays]
        whole = len(mask) <= _CHUNK_ROWS  # slicing a sparse matrix costs more than a small product
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
    """Scatter of any directed graph over all (view, sample) nodes, whose edges may lead from one view to another.

    Parameters
    ----------
    arrays : sequence of ndarray, each of shape (m_v, D_v)
        The nodes of every view.
    graph : csr_array of shape (Σm_v, Σm_v)
        Weights; nodes in the order of the views.

    Returns
    -------
    S : ndarray of shape (ΣD_v, ΣD_v)
        Symmetric, such that ``tr W'SW`` is the sum over edges (a, b) of their weights times ``|y_a - y_b|²``.
    D : ndarray of shape (ΣD_v, ΣD_v)
        Symmetric, such that ``tr W'DW`` is the sum over nodes of their degrees times ``|y|²``; a node's degree is half
        the weight of the edges that it starts and ends.
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
    """Diagonal of the Laplacian: the degree of every node (i, k), shape (m, n)."""
    seen = mask.astype(np.float64)
    others = seen.sum(axis=1, keepdims=True) - seen
    out = np.column_stack([G.sum(axis=1) for G in graphs])
    degrees: Array = 2.0 * paired * others + intra * out + inter * (out.sum(axis=1, keepdims=True) - out)
    for i, G in enumerate(graphs):
        degrees[:, i] += G.T @ (intra + inter * others[:, i])
    return degrees
