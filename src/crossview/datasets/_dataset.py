"""The data set that every loader returns."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._text import counted, first_few, html_table
from crossview.views import Views

MADE_HERE = "Made by crossview.datasets."  # instead of a citation


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
        size = f"{counted(len(self.y), 'sample')} of {counted(len(self.class_names), 'class')}"
        return html_table(size, ["view", "features"], zip(self.view_names, self.views.n_features, strict=True))

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
    size = f"{counted(len(y), 'sample')} of {counted(len(names), 'class')}"
    return Dataset(views, y, names, description=f"{what} in {Path(source).name}: {size}.", ids=ids)


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


def as_labels(names: Sequence[str]) -> NDArray[Any]:
    """Labels as numbers if all are plainly written whole numbers, otherwise as text."""
    plain = all(name.removeprefix("-").isdecimal() and len(name) < 18 and str(int(name)) == name for name in names)
    return np.array([int(name) for name in names] if plain else list(names))


def class_names(y: NDArray[Any]) -> list[str]:
    """Names of the classes in sorted order of their labels, without the empty text of unlabelled samples."""
    return [str(label) for label in np.unique(y) if str(label)]
