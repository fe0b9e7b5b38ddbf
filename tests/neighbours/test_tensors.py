from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AWKWARD, awkward_samples

torch = pytest.importorskip("torch")

from crossview.neighbours import tensors as neighbours  # noqa: E402
from crossview.neighbours.tensors import class_neighbours, nearest  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
ROUTES = {
    "defaults": {},
    "search within classes": {"_SMALL_CLASS": 1},
    "small tiles": {"_SMALL_CLASS": 3, "_TILE_BYTES": {"cpu": 512, "cuda": 512}},
    "exhaustive": {"_SMALL_CLASS": 1, "_largest": lambda S, k: _first(S)},
    "groups": {
        "_SMALL_CLASS": 1,
        "_kernels": lambda device: LiteralKernels,
        "_grouping": lambda n, **options: _grouping(n, **options),
    },
    "few pairs at once": {"_SMALL_CLASS": 1, "_largest": lambda S, k: _first(S), "_MAX_PAIRS": 3},
}


def _first(S):
    """Propose the largest entry only, so that next to no row is certified."""
    largest = S.topk(1, dim=1)
    return largest.values, largest.indices


def _grouping(n, *, n_candidates, refinement):
    size = 8 // refinement
    return size, -(-n // size)


class LiteralKernels:
    """What the kernels for a GPU compute, entry by entry."""

    ROWS = 4

    @staticmethod
    def padded_width(n_features):
        return n_features + 3

    @staticmethod
    def squared_distances(X, Y, rows, columns):
        return (Y[columns].double() - X[rows, None].double()).square().sum(-1)

    @staticmethod
    def group_maxima(X, Y, bias, x_codes, y_codes, rows, blocks, *, group_size, n_groups, same, floor):
        S = (X @ Y.T + bias).numpy()
        maxima, second = np.full((len(rows), n_groups), floor, np.float32), np.full(len(rows), floor, np.float32)
        for i, row in enumerate(rows.tolist()):
            start, stop, check_start, check_stop, gap = blocks[i // LiteralKernels.ROWS].tolist()
            for j in range(n_groups):
                members = [(np.float32(floor), 0)] * 2
                for g, column in enumerate(range(start + j, stop, n_groups)):
                    shifted = column + gap * (column >= check_start)
                    eligible = bool(x_codes[row] == y_codes[shifted]) == same and not (same and shifted == row)
                    if not gap and check_start <= column < check_stop and not eligible:
                        continue
                    assert eligible
                    members.append((S[row, shifted], g))
                (value, g), (other, _) = sorted(members, reverse=True)[:2]
                maxima[i, j] = ((value.view(np.int32) & np.int32(-group_size)) | np.int32(g)).view(np.float32)
                second[i] = max(second[i], other)
        return torch.from_numpy(maxima), torch.from_numpy(second)


def assert_tables(found, expected):
    for table, rows in zip(found, expected, strict=True):
        assert table.dtype == torch.int64
        np.testing.assert_array_equal(table.cpu(), rows[:, : table.shape[1]])
        assert (rows[:, table.shape[1] :] == -1).all()


@pytest.mark.parametrize(
    ("route", "device"), [(route, d) for route in ROUTES for d in DEVICES if (route, d) != ("groups", "cuda")]
)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 40),
    D=st.integers(1, 4),
    n_classes=st.integers(1, 6),
    n_within=st.integers(0, 4),
    n_between=st.integers(0, 7),
    kind=st.sampled_from(AWKWARD),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_equals_the_literal_search(route, device, seed, m, D, n_classes, n_within, n_between, kind, dtype):
    rng = np.random.default_rng(seed)
    X = torch.tensor(awkward_samples(rng, kind, m, D), dtype=dtype, device=device)
    y = rng.integers(0, n_classes, size=m)
    centres = rng.permutation(m)[: m // 2]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ROUTES[route].items():
            patch.setattr(neighbours, name, value)
        classes = torch.tensor(y, device=device)
        found = class_neighbours(X, classes, n_within, n_between)
        part = class_neighbours(X, classes, n_within, n_between, centres=torch.tensor(centres, device=device))
    expected = oracles.class_neighbours(X.double().cpu().numpy(), y, n_within, n_between)
    assert_tables(found, expected)
    assert_tables(part, [table[centres] for table in expected])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("D", [3, 130])
def test_equals_brute_force(device, dtype, D):
    rng = np.random.default_rng(D)
    y = np.concatenate([np.zeros(150, dtype=int), rng.integers(1, 40, size=150), np.arange(40, 60)])
    X = rng.normal(size=(len(y), D)) + 100.0
    X[::7] = X[3]
    order = rng.permutation(len(y))
    X, y = torch.tensor(X[order], dtype=dtype, device=device), y[order]
    found = class_neighbours(X, torch.tensor(y, device=device), 4, 15)
    exact = X.double().cpu().numpy()
    d = ((exact[:, None] - exact) ** 2).sum(-1)
    for table, same, k in zip(found, (True, False), (4, 15), strict=True):
        eligible = (y[:, None] == y) == same
        np.fill_diagonal(eligible, False)
        distances = np.where(eligible, d, np.inf)
        ranked = np.argsort(distances, axis=1, kind="stable")[:, :k]
        ranked[np.isinf(np.take_along_axis(distances, ranked, axis=1))] = -1
        np.testing.assert_array_equal(table.cpu(), ranked)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nearest_equals_brute_force(device, kind, dtype):
    rng = np.random.default_rng(0)
    X = torch.tensor(awkward_samples(rng, kind, 1030, 5), dtype=dtype, device=device)  # enough for groups of columns
    queries, gallery = X[:30], X[30:]
    queries[0] = gallery[17]
    d, indices = nearest(queries, gallery, 3)
    exact = (queries[:, None].double() - gallery.double()).square().sum(-1).cpu().numpy()
    expected = np.argsort(exact, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(indices.cpu(), expected)
    np.testing.assert_allclose(d.cpu(), np.take_along_axis(exact, expected, axis=1), rtol=1e-14)


def test_nearest_with_queries_far_from_the_gallery():
    gallery = torch.arange(100.0, dtype=torch.float64)[:, None] * 1e-8
    queries = torch.tensor([[1e12], [-1e12]], dtype=torch.float64)
    assert nearest(queries, gallery, 1)[1].tolist() == [[0], [0]]  # the distances are equal in float64
    assert nearest(queries / 1e12, gallery, 1)[1].tolist() == [[99], [0]]


def test_columns_of_a_larger_tensor():
    X, y = torch.tensor(np.random.default_rng(0).normal(size=(50, 9))), torch.arange(50) % 3
    for part in (X[:, ::2], X[:, :5].T.contiguous().T):
        for found, expected in zip(
            class_neighbours(part, y, 2, 4), class_neighbours(part.contiguous(), y, 2, 4), strict=True
        ):
            assert torch.equal(found, expected)


def test_no_queries_no_centres_and_few_samples():
    X, y = torch.randn(6, 2), torch.tensor([0, 0, 0, 1, 1, 1])
    assert nearest(X[:0], X, 2)[1].shape == (0, 2)
    d, indices = nearest(torch.zeros(2, 3), torch.ones(4, 3), 9)
    assert indices.tolist() == [[0, 1, 2, 3]] * 2
    assert d.tolist() == [[3.0] * 4] * 2
    within, between = class_neighbours(X, y, 2, 3, centres=torch.tensor([], dtype=torch.int64))
    assert within.shape == (0, 2)
    assert between.shape == (0, 3)


def test_well_separated_rows_are_certified_without_an_exhaustive_search(monkeypatch):
    monkeypatch.setattr(neighbours, "_exhaustive", None)
    X = torch.tensor(np.random.default_rng(0).normal(size=(2000, 16)))
    within, between = class_neighbours(X, torch.arange(2000) % 4, 3, 15)
    assert within.shape == (2000, 3)
    assert between.shape == (2000, 15)


def test_float64_resolves_what_float32_cannot():
    X = torch.zeros(60, 1, dtype=torch.float64)
    X[1:, 0] = 1.0 - 1e-12 * torch.arange(59, dtype=torch.float64)
    assert nearest(X[:1], X[1:], 3)[1].tolist() == [[58, 57, 56]]


def test_no_sample_in_reach_falls_below_the_threshold():
    """The bound must hold for every pair, not only near ties: compare scores in float32 with the threshold."""
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.normal(size=(200, 50)) * np.exp(3 * rng.normal(size=(200, 1))) + 5.0)
    ids = torch.arange(200)
    side = neighbours._Samples.from_tensor(X, ids, torch.zeros_like(ids), *neighbours._frame(X, X))
    scores = neighbours._scores(side, side, ids, same=True)[1]
    d = (X[:, None] - X).square().sum(-1)
    for column in range(200):
        rows = ids[ids != column]
        threshold = neighbours._threshold(side, side, rows, d[rows, column])
        assert (scores[rows, column] >= threshold).all()
        assert (scores[rows, column] - threshold).abs().max() < 1e-2 * side.norms.max() ** 2


@pytest.mark.parametrize(
    ("change", "value", "usual"),
    [
        (torch.set_float32_matmul_precision, "medium", "highest"),
        (torch.set_default_dtype, torch.float16, torch.float32),
        (torch.set_default_dtype, torch.float64, torch.float32),
    ],
)
def test_global_settings_change_nothing(change, value, usual):
    X, y = torch.tensor(np.random.default_rng(0).normal(size=(300, 8))), torch.arange(300) % 3
    expected = class_neighbours(X, y, 3, 15)
    change(value)
    try:
        found = class_neighbours(X, y, 3, 15)
    finally:
        change(usual)
    assert all(torch.equal(*tables) for tables in zip(found, expected, strict=True))
