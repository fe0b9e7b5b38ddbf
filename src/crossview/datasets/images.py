"""Reading images as grey values."""

import io
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview._validation import check_count
from crossview.datasets.files import File, one_line

Size: TypeAlias = int | tuple[int, int] | None
OnError: TypeAlias = Callable[[str], object] | None
Key = TypeVar("Key", bound=Hashable)

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Other formats are never tried: that of EPS would start Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "PPM", "GIF", "WEBP")
_MAX_DECODED = 2**25  # pixels of an image in a file
_MAX_PIXELS = 2**23  # of an image that is kept: both limits hold memory below 300 MB per image
_MAX_SIDE = 2**15  # resizing takes memory in proportion to a side, too
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339  # tags of a TIFF file
_MANY_PIXELS = 10_000  # of an image, beyond which fits are slow
_MAX_VALUES = 2**31  # of all images: 17 GB


class DamagedImagesError(ValueError):
    """Names images that cannot be read."""


def is_image(name: str) -> bool:
    """Whether a file is an image, by its name."""
    return name.lower().endswith(IMAGE_SUFFIXES)


def check_size(size: Size) -> tuple[int, int] | None:
    """Height and width, from a pair or from one number for both; None keeps images as they are."""
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, Sequence) else (size, size)
    if len(pair) != 2:
        raise ValueError(f"size must be one number, or height and width, got {size!r}.")
    for length in pair:
        check_count(length, "size", least=1)
    if pair[0] * pair[1] > _MAX_PIXELS or max(pair) > _MAX_SIDE:
        most = f"{_MAX_PIXELS:,} pixels, {_MAX_SIDE:,} per side"
        raise ValueError(f"size must be at most {most}, got {pair[0]} × {pair[1]}: make it smaller.")
    return pair


def read_images(
    files: Mapping[Key, File], source: str | Path, size: tuple[int, int] | None, fix: str = "", onerror: OnError = None
) -> tuple[dict[Key, Array], tuple[int, int]]:
    """Grey values from 0 to 1, row by row, and height and width of all images.

    Without a size, all must have the same; otherwise the error ends in the fix, by default to choose a size. Damaged
    images are an error, too; if there are others, `onerror` may be called with its message instead.
    """
    try:
        import PIL.ImageOps  # which imports PIL.Image
    except ImportError as error:
        raise ImportError("reading images needs Pillow: pip install 'crossview[images]'.") from error
    images: dict[Key, Array] = {}
    first: dict[tuple[int, int], str] = {}
    damaged: list[str] = []
    for key, file in files.items():
        content = file.read()
        try:
            image = _grey(PIL, content, size)
        except Exception as error:  # a decoder raises any kind on damaged data
            unknown = isinstance(error, PIL.UnidentifiedImageError)
            reason = f"it is not one of {', '.join(_FORMATS)}" if unknown else one_line(error)
            damaged.append(f"{file} ({reason})")
            continue
        height, width = image.shape
        if len(files) * image.size > _MAX_VALUES:
            need = f"{len(files)} images of {height} × {width} pixels need {len(files) * image.nbytes >> 30} GB"
            raise ValueError(f"{source}: {need} of memory: choose a smaller size.")
        first.setdefault((height, width), f"{source}: {file} is {height} × {width}")
        images[key] = image.ravel()
    if damaged:
        what = "is not a readable image: replace or remove it"
        if len(damaged) > 1:
            what = f"are not readable images ({len(damaged)} of {len(files)}): replace or remove them"
        message = f"{source}: {first_few(damaged)} {what}."
        if onerror is None or not images:
            raise DamagedImagesError(message)
        onerror(message)
    if len(first) > 1:
        one, another, *_ = first.values()
        resize = f"Resize all, for example with {_suggested(min(first))}."
        raise ValueError(f"images differ in size: {one} (height × width), {another}. {fix or resize}")
    return images, (height, width)


def warn_of_large_images(shape: tuple[int, int]) -> None:
    """Suggest a smaller size for images of many pixels."""
    height, width = shape
    if height * width > _MANY_PIXELS:
        warnings.warn(
            f"images have {height} × {width} = {height * width:,} pixels each: resize them, for example with "
            f"{_suggested(shape)}, for faster fits and usually the same accuracy.",
            stacklevel=3,
        )


def _suggested(shape: tuple[int, int]) -> str:
    """The size of an image reduced to at most 64 pixels on its longer side, as an option."""
    scale = min(1.0, 64 / max(shape))
    height, width = (max(1, round(scale * side)) for side in shape)
    return f"--size {height}x{width} (size=({height}, {width}))"


def _grey(pillow: Any, content: bytes, size: tuple[int, int] | None) -> Array:
    """Grey values of one image, (height, width)."""
    with pillow.Image.open(io.BytesIO(content), formats=_FORMATS) as image:
        # Opening reads the header; what follows decodes.
        most = _MAX_PIXELS if size is None else _MAX_DECODED
        if image.width * image.height > most or max(image.size) > _MAX_SIDE:
            raise ValueError(f"it has {image.width} × {image.height} pixels, over {most:,} or {_MAX_SIDE:,} a side")
        tags = getattr(image, "tag_v2", {})
        bits = tags.get(_BITS, (16,))[0]
        if image.mode == "F" or bits > 16 or tags.get(_SAMPLE_FORMAT, (1,))[0] != 1:
            raise ValueError("its pixels are floating-point, signed or 32-bit numbers of unknown range")
        # Cameras note which way up they were held rather than turn the picture.
        pillow.ImageOps.exif_transpose(image, in_place=True)
        if not image.mode.startswith("I"):
            return grey_values(_on_white(pillow, image), size)
        # More than eight bits, which a conversion to eight would cut off at 255.
        deep, top = image.convert("F"), float(2**bits - 1)
        if tags.get(_PHOTOMETRIC) == 0:
            deep = deep.point(lambda value: value * -1.0 + top)
        if (clear := image.info.get("transparency")) is not None:
            deep = pillow.Image.fromarray(np.where(np.asarray(deep) == clear, np.float32(top), deep))
        return grey_values(deep, size, top)


def _on_white(pillow: Any, image: Any) -> Any:
    """An image in grey; transparent pixels, whose colour is arbitrary and often black, are white."""
    if "transparency" not in image.info and image.mode not in ("RGBA", "RGBa", "LA", "La", "PA"):
        return image.convert("L")
    colours = image if image.mode == "RGBA" else image.convert("RGBA")
    grey = pillow.Image.new("L", image.size, 255)
    grey.paste(colours.convert("L"), mask=colours.getchannel("A"))
    return grey


def grey_values(image: Any, size: tuple[int, int] | None, top: float = 255.0) -> Array:
    """Pixels between 0 and 1 of a grey image, resized if a size is given, whose white has the value `top`."""
    if size is not None:
        image = image.resize(size[::-1], resample=1)  # Lanczos
    values = np.array(image, dtype=np.float64)
    values /= top
    return np.clip(values, 0.0, 1.0, out=values)
