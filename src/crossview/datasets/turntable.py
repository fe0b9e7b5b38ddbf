"""Images of random solid objects on a turntable, made from a seed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from crossview._types import Array
from crossview._validation import check_count, check_weight
from crossview.datasets.dataset import Dataset
from crossview.views import Views

__all__ = ["make_turntable"]

_ANGLES: dict[str, Sequence[float]] = {"V1": (0, 5, 10, 15), "V2": (40, 45, 50, 55), "V3": (105, 110, 115, 120)}
_LIGHT = (-0.5, 0.6, 0.8)
_ELEVATION, _AMBIENT = 20.0, 0.25
_BUMPS, _SPOTS = 7, 9
# Images are drawn twice as fine as wanted in both directions; this makes six points for each of the finer pixels.
_POINTS_PER_PIXEL = 24
_MARGIN = 0.94


def make_turntable(
    n_objects: int = 60,
    views: Mapping[str, Sequence[float]] | None = None,
    *,
    size: int = 32,
    light: Sequence[float] | Mapping[str, Sequence[float]] = _LIGHT,
    noise: float = 0.02,
    random_state: int | RandomState | None = None,
) -> Dataset:
    """Shaded images of random solid objects, each a class, on a turntable, seen from several ranges of angles.

    Parameters
    ----------
    n_objects, size : int
        Number of objects; height and width of an image.
    views : mapping of str to sequence of float, optional
        Angles in degrees from which every view sees an object, equally many: the k-th images of all views are one
        sample. By default ``V1`` (0° to 15°), ``V2`` (40° to 55°) and ``V3`` (105° to 120°), in steps of 5°.
    light : sequence of 3 float, or mapping of str to sequence of 3 float
        Direction of the lamp, of all views or of each: to the right, up, and from the object towards the camera.
    noise : float
        Standard deviation of the noise on the grey values.
    random_state : int, RandomState or None
        Seed; None for other data every time. An object does not depend on how many there are.

    Returns
    -------
    data : Dataset
        Grey values between 0 and 1, with a black background; the classes are 1, 2, ….

    Notes
    -----
    The surface of an object has the radius exp(f(d)) in direction d from its centre, where f is a sum of smooth bumps,
    stretched along the axes. Points all over it are projected without perspective and shaded by Lambert's law.

    Examples
    --------
    >>> data = make_turntable(n_objects=5, size=16, random_state=0)
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
    images: dict[str, list[Array]] = {view: [] for view in angles}
    for o in range(n_objects):
        random = np.random.default_rng([seed, o])
        solid = draw_solid(random, size)
        for view, degrees in angles.items():
            X = np.array([render(solid, angle, lamps[view], size).ravel() for angle in degrees])
            images[view].append(np.clip(X + noise * random.normal(size=X.shape), 0.0, 1.0))
    return Dataset(
        views=Views({view: np.concatenate(drawn) for view, drawn in images.items()}, image_shape=(size, size)),
        y=np.repeat(np.arange(1, n_objects + 1), len(next(iter(angles.values())))),
        class_names=[f"object {o}" for o in range(1, n_objects + 1)],
        description=f"{n_objects} random solid objects on a turntable, seen from {len(angles)} ranges of angles.",
    )


def _check_angles(views: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Angles of every view as an array."""
    if not isinstance(views, Mapping) or not views:
        raise ValueError(f"views must map the names of views to angles, for example {_ANGLES!r}, got {views!r}.")
    angles = {view: np.atleast_1d(np.asarray(degrees, dtype=np.float64)) for view, degrees in views.items()}
    size = next(iter(angles.values())).size
    for view, degrees in angles.items():
        if degrees.shape != (size,) or not size or not np.isfinite(degrees).all():
            need = "finite numbers, equally many in all views, as the k-th of all are one sample"
            raise ValueError(f"the angles of view {view!r} must be {need}, got {views!r}.")
    return angles


def _check_lamps(
    light: Sequence[float] | Mapping[str, Sequence[float]], angles: Mapping[str, Array]
) -> dict[str, Array]:
    """Direction of the lamp in every view, of unit length."""
    given = light if isinstance(light, Mapping) else dict.fromkeys(angles, light)
    lamps = {view: np.asarray(direction, dtype=np.float64) for view, direction in given.items()}
    good = all(lamp.shape == (3,) and np.isfinite(lamp).all() and lamp.any() for lamp in lamps.values())
    if set(lamps) != set(angles) or not good:
        need = f"three numbers that are not all 0, for all views or for each of {', '.join(map(repr, angles))}"
        raise ValueError(f"light must be {need}, got {light!r}.")
    return {view: lamp / np.linalg.norm(lamp) for view, lamp in lamps.items()}


class Solid(NamedTuple):
    """Points all over a surface, within 1 of the turntable's centre, their outward normals, and their albedo."""

    points: Array
    normals: Array
    albedo: Array


def draw_solid(random: np.random.Generator, size: int) -> Solid:
    """Draw an object with enough points for images of the given height and width."""
    bumps = _directions(random, _BUMPS), random.uniform(2.0, 9.0, _BUMPS)
    heights = random.uniform(0.4, 1.0, _BUMPS) * random.choice([1.0, 1.0, -1.0], _BUMPS)
    spots = _directions(random, _SPOTS), random.uniform(3.0, 20.0, _SPOTS)
    shades = random.uniform(-3.0, 3.0, _SPOTS)
    brightness = random.uniform(-1.0, 1.0)
    stretch = np.exp(random.uniform(-0.35, 0.35, 3))

    directions = _sphere(_POINTS_PER_PIXEL * size * size)
    log_radius, slope = _smooth(directions, *bumps, heights)
    along = slope - np.einsum("ij,ij->i", slope, directions)[:, None] * directions
    points = np.exp(log_radius)[:, None] * directions * stretch
    normals = (directions - along) / stretch
    points[:, 1] -= (points[:, 1].min() + points[:, 1].max()) / 2.0
    painted, _ = _smooth(directions, *spots, shades)
    return Solid(
        points=points / np.linalg.norm(points, axis=1).max(),
        normals=normals / np.linalg.norm(normals, axis=1, keepdims=True),
        albedo=0.3 + 0.65 / (1.0 + np.exp(-painted - brightness)),
    )


def _smooth(directions: Array, centres: Array, sharpness: Array, heights: Array) -> tuple[Array, Array]:
    """A sum of bumps h exp(k (d·c − 1)) over the sphere, and its slope in space."""
    bumps = heights * np.exp(sharpness * (directions @ centres.T - 1.0))
    return bumps.sum(axis=1), (bumps * sharpness) @ centres


def _sphere(n: int) -> Array:
    """Directions spread evenly over the sphere, along a golden spiral."""
    height = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    angle = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(n)
    across = np.sqrt(1.0 - height**2)
    return np.column_stack([across * np.cos(angle), height, across * np.sin(angle)])


def _directions(random: np.random.Generator, n: int) -> Array:
    drawn: Array = random.normal(size=(n, 3))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def render(solid: Solid, angle: float, lamp: Array, size: int) -> Array:
    """Grey values, (size, size) with a background of 0, of an object turned by degrees; the lamp has unit length."""
    turn, tilt = np.deg2rad(angle), np.deg2rad(_ELEVATION)
    turned = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    tilted = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    camera = tilted @ turned  # rows are right, up and towards us
    facing = np.flatnonzero(solid.normals @ camera[2] > 0.0)
    right, up, depth = camera @ solid.points[facing].T
    fine, scale = 2 * size, _MARGIN * size
    pixel = (size - scale * up).astype(np.intp) * fine + (size + scale * right).astype(np.intp)
    nearest = np.full(fine * fine, -np.inf)
    np.maximum.at(nearest, pixel, depth)
    seen = depth == nearest[pixel]
    front = facing[seen]
    lit = np.maximum(solid.normals[front] @ (lamp @ camera), 0.0)
    canvas = np.full(fine * fine, np.nan)
    canvas[pixel[seen]] = solid.albedo[front] * (_AMBIENT + (1.0 - _AMBIENT) * lit)
    image: Array = _without_holes(canvas.reshape(fine, fine)).reshape(size, 2, size, 2).mean(axis=(1, 3))
    return image


def _without_holes(canvas: Array) -> Array:
    """Fill pixels that no point fell on: from their neighbours inside the object, with black outside."""
    frame = np.pad(canvas, 1, constant_values=np.nan)
    around = np.stack([frame[:-2, 1:-1], frame[2:, 1:-1], frame[1:-1, :-2], frame[1:-1, 2:]])
    empty = np.isnan(canvas)
    within = empty & (np.isnan(around).sum(axis=0) <= 1)
    canvas[within] = np.nanmean(around[:, within], axis=0)
    return np.nan_to_num(canvas, copy=False)
