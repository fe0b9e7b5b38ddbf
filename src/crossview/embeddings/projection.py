"""Principal component analysis."""

from typing import ClassVar

import numpy as np
import scipy.linalg

from crossview._types import Array
from crossview.embeddings._base import N_COMPONENTS, WHITENINGS, PooledEmbedding, SearchSpace
from crossview.samples import Samples

__all__ = ["PCA"]


class PCA(PooledEmbedding):
    r"""Principal Component Analysis.

    Maximises the variance :math:`\operatorname{tr} W^\top X^\top X W` subject to :math:`W^\top W = I`, over the pooled
    samples of all views, with one map for all [1]_.

    Parameters
    ----------
    n_components : int
        d: dimension of the space, at most the number of features of a view.
    whitening : float, optional
        As in `MvHE`; needs labels.
    center : bool
        Subtract the training mean of each view first.

    Attributes
    ----------
    projections_, means_
        As in `MvHE`.
    eigenvalues_ : ndarray of shape (d,)
        Variances along the components, descending.

    References
    ----------
    .. [1] M. Turk, A. Pentland, "Eigenfaces for Recognition", Journal of Cognitive Neuroscience 3(1), 1991.

    Examples
    --------
    >>> import crossview as cv
    >>> cv.PCA(n_components=5).fit_transform(cv.datasets.load_digits().views)
    Views(1797 samples; left: 5 features, right: 5 features)
    """

    search_space: ClassVar[SearchSpace] = {"n_components": N_COMPONENTS, "whitening": WHITENINGS}
    _refits: ClassVar[tuple[str, ...]] = ("whitening",)

    def _max_components(self, data: Samples) -> int:
        return min(super()._max_components(data), int(data.n_seen.sum()))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        (m,), (D,) = samples.n_seen, samples.n_features
        if m < D:
            _, singular, Vt = scipy.linalg.svd(samples.factor(), full_matrices=False, check_finite=False)
            return np.square(singular[:d]) / max(m - 1, 1), Vt[:d].T
        (gram,) = samples.grams()
        values, V = scipy.linalg.eigh(gram, subset_by_index=[D - d, D - 1], overwrite_a=True, check_finite=False)
        return values[::-1] / max(m - 1, 1), V[:, ::-1]
