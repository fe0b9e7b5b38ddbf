"""Heads trained with a supervised contrastive loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from crossview._config import get_config
from crossview._parameters import parameters
from crossview._progress import report
from crossview._schema import VIEWS, Schema, has_shape
from crossview._types import Array, Indices, Mask
from crossview._validation import check_choice, check_count, check_weight
from crossview.embeddings._base import Embedding, SearchSpace
from crossview.engines import product
from crossview.samples import Samples
from crossview.views import Views

__all__ = ["Contrastive"]

_MANY_CLASSES = 20  # from which on classes are held out
_HELD_OUT = 0.2  # share of classes or samples
_SAMPLES_PER_CLASS = 4  # in a batch, next to each other, so that anchors have positives besides their counterparts


@parameters
class Contrastive(Embedding):
    r"""One head per view, linear or with a hidden layer, trained with the supervised contrastive loss.

    The head of view v maps a sample x to a unit vector z: it normalises :math:`W_v^\top x + b_v` or, with a hidden
    layer, :math:`W_v^\top \max(0, V_v^\top x + c_v) + b_v`. Training minimises, by AdamW [2]_, the mean over all
    anchors i, which are all samples in all views, of [1]_

    .. math::
        -\frac{1}{|P(i)|} \sum_{p \in P(i)}
        \log \frac{\exp(z_i^\top z_p / \tau)}{\sum_{a \neq i} \exp(z_i^\top z_a / \tau)}

    where the positives P(i) are the other samples of the class of i, in any view, its own counterparts included.

    The number of epochs is that with the smallest loss on held-out classes or samples; then the heads are trained again
    for as many epochs on all samples. Views are centred and divided by their root mean square first; the relative
    scales of features within a view are left to `ViewScaler`.

    Parameters
    ----------
    hidden : int, optional
        Width of the hidden layer; None for linear heads.
    temperature : float
        τ.
    learning_rate, weight_decay : float
        Of AdamW. Biases do not decay.
    batch_size : int
        Number of samples, each in all its views, per step. Batches are balanced by class. Up to as many samples, all of
        them are one batch.
    max_epochs : int
        Maximum number of passes over the training samples.
    patience : int
        Stop if the loss on held-out samples has not improved for this many epochs.
    validation : {"auto", "classes", "samples"}, optional
        What to hold out, a fifth. ``"auto"`` holds out classes if there are 20 or more, and samples of every class
        otherwise. None trains for `max_epochs`.
    random_state : int, optional
        Seed of the initial weights, batches and held-out samples.

    Attributes
    ----------
    projections_, biases_ : list of ndarray, each of shape (D_v, d) or (h, d), and (d,)
        Weights W_v and biases b_v of the last layer of each view.
    hidden_weights_, hidden_biases_ : list of ndarray, each of shape (D_v, h), and (h,)
        Weights V_v and biases c_v of the hidden layer, if there is one.
    n_epochs_ : int
        Number of epochs.

    Notes
    -----
    Fitting needs PyTorch (``pip install 'crossview[torch]'``); transforming does not. Training is in single precision.
    It is deterministic on a CPU with a given number of threads; another device gives slightly different heads.

    References
    ----------
    .. [1] P. Khosla, P. Teterwak, C. Wang, A. Sarna, Y. Tian, P. Isola, A. Maschinot, C. Liu, D. Krishnan, "Supervised
       Contrastive Learning", NeurIPS 2020.
    .. [2] I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

    Examples
    --------
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.Contrastive(hidden=64, temperature=0.5).fit(data.views[:300], data.y[:300])
    >>> bool(model.score(data.views[300:600], data.y[300:600]) > 0.5)
    True
    """

    n_components: int = field(default=64, kw_only=False)
    hidden: int | None = None
    temperature: float = 0.3
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    batch_size: int = 1024
    max_epochs: int = 300
    patience: int = 10
    validation: str | None = "auto"
    random_state: int | None = None

    search_space: ClassVar[SearchSpace] = {
        "n_components": [64, 128],
        "hidden": [None, 128, 512],
        "temperature": [0.1, 0.3, 1.0],
        "learning_rate": [3e-3, 1e-2],
    }
    _needs_labels = True
    _weighs_pairs = False
    _takes_tensors = False
    _nested_components = False
    _counted = "epochs"
    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": ["D"],
        "n_epochs_": int,
        "hidden_weights_?": ["D h"],
        "hidden_biases_?": ["h"],
        "projections_": [lambda value, sizes: has_shape(value, "h d" if "h" in sizes else "D d", sizes)],
        "biases_": ["d"],
    }

    def _check_params(self, views: Views) -> None:
        for name, least in (("batch_size", 2), ("max_epochs", 1), ("patience", 1)):
            check_count(getattr(self, name), name, least=least)
        if self.hidden is not None:
            check_count(self.hidden, "hidden", least=1)
        check_weight(self.weight_decay, "weight_decay")
        for name in ("temperature", "learning_rate"):
            check_weight(getattr(self, name), name, positive=True)
        if self.validation is not None:
            check_choice(self.validation, "validation", ("auto", "classes", "samples"))

    def _learn(self, data: Samples) -> None:
        every, held_out = np.arange(len(data)), self._held_out(data.labels)
        scales = [
            np.sqrt(np.square(X).sum() / (seen.sum() * X.shape[1]))
            for X, seen in zip(data.arrays, data.mask.T, strict=True)
        ]
        arrays = [X / scale for X, scale in zip(data.arrays, scales, strict=True)]
        trainer = _Trainer(self, arrays, data.mask, data.labels)
        n_epochs = self.max_epochs
        if held_out is not None:
            _, n_epochs = trainer.train(every[~held_out], every[held_out], n_epochs)
        heads, _ = trainer.train(every, None, n_epochs)
        if not n_epochs or not all(np.isfinite(W).all() for head in heads for W, _ in head):
            raise ValueError(f"training diverged: use a learning_rate below {self.learning_rate:g}.")
        for head, scale in zip(heads, scales, strict=True):
            head[0] = head[0][0] / scale, head[0][1]
        self._store_heads(heads)
        self.means_, self.n_epochs_ = data.means, n_epochs

    def _store_heads(self, heads: list[Any]) -> None:
        """Store weights and biases by layer."""
        for name in ("hidden_weights_", "hidden_biases_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.hidden is not None:
            self.hidden_weights_, self.hidden_biases_ = ([head[0][k] for head in heads] for k in range(2))
        self.projections_, self.biases_ = ([head[-1][k] for head in heads] for k in range(2))

    def _held_out(self, classes: Indices) -> Mask | None:
        """Which samples to hold out: a fifth of the classes, or of the samples of every class.

        Two classes at least are on either side and, of a class with several samples, one sample at least.
        """
        kind, n_classes = self.validation, int(classes.max()) + 1
        if kind is None:
            return None
        random = np.random.default_rng(self.random_state)
        if kind == "classes" or (kind == "auto" and n_classes >= _MANY_CLASSES):
            if n_classes < 4:
                raise ValueError(f"cannot hold out 2 of {n_classes} classes: use validation='samples' or None.")
            chosen = random.permutation(n_classes)[: np.clip(round(_HELD_OUT * n_classes), 2, n_classes - 2)]
            return np.isin(classes, chosen)
        held_out = np.zeros(len(classes), dtype=bool)
        for c in range(n_classes):
            rows = random.permutation(np.flatnonzero(classes == c))
            if len(rows) > 1:
                held_out[rows[: np.clip(round(_HELD_OUT * len(rows)), 1, len(rows) - 1)]] = True
        if held_out.sum() < 2:
            raise ValueError("there are too few samples to hold some out: use validation=None.")
        return held_out

    def _map(self, X: Array, v: int) -> Array:
        X = X - self.means_[v]
        if hasattr(self, "hidden_weights_"):
            X = np.maximum(product(X, self.hidden_weights_[v]) + self.hidden_biases_[v], 0.0)
        latent: Array = normalize(product(X, self.projections_[v]) + self.biases_[v])
        return latent


class _Batch(NamedTuple):
    """The samples that are present, of each view, and what the loss needs to know about the classes of all of them."""

    arrays: list[Any]
    indicators: Any
    n_positives: Any


class _Trainer:
    """Trains one head per view, a list of layers, each a matrix of weights (inputs, outputs) and a vector of biases.

    The samples are (m, D_v) of each view; the mask, (m, n), tells which are present; each is so in two views at least,
    so that every anchor has a positive. The parameters are those of the model.
    """

    def __init__(self, model: Contrastive, arrays: Sequence[Array], mask: Mask, classes: Indices) -> None:
        try:
            self.torch: Any = import_module("torch")
        except ImportError as error:
            raise ImportError("Contrastive needs PyTorch: pip install 'crossview[torch]'.") from error
        self.model, self.arrays, self.mask, self.classes = model, arrays, mask, classes
        self.seed = np.random.SeedSequence(model.random_state).entropy  # one for all heads, also without a seed

    def train(self, rows: Indices, held_out: Indices | None, max_epochs: int) -> tuple[list[Any], int]:
        """Train on some rows; the heads, and the number of epochs, or that with the smallest loss on rows held out."""
        torch, model, heads = self.torch, self.model, self.initial_heads()
        weights, biases = ([layer[k] for head in heads for layer in head] for k in range(2))
        groups = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=model.learning_rate, weight_decay=model.weight_decay, fused=True)
        whole = [self.batch(rows)] if len(rows) <= model.batch_size else None
        validation = None if held_out is None else [*map(self.batch, self.split(held_out, self.random()))]
        random, best_epoch, best_loss = self.random(), 0, np.inf
        report(more=max_epochs, now="training heads")
        for epoch in range(1, max_epochs + 1):
            for batch in whole or map(self.batch, self.split(rows, random)):
                optimiser.zero_grad()
                self.loss(heads, batch).backward()
                optimiser.step()
            report(1)
            if validation is None:
                continue
            with torch.no_grad():
                losses = [float(self.loss(heads, batch)) for batch in validation]
            loss = float(np.average(losses, weights=[len(batch.n_positives) for batch in validation]))
            if loss < best_loss:
                best_epoch, best_loss = epoch, loss
            elif epoch >= best_epoch + model.patience:
                break
        layers = [[tuple(part.detach().cpu().numpy().astype(np.float64) for part in pair) for pair in h] for h in heads]
        return layers, max_epochs if validation is None else best_epoch

    def random(self) -> Generator:
        return np.random.default_rng(self.seed)

    def tensor(self, values: NDArray[Any]) -> Any:
        return self.torch.as_tensor(values, dtype=self.torch.float32, device=get_config()["device"] or "cpu")

    def initial_heads(self) -> list[Any]:
        """Random layers. Those of views of equal width are equal: such views often have features in common."""
        heads, (hidden, d) = [], (self.model.hidden, self.model.n_components)
        for X in self.arrays:
            random, inner = self.random(), [] if hidden is None else [hidden]
            # Biases are not zero, because the length of a zero vector has no derivative.
            layers = [
                [random.normal(scale=inputs**-0.5, size=size) for size in ((inputs, outputs), outputs)]
                for inputs, outputs in pairwise([X.shape[1], *inner, d])
            ]
            heads.append([tuple(self.tensor(values).requires_grad_() for values in layer) for layer in layers])
        return heads

    def split(self, rows: Indices, random: Generator) -> list[Indices]:
        """Random batches of about equal size, in which samples of a class come in groups of at most four."""
        m, classes = len(rows), self.classes[rows]
        order = np.lexsort((random.random(m), classes))
        starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
        place = np.arange(m) - np.repeat(starts, np.diff(np.append(starts, m)))  # of a sample in its class
        group = np.cumsum(place % _SAMPLES_PER_CLASS == 0) - 1
        shuffled = order[np.argsort(random.permutation(group[-1] + 1)[group], kind="stable")]
        return [rows[part] for part in np.array_split(shuffled, -(-m // self.model.batch_size))]

    def batch(self, rows: Indices) -> _Batch:
        """Some rows as tensors."""
        present = [rows[seen] for seen in self.mask[rows].T]
        codes, counts = np.unique(self.classes[np.concatenate(present)], return_inverse=True, return_counts=True)[1:]
        # Sums over classes are products with indicators, because sums by index are not deterministic on a GPU.
        tables = np.eye(len(counts))[codes], counts[codes] - 1
        return _Batch([self.tensor(X[k]) for X, k in zip(self.arrays, present, strict=True)], *map(self.tensor, tables))

    def loss(self, heads: Sequence[Any], batch: _Batch) -> Any:
        """Mean over the anchors of the loss in `crossview.Contrastive`.

        The positives of an anchor are summed by class, so that only one matrix of anchors × samples is differentiated.
        """
        torch, temperature, units = self.torch, self.model.temperature, []
        for X, (*hidden, (W, b)) in zip(batch.arrays, heads, strict=True):
            for V, c in hidden:
                X = torch.relu(torch.addmm(c, X, V))
            units.append(torch.nn.functional.normalize(torch.addmm(b, X, W), dim=1))
        Z = torch.cat(units)
        similarities = (Z @ (Z.T / temperature)).fill_diagonal_(-torch.inf)  # an anchor is not compared with itself
        positives = batch.indicators @ (batch.indicators.T @ Z) - Z
        to_positives = (Z * positives).sum(dim=1) / (temperature * batch.n_positives)
        return (torch.logsumexp(similarities, dim=1) - to_positives).mean()
