"""Parameters of estimators, declared once: constructors from annotated attributes, descriptions from base classes."""

import inspect
import re
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Estimator = TypeVar("Estimator", bound=type)

_TITLE = re.compile(r"\n\n(?=[A-Z][a-z]+\n-{3})")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(cls: Estimator) -> Estimator:
    """Give a class a constructor, which stores the annotated attributes, and complete its docstring. A decorator.

    Attributes are keyword parameters, those of base classes first. What the docstring does not describe, of the
    parameters and of the fitted attributes in ``_schema``, is described as in the base classes.
    """
    if learnt := [name for name in inspect.get_annotations(cls) if name.endswith("_")]:
        raise TypeError(f"{cls.__name__} declares {', '.join(learnt)}: annotate fitted attributes in a base class.")
    dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    summary, *sections = _TITLE.split(inspect.cleandoc(cls.__doc__ or ""))
    known, own = _known_entries(cls, "Parameters"), _own_entries(cls, "Parameters")
    described = {"Parameters": [known[name] for name in inspect.signature(cls).parameters if name in known] + own}
    known, own = _known_entries(cls, "Attributes"), _own_entries(cls, "Attributes")
    fitted = {name.rstrip("?") for name in getattr(cls, "_schema", ())}
    described["Attributes"] = own + [entry for name, entry in known.items() if name in fitted]
    parts = ["\n".join([title, "-" * len(title), *dict.fromkeys(found)]) for title, found in described.items() if found]
    cls.__doc__ = "\n\n".join([summary, *parts, *(part for part in sections if part.split("\n")[0] not in described)])
    return cls


def _known_entries(cls: type, title: str) -> dict[str, str]:
    """Name → entry of a section, that of the first class in the method resolution order."""
    known: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        known |= {name: entry for entry in _own_entries(base, title) for name in _names(entry)}
    return known


def _own_entries(cls: Any, title: str) -> list[str]:
    """The entries of a section of the docstring of a class: a line with the names, and the description below it."""
    sections = _TITLE.split(inspect.cleandoc(cls.__doc__ or ""))
    (text,) = [part.split("\n", 2)[2] for part in sections if part.startswith(f"{title}\n")] or [""]
    return re.split(r"\n(?=\S)", text) if text else []


def _names(entry: str) -> list[str]:
    return entry.split("\n", 1)[0].split(" : ")[0].split(", ")
