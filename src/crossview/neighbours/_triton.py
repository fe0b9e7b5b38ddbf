"""Triton kernels of the neighbour search on a GPU. Import it only where Triton is installed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 128  # rows of a program
_LANES = 32  # groups of columns of a program


def padded_width(n_features: int) -> int:
    """Number of features, padded with zeros, that `group_maxima` needs."""
    return max(16, 1 << (n_features - 1).bit_length()) if n_features <= 128 else -(-n_features // 64) * 64


def group_maxima(
    X: Tensor,
    Y: Tensor,
    bias: Tensor,
    x_codes: Tensor,
    y_codes: Tensor,
    rows: Tensor,
    blocks: Tensor,
    *,
    group_size: int,
    n_groups: int,
    same: bool,
    floor: float,
) -> tuple[Tensor, Tensor]:
    """Maxima of ``X[rows] @ Y.T + bias`` over groups of columns, without storing the products.

    Each block of `ROWS` rows has a row in `blocks`, int32: start, stop, check_start, check_stop, gap. The columns that
    count are ``range(start, stop)``, from check_start on shifted by the gap. If there is no gap, those from check_start
    to check_stop are only eligible if their code differs from that of the row or, if `same`, is the same and the column
    is not the row itself. The score of a column that is not eligible is `floor`.

    Column ``start + g * n_groups + j`` is member g of group j. Returns the maxima, (len(rows), n_groups), with g in the
    lowest bits of the mantissas, and the largest entry of each row that is not the maximum of its group, (len(rows),).
    `group_size` is a power of two, `n_groups` a multiple of 64, and `len(rows)` one of `ROWS`.
    """
    best = torch.empty(len(rows), n_groups, dtype=torch.float32, device=X.device)
    second = torch.full((len(rows),), floor, dtype=torch.float32, device=X.device)
    D = X.shape[1]
    # Rows with few features stay in shared memory; otherwise, larger tiles read them less often.
    few = D <= 128
    fold = (4 if D <= 64 else 2) if few else 8
    with torch.cuda.device_of(X):
        _group_maxima_kernel[(len(rows) // ROWS, n_groups // _LANES)](
            *(X, Y, bias, x_codes, y_codes, rows, blocks, best, second, group_size, n_groups, floor),
            D=D,
            ROWS=ROWS,
            LANES=_LANES,
            FOLD=min(fold, group_size),
            FEATURES=D if few else 64,
            SAME=same,
            num_warps=4 if few else 8,
            num_stages=4 if few else 3,
        )
    return best, second


@triton.jit(do_not_specialize=["group_size"])
def _group_maxima_kernel(
    X,
    Y,
    bias,
    x_codes,
    y_codes,
    rows,
    blocks,
    best,
    second,
    group_size,
    n_groups,
    floor,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    FOLD: tl.constexpr,
    FEATURES: tl.constexpr,
    SAME: tl.constexpr,
):
    """Loop over the members of LANES groups, FOLD at a time; blocks of rows vary fastest, to share the columns."""
    COLUMNS: tl.constexpr = LANES * FOLD
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * LANES
    c = tl.arange(0, COLUMNS)
    f = tl.arange(0, FEATURES)
    block = blocks + tl.program_id(0) * 5
    start, stop = tl.load(block), tl.load(block + 1)
    check_start, check_stop, gap = tl.load(block + 2), tl.load(block + 3), tl.load(block + 4)
    row = tl.load(rows + i)
    row_code = tl.load(x_codes + row)
    x_at = X + row[:, None] * D + f[None, :]
    row = row.to(tl.int32)
    if D == FEATURES:
        x = tl.load(x_at)
    top = tl.full((ROWS, LANES), floor, tl.float32)
    runner_up = tl.full((ROWS, LANES), floor, tl.float32)
    n_members = tl.cdiv(stop - start - first, n_groups)
    for g in range(0, n_members, FOLD):
        member = g + c // LANES
        column = start + member * n_groups + first + c % LANES
        inside = column < stop
        # Columns to ignore are read elsewhere, since reading the same one in all programs at once is slow.
        column = tl.minimum(tl.where(inside, column, start + first + c % LANES), stop - 1)
        column += tl.where(column >= check_start, gap, 0)
        y_at = Y + column[:, None].to(tl.int64) * D + f[None, :]
        if D == FEATURES:
            score = tl.dot(x, tl.load(y_at).T)
        else:
            score = tl.zeros((ROWS, COLUMNS), tl.float32)
            for k in range(0, D, FEATURES):
                score = tl.dot(tl.load(x_at + k), tl.load(y_at + k).T, score)
        score += tl.where(inside, tl.load(bias + column), floor)[None, :]
        checked = False
        for q in tl.static_range(FOLD):
            member_start = start + (g + q) * n_groups + first
            checked = checked | ((member_start < check_stop) & (member_start + LANES > check_start))
        if checked & (gap == 0):
            eligible = (row_code[:, None] == tl.load(y_codes + column)[None, :]) == SAME
            if SAME:
                eligible = eligible & (row[:, None] != column[None, :])
            score = tl.where(eligible, score, floor)
        score = ((score.to(tl.int32, bitcast=True) & -group_size) | member[None, :]).to(tl.float32, bitcast=True)
        top, runner_up = _update(top, runner_up, score, ROWS, COLUMNS, FOLD)
    tl.store(best + i[:, None].to(tl.int64) * n_groups + first + tl.arange(0, LANES)[None, :], top)
    tl.atomic_max(second + i, tl.max(runner_up, 1))


@triton.jit
def _update(top, runner_up, score, ROWS: tl.constexpr, COLUMNS: tl.constexpr, FOLD: tl.constexpr):
    """Two largest of each group after FOLD more members. Halves of the columns lie in the same threads."""
    if FOLD == 1:
        runner_up = tl.maximum(runner_up, tl.minimum(top, score))
        top = tl.maximum(top, score)
    else:
        a, b = tl.split(tl.permute(tl.reshape(score, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))
        top, runner_up = _update(top, runner_up, a, ROWS, COLUMNS // 2, FOLD // 2)
        top, runner_up = _update(top, runner_up, b, ROWS, COLUMNS // 2, FOLD // 2)
    return top, runner_up


def squared_distances(X: Tensor, Y: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Squared distances from ``X[rows]`` to ``Y[columns]``, (len(rows), n_columns), in float64 by differences."""
    n, n_columns = columns.shape
    found = torch.empty(n, n_columns, dtype=torch.float64, device=X.device)
    block = min(16, triton.next_power_of_2(n_columns))
    with torch.cuda.device_of(X):
        _squared_distances_kernel[(n, triton.cdiv(n_columns, block))](
            X, Y, rows, columns, found, n_columns, X.shape[1], COLUMNS=block, FEATURES=128
        )
    return found


@triton.jit
def _squared_distances_kernel(X, Y, rows, columns, found, n_columns, D, COLUMNS: tl.constexpr, FEATURES: tl.constexpr):
    """Distances from one row to COLUMNS of its columns."""
    i = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(rows + i)
    column = tl.load(columns + i * n_columns + j, mask=j < n_columns, other=0)
    total = tl.zeros((COLUMNS, FEATURES), tl.float64)
    for k in range(0, D, FEATURES):
        f = k + tl.arange(0, FEATURES)
        x = tl.load(X + row * D + f, mask=f < D, other=0.0).to(tl.float64)
        y = tl.load(Y + column[:, None] * D + f[None, :], mask=(f < D)[None, :], other=0.0).to(tl.float64)
        total += (y - x[None, :]) * (y - x[None, :])
    tl.store(found + i * n_columns + j, tl.sum(total, 1), mask=j < n_columns)
