"""CMU PIE, from a user's copy."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossview._text import first_few
from crossview._types import Array
from crossview.datasets.dataset import Dataset, Value, class_names, paired, unique
from crossview.datasets.files import File, open_files
from crossview.datasets.images import Size, check_size, grey_values, is_image, read_images
from crossview.datasets.matlab import read_matlab
from paper.faces import ranks

__all__ = ["CASES", "load_cmu_pie"]

CASES = {
    1: ("C27", "C29"),
    2: ("C27", "C11"),
    3: ("C27", "C14"),
    4: ("C05", "C27", "C29"),
    5: ("C37", "C27", "C11"),
    6: ("C02", "C27", "C14"),
    7: ("C37", "C05", "C27", "C29", "C11"),
    8: ("C02", "C37", "C05", "C27", "C29", "C11", "C14"),
}
"""The paper's cases, and the poses that are the views of each."""

_HELP = (
    "CMU PIE is distributed by Carnegie Mellon University (The Robotics Institute). Each pose must be a file C27.mat "
    "with fea, gnd and condition, a file Pose27_64x64.mat with fea and gnd, or a folder C27 with a folder of images "
    "per person, C27/1/1.png."
)


class _Pose(NamedTuple):
    """Images of a pose by person and condition; conditions are given, or count a person's images."""

    label: str
    images: dict[tuple[int, int], Array]
    shape: tuple[int, int]
    has_conditions: bool


def load_cmu_pie(
    folder: str | Path, case: int = 4, *, conditions: Sequence[int] | None = (1, 2, 3, 12), size: Size = None
) -> Dataset:
    """CMU PIE: faces in two to seven poses, under different lights and with different expressions.

    Parameters
    ----------
    folder : str or Path
        A folder, or a zip archive, that has for every pose, at any depth, one of

        - a file such as ``C27.mat``: ``fea``, one image per row, pixels row by row; ``gnd``, the person;
          ``condition``, the same for images taken at the same moment;
        - a file such as ``Pose27_64x64.mat``: ``fea``, one square image per row, pixels column by column as in MATLAB,
          and ``gnd``;
        - a folder such as ``C27`` with one numbered folder of images per person. The images are named after their
          condition (``1.png``), or anything else.

        Where there are no conditions, the images of a person are numbered from 1 in their order.
    case : int
        The paper's case, 1 to 8: C27 with C29, C11 or C14 (1 to 3); C05, C27, C29 (4); C37, C27, C11 (5); C02, C27, C14
        (6); C37, C05, C27, C29, C11 (7); C02, C37, C05, C27, C29, C11, C14 (8).
    conditions : sequence of int, optional
        The conditions to keep, by default four as in the paper: 1 to 3, the expressions, and 12, a flash.
        None keeps all.
    size : int or (int, int), optional
        As in `load_cufsf`. The paper has 64 × 64.

    Returns
    -------
    data : Dataset
        One sample for each person and condition; a row of NaN where a pose has no such image. Views are named after
        their poses.

    Examples
    --------
    >>> load_cmu_pie("not/copied/yet", case=1)
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. CMU PIE is distributed by Carnegie Mellon University ...
    """
    if case not in CASES:
        raise ValueError(f"case must be one of {', '.join(map(str, CASES))}, got {case!r}.")
    if conditions is not None and (not isinstance(conditions, Sequence) or not conditions):
        raise ValueError(f"conditions must be a list of whole numbers, or None to keep all, got {conditions!r}.")
    wanted = check_size(size)
    with open_files(folder, _HELP) as files:
        found = _find_poses(files, folder)
        if missing := [pose for pose in CASES[case] if pose not in found]:
            possible = ", ".join(str(number) for number, poses in CASES.items() if set(poses) <= set(found)) or "none"
            lacks = f"{folder} lacks {', '.join(missing)} of case {case}"
            raise FileNotFoundError(f"{lacks}. Possible cases: {possible}. {_HELP}")
        poses = {pose: _read_pose(*found[pose], folder, wanted) for pose in CASES[case]}
    for one, other in pairwise(poses.values()):
        _check_alike(one, other)
    samples = {(name, key): image for name, pose in poses.items() for key, image in pose.images.items()}
    keys = sorted({key for _, key in samples})
    if conditions is not None:
        absent = sorted(set(conditions) - {condition for _, condition in keys})
        if absent:
            raise ValueError(
                f"conditions {first_few(absent)} are not in {folder}: choose others, or pass conditions=None for all."
            )
        keys = [(person, condition) for person, condition in keys if condition in conditions]
    y = np.array([person for person, _ in keys])
    return Dataset(
        views=paired(samples, poses, keys, next(iter(poses.values())).shape),
        y=y,
        class_names=class_names(y),
        description=f"CMU PIE, case {case}: {len(np.unique(y))} faces in the poses {', '.join(poses)}.",
        citation="T. Sim, S. Baker, M. Bsat, The CMU pose, illumination, and expression (PIE) database, IEEE "
        "International Conference on Automatic Face and Gesture Recognition, 2002.",
    )


def _check_alike(one: _Pose, other: _Pose) -> None:
    """Refuse poses whose images cannot be paired."""
    if other.shape != one.shape:
        first, second = (f"{pose.label} are {pose.shape[0]} × {pose.shape[1]}" for pose in (one, other))
        raise ValueError(f"images differ in size: those of {first}, those of {second}. Choose a size for all.")
    if other.has_conditions != one.has_conditions:
        first, second = (pose.label for pose in (one, other)[:: 1 if one.has_conditions else -1])
        problem = f"{first} has conditions, {second} has none, so that their images cannot be paired"
        raise ValueError(f"{problem}: take both from one distribution.")


def _find_poses(files: Iterable[File], folder: str | Path) -> dict[str, tuple[str, list[File]]]:
    """The file or folder of every pose, such as C05, as messages name it, and the files to read."""
    sources: dict[PurePosixPath, list[File]] = {}
    for file in files:
        if file.path.suffix.lower() == ".mat":
            sources[file.path] = [file]
        elif is_image(file.path.name) and len(file.path.parts) >= 3:
            sources.setdefault(file.path.parent.parent, []).append(file)
    return unique(
        (
            (f"C{int(number.group()):02d}", (f"{folder}: {path}", found))
            for path, found in sources.items()
            if (number := re.search(r"[0-9]{1,9}", path.name))
        ),
        lambda pose, one, other: f"{one[0]} and {other[0]} are both of pose {pose}: remove one.",
    )


def _read_pose(label: str, files: Sequence[File], folder: str | Path, size: tuple[int, int] | None) -> _Pose:
    if not is_image(files[0].path.name):
        return _read_mat(files[0], label, size)
    for file in files:
        if not file.path.parent.name.isdecimal():
            raise ValueError(f"{label} has a folder {file.path.parent.name!r}, but people must be numbers. {_HELP}")
    people = [int(file.path.parent.name) for file in files]
    named = all(file.path.stem.isdecimal() for file in files)
    samples = _by_sample(people, [int(file.path.stem) for file in files] if named else None, files, label)
    return _Pose(label, *read_images(samples, folder, size), named)


def _read_mat(file: File, label: str, size: tuple[int, int] | None) -> _Pose:
    content: dict[str, Any] = read_matlab(file.read(), label)
    for name in ("fea", "gnd"):
        if name not in content:
            raise ValueError(f"{label} has no variable {name}. {_HELP}")
    for name in content.keys() & {"fea", "gnd", "condition"}:
        if isinstance(content[name], list) or content[name].dtype.kind not in "biuf":
            raise ValueError(f"{label}: {name} is not numbers: save it as a full array of real numbers.")
    fea = content["fea"]
    side = math.isqrt(fea.shape[-1])
    if fea.size == 0 or fea.ndim != 2 or side * side != fea.shape[-1]:
        raise ValueError(f"{label}: fea must be one square image per row, got {fea.dtype} of shape {fea.shape}.")
    people = _whole(content["gnd"], "gnd", len(fea), label)
    conditions = _whole(content["condition"], "condition", len(fea), label) if "condition" in content else None
    grey = _unit(fea, label).reshape(len(fea), side, side)
    grey = _resized(grey.transpose(0, 2, 1) if conditions is None else grey, size)
    samples = _by_sample(people, conditions, grey.reshape(len(fea), -1), label)
    return _Pose(label, samples, (grey.shape[1], grey.shape[2]), conditions is not None)


def _resized(images: Array, size: tuple[int, int] | None) -> Array:
    """Images of shape (m, height, width), between 0 and 1, in another size."""
    if size is None or images.shape[1:] == size:
        return images
    import PIL.Image

    return np.array([grey_values(PIL.Image.fromarray(np.float32(255.0 * image)), size) for image in images])


def _by_sample(
    people: list[int], conditions: list[int] | None, images: Iterable[Value], label: str
) -> dict[tuple[int, int], Value]:
    """Images by person and condition; without conditions, the images of a person are numbered from 1."""
    samples = zip(people, ranks(people) if conditions is None else conditions, strict=True)
    return unique(
        zip(samples, images, strict=True),
        lambda key, *_: f"{label} has two images of person {key[0]} in condition {key[1]}: remove one.",
    )


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
        got = f"{values.dtype} of shape {values.shape}"
        raise ValueError(f"{label}: {name} must be {m} finite whole numbers, one per row of fea, got {got}.")
    return [int(value) for value in flat]
