"""Training of one head per view with a supervised contrastive loss: import this module only to train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from crossview._progress import Advance
from crossview._types import Array, Indices, Mask

Layers = list[tuple[Array, Array]]  # weights (inputs, outputs) and biases (outputs,) of the layers of a head
Head = list[tuple[torch.Tensor, torch.Tensor]]  # the same during training

_SAMPLES_PER_CLASS = 4  # in a batch, next to each other, so that anchors have positives besides their counterparts


@dataclass(frozen=True)
class Nodes:
    """Samples of all views: (m, D_v) each, which of them are present, (m, n), and their classes, (m,)."""

    arrays: list[Array]
    mask: Mask
    classes: Indices

    def __getitem__(self, rows: Mask | Indices) -> Nodes:
        return Nodes([X[rows] for X in self.arrays], self.mask[rows], self.classes[rows])

    def batches(self, size: int, random: Generator) -> Iterator[Nodes]:
        """Split all samples at random into batches in which some samples of a class stay together."""
        for rows in batch_rows(self.classes, size, random):
            yield self[rows]


class Batch:
    """The samples that are present in a batch, as tensors, and what the loss needs to know about their classes.

    Every sample is present in two views at least, so that every anchor has a positive.
    """

    def __init__(self, nodes: Nodes, device: str) -> None:
        present = list(nodes.mask.T)
        pairs = zip(nodes.arrays, present, strict=True)
        self.arrays = [torch.as_tensor(X[seen], dtype=torch.float32, device=device) for X, seen in pairs]
        _, codes, counts = np.unique(
            np.concatenate([nodes.classes[seen] for seen in present]), return_inverse=True, return_counts=True
        )
        # Sums over classes are products with indicators, because sums by index are not deterministic on a GPU.
        self.indicators, self.n_positives = (
            torch.as_tensor(table, dtype=torch.float32, device=device)
            for table in (np.eye(len(counts))[codes], counts[codes] - 1)
        )

    def __len__(self) -> int:
        return len(self.n_positives)

    def loss(self, Z: torch.Tensor, temperature: float) -> torch.Tensor:
        """Mean over the anchors of the loss in `crossview.Contrastive`; `Z` are the unit vectors of all samples.

        The positives of an anchor are summed by class, so that only one matrix of anchors × samples is differentiated.
        """
        similarities = (Z @ (Z.T / temperature)).fill_diagonal_(-torch.inf)  # an anchor is not compared with itself
        positives = self.indicators @ (self.indicators.T @ Z) - Z
        to_positives = (Z * positives).sum(dim=1) / (temperature * self.n_positives)
        return (torch.logsumexp(similarities, dim=1) - to_positives).mean()


@dataclass(frozen=True)
class Trainer:
    """How to train heads: the widths of the common space and of the hidden layer, if any, and the optimiser."""

    n_components: int
    hidden: int | None
    temperature: float
    learning_rate: float
    weight_decay: float
    batch_size: int
    max_epochs: int
    patience: int
    seed: int
    device: str

    def fit(self, nodes: Nodes, held_out: Mask | None, refit: bool, advance: Advance) -> tuple[list[Layers], int]:
        """The layers of every view's head, and the number of epochs.

        With samples held out, this is the number with the smallest loss on them. The heads are those of that epoch or,
        if `refit`, those of as many epochs on all samples.
        """
        if held_out is None:
            heads, n_epochs = self._train(nodes, None, advance)
        else:
            heads, n_epochs = self._train(nodes[~held_out], nodes[held_out], advance)
            if refit:
                heads, _ = replace(self, max_epochs=n_epochs)._train(nodes, None, advance)
        if not n_epochs or not all(np.isfinite(W).all() for head in heads for W, _ in head):
            raise ValueError(f"training diverged: use a learning_rate below {self.learning_rate:g}.")
        return heads, n_epochs

    def _train(self, nodes: Nodes, held_out: Nodes | None, advance: Advance) -> tuple[list[Layers], int]:
        heads = self.initial_heads([X.shape[1] for X in nodes.arrays])
        weights, biases = ([layer[k] for head in heads for layer in head] for k in range(2))
        groups: list[dict[str, Any]] = [{"params": weights}, {"params": biases, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)
        validation = None if held_out is None else self._validation_batches(held_out)
        best, best_epoch, best_loss = heads, 0, np.inf
        for epoch, batches in zip(range(1, self.max_epochs + 1), self._epochs(nodes), strict=False):
            for batch in batches:
                optimiser.zero_grad()
                self.loss(heads, batch).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            advance()
            if validation is None:
                continue
            loss = self._mean_loss(heads, validation)
            if loss < best_loss:
                best, best_epoch, best_loss = _copy(heads), epoch, loss
            elif epoch >= best_epoch + self.patience:
                break
        return (_as_arrays(heads), self.max_epochs) if validation is None else (_as_arrays(best), best_epoch)

    def initial_heads(self, widths: Sequence[int]) -> list[Head]:
        """Random layers. Those of views of equal width are equal: such views often have features in common."""
        heads = []
        for D in widths:
            random = np.random.default_rng(self.seed)
            sizes = [D, self.n_components] if self.hidden is None else [D, self.hidden, self.n_components]
            # Biases are not zero, because the length of a zero vector has no derivative.
            layers = [
                [random.normal(scale=inputs**-0.5, size=size) for size in ((inputs, outputs), outputs)]
                for inputs, outputs in pairwise(sizes)
            ]
            heads.append([(self._parameter(W), self._parameter(b)) for W, b in layers])
        return heads

    def _parameter(self, values: Array) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.device).requires_grad_()

    def _epochs(self, nodes: Nodes) -> Iterator[Iterator[Batch] | list[Batch]]:
        """The batches of every epoch; if one holds all samples, it is the same in all of them."""
        if len(nodes.classes) <= self.batch_size:
            whole = [Batch(nodes, self.device)]
            while True:
                yield whole
        random = np.random.default_rng(self.seed)
        while True:
            yield (Batch(part, self.device) for part in nodes.batches(self.batch_size, random))

    def _validation_batches(self, nodes: Nodes) -> list[Batch]:
        parts = nodes.batches(self.batch_size, np.random.default_rng(self.seed))
        return [Batch(part, self.device) for part in parts]

    def loss(self, heads: Sequence[Head], batch: Batch) -> torch.Tensor:
        """The loss of a batch."""
        return batch.loss(
            torch.cat([_apply(head, X) for head, X in zip(heads, batch.arrays, strict=True)]), self.temperature
        )

    def _mean_loss(self, heads: Sequence[Head], batches: Sequence[Batch]) -> float:
        with torch.no_grad():
            losses = [float(self.loss(heads, batch)) for batch in batches]
        return float(np.average(losses, weights=[len(batch) for batch in batches]))


def _apply(head: Head, X: torch.Tensor) -> torch.Tensor:
    """Map samples to unit vectors."""
    *hidden, (W, b) = head
    for V, c in hidden:
        X = torch.relu(torch.addmm(c, X, V))
    return torch.nn.functional.normalize(torch.addmm(b, X, W), dim=1)


def _copy(heads: Sequence[Head]) -> list[Head]:
    return [[(W.detach().clone(), b.detach().clone()) for W, b in head] for head in heads]


def _as_arrays(heads: Sequence[Head]) -> list[Layers]:
    return [[(_as_array(W), _as_array(b)) for W, b in head] for head in heads]


def _as_array(values: torch.Tensor) -> Array:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)


def batch_rows(classes: Indices, size: int, random: Generator) -> list[Indices]:
    """Rows of random batches of about equal size, in which samples of a class come in groups of at most four."""
    m = len(classes)
    order = np.lexsort((random.random(m), classes))
    starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
    place = np.arange(m) - np.repeat(starts, np.diff(np.append(starts, m)))  # of a sample in its class
    group = np.cumsum(place % _SAMPLES_PER_CLASS == 0) - 1
    shuffled = order[np.argsort(random.permutation(group[-1] + 1)[group], kind="stable")]
    return np.array_split(shuffled, -(-m // size))
