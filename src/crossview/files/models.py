"""Models in safetensors files, which are read without executing anything that a file contains.

A file holds arrays. Its metadata describe the model in JSON, with the format's number, the version of crossview that
wrote it, and a digest of the whole file, which detects damage.

A digest does not stop an attacker. What does: classes, their attributes and the attributes' shapes come from the
package (`crossview._schema`), never from the file; sizes are compared with the file before memory is allocated, and
with each other before a model is returned.
"""

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import safetensors.numpy
import sklearn.model_selection as splitters
from numpy.typing import NDArray
from safetensors import SafetensorError
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.pipeline import Pipeline

from crossview._schema import KNOWN, Sizes, add_class, check_fitted
from crossview._store import Content, PathLike, write_atomically
from crossview._transformer import MultiViewTransformer, unwrap
from crossview._version import __version__
from crossview.matching.classifier import CrossViewClassifier
from crossview.model_selection.search import EmbeddingSearchCV

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What content of an unexpected form leads to."""

_AGAIN = "Restore it from a copy, or save the model again with crossview.save."
_WRITTEN_BY = "written by crossview.save or the commands fit, tune and enroll"
_FORMAT = 3
_MARK = re.compile(r"format=(\d{1,6}) version=((\d{1,6})[0-9A-Za-z.+!-]{0,40}) sha256=([0-9a-f]{64}) (.*)", re.DOTALL)
_NO_DIGEST = b"0" * 64
_LARGEST_HEADER = 16 * 2**20
_MOST_VALUES = 10**6  # an empty list or dict takes 30 times the memory of its two characters
_DEEPEST, _MOST_PARTS = 60, 20_000  # of a model, each estimator and each view of one counted as often as it is used
_UNSAVED = {"_output"}  # how to present outputs: a preference of the session, not part of the model
_SCALARS = ["bool", "str", *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64))]
_SCALARS += ["float16", "float32", "float64"]


class ModelFileError(ValueError):
    """A file is not a model, is damaged, was written by a newer crossview, or contains what no model has."""


def save(model: BaseEstimator, path: PathLike) -> None:
    """Write a model to a file, fitted or not.

    An older file of that name stays until the new one is complete. The same model gives the same file. The choice of
    ``set_output`` is not saved. What a file cannot hold, such as a function given as a kernel, is an error.

    Parameters
    ----------
    model : estimator
        Any estimator of crossview, a search, a matcher, or a scikit-learn pipeline of these. Classes of your own need
        `register`.
    path : str or path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.KMvHE(n_components=5).fit(data.views[:200], data.y[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.save(model, f"{folder}/digits.model")
    ...     again = cv.load(f"{folder}/digits.model")
    >>> bool(np.array_equal(again.transform(data.views)["left"], model.transform(data.views)["left"]))
    True
    """
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"save takes an estimator, got {type(model).__name__}: pass a model of crossview.")
    try:
        text, arrays = describe(model)
        parts = pack(text, arrays)
        _decode(_parse(text), arrays)  # what cannot be loaded must not be saved
    except MALFORMED as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    write_atomically(path, *parts)


def load(path: PathLike) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is executed, whoever wrote it. A file that has changed since, was written by a newer crossview,
    or is no model raises `ModelFileError`. A file cannot tell whether it was exchanged for another model.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : estimator
        The model. Its results are those of the one that was saved, to the last bit on the same machine.

    Examples
    --------
    >>> import tempfile
    >>> import crossview as cv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.save(cv.MvHE(n_components=5), f"{folder}/new.model")
    ...     cv.load(f"{folder}/new.model")
    MvHE(n_components=5)
    """
    name = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"file {name} does not exist: check the name.")
    if not os.path.isfile(path):
        raise ModelFileError(f"{name} is not a file: pass a file {_WRITTEN_BY}.")
    try:
        with open(path, "rb") as file:
            return _decode(*unpack(file, name))
    except ModelFileError:
        raise
    except (*MALFORMED, SafetensorError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        reason = "".join(letter if letter.isprintable() else " " for letter in reason[:300])
        raise ModelFileError(f"{name} contains no valid model ({reason}). {_AGAIN}") from error


def pack(model: str, arrays: Mapping[str, NDArray[Any]], version: str = __version__) -> list[Content]:
    """The parts of the file with these arrays and a description of a model in JSON."""
    mark = f"format={_FORMAT} version={version} sha256={_NO_DIGEST.decode()} "
    content = memoryview(safetensors.numpy.save(dict(arrays), {"crossview": mark + model}))
    end = 8 + int.from_bytes(content[:8], "little")
    header = bytes(content[8:end])
    if end > _LARGEST_HEADER or _count(header) > _MOST_VALUES:
        raise ValueError(
            f"everything but its arrays takes more than {_LARGEST_HEADER // 2**20} MiB or more than a million values: "
            "save best_estimator_ of a large search, and labels as arrays of strings or numbers"
        )
    place = 8 + header.index(_NO_DIGEST)
    return [content[:place], hashlib.sha256(content).hexdigest().encode(), content[place + 64 :]]


def unpack(file: io.BufferedIOBase, name: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The description of a model and its arrays, once the version, all sizes and the digest are known to be right."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    raw = file.read(length) if 2 <= length <= min(size - 8, _LARGEST_HEADER) else b""
    mark = None
    with contextlib.suppress(*MALFORMED):
        header = _parse(raw.decode())
        mark = _MARK.fullmatch(header.pop("__metadata__")["crossview"])
    if mark is None:
        raise ModelFileError(
            f"{name} is not a model of crossview, or its beginning is damaged: load a file {_WRITTEN_BY}. "
            "Pickles are never loaded."
        )
    number, version, major, stated, model = mark.groups()
    if int(number) != _FORMAT or int(major) > int(__version__.split(".")[0]):
        fix = f"which {__version__} does not read: upgrade crossview, or fit the model again"
        raise ModelFileError(f"{name} was written by crossview {version} in format {number}, {fix}.")
    expected = min(8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0), 2**63)
    if size != expected:
        problem = "cut short" if size < expected else "damaged"
        raise ModelFileError(f"{name} is {problem}: it has {size} bytes instead of {expected}. {_AGAIN}")
    file.seek(0)
    content = file.read()  # and not a memory map: whoever cuts the file short would end this process
    start = 8 + length
    digest = hashlib.sha256(content[:start].replace(stated.encode(), _NO_DIGEST, 1))
    digest.update(memoryview(content)[start:])
    if digest.hexdigest() != stated:
        raise ModelFileError(f"{name} is damaged: its content has changed since it was written. {_AGAIN}")
    arrays = safetensors.numpy.load(content)
    for key, array in arrays.items():
        if array.dtype.name not in _SCALARS:
            raise ValueError(f"the array {key!r} is of {array.dtype}")
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"the array {key!r} has truth values other than 0 and 1")
    return _parse(model), arrays


def _count(text: bytes) -> int:
    """The most values that JSON can have."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _parse(text: str) -> Any:
    """JSON, unless it would take much memory."""
    if _count(text.encode()) > _MOST_VALUES:
        raise ValueError("there are more than a million values")
    return json.loads(text, object_pairs_hook=_unambiguous)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys, of which some programs take the last and others the first."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has a key more than once")
    return found


def describe(model: BaseEstimator) -> tuple[str, dict[str, NDArray[Any]]]:
    """JSON and arrays that a model consists of."""
    encoder = _Encoder()
    tree = encoder.node(model, type(model).__name__)
    return json.dumps(tree, separators=(",", ":")), encoder.arrays


class _Encoder:
    """Turns values into JSON, in which an object with the key $ stands for what JSON lacks, and collects arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.owners: dict[int, tuple[str, Any]] = {}  # which must not be freed, or another could get their number
        self.estimators: dict[int, int] = {}

    def node(self, value: Any, way: str, depth: int = 0) -> Any:
        """Describe a value. The way to it from the model is the name of its array, and of its place in errors."""
        kind = type(value)
        if depth > _DEEPEST:
            raise ValueError(f"{way} is nested too deeply, or contains itself")
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in (list, range):
            return [self.node(item, f"{way}[{k}]", depth + 1) for k, item in enumerate(value)]
        if kind is dict:
            for key in value:
                if type(key) is not str or key == "$":
                    raise ValueError(f"{way} has the key {key!r}, which cannot be saved: use other strings")
            return {key: self.node(item, f"{way}[{key!r}]", depth + 1) for key, item in value.items()}
        if kind is tuple or (kind is np.ndarray and value.dtype == object and value.ndim == 1):
            return {"$": kind.__name__, "items": self.node(list(value), way, depth)}
        if isinstance(value, np.generic) and (kind is np.str_ or value.dtype.name in _SCALARS):
            return {"$": "str" if kind is np.str_ else value.dtype.name, "value": value.item()}
        if kind is np.ndarray and (value.dtype.kind == "U" or value.dtype.name in _SCALARS):
            array = np.asarray(value, dtype=value.dtype.newbyteorder("="))
            if value.dtype.kind == "U":
                return self._add("text", value, way, array.reshape(-1).view(np.uint32).reshape(*array.shape, -1))
            # Columns first stay columns first: products in another order differ in the last bit.
            if array.flags.f_contiguous and not array.flags.c_contiguous:
                return self._add("transposed", value, way, array.T)
            return self._add("array", value, way, array)
        if kind.__name__ not in KNOWN or KNOWN[kind.__name__].cls is not kind:
            raise ValueError(_why_not(way, value))
        if id(value) in self.estimators:
            return {"$": "same", "object": self.estimators[id(value)]}
        params = {name: getattr(value, name) for name in KNOWN[kind.__name__].parameters}
        unfitted = vars(kind(**params))
        state = value.__getstate__() if isinstance(value, CrossViewClassifier) else vars(value)  # with its gallery
        fitted = {name: item for name, item in state.items() if name not in unfitted and name not in _UNSAVED}
        described = {
            group: {name: self.node(item, f"{way}.{name}", depth + 1) for name, item in attributes.items()}
            for group, attributes in (("params", params), ("fitted", fitted))
        }
        # Counted when complete, as the decoder does: an object cannot be the same as one that it is part of.
        self.estimators[id(value)] = len(self.estimators)
        return {"$": kind.__name__} | described

    def _add(self, kind: str, owner: Any, way: str, array: NDArray[Any]) -> dict[str, Any]:
        """Keep an object's array. One object in several places has one array."""
        name, _ = self.owners.setdefault(id(owner), (way, owner))
        self.arrays.setdefault(name, np.asarray(array, order="C"))
        return {"$": kind, "array": name}


def _why_not(way: str, value: Any) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        kind, fix = f"{kind} of {value.dtype}", "use numbers, strings or truth values"
    elif isinstance(value, np.random.RandomState | np.random.Generator):
        fix = "use a whole number as random_state"
    elif hasattr(value, "_schema"):
        fix = "register its class with crossview.register"
    elif callable(value) and not isinstance(value, BaseEstimator):
        fix = f"use a kernel by its name ({', '.join(sorted(kernel_metrics()))}), or kernel='precomputed'"
    else:
        fix = "save a model of crossview, or a scikit-learn pipeline of these; of a search, save best_estimator_"
    return f"{way} is a {kind}, which cannot be saved: {fix}"


def _decode(tree: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The model that JSON and arrays describe."""
    decoder = _Decoder(arrays)
    model = decoder.value(tree)
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"a {type(model).__name__} is not an estimator")
    for unused in arrays.keys() - {name for _, name in decoder.shared}:
        raise ValueError(f"nothing uses the array {unused!r}")
    return model


class _Decoder:
    """Builds values from JSON and arrays. Classes are registered, and are given what their schemas allow."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = arrays
        self.complete: list[tuple[Any, int]] = []  # estimators and kernels, and how many parts each has
        self.shared: dict[tuple[str, str], Any] = {}
        self.infinite: set[int] = set()  # arrays with NaN or infinity, by their identity
        self.size = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        """Build a value, and everything in it."""
        if depth > _DEEPEST:
            raise ValueError("the model is nested too deeply")
        if isinstance(node, list):
            return [self.value(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        match node.get("$"):
            case None:
                return {key: self.value(item, depth + 1) for key, item in node.items()}
            case "tuple":
                return tuple(self.value(list(node["items"]), depth))
            case "ndarray":
                return np.fromiter(self.value(list(node["items"]), depth), dtype=object)
            case "array" | "transposed" | "text" as kind:
                return self._from_array(kind, node["array"])
            case "same" if type(node["object"]) is int and node["object"] >= 0:
                model, size = self.complete[node["object"]]
                self.size += size
                return model
            case str(kind) if kind in _SCALARS and isinstance(node["value"], bool | int | float | str):
                return np.array(node["value"], dtype=kind)[()]
        return self._object(node, depth)

    def _from_array(self, kind: str, name: str) -> Any:
        """Build what an array stands for, once."""
        array = self.arrays[name]
        if (kind, name) in self.shared:
            if array.dtype.kind != "f":
                self.size += array.size // 64  # values are checked in the time that one estimator takes
            return self.shared[kind, name]
        made: Any = array.T if kind == "transposed" else array
        if kind == "text":
            if array.dtype != np.uint32 or array.max() > 0x10FFFF:
                raise ValueError("an array is not text")
            made = array.view(f"U{array.shape[-1]}").reshape(array.shape[:-1])
        elif array.dtype.kind == "f" and not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
            self.infinite.add(id(made))
        self.shared[kind, name] = made
        return made

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        """Build an instance of a registered class."""
        kind = node["$"]
        if kind not in KNOWN:
            raise ValueError(f"models are not made of {kind!r}: register a class of your own with crossview.register")
        (cls, _, parameters), before = KNOWN[kind], self.size
        params, fitted = (self.value(node[group], depth) for group in ("params", "fitted"))
        for unknown in params.keys() - parameters:
            raise ValueError(f"{kind} has no parameter {unknown!r}")
        self.size += 1 + len(fitted.get("n_features_", ()))
        if self.size > _MOST_PARTS:
            raise ValueError("there are too many estimators, or the same ones in too many others")
        model = cls(**params)
        check_fitted(model, fitted, self.infinite)
        model.__setstate__(fitted) if isinstance(model, CrossViewClassifier) else vars(model).update(fitted)
        self.complete.append((model, self.size - before))
        return model


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


def _no_cache(value: Any, sizes: Sizes) -> bool:
    if value is not None:
        raise ValueError("memory is a cache, a folder of pickles, which models must not have: set it to None first")
    return True


# Classes of scikit-learn, which have no schema of their own.
_STEPS = (MultiViewTransformer, Pipeline, EmbeddingSearchCV, CrossViewClassifier, FrozenEstimator)
_SPLITTERS = ["GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "ShuffleSplit"]
_SPLITTERS += ["StratifiedGroupKFold", "StratifiedKFold", "StratifiedShuffleSplit"]
add_class(Pipeline, {"steps": _steps, "memory": _no_cache})
add_class(FrozenEstimator, {"estimator": _STEPS})
for _name in _SPLITTERS:
    add_class(getattr(splitters, _name), {})
