"""Images in folders by view and class."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from crossview._types import Array
from crossview.datasets._dataset import Dataset, as_labels, class_names, paired
from crossview.datasets._files import File, natural, open_files
from crossview.datasets._images import Size, check_size, is_image, read_images

__all__ = ["load_folder"]

_HELP = (
    "Arrange images as <view>/<class>/<sample>.png (or another image format): those of the same class and name in two "
    "views are the same sample."
)


def load_folder(
    root: str | Path, size: Size = None, *, views: Sequence[str] | None = None, labelled: bool = True
) -> Dataset:
    """Images from one folder per view and in it one per class.

    Parameters
    ----------
    root : str or Path
        The folder, or a zip archive, that contains ``<view>/<class>/<sample>.png``. Images of the same class whose
        names differ only in the ending are one sample; where a view lacks a sample, its row is NaN. Hidden files and
        files without the ending of an image are ignored.
    size : int or (int, int), optional
        Height and width to which images are resized, with antialiasing. By default all must have the same size.
    views : sequence of str, optional
        The views to read, in this order; by default all, by name.
    labelled : bool
        Whether every image must be in the folder of its class, as fitting requires. Otherwise the class of
        ``<view>/<sample>.png`` is unknown, and its label is empty text.

    Returns
    -------
    data : Dataset
        Grey values between 0 and 1. Classes are numbers if the names of all their folders are.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("photo/ada/1", "photo/ada/2", "photo/bob/1", "sketch/ada/1", "sketch/bob/1"):
    ...         path = Path(root, name + ".png")
    ...         path.parent.mkdir(parents=True, exist_ok=True)
    ...         Image.new("L", (4, 6)).save(path)
    ...     data = load_folder(root)
    >>> data.views
    Views(3 samples; photo: 24 features, sketch: 24 features; 1 row missing)
    >>> data.y
    array(['ada', 'ada', 'bob'], dtype='<U3')
    """
    wanted = check_size(size)
    with open_files(root, _HELP) as files:
        found = _by_place(files, root, labelled)
        names = sorted({place[0] for place in found}, key=natural) if views is None else list(views)
        for view in names:
            if not any(place[0] == view for place in found):
                raise FileNotFoundError(f"{root} has no images of the view {view!r}. {_HELP}")
        chosen = {place: file for place, file in found.items() if place[0] in names}
        images, shape = read_images(chosen.values(), root, wanted)
    samples: dict[str, dict[tuple[str, str], Array]] = {view: {} for view in names}
    for (view, label, stem), (path, _) in chosen.items():
        samples[view][label, stem] = images[path]
    keys = sorted({place[1:] for place in chosen}, key=lambda key: [natural(part) for part in key])
    y = as_labels([label for label, _ in keys])
    return Dataset(
        views=paired(samples, keys, shape),
        y=y,
        class_names=class_names(y),
        description=f"Images in {Path(root).name}: {len(keys)} samples of {len(set(y.tolist()))} classes.",
        ids=np.array(["/".join(filter(None, key)) for key in keys]),
    )


def _by_place(files: Sequence[File], root: str | Path, labelled: bool) -> dict[tuple[str, str, str], File]:
    """Images by view, class (empty if unknown), and name without its ending."""
    images = [(path, read) for path, read in files if is_image(path[-1])]
    if not images:
        raise FileNotFoundError(f"{root} has no images. {_HELP}")
    # Archives are often of one folder that holds everything.
    above = 1 if all(len(path) == 4 and path[0] == images[0][0][0] for path, _ in images) else 0
    found: dict[tuple[str, str, str], File] = {}
    for path, read in images:
        if len(path) == 2 and not labelled:
            path = (path[0], "", path[1])
        if len(path) != 3 + above:
            raise ValueError(f"{root} has an image in the wrong place, {'/'.join(path)}. {_HELP}")
        view, label, name = path[above:]
        place = view, label, PurePosixPath(name).stem
        if place in found:
            both = f"{'/'.join(path)} and {'/'.join(found[place][0])}"
            raise ValueError(f"{root} has {both}, which are the same sample: rename or remove one.")
        found[place] = path, read
    return found
