"""Images in folders and archives: reading, and the paper's data sets from a user's own copy."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview.datasets._dataset import Dataset
from crossview.views import Views

__all__ = ["load_coil100"]

_COIL_ANGLES = {
    "V1": (0, 5, 10, 15),
    "V2": (40, 45, 50, 55),
    "V3": (105, 110, 115, 120),
    "V4": (160, 165, 170, 175),
    "V5": (215, 220, 225, 230),
}
_COIL_HELP = (
    "COIL-100 is distributed by Columbia University (CAVE, software library, coil-100): unpack coil-100.zip, or name "
    "the archive itself. Images are called obj<1…100>__<angle>.png."
)


def load_coil100(folder: str | Path, case: int = 2, size: int = 48) -> Dataset:
    """COIL-100: a hundred objects on a turntable, as grey images from two to five ranges of angles.

    Parameters
    ----------
    folder : str or Path
        Where the images lie, ``obj1__0.png`` and so on, at any depth; or the archive ``coil-100.zip``.
    case : {1, 2, 3, 4}
        The paper's case: views V1 and V2 (0° to 15°, 40° to 55°), and one more in each further case, V3 (105° to
        120°), V4 (160° to 175°), V5 (215° to 230°).
    size : int
        Height and width to which images are reduced, with antialiasing.

    Returns
    -------
    data : Dataset
        400 samples, four of each object, paired by their position within a view's range of angles.
    """
    if case not in (1, 2, 3, 4):
        raise ValueError(f"case must be 1, 2, 3 or 4, got {case!r}.")
    source = Path(folder)
    wanted = dict(list(_COIL_ANGLES.items())[: case + 1])
    objects = range(1, 101)
    names = {f"obj{o}__{a}.png" for o in objects for angles in wanted.values() for a in angles}
    read = _images(source, names, _COIL_HELP, size)
    views = {
        view: np.array([read(f"obj{o}__{a}.png") for o in objects for a in angles]) for view, angles in wanted.items()
    }
    return Dataset(
        views=Views(views),
        y=np.repeat(np.arange(1, 101), 4),
        class_names=[f"object {o}" for o in objects],
        image_shape=(size, size),
        description=f"COIL-100, case {case}: a hundred objects seen from {len(views)} ranges of angles.",
        citation="S. A. Nene, S. K. Nayar, H. Murase, Columbia Object Image Library (COIL-100), technical report "
        "CUCS-006-96, Columbia University, 1996.",
    )


def _images(source: Path, names: set[str], help_text: str, size: int) -> Callable[[str], NDArray[np.float64]]:
    """A function from the name of an image to its grey values, row by row, once all are known to be there."""
    opened: dict[str, Callable[[], Any]] = {}
    if source.is_dir():
        opened = {path.name: path.read_bytes for path in source.rglob("*") if path.name in names}
    elif zipfile.is_zipfile(source):
        archive = zipfile.ZipFile(source)
        for entry in archive.namelist():
            name = entry.rsplit("/", 1)[-1]
            if name in names:
                opened[name] = lambda entry=entry: archive.read(entry)  # type: ignore[misc]
    elif source.exists():
        raise ValueError(f"{source} is neither a folder nor a zip archive. {help_text}")
    else:
        raise FileNotFoundError(f"there is no {source}. {help_text}")
    missing = sorted(names - set(opened))
    if missing:
        raise FileNotFoundError(
            f"{source} lacks {len(missing)} of {len(names)} images, among them {', '.join(missing[:3])}. {help_text}"
        )
    return lambda name: _grey(opened[name], f"{source}: {name}", size)


def _grey(read: Callable[[], bytes], label: str, size: int) -> NDArray[np.float64]:
    """Grey values of an image between 0 and 1, reduced with antialiasing."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("reading images needs Pillow: pip install 'crossview[images]'.") from error
    try:
        with Image.open(io.BytesIO(read())) as image:
            small = image.convert("L").resize((size, size), Image.Resampling.LANCZOS)
    except (OSError, UnidentifiedImageError, SyntaxError, zipfile.BadZipFile) as error:
        raise ValueError(f"{label} is not an image that can be read ({error}): replace it.") from error
    return np.asarray(small, dtype=np.float64).ravel() / 255.0
