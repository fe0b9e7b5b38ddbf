"""Embeddings in the plane, side by side, with one legend of classes and views."""

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.preprocessing import minmax_scale

from crossview._text import counted
from crossview.report.document import Embedding2D, Embeddings
from crossview.report.drawing import Drawing, Figure, marks
from crossview.report.palette import MARKERS, LegendEntry, class_colour, view_marker

_SIDE = 240.0


def embeddings(item: Embeddings) -> Figure:
    """A panel per method; a colour per class and a marker per view, the same in all of them."""
    labels = list(dict.fromkeys(str(label) for panel in item.panels.values() for label in panel.labels))
    views = list(dict.fromkeys(str(view) for panel in item.panels.values() for view in panel.views))
    groups = [_groups(panel, labels, views) for panel in item.panels.values()]
    names = [
        [str(panel.names[i]) for rows in group.values() for i in rows] if len(panel.names) else []
        for panel, group in zip(item.panels.values(), groups, strict=True)
    ]
    shared = names[:1] if names and all(some == names[0] for some in names) else names
    return Figure(
        item,
        "scatter",
        [_scatter(name, panel, group) for (name, panel), group in zip(item.panels.items(), groups, strict=True)],
        columns=4,
        legends={
            "view": [LegendEntry(view, "plain", view_marker(v)) for v, view in enumerate(views)],
            "class": [LegendEntry(label, class_colour(c), MARKERS[1]) for c, label in enumerate(labels)],
        },
        explanation="The axes of each panel are stretched to fill it.",
        data={"labels": labels, "views": views, "names": shared},
    )


def _groups(panel: Embedding2D, labels: Sequence[str], views: Sequence[str]) -> Mapping[tuple[int, int], list[int]]:
    """Samples by numbers of class and view, in order of these."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, (label, view) in enumerate(zip(panel.labels, panel.views, strict=True)):
        if np.isfinite(panel.points[i]).all():
            found.setdefault((labels.index(str(label)), views.index(str(view))), []).append(i)
    return dict(sorted(found.items()))


def _scatter(name: str, panel: Embedding2D, groups: Mapping[tuple[int, int], list[int]]) -> Drawing:
    """One panel."""
    points = np.asarray(panel.points, dtype=float).reshape(-1, 2)
    known = sorted(i for rows in groups.values() for i in rows)
    places = dict(zip(known, minmax_scale(points[known], (9, _SIDE - 9)) if known else (), strict=True))
    paths = [
        {
            "class": c,
            "view": v,
            "d": marks(((places[i][0], _SIDE - places[i][1]) for i in rows), view_marker(v).outline),
            "mark_class": f"{view_marker(v).css_class} {class_colour(c)}",
        }
        for (c, v), rows in groups.items()
    ]
    classes, views = len(set(panel.labels)), len(set(panel.views))
    found = [counted(len(points), "sample"), counted(classes, "class"), counted(views, "view")]
    description = f"{found[0]} of {found[1]} and {found[2]} in the plane."
    return Drawing("scatter", (_SIDE, _SIDE), {"paths": paths}, description, name)
