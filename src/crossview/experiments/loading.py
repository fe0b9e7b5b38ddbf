"""The data that cells name."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossview.datasets import Dataset
from crossview.datasets.registry import open_dataset


@dataclass
class Loader:
    """Loads data by name or path, each once."""

    folder: Path | None = None  # which contains data sets that are not part of crossview, such as coil-100/
    loaded: dict[str, Dataset] = field(default_factory=dict, repr=False)

    def __call__(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """The data set of a name in ``crossview.datasets.registry.SOURCES``, or of a path."""
        name = f"{data} {sorted(options.items())}"
        if name not in self.loaded:
            self.loaded[name] = self.open(data, options)
        return self.loaded[name]

    def open(self, data: str, options: Mapping[str, Any]) -> Dataset:
        """Load a data set anew."""
        with warnings.catch_warnings():
            # Every process loads the data; what there is to say of them is said when a command opens them first.
            warnings.simplefilter("ignore", UserWarning)
            return open_dataset(data, self.folder, **options)

    def lacks(self, data: str, options: Mapping[str, Any]) -> str | None:
        """Why data cannot be loaded, in a sentence; None if they can."""
        try:
            self(data, options)
        except (OSError, ValueError) as error:
            return " ".join(str(error).split()).partition(". ")[0].rstrip(".")
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was loaded: other processes load it themselves."""
        return {"folder": self.folder, "loaded": {}}
