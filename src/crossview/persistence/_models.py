"""Saving and loading: from a model to a file's archive, and back."""

from __future__ import annotations

import copy
import io
import json
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from sklearn.base import BaseEstimator

from crossview._version import __version__
from crossview.persistence._checks import check_model, check_saveable
from crossview.persistence._files import (
    AGAIN,
    SCHEMA,
    ModelFileError,
    PathLike,
    line,
    pack,
    read,
    unpack,
    write_atomically,
)
from crossview.persistence._schema import ForeignError, Node, check_schema

__all__ = ["load", "named_members", "save"]


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
    check_saveable(model)
    try:
        payload = _encode(model)
        _decode(payload)
    except Exception as error:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error
    write_atomically(path, line(payload, __version__) + payload)


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
    payload = read(path)
    try:
        return _decode(payload)
    except ForeignError as error:
        raise ModelFileError(
            f"{os.fspath(path)} holds {error}, which no model of crossview's is made of, and was not loaded: "
            "load only files that crossview.save wrote, with this version of crossview or an older one."
        ) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{os.fspath(path)} holds no model that can be built ({reason}). {AGAIN}") from error


def _skops() -> Any:
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError("saving and loading models needs skops: pip install 'crossview[save]'.") from error


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

        schema = json.loads(archive.read(SCHEMA), object_hook=rename)
    used = set(named_members(schema))
    return pack(json.dumps(schema).encode(), {name: data for name, data in members.items() if name in used})


def named_members(schema: Node) -> Iterator[str]:
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


def _decode(payload: bytes) -> Any:
    """Build the model in an archive, after all of it has been checked."""
    text, members = unpack(payload)
    types = check_schema(json.loads(text), members)
    # skops gets an archive made here, so that it cannot read anything else than what was checked.
    model = _skops().loads(pack(text, members, ZIP_STORED), trusted=types)
    check_model(model)
    return model
