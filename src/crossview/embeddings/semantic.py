"""Semantic matching: the common space of class posteriors."""

import warnings
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from crossview._progress import progress
from crossview._schema import VIEWS, Schema
from crossview._types import Array, Indices
from crossview._validation import WARNING_FILTERS, check_count, check_flag, check_weight
from crossview.embeddings._base import Embedding, SearchSpace
from crossview.embeddings.correlation import MCCA
from crossview.engines import product
from crossview.exceptions import NotApplicableError
from crossview.samples import Samples
from crossview.views import ViewInput

__all__ = ["SemanticMatching"]


class SemanticMatching(Embedding):
    r"""Logistic regression of the classes on every view; samples are matched by their class posteriors.

    The common space has one coordinate per training class c, the posterior

    .. math::
        P(c \mid x) = \frac{\exp(w_{vc}^\top x + b_{vc})}{\sum_{c'} \exp(w_{vc'}^\top x + b_{vc'})}

    of multinomial logistic regression in view v [1]_. With `cca_components`, the regression follows a canonical
    correlation analysis of the views (multi-set if there are more than two), which [1]_ calls semantic correlation
    matching. Samples of classes that are not in training are described by their resemblance to those that are.

    Parameters
    ----------
    C : float
        Inverse strength of the ridge on the weights of the regressions, as in scikit-learn's ``LogisticRegression``.
    log : bool
        Use the logarithms of the posteriors as coordinates.
    cca_components : int, optional
        Number of components of the correlation analysis; None for none.
    cca_reg : float
        Its ridge, as `reg` in `MCCA`.
    max_iter : int
        Maximum number of iterations of the solver of the regressions, L-BFGS.

    Attributes
    ----------
    projections_, intercepts_ : list of ndarray, each of shape (D_v, d), and (d,)
        Weights and intercepts of the regression in each view, where d is the number of classes. They include the
        map of the correlation analysis.
    means_, view_names_, n_features_, feature_names_, image_shape_
        As in `MvHE`.

    References
    ----------
    .. [1] N. Rasiwasia, J. Costa Pereira, E. Coviello, G. Doyle, G. R. G. Lanckriet, R. Levy, N. Vasconcelos, "A New
       Approach to Cross-Modal Multimedia Retrieval", ACM Multimedia, 2010. See also J. Costa Pereira et al., "On the
       Role of Correlation and Abstraction in Cross-Modal Multimedia Retrieval", IEEE Transactions on Pattern Analysis
       and Machine Intelligence 36(3), 2014.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.SemanticMatching().fit(data.views[:300], data.y[:300])
    >>> model.transform_view(data.views["left"][300:], "left").shape  # a posterior for each digit
    (1497, 10)
    """

    search_space: ClassVar[SearchSpace] = {
        "C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1],
        "log": [False, True],
        "cca_components": [None, 5, 10, 20, 40],
        "cca_reg": [1e-3, 1e-2, 1e-1, 1.0],
    }
    _needs_labels = True
    _nested_components = False
    _takes_tensors = False
    _nonnegative: ClassVar[tuple[str, ...]] = ("cca_reg",)
    center = True

    intercepts_: list[Array]
    _schema: ClassVar[Schema] = {**VIEWS, "means_": ["D"], "projections_": ["D d"], "intercepts_": ["d"]}

    def __init__(
        self,
        *,
        C: float = 1.0,
        log: bool = False,
        cca_components: int | None = None,
        cca_reg: float = 0.1,
        max_iter: int = 1000,
    ) -> None:
        self.C = C
        self.log = log
        self.cca_components = cca_components
        self.cca_reg = cca_reg
        self.max_iter = max_iter

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Fit a regression to every view.

        Parameters
        ----------
        views, y
            As in `MvHE.fit`. Every view must have samples of every class.

        Returns
        -------
        self
            The fitted model.
        """
        data = self._prepare(views, y)
        self._check_classes(data)
        maps, regressions = self._correlated(data), []
        with progress("Fitting SemanticMatching", len(maps), unit="views") as advance:
            for name, X, seen, W in zip(data.views.names, data.arrays, data.mask.T, maps, strict=True):
                features = X[seen] if W is None else product(X[seen], W)
                regressions.append(self._regress(features, data.labels[seen], name))
                advance()
        self.projections_ = [B if W is None else product(W, B) for (B, _), W in zip(regressions, maps, strict=True)]
        self.intercepts_ = [b for _, b in regressions]
        self.means_ = data.means
        self._remember(data.views)
        return self

    def _requested_components(self) -> int:
        if self.cca_components is not None:
            check_count(self.cca_components, "cca_components", least=1)
        return self.cca_components or 0

    def _check_params(self, n_views: int) -> None:
        check_weight(self.C, "C", positive=True)
        check_flag(self.log, "log")
        check_count(self.max_iter, "max_iter", least=1)

    def _check_classes(self, data: Samples) -> None:
        for name, seen in zip(data.views.names, data.mask.T, strict=True):
            lacking = data.n_classes - len(np.unique(data.labels[seen]))
            if lacking:
                fix = "leave them out, or use crossview.MvHE"
                raise NotApplicableError(
                    f"SemanticMatching needs samples of every class in every view, but view {name!r} has none of "
                    f"{lacking} of the {data.n_classes} classes: {fix}."
                )

    def _correlated(self, data: Samples) -> list[Array | None]:
        """The map of every view by canonical correlation analysis, if wanted."""
        if self.cca_components is None:
            return [None] * len(data.arrays)
        analysis = MCCA(self.cca_components, reg=self.cca_reg).fit(data.views)
        # Components have unit variance, on which the ridge of the regression depends.
        return [np.ascontiguousarray(W) * np.sqrt(len(data.views)) for W in analysis.projections_]

    def _regress(self, X: Array, classes: Indices, view: str) -> tuple[Array, Array]:
        """Weights (features, classes) and intercepts of a regression."""
        with WARNING_FILTERS:  # which scikit-learn changes
            model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(X, classes)
        weights, intercepts = model.coef_.T, model.intercept_
        if len(model.classes_) == 2:  # a single logit, that of the second class
            weights, intercepts = weights * [[-0.5, 0.5]], intercepts * [-0.5, 0.5]
        weights = np.ascontiguousarray(weights)
        if np.ptp(product(X, weights), axis=0).max() < 1e-3:  # of the logits
            fix = "scale the views, for example with ViewScaler, or use a larger C"
            warnings.warn(f"SemanticMatching describes all samples of view {view!r} alike: {fix}.", stacklevel=3)
        return weights, intercepts

    def _map(self, X: Array, v: int) -> Array:
        logits = product(X - self.means_[v], self.projections_[v]) + self.intercepts_[v]
        posteriors: Array = log_softmax(logits, axis=1)
        return posteriors if self.log else np.exp(posteriors)
