"""What model files may hold of searches, committees and matchers; see `crossview._schema`."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from crossview._schema import Sizes
from crossview._transformer import MultiViewTransformer, unwrap
from crossview.embeddings._base import Embedding
from crossview.graphs.approximate import check_state
from crossview.recognition.arrays import batches
from crossview.recognition.engines import MOST_LISTS

_ARRAYS_OF_INDEX = {"centroids": np.float32, "origin": np.float64, "lists": np.int32}
_OF_INDEX = {*_ARRAYS_OF_INDEX, "scale", "metric", "n_probes", "recall", "n_measured"}


def embedding(value: Any, sizes: Sizes) -> bool:
    """What maps all views into a space of d dimensions."""
    steps = unwrap(value)
    if not isinstance(steps[-1], Embedding) or not all(hasattr(step, "n_features_") for step in steps):
        return False
    d = steps[-1]._n_outputs(0)  # which is that of all views, by the schemas of embeddings
    sizes["names"] = steps[0].view_names_
    return bool(sizes.setdefault("d", d) == d)


def members(value: Any, sizes: Sizes) -> bool:
    """Embeddings of the committee's views, and at least one."""
    views = {(*sizes["names"], *sizes["widths"])}
    return all(embedding(member, {}) for member in value) and views == {
        (*first.view_names_, *first.n_features_) for first in (unwrap(member)[0] for member in value)
    }


def searchable(value: Any, sizes: Sizes) -> bool:
    """A transformer, or a pipeline of these."""
    sizes["pipeline"] = isinstance(value, Pipeline)
    steps = [step for _, step in value.steps if step is not None] if isinstance(value, Pipeline) else [value]
    return all(isinstance(step, MultiViewTransformer) or step == "passthrough" for step in steps)


def settings(value: Any, sizes: Sizes) -> bool:
    """Parameters of what is searched for, or a list of these."""
    given = value if isinstance(value, list | tuple) else [value]
    for name in (name for setting in given for name in setting if "__" not in name and sizes["pipeline"]):
        raise ValueError(f"a search for {name!r} of a pipeline itself could bring in a cache, or other steps")
    return all(type(setting) is dict for setting in given)


def results(value: Any, sizes: Sizes) -> bool:
    """Columns with a row per setting."""
    sizes["rows"] = range(len(value["params"]))
    return settings(value["params"], sizes) and all(len(column) == len(sizes["rows"]) for column in value.values())


def rows(value: Any, sizes: Sizes) -> bool:
    """A row of the results, or a list of these."""
    return all(type(row) is int and row in sizes["rows"] for row in (value if type(value) is list else [value]))


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
    for part in batches(len(value), 1 << 16):
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
