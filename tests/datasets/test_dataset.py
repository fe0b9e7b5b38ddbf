import numpy as np
import pytest

import crossview as cv
from crossview.datasets import Dataset, shared_rows


def dataset(arrays, **options):
    views = cv.Views(arrays)
    return Dataset(views, np.zeros(len(views), dtype=int), ["0"], **options)


def slow(train, test):
    """Every pair of samples, view by view."""
    found = []
    for t in range(len(test.views)):
        for s in range(len(train.views)):
            both = [
                name
                for name in test.view_names
                if name in train.view_names and not np.isnan([train.views[name][s, 0], test.views[name][t, 0]]).any()
            ]
            if both and all(np.array_equal(train.views[name][s], test.views[name][t]) for name in both):
                found.append(t)
                break
    return found


def test_representations_are_short():
    data = cv.datasets.load_digits()
    start = "Dataset(views=Views(1797 samples; left: 32 features, right: 32 features), description='"
    assert repr(data).startswith(start)
    assert len(repr(data)) < 400
    page = data._repr_html_()
    assert "1797 samples of 10 classes" in page
    assert "<td>left</td><td>32</td>" in page
    views = cv.Views({"<i>": np.eye(2), "b": [[np.nan], [1.0]]})
    page = Dataset(views, np.array([0, 1]), ["a", "b"])._repr_html_()
    assert "<td>&lt;i&gt;</td><td>2</td>" in page
    assert "<td>b</td><td>1</td>" in page


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_that_comparing_all_pairs_finds(seed, missing):
    rng = np.random.default_rng(seed)
    # Two values per feature, so that rows are often equal in some views and not in others.
    arrays = {name: rng.integers(2, size=(60, width)).astype(float) for name, width in (("a", 3), ("b", 2), ("c", 4))}
    for X in arrays.values():
        X[rng.random(60) < missing] = np.nan
    train = dataset({name: X[:35] for name, X in arrays.items() if name != "c"} | {"d": np.ones((35, 1))})
    test = dataset({name: X[35:] for name, X in arrays.items()})
    rows = shared_rows(train, test)
    assert rows.tolist() == slow(train, test)
    assert 0 < len(rows) < 25


def test_nothing_is_shared_without_a_common_view():
    one, other = dataset({"a": np.eye(3), "b": np.eye(3)}), dataset({"c": np.eye(3)})
    assert shared_rows(one, other).tolist() == []
    assert shared_rows(one, dataset({"a": np.eye(4)})).tolist() == []
