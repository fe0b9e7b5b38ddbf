"""The base class of all methods: check → data → scatters → solve → store. Think twice before adding anything."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

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

AUTO_COMPONENTS = 40
"""Maximum number of components with ``n_components="auto"``."""

AUTO_COUPLING = 8.0
"""Coupling of views with common coordinates with ``coupling="auto"``."""

_ZERO_EIGENVALUE = 1e-12  # relative to the largest
_MIN_AGREEMENT = 0.1  # 1 for equal views, 0 for views that have nothing in common
_SMALL_SHARE = 1 / 6  # of the components; if fewer are kept, their agreement must be larger
_MIN_AGREEMENT_OF_SMALL_SHARE = 0.3, 0.9  # of several components, or of one


class Embedding(MultiViewTransformer):
    """Base of the methods.

    A method declares its requirements and solves its problem in `_solve`. It may also check parameters
    (`_check_params`), prepare its training data (`_training_data`) and limit the number of components
    (`_max_components`). `MvHE` documents the fitted attributes.
    """

    coupling: float | str = 0.0
    whitening: float | None = None
    coupling_: float = 0.0  # of methods without the parameter
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
    _allows_auto_components: ClassVar[bool] = False  # n_components may be "auto"
    _nested_components: ClassVar[bool] = True  # the first components are those of a fit with fewer
    _restrict_to_span: ClassVar[bool] = False  # restrict maps to the span of the training samples
    _weighs_pairs: ClassVar[bool] = True  # samples have the weights `pair_weights`; otherwise all have the same
    _drop_nonpositive: ClassVar[bool] = False  # drop components from the first eigenvalue that is not positive
    _nonnegative: ClassVar[tuple[str, ...]] = ()  # parameters that must be non-negative numbers

    def __init__(
        self,
        n_components: int | str = 20,
        *,
        coupling: float | str = 0.0,
        whitening: float | None = None,
        center: bool = True,
    ) -> None:
        self.n_components = n_components
        self.coupling = coupling
        self.whitening = whitening
        self.center = center

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._uses_labels
        return tags

    @property
    def _uses_labels(self) -> bool:
        return self._needs_labels or self.whitening is not None

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
        with reporting(f"Fitting {type(self).__name__}"):
            data = self._prepare(views, y)
            report(now="solving the eigenproblem")
            d = min(self._requested_components(), self._max_components(data))
            eigenvalues, W = self._solve(data, d)
            fitted = self._store(data, eigenvalues, W)
        self._warn_of_disagreement(data, W)
        return fitted

    def score(self, views: ViewInput, y: ArrayLike) -> float:
        """Mean cross-view accuracy (mACC) of 1-nearest-neighbour matching in the common space.

        The gallery is all samples of one view, without the probe's counterpart if its class has another sample there.
        See `crossview.metrics.mean_accuracy`.

        Parameters
        ----------
        views : Views, or list, tuple or dict of array-like, each of shape (m, D_v)
            The samples.
        y : array-like of shape (m,)
            Class labels.

        Returns
        -------
        accuracy : float
            Mean over all ordered pairs of gallery and probe views.
        """
        return mean_accuracy(self._mapped(views), y)

    def _prepare(self, views: ViewInput, y: ArrayLike | None) -> Samples:
        """Check the input and prepare the training data."""
        self._requested_components()
        check_flag(self.center, "center")
        checked = check_views(views, self)
        check_lazy(checked.arrays[0], self, self._instead_of_lazy())
        if self._needs_two_views:
            check_two_views(checked, self)
        if self._needs_equal_widths:
            check_equal_widths(checked, self)
        self._check_settings(checked)
        classes = check_labels(y, checked, self) if self._uses_labels else None
        # The columns of kernel matrices are samples, too; and blocks leave out by themselves what no view has.
        if not get_tags(self).input_tags.pairwise and checked._place != "Dask":
            used = checked.mask.any(axis=1)
            if not used.all():
                checked, classes = checked[used], None if classes is None else classes[used]
        on_engine = checked._on_device() if self._takes_tensors else checked._in_memory()
        data = self._training_data(on_engine, classes)
        if "coupling" in vars(self) and not data.maps:
            self.coupling_ = self._resolved_coupling(on_engine, data if self.center else None)
        data = self._find_neighbours(data)
        return data.in_span(common=self.coupling_ > 0) if self._restrict_to_span else data

    def _resolved_coupling(self, views: Views, centred: Samples | None = None) -> float:
        """The coupling to use: the given one or, if that is ``"auto"``, one that suits the views."""
        if self.coupling != "auto":
            return float(self.coupling)
        if centred is None or n_missing(views.mask) != 0:  # samples may have other weights
            centred = samples_of(views, None, pair_weights).centred()
        return AUTO_COUPLING if centred.features_correspond() else 0.0

    def _instead_of_lazy(self) -> str | None:
        """What to do instead of passing Dask arrays, if the method does not take any."""
        return None if self._takes_tensors else "pass arrays in memory, or use MvHE"

    def _requested_components(self) -> int:
        """Check and resolve `n_components`."""
        if self.n_components == "auto" and self._allows_auto_components:
            return AUTO_COMPONENTS
        check_count(self.n_components, "n_components", least=1)
        return int(self.n_components)

    def _check_settings(self, views: Views) -> None:
        """Refuse parameters that are invalid, or invalid for the views."""
        for name in self._nonnegative:
            check_weight(getattr(self, name), name)
        check_coupling(self.coupling, views)
        if self.whitening is not None:
            check_weight(self.whitening, "whitening")
        self._check_params(views.shape[1])

    def _check_params(self, n_views: int) -> None:
        """Refuse invalid parameters."""

    def _find_neighbours(self, data: Samples) -> Samples:
        """Add patches, if the method needs any: before linear algebra, whose idle threads would slow the search."""
        return data

    def _training_data(self, views: Views, classes: Indices | None) -> Samples:
        """Prepare the training data."""
        return samples_of(views, classes, pair_weights if self._weighs_pairs else None).centred(self.center)

    def _max_components(self, data: Samples) -> int:
        """Maximum number of components."""
        return self._norm(data).order - len(data.nulls)

    def _norm(self, data: Samples) -> CoupledNorm:
        """The norm of the maps."""
        return CoupledNorm(self.coupling_, data.n_features, data.spans)

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues, and the d components of all views, stacked."""
        raise NotImplementedError("a subclass defines the problem")

    def _largest_ratios(
        self, data: Samples, A: Array, B: Array | Sequence[Array], d: int, reg: float
    ) -> tuple[Array, Array]:
        """Maximise ``tr W'AW`` subject to ``W'BW = I`` with a ridge on the norm of the maps.

        B is a matrix or the sequence of its diagonal blocks. The ridge is relative to the mean diagonal of B: that of
        each view without coupling, and in the coordinates of the coupled norm otherwise.
        """
        if not self.coupling_:
            ridged = ridge(B, reg, data.n_features) if isinstance(B, np.ndarray) else [ridge(one, reg) for one in B]
            return largest_generalised_eigenpairs(A, ridged, d)
        norm = self._norm(data)
        constraint = B if isinstance(B, np.ndarray) else scipy.linalg.block_diag(*B)
        if not norm.one_map:  # the ridge alone depends on the norm
            return largest_generalised_eigenpairs(A, norm.ridged(constraint, reg), d)
        values, U = largest_generalised_eigenpairs(norm.restrict(A), ridge(norm.restrict(constraint), reg), d)
        return values, norm.expand(U)

    def _refitter(
        self, views: Views, y: ArrayLike | None, settings: Sequence[Mapping[str, Any]]
    ) -> Callable[[Mapping[str, Any]], Self]:
        """Prepare the data once. Settings that only differ in the whitening share a solution if they are neighbours."""
        if not self._refits:
            return super()._refitter(views, y, settings)
        unfitted: Self = clone(self)

        def with_params(setting: Mapping[str, Any]) -> Any:
            # As clone and set_params, whose inspection of signatures would take longer than scoring.
            model = copy(unfitted)
            model.__dict__.update(setting)
            return model

        data, solve = self._shared_solver([with_params(setting) for setting in settings], views, y)
        auto = cache(lambda: clone(self).set_params(coupling="auto")._resolved_coupling(data.views))
        last: list[Any] = []  # the setting but for its whitening, and its solution

        def refit(setting: Mapping[str, Any]) -> Any:
            model = with_params(setting)
            model._check_settings(data.views)
            if "coupling" in vars(model):
                model.coupling_ = auto() if model.coupling == "auto" else float(model.coupling)
            rest = {name: value for name, value in setting.items() if name != "whitening"}
            if not last or last[0] != rest:
                d = min(model._requested_components(), model._max_components(data))
                last[:] = rest, solve(model, data, d)
            return model._store(data, *last[1])

        return refit

    def _shared_solver(
        self, models: Sequence[Self], views: Views, y: ArrayLike | None
    ) -> tuple[Samples, Callable[[Self, Samples, int], tuple[Array, Array]]]:
        """Training data for models that differ in `_refits`, and a function that solves their problems."""
        model = copy(self)
        # Coordinates that views share serve every coupling, and whitening needs labels.
        if len(set(views.n_features)) == 1 and any(one.coupling != "auto" for one in models):
            couplings = [AUTO_COUPLING if one.coupling == "auto" else one.coupling for one in models]
            model.coupling = max((c for c in couplings if isinstance(c, Real) and c >= 0), default=0.0)
        model.whitening = None if all(one.whitening is None for one in models) else 0.0
        return model._prepare(views, y), type(self)._solve

    def _couples_views(self) -> bool:
        """Whether the objective has a term across views; without one, the views have no reason to agree."""
        return True

    def _warn_of_disagreement(self, data: Samples, W: Array) -> None:
        """Warn if the components keep the views apart: the few that are left, or all of them together."""
        # With one map, all components are the features themselves.
        if not self._allows_auto_components or not self._couples_views() or np.isinf(self.coupling_):
            return
        n, automatic, kept = len(data.n_features), self.n_components == "auto", len(self.eigenvalues_)
        few = automatic and kept < _SMALL_SHARE * W.shape[1]
        all_kept = W.shape[1] == self._max_components(data)
        # Whitening makes those small that set views apart.
        if not few and (automatic or not all_kept or self.whitening is not None):
            return
        squares, products = data.agreement(W[:, :kept] if few else W)
        least = _MIN_AGREEMENT_OF_SMALL_SHARE[kept == 1] if few else _MIN_AGREEMENT
        if products.sum() >= least * (n - 1) * squares.sum():
            return
        if few:
            what = f"the views hardly agree along any of {W.shape[1]} components"
            fix = "check that rows correspond, or search for other weights with crossview.tune"
        else:
            what = f"n_components={self.n_components} keeps all {W.shape[1]}, also those that set views apart"
            fix = f"use n_components='auto', or at most {_count_agreeing(squares, products, n)}"
        warnings.warn(f"{what}, so matching is close to chance: {fix}.", stacklevel=3)

    def _store(self, data: Samples, eigenvalues: Array, W: Array) -> Self:
        """Store the useful components."""
        kept = _count_positive(eigenvalues) if self._drop_nonpositive else W.shape[1]
        if self.n_components == "auto" and self._couples_views():
            squares, products = data.agreement(W)
            kept = min(kept, _count_agreeing(squares, products, len(data.n_features)))
        self.eigenvalues_ = eigenvalues[:kept]
        self._store_maps(data, W[:, :kept] if self.whitening is None else _whitened(data, W[:, :kept], self.whitening))
        self._remember(data.views)
        return self

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
        """Return the names of the components, which all views share.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the input features, which are only checked.

        Returns
        -------
        names : ndarray of str
            The class's name and a number: ``mvhe0``, ``mvhe1``, …
        """
        check_is_fitted(self)
        return np.array(self._names_out(0, self._input_names(input_features)[0]), dtype=object)

    def _names_out(self, v: int, inputs: list[str]) -> list[str]:
        return [f"{type(self).__name__.lower()}{k}" for k in range(self._n_outputs(v))]


def _count_positive(eigenvalues: Array) -> int:
    """Number of components before the first whose eigenvalue is not positive."""
    positive = eigenvalues > _ZERO_EIGENVALUE * max(eigenvalues[0], 0.0)
    if not positive[0]:
        raise ValueError("no component makes the objective larger than 0: check the weights, labels and views.")
    return int(positive.argmin()) if not positive.all() else len(positive)


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


def _count_agreeing(squares: Array, products: Array, n_views: int) -> int:
    """Number of components before the first along which the agreement of the views is below 0.1; at least 1.

    The agreement is the sum of products over all ordered pairs of views and all samples, relative to its value for
    equal views. A component along which only one view varies adds noise; one along which views oppose each other
    separates them.
    """
    disagrees = products < _MIN_AGREEMENT * (n_views - 1) * squares
    return max(int(disagrees.argmax()), 1) if disagrees.any() else len(disagrees)


class PooledEmbedding(Embedding):
    """Base of methods that learn one map for all views from their pooled samples. A subclass defines `_solve_one`."""

    coupling_ = np.inf
    _needs_equal_widths = True
    _weighs_pairs = False

    def __init__(self, n_components: int = 20, *, whitening: float | None = None, center: bool = True) -> None:
        self.n_components = n_components
        self.whitening = whitening
        self.center = center

    def _max_components(self, data: Samples) -> int:
        return data.n_features[0]

    def _solve(self, data: Samples, d: int) -> tuple[Array, Array]:
        values, W = self._solve_one(data.pooled(), d)
        return values, np.tile(W, (len(data.n_features), 1))

    def _solve_one(self, samples: Samples, d: int) -> tuple[Array, Array]:
        """Eigenvalues and d components of one set of samples, none of them missing."""
        raise NotImplementedError("a subclass defines the problem")
