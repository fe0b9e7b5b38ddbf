"""The report of the paper's experiments: measured next to published."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossview.datasets import Dataset
from crossview.experiments.plans import Panel
from crossview.report.comparison import (
    embeddings,
    environment_section,
    first_places,
    map_test_samples,
    matches,
)
from crossview.report.document import Item, Report, Section
from crossview.report.ranking import Results, known_scores, records
from paper.protocols import Experiment
from paper.results import items

Load = Callable[[str, Mapping[str, Any]], Dataset]


def reproduction_report(experiments: Sequence[Experiment], results: Results, load: Load, command: str) -> Report:
    """Compose the report. ``load(data, options)`` returns the data of a cell; `command` is the one that was run."""
    sections = []
    for experiment in experiments:
        found: list[Item] = []
        for panel in experiment.panels:
            found += _plane(panel, results, load) if panel.kind == "embeddings" else items(panel, results)
            if panel.kind in ("accuracy", "pairs"):
                found += _best_matches(panel, results, load)
        sections.append(Section(_heading(experiment), found, "\n\n".join(experiment.missing)))
    sections.append(environment_section([cell for experiment in experiments for cell in experiment.cells]))
    return Report(
        "Multi-view Hybrid Embedding: the paper's experiments",
        "Tables and figures of J. Xu et al., Multi-view Hybrid Embedding: A Divide-and-Conquer Approach, IEEE "
        "Transactions on Cybernetics, measured next to published. Splits are random and differ from the paper's. "
        "As in the paper, the gallery holds each probe's counterpart, the same sample in the other view. "
        "Parameters were chosen on training classes only, except for the PCA dimension where a table says so. Results "
        "with few repeats or draws are uncertain: means over the splits of two seeds can differ by several points.",
        sections,
        command,
    )


def _plane(panel: Panel, results: Results, load: Load) -> list[Item]:
    """Embeddings in two dimensions."""
    first = first_places(panel, results)
    if not first:
        return []
    cell = panel.places[0].cell
    data = load(cell.data, dict(cell.options))
    shown = {row: records(panel, results, row, panel.columns[0])[0].result or {} for row in first}
    return [embeddings(panel.key, panel.title, shown, cell, data, "Test samples of the first split.")]


def _best_matches(panel: Panel, results: Results, load: Load) -> list[Item]:
    """Matches of the best method in the first split of the first column."""
    best = next(iter(known_scores(panel, results)), None)
    if best is None:
        return []
    place = first_places(panel, results)[best]
    data = load(place.cell.data, dict(place.cell.options))
    if data.image_shape is None:
        return []
    shown = {best: map_test_samples(place, results, data)}
    caption = f"Test samples of the first split of {panel.columns[0]}, matched by its best method."
    return [matches(f"{panel.key}-matches", "Match browser", shown, data, caption)]


def _heading(experiment: Experiment) -> str:
    """The title, with the paper's number for tables and this package's name for figures."""
    kind, _, number = experiment.name.partition("-")
    if kind == "table":
        return f"Table {number} of the paper: {experiment.title}"
    return f"{experiment.title} ({experiment.name})"
