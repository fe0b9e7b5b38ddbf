"""Which samples of several views are the same, by their names."""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TypeVar

from crossview.datasets._files import listed

Key = TypeVar("Key")

_MAX_PATTERN = 200
_MAX_NAME = 1000
_MAX_SECONDS = 10
# Fewer matches than this share of what could match come from names that happen to agree.
_FEW = 0.1
_SEARCH = """
import json, re, sys
pattern, names = json.load(sys.stdin)
search = re.compile(pattern).search
json.dump([found and found.groups("") for found in map(search, names)], sys.stdout)
"""


def keys_by_pattern(pattern: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the groups of a regular expression find in each name: that of the group called class, and the others.

    The others are joined by hyphens. The search runs in a process of its own, because Python has no other way to end
    one that takes exponential time.
    """
    groups = _search(pattern, names)
    missed = [name for name, found in zip(names, groups, strict=True) if found is None]
    if missed:
        raise ValueError(
            f"pair_by does not match {listed(missed)} ({len(missed)} of {len(names)} names), {pattern}: correct it."
        )
    of_class = re.compile(pattern).groupindex.get("class", 0) - 1
    return [
        (found[of_class] if of_class >= 0 else "", "-".join(text for g, text in enumerate(found) if g != of_class))
        for found in groups
        if found is not None
    ]


def _search(pattern: str, names: Sequence[str]) -> list[list[str] | None]:
    """The groups of the first match in each name; None where there is no match."""
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"pair_by has {len(pattern)} characters, but the limit is {_MAX_PATTERN}: make it shorter.")
    try:
        n_groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"pair_by is not a regular expression, {pattern} ({error}): correct it.") from error
    if not n_groups:
        raise ValueError(f"pair_by has no group, {pattern}: put the part that identifies a sample in parentheses.")
    if long := [name for name in names if len(name) > _MAX_NAME]:
        raise ValueError(f"{long[0][:50]}… has more than {_MAX_NAME} characters, too many for pair_by: shorten it.")
    command = [sys.executable, "-I", "-S", "-c", _SEARCH]
    try:
        text = json.dumps([pattern, list(names)])
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_MAX_SECONDS, check=True)
    except subprocess.SubprocessError as error:
        raise ValueError(
            f"pair_by cannot search the names within {_MAX_SECONDS} s, {pattern}: write it without a repetition in a "
            "repetition."
        ) from error
    found: list[list[str] | None] = json.loads(done.stdout)
    return found


def check_pairs(keys: Mapping[str, Set[Key]], label: Callable[[str, Key], str], place: str, fix: str) -> None:
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
        view = next(name for name in alone if alone[name])
        warnings.warn(
            f"{n_alone} of {len(set().union(*keys.values()))} samples are in one view only, for example "
            f"{min(label(view, key) for key in alone[view])}: fits leave them out. If another view has them under "
            "other names, rename them or use pair_by.",
            stacklevel=4,
        )
