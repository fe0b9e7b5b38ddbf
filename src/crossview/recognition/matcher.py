"""Enrol a gallery from one view and recognise probes from another."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from crossview._transformer import map_view
from crossview._types import Array
from crossview._validation import check_choice, check_count
from crossview.distances import class_distances_in_chunks, distances_in_chunks, nearest
from crossview.recognition.search import EmbeddingSearchCV
from crossview.views import ViewInput

__all__ = ["CrossViewClassifier", "chosen_metric"]


class CrossViewClassifier(BaseEstimator):
    """Recognise samples of one view among enrolled samples of another.

    Parameters
    ----------
    embedding : estimator
        An embedding, a pipeline that ends in one, or a search for one.
    n_neighbors : int
        Number of nearest gallery samples that vote. Ties go to the class of the nearest sample.
    metric : {"euclidean", "cosine"}, optional
        The distance. The default is the one that a search chose, or else Euclidean.
    unknown_label : optional
        Label of probes that are farther from the gallery than the threshold. The default is -1, or "unknown" if the
        classes are strings.

    Attributes
    ----------
    embedding_ : estimator
        The fitted embedding.
    gallery_, gallery_labels_ : ndarray of shape (g, d) and (g,)
        Enrolled samples in the common space, and their classes.
    threshold_ : float or None
        Distance beyond which a probe is unknown; None before calibration.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.CrossViewClassifier(cv.KMvHE(n_components=10)).fit(data.views[:500], data.y[:500])
    >>> model.enroll(data.views["left"][:500], data.y[:500], "left")
    CrossViewClassifier(embedding=KMvHE(n_components=10))
    >>> model.predict(data.views["right"][500:505], "right").shape
    (5,)
    """

    gallery_: Array
    gallery_labels_: NDArray[Any]

    def __init__(
        self, embedding: Any, n_neighbors: int = 1, metric: str | None = None, unknown_label: Any = None
    ) -> None:
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.unknown_label = unknown_label

    def fit(self, views: ViewInput, y: ArrayLike) -> Self:
        """Learn the common space and empty the gallery.

        Parameters
        ----------
        views, y
            As in the ``fit`` of the embedding.

        Returns
        -------
        self : CrossViewClassifier
            The fitted matcher.
        """
        check_count(self.n_neighbors, "n_neighbors", least=1)
        if self.metric is not None:
            check_choice(self.metric, "metric", ("euclidean", "cosine"))
        self.embedding_ = clone(self.embedding).fit(views, y)
        self.threshold_: float | None = None
        if hasattr(self, "gallery_"):
            del self.gallery_, self.gallery_labels_
        return self

    def enroll(self, X: ArrayLike, y: ArrayLike, view: int | str, *, replace: bool = False) -> Self:
        """Add samples to the gallery, which may hold samples of several views.

        Parameters
        ----------
        X : array-like of shape (g, D_v)
            Samples of the view.
        y : array-like of shape (g,)
            Their classes, which need not occur in the training data.
        view : int or str
            The view, by position or name.
        replace : bool
            Whether to empty the gallery first.

        Returns
        -------
        self : CrossViewClassifier
            The matcher. Its threshold is reset, because it depends on the gallery.
        """
        latent, labels = self._latent(X, view), column_or_1d(y)
        if len(labels) != len(latent):
            raise ValueError(f"y has {len(labels)} labels for {len(latent)} samples: give one label per row.")
        if hasattr(self, "gallery_") and not replace:
            if (labels.dtype.kind in "OU") != (self.gallery_labels_.dtype.kind in "OU"):
                raise ValueError("y and the gallery's labels must be of the same kind: use either strings or numbers.")
            latent = np.concatenate([self.gallery_, latent])
            labels = np.concatenate([self.gallery_labels_, labels])
        self.gallery_, self.gallery_labels_ = latent, labels
        self.threshold_ = None
        return self

    def kneighbors(
        self, X: ArrayLike, view: int | str, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Find the gallery samples nearest to each probe.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes from the view.
        view : int or str
            The view, by position or name.
        n_neighbors : int, optional
            Number of neighbours. The default is the number that vote.

        Returns
        -------
        distances, indices : ndarray of shape (t, n_neighbors)
            Distances, in ascending order, and rows of ``gallery_``, in the order of enrolment.
        """
        probes = self._latent(X, view)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check_count(k, "n_neighbors", least=1)
        gallery = self._gallery()
        if k > len(gallery):
            raise ValueError(f"n_neighbors={k} is more than the {len(gallery)} samples in the gallery: enrol more.")
        return nearest(distances_in_chunks(gallery, probes, chosen_metric(self)), k)

    def predict(self, X: ArrayLike, view: int | str) -> NDArray[Any]:
        """Predict the classes of probes. After calibration, probes beyond the threshold get the unknown label.

        Parameters
        ----------
        X, view
            As in `kneighbors`.

        Returns
        -------
        labels : ndarray of shape (t,)
            Predicted classes.
        """
        distances, indices = self.kneighbors(X, view)
        labels = self.gallery_labels_[indices]
        votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
        predicted: NDArray[Any] = labels[np.arange(len(labels)), votes.argmax(axis=1)]
        if self.threshold_ is None:
            return predicted
        unknown = self.unknown_label
        if unknown is None:
            unknown = "unknown" if predicted.dtype.kind in "OU" else -1
        return np.where(distances[:, 0] > self.threshold_, np.asarray(unknown), predicted)

    def rank(self, X: ArrayLike, view: int | str, k: int = 5) -> tuple[NDArray[Any], Array]:
        """Rank the k nearest classes of each probe. The distance to a class is that to its nearest sample.

        Parameters
        ----------
        X, view
            As in `kneighbors`.
        k : int
            Number of classes, at most the number in the gallery.

        Returns
        -------
        labels, distances : ndarray of shape (t, k)
            Classes, nearest first, and their distances.
        """
        check_count(k, "k", least=1)
        gallery, probes = self._gallery(), self._latent(X, view)
        classes, chunks = class_distances_in_chunks(gallery, self.gallery_labels_, probes, chosen_metric(self))
        if k > len(classes):
            raise ValueError(f"k={k} is more than the {len(classes)} classes in the gallery.")
        distances, first = nearest(chunks, k)
        return classes[first], distances

    def calibrate(self, X: ArrayLike, y: ArrayLike, view: int | str, false_match_rate: float = 0.01) -> Self:
        """Set the threshold beyond which a probe is unknown.

        Each calibration probe plays an impostor: gallery samples of its class are ignored, and the threshold is set so
        that the given share of probes still finds a match.

        Parameters
        ----------
        X, view
            As in `kneighbors`, with probes that were not used in training.
        y : array-like of shape (t,)
            The classes of the probes, enrolled or not.
        false_match_rate : float
            Share of probes from classes outside the gallery that may still be matched.

        Returns
        -------
        self : CrossViewClassifier
            The calibrated matcher.
        """
        if not 0.0 <= false_match_rate < 1.0:
            raise ValueError(f"false_match_rate must be a share from 0 to below 1, got {false_match_rate!r}.")
        probes, labels, gallery = self._latent(X, view), column_or_1d(y), self._gallery()
        if len(labels) != len(probes):
            raise ValueError(f"y has {len(labels)} labels for {len(probes)} samples: give one label per row.")
        closest = [
            np.where(self.gallery_labels_ == labels[rows][:, None], np.inf, block).min(axis=1)
            for rows, block in distances_in_chunks(gallery, probes, chosen_metric(self))
        ]
        impostors = np.sort(np.concatenate(closest))
        if not np.isfinite(impostors).all():
            raise ValueError("the gallery has only one class: enrol others before calibrating.")
        # The largest distance that accepts at most the allowed number of impostors.
        self.threshold_ = float(np.nextafter(impostors[int(false_match_rate * len(impostors))], -np.inf))
        return self

    def score(self, X: ArrayLike, y: ArrayLike, view: int | str) -> float:
        """Return the share of probes that are recognised correctly, the rank-1 accuracy.

        Parameters
        ----------
        X, view
            As in `kneighbors`.
        y : array-like of shape (t,)
            The classes of the probes.
        """
        return float(np.mean(self.predict(X, view) == column_or_1d(y)))

    def _latent(self, X: ArrayLike, view: int | str) -> Array:
        check_is_fitted(self, "embedding_")
        latent = map_view(self.embedding_, X, view)
        if np.isnan(latent).any():
            raise ValueError("rows of NaN are missing in this view: leave them out.")
        return latent

    def _gallery(self) -> Array:
        if not hasattr(self, "gallery_"):
            raise ValueError("the gallery is empty: call enroll first.")
        return self.gallery_


def chosen_metric(model: Any) -> str:
    """Return the distance that suits a fitted model: the matcher's, the one a search chose, or else Euclidean."""
    if isinstance(model, CrossViewClassifier):
        return model.metric or chosen_metric(model.embedding_)
    return model.best_metric_ if isinstance(model, EmbeddingSearchCV) else "euclidean"
