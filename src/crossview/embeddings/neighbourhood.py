"""Neighbourhood components analysis."""

from typing import ClassVar

import numpy as np
import scipy.linalg
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from crossview._progress import report
from crossview._types import Array
from crossview._validation import check_choice, check_count, check_weight
from crossview.embeddings._base import N_COMPONENTS, PooledEmbedding, SearchSpace
from crossview.engines import cross_product, product
from crossview.samples import Samples

__all__ = ["NCA"]


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
    n_components : int
        d: dimension of the space, at most the number of features of a view.
    init : {"auto", "pca", "identity"}
        Map to start from. ``"auto"`` is that of LDA if there are at most as many components as classes less one,
        otherwise that of PCA or, if that cannot find as many, the identity.
    scale : float
        Mean squared distance of the samples from their mean at the start, whatever their units: the larger it is, the
        fewer neighbours count.
    center : bool
        Subtract the training mean of each view first.
    max_iter : int
        Maximum number of iterations of the solver, L-BFGS.

    Attributes
    ----------
    projections_, means_
        As in `MvHE`.
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

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "init": ["auto", "pca"],
        "scale": [1.0, 10.0, 100.0],
    }
    _needs_labels = True
    _nested_components = False
    _takes_tensors = False

    def __init__(
        self,
        n_components: int = 20,
        *,
        init: str = "auto",
        scale: float = 10.0,
        center: bool = True,
        max_iter: int = 50,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.scale = scale
        self.center = center
        self.max_iter = max_iter

    def _check_params(self, n_views: int) -> None:
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
