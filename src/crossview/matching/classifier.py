"""Enrol a gallery from one view and recognise probes from another."""

from operator import attrgetter
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._config import get_config
from crossview._schema import Schema, number, register
from crossview._transformer import unwrap
from crossview._types import Array, Indices, Labels, Rows
from crossview._validation import as_labels, check_choice, check_count, check_labels, check_lazy, check_same_kind
from crossview.engines import to_numpy
from crossview.matching import calibration
from crossview.matching.calibration import OneViewInput, chosen_metric, labelled_samples, latent_samples
from crossview.matching.gallery import PARTS, SCHEMA, Gallery, SearchOptions
from crossview.model_selection.committee import is_fitted_embedding
from crossview.neighbours.search import load_faiss
from crossview.views import ViewInput, Views, index_of_view


def _of_gallery(name: str) -> Any:
    """A property of the gallery. Until something is enrolled, it does not exist, as usual in scikit-learn."""
    return property(attrgetter(f"_gallery.{name}"))


@register
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
        Number of nearest gallery samples that vote. Even votes go to the class of the nearest sample. Of samples at the
        same distance, the one that was enrolled first is nearer.
    metric : {"euclidean", "cosine"}, optional
        The distance; by default the one that a search chose, or else Euclidean.
    unknown_label : optional
        Label of probes beyond the threshold, which must not be a class; by default -1, or "unknown" for texts.
    calibration_folds : int, optional
        Number of folds in which `fit` estimates the temperature of `predict_proba`, each of which fits another copy of
        the embedding, with the parameters that a search chose. By default, `calibrate` has to estimate it.
    random_state : int
        Seed of the folds.
    algorithm : {"auto", "exact", "approximate"}
        How the gallery is searched, except for probabilities. "approximate" uses an inverted file (``pip install
        'crossview[approximate]'``) that `enroll` builds and extends: it may miss some of the nearest samples. "auto"
        does so from 200,000 enrolled samples on if the library is installed, unless `config_context` sets a device,
        or probes are tensors on one, where exact searches run.

    Attributes
    ----------
    embedding_ : estimator
        The fitted embedding.
    classes_ : ndarray of shape (c,)
        The enrolled classes, in sorted order.
    gallery_, gallery_labels_, gallery_ids_, gallery_views_ : ndarray of shape (g, d), (g,), (g,) and (g,)
        Enrolled samples in the common space, their classes and ids, and the names of the views they were seen from.
    neighbour_recall_ : float
        Share of the nearest samples that searches find, measured on enrolled samples: 1 for exact search.
    threshold_, threshold_view_ : float and str, or None
        Distance beyond which a probe is unknown, and the view of the probes it is for; None before calibration.
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

    A gallery of its own, of samples that come in later:

    >>> model.enroll(test["left"][:2], ["ada", "bob"], ids=["p1", "p2"], replace=True).predict(test["right"][:2])
    array(['ada', 'bob'], dtype='<U3')
    """

    temperature_: float | None
    temperature_metric_: str | None = None  # until there is a temperature
    _gallery: Gallery
    _schema: ClassVar[Schema] = {
        "embedding_": is_fitted_embedding,
        "temperature_": number(1e-300, optional=True),
        "temperature_metric_??": lambda value, sizes: value in (None, "euclidean", "cosine"),
        **SCHEMA,
    }

    def __init__(
        self,
        embedding: Any,
        *,
        gallery_view: int | str = 0,
        probe_view: int | str = 1,
        n_neighbors: int = 1,
        metric: str | None = None,
        unknown_label: Any = None,
        calibration_folds: int | None = None,
        random_state: int = 0,
        algorithm: str = "auto",
    ) -> None:
        self.embedding = embedding
        self.gallery_view = gallery_view
        self.probe_view = probe_view
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.unknown_label = unknown_label
        self.calibration_folds = calibration_folds
        self.random_state = random_state
        self.algorithm = algorithm

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_writing", None)
        gallery = state.pop("_gallery", None)
        return state if gallery is None else state | gallery.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name not in PARTS})
        if "gallery_" in state:
            self._gallery = Gallery.from_state(state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.pairwise = get_tags(self.embedding).input_tags.pairwise
        return tags

    @property
    def classes_(self) -> Labels:
        """The enrolled classes, in sorted order."""
        check_is_fitted(self, "_gallery")
        return self._gallery.classes

    gallery_ = _of_gallery("samples")
    gallery_labels_ = _of_gallery("labels")
    gallery_ids_ = _of_gallery("ids")
    gallery_views_ = _of_gallery("views")
    neighbour_recall_ = _of_gallery("recall")
    threshold_view_ = _of_gallery("threshold.view")

    @property
    def threshold_(self) -> float | None:
        """Distance beyond which a probe is unknown; None before calibration."""
        return self._gallery.threshold.distance

    @threshold_.setter
    def threshold_(self, distance: float | None) -> None:
        with self._lock:
            self._gallery = self._enrolled().calibrated(distance)

    def fit(self, views: ViewInput, y: ArrayLike) -> Self:
        """Learn the common space, and enrol the samples that the gallery's view has seen.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            All views of the training samples. The ids of the gallery are the numbers of their rows.
        y : array-like of shape (m,)
            One class label per sample.
        """
        self._check_params(enrolling=True)
        checked = Views(views)
        check_lazy(checked.arrays[0], self, instead="pass arrays in memory")
        check_labels(y, checked, self)
        labels = as_labels(y, len(checked))
        pair = [index_of_view(view, checked.names) for view in (self.gallery_view, self.probe_view)]
        rows = np.flatnonzero(checked.mask[:, pair[0]])
        if not len(rows):
            raise ValueError(f"view {checked.names[pair[0]]!r} has no samples to enrol: choose another gallery_view.")
        self.embedding_ = clone(self.embedding).fit(checked, labels)
        self.temperature_ = None
        self.enroll(checked.arrays[pair[0]][rows], labels[rows], pair[0], ids=rows, replace=True)
        if self.calibration_folds is not None:
            best, metric = getattr(self.embedding_, "best_estimator_", self.embedding_), chosen_metric(self)
            relative = calibration.held_out_temperature(
                best, checked, labels, pair, metric, self.calibration_folds, self.random_state
            )
            self.temperature_ = None if relative is None else relative * calibration.spread(self.gallery_, metric)
            self.temperature_metric_ = metric
        return self

    def enroll(
        self,
        X: OneViewInput,
        y: ArrayLike,
        view: int | str | None = None,
        *,
        ids: ArrayLike | None = None,
        replace: bool = False,
    ) -> Self:
        """Add samples to the gallery, of any view, and reset the threshold, which depends on the gallery.

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
        """
        self._check_params(enrolling=True)
        view = self.gallery_view if view is None else view
        latent = to_numpy(self._latent(X, view))
        name, labels = self._view_name(view), as_labels(y, len(latent))
        with self._lock:
            held = None if replace else getattr(self, "_gallery", None)
            if held is not None:
                check_same_kind(labels, held.vote(np.zeros((1, 1), dtype=np.intp)))  # without sorting all classes
            gallery = (held.extended if held else Gallery.of_view)(latent, labels, ids, name)
            if self.unknown_label is not None:  # the default may be a class until there is a threshold
                gallery.unknown_label(self.unknown_label)
            gallery.prepare(self._search_options())
            self._gallery = gallery
        return self

    def kneighbors(
        self, X: OneViewInput, view: int | str | None = None, n_neighbors: int | None = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Find the gallery samples nearest to each probe.

        Parameters
        ----------
        X : Views, or list, tuple or dict of all views, or array-like of shape (t, D_v)
            Probes: all views, of which one is used, or its matrix alone, without missing rows.
        view : int or str, optional
            The view, by position or name; by default `probe_view`.
        n_neighbors : int, optional
            Number of neighbours. The default is the number that vote.

        Returns
        -------
        distances, indices : ndarray of shape (t, n_neighbors)
            Distances, in ascending order, and rows of ``gallery_``, in the order of enrolment.
        """
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        return self._nearest(self._latent(X, view), k, self._enrolled())

    def predict(self, X: OneViewInput, view: int | str | None = None) -> Labels:
        """Predict the classes of probes, (t,), which are given as to `kneighbors`.

        After calibration, probes beyond the threshold get the unknown label.
        """
        return self._predict(self._latent(X, view), view, self._enrolled())

    def predict_proba(self, X: OneViewInput, view: int | str | None = None) -> Array:
        """Predict the probabilities of ``classes_``, (t, c), provided that a probe belongs to one of them.

        Probes are given as to `kneighbors`. Probabilities are the softmax of the negative distances to the nearest
        sample of each class, over ``temperature_``, which `calibrate` or `calibration_folds` estimates. For the cosine
        distance, these are Euclidean distances of samples of unit length. The threshold has no influence.
        """
        probes, gallery, metric = self._latent(X, view), self._enrolled(), chosen_metric(self)
        if self.temperature_ is None or self.temperature_metric_ not in (None, metric):
            raise ValueError(
                f"the temperature has not been estimated for metric={metric!r}: call calibrate with samples that were "
                "not used for training, or fit with calibration_folds=3 and more samples per class."
            )
        chunks = gallery.class_distances(probes, self._search_options())
        return np.concatenate([calibration.probabilities(block, self.temperature_, metric) for _, block in chunks])

    def rank(self, X: OneViewInput, view: int | str | None = None, k: int = 5) -> tuple[Labels, Array]:
        """Find the k nearest classes of each probe, (t, k), nearest first, and their distances.

        The distance to a class is that to its nearest sample. Probes are given as to `kneighbors`.
        """
        check_count(k, "k", least=1)
        probes, gallery = self._latent(X, view), self._enrolled()
        if k > gallery.n_classes:
            raise ValueError(f"k={k} is more than the {gallery.n_classes} classes in the gallery.")
        return gallery.nearest_classes(probes, k, self._search_options())

    def calibrate(self, X: OneViewInput, y: ArrayLike, view: int | str | None = None, max_fpir: float = 0.01) -> Self:
        """Set the threshold beyond which a probe is unknown, and the temperature of the probabilities.

        Each calibration probe plays an impostor: gallery samples of its class are ignored, and the threshold is the
        largest at which at most the given share of further probes like these finds a match on average. If they are of
        classes that the embedding was trained on, more strangers of new classes are accepted. The temperature is the
        one with the smallest log loss on probes of enrolled classes, if there are any. Both are for the distance in
        use, and the threshold is for the view of the probes.

        Parameters
        ----------
        X, view
            As in `kneighbors`, with probes that were not used in training. Those that are missing in the view, or have
            the empty text for a label, are left out.
        y : array-like of shape (t,)
            The classes of the probes, enrolled or not.
        max_fpir : float
            Share of probes from classes outside the gallery that may still be matched. A warning says if it is too
            low for the number of probes; below 1 / (number + 1), every probe is unknown.
        """
        if not 0.0 <= max_fpir < 1.0:
            raise ValueError(f"max_fpir must be a share from 0 to below 1, got {max_fpir!r}.")
        with self._lock:
            gallery, metric, options = self._enrolled(), chosen_metric(self), self._search_options()
            probes, labels = labelled_samples(self._latent(X, view, missing=True), y, gallery.classes)
            gallery.unknown_label(self.unknown_label)
            if len(gallery.classes) < 2:
                raise ValueError("the gallery has only one class: enrol others before calibrating.")
            nearest, distances = gallery.nearest_classes(probes, 2, options)
            others = np.where(nearest[:, 0] == labels, distances[:, 1], distances[:, 0])
            threshold = calibration.largest_threshold(others, max_fpir)
            rows = np.flatnonzero(gallery.enrolled(labels))
            chosen = calibration.choose_probes(rows, self.random_state, len(gallery.classes))
            if len(chosen):
                of_classes = [block for _, block in gallery.class_distances(probes[chosen], options)]
                codes = np.searchsorted(gallery.classes, labels[chosen])
                self.temperature_ = calibration.fit_temperature(np.concatenate(of_classes), codes, metric)
                self.temperature_metric_ = metric
            self._gallery = gallery.calibrated(threshold, metric, self._view_name(view))
        calibration.warn_of_few_probes(len(labels), max_fpir, threshold)
        return self

    def score(self, X: OneViewInput, y: ArrayLike, view: int | str | None = None) -> float:
        """Return the share of probes that `predict` recognises.

        Probes that are missing in the view, or have the empty text for a label, are left out. So are those whose class
        is not enrolled; after calibration, they count, and are correct if they are rejected. Probes are given as to
        `kneighbors`, and y has their classes, (t,).
        """
        gallery = self._enrolled()
        probes, labels = labelled_samples(self._latent(X, view, missing=True), y, gallery.classes)
        strangers = ~gallery.enrolled(labels)
        if gallery.threshold.distance is None:
            if strangers.all():
                fix = "check the labels, enrol samples of these classes, or split samples instead of classes"
                raise ValueError(f"no probe has its class in the gallery: {fix}.")
            probes, labels, strangers = probes[~strangers], labels[~strangers], strangers[~strangers]
        predicted = self._predict(probes, view, gallery)
        return float(
            np.mean(np.where(strangers, predicted == gallery.unknown_label(self.unknown_label), predicted == labels))
        )

    def _check_params(self, *, enrolling: bool = False) -> None:
        check_count(self.n_neighbors, "n_neighbors", least=1)
        check_choice(self.metric or "euclidean", "metric", ("euclidean", "cosine"))
        check_count(2 if self.calibration_folds is None else self.calibration_folds, "calibration_folds", least=2)
        check_choice(self.algorithm, "algorithm", ("auto", "exact", "approximate"))
        if self.algorithm == "approximate" and get_config()["device"] is not None:
            raise ValueError("algorithm='approximate' searches on the CPU: set device=None, or algorithm='exact'.")
        if enrolling and self.algorithm == "approximate":
            load_faiss()  # if it is missing, nothing is learned or enrolled

    def _adopt_fitted_embedding(self) -> None:
        """Use an embedding as it is if it was fitted before it was given to the matcher."""
        if hasattr(self, "embedding_"):
            return
        try:
            for step in unwrap(self.embedding):
                check_is_fitted(step)
        except NotFittedError:
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted: call fit, or give it a fitted embedding.") from None
        for name, value in (("temperature_", None), ("embedding_", self.embedding)):
            self.__dict__.setdefault(name, value)  # unless another thread has been here

    def _search_options(self) -> SearchOptions:
        self._check_params()
        return SearchOptions(chosen_metric(self), self.algorithm, get_config()["device"])

    def _latent(self, X: OneViewInput, view: int | str | None, *, missing: bool = False) -> Rows:
        self._adopt_fitted_embedding()
        return latent_samples(self.embedding_, X, self.probe_view if view is None else view, missing=missing)

    def _view_name(self, view: int | str | None) -> str:
        """Name of a view, by default that of probes."""
        names: list[str] = unwrap(self.embedding_)[0].view_names_
        return names[index_of_view(self.probe_view if view is None else view, names)]

    @property
    def _lock(self) -> RLock:
        """Held by what changes the gallery. Not part of the state: copies get their own."""
        lock: RLock = self.__dict__.setdefault("_writing", RLock())
        return lock

    def _enrolled(self) -> Gallery:
        self._adopt_fitted_embedding()
        if not hasattr(self, "_gallery"):
            raise ValueError("the gallery is empty: call enroll first.")
        return self._gallery

    def _nearest(self, probes: Rows, k: int, gallery: Gallery) -> tuple[Array, Indices]:
        check_count(k, "n_neighbors", least=1)
        if k > len(gallery):
            raise ValueError(f"n_neighbors={k} is more than the {len(gallery)} samples in the gallery: enrol more.")
        return gallery.nearest(probes, k, self._search_options())

    def _predict(self, probes: Rows, view: int | str | None, gallery: Gallery) -> Labels:
        threshold = gallery.threshold.check(chosen_metric(self), self._view_name(view))
        distances, indices = self._nearest(probes, self.n_neighbors, gallery)
        predicted = gallery.vote(indices)
        if threshold is None:
            return predicted
        unknown = gallery.unknown_label(self.unknown_label)
        return calibration.reject(predicted, distances[:, 0] > threshold, unknown)
