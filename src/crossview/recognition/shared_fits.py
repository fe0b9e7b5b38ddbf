"""Fit many candidates of a pipeline, each step once for all candidates that share its parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crossview.views import Views

Params = dict[str, Any]


@dataclass(frozen=True)
class SharedFit:
    """Candidates that share all steps before the embedding, and all parameters of it that are costly to change.

    `steps` are fitted and the embedding is not. `error` says why one of the steps cannot be fitted.
    """

    steps: tuple[Any, ...]
    embedding: Any
    candidates: list[int]
    params: list[Params]
    train: Views
    y: NDArray[Any]
    test: Views
    error: ValueError | None = None

    def fit(self, wanted: Sequence[int] | None = None) -> Iterator[Any]:
        """The fitted embeddings of the candidates, or of those wanted, or the errors that prevent the fits."""
        rows = [k for k, candidate in enumerate(self.candidates) if wanted is None or candidate in wanted]
        if self.error is not None:
            return iter([self.error] * len(rows))
        return _fit_each(self.embedding, self.params, self.train, self.y, rows)


def shared_fits(
    steps: Sequence[Any],
    params: Sequence[Sequence[Params]],
    candidates: list[int],
    train: Views,
    y: NDArray[Any],
    test: Views,
    fitted: tuple[Any, ...] = (),
) -> Iterator[SharedFit]:
    """Fit the steps before the embedding, each once for all candidates that share it.

    `params` has one dict per candidate and step. `fitted` are the first steps; `train` and `test` have passed them.
    """
    i, step = len(fitted), steps[len(fitted)]
    is_embedding = i == len(steps) - 1
    cheap = {*step._refits, "n_components"} if is_embedding else {*step._refits}
    costly = {c: {name: value for name, value in params[c][i].items() if name not in cheap} for c in candidates}
    changes = {c: {name: value for name, value in params[c][i].items() if name in cheap} for c in candidates}
    for group in _group(candidates, costly):
        model = clone(step).set_params(**costly[group[0]])
        if is_embedding:
            yield SharedFit(fitted, model, group, [changes[c] for c in group], train, y, test)
            continue
        equal = _group(group, changes)
        fits = _fit_each(model, [changes[same[0]] for same in equal], train, y)
        for same, fit in zip(equal, fits, strict=True):
            if isinstance(fit, ValueError):
                yield SharedFit(fitted, model, same, [], train, y, test, fit)
            else:
                mapped = fit.transform(train), y, fit.transform(test)
                yield from shared_fits(steps, params, same, *mapped, (*fitted, fit))


def _fit_each(
    model: Any, params: Sequence[Params], views: Views, y: NDArray[Any], rows: Sequence[int] | None = None
) -> Iterator[Any]:
    """Yield the model fitted with each of the parameters, or those in some rows, or the error that prevents the fit.

    What is prepared for them depends on all parameters, not on the rows, so a search that resumes gets the same fits.
    """
    rows = range(len(params)) if rows is None else rows
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


def _group(candidates: Sequence[int], params: Mapping[int, Params]) -> list[list[int]]:
    """Group candidates with equal parameters. Values that are not plain, such as arrays, are compared by identity."""
    plain = (str, bool, int, float, np.generic, type(None))
    groups: dict[Any, list[int]] = {}
    for candidate in candidates:
        key = tuple(
            (name, type(value).__name__, value if isinstance(value, plain) else id(value))
            for name, value in sorted(params[candidate].items())
        )
        groups.setdefault(key, []).append(candidate)
    return list(groups.values())
