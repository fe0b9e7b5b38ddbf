"""Load damaged and forged model files: nothing crashes, nothing is executed, little memory and time are used.

``python tests/fuzz_models.py`` tries 10,000 damaged and 2,000 forged files and prints what became of them. Files are
loaded in child processes, which the system ends when they use more than 500 MB or 2 seconds of a processor per file.
An audit hook ends them when anything is imported, compiled, executed, or opened for writing.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview._transformer import unwrap
from crossview.files import ModelFileError
from crossview.files.models import describe, pack, unpack

MEMORY = 500 * 10**6
SECONDS = 2.0
FORBIDDEN = {"compile", "ctypes", "exec", "import", "marshal", "os", "pickle", "shutil", "socket", "subprocess"}
USED = set()  # what may be used nevertheless
VALUES = [None, True, 0, 1, -1, 2, 3, 10**7, 10**8, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf")]
VALUES += ["", "a", "rbf", "precomputed", "passthrough", "view0", "$", "\x1b[2J", "\ud800", "x" * 1000, [], {}, [[]]]
VALUES += [{"$": name} for name in ("MvHE", "Pipeline", "tuple", "array", "os.system", "builtins.eval", "__class__")]
VALUES += [
    {"$": "Kernel", "params": {"kernel": "rbf"}, "fitted": {}},
    {"$": "range", "items": [10**6]},
    {"$": "range", "items": [10**18]},
]
VALUES += [{"$": "tuple", "items": [10**7, 10**7]}, {"$": "float64", "items": [1.5]}, {"$": "str", "items": ["a"]}]


# Files.


def models():
    """A small fitted model of every kind."""
    rng = np.random.default_rng(0)
    arrays, y = [rng.normal(size=(12, 3)) for _ in range(2)], np.arange(12) % 3
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(2), cv.MvDA(1))
    fitted = [
        cv.MvHE(1),
        cv.KMvHE(1, n_landmarks=4, random_state=np.random.RandomState(0)),
        pipeline,
        cv.Committee([cv.MvDA(1), make_pipeline(cv.ViewScaler(), cv.KCCA(1, n_landmarks=3))]),
        cv.EmbeddingSearchCV(pipeline, {"mvda__reg": [0.1, 1.0]}, n_folds=2, cv="samples"),
        cv.SemanticMatching(),
        cv.RawFeatures(),
        cv.CrossViewClassifier(cv.MvHE(1)),
    ]
    for model in fitted:
        model.fit(arrays, y)
    words = np.array(["one", "two", "three"])[y]
    fitted[-1].enroll(arrays[0], words, 0, replace=True)
    heads = cv.Contrastive(1, hidden=2)  # training them would take the memory of PyTorch
    heads._store_heads([[(rng.normal(size=(D, k)), rng.normal(size=k)) for D, k in ((3, 2), (2, 1))] for _ in range(2)])
    heads.means_, heads.n_epochs_ = [X.mean(axis=0) for X in arrays], 1
    heads._remember(cv.Views(arrays))
    fitted.insert(-1, heads)
    return [*fitted, cv.CrossViewClassifier(fitted[0]).enroll(arrays[1], words, 1).calibrate(arrays[0], words, 0, 0.5)]


def encode(model):
    """The content of a model's file, in memory."""
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


def damage(content, rng):
    """Change bytes, as faulty disks and transfers do."""
    changed = bytearray(content)
    place, other = rng.integers(len(content), size=2)
    match rng.integers(7):
        case 0:
            changed[place] ^= 1 << rng.integers(8)
        case 1:
            changed[place] = rng.integers(256)
        case 2:
            for k in rng.integers(len(content), size=rng.integers(1, 20)):
                changed[k] = rng.integers(256)
        case 3:
            del changed[place:]
        case 4:
            changed[place : place + 512] = bytes(len(changed[place : place + 512]))
        case 5:
            changed[place:place] = changed[other : other + rng.integers(1, 100)]
        case 6:
            del changed[place : place + rng.integers(1, 100)]
    return bytes(changed)


def tamper(content, rng):
    """Change what a file describes, and put sizes and digest right."""
    if rng.random() < 0.3:
        header, data = split(content)
        name = rng.choice([name for name in header if name != "__metadata__"])
        entry = header[name]
        key = rng.choice(["shape", "dtype", "data_offsets"])
        match rng.integers(4):
            case 0:
                entry[key] = _choice(VALUES, rng)
            case 1:
                entry["dtype"] = rng.choice(["F64", "F32", "I64", "U32", "BOOL", "F16", "C64", "BF16"])
            case 2:
                entry["shape"] = [int(size) for size in rng.choice([0, 1, 2, 3, 10**8, 2**62], size=rng.integers(4))]
            case 3:
                header[_choice([*header], rng)] = header.pop(name)
        return seal(header, data)
    tree, arrays = unforge(content)
    if rng.random() < 0.2:
        text = bytearray(json.dumps(tree).encode())
        for k in rng.integers(len(text), size=rng.integers(1, 4)):
            text[k] = rng.choice(list(b'{}[]",:0123456789abcdefXYZ. '))
        return forge(text.decode(), arrays)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.2:
            name = _choice([*arrays], rng)
            arrays[name] = _choice([arrays[name][:-1], arrays[name].T, arrays[name] * np.nan, np.zeros(3)], rng)
            arrays[name] = np.array(arrays[name], order="C")
            continue
        holder, key = _choice(list(_places(tree)), rng)
        others = [copy.deepcopy(other[place]) for other, place in _places(tree)]
        match rng.integers(5):
            case 0:
                holder[key] = _choice(VALUES, rng)
            case 1:
                del holder[key]
            case 2:
                holder[key] = _choice(others, rng)
            case 3:
                holder[key] = [holder[key]] * int(rng.integers(1, 4))
            case 4 if isinstance(holder, dict):
                holder[_choice(["$", "__class__", "transform_view", "_doc_link_template", "memory"], rng)] = holder[key]
            case 4:
                holder.append(holder[key])
    return forge(tree, arrays)


def _choice(values, rng):
    return values[rng.integers(len(values))]


def _places(tree):
    """Every place in a tree of lists and dicts, as its holder and key."""
    for key, item in enumerate(tree) if isinstance(tree, list) else list(tree.items()):
        yield tree, key
        if isinstance(item, list | dict):
            yield from _places(item)


# Loading them, in a child process.


def attempt(path, original=None):
    """Load a file, and use its model: what became of it."""
    USED.clear()
    try:
        model = cv.load(path)
    except ModelFileError as error:
        if "\n" in str(error) or len(str(error)) > 1000 or str(path) not in str(error):
            raise AssertionError(f"this is not one line: {error!r}") from error
        return "refused"
    if original is not None:
        assert encode(model) == original, "damage passed unnoticed"
        return "unchanged"
    USED.add("ctypes")  # by which scikit-learn limits threads
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


def confine(*paths):
    """Limits for this process, and nothing but reading some files from now on."""
    import resource  # Unix has it

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def hook(event, arguments):
        reading = event == "open" and arguments[0] in map(str, paths) and "r" in str(arguments[1])
        if (event == "open" and not reading) or event.split(".")[0] in FORBIDDEN - USED:
            os.write(2, f"forbidden: {event} {arguments!r}\n".encode())
            os.abort()

    sys.addaudithook(hook)


def child(folder, kind, *arguments):
    """Load files that are given, or by their numbers, each of which always stands for the same file."""
    originals = [bytes(encode(model)) for model in models()]
    path = Path(folder) / "model"
    for content in (*originals, b"nothing"):  # what is imported on first use is imported here
        path.write_bytes(content)
        attempt(path)
    repr(cv.MvHE())  # which errors may contain
    outcomes, slowest = Counter(), 0.0
    with open(path, "wb", buffering=0) as file, open("/proc/self/status") as status:
        confine(path, *arguments)
        for given in arguments if kind == "given" else ():
            outcome, seconds = timed(given)
            outcomes[outcome] += 1
            slowest = max(slowest, seconds)
        start, stop, seed = (0, 0, 0) if kind == "given" else map(int, arguments)
        for number in range(start, stop):
            rng = np.random.default_rng([seed, kind == "forged", number])
            original = originals[number % len(originals)]
            content = damage(original, rng) if kind == "damaged" else tamper(original, rng)
            file.seek(0)
            file.write(content)
            file.truncate(len(content))
            os.write(2, f"{kind} {number}\n".encode())
            outcome, seconds = timed(path, original if kind == "damaged" else None)
            outcomes[outcome] += 1
            slowest = max(slowest, seconds)
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    print(json.dumps([outcomes, int(peak) * 1024 / 1e6, slowest]), flush=True)
    os._exit(0)  # the hook forbids what Python does at its end


def timed(path, original=None):
    """What became of a file, and the seconds of a processor it took; the system ends what takes too many."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    start = time.process_time()
    try:
        return attempt(path, original), time.process_time() - start
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


# In the parent.


def load_confined(*paths):
    """Load files in a child process: how often each outcome occurred, the most memory in MB, the longest time in s."""
    return _run("given", *map(str, paths))


def run(kind, count, seed=0, batch=1000):
    """Try files in batches: how often each outcome occurred, the most memory in MB, and the longest time in seconds."""
    outcomes, megabytes, seconds = Counter(), 0.0, 0.0
    for start in range(0, count, batch):
        found, memory, slowest = _run(kind, str(start), str(min(start + batch, count)), str(seed))
        outcomes.update(found)
        megabytes, seconds = max(megabytes, memory), max(seconds, slowest)
    return dict(outcomes), megabytes, seconds


def _run(*arguments):
    """Start a child, and read what it prints. A child that is ended from outside is an error."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--child", folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        raise AssertionError(f"{arguments}: status {done.returncode}, the end was {done.stderr[-1500:]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damaged", type=int, default=10_000)
    parser.add_argument("--forged", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for kind in ("damaged", "forged"):
        outcomes, megabytes, seconds = run(kind, getattr(given, kind), given.seed)
        print(f"{kind}: {outcomes}, at most {megabytes:.0f} MB and {seconds:.3f} s each")
