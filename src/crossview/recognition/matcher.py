"""Enrol a gallery in one view, and recognise probes of another."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from crossview._transformer import transform_view
from crossview._types import Array
from crossview._validation import check_choice, check_count
from crossview.metrics import class_distances_in_chunks, distances_in_chunks, nearest
from crossview.recognition.search import EmbeddingSearchCV
from crossview.views import ViewInput

__all__ = ["CrossViewClassifier", "chosen_metric"]


class CrossViewClassifier(BaseEstimator):
    """Recognise samples of one view among enrolled samples of another.

    Parameters
    ----------
    embedding : estimator
        The embedding, a pipeline that ends in one, or a search for one.
    n_neighbors : int
        How many nearest gallery samples vote; where votes are even, the nearest one's class is taken.
    metric : {"euclidean", "cosine"}, optional
        The distance; when left out, the one that a search has chosen, otherwise Euclidean.
    unknown_label : optional
        What to call a probe that is further from the gallery than the threshold; -1, or "unknown" where classes are
        strings, when left out.

    Attributes
    ----------
    embedding_ : estimator
        Fitted.
    gallery_ : ndarray of shape (g, d)
        Enrolled samples in the common space.
    gallery_labels_ : ndarray of shape (g,)
        Their classes.
    threshold_ : float or None
        Distance beyond which a probe is unknown, once calibrated.

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
        """Learn the common space. The gallery is empty afterwards.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Training samples.
        y : array-like of shape (m,)
            One class label per sample.

        Returns
        -------
        self : CrossViewClassifier
            Fitted.
        """
        check_count(self.n_neighbors, "n_neighbors", least=1)
        if self.metric is not None:
            check_choice(self.metric, "metric", ("euclidean", "cosine"))
        self.embedding_ = clone(self.embedding).fit(views, y)
        self.threshold_: float | None = None
        for name in ("gallery_", "gallery_labels_"):
            self.__dict__.pop(name, None)
        return self

    def enroll(self, X: ArrayLike, y: ArrayLike, view: int | str, *, replace: bool = False) -> Self:
        """Add samples to the gallery. Its samples may come from several views.

        Parameters
        ----------
        X : array-like of shape (g, D_v)
            Samples as the view sees them.
        y : array-like of shape (g,)
            Their classes, which need not be among those of training.
        view : int or str
            The view, by position or name.
        replace : bool
            Empty the gallery first.

        Returns
        -------
        self : CrossViewClassifier
            With the larger gallery, and without a threshold, which was for the smaller one.
        """
        latent, labels = self._latent(X, view), column_or_1d(y)
        if len(labels) != len(latent):
            raise ValueError(f"y has {len(labels)} labels for {len(latent)} samples: give one label per row.")
        if hasattr(self, "gallery_") and not replace:
            if (labels.dtype.kind in "OU") != (self.gallery_labels_.dtype.kind in "OU"):
                raise ValueError("the gallery's labels are strings, or numbers, but not both: give labels of its kind.")
            latent = np.concatenate([self.gallery_, latent])
            labels = np.concatenate([self.gallery_labels_, labels])
        self.gallery_, self.gallery_labels_ = latent, labels
        self.threshold_ = None
        return self

    def kneighbors(
        self, X: ArrayLike, view: int | str, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """The gallery samples nearest to probes.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes as the view sees them.
        view : int or str
            The view, by position or name.
        n_neighbors : int, optional
            How many; as many as vote when left out.

        Returns
        -------
        distances : ndarray of shape (t, n_neighbors)
            Ascending.
        indices : ndarray of int, shape (t, n_neighbors)
            Rows of ``gallery_``, in the order of enrolment.
        """
        probes = self._latent(X, view)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check_count(k, "n_neighbors", least=1)
        gallery = self._gallery()
        if k > len(gallery):
            raise ValueError(f"n_neighbors={k} is more than the {len(gallery)} samples in the gallery: enrol more.")
        return nearest(distances_in_chunks(gallery, probes, chosen_metric(self)), k)

    def predict(self, X: ArrayLike, view: int | str) -> NDArray[Any]:
        """The classes of probes; the unknown label beyond the threshold, once that is calibrated.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes as the view sees them.
        view : int or str
            The view, by position or name.

        Returns
        -------
        labels : ndarray of shape (t,)
            Their classes.
        """
        distances, indices = self.kneighbors(X, view)
        labels = self.gallery_labels_[indices]
        votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
        predicted: NDArray[Any] = labels[np.arange(len(labels)), votes.argmax(axis=1)]
        if self.threshold_ is None:
            return predicted
        unknown = self._unknown_label()
        wide = np.result_type(predicted.dtype, np.asarray(unknown).dtype)
        predicted = predicted.astype(wide)
        predicted[distances[:, 0] > self.threshold_] = unknown
        return predicted

    def rank(self, X: ArrayLike, view: int | str, k: int = 5) -> tuple[NDArray[Any], Array]:
        """The k nearest classes of every probe, each as near as its nearest sample.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes as the view sees them.
        view : int or str
            The view, by position or name.
        k : int
            How many classes, at most those in the gallery.

        Returns
        -------
        labels : ndarray of shape (t, k)
            Classes, the nearest first.
        distances : ndarray of shape (t, k)
            Their distances.
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

        Every calibration probe stands for someone who is not enrolled: samples of its own class are passed over, and
        the threshold is where the wanted share of the probes still has a match.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes as the view sees them, not used in training.
        y : array-like of shape (t,)
            Their classes, enrolled or not.
        view : int or str
            The view, by position or name.
        false_match_rate : float
            Share of probes of classes that are not enrolled that may be matched nevertheless.

        Returns
        -------
        self : CrossViewClassifier
            With ``threshold_``.
        """
        if not 0.0 <= false_match_rate < 1.0:
            raise ValueError(f"false_match_rate must be a share from 0 to below 1, got {false_match_rate!r}.")
        probes, labels, gallery = self._latent(X, view), column_or_1d(y), self._gallery()
        if len(labels) != len(probes):
            raise ValueError(f"y has {len(labels)} labels for {len(probes)} samples: give one label per row.")
        closest = []
        for rows, block in distances_in_chunks(gallery, probes, chosen_metric(self)):
            others = np.where(self.gallery_labels_ == labels[rows][:, None], np.inf, block)
            closest.append(others.min(axis=1))
        impostors = np.sort(np.concatenate(closest))
        if not np.isfinite(impostors).all():
            raise ValueError("the gallery has one class only: enrol others before calibrating.")
        allowed = int(false_match_rate * len(impostors))
        # The largest distance at which no more than the allowed number of impostors are at or within it.
        self.threshold_ = float(np.nextafter(impostors[allowed], -np.inf))
        return self

    def score(self, X: ArrayLike, y: ArrayLike, view: int | str) -> float:
        """Share of probes that are given their class.

        Parameters
        ----------
        X : array-like of shape (t, D_v)
            Probes as the view sees them.
        y : array-like of shape (t,)
            Their classes.
        view : int or str
            The view, by position or name.

        Returns
        -------
        accuracy : float
            The share.
        """
        return float(np.mean(self.predict(X, view) == column_or_1d(y)))

    def _latent(self, X: ArrayLike, view: int | str) -> Array:
        check_is_fitted(self, "embedding_")
        latent = transform_view(self.embedding_, X, view)
        if np.isnan(latent).any():
            raise ValueError("samples with NaN were not seen by this view: leave them out.")
        return latent

    def _gallery(self) -> Array:
        if not hasattr(self, "gallery_"):
            raise ValueError("the gallery is empty: call enroll first.")
        return self.gallery_

    def _unknown_label(self) -> Any:
        if self.unknown_label is not None:
            return self.unknown_label
        return "unknown" if self.gallery_labels_.dtype.kind in "OU" else -1


def chosen_metric(model: Any) -> str:
    """The distance for a model's common space: what a matcher was given or a search has found; else the Euclidean.

    Parameters
    ----------
    model : estimator
        Fitted.
    """
    if isinstance(model, CrossViewClassifier):
        return model.metric or chosen_metric(model.embedding_)
    return model.best_metric_ if isinstance(model, EmbeddingSearchCV) else "euclidean"
