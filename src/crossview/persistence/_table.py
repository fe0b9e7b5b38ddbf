"""The table of what models are made of: every class that a file may name, and what its attributes must be like.

To make a class known, add one entry. It lists the attributes that fitting sets, and those constructor parameters that
need a check. An attribute with a ``?`` may be missing, together with all others of the class that have one; an
attribute with ``??`` may be missing on its own, for example in files of earlier versions. What a value must be is
stated by types; by a shape such as ``"D d"``, for an array; by a list of one of these, for a list with one value per
view; or by a function of the value and the sizes known so far. A symbol stands for the same number throughout an
object: n views; D features, r landmarks and k outputs of a view; d components; h hidden units; g samples in the
gallery.
"""

from collections.abc import Container, Mapping
from functools import partial
from inspect import signature
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import sklearn.model_selection as splitters
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.pipeline import Pipeline

from crossview._transformer import MultiViewTransformer, unwrap
from crossview.embeddings._base import Embedding
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.locality import LPP
from crossview.embeddings.methods import ALL_METHODS
from crossview.embeddings.raw import RawFeatures
from crossview.embeddings.semantic import SemanticMatching
from crossview.feature_maps import ViewKernel
from crossview.kernels import Kernel, check_kernel_params
from crossview.matching.classifier import CrossViewClassifier
from crossview.model_selection.committee import Committee
from crossview.model_selection.search import EmbeddingSearchCV
from crossview.model_selection.splits import ClassSplit, SampleSplit
from crossview.neighbours.arrays import chunks
from crossview.neighbours.engines import MOST_LISTS
from crossview.neighbours.inverted_file import check_state
from crossview.preprocessing import ViewPCA, ViewScaler

Sizes: TypeAlias = dict[Any, Any]

_MOST_VIEWS, _MOST_FEATURES = 1000, 10**7
_NUMBER = (int, float, np.integer, np.floating)
_OF_INDEX = {"centroids", "origin", "scale", "lists", "metric", "n_probes", "recall", "n_measured"}
_STEPS = (MultiViewTransformer, Pipeline, EmbeddingSearchCV, CrossViewClassifier, FrozenEstimator)


def check(model: Any, fitted: Mapping[str, Any], infinite: Container[int]) -> None:
    """Refuse attributes that a class does not have, that are missing, that do not fit each other, or are infinite."""
    name = type(model).__name__
    _, entry, given = TABLE[name]
    known = {key.rstrip("?"): key.count("?") for key in entry if key not in given}
    for key in fitted:
        if key not in known:
            raise ValueError(f"{name}.{key} is not part of a model")
    required = (0, 1) if any(marks == 1 and key in fitted for key, marks in known.items()) else (0,)
    for key, marks in known.items():
        if fitted and key not in fitted and marks in required:
            raise ValueError(f"{name}.{key} is missing")
    values = {key: getattr(model, key) for key in given if key in entry} | dict(fitted)
    sizes: Sizes = {"infinite": infinite}
    for key, wanted in entry.items():
        key = key.rstrip("?")
        if key in values and not _fits(values[key], wanted, sizes):
            raise ValueError(f"{name}.{key} is invalid, or does not fit the rest of the model")


def _fits(value: Any, wanted: Any, sizes: Sizes) -> bool:
    """Whether a value is what the table wants."""
    if isinstance(wanted, list):
        if type(value) is not list or len(value) != sizes["n"]:
            return False
        return all(_fits(item, wanted[0], sizes) for sizes["view"], item in enumerate(value))
    if isinstance(wanted, str):
        return any(_has_shape(value, shape.split(), sizes) for shape in wanted.split(" or "))
    return isinstance(value, wanted) if isinstance(wanted, type | tuple) else bool(wanted(value, sizes))


def _has_shape(value: Any, shape: list[str], sizes: Sizes, dtype: type = np.float64) -> bool:
    """Whether a value is a finite array of some shape; a symbol that is new stands for its size from now on."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != len(shape):
        return False
    if id(value) in sizes["infinite"]:
        return False
    keys = [(symbol, sizes["view"]) if symbol in "Drk" else symbol for symbol in shape]
    return all(0 < size == sizes.setdefault(key, size) for key, size in zip(keys, value.shape, strict=True))


def _names(value: Any, sizes: Sizes) -> bool:
    sizes["names"], sizes["n"] = value, len(value)
    texts = type(value) is list and all(type(name) is str for name in value)
    return texts and 1 <= len(value) <= _MOST_VIEWS and len(set(value)) == len(value)


def _widths(value: Any, sizes: Sizes) -> bool:
    if type(value) is not tuple or not all(type(D) is int and 1 <= D <= _MOST_FEATURES for D in value):
        return False
    sizes.update({("D", v): D for v, D in enumerate(value)}, widths=value)
    return bool(len(value) == sizes["n"])


def _columns(value: Any, sizes: Sizes) -> bool:
    texts = type(value) is list and all(type(name) is str for name in value)
    return value is None or (texts and len(value) == sizes["D", sizes["view"]])


def _image_shape(value: Any, sizes: Sizes) -> bool:
    if value is None:
        return True
    whole = type(value) is tuple and len(value) == 2 and all(type(size) is int and size >= 1 for size in value)
    return whole and {value[0] * value[1]} == set(sizes["widths"])


def _kernel(value: Any, sizes: Sizes) -> bool:
    check_kernel_params(value.kernel, value.kernel_params)
    sizes["precomputed", sizes["view"]] = value.precomputed
    return type(value) is Kernel and (value.origin is None or _has_shape(value.origin, ["D"], sizes))


def _landmarks(value: Any, sizes: Sizes) -> bool:
    """Samples, or the columns of a precomputed kernel."""
    if not sizes["precomputed", sizes["view"]]:
        return _has_shape(value, ["r", "D"], sizes)
    columns = _has_shape(value, ["r"], sizes, np.intp)
    return columns and 0 <= value.min() <= value.max() < sizes["D", sizes["view"]]


def _labels(value: Any, sizes: Sizes, kinds: str = "biufU") -> bool:
    finite = id(value) not in sizes["infinite"]
    return finite and value.dtype.kind in kinds and bool(value.shape == (sizes["g"],))


def _views_of_gallery(value: Any, sizes: Sizes) -> bool:
    """Views of samples, each of which has its own id in its view."""
    names, g = set(sizes["names"]), len(value)
    pairs = (zip(value[rows].tolist(), sizes["ids"][rows].tolist(), strict=True) for rows in chunks(g, 64))
    known = _labels(value, sizes, "U") and all(names.issuperset(value[rows].tolist()) for rows in chunks(g, 64))
    # Hashes take less memory than pairs, and those of different pairs are never the same in practice.
    return known and len(np.unique(np.fromiter(map(hash, chain.from_iterable(pairs)), np.int64))) == g


def _index_of_gallery(value: Any, sizes: Sizes) -> bool:
    """An approximate index of the samples in the gallery, or None."""
    if value is None:
        return True
    if type(value) is not dict or set(value) != _OF_INDEX:
        return False
    arrays = [_has_shape(value["centroids"], ["l", "d"], sizes, np.float32), _has_shape(value["origin"], ["d"], sizes)]
    arrays.append(_has_shape(value["lists"], ["g"], sizes, np.int32))
    numbers = [type(value[name]) is float and 0.0 <= value[name] < np.inf for name in ("scale", "recall")]
    for name, most in (("n_probes", MOST_LISTS), ("n_measured", sizes["g"])):
        numbers.append(type(value[name]) is int and 1 <= value[name] <= most)
    if not all(arrays + numbers) or value["metric"] not in ("euclidean", "cosine"):
        return False
    check_state(value, (sizes["g"], sizes["d"]))
    return True


def _number(value: Any, sizes: Sizes, least: float = -1e300, most: float = 1e300, none: bool = False) -> bool:
    """A number between limits, as NaN never is, or None. Truth values are no numbers here."""
    if value is None or isinstance(value, bool):
        return none and value is None
    return isinstance(value, _NUMBER) and least <= float(value) <= most


def _steps(value: Any, sizes: Sizes) -> bool:
    """Steps of a pipeline, each of which takes what the one before gives."""
    for name, step in value:
        if type(name) is not str or not (isinstance(step, _STEPS) or step in (None, "passthrough")):
            return False
    try:
        pairs = pairwise(unwrap(Pipeline(value)))
    except NotFittedError:
        return True
    return all(
        a.view_names_ == b.view_names_ and tuple(map(a._n_outputs, range(len(b.n_features_)))) == b.n_features_
        for a, b in pairs
        if hasattr(a, "n_features_") and hasattr(b, "n_features_")
    )


def _embedding(value: Any, sizes: Sizes) -> bool:
    """What maps all views into a space of d dimensions."""
    steps = unwrap(value)
    if not isinstance(steps[-1], Embedding) or not all(hasattr(step, "n_features_") for step in steps):
        return False
    d = steps[-1]._n_outputs(0)  # which is that of all views, by the entries of embeddings
    sizes["names"] = steps[0].view_names_
    return bool(sizes.setdefault("d", d) == d)


def _members(value: Any, sizes: Sizes) -> bool:
    """Embeddings of the committee's views, and at least one."""
    views = {(*sizes["names"], *sizes["widths"])}
    return all(_embedding(member, {}) for member in value) and views == {
        (*first.view_names_, *first.n_features_) for first in (unwrap(member)[0] for member in value)
    }


def _searchable(value: Any, sizes: Sizes) -> bool:
    sizes["pipeline"] = isinstance(value, Pipeline)
    steps = [step for _, step in value.steps if step is not None] if isinstance(value, Pipeline) else [value]
    return all(isinstance(step, MultiViewTransformer) or step == "passthrough" for step in steps)


def _settings(value: Any, sizes: Sizes) -> bool:
    settings = value if isinstance(value, list | tuple) else [value]
    for name in (name for setting in settings for name in setting if "__" not in name and sizes["pipeline"]):
        raise ValueError(f"a search for {name!r} of a pipeline itself could bring in a cache, or other steps")
    return all(type(setting) is dict for setting in settings)


def _no_cache(value: Any, sizes: Sizes) -> bool:
    if value is not None:
        raise ValueError("memory is a cache, a folder of pickles, which models must not have: set it to None first")
    return True


def _results(value: Any, sizes: Sizes) -> bool:
    sizes["rows"] = range(len(value["params"]))
    return _settings(value["params"], sizes) and all(len(column) == len(sizes["rows"]) for column in value.values())


def _rows(value: Any, sizes: Sizes) -> bool:
    return all(type(row) is int and row in sizes["rows"] for row in (value if type(value) is list else [value]))


_VIEWS: dict[str, Any] = {
    "view_names_": _names,
    "n_features_": _widths,
    "n_features_in_": lambda value, sizes: value == sum(sizes["widths"]),
    "feature_names_": [_columns],
    "image_shape_": _image_shape,
}
_LINEAR = {**_VIEWS, "means_": ["D"], "projections_": ["D d"], "eigenvalues_": "d or n d"}
_LANDMARKS = {**_VIEWS, "kernels_": [_kernel], "landmarks_": [_landmarks], "gamma_": [partial(_number, none=True)]}
_KERNEL = {**_LANDMARKS, "projections_": ["r d"], "offsets_": ["d"], "eigenvalues_": "d"}
_HEADS = {
    **_VIEWS,
    "means_": ["D"],
    "n_epochs_": int,
    "hidden_weights_?": ["D h"],
    "hidden_biases_?": ["h"],
    "projections_": [lambda value, sizes: _has_shape(value, ["h" if "h" in sizes else "D", "d"], sizes)],
    "biases_": ["d"],
}


def _method(params: Mapping[str, Any]) -> dict[str, Any]:
    """Entry of a method with these parameters."""
    entry = _KERNEL if "kernel" in params else _LINEAR
    if "neighbours" in params:
        entry = entry | {"neighbour_recall_??": partial(_number, least=0.0, most=1.0)}
    return entry | {"coupling_??": partial(_number, least=0.0, most=np.inf)} if "coupling" in params else entry


_ENTRIES: dict[type, dict[str, Any]] = {
    **{cls: _method(signature(cls).parameters) for cls in (*ALL_METHODS.values(), LPP)},  # some have another one below
    Contrastive: _HEADS,
    RawFeatures: {
        **_VIEWS,
        "means_": [lambda value, sizes: _has_shape(value, ["D"], sizes) and _has_shape(value, ["d"], sizes)],
    },
    SemanticMatching: {**_VIEWS, "means_": ["D"], "projections_": ["D d"], "intercepts_": ["d"]},
    ViewScaler: {**_VIEWS, "means_": ["D"], "scales_": ["D"], "pooled_": bool},
    ViewPCA: {**_VIEWS, "means_": ["D"], "components_": ["k D"], "explained_variance_ratio_": ["k"], "pooled_": bool},
    ViewKernel: {**_LANDMARKS, "factors_": ["r r"]},
    Committee: {**_VIEWS, "members_": _members},
    Pipeline: {"steps": _steps, "memory": _no_cache},
    EmbeddingSearchCV: {
        "estimator": _searchable,
        "param_grid": _settings,
        "folds_of_": str,
        "n_splits_": int,
        "cv_results_": _results,
        "best_index_": _rows,
        "best_params_": lambda value, sizes: _settings([value], sizes),
        "best_score_": float,
        "held_out_score_": float,
        "best_metric_": str,
        "members_": _rows,
        "best_estimator_?": _embedding,
    },
    CrossViewClassifier: {
        "embedding_": _embedding,
        "threshold_?": partial(_number, least=0.0, none=True),
        "temperature_": partial(_number, least=1e-300, none=True),
        "temperature_metric_??": lambda value, sizes: value in (None, "euclidean", "cosine"),
        "gallery_?": "g d",
        "gallery_labels_?": _labels,
        "gallery_ids_?": lambda value, sizes: _labels(sizes.setdefault("ids", value), sizes, "U"),
        "gallery_views_?": _views_of_gallery,
        "gallery_index_??": _index_of_gallery,
        "threshold_metric_??": lambda value, sizes: value in (None, "euclidean", "cosine"),
        "threshold_view_??": lambda value, sizes: value in (None, *sizes["names"]),
    },
    FrozenEstimator: {"estimator": _STEPS},
    Kernel: {
        "kernel": lambda value, sizes: value in ("precomputed", *kernel_metrics()),
        "gamma": partial(_number, none=True),
        "degree": _number,
        "coef0": _number,
    },
    **{cls: {} for cls in (ClassSplit, SampleSplit, splitters.GroupKFold, splitters.GroupShuffleSplit)},
    **{cls: {} for cls in (splitters.KFold, splitters.LeaveOneGroupOut, splitters.ShuffleSplit)},
    **{getattr(splitters, f"Stratified{kind}"): {} for kind in ("KFold", "GroupKFold", "ShuffleSplit")},
}
OF_SESSION = ("device", "progress", "resume")
"""Parameters that are not stored: models move between machines."""

TABLE = {
    cls.__name__: (cls, entry, [name for name in signature(cls).parameters if name not in OF_SESSION])
    for cls, entry in _ENTRIES.items()
}
