"""Faces seen by different sensors: CUFSF and HFB, from a user's copy."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview.datasets._dataset import Dataset, class_names, paired
from crossview.datasets._files import File, natural, open_files
from crossview.datasets._images import Size, check_size, is_image, read_images

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

Identify = Callable[[Sequence[str]], dict[str, Any]]


def load_cufsf(folder: str | Path, size: Size = (80, 64), *, views: tuple[str, str] = ("photo", "sketch")) -> Dataset:
    """CUFSF: photos and sketches of faces, one of each for every person.

    Parameters
    ----------
    folder : str or Path
        A folder, or a zip archive, with one folder per view. The photo and the sketch of a person have the same name
        apart from the ending; if a person has only one of them, the other view's row is NaN.
    size : int or (int, int), optional
        Height and width to which images are resized, with antialiasing; None leaves them as they are. The paper does
        not say which it used.
    views : (str, str)
        Names of the folders of photos and sketches.

    Returns
    -------
    data : Dataset
        One sample per person, 1 194 in the complete data; views are named after their folders.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("photo/00001.jpg", "photo/00002.jpg", "sketch/00001.png", "sketch/00002.png"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         Image.new("L", (10, 12)).save(Path(folder, name))
    ...     data = load_cufsf(folder)
    >>> data.views, data.class_names
    (Views(2 samples; photo: 5120 features, sketch: 5120 features), ['00001', '00002'])
    """
    help_text = _CUFSF_HELP.format(" and ".join(views))
    samples, shape = _sensors(folder, size, views, help_text, lambda stems: {stem: stem for stem in stems})
    people = sorted(set().union(*samples.values()), key=natural)
    return Dataset(
        views=paired(samples, people, shape),
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
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("VIS/01_1.png", "VIS/01_2.png", "NIR/01_5.png", "NIR/01_6.png"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         Image.new("L", (40, 40)).save(Path(folder, name))
    ...     data = load_hfb(folder)
    >>> data.views, data.y
    (Views(2 samples; VIS: 1024 features, NIR: 1024 features), array([1, 1]))
    """
    help_text = _HFB_HELP.format(" and ".join(views))
    samples, shape = _sensors(folder, size, views, help_text, lambda stems: _numbered(stems, folder, help_text))
    keys = sorted(set().union(*samples.values()))
    y = np.array([person for person, _ in keys])
    return Dataset(
        views=paired(samples, keys, shape),
        y=y,
        class_names=class_names(y),
        description=f"HFB: {len(np.unique(y))} faces in visible light and in near infrared.",
        citation="S. Z. Li, Z. Lei, M. Ao, The HFB face database for heterogeneous face biometrics research, IEEE "
        "Conference on Computer Vision and Pattern Recognition Workshops, 2009.",
    )


def _sensors(
    folder: str | Path, size: Size, views: tuple[str, str], help_text: str, identify: Identify
) -> tuple[dict[str, dict[Any, Array]], tuple[int, int]]:
    """Images of every view by sample, which `identify` finds in the names of a view's images."""
    wanted = check_size(size)
    if len(views) != 2 or views[0] == views[1]:
        raise ValueError(f"views must be the names of two folders, got {views!r}.")
    with open_files(folder, help_text) as files:
        stems = {view: _stems(files, view, folder, help_text) for view in views}
        keys = {view: identify(list(named)) for view, named in stems.items()}
        if not set(keys[views[0]].values()) & set(keys[views[1]].values()):
            one, other = (f"{view} ({first_few(list(stems[view]))})" for view in views)
            raise ValueError(f"no image of {one} has a counterpart in {other}. {help_text}")
        images, shape = read_images((file for named in stems.values() for file in named.values()), folder, wanted)
    return {view: {key: images[stems[view][stem][0]] for stem, key in keys[view].items()} for view in views}, shape


def _stems(files: Sequence[File], view: str, folder: str | Path, help_text: str) -> dict[str, File]:
    """A view's images, which lie below the folder of its name, by name without the ending."""
    named: dict[str, File] = {}
    for path, read in files:
        if is_image(path[-1]) and view.lower() in (part.lower() for part in path[:-1]):
            other, _ = named.setdefault(PurePosixPath(path[-1]).stem, (path, read))
            if other != path:
                both = f"{'/'.join(path)} and {'/'.join(other)}"
                raise ValueError(f"{folder} has {both}, but names must differ within a view: rename or remove one.")
    if not named:
        raise FileNotFoundError(f"{folder} has no folder {view} with images. {help_text}")
    return named


def _numbered(stems: Sequence[str], folder: str | Path, help_text: str) -> dict[str, tuple[int, int]]:
    """Person, and position of the image among the person's, by the numbers in the names."""
    people: dict[int, dict[int, str]] = {}
    for stem in stems:
        match = re.search(r"([0-9]{1,9})[^0-9]+([0-9]{1,9})[^0-9]*$", stem)
        if match is None:
            raise ValueError(f"{folder} has an image called {stem!r}, without person and number. {help_text}")
        person, number = map(int, match.groups())
        other = people.setdefault(person, {}).setdefault(number, stem)
        if other != stem:
            both = f"{other!r} and {stem!r} in one view, both of which are image {number} of person {person}"
            raise ValueError(f"{folder} has {both}: rename or remove one.")
    ranked = {person: sorted(images.items()) for person, images in people.items()}
    return {stem: (person, k) for person, images in ranked.items() for k, (_, stem) in enumerate(images, start=1)}
