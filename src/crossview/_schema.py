"""What model files may hold: instances of registered classes, with attributes that fit the schema of their class.

A class states its schema next to its constructor: ``_schema`` maps its fitted attributes, and those parameters that
need a check, to what they must be. That is a type; a shape such as ``"D d"``, for an array; a list of one of these, for
a list with one value per view; or a function of the value and the sizes known so far. A symbol stands for the same
number throughout an object: n views; D features, r landmarks and k outputs of a view; d components; h hidden units; g
samples in the gallery. An attribute with a ``?`` may be missing, together with all others of the class that have one;
an attribute with ``??`` may be missing on its own.
"""

from collections.abc import Callable, Container, Mapping
from inspect import signature
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

Schema: TypeAlias = Mapping[str, Any]
Sizes: TypeAlias = dict[Any, Any]
Class = TypeVar("Class", bound=type)

OF_SESSION = ("resume",)  # parameters that are not stored: models move between machines
_MOST_VIEWS, _MOST_FEATURES = 1000, 10**7


class Known(NamedTuple):
    """A class that files may name."""

    cls: type
    schema: Schema
    parameters: list[str]


KNOWN: dict[str, Known] = {}
"""Classes by name. Files can name no others."""


def add_class(cls: type, schema: Schema) -> None:
    """Let files hold instances of a class."""
    KNOWN[cls.__name__] = Known(cls, schema, [name for name in signature(cls).parameters if name not in OF_SESSION])


def register(cls: Class) -> Class:
    """Let `save` and `load` take instances of a class of your own. Use it as a decorator.

    `load` passes values from the file to the constructor, which must only store them, as scikit-learn asks for.
    Register the class before you load, under the same name.

    Parameters
    ----------
    cls : type
        A subclass of an estimator of crossview. If its ``fit`` sets attributes that the base class does not have, its
        ``_schema`` adds them: by type, by shape, or as a list of one of these, for a list with one value per view.

    Examples
    --------
    >>> import crossview as cv
    >>> @cv.register
    ... class TimedMvHE(cv.MvHE):
    ...     "MvHE that knows how long it took."
    ...
    ...     _schema = {**cv.MvHE._schema, "seconds_": float}
    """
    if not isinstance(cls, type) or not hasattr(cls, "_schema"):
        raise TypeError(f"register takes a subclass of an estimator of crossview, got {cls!r}.")
    same = KNOWN[cls.__name__].cls if cls.__name__ in KNOWN else cls
    if (same.__module__, same.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"{same.__module__} has registered another {cls.__name__}: rename your class.")
    add_class(cls, cls._schema)
    return cls


def check_fitted(model: Any, fitted: Mapping[str, Any], infinite: Container[int]) -> None:
    """Refuse attributes that a class does not have, that are missing, that do not fit each other, or are infinite."""
    name = type(model).__name__
    _, schema, parameters = KNOWN[name]
    known = {key.rstrip("?"): key.count("?") for key in schema if key not in parameters}
    for key in fitted:
        if key not in known:
            raise ValueError(f"{name}.{key} is not part of a model, as {name}._schema does not have it")
    some = any(marks == 1 and key in fitted for key, marks in known.items())
    for key, marks in known.items():
        if fitted and key not in fitted and (marks == 0 or (marks == 1 and some)):
            raise ValueError(f"{name}.{key} is missing")
    values = {key: getattr(model, key) for key in parameters if key in schema} | dict(fitted)
    sizes: Sizes = {"infinite": infinite}
    for key, wanted in schema.items():
        if (key := key.rstrip("?")) in values and not _fits(values[key], wanted, sizes):
            raise ValueError(f"{name}.{key} is invalid, or does not fit the rest of the model")


def _fits(value: Any, wanted: Any, sizes: Sizes) -> bool:
    """Whether a value is what a schema wants."""
    if isinstance(wanted, list):
        if type(value) is not list or len(value) != sizes["n"]:
            return False
        return all(_fits(item, wanted[0], sizes) for sizes["view"], item in enumerate(value))
    if isinstance(wanted, str):
        return any(has_shape(value, shape, sizes) for shape in wanted.split(" or "))
    return isinstance(value, wanted) if isinstance(wanted, type | tuple) else bool(wanted(value, sizes))


def has_shape(value: Any, shape: str, sizes: Sizes, dtype: type = np.float64) -> bool:
    """Whether a value is a finite array of some shape; a symbol that is new stands for its size from now on."""
    symbols = shape.split()
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != len(symbols):
        return False
    keys = [(symbol, sizes["view"]) if symbol in "Drk" else symbol for symbol in symbols]
    fits = all(0 < size == sizes.setdefault(key, size) for key, size in zip(keys, value.shape, strict=True))
    return fits and id(value) not in sizes["infinite"]


def number(least: float = -1e300, most: float = 1e300, optional: bool = False) -> Callable[[Any, Sizes], bool]:
    """A number between limits, as NaN never is, or None if it is optional. Truth values are no numbers here."""

    def check(value: Any, sizes: Sizes) -> bool:
        if value is None or isinstance(value, bool):
            return optional and value is None
        return isinstance(value, int | float | np.integer | np.floating) and least <= float(value) <= most

    return check


def _names(value: Any, sizes: Sizes) -> bool:
    sizes["names"], sizes["n"] = value, len(value)
    return _are_texts(value) and 1 <= len(value) <= _MOST_VIEWS and len(set(value)) == len(value)


def _widths(value: Any, sizes: Sizes) -> bool:
    if type(value) is not tuple or not all(type(D) is int and 1 <= D <= _MOST_FEATURES for D in value):
        return False
    sizes.update({("D", v): D for v, D in enumerate(value)}, widths=value)
    return bool(len(value) == sizes["n"])


def _columns(value: Any, sizes: Sizes) -> bool:
    return value is None or (_are_texts(value) and len(value) == sizes["D", sizes["view"]])


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(type(text) is str for text in value)


def _image_shape(value: Any, sizes: Sizes) -> bool:
    if value is None:
        return True
    whole = type(value) is tuple and len(value) == 2 and all(type(size) is int and size >= 1 for size in value)
    return whole and {value[0] * value[1]} == set(sizes["widths"])


VIEWS: Schema = {
    "view_names_": _names,
    "n_features_": _widths,
    "n_features_in_": lambda value, sizes: value == sum(sizes["widths"]),
    "feature_names_": [_columns],
    "image_shape_": _image_shape,
}
"""What transformers remember of their views."""
