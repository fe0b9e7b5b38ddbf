"""Combine several embeddings into one."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags, get_tags

from crossview._parameters import parameters
from crossview._schema import VIEWS, Schema, Sizes, register
from crossview._transformer import map_view, unwrap
from crossview._types import Rows
from crossview.embeddings._base import Embedding
from crossview.engines import unit_rows, zeros
from crossview.views import ViewInput, Views

__all__ = ["Committee", "is_fitted_embedding"]


def is_fitted_embedding(value: Any, sizes: Sizes) -> bool:
    """Whether a value from a model file maps all views into a space of d dimensions."""
    steps = unwrap(value)
    if not isinstance(steps[-1], Embedding) or not all(hasattr(step, "n_features_") for step in steps):
        return False
    d = steps[-1]._n_outputs(0)  # which is that of all views, by the schemas of embeddings
    sizes["names"] = steps[0].view_names_
    return bool(sizes.setdefault("d", d) == d)


def _are_members(value: Any, sizes: Sizes) -> bool:
    """Whether a value from a model file holds embeddings of the committee's views, and at least one."""
    views = {(*sizes["names"], *sizes["widths"])}
    return all(is_fitted_embedding(member, {}) for member in value) and views == {
        (*first.view_names_, *first.n_features_) for first in (unwrap(member)[0] for member in value)
    }


@register
@parameters
class Committee(Embedding):
    r"""Concatenate the latent samples of several embeddings, each scaled to unit length.

    The squared distance between two samples in the common space is the sum of :math:`2 - 2 \cos \alpha_r` over the
    members, where :math:`\alpha_r` is the angle between the samples in the space of member r. Members thus have equal
    weight, and clear decisions count more than close ones. Members should be accurate and differ from each other:
    ``EmbeddingSearchCV(..., n_members=8)`` or ``crossview.tune(..., n_members=8)`` selects the best different settings.

    Parameters
    ----------
    members : list of estimator
        Embeddings, or pipelines that end in one.

    Attributes
    ----------
    members_ : list of estimator
        The fitted members.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> committee = cv.Committee([cv.MvDA(reg=0.1), cv.MvHE(n_components=20)])
    >>> committee.fit(data.views[:600], data.y[:600]).transform(data.views)
    Views(1797 samples; left: 29 features, right: 29 features)
    """

    members: Sequence[Any] = field(kw_only=False)

    _schema: ClassVar[Schema] = {**VIEWS, "members_": _are_members}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.members, list | tuple):
            members = [get_tags(member) for member in self.members]
            tags.target_tags.required = any(member.target_tags.required for member in members)
            tags.input_tags.pairwise = any(member.input_tags.pairwise for member in members)
        return tags

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Fit every member.

        Parameters
        ----------
        views, y
            As in the ``fit`` of the members.

        Returns
        -------
        self : Committee
            The fitted committee.
        """
        if not isinstance(self.members, list | tuple) or not self.members:
            raise ValueError("members must be a list of one or more embeddings: pass for example [MvDA(), MvHE()].")
        checked = Views(views)
        return self._of([clone(member).fit(checked, y) for member in self.members], checked)

    def _of(self, fitted: list[Any], views: Views) -> Self:
        """Use members that are already fitted."""
        self.members_: list[Any] = fitted
        self._remember(views)
        return self

    def _map(self, X: Rows, v: int) -> Rows:
        latents, end = zeros(X, len(X), self._n_outputs(v)), 0
        for member in self.members_:
            latent = map_view(member, X, v)
            start, end = end, end + latent.shape[1]
            latents[:, start:end] = unit_rows(latent)
        return latents

    def _n_outputs(self, v: int) -> int:
        return sum(unwrap(member)[-1]._n_outputs(v) for member in self.members_)
