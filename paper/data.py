"""The paper's data sets from a user's copies, data of their sizes, and wrong labels."""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from crossview._types import Array
from crossview.datasets import Dataset
from crossview.datasets.dataset import class_names, paired, unique
from crossview.datasets.files import File, natural, open_files
from crossview.datasets.images import Size, check_size, is_image, read_images
from crossview.datasets.matlab import read_matlab
from crossview.experiments.plans import Loader
from crossview.views import Views

_COIL_HELP = (
    "COIL-100 is distributed by Columbia University (CAVE, software library, coil-100): unpack coil-100.zip, or pass "
    "the archive itself. Images are named obj<1…100>__<angle>.png."
)
_PIE_HELP = (
    "CMU PIE is distributed by Carnegie Mellon University (The Robotics Institute). Each pose must be a file C27.mat "
    "with fea, gnd and condition, or a file Pose27_64x64.mat with fea and gnd."
)
_CUFSF_HELP = (
    "The sketches are distributed by the Multimedia Laboratory of the Chinese University of Hong Kong, the photos, as "
    "the FERET database, by the National Institute of Standards and Technology. Put them into two folders, photo and "
    "sketch; the photo and the sketch of a person must have the same name, apart from the ending."
)
_HFB_HELP = (
    "HFB is distributed by the Center for Biometrics and Security Research of the Chinese Academy of Sciences. Put the "
    "images into two folders, VIS and NIR, and name them by person and number, for example 007_2.png or VIS-007-2.bmp."
)

_ANGLES = {
    "V1": (0, 5, 10, 15),
    "V2": (40, 45, 50, 55),
    "V3": (105, 110, 115, 120),
    "V4": (160, 165, 170, 175),
    "V5": (215, 220, 225, 230),
}
COIL_CASES = {case: tuple(_ANGLES)[: case + 1] for case in (1, 2, 3, 4)}
"""The paper's cases of COIL-100, and the ranges of angles that are the views of each."""

PIE_CASES = {
    1: ("C27", "C29"),
    2: ("C27", "C11"),
    3: ("C27", "C14"),
    4: ("C05", "C27", "C29"),
    5: ("C37", "C27", "C11"),
    6: ("C02", "C27", "C14"),
    7: ("C37", "C05", "C27", "C29", "C11"),
    8: ("C02", "C37", "C05", "C27", "C29", "C11", "C14"),
}
"""The paper's cases of CMU PIE, and the poses that are the views of each."""


def load_coil100(folder: str | Path, case: int = 2, size: Size = 48) -> Dataset:
    """COIL-100: a hundred objects on a turntable, as grey images from two to five ranges of angles.

    The folder, or the archive ``coil-100.zip``, has the images, ``obj1__0.png`` and so on, at any depth. There are 400
    samples, four of each object, paired by their position within a view's range of angles.

    >>> load_coil100("not/unpacked/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/unpacked/yet does not exist. COIL-100 is distributed by Columbia University ...
    """
    shape, objects = check_size(size), range(1, 101)
    names = {view: [f"obj{o}__{a}.png" for o in objects for a in _ANGLES[view]] for view in COIL_CASES[case]}
    wanted = set().union(*names.values())
    with open_files(folder, _COIL_HELP) as files:
        found = {file.path.name: file for file in files if file.path.name in wanted}
        if missing := sorted(wanted - set(found)):
            some = ", ".join(missing[:3])
            raise FileNotFoundError(f"{folder} lacks {len(missing)} images, among them {some}. {_COIL_HELP}")
        images, shape = read_images(found, folder, shape)
    arrays = {view: np.array([images[name] for name in names[view]]) for view in names}
    labels = [f"object {o}" for o in objects]
    return Dataset(Views(arrays, image_shape=shape), np.repeat(objects, 4), labels, f"COIL-100, case {case}.")


def load_cmu_pie(folder: str | Path, case: int = 4, conditions: Sequence[int] | None = (1, 2, 3, 12)) -> Dataset:
    """CMU PIE: faces in two to seven poses, under different lights and with different expressions.

    The folder, or a zip archive, has for every pose, at any depth, a file such as ``C27.mat`` with ``fea``, one image
    per row, pixels row by row, ``gnd``, the person, and ``condition``, the same for images taken at the same moment; or
    a file such as ``Pose27_64x64.mat`` with ``fea``, pixels column by column as in MATLAB, and ``gnd``: the images of a
    person are then numbered from 1. There is one sample for each person and condition, by default four as in the paper,
    three expressions and a flash; a row is NaN where a pose has no such image.

    >>> load_cmu_pie("not/copied/yet", case=1)
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. CMU PIE is distributed by Carnegie Mellon University ...
    """
    with open_files(folder, _PIE_HELP) as files:
        numbers = ((re.search("[0-9]+", file.path.name), file) for file in files if file.path.suffix == ".mat")
        found = {f"C{int(number.group()):02d}": file for number, file in numbers if number}
        if missing := [pose for pose in PIE_CASES[case] if pose not in found]:
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)} of case {case}. {_PIE_HELP}")
        poses = {pose: _read_pose(found[pose]) for pose in PIE_CASES[case]}
    samples = {(pose, key): image for pose, images in poses.items() for key, image in images.items()}
    keys = sorted({key for _, key in samples if conditions is None or key[1] in conditions})
    y, side = np.array([person for person, _ in keys]), math.isqrt(len(next(iter(samples.values()))))
    return Dataset(paired(samples, poses, keys, (side, side)), y, class_names(y), f"CMU PIE, case {case}.")


def _read_pose(file: File) -> dict[tuple[int, int], Array]:
    """Images of a pose by person and condition."""
    content: dict[str, Any] = read_matlab(file.read(), str(file))
    if not {"fea", "gnd"} <= content.keys():
        raise ValueError(f"{file} has no variables fea and gnd. {_PIE_HELP}")
    fea, people = content["fea"].astype(np.float64), content["gnd"].ravel().astype(int).tolist()
    if content["fea"].dtype.kind != "f" or fea.max() > 1.0:
        fea /= 255.0
    if "condition" in content:
        conditions = content["condition"].ravel().astype(int).tolist()
    else:
        side = math.isqrt(fea.shape[1])
        fea, conditions = fea.reshape(-1, side, side).transpose(0, 2, 1).reshape(fea.shape), ranks(people)
    return unique(
        zip(zip(people, conditions, strict=True), fea, strict=True),
        lambda key, *_: f"{file} has two images of person {key[0]} in condition {key[1]}: remove one.",
    )


def load_cufsf(folder: str | Path, size: Size = (80, 64)) -> Dataset:
    """CUFSF: photos and sketches of faces, one of each for every person.

    The folder, or a zip archive, has a folder of photos and one of sketches, with names that are the same apart from
    the ending; if a person has only one of them, the other view's row is NaN.

    >>> load_cufsf("not/copied/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. The sketches are distributed by the Multimedia Laboratory ...
    """
    views = ("photo", "sketch")
    seen, people = _sensors(folder, size, views, _CUFSF_HELP, lambda names: {name: name for name in names}, natural)
    return Dataset(seen, np.arange(1, len(people) + 1), people, "CUFSF: photos and sketches of faces.")


def load_hfb(folder: str | Path, size: Size = 32) -> Dataset:
    """HFB: faces in visible light and in near infrared, several images of each for every person.

    The folder, or a zip archive, has a folder per view. The last two numbers in the name of an image are the person and
    the image's number: ``007_2.png``, ``VIS-007-2.bmp``. A person's images in the two views are paired in the order of
    their numbers, which may differ; where one view has fewer, its rows are NaN.

    >>> load_hfb("not/copied/yet")
    Traceback (most recent call last):
    FileNotFoundError: not/copied/yet does not exist. HFB is distributed by the Center for Biometrics ...
    """
    seen, keys = _sensors(folder, size, ("VIS", "NIR"), _HFB_HELP, _numbered)
    y = np.array([person for person, _ in keys])
    return Dataset(seen, y, class_names(y), "HFB: faces in visible light and in near infrared.")


def _sensors(
    folder: str | Path,
    size: Size,
    views: tuple[str, str],
    help_text: str,
    identify: Callable[[Iterable[str]], dict[str, Any]],
    order: Any = None,
) -> tuple[Views, list[Any]]:
    """Images and their samples, in an order, which `identify` finds in the names of a view's images."""
    with open_files(folder, help_text) as files:
        found: dict[tuple[str, Any], File] = {}
        for view in views:
            inside = [file for file in files if view.lower() in map(str.lower, file.path.parts[:-1])]
            named = {file.path.stem: file for file in inside if is_image(file.path.name)}
            if not named:
                raise FileNotFoundError(f"{folder} has no folder {view} with images. {help_text}")
            found |= {(view, sample): named[name] for name, sample in identify(named).items()}
        images, shape = read_images(found, folder, check_size(size))
    samples = sorted({sample for _, sample in images}, key=order)
    return paired(images, views, samples, shape), samples


def _numbered(names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Person, and position of the image among the person's, by the numbers in the names."""
    numbers = {name: [int(number) for number in re.findall("[0-9]+", name)][-2:] for name in names}
    if unnamed := [name for name, found in numbers.items() if len(found) < 2]:
        raise ValueError(f"an image is called {unnamed[0]!r}, without person and number. {_HFB_HELP}")
    ordered = sorted(numbers, key=numbers.__getitem__)
    people = [numbers[name][0] for name in ordered]
    return dict(zip(ordered, zip(people, ranks(people), strict=True), strict=True))


def ranks(groups: Iterable[Hashable]) -> list[int]:
    """The position of every item among those of its group, from 1."""
    seen: Counter[Hashable] = Counter()
    found = []
    for group in groups:
        seen[group] += 1
        found.append(seen[group])
    return found


def paper_sizes(n_views: int, seed: int = 0, n_features: int = 140) -> Dataset:
    """Data of the size of the paper's CMU PIE training sets: 45 people with 4 images in every view.

    Views are smooth functions of shared factors plus noise. `n_features` is the width of every view after PCA.
    """
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(45), 4)
    factors = rng.normal(size=(45, 20))[y] + 0.3 * rng.normal(size=(len(y), 20))
    maps = rng.normal(size=(n_views, 20, n_features))
    arrays = [np.tanh(factors @ A) + 0.3 * rng.normal(size=(len(y), n_features)) for A in maps]
    return Dataset(Views(arrays), y, class_names(y), "Random views of the sizes of CMU PIE.")


def permute_labels(y: NDArray[Any], share: float, random_state: int) -> NDArray[Any]:
    """Create outliers: permute the labels of a share of the samples among themselves.

    A permuted sample has the same wrong label in all views, as in the paper's robustness tests. Each class keeps its
    number of samples.

    >>> permute_labels(np.array(["a", "a", "b", "b", "c", "c"]), 0.5, random_state=1)
    array(['a', 'c', 'b', 'b', 'a', 'c'], dtype='<U1')
    """
    labels, random = y.copy(), check_random_state(random_state)
    rows = random.permutation(len(labels))[: round(share * len(labels))]
    labels[rows] = labels[random.permutation(rows)]
    return labels


_LOADERS: dict[str, tuple[Callable[..., Dataset], str]] = {
    "coil100": (load_coil100, "coil-100"),
    "cmu-pie": (load_cmu_pie, "cmu-pie"),
    "cufsf": (load_cufsf, "cufsf"),
    "hfb": (load_hfb, "hfb"),
}


@dataclass
class PaperLoader(Loader):
    """Loads data by name, each once: those in a folder, such as coil-100/, and ``"paper-sizes"`` with `paper_sizes`."""

    folder: Path | None = None

    def open(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """Load a data set anew."""
        if data == "paper-sizes":
            return paper_sizes(**options)
        if data not in _LOADERS:
            return super().open(data, options)
        load, name = _LOADERS[data]
        if self.folder is None:
            raise ValueError(f"{data} is not included: pass the folder that contains {name}/ with --data.")
        root = self.folder / name
        if not root.exists():
            raise FileNotFoundError(f"{self.folder} has no folder {name}.")
        return load(root, **options)

    def lacks(self, data: str, options: Mapping[str, Any]) -> str | None:
        """Why data cannot be loaded, in a sentence; None if they can."""
        try:
            self(data, options)
        except (OSError, ValueError) as error:
            return " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        return None
