"""Baselines that are not in the paper: doing nothing, and matching by class posteriors."""

import warnings
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from crossview._parameters import parameters
from crossview._progress import report
from crossview._schema import VIEWS, Schema, has_shape
from crossview._types import Array, Indices, Rows
from crossview._validation import WARNING_FILTERS, check_count, check_flag, check_weight
from crossview.embeddings._base import Embedding, SearchSpace
from crossview.embeddings.correlation import MCCA
from crossview.engines import product, shift
from crossview.exceptions import NotApplicableError
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["RawFeatures", "SemanticMatching"]


@parameters
class RawFeatures(Embedding):
    """The features as they are, less the mean of each view; nothing is learned.

    Methods that learn must match better than this. If the features come from a network that was trained to recognise
    classes like yours, they often do not.

    Parameters
    ----------
    center : bool
        Subtract the training mean of each view, so that views do not differ by a constant.

    Notes
    -----
    Views need equal numbers of features, with the same meaning in every view. `crossview.tune` tries every scaling, and
    no principal components, which are learned.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.make_turntable(12, size=12, random_state=0)
    >>> cv.RawFeatures().fit(data.views).transform(data.views).n_features
    (144, 144, 144)
    """

    center: bool = True

    _needs_equal_widths = True
    _nested_components = False
    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": [lambda value, sizes: has_shape(value, "D", sizes) and has_shape(value, "d", sizes)],
    }

    def _learn(self, data: Samples) -> None:
        self.means_ = data.means

    def _map(self, X: Rows, v: int) -> Rows:
        return shift(X, self.means_[v])

    def _n_outputs(self, v: int) -> int:
        return self.n_features_[v]


@parameters
class SemanticMatching(Embedding):
    r"""Logistic regression of the classes on every view; samples are matched by their class posteriors.

    The common space has one coordinate per training class c, the posterior

    .. math::
        P(c \mid x) = \frac{\exp(w_{vc}^\top x + b_{vc})}{\sum_{c'} \exp(w_{vc'}^\top x + b_{vc'})}

    of multinomial logistic regression in view v [1]_. With `cca_components`, the regression follows a canonical
    correlation analysis of the views (multi-set if there are more than two), which [1]_ calls semantic correlation
    matching. Samples of classes that are not in training are described by their resemblance to those that are. Every
    view must have samples of every class.

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

    C: float = 1.0
    log: bool = False
    cca_components: int | None = None
    cca_reg: float = 0.1
    max_iter: int = 1000

    search_space: ClassVar[SearchSpace] = {
        "C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1],
        "log": [False, True],
        "cca_components": [None, 5, 10, 20, 40],
        "cca_reg": [1e-3, 1e-2, 1e-1, 1.0],
    }
    _needs_labels = True
    _nested_components = False
    _takes_tensors = False
    _counted = "views"
    _schema: ClassVar[Schema] = {**VIEWS, "means_": ["D"], "projections_": ["D d"], "intercepts_": ["d"]}

    def _check_params(self, views: Views) -> None:
        check_weight(self.C, "C", positive=True)
        check_flag(self.log, "log")
        if self.cca_components is not None:
            check_count(self.cca_components, "cca_components", least=1)
        check_weight(self.cca_reg, "cca_reg")
        check_count(self.max_iter, "max_iter", least=1)

    def _learn(self, data: Samples) -> None:
        for name, seen in zip(data.views.names, data.mask.T, strict=True):
            if lacking := data.n_classes - len(np.unique(data.labels[seen])):
                raise NotApplicableError(
                    f"SemanticMatching needs samples of every class in every view, but view {name!r} has none of "
                    f"{lacking} of the {data.n_classes} classes: leave them out, or use crossview.MvHE."
                )
        maps: list[Array | None] = [None] * len(data.arrays)
        if self.cca_components is not None:
            analysis = MCCA(self.cca_components, reg=self.cca_reg).fit(data.views)
            # Components have unit variance, on which the ridge of the regression depends.
            maps = [np.ascontiguousarray(W) * np.sqrt(len(data.views)) for W in analysis.projections_]
        report(more=len(maps), now="fitting regressions")
        projections, intercepts = [], []
        for name, X, seen, W in zip(data.views.names, data.arrays, data.mask.T, maps, strict=True):
            features = X[seen] if W is None else product(X[seen], W)
            weights, intercept = self._regress(features, data.labels[seen], name)
            projections.append(weights if W is None else product(W, weights))
            intercepts.append(intercept)
            report(1)
        self.projections_: list[Array] = projections
        self.intercepts_: list[Array] = intercepts
        self.means_: list[Array] = data.means

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
            warnings.warn(f"SemanticMatching describes all samples of view {view!r} alike: {fix}.", stacklevel=4)
        return weights, intercepts

    def _map(self, X: Array, v: int) -> Array:
        logits = product(X - self.means_[v], self.projections_[v]) + self.intercepts_[v]
        posteriors: Array = log_softmax(logits, axis=1)
        return posteriors if self.log else np.exp(posteriors)
