"""The embeddings, each with parameters under which small data have well-defined answers."""

from __future__ import annotations

import numpy as np

import crossview as cv

ALL = [
    cv.LDA(2),
    cv.LDA(2, coupling=0.0),
    cv.DLA(2),
    cv.DLA(2, n_within=40, coupling=0.0),
    cv.MvDLA(2),
    cv.GMA(2),
    cv.MULDA(2),
    cv.MvDA(2),
    cv.MvDAVC(2),
    cv.MvMDA(2),
    cv.MvHE(2),
    cv.KMvHE(2),
    cv.PCA(2),
    cv.LPP(2),
    cv.MCCA(2),
    cv.CCA(2),
    cv.PLS(2),
    cv.KCCA(2),
]
COUPLED = [
    cls(2, coupling=c, whitening=reg)
    for cls in (cv.MvHE, cv.MvDA, cv.MvDLA, cv.LDA)
    for c in (0.0, 4.0, np.inf)
    for reg in (None, 0.5)
]
ALTERNATIVES = [
    cv.RawFeatures(),
    cv.Contrastive(4, random_state=0, learning_rate=0.05, max_epochs=20),
    cv.Contrastive(3, random_state=0, hidden=4, learning_rate=0.05, max_epochs=10, validation=None),
    cv.SemanticMatching(),
    cv.SemanticMatching(log=True, cca_components=2),
    cv.NCA(2, max_iter=5),
]
EVERY = [*ALL, *ALTERNATIVES]
SUPERVISED = [model for model in EVERY if model._needs_labels]
TWO_VIEWS_ONLY = [model for model in EVERY if model._needs_two_views]
ANY_VIEWS = [model for model in ALL if not model._needs_two_views]


def make(m=60, sizes=(6, 4), n_classes=6, seed=0):
    """Views of shared factors, with classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    z = rng.normal(size=(n_classes, 4))[y] + 0.4 * rng.normal(size=(m, 4))
    return [np.tanh(z @ rng.normal(size=(4, D))) + 0.1 * rng.normal(size=(m, D)) for D in sizes], y


def make_noisy(m=120, D=60, n_classes=12, seed=0):
    """Views with many features of noise: discriminants of them need a large ridge."""
    random = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    means = random.normal(size=(n_classes, 4))
    views = [
        np.hstack([1.5 * means[y] @ random.normal(size=(4, 4)), np.zeros((m, D - 4))]) + random.normal(size=(m, D))
        for _ in range(2)
    ]
    return views, y


def make_for(model, sizes=(6, 4), **options):
    """`make`, with views of equal width if the model needs them."""
    return make(sizes=sizes[:1] * len(sizes) if needs_equal_widths(model) else sizes, **options)


def needs_equal_widths(model):
    return model._needs_equal_widths or getattr(model, "coupling", 0) not in (0, "auto")


def some_mask(m=60, n=2, share=0.8):
    """Which samples views have: all of the first twelve, and a share of the others."""
    mask = np.random.default_rng(0).random((m, n)) < share
    mask[:12] = True
    return mask


def improves(value, W, normalise, seed, size, n_trials=200):
    """Whether some random change of W, brought back to the constraint, gives a larger value."""
    rng = np.random.default_rng(seed)
    best = value(W)
    return any(value(normalise(W + size * rng.normal(size=W.shape))) > best + 1e-9 * abs(best) for _ in range(n_trials))
