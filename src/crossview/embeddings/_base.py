"""Base classes of the methods: check → data → problem → solve → store. Think twice before adding anything."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import field
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from crossview._parameters import parameters
from crossview._progress import report, reporting
from crossview._schema import VIEWS, Schema, number
from crossview._transformer import MultiViewTransformer
from crossview._types import Array, Indices, Rows
from crossview._validation import (
    check_count,
    check_coupling,
    check_equal_widths,
    check_flag,
    check_labels,
    check_lazy,
    check_two_views,
    check_views,
    check_weight,
)
from crossview.engines import n_missing, product, shift
from crossview.linalg.eigen import component_signs, largest_generalised_eigenpairs, ridge
from crossview.linalg.norm import CoupledNorm
from crossview.metrics import mean_accuracy
from crossview.samples import Samples, pair_weights, samples_of
from crossview.views import ViewInput, Views

SearchSpace: TypeAlias = Mapping[str, Sequence[Any]]

# Search values of parameters that several methods share.
N_COMPONENTS = [5, 10, 20, 30, 40, 60, 80, 120, 160]
RIDGES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2]
WEIGHTS = [1e-2, 1e-1, 1.0, 1e1, 1e2]
GAMMA_SCALES = [0.1, 0.3, 1.0, 3.0]
COUPLINGS = ["auto", 0.0, 1.0, 4.0, 16.0, 64.0, np.inf]
WHITENINGS = [None, 0.1, 1.0, 10.0]

AUTO_COUPLING = 8.0
"""Coupling of views with common coordinates with ``coupling="auto"``."""

_ZERO_EIGENVALUE = 1e-12  # relative to the largest


class Embedding(MultiViewTransformer):
    """Base of the methods.

    A method declares its parameters and requirements, and solves its problem in `_solve`. It may also check parameters
    (`_check_params`), prepare its training data (`_training_data`) and limit the number of components
    (`_max_components`).

    Parameters
    ----------
    n_components : int
        d: dimension of the common space, capped at the number available; see ``n_components_``.
    whitening : float, optional
        Transform the common space so that samples have unit covariance around their class means, with this ridge
        relative to the mean variance of the components. None does not. Needs labels.
    center : bool
        Subtract the training mean of each view first.

    Attributes
    ----------
    projections_ : list of ndarray, each of shape (D_v, d)
        Map of each view, W_v. The largest entry of each component, over all views, is positive.
    eigenvalues_ : ndarray of shape (d,)
        The largest eigenvalues, descending.
    means_ : list of ndarray, each of shape (D_v,)
        Offset subtracted from each view: its training mean, or zero.
    coupling_ : float
        The coupling in use.
    neighbour_recall_ : float
        Share of the true neighbours among those found, measured on a sample of patches: 1 for an exact search, the
        lowest of all views for an approximate one.
    view_names_ : list of str
        Names of the views.
    n_features_ : tuple of int
        Number of features of each view, D_v.
    feature_names_ : list
        Column names of each view, a list of str, or None if it had none.
    image_shape_ : tuple of int or None
        Height and width of the images, if the views were images.
    """

    center: bool = True  # of methods without the parameter, as the next two
    whitening: float | None = None
    coupling_: float = 0.0
    projections_: list[Array]
    means_: list[Array]
    eigenvalues_: Array
    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": ["D"],
        "projections_": ["D d"],
        "eigenvalues_": "d or n d",
        "coupling_??": number(0.0, np.inf),
    }

    search_space: ClassVar[SearchSpace] = {}
    """Parameter values that `crossview.tune` tries."""

    _revision: ClassVar[int] = 1  # raise it when the method's results change, so that stored ones are computed again
    _needs_labels: ClassVar[bool] = False
    _needs_two_views: ClassVar[bool] = False
    _needs_equal_widths: ClassVar[bool] = False
    _nested_components: ClassVar[bool] = True  # the first components are those of a fit with fewer
    _weighs_pairs: ClassVar[bool] = True  # samples have the weights `pair_weights`; otherwise all have the same
    _counted: ClassVar[str] = "samples"  # what the progress of a fit counts

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels or self.whitening is not None
        return tags

    @property
    def n_components_(self) -> int:
        """Number of components: ``n_components``, capped at the number available."""
        check_is_fitted(self)
        return self._n_outputs(0)

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Learn the maps.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            Two or more views of the same m samples. A row of NaN marks a sample missing from a view. Dask arrays, whose
            rows must be chunked alike, are read block by block on the active scheduler, several times: persist them if
            they fit into the memory of the workers.
        y : array-like of shape (m,)
            One class label per sample; ignored by unsupervised methods.

        Returns
        -------
        self
            The fitted model.
        """
        with reporting(f"Fitting {type(self).__name__}", unit=self._counted):
            data = self._prepare(views, y)
            self._learn(data)
            self._remember(data.views)
        return self

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Mean cross-view accuracy (mACC) of 1-nearest-neighbour matching in the common space.

        The gallery is all samples of one view, without the probe's counterpart if its class has another sample there.
        See `crossview.metrics.mean_accuracy`.

        Parameters
        ----------
        views, y
            Samples and their classes, as in `fit`.

        Returns
        -------
        accuracy : float
            Mean over all ordered pairs of gallery and probe views.
        """
        return mean_accuracy(self._mapped(views), y)

    def _prepare(self, views: ViewInput, y: ArrayLike | None) -> Samples:
        """Check the input and prepare the training data."""
        if hasattr(self, "n_components"):
            self._requested_components()
        check_flag(self.center, "center")
        checked = check_views(views, self)
        check_lazy(checked.arrays[0], self, self._instead_of_lazy())
        if self._needs_two_views:
            check_two_views(checked, self)
        if self._needs_equal_widths:
            check_equal_widths(checked, self)
        self._check_params(checked)
        tags = get_tags(self)
        classes = check_labels(y, checked, self) if tags.target_tags.required else None
        # The columns of kernel matrices are samples, too; and blocks leave out by themselves what no view has.
        if not tags.input_tags.pairwise and checked._place != "Dask":
            used = checked.mask.any(axis=1)
            if not used.all():
                checked, classes = checked[used], None if classes is None else classes[used]
        return self._training_data(checked._on_device() if self._takes_tensors else checked._in_memory(), classes)

    def _instead_of_lazy(self) -> str | None:
        """What to do instead of passing Dask arrays, if the method does not take any."""
        return None if self._takes_tensors else "pass arrays in memory, or use MvHE"

    def _requested_components(self) -> int:
        """Check and resolve `n_components`."""
        check_count(self.n_components, "n_components", least=1)
        return int(self.n_components)

    def _check_params(self, views: Views) -> None:
        """Refuse parameters that are invalid, or invalid for the views."""
        if self.whitening is not None:
            check_weight(self.whitening, "whitening")

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        """Prepare the training data."""
        return samples_of(views, classes, pair_weights if self._weighs_pairs else None).centred(self.center)

    def _learn(self, data: Samples) -> None:
        """Learn and store the maps."""
        report(now="solving the eigenproblem")
        self._store(data, *self._solve(data, self._n_solved(data)))

    def _n_solved(self, data: Samples) -> int:
        """Number of components to compute."""
        return min(self._requested_components(), self._max_components(data))

    def _max_components(self, data: Samples) -> int:
        """Maximum number of components."""
        return sum(data.n_features)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues, and the d components of all views, stacked."""
        raise NotImplementedError("a subclass defines the problem")

    def _n_kept(self, data: Samples, eigenvalues: Array, W: Array) -> int:
        """Number of components to keep."""
        return int(W.shape[1])

    def _store(self, data: Samples, eigenvalues: Array, W: Array) -> None:
        """Store the components to keep."""
        kept = self._n_kept(data, eigenvalues, W)
        self.eigenvalues_ = eigenvalues[:kept]
        self._store_maps(data, W[:, :kept] if self.whitening is None else _whitened(data, W[:, :kept], self.whitening))

    def _store_maps(self, data: Samples, W: Array) -> None:
        bases = data.bases or [None] * len(data.n_features)
        maps = [
            w if B is None else product(B, np.ascontiguousarray(w)) for w, B in zip(data.split(W), bases, strict=True)
        ]
        signs = component_signs(np.vstack(maps))
        self.projections_ = [w * signs for w in maps]
        self.means_ = data.means

    def _map(self, X: Rows, v: int) -> Rows:
        return product(shift(X, self.means_[v]), np.ascontiguousarray(self.projections_[v]))

    def _n_outputs(self, v: int) -> int:
        return int(self.projections_[v].shape[1])

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the components, which all views share: the class's name and a number.

        Names of the input features are only checked.
        """
        check_is_fitted(self)
        return np.array(self._names_out(0, self._input_names(input_features)[0]), dtype=object)

    def _names_out(self, v: int, inputs: list[str]) -> list[str]:
        return [f"{type(self).__name__.lower()}{k}" for k in range(self._n_outputs(v))]


def _whitened(data: Samples, W: Array, reg: float) -> Array:
    """Maps under which the samples have unit covariance around their class means.

    The Cholesky factor makes the first components those of fewer components; so does a ridge that is relative to the
    mean variance of the components up to each.
    """
    latents = data.in_coordinates(data.split(W)).pooled()
    _, within = latents.joint_scatters()
    within /= len(latents)
    variances = np.diagonal(within)
    ridged = within + np.diag(reg * np.cumsum(variances) / np.arange(1, len(within) + 1))
    try:
        L = scipy.linalg.cholesky(ridged, lower=True)
    except scipy.linalg.LinAlgError:
        raise ValueError(
            "samples do not vary around their class means along some component: raise whitening, or set it to None."
        ) from None
    whitened: Array = scipy.linalg.solve_triangular(L, W.T, lower=True).T
    return whitened


class PooledEmbedding(Embedding):
    """Base of methods that learn one map for all views from their pooled samples. A subclass defines `_solve_one`."""

    coupling_ = np.inf
    _needs_equal_widths = True
    _weighs_pairs = False

    def _max_components(self, data: Samples) -> int:
        return data.n_features[0]

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        values, W = self._solve_one(data.pooled(), d)
        return values, np.tile(W, (len(data.n_features), 1))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues and d components of one set of samples, none of them missing."""
        raise NotImplementedError("a subclass defines the problem")


@parameters
class CoupledEmbedding(Embedding):
    """Base of methods that learn the maps of all views together, in the coupled norm.

    Parameters
    ----------
    coupling : float or "auto"
        c: cost of differences between the maps of the views, from 0 (the published method) to infinity (one map for all
        views). Above 0, the views must share their coordinates: pixels of aligned images, or the features of one
        network. ``"auto"`` is 8 if they seem to, and 0 otherwise. See `MvHE`.
    """

    n_components: int | str = field(default=20, kw_only=False)
    coupling: float | str = 0.0
    whitening: float | None = None
    center: bool = True

    _drop_nonpositive: ClassVar[bool] = False  # drop components from the first eigenvalue that is not positive

    def _check_params(self, views: Views) -> None:
        super()._check_params(views)
        check_coupling(self.coupling, views)

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        data = super()._training_data(views, classes)
        self.coupling_ = self._resolved_coupling(views, data if self.center else None)
        return data

    def _resolved_coupling(self, views: Views, centred: Samples | None = None) -> float:
        """The coupling to use: the given one or, if that is ``"auto"``, one that suits the views."""
        if self.coupling != "auto":
            return float(self.coupling)
        if centred is None or n_missing(views.mask) != 0:  # samples may have other weights
            centred = samples_of(views, None, pair_weights).centred()
        return AUTO_COUPLING if centred.features_correspond() else 0.0

    def _norm(self, data: Samples) -> CoupledNorm:
        """The norm of the maps."""
        return CoupledNorm(self.coupling_, data.n_features, data.spans)

    def _max_components(self, data: Samples) -> int:
        return self._norm(data).order - len(data.nulls)

    def _n_kept(self, data: Samples, eigenvalues: Array, W: Array) -> int:
        if not self._drop_nonpositive:
            return int(W.shape[1])
        positive = eigenvalues > _ZERO_EIGENVALUE * max(eigenvalues[0], 0.0)
        if not positive[0]:
            raise ValueError("no component makes the objective larger than 0: check the weights, labels and views.")
        return int(positive.argmin()) if not positive.all() else len(positive)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Prepare the data once. Settings that only differ in the whitening share a solution if they are neighbours."""
        unfitted: Self = clone(self)

        def with_params(setting: Mapping[str, Any]) -> Any:
            # As clone and set_params, whose inspection of signatures would take longer than scoring.
            model = copy(unfitted)
            model.__dict__.update(setting)
            return model

        def is_valid(model: Self) -> bool:
            with suppress(ValueError):
                model._check_params(views)
                return True
            return False

        data, solve = self._shared_solver([*filter(is_valid, map(with_params, settings))], views, y)
        resolve = cache(lambda coupling: clone(self).set_params(coupling=coupling)._resolved_coupling(data.views))
        last: list[Any] = []  # the setting but for its whitening, and its solution

        def refit(setting: Mapping[str, Any]) -> Any:
            model = with_params(setting)
            model._check_params(data.views)
            model.coupling_ = resolve(model.coupling)
            rest = {name: value for name, value in setting.items() if name != "whitening"}
            if not last or last[0] != rest:
                last[:] = rest, solve(model, data, model._n_solved(data))
            model._store(data, *last[1])
            model._remember(data.views)
            return model

        return refit

    def _shared_solver(
        self, models: Sequence[Self], views: Views, y: ArrayLike | None
    ) -> tuple[Samples, Callable[[Self, Samples, int], tuple[Array, Array]]]:
        """Training data for models that differ in `_refits`, and a function that solves their problems."""
        model, couplings = copy(self), [one.coupling for one in models]
        # Coordinates that views share serve every coupling, and whitening needs labels.
        if len(set(views.n_features)) == 1 and any(c != "auto" for c in couplings):
            model.coupling = max(AUTO_COUPLING if c == "auto" else float(c) for c in couplings)
        model.whitening = None if all(one.whitening is None for one in models) else 0.0
        return model._prepare(views, y), type(self)._solve


@parameters
class RatioEmbedding(CoupledEmbedding):
    """Base of methods that maximise ``tr W'AW`` subject to ``W'BW = I``. A subclass gives A and B in `_problem`.

    Parameters
    ----------
    reg : float
        Ridge on the matrix of the constraint, relative to its mean diagonal: in each view or, with coupling, in the
        coordinates of the coupled norm of the maps.
    """

    reg: float | Sequence[float] = 0.1

    search_space: ClassVar[SearchSpace] = {
        "n_components": N_COMPONENTS,
        "reg": RIDGES,
        "coupling": COUPLINGS,
        "whitening": WHITENINGS,
    }
    _refits: ClassVar[tuple[str, ...]] = ("reg", "coupling", "whitening")

    def _problem(self, data: Samples) -> tuple[Array, Array | Sequence[Array]]:
        """The matrices A and B, or the diagonal blocks of B."""
        raise NotImplementedError("a subclass defines the problem")

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        A, B = self._problem(data)
        reg = float(np.mean(self.reg))
        if not self.coupling_:
            ridged = ridge(B, reg, data.n_features) if isinstance(B, np.ndarray) else [ridge(one, reg) for one in B]
            return largest_generalised_eigenpairs(A, ridged, d)
        norm = self._norm(data)
        constraint = B if isinstance(B, np.ndarray) else scipy.linalg.block_diag(*B)
        if not norm.one_map:  # the ridge alone depends on the norm
            return largest_generalised_eigenpairs(A, norm.ridged(constraint, reg), d)
        values, U = largest_generalised_eigenpairs(norm.restrict(A), ridge(norm.restrict(constraint), reg), d)
        return values, norm.expand(U)
