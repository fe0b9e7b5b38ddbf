"""Handwritten digits, which come with scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn.datasets

from crossview._types import Array
from crossview.datasets._dataset import Dataset
from crossview.views import Views

__all__ = ["load_descriptors", "load_digits"]

_CITATION = (
    "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998, as "
    "distributed with scikit-learn."
)


def load_digits() -> Dataset:
    """Handwritten digits, the left half of the image against the right.

    Returns
    -------
    data : Dataset
        1 797 samples of 10 classes; two views, ``left`` and ``right``, of 8 × 4 pixels each.

    Examples
    --------
    >>> load_digits().views
    Views(1797 samples; left: 32 features, right: 32 features)
    """
    digits = sklearn.datasets.load_digits()
    left, right = (half.reshape(len(half), -1) for half in np.split(digits.images, 2, axis=2))
    views = {"left": left, "right": right}
    return _dataset(digits, views, (8, 4), "Left and right halves of 8 × 8 images of handwritten digits.")


def load_descriptors() -> Dataset:
    """Handwritten digits, each image described in four ways.

    Features keep their natural units, so standardise each view before fitting: ``ViewScaler(pooled=False)``. The views
    resemble those of the UCI data set *Multiple Features* [2]_, which describes other handwritten digits.

    Returns
    -------
    data : Dataset
        1 797 samples of 10 classes, 8 × 8 images of ink from 0 to 16, in four views:

        - ``pixels``, 64 features: the ink of every pixel, row by row.
        - ``profiles``, 48 features: the ink in every row and column; then the number of blank pixels before the first
          ink from the left and right in every row, and from the top and bottom in every column (8 if there is no ink).
        - ``fourier``, 34 features: magnitudes of the two-dimensional Fourier coefficients, without those that repeat
          another because the image is real.
        - ``moments``, 8 features: total ink, row and column of its centroid, the second central moments (vertical,
          mixed and horizontal), and Hu's first two invariants [1]_.

    References
    ----------
    .. [1] M.-K. Hu, "Visual Pattern Recognition by Moment Invariants", IRE Transactions on Information Theory 8(2),
       1962.
    .. [2] M. van Breukelen, R. P. W. Duin, D. M. J. Tax, J. E. den Hartog, "Handwritten Digit Recognition by Combined
       Classifiers", Kybernetika 34(4), 1998.

    Examples
    --------
    >>> data = load_descriptors()
    >>> data.views
    Views(1797 samples; pixels: 64 features, profiles: 48 features, fourier: 34 features, moments: 8 features)
    >>> data.views["moments"][0, :3].round(2)  # ink and centroid
    array([294.  ,   3.36,   3.56])
    """
    digits = sklearn.datasets.load_digits()
    images = digits.images
    profiles, fourier, moments = _profiles(images), _fourier(images), _moments(images)
    views = {"pixels": digits.data, "profiles": profiles, "fourier": fourier, "moments": moments}
    what = "Pixels, profiles, Fourier magnitudes and moments of 8 × 8 images of handwritten digits."
    return _dataset(digits, views, None, what)


def _dataset(digits: Any, views: Mapping[str, Array], image_shape: tuple[int, int] | None, description: str) -> Dataset:
    names = [str(digit) for digit in digits.target_names]
    return Dataset(Views(views, image_shape=image_shape), digits.target, names, description, _CITATION)


def _profiles(images: Array) -> Array:
    """Ink per row and column, and blank pixels up to the first ink from the left, right, top and bottom."""
    ink = images > 0
    sides = ink, ink[:, :, ::-1], ink.transpose(0, 2, 1), ink[:, ::-1].transpose(0, 2, 1)
    blank = [np.where(side.any(axis=2), side.argmax(axis=2), side.shape[2]) for side in sides]
    return np.hstack([images.sum(axis=2), images.sum(axis=1), *blank])


def _fourier(images: Array) -> Array:
    """Magnitudes of the Fourier coefficients of even-sized images, each pair of conjugates once."""
    magnitudes = np.abs(np.fft.rfft2(images))
    # rfft2 leaves out most conjugates, but those within its first and last columns remain: rows u and -u are alike.
    inner, half = magnitudes[:, :, 1:-1].reshape(len(images), -1), images.shape[1] // 2 + 1
    return np.hstack([inner, magnitudes[:, :half, 0], magnitudes[:, :half, -1]])


def _moments(images: Array) -> Array:
    """Total ink, centroid, second central moments and Hu's first two invariants."""
    rows, columns = (axis.ravel() for axis in np.indices(images.shape[1:]))
    ink = images.reshape(len(images), -1)
    mass = ink.sum(axis=1)
    row, column = ink @ rows / mass, ink @ columns / mass
    below, right = rows - row[:, None], columns - column[:, None]
    mu20, mu11, mu02 = ((ink * product).sum(axis=1) for product in (below**2, below * right, right**2))
    # Second moments divided by the square of the mass do not change with the size of the digit.
    eta20, eta11, eta02 = (mu / mass**2 for mu in (mu20, mu11, mu02))
    hu1, hu2 = eta20 + eta02, (eta20 - eta02) ** 2 + 4.0 * eta11**2
    return np.column_stack([mass, row, column, mu20, mu11, mu02, hu1, hu2])
