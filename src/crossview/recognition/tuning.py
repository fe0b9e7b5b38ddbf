"""The standard pipeline of every method, and where to look for its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline, make_pipeline

from crossview.embeddings.methods import METHODS, SEARCH_SPACES
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.recognition.search import EmbeddingSearchCV, Grid
from crossview.views import ViewInput, Views

__all__ = ["search_space", "standard_pipeline", "tune"]

_SCALINGS = ("feature", "view")
_PCA = (20, 40, 80, 160)
_ALL_UP_TO = 320  # features of the widest view up to which no reduction at all is among what is tried


def standard_pipeline(method: str) -> Pipeline:
    """Scaler, PCA and a method, with its default parameters.

    Parameters
    ----------
    method : str
        A name in `crossview.METHODS`.

    Examples
    --------
    >>> [name for name, _ in standard_pipeline("MvDA-VC").steps]
    ['viewscaler', 'viewpca', 'mvdavc']
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: use one of {', '.join(METHODS)}.")
    return make_pipeline(ViewScaler(), ViewPCA(), METHODS[method]())


def search_space(
    method: str,
    n_features: Sequence[int],
    *,
    own: Mapping[str, Sequence[Any]] | None = None,
    pca: Sequence[float | None] | None = None,
    scaling: Sequence[str | None] = _SCALINGS,
) -> dict[str, list[Any]]:
    """Values to try for the parameters of a method's standard pipeline.

    Parameters
    ----------
    method : str
        A name in `crossview.METHODS`.
    n_features : sequence of int
        Widths of the views.
    own : mapping of str to sequence, optional
        Values for the method's own parameters; ``crossview.SEARCH_SPACES[method]`` when left out.
    pca : sequence of int, float or None, optional
        Values for the number of principal components per view; 20, 40, 80 and 160 when left out. Those that no view is
        wide enough for are replaced by None, which keeps all components, unless views have hundreds of features.
    scaling : sequence of {"feature", "view", None}
        Ways of scaling to try.

    Returns
    -------
    space : dict of str to list
        By the names that ``set_params`` knows them by.

    Examples
    --------
    >>> search_space("MvDA", [64, 6], own={"reg": [0.1]})
    {'viewscaler__by': ['feature', 'view'], 'viewpca__n_components': [None, 20, 40], 'mvda__reg': [0.1]}
    """
    widest = max(n_features)
    numbers: list[float | None] = [k for k in (_PCA if pca is None else pca) if k is None or k < widest]
    if None not in numbers and (pca is None or len(numbers) < len(pca)) and (widest <= _ALL_UP_TO or not numbers):
        numbers.insert(0, None)
    name = METHODS[method].__name__.lower()
    values = SEARCH_SPACES[method] if own is None else own
    return {
        "viewscaler__by": list(scaling),
        "viewpca__n_components": numbers,
        **{f"{name}__{parameter}": list(tried) for parameter, tried in values.items()},
    }


def tune(
    method: str,
    views: ViewInput,
    y: ArrayLike,
    param_grid: Grid | None = None,
    *,
    n_iter: int | None = 30,
    **options: Any,
) -> EmbeddingSearchCV:
    """Search for the parameters of any method of the comparison, of the scaling and PCA before it, and for a distance.

    Parameters
    ----------
    method : str
        A name in `crossview.METHODS`.
    views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
        Training samples.
    y : array-like of shape (m,)
        One class label per sample.
    param_grid : dict or list of dict, optional
        Values to try, by names such as ``viewscaler__by``, ``viewpca__n_components`` and ``mvhe__beta``; by default
        both scalings, several numbers of principal components, and ``crossview.SEARCH_SPACES[method]``.
    n_iter : int, optional
        How many settings to draw; None tries all.
    **options
        Further parameters of `EmbeddingSearchCV`, such as ``cv``, ``members`` and ``progress``.

    Returns
    -------
    search : EmbeddingSearchCV
        Fitted.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> search = cv.tune("MvHE", data.views[::6], data.y[::6], n_iter=10)
    >>> bool(search.score(data.views[1::6], data.y[1::6]) > 0.5)
    True
    """
    pipeline, checked = standard_pipeline(method), Views(views)
    grid = search_space(method, checked.n_features) if param_grid is None else param_grid
    return EmbeddingSearchCV(pipeline, grid, n_iter=n_iter, **options).fit(checked, y)
