"""The table of what models are made of: every class that a file may name, and what its attributes must be like.

To make a class known, add one entry. It lists the attributes that fitting sets, and those constructor parameters that
need a check. An attribute with a ``?`` may be missing, together with all such attributes of the class. A symbol in a
shape stands for the same number throughout an object: n views; D features, r landmarks and k outputs of one view; d
components; g samples in the gallery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from itertools import pairwise
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import sklearn.model_selection as splitters
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.pipeline import Pipeline

from crossview._transformer import MultiViewTransformer, unwrap
from crossview.embeddings._base import Embedding
from crossview.embeddings.locality import LPP
from crossview.embeddings.methods import METHODS
from crossview.kernels import Kernel, check_kernel_params
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.recognition.committee import Committee
from crossview.recognition.matcher import CrossViewClassifier
from crossview.recognition.search import EmbeddingSearchCV
from crossview.recognition.splits import ClassKFold, ClassSplit, SampleSplit

__all__ = ["TABLE", "check"]

Sizes: TypeAlias = dict[Any, Any]
Check: TypeAlias = Callable[[Any, Sizes], bool]

_MOST_VIEWS, _MOST_FEATURES = 1000, 10**7
_STEPS = (MultiViewTransformer, Pipeline, EmbeddingSearchCV, CrossViewClassifier)


def check(model: Any, fitted: Mapping[str, Any]) -> None:
    """Refuse attributes that a class does not have, that are missing, or that do not fit each other."""
    name, given = type(model).__name__, signature(type(model)).parameters
    checks = TABLE[name][1]
    known = {key.removesuffix("?"): key.endswith("?") for key in checks if key not in given}
    all_of_them = any(optional and key in fitted for key, optional in known.items())
    for key, optional in known.items():
        if fitted and key not in fitted and (all_of_them or not optional):
            raise ValueError(f"{name}.{key} is missing")
    for key in fitted.keys() - known.keys():
        raise ValueError(f"{name}.{key} is not part of a model")
    values = {key: getattr(model, key) for key in given if key in checks} | dict(fitted)
    sizes: Sizes = {}
    for key, fits in checks.items():
        key = key.removesuffix("?")
        if key in values and not fits(values[key], sizes):
            raise ValueError(f"{name}.{key} is not what it should be, or does not fit the rest of the model")


# Whether a value is right, given the sizes that are known so far.


def _is(*types: type) -> Check:
    return lambda value, sizes: isinstance(value, types)


def _array(*shape: str, dtype: type = np.float64) -> Check:
    """An array; a symbol that is new stands for its size from now on."""

    def fits(value: Any, sizes: Sizes) -> bool:
        keys = [(symbol, sizes.get("view")) if symbol in "Drk" else symbol for symbol in shape]
        typed = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == len(shape)
        return typed and all(
            0 < size == sizes.setdefault(key, size) for key, size in zip(keys, value.shape, strict=True)
        )

    return fits


def _each(one: Check) -> Check:
    """A list with one value per view."""

    def fits(value: Any, sizes: Sizes) -> bool:
        def of_view(v: int) -> bool:
            sizes["view"] = v
            return one(value[v], sizes)

        return type(value) is list and len(value) == sizes["n"] and all(map(of_view, range(len(value))))

    return fits


def _names(value: Any, sizes: Sizes) -> bool:
    sizes["names"], sizes["n"] = value, len(value)
    texts = type(value) is list and all(type(name) is str for name in value)
    return texts and 1 <= len(value) <= _MOST_VIEWS and len(set(value)) == len(value)


def _widths(value: Any, sizes: Sizes) -> bool:
    sizes["widths"] = value
    sizes.update({("D", v): D for v, D in enumerate(value)})
    return len(value) == sizes["n"] and all(type(D) is int and 1 <= D <= _MOST_FEATURES for D in value)


def _kernel(value: Any, sizes: Sizes) -> bool:
    check_kernel_params(value.kernel, value.kernel_params)
    sizes["precomputed", sizes["view"]] = value.precomputed
    return type(value) is Kernel and (value.origin is None or _array("D")(value.origin, sizes))


def _landmarks(value: Any, sizes: Sizes) -> bool:
    """Samples, or the columns of a precomputed kernel."""
    if not sizes["precomputed", sizes["view"]]:
        return _array("r", "D")(value, sizes)
    columns = _array("r", dtype=np.intp)(value, sizes)
    return columns and 0 <= value.min() <= value.max() < sizes["D", sizes["view"]]


def _labels(value: Any, sizes: Sizes) -> bool:
    plain = value.dtype != object or all(isinstance(label, str | int | float | None) for label in value.flat)
    return plain and value.shape == (sizes["g"],)


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
    outputs = {steps[-1]._n_outputs(v) for v in range(len(steps[-1].view_names_))}
    return outputs == {sizes.setdefault("d", max(outputs))}


def _members(value: Any, sizes: Sizes) -> bool:
    """Embeddings of the committee's views, and at least one."""
    views = {(*sizes["names"], *sizes["widths"])}
    return all(_embedding(member, {}) for member in value) and views == {
        (*first.view_names_, *first.n_features_) for first in (unwrap(member)[0] for member in value)
    }


def _searchable(value: Any, sizes: Sizes) -> bool:
    sizes["pipeline"] = isinstance(value, Pipeline)
    steps = [step for _, step in value.steps] if isinstance(value, Pipeline) else [value]
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


_NUMBER = _is(int, float, np.integer, np.floating)
_NUMBER_OR_NONE = _is(int, float, np.integer, np.floating, NoneType)
_VIEWS: dict[str, Check] = {
    "view_names_": _names,
    "n_features_": _widths,
    "n_features_in_": lambda value, sizes: value == sum(sizes["widths"]),
}
_LINEAR = {
    **_VIEWS,
    "means_": _each(_array("D")),
    "projections_": _each(_array("D", "d")),
    "eigenvalues_": lambda value, sizes: _array("d")(value, sizes) or _array("n", "d")(value, sizes),
}
_KERNEL = {
    **_VIEWS,
    "kernels_": _each(_kernel),
    "landmarks_": _each(_landmarks),
    "projections_": _each(_array("r", "d")),
    "offsets_": _each(_array("d")),
    "gamma_": _each(_NUMBER_OR_NONE),
    "eigenvalues_": _array("d"),
}
_ENTRIES: dict[Any, dict[str, Check]] = {
    **{cls: _KERNEL if "kernel" in signature(cls).parameters else _LINEAR for cls in (*METHODS.values(), LPP)},
    ViewScaler: {**_VIEWS, "means_": _each(_array("D")), "scales_": _each(_array("D")), "pooled_": _is(bool)},
    ViewPCA: {
        **_VIEWS,
        "means_": _each(_array("D")),
        "components_": _each(_array("k", "D")),
        "explained_variance_ratio_": _each(_array("k")),
        "pooled_": _is(bool),
    },
    Committee: {**_VIEWS, "members_": _members},
    Pipeline: {"steps": _steps, "memory": _no_cache},
    EmbeddingSearchCV: {
        "estimator": _searchable,
        "param_grid": _settings,
        "folds_of_": _is(str),
        "n_splits_": _is(int),
        "cv_results_": _results,
        "best_index_": _rows,
        "best_params_": lambda value, sizes: type(value) is dict and _settings(value, sizes),
        "best_score_": _is(float),
        "best_metric_": _is(str),
        "members_": _rows,
        "best_estimator_?": _embedding,
    },
    CrossViewClassifier: {
        "embedding_": _embedding,
        "threshold_": _NUMBER_OR_NONE,
        "gallery_?": _array("g", "d"),
        "gallery_labels_?": _labels,
    },
    Kernel: {
        "kernel": lambda value, sizes: value in ("precomputed", *kernel_metrics()),
        "gamma": _NUMBER_OR_NONE,
        "degree": _NUMBER,
        "coef0": _NUMBER,
    },
    **{cls: {} for cls in (ClassKFold, ClassSplit, SampleSplit, splitters.GroupKFold, splitters.GroupShuffleSplit)},
    **{cls: {} for cls in (splitters.KFold, splitters.LeaveOneGroupOut, splitters.ShuffleSplit)},
    **{getattr(splitters, f"Stratified{kind}"): {} for kind in ("KFold", "GroupKFold", "ShuffleSplit")},
}
TABLE: dict[str, tuple[type, dict[str, Check]]] = {cls.__name__: (cls, checks) for cls, checks in _ENTRIES.items()}
