"""The estimators behave as scikit-learn's do."""

from __future__ import annotations

import pickle
import sys
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import crossview as cv

ALL = [cv.MvHE(2), cv.KMvHE(2), cv.ViewScaler(), cv.ViewPCA(2)]


class OnOneMatrix:
    """Lets scikit-learn's checks, which know only one matrix, feed an estimator: the matrix is both its views."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags

    def fit(self, X, y=None):
        super().fit([X, X], y)
        self.n_features_in_ = self.n_features_[0]
        return self

    def transform(self, X):
        parts = super().transform([X, X])
        if isinstance(parts[0], np.ndarray):
            return np.hstack(parts)
        columns = np.split(self.get_feature_names_out(), 2)
        if isinstance(parts[0], pd.DataFrame):
            return pd.concat([part.set_axis(c, axis=1) for part, c in zip(parts, columns, strict=True)], axis=1)
        return pl.concat(
            [part.rename(dict(zip(part.columns, c, strict=True))) for part, c in zip(parts, columns, strict=True)],
            how="horizontal",
        )


class EmbeddingOnOneMatrix(OnOneMatrix):
    def get_feature_names_out(self, input_features=None):
        names = super().get_feature_names_out(input_features)
        return np.array([f"view{v}__{name}" for v in (0, 1) for name in names], dtype=object)

    def score(self, X, y):
        return cv.metrics.mean_accuracy(np.hsplit(self.transform(X), 2), y)


def on_one_matrix(base, cls):
    """A subclass that pickling finds by its name in this module."""
    name = f"{cls.__name__}OnOneMatrix"
    globals()[name] = type(name, (base, cls), {"__module__": __name__, "__init__": cls.__init__})
    return globals()[name]


class MatcherOnOneMatrix(cv.CrossViewClassifier):
    """The matrix is both the gallery's and the probes' view."""

    def __init__(self, embedding=None, *, calibration_folds=3):
        super().__init__(embedding, calibration_folds=calibration_folds)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags

    def fit(self, X, y):
        super().fit([X, X], y)
        self.n_features_in_ = self.embedding_.n_features_[0]
        return self


EMBEDDINGS = [on_one_matrix(EmbeddingOnOneMatrix, cls)(1) for cls in (cv.MvHE, cv.KMvHE, cv.MvDA)]
ON_ONE_MATRIX = [*EMBEDDINGS, *(on_one_matrix(OnOneMatrix, cls)() for cls in (cv.ViewScaler, cv.ViewPCA))]


@pytest.mark.filterwarnings("ignore:.* components lie where no training sample varies:UserWarning")
@parametrize_with_checks(
    [*ON_ONE_MATRIX, MatcherOnOneMatrix(cv.MvDA(reg=0.1))],
    expected_failed_checks=lambda estimator: {"check_dtype_object": "a view is a matrix of numbers, not of objects"},
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ON_ONE_MATRIX, ids=repr)
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_global_output_transform_pandas,
        estimator_checks.check_set_output_transform_polars,
        estimator_checks.check_global_set_output_transform_polars,
    ],
)
def test_scikit_learn_checks_of_names_and_frames(estimator, check):
    """These checks are scikit-learn's for its own estimators, which `parametrize_with_checks` leaves out."""
    check(type(estimator).__name__, estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 5
    z = rng.normal(size=(5, 3))[y] + 0.3 * rng.normal(size=(60, 3))
    arrays = {"photo": z @ rng.normal(size=(3, 4)), "sketch": z @ rng.normal(size=(3, 4))}
    return cv.Views(arrays), np.array(list("abcde"))[y]


@pytest.mark.parametrize("estimator", ALL, ids=repr)
class TestEveryEstimator:
    def test_clone_and_pickle(self, estimator, data):
        views, y = data
        assert repr(clone(estimator)) == repr(estimator)
        with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
            clone(estimator).set_params(colour=1)
        model = clone(estimator).fit(views, y)
        expected, again = model.transform(views), pickle.loads(pickle.dumps(model)).transform(views)
        for a, b, c in zip(expected.arrays, again.arrays, estimator.fit_transform(views, y).arrays, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)

    def test_containers(self, estimator, data):
        views, y = data
        model = clone(estimator).fit(views, y)
        expected = model.transform(views)
        assert expected.names == ["photo", "sketch"]
        turned = {"sketch": views["sketch"], "photo": views["photo"]}
        frames = [[frame(X) for X in views.arrays] for frame in (pd.DataFrame, pl.DataFrame)]
        lists = [views.arrays, tuple(views.arrays), *frames]
        for given, kind in (*((one, list) for one in lists), (turned, dict), (cv.Views(turned), cv.Views)):
            got = model.transform(given)
            assert type(got) is kind
            for v, name in enumerate(views.names):
                np.testing.assert_array_equal(got[v if kind is list else name], expected[name])
        for given in (*lists, dict(zip(views.names, views.arrays, strict=True))):
            fitted = clone(estimator).fit(given, pd.Series(y))
            np.testing.assert_array_equal(fitted.transform_view(views["sketch"], 1), expected["sketch"])
        np.testing.assert_allclose(model.transform_view(views["photo"][:5], 0), expected["photo"][:5], atol=1e-12)

    def test_named_views_in_any_order(self, estimator, data):
        views, y = data
        three = {"a": views["photo"], "b": views["sketch"] + 1.0, "c": 2.0 * views["photo"]}
        model = clone(estimator).fit(three, y)
        mask = np.ones((len(y), 3), dtype=bool)
        mask[0, 1] = False
        got = model.transform(cv.Views({name: three[name] for name in "cab"}, mask=mask))
        assert got.names == ["a", "b", "c"]
        np.testing.assert_array_equal(got.mask[0], [False, True, True])
        for name in "bc":
            np.testing.assert_array_equal(got[name], model.transform_view(three[name], name))


def test_model_selection(data):
    estimator = cv.MvHE(2)
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(3), estimator)
    assert cross_validate(pipeline, *data, cv=3, n_jobs=2)["test_score"].min() > 0.5
    search = GridSearchCV(pipeline, {"mvhe__n_components": [1, 2, 3], "mvhe__beta": [0.1, 0.5]}, cv=3).fit(*data)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score(*data) > 0.5
    assert isinstance(search.transform(data[0]), cv.Views)
    train, test, y_train, y_test = train_test_split(*data, random_state=0, stratify=data[1])
    model = clone(estimator).fit(train, y_train)
    assert model.score(test, y_test) == cv.metrics.mean_accuracy(model.transform(test), y_test)


@pytest.fixture
def frames(data):
    """The views as frames with names and an index, and the classes."""
    views, y = data
    index = [f"sample {k}" for k in range(len(y))]
    named = zip(views.names, views.arrays, ("abcd", "efgh"), strict=True)
    return {name: pd.DataFrame(X, index=index, columns=list(columns)) for name, X, columns in named}, y


@pytest.mark.parametrize("estimator", [cv.KMvHE(2), cv.ViewScaler()], ids=repr)
class TestColumns:
    def test_are_remembered(self, estimator, frames):
        X, y = frames
        for views in (X, list(X.values()), cv.Views(X), [pl.from_pandas(one) for one in X.values()]):
            assert clone(estimator).fit(views, y).feature_names_ == [list("abcd"), list("efgh")]
        assert clone(estimator).fit([X["photo"].to_numpy(), X["sketch"]], y).feature_names_ == [None, list("efgh")]

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("bacd", r"columns of view 'photo' are in another order than in fit: .*X\[model.feature_names_\[0\]\]"),
            ("bcd", r"columns of view 'photo' differ from those in fit \(missing 'a'\): pass X"),
            ("abcdz", r"\(unexpected 'z'\)"),
            ("zyxwv", r"\(missing 'a', 'b', 'c' and 1 more; unexpected 'z', 'y', 'x' and 2 more\)"),
        ],
    )
    def test_must_be_those_of_fit(self, estimator, frames, library, columns, message):
        X, y = frames
        model = make_pipeline(clone(estimator)).fit(X, y)
        changed = X["photo"].reindex(columns=list(columns), fill_value=0.0)
        changed = changed if library == "pandas" else pl.from_pandas(changed)
        attempts = [
            lambda: model.transform({**X, "photo": changed}),
            lambda: model.transform({"sketch": X["sketch"], "photo": changed}),
            lambda: model.transform(cv.Views({**X, "photo": changed})),
            lambda: cv.transform_view(model, changed, "photo"),
        ]
        for attempt in attempts:
            with pytest.raises(ValueError, match=message):
                attempt()

    def test_may_have_no_names(self, estimator, frames):
        X, y = frames
        arrays = [one.to_numpy() for one in X.values()]
        named, unnamed = clone(estimator).fit(list(X.values()), y), clone(estimator).fit(arrays, y)
        for a, b in zip(named.transform(arrays), unnamed.transform(list(X.values())), strict=True):
            np.testing.assert_array_equal(a, b)
        with pytest.raises(ValueError, match="some occur more than once"):
            named.transform_view(X["photo"][list("abcda")], 0)


def test_images_must_have_the_size_of_fit():
    digits = cv.datasets.load_digits()
    model = make_pipeline(cv.ViewPCA(5), cv.MvDA()).fit(digits.views[:100], digits.y[:100])
    assert model[0].image_shape_ == (8, 4)
    assert model[1].image_shape_ is None
    assert model.transform(digits.views[:3]).image_shape is None
    assert len(model.transform(cv.Views(digits.views.arrays, names=["left", "right"]))) == len(digits.y)
    turned = cv.Views(digits.views, image_shape=(4, 8))
    with pytest.raises(ValueError, match=r"images are 4 × 8 pixels .* fitted on images of 8 × 4: load them in that"):
        model.transform(turned)


def test_names_of_outputs(frames):
    X, y = frames
    inputs = [f"photo__{c}" for c in "abcd"] + [f"sketch__{c}" for c in "efgh"]
    components = [f"{view}__viewpca{k}" for view in X for k in range(2)]
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(2), cv.ViewScaler(), cv.MvHE(2)).fit(X, y)
    for stop, expected in ((1, inputs), (2, components), (3, components), (4, ["mvhe0", "mvhe1"])):
        assert pipeline[:stop].get_feature_names_out().tolist() == expected
    arrays = [one.to_numpy() for one in X.values()]
    names = cv.ViewScaler().fit(arrays).get_feature_names_out
    assert names().tolist() == [f"view{v}__x{k}" for v in range(2) for k in range(4)]
    assert names(list("abcd")).tolist() == [f"view{v}__{c}" for v in range(2) for c in "abcd"]
    assert names(list("abcdefgh"))[-1] == "view1__h"
    assert cv.ViewKernel(n_landmarks=2, random_state=0).fit(arrays).get_feature_names_out()[2] == "view1__viewkernel0"
    with pytest.raises(ValueError, match="length equal to the number of features of all views, 8, got 3"):
        names(list("abc"))
    search = cv.EmbeddingSearchCV(pipeline, {"mvhe__beta": [0.1, 0.5]}).fit(X, y)
    assert search.get_feature_names_out().tolist() == ["mvhe0", "mvhe1"]
    committee = cv.Committee([cv.MvHE(2), cv.MvDA(3)]).fit(X, y)
    assert committee.get_feature_names_out().tolist() == [f"committee{k}" for k in range(5)]
    assert make_pipeline(cv.MvDA(), cv.ViewScaler()).fit(X, y).get_feature_names_out()[0] == "photo__mvda0"


class TestFrames:
    """Outputs as data frames."""

    @pytest.fixture
    def pipeline(self):
        return make_pipeline(cv.ViewScaler(), cv.ViewPCA(3), cv.MvHE(2))

    def test_of_pandas(self, frames, pipeline):
        X, y = frames
        expected = clone(pipeline).fit(X, y).transform(X)
        model = pipeline.set_output(transform="pandas").fit(X, y)
        for got, one in ((model.transform(X)["photo"], "photo"), (model.transform(list(X.values()))[1], "sketch")):
            assert got.columns.tolist() == ["mvhe0", "mvhe1"]
            assert got.index.equals(X[one].index)
            np.testing.assert_array_equal(got.to_numpy(), expected[one])
        pd.testing.assert_frame_equal(cv.transform_view(model, X["photo"], 0), model.transform(X)["photo"])
        pd.testing.assert_frame_equal(model[0].transform_view(X["photo"], 0), model[0].transform(X)["photo"])
        assert model[0].transform(X)["sketch"].columns.tolist() == [f"sketch__{c}" for c in "efgh"]
        assert model.transform([one.to_numpy() for one in X.values()])[0].index.equals(pd.RangeIndex(len(y)))
        assert isinstance(clone(model).fit_transform(X, y)["photo"], pd.DataFrame)
        of_views = model.transform(cv.Views(X))
        assert list(of_views) == ["photo", "sketch"]
        for view, got in of_views.items():
            pd.testing.assert_frame_equal(got, cv.transform_view(model, X[view].to_numpy(), view))
        assert model.score(cv.Views(X), y) == clone(model).set_output(transform="default").fit(X, y).score(X, y)
        assert isinstance(model.fit_transform(cv.Views(X), y)["sketch"], pd.DataFrame)
        assert isinstance(model.set_output(transform="default").transform(X)["photo"], np.ndarray)
        assert isinstance(model.transform(cv.Views(X)), cv.Views)

    def test_of_missing_samples_and_tensors(self, frames, pipeline):
        X, y = frames
        views = cv.Views(X, mask=np.arange(2 * len(y)).reshape(-1, 2) % 7 > 0)
        expected = clone(pipeline).fit(views, y).transform(views)
        model = pipeline.set_output(transform="pandas").fit(views, y)
        found = model.transform(views)
        np.testing.assert_array_equal(found["photo"].isna().all(axis=1), ~views.mask[:, 0])
        np.testing.assert_array_equal(found["sketch"], expected["sketch"])
        torch = pytest.importorskip("torch")
        tensors = cv.Views([torch.tensor(Z) for Z in views.arrays], names=views.names)
        assert isinstance(model.transform(tensors), cv.Views)

    def test_are_chosen_by_name(self, monkeypatch, frames):
        X, y = frames
        with pytest.raises(ValueError, match="transform must be one of 'default', 'pandas', 'polars', got 'arrow'"):
            cv.MvHE().set_output(transform="arrow")
        model = cv.MvDA(2).set_output(transform="polars").fit(X, y)
        got = model.set_output().transform(X)["photo"]
        assert isinstance(got, pl.DataFrame)
        assert got.columns == ["mvda0", "mvda1"]
        monkeypatch.setitem(sys.modules, "polars", None)
        with pytest.raises(ImportError, match=r"install polars for its frames, or use set_output\(transform='default'"):
            model.transform(X)

    @pytest.mark.parametrize("everywhere", [False, True])
    def test_do_not_reach_the_inside(self, frames, pipeline, everywhere):
        """Searches, committees, matchers, scores and files compute with arrays, whatever the user wants to see."""
        X, y = frames
        views = cv.Views(X)

        def results(pipeline):
            search = cv.EmbeddingSearchCV(pipeline, {"mvhe__beta": [0.1, 0.5]}, n_members=2, cv=3).fit(X, y)
            matcher = cv.CrossViewClassifier(pipeline).fit(X, y).enroll(X["photo"], y, "photo")
            grid = GridSearchCV(pipeline, {"mvhe__beta": [0.1, 0.5]}, cv=3).fit(views, y)
            return [
                search.best_score_,
                search.score(X, y),
                np.asarray(search.transform_view(X["photo"], 0)),
                matcher.gallery_,
                matcher.predict(X["sketch"], "sketch") == y,
                clone(pipeline).fit(X, y).score(X, y),
                cross_val_score(pipeline, views, y, cv=3),
                np.asarray(clone(pipeline).fit_transform(views, y)["photo"]),
                grid.best_score_,
                cv.tune("KMvHE", X, y, {"kmvhe__beta": [0.1]}, cv=3).best_score_,
                cv.evaluate(search, views, y, n_bootstrap=100).mean.accuracy.value,
            ]

        expected = results(pipeline)
        with config_context(transform_output="pandas") if everywhere else nullcontext():
            got = results(pipeline if everywhere else clone(pipeline).set_output(transform="pandas"))
        for a, b in zip(got, expected, strict=True):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b)
