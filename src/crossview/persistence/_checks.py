"""Models: whether one can be saved, and whether one that was loaded is whole and harmless."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from crossview._transformer import MultiViewTransformer
from crossview.embeddings._base import Embedding
from crossview.kernels import Kernel, check_kernel_params
from crossview.persistence._schema import ARRAY_KINDS, KEYS, SCALARS, ForeignError, model_classes, name_of
from crossview.recognition.search import EmbeddingSearchCV

__all__ = ["check_model", "check_saveable"]

_MOST_FEATURES = 10**7
_PLAIN = (NoneType, bool, int, float, str, list, tuple, dict, range, np.random.RandomState)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Everything that a model is made of, once each, with the way to it."""
    stack = [(type(model).__name__, model)]
    classes = model_classes()
    seen: set[int] = set()
    while stack:
        way, part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield way, part
        if isinstance(part, dict):
            stack.extend((f"{way}[{key!r}]", value) for key, value in part.items())
        elif isinstance(part, list | tuple):
            stack.extend((f"{way}[{k}]", value) for k, value in enumerate(part))
        elif isinstance(part, np.ndarray) and part.dtype == object:
            stack.extend((f"{way}.flat[{k}]", value) for k, value in enumerate(part.flat))
        elif name_of(type(part)) in classes:
            stack.extend((f"{way}.{name}", value) for name, value in vars(part).items())


# Before it is saved.


def check_saveable(model: BaseEstimator) -> None:
    """Refuse what could not be loaded again, and say where it is."""
    known = SCALARS | model_classes()
    for way, part in _parts(model):
        kind = type(part)
        plain = kind is np.ndarray and (part.dtype.kind in ARRAY_KINDS or part.dtype == object)
        if not (plain or kind in _PLAIN or name_of(kind) in known):
            raise ValueError(_why_not(way, part))
        if isinstance(part, Pipeline) and part.memory is not None:
            raise ValueError(f"{way}.memory is a cache, which is not saved: set it to None first.")
        if kind is dict:
            for key in part:
                if name_of(type(key)) not in KEYS:
                    raise ValueError(f"{way} has the key {key!r}, which cannot be saved: use strings or numbers.")


def _why_not(way: str, part: Any) -> str:
    kind = type(part)
    if callable(part) and not isinstance(part, BaseEstimator):
        label = getattr(part, "__qualname__", kind.__name__)
        return (
            f"{way} is the function {label}, and functions cannot be saved: use one of scikit-learn's kernels by "
            f"name ({', '.join(sorted(kernel_metrics()))}), or pass kernel matrices, with kernel='precomputed'."
        )
    return (
        f"{way} is a {kind.__module__}.{kind.__qualname__}, which cannot be saved: save a model of crossview's, or "
        "a scikit-learn pipeline of such. Of a scikit-learn search, that is best_estimator_."
    )


# After it was loaded.


def check_model(model: Any) -> None:
    """Refuse an object that is no estimator, lacks what it needs to work, or has what would do harm later."""
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"a {type(model).__name__} is not an estimator")
    parts = [part for _, part in _parts(model)]
    classes = model_classes()
    for part in parts:
        if name_of(type(part)) in classes:
            _check_attributes(part)
    for part in parts:
        _check_part(part)
    for part in parts:
        if isinstance(part, MultiViewTransformer) and _is_fitted(part):
            _try(part)


def _check_attributes(part: Any) -> None:
    """Refuse attributes that hide what the class defines.

    That is never a state that fitting leaves behind. scikit-learn takes the address of a model's documentation, which
    it puts into the page that notebooks show, from such attributes, so that one in a file could bring a script along.
    """
    cls = type(part)
    own = {field.name for field in fields(cls)} if is_dataclass(cls) else set()
    for name in vars(part).keys() - own:
        if hasattr(cls, name):
            raise ForeignError(f"an attribute in the place of {cls.__name__}.{name}")


def _check_part(part: Any) -> None:
    if isinstance(part, BaseEstimator):
        part.get_params(deep=False)
    if isinstance(part, Pipeline):
        _check_pipeline(part)
    elif isinstance(part, Kernel):
        _check_kernel(part)
    elif isinstance(part, EmbeddingSearchCV):
        _check_search(part)
    elif isinstance(part, np.random.RandomState) and not 0 <= _position(part) <= 624:
        # numpy takes any position, and would read numbers from outside its 624.
        raise ValueError("the state of a random generator is damaged")


def _check_pipeline(pipeline: Pipeline) -> None:
    if pipeline.memory is not None:
        # Fitting would read pickles from the folder that it names.
        raise ForeignError("a pipeline with a cache")
    for name, step in pipeline.steps:
        if not isinstance(name, str) or not (isinstance(step, BaseEstimator) or step in (None, "passthrough")):
            raise ValueError("a step of a pipeline is not an estimator")


def _check_kernel(kernel: Kernel) -> None:
    if kernel.kernel != "precomputed" and kernel.kernel not in kernel_metrics():
        raise ValueError(f"there is no kernel {kernel.kernel!r}")
    check_kernel_params(kernel.kernel, kernel.kernel_params)


def _check_search(search: EmbeddingSearchCV) -> None:
    method = search.get_params(deep=False).get("estimator")
    steps = [step for _, step in method.steps] if isinstance(method, Pipeline) else [method]
    known = all(isinstance(step, MultiViewTransformer) or step in (None, "passthrough") for step in steps)
    if method is None or not known:
        raise ForeignError(f"a search for the parameters of a {type(method).__name__}")
    if isinstance(method, Pipeline):
        # Parameters of the pipeline itself could bring in a cache, or other steps.
        grids = [search.param_grid] if isinstance(search.param_grid, dict) else search.param_grid
        found = [*grids, *getattr(search, "cv_results_", {}).get("params", []), getattr(search, "best_params_", {})]
        for name in {name for setting in found for name in setting}:
            if "__" not in name:
                raise ForeignError(f"a search for {name!r} of a pipeline")
    if _is_fitted(search):
        for name in ("best_params_", "best_metric_", "best_score_", "best_index_", "cv_results_"):
            getattr(search, name)


def _position(random: np.random.RandomState) -> int:
    state: Any = random.get_state(legacy=False)
    return int(state["state"]["pos"])


def _is_fitted(estimator: BaseEstimator) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _try(model: MultiViewTransformer) -> None:
    """Map one sample of every view: nothing that this takes is missing, or of the wrong size."""
    names, sizes = model.view_names_, model.n_features_
    named = isinstance(names, list) and len(names) == len(sizes) and all(isinstance(name, str) for name in names)
    sized = all(type(D) is int and 1 <= D <= _MOST_FEATURES for D in sizes) and model.n_features_in_ == sum(sizes)
    if not (named and sized):
        raise ValueError("views and numbers of features do not go together")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = [model.transform_view(np.zeros((1, D)), v).shape for v, D in enumerate(sizes)]
    if isinstance(model, Embedding) and len(set(shapes)) > 1:
        raise ValueError("the views are mapped to spaces of different dimensions")
