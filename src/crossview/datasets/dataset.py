"""The data set that every loader returns, and which samples are the same: of several views, and of several sets."""

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossview._text import counted, first_few, html_table
from crossview._types import Array, Indices
from crossview.views import Views

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_MAX_NAME = 1000  # characters: a search may take time that is a power of it
_LEAST_MATCHED = 0.1  # of what could match; fewer match by chance


@dataclass(frozen=True)
class Dataset:
    """Samples seen from several views, with their classes.

    Parameters
    ----------
    views : Views
        The samples.
    y : ndarray of shape (m,)
        Class of every sample.
    class_names : list of str
        Names of the classes, in sorted order of their labels.
    description, citation : str
        What the data are and where they come from.
    ids : ndarray of shape (m,), optional
        The source's name of every sample; None if it has none.

    Examples
    --------
    >>> import crossview as cv
    >>> views = cv.Views({"photo": [[0.1, 0.2], [0.3, 0.4]], "sketch": [[1.0], [2.0]]})
    >>> data = cv.datasets.Dataset(views, ["ada", "ben"], ["ada", "ben"])
    >>> data.view_names
    ['photo', 'sketch']
    """

    views: Views
    y: NDArray[Any] = field(repr=False)
    class_names: list[str] = field(repr=False)
    description: str = ""
    citation: str = field(default="", repr=False)
    ids: NDArray[Any] | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        rows = zip(self.view_names, self.views.n_features, strict=True)
        return html_table(_size(self.y, self.class_names), ["view", "features"], rows)

    @property
    def view_names(self) -> list[str]:
        """The views' names."""
        return self.views.names

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width of the images, if the features of every view are pixels."""
        return self.views.image_shape


def described(views: Views, y: NDArray[Any], ids: NDArray[Any] | None, source: str | Path) -> Dataset:
    """A data set of files, described by its size."""
    names, what = class_names(y), "Features" if views.image_shape is None else "Images"
    return Dataset(views, y, names, f"{what} in {Path(source).name}: {_size(y, names)}.", ids=ids)


def _size(y: NDArray[Any], names: list[str]) -> str:
    return f"{counted(len(y), 'sample')} of {counted(len(names), 'class')}"


def class_names(y: NDArray[Any]) -> list[str]:
    """Names of the classes in sorted order of their labels, without the empty text of unlabelled samples."""
    return [str(label) for label in np.unique(y) if str(label)]


def as_labels(names: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers if all are plainly written whole numbers, otherwise as text."""
    plain = all(name.removeprefix("-").isdecimal() and len(name) < 18 and str(int(name)) == name for name in names)
    return np.array([int(name) for name in names] if plain else list(names))


def warn_of_single_samples(data: Dataset) -> None:
    """Warn of the few classes with one sample where others have several: mistyped labels, which change the folds."""
    classes, sizes = np.unique(data.y, return_counts=True)
    single = [repr(str(label)) for label in classes[sizes == 1]]
    if len(data.view_names) > 1 and single and are_few_single(sizes) and np.median(sizes) >= 3:
        which = "a class" if len(single) == 1 else "classes"
        warnings.warn(f"{which} with a single sample: {first_few(single)} (check for typing errors).", stacklevel=3)


def are_few_single(sizes: NDArray[np.intp]) -> bool:
    """Whether so few classes have a single sample, at most half as many as others, that they may be a mistake."""
    return bool(3 * np.count_nonzero(sizes == 1) <= len(sizes))


# Which samples of several views are the same.


def unique(items: Iterable[tuple[Key, Value]], clash: Callable[[Key, Value, Value], str]) -> dict[Key, Value]:
    """A dictionary of items; where two have the same key, `clash` says what is wrong."""
    found: dict[Key, Value] = {}
    for key, value in items:
        if key in found:
            raise ValueError(clash(key, found[key], value))
        found[key] = value
    return found


def paired(
    samples: Mapping[tuple[str, Key], Array],
    views: Iterable[str],
    keys: Sequence[Key],
    image_shape: tuple[int, int] | None = None,
) -> Views:
    """Views whose row k is the sample with key k; a row of NaN where a view has none."""
    arrays = {}
    for view in views:
        missing = np.full(next(len(row) for (name, _), row in samples.items() if name == view), np.nan)
        arrays[view] = np.array([samples.get((view, key), missing) for key in keys])
    return Views(arrays, image_shape=image_shape)


def keys_by_pattern(pattern: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the group called class finds in each name, and what the others do, joined by hyphens."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"pair_by is not a regular expression, {pattern} ({error}): correct it.") from error
    if not compiled.groups:
        raise ValueError(f"pair_by has no group, {pattern}: put the part that identifies a sample in parentheses.")
    if long := [name for name in names if len(name) > _MAX_NAME]:
        raise ValueError(f"{long[0][:50]}… has more than {_MAX_NAME} characters, too many for pair_by: shorten it.")
    found = [compiled.search(name) for name in names]
    if missed := [name for name, match in zip(names, found, strict=True) if match is None]:
        raise ValueError(
            f"pair_by does not match {first_few(missed)} ({len(missed)} of {len(names)} names), {pattern}: correct it."
        )
    groups = [list(match.groups("")) for match in found if match is not None]
    named = compiled.groupindex.get("class")
    return [("" if named is None else texts.pop(named - 1), "-".join(texts)) for texts in groups]


def check_pairs(
    views: Sequence[str], labels: Mapping[tuple[str, Key], str], ending: str, fix: str, by_pattern: bool
) -> None:
    """Refuse views whose samples do not match, and warn of samples that are in one view only.

    `labels` has what to call each sample, by view and key; `ending` follows the names of views; `fix` says what to do
    about names that do not match, unless a pattern has found them already.
    """
    if len(views) < 2:
        return
    keys = {view: {key for name, key in labels if name == view} for view in views}
    alone: list[str] = []
    for view, own in keys.items():
        others = {name: other for name, other in keys.items() if name != view}
        unmatched = sorted(labels[view, key] for key in own.difference(*others.values()))
        # A large gallery with few partners is fine as long as the smaller view finds its own.
        if len(own) - len(unmatched) < _LEAST_MATCHED * min(len(own), max(map(len, others.values()))):
            elsewhere = " or ".join(f"{name}{ending}" for name in others)
            problem = f"has no counterpart in {elsewhere}; {len(unmatched)} of {len(own)} unmatched"
            raise ValueError(f"{unmatched[0]} {problem}. {fix}")
        alone += unmatched
    if alone:
        verb, them = ("is", "it") if len(alone) == 1 else ("are", "them")
        hint = "" if by_pattern else " If another view has them under other names, use --pair-by (pair_by= in Python)."
        warnings.warn(
            f"{len(alone)} of {len(set().union(*keys.values()))} samples {verb} in one view only (first: {alone[0]}); "
            f"training leaves {them} out.{hint}",
            stacklevel=4,
        )


# Which samples of several data sets are the same.


def shared_rows(train: Dataset, test: Dataset) -> Indices:
    """Rows of the test data that are also in the training data.

    A sample is in both if its features are equal to the last bit in every view that has seen it in both, and there is
    such a view. Views are the same if their names are.

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
    seen, wanted = known != b"", new != b""
    found = np.zeros(len(new), dtype=bool)
    for known_mask in np.unique(seen, axis=0):
        for new_mask in np.unique(wanted, axis=0):
            both = known_mask & new_mask
            if both.any():
                rows = {row.tobytes() for row in known[(seen == known_mask).all(axis=1)][:, both]}
                for k in np.flatnonzero((wanted == new_mask).all(axis=1)):
                    found[k] |= new[k, both].tobytes() in rows
    return np.flatnonzero(found)


def _digests(views: Views, names: Sequence[str]) -> NDArray[np.bytes_]:
    """Of every sample, the digest of its row in each view as hexadecimal digits; empty where it is missing."""
    digests = np.zeros((len(views), len(names)), dtype="S32")
    for column, name in enumerate(names):
        for k in np.flatnonzero(views.mask[:, views.names.index(name)]):
            digests[k, column] = blake2b(views[name][k].tobytes(), digest_size=16).hexdigest().encode()
    return digests
