"""Pictures: common spaces, cumulative match curves, and matches themselves. They need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from crossview._types import Array
from crossview.views import ViewInput, Views

__all__ = ["CMCDisplay", "EmbeddingDisplay", "MatchesDisplay", "cmc", "embedding", "matches"]

_MARKERS = "osD^vP*X<>"
_RIGHT, _WRONG = "#1b7837", "#b2182b"


def embedding(
    latents: ViewInput,
    y: ArrayLike,
    *,
    components: tuple[int, int] = (0, 1),
    class_names: Sequence[str] | None = None,
    max_classes: int = 8,
    ax: Any = None,
) -> EmbeddingDisplay:
    """Draw samples in two dimensions of the common space: a colour per class, a marker per view.

    Parameters
    ----------
    latents : Views, or list, tuple or dict of array-like, each of shape (m, d)
        Every view's samples in the common space.
    y : array-like of shape (m,)
        Their classes.
    components : tuple of int
        Which two components to draw.
    class_names : sequence of str, optional
        Names of the classes, in sorted order of their labels.
    max_classes : int
        Draw the first so many classes only: more colours cannot be told apart.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    display : EmbeddingDisplay
        With ``figure_`` and ``ax_``.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> latents = cv.MvDA().fit(data.views, data.y).transform(data.views)
    >>> display = cv.plot.embedding(latents, data.y)
    >>> display.ax_.get_xlabel()
    'component 1'
    """
    display = EmbeddingDisplay(latents, y, components=components, class_names=class_names, max_classes=max_classes)
    return display.plot(ax)


class EmbeddingDisplay:
    """Samples in two dimensions of the common space; see `embedding`.

    Parameters
    ----------
    latents, y, components, class_names, max_classes
        As in `embedding`.

    Attributes
    ----------
    figure_, ax_
        What was drawn on.
    """

    figure_: Any
    ax_: Any

    def __init__(
        self,
        latents: ViewInput,
        y: ArrayLike,
        *,
        components: tuple[int, int] = (0, 1),
        class_names: Sequence[str] | None = None,
        max_classes: int = 8,
    ) -> None:
        self.latents = Views(latents)
        self.y = column_or_1d(y)
        if len(self.y) != len(self.latents):
            raise ValueError(f"y has {len(self.y)} labels for {len(self.latents)} samples: give one label per row.")
        if max(components) >= min(self.latents.n_features) or min(components) < 0:
            raise ValueError(f"components={components} but the common space has {min(self.latents.n_features)}.")
        classes = np.unique(self.y)
        self.components = components
        self.classes = classes[:max_classes]
        self.class_names = [str(c) for c in classes] if class_names is None else list(class_names)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure when left out.
        """
        self.figure_, self.ax_ = _axes(ax)
        colours = _pyplot().get_cmap("tab10").colors
        for c, label in enumerate(self.classes):
            for v, (X, seen) in enumerate(zip(self.latents.arrays, self.latents.mask.T, strict=True)):
                rows = X[seen & (self.y == label)][:, list(self.components)]
                colour, marker = colours[c % len(colours)], _MARKERS[v % len(_MARKERS)]
                self.ax_.scatter(*rows.T, color=colour, marker=marker, s=22, alpha=0.75, linewidths=0)
        for c, _ in enumerate(self.classes):
            colour = colours[c % len(colours)]
            self.ax_.scatter([], [], color=colour, marker="s", s=40, label=self.class_names[c])
        for v, name in enumerate(self.latents.names):
            self.ax_.scatter([], [], color="0.35", marker=_MARKERS[v % len(_MARKERS)], s=28, label=name)
        total = len(np.unique(self.y))
        if total > len(self.classes):
            self.ax_.set_title(f"{len(self.classes)} of {total} classes", fontsize="small")
        self.ax_.set_xlabel(f"component {self.components[0] + 1}")
        self.ax_.set_ylabel(f"component {self.components[1] + 1}")
        self.ax_.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self


def cmc(curves: ArrayLike | Mapping[str, ArrayLike], *, ax: Any = None) -> CMCDisplay:
    """Draw cumulative match characteristics.

    Parameters
    ----------
    curves : array-like, or dict of str to array-like
        Rates at rank 1, 2, …, as `crossview.metrics.cmc` gives them; several by name.
    ax : matplotlib Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    display : CMCDisplay
        With ``figure_`` and ``ax_``.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.plot.cmc({"MvHE": [0.8, 0.9, 1.0], "PCA": [0.3, 0.5, 0.6]}).ax_.get_ylabel()
    'share of probes found'
    """
    return CMCDisplay(curves).plot(ax)


class CMCDisplay:
    """Cumulative match characteristics; see `cmc`.

    Parameters
    ----------
    curves
        As in `cmc`.

    Attributes
    ----------
    figure_, ax_
        What was drawn on.
    """

    figure_: Any
    ax_: Any

    def __init__(self, curves: ArrayLike | Mapping[str, ArrayLike]) -> None:
        named = curves if isinstance(curves, Mapping) else {"": curves}
        self.curves: dict[str, Array] = {name: np.asarray(rates, dtype=np.float64) for name, rates in named.items()}
        for name, rates in self.curves.items():
            if rates.ndim != 1 or not rates.size or not ((rates >= 0) & (rates <= 1)).all():
                raise ValueError(f"curve {name!r} must be shares from 0 to 1, one per rank.")

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure when left out.
        """
        self.figure_, self.ax_ = _axes(ax)
        for k, (name, rates) in enumerate(self.curves.items()):
            ranks = np.arange(1, len(rates) + 1)
            self.ax_.plot(ranks, rates, marker=_MARKERS[k % len(_MARKERS)], markersize=4, label=name or None)
        self.ax_.set(xlabel="rank", ylabel="share of probes found", ylim=(0.0, 1.02))
        self.ax_.grid(alpha=0.3)
        if any(self.curves):
            self.ax_.legend(frameon=False, loc="lower right")
        return self


def matches(
    probe_images: ArrayLike,
    gallery_images: ArrayLike,
    ranks: ArrayLike,
    *,
    probe_y: ArrayLike | None = None,
    gallery_y: ArrayLike | None = None,
) -> MatchesDisplay:
    """Draw probes beside their best matches, framed by whether these are right.

    Parameters
    ----------
    probe_images, gallery_images : array-like of shape (t, height, width) and (g, height, width)
        Images.
    ranks : array-like of int, shape (t, k)
        Gallery samples, the nearest first, for every probe: what `CrossViewClassifier.kneighbors` gives.
    probe_y, gallery_y : array-like of shape (t,) and (g,), optional
        The classes; without them nothing is framed.

    Returns
    -------
    display : MatchesDisplay
        With ``figure_`` and ``axes_``.

    Examples
    --------
    >>> import numpy as np
    >>> import crossview as cv
    >>> images = np.random.default_rng(0).random((4, 8, 4))
    >>> display = cv.plot.matches(images[:2], images, [[0, 1, 2], [3, 1, 0]], probe_y=[0, 1], gallery_y=[0, 1, 0, 1])
    >>> display.axes_.shape
    (2, 4)
    """
    return MatchesDisplay(probe_images, gallery_images, ranks, probe_y=probe_y, gallery_y=gallery_y).plot()


class MatchesDisplay:
    """Probes beside their best matches; see `matches`.

    Parameters
    ----------
    probe_images, gallery_images, ranks, probe_y, gallery_y
        As in `matches`.

    Attributes
    ----------
    figure_, axes_
        What was drawn on: the probe in the first column, its matches in the others.
    """

    figure_: Any
    axes_: Any

    def __init__(
        self,
        probe_images: ArrayLike,
        gallery_images: ArrayLike,
        ranks: ArrayLike,
        *,
        probe_y: ArrayLike | None = None,
        gallery_y: ArrayLike | None = None,
    ) -> None:
        self.probe_images, self.gallery_images = np.asarray(probe_images), np.asarray(gallery_images)
        self.ranks: NDArray[np.intp] = np.asarray(ranks)
        for images, name in ((self.probe_images, "probe_images"), (self.gallery_images, "gallery_images")):
            if images.ndim not in (3, 4):
                raise ValueError(f"{name} must be images, of shape (number, height, width), got shape {images.shape}.")
        if self.ranks.ndim != 2 or len(self.ranks) != len(self.probe_images) or self.ranks.dtype.kind not in "iu":
            raise ValueError("ranks must have a row of gallery numbers for every probe.")
        if self.ranks.size and not (self.ranks.min() >= 0 and self.ranks.max() < len(self.gallery_images)):
            raise ValueError(f"ranks must be rows of the gallery, from 0 to {len(self.gallery_images) - 1}.")
        self.right: NDArray[np.bool_] | None = None
        if probe_y is not None and gallery_y is not None:
            self.right = column_or_1d(gallery_y)[self.ranks] == column_or_1d(probe_y)[:, None]

    def plot(self) -> Self:
        """Draw, in a new figure."""
        t, k = self.ranks.shape
        self.figure_, self.axes_ = _pyplot().subplots(
            t, k + 1, figsize=(1.1 * (k + 1), 1.25 * t), squeeze=False, layout="constrained"
        )
        for row, axes in enumerate(self.axes_):
            for column, ax in enumerate(axes):
                image = self.probe_images[row] if column == 0 else self.gallery_images[self.ranks[row, column - 1]]
                ax.imshow(image, cmap="gray" if image.ndim == 2 else None)
                ax.set(xticks=[], yticks=[])
                if column and self.right is not None:
                    self._frame(ax, right=bool(self.right[row, column - 1]))
        for column, ax in enumerate(self.axes_[0]):
            ax.set_title("probe" if column == 0 else str(column), fontsize="small")
        return self

    @staticmethod
    def _frame(ax: Any, *, right: bool) -> None:
        """A frame, and a sign for those who cannot tell its colours apart."""
        for spine in ax.spines.values():
            spine.set(color=_RIGHT if right else _WRONG, linewidth=2.5, linestyle="-" if right else ":")
        ax.set_xlabel("✓" if right else "✗", fontsize="small", color=_RIGHT if right else _WRONG, labelpad=1)


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'crossview[plot]'.") from error
    return pyplot


def _axes(ax: Any) -> tuple[Any, Any]:
    if ax is not None:
        return ax.figure, ax
    figure, new = _pyplot().subplots(layout="constrained")
    return figure, new
