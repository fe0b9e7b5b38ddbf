"""What model files may hold of matchers and their galleries; see `crossview._schema`."""

from typing import Any

import numpy as np

from crossview._schema import Sizes
from crossview.neighbours.distances import chunks
from crossview.neighbours.search import MOST_LISTS, check_state

__all__ = ["ids", "index", "labels", "views"]

_ARRAYS_OF_INDEX = {"centroids": np.float32, "origin": np.float64, "lists": np.int32}
_OF_INDEX = {*_ARRAYS_OF_INDEX, "scale", "metric", "n_probes", "recall", "n_measured"}


def labels(value: Any, sizes: Sizes, kinds: str = "biufU") -> bool:
    """One label per sample of the gallery."""
    finite = id(value) not in sizes["infinite"]
    return finite and value.dtype.kind in kinds and bool(value.shape == (sizes["g"],))


def ids(value: Any, sizes: Sizes) -> bool:
    """One text per sample of the gallery."""
    return labels(sizes.setdefault("ids", value), sizes, "U")


def views(value: Any, sizes: Sizes) -> bool:
    """Views of the samples of the gallery, each of which has its own id in its view."""
    if not labels(value, sizes, "U"):
        return False
    hashes = []  # which take less memory than pairs; those of different pairs are never the same in practice
    for part in chunks(len(value), 64):
        names = value[part].tolist()
        if not set(sizes["names"]).issuperset(names):
            return False
        hashes.append(np.fromiter(map(hash, zip(names, sizes["ids"][part].tolist(), strict=True)), np.int64))
    ordered = np.sort(np.concatenate(hashes))
    return bool((ordered[1:] != ordered[:-1]).all())


def index(value: Any, sizes: Sizes) -> bool:
    """An approximate index of the samples of the gallery, or None."""
    if value is None:
        return True
    if type(value) is not dict or set(value) != _OF_INDEX or value["metric"] not in ("euclidean", "cosine"):
        return False
    for name, dtype in _ARRAYS_OF_INDEX.items():
        if not isinstance(value[name], np.ndarray) or value[name].dtype != dtype:
            return False
    for name in ("scale", "recall"):
        if type(value[name]) is not float or not 0.0 <= value[name] < np.inf:
            return False
    for name, most in (("n_probes", MOST_LISTS), ("n_measured", sizes["g"])):
        if type(value[name]) is not int or not 1 <= value[name] <= most:
            return False
    check_state(value, (sizes["g"], sizes["d"]))
    return True
