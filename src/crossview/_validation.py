"""Checks of input. Every error names the fix."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.utils import column_or_1d

from crossview._config import get_config
from crossview._types import Array, Indices, Labels, Mask, Rows
from crossview.engines import (
    column_ranges,
    cross_product,
    labels_like,
    map_rows,
    mask_of,
    n_missing,
    place,
    row_total,
    to_numpy,
)
from crossview.exceptions import NotApplicableError
from crossview.views import ViewInput, Views, seen_by_several

_MAX_EXACT = 2.0**53  # beyond which some whole numbers have no floating-point number of their own
_SMALLEST, _LARGEST = 1e-140, 1e140  # values whose squares, and sums of them, are floating-point numbers
WARNING_FILTERS = RLock()  # held while they change: threads that put them back in the wrong order leave them changed


def check_views(views: ViewInput, estimator: object) -> Views:
    """Views to learn from: two or more that vary and share samples.

    Samples that only one view has are marked as missing there as well.
    """
    checked = Views(views)
    names, estimator_name = checked.names, type(estimator).__name__
    if len(names) < 2:
        raise ValueError(f"{estimator_name} needs 2 views or more, got {len(names)}: pass one matrix per view.")
    found: _Summary = row_total(_summary, checked.arrays)
    _check_numbers(names, np.diagonal(found.shared), "has {} sample(s)", estimator_name)
    if np.diagonal(found.shared).min() < len(checked):
        n_groups, group = connected_components(found.shared > 0, directed=False)
        if n_groups > 1:
            groups = [", ".join(repr(names[int(v)]) for v in np.flatnonzero(group == g)) for g in range(n_groups)]
            raise ValueError(
                f"these groups of views share no sample, so no common space exists: {' | '.join(groups)}. "
                "Row k of every view must be the same sample."
            )
        checked = Views(checked, mask=seen_by_several(checked.mask))
        _check_numbers(names, found.n_paired, "shares {} sample(s) with other views", estimator_name)
    for view, low, high in zip(names, found.low, found.high, strict=True):
        largest = max(high.max(), -low.min())
        if largest > _LARGEST or 0.0 < largest < _SMALLEST:
            how = "large to be squared: scale it down" if largest > _LARGEST else "small to be squared: scale it up"
            raise ValueError(f"view {view!r} has values too {how}.")
        if (low == high).all():
            raise ValueError(f"view {view!r} is constant in every column: leave it out.")
    return checked


def _check_numbers(names: Sequence[str], numbers: Array | Indices, what: str, estimator: str) -> None:
    for view, number in zip(names, numbers, strict=True):
        if number < 2:
            raise ValueError(
                f"view {view!r} {what.format(int(number))}, but {estimator} needs at least 2 to learn from."
            )


@dataclass(frozen=True)
class _Summary:
    """What the checks need to know of the samples of n views; `+` merges what is known of two blocks of rows."""

    shared: Array  # (n, n): number of samples that two views share
    n_paired: Indices  # (n,): number of samples of each view that another view has, too
    low: list[Array]  # smallest and largest value of every column, among these samples
    high: list[Array]

    def __add__(self, other: _Summary) -> _Summary:
        return _Summary(
            self.shared + other.shared,
            self.n_paired + other.n_paired,
            [*map(np.minimum, self.low, other.low)],
            [*map(np.maximum, self.high, other.high)],
        )


def _summary(arrays: Sequence[Rows]) -> _Summary:
    mask = mask_of(*arrays)
    seen, paired = mask.astype(np.float64), seen_by_several(mask)
    rows = [X if there.all() else X[there] for X, there in zip(arrays, paired.T, strict=True)]
    low, high = zip(*map(column_ranges, rows), strict=True)
    return _Summary(cross_product(seen, seen), paired.sum(axis=0), [*low], [*high])


def learnable_views(views: ViewInput) -> Views:
    """Samples to learn from: those that several views have, unless this leaves a view without any."""
    checked = Views(views)
    n_seen, n_paired = row_total(_sample_counts, checked.arrays)
    for name, number in zip(checked.names, n_seen, strict=True):
        if not number:
            raise ValueError(f"view {name!r} has no samples to learn from: remove it.")
    complete = n_seen.min() == len(checked)
    return checked if complete or not n_paired.all() else Views(checked, mask=seen_by_several(checked.mask))


def warn_of_kernel_matrices(views: Views) -> None:
    """Warn if views that are to be features look like kernel matrices between the samples."""
    square = views._place != "Dask" and set(views.n_features) == {len(views)}
    if square and all(np.allclose(X, X.T) for X in map(to_numpy, views.arrays)):
        warnings.warn(
            "the views are square and symmetric, like kernel matrices, but are taken for features: to search with "
            "kernel matrices, use EmbeddingSearchCV(KMvHE(kernel='precomputed'), ...).",
            stacklevel=3,
        )


def _sample_counts(arrays: Sequence[Rows]) -> list[Indices]:
    """Number of samples in each view, and of those that another view has, too."""
    mask = mask_of(*arrays)
    return [mask.sum(axis=0), seen_by_several(mask).sum(axis=0)]


def check_labels(y: Any, views: Views, estimator: object) -> Any:
    """Classes of the samples that views have, coded from 0: at least two. Codes of other samples mean nothing."""
    if y is None:
        what = f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        raise ValueError(f"{what}: give one class label per sample.")
    codes, classes = code_labels(y, views)
    if len(classes) < 2:
        what = "y has" if n_missing(views.mask) == 0 else "samples present in at least two views have"
        need = f"{type(estimator).__name__} needs at least 2 classes to tell apart"
        raise ValueError(f"{what} one class only ({', '.join(map(str, classes))}): {need}.")
    return codes


def code_labels(y: Any, views: Views) -> tuple[Any, Labels]:
    """Classes of the samples that views have, coded from 0, where the views are; and these classes."""
    labels = labels_like(views.mask, y, partial(label_array, warn=True))
    if len(labels) != len(views):
        raise ValueError(
            f"y has {len(labels)} labels, but the views have {len(views)} samples: give one label per row."
        )
    counts: Counter[Any] = row_total(_count_labels, [views.mask, labels])
    if len({isinstance(label, str) for label in counts}) > 1:  # in different blocks
        raise ValueError("y mixes strings with numbers: give every sample one class label.")
    classes = np.array(sorted(counts))
    return map_rows(labels, _codes, classes), classes


def _count_labels(rows: list[Any]) -> Counter[Any]:
    mask, labels = rows[0], _as_classes(rows[1])
    found, counts = np.unique(labels[mask.any(axis=1)], return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def _codes(labels: Labels, classes: Labels) -> Indices:
    codes: Indices = np.searchsorted(classes[:-1], _as_classes(labels))
    return codes


def as_labels(y: ArrayLike, n: int, name: str = "y") -> Labels:
    """Classes of n samples, as text or as numbers. The empty text stands for an unknown class."""
    labels = label_array(y)
    if len(labels) != n:
        raise ValueError(f"{name} has {len(labels)} labels for {n} samples: give one label per row.")
    return _as_classes(labels, name)


def _as_classes(labels: Labels, name: str = "y") -> Labels:
    """Labels as text or numbers; refuse those that do not stand for classes.

    scikit-learn's check warns of many classes with few samples, which recognition is about, and filtering a warning is
    not safe while other threads run.
    """
    if labels.dtype == object:
        others = [label for label in labels if not isinstance(label, str)]
        if 0 < len(others) < len(labels):
            raise ValueError(f"{name} mixes strings with {others[0]!r}: give every sample one class label.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"Unknown label type: {labels.dtype}. Give classes as text or whole numbers.")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"Input {name} contains NaN or infinity: give every sample a class, or remove it.")
        if (labels != np.floor(labels)).any():
            raise ValueError("Unknown label type: continuous. Give classes as text or whole numbers, not measurements.")
    check_exact(labels)
    small = labels.dtype == np.uint64 and labels.max(initial=0) <= np.iinfo(np.int64).max
    return labels.astype(np.int64) if small else labels  # with signed numbers, uint64 becomes floating point


def check_exact(*labels: Labels) -> None:
    """Refuse large numbers in floating point, which int64 and uint64 become together: different ones become equal."""
    if np.result_type(*labels).kind == "f" and any((np.abs(y.astype(np.float64)) >= _MAX_EXACT).any() for y in labels):
        raise ValueError("labels of 2**53 or more must all be of one integer type: convert them, or use text.")


def has_label(labels: Labels) -> Mask:
    """Which labels are known."""
    return labels != "" if labels.dtype.kind == "U" else np.ones(len(labels), dtype=bool)


def label_array(y: Any, *, warn: bool = False) -> Labels:
    """Labels as a NumPy array, (m,), unchecked; with a warning if they are a column and one is wanted."""
    with WARNING_FILTERS:
        labels: Labels = column_or_1d(to_numpy(y) if place(y) else y, warn=warn)
    return labels


def check_same_kind(labels: Labels, gallery_labels: Labels) -> None:
    """Refuse labels that cannot be equal to those of the gallery."""
    if (labels.dtype.kind == "U") != (gallery_labels.dtype.kind == "U"):
        raise ValueError("y and the gallery's labels must be of the same kind: use either strings or numbers.")
    check_exact(labels, gallery_labels)


def check_count(value: object, name: str, *, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}.")


def check_choice(value: object, name: str, choices: Sequence[str]) -> None:
    """Refuse what is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_flag(value: object, name: str) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_lazy(X: object, estimator: object, instead: str | None = None) -> None:
    """Refuse Dask arrays where they cannot be used; `instead` says what to do."""
    if place(X) != "Dask":
        return
    name = type(estimator).__name__
    if instead is not None:
        raise NotApplicableError(f"{name} does not take Dask arrays: {instead}.")
    if (device := get_config()["device"]) is not None:
        raise ValueError(f"{name} does not take Dask arrays with device={device!r}: set device=None.")


def check_weight(value: object, name: str, *, positive: bool = False) -> None:
    """Refuse what is not a finite number, 0 or more (or above 0)."""
    fine = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and np.isfinite(float(value))
    if not fine or float(value) < 0 or (positive and value == 0):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be a finite number {'above 0' if positive else 'of 0 or more'}, got {value!r}.")


def check_coupling(coupling: object, views: Views) -> None:
    """Refuse a coupling that is not a number of 0 or more, or infinity; and one of views without common coordinates."""
    if isinstance(coupling, str) and coupling == "auto":
        return
    if isinstance(coupling, bool | np.bool_) or not isinstance(coupling, Real) or not float(coupling) >= 0:
        raise ValueError(f"coupling must be 'auto' or a number, 0 or more, or infinity, got {coupling!r}.")
    if coupling and len(set(views.n_features)) > 1:
        widths = ", ".join(map(str, views.n_features))
        what = f"coupling={coupling:g} needs views of equal width, with the same features, got {widths}"
        raise NotApplicableError(f"{what}: use coupling=0, or crossview.MvHE.")


def check_two_views(views: Views, estimator: object) -> None:
    """Refuse more than two views."""
    if (n := views.shape[1]) != 2:
        what = f"{type(estimator).__name__} takes 2 views, got {n}"
        raise NotApplicableError(f"{what}: use crossview.MCCA for more than two.")


def check_equal_widths(views: Views, estimator: object) -> None:
    """Refuse views of unequal width, for methods that compare or pool samples of different views."""
    if len(set(views.n_features)) > 1:
        name, widths = type(estimator).__name__, ", ".join(map(str, views.n_features))
        raise NotApplicableError(f"{name} needs views of equal width, got {widths} features: use crossview.MvHE.")


def per_view(value: float | Sequence[float], name: str, n: int, *, positive: bool = False) -> list[float]:
    """A weight for every view, from one for all or one for each."""
    values = list(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value] * n
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} values for {n} views: give one number, or one per view.")
    for one in values:
        check_weight(one, name, positive=positive)
    return [float(one) for one in values]
