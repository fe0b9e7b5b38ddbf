from __future__ import annotations

import numpy as np

from crossview.linalg.scatter import Patches

PATCHES = Patches(np.array([[1, 2], [0, -1], [-1, -1]]), np.array([[2], [2], [0]]))


def matrix(edges):
    """The graph of some edges among three nodes, one row per centre."""
    return edges.sums(np.eye(3))


def test_edges_hold_the_weights_of_the_patch():
    graph = matrix(PATCHES.edges(2, 1, between_weight=-0.5))
    np.testing.assert_array_equal(graph, [[0, 1, 1 - 0.5], [1, 0, -0.5], [-0.5, 0, 0]])


def test_edges_of_some_ranks():
    np.testing.assert_array_equal(matrix(PATCHES.edges(slice(1, 2), 0)), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert not matrix(PATCHES.edges(0, 0)).any()


def test_ranks_add_up():
    whole = matrix(PATCHES.edges(2, 1))
    summed = matrix(PATCHES.edges(slice(0, 1), slice(0, 0))) + matrix(PATCHES.edges(slice(1, 2), slice(0, 1)))
    np.testing.assert_array_equal(whole, summed)


def test_spread_renumbers_and_leaves_missing_rows_empty():
    spread = PATCHES.spread(np.array([True, False, True, True]))
    np.testing.assert_array_equal(spread.within, [[2, 3], [-1, -1], [0, -1], [-1, -1]])
    np.testing.assert_array_equal(spread.between, [[3], [-1], [3], [0]])


def test_spread_of_complete_views_is_free():
    assert PATCHES.spread(np.ones(3, dtype=bool)) is PATCHES


def test_edges_add_up_at_either_end():
    edges = PATCHES.edges(2, 1, between_weight=-0.5)
    graph, factors = matrix(edges), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(edges.outgoing(), graph.sum(axis=1))
    np.testing.assert_array_equal(edges.incoming(3), graph.sum(axis=0))
    np.testing.assert_array_equal(edges.incoming(3, factors), factors @ graph)
    np.testing.assert_array_equal(edges.into(slice(1, 3)).sums(np.eye(2)), graph[:, 1:])
