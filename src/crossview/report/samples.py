"""Test samples of a split in the common space of each method: their embeddings and matches."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview.datasets import Dataset
from crossview.experiments.cells import Cell, decoded
from crossview.experiments.plans import Place
from crossview.experiments.tasks import drawn_samples, spread_out
from crossview.model_selection.committee import Committee
from crossview.model_selection.tuning import standard_pipeline
from crossview.neighbours.distances import distances_in_chunks, nearest
from crossview.report.document import Embeddings, MatchBrowser, Probe
from crossview.report.results import Results
from crossview.views import Views

_PROBES, _RANKS = 24, 8


@dataclass(frozen=True)
class MappedSamples:
    """The test samples of a split in the common space of a method."""

    latents: Views
    rows: NDArray[np.intp]  # of the data
    metric: str
    counterparts: bool = False  # whether the gallery keeps each probe's counterpart


def map_test_samples(place: Place, results: Results, data: Dataset) -> MappedSamples:
    """Fit a computed cell's method again with the parameters that its search found, and map the test samples."""
    cell, y = place.cell, np.asarray(data.y)
    result: Mapping[str, Any] = results[cell].result or {}
    train, test = cell.split.rows(y, cell.repeat)
    settings = result[place.part]["members"] if place.part else [result["best_params"]]
    members = [
        standard_pipeline(cell.method).set_params(**{name: decoded(value) for name, value in params.items()})
        for params in settings
    ]
    several = len(members) > 1  # the search keeps the best setting alone where a committee is no better
    model = Committee(members) if several else members[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings were recorded with the result
        latents = Views(model.fit(data.views[train], y[train]).transform(data.views[test]))
    return MappedSamples(latents, test, "euclidean" if several else result["metric"], cell.counterparts)


def embeddings(
    key: str, title: str, found: Mapping[str, Mapping[str, Any]], cell: Cell, data: Dataset, caption: str = ""
) -> Embeddings:
    """The planes of several results on the split of a cell, all of the same samples."""
    y = np.asarray(data.y)
    _, test = cell.split.rows(y, cell.repeat)
    chosen = test[drawn_samples(y[test])]
    shown = [
        (view, row)
        for view, seen in zip(data.views.names, data.views.mask.T, strict=True)
        for row in chosen
        if seen[row]
    ]
    views, names = [view for view, _ in shown], [_class_name(data, y[row]) for _, row in shown]
    ids = [f"sample {row}" for _, row in shown]
    planes = {name: np.array(result["plane"]) for name, result in found.items()}
    return Embeddings(key, title, planes, views, names, ids, caption)


def matches(
    key: str, title: str, mapped: Mapping[str, MappedSamples], data: Dataset, caption: str = ""
) -> MatchBrowser:
    """Probes and their ranked matches, for every method and ordered pair of views; the data must be images."""
    if data.image_shape is None:
        raise ValueError("there are no images to show: matches need image data.")
    numbers: dict[tuple[int, int], int] = {}  # of the pictures, by view and row
    probes = {}
    for name, one in mapped.items():
        for g, p in permutations(range(len(one.latents.names)), 2):
            heading = f"{name}: {one.latents.names[p]} looked up in {one.latents.names[g]}"
            probes[heading] = _ranked(one, g, p, numbers, np.asarray(data.y)[one.rows])
    arrays = data.views.arrays
    pixels = np.array([arrays[view][row] for view, row in numbers])
    low, high = min(np.nanmin(X) for X in arrays), max(np.nanmax(X) for X in arrays)
    grey = np.round(255 * (pixels - low) / (high - low or 1.0)).astype(np.uint8)
    labels = [_class_name(data, data.y[row]) for _, row in numbers]
    return MatchBrowser(key, title, grey.reshape(-1, *data.image_shape), labels, probes, caption)


def _ranked(one: MappedSamples, g: int, p: int, numbers: dict[tuple[int, int], int], y: NDArray[Any]) -> list[Probe]:
    """Some probes of view p with their nearest samples of view g; pictures are numbered as they come."""
    gallery, probes = (np.flatnonzero(one.latents.mask[:, view]) for view in (g, p))
    probes = spread_out(probes, _PROBES)
    G, P = one.latents.arrays[g][gallery], one.latents.arrays[p][probes]
    distances, columns = nearest(distances_in_chunks(G, P, one.metric), min(_RANKS + 1, len(gallery)))

    def image(view: int, row: int) -> int:
        return numbers.setdefault((view, int(one.rows[row])), len(numbers))

    found: list[Probe] = []
    for probe, ranks, of_ranks in zip(probes, gallery[columns], distances, strict=True):
        others = (y[gallery] == y[probe]) & (gallery != probe)
        kept = np.flatnonzero((ranks != probe) | one.counterparts | ~others.any())[:_RANKS]
        found.append((image(p, int(probe)), [(image(g, int(ranks[k])), float(of_ranks[k])) for k in kept]))
    return found


def _class_name(data: Dataset, label: Any) -> str:
    """The name of a class."""
    return str(data.class_names[int(np.searchsorted(np.unique(data.y), label))])
