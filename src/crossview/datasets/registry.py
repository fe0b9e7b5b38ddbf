"""Data sets by name or by path, as a command line gives them."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crossview.datasets.arrays import ARRAY_SUFFIXES, load_arrays
from crossview.datasets.dataset import Dataset, class_names
from crossview.datasets.files import check_name, read_npy
from crossview.datasets.folders import is_sample, load_folder, load_samples
from crossview.datasets.images import OnError
from crossview.datasets.included import load_descriptors, load_digits, make_captions, make_manifolds
from crossview.datasets.turntable import make_turntable
from crossview.views import Views


class Source(NamedTuple):
    """A data set with a name: its loader, and a description."""

    load: Callable[..., Dataset]
    what: str


SOURCES: dict[str, Source] = {
    "digits": Source(load_digits, "handwritten digits, left half against right half; comes with scikit-learn"),
    "descriptors": Source(load_descriptors, "handwritten digits in four descriptions; comes with scikit-learn"),
    "turntable": Source(partial(make_turntable, random_state=0), "renderings of random solid objects, in three views"),
    "manifolds": Source(partial(make_manifolds, random_state=0), "nonlinear views of shared factors"),
    "captions": Source(partial(make_captions, random_state=0), "synthetic image features and caption topics"),
}
"""The data sets by name."""


def open_dataset(
    name: str | Path, *, labelled: bool = True, image_shape: tuple[int, int] | None = None, **options: Any
) -> Dataset:
    """Load a data set by its name in `SOURCES`, or from a path with `load_arrays` or `load_folder`.

    Data from a path must have labels if `labelled`. Images from files are resized to `image_shape`. The options are
    passed to the loader.
    """
    if image_shape is not None and is_resizable(name):
        options.setdefault("size", image_shape)
    load = _loader(name)
    return load(**options) if str(name) in SOURCES else load(name, labelled=labelled, **options)


def open_probes(
    name: str | Path,
    view: str,
    *,
    image_shape: tuple[int, int] | None = None,
    onerror: OnError = None,
    **options: Any,
) -> Dataset:
    """Load the samples of one view, for a fitted model: an image, or what else `load_samples` and `open_dataset` take.

    A table or a ``.npy`` file may have any name. `onerror` is called with a message that names images that cannot be
    read, if there are others; the default is an error. `ids` of the data are names of files (``class/name``, with the
    ending if there are several of that name) or identities, as text, or else the numbers of the rows. Labels are empty
    text where they are unknown; a folder next to samples is no class.
    """
    path = Path(name)
    if str(name) in SOURCES or not path.exists():
        data = open_dataset(name, labelled=False, image_shape=image_shape, **options)
    elif _has_samples(path, view):
        data = load_samples(path, view, image_shape, onerror=onerror, **options)
    else:
        data = load_arrays(path, labelled=False, **options)
    # A file of one view is named after anything, perhaps the day on which its probes were taken.
    anonymous = len(data.view_names) == 1 and path.suffix.lower() in (*ARRAY_SUFFIXES, ".mat")
    if view not in data.view_names and not anonymous:
        there = ", ".join(map(repr, data.view_names))
        raise ValueError(f"{name} has no view {view!r}, only {there}: choose one of them, or rename it.")
    v = 0 if anonymous else data.view_names.index(view)
    rows = np.flatnonzero(data.views.mask[:, v])
    if not len(rows):
        raise ValueError(f"{name} has no sample of the view {view!r}.")
    X, columns, y = data.views.arrays[v][rows], data.views.feature_names[v], data.y[rows]
    views = Views({view: X}, feature_names=[columns], image_shape=data.image_shape)
    ids = rows if data.ids is None else data.ids[rows].astype(str)
    return Dataset(views, y, class_names(y), data.description, data.citation, ids)


def loader_options(name: str | Path) -> set[str]:
    """Names of the options that the loader of a data set takes."""
    return set(signature(_loader(name)).parameters)


def is_resizable(name: str | Path) -> bool:
    """Whether a data set has images that are read, in any size; generated ones have a size of another kind."""
    return str(name) not in SOURCES and "size" in loader_options(name)


def _loader(name: str | Path) -> Callable[..., Dataset]:
    """The loader of a data set by its name, or else of an existing path."""
    if str(name) in SOURCES:
        return SOURCES[str(name)].load
    path = check_name(Path(name))
    if not path.exists():
        raise FileNotFoundError(f"{name} is neither a data set ({', '.join(SOURCES)}) nor an existing path.")
    return load_arrays if _has_arrays(path) else load_folder


def _has_arrays(path: Path) -> bool:
    """Whether `load_arrays` reads a path; a folder that cannot be listed gets its error from `load_folder`."""
    if path.is_dir():
        return any(entry.suffix.lower() in ARRAY_SUFFIXES for entry in path.glob("*"))
    return path.suffix.lower() != ".zip"


def _has_samples(path: Path, view: str) -> bool:
    """Whether a path has a file per sample rather than a file per view."""
    if path.is_dir() and any(path.glob("*.npy")):
        return not any((path / f"{stem}.npy").exists() for stem in (view, "y"))
    if path.is_file() and is_sample(path.name):
        return path.suffix.lower() != ".npy" or read_npy(path).ndim == 1
    return not _has_arrays(path)
