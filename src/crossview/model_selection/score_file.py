"""A file that keeps the scores of a search as they are computed, so that a killed search can resume."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from crossview._store import DamagedStoreError, Store, StoreError, delete_store
from crossview._types import Array
from crossview._version import __version__
from crossview.exceptions import NotApplicableError
from crossview.views import Views

Score: TypeAlias = Array | ValueError

_ERRORS = {error.__name__: error for error in (ValueError, NotApplicableError)}


class ScoreFile:
    """Scores by name, or the errors of what cannot be fitted, in a file that is created if it does not exist.

    `search` is everything that determines the scores; `known` are those that the file has of it. Scores of other
    searches are ignored, and a damaged file is replaced. Without a path, nothing is kept. Copies in other processes may
    append, too.
    """

    def __init__(self, path: str | os.PathLike[str] | None, search: Any = None) -> None:
        self.known: dict[str, Score] = {}
        self._path: Path | None = None
        self._store: Store | None = None
        if path is not None:
            versions = [__version__, np.__version__, scipy.__version__, sklearn.__version__]
            self._key = hashlib.sha256(json.dumps([versions, describe(search)]).encode()).hexdigest()
            self._path = Path(path).absolute()  # worker processes may have another working directory
            try:
                self._store = Store(self._path)
            except DamagedStoreError:  # its scores can be computed again
                delete_store(self._path)
                self._store = Store(self._path)
            for entry in self._store.results():
                key, _, name = entry["key"].partition(" ")
                if key == self._key:
                    self.known[name] = _score(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._store is not None:
            self._store.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None}

    def append(self, name: str, score: Score) -> None:
        """Add a score. Several processes may do so at the same time."""
        if self._path is None:
            return
        entry: dict[str, Any] = {"key": f"{self._key} {name}"}
        if isinstance(score, ValueError):
            entry |= {"error": type(score).__name__, "message": str(score)}
        else:
            entry["score"] = np.where(np.isnan(score), None, score).tolist()  # type: ignore[call-overload]
        try:
            if self._store is not None:
                self._store.put(entry)
            elif self._path.exists():
                with Store(self._path) as store:
                    store.put(entry)
        except StoreError:
            if self._path.exists():  # if it was deleted meanwhile, there is nothing to resume
                raise


def fingerprint(views: Views, y: NDArray[Any]) -> str:
    """The SHA-256 of samples, mask, names of views, and labels, whatever their memory layout."""
    head = {"names": views.names, "shapes": [X.shape for X in views.arrays], "y": np.asarray(y).tolist()}
    digest = hashlib.sha256(json.dumps(head, default=str).encode())
    digest.update(np.packbits(np.ascontiguousarray(views.mask)).tobytes())
    for X, seen in zip(views.arrays, views.mask.T, strict=True):
        # NaN has many bit patterns, and zero two; adding zero leaves one of the latter.
        digest.update((np.where(seen[:, None], X, 0.0) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def describe(value: Any) -> Any:
    """What JSON can hold, equal for equal values only."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": [value.dtype.str, list(value.shape), content]}
    if isinstance(value, Mapping):
        return {"dict": sorted([str(key), describe(item)] for key, item in value.items())}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [describe(item) for item in value]
    if isinstance(value, BaseEstimator):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return {kind: [getattr(value, "_revision", None), describe(value.get_params(deep=False))]}
    raise ValueError(
        f"resume cannot tell whether {value!r} is the same as in the last run: use numbers, strings and arrays as "
        "parameters, such as a kernel by its name and a seed as random_state, or resume=None."
    )


def _score(entry: Mapping[str, Any]) -> Score:
    if "error" in entry:
        return _ERRORS.get(entry["error"], ValueError)(entry["message"])
    return np.array(entry["score"], dtype=np.float64)
