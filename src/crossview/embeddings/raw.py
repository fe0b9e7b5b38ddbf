"""Doing nothing: the baseline that every method has to beat."""

from typing import ClassVar, Self

from numpy.typing import ArrayLike

from crossview._schema import VIEWS, Schema, has_shape
from crossview._types import Rows
from crossview.embeddings._base import Embedding, SearchSpace
from crossview.engines import shift
from crossview.views import ViewInput

__all__ = ["RawFeatures"]


class RawFeatures(Embedding):
    """The features as they are, less the mean of each view; nothing is learned.

    Methods that learn must match better than this. If the features come from a network that was trained to recognise
    classes like yours, they often do not.

    Parameters
    ----------
    center : bool
        Subtract the training mean of each view, so that views do not differ by a constant.

    Attributes
    ----------
    means_, view_names_, n_features_, feature_names_, image_shape_
        As in `MvHE`.

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

    search_space: ClassVar[SearchSpace] = {}
    _needs_equal_widths = True
    _nested_components = False
    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": [lambda value, sizes: has_shape(value, "D", sizes) and has_shape(value, "d", sizes)],
    }

    def __init__(self, *, center: bool = True) -> None:
        self.center = center

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Compute the mean of each view.

        Parameters
        ----------
        views
            As in `MvHE.fit`, all of the same width.
        y : ignored
            Not used.

        Returns
        -------
        self
            The fitted model.
        """
        data = self._prepare(views, y)
        self.means_ = data.means
        self._remember(data.views)
        return self

    def _requested_components(self) -> int:
        return 0

    def _map(self, X: Rows, v: int) -> Rows:
        return shift(X, self.means_[v])

    def _n_outputs(self, v: int) -> int:
        return self.n_features_[v]
