"""Faces seen by different sensors: CUFSF and HFB, from a user's copy."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from crossview._text import first_few
from crossview.datasets.dataset import Dataset, class_names, paired, unique
from crossview.datasets.files import File, natural, open_files
from crossview.datasets.images import Size, check_size, is_image, read_images
from crossview.views import Views

__all__ = ["load_cufsf", "load_hfb"]

_CUFSF_HELP = (
    "The sketches are distributed by the Multimedia Laboratory of the Chinese University of Hong Kong, the photos, as "
    "the FERET database, by the National Institute of Standards and Technology. Put them into two folders, {}; the "
    "photo and the sketch of a person must have the same name, apart from the ending."
)
_HFB_HELP = (
    "HFB is distributed by the Center for Biometrics and Security Research of the Chinese Academy of Sciences. Put the "
    "images into two folders, {}, and name them by person and number, for example 007_2.png or VIS-007-2.bmp."
)

Identify: TypeAlias = Callable[[Iterable[str]], dict[str, Any]]


def load_cufsf(folder: str | Path, size: Size = (80, 64), *, views: tuple[str, str] = ("photo", "sketch")) -> Dataset:
    """CUFSF: photos and sketches of faces, one of each for every person.

    Parameters
    ----------
    folder : str or Path
        A folder, or a zip archive, with one folder per view. The photo and the sketch of a person have the same name
        apart from the ending; if a person has only one of them, the other view's row is NaN.
    size : int or (int, int), optional
        Height and width to which images are resized, with antialiasing; None leaves them as they are.
    views : (str, str)
        Names of the folders of photos and sketches.

    Returns
    -------
    data : Dataset
        One sample per person, 1 194 in the complete data; views are named after their folders.

    Examples
    --------
    >>> load_cufsf("not/copied/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. The sketches are distributed by the Multimedia Laboratory ...
    """
    help_text = _CUFSF_HELP.format(" and ".join(views))
    seen, people = _sensors(folder, size, views, help_text, lambda names: {name: name for name in names}, natural)
    return Dataset(
        views=seen,
        y=np.arange(1, len(people) + 1),
        class_names=people,
        description=f"CUFSF: photos and sketches of {len(people)} faces.",
        citation="W. Zhang, X. Wang, X. Tang, Coupled information-theoretic encoding for face photo-sketch "
        "recognition, IEEE Conference on Computer Vision and Pattern Recognition, 2011.",
    )


def load_hfb(folder: str | Path, size: Size = 32, *, views: tuple[str, str] = ("VIS", "NIR")) -> Dataset:
    """HFB: faces in visible light and in near infrared, several images of each for every person.

    Parameters
    ----------
    folder : str or Path
        A folder, or a zip archive, with one folder per view. The last two numbers in the name of an image are the
        person and the image's number: ``007_2.png``, ``VIS-007-2.bmp``. A person's images in the two views are paired
        in the order of their numbers, which may differ; where one view has fewer, its rows are NaN.
    size, views
        As in `load_cufsf`; the folders are those of images in visible light and in near infrared.

    Returns
    -------
    data : Dataset
        400 samples in the complete data, four of each of 100 people; views are named after their folders.

    Examples
    --------
    >>> load_hfb("not/copied/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. HFB is distributed by the Center for Biometrics ...
    """
    help_text = _HFB_HELP.format(" and ".join(views))
    seen, keys = _sensors(folder, size, views, help_text, lambda names: _numbered(names, folder, help_text))
    y = np.array([person for person, _ in keys])
    return Dataset(
        views=seen,
        y=y,
        class_names=class_names(y),
        description=f"HFB: {len(np.unique(y))} faces in visible light and in near infrared.",
        citation="S. Z. Li, Z. Lei, M. Ao, The HFB face database for heterogeneous face biometrics research, IEEE "
        "Conference on Computer Vision and Pattern Recognition Workshops, 2009.",
    )


def _sensors(
    folder: str | Path, size: Size, views: tuple[str, str], help_text: str, identify: Identify, order: Any = None
) -> tuple[Views, list[Any]]:
    """Images and their samples, in an order, which `identify` finds in the names of a view's images."""
    wanted = check_size(size)
    if len(views) != 2 or views[0] == views[1]:
        raise ValueError(f"views must be the names of two folders, got {views!r}.")
    with open_files(folder, help_text) as files:
        named = {view: _by_name(files, view, folder, help_text) for view in views}
        keys = {view: identify(named[view]) for view in views}
        if not set(keys[views[0]].values()) & set(keys[views[1]].values()):
            one, other = (f"{view} ({first_few(list(named[view]))})" for view in views)
            raise ValueError(f"no image of {one} has a counterpart in {other}. {help_text}")
        found = {(view, keys[view][name]): file for view in views for name, file in named[view].items()}
        images, shape = read_images(found, folder, wanted)
    samples = sorted({sample for _, sample in images}, key=order)
    return paired(images, views, samples, shape), samples


def _by_name(files: Sequence[File], view: str, folder: str | Path, help_text: str) -> dict[str, File]:
    """A view's images, which lie below the folder of its name, by name without the ending."""
    found = [
        file for file in files if is_image(file.path.name) and view.lower() in map(str.lower, file.path.parts[:-1])
    ]
    if not found:
        raise FileNotFoundError(f"{folder} has no folder {view} with images. {help_text}")
    return unique(
        ((file.path.stem, file) for file in found),
        lambda _, one, other: (
            f"{folder} has {one} and {other}, but names must differ within a view: rename or remove one."
        ),
    )


def _numbered(names: Iterable[str], folder: str | Path, help_text: str) -> dict[str, tuple[int, int]]:
    """Person, and position of the image among the person's, by the numbers in the names."""
    numbers = []
    for name in names:
        match = re.search(r"([0-9]{1,9})[^0-9]+([0-9]{1,9})[^0-9]*$", name)
        if match is None:
            raise ValueError(f"{folder} has an image called {name!r}, without person and number. {help_text}")
        numbers.append(((int(match[1]), int(match[2])), name))
    images = unique(
        numbers,
        lambda key, one, other: (
            f"{folder} has {one!r} and {other!r} in one view, both of which are image {key[1]} of person {key[0]}: "
            "rename or remove one."
        ),
    )
    ordered = sorted(images.items())
    people = [person for (person, _), _ in ordered]
    return dict(zip((name for _, name in ordered), zip(people, ranks(people), strict=True), strict=True))


def ranks(groups: Iterable[Hashable]) -> list[int]:
    """The position of every item among those of its group, from 1."""
    seen: Counter[Hashable] = Counter()
    found = []
    for group in groups:
        seen[group] += 1
        found.append(seen[group])
    return found
