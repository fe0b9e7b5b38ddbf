"""Heads trained with a supervised contrastive loss."""

from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.preprocessing import normalize

from crossview._config import get_config
from crossview._progress import progress
from crossview._schema import VIEWS, Schema, has_shape
from crossview._types import Array, Indices, Mask
from crossview._validation import check_choice, check_count, check_flag, check_weight
from crossview.embeddings._base import Embedding, SearchSpace
from crossview.engines import product
from crossview.views import ViewInput

__all__ = ["Contrastive"]

_MANY_CLASSES = 20  # from which on classes are held out
# Parameters that are those of the trainer.
_OF_TRAINER = (
    *("n_components", "hidden", "temperature", "learning_rate"),
    *("weight_decay", "batch_size", "max_epochs", "patience"),
)


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
    n_components : int
        d: dimension of the common space.
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
        What to hold out. ``"auto"`` holds out classes if there are 20 or more, and samples of every class otherwise.
        None trains for `max_epochs`.
    validation_fraction : float
        Share of the classes or samples to hold out.
    refit : bool
        Whether to train on all samples in the end. With False, the model is that of the best epoch, which has not seen
        the held-out samples.
    random_state : int
        Seed of the initial weights, batches and held-out samples.

    Attributes
    ----------
    projections_, biases_ : list of ndarray, each of shape (D_v, d) or (h, d), and (d,)
        Weights W_v and biases b_v of the last layer of each view.
    hidden_weights_, hidden_biases_ : list of ndarray, each of shape (D_v, h), and (h,)
        Weights V_v and biases c_v of the hidden layer, if there is one.
    means_, view_names_, n_features_, feature_names_, image_shape_
        As in `MvHE`.
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
    _nonnegative: ClassVar[tuple[str, ...]] = ("weight_decay",)
    center = True

    projections_: list[Array]
    biases_: list[Array]
    hidden_weights_: list[Array]
    hidden_biases_: list[Array]
    n_epochs_: int
    _schema: ClassVar[Schema] = {
        **VIEWS,
        "means_": ["D"],
        "n_epochs_": int,
        "hidden_weights_?": ["D h"],
        "hidden_biases_?": ["h"],
        "projections_": [lambda value, sizes: has_shape(value, "h d" if "h" in sizes else "D d", sizes)],
        "biases_": ["d"],
    }

    def __init__(
        self,
        n_components: int = 64,
        *,
        hidden: int | None = None,
        temperature: float = 0.3,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        batch_size: int = 1024,
        max_epochs: int = 300,
        patience: int = 10,
        validation: str | None = "auto",
        validation_fraction: float = 0.2,
        refit: bool = True,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.temperature = temperature
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation = validation
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.random_state = random_state

    def fit(self, views: ViewInput, y: ArrayLike | None = None) -> Self:
        """Train the heads.

        Parameters
        ----------
        views, y
            As in `MvHE.fit`. Every sample counts in the views that have it.

        Returns
        -------
        self
            The fitted model.
        """
        data = self._prepare(views, y)
        held_out = self._held_out(data.labels)
        training = _training()
        given = {name: getattr(self, name) for name in _OF_TRAINER}
        trainer = training.Trainer(**given, seed=self.random_state, device=get_config()["device"] or "cpu")
        scales = [_root_mean_square(X, seen) for X, seen in zip(data.arrays, data.mask.T, strict=True)]
        nodes = training.Nodes([X / s for X, s in zip(data.arrays, scales, strict=True)], data.mask, data.labels)
        total = self.max_epochs * (2 if self.refit and held_out is not None else 1)
        with progress("Training heads", total, unit="epochs") as advance:
            heads, self.n_epochs_ = trainer.fit(nodes, held_out, self.refit, advance)
        for head, scale in zip(heads, scales, strict=True):
            head[0] = head[0][0] / scale, head[0][1]
        self._store_heads(heads)
        self.means_ = data.means
        self._remember(data.views)
        return self

    def _store_heads(self, heads: list[Any]) -> None:
        """Store weights and biases by layer."""
        for name in ("hidden_weights_", "hidden_biases_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.hidden is not None:
            self.hidden_weights_, self.hidden_biases_ = ([head[0][k] for head in heads] for k in range(2))
        self.projections_, self.biases_ = ([head[-1][k] for head in heads] for k in range(2))

    def _check_params(self, n_views: int) -> None:
        for name in ("batch_size", "max_epochs", "patience"):
            check_count(getattr(self, name), name, least=2 if name == "batch_size" else 1)
        if self.hidden is not None:
            check_count(self.hidden, "hidden", least=1)
        for name in ("temperature", "learning_rate", "validation_fraction"):
            check_weight(getattr(self, name), name, positive=True)
        if self.validation_fraction >= 1.0:
            raise ValueError(f"validation_fraction must be below 1, got {self.validation_fraction!r}.")
        if self.validation is not None:
            check_choice(self.validation, "validation", ("auto", "classes", "samples"))
        check_count(self.random_state, "random_state", least=0)
        check_flag(self.refit, "refit")

    def _held_out(self, classes: Indices) -> Mask | None:
        """Which samples to hold out."""
        kind, n_classes = self.validation, int(classes.max()) + 1
        if kind is None:
            return None
        if kind == "auto":
            kind = "classes" if n_classes >= _MANY_CLASSES else "samples"
        if kind == "classes" and n_classes < 4:
            raise ValueError(f"cannot hold out 2 of {n_classes} classes: use validation='samples' or None.")
        held_out = _held_out_rows(classes, kind, self.validation_fraction, np.random.default_rng(self.random_state))
        if held_out.sum() < 2:
            raise ValueError("there are too few samples to hold some out: use validation=None.")
        return held_out

    def _map(self, X: Array, v: int) -> Array:
        X = X - self.means_[v]
        if hasattr(self, "hidden_weights_"):
            X = np.maximum(product(X, self.hidden_weights_[v]) + self.hidden_biases_[v], 0.0)
        latent: Array = normalize(product(X, self.projections_[v]) + self.biases_[v])
        return latent


def _root_mean_square(X: Array, seen: Mask) -> float:
    """Of the samples that a view has; the others are zero."""
    return float(np.sqrt(np.square(X).sum() / (seen.sum() * X.shape[1])))


def _held_out_rows(classes: Indices, kind: str, share: float, random: Generator) -> Mask:
    """A share of the classes, or of the samples of every class.

    Two classes at least are on either side and, of a class with several samples, one sample at least.
    """
    n_classes = int(classes.max()) + 1
    if kind == "classes":
        chosen = random.permutation(n_classes)[: np.clip(round(share * n_classes), 2, n_classes - 2)]
        return np.isin(classes, chosen)
    held_out = np.zeros(len(classes), dtype=bool)
    for c in range(n_classes):
        rows = random.permutation(np.flatnonzero(classes == c))
        if len(rows) > 1:
            held_out[rows[: np.clip(round(share * len(rows)), 1, len(rows) - 1)]] = True
    return held_out


def _training() -> Any:
    """The module that trains heads, which needs PyTorch."""
    try:
        return import_module("crossview.embeddings._contrastive")
    except ImportError as error:
        raise ImportError("Contrastive needs PyTorch: pip install 'crossview[torch]'.") from error
