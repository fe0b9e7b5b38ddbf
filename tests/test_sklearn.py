"""The estimators behave as scikit-learn's do."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import crossview as cv

ALL = [cv.MvHE(2), cv.KMvHE(2), cv.ViewScaler(), cv.ViewPCA(2)]
EMBEDDINGS = ALL[:2]

# scikit-learn's estimator checks that cannot apply to multi-view input, with the reason. All other checks are run.
NOT_APPLICABLE = {
    "check_dtype_object": "object arrays are refused by name: a view is a matrix of numbers",
}


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
        return np.hstack(super().transform([X, X]))


class EmbeddingOnOneMatrix(OnOneMatrix):
    def score(self, X, y):
        return cv.metrics.mean_accuracy(np.hsplit(self.transform(X), 2), y)


class MvHEOnOneMatrix(EmbeddingOnOneMatrix, cv.MvHE):
    pass


class KMvHEOnOneMatrix(EmbeddingOnOneMatrix, cv.KMvHE):
    pass


class ViewScalerOnOneMatrix(OnOneMatrix, cv.ViewScaler):
    pass


class ViewPCAOnOneMatrix(OnOneMatrix, cv.ViewPCA):
    pass


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


OTHERS = (cv.PCA, cv.LDA, cv.DLA, cv.LPP, cv.CCA, cv.KCCA, cv.MCCA, cv.PLS)
OTHERS += (cv.MvDLA, cv.GMA, cv.MULDA, cv.MvDA, cv.MvDAVC, cv.MvMDA)
for other in OTHERS:
    # Pickling looks classes up by their names in this module.
    name = f"{other.__name__}OnOneMatrix"
    globals()[name] = type(name, (EmbeddingOnOneMatrix, other), {"__module__": __name__, "__init__": other.__init__})


@pytest.mark.filterwarnings("ignore:.* components lie where no training sample varies:UserWarning")
@parametrize_with_checks(
    [
        *(globals()[f"{other.__name__}OnOneMatrix"](1) for other in OTHERS),
        *(MvHEOnOneMatrix(1), KMvHEOnOneMatrix(1), ViewScalerOnOneMatrix(), ViewPCAOnOneMatrix(1)),
        MatcherOnOneMatrix(cv.MvDA(reg=0.1)),
    ],
    expected_failed_checks=lambda estimator: NOT_APPLICABLE,
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 5
    z = rng.normal(size=(5, 3))[y] + 0.3 * rng.normal(size=(60, 3))
    arrays = {"photo": z @ rng.normal(size=(3, 4)), "sketch": z @ rng.normal(size=(3, 4))}
    return cv.Views(arrays), np.array(list("abcde"))[y]


@pytest.mark.parametrize("estimator", ALL, ids=repr)
class TestEveryEstimator:
    def test_clone_and_params(self, estimator):
        copy = clone(estimator)
        assert copy is not estimator
        assert repr(copy) == repr(estimator)
        params = estimator.get_params()
        assert clone(estimator).set_params(**params).get_params() == params
        with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
            clone(estimator).set_params(colour=1)

    def test_pickle(self, estimator, data):
        views, y = data
        model = clone(estimator).fit(views, y)
        again = pickle.loads(pickle.dumps(model))
        for a, b in zip(model.transform(views).arrays, again.transform(views).arrays, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_containers(self, estimator, data):
        views, y = data
        expected = clone(estimator).fit(views, y).transform(views)
        assert isinstance(expected, cv.Views)
        assert expected.names == ["photo", "sketch"]
        model = clone(estimator).fit(views.arrays, y)
        for container in (list, tuple):
            got = model.transform(container(views.arrays))
            assert isinstance(got, list)
            for a, b in zip(got, expected.arrays, strict=True):
                np.testing.assert_array_equal(a, b)
        named = clone(estimator).fit(dict(zip(views.names, views.arrays, strict=True)), y)
        swapped = named.transform({"sketch": views["sketch"], "photo": views["photo"]})
        assert set(swapped) == {"photo", "sketch"}
        np.testing.assert_array_equal(swapped["sketch"], expected["sketch"])
        turned = named.transform(cv.Views({"sketch": views["sketch"], "photo": views["photo"]}))
        np.testing.assert_array_equal(turned["photo"], expected["photo"])

    def test_named_views_in_any_order(self, estimator, data):
        views, y = data
        three = {"a": views["photo"], "b": views["sketch"] + 1.0, "c": 2.0 * views["photo"]}
        model = clone(estimator).fit(three, y)
        mask = np.ones((len(y), 3), dtype=bool)
        mask[0, 1] = False
        turned = cv.Views({name: three[name] for name in "cab"}, mask=mask)
        got = model.transform(turned)
        assert got.names == ["a", "b", "c"]
        np.testing.assert_array_equal(got.mask[0], [False, True, True])
        for name in "bc":
            np.testing.assert_array_equal(got[name], model.transform_view(three[name], name))

    def test_transform_view_is_transform(self, estimator, data):
        views, y = data
        model = clone(estimator).fit(views, y)
        whole = model.transform(views)
        for v, name in enumerate(views.names):
            np.testing.assert_array_equal(model.transform_view(views[name], name), whole.arrays[v])
            np.testing.assert_allclose(model.transform_view(views[name][:5], v), whole.arrays[v][:5], atol=1e-12)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames(self, estimator, data, frame):
        views, y = data
        expected = clone(estimator).fit(views.arrays, y).transform(views.arrays)
        frames = [frame(X) for X in views.arrays]
        got = clone(estimator).fit(frames, pd.Series(y)).transform(frames)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_fit_transform(self, estimator, data):
        views, y = data
        a = clone(estimator).fit_transform(views, y)
        b = clone(estimator).fit(views, y).transform(views)
        np.testing.assert_array_equal(a.arrays[0], b.arrays[0])


@pytest.mark.parametrize("estimator", EMBEDDINGS, ids=repr)
class TestModelSelection:
    def test_cross_validation(self, estimator, data):
        scores = cross_val_score(estimator, *data, cv=3)
        assert scores.shape == (3,)
        assert ((scores >= 0) & (scores <= 1)).all()
        result = cross_validate(make_pipeline(cv.ViewScaler(), cv.ViewPCA(3), estimator), *data, cv=3, n_jobs=2)
        assert result["test_score"].min() > 0.5

    def test_grid_search(self, estimator, data):
        pipeline = make_pipeline(cv.ViewScaler(), estimator)
        name = type(estimator).__name__.lower()
        grid = {f"{name}__n_components": [1, 2, 3], f"{name}__beta": [0.1, 0.5]}
        search = GridSearchCV(pipeline, grid, cv=3).fit(*data)
        assert len(search.cv_results_["params"]) == 6
        assert search.best_score_ == search.cv_results_["mean_test_score"].max()
        assert search.score(*data) > 0.5
        assert isinstance(search.transform(data[0]), cv.Views)

    def test_randomized_search(self, estimator, data):
        space = {"lambda_intra": loguniform(1e-3, 1), "n_within": [1, 2]}
        search = RandomizedSearchCV(estimator, space, n_iter=4, cv=3, random_state=0).fit(*data)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_learning_curve(self, estimator, data):
        sizes, _, scores = learning_curve(estimator, *data, train_sizes=[0.5, 1.0], cv=3)
        assert len(sizes) == 2
        assert np.isfinite(scores).all()

    def test_train_test_split_and_score(self, estimator, data):
        train, test, y_train, y_test = train_test_split(*data, random_state=0, stratify=data[1])
        model = clone(estimator).fit(train, y_train)
        assert model.score(test, y_test) == cv.metrics.mean_accuracy(model.transform(test), y_test)
