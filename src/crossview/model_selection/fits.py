"""Fit the candidates of a search to the training part of a fold, each step once for all that share its parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crossview._types import Indices, Mask
from crossview.model_selection.space import Candidate, Params, Space
from crossview.views import Views


class Fold(NamedTuple):
    """Rows to fit settings to, rows to score them on, and which of the latter are probes; None if all are."""

    train: Indices
    test: Indices
    probes: Mask | None = None


def part_of_fold(
    train: Indices, test: Indices, y: NDArray[Any], most: int | None, of_classes: bool, random_state: int
) -> Fold:
    """A fold with a part of the training samples, and as many probes, if there are more.

    The part is whole classes if folds split classes, and otherwise as many samples of each.
    """
    probes = None
    if most is not None and len(test) > most:
        probes = np.zeros(len(test), dtype=bool)
        probes[np.random.RandomState(random_state).permutation(len(test))[:most]] = True
    if most is None or len(train) <= most:
        return Fold(train, test, probes)
    random = np.random.RandomState(random_state)
    shuffled = random.permutation(train)
    _, codes, counts = np.unique(y[shuffled], return_inverse=True, return_counts=True)
    if of_classes:
        order = random.permutation(len(counts))
        n_classes = np.searchsorted(np.cumsum(counts[order]), most, side="right")
        if n_classes > 1:
            return Fold(np.sort(shuffled[np.isin(codes, order[:n_classes])]), test, probes)
    by_class = np.argsort(codes, kind="stable")
    place = np.empty(len(train), dtype=np.intp)  # of every sample within its class
    place[by_class] = np.arange(len(train)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Fold(np.sort(shuffled[np.argsort(place, kind="stable")[:most]]), test, probes)


@dataclass(frozen=True)
class SharedFit:
    """Candidates that share all steps before the embedding, and all parameters of it that are costly to change.

    `steps` are fitted and the embedding is not. `error` says why one of the steps cannot be fitted.
    """

    steps: tuple[Any, ...]
    embedding: Any
    numbers: list[int]
    params: list[Params]
    train: Views
    y: NDArray[Any]
    test: Views
    error: ValueError | None = None

    def fit(self, wanted: Sequence[int] | None = None) -> Iterator[Any]:
        """The fitted embeddings of the candidates, or of those wanted, or the errors that prevent the fits."""
        rows = [k for k, number in enumerate(self.numbers) if wanted is None or number in wanted]
        if self.error is not None:
            return iter([self.error] * len(rows))
        return _fit_each(self.embedding, self.params, self.train, self.y, rows)


def shared_fits(
    space: Space,
    candidates: Sequence[Candidate],
    numbers: Sequence[int],
    train: Views,
    y: NDArray[Any],
    test: Views,
    fitted: tuple[Any, ...] = (),
) -> Iterator[SharedFit]:
    """Fits of some of the candidates, grouped by what they share; `train` and `test` have passed the `fitted` steps."""
    prefix, step = space.steps[len(fitted)]
    is_embedding = len(fitted) == len(space.steps) - 1
    cheap = {*step._refits, "n_components"} if is_embedding else {*step._refits}
    costly, changes = dict[int, Params](), dict[int, Params]()
    for c in numbers:
        given = space.with_components(candidates[c], max(candidates[c].dimensions))
        own = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
        costly[c] = {name: value for name, value in own.items() if name not in cheap}
        changes[c] = {name: value for name, value in own.items() if name in cheap}
    for group in _group(numbers, costly):
        model = clone(step).set_params(**costly[group[0]])
        if is_embedding:
            yield SharedFit(fitted, model, group, [changes[c] for c in group], train, y, test)
            continue
        equal = _group(group, changes)
        fits = _fit_each(model, [changes[same[0]] for same in equal], train, y, range(len(equal)))
        for same, fit in zip(equal, fits, strict=True):
            if isinstance(fit, ValueError):
                yield SharedFit(fitted, model, same, [], train, y, test, fit)
            else:
                mapped = fit._mapped(train), y, fit._mapped(test)
                yield from shared_fits(space, candidates, same, *mapped, (*fitted, fit))


def _fit_each(
    model: Any, params: Sequence[Params], views: Views, y: NDArray[Any], rows: Sequence[int]
) -> Iterator[Any]:
    """Yield the model fitted with some rows of the parameters, or the error that prevents the fit.

    What is prepared for them depends on all parameters, not on the rows, so a search that resumes gets the same fits.
    """
    try:
        refit = model._refitter(views, y, params)
    except ValueError as error:
        yield from [error] * len(rows)
        return
    for row in rows:
        try:
            yield refit(params[row])
        except ValueError as error:
            yield error


def _group(numbers: Sequence[int], params: Mapping[int, Params]) -> list[list[int]]:
    """Group candidates with equal parameters. Values that are not plain, such as arrays, are compared by identity."""
    plain = (str, bool, int, float, np.generic, type(None))
    groups: dict[Any, list[int]] = {}
    for number in numbers:
        key = tuple(
            (name, type(value).__name__, value if isinstance(value, plain) else id(value))
            for name, value in sorted(params[number].items())
        )
        groups.setdefault(key, []).append(number)
    return list(groups.values())
