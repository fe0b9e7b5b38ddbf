"""Images, or vectors of features, in folders by view and class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview.datasets.dataset import (
    Dataset,
    as_labels,
    check_pairs,
    described,
    keys_by_pattern,
    paired,
    unique,
    warn_of_single_samples,
)
from crossview.datasets.files import File, natural, open_files, read_file, read_vector
from crossview.datasets.images import OnError, Size, check_size, is_image, read_images, warn_of_large_images

__all__ = ["is_sample", "load_folder", "load_samples"]

Place: TypeAlias = tuple[str, tuple[str, str]]  # view; class, empty if unknown, and name without its ending

_HELP = (
    "Arrange images as <view>/<class>/<sample>.png (or another image format, or .npy with a vector of features): those "
    "of the same class and name in two views are the same sample."
)
_PROBE_HELP = f"Put images (or .npy files) directly into the folder, or into a folder per class. Or else: {_HELP}"
_NO_SIZE = (
    "The model was not trained on images of a known size: pass a table of this view's features, or images of the size "
    "that it was trained on."
)


def load_folder(root: str | Path, size: Size = None, *, labelled: bool = True, pair_by: str | None = None) -> Dataset:
    r"""Images, or vectors of features, from one folder per view and in it one per class.

    Parameters
    ----------
    root : str or Path
        The folder, or a zip archive, that contains ``<view>/<class>/<sample>.png``, or ``.npy`` with one vector. Files
        of the same class and name are one sample; where a view lacks a sample, its row is NaN. Hidden files and files
        with other endings are ignored.
    size : int or (int, int), optional
        Height and width to which images are resized, with antialiasing. By default all must have the same size.
    labelled : bool
        Whether every image must be in the folder of its class, as fitting requires, and views must have samples in
        common. Otherwise the class of ``<view>/<sample>.png`` is unknown, and its label is empty text.
    pair_by : str, optional
        A regular expression, searched in ``<class>/<sample>`` without the ending: files of a class in which its groups
        find the same text are the same sample. ``r"(\d+)$"`` takes the number at the end. A group called ``class``, as
        in ``r"(?P<class>\d+)/.*?(\d+)$"``, replaces the name of the folder.

    Returns
    -------
    data : Dataset
        Grey values between 0 and 1; transparent pixels are white. Classes are numbers if the names of all their
        folders are.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("photo/ada", "photo/bob", "sketch/ada", "sketch/bob"):
    ...         Path(root, name).mkdir(parents=True)
    ...         np.save(Path(root, name, "1.npy"), np.zeros(24))
    ...     data = load_folder(root)
    >>> data.views, data.y
    (Views(2 samples; photo: 24 features, sketch: 24 features), array(['ada', 'bob'], dtype='<U3'))
    """
    wanted = check_size(size)
    with open_files(root, _HELP) as files:
        found = _by_place(files, root, labelled)
        views = sorted({view for view, _ in found}, key=natural)
        if pair_by is not None:
            found = _by_key(found, pair_by, root)
        if labelled:
            classes = [{label for name, (label, _) in found if name == view} for view in views]
            what, pattern = "File names must match", r"(\d+)$"
            if not set.intersection(*classes):
                what, pattern = "Names of class folders and of files must match", r"(?P<class>\d+)/.*?(\d+)$"
            fix = f"{what}: rename them, or give a pattern for what they share: --pair-by '{pattern}' (pair_by=…)."
            check_pairs(views, {place: str(file) for place, file in found.items()}, "/", fix, pair_by is not None)
        data = _read(found, views, root, wanted)
    if labelled:
        warn_of_single_samples(data)
        if wanted is None and data.image_shape is not None:
            warn_of_large_images(data.image_shape)
    return data


def load_samples(path: str | Path, view: str, size: Size = None, *, onerror: OnError = None) -> Dataset:
    """Images or vectors of one view: one file, or a folder or archive with or without folders by view and by class."""
    source, wanted = Path(path), check_size(size)
    if source.is_file() and is_sample(source.name):
        one, source = File(PurePosixPath(source.name), partial(read_file, source)), source.parent
        return _read(_by_place([one], source, view=view), [view], source, wanted, _NO_SIZE)
    with open_files(source, _HELP) as files:
        found = _by_place(files, source, view=view)
        chosen = {place: file for place, file in found.items() if place[0] == view}
        if not chosen:
            there = sorted({name for name, _ in found}, key=natural)
            only = first_few(there, 10)
            raise FileNotFoundError(f"{source} has no files of the view {view!r}, only {only}. {_HELP}")
        return _read(chosen, [view], source, wanted, _NO_SIZE, onerror)


def is_sample(name: str) -> bool:
    """Whether a file holds one sample, by its name."""
    return is_image(name) or name.lower().endswith(".npy")


def _by_place(
    files: Sequence[File], root: str | Path, labelled: bool = False, view: str | None = None
) -> dict[Place, File]:
    """Files of samples by place; if a view is given, it need not have a folder."""
    samples = [file for file in files if is_sample(file.path.name)]
    if not samples:
        raise FileNotFoundError(f"{root} has no images or .npy files. {_HELP if view is None else _PROBE_HELP}")
    parts = [file.path.parts for file in samples]
    top, depths = parts[0][0], {len(names) for names in parts}
    if min(depths) > 1 and all(names[0] == top for names in parts):
        # Many archives have everything in one folder more than needed.
        named_after = view is not None and Path(root).is_file() and top == Path(root).stem != view
        if named_after or depths == {4}:
            parts = [names[1:] for names in parts]
    if view is not None and max(map(len, parts)) < 3 and all(names[0] != view for names in parts):
        parts = [(view, *names) for names in parts]
    for file, names in zip(samples, parts, strict=True):
        if len(names) != 3 and (labelled or len(names) != 2):
            raise ValueError(f"{root} has a file in the wrong place, {file}. {_HELP}")
    # A folder next to samples of the view that is given is no class.
    mixed = {len(names) for names in parts if names[0] == view} == {2, 3}
    places: list[Place] = []
    for name, *classes, file_name in parts:
        stem = PurePosixPath(file_name).stem
        places.append((name, ("", "/".join((*classes, stem))) if mixed or not classes else (classes[0], stem)))
    if view is not None:  # nothing is paired by names, which may differ in their endings only
        counts = Counter(places)
        for k, (name, (label, stem)) in enumerate(places):
            if counts[places[k]] > 1:
                places[k] = name, (label, stem + samples[k].path.suffix)
    return unique(
        zip(places, samples, strict=True),
        lambda _, one, other: f"{root} has {one} and {other}, which are the same sample: rename or remove one.",
    )


def _by_key(found: Mapping[Place, File], pattern: str, root: str | Path) -> dict[Place, File]:
    """The same files, named after what a pattern finds in their names."""
    keys = keys_by_pattern(pattern, ["/".join(filter(None, key)) for _, key in found])
    places = [(view, (new or old, key)) for (view, (old, _)), (new, key) in zip(found, keys, strict=True)]
    return unique(
        zip(places, found.values(), strict=True),
        lambda place, one, other: (
            f"{root}: pair_by finds {place[1][1]!r} in {one} and {other}: write a pattern that tells them apart."
        ),
    )


def _read(
    found: Mapping[Place, File],
    names: Sequence[str],
    root: str | Path,
    size: tuple[int, int] | None,
    fix: str = "",
    onerror: OnError = None,
) -> Dataset:
    """The data set of the given files; for the fix and `onerror`, see `read_images`."""
    images = {place: file for place, file in found.items() if is_image(file.path.name)}
    samples, shape = read_images(images, root, size, fix, onerror) if images else (dict[Place, Array](), None)
    first: dict[str, tuple[File, int]] = {}
    for place, file in found.items():
        if place not in images:
            samples[place] = vector = read_vector(file.read(), f"{root}: {file}")
            other, width = first.setdefault(place[0], (file, len(vector)))
            if len(vector) != width:
                both = f"{other} has {width} features, {file} has {len(vector)}"
                raise ValueError(f"{root}: {both}: all samples of a view must have the same number.")
    for place, file in images.items():
        if place[0] in first:
            both = f"{file} and {first[place[0]][0]}"
            raise ValueError(f"{root} has images and vectors of the view {place[0]!r}, {both}: remove one kind.")
    keys = sorted({key for _, key in samples}, key=lambda key: [natural(part) for part in key])
    return described(
        paired(samples, names, keys, None if first else shape),
        as_labels([label for label, _ in keys]),
        np.array(["/".join(filter(None, key)) for key in keys]),
        root,
    )
