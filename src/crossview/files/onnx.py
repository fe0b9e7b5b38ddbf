"""Export of a fitted model's map of one view to ONNX, for use without Python."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from crossview._store import PathLike, write_atomically
from crossview._transformer import unwrap
from crossview._types import Array
from crossview._version import __version__
from crossview.embeddings._base import Embedding
from crossview.embeddings.baselines import RawFeatures, SemanticMatching
from crossview.embeddings.contrastive import Contrastive
from crossview.embeddings.kernel import KernelEmbedding
from crossview.feature_maps import ViewKernel
from crossview.kernels import Kernel, KernelMap
from crossview.matching.calibration import chosen_metric
from crossview.matching.classifier import CrossViewClassifier
from crossview.model_selection.committee import Committee
from crossview.preprocessing import ViewPCA, ViewScaler
from crossview.views import index_of_view

# Old enough for every runtime of the last years, new enough to have sums over axes that are given as input.
_OPSET = 17
_IR_VERSION = 8
_LARGEST = 2**31 - 2**20
_PIXELS = "grey values from 0 to 1 (ITU-R 601 luma, transparent pixels white), resized by Lanczos, row by row"
_KERNELS = ("rbf", "linear", "poly", "polynomial", "cosine", "sigmoid", "laplacian")


def export_onnx(model: Any, view: int | str, path: PathLike) -> None:
    """Write a fitted model's map of one view as an ONNX graph.

    The graph takes ``X``, (batch, D_v) in single precision, and gives ``latent``, (batch, d) in single precision: what
    ``transform_view`` gives for samples of this view. Steps before the embedding are part of it.

    The metadata have what a program needs besides, as text: ``distance`` (euclidean, or cosine, which is 1 minus the
    cosine), ``view`` and ``view_names``; for models of images ``image_height``, ``image_width`` and ``image_pixels``,
    how pixels become the values of ``X``; for matchers ``threshold``, ``temperature``, ``n_neighbors`` and
    ``unknown_label``, where they are set.

    Parameters
    ----------
    model : estimator
        A fitted embedding, a pipeline of `ViewScaler`, `ViewPCA` and an embedding, a committee of these, a search for
        one, or a matcher. Its kernel must not be precomputed or a function.
    view : int or str
        The view, by index or name.
    path : str or path
        The file. An older one of that name stays until the new one is complete.

    Notes
    -----
    Linear maps, and all steps before them, become one subtraction and one product in single precision. Kernel values
    are computed in double precision: their coefficients can be so large that single precision leaves nothing.

    Examples
    --------
    >>> import tempfile
    >>> import crossview as cv
    >>> data = cv.datasets.load_digits()
    >>> model = cv.KMvHE(n_components=5).fit(data.views[:200], data.y[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.export_onnx(model, "left", f"{folder}/left.onnx")
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'crossview[onnx]'.") from error
    members = _members(model)
    first = members[0][0]
    v = index_of_view(view, first.view_names_)
    kernels = [step.kernels_[v] for steps in members for step in steps if hasattr(step, "kernels_")]
    double = any(kernel.kernel != "linear" for kernel in kernels)
    graph = _Graph(onnx, np.float64 if double else np.float32)
    latents = [_latent(graph, steps, v) for steps in members]
    if isinstance(unwrap(model)[-1], Committee):
        latents = [graph.node("Concat", *map(graph.normalised, latents), axis=1)]
    proto = graph.proto(latents[0], first.n_features_[v], sum(steps[-1]._n_outputs(v) for steps in members))
    onnx.helper.set_model_props(proto, _metadata(model, members, v))
    onnx.checker.check_model(proto, full_check=True)
    write_atomically(path, proto.SerializeToString())


def _metadata(model: Any, members: list[list[Any]], v: int) -> dict[str, str]:
    """What a program needs to know besides the graph."""
    first, metric = members[0][0], chosen_metric(model)
    estimators = [[type(step).__name__ for step in steps] for steps in members]
    facts: dict[str, Any] = {
        "crossview_version": __version__,
        "estimators": json.dumps(estimators if isinstance(unwrap(model)[-1], Committee) else estimators[0]),
        "view": first.view_names_[v],
        "view_names": json.dumps(first.view_names_),
        "distance": metric,
    }
    if first.image_shape_ is not None:
        height, width = first.image_shape_
        facts |= {"image_height": height, "image_width": width, "image_pixels": _PIXELS}
    if isinstance(model, CrossViewClassifier):
        facts |= {"n_neighbors": model.n_neighbors, "unknown_label": model.unknown_label}
        if hasattr(model, "_gallery"):
            facts["threshold"] = model._gallery.threshold.check(metric)
        if model.temperature_metric_ in (None, metric):
            facts["temperature"] = getattr(model, "temperature_", None)
    return {name: str(value) for name, value in facts.items() if value is not None}


def _members(model: Any) -> list[list[Any]]:
    """The fitted steps of an embedding or a pipeline, or of every member of a committee."""
    steps = unwrap(model)
    if not steps or not isinstance(steps[-1], Embedding):
        raise ValueError("there is no embedding to export: pass one, or a pipeline that ends with one.")
    for step in steps:
        check_is_fitted(step)
    *before, last = steps
    embeddings = map(unwrap, last.members_) if isinstance(last, Committee) else [[last]]
    members = [[*before, *embedding] for embedding in embeddings]
    for member in members:
        for k, step in enumerate(member[:-1], start=2):
            if type(step) not in (ViewScaler, ViewPCA, ViewKernel) or (type(step) is ViewKernel and k < len(member)):
                fix = "ViewScaler and ViewPCA can, and ViewKernel right before the embedding"
                raise ValueError(f"{type(step).__name__} cannot be exported as step {k - 1}: {fix}.")
    return members


def _latent(graph: _Graph, steps: list[Any], v: int) -> str:
    """Add what one embedding does, after the steps before it, to a graph."""
    embedding = steps[-1]
    if isinstance(embedding, RawFeatures):
        return _projected(graph, steps, np.ones(embedding.n_features_[v]), v)
    W = embedding.projections_[v]
    if isinstance(embedding, SemanticMatching):
        logits = graph.node("Add", _projected(graph, steps, W, v), embedding.intercepts_[v])
        return graph.node("LogSoftmax" if embedding.log else "Softmax", logits, axis=1)
    if isinstance(embedding, Contrastive):
        if hasattr(embedding, "hidden_weights_"):
            hidden = _projected(graph, steps, embedding.hidden_weights_[v], v)
            active = graph.node("Relu", graph.node("Add", hidden, embedding.hidden_biases_[v]))
            latent = graph.node("MatMul", active, W)
        else:
            latent = _projected(graph, steps, W, v)
        return graph.normalised(graph.node("Add", latent, embedding.biases_[v]))
    if type(embedding)._map not in (Embedding._map, KernelEmbedding._map):
        raise ValueError(f"{type(embedding).__name__} has its own map, which cannot be exported.")
    return _projected(graph, steps, W, v)


def _projected(graph: _Graph, steps: list[Any], W: Array, v: int) -> str:
    """Add the product of a matrix with the samples that an embedding gets, less their means, to a graph.

    A vector stands for a diagonal matrix.
    """
    *before, embedding = steps
    kernel: Any = None
    landmarks: Any = None
    offset = np.zeros(W.shape[-1])
    if isinstance(embedding, KernelEmbedding):
        kernel, landmarks, offset = embedding.kernels_[v], embedding.landmarks_[v], embedding.offsets_[v]
    elif before and isinstance(before[-1], ViewKernel):
        W = np.diag(W) if W.ndim == 1 else W
        step, offset = before.pop(), embedding.means_[v] @ W
        kernel, landmarks = step.kernels_[v], step.landmarks_[v]
        W = KernelMap(step.kernels_[v], step.landmarks_[v], step.factors_[v]).coefficients(W)
    # The steps before map samples to (x - origin) @ matrix. What later steps subtract is carried back to the origin, so
    # that it is gone before anything is multiplied: in single precision, a difference of large products would have few
    # digits left.
    D = steps[0].n_features_[v]
    origin, matrix, inverse = np.zeros((1, D)), np.ones(D), np.ones(D)
    for step in before:
        back = step.scales_[v] if isinstance(step, ViewScaler) else step.components_[v]
        origin = origin + _times(step.means_[v][None], inverse)
        matrix = _times(matrix, 1.0 / back if back.ndim == 1 else back.T)
        inverse = _times(back, inverse)
    if kernel is not None and kernel.kernel != "linear":
        latent = graph.node("MatMul", graph.kernel(graph.affine(origin, matrix), kernel, landmarks), W)
    else:
        if kernel is None:
            mean = embedding.means_[v]
        else:
            mean = np.zeros(landmarks.shape[1]) if kernel.origin is None else kernel.origin
            W = (landmarks - mean).T @ W
        latent = graph.affine(origin + _times(mean[None], inverse), _times(matrix, W))
    return graph.node("Sub", latent, offset) if offset.any() else latent


def _times(a: Array, b: Array) -> Array:
    """Product of two matrices, where a vector stands for a diagonal one."""
    if a.ndim == b.ndim == 2:
        return np.asarray(a @ b)
    return a * b if b.ndim == 1 else a[:, None] * b


class _Graph:
    """An ONNX graph as it grows."""

    def __init__(self, onnx: Any, dtype: DTypeLike) -> None:
        self.onnx, self.dtype = onnx, dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.input = "X" if dtype == np.float32 else self.node("Cast", "X", to=onnx.TensorProto.DOUBLE)

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add an operation on outputs of others, by their names, and constants; return the name of its output."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], name=output, **attributes))
        return output

    def constant(self, value: Any) -> str:
        """Add an array or a number: axes, which are int64, as they are, others in the precision of the graph."""
        name = f"constant_{len(self.constants)}"
        axes = isinstance(value, np.ndarray) and value.dtype == np.int64
        array = np.asarray(value, dtype=np.int64 if axes else self.dtype, order="C")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def affine(self, origin: Array, matrix: Array) -> str:
        """Add the map ``(x - origin) @ matrix``. A vector stands for a diagonal matrix."""
        # What is subtracted is rounded to the graph's precision; what rounding leaves of it is subtracted then.
        # Otherwise features far from zero would lose as many digits as their mean is larger than their spread.
        x, rounded = self.input, origin.astype(self.dtype)
        for part in (rounded, origin - rounded):
            if part.any():
                x = self.node("Sub", x, part)
        if matrix.ndim == 2:
            return self.node("MatMul", x, matrix)
        return x if (matrix == 1.0).all() else self.node("Mul", x, matrix)

    def kernel(self, x: str, kernel: Kernel, landmarks: Array) -> str:
        """Kernel values of samples against landmarks."""
        if kernel.kernel not in _KERNELS:
            fix = f"fit it with one of the kernels {', '.join(map(repr, _KERNELS))}"
            raise ValueError(f"a model with the kernel {kernel.kernel!r} cannot be exported: {fix}.")
        gamma = 1.0 / landmarks.shape[1] if kernel.gamma is None else kernel.gamma
        if kernel.origin is not None:
            x, landmarks = self.node("Sub", x, kernel.origin), landmarks - kernel.origin
        match kernel.kernel:
            case "rbf":
                lengths = np.einsum("ij,ij->i", landmarks, landmarks)
                squares = self.node("Add", self.sum(self.node("Mul", x, x)), lengths)
                products = self.node("MatMul", x, 2.0 * landmarks.T)
                distances = self.node("Max", self.node("Sub", squares, products), 0.0)
                return self.node("Exp", self.node("Mul", distances, -gamma))
            case "laplacian":
                apart = self.node("Sub", self.node("Unsqueeze", x, np.array([1], np.int64)), landmarks[None])
                distances = self.sum(self.node("Abs", apart), axis=2, keepdims=0)
                return self.node("Exp", self.node("Mul", distances, -gamma))
            case "cosine":
                return self.node("MatMul", self.normalised(x), normalize(landmarks).T)
        params = {"degree": 3, "coef0": 1, **(kernel.kernel_params or {})}
        shifted = self.node("Add", self.node("MatMul", x, gamma * landmarks.T), params["coef0"])
        return self.node("Tanh", shifted) if kernel.kernel == "sigmoid" else self.node("Pow", shifted, params["degree"])

    def sum(self, x: str, axis: int = 1, keepdims: int = 1) -> str:
        return self.node("ReduceSum", x, np.array([axis], np.int64), keepdims=keepdims)

    def normalised(self, x: str) -> str:
        lengths = self.node("Sqrt", self.sum(self.node("Mul", x, x)))
        # As in scikit-learn, what has no length stays as it is.
        none = self.node("Less", lengths, 10.0 * np.finfo(np.float64).eps)
        return self.node("Div", x, self.node("Where", none, 1.0, lengths))

    def proto(self, output: str, n_inputs: int, n_outputs: int) -> Any:
        """The model whose output is the given one."""
        if sum(len(constant.raw_data) for constant in self.constants) >= _LARGEST:
            raise ValueError("the graph would be larger than the 2 GiB that ONNX allows: fit with fewer n_landmarks.")
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        self.nodes.append(helper.make_node("Cast", [output], ["latent"], to=kind))
        X = helper.make_tensor_value_info("X", kind, ["batch", n_inputs])
        latent = helper.make_tensor_value_info("latent", kind, ["batch", n_outputs])
        graph = helper.make_graph(self.nodes, "crossview", [X], [latent], self.constants)
        imports = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION, producer_name="crossview")
