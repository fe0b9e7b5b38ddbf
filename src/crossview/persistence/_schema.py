"""Schemas: what a file may ask skops to build, checked before any of it is built."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from crossview.kernels import Kernel
from crossview.views import Views

__all__ = ["ARRAY_KINDS", "KEYS", "SCALARS", "ForeignError", "Name", "Node", "check_schema", "model_classes", "name_of"]

Name: TypeAlias = tuple[str, str]  # module and class
Node: TypeAlias = dict[str, Any]

ARRAY_KINDS = "biufcSUmM"
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SCALARS = frozenset(("numpy", name) for name in (*_INTEGERS, "float32", "float64", "bool", "bool_", "str_"))
KEYS = frozenset(("builtins", name) for name in ("str", "int", "float"))

_DEEPEST = 60
_SCIKIT_LEARN = (
    Pipeline,
    StandardScaler,
    PCA,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
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
    "NdArrayNode": SCALARS | {("numpy", "ndarray")},
    "RandomStateNode": frozenset([("numpy.random.mtrand", "RandomState")]),
}


class ForeignError(Exception):
    """A file asks for what no model is made of."""


def check_schema(schema: Any, members: Mapping[str, bytes]) -> list[str]:
    """Refuse a schema that asks for what no model is made of, and members that it does not name.

    Parameters
    ----------
    schema : dict
        The schema, as read from JSON.
    members : dict of str to bytes
        The arrays that came with it, in numpy's file format.

    Returns
    -------
    types : list of str
        Names of all types that the schema asks for.
    """
    check = _SchemaCheck(members)
    check.node(schema)
    foreign = members.keys() - check.owners.keys()
    if foreign:
        raise ForeignError(f"the member {min(foreign)!r}")
    return sorted(check.types)


def model_classes() -> frozenset[Name]:
    """Classes that models are made of: estimators and splitters, and the data that these hold."""
    return _own_classes() | {name_of(cls) for cls in _SCIKIT_LEARN}


def _own_classes() -> frozenset[Name]:
    return frozenset(
        name_of(cls)
        for name, module in list(sys.modules.items())
        if name.startswith("crossview.")
        for attribute, cls in list(vars(module).items())
        if isinstance(cls, type)
        and name_of(cls) == (name, attribute)
        and (issubclass(cls, (BaseEstimator, Kernel, Views)) or hasattr(cls, "get_n_splits"))
    )


def name_of(cls: type) -> Name:
    """The name by which schemas know a class."""
    return cls.__module__, cls.__name__


def _allowed() -> dict[str, frozenset[Name]]:
    """What every kind of node may stand for."""
    return {**_BUILDING_BLOCKS, "ObjectNode": model_classes()}


@dataclass
class _SchemaCheck:
    """Refuses what no model is made of, before anything of it is built.

    skops asks whether a type is trusted, whatever is done with it. Here every kind of node has types of its own:
    classes are built from their attributes only and never called, types stand for the keys of dicts only, and nodes of
    functions, methods and operators, which could be made to call something, do not exist.
    """

    members: Mapping[str, bytes]
    allowed: Mapping[str, frozenset[Name]] = field(default_factory=_allowed)
    types: set[str] = field(default_factory=set)
    owners: dict[str, int] = field(default_factory=dict)
    known: dict[int, Node] = field(default_factory=dict)

    def node(self, node: Any, depth: int = 0) -> str:
        """Check a node and all below it, and say of which kind it is."""
        if not isinstance(node, dict) or depth > _DEEPEST:
            raise ValueError("the schema is damaged")
        kind, name = node["__loader__"], (node["__module__"], node["__class__"])
        if not isinstance(kind, str) or name not in self.allowed.get(kind, ()):
            raise ForeignError(f"{name[0]}.{name[1]} ({kind})")
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
            if key["__loader__"] != "TypeNode" or (key["__module__"], key["__class__"]) not in KEYS:
                raise ForeignError(f"{key['__module__']}.{key['__class__']} ({key['__loader__']}) as a key of a dict")
            self._is_new(key)
        if not isinstance(content, dict) or len(keys["content"]) != len(content):
            raise ValueError("a dict has keys that cannot be told apart, or none for a value")
        for value in content.values():
            self.node(value, depth)

    def _attributes(self, content: Node, depth: int) -> None:
        kind = self.node(content, depth)
        if kind == "JsonNode" and json.loads(content["content"]) is None:
            return
        if kind != "DictNode":
            raise ValueError("attributes are something else")
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
    if dtype.kind not in ARRAY_KINDS or dtype.itemsize == 0:
        raise ForeignError(f"an array of type {dtype}")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("an array has no proper shape")
    if prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"an array of shape {shape} is not there in full")
    return tuple(shape)
