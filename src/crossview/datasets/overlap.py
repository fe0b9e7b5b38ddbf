"""Samples that are in the training data and in the test data."""

import warnings
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from crossview._text import counted
from crossview._types import Indices
from crossview.datasets._dataset import Dataset
from crossview.views import Views

__all__ = ["shared_rows", "warn_about_shared_rows"]


def shared_rows(train: Dataset, test: Dataset) -> Indices:
    """Rows of the test data that are also in the training data.

    A sample is in both if its features are equal to the last bit in every view that has seen it in both, and there is
    such a view. Views are the same if their names are. The time is linear in the number of samples, for each
    combination of missing views.

    Parameters
    ----------
    train, test : Dataset
        Samples in any order.

    Returns
    -------
    rows : ndarray of int
        Rows of `test`, ascending.

    Examples
    --------
    >>> from crossview.datasets import Dataset, load_digits, shared_rows
    >>> data = load_digits()
    >>> train, test = (Dataset(data.views[rows], data.y[rows], data.class_names) for rows in (slice(9), slice(7, 12)))
    >>> shared_rows(train, test)
    array([0, 1])
    """
    names = [name for name in test.view_names if name in train.view_names]
    known, new = _digests(train.views, names), _digests(test.views, names)
    found = np.zeros(len(test.views), dtype=bool)
    for known_mask in np.unique(known != b"", axis=0):
        for new_mask in np.unique(new != b"", axis=0):
            both = known_mask & new_mask
            if both.any():
                seen = {row.tobytes() for row in known[((known != b"") == known_mask).all(axis=1)][:, both]}
                for k in np.flatnonzero(((new != b"") == new_mask).all(axis=1)):
                    found[k] |= new[k, both].tobytes() in seen
    return np.flatnonzero(found)


def warn_about_shared_rows(train: Dataset, test: Dataset) -> None:
    """Warn if samples of the test data are also in the training data, as `shared_rows` finds them.

    Parameters
    ----------
    train, test : Dataset
        Samples in any order.

    Examples
    --------
    >>> from crossview.datasets import load_descriptors, load_digits, warn_about_shared_rows
    >>> warn_about_shared_rows(load_digits(), load_descriptors())  # they have no view in common
    """
    rows = shared_rows(train, test)
    if len(rows):
        example = f"row {rows[0]}" if test.ids is None else repr(str(test.ids[rows[0]]))
        verb = "is" if len(rows) == 1 else "are"
        warnings.warn(
            f"{len(rows)} of {counted(len(test.y), 'test sample')} {verb} also in the training data, for example "
            f"{example}: accuracy will be too high; remove what is in both.",
            stacklevel=2,
        )


def _digests(views: Views, names: Sequence[str]) -> NDArray[np.bytes_]:
    """Of every sample, the digest of its row in each view as hexadecimal digits; empty where it is missing."""
    digests = np.zeros((len(views), len(names)), dtype="S32")
    for column, name in enumerate(names):
        seen = views.mask[:, views.names.index(name)]
        for k in np.flatnonzero(seen):
            digests[k, column] = blake2b(views[name][k].tobytes(), digest_size=16).hexdigest().encode()
    return digests
