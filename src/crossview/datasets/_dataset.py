"""What every data set comes as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from crossview.views import Views

__all__ = ["Dataset"]


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
    image_shape : tuple of int, optional
        Height and width, where a view's features are the pixels of an image, row by row.
    description : str
        What the data are.
    citation : str
        Where they come from.
    ids : ndarray of shape (m,), optional
        What the source calls every sample; None if it has no names for them.
    """

    views: Views
    y: NDArray[Any]
    class_names: list[str]
    image_shape: tuple[int, int] | None
    description: str
    citation: str
    ids: NDArray[Any] | None = None

    @property
    def view_names(self) -> list[str]:
        """The views' names."""
        return self.views.names
