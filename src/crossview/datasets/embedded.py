"""Data that come with the installation."""

from __future__ import annotations

import sklearn.datasets

from crossview.datasets._dataset import Dataset
from crossview.views import Views

__all__ = ["load_digits"]


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
    halves = {"left": digits.images[:, :, :4], "right": digits.images[:, :, 4:]}
    return Dataset(
        views=Views({name: half.reshape(len(half), -1) for name, half in halves.items()}),
        y=digits.target,
        class_names=[str(digit) for digit in digits.target_names],
        image_shape=(8, 4),
        description="Left and right halves of 8 × 8 images of handwritten digits.",
        citation="E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning "
        "Repository, 1998, as distributed with scikit-learn.",
    )
