"""Data sets by name or by path, as a command line gives them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from crossview.datasets import cmu_pie, coil100
from crossview.datasets._dataset import Dataset
from crossview.datasets._files import check_name
from crossview.datasets.arrays import TABLE_SUFFIXES, load_arrays
from crossview.datasets.digits import load_descriptors, load_digits
from crossview.datasets.faces import load_cufsf, load_hfb
from crossview.datasets.folders import load_folder
from crossview.datasets.procedural import make_captions, make_manifolds, make_turntable


class Source(NamedTuple):
    """A data set with a name: its loader, its folder if it is read from one, a description, and the paper's cases."""

    load: Callable[..., Dataset]
    folder: str | None
    what: str
    cases: tuple[int, ...] = ()


SOURCES: dict[str, Source] = {
    "digits": Source(load_digits, None, "handwritten digits, left half against right half; comes with scikit-learn"),
    "descriptors": Source(load_descriptors, None, "handwritten digits in four descriptions; comes with scikit-learn"),
    "turntable": Source(make_turntable, None, "renderings of random solid objects from three ranges of angles"),
    "manifolds": Source(make_manifolds, None, "nonlinear views of shared factors"),
    "captions": Source(make_captions, None, "synthetic image features and caption topics, of 300 classes"),
    "coil100": Source(coil100.load_coil100, "coil-100", "COIL-100: objects on a turntable", tuple(coil100.CASES)),
    "cmu-pie": Source(cmu_pie.load_cmu_pie, "cmu-pie", "CMU PIE: faces in several poses", tuple(cmu_pie.CASES)),
    "cufsf": Source(load_cufsf, "cufsf", "CUFSF: photographs and sketches of faces"),
    "hfb": Source(load_hfb, "hfb", "HFB: faces in visible and near-infrared light"),
}
"""The data sets by name."""


def open_dataset(
    name: str | Path, folder: str | Path | None = None, *, labelled: bool = True, **options: Any
) -> Dataset:
    """Load a data set by its name in `SOURCES`, or from a path with `load_arrays` or `load_folder`.

    `folder` contains the data sets that are not part of the installation. Data from a path must have labels if
    `labelled`. The options, for example ``case``, are passed to the loader.

    >>> open_dataset("turntable", n_objects=3).views
    Views(12 samples; V1: 1024 features, V2: 1024 features, V3: 1024 features)
    """
    source = SOURCES.get(str(name))
    if source is None:
        path = check_name(Path(name))
        if not path.exists():
            raise FileNotFoundError(f"{name} is neither a data set ({', '.join(SOURCES)}) nor an existing path.")
        # A folder that cannot be listed has no tables here, and gets its error from load_folder.
        tables = path.is_file() or any(entry.suffix.lower() in TABLE_SUFFIXES for entry in path.glob("*"))
        return (load_arrays if tables else load_folder)(path, labelled=labelled, **options)
    if source.folder is None:
        return source.load(**options)
    if folder is None:
        raise ValueError(f"{name} is read from your copy: pass the folder that contains {source.folder}/.")
    root = Path(folder) / source.folder
    if root.exists():
        return source.load(root, **options)
    try:
        return source.load(folder, **options)  # it may be the copy itself
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{folder} has no folder {source.folder}. {error}") from error
