"""Images, or vectors of features, in folders by view and class."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview.datasets._dataset import Dataset, as_labels, described, paired, warn_of_single_samples
from crossview.datasets._files import File, natural, open_files, read_file
from crossview.datasets._images import OnError, Size, check_size, is_image, read_images, warn_of_large_images
from crossview.datasets._npy import read_vector
from crossview.datasets._pairing import check_pairs, keys_by_pattern

__all__ = ["is_sample", "load_folder", "load_samples"]

Place = tuple[str, str, str]
"""View, class (empty if unknown), and name without its ending."""

_HELP = (
    "Arrange images as <view>/<class>/<sample>.png (or another image format, or .npy with a vector of features): those "
    "of the same class and name in two views are the same sample."
)
_PROBE_HELP = (
    "Put images (or .npy files with a vector of features) directly into the folder, or into a folder per class, or "
    "arrange them as <view>/<class>/<sample>.png."
)
_NO_SIZE = (
    "The model was not trained on images of a known size: pass a table of this view's features, or images of the size "
    "that it was trained on."
)


def load_folder(
    root: str | Path,
    size: Size = None,
    *,
    views: Sequence[str] | None = None,
    labelled: bool = True,
    pair_by: str | None = None,
) -> Dataset:
    r"""Images, or vectors of features, from one folder per view and in it one per class.

    Parameters
    ----------
    root : str or Path
        The folder, or a zip archive, that contains ``<view>/<class>/<sample>.png``, or ``.npy`` with one vector. Files
        of the same class whose names differ only in the ending are one sample; where a view lacks a sample, its row is
        NaN. Hidden files and files with other endings are ignored.
    size : int or (int, int), optional
        Height and width to which images are resized, with antialiasing. By default all must have the same size.
    views : sequence of str, optional
        The views to read, in this order; by default all, by name.
    labelled : bool
        Whether every image must be in the folder of its class, as fitting requires, and views must have samples in
        common. Otherwise the class of ``<view>/<sample>.png`` is unknown, and its label is empty text.
    pair_by : str, optional
        A regular expression that says which files are the same sample if their names differ. It is searched in
        ``<class>/<sample>``, without the ending: files of a class are the same sample if its groups find the same text.
        ``r"(\d+)$"`` takes the number at the end. A group called ``class``, as in
        ``r"(?P<class>\d+)/.*?(\d+)$"``, replaces the name of the folder, if those differ as well.

    Returns
    -------
    data : Dataset
        Grey values between 0 and 1; transparent pixels are white. Classes are numbers if the names of all their
        folders are.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("photo/ada/1", "photo/bob/1", "sketch/ada/1", "sketch/bob/1"):
    ...         path = Path(root, name + ".png")
    ...         path.parent.mkdir(parents=True, exist_ok=True)
    ...         Image.new("L", (4, 6)).save(path)
    ...     data = load_folder(root)
    >>> data.views
    Views(2 samples; photo: 24 features, sketch: 24 features)
    >>> data.y
    array(['ada', 'bob'], dtype='<U3')
    """
    wanted = check_size(size)
    with open_files(root, _HELP) as files:
        found = _by_place(files, root, labelled)
        names = sorted({place[0] for place in found}, key=natural) if views is None else list(views)
        chosen = _of_views(found, names, root)
        if pair_by is not None:
            chosen = _by_key(chosen, pair_by, root)
        if labelled:
            _check_pairs(chosen, names, pair_by is not None)
        data = _read(chosen, names, root, wanted)
    if labelled:
        warn_of_single_samples(data)
    if labelled and wanted is None and data.image_shape is not None:
        warn_of_large_images(data.image_shape)
    return data


def load_samples(
    path: str | Path, view: str, size: Size = None, *, labelled: bool = False, onerror: OnError = None
) -> Dataset:
    """Images or vectors of one view: one file, or a folder or archive with or without folders by view and by class."""
    source, wanted = Path(path), check_size(size)
    if source.is_file() and is_sample(source.name):
        found = _by_place([((source.name,), partial(read_file, source))], source.parent, labelled, view)
        return _read(found, [view], source.parent, wanted, _NO_SIZE)
    with open_files(source, _HELP) as files:
        found = _by_place(files, source, labelled, view)
        return _read(_of_views(found, [view], source), [view], source, wanted, _NO_SIZE, onerror)


def is_sample(name: str) -> bool:
    """Whether a file holds one sample, by its name."""
    return is_image(name) or name.lower().endswith(".npy")


def _by_place(files: Sequence[File], root: str | Path, labelled: bool, view: str | None = None) -> dict[Place, File]:
    """Files of samples by place; if a view is given, it need not have a folder."""
    samples = [(path, read) for path, read in files if is_sample(path[-1])]
    if not samples:
        raise FileNotFoundError(f"{root} has no images or .npy files. {_HELP if view is None else _PROBE_HELP}")
    paths = [path for path, _ in samples]
    above = _n_folders_above(paths, root, view)
    lacks_view = view is not None and max(map(len, paths)) - above < 3 and all(p[above] != view for p in paths)
    parts = [(str(view), *path[above:]) if lacks_view else path[above:] for path in paths]
    for path, folders in zip(paths, parts, strict=True):
        if len(folders) != 3 and (labelled or len(folders) != 2):
            raise ValueError(f"{root} has a file in the wrong place, {'/'.join(path)}. {_HELP}")
    # A folder next to samples of the view that is given is no class.
    mixed = {len(folders) for folders in parts if folders[0] == view} == {2, 3}
    places = [_place(folders, mixed) for folders in parts]
    counts, found = Counter(places), dict[Place, File]()
    for place, (path, read) in zip(places, samples, strict=True):
        if view is not None and counts[place] > 1:
            # Nothing is paired by these names.
            place = (*place[:2], place[2] + PurePosixPath(path[-1]).suffix)
        if place in found:
            both = f"{'/'.join(path)} and {'/'.join(found[place][0])}"
            raise ValueError(f"{root} has {both}, which are the same sample: rename or remove one.")
        found[place] = path, read
    return found


def _place(parts: tuple[str, ...], mixed: bool) -> Place:
    """The place of a file; where depths are mixed, its class is unknown, and its folder is part of the name."""
    view, *classes, file = parts
    name = PurePosixPath(file).stem
    return (view, "", "/".join((*classes, name))) if mixed or not classes else (view, classes[0], name)


def _n_folders_above(paths: Sequence[tuple[str, ...]], root: str | Path, view: str | None) -> int:
    """1 if everything is in one folder more than needed, as in many archives."""
    top = paths[0][0]
    if not all(len(path) > 1 and path[0] == top for path in paths):
        return 0
    named_after = view is not None and Path(root).is_file() and top == Path(root).stem != view
    return int(named_after or all(len(path) == 4 for path in paths))


def _of_views(found: Mapping[Place, File], names: Collection[str], root: str | Path) -> dict[Place, File]:
    """The files of some views, each of which must have some."""
    there = sorted({view for view, _, _ in found}, key=natural)
    for view in names:
        if view not in there:
            raise FileNotFoundError(f"{root} has no files of the view {view!r}, only {first_few(there, 10)}. {_HELP}")
    return {place: file for place, file in found.items() if place[0] in names}


def _by_key(found: Mapping[Place, File], pattern: str, root: str | Path) -> dict[Place, File]:
    """The same files, named after what a pattern finds in their names."""
    keys = keys_by_pattern(pattern, ["/".join(filter(None, place[1:])) for place in found])
    renamed: dict[Place, File] = {}
    for ((view, label, _), (path, read)), (found_class, key) in zip(found.items(), keys, strict=True):
        place = view, found_class or label, key
        if place in renamed:
            both = f"{'/'.join(renamed[place][0])} and {'/'.join(path)}"
            raise ValueError(f"{root}: pair_by finds {key!r} in {both}: write a pattern that tells them apart.")
        renamed[place] = path, read
    return renamed


def _check_pairs(found: Mapping[Place, File], names: Sequence[str], by_pattern: bool) -> None:
    """Refuse or report files without a counterpart in another view."""
    keys = {view: {place[1:] for place in found if place[0] == view} for view in names}
    classes = {view: {label for label, _ in keys[view]} for view in names}
    what, pattern = "File names must match", r"(\d+)$"
    if len(names) > 1 and not set.intersection(*classes.values()):
        what, pattern = "Names of class folders and of files must match", r"(?P<class>\d+)/.*?(\d+)$"
    fix = f"{what}: rename them, or give a pattern for what they share, such as --pair-by '{pattern}' (pair_by=…)."
    check_pairs(keys, lambda view, key: "/".join(found[(view, *key)][0]), "{}/", fix, by_pattern)


def _read(
    found: Mapping[Place, File],
    names: Sequence[str],
    root: str | Path,
    size: tuple[int, int] | None,
    fix: str = "",
    onerror: OnError = None,
) -> Dataset:
    """The data set of the given files; for the fix and `onerror`, see `read_images`."""
    images = {place: file for place, file in found.items() if is_image(file[0][-1])}
    samples: dict[str, dict[tuple[str, str], Array]] = {view: {} for view in names}
    shape = None
    if images:
        pixels, shape = read_images(images.values(), root, size, fix, onerror)
        found = {place: file for place, file in found.items() if place not in images or file[0] in pixels}
        images = {place: file for place, file in images.items() if file[0] in pixels}
        for (view, label, name), (path, _) in images.items():
            samples[view][label, name] = pixels[path]
    first: dict[str, tuple[str, int]] = {}
    for (view, label, name), (path, read) in found.items():
        if (view, label, name) in images:
            continue
        vector = read_vector(read, f"{root}: {'/'.join(path)}")
        samples[view][label, name] = vector
        other, width = first.setdefault(view, ("/".join(path), len(vector)))
        if len(vector) != width:
            both = f"{other} has {width} features, {'/'.join(path)} has {len(vector)}"
            raise ValueError(f"{root}: {both}: all samples of a view must have the same number.")
    for view, label, name in images:
        if view in first:
            both = f"{'/'.join(images[view, label, name][0])} and {first[view][0]}"
            raise ValueError(f"{root} has images and vectors of the view {view!r}, {both}: remove one kind.")
    keys = sorted({place[1:] for place in found}, key=lambda key: [natural(part) for part in key])
    views = paired(samples, keys, None if first else shape)
    return described(
        views, as_labels([label for label, _ in keys]), np.array(["/".join(filter(None, key)) for key in keys]), root
    )
