"""Standard pipelines of all methods, and the parameter values to search."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline, make_pipeline

from crossview.embeddings import ALL_METHODS, SEARCH_SPACES, method_name
from crossview.embeddings.baselines import RawFeatures
from crossview.embeddings.kernel import AUTO_REG, KMvHE
from crossview.feature_maps import KernelTransformer
from crossview.model_selection.search import EmbeddingSearchCV
from crossview.model_selection.space import Grid
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.views import ViewInput, Views

__all__ = ["search_space", "standard_pipeline", "tune"]

_SCALINGS = ("feature", "view")
_PCA_DIMENSIONS = (20, 40, 80, 160, 320)
_MAX_WIDTH_WITHOUT_PCA = 320  # for wider views, a search always reduces dimensions
# Landmarks of kernel methods; up to as many samples, all of them. With small classes, every sample counts more, and a
# fit to 4,000 samples of two views takes a minute (docs/tuning.md).
_LARGE_CLASS_SIZE, _LANDMARKS_OF_LARGE_CLASSES, _LANDMARKS_OF_SMALL_CLASSES = 100, 2000, 4000


FACTOR, REFINE = 3.0, 2
"""How a search halves its settings and refines the best, unless it tries all of them."""

_MAX_NODES = 450  # samples in all views that a kernel method is fitted to in a fold


def max_samples(method: str, n_views: int) -> int | None:
    """Number of samples to fit a method's settings to in a fold; None for all."""
    return _MAX_NODES // n_views if issubclass(ALL_METHODS[method_name(method)], KernelTransformer) else None


def standard_pipeline(method: str) -> Pipeline:
    """Return a scaler, a PCA and a method with default parameters and a fixed seed; for `RawFeatures` no PCA.

    >>> [name for name, _ in standard_pipeline("MvDA-VC").steps]
    ['viewscaler', 'viewpca', 'mvdavc']
    """
    cls = ALL_METHODS[method_name(method)]
    # Settings are compared on the same draws.
    model = cls(**({"random_state": 0} if "random_state" in cls._get_param_names() else {}))
    return make_pipeline(ViewScaler(), *([] if cls is RawFeatures else [ViewPCA()]), model)


def search_space(
    method: str,
    n_features: Sequence[int],
    size: tuple[int, int] = (0, 1),
    *,
    own: Mapping[str, Sequence[Any]] | None = None,
    pca: Sequence[float | None] | None = None,
    scaling: Sequence[str | None] = _SCALINGS,
) -> dict[str, list[Any]]:
    """Return the values to try for a method's standard pipeline, by parameter name.

    `own` are values of the method's parameters, by default its ``search_space``, and `pca` numbers of components per
    view. Those that exceed every view's width are replaced by None, for all components, unless views
    have hundreds of features. `size` are the numbers of samples and classes. With many samples, kernel methods get
    landmarks, unless `own` says how many; `KMvHE` then has both constraints.

    >>> search_space("MvDA", [64, 6], own={"reg": [0.1]})
    {'viewscaler__by': ['feature', 'view'], 'viewpca__n_components': [None, 20, 40], 'mvda__reg': [0.1]}
    """
    method = method_name(method)
    widest = max(n_features)
    tried = _PCA_DIMENSIONS if pca is None else pca
    numbers: list[float | None] = [k for k in tried if k is None or k < widest]
    dropped = pca is None or len(numbers) < len(pca)
    if None not in numbers and dropped and (widest <= _MAX_WIDTH_WITHOUT_PCA or not numbers):
        numbers.insert(0, None)
    cls = ALL_METHODS[method]
    values = SEARCH_SPACES[method] if own is None else own
    if len(set(n_features)) > 1 and own is None:  # views without common coordinates cannot be coupled
        values = {name: choices for name, choices in values.items() if name != "coupling"}
    of_method = {f"{cls.__name__.lower()}__{parameter}": list(choices) for parameter, choices in values.items()}
    if cls is RawFeatures:
        return {"viewscaler__by": list(dict.fromkeys((None, *scaling))), **of_method}
    grid: dict[str, list[Any]] = {"viewscaler__by": list(scaling), "viewpca__n_components": numbers, **of_method}
    return _with_landmarks(grid, method, size)


def _with_landmarks(grid: Mapping[str, Any], method: str, size: tuple[int, int]) -> dict[str, Any]:
    """The grid of a kernel method, with landmarks if there are more samples than that and it does not say how many."""
    cls, (n_samples, n_classes) = ALL_METHODS[method], size
    most = _LANDMARKS_OF_LARGE_CLASSES if n_samples >= _LARGE_CLASS_SIZE * n_classes else _LANDMARKS_OF_SMALL_CLASSES
    prefix = f"{cls.__name__.lower()}__"
    if n_samples <= most or not issubclass(cls, KernelTransformer) or f"{prefix}n_landmarks" in grid:
        return dict(grid)
    constraint = {f"{prefix}reg": [AUTO_REG, None]} if cls is KMvHE else {}
    return {f"{prefix}n_landmarks": [most], **constraint, **grid}


def tune(
    method: str,
    views: ViewInput,
    y: ArrayLike,
    param_grid: Grid | None = None,
    *,
    n_iter: int | None = 40,
    **options: Any,
) -> EmbeddingSearchCV:
    """Search for the parameters of a method, of the scaling and PCA before it, and for the distance after it.

    Parameters
    ----------
    method : str
        A name in `crossview.METHODS` or `crossview.BASELINES`; case and hyphens do not matter.
    views, y
        As in `EmbeddingSearchCV.fit`.
    param_grid : dict or list of dict, optional
        Values to try, by names such as ``viewscaler__by``, ``viewpca__n_components`` and ``mvhe__beta``. The default
        covers both scalings, several numbers of principal components, and the method's ``search_space``. With
        more than 2,000 samples, at least 100 per class on average, `KMvHE` and `KCCA` use 2,000 landmarks, unless
        ``n_landmarks`` is listed here; `KMvHE` then tries both constraints, ``reg``, too.
    n_iter : int, optional
        Number of settings to draw; None tries all, on all folds. Otherwise, one setting in three stays after
        every fold, the best one is refined step by step, and kernel methods are fitted to a part of the samples until
        the best setting is known.
    **options
        Further parameters of `EmbeddingSearchCV`, such as ``cv`` and ``n_members``.

    Returns
    -------
    search : EmbeddingSearchCV
        The fitted search.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> search = cv.tune("MvHE", data.views[::6], data.y[::6], n_iter=10)
    >>> bool(search.score(data.views[1::6], data.y[1::6]) > 0.5)
    True
    """
    name, checked = method_name(method), Views(views)
    size = len(checked), len(np.unique(np.asarray(y, dtype=str)))
    grid = search_space(name, checked.n_features, size) if param_grid is None else param_grid
    grids = [grid] if isinstance(grid, Mapping) else grid
    grid = [_with_landmarks(given, name, size) for given in grids]
    if n_iter is not None:
        effort = {"factor": FACTOR, "refine": REFINE, "max_samples": max_samples(name, checked.shape[1])}
        options = effort | options
    return EmbeddingSearchCV(standard_pipeline(name), grid, n_iter=n_iter, **options).fit(checked, y)
