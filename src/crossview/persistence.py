"""Models in files: written whole or not at all, and read without running anything that a file brings along.

A file is one line of text and an archive. The line has the format's number, the version of crossview that wrote it,
the archive's size, and a digest of all this and of the archive, so that any change by accident is found before
anything is read. The archive is that of skops: a schema in JSON that says which objects to build, and numpy arrays.

A digest does not stop someone who means harm. What does: the schema is checked against a list of what models are made
of, which is crossview's own classes, a few of scikit-learn's, plain containers, numbers and arrays, before skops sees
it. Functions, methods and everything else that could be called are not among them.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import kernel_metrics
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from crossview.embeddings._base import Embedding, MultiViewTransformer
from crossview.kernels import Kernel, check_kernel_params
from crossview.recognition.search import EmbeddingSearchCV
from crossview.views import Views

__all__ = ["ModelFileError", "load", "save", "write_atomically"]

PathLike: TypeAlias = str | os.PathLike[str]
Name: TypeAlias = tuple[str, str]  # module and class
Node: TypeAlias = dict[str, Any]

_FORMAT = 1
_START = re.compile(rb"crossview-model format=(\d{1,6}) version=(\d{1,6}[0-9A-Za-z.+!-]{0,40}) ")
_LINE = re.compile(rb"(crossview-model format=\d+ version=\S+ size=(\d{1,15})) sha256=([0-9a-f]{64})\n")
_LONGEST_LINE = 256
_AGAIN = "Restore it from a copy, or save the model again with crossview.save."

_SCHEMA = "schema.json"
_LARGEST_SCHEMA = 64 * 2**20
_DEEPEST = 60
_ARRAY_KINDS = "biufcSUmM"
_MOST_FEATURES = 10**7

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_SCALARS = frozenset(("numpy", name) for name in (*_INTEGERS, "float32", "float64", "bool", "bool_", "str_"))
_KEYS = frozenset(("builtins", name) for name in ("str", "int", "float"))
_SCIKIT_LEARN = (
    Pipeline,
    StandardScaler,
    PCA,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
_BUILDING_BLOCKS: Mapping[str, frozenset[Name]] = {
    "JsonNode": frozenset([("builtins", "str")]),
    "ListNode": frozenset([("builtins", "list")]),
    "TupleNode": frozenset([("builtins", "tuple")]),
    "DictNode": frozenset([("builtins", "dict")]),
    "ConstructorFromReduceNode": frozenset([("builtins", "range")]),
    "NdArrayNode": _SCALARS | {("numpy", "ndarray")},
    "RandomStateNode": frozenset([("numpy.random.mtrand", "RandomState")]),
}


class ModelFileError(ValueError):
    """A file is no model, is damaged, was written by a newer crossview, or holds what no model is made of."""


def save(model: BaseEstimator, path: PathLike) -> None:
    """Write a model to a file, fitted or not.

    The file appears whole or not at all: whatever happens meanwhile, an older file of that name stays until the new
    one is complete. The same model gives the same file.

    Parameters
    ----------
    model : estimator
        Any estimator of crossview, a search, or a scikit-learn pipeline of these.
    path : str or path
        The file.

    Raises
    ------
    ValueError
        If the model holds what a file cannot, such as a function given as its kernel.

    See Also
    --------
    load : Read it again.

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
    _skops()
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"save takes an estimator, got {type(model).__name__}: pass a model of crossview's.")
    _check_saveable(model)
    try:
        payload = _encode(model)
        _decode(payload)
    except Exception as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    from crossview import __version__

    write_atomically(path, _line(payload, __version__) + payload)


def load(path: PathLike) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run, whoever wrote it, and a file that has changed since is refused. That it was not
    exchanged for another model is beyond what a file can tell.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : estimator
        The model. Its results are those of the one that was saved, to the last bit on the same machine.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, was written by a newer crossview, or holds what no model is made of.

    See Also
    --------
    save : Write one, with an example.
    """
    _skops()
    payload = _read(path)
    try:
        return _decode(payload)
    except _ForeignError as error:
        raise ModelFileError(
            f"{os.fspath(path)} holds {error}, which no model of crossview's is made of, and was not loaded: "
            "load only files that crossview.save wrote, with this version of crossview or an older one."
        ) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{os.fspath(path)} holds no model that can be built ({reason}). {_AGAIN}") from error


def write_atomically(path: PathLike, data: bytes) -> None:
    """Write a file so that, whatever happens meanwhile, its name stands for the old content or the new.

    Parameters
    ----------
    path : str or path
        The file. If it is a link, what it leads to is written.
    data : bytes
        Its content.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} to: create it first.")
    temporary = target.parent / f".crossview-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


class _ForeignError(Exception):
    """A file asks for what no model is made of."""


def _skops() -> Any:
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError("saving and loading models needs skops: pip install 'crossview[save]'.") from error


# The line before the archive.


def _line(payload: bytes, version: str) -> bytes:
    start = f"crossview-model format={_FORMAT} version={version} size={len(payload)}".encode()
    return start + f" sha256={_digest(start, payload)}\n".encode()


def _digest(start: bytes, payload: bytes) -> str:
    digest = hashlib.sha256(start)
    digest.update(payload)
    return digest.hexdigest()


def _read(path: PathLike) -> bytes:
    """The archive in a file, once its mark, size, digest and version are known to be right."""
    from crossview import __version__

    name = os.fspath(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError(f"{name} is not a file: give the name of one that crossview.save wrote.")
    with open(path, "rb") as file:
        line, payload = file.readline(_LONGEST_LINE), file.read()
    mark = _START.match(line)
    if mark is None:
        raise ModelFileError(
            f"{name} is no model of crossview's, or its beginning is damaged: load what crossview.save wrote. "
            "Pickles are never loaded."
        )
    number, version = int(mark[1]), mark[2].decode()
    newer = f"{name} was written by crossview {version}, this is {__version__}: upgrade crossview to load it."
    if number > _FORMAT:
        raise ModelFileError(newer)
    fields = _LINE.fullmatch(line)
    if number < 1 or fields is None:
        raise ModelFileError(f"the beginning of {name} is damaged. {_AGAIN}")
    size = int(fields[2])
    if len(payload) != size:
        problem = "cut short" if len(payload) < size else "damaged"
        raise ModelFileError(f"{name} is {problem}: it has {len(payload)} bytes in the place of {size}. {_AGAIN}")
    if _digest(fields[1], payload) != fields[3].decode():
        raise ModelFileError(f"{name} is damaged: its content has changed since it was written. {_AGAIN}")
    if _major(version) > _major(__version__):
        raise ModelFileError(newer)
    return payload


def _major(version: str) -> int:
    return int(re.match(r"\d+", version)[0])  # type: ignore[index]


# The archive: a schema, and members that it names.


def _encode(model: BaseEstimator) -> bytes:
    """The archive that skops makes of a model, with numbers for the memory addresses that skops puts in it."""
    # The copy is made for the arrays: numpy's file format knows rows first and columns first, but not parts of larger
    # arrays. These would all come back rows first, and give results that differ in the last bit; copies keep the order.
    data = _skops().dumps(copy.deepcopy(model))
    first: dict[int, Node] = {}
    members: dict[str, bytes] = {}

    with ZipFile(io.BytesIO(data)) as archive:

        def rename(node: Node) -> Node:
            address = node.get("__id__")
            if not isinstance(address, int):
                return node
            if address in first:
                # One object in several places: said with the same words everywhere.
                return first[address]
            node["__id__"] = len(first) + 1
            if (node["__module__"], node["__class__"]) == ("numpy", "bool"):
                node["__class__"] = "bool_"  # the name that numpy 1 knows as well
            if isinstance(node.get("file"), str):
                name = f"{node['__id__']}.npy"
                members[name] = archive.read(node["file"])
                node["file"] = name
            first[address] = node
            return node

        schema = json.loads(archive.read(_SCHEMA), object_hook=rename)
    used = set(_files(schema))
    return _pack(json.dumps(schema).encode(), {name: data for name, data in members.items() if name in used})


def _files(schema: Node) -> Iterator[str]:
    """Members that a schema names."""
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("file"), str):
                yield node["file"]
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _pack(schema: bytes, members: Mapping[str, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    """An archive without dates. Only the schema is worth compressing."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(ZipInfo(name), data, ZIP_STORED)
        archive.writestr(ZipInfo(_SCHEMA), schema, compression)
    return buffer.getvalue()


def _unpack(payload: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Schema and members of an archive, none of them larger than it may be."""
    with ZipFile(io.BytesIO(payload)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if len(entries) < len(archive.infolist()):
            raise ValueError("a member is there twice")
        if _SCHEMA not in entries:
            raise ValueError(f"there is no {_SCHEMA}")
        if entries[_SCHEMA].file_size > _LARGEST_SCHEMA:
            raise ValueError(
                f"the description of the model takes more than {_LARGEST_SCHEMA // 2**20} MiB: of a large search, save "
                "best_estimator_"
            )
        stored = [entry for name, entry in entries.items() if name != _SCHEMA]
        if any(entry.compress_type != ZIP_STORED for entry in stored):
            raise ValueError("arrays are compressed, which crossview.save never does")
        if sum(entry.file_size for entry in stored) > len(payload):
            raise ValueError("members overlap")
        # Reading no more than the stated size, a member cannot unfold into more than that.
        members = {}
        for name, entry in entries.items():
            with archive.open(entry) as member:
                members[name] = member.read(entry.file_size + 1)
            if len(members[name]) != entry.file_size:
                raise ValueError(f"{name} has another size than is stated")
    return members.pop(_SCHEMA), members


def _decode(payload: bytes) -> Any:
    """Build the model in an archive, after all of it has been checked."""
    text, members = _unpack(payload)
    schema = json.loads(text)
    check = _SchemaCheck(members)
    check.node(schema)
    foreign = members.keys() - check.owners.keys()
    if foreign:
        raise _ForeignError(f"the member {min(foreign)!r}")
    # skops gets an archive made here, so that it cannot read anything else than what was checked.
    model = _skops().loads(_pack(text, members, ZIP_STORED), trusted=sorted(check.types))
    _check_model(model)
    return model


@dataclass
class _SchemaCheck:
    """Refuses what no model is made of, before anything of it is built.

    skops asks whether a type is trusted, whatever is done with it. Here every kind of node has types of its own:
    classes are built from their attributes only and never called, types stand for the keys of dicts only, and nodes of
    functions, methods and operators, which could be made to call something, do not exist.
    """

    members: Mapping[str, bytes]
    allowed: Mapping[str, frozenset[Name]] = field(default_factory=lambda: _allowed())
    types: set[str] = field(default_factory=set)
    owners: dict[str, int] = field(default_factory=dict)
    known: dict[int, Node] = field(default_factory=dict)

    def node(self, node: Any, depth: int = 0) -> str:
        """Check a node and all below it, and say of which kind it is."""
        if not isinstance(node, dict) or depth > _DEEPEST:
            raise ValueError("the schema is damaged")
        kind, name = node["__loader__"], (node["__module__"], node["__class__"])
        if not isinstance(kind, str) or name not in self.allowed.get(kind, ()):
            raise _ForeignError(f"{name[0]}.{name[1]} ({kind})")
        self.types.add(f"{name[0]}.{name[1]}")
        if self._is_new(node):
            self._below(kind, node, depth + 1)
        return kind

    def _is_new(self, node: Node) -> bool:
        """Whether an object is described for the first time; afterwards, it has to be described in the same words.

        Otherwise what is built would not be what is checked, and a few nodes that lead to each other could take forever
        to go through.
        """
        number = node["__id__"]
        if type(number) is not int or number < 1:
            raise ValueError("an object has no number")
        if number not in self.known:
            self.known[number] = node
            return True
        if self.known[number] != node:
            raise ValueError("one object is described in two ways")
        return False

    def _below(self, kind: str, node: Node, depth: int) -> None:
        match kind:
            case "JsonNode":
                if not isinstance(json.loads(node["content"]), str | int | float | None):
                    raise ValueError("a number or string is something else")
            case "ListNode" | "TupleNode":
                self._items(node, depth)
            case "DictNode":
                self._dict(node, depth)
            case "ObjectNode":
                self._attributes(node["content"], depth)
            case "NdArrayNode":
                self._array(node, depth)
            case "RandomStateNode":
                self._expect("DictNode", node["content"], depth)
            case "ConstructorFromReduceNode":
                self._expect("TupleNode", node["content"], depth)

    def _expect(self, kind: str, node: Any, depth: int) -> None:
        if self.node(node, depth) != kind:
            raise ValueError(f"something else stands in the place of a {kind}")

    def _items(self, node: Node, depth: int) -> None:
        if not isinstance(node["content"], list):
            raise ValueError("a list is something else")
        for item in node["content"]:
            self.node(item, depth)

    def _dict(self, node: Node, depth: int) -> None:
        keys, content = node["key_types"], node["content"]
        if (keys["__loader__"], keys["__module__"], keys["__class__"]) != ("ListNode", "builtins", "list"):
            raise ValueError("the keys of a dict are damaged")
        if not self._is_new(keys):
            raise ValueError("two dicts share their keys")
        self.known[keys["__id__"]] = {}  # nothing else can be this list
        for key in keys["content"]:
            # skops calls what stands here with the key.
            if key["__loader__"] != "TypeNode" or (key["__module__"], key["__class__"]) not in _KEYS:
                raise _ForeignError(f"{key['__module__']}.{key['__class__']} ({key['__loader__']}) as a key of a dict")
            self._is_new(key)
        if not isinstance(content, dict) or len(keys["content"]) != len(content):
            raise ValueError("a dict has keys that cannot be told apart, or none for a value")
        for value in content.values():
            self.node(value, depth)

    def _attributes(self, content: Node, depth: int) -> None:
        if self.node(content, depth) == "JsonNode":
            if json.loads(content["content"]) is not None:
                raise ValueError("attributes are something else")
            return
        self._expect("DictNode", content, depth)
        if any(key["__class__"] != "str" for key in content["key_types"]["content"]):
            raise ValueError("an attribute has no name")

    def _array(self, node: Node, depth: int) -> None:
        scalar = node["__class__"] != "ndarray"
        if node["type"] == "json" and not scalar:
            self._expect("TupleNode", node["shape"], depth)
            self._items(node, depth)
            return
        name = node["file"]
        if node["type"] != "numpy" or name not in self.members:
            raise ValueError("an array is missing")
        if self.owners.setdefault(name, node["__id__"]) != node["__id__"]:
            raise ValueError("two arrays share their values")
        shape = _array_shape(self.members[name])
        if scalar and shape != ():
            raise ValueError("a number is an array")


def _array_shape(data: bytes) -> tuple[int, ...]:
    """The shape of an array in numpy's file format, once it is known to be there in full, and to be plain values."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is in an unknown format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in _ARRAY_KINDS or dtype.itemsize == 0:
        raise _ForeignError(f"an array of type {dtype}")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("an array has no proper shape")
    if prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"an array of shape {shape} is not there in full")
    return tuple(shape)


def _allowed() -> dict[str, frozenset[Name]]:
    """What every kind of node may stand for."""
    return {**_BUILDING_BLOCKS, "ObjectNode": _own_classes() | {_name(cls) for cls in _SCIKIT_LEARN}}


def _own_classes() -> frozenset[Name]:
    """Estimators and splitters of crossview's, and the data that these hold."""
    return frozenset(
        _name(cls)
        for name, module in list(sys.modules.items())
        if name.startswith("crossview.")
        for attribute, cls in list(vars(module).items())
        if isinstance(cls, type)
        and _name(cls) == (name, attribute)
        and (issubclass(cls, (BaseEstimator, Kernel, Views)) or hasattr(cls, "get_n_splits"))
    )


def _name(cls: type) -> Name:
    return cls.__module__, cls.__name__


# The model.


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Everything that a model is made of, each with the way to it."""
    stack = [(type(model).__name__, model)]
    classes = _allowed()["ObjectNode"]
    seen: set[int] = set()
    while stack:
        way, part = stack.pop()
        yield way, part
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            stack.extend((f"{way}[{key!r}]", value) for key, value in part.items())
        elif isinstance(part, list | tuple):
            stack.extend((f"{way}[{k}]", value) for k, value in enumerate(part))
        elif isinstance(part, np.ndarray) and part.dtype == object:
            stack.extend((f"{way}.flat[{k}]", value) for k, value in enumerate(part.flat))
        elif _name(type(part)) in classes:
            stack.extend((f"{way}.{name}", value) for name, value in vars(part).items())


def _check_saveable(model: BaseEstimator) -> None:
    """Refuse what could not be loaded again, and say where it is."""
    classes = _allowed()["ObjectNode"]
    for way, part in _parts(model):
        kind = type(part)
        if part is None or kind in (bool, int, float, str, list, tuple, range, np.random.RandomState):
            continue
        if _name(kind) in _SCALARS or _name(kind) in classes:
            if isinstance(part, Pipeline) and part.memory is not None:
                raise ValueError(f"{way}.memory is a cache, which is not saved: set it to None first.")
            continue
        if kind is np.ndarray and (part.dtype.kind in _ARRAY_KINDS or part.dtype == object):
            continue
        if kind is dict:
            for key in part:
                if _name(type(key)) not in _KEYS:
                    raise ValueError(f"{way} has the key {key!r}, which cannot be saved: use strings or numbers.")
            continue
        if callable(part) and not isinstance(part, BaseEstimator):
            label = getattr(part, "__qualname__", kind.__name__)
            raise ValueError(
                f"{way} is the function {label}, and functions cannot be saved: use one of scikit-learn's kernels by "
                f"name ({', '.join(sorted(kernel_metrics()))}), or pass kernel matrices, with kernel='precomputed'."
            )
        raise ValueError(
            f"{way} is a {kind.__module__}.{kind.__qualname__}, which cannot be saved: save a model of crossview's, or "
            "a scikit-learn pipeline of such. Of a scikit-learn search, that is best_estimator_."
        )


def _check_model(model: Any) -> None:
    """Refuse an object that is no estimator, or lacks what it needs to work."""
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"a {type(model).__name__} is not an estimator")
    parts = [part for _, part in _parts(model)]
    for part in parts:
        if isinstance(part, BaseEstimator):
            part.get_params(deep=False)
        if isinstance(part, Pipeline):
            _check_pipeline(part)
        elif isinstance(part, Kernel):
            _check_kernel(part)
        elif isinstance(part, EmbeddingSearchCV) and _is_fitted(part):
            for name in ("best_estimator_", "best_params_", "best_score_", "best_index_", "cv_results_"):
                getattr(part, name)
        elif isinstance(part, np.random.RandomState) and not 0 <= _position(part) <= 624:
            # numpy takes any position, and would read numbers from outside its 624.
            raise ValueError("the state of a random generator is damaged")
    for part in parts:
        if isinstance(part, MultiViewTransformer) and _is_fitted(part):
            _try(part)


def _is_fitted(estimator: BaseEstimator) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _position(random: np.random.RandomState) -> int:
    state: Any = random.get_state(legacy=False)
    return int(state["state"]["pos"])


def _check_pipeline(pipeline: Pipeline) -> None:
    if pipeline.memory is not None:
        # Fitting would read pickles from the folder that it names.
        raise _ForeignError("a pipeline with a cache")
    for name, step in pipeline.steps:
        if not isinstance(name, str) or not (isinstance(step, BaseEstimator) or step in (None, "passthrough")):
            raise ValueError("a step of a pipeline is not an estimator")


def _check_kernel(kernel: Kernel) -> None:
    if kernel.kernel != "precomputed" and kernel.kernel not in kernel_metrics():
        raise ValueError(f"there is no kernel {kernel.kernel!r}")
    check_kernel_params(kernel.kernel, kernel.kernel_params)


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
