"""Samples of several views brought into one order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.views import Views

__all__ = ["as_labels", "class_names", "paired"]

Key = TypeVar("Key", bound=Hashable)


def paired(samples: Mapping[str, Mapping[Key, Array]], keys: Sequence[Key]) -> Views:
    """Views whose row k is the sample with key k; a row of NaN where a view has none.

    Parameters
    ----------
    samples : mapping of str to mapping of key to ndarray of shape (D_v,)
        The features of every sample of every view.
    keys : sequence of hashable
        The samples, in the order wanted.

    Examples
    --------
    >>> paired({"a": {1: [1.0, 2.0], 2: [3.0, 4.0]}, "b": {2: [5.0]}}, [2, 1])
    Views(2 samples; a: 2 features, b: 1 feature; 1 row missing)
    """
    arrays = {}
    for view, rows in samples.items():
        width = len(next(iter(rows.values())))
        arrays[view] = np.full((len(keys), width), np.nan)
        for k, key in enumerate(keys):
            if key in rows:
                arrays[view][k] = rows[key]
    return Views(arrays)


def as_labels(names: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers where all are whole numbers, plainly written, and as text otherwise.

    Examples
    --------
    >>> as_labels(["2", "10"])
    array([ 2, 10])
    >>> as_labels(["02", "cup"])
    array(['02', 'cup'], dtype='<U3')
    """
    plain = all(name.lstrip("-").isdecimal() and len(name) < 18 and str(int(name)) == name for name in names)
    return np.array([int(name) for name in names] if plain else list(names))


def class_names(y: NDArray[Any]) -> list[str]:
    """Names of the classes, in sorted order of their labels; empty text is none."""
    return [str(label) for label in np.unique(y) if str(label)]
