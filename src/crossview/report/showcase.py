"""Samples in the common space, and matches: what methods do with the test samples of a split."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossview._types import Array
from crossview.datasets import Dataset
from crossview.experiments.plans import Place
from crossview.metrics import distances_in_chunks
from crossview.recognition.committee import Committee
from crossview.recognition.splits import permute_labels
from crossview.recognition.tuning import standard_pipeline
from crossview.report.document import Embedding2D, Embeddings, Match, MatchBrowser, Probe
from crossview.views import Views

__all__ = ["Shown", "embeddings", "matches", "show"]

_CLASSES, _PER_CLASS = 8, 10  # that are drawn: more colours cannot be told apart
_PROBES, _RANKS = 24, 8


@dataclass(frozen=True)
class Shown:
    """The test samples of a split in the common space of a method.

    Parameters
    ----------
    latents : Views
        Where they are.
    rows : ndarray of int
        Which of the data they are.
    metric : str
        The distance that was chosen for them.
    """

    latents: Views
    rows: NDArray[np.intp]
    metric: str


def show(place: Place, result: Mapping[str, Any], data: Dataset) -> Shown:
    """Fit a cell's method again, by the parameters that were found, and map the test samples.

    Parameters
    ----------
    place : Place
        The cell, and whether a committee is meant.
    result : mapping
        What was computed of it.
    data : Dataset
        Its data.
    """
    cell, y = place.cell, np.asarray(data.y)
    train, test = cell.split.rows(y, cell.repeat)
    labels = permute_labels(y[train], cell.outliers, random_state=cell.seed)
    settings = result[place.part]["members"] if place.part else [result["best_params"]]
    members = [standard_pipeline(cell.method).set_params(**params) for params in settings]
    model = Committee(members) if place.part else members[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there was to warn of is told with the result
        latents: Views = model.fit(data.views[train], labels).transform(data.views[test])
    return Shown(latents, test, "euclidean" if place.part else result["metric"])


def embeddings(key: str, title: str, shown: Mapping[str, Shown], data: Dataset, caption: str = "") -> Embeddings:
    """The common space of every method, along the two directions in which it extends most, side by side.

    Parameters
    ----------
    key, title, caption : str
        As in `crossview.report.document.Embeddings`.
    shown : mapping of str to Shown
        By method; all of the same samples.
    data : Dataset
        Their data.
    """
    panels = {}
    for name, one in shown.items():
        labels = np.asarray(data.y)[one.rows]
        classes = np.unique(labels)[:_CLASSES]
        chosen = np.concatenate([np.flatnonzero(labels == label)[:_PER_CLASS] for label in classes])
        spots, views, names, ids = [], [], [], []
        for view, Z, seen in zip(one.latents.names, one.latents.arrays, one.latents.mask.T, strict=True):
            here = chosen[seen[chosen]]
            spots.append(Z[here])
            views += [view] * len(here)
            names += [_class_name(data, label) for label in labels[here]]
            ids += [f"sample {row}" for row in one.rows[here]]
        panels[name] = Embedding2D(_plane(np.vstack(spots)), views, names, ids)
    return Embeddings(key, title, panels, caption)


def matches(key: str, title: str, shown: Mapping[str, Shown], data: Dataset, caption: str = "") -> MatchBrowser:
    """Probes and their ranked galleries, for every method and ordered pair of views.

    Parameters
    ----------
    key, title, caption : str
        As in `crossview.report.document.MatchBrowser`.
    shown : mapping of str to Shown
        By method.
    data : Dataset
        Images.
    """
    if data.image_shape is None:
        raise ValueError("there are no images to show: matches are shown of image data.")
    pictures = _Pictures(data)
    probes = {}
    for name, one in shown.items():
        labels = np.asarray(data.y)[one.rows]
        for g, p in permutations(range(len(one.latents.names)), 2):
            found = _ranked(one, labels, g, p, pictures, data)
            probes[f"{name}: {one.latents.names[p]} looked up in {one.latents.names[g]}"] = found
    return MatchBrowser(key, title, pictures.images(), probes, caption)


def _ranked(one: Shown, labels: NDArray[Any], g: int, p: int, pictures: _Pictures, data: Dataset) -> list[Probe]:
    gallery, probes = (np.flatnonzero(one.latents.mask[:, view]) for view in (g, p))
    step = max(1, len(probes) // _PROBES)
    probes = probes[::step][:_PROBES]
    found = []
    for part, distances in distances_in_chunks(
        one.latents.arrays[g][gallery], one.latents.arrays[p][probes], one.metric
    ):
        for probe, line in zip(probes[part], distances, strict=True):
            nearest = np.argsort(line, kind="stable")[:_RANKS]
            ranked = [
                Match(pictures.number(g, one.rows[gallery[k]]), _class_name(data, labels[gallery[k]]), float(line[k]))
                for k in nearest
            ]
            found.append(Probe(pictures.number(p, one.rows[probe]), _class_name(data, labels[probe]), ranked))
    return found


class _Pictures:
    """Images that are shown, each once."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        self.numbers: dict[tuple[int, int], int] = {}

    def number(self, view: int, row: int) -> int:
        return self.numbers.setdefault((view, int(row)), len(self.numbers))

    def images(self) -> NDArray[np.uint8]:
        assert self.data.image_shape is not None
        arrays = self.data.views.arrays
        pixels = np.array([arrays[view][row] for view, row in self.numbers])
        low, high = min(np.nanmin(X) for X in arrays), max(np.nanmax(X) for X in arrays)
        grey = np.round(255 * (pixels - low) / (high - low or 1.0)).astype(np.uint8)
        return grey.reshape(-1, *self.data.image_shape)


def _plane(Z: Array) -> Array:
    """The first two principal components; a second of zeros where there is one."""
    centred = Z - Z.mean(axis=0)
    if centred.shape[1] > 2:
        centred = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    return centred if centred.shape[1] > 1 else np.column_stack([centred, np.zeros(len(centred))])


def _class_name(data: Dataset, label: Any) -> str:
    return str(data.class_names[int(np.searchsorted(np.unique(data.y), label))])
