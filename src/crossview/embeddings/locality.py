"""Methods that preserve neighbourhoods, by part optimisation and whole alignment over pooled samples."""

from typing import Any, ClassVar

import numpy as np

from crossview._schema import Schema, number, register
from crossview._types import Array, Rows
from crossview._validation import check_count, check_weight
from crossview.embeddings._base import COUPLINGS, N_COMPONENTS, WHITENINGS, Embedding, PooledEmbedding, SearchSpace
from crossview.engines import squared_norms, to_numpy
from crossview.linalg.eigen import largest_generalised_eigenpairs, ridge, smallest_eigenpairs
from crossview.linalg.scatter import Edges, graph_scatter
from crossview.neighbours.classes import check_neighbours
from crossview.samples import Samples

__all__ = ["DLA", "LPP", "MvDLA"]


class _NeighbourEmbedding(Embedding):
    """Base of the methods here: a search for neighbours among pooled samples."""

    algorithm: str
    neighbour_recall_: float
    _schema: ClassVar[Schema] = {**Embedding._schema, "neighbour_recall_??": number(0.0, 1.0)}
    _needs_equal_widths = True

    def _check_params(self, n_views: int) -> None:
        check_neighbours(self.algorithm)


class MvDLA(_NeighbourEmbedding):
    r"""Multi-view Discriminative Locality Alignment.

    `DLA` over the pooled samples of all views, with one map per view: the patch of a sample may hold samples from any
    view. Minimises the sum over all patches subject to :math:`W^\top W = n I` for the stacked maps. To bring the views
    together, it needs many within-class neighbours, more than a class has in one view. With one map for all views
    (``coupling=inf``), it is DLA [1]_.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space; ``"auto"`` as in `MvHE`.
    beta : float
        β: weight of between-class distances relative to within-class distances.
    n_within, n_between : int
        p1, p2: neighbours of the same class and of other classes in a patch, from any view.
    coupling, whitening
        As in `MvHE`.
    center : bool
        Subtract the training mean of each view before projecting. Neighbours are always found among the original
        samples.
    algorithm
        As in `MvHE`.

    Attributes
    ----------
    projections_, means_, eigenvalues_, neighbour_recall_
        As in `MvHE`.

    References
    ----------
    .. [1] J. Xu, S. Yu, X. You, M. Leng, X.-Y. Jing, C. L. P. Chen, "Multi-view Hybrid Embedding: A
       Divide-and-Conquer Approach", IEEE Transactions on Cybernetics.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvDLA(n_components=5).fit(data.views[:300], data.y[:300]).eigenvalues_.shape
    (5,)
    """

    search_space: ClassVar[SearchSpace] = {
        # Patches only reach other views if they hold more neighbours than a class has in one view.
        "n_components": N_COMPONENTS,
        "beta": [0.1, 0.3, 1.0],
        "n_within": [10, 20, 40, 80],
        "n_between": [15, 50, 100],
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
    _refits: ClassVar[tuple[str, ...]] = ("beta", "n_within", "n_between", "coupling", "whitening")
    _needs_labels = True
    _nonnegative: ClassVar[tuple[str, ...]] = ("beta",)
    _allows_auto_components = True
    _restrict_to_span = True

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        beta: float = 0.1,
        n_within: int = 40,
        n_between: int = 50,
        coupling: float | str = 0.0,
        whitening: float | None = None,
        center: bool = True,
        algorithm: str = "auto",
    ) -> None:
        super().__init__(n_components, coupling=coupling, whitening=whitening, center=center)
        self.beta = beta
        self.n_within = n_within
        self.n_between = n_between
        self.algorithm = algorithm

    def _check_params(self, n_views: int) -> None:
        super()._check_params(n_views)
        check_count(self.n_within, "n_within", least=0)
        check_count(self.n_between, "n_between", least=0)
        if not self.n_within and not (self.n_between and self.beta):
            raise ValueError("n_within and n_between (or beta) are 0: give patches at least one neighbour.")

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        norm = self._norm(data)
        S, recall = data.stacked_scatter(self.n_within, self.n_between, -self.beta, self.algorithm)
        self.neighbour_recall_ = recall
        eigenvalues, U = smallest_eigenpairs(norm.restrict(S), d, overwrite=True)
        return eigenvalues, np.sqrt(len(data.n_features)) * norm.expand(U)


class DLA(MvDLA):
    r"""Discriminative Locality Alignment of the pooled samples of all views: `MvDLA` with one map for all views.

    Keeps each sample close to its neighbours of the same class and away from those of other classes: minimises

    .. math::
        \sum_k \Big( \sum_{s=1}^{p_1} \|y^k - (y^k)_s\|^2 - \beta \sum_{t=1}^{p_2} \|y^k - (y^k)^t\|^2 \Big)
        \quad \text{subject to} \quad W^\top W = I

    where :math:`(x)_s` is the s-th nearest sample of the same class as x, and :math:`(x)^t` the t-th nearest sample of
    other classes [1]_. Parameters and fitted attributes are those of `MvDLA`; only defaults differ.

    Parameters
    ----------
    n_components, beta, n_within, n_between, coupling, whitening, center, algorithm
        As in `MvDLA`.

    References
    ----------
    .. [1] T. Zhang, D. Tao, X. Li, J. Yang, "Patch Alignment for Dimensionality Reduction", IEEE Transactions on
       Knowledge and Data Engineering 21(9), 2009.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.DLA(n_components=5).fit(data.views[:300], data.y[:300]).transform(data.views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "beta": [0.03, 0.1, 0.3],
        "n_within": [1, 3, 7],
        "n_between": [5, 15],
        "whitening": WHITENINGS,
    }

    def __init__(
        self,
        n_components: int | str = 20,
        *,
        beta: float = 0.1,
        n_within: int = 7,
        n_between: int = 15,
        coupling: float | str = np.inf,
        whitening: float | None = None,
        center: bool = True,
        algorithm: str = "auto",
    ) -> None:
        super().__init__(
            n_components,
            beta=beta,
            n_within=n_within,
            n_between=n_between,
            coupling=coupling,
            whitening=whitening,
            center=center,
            algorithm=algorithm,
        )


@register
class LPP(_NeighbourEmbedding, PooledEmbedding):
    r"""Locality Preserving Projections.

    Keeps neighbours together, regardless of their class: minimises

    .. math::
        \sum_k \sum_{j=1}^{K} \theta_k(j) \|y^k - y^{k_j}\|^2
        \quad \text{subject to} \quad \sum_k D_k y^k (y^k)^\top = I, \qquad
        \theta_k(j) = e^{-\|x^k - x^{k_j}\|^2 / t}

    over the pooled samples of all views, with one map for all, where K is the number of nearest neighbours of each
    sample and :math:`D_k` the mean of the incoming and outgoing weights of sample k [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the space, at most the number of features of a view.
    t : float, optional
        Width of the heat kernel; by default, the mean squared distance to the neighbours.
    reg : float
        Ridge on the scatter matrix of the constraint, relative to its mean diagonal.
    n_neighbors : int
        K: neighbours of each sample.
    whitening, center
        As in `PCA`.
    algorithm
        As in `MvHE`.

    Attributes
    ----------
    projections_, means_, neighbour_recall_
        As in `MvHE`.
    eigenvalues_ : ndarray of shape (d,)
        The smallest eigenvalues, ascending.

    References
    ----------
    .. [1] X. He, P. Niyogi, "Locality Preserving Projections", NIPS 2003.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.LPP(n_components=5).fit_transform(cv.datasets.load_digits().views[:300])
    Views(300 samples; left: 5 features, right: 5 features)
    """

    _nonnegative: ClassVar[tuple[str, ...]] = ("reg",)
    _restrict_to_span = True

    def __init__(
        self,
        n_components: int = 20,
        *,
        t: float | None = None,
        reg: float = 1e-3,
        n_neighbors: int = 5,
        whitening: float | None = None,
        center: bool = True,
        algorithm: str = "auto",
    ) -> None:
        super().__init__(n_components, whitening=whitening, center=center)
        self.t = t
        self.reg = reg
        self.n_neighbors = n_neighbors
        self.algorithm = algorithm

    def _check_params(self, n_views: int) -> None:
        super()._check_params(n_views)
        check_count(self.n_neighbors, "n_neighbors", least=1)
        if self.t is not None:
            check_weight(self.t, "t", positive=True)

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        found = samples.of_one_class().with_patches(self.n_neighbors, 0, self.algorithm)
        self.neighbour_recall_ = found.neighbour_recall
        total, n_edges = found.edge_total(_total_length)
        width = self.t if self.t is not None else float(total / n_edges) or 1.0
        S, D = found.edge_total(_heat_scatters, width)
        eigenvalues, W = largest_generalised_eigenpairs(-S, ridge(D, self.reg), d)
        return -eigenvalues, W


def _total_length(X: Rows, ids: Any) -> list[Array]:
    """Sum of the squared lengths of edges, and their number."""
    there = to_numpy(ids >= 0)
    return [_squared_lengths(X, ids)[there].sum(), there.sum()]


def _heat_scatters(X: Rows, ids: Any, width: float) -> list[Array]:
    """The matrices of `graph_scatter` for weights of the heat kernel."""
    return [*graph_scatter([X], Edges(ids, np.exp(-_squared_lengths(X, ids) / width)))]


def _squared_lengths(X: Rows, ids: Any) -> Array:
    """Squared distances to neighbours, in the shape of their table; arbitrary for entries of -1."""
    return np.column_stack([squared_norms(X - X[column]) for column in ids.T])
