"""Checks of input. Every error names the fix."""

from __future__ import annotations

import re
import warnings
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
    frobenius_norm,
    labels_like,
    map_rows,
    place,
    row_blocks,
    to_numpy,
)
from crossview.exceptions import NotApplicableError
from crossview.views import ViewInput, Views, seen_by_several

_MAX_EXACT = 2.0**53  # beyond which some whole numbers have no floating-point number of their own
WARNING_FILTERS = RLock()  # held while they change: threads that put them back in the wrong order leave them changed
_FORMULA = re.compile(r"\s*([=@＝＠]|[+\-＋－](?![0-9.]+\Z))")


def check_views(views: ViewInput, estimator: object) -> Views:
    """Views to learn from: two or more that vary and share samples.

    Samples that only one view has are marked as missing there as well.
    """
    checked = Views(views)
    name = type(estimator).__name__
    if checked.shape[1] < 2:
        raise ValueError(f"{name} needs 2 views or more, got {checked.shape[1]}: pass one matrix per view.")
    with np.errstate(over="ignore"):
        found: _Summary = checked._total(_summary)
    _check_numbers(checked.names, np.diagonal(found.shared), "has {} sample(s)", name)
    if np.diagonal(found.shared).min() < len(checked):
        _check_connected(checked.names, found.shared)
        checked = Views(checked, mask=seen_by_several(checked.mask))
        _check_numbers(checked.names, found.n_paired, "shares {} sample(s) with other views", name)
    for view, low, high, norm in zip(checked.names, found.low, found.high, found.norms, strict=True):
        if not np.isfinite(norm):
            raise ValueError(f"view {view!r} has values too large to be squared: scale it down.")
        if 0.0 < max(high.max(), -low.min()) < 1e-140:
            raise ValueError(f"view {view!r} has values too small to be squared: scale it up.")
        if (low == high).all():
            raise ValueError(f"view {view!r} is constant in every column: leave it out.")
    return checked


def learnable_views(views: ViewInput) -> Views:
    """Samples to learn from: those that several views have, unless this leaves a view without any."""
    checked = Views(views)
    n_seen, n_paired = checked._total(_sample_counts)
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


def _sample_counts(arrays: Sequence[Rows], mask: Mask) -> list[Indices]:
    """Number of samples in each view, and of those that another view has, too."""
    return [mask.sum(axis=0), seen_by_several(mask).sum(axis=0)]


@dataclass(frozen=True)
class _Summary:
    """What the checks need to know of the samples of n views; `+` merges what is known of two blocks of rows."""

    shared: Array  # (n, n): number of samples that two views share
    n_paired: Indices  # (n,): number of samples of each view that another view has, too
    low: list[Array]  # smallest and largest value of every column, among these samples
    high: list[Array]
    norms: Array  # (n,): norm of these samples

    def __add__(self, other: _Summary) -> _Summary:
        return _Summary(
            self.shared + other.shared,
            self.n_paired + other.n_paired,
            [*map(np.minimum, self.low, other.low)],
            [*map(np.maximum, self.high, other.high)],
            np.hypot(self.norms, other.norms),
        )


def _summary(arrays: Sequence[Rows], mask: Mask) -> _Summary:
    seen, paired = mask.astype(np.float64), seen_by_several(mask)
    rows = [X if there.all() else X[there] for X, there in zip(arrays, paired.T, strict=True)]
    low, high = zip(*map(column_ranges, rows), strict=True)
    norms = np.array([frobenius_norm(X) for X in rows])
    return _Summary(cross_product(seen, seen), paired.sum(axis=0), [*low], [*high], norms)


def _check_numbers(names: Sequence[str], numbers: Sequence[float] | Array | Indices, what: str, estimator: str) -> None:
    """Refuse a view with fewer than two samples."""
    for view, number in zip(names, numbers, strict=True):
        if number < 2:
            what = what.format(int(number))
            raise ValueError(f"view {view!r} {what}, but {estimator} needs at least 2 to learn from.")


def _check_connected(names: Sequence[str], shared: Array) -> None:
    """Refuse groups of views that share no sample."""
    n_groups, group = connected_components(shared > 0, directed=False)
    if n_groups > 1:
        groups = [", ".join(repr(names[int(v)]) for v in np.flatnonzero(group == g)) for g in range(n_groups)]
        raise ValueError(
            f"these groups of views share no sample, so no common space exists: {' | '.join(groups)}. "
            "Row k of every view must be the same sample."
        )


def check_labels(y: Any, views: Views, estimator: object) -> Any:
    """Classes of the samples that views have, coded from 0: at least two. Codes of other samples mean nothing."""
    if y is None:
        what = f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        raise ValueError(f"{what}: give one class label per sample.")
    codes, labels = code_labels(y, views)
    if len(labels.used) < 2:
        what = "y has" if len(labels.given) < 2 else "samples present in at least two views have"
        need = f"{type(estimator).__name__} needs at least 2 classes to tell apart"
        raise ValueError(f"{what} one class only ({(*labels.used, *labels.given)[0]}): {need}.")
    return codes


def code_labels(y: Any, views: Views) -> tuple[Any, LabelSets]:
    """Classes of the samples that views have, coded from 0, where the views are; and the labels that there are."""
    labels = labels_like(views.mask, y, partial(label_array, warn=True))
    if len(labels) != len(views):
        raise ValueError(
            f"y has {len(labels)} labels, but the views have {len(views)} samples: give one label per row."
        )
    found = row_blocks(views.mask, labels).total(_label_sets)
    return map_rows(labels, _codes, found.used), found


@dataclass(frozen=True)
class LabelSets:
    """Different labels, of all samples and of those that views have; `+` merges those of two blocks of rows."""

    given: Labels
    used: Labels

    def __add__(self, other: LabelSets) -> LabelSets:
        if (self.given.dtype.kind in "UO") != (other.given.dtype.kind in "UO"):
            raise ValueError("y mixes strings with numbers: give every sample one class label.")
        return LabelSets(np.union1d(self.given, other.given), np.union1d(self.used, other.used))


def _label_sets(rows: list[Any]) -> LabelSets:
    mask, labels = rows[0], _classes(rows[1])
    return LabelSets(np.unique(labels), np.unique(labels[mask.any(axis=1)]))


def _classes(labels: Labels) -> Labels:
    """Refuse labels that do not stand for classes."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity: give every sample a class, or remove it.")
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels):
        # Numbers in an object array are numbers, and anything else among strings is a missing or mistaken label.
        try:
            labels = labels.astype(np.float64)
        except (TypeError, ValueError):
            other = next(label for label in labels if not isinstance(label, str))
            raise ValueError(f"y mixes strings with {other!r}: give every sample one class label.") from None
    # scikit-learn's check warns of many classes with few samples, which recognition is about, and filtering a warning
    # is not safe while other threads run.
    if labels.dtype.kind in "cSV":
        raise ValueError(f"Unknown label type: {labels.dtype}. Give classes as text or whole numbers.")
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        raise ValueError("Unknown label type: continuous. Give classes as text or whole numbers, not measurements.")
    check_exact(labels)
    return labels


def _codes(labels: Labels, classes: Labels) -> Indices:
    codes: Indices = np.searchsorted(classes[:-1], _classes(labels))
    return codes


def as_labels(y: ArrayLike, n: int, name: str = "y") -> Labels:
    """Classes of n samples, as text or as numbers. The empty text stands for an unknown class."""
    labels = label_array(y)
    if len(labels) != n:
        raise ValueError(f"{name} has {len(labels)} labels for {n} samples: give one label per row.")
    if labels.dtype == object and len({isinstance(label, str) for label in labels}) == 1:
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{name} must be text or numbers, and not both: give every sample one class label.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        fix = "give every sample a class, or use text labels with '' where it is unknown"
        raise ValueError(f"{name} contains NaN or infinity: {fix}.")
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


def spreadsheet_safe(value: object) -> object:
    """A cell for a CSV file: text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> [spreadsheet_safe(value) for value in ("=1+1", "@SUM(A1)", "-a", "-5", "a-b", -1.5)]
    ["'=1+1", "'@SUM(A1)", "'-a", '-5', 'a-b', -1.5]
    """
    if not isinstance(value, str):
        return value
    value = re.sub(r"\r\n?", "\n", value)  # a lone carriage return would not be quoted, and begin a cell
    return f"'{value}" if _FORMULA.match(value) else value
