from __future__ import annotations

import numpy as np

from crossview.graphs.patches import Patches

PATCHES = Patches(np.array([[1, 2], [0, -1], [-1, -1]]), np.array([[2], [2], [0]]))


def test_graph_holds_the_weights_of_the_patch():
    graph = PATCHES.graph(2, 1, between_weight=-0.5).toarray()
    np.testing.assert_array_equal(graph, [[0, 1, 1 - 0.5], [1, 0, -0.5], [-0.5, 0, 0]])


def test_graph_of_some_ranks():
    np.testing.assert_array_equal(PATCHES.graph(slice(1, 2), 0).toarray(), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert PATCHES.graph(0, 0).nnz == 0


def test_ranks_add_up():
    whole = PATCHES.graph(2, 1)
    summed = PATCHES.graph(slice(0, 1), slice(0, 0)) + PATCHES.graph(slice(1, 2), slice(0, 1))
    np.testing.assert_array_equal(whole.toarray(), summed.toarray())


def test_spread_renumbers_and_leaves_missing_rows_empty():
    spread = PATCHES.spread(np.array([True, False, True, True]))
    np.testing.assert_array_equal(spread.within, [[2, 3], [-1, -1], [0, -1], [-1, -1]])
    np.testing.assert_array_equal(spread.between, [[3], [-1], [3], [0]])


def test_spread_of_complete_views_is_free():
    assert PATCHES.spread(np.ones(3, dtype=bool)) is PATCHES
