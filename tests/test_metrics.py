from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import crossview as cv
from crossview.metrics import curves, scoring
from crossview.metrics.scoring import SCORERS, score_by_dimension
from crossview.neighbours.distances import nearest


def literal(latents, y, score, counterparts=False):
    """For every ordered pair of views: the mean score of the probes that have their class in the gallery, and the
    number of those that have not.
    """
    n = len(latents)
    scores, skipped = np.full((n, n), np.nan), np.zeros((n, n), dtype=int)
    for i, j in permutations(range(n), 2):
        present = [k for k in range(len(y)) if not np.isnan(latents[i][k]).any()]
        found = []
        for p in range(len(y)):
            if np.isnan(latents[j][p]).any():
                continue
            alike = [k for k in present if y[k] == y[p]]
            gallery = [k for k in present if counterparts or k != p or alike == [p]]
            if alike:
                found.append(score(latents[i][gallery], y[gallery], latents[j][p], y[p]))
            else:
                skipped[i, j] += 1
        if found:
            scores[i, j] = np.mean(found)
    return scores, skipped


def literal_one_shot(latents, y, distance, n_draws=10, random_state=0):
    """One enrolled sample per class and draw; the draws are in the order of views, draws and sorted classes."""
    random = np.random.RandomState(random_state)
    scores = []
    for i in range(len(latents)):
        present = [k for k in range(len(y)) if not np.isnan(latents[i][k]).any()]
        alike = {c: [k for k in present if y[k] == c] for c in sorted({y[k] for k in present})}
        probes = {
            j: [k for k in range(len(y)) if not np.isnan(latents[j][k]).any() and y[k] in alike]
            for j in range(len(latents))
            if j != i
        }
        if not any(probes.values()):
            continue
        of_draws = []
        for _ in range(n_draws if max(map(len, alike.values())) > 1 else 1):
            enrolled = sorted(rows[int(random.uniform() * len(rows))] for rows in alike.values())
            of_pairs = []
            for j, rows in probes.items():
                labels = [y[k] for k in rows]
                asked = [k for k in rows if k not in enrolled or labels.count(y[k]) == 1]
                nearest = [
                    min(enrolled, key=lambda e, k=k: (distance(latents[i][e], latents[j][k]), y[e] == y[k]))
                    for k in asked
                ]
                if asked:
                    of_pairs.append(np.mean([y[e] == y[k] for e, k in zip(nearest, asked, strict=True)]))
            of_draws.append(of_pairs)
        scores += np.mean(of_draws, axis=0).tolist()
    return np.mean(scores)


def hit(distance):
    def score(G, g, probe, label):
        own, other = (
            [distance(x, probe) for x, c in zip(G, g, strict=True) if (c == label) == same] for same in (True, False)
        )
        return min(own) < min(other, default=np.inf)

    return score


def precision(distance):
    def score(G, g, probe, label):
        distances = np.array([distance(x, probe) for x in G])
        return np.mean([np.mean(g[distances <= at] == label) for at in distances[g == label]])

    return score


def chance(G, g, probe, label):
    return sum(g == label) / len(g)


METRICS = {
    "euclidean": lambda a, b: np.linalg.norm(a - b),
    "cosine": lambda a, b: 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b),
}


def incomplete(seed, n, d=3):
    """Views that lack samples and classes; the first two have a class in common. Most have classes of one sample."""
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(0, 2, size=9), rng.integers(2, 8, size=6))
    mask = (rng.random((15, n)) < 0.7) & (rng.random((8, n)) < rng.random())[y]
    mask[0, :2] = True
    return [np.where(rows[:, None], rng.normal(size=(15, d)) + 3, np.nan) for rows in mask.T], y


seeds, numbers_of_views = st.integers(0, 2**32 - 1), st.integers(2, 4)


@pytest.mark.parametrize("counterparts", [False, True])
@settings(max_examples=60, deadline=None)
@given(seed=seeds, n=numbers_of_views, metric=st.sampled_from(sorted(METRICS)))
def test_equals_the_literal_definition(seed, n, metric, counterparts):
    latents, y = incomplete(seed, n)
    options = {"counterparts": counterparts}
    accuracy, skipped = literal(latents, y, hit(METRICS[metric]), counterparts)
    np.testing.assert_allclose(
        cv.metrics.cross_view_accuracy(latents, y, metric, **options), accuracy, rtol=1e-12, atol=0
    )
    assert cv.metrics.mean_accuracy(latents, y, metric, **options) == pytest.approx(np.nanmean(accuracy))

    found = cv.metrics.skipped_probes(latents, y)
    assert np.issubdtype(found.dtype, np.integer)
    np.testing.assert_array_equal(found, skipped)

    wanted, _ = literal(latents, y, precision(METRICS[metric]), counterparts)
    np.testing.assert_allclose(cv.metrics.cross_view_average_precision(latents, y, metric, **options), wanted)
    assert cv.metrics.mean_average_precision(latents, y, metric, **options) == pytest.approx(np.nanmean(wanted))

    expected = np.nanmean(literal(latents, y, chance, counterparts)[0])
    assert cv.metrics.chance_accuracy(latents, y, **options) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, n=numbers_of_views, metric=st.sampled_from(sorted(METRICS)), n_draws=st.integers(1, 5))
def test_one_shot_equals_the_literal_definition(seed, n, metric, n_draws):
    latents, y = incomplete(seed, n)
    wanted = literal_one_shot(latents, y, METRICS[metric], n_draws, seed)
    options = {"n_draws": n_draws, "random_state": seed}
    assert cv.metrics.one_shot_accuracy(latents, y, metric, **options) == pytest.approx(wanted)
    first = [[X[:, :d] for X in latents] for d in (2, 3)]
    np.testing.assert_allclose(
        score_by_dimension(latents, y, [2, 3], metric, "one_shot_accuracy"),
        [literal_one_shot(components, y, METRICS[metric]) for components in first],
    )


def exact_cosine(a, b):
    """What orders whole vectors by their cosine distance from b, without rounding."""
    dot = int(a @ b)
    return -Fraction(dot * abs(dot), int(a @ a) or 1)


EXACT = {"euclidean": lambda a, b: np.sum(np.square(a - b)), "cosine": exact_cosine}


@settings(max_examples=60, deadline=None)
@given(seed=seeds, n=numbers_of_views, metric=st.sampled_from(sorted(METRICS)), counterparts=st.booleans())
def test_of_samples_at_the_same_distance_those_of_other_classes_come_first(seed, n, metric, counterparts):
    """Whole vectors have many ties, which are the same after a rotation, up to rounding."""
    whole, y = incomplete(seed, n)
    whole = [np.round(X) for X in whole]
    rng = np.random.default_rng(seed)
    latents = [X @ np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0] for X in whole]
    accuracy = cv.metrics.cross_view_accuracy(latents, y, metric, counterparts=counterparts)
    precisions = cv.metrics.cross_view_average_precision(latents, y, metric, counterparts=counterparts)
    np.testing.assert_allclose(accuracy, literal(whole, y, hit(EXACT[metric]), counterparts)[0], rtol=1e-12)
    np.testing.assert_allclose(precisions, literal(whole, y, precision(EXACT[metric]), counterparts)[0], rtol=1e-12)
    assert cv.metrics.one_shot_accuracy(latents, y, metric) == pytest.approx(literal_one_shot(whole, y, EXACT[metric]))

    order = rng.permutation(len(y))
    permuted = [X[order] for X in latents], y[order], metric
    again = cv.metrics.cross_view_accuracy(*permuted, counterparts=counterparts)
    np.testing.assert_array_equal(again, accuracy)
    again = cv.metrics.cross_view_average_precision(*permuted, counterparts=counterparts)
    np.testing.assert_allclose(again, precisions, rtol=1e-12)
    if counterparts:
        (G, g), (P, p) = ((X[seen], y[seen]) for X, seen in ((X, ~np.isnan(X[:, 0])) for X in latents[:2]))
        assert cv.metrics.cmc(G, g, P, p, metric=metric)[0] == accuracy[0, 1]
        assert cv.metrics.average_precision(G, g, P, p, metric) == pytest.approx(precisions[0, 1])


@pytest.mark.parametrize("counterparts", [False, True])
@pytest.mark.parametrize("engine", ["torch", "dask.array"])
def test_engines_agree_on_ties(engine, counterparts):
    """More samples are at the same distance than are searched for at first."""
    library = pytest.importorskip(engine)
    rng = np.random.default_rng(0)
    y, grid = rng.integers(0, 4, size=120), rng.integers(0, 3, size=(2, 120, 2)).astype(float)
    grid[:, y > 0] += 1.0
    arrays = [library.asarray(X) for X in grid]
    found = cv.metrics.cross_view_accuracy(arrays, y, counterparts=counterparts)
    np.testing.assert_array_equal(found, literal(grid, y, hit(EXACT["euclidean"]), counterparts)[0])
    assert 0.0 < np.nanmin(found) < np.nanmax(found) < 1.0


def test_draws_do_not_depend_on_the_latent_samples():
    """Rotations leave distances as they are, and so the score if the draws are the same."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(6), 5)
    X = rng.normal(size=(30, 4))
    moved = [X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(3)]
    scores = [cv.metrics.one_shot_accuracy([Z, Z], y) for Z in moved]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-12)
    assert cv.metrics.one_shot_accuracy([X, X], y, random_state=1) != pytest.approx(scores[0])


def test_a_probe_counts_only_where_it_can_be_answered():
    X, y = np.random.default_rng(0).normal(size=(10, 4)), np.arange(10)
    partial = np.where(y[:, None] < 7, X, np.nan)
    np.testing.assert_array_equal(cv.metrics.skipped_probes([X, partial], y), [[0, 0], [3, 0]])
    assert cv.metrics.mean_accuracy([X, partial], y) == 1.0
    assert cv.metrics.mean_average_precision([X, partial], y) == 1.0
    for score in SCORERS:
        assert score_by_dimension([X, partial], y, [4], "euclidean", score) == [1.0]
    np.testing.assert_array_equal(cv.metrics.cmc(X[:7], y[:7], X, y), np.ones(7))
    assert cv.metrics.chance_accuracy([X, partial], y) == pytest.approx((1 / 10 + 1 / 7) / 2)


def test_chance_is_that_of_random_latents():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [10, 20, 30]))
    found = np.mean([cv.metrics.mean_accuracy(list(rng.normal(size=(2, 60, 2))), y) for _ in range(200)])
    assert cv.metrics.chance_accuracy([np.ones((60, 1)), np.ones((60, 5))], y) == pytest.approx(found, abs=0.02)


@pytest.mark.parametrize(
    "mean",
    [
        cv.metrics.mean_accuracy,
        cv.metrics.mean_average_precision,
        cv.metrics.chance_accuracy,
        cv.metrics.one_shot_accuracy,
        *(partial(score_by_dimension, dimensions=[1], metric="euclidean", scoring=name) for name in SCORERS),
    ],
)
def test_views_without_a_class_in_common(mean):
    mask = np.array([[True, False], [True, False], [False, True]])
    with pytest.raises(ValueError, match="no pair of views to compare: pass at least two views with samples of a comm"):
        mean(cv.Views([np.eye(3), np.eye(3)], mask=mask), [0, 0, 1])
    # A third view that has a class in common with the first is enough.
    views = cv.Views([np.eye(3)] * 3, mask=np.column_stack([mask, mask[:, 0]]))
    assert mean(views, [0, 0, 1]) == 1.0


SCALES = [1e-200, 2.0**-1060, 1e300]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", SCALES)
def test_latents_of_any_scale_are_scored_like_the_same_latents_rescaled(scale, metric):
    """Powers of 2 change no digit. Next to the spread, a constant of any size does not matter."""
    latents, y = incomplete(3, 3, d=4)
    exponent = int(np.frexp(scale)[1])
    scaled = [np.ldexp(X, exponent) for X in latents]
    if scale < 1e-300:  # subnormal numbers have few digits: go back from what is left
        latents = [np.ldexp(X, -exponent) for X in scaled]
    for name in SCORERS:
        found, wanted = (score_by_dimension(Z, y, [1, 2, 4], metric, name) for Z in (scaled, latents))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    (G, g), (P, p) = ((X[seen], y[seen]) for X, seen in ((X, ~np.isnan(X[:, 0])) for X in latents[:2]))
    large = np.ldexp(G, exponent), g, np.ldexp(P, exponent), p
    np.testing.assert_array_equal(cv.metrics.cmc(*large, metric=metric), cv.metrics.cmc(G, g, P, p, metric=metric))
    found, expected = cv.metrics.roc(*large, metric), cv.metrics.roc(G, g, P, p, metric)
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-12)
    factor = exponent if metric == "euclidean" else 0
    # Distances between subnormal numbers are rounded to the next of them.
    np.testing.assert_allclose(found[2], np.ldexp(expected[2], factor), rtol=1e-9, atol=5e-324)
    if metric == "euclidean":
        wanted = cv.metrics.mean_accuracy(latents, y)
        assert cv.metrics.mean_accuracy([X + 1e8 for X in latents], y) == wanted
        # Neither does a constant next to the spread matter.
        beside = [np.hstack([X, 0.0 * X[:, :1] + 1.0]) for X in scaled]
        assert cv.metrics.mean_accuracy(beside, y) == wanted
    else:  # nor do the lengths of rows
        lengths = 2.0 ** np.random.default_rng(0).integers(-900, 900, size=(len(y), 1))
        wanted = cv.metrics.mean_average_precision(latents, y, metric)
        found = cv.metrics.mean_average_precision([latents[0] * lengths, *latents[1:]], y, metric)
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("k", "n"), [(1, 8), (3, 8), (8, 8), (1, 300), (5, 300), (299, 300)])
def test_nearest_takes_ties_in_order(k, n):
    rng = np.random.default_rng(0)
    blocks = [rng.integers(0, 40, size=(30, n)).astype(float) for _ in range(2)]
    distances, columns = nearest(((slice(0), block) for block in blocks), k)
    D = np.concatenate(blocks)
    expected = [sorted(range(n), key=lambda c, row=row: (row[c], c))[:k] for row in D]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(distances, np.take_along_axis(D, columns, axis=1))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, n=numbers_of_views, metric=st.sampled_from(sorted(METRICS)))
def test_by_dimension_equals_one_after_another(seed, n, metric):
    latents, y = incomplete(seed, n, d=6)
    dimensions = [1, 2, 5, 9]
    first = [[X[:, :d] for X in latents] for d in dimensions]
    for name, function, rtol in (
        ("accuracy", cv.metrics.mean_accuracy, 0),
        ("accuracy_with_counterparts", partial(cv.metrics.mean_accuracy, counterparts=True), 0),
        ("average_precision", cv.metrics.mean_average_precision, 1e-7),
        ("one_shot_accuracy", cv.metrics.one_shot_accuracy, 1e-7),
    ):
        wanted = [function(components, y, metric) for components in first]
        np.testing.assert_allclose(score_by_dimension(latents, y, dimensions, metric, name), wanted, rtol=rtol)


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_scores_of_some_probes_and_of_the_others_make_those_of_all(metric):
    rng = np.random.default_rng(4)
    y = np.repeat(np.arange(6), 5)
    latents = [rng.normal(size=(6, 4))[y] + rng.normal(size=(30, 4)) for _ in range(3)]
    some = rng.permutation(30) < 11
    for name in SCORERS:
        parts = [score_by_dimension(latents, y, [1, 4], metric, name, probes) for probes in (some, ~some)]
        whole = score_by_dimension(latents, y, [1, 4], metric, name)
        assert not np.allclose(*parts)
        if name == "one_shot_accuracy":  # probes count by the draws that have an enrolled sample other than their own
            assert (np.min(parts, axis=0) < whole).all()
            assert (whole < np.max(parts, axis=0)).all()
        else:
            np.testing.assert_allclose(np.average(parts, axis=0, weights=[11, 19]), whole, rtol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", SCORERS)
def test_by_dimension_does_not_depend_on_blocks(name, metric, monkeypatch):
    rng = np.random.default_rng(0)
    latents, y = [rng.normal(size=(40, 7)) for _ in range(3)], rng.integers(0, 8, size=40)
    dimensions = [1, 2, 2, 3, 6, 7, 9]
    at_once = score_by_dimension(latents, y, dimensions, metric, name)
    monkeypatch.setattr(scoring, "_MIN_ROWS", 1)
    for block in (1, 300, 7_000):
        monkeypatch.setattr(scoring, "_BLOCK", block)
        np.testing.assert_allclose(score_by_dimension(latents, y, dimensions, metric, name), at_once, atol=1e-12)


@pytest.mark.parametrize("few", [1, 100])
def test_precision_is_that_of_scikit_learn_ties_included(few, monkeypatch):
    monkeypatch.setattr(scoring, "_MAX_COUNTED", few)
    rng = np.random.default_rng(5)
    G, P = rng.integers(0, 3, size=(40, 2)).astype(float), rng.integers(0, 3, size=(15, 2)).astype(float)
    g, p = rng.integers(0, 4, size=40), rng.integers(0, 4, size=15)
    distances = literal_distances(G, P, "euclidean")
    wanted = [average_precision_score(g == label, -line) for line, label in zip(distances, p, strict=True)]
    assert cv.metrics.average_precision(G, g, P, p) == pytest.approx(np.mean(wanted), abs=1e-12)


@pytest.fixture(params=METRICS)
def matching(request):
    """Gallery and probes with a class that is in one of them only, and several samples per class."""
    rng = np.random.default_rng(1)
    g, p = rng.integers(0, 6, size=30), rng.integers(0, 7, size=25)
    centres = rng.normal(size=(7, 4))
    return centres[g] + 0.8 * rng.normal(size=(30, 4)), g, centres[p] + 0.8 * rng.normal(size=(25, 4)), p, request.param


def literal_distances(G, P, metric):
    return np.array([[METRICS[metric](g, p) for g in G] for p in P])


@pytest.mark.parametrize("chunk", [10, 10**6])
def test_verification_and_identification_are_literal(matching, chunk, monkeypatch):
    monkeypatch.setattr("crossview.neighbours.distances._CHUNK", chunk)
    G, g, P, p, metric = matching
    D = literal_distances(G, P, metric)

    ranks = []
    for row, label in zip(D, p, strict=True):
        classes = sorted(set(g), key=lambda c, row=row: min(row[g == c]))
        if label in classes:
            ranks.append(classes.index(label) + 1)
    assert len(ranks) < len(p)
    found = cv.metrics.cmc(G, g, P, p, metric=metric)
    np.testing.assert_allclose(found, [np.mean(np.array(ranks) <= r) for r in range(1, len(set(g)) + 1)])
    assert found[0] < found[-1] == 1.0
    np.testing.assert_allclose(cv.metrics.cmc(G, g, P, p, 3, metric), found[:3])
    np.testing.assert_allclose(cv.metrics.cmc(G, g, P, p, 9, metric), np.append(found, [found[-1]] * (9 - len(found))))

    same = p[:, None] == g
    false, true, thresholds = cv.metrics.roc(G, g, P, p, metric)
    assert len(thresholds) == same.sum() + 1
    assert (false[-1], true[-1], thresholds[-1]) == (1.0, 1.0, np.inf)
    for f, t, threshold in zip(false, true, thresholds, strict=True):
        assert f == pytest.approx(np.mean(D[~same] <= threshold), abs=1e-12)
        assert t == pytest.approx(np.mean(D[same] <= threshold + 1e-12), abs=1e-12)
    missed = cv.metrics.det(G, g, P, p, metric)
    np.testing.assert_allclose(missed[1], 1 - true)
    np.testing.assert_allclose(missed[0], false)
    monkeypatch.setattr(curves, "_MAX_POINTS", 7)
    few = cv.metrics.roc(G, g, P, p, metric)
    assert len(few[0]) == 8
    assert set(few[2]) <= set(thresholds)
    np.testing.assert_allclose(few[1], true[np.searchsorted(thresholds, few[2])])

    score = precision(METRICS[metric])
    precisions = [score(G, g, probe, label) for probe, label in zip(P, p, strict=True) if label in g]
    assert cv.metrics.average_precision(G, g, P, p, metric) == pytest.approx(np.mean(precisions), abs=1e-12)


E3, LARGE = np.eye(3), np.array([[1.7e308], [-1.7e308], [0.0]])
ONE_GALLERY = [
    getattr(cv.metrics, name)
    for name in ("cmc", "roc", "det", "average_precision", "identification_rates", "fnir_at_fpir")
]


Y3 = [0, 1, 2]


@pytest.mark.parametrize("function", ONE_GALLERY)
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((E3, [0, 1], E3, Y3), {}, "gallery_y has 2 labels for 3 samples"),
        ((E3, Y3, E3[:, :2], Y3), {}, "dimensions, got 3 and 2"),
        ((E3, Y3, E3, Y3), {"metric": "manhattan"}, "metric must be"),
        ((E3, Y3, E3, list("012")), {}, "must be of the same kind: use either strings or numbers"),
        ((E3, Y3, E3, [0, 1, np.nan]), {}, "probe_y contains NaN"),
        (
            (E3, Y3, E3, [3, 4, 5]),
            {},
            "no probe has its class in the gallery|needs pairs of one class and pairs of two",
        ),
        ((LARGE, Y3, LARGE, Y3), {}, "samples are too large for"),
    ],
)
def test_bad_input_of_one_gallery(function, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments, **options)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (cv.metrics.mean_accuracy, ([E3, E3], [0, 1]), "y has 2 labels for 3 samples"),
        (cv.metrics.mean_accuracy, ([E3, np.ones((3, 2))], Y3), r"equal dimensions .* got \(3, 2\)"),
        (cv.metrics.mean_accuracy, ([E3, E3], Y3, "manhattan"), "metric must be one of 'euclidean', 'cosine'"),
        (cv.metrics.mean_accuracy, ([E3], Y3), "no pair of views"),
        (cv.metrics.mean_accuracy, ([LARGE, LARGE], Y3), "the samples are too large for distances between them: div"),
        (score_by_dimension, ([E3], Y3, [1], "cosine", "accuracy"), "no pair of views"),
        (score_by_dimension, ([E3, E3], Y3, [], "cosine", "accuracy"), "dimensions must be whole num"),
        (score_by_dimension, ([E3, E3], Y3, [0, 1], "cosine", "accuracy"), "dimensions must be whole num"),
        (score_by_dimension, ([E3, E3], Y3, [2, 1], "cosine", "accuracy"), "dimensions must be whole num"),
        (partial(cv.metrics.one_shot_accuracy, n_draws=0), ([E3, E3], Y3), "n_draws must be 1 .*, got 0"),
        (cv.metrics.roc, (E3, [0, 0, 0], E3, [0, 0, 0]), "needs pairs of one class and pairs of two"),
        (partial(cv.metrics.cmc, max_rank=0), (E3, Y3, E3, Y3), "max_rank must be 1 or more"),
        (cv.metrics.fnir_at_fpir, (E3, list("abc"), E3, [""] * 3), "probe_y: every sample is missing or has no label"),
        (cv.metrics.identification_rates, ([[0.0]], ["a"], [[0.1]], ["a"]), "no non-mated search"),
        (partial(cv.metrics.fnir_at_fpir, max_fpir=1.0), (E3, Y3, E3, Y3), "max_fpir must be a share"),
    ],
)
def test_bad_input(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


def literal_searches(G, g, P, p, distance):
    """The candidate of every mated and non-mated search, one at a time: whether it is right, and its distance."""
    gallery = [(x, c) for x, c in zip(G, g, strict=True) if c != "" and not np.isnan(x).any()]
    mated, nonmated = [], []
    for probe, label in zip(P, p, strict=True):
        if label == "" or np.isnan(probe).any():
            continue
        others = [distance(x, probe) for x, c in gallery if c != label]
        own = [distance(x, probe) for x, c in gallery if c == label]
        if others:
            nonmated.append(min(others))
        if own:
            mated.append((min(own) < min(others, default=np.inf), min(own)))
    return mated, nonmated


def literal_identification(mated, nonmated, threshold):
    false_positives = sum(d <= threshold for d in nonmated)
    right = sum(hit and d <= threshold for hit, d in mated)
    return false_positives / len(nonmated), 1 - right / len(mated)


def open_set(seed):
    """Gallery and probes on a grid, with ties, strangers, missing samples and unknown classes.

    The mean of the gallery is 0, so that distances are exact.
    """
    rng = np.random.default_rng(seed)
    g, p = rng.choice(["a", "b", "c", "d"], size=20), rng.choice(["a", "b", "c", "e", ""], size=30)
    g[:2], p[:3] = ["a", "b"], ["a", "b", "e"]
    G, P = (rng.integers(-3, 4, size=(n, 2)).astype(float) for n in (20, 30))
    G[10:] = -G[:10]
    P[[7, 9]] = np.nan
    return np.vstack([G, [[np.nan] * 2, [0.0, 0.0]]]), np.append(g, ["a", ""]), P, p


@pytest.mark.parametrize("chunk", [10, 10**6])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds)
def test_open_set_identification_is_literal(seed, chunk, monkeypatch):
    monkeypatch.setattr("crossview.neighbours.distances._CHUNK", chunk)
    G, g, P, p = open_set(seed % 1000)
    mated, nonmated = literal_searches(G, g, P, p, METRICS["euclidean"])
    assert len(mated) < len(nonmated) < len(p)
    fpir, fnir, thresholds = cv.metrics.identification_rates(G, g, P, p)
    assert thresholds[-1] == np.inf
    for f, n, threshold in zip(fpir, fnir, thresholds, strict=True):
        assert (f, n) == pytest.approx(literal_identification(mated, nonmated, threshold), abs=1e-12)
    known, probes = (g != "") & ~np.isnan(G[:, 0]), (p != "") & ~np.isnan(P[:, 0])
    for curve in (cv.metrics.cmc, cv.metrics.roc):  # leave out what is missing or has no label, too
        np.testing.assert_array_equal(curve(G, g, P, p), curve(G[known], g[known], P[probes], p[probes]))
    assert fnir[-1] == pytest.approx(1 - cv.metrics.cmc(G, g, P, p)[0])
    for rate in (0.0, 0.05, 0.3, 0.9):
        allowed = [
            fnir
            for threshold in [-1.0, *np.unique(nonmated), *(d for _, d in mated)]
            for fpir, fnir in [literal_identification(mated, nonmated, threshold)]
            if fpir <= rate + 1e-12
        ]
        assert cv.metrics.fnir_at_fpir(G, g, P, p, rate) == pytest.approx(min(allowed), abs=1e-12)


def test_fnir_of_weighted_probes_is_that_of_repeated_ones():
    G, g, P, p = open_set(3)
    weights = np.random.default_rng(0).integers(0, 3, size=len(P))
    again = np.repeat(np.arange(len(P)), weights)
    distances = np.sqrt(((P[:, None] - G) ** 2).sum(axis=2))
    known = (g != "") & ~np.isnan(G).any(axis=1)
    probes = (p != "") & ~np.isnan(P).any(axis=1)
    same = (g == p[:, None])[:, known]
    own, other = (np.where(keep, distances[:, known], np.inf).min(axis=1) for keep in (same, ~same))
    for rate in (0.0, 0.1, 0.5):
        found = curves.false_negative_rate(own[probes], other[probes], rate, weights[None, probes].astype(float))
        assert found[0] == pytest.approx(cv.metrics.fnir_at_fpir(G, g, P[again], p[again], rate), abs=1e-12)
