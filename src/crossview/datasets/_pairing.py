"""Which samples of several views are the same, by their names."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from crossview._text import first_few
from crossview._types import Array
from crossview.views import Views

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_MAX_NAME = 1000  # characters: a search may take time that is a power of it
_LEAST_MATCHED = 0.1  # of what could match; fewer match by chance


def unique(items: Iterable[tuple[Key, Value]], clash: Callable[[Key, Value, Value], str]) -> dict[Key, Value]:
    """A dictionary of items; where two have the same key, `clash` says what is wrong."""
    found: dict[Key, Value] = {}
    for key, value in items:
        if key in found:
            raise ValueError(clash(key, found[key], value))
        found[key] = value
    return found


def ranks(groups: Iterable[Hashable]) -> list[int]:
    """The position of every item among those of its group, from 1."""
    seen: Counter[Hashable] = Counter()
    found = []
    for group in groups:
        seen[group] += 1
        found.append(seen[group])
    return found


def paired(
    samples: Mapping[tuple[str, Key], Array],
    views: Iterable[str],
    keys: Sequence[Key],
    image_shape: tuple[int, int] | None = None,
) -> Views:
    """Views whose row k is the sample with key k; a row of NaN where a view has none."""
    arrays = {}
    for view in views:
        missing = np.full(next(len(row) for (name, _), row in samples.items() if name == view), np.nan)
        arrays[view] = np.array([samples.get((view, key), missing) for key in keys])
    return Views(arrays, image_shape=image_shape)


def keys_by_pattern(pattern: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the group called class finds in each name, and what the others do, joined by hyphens."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"pair_by is not a regular expression, {pattern} ({error}): correct it.") from error
    if not compiled.groups:
        raise ValueError(f"pair_by has no group, {pattern}: put the part that identifies a sample in parentheses.")
    if long := [name for name in names if len(name) > _MAX_NAME]:
        raise ValueError(f"{long[0][:50]}… has more than {_MAX_NAME} characters, too many for pair_by: shorten it.")
    found = [compiled.search(name) for name in names]
    if missed := [name for name, one in zip(names, found, strict=True) if one is None]:
        raise ValueError(
            f"pair_by does not match {first_few(missed)} ({len(missed)} of {len(names)} names), {pattern}: correct it."
        )
    groups = [list(one.groups("")) for one in found if one is not None]
    named = compiled.groupindex.get("class")
    return [("" if named is None else texts.pop(named - 1), "-".join(texts)) for texts in groups]


def check_pairs(
    views: Sequence[str], labels: Mapping[tuple[str, Key], str], ending: str, fix: str, by_pattern: bool
) -> None:
    """Refuse views whose samples do not match, and warn of samples that are in one view only.

    `labels` has what to call each sample, by view and key; `ending` follows the names of views; `fix` says what to do
    about names that do not match, unless a pattern has found them already.
    """
    if len(views) < 2:
        return
    keys = {view: {key for name, key in labels if name == view} for view in views}
    alone: dict[str, list[str]] = {}
    for view, own in keys.items():
        others = {name: other for name, other in keys.items() if name != view}
        alone[view] = sorted(labels[view, key] for key in own.difference(*others.values()))
        # A large gallery with few partners is fine as long as the smaller view finds its own.
        if len(own) - len(alone[view]) < _LEAST_MATCHED * min(len(own), max(map(len, others.values()))):
            elsewhere = " or ".join(f"{name}{ending}" for name in others)
            raise ValueError(
                f"{alone[view][0]} has no counterpart in {elsewhere}; {len(alone[view])} of {len(own)} unmatched. {fix}"
            )
    if n_alone := sum(map(len, alone.values())):
        first = next(labels[0] for labels in alone.values() if labels)
        verb, them = ("is", "it") if n_alone == 1 else ("are", "them")
        hint = "" if by_pattern else " If another view has them under other names, use --pair-by (pair_by= in Python)."
        warnings.warn(
            f"{n_alone} of {len(set().union(*keys.values()))} samples {verb} in one view only (first: {first}); "
            f"training leaves {them} out.{hint}",
            stacklevel=4,
        )
