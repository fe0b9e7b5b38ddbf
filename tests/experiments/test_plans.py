from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from crossview import Views
from crossview.datasets import Dataset
from crossview.experiments import Cell, Search, Split, fingerprint
from crossview.experiments.plans import TEST_DATA, Loader, comparison, concatenated
from crossview.experiments.tasks import not_applicable_record


def dataset(labels, names=("photo", "sketch"), widths=(3, 2), seed=0, **more):
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=(len(labels), D)) for name, D in zip(names, widths, strict=True)}
    classes = [f"class {label}" for label in np.unique(labels)]
    return Dataset(Views(arrays), np.array(labels), classes, **more)


def test_a_comparison_has_every_method_and_repeat():
    search = Search(pca=(10, 20), n_iter=4, n_members=3)
    panel = comparison("digits", {}, ["PCA", "MvHE"], Split("samples", 20, 3, 5), search, ["MvHE"])
    assert [(place.row, place.part, place.cell.repeat) for place in panel.places] == [
        (row, part, repeat)
        for row, part in (("PCA", ""), ("MvHE", ""), ("MvHE × 3", "committee"))
        for repeat in range(3)
    ]
    assert {(place.cell.method, place.cell.search.n_members) for place in panel.places} == {("PCA", 1), ("MvHE", 3)}
    assert {place.cell.seed for place in panel.places} == {5, 6, 7}
    assert panel.columns == ["digits"]
    assert comparison("folder/a.npz", {}, ["PCA"], Split(), Search()).columns == ["a.npz"]
    given = comparison("a/x.npz", {TEST_DATA: "b/x.npz"}, ["PCA"], Split(), Search())
    assert given.columns == ["b/x.npz, trained on a/x.npz"]


def test_test_samples_follow_training_samples():
    train = dataset([1, 1, 2], ids=np.array(["a", "b", "c"]))
    test = dataset([3, 2], ("sketch", "photo"), (2, 3), seed=1, ids=np.array(["d", "e"]))
    test.views["photo"][0] = np.nan
    both = concatenated(train, test, "A", "B")
    assert both.views.names == ["photo", "sketch"]
    np.testing.assert_array_equal(both.views["photo"], np.vstack([train.views["photo"], test.views["photo"]]))
    np.testing.assert_array_equal(both.views["sketch"], np.vstack([train.views["sketch"], test.views["sketch"]]))
    assert both.views.mask[3].tolist() == [False, True]
    assert both.y.tolist() == [1, 1, 2, 3, 2]
    assert both.class_names == ["class 1", "class 2", "class 3"]
    assert both.ids.tolist() == ["a", "b", "c", "d", "e"]
    train, test = Split("given", 3, 1).rows(both.y, 0)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2], [3, 4])


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            dataset([1, 2], ("photo", "drawing")),
            r"B has no view 'sketch', which A has \(its views are photo, drawing\)",
        ),
        (dataset([1, 2], ("photo", "sketch", "x"), (3, 2, 2)), "A has no view 'x', which B has"),
        (dataset([1, 2], widths=(3, 4)), "view 'sketch' has 2 features in A, but 4 in B: use the same features"),
        (dataset(["1", "2"]), r"the labels of A are numbers \(1\), those of B text \(1\): write them in the same way"),
        (dataset(np.uint64([2**63, 2**63 + 1])), "labels .* must all be of one integer type"),
    ],
)
def test_what_differs_is_named(test, message):
    with pytest.raises(ValueError, match=message):
        concatenated(dataset([1, 1, 2]), test, "A", "B")


def test_columns_and_images_are_kept_and_compared():
    def images(names, shape=(1, 2)):
        arrays = {"photo": np.eye(2), "sketch": np.ones((2, 2))}
        return Dataset(Views(arrays, feature_names=[names, None], image_shape=shape), np.array([0, 1]), ["a", "b"])

    both = concatenated(images(["x", "y"]), images(["x", "y"]), "A", "B")
    assert both.views.feature_names == [["x", "y"], None]
    assert both.image_shape == (1, 2)
    with pytest.raises(ValueError, match="column 2 of view 'photo' is 'y' in A, but 'z' in B: use the same columns"):
        concatenated(images(["x", "y"]), images(["x", "z"]), "A", "B")
    with pytest.raises(ValueError, match=r"images have the shape \(1, 2\) in A, but \(2, 1\) in B: resize both"):
        concatenated(images(None), images(None, (2, 1)), "A", "B")


def test_both_are_loaded_and_their_contents_count(tmp_path):
    paths = [str(tmp_path / f"{name}.npz") for name in ("train", "test", "other")]
    for k, path in enumerate(paths):
        data = dataset([0, 1, 0, 1], seed=k)
        np.savez(path, photo=data.views["photo"], sketch=data.views["sketch"], y=data.y)
    one, other = (Loader()(paths[0], {TEST_DATA: path}) for path in paths[1:])
    assert len(one.y) == 8
    assert fingerprint(one) != fingerprint(other)


def test_methods_that_cannot_be_applied_are_known_in_advance():
    three = dataset([0, 1] * 20, "abc", (3, 3, 3)).views
    uneven = dataset([0, 1] * 20, widths=(9, 5)).views

    def reason(method, views, **changes):
        found = not_applicable_record(Cell(data="x", method=method, **changes), views, 40)
        return None if found is None else found.error["message"]

    assert "CCA takes 2 views, got 3" in reason("CCA", three)
    assert reason("MCCA", three) is None
    assert "MvDLA needs views of equal width, got 9, 5" in reason("MvDLA", uneven)
    assert "coupling=inf needs views of equal width, with the same features, got 9, 5" in reason("LDA", uneven)
    assert "coupling=4 needs views of equal width" in reason("MvDA", uneven, parameters={"coupling": 4.0})
    assert reason("LDA", uneven, parameters={"coupling": 0.0}) is None
    assert reason("LDA", uneven, search=Search(grid={"coupling": [np.inf, 0.0]})) is None
    assert "PCA needs views of equal width" in reason("PCA", uneven)
    assert reason("MvDA", uneven) is None
    # A PCA can make them equal.
    assert reason("MvDLA", uneven, search=Search(pca=[5])) is None
    assert not_applicable_record(Cell(data="x", method="MvDLA"), uneven, 5) is None


def test_loading_in_threads_leaves_the_warning_filters_alone(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.eye(6), b=np.eye(6), y=np.arange(6))  # of which there is something to say
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(Loader(), str(tmp_path / "a.npz"), {}) for _ in range(400)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
        found, warnings.filters[:] = list(warnings.filters), before
    assert found == before
