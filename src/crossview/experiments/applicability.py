"""Which methods cannot be applied to some data, known before anything is computed."""

from crossview._validation import check_coupling, check_equal_widths, check_two_views
from crossview._version import __version__
from crossview.embeddings.methods import ALL_METHODS
from crossview.exceptions import NotApplicableError
from crossview.experiments.cells import Cell, space
from crossview.experiments.store import Record
from crossview.views import Views


def not_applicable_record(cell: Cell, views: Views, n_train: int) -> Record | None:
    """A record that says why a cell's method certainly cannot be applied to views; None if it may be."""
    method = ALL_METHODS[cell.method](**dict(cell.parameters))
    try:
        if method._needs_two_views:
            check_two_views(views, method)
        tried = space(cell, views.n_features)
        if not _may_get_equal(tried.get("viewpca__n_components"), views, n_train):
            if method._needs_equal_widths:
                check_equal_widths(views, method)
            couplings = tried.get(f"{type(method).__name__.lower()}__coupling", [method.coupling])
            check_coupling(0.0 if "auto" in couplings else min(couplings), views)
    except NotApplicableError as error:
        reason = {"type": type(error).__name__, "message": str(error), "traceback": ""}
        return Record("", cell.to_dict(), "failed", None, reason, 0.0, 0.0, __version__, {})
    return None


def _may_get_equal(tried: list[float | None] | None, views: Views, n_train: int) -> bool:
    """Whether views may have equal widths after the PCA: as many components as asked for, features or samples."""
    if tried is None:
        return False
    narrowest = min(views.n_features)
    return n_train <= narrowest or any(k is not None and k <= narrowest for k in tried)
