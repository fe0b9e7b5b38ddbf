"""What every embedding keeps to, whatever its mathematics."""

from __future__ import annotations

import pickle
from inspect import Parameter, signature

import numpy as np
import pytest
from methods import ALL, ALTERNATIVES, ANY_VIEWS, COUPLED, EVERY, SUPERVISED, TWO_VIEWS_ONLY, make, make_for, some_mask
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid, RandomizedSearchCV, StratifiedKFold
from sklearn.utils import get_tags

import crossview as cv
from crossview.embeddings import SEARCH_SPACES

Y = make()[1]
every = pytest.mark.parametrize("model", EVERY, ids=repr)


@pytest.fixture
def arrays(model):
    return make_for(model)[0]


@every
def test_fit_and_transform(model, arrays, tmp_path):
    model = clone(model)
    assert model.fit(arrays, Y) is model
    latents = model.transform(arrays)
    d = model.n_components_
    assert [Z.shape for Z in latents] == [(60, d), (60, d)]
    assert model.view_names_ == ["view0", "view1"]
    assert model.get_feature_names_out().tolist() == [f"{type(model).__name__.lower()}{k}" for k in range(d)]
    if model in ALL:
        assert d == len(model.eigenvalues_.T) == 2
    assert model.score(arrays, Y) > (0.0 if model._needs_equal_widths else 0.25)  # chance is 1/6
    cv.save(model, tmp_path / "model")
    for again in (clone(model).fit(arrays, Y), pickle.loads(pickle.dumps(model)), cv.load(tmp_path / "model")):
        assert repr(again) == repr(model)
        for v, X in enumerate(arrays):
            np.testing.assert_array_equal(again.transform_view(X, v), latents[v])
            np.testing.assert_allclose(again.transform_view(X[3:4], v), latents[v][3:4], atol=1e-12)


@every
def test_containers(model, arrays):
    views = cv.Views(arrays, names=["photo", "sketch"])
    model = clone(model).fit(views, Y)
    expected = model.transform(views)
    assert isinstance(expected, cv.Views)
    named = model.transform({"sketch": arrays[1], "photo": arrays[0]})
    np.testing.assert_array_equal(named["photo"], expected["photo"])
    assert isinstance(model.transform(arrays), list)


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_order_of_samples_does_not_matter(model, arrays):
    order = np.random.default_rng(1).permutation(len(Y))
    first = clone(model).fit(arrays, Y)
    second = clone(model).fit([X[order] for X in arrays], Y[order])
    for a, b in zip(first.transform(arrays), second.transform(arrays), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("model", [*ANY_VIEWS, *ALTERNATIVES], ids=repr)
def test_more_than_two_views(model):
    arrays, y = make_for(model, sizes=(6, 4, 5, 3))
    model = clone(model).fit(arrays, y)
    assert [Z.shape for Z in model.transform(arrays)] == [(60, model.n_components_)] * 4


@pytest.mark.parametrize("model", TWO_VIEWS_ONLY, ids=repr)
def test_two_views_only(model):
    arrays, y = make(sizes=(6, 4, 5))
    with pytest.raises(ValueError, match=r"takes 2 views, got 3: use crossview\.MCCA"):
        clone(model).fit(arrays, y)


@pytest.mark.parametrize("model", [model for model in EVERY if model._needs_equal_widths], ids=repr)
def test_equal_widths(model):
    name = type(model).__name__
    match = f"{name} needs views of equal width, got 6, 4 features: use crossview.MvHE"
    with pytest.raises(cv.exceptions.NotApplicableError, match=match):
        clone(model).fit(make()[0], Y)


@every
def test_incomplete_views(model, arrays):
    mask = some_mask(share=0.9)
    views = cv.Views(arrays, mask=mask)
    fitted = clone(model).fit(views, Y)
    latents = fitted.transform(views)
    np.testing.assert_array_equal(np.isnan(latents.arrays[0]).all(axis=1), ~mask[:, 0])
    assert np.isnan(fitted.transform_view(np.full((2, arrays[0].shape[1]), np.nan), 0)).all()
    # What is in the rows that are missing does not matter.
    spoilt = [np.where(seen[:, None], X, 99.0) for X, seen in zip(arrays, mask.T, strict=True)]
    others = clone(model).fit(cv.Views(spoilt, mask=mask), Y).transform(views)
    np.testing.assert_array_equal(others.arrays[1], latents.arrays[1])


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


@every
def test_bad_parameters(model, arrays):
    wrong = {"center": ["no"], "n_components": [0, 2.5, True], "t": [0.0], "n_neighbors": [0]}
    negative = ("lambda", "beta", "reg", "whitening", "n_within", "n_between")
    for name in model.get_params():
        for value in [-1.0] if name.startswith(negative) else wrong.get(name, []):
            with pytest.raises(ValueError, match=f"{name} must be"):
                clone(model).set_params(**{name: value}).fit(arrays, Y)


@pytest.mark.parametrize("model", SUPERVISED, ids=repr)
def test_supervised_methods_need_labels(model, arrays):
    assert get_tags(model).target_tags.required
    with pytest.raises(ValueError, match="requires y"):
        clone(model).fit(arrays, None)
    with pytest.raises(ValueError, match="one class only"):
        clone(model).fit(arrays, np.zeros(60))


@every
def test_unfitted(model, arrays):
    for call in (lambda m: m.transform(arrays), lambda m: m.transform_view(arrays[0], 0), lambda m: m.score(arrays, Y)):
        with pytest.raises(NotFittedError):
            call(clone(model))


def test_parameters_are_keywords():
    for cls in (*cv.METHODS.values(), *cv.BASELINES.values()):
        parameters = signature(cls).parameters.values()
        assert {p.name for p in parameters if p.kind is not Parameter.KEYWORD_ONLY} <= {"n_components"}


def test_names_are_those_of_the_paper_in_its_order():
    assert list(cv.METHODS)[:3] == ["PCA", "LDA", "DLA"]
    assert list(cv.METHODS)[12:15] == ["MvDA-VC", "MvHE", "KMvHE"]
    assert not cv.METHODS.keys() & cv.BASELINES.keys()
    assert list(SEARCH_SPACES) == [*cv.METHODS, *cv.BASELINES]


@pytest.mark.parametrize("name", [*cv.METHODS, "SemanticMatching", "NCA"])
def test_search_space(name):
    """Every value in it can be fitted, and some are better than others."""
    arrays, y = make(m=90, sizes=(8, 8), n_classes=9)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    cls, space = (cv.METHODS | cv.BASELINES)[name], SEARCH_SPACES[name]
    assert set(space) <= set(cls().get_params())
    small = {**space, "n_components": [2, 4]} if "n_components" in space else space
    search = RandomizedSearchCV(cls(), small, n_iter=min(6, len(ParameterGrid(small))), cv=folds, random_state=0)
    search.set_params(error_score="raise").fit(cv.Views(arrays), y)
    assert search.best_score_ > 1 / 9
