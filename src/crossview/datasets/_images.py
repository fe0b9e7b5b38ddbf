"""Reading images as grey values."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview._validation import check_count
from crossview.datasets._files import File

__all__ = ["Size", "check_size", "is_image", "read_images", "resize_images"]

Size: TypeAlias = int | tuple[int, int] | None

_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def is_image(name: str) -> bool:
    """Whether a file is one of images, by its name.

    Examples
    --------
    >>> is_image("face.JPG"), is_image("notes.txt")
    (True, False)
    """
    return name.lower().endswith(_SUFFIXES)


def check_size(size: Size) -> tuple[int, int] | None:
    """Height and width, given as such, or as one number for both; None for images as they are."""
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(pair) != 2:
        raise ValueError(f"size must be one number, or height and width, got {size!r}.")
    for length in pair:
        check_count(length, "size", least=1)
    return pair


def read_images(
    files: Iterable[File], source: str | Path, size: tuple[int, int] | None
) -> tuple[dict[tuple[str, ...], Array], tuple[int, int]]:
    """Grey values of images, row by row.

    Parameters
    ----------
    files : iterable of File
        The images.
    source : str or Path
        Where they lie, for errors.
    size : (int, int), optional
        Height and width to which images are brought, with antialiasing. Without it, all must be of one size.

    Returns
    -------
    images : dict of path to ndarray of shape (height · width,)
        Between 0 and 1.
    shape : (int, int)
        Height and width.
    """
    images: dict[tuple[str, ...], Array] = {}
    first: dict[tuple[int, ...], str] = {}
    for path, read in files:
        label = f"{source}: {'/'.join(path)}"
        image = _grey(read, label, size)
        first.setdefault(image.shape, label)
        images[path] = image.ravel()
    (height, width), *other = first
    if other:
        one, another, *_ = first.values()
        raise ValueError(
            f"images are of different sizes: {one} is {height} × {width} (height × width), {another} is "
            f"{other[0][0]} × {other[0][1]}. Give a size to bring all to one."
        )
    return images, (height, width)


def resize_images(images: Array, size: tuple[int, int] | None) -> Array:
    """Bring images of shape (m, height, width), between 0 and 1, to another size."""
    if size is None or images.shape[1:] == size:
        return images
    pillow = _pillow()
    return np.array([_values(pillow, _deep(pillow, 255.0 * image), size) for image in images])


def _pillow() -> Any:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("reading and resizing images needs Pillow: pip install 'crossview[images]'.") from error
    return SimpleNamespace(Image=Image, ImageOps=ImageOps, UnidentifiedImageError=UnidentifiedImageError)


def _grey(read: Callable[[], bytes], label: str, size: tuple[int, int] | None) -> Array:
    pillow = _pillow()
    try:
        with pillow.Image.open(io.BytesIO(read())) as image:
            if image.mode == "F":
                raise ValueError("its pixels are fractions, of a range that is not known")
            if image.mode.startswith("I"):
                # Sixteen bits, which a conversion to eight would cut off at 255.
                grey = _deep(pillow, np.asarray(image) / 257.0)
            else:
                # Cameras note which way up they were held, rather than turn the picture.
                grey = pillow.ImageOps.exif_transpose(image).convert("L")
            return _values(pillow, grey, size)
    except Exception as error:
        # A decoder that meets rubbish raises whatever it happens to stumble over; the user needs the file's name.
        reason = "no format that is known" if isinstance(error, pillow.UnidentifiedImageError) else error
        raise ValueError(f"{label} is not an image that can be read ({reason}): replace it.") from error


def _deep(pillow: Any, values: NDArray[Any]) -> Any:
    """An image whose grey values, 0 to 255, are fractions."""
    return pillow.Image.fromarray(values.astype(np.float32))


def _values(pillow: Any, image: Any, size: tuple[int, int] | None) -> Array:
    if size is not None:
        image = image.resize(size[::-1], pillow.Image.Resampling.LANCZOS)
    return np.clip(np.asarray(image, dtype=np.float64) / 255.0, 0.0, 1.0)
