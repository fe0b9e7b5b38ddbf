"""What a search has to fit: a tree of settings, in which every step is fitted once for all settings that share it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crossview.views import Views

__all__ = ["LAST", "Branch", "Setting", "grow"]

Setting = dict[str, Any]

LAST = "n_components"
"""The parameter of which every embedding has all values from one fit."""


@dataclass(frozen=True)
class Branch:
    """Settings that share everything up to the embedding, which is fitted for all of them in one go.

    Parameters
    ----------
    steps : tuple of estimator
        Fitted steps before the embedding.
    embedding : Embedding
        With the parameters that the candidates share; not fitted.
    settings : list of dict
        Those in which they differ, one per candidate.
    numbers : list of int
        The candidates.
    known, new : Views
        Training and test samples after the steps.
    failure : ValueError, optional
        Why a step before the embedding cannot be fitted.
    """

    steps: tuple[Any, ...]
    embedding: Any
    settings: list[Setting]
    numbers: list[int]
    known: Views
    new: Views
    failure: ValueError | None = None

    def fits(self, y: NDArray[Any]) -> Iterator[tuple[int, Any]]:
        """The number of every candidate, and its fitted embedding, or the error that says why there is none."""
        try:
            if self.failure is not None:
                raise self.failure
            refit = self.embedding._refitter(self.known, y, self.settings)
        except ValueError as error:
            yield from ((number, error) for number in self.numbers)
            return
        for number, setting in zip(self.numbers, self.settings, strict=True):
            try:
                fitted = refit(setting)
            except ValueError as error:
                fitted = error
            yield number, fitted


def grow(
    steps: Sequence[tuple[str, Any]],
    own: Sequence[Sequence[Setting]],
    numbers: list[int],
    done: tuple[Any, ...],
    known: Views,
    y: NDArray[Any],
    new: Views,
) -> Iterator[Branch]:
    """Fit the steps before the embedding, each once for all candidates that share it.

    Parameters
    ----------
    steps : sequence of (str, estimator)
        All steps, the last of which is the embedding.
    own : sequence of sequence of dict
        Parameters of every candidate, one dict per step.
    numbers : list of int
        The candidates to go on with.
    done : tuple of estimator
        Steps that are fitted.
    known, new : Views
        Training and test samples after them.
    y : ndarray of shape (m,)
        Classes of the training samples.
    """
    place, step = len(done), steps[len(done)][1]
    last = place == len(steps) - 1
    cheap = (*step._refits, LAST) if last else step._refits
    for group in _alike(numbers, [_key(own[n][place], without=cheap) for n in numbers]):
        shared = {name: value for name, value in own[group[0]][place].items() if name not in cheap}
        settings = [{name: v for name, v in own[n][place].items() if name in cheap} for n in group]
        model = clone(step).set_params(**shared)
        if last:
            yield Branch(done, model, settings, group, known, new)
            continue
        for same, fitted in _fit_alike(model, known, y, group, settings):
            if isinstance(fitted, ValueError):
                yield Branch(done, model, [{}] * len(same), same, known, new, fitted)
            else:
                after = fitted.transform(known), y, fitted.transform(new)
                yield from grow(steps, own, same, (*done, fitted), *after)


def _fit_alike(
    model: Any, views: Views, y: NDArray[Any], numbers: list[int], settings: list[Setting]
) -> Iterator[tuple[list[int], Any]]:
    """Candidates with equal settings of a step, and that step, fitted, or the error that says why it cannot be."""
    try:
        refit = model._refitter(views, y, settings)
    except ValueError as error:
        yield numbers, error
        return
    for same in _alike(numbers, [_key(setting) for setting in settings]):
        try:
            fitted = refit(settings[numbers.index(same[0])])
        except ValueError as error:
            fitted = error
        yield same, fitted


def _alike(numbers: Sequence[int], keys: Sequence[Any]) -> list[list[int]]:
    """Numbers with equal keys, together."""
    groups: dict[Any, list[int]] = {}
    for number, key in zip(numbers, keys, strict=True):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _key(setting: Mapping[str, Any], without: Sequence[str] = ()) -> tuple[Any, ...]:
    """What is equal for equal settings; of values that are no plain ones, each is taken for another."""
    return tuple((name, _atom(value)) for name, value in sorted(setting.items()) if name not in without)


def _atom(value: Any) -> Any:
    plain = value is None or isinstance(value, str | bool | int | float | np.generic)
    return (type(value).__name__, value) if plain else id(value)
