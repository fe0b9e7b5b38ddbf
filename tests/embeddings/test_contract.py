"""What every embedding keeps to, whatever its mathematics."""

from __future__ import annotations

import pickle
from inspect import Parameter, signature
from itertools import combinations

import numpy as np
import pytest
from methods import ALL, ANY_VIEWS, COUPLED, SUPERVISED, TWO_VIEWS_ONLY, make, make_for
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import crossview as cv

Y = make()[1]
EVERY = pytest.mark.parametrize("model", ALL, ids=repr)


@pytest.fixture
def arrays(model):
    return make_for(model)[0]


@EVERY
def test_fit_and_transform(model, arrays):
    model = clone(model)
    assert model.fit(arrays, Y) is model
    latents = model.transform(arrays)
    assert [Z.shape for Z in latents] == [(60, 2), (60, 2)]
    assert len(model.projections_) == 2
    assert model.eigenvalues_.shape[-1] == 2
    assert model.view_names_ == ["view0", "view1"]
    assert 0.0 <= model.score(arrays, Y) <= 1.0
    for v, X in enumerate(arrays):
        np.testing.assert_array_equal(model.transform_view(X, v), latents[v])
        np.testing.assert_allclose(model.transform_view(X[3:4], v), latents[v][3:4], atol=1e-12)


@EVERY
def test_clone_pickle_and_determinism(model, arrays):
    first, second = clone(model).fit(arrays, Y), clone(model).fit(arrays, Y)
    again = pickle.loads(pickle.dumps(first))
    assert repr(again) == repr(model)
    for a, b, c in zip(*(m.transform(arrays) for m in (first, second, again)), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@EVERY
def test_containers(model, arrays):
    views = cv.Views(arrays, names=["photo", "sketch"])
    model = clone(model).fit(views, Y)
    expected = model.transform(views)
    assert isinstance(expected, cv.Views)
    named = model.transform({"sketch": arrays[1], "photo": arrays[0]})
    np.testing.assert_array_equal(named["photo"], expected["photo"])
    assert isinstance(model.transform(arrays), list)


@EVERY
def test_order_of_samples_does_not_matter(model, arrays):
    order = np.random.default_rng(1).permutation(len(Y))
    first = clone(model).fit(arrays, Y)
    second = clone(model).fit([X[order] for X in arrays], Y[order])
    for a, b in zip(first.transform(arrays), second.transform(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("model", ANY_VIEWS, ids=repr)
def test_more_than_two_views(model):
    arrays, y = make_for(model, sizes=(6, 4, 5, 3))
    latents = clone(model).fit(arrays, y).transform(arrays)
    assert [Z.shape for Z in latents] == [(60, 2)] * 4


@pytest.mark.parametrize("model", TWO_VIEWS_ONLY, ids=repr)
def test_two_views_only(model):
    arrays, y = make(sizes=(6, 4, 5))
    with pytest.raises(ValueError, match=r"takes 2 views, got 3: use crossview\.MCCA"):
        clone(model).fit(arrays, y)


@EVERY
def test_incomplete_views(model, arrays):
    mask = np.random.default_rng(0).random((60, 2)) < 0.9
    mask[:12] = True
    views = cv.Views(arrays, mask=mask)
    latents = clone(model).fit(views, Y).transform(views)
    np.testing.assert_array_equal(np.isnan(latents.arrays[0]).all(axis=1), ~mask[:, 0])
    full = clone(model).fit(cv.Views(arrays, mask=np.ones((60, 2), dtype=bool)), Y)
    for a, b in zip(full.projections_, clone(model).fit(arrays, Y).projections_, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("model", [*ALL, *COUPLED], ids=repr)
def test_samples_of_one_view_alone_change_nothing(model):
    arrays, _ = make(sizes=(5, 5))
    mask = np.ones((60, 2), dtype=bool)
    mask[[3, 20, 41, 42], 0] = False
    mask[[4, 25, 59], 1] = False
    mask[[5, 30]] = False
    y = np.where(np.arange(60) == 59, 99, Y)  # nor does a class that has no other samples
    complete = mask.all(axis=1)
    fewer = clone(model).fit([X[complete] for X in arrays], Y[complete])
    more = clone(model).fit(cv.Views(arrays, mask=mask), y)
    np.testing.assert_allclose(more.eigenvalues_, fewer.eigenvalues_, rtol=1e-8)
    for a, b in zip(more.transform(arrays), fewer.transform(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max())


@pytest.mark.parametrize("model", [*ANY_VIEWS, *COUPLED], ids=repr)
def test_samples_of_some_views_are_learnt_from(model):
    """The fit differs from that of complete samples, by as little as there is little to add."""
    arrays, y = make_for(model, m=120, sizes=(6, 4, 5))
    mask = np.ones((120, 3), dtype=bool)
    mask[np.arange(100, 120), np.arange(100, 120) % 3] = False
    views = cv.Views(arrays, mask=mask)
    fewer, more = clone(model).fit(views[:100], y[:100]), clone(model).fit(views, y)
    order = np.random.default_rng(0).permutation(120)
    again = clone(model).fit(views[order], y[order])
    for Z, fewer_Z, again_Z in zip(*(m.transform(arrays) for m in (more, fewer, again)), strict=True):
        assert np.isfinite(Z).all()
        # Products of samples do not depend on signs and rotations of the space.
        K, L = Z @ Z.T, fewer_Z @ fewer_Z.T
        assert 1e-6 < np.linalg.norm(K / np.linalg.norm(K) - L / np.linalg.norm(L)) < 0.5
        np.testing.assert_allclose(again_Z, Z, atol=1e-6 * np.abs(Z).max())


@EVERY
@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda X, _: [X], "needs 2 views or more"),
        (lambda X, Y: [X, np.ones_like(Y)], "constant in every column"),
        (lambda X, Y: [X, np.where(Y[2, 1] == Y, np.nan, Y)], "NaN in part of row 2"),
        (lambda X, Y: [X, Y[:-1]], "same number of rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_views(model, spoil, match, arrays):
    with pytest.raises(ValueError, match=match):
        clone(model).fit(spoil(*arrays), Y)


@EVERY
@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_bad_number_of_components(model, value, arrays):
    with pytest.raises(ValueError, match="n_components must be a whole number, 1 or more"):
        clone(model).set_params(n_components=value).fit(arrays, Y)


@EVERY
def test_bad_parameters(model, arrays):
    for name in model.get_params():
        if name.startswith("lambda") or name == "reg":
            with pytest.raises(ValueError, match=f"{name} must be a finite number"):
                clone(model).set_params(**{name: -1.0}).fit(arrays, Y)
    with pytest.raises(ValueError, match="center must be True or False"):
        clone(model).set_params(center="no").fit(arrays, Y)


@pytest.mark.parametrize("model", SUPERVISED, ids=repr)
def test_supervised_methods_need_labels(model, arrays):
    assert get_tags(model).target_tags.required
    with pytest.raises(ValueError, match="requires y"):
        clone(model).fit(arrays, None)
    with pytest.raises(ValueError, match="one class only"):
        clone(model).fit(arrays, np.zeros(60))


@EVERY
def test_unfitted(model, arrays):
    with pytest.raises(NotFittedError):
        clone(model).transform(arrays)


def test_parameters_are_keywords_in_one_order():
    before = set()
    for cls in (cv.MvHE, cv.KMvHE, *cv.METHODS.values(), *cv.BASELINES.values()):
        parameters = list(signature(cls).parameters.values())
        assert {p.name for p in parameters if p.kind is not Parameter.KEYWORD_ONLY} <= {"n_components"}
        names = [p.name for p in parameters if p.name != "gamma"]  # a weight of GMA, and the width of a kernel
        before |= {*combinations(names, 2)}
    assert not [pair for pair in before if pair[::-1] in before]
