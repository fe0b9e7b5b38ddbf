"""Other methods that learn from the neighbours of samples: DLA, MvDLA, and over pooled samples LPP and NCA."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from crossview._parameters import parameters
from crossview._progress import report
from crossview._schema import Schema
from crossview._types import Array, Indices, Rows
from crossview._validation import check_choice, check_count, check_weight
from crossview.embeddings._base import COUPLINGS, N_COMPONENTS, WHITENINGS, Embedding, PooledEmbedding, SearchSpace
from crossview.embeddings.hybrid import RECALL, AlignmentEmbedding
from crossview.engines import cross_product, product, squared_norms, to_numpy
from crossview.linalg.eigen import largest_generalised_eigenpairs, ridge, smallest_eigenpairs
from crossview.linalg.scatter import Edges, graph_scatter
from crossview.neighbours.classes import check_neighbours
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["DLA", "LPP", "NCA", "MvDLA"]


@parameters
class MvDLA(AlignmentEmbedding):
    r"""Multi-view Discriminative Locality Alignment.

    `DLA` over the pooled samples of all views, with one map per view: the patch of a sample may hold samples from any
    view. Minimises the sum over all patches subject to :math:`W^\top W = n I` for the stacked maps. To bring the views
    together, it needs many within-class neighbours, more than a class has in one view. With one map for all views
    (``coupling=inf``), it is DLA [1]_.

    Parameters
    ----------
    center : bool
        Subtract the training mean of each view before projecting. Neighbours are always found among the original
        samples.

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

    n_within: int = 40
    n_between: int = 50

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
    _needs_equal_widths = True

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        if not self.n_within and not (self.n_between and self.beta):
            raise ValueError("n_within and n_between (or beta) are 0: give patches at least one neighbour.")

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        norm = self._norm(data)
        S, self.neighbour_recall_ = data.stacked_scatter(self.n_within, self.n_between, -self.beta, self.algorithm)
        eigenvalues, U = smallest_eigenpairs(norm.restrict(S), d, overwrite=True)
        return eigenvalues, np.sqrt(len(data.n_features)) * norm.expand(U)


@parameters
class DLA(MvDLA):
    r"""Discriminative Locality Alignment of the pooled samples of all views: `MvDLA` with one map for all views.

    Keeps each sample close to its neighbours of the same class and away from those of other classes: minimises

    .. math::
        \sum_k \Big( \sum_{s=1}^{p_1} \|y^k - (y^k)_s\|^2 - \beta \sum_{t=1}^{p_2} \|y^k - (y^k)^t\|^2 \Big)
        \quad \text{subject to} \quad W^\top W = I

    where :math:`(x)_s` is the s-th nearest sample of the same class as x, and :math:`(x)^t` the t-th nearest sample of
    other classes [1]_.

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

    n_components: int | str = field(default=20, kw_only=False)
    n_within: int = 7
    n_between: int = 15
    coupling: float | str = np.inf

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "beta": [0.03, 0.1, 0.3],
        "n_within": [1, 3, 7],
        "n_between": [5, 15],
        "whitening": WHITENINGS,
    }


@parameters
class LPP(PooledEmbedding):
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
    t : float, optional
        Width of the heat kernel; by default, the mean squared distance to the neighbours.
    reg : float
        Ridge on the scatter matrix of the constraint, relative to its mean diagonal.
    n_neighbors : int
        K: neighbours of each sample.
    algorithm : {"auto", "exact", "approximate"}
        How to search for neighbours, as in `MvHE`.

    Attributes
    ----------
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

    n_components: int = field(default=20, kw_only=False)
    whitening: float | None = None
    center: bool = True
    t: float | None = None
    reg: float = 1e-3
    n_neighbors: int = 5
    algorithm: str = "auto"

    _schema: ClassVar[Schema] = {**Embedding._schema, **RECALL}

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_weight(self.reg, "reg")
        check_count(self.n_neighbors, "n_neighbors", least=1)
        check_neighbours(self.algorithm)
        if self.t is not None:
            check_weight(self.t, "t", positive=True)

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        return super()._training_data(views, classes).in_span(common=True)

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


@parameters
class NCA(PooledEmbedding):
    r"""Neighbourhood Components Analysis of the pooled samples of all views.

    Maximises the expected number of samples that a stochastic nearest-neighbour rule classifies correctly [1]_,

    .. math::
        \sum_i \sum_{j \neq i,\, y_j = y_i} p_{ij}, \qquad
        p_{ij} = \frac{\exp(-\|W^\top x_i - W^\top x_j\|^2)}{\sum_{k \neq i} \exp(-\|W^\top x_i - W^\top x_k\|^2)}

    over all samples i in all views, with scikit-learn's ``NeighborhoodComponentsAnalysis``. The objective does not
    change when the space is rotated, so the components are the principal axes of the training samples there.

    Parameters
    ----------
    init : {"auto", "pca", "identity"}
        Map to start from. ``"auto"`` is that of LDA if there are at most as many components as classes less one,
        otherwise that of PCA or, if that cannot find as many, the identity.
    scale : float
        Mean squared distance of the samples from their mean at the start, whatever their units: the larger it is, the
        fewer neighbours count.
    max_iter : int
        Maximum number of iterations of the solver, L-BFGS.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Variances of the training samples along the components, descending.

    Notes
    -----
    Time and memory of an iteration grow with the square of the number of samples in all views.

    References
    ----------
    .. [1] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood Components Analysis", NIPS 2004.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.NCA(n_components=5).fit(data.views[:200], data.y[:200]).transform(data.views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    n_components: int = field(default=20, kw_only=False)
    init: str = "auto"
    scale: float = 10.0
    center: bool = True
    max_iter: int = 50

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "init": ["auto", "pca"],
        "scale": [1.0, 10.0, 100.0],
    }
    _needs_labels = True
    _nested_components = False
    _takes_tensors = False

    def _check_params(self, views: Views) -> None:
        check_choice(self.init, "init", ("auto", "pca", "identity"))
        check_weight(self.scale, "scale", positive=True)
        check_count(self.max_iter, "max_iter", least=1)

    def _max_components(self, data: Samples) -> int:
        return min(super()._max_components(data), int(data.n_seen.sum()))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        (X,) = samples.arrays
        report(now="maximising the objective")
        analysis = NeighborhoodComponentsAnalysis(d, init=self.init, max_iter=self.max_iter, random_state=0)
        factor = np.sqrt(self.scale * len(X) / np.square(X).sum())
        W = factor * np.ascontiguousarray(analysis.fit(factor * X, samples.labels).components_.T)
        Z = product(X, W)
        variances, axes = scipy.linalg.eigh(cross_product(Z, Z) / max(len(Z) - 1, 1))
        return variances[::-1], product(W, np.ascontiguousarray(axes[:, ::-1]))
