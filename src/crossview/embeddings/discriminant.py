"""Discriminant analyses of several views."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils import Tags

from crossview._blas import cross_product
from crossview.embeddings._linear import LinearEmbedding, TrainingData
from crossview.graphs.neighbours import Indices
from crossview.linalg.classes import class_sums, grams, joint_scatters, view_scatters
from crossview.linalg.generalized import factor_blocks, largest_generalized_eigenpairs, ridge
from crossview.linalg.scatter import patch_scatter
from crossview.views import Array

__all__ = ["MvDA", "MvDAVC", "MvMDA"]


class _Discriminant(LinearEmbedding):
    """A supervised method whose between-class scatter has the rank of the number of classes less one."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _max_components(self, data: TrainingData) -> int:
        return min(super()._max_components(data), data.n_classes - 1)


def _classes(data: TrainingData) -> Indices:
    assert data.classes is not None
    return data.classes


class MvDA(_Discriminant):
    r"""Multi-view Discriminant Analysis.

    Separates the classes of all views together, each with one mean :math:`\mu^c` in the common space: maximises

    .. math::
        \operatorname{tr} \sum_c N^c (\mu^c - \mu)(\mu^c - \mu)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu^c)(W_v^\top x - \mu^c)^\top = I

    with the ratio trace in the place of the ratio of traces [1]_. With one view it would be LDA.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    reg : float
        Ridge on the constraint's scatter matrix, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        W_v of every view.
    eigenvalues_ : ndarray of shape (d,)
        The largest eigenvalues, descending.
    means_ : list of ndarray, each of shape (D_v,)
        What is subtracted from every view.

    References
    ----------
    .. [1] M. Kan, S. Shan, H. Zhang, S. Lao, X. Chen, "Multi-view Discriminant Analysis", ECCV 2012.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvDA().fit(data.views[:900], data.y[:900]).transform(data.views)
    Views(1797 samples; left: 9 features, right: 9 features)
    """

    def __init__(self, n_components: int = 20, reg: float = 1e-3, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        between, within = joint_scatters(data.arrays, data.mask, _classes(data))
        return largest_generalized_eigenpairs(between, ridge(within, self.reg), d)


class MvDAVC(MvDA):
    r"""Multi-view Discriminant Analysis with View-Consistency.

    `MvDA` whose constraint also holds the views' maps together where they come from: written as combinations of the
    training samples, :math:`W_v = X_v^\top \beta_v`, views that see the same samples should combine them alike. The
    constraint's scatter becomes :math:`S_W + \lambda \sum_i \sum_{j \neq i} \|\beta_i - \beta_j\|^2` with
    :math:`\beta_v = X_v (X_v^\top X_v)^{-1} W_v` [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    lambda_consistency : float
        λ: weight of the view-consistency; 0 leaves it out.
    reg : float
        Ridge on the constraint's scatter matrix, and on the Gram matrices in β, relative to their mean diagonals.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    References
    ----------
    .. [1] M. Kan, S. Shan, H. Zhang, S. Lao, X. Chen, "Multi-view Discriminant Analysis", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 38(1), 2016.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvDAVC().fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (9,)
    """

    _weights: ClassVar[tuple[str, ...]] = ("lambda_consistency", "reg")

    def __init__(
        self, n_components: int = 20, lambda_consistency: float = 1.0, reg: float = 1e-3, center: bool = True
    ) -> None:
        super().__init__(n_components, reg, center)
        self.lambda_consistency = lambda_consistency

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        between, within = joint_scatters(data.arrays, data.mask, _classes(data))
        if self.lambda_consistency:
            within += self.lambda_consistency * self._consistency(data)
        return largest_generalized_eigenpairs(between, ridge(within, self.reg), d)

    def _consistency(self, data: TrainingData) -> Array:
        """Σ_i Σ_{j≠i} |β_i - β_j|² is LE-paired on the arrays that lead from W_v to β_v."""
        factors = factor_blocks([ridge(gram, self.reg) for gram in grams(data.arrays)])
        duals: list[Array] = [
            np.ascontiguousarray(scipy.linalg.cho_solve((L, True), X.T).T)
            for X, L in zip(data.arrays, factors, strict=True)
        ]
        m = len(data.mask)
        S = patch_scatter(duals, data.mask, [sp.csr_array((m, m))] * len(duals), paired=1.0)
        return np.tril(S) + np.tril(S, -1).T


class MvMDA(_Discriminant):
    r"""Multi-view Modular Discriminant Analysis.

    Separates class centres across views, and keeps classes compact within each: maximises

    .. math::
        \operatorname{tr} \sum_{i, j} \sum_{p, q} (\mu_i^p - \mu_i^q)(\mu_j^p - \mu_j^q)^\top
        \quad \text{subject to} \quad
        \sum_v \sum_c \sum_{x \in c} (W_v^\top x - \mu_v^c)(W_v^\top x - \mu_v^c)^\top = I

    where :math:`\mu_v^c` is the mean of class c in view v, in the common space [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the common space; at most the number of classes less one, to which it is cut.
    reg : float
        Ridge on every view's within-class scatter, relative to its mean diagonal.
    center : bool
        Subtract every view's training mean first.

    Attributes
    ----------
    projections_, eigenvalues_, means_
        As in `MvDA`.

    Notes
    -----
    Every class must be seen in every view, and some class twice in one: otherwise it has no mean to separate, or no
    within-class scatter.

    References
    ----------
    .. [1] G. Cao, A. Iosifidis, K. Chen, M. Gabbouj, "Generalized Multi-view Embedding for Visual Recognition and
       Cross-modal Retrieval", IEEE Transactions on Cybernetics 48(9), 2018.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> cv.MvMDA().fit(data.views[:900], data.y[:900]).eigenvalues_.shape
    (9,)
    """

    def __init__(self, n_components: int = 20, reg: float = 1e-3, center: bool = True) -> None:
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _solve(self, data: TrainingData, d: int) -> tuple[Array, Array]:
        sums, counts = class_sums(data.arrays, data.mask, _classes(data))
        if not counts.all():
            raise ValueError("MvMDA needs every class in every view: leave out the others, or use crossview.MvDA.")
        check_within_class_scatter(counts, "MvMDA")
        means = np.hstack([total / number[:, None] for total, number in zip(sums, counts.T, strict=True)])
        means -= means.mean(axis=0)
        between = 2.0 * len(means) * cross_product(means, means)
        _, within = view_scatters(data.arrays, data.mask, _classes(data))
        return largest_generalized_eigenpairs(between, [ridge(B, self.reg) for B in within], d)


def check_within_class_scatter(counts: Array, name: str) -> None:
    """Refuse data in which no view has a class twice."""
    if counts.max() < 2:
        raise ValueError(
            f"every class has one sample per view, so that there is no within-class scatter for {name} to keep "
            "small: use MvDA, MvDAVC or MvHE, which compare classes across views."
        )
