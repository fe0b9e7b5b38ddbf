"""Bad input is refused with an error that names the fix, before any heavy work."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import crossview as cv
from crossview import feature_maps, samples

RNG = np.random.default_rng(0)
X1, X2 = RNG.normal(size=(12, 4)), RNG.normal(size=(12, 3))
Y = np.arange(12) % 3
BOTH = pytest.mark.parametrize("cls", [cv.MvHE, cv.KMvHE])


@pytest.fixture(autouse=True)
def no_heavy_work(monkeypatch, request):
    """Searching for neighbours, or computing a kernel, would fail the test."""
    if "heavy" in request.keywords:
        return

    def heavy(*_, **__):
        pytest.fail("heavy work before the input was checked")

    monkeypatch.setattr(samples, "find_neighbours", heavy)
    monkeypatch.setattr(feature_maps.KernelMap, "fit", heavy)
    monkeypatch.setattr(feature_maps, "median_gamma", heavy)


def spoilt(X, value, whole_row=False):
    X = X.copy()
    X[2, slice(None) if whole_row else 1] = value
    return X


@BOTH
@pytest.mark.parametrize(
    ("views", "y", "match"),
    [
        ([X1], Y, "needs 2 views or more, got 1"),
        ([X1, X2[:-1]], Y, "same number of rows"),
        ([X1, X2], Y[:-1], "y has 11 labels, but the views have 12 samples"),
        ([X1, X2], None, "requires y to be passed, but the target y is None"),
        ([X1, X2], np.zeros(12), "one class only"),
        ([X1, X2], RNG.normal(size=12), "Unknown label type"),
        ([X1, X2], np.where(Y == 1, np.nan, Y), "y contains NaN"),
        ([X1, X2], ["a", "b", None] * 4, "y mixes strings with None"),
        ([X1, X2], np.c_[Y, Y], "1d array"),
        ([X1, spoilt(X2, np.nan)], Y, "NaN in part of row 2"),
        ([X1, spoilt(X2, -np.inf)], Y, "infinity"),
        ([X1, np.ones((12, 2))], Y, "view 'view1' is constant in every column"),
        ([X1, X2.astype(str)], Y, "not numbers"),
        ([X1, X2.astype(object)], Y, "not numbers"),
        ([np.empty((0, 2)), np.empty((0, 2))], [], "is empty"),
        ([X1, np.full((12, 2), np.nan)], Y, "view 'view1' has 0 sample"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_data(cls, views, y, match):
    with pytest.raises(ValueError, match=match):
        cls(2).fit(views, y)


@BOTH
def test_sparse_input_is_refused_by_name(cls):
    sp = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"is a scipy\.sparse matrix"):
        cls(2).fit([X1, sp.csr_array(X2)], Y)


@BOTH
@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        (slice(6), slice(6, 12), r"no common space exists: 'view0', 'view1' \| 'view2'"),
        (slice(6), slice(5, 12), r"'view2' shares 1 sample\(s\) with other views, but \w+ needs at least 2"),
        (slice(12), slice(0, 12, 3), "present in at least two views have one class only"),
    ],
)
def test_samples_that_views_share(cls, first, second, match):
    mask = np.zeros((12, 3), dtype=bool)
    mask[first, :2] = mask[second, 2] = True
    if "one class" in match:
        mask[:, 1] = mask[:, 2]
    with pytest.raises(ValueError, match=match):
        cls(2).fit(cv.Views([X1, X2, X1], mask=mask), Y)


@BOTH
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_within": -1}, "n_within must be a whole number, 0 or more, got -1"),
        ({"n_between": -3}, "n_between"),
        ({"lambda_intra": -0.1}, "lambda_intra must be a finite number of 0 or more, got -0.1"),
        ({"lambda_inter": np.nan}, "lambda_inter"),
        ({"lambda_paired": "1"}, "lambda_paired"),
        ({"beta": np.inf}, "beta"),
        ({"lambda_paired": 0, "lambda_intra": 0, "lambda_inter": 0}, "all 0"),
        ({"center": "no"}, "center must be True or False, got 'no'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parameters(cls, parameters, match):
    with pytest.raises(ValueError, match=match):
        cls(**{"n_components": 2} | parameters).fit([X1, X2], Y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"kernel": "rfb"}, "unknown kernel 'rfb'"),
        ({"kernel": None}, "unknown kernel None"),
        ({"gamma": 0.0}, "gamma must be a finite number above 0"),
        ({"gamma": [1.0, -1.0]}, "gamma must be a finite number above 0"),
        ({"gamma": [1.0, 1.0, 1.0]}, "gamma has 3 values for 2 views"),
        ({"gamma": "scale"}, "gamma must be a finite number above 0, got 'scale'"),
        ({"kernel": "poly", "kernel_params": {"degree": "3"}}, "degree must be a finite number"),
        ({"kernel_params": [1]}, "kernel_params must be a dict"),
        ({"kernel_params": {"gama": 3.0}}, "kernel_params has 'gama', which the 'rbf' kernel does not take"),
        ({"kernel_params": {"gamma": 3.0}}, "parameter of the estimator"),
        ({"reg": -1.0}, "reg must be a finite number"),
        ({"reg": "a"}, "reg must be one of 'auto'"),
        ({"n_landmarks": 0}, "n_landmarks must be a whole number, 1 or more"),
        ({"kernel": "precomputed"}, r"view 'view0' has shape \(12, 4\): with kernel='precomputed'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kernel_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        cv.KMvHE(**{"n_components": 2} | parameters).fit([X1, X2], Y)


@pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("wide", "rank"),
    [(X1, 4), (RNG.normal(size=(12, 20)), 11), (np.c_[X1, np.ones(12)], 4), (np.c_[X1, X1[:, 0] + X1[:, 1]], 4)],
)
@pytest.mark.parametrize("model", [cv.MvHE(100), cv.KMvHE(100, kernel="linear")], ids=repr)
def test_components_are_capped_at_the_directions_in_which_samples_vary(model, wide, rank):
    fitted = clone(model).fit([wide, X2], Y)
    assert fitted.n_components_ == rank + 3
    spread = sum(np.square(Z).sum(axis=0) for Z in fitted.transform([wide, X2]))
    assert (spread > 1e-10).all()


@pytest.mark.filterwarnings("ignore:.* so matching is close to chance:UserWarning")
@pytest.mark.heavy
@pytest.mark.parametrize("cls", [cv.MvHE, cv.KMvHE, cv.MvDLA])
def test_components_that_set_views_apart_are_left_out(cls):
    """By default; a number gives what the formula gives."""
    views = [X1[:, :3], X2]
    everything, kept = cls(100).fit(views, Y), cls().fit(views, Y)
    assert 1 <= kept.n_components_ < everything.n_components_
    a, b = everything.transform(views)
    apart = 2 * (a * b).sum(axis=0) < 0.1 * (a**2 + b**2).sum(axis=0)
    assert kept.n_components_ == max(apart.argmax(), 1)
    np.testing.assert_allclose(kept.projections_[0], everything.projections_[0][:, : kept.n_components_])


@pytest.mark.heavy
def test_values_too_large():
    for model, scale in ((cv.MvHE(2), 1e200), (cv.MvHE(2, lambda_inter=1.7e308), 1e3)):
        with pytest.raises(ValueError, match="too large"):
            model.fit([X1 * scale, X2 * scale], Y)


@pytest.mark.heavy
@pytest.mark.parametrize("kernel", ["sigmoid", "additive_chi2"])
def test_kernel_that_is_not_positive_semi_definite(kernel):
    with pytest.raises(ValueError, match=r"not positive semi-definite.*'rbf'"):
        cv.KMvHE(2, kernel=kernel).fit([np.abs(X1), np.abs(X2)], Y)


@pytest.mark.heavy
def test_kernel_matrix_that_is_not_symmetric():
    with pytest.raises(ValueError, match="finite and symmetric"):
        cv.KMvHE(2, kernel="precomputed").fit([RNG.normal(size=(12, 12)), np.eye(12)], Y)


@BOTH
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda m: m.transform([X1]), ValueError, "got 1 views, but .*MvHE was fitted on 2: photo, sketch"),
        (lambda m: m.transform([X1, X1]), ValueError, "view 'sketch': X has 4 features, .* expecting 3 features"),
        (lambda m: m.transform({"photo": X1, "drawing": X2}), ValueError, "unknown view 'drawing'"),
        (lambda m: m.transform(cv.Views([X1, X2])), ValueError, "unknown view 'view0'"),
        (lambda m: m.transform(X1), TypeError, "list"),
        (lambda m: m.transform_view(X1, "face"), ValueError, "unknown view 'face': the views are 'photo', 'sketch'"),
        (lambda m: m.transform_view(X1, 2), ValueError, "no view 2: the views are 0 to 1"),
        (lambda m: m.transform_view(X1, -1), ValueError, "no view -1"),
        (lambda m: m.transform_view(X1, 0.0), TypeError, "an index or a name"),
        (lambda m: m.transform_view(X2, "photo"), ValueError, "view 'photo': X has 3 features"),
        (lambda m: m.transform_view(X1[0], "photo"), ValueError, "Reshape your data"),
        (lambda m: m.transform_view(spoilt(X1, np.nan), 0), ValueError, "view 'photo' contains NaN in part of row 2"),
        (lambda m: m.score([X1, X2], Y[:3]), ValueError, "y has 3 labels for 12 samples"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_use_after_fit(cls, call, error, match):
    model = cls(2).fit({"photo": X1, "sketch": X2}, Y)
    with pytest.raises(error, match=match):
        call(model)


@BOTH
@pytest.mark.heavy
def test_a_failed_fit_loses_nothing(cls):
    model = cls(2).fit([X1, X2], Y)
    before = model.transform([X1, X2])
    with pytest.raises(ValueError, match="one class only"):
        model.fit([X1, X2], np.zeros(12))
    for a, b in zip(model.transform([X1, X2]), before, strict=True):
        np.testing.assert_array_equal(a, b)
