"""Triton kernels of the neighbour search on a GPU. Only imported where Triton is installed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 128  # queries of a program
_COLUMNS = 64  # columns of a program in each pass
_FEATURES = 128  # features up to which the queries of a program stay in shared memory


def padded_width(n_features: int) -> int:
    """Number of features, padded with zeros, that `group_maxima` needs."""
    return max(16, triton.next_power_of_2(n_features)) if n_features <= _FEATURES else -(-n_features // 64) * 64


def group_maxima(
    X: Tensor,
    Y: Tensor,
    bias: Tensor,
    x_codes: Tensor,
    y_codes: Tensor,
    rows: Tensor,
    starts: Tensor,
    stops: Tensor,
    *,
    group_size: int,
    n_groups: int,
    same: bool,
    floor: float,
) -> tuple[Tensor, Tensor]:
    """Maxima of ``X[rows] @ Y.T + bias`` over groups of columns, without storing the products.

    Column ``start + g * n_groups + j`` belongs to group j, where start is the first column of the block of `ROWS` rows.
    Returns the maxima, (len(rows), n_groups), with g in the lowest bits of their mantissas, and the largest entry of
    each row that is not the maximum of its group, (len(rows),). Only columns in ``[start, stop)`` count, of the same
    code as the row, except itself, or, if not `same`, of other codes; the score of all others is `floor`.
    """
    n, D = len(rows), X.shape[1]
    best = torch.empty(n, n_groups, dtype=torch.float32, device=X.device)
    second = torch.full((n,), floor, dtype=torch.float32, device=X.device)
    whole = D <= _FEATURES
    columns = _COLUMNS if whole else 2 * _COLUMNS
    _group_maxima_kernel[(n // ROWS, triton.cdiv(n_groups, columns))](
        X,
        Y,
        bias,
        x_codes,
        y_codes,
        rows,
        starts,
        stops,
        best,
        second,
        n_groups,
        floor,
        D=D,
        ROWS=ROWS,
        COLUMNS=columns,
        FEATURES=D if whole else 64,
        GROUP_SIZE=group_size,
        SAME=same,
        num_warps=4 if whole else 8,
        num_stages=4,
    )
    return best, second


@triton.jit
def _group_maxima_kernel(
    X,
    Y,
    bias,
    x_codes,
    y_codes,
    rows,
    starts,
    stops,
    best,
    second,
    n_groups,
    floor,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEATURES: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    SAME: tl.constexpr,
):
    """Loop over the members of COLUMNS groups for ROWS rows; rows vary fastest, so that programs share columns."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    f = tl.arange(0, FEATURES)
    start, stop = tl.load(starts + tl.program_id(0)), tl.load(stops + tl.program_id(0))
    row = tl.load(rows + i)
    row_code = tl.load(x_codes + row)
    x_at = X + row[:, None] * D + f[None, :]
    if D == FEATURES:
        x = tl.load(x_at)
    top = tl.full((ROWS, COLUMNS), floor, tl.float32)
    runner_up = tl.full((ROWS, COLUMNS), floor, tl.float32)
    for g in range(0, tl.cdiv(stop - start - tl.program_id(1) * COLUMNS, n_groups)):
        column = start + g * n_groups + j
        inside = column < stop
        column = tl.minimum(column, stop - 1)
        y_at = Y + column[:, None] * D + f[None, :]
        if D == FEATURES:
            score = tl.dot(x, tl.load(y_at).T)
        else:
            score = tl.zeros((ROWS, COLUMNS), tl.float32)
            for k in range(0, D, FEATURES):
                score = tl.dot(tl.load(x_at + k), tl.load(y_at + k).T, score)
        score += tl.where(inside, tl.load(bias + column), floor)[None, :]
        eligible = (row_code[:, None] == tl.load(y_codes + column)[None, :]) == SAME
        if SAME:
            eligible = eligible & (row[:, None] != column[None, :])
        score = tl.where(eligible, score, floor)
        score = ((score.to(tl.int32, bitcast=True) & -GROUP_SIZE) | g).to(tl.float32, bitcast=True)
        runner_up = tl.maximum(runner_up, tl.minimum(top, score))
        top = tl.maximum(top, score)
    inside = j[None, :] < n_groups
    tl.store(best + i[:, None].to(tl.int64) * n_groups + j[None, :], top, mask=inside)
    tl.atomic_max(second + i, tl.max(tl.where(inside, runner_up, floor), 1))


def squared_distances(X: Tensor, Y: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Squared distances from ``X[rows]`` to ``Y[columns]``, (len(rows), n_columns), in float64 by differences."""
    n, n_columns = columns.shape
    found = torch.empty(n, n_columns, dtype=torch.float64, device=X.device)
    block = min(16, triton.next_power_of_2(n_columns))
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
