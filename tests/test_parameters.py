"""Constructors from annotated attributes, and descriptions from base classes."""

from __future__ import annotations

from dataclasses import field
from inspect import signature
from typing import ClassVar

import pytest

from crossview._parameters import parameters


@parameters
class Base:
    """Base of methods.

    Parameters
    ----------
    d : int
        Dimension.
    a, b : float
        Two weights,
        of which one is 1.

    Attributes
    ----------
    maps_ : list
        Maps.
    offsets_ : list
        Offsets.
    """

    d: int = field(default=2, kw_only=False)
    a: float = 1.0
    b: float = 0.5

    _schema: ClassVar[dict] = {"maps_": list, "offsets_??": list}


@parameters
class Method(Base):
    r"""Method.

    Minimises :math:`\alpha`.

    Parameters
    ----------
    c : str
        How.
    d : int
        Dimension, at most 3.

    References
    ----------
    .. [1] Somebody.
    """

    c: str = "now"
    a: float = 2.0

    _schema: ClassVar[dict] = {"maps_": list}


def test_constructors_store_the_annotated_attributes():
    assert vars(Method(3, b=7.0)) == {"d": 3, "a": 2.0, "b": 7.0, "c": "now"}
    assert list(signature(Method).parameters) == ["d", "a", "b", "c"]
    with pytest.raises(TypeError, match="positional"):
        Method(3, 2.0)
    assert Method() != Method()  # comparison is left to estimators


def test_what_a_docstring_does_not_describe_is_described_as_in_base_classes():
    assert (
        Method.__doc__
        == r"""Method.

Minimises :math:`\alpha`.

Parameters
----------
d : int
    Dimension, at most 3.
a, b : float
    Two weights,
    of which one is 1.
c : str
    How.

Attributes
----------
maps_ : list
    Maps.

References
----------
.. [1] Somebody."""
    )


def test_fitted_attributes_are_no_parameters():
    with pytest.raises(TypeError, match="declares maps_: annotate fitted attributes in a base class"):

        @parameters
        class Wrong(Base):
            """With a fitted attribute among the parameters."""

            maps_: list
