"""Data sets that need no files: handwritten digits, which come with scikit-learn, and data made from a seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special
import sklearn.datasets
from numpy.random import Generator, RandomState
from sklearn.utils import check_random_state

from crossview._types import Array
from crossview._validation import check_count, check_weight
from crossview.datasets.dataset import Dataset
from crossview.views import Views

__all__ = ["load_descriptors", "load_digits", "make_captions", "make_manifolds"]

_CITATION = (
    "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998, as "
    "distributed with scikit-learn."
)
_SHARED, _PRIVATE = 8, 4  # latent factors that image and text have in common, and that each has to itself
_WITHIN = 0.3  # spread of the shared factors within a class; the class means have a spread of 1


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
    resemble those of the UCI data set *Multiple Features*, which describes other handwritten digits.

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
    .. [1] M.-K. Hu, "Visual Pattern Recognition by Moment Invariants", IRE Transactions on Information Theory, 1962.

    Examples
    --------
    >>> load_descriptors().views
    Views(1797 samples; pixels: 64 features, profiles: 48 features, fourier: 34 features, moments: 8 features)
    """
    digits = sklearn.datasets.load_digits()
    X = digits.images
    views = {"pixels": digits.data, "profiles": _profiles(X), "fourier": _fourier(X), "moments": _moments(X)}
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


def make_manifolds(
    n_samples: int = 300,
    n_classes: int = 6,
    n_views: int = 2,
    *,
    n_features: int | Sequence[int] = 15,
    turns: float = 1.5,
    noise: float = 0.05,
    random_state: int | RandomState | None = None,
) -> Dataset:
    """Sheets that every view rolls up in its own way: shared factors that no linear map recovers.

    Parameters
    ----------
    n_samples, n_classes, n_views : int
        Numbers of samples, of classes (strips of the sheet, of equal size), and of views.
    n_features : int or sequence of int
        Features per view, 3 or more; one number for all views, or one for each.
    turns, noise : float
        Number of turns of a sheet: the more, the worse linear methods do. Standard deviation of the noise on every
        feature; the rolls have a radius of 1.
    random_state : int, RandomState or None
        Seed; None for other data every time. A view does not depend on the others.

    Returns
    -------
    data : Dataset
        Classes 0, 1, … and views ``view0``, ``view1``, ….

    Notes
    -----
    A sample has a position along the sheet, which gives its class, and one across. A view winds the sheet up into a
    spiral, every second view from the other end, and turns the roll (of three dimensions) into the space of its
    features.

    Examples
    --------
    >>> make_manifolds(n_features=[10, 20], random_state=0).views
    Views(300 samples; view0: 10 features, view1: 20 features)
    """
    check_count(n_classes, "n_classes", least=1)
    check_count(n_samples, "n_samples", least=n_classes)
    check_count(n_views, "n_views", least=1)
    check_weight(turns, "turns", positive=True)
    check_weight(noise, "noise")
    widths = [n_features] * n_views if isinstance(n_features, int | np.integer) else list(n_features)
    if len(widths) != n_views:
        raise ValueError(f"n_features must be one number, or one for each of {n_views} views, got {n_features!r}.")
    for width in widths:
        check_count(width, "n_features", least=3)
    seed = check_random_state(random_state).randint(2**31 - 1)
    random = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    # Gaps between the strips keep a class from being decided by noise.
    along = (y + random.uniform(0.1, 0.9, n_samples)) / n_classes
    across = random.uniform(0.0, 1.0, n_samples)
    views = [
        # Views that start from the same end would be turned copies of each other, which linear maps undo.
        _rolled(np.random.default_rng([seed, v]), 1.0 - along if v % 2 else along, across, turns, width, noise)
        for v, width in enumerate(widths)
    ]
    description = f"{n_classes} strips of a sheet that {n_views} views roll up, each in its own way."
    return Dataset(Views(views), y, [f"strip {c}" for c in range(n_classes)], description)


def _rolled(random: Generator, along: Array, across: Array, turns: float, n_features: int, noise: float) -> Array:
    """One view's roll, in the space of its features."""
    # The innermost winding starts off the axis, where strips would fall on each other.
    wound = 0.6 + turns * random.uniform(0.85, 1.15) * along
    angle, radius = 2.0 * np.pi * wound, wound / wound.max()
    roll = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), across])
    turned, _ = np.linalg.qr(random.normal(size=(n_features, 3)))
    view: Array = roll @ turned.T + noise * random.normal(size=(len(along), n_features))
    return view


def make_captions(
    n_classes: int = 300,
    n_per_class: int = 4,
    *,
    n_image_features: int = 128,
    n_topics: int = 10,
    noise: float = 0.2,
    random_state: int | RandomState | None = None,
) -> Dataset:
    """Synthetic image features and the topics of their captions, of many classes with few samples each.

    Image features differ in scale by orders of magnitude; standardise each view before fitting:
    ``ViewScaler(pooled=False)``.

    Parameters
    ----------
    n_classes, n_per_class, n_image_features, n_topics : int
        Numbers of classes, of samples of each, and of features of the views ``image`` and ``text`` (2 or more).
    noise : float
        Standard deviation of the noise on image features before scaling, and on the logits of topics. Without noise,
        both have a spread of about 1.
    random_state : int, RandomState or None
        Seed; None for other data every time. A view does not depend on the other's width.

    Returns
    -------
    data : Dataset
        Classes 0, 1, … and views ``image`` and ``text``. The text features of a sample are positive and sum to 1.

    Notes
    -----
    With factors f of a sample, which vary around the mean of its class, private factors g and h of the views, random
    A, B and b, and scales s from a log-normal distribution,

        image = s · (max(0, A [f, g] + b) + noise),  text = softmax(B [f, h] + noise).

    The default widths are those of the Wikipedia articles of Rasiwasia et al., "A New Approach to Cross-Modal
    Multimedia Retrieval", 2010.

    Examples
    --------
    >>> make_captions(random_state=0).views
    Views(1200 samples; image: 128 features, text: 10 features)
    """
    check_count(n_classes, "n_classes", least=1)
    check_count(n_per_class, "n_per_class", least=1)
    check_count(n_image_features, "n_image_features", least=1)
    check_count(n_topics, "n_topics", least=2)
    check_weight(noise, "noise")
    seed = check_random_state(random_state).randint(2**31 - 1)
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    shared = random.normal(size=(n_classes, _SHARED))[y] + _WITHIN * random.normal(size=(len(y), _SHARED))
    of_image, of_text = (np.random.default_rng([seed, view]) for view in (0, 1))
    biases = of_image.normal(scale=0.5, size=n_image_features)
    scales = of_image.lognormal(sigma=1.5, size=n_image_features)
    features = np.maximum(_combined(of_image, shared, n_image_features) + biases, 0.0)
    image = scales * (features + noise * of_image.normal(size=features.shape))
    # The gain lets a few topics dominate, as in real captions.
    logits = 1.5 * _combined(of_text, shared, n_topics)
    text = scipy.special.softmax(logits + noise * of_text.normal(size=logits.shape), axis=1)
    views, names = Views({"image": image, "text": text}), [f"scene {c}" for c in range(n_classes)]
    description = f"Image features and caption topics of {n_classes} synthetic scenes."
    return Dataset(views, y, names, description)


def _combined(random: Generator, shared: Array, n_features: int) -> Array:
    """Random linear combinations, of variance about 1, of the shared factors and of a view's private ones."""
    factors = np.hstack([shared, random.normal(scale=0.5, size=(len(shared), _PRIVATE))])
    return factors @ random.normal(scale=factors.shape[1] ** -0.5, size=(factors.shape[1], n_features))
