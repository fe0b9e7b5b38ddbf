"""CMU PIE, from a user's copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from crossview.datasets._dataset import Dataset, class_names, paired
from crossview.datasets._files import listed, open_files
from crossview.datasets._images import Size, check_size
from crossview.datasets._poses import HELP, Pose, find_poses

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


def load_cmu_pie(
    folder: str | Path,
    case: int = 4,
    *,
    conditions: Sequence[int] | None = (1, 2, 3, 12),
    size: Size = None,
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
        Height and width to which images are resized, with antialiasing; None leaves them as they are. The paper has
        64 × 64.

    Returns
    -------
    data : Dataset
        One sample for each person and condition; a row of NaN where a pose has no such image. Views are named after
        their poses.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for pose in ("C27", "C29"):
    ...         faces = {"fea": np.zeros((4, 64)), "gnd": [1, 1, 2, 2], "condition": [1, 2, 1, 2]}
    ...         scipy.io.savemat(Path(folder, pose + ".mat"), faces)
    ...     data = load_cmu_pie(folder, case=1, conditions=None)
    >>> data.views, data.y, data.image_shape
    (Views(4 samples; C27: 64 features, C29: 64 features), array([1, 1, 2, 2]), (8, 8))
    """
    if case not in CASES:
        raise ValueError(f"case must be one of {', '.join(map(str, CASES))}, got {case!r}.")
    if conditions is not None and (not isinstance(conditions, Sequence) or not conditions):
        raise ValueError(f"conditions must be a list of whole numbers, or None to keep all, got {conditions!r}.")
    wanted = check_size(size)
    with open_files(folder, HELP) as files:
        found = find_poses(files, folder)
        missing = [pose for pose in CASES[case] if pose not in found]
        if missing:
            possible = [str(number) for number, poses in CASES.items() if set(poses) <= set(found)]
            runs = f"Possible cases: {', '.join(possible) or 'none'}."
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)} of case {case}. {runs} {HELP}")
        poses = {pose: found[pose](wanted) for pose in CASES[case]}
    _check_alike(list(poses.values()))
    keys = sorted({sample for pose in poses.values() for sample in pose.images})
    if conditions is not None:
        absent = sorted(set(conditions) - {condition for _, condition in keys})
        if absent:
            raise ValueError(
                f"conditions {listed(absent)} are not in {folder}: choose others, or pass conditions=None to keep all."
            )
        keys = [(person, condition) for person, condition in keys if condition in conditions]
    y = np.array([person for person, _ in keys])
    return Dataset(
        views=paired({name: pose.images for name, pose in poses.items()}, keys),
        y=y,
        class_names=class_names(y),
        image_shape=next(iter(poses.values())).shape,
        description=f"CMU PIE, case {case}: {len(np.unique(y))} faces in the poses {', '.join(poses)}.",
        citation="T. Sim, S. Baker, M. Bsat, The CMU pose, illumination, and expression (PIE) database, IEEE "
        "International Conference on Automatic Face and Gesture Recognition, 2002.",
    )


def _check_alike(poses: Sequence[Pose]) -> None:
    """Refuse poses whose images cannot be paired."""
    one = poses[0]
    for other in poses[1:]:
        if other.shape != one.shape:
            first, second = (f"{pose.label} are {pose.shape[0]} × {pose.shape[1]}" for pose in (one, other))
            raise ValueError(f"images differ in size: those of {first}, those of {second}. Choose a size for all.")
        if other.has_conditions != one.has_conditions:
            first, second = (pose.label for pose in (one, other)[:: 1 if one.has_conditions else -1])
            raise ValueError(
                f"{first} has conditions, {second} has none, so that their images cannot be paired: take both from one "
                "distribution."
            )
