"""Figures of a report as files, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from math import ceil, isfinite
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np

from crossview.report.charts import tick_text, x_ticks, y_ticks
from crossview.report.document import Bars, Curves, Embeddings, HeatMaps, MatchBrowser
from crossview.report.palette import CLASS_COLOURS, VIEW_MARKERS, Palette, ink_on, scale_colour
from crossview.report.panels import groups_of
from crossview.report.svg import clip, extent
from crossview.report.words import decimals, number

__all__ = ["Figure", "draw"]

Figure: TypeAlias = Bars | Curves | HeatMaps | Embeddings | MatchBrowser

# Nothing in names is a formula, letters in files stay letters, and the same report gives the same files.
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "crossview",
    "text.parse_math": False,
}
_METADATA: Mapping[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
_MOST_PROBES, _MOST_MATCHES = 6, 8
_RIGHT, _WRONG, _SOFT = "#1b7837", "#b2182b", "#56606e"


def draw(item: Figure, palette: Palette) -> dict[str, bytes]:
    """A figure as PNG (200 dots an inch), SVG and PDF.

    Parameters
    ----------
    item : Bars, Curves, HeatMaps, Embeddings or MatchBrowser
        What to draw.
    palette : Palette
        The colours of names.

    Returns
    -------
    files : dict of str to bytes
        By kind.
    """
    matplotlib = _matplotlib()
    drawers: Mapping[type, Callable[[Any, Any, Palette], None]] = {
        Bars: _bars,
        Curves: _curves,
        HeatMaps: _heat_maps,
        Embeddings: _embeddings,
        MatchBrowser: _matches,
    }
    found = {}
    with matplotlib.rc_context(_STYLE):
        figure = matplotlib.figure.Figure(layout="constrained")
        drawers[type(item)](figure, item, palette)
        for kind, metadata in _METADATA.items():
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, dpi=200, metadata=metadata)
            found[kind] = stream.getvalue()
    return found


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ImportError(
            "static figures need matplotlib: pip install 'crossview[plot]', or write the report with static=False."
        ) from error
    return matplotlib


def _short(text: str) -> str:
    """A name that leaves room for what it names."""
    return clip(text, 24)


def _grid(figure: Any, count: int, columns: int, size: tuple[float, float], beside: float = 0.0) -> list[Any]:
    """Axes of panels, ``columns`` to a row, each of a size in inches, and room beside them."""
    columns = max(min(columns, count), 1)
    rows = max(ceil(count / columns), 1)
    figure.set_size_inches(size[0] * columns + beside, size[1] * rows + 0.5)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    return axes[:count]


def _bars(figure: Any, item: Bars, palette: Palette) -> None:
    names = list(item.series)
    axes = _grid(figure, len(item.groups), 2, (3.6, 0.17 * len(names) + 0.9))
    for k, (ax, group) in enumerate(zip(axes, item.groups, strict=True)):
        for row, name in enumerate(names):
            entry = item.series[name][k]
            if entry.mean is not None and isfinite(entry.mean):
                whisker = {"ecolor": "#1c222b", "elinewidth": 0.9, "capsize": 2}
                ax.barh(row, entry.mean, 0.7, xerr=entry.sd, color=palette.colour(name), alpha=0.85, error_kw=whisker)
            if entry.published is not None:
                ax.plot(
                    entry.published, row, "D", markersize=3.6, markerfacecolor="w", markeredgecolor="#1c222b", zorder=3
                )
        ax.set(title=_short(group), xlabel=_short(item.y_label))
        ax.set_yticks(range(len(names)), [_short(name) for name in names])
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", alpha=0.3)
        ax.set_axisbelow(True)
    ends = [ax.get_xlim() for ax in axes]
    for ax in axes:
        ax.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))


def _curves(figure: Any, item: Curves, palette: Palette) -> None:
    figure.set_size_inches(6.4, 3.6)
    ax = figure.subplots()
    for name, curve in item.curves.items():
        lengths = [float(length) for length in palette.dash(name).split()]
        style: Any = (0, lengths) if lengths else "-"
        every = max(1, ceil(len(curve.x) / 14))
        x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
        look = {"color": palette.colour(name), "linestyle": style, "marker": palette.marker(name).name}
        ax.plot(x, y, **look, markevery=every, markersize=4, linewidth=1.4, label=_short(name))
        if curve.sd is not None:
            sd = np.asarray(curve.sd, dtype=float)
            ax.fill_between(x, y - sd, y + sd, color=look["color"], alpha=0.13, linewidth=0)
    if item.log_x:
        ax.set_xscale("log")
    places, axis = x_ticks(item), y_ticks(item)
    ax.set_xticks(places, [tick_text(place) for place in places])
    ax.set_xticks([], minor=True)
    ax.set(xlabel=_short(item.x_label), ylabel=_short(item.y_label), yticks=axis, ylim=(axis[0], axis[-1]))
    ax.grid(alpha=0.3)
    if item.curves:
        figure.legend(loc="outside right upper", handlelength=3)


def _heat_maps(figure: Any, item: HeatMaps, palette: Palette) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    colours = LinearSegmentedColormap.from_list("crossview", [scale_colour(k / 8) for k in range(9)])
    low, high = extent(value for grid in item.maps.values() for value in np.ravel(grid.values))
    digits = decimals([low, high])
    axes = _grid(figure, len(item.maps), 3, (2.9, 2.5))
    drawn = None
    for ax, (name, grid) in zip(axes, item.maps.items(), strict=True):
        values = np.asarray(grid.values, dtype=float)
        drawn = ax.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
        ax.set(title=_short(name), xlabel=_short(item.x_label), ylabel=_short(item.y_label))
        ax.set_xticks(
            range(len(grid.x)),
            [clip(x, 10) for x in grid.x],
            rotation=90 if max(map(len, grid.x), default=0) > 3 else 0,
        )
        ax.set_yticks(range(len(grid.y)), [clip(y, 10) for y in grid.y])
        ax.spines[:].set_visible(False)
        if np.isfinite(values).any():
            i, j = np.unravel_index(np.nanargmax(values), values.shape)
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="k", linewidth=1.3))
        if values.shape[1] <= 8:
            for (i, j), value in np.ndenumerate(values):
                if isfinite(value):
                    colour = scale_colour((value - low) / (high - low) if high > low else 0.5)
                    ax.text(j, i, number(value, digits), ha="center", va="center", fontsize=6.5, color=ink_on(colour))
    if drawn is not None:
        figure.colorbar(drawn, ax=axes, label=_short(item.unit), shrink=0.8)


def _embeddings(figure: Any, item: Embeddings, palette: Palette) -> None:
    labels = list(dict.fromkeys(str(label) for panel in item.panels.values() for label in panel.labels))
    views = list(dict.fromkeys(str(view) for panel in item.panels.values() for view in panel.views))
    colours = [CLASS_COLOURS[c % len(CLASS_COLOURS)].light for c in range(len(labels))]
    markers = [VIEW_MARKERS[v % len(VIEW_MARKERS)].name for v in range(len(views))]
    legend_columns = ceil((len(labels) + len(views)) / 24)
    width = 0.4 + 0.075 * max((len(_short(name)) for name in (*labels, *views)), default=0)
    axes = _grid(figure, len(item.panels), 5, (1.7, 1.8), legend_columns * width)
    for ax, (name, panel) in zip(axes, item.panels.items(), strict=True):
        for (c, v), group in groups_of(panel, labels, views).items():
            points = np.asarray(panel.points, dtype=float)[group]
            ax.scatter(
                *points.T,
                color=colours[c],
                marker=markers[v],
                s=7,
                alpha=0.8,
                linewidths=0.8 if markers[v] in "+x" else 0,
            )
        ax.set(title=_short(name), xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color="0.85")
    if axes:
        handles = [
            axes[0].scatter([], [], color=_SOFT, marker=m, s=18, label=_short(view))
            for m, view in zip(markers, views, strict=True)
        ]
        handles += [
            axes[0].scatter([], [], color=c, marker="s", s=18, label=_short(name))
            for c, name in zip(colours, labels, strict=True)
        ]
        figure.legend(handles=handles, loc="outside right upper", ncols=legend_columns, fontsize=7)


def _matches(figure: Any, item: MatchBrowser, palette: Palette) -> None:
    """A sheet of the first probes of every method and pair of views, with their nearest matches."""
    each = max(1, _MOST_PROBES // max(len(item.probes), 1))
    lines = [(name, probe) for name, probes in item.probes.items() for probe in probes[:each]]
    columns = 1 + min(max((len(probe.matches) for _, probe in lines), default=0), _MOST_MATCHES)
    heads = {name: fill(clip(name, 120), 18) for name in item.probes}
    longest = max((len(line) for head in heads.values() for line in head.splitlines()), default=0)
    figure.set_size_inches(0.8 * columns + 0.5 + 0.065 * longest, 1.05 * max(len(lines), 1))
    axes = figure.subplots(max(len(lines), 1), columns, squeeze=False)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    for row, (name, probe) in zip(axes, lines, strict=False):
        row[0].imshow(item.images[probe.image], cmap="gray", vmin=0, vmax=255)
        row[0].set_xlabel(clip(probe.label, 12), fontsize=7, labelpad=2)
        row[0].set_ylabel(heads[name], fontsize=7, rotation=0, ha="right", va="center")
        for ax, match in zip(row[1:], probe.matches, strict=False):
            right = match.label == probe.label
            colour = _RIGHT if right else _WRONG
            ax.imshow(item.images[match.image], cmap="gray", vmin=0, vmax=255)
            ax.spines[:].set(visible=True, color=colour, linewidth=2, linestyle="-" if right else ":")
            ax.set_xlabel(f"{'✓' if right else '✗'} {clip(match.label, 12)}", fontsize=7, color=colour, labelpad=2)
