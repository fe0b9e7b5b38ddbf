"""The data and models that commands read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import crossview as cv
from crossview._transformer import unwrap
from crossview.datasets import Dataset
from crossview.datasets.registry import SOURCES, is_resizable, loader_options, open_dataset, open_probes
from crossview.views import index_of_view


@dataclass(frozen=True)
class DataOptions:
    """Options of a command for loading data."""

    folder: Path | None = None
    case: int | None = None
    size: str | None = None
    pair_by: str | None = None

    def of(self, data: str) -> dict[str, Any]:
        """Options for the loader of these data."""
        options: dict[str, Any] = {}
        if self.case is not None:
            if data not in SOURCES or not SOURCES[data].cases:
                raise ValueError(f"{data} has no cases: leave out --case.")
            options["case"] = self.case
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
        return open_dataset(data, self.folder, **self.of(data))

    def open_for(self, model: Any, data: str) -> Dataset:
        """Load data for a fitted model, in the size of its images; labels are optional."""
        options, shape = self.of(data), unwrap(model)[0].image_shape_
        if shape is not None and is_resizable(data):
            options.setdefault("size", shape)
        return open_dataset(data, self.folder, labelled=False, **options)

    def open_view(self, model: Any, data: str, view: str) -> Dataset:
        """Load samples of one view for a fitted model, in the size of its images; labels are optional."""
        first = unwrap(model)[0]
        index_of_view(view, first.view_names_)
        return open_probes(data, view, image_shape=first.image_shape_, folder=self.folder, **self.of(data))


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
