"""The poses of CMU PIE, from the forms in which its images are passed on."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
import scipy.io
from numpy.typing import NDArray

from crossview._types import Array
from crossview.datasets._files import File
from crossview.datasets._images import is_image, read_images, resize_images

__all__ = ["HELP", "Pose", "find_poses"]

HELP = (
    "CMU PIE is distributed by Carnegie Mellon University (The Robotics Institute). Expected are, per pose, a file "
    "C27.mat with fea, gnd and condition, or Pose27_64x64.mat with fea and gnd, or a folder C27 of one folder of "
    "images per person, C27/1/1.png."
)

Sample: TypeAlias = tuple[int, int]
"""Person and condition."""


@dataclass(frozen=True)
class Pose:
    """Images of a pose.

    Parameters
    ----------
    images : dict of (int, int) to ndarray of shape (height · width,)
        Grey values between 0 and 1, row by row, by person and condition.
    shape : (int, int)
        Height and width.
    has_conditions : bool
        Whether conditions were given, rather than counted.
    label : str
        What errors call the pose.
    """

    images: dict[Sample, Array]
    shape: tuple[int, int]
    has_conditions: bool
    label: str


PoseReader: TypeAlias = Callable[[tuple[int, int] | None], Pose]


def find_poses(files: Iterable[File], folder: str | Path) -> dict[str, PoseReader]:
    """Poses that are there, and for each what reads it, brought to a size.

    Parameters
    ----------
    files : iterable of File
        All files.
    folder : str or Path
        Where they lie, for errors.

    Returns
    -------
    poses : dict of str to callable
        By names such as C05.
    """
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
    number = re.search(r"[0-9]+", name)
    if number is None:
        return
    pose = f"C{int(number.group()):02d}"
    if pose in found:
        raise ValueError(f"{found[pose][0]} and {label} are both of pose {pose}: remove one.")
    found[pose] = label, reader


def _from_mat(read: Callable[[], bytes], label: str, size: tuple[int, int] | None) -> Pose:
    content = _mat(read, label)
    fea = content["fea"]
    side = math.isqrt(fea.shape[-1])
    if fea.dtype.kind not in "uif" or fea.size == 0 or fea.ndim != 2 or side * side != fea.shape[-1]:
        raise ValueError(f"{label}: fea must be one square image per row, got {fea.dtype} of shape {fea.shape}.")
    people = _whole(content["gnd"], "gnd", len(fea), label)
    grey = _unit(fea, label).reshape(len(fea), side, side)
    given = "condition" in content
    if given:
        conditions = _whole(content["condition"], "condition", len(fea), label)
    else:
        conditions = _count(people)
        grey = grey.transpose(0, 2, 1)
    grey = resize_images(grey, size)
    images: dict[Sample, Array] = {}
    for sample, image in zip(zip(people, conditions, strict=True), grey, strict=True):
        if sample in images:
            raise ValueError(f"{label} has two images of person {sample[0]} in condition {sample[1]}: remove one.")
        images[sample] = image.ravel()
    return Pose(images, (grey.shape[1], grey.shape[2]), given, label)


def _mat(read: Callable[[], bytes], label: str) -> dict[str, NDArray[Any]]:
    try:
        content: dict[str, Any] = scipy.io.loadmat(io.BytesIO(read()), variable_names=["fea", "gnd", "condition"])
    except NotImplementedError as error:
        raise ValueError(f"{label} is in MATLAB's format 7.3, which is not read: save it with -v7.") from error
    except Exception as error:
        # Damage shows anywhere in the decoder, as any kind of error; the user needs the file's name.
        raise ValueError(f"{label} is not a MATLAB file that can be read ({error}): replace it.") from error
    for name in ("fea", "gnd"):
        if name not in content:
            raise ValueError(f"{label} has no variable {name}. {HELP}")
    return {name: np.asarray(value) for name, value in content.items() if not name.startswith("__")}


def _unit(fea: NDArray[Any], label: str) -> Array:
    """Grey values between 0 and 1, which fractions may be already."""
    values = fea.astype(np.float64)
    top = 1.0 if fea.dtype.kind == "f" and values.max() <= 1.0 else 255.0
    if not (np.isfinite(values).all() and values.min() >= 0.0 and values.max() <= top):
        raise ValueError(f"{label}: fea must be grey values from 0 to 255, or from 0 to 1 as fractions.")
    return values / top


def _whole(values: NDArray[Any], name: str, m: int, label: str) -> list[int]:
    flat = values.ravel()
    if flat.dtype.kind not in "uif" or len(flat) != m or not (flat == np.floor(flat)).all():
        raise ValueError(
            f"{label}: {name} must be {m} whole numbers, one per row of fea, got {flat.dtype}, {len(flat)}."
        )
    return [int(value) for value in flat]


def _count(people: Sequence[int]) -> list[int]:
    """Number of every image among those of its person, from 1."""
    seen: Counter[int] = Counter()
    numbers = []
    for person in people:
        seen[person] += 1
        numbers.append(seen[person])
    return numbers


def _from_images(files: Sequence[File], folder: str | Path, label: str, size: tuple[int, int] | None) -> Pose:
    pixels, shape = read_images(files, folder, size)
    people = [_person(path[-2], label) for path in pixels]
    stems = [PurePosixPath(path[-1]).stem for path in pixels]
    given = all(stem.isdecimal() for stem in stems)
    conditions = [int(stem) for stem in stems] if given else _count(people)
    images: dict[Sample, Array] = {}
    for sample, path in zip(zip(people, conditions, strict=True), pixels, strict=True):
        if sample in images:
            raise ValueError(f"{folder}: {'/'.join(path)} is the second image of its condition: remove one.")
        images[sample] = pixels[path]
    return Pose(images, shape, given, label)


def _person(name: str, label: str) -> int:
    if not name.isdecimal():
        raise ValueError(f"{label} has a folder {name!r}, but people are called by numbers. {HELP}")
    return int(name)
