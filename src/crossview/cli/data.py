"""The data and models that commands read, and the files that they write."""

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import crossview as cv
from crossview._text import counted, spreadsheet_safe
from crossview._transformer import MultiViewTransformer, column_difference, unwrap
from crossview._types import FeatureNames
from crossview.datasets import Dataset
from crossview.datasets.arrays import ARRAY_SUFFIXES
from crossview.datasets.dataset import as_labels, class_names
from crossview.datasets.images import IMAGE_SUFFIXES, DamagedImagesError, OnError
from crossview.datasets.registry import SOURCES, is_resizable, loader_options, open_dataset, open_probes
from crossview.matching.classifier import CrossViewClassifier
from crossview.views import Views, index_of_view


def data_options(data: str, size: str | None, pair_by: str | None) -> dict[str, Any]:
    """What the options of a command mean to the loader of these data."""
    options: dict[str, Any] = {}
    if size is not None:
        if not is_resizable(data):
            raise ValueError(f"{data} is not a folder of images: leave out --size.")
        sides = size.lower().split("x")
        if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
            raise ValueError(f"--size must be HEIGHTxWIDTH, for example 48x48, got {size!r}.")
        options["size"] = [int(sides[0]), int(sides[-1])]
    if pair_by is not None:
        if "pair_by" not in loader_options(data):
            raise ValueError(f"the samples of {data} are paired already: leave out --pair-by.")
        options["pair_by"] = pair_by
    return options


def open_labelled(data: str, size: str | None, pair_by: str | None, least_classes: int = 2) -> Dataset:
    """Load data of several views and so many classes."""
    loaded = open_dataset(data, **data_options(data, size, pair_by))
    if len(loaded.views.names) < 2:
        raise ValueError(f"matching needs two views or more, {data} has only {loaded.views.names[0]!r}.")
    if len(np.unique(loaded.y)) < least_classes:
        raise ValueError(f"all samples of {data} belong to one class: use data with two classes or more.")
    return loaded


def open_for(model: Any, data: str, size: str | None, pair_by: str | None) -> Dataset:
    """Load data for a fitted model, in the size of its images and the order of its columns; labels are optional."""
    first = unwrap(model)[0]
    options = {"labelled": False, "image_shape": first.image_shape_, **data_options(data, size, pair_by)}
    return _as_in_fit(open_dataset(data, **options), first)


def open_view(model: Any, data: str, view: str, onerror: OnError = None) -> Dataset:
    """As `open_for`, but samples of one view; for `onerror`, see `open_probes`."""
    first = unwrap(model)[0]
    index_of_view(view, first.view_names_)
    return _as_in_fit(open_probes(data, view, image_shape=first.image_shape_, onerror=onerror), first)


def open_all(model: Any, sources: Sequence[str], view: str) -> tuple[Dataset, list[str]]:
    """As `open_view`, but from several sources, without damaged images, which the messages name."""
    parts, damaged = list[tuple[str, Dataset]](), list[str]()
    for source in sources:
        try:
            parts.append((source, open_view(model, source, view, damaged.append)))
        except DamagedImagesError as error:
            damaged.append(str(error))
    if not parts:
        raise ValueError(" ".join(damaged))
    if len(sources) == 1:
        return parts[0][1], damaged
    ids = []
    for source, part in parts:
        named = range(len(part.y)) if part.ids is None else part.ids
        ids += [source if len(part.y) == 1 else f"{source}/{name}" for name in named]
    text = len({part.y.dtype.kind for _, part in parts}) > 1  # int64 and uint64 would become floating-point numbers
    y = np.concatenate([part.y.astype(str) if text else part.y for _, part in parts])
    X = np.concatenate([part.views[view] for _, part in parts])
    return Dataset(Views({view: X}), y, class_names(y), ids=np.array(ids)), damaged


def _as_in_fit(data: Dataset, first: MultiViewTransformer) -> Dataset:
    """Data of the model's image size, with their columns in the order of fit; `first` knows both."""
    views, shape = data.views, first.image_shape_
    if shape is not None and (views.image_shape not in (None, shape) or {*views.n_features} != {shape[0] * shape[1]}):
        found = f"{views.n_features[0]} features" if views.image_shape is None else "{} × {}".format(*views.image_shape)
        size = "{} × {}".format(*shape)
        raise ValueError(f"the model takes images of {size} pixels, height × width, got {found}: leave out --size.")
    known = dict(zip(first.view_names_, first.feature_names_, strict=True))
    arrays, names = list(views.arrays), list(views.feature_names)
    for v, view in enumerate(views.names):
        if (order := _order(view, names[v], known.get(view))) is not None:
            arrays[v], names[v] = arrays[v][:, order], known[view]
    return replace(data, views=Views(arrays, views.names, feature_names=names, image_shape=views.image_shape))


def _order(view: str, columns: FeatureNames, known: FeatureNames) -> list[int] | None:
    """Where the columns of fit are; None if the columns are those of fit, or have no names on either side."""
    if columns is None or known is None or columns == known:
        return None
    if len(columns) != len(known) or set(columns) != set(known) or len(set(known)) < len(known):
        fix = "use the columns of the training data, in any order"
        raise ValueError(f"columns of view {view!r} {column_difference(columns, known)}: {fix}.")
    return [columns.index(name) for name in known]


def describe_data(data: Dataset) -> str:
    """Numbers of samples, classes and features."""
    views = data.views
    parts = [f"{name}: {counted(D, 'feature')}" for name, D in zip(views.names, views.n_features, strict=True)]
    return f"{counted(len(views), 'sample')} of {counted(len(np.unique(data.y)), 'class')}; {', '.join(parts)}"


def load_fitted(path: Path) -> Any:
    """Load a model that must be fitted."""
    model = cv.load(path)
    try:
        for step in unwrap(model):
            check_is_fitted(step)
    except NotFittedError:
        what = f"{path} holds a {type(model).__name__} that is not fitted"
        raise ValueError(f"{what}: fit it, then save it again.") from None
    return model


def labels_like_gallery(y: NDArray[Any], matcher: CrossViewClassifier) -> NDArray[Any]:
    """Labels of the kind of the gallery's: class folders that are all called by numbers have numbers for labels."""
    if matcher.classes_.dtype.kind == "U":
        return y.astype(str)
    if y.dtype.kind != "U":
        return y
    numbers = as_labels(y.tolist())
    if numbers.dtype.kind == "U":
        raise ValueError("the gallery's labels are numbers, but some of these are text or missing: use one kind.")
    return numbers


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be created; permissions alone do not tell."""
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        fix = "choose another one, or make it writable"
        raise OSError(f"cannot write to folder {folder} ({error.strerror or error}): {fix}.") from error


def check_not_input(output: Path | None, *inputs: object) -> None:
    """Refuse to write over what is read: a file, or one of the data in a folder."""
    target = None if output is None or not output.exists() else output.resolve()
    for source in (Path(str(one)).resolve() for one in inputs if one is not None and str(one) not in SOURCES):
        is_data = target is not None and target.suffix.lower() in (*ARRAY_SUFFIXES, *IMAGE_SUFFIXES)
        if target == source or (target is not None and is_data and source in target.parents):
            raise ValueError(f"{output} is part of the input: choose another name for the output.")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other commands from changing a file, or a link's target: they wait. A lock ends with its process."""
    target = path.resolve()
    check_writable(target.parent)
    while True:
        with target.with_name(f".{target.name}.lock").open("ab") as file:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:  # otherwise, the command before has removed the file: make another
                try:
                    yield
                finally:
                    with suppress(OSError):  # Windows removes no open file
                        os.unlink(file.name)
                return


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of a table as CSV that no spreadsheet runs."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_safe(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()
