"""Multi-view Hybrid Embedding and its kernel form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from crossview._types import Array, Indices
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.embeddings._kernel import KernelEmbedding
from crossview.embeddings._parts import HybridProblem, HybridWeights
from crossview.embeddings._spaces import NUMBERS, WIDTHS, SearchSpace
from crossview.linalg.eigen import smallest_eigenpairs
from crossview.views import Views

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

    search_space: ClassVar[SearchSpace] = {
        # Of ten data sets, none has a setting elsewhere that is better by more than a point (benchmarks/defaults.md).
        "n_components": NUMBERS,
        "lambda_intra": [0.01, 0.1],
        "lambda_inter": [0.05, 0.3],
        "beta": [0.1, 0.3],
        "n_within": [1, 3],
        "n_between": [15, 30],
    }
    _refits: ClassVar[tuple[str, ...]] = (
        "lambda_paired",
        "lambda_intra",
        "lambda_inter",
        "beta",
        "n_within",
        "n_between",
    )
    _needs_labels: ClassVar[bool] = True
    _auto_components: ClassVar[bool] = True
    _in_span: ClassVar[bool] = True

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

    def _check_params(self, n_views: int) -> None:
        self._hybrid_weights().check()

    def _hybrid_weights(self) -> HybridWeights:
        return HybridWeights(
            self.lambda_paired, self.lambda_intra, self.lambda_inter, self.beta, self.n_within, self.n_between
        )

    def _ties_views(self) -> bool:
        return bool(self.lambda_paired or self.lambda_inter)

    def _data(self, views: Views, classes: Indices | None) -> TrainingData:
        return TrainingData.of(views, classes, center=self.center, weights=views.mask.astype(np.float64))

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            S = HybridProblem.of(data, self.n_within, self.n_between).scatter(self._hybrid_weights())
        return _smallest(S, data, d)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """The objective is a sum: its parts are computed once, and another weighting costs an eigen-solve."""
        data = self._prepare(views, y)
        weights = [w for setting in settings if (w := self._weights_with(setting)).valid]
        within, between = {w.n_within for w in weights}, {w.n_between for w in weights}
        problem = HybridProblem.of(data, max(within, default=0), max(between, default=0))
        # A scatter of its own costs about as much as one part: few settings are better off without parts.
        many = len(weights) > 1 + 2 * (len(within) + len(between))
        scatter = problem.parts(within, between).combine if many else problem.scatter

        def refit(setting: Mapping[str, Any]) -> Any:
            model: MvHE = clone(self).set_params(**setting)
            model._check_params(data.views.shape[1])
            S = scatter(model._hybrid_weights())
            return model._store(data, *_smallest(S, data, min(model._wanted(), model._max_components(data))))

        return refit

    def _weights_with(self, setting: Mapping[str, Any]) -> HybridWeights:
        model: MvHE = clone(self).set_params(**setting)
        return model._hybrid_weights()


class KMvHE(KernelEmbedding, MvHE):
    r"""Kernel Multi-view Hybrid Embedding: MvHE in the feature space of a kernel.

    With :math:`W_v = \phi(X_v) A_v` it solves the generalised eigenproblem of the objective of `MvHE` under
    :math:`A^\top K A = n I` [1]_, on explicit coordinates of the part of the feature space that the training samples,
    or landmarks among them, span: it is ``make_pipeline(ViewKernel(...), MvHE(...))``, with neighbours found by the
    kernel's own distance even where there are fewer landmarks than samples.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space.
    lambda_paired, lambda_intra, lambda_inter, beta, n_within, n_between
        As in `MvHE`.
    center : bool
        Subtract every view's training mean in the feature space.
    kernel, gamma, gamma_scale, degree, coef0, kernel_params, n_landmarks, random_state
        As in `ViewKernel`.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (r_v, d)
        A_v: coefficients of the kernel values against the landmarks of the view. The largest coordinate of a training
        sample along every component is positive.
    kernels_, landmarks_, gamma_
        As in `ViewKernel`.
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

    search_space: ClassVar[SearchSpace] = {
        # Where the paper finds it at its best, λ2 is smaller and β larger than for MvHE.
        "n_components": NUMBERS,
        "lambda_intra": [0.001, 0.005, 0.01, 0.1],
        "lambda_inter": [0.001, 0.01, 0.05, 0.3],
        "beta": [0.1, 0.3, 1.1],
        "n_within": [1, 3],
        "n_between": [15, 30],
        "gamma_scale": WIDTHS,
    }

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


def _smallest(S: Array, data: TrainingData, d: int) -> tuple[Array, Array]:
    """The d smallest eigenvalues of a scatter matrix, which is destroyed, and the components with W'W = nI."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.sqrt(np.einsum("ij,ij->", S, S)))  # not by numpy's BLAS: see crossview._blas
    if not np.isfinite(size):
        raise ValueError("the views or weights are too large for their products to be computed: scale them down.")
    edges = np.cumsum([0, *data.n_features])
    for null, (a, b) in zip(data.nulls, pairwise(edges), strict=False):
        if null is not None:
            # The objective is 0 there: lifted above all eigenvalues, it is out of the way.
            S[a:b, a:b] += np.outer(2.0 * size * null, null)
    eigenvalues, W = smallest_eigenpairs(S, d, overwrite=True)
    W *= np.sqrt(len(data.arrays))
    return eigenvalues, W
