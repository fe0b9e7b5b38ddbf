"""The container for samples seen from several views, and checks of what is put into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from crossview._config import get_config
from crossview._text import counted
from crossview._types import FeatureNames, Mask, Rows
from crossview.engines import (
    checked_rows,
    hide_rows,
    lazy_if_stored,
    mask_of,
    n_missing,
    nan_rows,
    place,
    to_device,
    to_numpy,
)

__all__ = ["ViewInput", "Views", "index_of_view", "seen_by_several"]

ViewInput: TypeAlias = "Views | Mapping[str, Any] | Sequence[Any]"

_NUMERIC_KINDS = "biuf"
_HOW_TO_INDEX = "Views are indexed by samples, views[rows] with a slice or a 1-d array, or by name, views['photo']."


class Views:
    """Samples seen from one or more views.

    Row k of every view is the same object. A sample missing from a view is a row of NaN there, or False in `mask`.
    Indexing selects samples, so a `Views` works like an array in scikit-learn's ``train_test_split``,
    ``cross_val_score``, ``GridSearchCV``, ``learning_curve`` and ``Pipeline``.

    Parameters
    ----------
    views : sequence or mapping of array-like, each of shape (m, D_v)
        One matrix per view: NumPy arrays, pandas or polars frames, torch tensors on one device, or Dask arrays whose
        rows are chunked alike. With Dask installed, zarr arrays and memory maps of more than 1 GiB become Dask arrays,
        too. The keys of a mapping become the names.
    names : sequence of str, optional
        One name per view; ``view0``, ``view1``, … by default.
    mask : array-like of bool, shape (m, n), optional
        False where a sample is missing from a view, whatever its row contains. Derived from the rows of NaN by default.
    feature_names : sequence, optional
        Names of the columns, one sequence of str or None per view. By default, those of data frames, if they are text.
    image_shape : tuple of int, optional
        Height and width, if the features of every view are the pixels of an image, row by row.

    Attributes
    ----------
    arrays : list of ndarray, Tensor or Dask array, each of shape (m, D_v)
        The views as arrays of float64, or as the tensors or lazy Dask arrays that they were given as, with rows of NaN
        where a sample is missing. They share memory with the input unless it had to be converted.
    mask : ndarray or Dask array of bool, shape (m, n)
        True where a sample is present in a view.
    names, feature_names, image_shape
        As given, or by default.

    Examples
    --------
    >>> import numpy as np
    >>> import crossview as cv
    >>> views = cv.Views([np.eye(4), np.ones((4, 2))], names=["photo", "sketch"])
    >>> views
    Views(4 samples; photo: 4 features, sketch: 2 features)
    >>> len(views), views.shape
    (4, (4, 2))
    >>> views[:2]["photo"]
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.]])
    """

    feature_names: list[FeatureNames]
    image_shape: tuple[int, int] | None

    def __init__(
        self,
        views: ViewInput,
        names: Sequence[str] | None = None,
        mask: ArrayLike | None = None,
        *,
        feature_names: Sequence[Sequence[str] | None] | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        matrices, given = _unpack(views)
        matrices = lazy_if_stored(matrices)
        self.names: list[str] = _check_names(given if names is None else names, len(matrices))
        labels = [f"view {name!r}" for name in self.names]
        arrays = [_as_numbers(X, label) for X, label in zip(matrices, labels, strict=True)]
        _check_rows(arrays, matrices, self.names)
        shown = None if mask is None else _check_mask(mask, arrays)
        if shown is not None:
            arrays = [hide_rows(X, seen) for X, seen in zip(arrays, shown.T, strict=True)]
        trusted = isinstance(views, Views)
        self.arrays: list[Rows] = [
            checked_rows(X, _check_finite, label, trusted) for X, label in zip(arrays, labels, strict=True)
        ]
        self.mask: Mask = mask_of(*self.arrays)
        if shown is not None and n_missing(self.mask) is not None and (wrong := shown & ~self.mask).any():
            k, v = np.argwhere(wrong)[0]
            raise ValueError(
                f"mask says that sample {k} was seen in {labels[v]}, but its row is NaN: "
                "fill in its values, or set mask to False there."
            )
        if isinstance(views, Views):
            feature_names = views.feature_names if feature_names is None else feature_names
            image_shape = views.image_shape if image_shape is None else image_shape
        if feature_names is None:
            self.feature_names = [_column_names(X, label) for X, label in zip(matrices, labels, strict=True)]
        else:
            self.feature_names = _check_feature_names(feature_names, self.names, self.n_features)
        self.image_shape = None if image_shape is None else _check_image_shape(image_shape, self.names, self.n_features)

    @classmethod
    def _trusted(
        cls,
        arrays: Iterable[Rows],
        names: Sequence[str],
        mask: Mask,
        feature_names: Sequence[FeatureNames] | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> Views:
        """Wrap valid arrays without checking them again."""
        views = cls.__new__(cls)
        views.arrays, views.names, views.mask = list(arrays), list(names), mask
        views.feature_names = [None] * len(views.names) if feature_names is None else list(feature_names)
        views.image_shape = image_shape
        return views

    def _on_device(self) -> Views:
        """The same samples as tensors on the device that is set, if any; tensors stay where they are."""
        device = get_config()["device"]
        if device is None or self._place:
            return self
        arrays = [to_device(X, device) for X in self.arrays]
        return Views._trusted(arrays, self.names, self.mask, self.feature_names, self.image_shape)

    def _in_memory(self) -> Views:
        """The same samples as NumPy arrays."""
        arrays = [to_numpy(X) for X in self.arrays]
        return Views._trusted(arrays, self.names, self.mask, self.feature_names, self.image_shape)

    @property
    def _place(self) -> str:
        return place(self.arrays[0])

    @property
    def shape(self) -> tuple[int, int]:
        """(samples, views)."""
        return len(self.arrays[0]), len(self.arrays)

    @property
    def n_features(self) -> tuple[int, ...]:
        """Features per view, D_v."""
        return tuple(X.shape[1] for X in self.arrays)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Select samples (returns `Views`) or, by name, one view (returns an array)."""
        if isinstance(key, str):
            return self.arrays[index_of_view(key, self.names)]
        if isinstance(key, tuple):
            # scikit-learn indexes objects that have a shape with array[rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(_HOW_TO_INDEX)
            key = key[0]
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"sample {key} is out of range for {len(self)} samples.")
            key = [key]
        rows = key if isinstance(key, slice) else np.asarray(key)
        if isinstance(rows, np.ndarray):
            rows = rows.astype(np.intp) if rows.size == 0 else rows
            if rows.ndim != 1 or rows.dtype.kind not in "biu":
                raise IndexError(_HOW_TO_INDEX)
        if not isinstance(rows, slice) or (rows.step or 1) < 0:
            # Tensors know no negative steps, and take uint8 for a mask.
            rows = np.ascontiguousarray(np.arange(len(self))[rows])
        arrays = [X[rows] for X in self.arrays]
        return Views._trusted(arrays, self.names, self.mask[rows], self.feature_names, self.image_shape)

    # `len` counts samples, so iterating over views would be surprising: use `.arrays`.
    __iter__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError("a Views is not one array: take .arrays, or one view with views['name'].")

    def __repr__(self) -> str:
        parts = [f"{name}: {counted(D, 'feature')}" for name, D in zip(self.names, self.n_features, strict=True)]
        missing = n_missing(self.mask)
        gaps = f"; {counted(missing, 'row')} missing" if missing else ""
        return f"Views({counted(len(self), 'sample')}; {', '.join(parts)}{gaps})"


def _unpack(views: ViewInput) -> tuple[list[Any], list[str] | None]:
    if isinstance(views, Views):
        return list(views.arrays), views.names
    if isinstance(views, Mapping):
        return list(views.values()), list(views.keys())
    if isinstance(views, list | tuple):
        return list(views), None
    raise TypeError(
        f"expected a list, tuple, dict or crossview.Views of matrices, got {type(views).__name__}: pass a list with "
        "one (samples, features) matrix per view."
    )


def _check_names(names: Sequence[str] | None, n: int) -> list[str]:
    if n == 0:
        raise ValueError("got no views: pass one (samples, features) matrix per view.")
    if names is None:
        return [f"view{v}" for v in range(n)]
    checked = [] if isinstance(names, str) else list(names)
    if len(checked) != n or len(set(checked)) != n or not all(isinstance(name, str) for name in checked):
        raise ValueError(f"names must be a list of {n} different strings, one per view, got {names!r}.")
    return checked


def _check_feature_names(
    given: Sequence[Sequence[str] | None], names: Sequence[str], widths: Sequence[int]
) -> list[FeatureNames]:
    per_view = [] if isinstance(given, str) else list(given)
    valid = len(per_view) == len(names) and all(
        columns is None
        or (not isinstance(columns, str) and len(columns) == D and all(isinstance(one, str) for one in columns))
        for columns, D in zip(per_view, widths, strict=True)
    )
    if not valid:
        wanted = ", ".join(f"{D} for {name!r}" for name, D in zip(names, widths, strict=True))
        raise ValueError(
            f"feature_names must have one entry per view, None or a list with a string per column ({wanted}), "
            f"got {given!r}."
        )
    return [None if columns is None else list(map(str, columns)) for columns in per_view]


def _check_image_shape(given: tuple[int, int], names: Sequence[str], widths: Sequence[int]) -> tuple[int, int]:
    sizes = list(given) if isinstance(given, list | tuple) else []
    whole = [int(size) for size in sizes if isinstance(size, int | np.integer) and not isinstance(size, bool)]
    if len(sizes) != 2 or len(whole) != 2 or min(whole) < 1:
        raise ValueError(f"image_shape must be the height and width of the images in pixels, got {given!r}.")
    height, width = whole
    for name, D in zip(names, widths, strict=True):
        if height * width != D:
            raise ValueError(
                f"image_shape={given!r} means {height * width} pixels, but view {name!r} has {counted(D, 'feature')}: "
                "give the height and width that all views share, or leave it out."
            )
    return height, width


def _check_rows(arrays: Sequence[Rows], given: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse views whose rows cannot belong to the same samples."""
    if len({len(X) for X in arrays}) > 1:
        counts = ", ".join(f"{name!r} has {len(X)}" for name, X in zip(names, arrays, strict=True))
        raise ValueError(
            f"all views need the same number of rows: {counts}. Row k of every view is the same sample; "
            "use a row of NaN for a sample that is missing from a view."
        )
    places = {place(X) for X in arrays}
    if len(places) > 1:
        found = ", ".join(one or "an array" for one in sorted(places))
        raise ValueError(
            f"the views are in different places ({found}): pass arrays, tensors on one device, or Dask arrays."
        )
    for name, X in zip(names, arrays, strict=True):
        if getattr(X, "chunks", None) and X.chunks[0] != arrays[0].chunks[0]:
            raise ValueError(
                f"the rows of views {names[0]!r} and {name!r} are in different chunks: rechunk one like the other, "
                "Z.rechunk({0: X.chunks[0]})."
            )
    frames = [(name, X.index) for name, X in zip(names, given, strict=True) if _is_pandas(X)]
    for name, index in frames[1:]:
        first, reference = frames[0]
        if not index.equals(reference) and not set(index).isdisjoint(reference):
            raise ValueError(
                f"views {first!r} and {name!r} share index labels, but in different rows; row k of every view must be "
                "the same sample. Align them with frame.reindex(other.index), or use frame.reset_index(drop=True) if "
                "the rows already correspond."
            )


def _check_mask(mask: Any, arrays: Sequence[Rows]) -> Any:
    shape = len(arrays[0]), len(arrays)
    given = mask if place(mask) == place(arrays[0]) == "Dask" else np.asarray(mask)
    if given.dtype != np.bool_ or given.shape != shape:
        raise ValueError(
            f"mask must be a boolean array of shape {shape} (samples, views), "
            f"got dtype {given.dtype} and shape {given.shape}."
        )
    return given


def _as_numbers(X: Any, label: str) -> Rows:
    """Convert one view to a dense matrix of numbers, or refuse it."""
    where = place(X)
    if where == "Dask":
        if np.isnan(X.shape).any():
            raise ValueError(f"{label} has chunks of unknown size: call X.compute_chunk_sizes() first.")
        matrix = _check_shape(_check_numeric(X, label), label)
        return matrix if matrix.numblocks[1] == 1 else matrix.rechunk({1: -1})
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
    if _is_pandas(X):
        for column, dtype in X.dtypes.items():
            if dtype.kind not in _NUMERIC_KINDS:
                raise ValueError(f"{label} has a non-numeric column, {column!r}: encode it as numbers, or remove it.")
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{label} is not a matrix: its rows have different lengths.") from error
    return _check_shape(_check_numeric(X, label), label)


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns")


def _check_numeric(matrix: Rows, label: str) -> Rows:
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {label} is complex; pass real numbers.")
    if matrix.dtype.kind not in _NUMERIC_KINDS:
        raise ValueError(
            f"{label} has dtype {matrix.dtype}, not numbers: encode strings and categories as numbers, and convert "
            "object arrays with X.astype(float)."
        )
    return matrix


def _check_shape(matrix: Rows, label: str) -> Rows:
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        hint = " Reshape your data: X.reshape(1, -1) for one sample, X.reshape(-1, 1) for one feature."
        hint = hint if len(shape) == 1 else ""
        raise ValueError(f"{label} must be a matrix (samples, features), got an array of shape {shape}.{hint}")
    for number, what in zip(shape, ("sample", "feature"), strict=True):
        if number == 0:
            raise ValueError(f"{label} is empty: 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
    return matrix


def _check_finite(numbers: Rows, label: str, first: int = 0) -> Rows:
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


def _column_names(X: Any, label: str) -> FeatureNames:
    """Names of the columns of a data frame; None for anything else, and for columns that are not called by strings."""
    columns = list(getattr(X, "columns", ()))
    others = [column for column in columns if not isinstance(column, str)]
    if others and len(others) < len(columns):
        raise TypeError(
            f"{label} has columns with and without a string as name, among them {others[0]!r}: "
            "convert them with X.columns = X.columns.astype(str)."
        )
    return None if others or not columns else [str(column) for column in columns]


def index_of_view(view: int | str, names: Sequence[str]) -> int:
    """Position of a view, given by index or name."""
    if isinstance(view, str):
        if view not in names:
            raise ValueError(f"unknown view {view!r}: the views are {', '.join(map(repr, names))}.")
        return list(names).index(view)
    if isinstance(view, bool) or not isinstance(view, int | np.integer):
        raise TypeError(f"view must be an index or a name, got {type(view).__name__}.")
    if not 0 <= view < len(names):
        raise ValueError(f"no view {view}: the views are 0 to {len(names) - 1}.")
    return int(view)


def seen_by_several(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask without the samples that only one view has; unchanged if there is only one view.

    Nothing ties such samples to another view, and as neighbours or class members they would bias the scatters of their
    view against those of the pairs. Fits therefore ignore them.
    """
    if mask.shape[1] == 1 or n_missing(mask) == 0:
        return mask
    several: NDArray[np.bool_] = mask & (mask.sum(axis=1, keepdims=True) > 1)
    return several
