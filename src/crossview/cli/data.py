"""The data and models that commands read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import crossview as cv
from crossview._text import counted
from crossview._transformer import MultiViewTransformer, column_difference, unwrap
from crossview._types import FeatureNames
from crossview.datasets import Dataset
from crossview.datasets.dataset import class_names
from crossview.datasets.images import DamagedImagesError, OnError
from crossview.datasets.registry import is_resizable, loader_options, open_dataset, open_probes
from crossview.views import Views, index_of_view


@dataclass(frozen=True)
class DataOptions:
    """Options of a command for loading data."""

    size: str | None = None
    pair_by: str | None = None

    def of(self, data: str) -> dict[str, Any]:
        """Options for the loader of these data."""
        options: dict[str, Any] = {}
        if self.size is not None:
            if not is_resizable(data):
                raise ValueError(f"{data} is not a folder of images: leave out --size.")
            sides = self.size.lower().split("x")
            if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
                raise ValueError(f"--size must be HEIGHTxWIDTH, for example 48x48, got {self.size!r}.")
            options["size"] = [int(sides[0]), int(sides[-1])]
        if self.pair_by is not None:
            if "pair_by" not in loader_options(data):
                raise ValueError(f"the samples of {data} are paired already: leave out --pair-by.")
            options["pair_by"] = self.pair_by
        return options

    def open(self, data: str) -> Dataset:
        """Load labelled data."""
        return open_dataset(data, **self.of(data))

    def open_for(self, model: Any, data: str) -> Dataset:
        """Load data for a fitted model, in the size of its images and the order of its columns; labels are optional."""
        first = unwrap(model)[0]
        options = {"labelled": False, "image_shape": first.image_shape_, **self.of(data)}
        return self._as_in_fit(open_dataset(data, **options), first)

    def open_view(self, model: Any, data: str, view: str, onerror: OnError = None) -> Dataset:
        """As `open_for`, but samples of one view; for `onerror`, see `open_probes`."""
        first = unwrap(model)[0]
        index_of_view(view, first.view_names_)
        options = {"image_shape": first.image_shape_, "onerror": onerror, **self.of(data)}
        return self._as_in_fit(open_probes(data, view, **options), first)

    def open_all(self, model: Any, sources: Sequence[str], view: str) -> tuple[Dataset, list[str]]:
        """As `open_view`, but from several sources, without damaged images, which the messages name."""
        parts, damaged = list[tuple[str, Dataset]](), list[str]()
        for source in sources:
            try:
                parts.append((source, self.open_view(model, source, view, damaged.append)))
            except DamagedImagesError as error:
                damaged.append(str(error))
        if not parts:
            raise ValueError(" ".join(damaged))
        return parts[0][1] if len(parts) == 1 else _joined(parts, view), damaged

    def _as_in_fit(self, data: Dataset, first: MultiViewTransformer) -> Dataset:
        """Data of the model's image size, with their columns in the order of fit; `first` knows both."""
        views, shape = data.views, first.image_shape_
        if shape is not None and (
            views.image_shape not in (None, shape) or {*views.n_features} != {shape[0] * shape[1]}
        ):
            found = f"{views.n_features[0]} features" if views.image_shape is None else _size(views.image_shape)
            fix = "resize the images" if self.size is None else "leave out --size"
            raise ValueError(f"the model takes images of {_size(shape)} pixels (height × width), got {found}: {fix}.")
        known = dict(zip(first.view_names_, first.feature_names_, strict=True))
        arrays, names = list(views.arrays), list(views.feature_names)
        for v, view in enumerate(views.names):
            if (order := _order(view, names[v], known.get(view))) is not None:
                arrays[v], names[v] = arrays[v][:, order], known[view]
        return replace(data, views=Views(arrays, views.names, feature_names=names, image_shape=views.image_shape))


def _joined(parts: Sequence[tuple[str, Dataset]], view: str) -> Dataset:
    """Samples from several sources, which tell them apart if their ids do not."""
    sources, data = zip(*parts, strict=True)
    named = [[str(name) for name in (range(len(part.y)) if part.ids is None else part.ids)] for part in data]
    ids = [*chain.from_iterable(named)]
    if len(set(ids)) < len(ids):
        pairs = [(source, name, len(names)) for source, names in zip(sources, named, strict=True) for name in names]
        ids = [source if count == 1 else f"{source}/{name}" for source, name, count in pairs]
    text = len({part.y.dtype.kind for part in data}) > 1  # int64 and uint64 would become floating-point numbers
    y = np.concatenate([part.y.astype(str) if text else part.y for part in data])
    X = np.concatenate([part.views[view] for part in data])
    return Dataset(Views({view: X}), y, class_names(y), ids=np.array(ids))


def _order(view: str, columns: FeatureNames, known: FeatureNames) -> list[int] | None:
    """Where the columns of fit are; None if the columns are those of fit, or have no names on either side."""
    if columns is None or known is None or columns == known:
        return None
    if len(columns) != len(known) or set(columns) != set(known) or len(set(known)) < len(known):
        fix = "use the columns of the training data, in any order"
        raise ValueError(f"columns of view {view!r} {column_difference(columns, known)}: {fix}.")
    return [columns.index(name) for name in known]


def _size(shape: tuple[int, int]) -> str:
    return " × ".join(map(str, shape))


def check_several_views(data: Dataset, name: str) -> None:
    """Refuse data of one view."""
    if len(data.views.names) < 2:
        raise ValueError(f"matching needs two views or more, {name} has only {data.views.names[0]!r}.")


def check_views_and_classes(data: Dataset, name: str) -> None:
    """Refuse data of one view or one class."""
    check_several_views(data, name)
    if len(np.unique(data.y)) < 2:
        raise ValueError(f"all samples of {name} belong to one class: use data with two classes or more.")


def describe_data(data: Dataset) -> str:
    """Numbers of samples, classes and features."""
    views = data.views
    parts = [f"{name}: {counted(D, 'feature')}" for name, D in zip(views.names, views.n_features, strict=True)]
    size = f"{counted(len(views), 'sample')} of {counted(len(np.unique(data.y)), 'class')}"
    return f"{size}; {', '.join(parts)}"


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
