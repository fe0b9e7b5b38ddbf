"""Methods that keep neighbourhoods: part optimisation and whole alignment over pooled samples."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from crossview._types import Array, Indices
from crossview._validation import check_count, check_weight
from crossview.embeddings._base import Embedding
from crossview.embeddings._data import TrainingData
from crossview.embeddings._pooled import PooledEmbedding
from crossview.embeddings._spaces import NUMBERS, SearchSpace
from crossview.graphs.neighbours import class_neighbours
from crossview.graphs.patches import Patches
from crossview.linalg.eigen import smallest_eigenpairs
from crossview.linalg.generalised import largest_generalised_eigenpairs, ridge
from crossview.linalg.scatter import graph_scatter

__all__ = ["DLA", "LPP", "MvDLA"]


def _patch_graph(X: Array, classes: Indices, n_within: int, n_between: int, beta: float) -> sp.csr_array:
    """The patches of DLA as a graph over the samples."""
    patches = Patches(*class_neighbours(X, classes, n_within, n_between))
    return patches.graph(n_within, n_between, between_weight=-beta)


class _Patches(Embedding):
    """What DLA and MvDLA share."""

    n_within: int
    n_between: int
    beta: float
    _needs_labels: ClassVar[bool] = True
    _weights: ClassVar[tuple[str, ...]] = ("beta",)

    def _check_params(self, n_views: int) -> None:
        check_count(self.n_within, "n_within", least=0)
        check_count(self.n_between, "n_between", least=0)
        if not self.n_within and not (self.n_between and self.beta):
            raise ValueError("n_within and n_between (or beta) are 0: give patches at least one neighbour.")


class DLA(_Patches, PooledEmbedding):
    r"""Discriminative Locality Alignment.

    Keeps every sample near those of its class around it and away from others: minimises

    .. math::
        \sum_k \Big( \sum_{s=1}^{p_1} \|y^k - (y^k)_s\|^2 - \beta \sum_{t=1}^{p_2} \|y^k - (y^k)^t\|^2 \Big)
        \quad \text{subject to} \quad W^\top W = I

    over the samples of all views together or of every view by itself, where :math:`(x)_s` is the s-th nearest sample
    of the class of x and :math:`(x)^t` the t-th nearest of other classes [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the space, to be cut to the number of features.
    beta : float
        β: how much between-class distances count against within-class ones.
    n_within, n_between : int
        p1, p2: neighbours of the same class and of other classes in a patch.
    pooled : bool
        One map for all views, which need equal numbers of features; False for one per view.
    center : bool
        Subtract the training mean first: of all views together, if pooled.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,), or (n, d) if not pooled
        The smallest eigenvalues, ascending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

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
        "n_components": NUMBERS,
        "beta": [0.03, 0.1, 0.3],
        "n_within": [1, 3, 7],
        "n_between": [5, 15],
    }
    _sets_in_span: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int = 20,
        beta: float = 0.1,
        n_within: int = 7,
        n_between: int = 15,
        pooled: bool = True,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.n_within = n_within
        self.n_between = n_between
        self.pooled = pooled
        self.center = center

    def _solve_one(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        assert classes is not None
        S, _ = graph_scatter([X], _patch_graph(X, classes, self.n_within, self.n_between, self.beta))
        return smallest_eigenpairs(S, d, overwrite=True)


class MvDLA(_Patches):
    r"""Multi-view Discriminative Locality Alignment.

    `DLA` over the samples of all views together, as seen in the views, with a map per view: the patch of a sample may
    hold samples of any view. It minimises the sum over all patches subject to :math:`W^\top W = n I` for the maps one
    above the other. To draw the views together it needs many within-class neighbours, more than a class has in one
    view; with one view it would be DLA [1]_.

    Parameters
    ----------
    n_components : int or "auto"
        d: dimension of the common space; ``"auto"`` as in `MvHE`.
    beta : float
        β: how much between-class distances count against within-class ones.
    n_within, n_between : int
        p1, p2: neighbours of the same class and of other classes in a patch, of any view.
    center : bool
        Subtract every view's training mean before projecting. Neighbours are found among samples as they were given.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,)
        The smallest eigenvalues, ascending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

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
        # Within-class neighbours are found across views only where a patch holds more than a class has in one view.
        "n_components": NUMBERS,
        "beta": [0.1, 0.3, 1.0],
        "n_within": [10, 20, 40, 80],
        "n_between": [15, 50, 100],
    }
    _needs_equal_widths: ClassVar[bool] = True
    _auto_components: ClassVar[bool] = True
    _in_span: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int | str = "auto",
        beta: float = 0.1,
        n_within: int = 40,
        n_between: int = 50,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.n_within = n_within
        self.n_between = n_between
        self.center = center

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        seen = list(data.mask.T)
        samples = np.vstack([X[s] for X, s in zip(data.views.arrays, seen, strict=True)])
        classes = np.concatenate([data.labels[s] for s in seen])
        graph = _patch_graph(samples, classes, self.n_within, self.n_between, self.beta)
        S, _ = graph_scatter([X[s] for X, s in zip(data.arrays, seen, strict=True)], graph)
        eigenvalues, W = smallest_eigenpairs(S, d, overwrite=True)
        return eigenvalues, np.sqrt(len(seen)) * W


class LPP(PooledEmbedding):
    r"""Locality Preserving Projections.

    Keeps neighbours together, whatever their class: minimises

    .. math::
        \sum_k \sum_{j=1}^{K} \theta_k(j) \|y^k - y^{k_j}\|^2
        \quad \text{subject to} \quad \sum_k D_k y^k (y^k)^\top = I, \qquad
        \theta_k(j) = e^{-\|x^k - x^{k_j}\|^2 / t}

    over the samples of all views together or of every view by itself, with the K nearest samples of every sample and
    :math:`D_k` the mean of the weights that start and end at it [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the space, at most the number of features of a view.
    n_neighbors : int
        K: neighbours of a sample.
    t : float, optional
        Width of the heat kernel; the mean squared distance to neighbours when left out.
    pooled : bool
        One map for all views, which need equal numbers of features; False for one per view.
    reg : float
        Ridge on the constraint's scatter matrix, relative to its mean diagonal.
    center : bool
        Subtract the training mean first: of all views together, if pooled.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,), or (n, d) if not pooled
        The smallest eigenvalues, ascending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] X. He, P. Niyogi, "Locality Preserving Projections", NIPS 2003.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.LPP(n_components=5).fit_transform(cv.datasets.load_digits().views[:300])
    Views(300 samples; left: 5 features, right: 5 features)
    """

    _weights: ClassVar[tuple[str, ...]] = ("reg",)
    _sets_in_span: ClassVar[bool] = True

    def __init__(
        self,
        n_components: int = 20,
        n_neighbors: int = 5,
        t: float | None = None,
        pooled: bool = True,
        reg: float = 1e-3,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.t = t
        self.pooled = pooled
        self.reg = reg
        self.center = center

    def _check_params(self, n_views: int) -> None:
        check_count(self.n_neighbors, "n_neighbors", least=1)
        if self.t is not None:
            check_weight(self.t, "t", positive=True)

    def _solve_one(self, X: Array, classes: Indices | None, d: int) -> tuple[Array, Array]:
        everyone = np.zeros(len(X), dtype=np.intp)
        nearest, none = class_neighbours(X, everyone, self.n_neighbors, 0)
        graph = Patches(nearest, none).graph(nearest.shape[1], 0)
        start, end = graph.nonzero()
        distances = np.square(X[start] - X[end]).sum(axis=1)
        width = self.t if self.t is not None else float(distances.mean()) or 1.0
        heat = sp.csr_array((np.exp(-distances / width), (start, end)), shape=graph.shape)
        S, D = graph_scatter([X], heat)
        eigenvalues, W = largest_generalised_eigenpairs(-S, ridge(D, self.reg), d)
        return -eigenvalues, W
