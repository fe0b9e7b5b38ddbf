"""Checks of input. Every error names the fix."""

import re
from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.utils import column_or_1d

from crossview._backend import cross_product, frobenius_norm, is_tensor, to_numpy
from crossview._types import Indices, Labels, Mask
from crossview.exceptions import NotApplicableError
from crossview.views import ViewInput, Views, seen_by_several

_FORMULA = re.compile(r"\s*([=@＝＠]|[+\-＋－](?![0-9.]+\Z))")


def check_views(views: ViewInput, estimator: object) -> Views:
    """Views to learn from: two or more that vary and share samples.

    Samples that only one view has are marked as missing there as well.
    """
    checked = Views(views)
    name = type(estimator).__name__
    if checked.shape[1] < 2:
        raise ValueError(f"{name} needs 2 views or more, got {checked.shape[1]}: pass one matrix per view.")
    _check_numbers(checked, "has {} sample(s)", name)
    if not checked.mask.all():
        _check_connected(checked)
        checked = Views(checked, mask=seen_by_several(checked.mask))
        _check_numbers(checked, "shares {} sample(s) with other views", name)
    for v, (X, seen) in enumerate(zip(checked.arrays, checked.mask.T, strict=True)):
        label = f"view {checked.names[v]!r}"
        rows = X if seen.all() else X[seen]
        largest = max(float(rows.max()), -float(rows.min()))
        with np.errstate(over="ignore"):
            norm = frobenius_norm(rows)
        if not np.isfinite(norm):
            raise ValueError(f"{label} has values too large to be squared: scale it down.")
        if 0.0 < largest < 1e-140:
            raise ValueError(f"{label} has values too small to be squared: scale it up.")
        if (rows[1:] == rows[0]).all():
            raise ValueError(f"{label} is constant in every column: leave it out.")
    return checked


def _check_numbers(views: Views, what: str, name: str) -> None:
    """Refuse a view with fewer than two samples."""
    for view, number in zip(views.names, views.mask.sum(axis=0), strict=True):
        if number < 2:
            raise ValueError(f"view {view!r} {what.format(number)}, but {name} needs at least 2 to learn from.")


def _check_connected(views: Views) -> None:
    """Refuse groups of views that share no sample."""
    seen = views.mask.astype(np.float64)
    n_groups, group = connected_components(cross_product(seen, seen) > 0, directed=False)
    if n_groups > 1:
        groups = [", ".join(repr(views.names[v]) for v in np.flatnonzero(group == g)) for g in range(n_groups)]
        raise ValueError(
            f"these groups of views share no sample, so no common space exists: {' | '.join(groups)}. "
            "Row k of every view must be the same sample."
        )


def check_labels(y: ArrayLike | None, m: int, estimator: object, mask: NDArray[np.bool_] | None = None) -> Indices:
    """Classes coded from 0: at least two, also among the samples in the mask."""
    if y is None:
        what = f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        raise ValueError(f"{what}: give one class label per sample.")
    labels = column_or_1d(to_numpy(y) if is_tensor(y) else y, warn=True)
    if len(labels) != m:
        raise ValueError(f"y has {len(labels)} labels, but the views have {m} samples: give one label per row.")
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
    classes, codes = np.unique(labels, return_inverse=True)
    left = labels if mask is None else labels[mask.any(axis=1)]
    if (left == left[0]).all():
        what = "y has" if len(classes) < 2 else "samples present in at least two views have"
        need = f"{type(estimator).__name__} needs at least 2 classes to tell apart"
        raise ValueError(f"{what} one class only ({left[0]}): {need}.")
    return codes.astype(np.intp)


def as_labels(y: ArrayLike, n: int, name: str = "y") -> Labels:
    """Classes of n samples, as text or as numbers. The empty text stands for an unknown class."""
    labels: Labels = column_or_1d(to_numpy(y) if is_tensor(y) else y)
    if len(labels) != n:
        raise ValueError(f"{name} has {len(labels)} labels for {n} samples: give one label per row.")
    if labels.dtype == object and len({isinstance(label, str) for label in labels}) == 1:
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{name} must be text or numbers, and not both: give every sample one class label.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        fix = "give every sample a class, or use text labels with '' where it is unknown"
        raise ValueError(f"{name} contains NaN or infinity: {fix}.")
    return labels


def has_label(labels: Labels) -> Mask:
    """Which labels are known."""
    return labels != "" if labels.dtype.kind == "U" else np.ones(len(labels), dtype=bool)


def check_same_kind(labels: Labels, gallery_labels: Labels) -> None:
    """Refuse labels that cannot be equal to those of the gallery."""
    if (labels.dtype.kind == "U") != (gallery_labels.dtype.kind == "U"):
        raise ValueError("y and the gallery's labels must be of the same kind: use either strings or numbers.")


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


def check_device(device: object) -> None:
    """Refuse a device that PyTorch does not know or cannot use."""
    if device is None:
        return
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"device={device!r} needs PyTorch: install it with pip install 'crossview[torch]'."
        ) from error
    try:
        torch.empty(0, device=device)  # type: ignore[call-overload]
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"device must be a device that PyTorch can use, got {device!r}: {reason}.") from error


def check_weight(value: object, name: str, *, positive: bool = False) -> None:
    """Refuse what is not a finite number, 0 or more (or above 0)."""
    fine = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and np.isfinite(float(value))
    if not fine or float(value) < 0 or (positive and value == 0):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be a finite number {'above 0' if positive else 'of 0 or more'}, got {value!r}.")


def check_two_views(views: Views, estimator: object) -> None:
    """Refuse more than two views."""
    if (n := views.shape[1]) != 2:
        what = f"{type(estimator).__name__} takes 2 views, got {n}"
        raise NotApplicableError(f"{what}: use crossview.MCCA for more than two.")


def check_equal_widths(views: Views, estimator: object) -> None:
    """Refuse views of unequal width, for methods that compare or pool samples of different views."""
    if len(set(views.n_features)) > 1:
        name = type(estimator).__name__
        fix = f"use {name}(pooled=False) for one map per view" if hasattr(estimator, "pooled") else "use crossview.MvHE"
        widths = ", ".join(map(str, views.n_features))
        raise NotApplicableError(f"{name} needs views of equal width, got {widths} features: {fix}.")


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
