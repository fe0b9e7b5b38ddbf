"""Enrol a gallery from one view and recognise probes from another."""

from collections.abc import Mapping
from itertools import count, islice
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._transformer import MultiViewTransformer, map_view, unwrap
from crossview._types import Array, Labels
from crossview._validation import (
    as_labels,
    check_choice,
    check_count,
    check_labels,
    check_lazy,
    check_same_kind,
    has_label,
)
from crossview.distances import class_distances_in_chunks, distances_in_chunks, nearest
from crossview.metrics.open_set import largest_threshold, own_and_other
from crossview.recognition.probabilities import (
    choose_probes,
    class_probabilities,
    fit_temperature,
    held_out_temperature,
    spread,
)
from crossview.recognition.search import EmbeddingSearchCV
from crossview.views import ViewInput, Views, index_of_view

__all__ = ["CrossViewClassifier", "chosen_metric"]

Samples: TypeAlias = ViewInput | ArrayLike


class CrossViewClassifier(ClassifierMixin, BaseEstimator):
    """Recognise samples of one view among enrolled samples of another.

    A classifier for scikit-learn's tools: `fit` learns the common space and enrols the samples of the gallery's view,
    and `predict` gives every probe the class of the nearest enrolled sample. With an embedding that is fitted already,
    `enroll` works at once.

    Parameters
    ----------
    embedding : estimator
        An embedding, a pipeline that ends in one, or a search for one. `fit` learns a copy of it, unless it is in
        scikit-learn's ``FrozenEstimator``.
    gallery_view, probe_view : int or str
        The view whose samples `fit` enrols, and the view that probes are seen from, by position or name.
    n_neighbors : int
        Number of nearest gallery samples that vote. Ties go to the class of the nearest sample.
    metric : {"euclidean", "cosine"}, optional
        The distance. The default is the one that a search chose, or else Euclidean.
    unknown_label : optional
        Label of probes that are farther from the gallery than the threshold. The default is -1, or "unknown" if the
        classes are strings.
    calibration_folds : int, optional
        Number of folds in which `fit` estimates the temperature of `predict_proba`, each of which fits another copy of
        the embedding, with the parameters that a search chose. None saves that time; call `calibrate` instead.
    random_state : int
        Seed of these folds.

    Attributes
    ----------
    embedding_ : estimator
        The fitted embedding.
    classes_ : ndarray of shape (c,)
        The enrolled classes, in sorted order.
    gallery_, gallery_labels_ : ndarray of shape (g, d) and (g,)
        Enrolled samples in the common space, and their classes.
    gallery_ids_, gallery_views_ : ndarray of str, shape (g,)
        Their ids, and the names of the views they were seen from.
    threshold_ : float or None
        Distance beyond which a probe is unknown; None before calibration.
    temperature_ : float or None
        Scale of the distances in `predict_proba`; None if it has not been estimated.

    Examples
    --------
    >>> import crossview as cv
    >>> from sklearn.model_selection import train_test_split
    >>> data = cv.datasets.load_digits()
    >>> train, test, y_train, y_test = train_test_split(data.views, data.y, random_state=0)
    >>> model = cv.CrossViewClassifier(cv.KMvHE(n_components=10), gallery_view="left", probe_view="right")
    >>> bool(model.fit(train, y_train).score(test, y_test) > 0.85)
    True
    >>> model.predict_proba(test).shape
    (450, 10)

    A gallery of its own, of samples that come in later:

    >>> model.enroll(test["left"][:2], ["ada", "bob"], ids=["p1", "p2"], replace=True).classes_
    array(['ada', 'bob'], dtype='<U3')
    >>> model.predict(test["right"][:2])
    array(['ada', 'bob'], dtype='<U3')
    """

    gallery_: Array
    gallery_labels_: Labels
    gallery_ids_: Labels
    gallery_views_: Labels

    def __init__(
        self,
        embedding: Any,
        *,
        gallery_view: int | str = 0,
        probe_view: int | str = 1,
        n_neighbors: int = 1,
        metric: str | None = None,
        unknown_label: Any = None,
        calibration_folds: int | None = 3,
        random_state: int = 0,
    ) -> None:
        self.embedding = embedding
        self.gallery_view = gallery_view
        self.probe_view = probe_view
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.unknown_label = unknown_label
        self.calibration_folds = calibration_folds
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.pairwise = get_tags(self.embedding).input_tags.pairwise
        return tags

    @property
    def classes_(self) -> Labels:
        """The enrolled classes, in sorted order."""
        check_is_fitted(self, "gallery_labels_")
        return np.unique(self.gallery_labels_)

    def fit(self, views: ViewInput, y: ArrayLike) -> Self:
        """Learn the common space, and enrol the samples that the gallery's view has seen.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            All views of the training samples.
        y : array-like of shape (m,)
            One class label per sample.

        Returns
        -------
        self : CrossViewClassifier
            The fitted matcher. The ids of its gallery are the numbers of the rows, and there is no threshold.
        """
        self._check_params()
        checked = Views(views)
        if checked._lazy:
            check_lazy(self, None, "pass arrays in memory")
        check_labels(y, checked, self)
        labels = as_labels(y, len(checked))
        pair = [index_of_view(view, checked.names) for view in (self.gallery_view, self.probe_view)]
        rows = np.flatnonzero(checked.mask[:, pair[0]])
        if not len(rows):
            raise ValueError(f"view {checked.names[pair[0]]!r} has no samples to enrol: choose another gallery_view.")
        self.embedding_ = clone(self.embedding).fit(checked, labels)
        self.temperature_: float | None = None
        self.enroll(checked.arrays[pair[0]][rows], labels[rows], pair[0], ids=rows, replace=True)
        if self.calibration_folds is not None:
            best = getattr(self.embedding_, "best_estimator_", self.embedding_)
            metric, folds = chosen_metric(self), self.calibration_folds
            relative = held_out_temperature(best, checked, labels, pair, metric, folds, self.random_state)
            self.temperature_ = None if relative is None else relative * spread(self.gallery_, metric)
        return self

    def enroll(
        self,
        X: Samples,
        y: ArrayLike,
        view: int | str | None = None,
        *,
        ids: ArrayLike | None = None,
        replace: bool = False,
    ) -> Self:
        """Add samples to the gallery, which may hold samples of several views.

        Parameters
        ----------
        X : array-like of shape (g, D_v), or all views
            Samples of the view.
        y : array-like of shape (g,)
            Their classes, which need not occur in the training data.
        view : int or str, optional
            The view, by position or name; by default `gallery_view`.
        ids : array-like of shape (g,), optional
            Names of the samples, each once per view. They are kept as text. The default is running numbers.
        replace : bool
            Whether to empty the gallery first.

        Returns
        -------
        self : CrossViewClassifier
            The matcher. Its threshold is reset, because it depends on the gallery.
        """
        view = self.gallery_view if view is None else view
        latent = self._latent(X, view)
        names = unwrap(self.embedding_)[0].view_names_
        name = names[index_of_view(view, names)]
        labels = as_labels(y, len(latent))
        empty = replace or not hasattr(self, "gallery_")
        if not empty:
            check_same_kind(labels, self.gallery_labels_)
        taken = [] if empty else self.gallery_ids_[self.gallery_views_ == name].tolist()
        new = {
            "gallery_": latent,
            "gallery_labels_": labels,
            "gallery_ids_": _new_ids(ids, len(latent), taken, name),
            "gallery_views_": np.full(len(latent), name),
        }
        for attribute, values in new.items():
            setattr(self, attribute, values if empty else np.concatenate([getattr(self, attribute), values]))
        self.threshold_: float | None = None
        return self

    def kneighbors(
        self, X: Samples, view: int | str | None = None, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Find the gallery samples nearest to each probe.

        Parameters
        ----------
        X : Views, or list, tuple or dict of all views, or array-like of shape (t, D_v)
            Probes: all views, of which one is used, or its matrix alone. Rows must not be missing in it.
        view : int or str, optional
            The view, by position or name; by default `probe_view`.
        n_neighbors : int, optional
            Number of neighbours. The default is the number that vote.

        Returns
        -------
        distances, indices : ndarray of shape (t, n_neighbors)
            Distances, in ascending order, and rows of ``gallery_``, in the order of enrolment.
        """
        return self._nearest(self._latent(X, view), self.n_neighbors if n_neighbors is None else n_neighbors)

    def predict(self, X: Samples, view: int | str | None = None) -> Labels:
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
        return self._predict(self._latent(X, view))

    def predict_proba(self, X: Samples, view: int | str | None = None) -> Array:
        """Predict the probabilities of the enrolled classes, provided that a probe belongs to one of them.

        They are the softmax of the negative distances to the nearest sample of each class, over ``temperature_``. For
        the cosine distance, samples are scaled to unit length and their Euclidean distances are taken.

        Parameters
        ----------
        X, view
            As in `kneighbors`.

        Returns
        -------
        probabilities : ndarray of shape (t, c)
            One column per class, in the order of ``classes_``. The threshold has no influence.
        """
        probes, gallery, metric = self._latent(X, view), self._gallery(), chosen_metric(self)
        if self.temperature_ is None:
            raise ValueError(
                "the temperature of the probabilities has not been estimated: call calibrate with samples that were "
                "not used for training, or fit with calibration_folds=3 and more samples per class."
            )
        _, chunks = class_distances_in_chunks(gallery, self.gallery_labels_, probes, metric)
        return np.concatenate([class_probabilities(block, self.temperature_, metric) for _, block in chunks])

    def rank(self, X: Samples, view: int | str | None = None, k: int = 5) -> tuple[Labels, Array]:
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
        probes, gallery = self._latent(X, view), self._gallery()
        classes, chunks = class_distances_in_chunks(gallery, self.gallery_labels_, probes, chosen_metric(self))
        if k > len(classes):
            raise ValueError(f"k={k} is more than the {len(classes)} classes in the gallery.")
        distances, first = nearest(chunks, k)
        return classes[first], distances

    def calibrate(
        self, X: Samples, y: ArrayLike, view: int | str | None = None, false_match_rate: float = 0.01
    ) -> Self:
        """Set the threshold beyond which a probe is unknown, and the temperature of the probabilities.

        Each calibration probe plays an impostor: gallery samples of its class are ignored, and the threshold is set so
        that the given share of probes still finds a match. The temperature is the one with the smallest log loss on
        probes of enrolled classes; if there are none, it stays as it is.

        Parameters
        ----------
        X, view
            As in `kneighbors`, with probes that were not used in training. Those that are missing in the view, or have
            the empty text for a label, are left out.
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
        gallery, metric = self._gallery(), chosen_metric(self)
        probes, labels = self._labelled_probes(X, y, view)
        own, other = own_and_other(gallery, self.gallery_labels_, probes, labels, metric)
        if not np.isfinite(other).all():
            raise ValueError("the gallery has only one class: enrol others before calibrating.")
        self.threshold_ = largest_threshold(other, false_match_rate)
        enrolled = choose_probes(np.flatnonzero(np.isfinite(own)), self.random_state)
        if len(enrolled):
            classes, chunks = class_distances_in_chunks(gallery, self.gallery_labels_, probes[enrolled], metric)
            distances = np.concatenate([block for _, block in chunks])
            self.temperature_ = fit_temperature(distances, np.searchsorted(classes, labels[enrolled]), metric)
        return self

    def score(self, X: Samples, y: ArrayLike, view: int | str | None = None) -> float:
        """Return the share of probes that are recognised correctly, the rank-1 accuracy.

        Probes that are missing in the view, or have the empty text for a label, are left out. So are those whose class
        is not enrolled, as in `crossview.metrics`, because no matcher could find it; after calibration, they count, and
        are correct if they are rejected.

        Parameters
        ----------
        X, view
            As in `kneighbors`.
        y : array-like of shape (t,)
            The classes of the probes.
        """
        self._gallery()
        probes, labels = self._labelled_probes(X, y, view)
        strangers = ~np.isin(labels, self.gallery_labels_)
        if self.threshold_ is None:
            if strangers.all():
                raise ValueError(
                    "no probe has its class in the gallery: check the labels, enrol samples of these classes, or split "
                    "samples instead of classes."
                )
            probes, labels, strangers = probes[~strangers], labels[~strangers], strangers[~strangers]
        predicted = self._predict(probes)
        return float(np.mean(np.where(strangers, predicted == self._unknown(), predicted == labels)))

    def _check_params(self) -> None:
        check_count(self.n_neighbors, "n_neighbors", least=1)
        if self.metric is not None:
            check_choice(self.metric, "metric", ("euclidean", "cosine"))
        if self.calibration_folds is not None:
            check_count(self.calibration_folds, "calibration_folds", least=2)

    def _adopt_fitted_embedding(self) -> None:
        """Use an embedding as it is if it was fitted before it was given to the matcher."""
        if hasattr(self, "embedding_"):
            return
        self._check_params()
        try:
            for step in unwrap(self.embedding):
                check_is_fitted(step)
        except NotFittedError:
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted: call fit, or give it a fitted embedding.") from None
        self.embedding_, self.temperature_ = self.embedding, None

    def _latent(self, X: Samples, view: int | str | None, *, missing: bool = False) -> Array:
        """Samples of one view in the common space; only if wanted with rows of NaN for missing ones."""
        self._adopt_fitted_embedding()
        first = unwrap(self.embedding_)[0]
        v = index_of_view(self.probe_view if view is None else view, first.view_names_)
        latent = map_view(self.embedding_, _one_view(X, v, first), v)
        if not missing and (gaps := np.isnan(latent).any(axis=1)).any():
            where = f"row {gaps.argmax()} is missing in view {first.view_names_[v]!r} (NaN)"
            raise ValueError(f"{where}: leave such rows out.")
        return latent

    def _labelled_probes(self, X: Samples, y: ArrayLike, view: int | str | None) -> tuple[Array, Labels]:
        """Probes in the common space, and their labels, where there are both."""
        latent = self._latent(X, view, missing=True)
        labels = as_labels(y, len(latent))
        check_same_kind(labels, self.gallery_labels_)
        there = has_label(labels) & ~np.isnan(latent).any(axis=1)
        if not there.any():
            raise ValueError("no probe has a label and is present in this view: check the view and the labels.")
        return latent[there], labels[there]

    def _gallery(self) -> Array:
        self._adopt_fitted_embedding()
        if not hasattr(self, "gallery_"):
            raise ValueError("the gallery is empty: call enroll first.")
        return self.gallery_

    def _nearest(self, probes: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
        check_count(k, "n_neighbors", least=1)
        gallery = self._gallery()
        if k > len(gallery):
            raise ValueError(f"n_neighbors={k} is more than the {len(gallery)} samples in the gallery: enrol more.")
        return nearest(distances_in_chunks(gallery, probes, chosen_metric(self)), k)

    def _predict(self, probes: Array) -> Labels:
        distances, indices = self._nearest(probes, self.n_neighbors)
        labels = self.gallery_labels_[indices]
        votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
        predicted: Labels = labels[np.arange(len(labels)), votes.argmax(axis=1)]
        if self.threshold_ is None:
            return predicted
        unknown = np.asarray(self._unknown())
        if (unknown.dtype.kind == "U") != (predicted.dtype.kind == "U"):
            predicted = predicted.astype(object)  # numbers must not become text
        return np.where(distances[:, 0] > self.threshold_, unknown, predicted)

    def _unknown(self) -> Any:
        if self.unknown_label is not None:
            return self.unknown_label
        return "unknown" if self.gallery_labels_.dtype.kind == "U" else -1


def chosen_metric(model: Any) -> str:
    """Return the distance that suits a fitted model: the matcher's, the one a search chose, or else Euclidean."""
    if isinstance(model, CrossViewClassifier):
        return model.metric or chosen_metric(getattr(model, "embedding_", model.embedding))
    if isinstance(model, EmbeddingSearchCV):
        return model.best_metric_
    if isinstance(model, FrozenEstimator):
        return chosen_metric(model.estimator)
    if isinstance(model, Pipeline):
        return chosen_metric(model.steps[-1][1])
    return chosen_metric(model.best_estimator_) if hasattr(model, "best_estimator_") else "euclidean"


def _one_view(X: Samples, v: int, first: MultiViewTransformer) -> Any:
    """The samples of view v, taken out of all views, or given as they are; `first` knows the views."""
    names = first.view_names_
    if isinstance(X, Views | Mapping):
        given = X.names if isinstance(X, Views) else list(X)
        if names[v] not in given:
            raise ValueError(f"view {names[v]!r} is not among the views given: {', '.join(map(repr, given))}.")
        return first._take(X, names[v]) if isinstance(X, Views) else X[names[v]]
    if not isinstance(X, list | tuple) or not X or np.ndim(X[0]) < 2:
        return X
    if len(X) != len(names):
        raise ValueError(f"got {len(X)} views, but the model was fitted on {len(names)}: {', '.join(names)}.")
    return X[v]


def _new_ids(ids: ArrayLike | None, n: int, taken: list[str], view: str) -> Labels:
    """Ids of n samples of a view as text; running numbers by default."""
    held = set(taken)
    if ids is None:
        return np.array(list(islice((name for name in map(str, count(len(taken))) if name not in held), n)))
    names: Labels = np.asarray(column_or_1d(ids)).astype(str)
    if len(names) != n:
        raise ValueError(f"ids has {len(names)} names for {n} samples: give one per row.")
    for name in names.tolist():
        if name in held:
            fix = "pass replace=True to empty the gallery first, or leave it out"
            raise ValueError(f"{name!r} of view {view!r} is already in the gallery: {fix}.")
    if len(set(names.tolist())) < n:
        unique, counts = np.unique(names, return_counts=True)
        raise ValueError(f"ids has {str(unique[counts.argmax()])!r} more than once: every sample needs its own id.")
    return names
