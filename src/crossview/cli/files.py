"""Files of commands: the models they read, and the tables they write."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import crossview as cv
from crossview._transformer import unwrap
from crossview._validation import spreadsheet_safe
from crossview.datasets.registry import loader_options
from crossview.persistence import write_atomically


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


def model_size(model: Any, data: str) -> str | None:
    """The size of the images that a fitted model has seen, as --size takes it; None if the data are no images."""
    shape = unwrap(model)[0].image_shape_
    return "{}x{}".format(*shape) if shape is not None and "size" in loader_options(data) else None


def describe_gallery(matcher: Any) -> dict[str, Any]:
    """The gallery and threshold of a matcher, for JSON."""
    views, counts = np.unique(getattr(matcher, "gallery_views_", []), return_counts=True)
    return {
        "gallery": dict(zip(views.tolist(), counts.tolist(), strict=True)),
        "classes": len(matcher.classes_) if len(views) else 0,
        "threshold": getattr(matcher, "threshold_", None),
        "temperature": getattr(matcher, "temperature_", None),
    }


def check_suffix(path: Path, allowed: Sequence[str]) -> None:
    """Refuse an output file of an unknown format."""
    if path.suffix not in allowed:
        raise ValueError(f"{path} must end in {', '.join(allowed)}.")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of a table as CSV that no spreadsheet runs."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_safe(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a table as .csv or .parquet."""
    if path.suffix == ".csv":
        write_atomically(path, csv_text(rows).encode())
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("writing parquet needs pyarrow: pip install 'crossview[parquet]'.") from error
    columns = {name: [jsonable(row[name]) for row in rows] for name in rows[0]}
    stream = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    write_atomically(path, stream.getvalue().to_pybytes())


def jsonable(value: Any) -> Any:
    """A value for JSON; the text of what JSON lacks."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else repr(value)
