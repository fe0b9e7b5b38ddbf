"""Load damaged and forged model files: nothing crashes, nothing is executed, little memory and time are used.

``python tests/fuzz_models.py`` tries 10,000 damaged and 2,000 forged files and prints what became of them. Files are
loaded in child processes, which end when anything is imported, compiled, executed, or opened for writing.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import tempfile
import warnings
from itertools import count, cycle
from pathlib import Path

import numpy as np
from fuzzing import damage, main
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview._transformer import unwrap
from crossview.files import ModelFileError
from crossview.files.models import describe, pack, unpack

FORBIDDEN = {"compile", "ctypes", "exec", "import", "marshal", "os", "pickle", "shutil", "socket", "subprocess"}
VALUES = [None, True, 0, 1, -1, 2, 3, 10**7, 10**8, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf")]
VALUES += ["", "a", "rbf", "precomputed", "passthrough", "view0", "$", "\x1b[2J", "\ud800", "x" * 1000, [], {}, [[]]]
VALUES += [{"$": name} for name in ("MvHE", "Pipeline", "tuple", "array", "os.system", "builtins.eval", "__class__")]
VALUES += [{"$": "Kernel", "params": {"kernel": "rbf"}, "fitted": {}}, {"$": "str", "items": ["a"]}]
VALUES += [{"$": "range", "items": [size]} for size in (10**6, 10**18)]
VALUES += [{"$": "tuple", "items": [10**7, 10**7]}, {"$": "float64", "items": [1.5]}]
VALUES += ["F32", "I64", "U32", "BOOL", "F16", "C64", "BF16", [0, 3], [2, 10**8], [2**62, 4]]  # of arrays


def models():
    """A small fitted model of every kind."""
    rng = np.random.default_rng(0)
    arrays, y = [rng.normal(size=(12, 3)) for _ in range(2)], np.arange(12) % 3
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(2), cv.MvDA(1))
    fitted = [
        cv.MvHE(1),
        cv.KMvHE(1, n_landmarks=4, random_state=0),
        pipeline,
        cv.Committee([cv.MvDA(1), make_pipeline(cv.ViewScaler(), cv.KCCA(1, n_landmarks=3, random_state=0))]),
        cv.EmbeddingSearchCV(pipeline, {"mvda__reg": [0.1, 1.0]}, n_folds=2, cv="samples"),
        cv.SemanticMatching(),
        cv.RawFeatures(),
        cv.CrossViewClassifier(cv.MvHE(1)),
    ]
    for model in fitted:
        model.fit(arrays, y)
    words = np.array(["one", "two", "three"])[y]
    fitted[-1].enroll(arrays[0], words, 0, replace=True)
    heads = cv.Contrastive(1, random_state=0, hidden=2)  # training them would take the memory of PyTorch
    heads._store_heads([[(rng.normal(size=(D, k)), rng.normal(size=k)) for D, k in ((3, 2), (2, 1))] for _ in range(2)])
    heads.means_, heads.n_epochs_ = [X.mean(axis=0) for X in arrays], 1
    heads._remember(cv.Views(arrays))
    fitted.insert(-1, heads)
    return [*fitted, cv.CrossViewClassifier(fitted[0]).enroll(arrays[1], words, 1).calibrate(arrays[0], words, 0, 0.5)]


def encode(model):
    """The content of a model's file."""
    return b"".join(pack(*describe(model)))


def unforge(content):
    """The description of a model, and its arrays."""
    return unpack(io.BytesIO(content), "the file")


def forge(tree, arrays, version=cv.__version__):
    """A file whose sizes and digest are right, whatever it describes."""
    return b"".join(pack(tree if isinstance(tree, str) else json.dumps(tree), arrays, version))


def seal(header, data=b""):
    """A file with any header, in which 64 zeros stand for the digest."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = len(header).to_bytes(8, "little") + header + data
    return content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode(), 1)


def split(content):
    """Header, with zeros for the digest, and data."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    mark, _, model = header["__metadata__"]["crossview"].partition(" {")
    header["__metadata__"]["crossview"] = f"{mark[:-64]}{'0' * 64} {{{model}"
    return header, bytes(content[end:])


def damaged(seed):
    """Models with changed bytes, none of which may pass unnoticed."""
    random = np.random.default_rng([seed, 0])
    for original in cycle([encode(model) for model in models()]):
        if (content := damage(original, random)) != original:
            yield "model", content


def forged(seed):
    """Models with another description, and sizes and digest put right."""
    originals = [encode(model) for model in models()]
    for number in count():
        yield "model", tamper(originals[number % len(originals)], np.random.default_rng([seed, 1, number]))


def tamper(content, rng):
    """Change the header, letters of the description, or parts of the model, and put sizes and digest right."""
    kind, changes = rng.random(), rng.integers(1, 4)
    if kind < 0.2:
        header, data = split(content)
        _change(header, rng)
        return seal(header, data)
    tree, arrays = unforge(content)
    if kind < 0.4:
        text = bytearray(json.dumps(tree).encode())
        for k in rng.integers(len(text), size=changes):
            text[k] = rng.choice(list(b'{}[]",:0123456789abcdefXYZ. '))
        return forge(text.decode(), arrays)
    for _ in range(changes):
        if rng.random() < 0.2:
            name = _choice([*arrays], rng)
            X = _choice([arrays[name][:-1], arrays[name].T, arrays[name] * np.nan, np.zeros(3)], rng)
            arrays[name] = np.array(X, order="C")
        else:
            _change(tree, rng)
    return forge(tree, arrays)


def _change(tree, rng):
    """Replace, remove, repeat or rename something in a tree of lists and dicts."""
    places = list(_places(tree))
    (holder, key), (other, place) = _choice(places, rng), _choice(places, rng)
    match rng.integers(5):
        case 0:
            holder[key] = _choice(VALUES, rng)
        case 1:
            del holder[key]
        case 2:
            holder[key] = copy.deepcopy(other[place])
        case 3:
            holder[key] = [holder[key]] * int(rng.integers(1, 4))
        case 4 if isinstance(holder, dict):
            holder[_choice(["$", "__class__", "transform_view", "_doc_link_template", "memory"], rng)] = holder[key]
        case 4:
            holder.append(holder[key])


def _choice(values, rng):
    return values[rng.integers(len(values))]


def _places(tree):
    """Every place in a tree of lists and dicts, as its holder and key."""
    for key, item in enumerate(tree) if isinstance(tree, list) else list(tree.items()):
        yield tree, key
        if isinstance(item, list | dict):
            yield from _places(item)


# In the child.

USING = set()  # what using a model may do, unlike loading it


def prepare():
    """Import what is imported on first use."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for content in (*map(encode, models()), b"nothing"):
            path.write_bytes(content)
            load(path)
    repr(cv.MvHE())  # which errors may contain


def forbids(event, arguments):
    reads = event == "open" and str(arguments[0]).endswith("/model") and "r" in str(arguments[1])
    return (event == "open" and not reads) or event.split(".")[0] in FORBIDDEN - USING


def load(path):
    """Load a file, and use its model: what became of it."""
    USING.clear()
    try:
        model = cv.load(path)
    except ModelFileError as error:
        one_line = "\n" not in str(error) and len(str(error)) < 1000 and str(path) in str(error)
        return "refused" if one_line else f"not one line: {error!r}"
    USING.add("ctypes")  # by which scikit-learn limits threads
    try:
        first = unwrap(model)[0]
        with warnings.catch_warnings(action="ignore"):
            for v, D in enumerate(first.n_features_):
                cv.transform_view(model, np.zeros((1, D)), v)
            if hasattr(model, "gallery_"):
                model.predict(np.zeros((1, first.n_features_[0])), 0)
    except (AttributeError, TypeError, ValueError):
        return "loaded, without a result"
    return "loaded"


MAKERS = {"damaged": (damaged, {"refused"}, 10_000), "forged": (forged, None, 2_000)}

if __name__ == "__main__":
    main("fuzz_models", MAKERS, __doc__)
