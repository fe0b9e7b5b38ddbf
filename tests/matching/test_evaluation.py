from __future__ import annotations

import copy
import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from methods import make
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview import metrics
from crossview._transformer import map_view
from crossview.matching.evaluation import estimate
from crossview.matching.identification import draw_weights, identify
from crossview.metrics.scoring import draw_galleries
from crossview.neighbours.distances import distances_in_chunks

ARRAYS, Y = make(m=120, sizes=(8, 8, 8), n_classes=24)
NAMES = ["front", "side", "back"]


@pytest.fixture(scope="module")
def views():
    arrays = [X + 0.7 * np.random.default_rng(v).normal(size=X.shape) for v, X in enumerate(ARRAYS)]
    arrays[1][Y == 0] = arrays[1][1:9] = np.nan  # one class, and some samples of others
    return cv.Views(arrays, NAMES)


@pytest.fixture(scope="module")
def model(views):
    return make_pipeline(cv.ViewScaler(), cv.MvDA(n_components=4, reg=0.1)).fit(views, Y)


@pytest.fixture(scope="module")
def evaluation(model, views):
    return cv.evaluate(model, views, Y, n_bootstrap=200, false_positive_rates=(0.2, 0.05, 0.001))


def compared(latents, direction):
    """Distances of the probes, rows, to the gallery, with ∞ for counterparts that are left out; the classes of both."""
    G, P = latents[direction.gallery], latents[direction.probe]
    gallery, probes = (np.flatnonzero(~np.isnan(X).any(axis=1)) for X in (G, P))
    ((_, D),) = distances_in_chunks(G[gallery], P[probes], "euclidean")
    for r, row in enumerate(probes):
        for c, column in enumerate(gallery):
            if row == column and sum(Y[gallery] == Y[row]) > 1:
                D[r, c] = np.inf
    return D, Y[gallery], Y[probes]


def test_scores_are_those_of_the_metrics(evaluation, model, views):
    latents = model.transform(views)
    accuracy = metrics.cross_view_accuracy(latents, Y)
    with_counterparts = metrics.cross_view_accuracy(latents, Y, counterparts=True)
    precision = metrics.cross_view_average_precision(latents, Y)
    skipped = metrics.skipped_probes(latents, Y)
    assert len(evaluation.directions) == 6
    for one in evaluation.directions:
        g, p = NAMES.index(one.gallery), NAMES.index(one.probe)
        scores = one.scores
        assert scores.accuracy.value == pytest.approx(accuracy[g, p])
        assert scores.accuracy_with_counterparts.value == pytest.approx(with_counterparts[g, p])
        assert scores.average_precision.value == pytest.approx(precision[g, p])
        assert one.n_skipped == skipped[g, p]
        assert (one.n_gallery, one.n_probes) == tuple(views.mask.sum(axis=0)[[g, p]] - [0, skipped[g, p]])
        assert one.n_gallery_classes == len(np.unique(Y[views.mask[:, g]]))
        assert scores.false_negative_rates[0.001] is None
        assert one.n_nonmated == views.mask[:, p].sum()
    assert skipped.sum() > 0
    mean = evaluation.mean
    assert mean.accuracy.value == pytest.approx(metrics.mean_accuracy(latents, Y))
    assert mean.one_shot_accuracy.value == pytest.approx(metrics.one_shot_accuracy(latents, Y))
    assert mean.one_shot_accuracy.low < mean.one_shot_accuracy.value < mean.one_shot_accuracy.high
    assert mean.average_precision.value == pytest.approx(metrics.mean_average_precision(latents, Y))
    assert mean.accuracy_with_counterparts.value == pytest.approx(np.nanmean(with_counterparts))
    assert mean.one_shot_accuracy.value < mean.accuracy.value < mean.accuracy_with_counterparts.value
    assert mean.chance == pytest.approx(metrics.chance_accuracy(latents, Y))
    assert mean.cmc[-1].value == mean.cmc[-1].low == 1.0
    assert (evaluation.n_samples, evaluation.n_classes, evaluation.resampled) == (120, 24, "classes")


def test_curves_are_literally_those_without_counterparts(evaluation, model, views):
    for one in evaluation.directions:
        D, g, p = compared(model.transform(views), one)
        same = p[:, None] == g
        own, other = (np.where(pairs, D, np.inf).min(axis=1) for pairs in (same, ~same))
        mated = np.isfinite(own)
        nearer = np.column_stack([np.where(g == label, D, np.inf).min(axis=1) <= own for label in np.unique(g)])
        ranks = nearer.sum(axis=1)[mated]
        cmc = [np.mean(ranks <= rank + 1) for rank in range(len(np.unique(g)))]
        np.testing.assert_allclose([rank.value for rank in one.scores.cmc], cmc)
        genuine, impostor = np.sort(D[same & np.isfinite(D)]), D[~same]
        false, true, thresholds = one.roc
        assert set(thresholds[:-1]) <= set(genuine)
        np.testing.assert_allclose(false, [np.mean(impostor <= t) for t in thresholds])
        np.testing.assert_allclose(true, [np.mean(genuine <= t) for t in thresholds])
        false, true = (np.array([np.mean(pairs <= t) for t in genuine]) for pairs in (impostor, genuine))
        crossing = np.argmax(false >= 1 - true)
        assert false[crossing - 1] - 0.01 <= one.scores.equal_error_rate.value <= false[crossing] + 0.01
        assert one.scores.true_match_rates[0.05].value == pytest.approx(np.interp(0.05, false, true), abs=0.01)
        fpir, fnir, thresholds = one.identification
        np.testing.assert_allclose(fpir, [np.mean(other <= t) for t in thresholds])
        found = mated & (own < other)
        np.testing.assert_allclose(fnir, [1 - np.sum(found & (own <= t)) / mated.sum() for t in thresholds])
        for rate in (0.2, 0.05):
            first = np.sort(other)[int(rate * len(other) + 1e-9)]  # must return nothing
            expected = 1 - np.sum(found & (own < first)) / mated.sum()
            assert one.scores.false_negative_rates[rate].value == pytest.approx(expected)


def test_intervals_are_those_of_repeated_probes(model, views):
    """The weights of a draw do what repeating probes does, in the same gallery."""
    latents = model.transform(views)
    units = np.unique(Y, return_inverse=True)[1]
    G, P = latents["front"], latents["back"]
    drawn = draw_galleries(Y, 4, np.random.RandomState(0))
    found = identify(("front", G, Y), ("back", P, Y), units, 24, "euclidean", drawn)
    _, draws = draw_weights(24, 5, random_state=3)
    rates = found.statistics(draws, [0.2], None)
    for k, weights in enumerate(draws):
        assert weights.sum() == 24
        again = np.repeat(np.arange(len(Y)), weights[units].astype(int))
        P2, y2 = P[again], Y[again]
        accuracy = metrics.cross_view_accuracy([G, P], Y, counterparts=True)  # of all, to compare with
        distances = np.linalg.norm(P2[:, None] - G, axis=2)
        assert rates["accuracy"][k, 0] == pytest.approx(np.mean(Y[distances.argmin(axis=1)] == y2))
        assert rates["accuracy"][k, 0] != pytest.approx(accuracy[0, 1])
        one_shot = [np.mean(Y[rows][distances[:, rows].argmin(axis=1)] == y2) for rows in drawn]
        assert rates["one_shot_accuracy"][k, 0] == pytest.approx(np.mean(one_shot))
        assert rates["average_precision"][k, 0] == pytest.approx(metrics.average_precision(G, Y, P2, y2))
        np.testing.assert_allclose(rates["cmc"][k], metrics.cmc(G, Y, P2, y2))
        assert rates["false_negative_rates"][k, 0] == pytest.approx(metrics.fnir_at_fpir(G, Y, P2, y2, 0.2))
        false, true, _ = metrics.roc(G, Y, P2, y2)
        crossing = np.argmax(false >= 1 - true)
        assert false[crossing - 1] - 0.01 <= rates["equal_error_rate"][k, 0] <= false[crossing] + 0.01


def test_intervals_contain_their_value_and_widen_with_confidence(evaluation, model, views):
    wide, again, other = (
        cv.evaluate(model, views, Y, n_bootstrap=200, confidence=0.99, random_state=seed) for seed in (0, 0, 1)
    )
    for name in ("accuracy", "equal_error_rate"):
        one, wider = getattr(evaluation.mean, name), getattr(wide.mean, name)
        assert wider.low <= one.low < one.high <= wider.high
        assert one.low <= one.value <= one.high
        assert wider.high - wider.low > one.high - one.low
    assert wide == again != other


def test_intervals_of_classes_cover_where_those_of_samples_do_not():
    """Hits depend on the class: 30 classes of 10 probes, with a mean accuracy of 0.7 over all classes there are."""
    rng, covered = np.random.default_rng(0), np.zeros((100, 2))
    for k in range(len(covered)):
        skill = rng.beta(3.5, 1.5, size=30)
        hits = (rng.random((30, 10)) < skill[:, None]).astype(float)
        for j, sums in enumerate((hits.sum(axis=1), hits.ravel())):
            counts = 300 / len(sums)
            draws = [w @ sums / (w.sum(axis=1) * counts) for w in draw_weights(len(sums), 200, random_state=k)]
            interval = estimate(np.concatenate(draws), len(sums), 0.95)
            covered[k, j] = interval.low <= 0.7 <= interval.high
    of_classes, of_samples = covered.mean(axis=0)
    assert 0.90 <= of_classes <= 0.98
    assert of_samples < 0.85


def test_no_error_is_not_certainty():
    """Without an error among 100, 95 % confidence says that up to 3.6 % are possible (exact binomial interval)."""
    found = estimate(np.ones(101), 100, 0.95)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - 0.0362, abs=1e-4)
    assert estimate(np.zeros(101), 100, 0.95).high == pytest.approx(0.0362, abs=1e-4)
    assert estimate(np.ones(101), 100, 0.95, constant=True).low == 1.0
    assert estimate(np.full(101, np.nan), 100, 0.95) is None
    alone = estimate(np.full(101, 0.6), 1, 0.95)  # one class says nothing about others
    assert (alone.value, alone.low, alone.high) == (0.6, 0.0, 1.0)


def test_samples_without_label_or_views_are_left_out(model, views):
    y = np.array([f"c{label}" for label in Y])
    some = np.arange(len(y)) % 3 > 0
    partly = np.where(some, y, "")
    found = cv.evaluate(model, views, partly, n_bootstrap=100)
    assert found.n_unlabelled == (~some).sum()
    expected = cv.evaluate(model, views[some], y[some], n_bootstrap=100)
    assert len(found.directions) == len(expected.directions) == 6
    for one, other in zip(found.directions, expected.directions, strict=True):
        assert replace(one, roc=other.roc, identification=other.identification) == other
        for curve in ("roc", "identification"):
            # Products of other numbers of rows are rounded in another way.
            np.testing.assert_allclose(getattr(one, curve), getattr(other, curve), rtol=1e-12)


def test_any_model_any_container_and_some_views(model, views):
    expected = metrics.mean_accuracy(model.transform(views), Y)
    assert cv.evaluate(model, list(views.arrays), Y, n_bootstrap=100).mean.accuracy.value == pytest.approx(expected)
    found = cv.evaluate(model, {name: views[name] for name in ("back", "front")}, Y, n_bootstrap=100)
    assert [(one.gallery, one.probe) for one in found.directions] == [("back", "front"), ("front", "back")]
    matcher = cv.CrossViewClassifier(model, metric="cosine").fit(views, Y)
    search = cv.tune("MvDA", views, Y, n_iter=2, n_folds=2, n_members=2)
    for one, latents, metric in (
        (matcher, matcher.embedding_.transform(views), "cosine"),
        (search, search.transform(views), search.best_metric_),
    ):
        found = cv.evaluate(one, views, Y, n_bootstrap=100)
        assert found.metric == metric
        assert found.mean.accuracy.value == pytest.approx(metrics.mean_accuracy(latents, Y, metric))


def test_confusions_are_counted(model, views):
    found = cv.evaluate(model, views, Y, n_bootstrap=100)
    latents = model.transform(views)
    first = found.confusions[0]
    count = of = 0
    for one in found.directions:
        D, gy, py = compared(latents, one)
        nearest = gy[D.argmin(axis=1)]
        chosen = (py.astype(str) == first.label) & np.isin(py, gy)
        count, of = count + np.sum(nearest[chosen].astype(str) == first.taken_for), of + chosen.sum()
    assert (first.count, first.of) == (count, of)
    assert [c.count for c in found.confusions] == sorted((c.count for c in found.confusions), reverse=True)


@pytest.fixture(scope="module")
def matcher(model, views):
    known = Y < 16
    fitted = cv.CrossViewClassifier(model).fit(views, Y)
    fitted.enroll(views["front"][known], Y[known], "front", replace=True)
    return fitted.calibrate(views["back"][::2], Y[::2], "back", max_fpir=0.2)


def test_a_matcher_is_evaluated_with_its_gallery_and_threshold(matcher, views):
    X, y = views["back"][1::2], Y[1::2]
    found = cv.evaluate_probes(matcher, X, y, "back", n_bootstrap=100)
    (one,), at = found.directions, found.at_threshold
    distances, rows = matcher.kneighbors(X, "back", 1)
    hits, mated = matcher.gallery_labels_[rows[:, 0]] == y, y < 16
    accepted = distances[:, 0] <= matcher.threshold_
    assert (one.gallery, one.probe, one.n_gallery) == ("gallery", "back", len(matcher.gallery_))
    assert (one.n_probes, one.n_skipped, at.n_strangers) == (mated.sum(), (~mated).sum(), (~mated).sum())
    assert found.mean.accuracy.value == pytest.approx(np.mean(hits[mated]))
    assert at.strangers_matched.value == pytest.approx(accepted[~mated].mean())
    assert at.false_rejection_rate.value == pytest.approx(1 - accepted[mated].mean())
    assert at.accuracy_accepted.value == pytest.approx(hits[mated & accepted].mean())
    D = np.linalg.norm(cv.transform_view(matcher, X, "back")[:, None] - matcher.gallery_, axis=2)
    others = np.where(matcher.gallery_labels_ == y[:, None], np.inf, D).min(axis=1)
    assert at.false_positive_rate.value == pytest.approx(np.mean(others <= matcher.threshold_))
    # On the samples of calibration, the rate is the one asked for, less the share of one sample.
    again = cv.evaluate_probes(matcher, views["back"][::2], Y[::2], 2, n_bootstrap=100)
    assert again.at_threshold.false_positive_rate.value == pytest.approx(0.2 - 1 / 60, abs=1 / 60)
    assert again.directions[0].probe == "back"
    for view, metric, message in (
        ("front", None, "the threshold is for view 'back': calibrate with probes of view 'front'"),
        ("back", "cosine", "the threshold is for metric='euclidean': calibrate again for 'cosine'"),
    ):
        with pytest.raises(ValueError, match=message):
            cv.evaluate_probes(matcher, X, y, view, metric=metric, n_bootstrap=100)


def test_a_matcher_without_strangers_threshold_or_gallery(matcher, model, views):
    known, back = Y < 16, views["back"]
    found = cv.evaluate_probes(matcher, back[known], Y[known], "back", n_bootstrap=100)
    assert found.at_threshold.strangers_matched is None
    plain = cv.CrossViewClassifier(model).fit(views, Y).enroll(views["front"][known], Y[known], "front", replace=True)
    assert cv.evaluate_probes(plain, back, Y, "back", n_bootstrap=100).at_threshold is None
    for mistake, message in (
        ((matcher, back, Y.astype(str)), "must be of the same kind"),
        ((plain, back[~known], Y[~known]), "none of these classes is enrolled, and the model is not calibrated: enrol"),
        ((matcher, np.full((2, 8), np.nan), Y[:2]), "no probe has a label and is present in this view: check"),
    ):
        with pytest.raises(ValueError, match=message):
            cv.evaluate_probes(*mistake, "back")
    with pytest.raises(TypeError, match="Pipeline has no gallery"):
        cv.evaluate_probes(model, back, Y, "back")


def test_strangers_alone_are_scored_at_the_threshold(matcher, views):
    X, y = views["back"][Y >= 16], Y[Y >= 16]
    found = cv.evaluate_probes(matcher, X, y, "back", n_bootstrap=100)
    accepted = matcher.kneighbors(X, "back", 1)[0][:, 0] <= matcher.threshold_
    rate, mean, (one,) = found.at_threshold.strangers_matched, found.mean, found.directions
    assert rate.value == found.at_threshold.false_positive_rate.value == pytest.approx(accepted.mean())
    assert rate.low < rate.value < rate.high
    assert (found.at_threshold.false_rejection_rate, found.at_threshold.accuracy_accepted) == (None, None)
    assert (mean.accuracy, mean.average_precision, mean.equal_error_rate, mean.cmc) == (None, None, None, ())
    assert {*mean.true_match_rates.values(), *mean.false_negative_rates.values()} == {None}
    assert (one.n_probes, one.n_skipped, one.roc, one.identification) == (0, len(y), ((), (), ()), ((), (), ()))
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["mean"]["chance"] is None


def test_a_gallery_of_one_class_tells_strangers_apart(model, views):
    plain = cv.CrossViewClassifier(model).fit(views, Y).enroll(views["front"][Y == 3], Y[Y == 3], "front", replace=True)
    found = cv.evaluate_probes(plain, views["back"], Y, "back", n_bootstrap=100)
    assert found.mean.accuracy.value == 1.0
    assert found.directions[0].n_nonmated == np.sum(Y != 3)
    alone = cv.evaluate_probes(plain, views["back"][Y == 3], Y[Y == 3], "back", n_bootstrap=100)
    assert alone.mean.equal_error_rate is None
    assert set(alone.mean.false_negative_rates.values()) == {None}
    assert alone.directions[0].identification == ((), (), ())


def apart(views):
    mask = np.column_stack([Y < 9, Y >= 9])
    return cv.Views({name: views[name] for name in ("front", "back")}, mask=mask)


@pytest.mark.parametrize(
    ("given", "y", "options", "message"),
    [
        (None, Y, {"n_bootstrap": 10}, "n_bootstrap must be a whole number, 100 or more"),
        (None, Y, {"confidence": 95}, "confidence must be between 0 and 1"),
        (None, Y, {"resample": "rows"}, "resample must be one of"),
        (None, Y, {"false_positive_rates": ()}, "false_positive_rates must be shares"),
        (None, Y, {"metric": "manhattan"}, "metric must be one of"),
        (None, Y[1:], {}, "119 labels for 120 samples"),
        (None, np.where(Y == 0, np.nan, Y), {}, "y contains NaN"),
        (None, [""] * 120, {}, "no sample has a label"),
        (None, np.zeros(120), {}, "all samples belong to one class"),
        (lambda v: {"back": v["back"]}, Y, {}, "two views or more, got one: 'back'"),
        (lambda v: {"back": v["back"], "top": v["front"]}, Y, {}, "unknown view 'top': the views are 'front', "),
        (lambda v: [v["back"], v["front"]], Y, {}, "got 2 views, but the model was fitted on 3"),
        (lambda v: {"back": v["back"][:, :7], "front": v["front"]}, Y, {}, "X has 7 features, but ViewScaler is expec"),
        (apart, Y, {}, "no class has samples in two views"),
    ],
)
def test_mistakes(model, views, given, y, options, message):
    with pytest.raises(ValueError, match=message):
        cv.evaluate(model, views if given is None else given(views), y, **options)


def test_many_comparisons_are_never_held_at_once(monkeypatch):
    monkeypatch.setattr("crossview.neighbours.distances._CHUNK", 100_000)
    rng = np.random.default_rng(0)
    G, P = rng.normal(size=(2_000, 2)), rng.normal(size=(2_000, 2))
    g, p = rng.integers(0, 200, size=2_000), rng.integers(0, 200, size=2_000)
    tracemalloc.start()
    drawn = draw_galleries(g, 10, np.random.RandomState(0))
    identify(("a", G, g), ("b", P, p), p, 200, "euclidean", drawn).statistics(np.ones((1, 200)), [0.1], None)
    metrics.cmc(G, g, P, p)
    metrics.roc(G, g, P, p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * len(G) * len(P)


def test_only_accepted_probes_count_for_the_accuracy_of_the_accepted(matcher, views):
    """Three classes are accepted without an error: the bound is that of three trials, not of all."""
    known = np.isin(Y, (1, 2, 5))
    X = views["front"][known]  # the gallery itself, at distance 0
    far = np.tile(views["front"].mean(axis=0) + 100, (4, 1))
    y = np.concatenate([Y[known], [6, 7, 8, 9]])
    model = copy.copy(matcher)
    model.threshold_ = matcher.threshold_  # for any view
    found = cv.evaluate_probes(model, np.vstack([X, far]), y, "front", n_bootstrap=100, resample="classes")
    assert found.at_threshold.accuracy_accepted.low == pytest.approx(0.025 ** (1 / 3))
    assert found.at_threshold.false_rejection_rate.value == pytest.approx(4 / len(y))


def test_the_counterpart_stays_if_it_is_the_only_sample_of_its_class():
    G, P, y = np.array([[0.0], [1.0], [5.0]]), np.array([[0.1], [1.1], [5.1]]), np.array([0, 0, 1])
    found = identify(("a", G, y), ("b", P, y), np.arange(3), 3, "euclidean", np.array([[0, 2]]), np.arange(3))
    scores = found.statistics(np.ones((1, 3)), [0.1], None)
    assert scores["accuracy"] == scores["accuracy_with_counterparts"] == 1.0
    assert found.own == pytest.approx([0.9, 1.1, 0.1])
    assert found.chance == pytest.approx((1 / 2 + 1 / 2 + 1 / 3) / 3)
    assert found.genuine[:, -1].tolist() == [1, 1, 1]
    assert found.impostor[:, -1].tolist() == [1, 1, 2]
    # Row 0 is enrolled, and its class has another probe.
    assert scores["one_shot_accuracy"] == 1.0
    assert found.scores[:, 5].tolist() == [0.0, 1.5, 1.5]


def test_with_one_sample_per_class_the_counterpart_is_the_only_match(matcher, views):
    pair = {name: views[name] for name in ("front", "back")}
    model = cv.MvDA(n_components=4, reg=0.1).fit(pair, Y)
    mean = cv.evaluate(model, {name: X[20:44] for name, X in pair.items()}, np.arange(24), n_bootstrap=100).mean
    assert mean.accuracy == mean.accuracy_with_counterparts
    assert mean.one_shot_accuracy.value == pytest.approx(mean.accuracy.value)
    # The probes of a matcher are no rows of its gallery.
    mean = cv.evaluate_probes(matcher, views["back"], Y, "back", n_bootstrap=100).mean
    assert mean.accuracy_with_counterparts is None
    g, known = matcher.gallery_labels_, np.isin(Y, matcher.gallery_labels_)
    D = np.linalg.norm(map_view(matcher, views["back"][known], "back")[:, None] - matcher.gallery_, axis=2)
    drawn = draw_galleries(g, 10, np.random.RandomState(0))
    hits = [g[rows][D[:, rows].argmin(axis=1)] == Y[known] for rows in drawn]
    assert mean.one_shot_accuracy.value == pytest.approx(np.mean(hits))


@pytest.mark.parametrize("scale", [0.0, 1e-12])
def test_views_that_collapse_to_a_point_are_warned_of(model, views, scale):
    middle = views["back"].mean(axis=0)
    flat = {"front": views["front"], "back": middle + scale * (views["back"] - middle)}
    with pytest.warns(UserWarning, match="all samples of view 'back' map to the same point: check the columns") as told:
        cv.evaluate(model, flat, Y, n_bootstrap=100)
    assert len(told) == 1
    matcher = cv.CrossViewClassifier(model).enroll(flat["back"], Y, "back")
    with pytest.warns(UserWarning, match="all samples of the gallery are the same point"):
        cv.evaluate_probes(matcher, views["front"], Y, "front", n_bootstrap=100)


def test_representations_are_short_and_plain(evaluation):
    mean = evaluation.mean
    start = f"Evaluation(mean=Scores(accuracy={mean.accuracy}, one_shot_accuracy={mean.one_shot_accuracy}, "
    assert repr(evaluation).startswith(start)
    assert max(map(len, map(repr, (evaluation, mean, evaluation.directions[0])))) < 600
    page = evaluation._repr_html_()
    assert "120 samples of 24 classes, euclidean distance" in page
    assert page.count("<tr>") == 8  # the head, six directions, and their mean
    assert f"<td>{mean.equal_error_rate}</td>" in page
    low = replace(evaluation.directions[0], probe="<b>", scores=replace(mean, accuracy=None))
    assert "<td>&lt;b&gt; in front</td><td>–</td>" in replace(evaluation, directions=(low,))._repr_html_()
    again = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert again["mean"]["accuracy"]["value"] == mean.accuracy.value
    assert again["directions"][0]["scores"]["false_negative_rates"]["0.001"] is None
    assert again["directions"][0]["roc"][2][-1] is None


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("counterparts", [None, np.arange(40)])
def test_accuracy_is_the_match_rate_at_rank_1_with_ties(metric, counterparts):
    """Whatever the order of the gallery; a rotation changes distances by rounding only."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    G, P = (rng.integers(1, 4, size=(40, 3)) @ turn for _ in range(2))
    y, order = rng.integers(0, 6, size=40), rng.permutation(40)
    places = None if counterparts is None else np.argsort(order)
    scores = []
    for gallery, own in ((("a", G, y), counterparts), (("a", G[order], y[order]), places)):
        found = identify(gallery, ("b", P, y), np.arange(40), 40, metric, np.arange(6)[None], own)
        scores.append(found.statistics(np.ones((1, 40)), [0.1], None))
        assert 0.0 < scores[-1]["accuracy"][0] == scores[-1]["cmc"][0, 0] < 1.0
        assert (found.nearest[found.mated & ~found.hits] != y[found.mated & ~found.hits]).all()
    expected = metrics.cross_view_accuracy([G, P], y, metric, counterparts=counterparts is None)[0, 1]
    assert scores[0]["accuracy"][0, 0] == expected
    for name in ("accuracy", "cmc", "average_precision", "false_negative_rates"):
        np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=1e-12)
