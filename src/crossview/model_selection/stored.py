"""What model files may hold of searches and committees; see `crossview._schema`."""

from typing import Any

from sklearn.pipeline import Pipeline

from crossview._schema import Sizes
from crossview._transformer import MultiViewTransformer, unwrap
from crossview.embeddings._base import Embedding


def embedding(value: Any, sizes: Sizes) -> bool:
    """What maps all views into a space of d dimensions."""
    steps = unwrap(value)
    if not isinstance(steps[-1], Embedding) or not all(hasattr(step, "n_features_") for step in steps):
        return False
    d = steps[-1]._n_outputs(0)  # which is that of all views, by the schemas of embeddings
    sizes["names"] = steps[0].view_names_
    return bool(sizes.setdefault("d", d) == d)


def members(value: Any, sizes: Sizes) -> bool:
    """Embeddings of the committee's views, and at least one."""
    views = {(*sizes["names"], *sizes["widths"])}
    return all(embedding(member, {}) for member in value) and views == {
        (*first.view_names_, *first.n_features_) for first in (unwrap(member)[0] for member in value)
    }


def searchable(value: Any, sizes: Sizes) -> bool:
    """A transformer, or a pipeline of these."""
    sizes["pipeline"] = isinstance(value, Pipeline)
    steps = [step for _, step in value.steps if step is not None] if isinstance(value, Pipeline) else [value]
    return all(isinstance(step, MultiViewTransformer) or step == "passthrough" for step in steps)


def settings(value: Any, sizes: Sizes) -> bool:
    """Parameters of what is searched for, or a list of these."""
    given = value if isinstance(value, list | tuple) else [value]
    for name in (name for setting in given for name in setting if "__" not in name and sizes["pipeline"]):
        raise ValueError(f"a search for {name!r} of a pipeline itself could bring in a cache, or other steps")
    return all(type(setting) is dict for setting in given)


def results(value: Any, sizes: Sizes) -> bool:
    """Columns with a row per setting."""
    sizes["rows"] = range(len(value["params"]))
    return settings(value["params"], sizes) and all(len(column) == len(sizes["rows"]) for column in value.values())


def rows(value: Any, sizes: Sizes) -> bool:
    """A row of the results, or a list of these."""
    return all(type(row) is int and row in sizes["rows"] for row in (value if type(value) is list else [value]))
