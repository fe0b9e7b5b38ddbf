"""Pictures on matplotlib axes: common spaces, cumulative match curves, and matches."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from crossview._validation import as_labels
from crossview.views import ViewInput, Views

__all__ = ["cmc", "embedding", "matches"]

_MARKERS = "osD^vP*X<>"
_MOST_CLASSES = 8  # more colours cannot be told apart
_RIGHT, _WRONG = "#1b7837", "#b2182b"  # matches


def embedding(latents: ViewInput, y: ArrayLike, *, ax: Any = None) -> Any:
    """Draw the first two components of the common space: a colour per class, up to eight, and a marker per view.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space.
    y : array-like of shape (m,)
        Their classes.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> latents = cv.MvDA().fit(data.views, data.y).transform(data.views)
    >>> cv.plot.embedding(latents, data.y).get_xlabel()
    'component 1'
    """
    views = Views(latents)
    labels = as_labels(y, len(views))
    if min(views.n_features) < 2:
        raise ValueError("the common space has one component, but two are drawn: fit with n_components=2 or more.")
    ax = _axes(ax)
    classes = np.unique(labels)
    drawn = classes[:_MOST_CLASSES]
    for c, label in enumerate(drawn):
        for X, seen, marker in zip(views.arrays, views.mask.T, cycle(_MARKERS), strict=False):
            draw_points(ax, X[seen & (labels == label), :2], color=f"C{c}", marker=marker)
    for c, label in enumerate(drawn):
        draw_points(ax, np.empty((0, 2)), color=f"C{c}", marker="s", alpha=1.0, label=label)
    for name, marker in zip(views.names, cycle(_MARKERS), strict=False):
        draw_points(ax, np.empty((0, 2)), color="0.35", marker=marker, alpha=1.0, label=name)
    if len(classes) > len(drawn):
        ax.set_title(f"{len(drawn)} of {len(classes)} classes", fontsize="small")
    ax.set(xlabel="component 1", ylabel="component 2")
    ax.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def cmc(curves: ArrayLike | Mapping[str, ArrayLike], *, ax: Any = None) -> Any:
    """Draw cumulative match characteristics.

    Parameters
    ----------
    curves : array-like, or dict of str to array-like
        Rates at rank 1, 2, …, as returned by `crossview.metrics.cmc`; several by name.
    ax : matplotlib Axes, optional
        As in `embedding`.

    Returns
    -------
    ax : matplotlib Axes
        As in `embedding`.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.plot.cmc({"MvHE": [0.8, 0.9, 1.0], "PCA": [0.3, 0.5, 0.6]}).get_ylabel()
    'share of probes found'
    """
    named = curves if isinstance(curves, Mapping) else {"": curves}
    found = {name: np.asarray(rates, dtype=np.float64) for name, rates in named.items()}
    for name, rates in found.items():
        if rates.ndim != 1 or not rates.size or not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError(f"curve {name!r} must be shares from 0 to 1, one per rank.")
    ax = _axes(ax)
    for (name, rates), marker in zip(found.items(), cycle(_MARKERS), strict=False):
        ax.plot(np.arange(1, len(rates) + 1), rates, markersize=5, marker=marker, label=name or None)
    ax.set(xlabel="rank", ylabel="share of probes found", ylim=(0.0, 1.02))
    ax.grid(alpha=0.3)
    if any(found):
        ax.legend(frameon=False, loc="lower right")
    return ax


def matches(
    probe_images: ArrayLike,
    gallery_images: ArrayLike,
    ranks: ArrayLike,
    *,
    probe_y: ArrayLike | None = None,
    gallery_y: ArrayLike | None = None,
) -> Any:
    """Draw probes next to their best matches, which are framed as right or wrong.

    Parameters
    ----------
    probe_images, gallery_images : array-like of shape (t, height, width) and (g, height, width)
        Images.
    ranks : array-like of int, shape (t, k)
        Gallery samples, the nearest first, for every probe, as returned by `CrossViewClassifier.kneighbors`.
    probe_y, gallery_y : array-like of shape (t,) and (g,), optional
        The classes; without them nothing is framed.

    Returns
    -------
    axes : ndarray of matplotlib Axes, of shape (t, k + 1)
        The axes drawn on: probes in the first column, matches in the others.

    Examples
    --------
    >>> import numpy as np
    >>> import crossview as cv
    >>> images = np.random.default_rng(0).random((4, 8, 4))
    >>> axes = cv.plot.matches(images[:2], images, [[0, 1, 2], [3, 1, 0]], probe_y=[0, 1], gallery_y=[0, 1, 0, 1])
    >>> axes.shape
    (2, 4)
    """
    probes, gallery = np.asarray(probe_images), np.asarray(gallery_images)
    nearest: NDArray[np.intp] = np.asarray(ranks)
    for images, name in ((probes, "probe_images"), (gallery, "gallery_images")):
        if images.ndim not in (3, 4):
            raise ValueError(f"{name} must be images, of shape (number, height, width), got shape {images.shape}.")
    if nearest.ndim != 2 or len(nearest) != len(probes) or nearest.dtype.kind not in "iu":
        raise ValueError("ranks must have a row of gallery numbers for every probe.")
    if nearest.size and not (nearest.min() >= 0 and nearest.max() < len(gallery)):
        raise ValueError(f"ranks must be rows of the gallery, from 0 to {len(gallery) - 1}.")
    t, k = nearest.shape
    _, axes = _pyplot().subplots(t, k + 1, figsize=(1.1 * (k + 1), 1.25 * t), squeeze=False, layout="constrained")
    for row, column in np.ndindex(t, k + 1):
        ax, image = axes[row, column], probes[row] if column == 0 else gallery[nearest[row, column - 1]]
        ax.imshow(image, cmap="gray" if image.ndim == 2 else None)
        ax.set(xticks=[], yticks=[])
        if row == 0:
            ax.set_title("probe" if column == 0 else str(column), fontsize="small")
    if probe_y is not None and gallery_y is not None:
        right = column_or_1d(gallery_y)[nearest] == column_or_1d(probe_y)[:, None]
        for ax, is_right in zip(axes[:, 1:].flat, right.flat, strict=True):
            colour = _RIGHT if is_right else _WRONG
            for spine in ax.spines.values():
                spine.set(color=colour, linewidth=2.5, linestyle="-" if is_right else ":")
            # A sign for those who cannot tell the colours apart.
            ax.set_xlabel("✓" if is_right else "✗", fontsize="small", color=colour, labelpad=1)
    return axes


def draw_points(ax: Any, points: NDArray[Any], **look: Any) -> None:
    """Draw points of shape (number, 2); `look` are properties of matplotlib's lines."""
    ax.plot(*points.T, **{"linestyle": "none", "markersize": 5, "alpha": 0.75, "markeredgewidth": 0} | look)


def _pyplot() -> Any:
    """The matplotlib interface."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'crossview[plot]'.") from error
    return pyplot


def _axes(ax: Any) -> Any:
    """The given axes, or new ones."""
    return _pyplot().subplots(layout="constrained")[1] if ax is None else ax
