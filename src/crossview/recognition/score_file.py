"""A file that keeps the scores of a search as they are computed, so that a killed search can resume.

A line holds one score behind a digest of the search and of the line. Lines of other searches, and damaged ones, do not
match their digest and are ignored, so a file never gives a wrong score.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from crossview._types import Array
from crossview._version import __version__
from crossview.exceptions import NotApplicableError
from crossview.views import Views

Score: TypeAlias = Array | ValueError

_HEADER = b"# Scores of a crossview search. Run the same search again to resume it.\n"
_LINE = re.compile(rb"^[0-9a-f]{64} \{", re.MULTILINE)
_SYNC_INTERVAL = 1.0  # seconds; a kill loses nothing that was written, a power failure what was not synchronised
_ERRORS = {error.__name__: error for error in (ValueError, NotApplicableError)}


class ScoreFile:
    """Scores by name, or the errors of what cannot be fitted, in a file that is created if it does not exist.

    `search` is everything that determines the scores; `known` are those that the file has of it. Without a path,
    nothing is kept.
    """

    def __init__(self, path: str | os.PathLike[str] | None, search: Any = None) -> None:
        self.known: dict[str, Score] = {}
        self._path, self._synchronised = path, -np.inf
        if path is not None:
            self._path = Path(path).absolute()  # worker processes may have another working directory
            versions = [__version__, np.__version__, scipy.__version__, sklearn.__version__]
            self._key = hashlib.sha256(json.dumps([versions, describe(search)]).encode()).digest()
            lines = (line.partition(b" ") for line in _open(self._path).split(b"\n"))
            self.known = dict(_parse(text) for digest, _, text in lines if digest == self._digest(text))

    def append(self, name: str, score: Score) -> None:
        """Add a score. Several processes may do so at the same time."""
        if self._path is None:
            return
        error = {"error": type(score).__name__, "message": str(score)}
        content = error if isinstance(score, ValueError) else {"score": score.tolist()}
        text = json.dumps({"name": name, **content}).encode()
        # If the file was deleted meanwhile, there is nothing to resume.
        with contextlib.suppress(FileNotFoundError), open(self._path, "ab", buffering=0, opener=_open_existing) as file:
            file.write(self._digest(text) + b" " + text + b"\n")
            if time.monotonic() - self._synchronised > _SYNC_INTERVAL:
                os.fsync(file.fileno())
                self._synchronised = time.monotonic()

    def _digest(self, text: bytes) -> bytes:
        return hashlib.sha256(self._key + text).hexdigest().encode()


def _open(path: Path) -> bytes:
    """The content of a file of scores, which may then be appended to; a new file if there is none."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist: create it first.")
    with path.open("a+b") as file:
        file.seek(0)
        content = file.read()
        if not content.startswith(_HEADER) and not _HEADER.startswith(content) and not _LINE.search(content):
            raise ValueError(f"{path} does not hold the scores of a search: choose another file for resume.")
        if not content:
            file.write(_HEADER)
        elif not content.endswith(b"\n"):
            file.write(b"\n")  # ends a line that was cut off
    return content


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


def _parse(text: bytes) -> tuple[str, Score]:
    content = json.loads(text)
    if "error" in content:
        return content["name"], _ERRORS.get(content["error"], ValueError)(content["message"])
    return content["name"], np.array(content["score"], dtype=np.float64)


def _open_existing(name: str, flags: int) -> int:
    return os.open(name, flags & ~os.O_CREAT)
