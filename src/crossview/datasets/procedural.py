"""Data made from a seed, so that examples, tests and protocols run anywhere."""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.special
from numpy.random import Generator, RandomState
from sklearn.utils import check_random_state

from crossview._types import Array
from crossview._validation import check_count, check_weight
from crossview.datasets._dataset import Dataset
from crossview.datasets._solids import draw_solid, render
from crossview.views import Views

__all__ = ["make_captions", "make_manifolds", "make_turntable"]

_ANGLES: dict[str, Sequence[float]] = {"V1": (0, 5, 10, 15), "V2": (40, 45, 50, 55), "V3": (105, 110, 115, 120)}
_CITATION = "Made by crossview.datasets."
_LIGHT = (-0.5, 0.6, 0.8)
_SHARED, _PRIVATE = 8, 4  # latent factors that image and text have in common, and that each has to itself
_WITHIN = 0.3  # spread of the shared factors within a class; the class means have a spread of 1


def make_turntable(
    n_objects: int = 60,
    views: Mapping[str, Sequence[float]] | None = None,
    *,
    size: int = 32,
    light: Sequence[float] | Mapping[str, Sequence[float]] = _LIGHT,
    noise: float = 0.02,
    random_state: int | RandomState | None = 0,
) -> Dataset:
    """Shaded images of random solid objects, each a class, on a turntable, seen from several ranges of angles.

    Parameters
    ----------
    n_objects : int
        Number of objects. An object does not depend on how many there are.
    views : mapping of str to sequence of float, optional
        Name of every view and the angles in degrees from which it sees an object, equally many in every view: the k-th
        images of all views are one sample. By default ``V1`` (0° to 15°), ``V2`` (40° to 55°) and ``V3`` (105° to
        120°), in steps of 5°.
    size : int
        Height and width of an image.
    light : sequence of 3 float, or mapping of str to sequence of 3 float
        Direction of the lamp as seen from the camera: to the right, up, and from the object towards the camera. One
        for all views, or one for each.
    noise : float
        Standard deviation of the noise on the grey values.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    data : Dataset
        Grey values between 0 and 1, with a black background; the classes are 1, 2, ….

    Notes
    -----
    The surface of an object has the radius exp(f(d)) in direction d from its centre, where f is a sum of smooth bumps;
    it is then stretched along the axes. Its normal is d less the slope of f along the sphere. Points all over it are
    turned, projected without perspective, and shaded by Lambert's law; the nearest to the camera is seen.

    Examples
    --------
    >>> data = make_turntable(n_objects=5, size=16)
    >>> data.views
    Views(20 samples; V1: 256 features, V2: 256 features, V3: 256 features)
    >>> data.views["V1"][0].reshape(data.image_shape).shape
    (16, 16)
    """
    check_count(n_objects, "n_objects", least=1)
    check_count(size, "size", least=4)
    check_weight(noise, "noise")
    angles = _check_angles(_ANGLES if views is None else views)
    lamps = _check_lamps(light, angles)
    seed = check_random_state(random_state).randint(2**31 - 1)
    drawn = [_photographs(np.random.default_rng([seed, o]), angles, lamps, size, noise) for o in range(n_objects)]
    return Dataset(
        views=Views(
            {view: np.concatenate([images[view] for images in drawn]) for view in angles}, image_shape=(size, size)
        ),
        y=np.repeat(np.arange(1, n_objects + 1), len(next(iter(angles.values())))),
        class_names=[f"object {o}" for o in range(1, n_objects + 1)],
        description=f"{n_objects} random solid objects on a turntable, seen from {len(angles)} ranges of angles.",
        citation=_CITATION,
    )


def _check_angles(views: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Angles of every view as an array."""
    if not isinstance(views, Mapping) or not views:
        raise ValueError(f"views must map the names of views to angles, for example {_ANGLES!r}, got {views!r}.")
    angles = {view: np.atleast_1d(np.asarray(degrees, dtype=np.float64)) for view, degrees in views.items()}
    for view, degrees in angles.items():
        if degrees.ndim != 1 or not degrees.size or not np.isfinite(degrees).all():
            raise ValueError(f"the angles of view {view!r} must be a sequence of numbers, got {views[view]!r}.")
    if len({len(degrees) for degrees in angles.values()}) > 1:
        counts = ", ".join(f"{view!r} has {len(degrees)}" for view, degrees in angles.items())
        raise ValueError(f"views need equal numbers of angles, as the k-th of all are one sample: {counts}.")
    return angles


def _check_lamps(
    light: Sequence[float] | Mapping[str, Sequence[float]], angles: Mapping[str, Array]
) -> dict[str, Array]:
    """Direction of the lamp in every view, of unit length."""
    given = light if isinstance(light, Mapping) else dict.fromkeys(angles, light)
    if set(given) != set(angles):
        raise ValueError(f"light must have a direction for each of {', '.join(map(repr, angles))}, got {given!r}.")
    lamps = {view: np.asarray(given[view], dtype=np.float64) for view in angles}
    for view, lamp in lamps.items():
        if lamp.shape != (3,) or not np.isfinite(lamp).all() or not lamp.any():
            raise ValueError(f"light must be three numbers that are not all 0, got {given[view]!r} for view {view!r}.")
    return {view: lamp / np.linalg.norm(lamp) for view, lamp in lamps.items()}


def _photographs(
    random: Generator, angles: Mapping[str, Array], lamps: Mapping[str, Array], size: int, noise: float
) -> dict[str, Array]:
    """One object, from all angles of all views."""
    solid, images = draw_solid(random, size), {}
    for view, degrees in angles.items():
        X = np.array([render(solid, angle, lamps[view], size).ravel() for angle in degrees])
        images[view] = np.clip(X + noise * random.normal(size=X.shape), 0.0, 1.0)
    return images


def make_manifolds(
    n_samples: int = 300,
    n_classes: int = 6,
    n_views: int = 2,
    *,
    n_features: int | Sequence[int] = 15,
    turns: float = 1.5,
    noise: float = 0.05,
    random_state: int | RandomState | None = 0,
) -> Dataset:
    """Sheets that every view rolls up in its own way: shared factors that no linear map recovers.

    Parameters
    ----------
    n_samples, n_classes, n_views : int
        Numbers of samples, of classes, which are strips of the sheet and of equal size, and of views.
    n_features : int or sequence of int
        Features per view, 3 or more; one number for all views, or one for each.
    turns : float
        Number of turns of a sheet. The more turns, the worse linear methods do.
    noise : float
        Standard deviation of the noise on every feature; the rolls have a radius of 1.
    random_state : int, RandomState or None
        Seed. A view does not depend on how many there are.

    Returns
    -------
    data : Dataset
        Classes 0, 1, … and views ``view0``, ``view1``, ….

    Notes
    -----
    A sample has two latent factors, a position t along the sheet, which gives its class, and one across, s, which does
    not matter. A view winds t up into a spiral, every second view from the other end, some more tightly than others,
    and turns the roll (of three dimensions) at random into the space of its features.

    Examples
    --------
    >>> import crossview as cv
    >>> data = make_manifolds(n_features=[10, 20])
    >>> data.views
    Views(300 samples; view0: 10 features, view1: 20 features)
    >>> linear = cv.MvHE(n_components=5).fit(data.views[:150], data.y[:150])
    >>> kernel = cv.KMvHE(n_components=5).fit(data.views[:150], data.y[:150])
    >>> [bool(model.score(data.views[150:], data.y[150:]) > 0.9) for model in (linear, kernel)]
    [False, True]
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
    return Dataset(Views(views), y, [f"strip {c}" for c in range(n_classes)], description, _CITATION)


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
    random_state: int | RandomState | None = 0,
) -> Dataset:
    """Synthetic image features and the topics of their captions: two views of unlike kind and width.

    There are many classes with few samples each, for tests on classes that are not in the training data. Image features
    differ in scale by orders of magnitude; standardise each view before fitting: ``ViewScaler(pooled=False)``.

    Parameters
    ----------
    n_classes, n_per_class : int
        Numbers of classes, and of samples of each.
    n_image_features, n_topics : int
        Numbers of features of the views ``image`` and ``text``; the latter must be 2 or more.
    noise : float
        Standard deviation of the noise on image features before scaling, and on the logits of topics. Without noise,
        both have a spread of about 1.
    random_state : int, RandomState or None
        Seed. A view does not depend on the width of the other.

    Returns
    -------
    data : Dataset
        Classes 0, 1, … and views ``image`` and ``text``. The text features of a sample are positive and sum to 1.

    Notes
    -----
    A sample has latent factors f, which both views share and which vary around the mean of the sample's class. Each
    view adds private factors, g and h. With random A, B and b, and scales s from a log-normal distribution,

        image = s · (max(0, A [f, g] + b) + noise),  text = softmax(B [f, h] + noise).

    The default widths are those of the Wikipedia articles of [1]_, which have 128 visual words and 10 topics.

    References
    ----------
    .. [1] N. Rasiwasia, J. Costa Pereira, E. Coviello, G. Doyle, G. R. G. Lanckriet, R. Levy, N. Vasconcelos, "A New
       Approach to Cross-Modal Multimedia Retrieval", ACM Multimedia, 2010.

    Examples
    --------
    >>> data = make_captions()
    >>> data.views
    Views(1200 samples; image: 128 features, text: 10 features)
    >>> print(f"{data.views['text'][0].sum():.3f}")
    1.000
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
    image = _image_features(np.random.default_rng([seed, 0]), shared, n_image_features, noise)
    text = _topic_proportions(np.random.default_rng([seed, 1]), shared, n_topics, noise)
    views, names = Views({"image": image, "text": text}), [f"scene {c}" for c in range(n_classes)]
    description = f"Image features and caption topics of {n_classes} synthetic scenes."
    return Dataset(views, y, names, description, _CITATION)


def _image_features(random: Generator, shared: Array, n_features: int, noise: float) -> Array:
    """Rectified combinations of factors, on scales that differ by orders of magnitude."""
    biases = random.normal(scale=0.5, size=n_features)
    scales = random.lognormal(sigma=1.5, size=n_features)
    clean = np.maximum(_combined(random, shared, n_features) + biases, 0.0)
    return scales * (clean + noise * random.normal(size=clean.shape))


def _topic_proportions(random: Generator, shared: Array, n_topics: int, noise: float) -> Array:
    """Softmax of combinations of factors."""
    # The gain lets a few topics dominate, as in real captions.
    logits = 1.5 * _combined(random, shared, n_topics)
    proportions: Array = scipy.special.softmax(logits + noise * random.normal(size=logits.shape), axis=1)
    return proportions


def _combined(random: Generator, shared: Array, n_features: int) -> Array:
    """Random linear combinations, of variance about 1, of the shared factors and of a view's private ones."""
    factors = np.hstack([shared, random.normal(scale=0.5, size=(len(shared), _PRIVATE))])
    return factors @ random.normal(scale=factors.shape[1] ** -0.5, size=(factors.shape[1], n_features))
