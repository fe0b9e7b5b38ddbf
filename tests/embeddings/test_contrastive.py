"""Contrastive: its loss and gradient by the formula, and what its training promises."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import oracles
import pytest
from methods import make, some_mask
from sklearn.base import clone

import crossview as cv
from crossview.embeddings.contrastive import _Trainer

torch = pytest.importorskip("torch")

ARRAYS, Y = make()


def trainer(y=Y, mask=None, arrays=ARRAYS, **changes):
    mask = np.ones((60, 2), dtype=bool) if mask is None else mask
    return _Trainer(
        cv.Contrastive(4, random_state=0, learning_rate=0.01, weight_decay=0.1).set_params(**changes), arrays, mask, y
    )


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_loss_is_the_formula(temperature):
    y, mask = np.append(Y[:-1], 99), some_mask()  # the only positive of the last sample is its counterpart
    mask[-1] = True
    trained = trainer(y, mask, temperature=temperature)
    heads = trained.initial_heads()
    latents = []
    for X, seen, [(W, b)] in zip(ARRAYS, mask.T, heads, strict=True):
        Z = X[seen] @ W.detach().numpy() + b.detach().numpy()
        latents += [z / np.linalg.norm(z) for z in Z]
    classes = [c for seen in mask.T for c in y[seen]]
    expected = oracles.supervised_contrastive_loss(latents, classes, temperature)
    loss = trained.loss(heads, trained.batch(np.arange(60)))
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("hidden", [None, 5])
def test_gradient_is_that_of_the_loss(hidden):
    trained = trainer(hidden=hidden)
    heads, batch = trained.initial_heads(), trained.batch(np.arange(60))
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


def test_the_number_of_epochs_has_the_smallest_held_out_loss():
    trained, train, held_out = trainer(learning_rate=0.03, patience=20), np.flatnonzero(Y < 4), np.flatnonzero(Y >= 4)
    _, n_epochs = trained.train(train, held_out, 20)
    losses = []
    for epochs in range(1, 21):
        layers, _ = trained.train(train, None, epochs)
        heads = [[tuple(map(trained.tensor, layer)) for layer in head] for head in layers]
        losses.append(float(trained.loss(heads, trained.batch(held_out))))
    assert n_epochs == 1 + np.argmin(losses)
    assert 1 < n_epochs < 20
    assert losses[0] > losses[4] > losses[n_epochs - 1] + 0.01
    assert trainer(learning_rate=0.3, patience=3).train(train, held_out, 10_000)[1] < 100


def test_the_heads_are_trained_on_all_samples():
    model = cv.Contrastive(3, random_state=0, learning_rate=0.03, max_epochs=30).fit(ARRAYS, Y)
    again = cv.Contrastive(3, random_state=0, learning_rate=0.03, max_epochs=model.n_epochs_, validation=None).fit(
        ARRAYS, Y
    )
    np.testing.assert_array_equal(model.projections_[0], again.projections_[0])


@pytest.mark.parametrize("validation", [None, "samples"])
def test_training_that_diverges(validation):
    with pytest.raises(ValueError, match=r"training diverged: use a learning_rate below 1e\+38"):
        cv.Contrastive(random_state=0, learning_rate=1e38, max_epochs=5, validation=validation).fit(ARRAYS, Y)


@pytest.mark.parametrize(("kind", "n_classes"), [("classes", 6), ("samples", 6), ("auto", 6), ("auto", 20)])
def test_what_is_held_out(kind, n_classes):
    y = np.arange(60) % n_classes
    held_out = cv.Contrastive(random_state=0, validation=kind)._held_out(y)
    shared = np.isin(y[held_out], y[~held_out])
    assert shared.all() == shared.any() == (kind == "samples" or (kind, n_classes) == ("auto", 6))
    assert held_out.sum() == (20 if kind == "classes" else 12)
    assert min(len(np.unique(y[held_out])), len(np.unique(y[~held_out]))) >= 2


def test_nothing_can_be_held_out():
    with pytest.raises(ValueError, match="cannot hold out 2 of 3 classes: use validation='samples'"):
        cv.Contrastive(random_state=0, validation="classes").fit(ARRAYS, Y % 3)
    with pytest.raises(ValueError, match="too few samples to hold some out: use validation=None"):
        cv.Contrastive(random_state=0, validation="samples").fit(ARRAYS, np.arange(60))
    assert cv.Contrastive(random_state=0, validation=None, max_epochs=2).fit(ARRAYS, np.arange(60)).n_epochs_ == 2


@pytest.mark.parametrize("m", [7, 64, 200])
def test_batches(m):
    rng = np.random.default_rng(0)
    classes = rng.integers(10, size=m)
    batches = trainer(classes, batch_size=16).split(np.arange(m), rng)
    assert sorted(np.concatenate(batches)) == list(range(m))
    assert max(map(len, batches)) <= 16
    assert len(batches) == -(-m // 16)
    if m == 200:  # 20 samples per class: most come in groups of four
        groups = [np.unique(classes[rows], return_counts=True)[1] for rows in batches]
        assert np.mean(np.concatenate(groups) >= 4) > 0.5


def test_small_batches_learn_as_well():
    for size in (1000, 20):
        model = cv.Contrastive(8, random_state=0, learning_rate=0.02, max_epochs=40, validation=None, batch_size=size)
        assert model.fit(ARRAYS, Y).score(ARRAYS, Y) > 0.6


def test_transform_needs_the_formula_only():
    model = cv.Contrastive(3, random_state=0, hidden=4, max_epochs=3, validation=None).fit(ARRAYS, Y)
    x = ARRAYS[1][7]
    hidden = np.maximum(0.0, model.hidden_weights_[1].T @ (x - model.means_[1]) + model.hidden_biases_[1])
    z = model.projections_[1].T @ hidden + model.biases_[1]
    np.testing.assert_allclose(model.transform(ARRAYS)[1][7], z / np.linalg.norm(z), atol=1e-12)
    linear = model.set_params(hidden=None).fit(ARRAYS, Y)
    assert not hasattr(linear, "hidden_weights_")
    assert linear.projections_[1].shape == (4, 3)


def test_units_do_not_matter():
    model = cv.Contrastive(3, random_state=0, max_epochs=10)
    expected = clone(model).fit(ARRAYS, Y).transform(ARRAYS)
    scaled = [1e3 * X + 5.0 for X in ARRAYS]
    for a, b in zip(clone(model).fit(scaled, Y).transform(scaled), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_seeds():
    fits = [cv.Contrastive(3, max_epochs=2, random_state=seed).fit(ARRAYS, Y).projections_[0] for seed in (0, 1)]
    assert not np.allclose(*fits)
    (first,), (second,) = trainer(arrays=[ARRAYS[0]] * 2, random_state=None).initial_heads()
    assert torch.equal(first[0], second[0])  # as features may correspond
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    cv.Contrastive(3, random_state=0, max_epochs=2).fit(ARRAYS, Y)
    assert torch.rand(1) == expected  # the state of the caller's generator is left alone


def test_hidden_layers_unroll_manifolds():
    data = cv.datasets.make_manifolds(n_samples=200, random_state=0)
    linear, curved = (
        cv.Contrastive(
            16, random_state=0, hidden=hidden, temperature=0.5, learning_rate=0.02, max_epochs=80, validation=None
        )
        .fit(data.views[:100], data.y[:100])
        .score(data.views[100:], data.y[100:])
        for hidden in (None, 64)
    )
    assert curved > linear + 0.1


def test_torch_is_imported_only_to_train(tmp_path):
    model = cv.Contrastive(3, random_state=0, hidden=4, max_epochs=2).fit(ARRAYS, Y)
    cv.save(model, tmp_path / "model")
    np.save(tmp_path / "X.npy", ARRAYS[1])
    code = f"""
import sys
import numpy as np
import crossview as cv
model, X = cv.load({str(tmp_path / "model")!r}), np.load({str(tmp_path / "X.npy")!r})
np.save({str(tmp_path / "Z.npy")!r}, model.transform_view(X, 1))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "Z.npy"), model.transform_view(ARRAYS[1], 1))


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'crossview\[torch\]'"):
        cv.Contrastive(random_state=0).fit(ARRAYS, Y)
