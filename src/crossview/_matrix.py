"""Checks of the matrix of one view."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossview._types import FeatureNames, Rows
from crossview.engines import checked_rows, lazy_if_stored, nan_rows, place, to_device, to_numpy

_NUMERIC_KINDS = "biuf"


def check_matrix(X: Any, label: str) -> Rows:
    """Check one view, (m, D), called `label` in errors.

    Returns it as float64, as a tensor or as a Dask array, sharing memory if possible.
    """
    (matrix,) = lazy_if_stored([X])
    checked: Rows = checked_rows(as_numbers(matrix, label), check_finite, label)
    return checked


def check_finite(numbers: Rows, label: str, first: int = 0) -> Rows:
    """Numbers as float64, or as the tensor they are; `first` is the number of the first row."""
    X: Rows = numbers if place(numbers) else np.ascontiguousarray(numbers, dtype=np.float64)
    # One pass over the data usually suffices; an overflowing sum only costs the detailed check.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(float(X.sum())):
            return X
    infinite = abs(X) == np.inf
    if infinite.any():
        k, f = np.argwhere(to_numpy(infinite))[0]
        raise ValueError(f"{label} contains infinity (row {first + k}, column {f}): clip or remove it.")
    unseen, some = nan_rows(X)
    partly = some & ~unseen
    if partly.any():
        raise ValueError(
            f"{label} contains NaN in part of row {first + np.flatnonzero(partly)[0]}: impute it "
            "(scikit-learn's SimpleImputer), or fill the whole row with NaN if the sample is missing from this view."
        )
    return X


def as_numbers(X: Any, label: str) -> Rows:
    """Convert the input to a dense matrix of numbers, or refuse it."""
    where = place(X)
    if where == "Dask":
        return _lazy_numbers(X, label)
    if where:
        if X.is_complex():
            raise ValueError(f"Complex data not supported: {label} is complex; pass real numbers.")
        if str(X.layout) != "torch.strided":
            raise TypeError(f"{label} is a sparse tensor, and sparse input is not supported: pass X.to_dense().")
        if X.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{label} is on device {str(X.device)!r}: move it to 'cpu' or 'cuda'.")
        return _check_shape(to_device(X.detach(), X.device), label)
    if scipy.sparse.issparse(X):
        raise TypeError(
            f"{label} is a scipy.sparse matrix, and sparse input is not supported: pass X.toarray(), or reduce it with "
            "sklearn.decomposition.TruncatedSVD first."
        )
    if X is None:
        raise ValueError(f"{label} is None: pass a matrix, with rows of NaN for missing samples.")
    kinds = column_kinds(X)
    if kinds is not None:
        for column, kind in kinds.items():
            if kind not in _NUMERIC_KINDS:
                raise ValueError(f"{label} has a non-numeric column, {column!r}: encode it as numbers, or remove it.")
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        matrix: NDArray[Any] = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{label} is not a matrix: its rows have different lengths.") from error
    return _check_shape(_check_numeric(matrix, label), label)


def _lazy_numbers(X: Rows, label: str) -> Rows:
    """A Dask array of numbers with every row in one chunk."""
    if np.isnan(X.shape).any():
        raise ValueError(f"{label} has chunks of unknown size: call X.compute_chunk_sizes() first.")
    matrix = _check_shape(_check_numeric(X, label), label)
    return matrix if matrix.numblocks[1] == 1 else matrix.rechunk({1: -1})


def _check_numeric(matrix: Rows, label: str) -> Rows:
    """Refuse what is not real numbers."""
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {label} is complex; pass real numbers.")
    if matrix.dtype.kind not in _NUMERIC_KINDS:
        raise ValueError(
            f"{label} has dtype {matrix.dtype}, not numbers: encode strings and categories as numbers, and convert "
            "object arrays with X.astype(float)."
        )
    return matrix


def _check_shape(matrix: Rows, label: str) -> Rows:
    """Refuse what is not a matrix, or empty."""
    if matrix.ndim != 2:
        hint = " Reshape your data: X.reshape(1, -1) for one sample, X.reshape(-1, 1) for one feature."
        hint = hint if matrix.ndim == 1 else ""
        raise ValueError(
            f"{label} must be a matrix (samples, features), got an array of shape {tuple(matrix.shape)}.{hint}"
        )
    for axis, what in enumerate(("sample", "feature")):
        if matrix.shape[axis] == 0:
            raise ValueError(
                f"{label} is empty: 0 {what}(s) (shape={tuple(matrix.shape)}) while a minimum of 1 is required."
            )
    return matrix


def column_names(X: Any, label: str) -> FeatureNames:
    """Names of the columns of a data frame; None for anything else, and for columns that are not called by strings."""
    columns = list(getattr(X, "columns", ()))
    named = [isinstance(column, str) for column in columns]
    if not any(named):
        return None
    if not all(named):
        raise TypeError(
            f"{label} has columns with and without a string as name, among them {columns[named.index(False)]!r}: "
            "convert them with X.columns = X.columns.astype(str)."
        )
    return [str(column) for column in columns]


def column_kinds(X: Any) -> dict[Any, str] | None:
    """Dtype kinds of the columns of a pandas frame; None for anything else."""
    if hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        return {column: dtype.kind for column, dtype in X.dtypes.items()}
    return None
