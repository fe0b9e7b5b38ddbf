"""The poses of CMU PIE, from the forms in which its images are passed on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.datasets._files import File
from crossview.datasets._images import is_image, read_images, resize_images
from crossview.datasets._matlab import read_matlab

__all__ = ["HELP", "Pose", "find_poses"]

HELP = (
    "CMU PIE is distributed by Carnegie Mellon University (The Robotics Institute). Each pose must be a file C27.mat "
    "with fea, gnd and condition, a file Pose27_64x64.mat with fea and gnd, or a folder C27 with a folder of images "
    "per person, C27/1/1.png."
)


@dataclass(frozen=True)
class Pose:
    """Images of a pose by person and condition; conditions are given, or count a person's images."""

    images: dict[tuple[int, int], Array]
    shape: tuple[int, int]
    has_conditions: bool
    label: str


PoseReader: TypeAlias = Callable[[tuple[int, int] | None], Pose]


def find_poses(files: Iterable[File], folder: str | Path) -> dict[str, PoseReader]:
    """For every pose, such as C05, the function that reads it in a given size; errors start with the folder."""
    found: dict[str, tuple[str, PoseReader]] = {}
    folders: dict[tuple[str, ...], list[File]] = {}
    for path, read in files:
        if path[-1].lower().endswith(".mat"):
            label = f"{folder}: {'/'.join(path)}"
            _add(found, PurePosixPath(path[-1]).stem, label, partial(_from_mat, read, label))
        elif is_image(path[-1]) and len(path) >= 3:
            folders.setdefault(path[:-2], []).append((path, read))
    for above, images in folders.items():
        label = f"{folder}: {'/'.join(above)}"
        _add(found, above[-1], label, partial(_from_images, images, folder, label))
    return {pose: reader for pose, (_, reader) in found.items()}


def _add(found: dict[str, tuple[str, PoseReader]], name: str, label: str, reader: PoseReader) -> None:
    number = re.search(r"[0-9]{1,9}", name)
    if number is None:
        return
    pose = f"C{int(number.group()):02d}"
    if pose in found:
        raise ValueError(f"{found[pose][0]} and {label} are both of pose {pose}: remove one.")
    found[pose] = label, reader


def _from_mat(read: Callable[[], bytes], label: str, size: tuple[int, int] | None) -> Pose:
    content = read_matlab(read(), ("fea", "gnd", "condition"), label)
    for name in ("fea", "gnd"):
        if name not in content:
            raise ValueError(f"{label} has no variable {name}. {HELP}")
    fea = content["fea"]
    side = math.isqrt(fea.shape[-1])
    if fea.size == 0 or fea.ndim != 2 or side * side != fea.shape[-1]:
        raise ValueError(f"{label}: fea must be one square image per row, got {fea.dtype} of shape {fea.shape}.")
    people = _whole(content["gnd"], "gnd", len(fea), label)
    conditions = _whole(content["condition"], "condition", len(fea), label) if "condition" in content else None
    grey = _unit(fea, label).reshape(len(fea), side, side)
    grey = resize_images(grey.transpose(0, 2, 1) if conditions is None else grey, size)
    return _pose(people, conditions, [image.ravel() for image in grey], (grey.shape[1], grey.shape[2]), label)


def _unit(fea: NDArray[Any], label: str) -> Array:
    """Grey values between 0 and 1, which floating-point numbers may be already."""
    values = fea.astype(np.float64)
    top = 1.0 if fea.dtype.kind == "f" and values.max() <= 1.0 else 255.0
    # NaN fails every comparison.
    if not (values.min() >= 0.0 and values.max() <= top):
        raise ValueError(f"{label}: fea must be grey values from 0 to 255, or floating-point numbers from 0 to 1.")
    values /= top
    return values


def _whole(values: NDArray[Any], name: str, m: int, label: str) -> list[int]:
    """A column of whole numbers that floating-point numbers hold exactly."""
    flat = values.ravel().astype(np.float64)
    # NaN and infinity fail the second comparison.
    if len(flat) != m or not (np.abs(flat) < 2**53).all() or not (flat == np.floor(flat)).all():
        raise ValueError(
            f"{label}: {name} must be {m} finite whole numbers, one per row of fea, got {values.dtype} of shape "
            f"{values.shape}."
        )
    return [int(value) for value in flat]


def _from_images(files: Sequence[File], folder: str | Path, label: str, size: tuple[int, int] | None) -> Pose:
    pixels, shape = read_images(files, folder, size)
    people = [_person(path[-2], label) for path in pixels]
    stems = [PurePosixPath(path[-1]).stem for path in pixels]
    conditions = [int(stem) for stem in stems] if all(stem.isdecimal() for stem in stems) else None
    return _pose(people, conditions, list(pixels.values()), shape, label)


def _pose(
    people: Sequence[int],
    conditions: Sequence[int] | None,
    images: Sequence[Array],
    shape: tuple[int, int],
    label: str,
) -> Pose:
    """Images by person and condition; without conditions, the images of a person are numbered from 1."""
    seen: Counter[int] = Counter()
    samples: dict[tuple[int, int], Array] = {}
    for k, (person, image) in enumerate(zip(people, images, strict=True)):
        seen[person] += 1
        sample = person, seen[person] if conditions is None else conditions[k]
        if sample in samples:
            raise ValueError(f"{label} has two images of person {person} in condition {sample[1]}: remove one.")
        samples[sample] = image
    return Pose(samples, shape, conditions is not None, label)


def _person(name: str, label: str) -> int:
    if not name.isdecimal():
        raise ValueError(f"{label} has a folder {name!r}, but people must be numbers. {HELP}")
    return int(name)
