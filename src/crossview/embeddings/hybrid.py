"""Multi-view Hybrid Embedding and its kernel form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags

from crossview._blas import product
from crossview._types import Array, Indices
from crossview._validation import check_flag, check_labels, check_views
from crossview.embeddings._base import Embedding, wanted_components
from crossview.embeddings._kernel import KernelViews
from crossview.embeddings._linear import count_agreeing
from crossview.embeddings._parts import HybridProblem, HybridWeights, ViewData
from crossview.graphs.neighbours import class_neighbours
from crossview.graphs.patches import Patches
from crossview.kernels import KernelMap
from crossview.linalg.eigen import component_signs, smallest_eigenpairs
from crossview.views import ViewInput, Views

__all__ = ["KMvHE", "MvHE"]


class MvHE(Embedding):
    r"""Multi-view Hybrid Embedding.

    Learns one map per view into a common space, by three models that share them: LE-paired draws the views of one
    sample together, LDE-intra keeps every sample near its own class and away from others within a view, LDE-inter
    does so across views. With :math:`y_i^k = W_i^\top x_i^k` it minimises

    .. math::
        \lambda_0 \sum_{i} \sum_{j \neq i} \sum_k \|y_i^k - y_j^k\|^2
        + \lambda_1 \sum_{i, k} \Big( \sum_{s=1}^{p_1} \|y_i^k - (y_i^k)_s\|^2
        - \beta \sum_{t=1}^{p_2} \|y_i^k - (y_i^k)^t\|^2 \Big)
        + \lambda_2 \sum_{i, k} \sum_{j \neq i} \Big( \sum_{s=1}^{p_1} \|y_i^k - (y_j^k)_s\|^2
        - \beta \sum_{t=1}^{p_2} \|y_i^k - (y_j^k)^t\|^2 \Big)

    subject to :math:`W^\top W = n I`, where :math:`(x)_s` is the s-th nearest sample of the class of x in its view
    and :math:`(x)^t` the t-th nearest of other classes. The d smallest eigenpairs of one symmetric matrix of order
    :math:`\sum_v D_v` solve it [1]_.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space. A number is capped at what the data allow, as in every method here; see
        ``n_components_``. ``"auto"``: see the notes.
    lambda_paired : float
        λ0: weight of LE-paired, 1 in the paper; 0 leaves it out.
    lambda_intra : float
        λ1: weight of LDE-intra; 0 leaves it out.
    lambda_inter : float
        λ2: weight of LDE-inter; 0 leaves it out.
    beta : float
        β: how much between-class distances count against within-class ones.
    n_within : int
        p1: neighbours of the same class in a patch. A class with fewer samples gives what it has.
    n_between : int
        p2: neighbours of other classes in a patch.
    center : bool
        Subtract every view's training mean first. The paper does not; it gains accuracy.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view; the largest entry of each component, over all views, is positive.
    eigenvalues_ : ndarray of shape (d,)
        The smallest eigenvalues, ascending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view: its training mean, or zero.
    view_names_ : list of str
        The views' names.
    n_features_ : tuple of int
        D_v of every view.

    Notes
    -----
    The best weights differ from one data set to another: search for them with `crossview.tune`.

    Each map is restricted to the span of the view's training samples, less their mean. Where features are constant or
    depend on each other, as they must where a view has more features than samples, directions in which no training
    sample varies would otherwise be optimal, at zero, and useless. Singular values below ``max(m, D_v) · eps`` times
    the largest count as zero. Where the samples span all directions, this is the paper's formula.

    The last components of the eigenproblem set the views of a sample apart: with all that there are, matching is left
    to chance. ``n_components="auto"`` keeps 20 at most, and only those before the first along which the views hardly
    agree: where :math:`\sum_{i \neq j} \sum_k y_i^k y_j^k` of the training samples is less than 0.1 of
    :math:`(n - 1) \sum_{i, k} (y_i^k)^2`.

    Of many settings the defaults lose least on average against the best one for each of ten data sets
    (``benchmarks/defaults.md``). The paper's are ``lambda_intra=0.01``, ``lambda_inter=0.05``, ``beta=0.1``,
    ``n_within=1`` and ``n_between=15``, which suit images of objects.

    References
    ----------
    .. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A
       Divide-and-Conquer Approach", IEEE Transactions on Cybernetics.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.MvHE(n_components=10).fit(data.views[:900], data.y[:900])
    >>> [latent.shape for latent in model.transform(data.views[900:]).arrays]
    [(897, 10), (897, 10)]
    """

    eigenvalues_: Array

    _refits: ClassVar[tuple[str, ...]] = (
        "lambda_paired",
        "lambda_intra",
        "lambda_inter",
        "beta",
        "n_within",
        "n_between",
    )

    def __init__(
        self,
        n_components: int | str = "auto",
        lambda_paired: float = 1.0,
        lambda_intra: float = 0.1,
        lambda_inter: float = 0.3,
        beta: float = 0.1,
        n_within: int = 1,
        n_between: int = 15,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.lambda_paired = lambda_paired
        self.lambda_intra = lambda_intra
        self.lambda_inter = lambda_inter
        self.beta = beta
        self.n_within = n_within
        self.n_between = n_between
        self.center = center

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, views: ViewInput, y: ArrayLike) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Two views or more of the same m samples; a row of NaN is a sample that a view has not seen.
        y : array-like of shape (m,)
            One class label per sample.

        Returns
        -------
        self : MvHE
            Fitted.
        """
        checked, classes = self._check(views, y)
        data = self._view_data(checked, classes, self.n_within, self.n_between)
        with np.errstate(over="ignore", invalid="ignore"):
            S = HybridProblem.of(data, checked.mask).scatter(self._weights())
        return self._solve(S, data, checked)

    def _solve(self, S: Array, data: Sequence[ViewData], views: Views) -> Self:
        """Find the maps that minimise the objective whose scatter is given, and keep them. S is destroyed."""
        with np.errstate(over="ignore", invalid="ignore"):
            size = float(np.sqrt(np.einsum("ij,ij->", S, S)))  # not by numpy's BLAS: see crossview._blas
        if not np.isfinite(size):
            raise ValueError("the views or weights are too large for their products to be computed: scale them down.")
        edges = np.cumsum([0, *(view.features.shape[1] for view in data)])
        for view, (a, b) in zip(data, pairwise(edges), strict=True):
            if view.null is not None:
                # The objective is 0 there: lifted above all eigenvalues, it is out of the way.
                S[a:b, a:b] += np.outer(2.0 * size * view.null, view.null)
        d = min(wanted_components(self), sum(view.rank for view in data))
        eigenvalues, stacked = smallest_eigenpairs(S, d, overwrite=True)
        stacked *= np.sqrt(len(data))  # the constraint is W'W = nI
        W = np.split(stacked, edges[1:-1])
        if self.n_components == "auto" and (self.lambda_paired or self.lambda_inter):
            d = count_agreeing(_latents(data, W))
        self.eigenvalues_ = eigenvalues[:d]
        self._store(data, [w[:, :d] for w in W])
        self._remember(views)
        return self

    def _check(self, views: ViewInput, y: ArrayLike | None) -> tuple[Views, Indices]:
        """All that can be refused before any work is done."""
        wanted_components(self)
        self._weights().check()
        check_flag(self.center, "center")
        checked = check_views(views, self)
        return checked, check_labels(y, len(checked), self, checked.mask)

    def _weights(self) -> HybridWeights:
        return HybridWeights(
            self.lambda_paired, self.lambda_intra, self.lambda_inter, self.beta, self.n_within, self.n_between
        )

    def _view_data(self, views: Views, classes: Indices, n_within: int, n_between: int) -> list[ViewData]:
        """Features and patches of every view, the latter for up to the given numbers of neighbours."""
        data = []
        for X, seen in zip(views.arrays, views.mask.T, strict=True):
            rows = X if seen.all() else X[seen]
            patches = Patches(*class_neighbours(rows, classes[seen], n_within, n_between))
            data.append(ViewData.of_samples(rows, patches, seen, center=self.center))
        return data

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """The objective is a sum: its parts are computed once, and another weighting costs an eigen-solve."""
        models: list[MvHE] = [clone(self).set_params(**setting) for setting in settings]
        weights = [model._weights() for model in models if model._weights().fault() is None]
        within, between = {w.n_within for w in weights}, {w.n_between for w in weights}
        checked, classes = self._check(views, y)
        data = self._view_data(checked, classes, max(within, default=0), max(between, default=0))
        problem = HybridProblem.of(data, checked.mask)
        # A scatter of its own costs about as much as one part: few settings are better off without parts.
        many = len(weights) > 1 + 2 * (len(within) + len(between))
        scatter = problem.parts(within, between).combine if many else problem.scatter

        def refit(setting: Mapping[str, Any]) -> Any:
            model = clone(self).set_params(**setting)
            model._weights().check()
            return model._solve(scatter(model._weights()), data, checked)

        return refit

    def _store(self, data: Sequence[ViewData], W: Sequence[Array]) -> None:
        """Keep of the solution what maps new samples."""
        W = [w if view.basis is None else view.basis @ w for view, w in zip(data, W, strict=True)]
        signs = component_signs(np.vstack(W))
        self.projections_ = [w * signs for w in W]
        self.means_ = [view.mean for view in data]


class KMvHE(KernelViews, MvHE):
    r"""Kernel Multi-view Hybrid Embedding: MvHE in the feature space of a kernel.

    With :math:`W_v = \phi(X_v) A_v` it solves the generalised eigenproblem of the objective of `MvHE` under
    :math:`A^\top K A = n I` [1]_, on explicit coordinates of the part of the feature space that the training samples,
    or landmarks among them, span. Neighbours are found by the kernel's own distance.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space.
    lambda_paired, lambda_intra, lambda_inter, beta, n_within, n_between
        As in `MvHE`.
    center : bool
        Subtract every view's training mean in the feature space.
    kernel : str or callable
        ``"rbf"``, ``"poly"``, ``"linear"``, ``"cosine"`` or any other name in scikit-learn's ``kernel_metrics()``; a
        callable ``kernel(x, z)`` on two samples, a number; or ``"precomputed"``: the views are then (m, m) kernel
        matrices in ``fit``, and (t, m) kernel values against the training samples afterwards. A sample that a view has
        not seen is then a row of NaN, or False in the mask, and what its column holds does not matter, but for being
        finite. Model selection cannot split kernel matrices.
    gamma : float or sequence of float, optional
        Width of the kernel, one for all views or one per view. None takes the median heuristic per view,
        :math:`1 / (2 \sigma^2)` with σ the median distance, for rbf (and 1 / σ for laplacian), and scikit-learn's
        default for the other kernels.
    gamma_scale : float
        Factor on the widths of the median heuristic: a width to search for that does not depend on the data's units.
    degree, coef0 : float
        Parameters of the polynomial and sigmoid kernels.
    kernel_params : dict, optional
        Further keyword arguments for the kernel.
    n_landmarks : int, optional
        How many training samples, drawn at random, span the map of a view (Nyström); all when None, which is exact.
    random_state : int, RandomState or None
        Seed of the draw; used only with `n_landmarks`.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (r_v, d)
        A_v: coefficients of the kernel values against the landmarks of the view. The largest coordinate of a training
        sample along every component is positive.
    kernels_ : list of Kernel
        The kernel of every view, with its parameters as fitted.
    landmarks_ : list of ndarray
        The training samples against which kernel values are taken, (r_v, D_v) per view; for a precomputed kernel
        their indices, (r_v,). There are no more than the rank of the kernel matrix.
    gamma_ : list of float or None
        The kernel width of every view; None where the kernel's default is used.
    offsets_ : list of ndarray, each of shape (d,)
        Every view's training mean in the common space, subtracted from what is projected.
    eigenvalues_, view_names_, n_features_
        As in `MvHE`.

    Notes
    -----
    KMvHE depends less on its weights than MvHE: the defaults are within a fraction of a point of the setting that loses
    least on average over ten data sets (``benchmarks/defaults.md``). The paper's are ``lambda_intra=0.005``,
    ``lambda_inter=0.001``, ``beta=1.1``, ``n_within=3`` and ``n_between=15``.

    References
    ----------
    .. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A
       Divide-and-Conquer Approach", IEEE Transactions on Cybernetics.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.KMvHE(n_components=10).fit(data.views[:300], data.y[:300])
    >>> model.transform_view(data.views["right"][300:], "right").shape
    (1497, 10)
    """

    def __init__(
        self,
        n_components: int | str = "auto",
        lambda_paired: float = 1.0,
        lambda_intra: float = 0.01,
        lambda_inter: float = 0.05,
        beta: float = 0.1,
        n_within: int = 1,
        n_between: int = 15,
        center: bool = True,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | Sequence[float] | None = None,
        gamma_scale: float = 1.0,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        MvHE.__init__(self, n_components, lambda_paired, lambda_intra, lambda_inter, beta, n_within, n_between, center)
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_scale = gamma_scale
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def _check(self, views: ViewInput, y: ArrayLike | None) -> tuple[Views, Indices]:
        checked, classes = super()._check(views, y)
        self._check_kernel(checked)
        return checked, classes

    def _view_data(self, views: Views, classes: Indices, n_within: int, n_between: int) -> list[ViewData]:
        data = []
        for kernel, rows, landmarks, seen in self._kernel_views(views):
            K = None
            if kernel.precomputed:
                K = rows.copy()
            elif landmarks is None and self.kernel not in ("rbf", "linear", "cosine"):
                K = kernel(rows, rows)
            patches = Patches(*kernel.class_neighbours(rows, classes[seen], n_within, n_between, K))
            kernel_map, features = KernelMap.fit(kernel, rows, landmarks, np.flatnonzero(seen), K)
            data.append(ViewData.of_kernel(features, patches, seen, kernel_map, center=self.center))
        return data

    def _store(self, data: Sequence[ViewData], W: Sequence[Array]) -> None:
        maps = [view.kernel_map for view in data if view.kernel_map is not None]
        factors = (view.samples(kernel_map.pivots) for view, kernel_map in zip(data, maps, strict=True))
        # Coefficients depend on which landmarks were taken, latent samples do not.
        signs = component_signs(np.vstack(_latents(data, W)))
        self._store_maps(maps, factors, [w * signs for w in W], [view.mean for view in data])


def _latents(data: Sequence[ViewData], W: Sequence[Array]) -> list[Array]:
    """Training samples in the common space."""
    return [product(view.features, np.ascontiguousarray(w)) for view, w in zip(data, W, strict=True)]
