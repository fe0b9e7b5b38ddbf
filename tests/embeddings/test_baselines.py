from __future__ import annotations

import builtins
import json
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import oracles
import pytest
from commands import run
from methods import ALTERNATIVES, make, make_for
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import crossview as cv
from crossview._progress import silent
from crossview.embeddings import neighbourhood
from crossview.embeddings.methods import SEARCH_SPACES

torch = pytest.importorskip("torch")
training = pytest.importorskip("crossview.embeddings._contrastive")
Batch, Nodes, Trainer, batch_rows = training.Batch, training.Nodes, training.Trainer, training.batch_rows

ARRAYS, Y = make()
EVERY = pytest.mark.parametrize("model", ALTERNATIVES, ids=repr)
CPU = torch.device("cpu")


def nodes_of(arrays, y, mask=None):
    return Nodes(list(arrays), np.ones((len(y), len(arrays)), dtype=bool) if mask is None else mask, np.asarray(y))


def trainer(**changes):
    values = {"n_components": 4, "hidden": None, "temperature": 0.3, "learning_rate": 0.01, "weight_decay": 0.1}
    values |= {"batch_size": 1000, "max_epochs": 15, "patience": 15, "seed": 0, "device": CPU}
    return Trainer(**(values | changes))


def some_mask(m=60, n=2):
    mask = np.random.default_rng(0).random((m, n)) < 0.8
    mask[:12] = True
    return mask


# What they share with all methods.


@EVERY
def test_contract(model, tmp_path):
    arrays, _ = make_for(model)
    views = cv.Views(arrays, names=["photo", "sketch"])
    first, second = clone(model).fit(views, Y), clone(model).fit(views, Y)
    latents = first.transform(views)
    assert latents.n_features == (first.n_components_,) * 2
    assert get_tags(model).target_tags.required
    for v, (a, b) in enumerate(zip(latents.arrays, second.transform(views).arrays, strict=True)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(first.transform_view(arrays[v], v), a)
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.transform(views).arrays[1], latents.arrays[1])
    assert first.score(views, Y) > 0.3  # of chance 1/6


@EVERY
def test_incomplete_views(model):
    mask = some_mask()
    arrays, _ = make_for(model)
    views = cv.Views(arrays, mask=mask)
    latents = clone(model).fit(views, Y).transform(views)
    np.testing.assert_array_equal(np.isnan(latents.arrays[0]).all(axis=1), ~mask[:, 0])
    # What is in the rows that are missing does not matter.
    spoilt = [np.where(seen[:, None], X, 99.0) for X, seen in zip(arrays, mask.T, strict=True)]
    others = clone(model).fit(cv.Views(spoilt, mask=mask), Y).transform(views)
    np.testing.assert_array_equal(others.arrays[1], latents.arrays[1])


@EVERY
def test_more_than_two_views_of_any_width(model):
    arrays, y = make_for(model, sizes=(6, 4, 5))
    latents = clone(model).fit(arrays, y).transform(arrays)
    assert len({Z.shape for Z in latents}) == 1


@EVERY
def test_labels_are_needed(model):
    with pytest.raises(ValueError, match="requires y"):
        clone(model).fit(make_for(model)[0], None)
    with pytest.raises(ValueError, match="one class only"):
        clone(model).fit(make_for(model)[0], np.zeros(60))


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (cv.Contrastive(0), "n_components must be a whole number, 1 or more"),
        (cv.Contrastive(hidden=0), "hidden must be a whole number, 1 or more"),
        (cv.Contrastive(temperature=0.0), "temperature must be a finite number above 0"),
        (cv.Contrastive(weight_decay=-1.0), "weight_decay must be a finite number of 0 or more"),
        (cv.Contrastive(batch_size=1), "batch_size must be a whole number, 2 or more"),
        (cv.Contrastive(max_epochs=0), "max_epochs must be a whole number, 1 or more"),
        (cv.Contrastive(validation="folds"), "validation must be one of 'auto', 'classes', 'samples'"),
        (cv.Contrastive(validation_fraction=1.0), "validation_fraction must be below 1"),
        (cv.Contrastive(refit="no"), "refit must be True or False"),
        (cv.Contrastive(random_state=None), "random_state must be a whole number"),
        (cv.SemanticMatching(C=0.0), "C must be a finite number above 0"),
        (cv.SemanticMatching(log=1), "log must be True or False"),
        (cv.SemanticMatching(cca_components=0), "cca_components must be a whole number, 1 or more"),
        (cv.SemanticMatching(cca_reg=-0.1), "cca_reg must be a finite number"),
        (cv.SemanticMatching(max_iter=0), "max_iter must be a whole number"),
        (cv.NCA(init="lda"), "init must be one of 'auto', 'pca', 'identity'"),
        (cv.NCA(scale=0.0), "scale must be a finite number above 0"),
        (cv.NCA(max_iter=0), "max_iter must be a whole number"),
    ],
    ids=repr,
)
def test_bad_parameters(model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(make_for(model)[0], Y)


# The loss and the training of Contrastive.


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_loss_is_the_formula(temperature):
    y = np.append(Y[:-1], 99)  # the only positive of the last sample is its counterpart
    mask = some_mask()
    mask[-1] = True
    trained = trainer(temperature=temperature)
    heads = trained.initial_heads([X.shape[1] for X in ARRAYS])
    latents = []
    for X, seen, [(W, b)] in zip(ARRAYS, mask.T, heads, strict=True):
        Z = X[seen] @ W.detach().numpy() + b.detach().numpy()
        latents += [z / np.linalg.norm(z) for z in Z]
    classes = [c for seen in mask.T for c in y[seen]]
    expected = oracles.supervised_contrastive_loss(latents, classes, temperature)
    loss = trained.loss(heads, Batch(nodes_of(ARRAYS, y, mask), CPU))
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("hidden", [None, 5])
def test_gradient_is_that_of_the_loss(hidden):
    trained, batch = trainer(hidden=hidden), Batch(nodes_of(ARRAYS, Y), CPU)
    heads = trained.initial_heads([6, 4])
    trained.loss(heads, batch).backward()
    rng = np.random.default_rng(0)
    for tensor in (tensor for head in heads for layer in head for tensor in layer):
        direction = torch.as_tensor(rng.normal(size=tensor.shape), dtype=torch.float32)
        step = 0.002 * direction / direction.norm()
        with torch.no_grad():
            tensor += step
            above = trained.loss(heads, batch)
            tensor -= 2.0 * step
            below = trained.loss(heads, batch)
            tensor += step
        assert float(above - below) == pytest.approx(2.0 * float((tensor.grad * step).sum()), abs=2e-6)


def test_training_reduces_the_loss():
    batch = Batch(nodes_of(ARRAYS, Y), CPU)

    def loss_after(epochs):
        layers, _ = trainer(max_epochs=epochs).fit(nodes_of(ARRAYS, Y), None, True, silent)
        heads = [[tuple(torch.as_tensor(A, dtype=torch.float32) for A in layer) for layer in head] for head in layers]
        return float(trainer().loss(heads, batch))

    losses = [loss_after(epochs) for epochs in (1, 5, 25)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 0.1


def assert_same_heads(first, second):
    for a, b in zip(first, second, strict=True):
        for (W, w), (V, v) in zip(a, b, strict=True):
            np.testing.assert_array_equal(W, V)
            np.testing.assert_array_equal(w, v)


def test_the_epoch_with_the_smallest_held_out_loss_is_restored():
    nodes = nodes_of(ARRAYS, Y)
    held_out = Y >= 4
    training = trainer(learning_rate=0.03, max_epochs=20, patience=20)
    best, n_epochs = training.fit(nodes, held_out, False, silent)
    assert 1 < n_epochs < 20
    validation, losses, found = Batch(nodes[held_out], CPU), [], []
    for epochs in range(1, 21):
        layers, _ = replace(training, max_epochs=epochs).fit(nodes[~held_out], None, False, silent)
        heads = [[tuple(torch.as_tensor(A, dtype=torch.float32) for A in layer) for layer in head] for head in layers]
        losses.append(float(training.loss(heads, validation)))
        found.append(layers)
    assert n_epochs == 1 + np.argmin(losses)
    assert_same_heads(best, found[n_epochs - 1])
    again, _ = training.fit(nodes, held_out, True, silent)
    everything, _ = replace(training, max_epochs=n_epochs).fit(nodes, None, False, silent)
    assert_same_heads(again, everything)


def test_training_stops_when_patience_is_over():
    epochs = []
    model = trainer(learning_rate=0.3, max_epochs=200, patience=3)
    _, best = model.fit(nodes_of(ARRAYS, Y), Y >= 4, False, lambda *_: epochs.append(1))
    assert len(epochs) == best + 3 < 200


@pytest.mark.parametrize("validation", [None, "samples"])
def test_training_that_diverges(validation):
    with pytest.raises(ValueError, match=r"training diverged: use a learning_rate below 1e\+38"):
        cv.Contrastive(learning_rate=1e38, max_epochs=5, validation=validation).fit(ARRAYS, Y)


@pytest.mark.parametrize(("kind", "n_classes"), [("classes", 6), ("samples", 6), ("auto", 6), ("auto", 20)])
def test_what_is_held_out(kind, n_classes):
    y = np.arange(60) % n_classes
    held_out = cv.Contrastive(validation=kind)._held_out(y)
    shared = np.isin(y[held_out], y[~held_out])
    assert shared.all() == (kind == "samples" or (kind, n_classes) == ("auto", 6))
    assert shared.any() == shared.all()
    assert held_out.sum() == (20 if kind == "classes" else 12)


@pytest.mark.parametrize("kind", ["classes", "samples"])
@pytest.mark.parametrize("share", [0.01, 0.99])
def test_something_is_left_on_both_sides(kind, share):
    held_out = cv.Contrastive(validation=kind, validation_fraction=share)._held_out(Y)
    assert min(len(np.unique(Y[held_out])), len(np.unique(Y[~held_out]))) >= 2


def test_nothing_can_be_held_out():
    with pytest.raises(ValueError, match="cannot hold out 2 of 3 classes: use validation='samples'"):
        cv.Contrastive(validation="classes").fit(ARRAYS, Y % 3)
    with pytest.raises(ValueError, match="too few samples to hold some out: use validation=None"):
        cv.Contrastive(validation="samples").fit(ARRAYS, np.arange(60))
    assert cv.Contrastive(validation=None, max_epochs=2).fit(ARRAYS, np.arange(60)).n_epochs_ == 2


@pytest.mark.parametrize("m", [7, 64, 200])
def test_batches(m):
    rng = np.random.default_rng(0)
    classes = rng.integers(10, size=m)
    batches = batch_rows(classes, 16, rng)
    assert sorted(np.concatenate(batches)) == list(range(m))
    assert max(map(len, batches)) <= 16
    assert len(batches) == -(-m // 16)
    if m == 200:  # 20 samples per class: most come in groups of four
        groups = [np.unique(classes[rows], return_counts=True)[1] for rows in batches]
        assert np.mean(np.concatenate(groups) >= 4) > 0.5


def test_small_batches_learn_as_well():
    whole = cv.Contrastive(8, learning_rate=0.02, max_epochs=40, validation=None).fit(ARRAYS, Y).score(ARRAYS, Y)
    parts = (
        cv.Contrastive(8, learning_rate=0.02, max_epochs=40, validation=None, batch_size=20)
        .fit(ARRAYS, Y)
        .score(ARRAYS, Y)
    )
    assert min(whole, parts) > 0.6


def test_transform_needs_the_formula_only():
    model = cv.Contrastive(3, hidden=4, max_epochs=3, validation=None).fit(ARRAYS, Y)
    x = ARRAYS[1][7]
    hidden = np.maximum(0.0, model.hidden_weights_[1].T @ (x - model.means_[1]) + model.hidden_biases_[1])
    z = model.projections_[1].T @ hidden + model.biases_[1]
    np.testing.assert_allclose(model.transform(ARRAYS)[1][7], z / np.linalg.norm(z), atol=1e-12)
    linear = model.set_params(hidden=None).fit(ARRAYS, Y)
    assert not hasattr(linear, "hidden_weights_")
    assert linear.projections_[1].shape == (4, 3)


def test_units_do_not_matter():
    model = cv.Contrastive(3, max_epochs=10)
    expected = clone(model).fit(ARRAYS, Y).transform(ARRAYS)
    scaled = [1e3 * X + 5.0 for X in ARRAYS]
    for a, b in zip(clone(model).fit(scaled, Y).transform(scaled), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_seeds():
    fits = [cv.Contrastive(3, max_epochs=2, random_state=seed).fit(ARRAYS, Y).projections_[0] for seed in (0, 1)]
    assert not np.allclose(*fits)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    cv.Contrastive(3, max_epochs=2).fit(ARRAYS, Y)
    assert torch.rand(1) == expected  # the state of the caller's generator is left alone


def test_hidden_layers_unroll_manifolds():
    data = cv.datasets.make_manifolds(n_samples=200, random_state=0)
    linear, curved = (
        cv.Contrastive(16, hidden=hidden, temperature=0.5, learning_rate=0.02, max_epochs=80, validation=None)
        .fit(data.views[:100], data.y[:100])
        .score(data.views[100:], data.y[100:])
        for hidden in (None, 64)
    )
    assert curved > linear + 0.1


def test_torch_is_imported_only_to_train(tmp_path):
    model = cv.Contrastive(3, hidden=4, max_epochs=2).fit(ARRAYS, Y)
    cv.save(model, tmp_path / "model")
    np.save(tmp_path / "X.npy", ARRAYS[1])
    code = f"""
import sys
import numpy as np
import crossview as cv
from crossview.embeddings.methods import SEARCH_SPACES
model, X = cv.load({str(tmp_path / "model")!r}), np.load({str(tmp_path / "X.npy")!r})
np.save({str(tmp_path / "Z.npy")!r}, model.transform_view(X, 1))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "Z.npy"), model.transform_view(ARRAYS[1], 1))


def test_without_torch(monkeypatch):
    original = builtins.__import__

    def refuse(name, *others, **named):
        if name == "torch":
            raise ImportError(name)
        return original(name, *others, **named)

    monkeypatch.delitem(sys.modules, "crossview.embeddings._contrastive")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'crossview\[torch\]'"):
        cv.Contrastive().fit(ARRAYS, Y)


# SemanticMatching.


@pytest.mark.parametrize("n_classes", [2, 6])
def test_posteriors_are_those_of_logistic_regression(n_classes):
    y = Y % n_classes
    latents = cv.SemanticMatching(C=0.5).fit(ARRAYS, y).transform(ARRAYS)
    logarithms = cv.SemanticMatching(C=0.5, log=True).fit(ARRAYS, y).transform(ARRAYS)
    for X, Z, L in zip(ARRAYS, latents, logarithms, strict=True):
        expected = LogisticRegression(C=0.5, max_iter=1000).fit(X - X.mean(axis=0), y).predict_proba(X - X.mean(axis=0))
        np.testing.assert_allclose(Z, expected, atol=1e-10)
        np.testing.assert_allclose(np.exp(L), expected, atol=1e-10)


def test_regression_after_correlation_analysis():
    model = cv.SemanticMatching(cca_components=3, cca_reg=0.2).fit(ARRAYS, Y)
    canonical = cv.MCCA(3, reg=0.2).fit(ARRAYS).transform(ARRAYS)
    for C, Z in zip(canonical, model.transform(ARRAYS), strict=True):
        variates = C * np.sqrt(len(Y))
        assert np.all(np.abs(np.square(variates).mean(axis=0) - 1.0) < 0.5)  # not exactly 1, because of the ridge
        expected = LogisticRegression(max_iter=1000).fit(variates, Y).predict_proba(variates)
        np.testing.assert_allclose(Z, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e-6])
def test_posteriors_that_are_all_alike_are_warned_of(scale):
    small = [X * scale for X in ARRAYS]
    with pytest.warns(
        UserWarning, match=r"samples of view 'view\d' alike: scale the views, for example with V"
    ) as told:
        cv.SemanticMatching().fit(small, Y)
    assert len(told) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        latents = make_pipeline(cv.ViewScaler(), cv.SemanticMatching(C=1e-4)).fit(small, Y).transform(small)[0]
    assert np.ptp(latents, axis=0).max() > 1e-3


def test_regressions_in_threads_leave_the_warning_filters_alone():
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(cv.SemanticMatching().fit, ARRAYS, Y) for _ in range(30)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
        found, warnings.filters[:] = list(warnings.filters), before
    assert found == before


def test_every_view_needs_every_class():
    views = cv.Views(ARRAYS, mask=np.column_stack([Y > 1, np.ones(60, dtype=bool)]))
    three = cv.Views([*ARRAYS, ARRAYS[0]], mask=np.column_stack([Y > 1, np.ones((60, 2), dtype=bool)]))
    assert cv.SemanticMatching().fit(views, Y).n_components_ == 4  # samples of one view alone do not count
    with pytest.raises(
        cv.exceptions.NotApplicableError, match="'view0' has none of 2 of the 6 classes: leave them out"
    ):
        cv.SemanticMatching().fit(three, Y)


# NCA.


def test_nca_is_that_of_scikit_learn():
    arrays, y = make(sizes=(5, 5))
    model = cv.NCA(2, scale=3.0).fit(arrays, y)
    pooled = np.concatenate([X - X.mean(axis=0) for X in arrays])
    scaled = pooled * np.sqrt(3.0 / np.square(pooled).sum(axis=1).mean())
    expected = NeighborhoodComponentsAnalysis(2, random_state=0).fit_transform(scaled, np.tile(y, 2))
    latent = np.concatenate(model.transform(arrays))
    np.testing.assert_allclose(pairwise_distances(latent), pairwise_distances(expected), atol=1e-8)
    np.testing.assert_allclose(np.cov(latent.T), np.diag(model.eigenvalues_), atol=1e-8)
    assert model.eigenvalues_[0] > model.eigenvalues_[1] > 0


def test_nca_needs_equal_widths():
    with pytest.raises(cv.exceptions.NotApplicableError, match="NCA needs views of equal width, got 6, 4"):
        cv.NCA(2).fit(ARRAYS, Y)
    assert cv.NCA(50, max_iter=2).fit(make(sizes=(5, 5))[0], Y).n_components_ == 5


# By name.


def test_names():
    assert list(cv.BASELINES) == ["RawFeatures", "Contrastive", "SemanticMatching", "NCA"]
    search = cv.tune("semantic-matching", ARRAYS, Y, n_iter=2, n_folds=2)
    assert isinstance(search.best_estimator_[-1], cv.SemanticMatching)
    with pytest.raises(ValueError, match=r"unknown method 'SupCon': use one of .*, KMvHE, RawFeatures, Contrastive"):
        cv.tune("SupCon", ARRAYS, Y)


def test_compare(tmp_path, monkeypatch):
    monkeypatch.setitem(SEARCH_SPACES, "Contrastive", {"learning_rate": [0.05], "max_epochs": [20]})
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    options = ["--repeats", 1, "--n-iter", 2, "--train", 5, "--jobs", 1, "--no-static", "--json"]
    names = "MvHE,contrastive,SemanticMatching,NCA"
    result = run("compare", tmp_path / "data.npz", "-o", tmp_path / "out", "--methods", names, *options)
    found = {entry["row"]: entry for entry in json.loads(result.stdout)["entries"]}
    assert {"MvHE", "Contrastive", "SemanticMatching"} <= found.keys()
    assert found["Contrastive"]["mean"] > 100 / 6
    assert "Not applicable: NCA: NCA needs views of equal width" in result.stderr


def test_fit_and_tune_commands(tmp_path):
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    parameters = ("-p", "hidden=5", "-p", "max_epochs=2")
    run("fit", tmp_path / "data.npz", "-o", tmp_path / "a", "--method", "contrastive", *parameters)
    assert cv.load(tmp_path / "a")[-1].hidden == 5
    options = ("--method", "SemanticMatching", "--n-iter", 2, "--n-folds", 2)
    run("tune", tmp_path / "data.npz", "-o", tmp_path / "b", *options)
    assert isinstance(cv.load(tmp_path / "b").best_estimator_[-1], cv.SemanticMatching)


def test_nca_says_what_it_does(monkeypatch):
    told = []
    monkeypatch.setattr(neighbourhood, "report", lambda now: told.append(now))
    cv.NCA(2, max_iter=1).fit(make(sizes=(5, 5))[0], Y)
    assert set(told) == {"maximising the objective"}
