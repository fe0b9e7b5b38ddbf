"""Random solid objects, and how a camera sees them."""

from typing import NamedTuple

import numpy as np

from crossview._types import Array

_ELEVATION, _AMBIENT = 20.0, 0.25
_BUMPS, _SPOTS = 7, 9
# Images are drawn twice as fine as wanted in both directions; this makes six points for each of the finer pixels.
_POINTS_PER_PIXEL = 24
_MARGIN = 0.94


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


def _camera(angle: float) -> Array:
    """Rotation of an object that is turned by an angle and looked down upon: rows are right, up and towards us."""
    turn, tilt = np.deg2rad(angle), np.deg2rad(_ELEVATION)
    turned = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    tilted = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    rotation: Array = tilted @ turned
    return rotation


def render(solid: Solid, angle: float, lamp: Array, size: int) -> Array:
    """Grey values, (size, size) with a background of 0, of an object turned by degrees; the lamp has unit length."""
    camera = _camera(angle)
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
