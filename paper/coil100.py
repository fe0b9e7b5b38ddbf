"""COIL-100, from a user's copy."""

from pathlib import Path

import numpy as np

from crossview.datasets.dataset import Dataset
from crossview.datasets.files import open_files
from crossview.datasets.images import Size, check_size, read_images
from crossview.views import Views

__all__ = ["CASES", "load_coil100"]

_ANGLES = {
    "V1": (0, 5, 10, 15),
    "V2": (40, 45, 50, 55),
    "V3": (105, 110, 115, 120),
    "V4": (160, 165, 170, 175),
    "V5": (215, 220, 225, 230),
}
CASES = {case: tuple(_ANGLES)[: case + 1] for case in (1, 2, 3, 4)}
"""The paper's cases, and the views of each."""

_HELP = (
    "COIL-100 is distributed by Columbia University (CAVE, software library, coil-100): unpack coil-100.zip, or pass "
    "the archive itself. Images are named obj<1…100>__<angle>.png."
)


def load_coil100(folder: str | Path, case: int = 2, size: Size = 48) -> Dataset:
    """COIL-100: a hundred objects on a turntable, as grey images from two to five ranges of angles.

    Parameters
    ----------
    folder : str or Path
        The folder of the images, ``obj1__0.png`` and so on, at any depth; or the archive ``coil-100.zip``.
    case : {1, 2, 3, 4}
        The paper's case: views V1 and V2 (0° to 15°, 40° to 55°), and one more in each further case, V3 (105° to
        120°), V4 (160° to 175°), V5 (215° to 230°).
    size : int or (int, int), optional
        As in `load_cufsf`.

    Returns
    -------
    data : Dataset
        400 samples, four of each object, paired by their position within a view's range of angles.

    Examples
    --------
    >>> load_coil100("not/unpacked/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/unpacked/yet does not exist. COIL-100 is distributed by Columbia University ...
    """
    if case not in CASES:
        raise ValueError(f"case must be 1, 2, 3 or 4, got {case!r}.")
    shape, objects = check_size(size), range(1, 101)
    names = {view: [f"obj{o}__{a}.png" for o in objects for a in _ANGLES[view]] for view in CASES[case]}
    wanted = set().union(*names.values())
    with open_files(folder, _HELP) as files:
        found = {file.path.name: file for file in files if file.path.name in wanted}
        if missing := sorted(wanted - set(found)):
            raise FileNotFoundError(
                f"{folder} lacks {len(missing)} of {len(wanted)} images, among them {', '.join(missing[:3])}. {_HELP}"
            )
        images, shape = read_images(found, folder, shape)
    return Dataset(
        views=Views({view: np.array([images[name] for name in names[view]]) for view in names}, image_shape=shape),
        y=np.repeat(np.arange(1, 101), 4),
        class_names=[f"object {o}" for o in objects],
        description=f"COIL-100, case {case}: a hundred objects seen from {len(names)} ranges of angles.",
        citation="S. A. Nene, S. K. Nayar, H. Murase, Columbia Object Image Library (COIL-100), technical report "
        "CUCS-006-96, Columbia University, 1996.",
    )
