"""Which samples of several views are the same, by their names."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TypeVar

from crossview._text import first_few

Key = TypeVar("Key")

_MAX_NAME = 1000  # characters: a search may take time that is a power of it
# Fewer matches than this share of what could match come from names that happen to agree.
_FEW = 0.1


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
    keys: Mapping[str, Set[Key]], label: Callable[[str, Key], str], place: str, fix: str, by_pattern: bool
) -> None:
    """Refuse views whose names do not match, and warn of samples that are in one view only.

    Parameters
    ----------
    keys : dict of set
        The samples of each view.
    label : callable
        What to call a sample of a view.
    place : str
        What to call a view, with braces for its name.
    fix : str
        What to do about names that do not match.
    by_pattern : bool
        Whether a pattern has found the names already.
    """
    if len(keys) < 2:
        return
    alone: dict[str, Set[Key]] = {}
    for view, samples in keys.items():
        others = [other for name, other in keys.items() if name != view]
        alone[view] = samples - set().union(*others)
        # A large gallery with few partners is fine as long as the smaller view finds its own.
        possible = min(len(samples), max(map(len, others)))
        if len(samples) - len(alone[view]) < _FEW * possible:
            first = min(label(view, key) for key in alone[view])
            elsewhere = " or ".join(place.format(name) for name in keys if name != view)
            raise ValueError(
                f"{first} has no counterpart in {elsewhere}; {len(alone[view])} of {len(samples)} unmatched. {fix}"
            )
    if n_alone := sum(map(len, alone.values())):
        view, verb = next(name for name in alone if alone[name]), "is" if n_alone == 1 else "are"
        hint = " If another view has them under other names, use --pair-by (pair_by= in Python)."
        warnings.warn(
            f"{n_alone} of {len(set().union(*keys.values()))} samples {verb} in one view only (first: "
            f"{min(label(view, key) for key in alone[view])}); training leaves {'it' if n_alone == 1 else 'them'} out."
            f"{'' if by_pattern else hint}",
            stacklevel=4,
        )
