"""What a search tries: the settings of its grids and those a step away from the best, and how they are fitted.

Each step of a pipeline is fitted once for all settings that share its parameters.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from crossview._text import settings_text
from crossview._transformer import MultiViewTransformer
from crossview._types import Indices, Mask
from crossview._validation import check_count
from crossview.embeddings._base import Embedding
from crossview.embeddings.hybrid import AUTO_COMPONENTS, AlignmentEmbedding
from crossview.model_selection.committee import Committee
from crossview.views import Views

Params = dict[str, Any]
Grid: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

ALL_COMPONENTS = sys.maxsize
"""The number of components to score where it is not searched for; scores cap it."""


class Candidate(NamedTuple):
    """Parameters to fit, the numbers of components to score, the other parameters in words, and where they come from.

    Settings of one origin are alike: they differ in the whitening, or in a few steps of a refinement.
    """

    params: Params
    dimensions: list[int]
    description: str
    origin: str


class Space:
    """The settings of an estimator that a search may try.

    `steps` are those of the estimator, each after the prefix of its parameter names, and `lists` the listed values of
    all grids by name. `whitening` and `components` are full names of the embedding's parameters; the latter is empty
    unless one fit serves all numbers of components.
    """

    def __init__(self, estimator: Any, param_grid: Grid) -> None:
        self.estimator = estimator
        self.grids = [dict(grid) for grid in ([param_grid] if isinstance(param_grid, Mapping) else param_grid)]
        self.steps: list[tuple[str, Any]] = [("", estimator)]
        if isinstance(estimator, Pipeline):
            self.steps = [(f"{name}__", step) for name, step in estimator.steps if step not in (None, "passthrough")]
        prefix, embedding = self.steps[-1]
        self.whitening = f"{prefix}whitening"
        self.components = f"{prefix}n_components" if getattr(embedding, "_nested_components", False) else ""
        self.lists: dict[str, list[Any]] = {}
        for name, values in (item for grid in self.grids for item in grid.items() if not hasattr(item[1], "rvs")):
            self.lists[name] = [*self.lists.get(name, []), *values]

    def check(self) -> None:
        """Refuse estimators and parameters that cannot be searched for."""
        *before, end = (step for _, step in self.steps)
        if isinstance(end, Committee):
            fix = "search for one embedding, with n_members=8 for a committee"
            raise TypeError(f"cannot search for a Committee: {fix}.")
        if not isinstance(end, Embedding):
            raise TypeError(f"estimator must be an embedding or a pipeline that ends in one, got {type(end).__name__}.")
        for step in before:
            if not isinstance(step, MultiViewTransformer):
                raise TypeError(f"{type(step).__name__} is not a multi-view transformer: use one from crossview.")
        pairwise = get_tags(self.estimator).input_tags.pairwise
        if any((kernel == "precomputed") != pairwise for kernel in self.lists.get(f"{self.steps[0][0]}kernel", [])):
            raise ValueError(
                "param_grid mixes kernels of features with kernel='precomputed', or the estimator has another kind: "
                "views are either features or kernel matrices, so search for each apart."
            )
        is_pipeline = isinstance(self.estimator, Pipeline)
        searchable = sorted(name for name in self.estimator.get_params() if "__" in name or not is_pipeline)
        for name in (name for grid in self.grids for name in grid if name not in searchable):
            raise ValueError(f"cannot search for {name!r}: use one of {', '.join(searchable)}.")

    def draw(self, n_iter: int | None, random_state: int) -> list[Candidate]:
        """Candidates from the grids: all, or the estimator's own setting and others at random."""
        grids = [dict(grid) for grid in self.grids]
        for grid in grids:
            components = grid.get(self.components)
            if components is not None and not hasattr(components, "rvs"):
                grid[self.components] = self._shared_components(list(components))
        sampled = any(hasattr(values, "rvs") for grid in grids for values in grid.values())
        if sampled and n_iter is None:
            raise ValueError("param_grid contains a distribution: set n_iter to the number of settings to draw.")
        candidates = [self.candidate(params) for params in self._settings(grids, sampled, n_iter, random_state)]
        for d in {d for candidate in candidates for d in candidate.dimensions}:
            check_count(d, self.components, least=1)
        return candidates

    def candidate(self, params: Params, origin: str = "") -> Candidate:
        """What to fit and to score for some parameters, which may list several numbers of components."""
        origin = origin or self.text(params, self.whitening, self.components)
        if not self.components:
            return Candidate(params, [ALL_COMPONENTS], settings_text(params), origin)
        value = params.get(self.components, self.estimator.get_params()[self.components])
        value = AUTO_COMPONENTS if value == "auto" else value
        others = settings_text({name: item for name, item in params.items() if name != self.components})
        return Candidate(params, list(value) if isinstance(value, tuple) else [value], others, origin)

    def with_components(self, candidate: Candidate, d: int) -> Params:
        """Parameters of a candidate with one number of components, if it is searched for and not automatic."""
        params, name = candidate.params, self.components
        return {**params, name: d} if params.get(name, "auto") != "auto" else params

    def text(self, params: Params, *but: str) -> str:
        """Parameters in words, whatever their order, but for some."""
        return settings_text({name: params[name] for name in sorted(params) if name not in but})

    def around(self, best: Sequence[Candidate], n_starts: int, tried: Sequence[Candidate]) -> list[Candidate]:
        """Candidates that differ from the best by a step in one parameter, and from all that were tried.

        Whitening and number of components aside, the best differ: of these, all listed values are tried in any case.
        """
        known, starts = {self.text(candidate.params) for candidate in tried}, dict[str, Candidate]()
        for candidate in best:
            starts.setdefault(self.text(candidate.params, self.whitening, self.components), candidate)
        found = []
        for start, *_, origin in list(starts.values())[:n_starts]:
            for name in sorted(self.lists.keys() & start.keys() - {self.components}):
                for other in adjacent_values(self.lists[name], start[name]):
                    params = {**start, name: other}
                    if (text := self.text(params)) not in known:
                        known.add(text)
                        found.append(self.candidate(params, origin))
        return found

    def _shared_components(self, listed: list[Any]) -> list[Any]:
        """Numbers of components as one tuple, which a single fit serves, and "auto", which depends on the samples."""
        automatic = ["auto"] if isinstance(self.steps[-1][1], AlignmentEmbedding) and "auto" in listed else []
        numbers = [d for d in listed if d not in automatic]
        for d in numbers:
            check_count(d, self.components, least=1)
        return ([tuple(sorted(numbers))] if numbers else []) + automatic

    def _settings(
        self, grids: list[dict[str, Any]], sampled: bool, n_iter: int | None, random_state: int
    ) -> list[Params]:
        """Settings to try. Whitenings and numbers of components share an eigen-solve: all are tried with every draw."""
        free = {
            name: values
            for name, values in grids[0].items()
            if name in (self.whitening, self.components)
            and isinstance(values, Sequence)
            and all(grid.get(name) == values for grid in grids)
        }
        rest = [{name: values for name, values in grid.items() if name not in free} for grid in grids]
        if n_iter is None or (not sampled and n_iter >= len(ParameterGrid(rest))):
            return list(ParameterGrid(grids))
        check_count(n_iter, "n_iter", least=1)
        draws, current = list(ParameterSampler(rest, n_iter, random_state=random_state)), self.estimator.get_params()
        default = {
            name: current[name] if hasattr(values, "rvs") or current[name] in list(values) else values[0]
            for name, values in rest[0].items()
        }
        if default not in draws:
            draws = [default, *draws[:-1]]
        return [{**draw, **one} for draw in draws for one in ParameterGrid(free)]


def adjacent_values(values: Sequence[Any], value: Any) -> list[Any]:
    """The values next to one among those listed, or beyond them by the ratio of the last two; None comes last.

    >>> adjacent_values([0.1, 0.3], 0.3), adjacent_values([1, 3], 1), adjacent_values(["a", "b", "c"], "a")
    ([0.1, 0.9], [3], ['b', 'c'])
    """
    is_number = [isinstance(v, Real) and not isinstance(v, bool) for v in (*values, value)]
    numbers: list[Any] = sorted({v for v, number in zip((*values, value), is_number, strict=True) if number})
    others = [v for v, number in zip(values, is_number, strict=False) if not number and v != value]
    if not is_number[-1]:
        return others + numbers[-1:]
    k = numbers.index(value)
    near = numbers[max(k - 1, 0) : k] + numbers[k + 1 : k + 2]
    listed = [v for v in numbers if v in values]
    if len(near) == 1 and len(listed) > 1 and numbers[0] > 0 and np.isfinite(numbers[-1]):
        inner, outer = listed[1::-1] if k == 0 else listed[-2:]
        beyond = value * outer / inner
        beyond = round(beyond) if all(isinstance(v, Integral) for v in numbers) else float(f"{beyond:.2g}")
        near += [beyond] if beyond > 0 and beyond != value else []
    return near + (others if k == len(numbers) - 1 else [])


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
