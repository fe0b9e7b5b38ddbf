from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import time
import warnings
import zipfile

import numpy as np
import pytest
from methods import ALL, make
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline

import crossview as cv
from crossview.persistence import ModelFileError, _checks, _files, load, save
from crossview.persistence._models import named_members

skops_io = pytest.importorskip("skops.io")

ARRAYS, Y = make()
SAME_SIZES, _ = make(sizes=(6, 6))


def through_a_file(model, folder):
    save(model, folder / "model")
    return load(folder / "model")


def assert_same(first, second):
    """Equal to the last bit, whatever the objects are made of."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        assert first.shape == second.shape
        if first.dtype == object:
            assert_same(first.tolist(), second.tolist())
        else:
            assert first.tobytes() == second.tobytes()
    elif isinstance(first, dict):
        assert list(first) == list(second)
        assert_same(list(first.values()), list(second.values()))
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    elif isinstance(first, np.random.RandomState):
        assert_same(first.get_state(legacy=False), second.get_state(legacy=False))
    elif hasattr(first, "__dict__"):
        assert_same(vars(first), vars(second))
    else:
        assert first == second or (first != first and second != second)


def assert_same_latents(model, again, arrays):
    for a, b in zip(model.transform(arrays), again.transform(arrays), strict=True):
        assert a.tobytes() == b.tobytes()


PIPELINE = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), cv.MvHE())
GRID = {"viewscaler__by": ["view"], "viewpca__n_components": [3, 4], "mvhe__n_components": [2]}
SEARCH = cv.EmbeddingSearchCV(PIPELINE, GRID, n_folds=2)

# What can be saved.


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_fitted_models(model, tmp_path):
    model = clone(model).fit(cv.Views(ARRAYS, names=["photo", "sketch"]), Y)
    again = through_a_file(model, tmp_path)
    assert_same(model, again)
    assert_same_latents(model, again, ARRAYS)
    assert again.score(ARRAYS, Y) == model.score(ARRAYS, Y)


@pytest.mark.parametrize("method", cv.METHODS)
def test_results_of_larger_models_are_the_same_to_the_last_bit(method, tmp_path):
    data = cv.datasets.load_digits()
    views = cv.ViewPCA(20).fit_transform(data.views)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = cv.METHODS[method](n_components=7).fit(views[:300], data.y[:300])
    again = through_a_file(model, tmp_path)
    for rows in (slice(None), slice(1), slice(7), slice(0, 1000, 3)):
        assert_same_latents(model, again, views[rows].arrays)


@pytest.mark.parametrize(
    "model", [*ALL, cv.ViewScaler(), cv.ViewPCA(3, False), cv.Committee([cv.MvHE(2)]), SEARCH], ids=repr
)
def test_unfitted_models(model, tmp_path):
    again = through_a_file(model, tmp_path)
    assert repr(again) == repr(model)
    assert_same(model, again)


@pytest.mark.parametrize("pooled", [True, False])
def test_preprocessing_and_pipelines(pooled, tmp_path):
    for model in (
        cv.ViewScaler("feature", pooled),
        cv.ViewScaler("view", pooled),
        cv.ViewPCA(3, pooled),
        make_pipeline(cv.ViewScaler(pooled=pooled), cv.ViewPCA(3, pooled), cv.KMvHE(2)),
        cv.Committee([make_pipeline(cv.ViewScaler(pooled=pooled), cv.KMvHE(2)), cv.MvDA(3)]),
        make_pipeline(
            cv.ViewScaler(pooled=pooled), "passthrough", Pipeline([("pca", cv.ViewPCA(3)), ("cca", cv.CCA(2))])
        ),
    ):
        for fitted in (clone(model).fit(SAME_SIZES, Y), clone(model)):
            again = through_a_file(fitted, tmp_path)
            assert_same(fitted, again)
        model.fit(SAME_SIZES, Y)
        assert_same_latents(model, through_a_file(model, tmp_path), SAME_SIZES)


def test_one_object_stays_one(tmp_path):
    again = through_a_file(cv.ViewScaler().fit(SAME_SIZES), tmp_path)
    assert again.means_[0] is again.means_[1]
    random = np.random.RandomState(3)
    search = cv.EmbeddingSearchCV(cv.KCCA(2, random_state=random), {"reg": [0.1]}, random_state=random)
    again = through_a_file(search, tmp_path)
    assert again.random_state is again.estimator.random_state


@pytest.mark.parametrize(
    "model",
    [
        cv.KMvHE(2, kernel="poly", degree=2, gamma=0.5, n_landmarks=20, random_state=np.random.RandomState(1)),
        cv.KMvHE(2, gamma=[0.1, np.float64(0.2)], n_landmarks=np.int64(20), random_state=None),
        cv.KMvHE(2, gamma=np.array([0.1, 0.2]), kernel_params={}, center=np.bool_(True)),
        cv.KCCA(2, kernel="laplacian", reg=(0.1, 0.2)),
        cv.KCCA(2, kernel="cosine", kernel_params={"dense_output": True}),
    ],
    ids=repr,
)
def test_kernels_and_their_parameters(model, tmp_path):
    model = clone(model).fit(ARRAYS, Y)
    again = through_a_file(model, tmp_path)
    assert_same(model, again)
    assert_same_latents(model, again, ARRAYS)
    if model.random_state is not None:
        assert_same(clone(model).fit(ARRAYS, Y).landmarks_, again.fit(ARRAYS, Y).landmarks_)


def test_precomputed_kernels(tmp_path):
    K = [X @ X.T for X in ARRAYS]
    model = cv.KMvHE(2, kernel="precomputed", n_landmarks=15).fit(K, Y)
    assert_same_latents(model, through_a_file(model, tmp_path), K)


def test_searches(tmp_path):
    grid = {"reg": np.logspace(-2, 0, 2), "n_components": range(2, 4)}
    folds = StratifiedKFold(2, shuffle=True, random_state=np.random.RandomState(0))
    for search in (
        cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=folds),
        cv.EmbeddingSearchCV(cv.CCA(), {"n_components": [2]}, cv=cv.ClassKFold(2, random_state=0)),
        clone(SEARCH),
        clone(SEARCH).set_params(members=2),
    ):
        search.fit(SAME_SIZES, Y)
        again = through_a_file(search, tmp_path)
        assert_same(search, again)
        assert_same_latents(search, again, SAME_SIZES)
        assert again.score(SAME_SIZES, Y) == search.score(SAME_SIZES, Y)
    assert_same(search, through_a_file(search.set_params(cv=LeaveOneGroupOut()), tmp_path))


@pytest.mark.skipif(not hasattr(cv, "CrossViewClassifier"), reason="needs the classifier")
def test_classifier(tmp_path):
    labels = np.array(list("abcdef"), dtype=object)[Y]
    model = cv.CrossViewClassifier(make_pipeline(cv.ViewScaler(pooled=False), cv.KMvHE(2)))
    assert_same(model, through_a_file(model, tmp_path))
    model.fit(ARRAYS, labels)
    assert_same(model, through_a_file(model, tmp_path))


def test_classes_of_the_package_need_not_be_listed(tmp_path, monkeypatch):
    class Newcomer(BaseEstimator):
        def __init__(self, embedding=None):
            self.embedding = embedding

    Newcomer.__module__ = "crossview.metrics"
    monkeypatch.setattr("crossview.metrics.Newcomer", Newcomer, raising=False)
    model = Newcomer(cv.MvHE(2).fit(ARRAYS, Y))
    model.gallery_ = np.eye(3)
    model.labels_ = np.array(["a", "b", None], dtype=object)
    assert_same(model, through_a_file(model, tmp_path))


def test_the_same_model_gives_the_same_file(tmp_path):
    model = make_pipeline(cv.ViewScaler(), cv.KMvHE(2, random_state=np.random.RandomState(0))).fit(SAME_SIZES, Y)
    save(model, tmp_path / "first")
    save(copy.deepcopy(model), tmp_path / "second")
    save(load(tmp_path / "first"), tmp_path / "third")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert (tmp_path / "first").read_bytes() == (tmp_path / "third").read_bytes()


def test_a_large_search_is_a_small_file(tmp_path):
    search = clone(SEARCH).fit(SAME_SIZES, Y)
    search.cv_results_ = {"params": [{"mvhe__beta": k / 7, "viewpca__n_components": k} for k in range(2000)]}
    save(search, tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 200_000


# What cannot.


def my_kernel(x, z):
    return float(x @ z)


@pytest.mark.parametrize("kernel", [my_kernel, lambda x, z: float(x @ z), np.dot], ids=["function", "lambda", "numpy"])
def test_functions_as_kernels_are_refused(kernel, tmp_path):
    for model in (cv.KMvHE(2, kernel=kernel), cv.KMvHE(2, kernel=kernel).fit(ARRAYS, Y)):
        with pytest.raises(ValueError, match=r"kernel is the function .* cannot be saved: use one of .*rbf"):
            save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"\.kernel is the function"):
        save(make_pipeline(cv.ViewScaler(), cv.KCCA(kernel=kernel)), tmp_path / "model")
    assert not list(tmp_path.iterdir())


class Foreign(cv.MvHE):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GridSearchCV(cv.MvHE(), {"beta": [0.1]}), r"GridSearchCV is a .* that is best_estimator_"),
        (Foreign(), "Foreign is a "),
        (Pipeline([("model", cv.MvHE())], memory="cache"), "memory is a cache"),
        (cv.MvHE(n_components=1 + 2j), r"n_components is a builtins\.complex"),
        (cv.KMvHE(kernel_params={True: 1}), "has the key True"),
        (cv.KMvHE(kernel_params={1: 1, "1": 2}), "keys that cannot be told apart"),
        (cv.KMvHE(random_state=np.random.default_rng(0)), r"random_state is a numpy\.random\._generator\.Generator"),
        (cv.MvHE(beta=np.ma.ones(2)), "MaskedArray"),
        (cv.MvHE(beta=np.zeros(2, dtype=[("a", float)])), "beta is a numpy"),
        (cv.MvHE(beta=np.array(None, dtype=object)), "cannot be saved"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_a_file_cannot_hold_is_refused(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_only_estimators_are_saved(tmp_path):
    with pytest.raises(TypeError, match="save takes an estimator, got list"):
        save([cv.MvHE()], tmp_path / "model")


def test_a_model_that_holds_itself_is_refused(tmp_path):
    model = cv.MvHE()
    model.beta = [model]
    with pytest.raises(ValueError, match="cannot be saved"):
        save(model, tmp_path / "model")


# Files.


def test_folders_and_links(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere.*: create it first"):
        save(cv.MvHE(), tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file"):
        save(cv.MvHE(), tmp_path)
    save(cv.MvHE(3), str(tmp_path / "model"))
    (tmp_path / "link").symlink_to(tmp_path / "model")
    (tmp_path / "model").chmod(0o600)
    save(cv.MvHE(4), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "model").n_components == 4
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="is not a file"):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a file"):
        load(tmp_path / "pipe")


def test_reading_needs_no_right_to_write(tmp_path):
    folder = tmp_path / "shelf"
    folder.mkdir()
    save(cv.MvHE(3), folder / "model")
    (folder / "model").chmod(0o444)
    folder.chmod(0o555)
    try:
        assert load(folder / "model").n_components == 3
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_an_exception_leaves_the_old_file(function, tmp_path, monkeypatch):
    save(cv.MvHE(3), tmp_path / "model")

    def fail(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(KeyboardInterrupt):
            save(cv.MvHE(4), tmp_path / "model")
    assert load(tmp_path / "model").n_components == 3
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


@pytest.mark.skipif(os.name == "nt", reason="needs rights of groups and others")
def test_a_private_file_is_private_while_it_is_written(tmp_path, monkeypatch):
    rights, fsync = [], os.fsync

    def look(descriptor):
        rights.append(os.fstat(descriptor).st_mode & 0o777)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    save(cv.MvHE(3), tmp_path / "model")
    public = (tmp_path / "model").stat().st_mode & 0o777
    (tmp_path / "model").chmod(0o600)
    save(cv.MvHE(4), tmp_path / "model")
    (tmp_path / "model").chmod(0o400)
    save(cv.MvHE(5), tmp_path / "model")
    assert rights == [public, 0o600, 0o400]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_leaves_the_old_file_or_the_new(tmp_path):
    code = """
import sys, itertools
import numpy as np
import crossview as cv
from crossview.persistence import save
rng = np.random.default_rng(0)
models = [cv.CCA(d).fit([rng.normal(size=(300, 200)) for _ in range(2)]) for d in (50, 60)]
for model in itertools.cycle(models):
    save(model, sys.argv[1])
"""
    path, rng = tmp_path / "model", np.random.default_rng(0)
    for _ in range(3):
        path.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        try:
            deadline = time.monotonic() + 60
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.3))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        model = load(path)
        assert model.n_components in (50, 60)
        assert model.projections_[0].shape == (200, model.n_components)


# Damage.


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model, and the file that holds it."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(8, 2)) for _ in range(2)]
    model = cv.MvHE(1).fit(arrays, np.arange(8) % 2)
    path = tmp_path_factory.mktemp("small") / "model"
    save(model, path)
    return model, path.read_bytes(), arrays


def refuse(path, content, message=None):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_truncated_files(small, tmp_path):
    _, content, _ = small
    for length in range(0, len(content), 7):
        refuse(tmp_path / "model", content[:length])
    refuse(tmp_path / "model", content[:-1], r"is cut short: .* Restore it from a copy, or save the model again")
    refuse(tmp_path / "model", content + b"\n", "is damaged")


def test_random_damage_never_passes_unnoticed(small, tmp_path):
    model, content, arrays = small
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "model", 0
    # One open file, since replacing a file takes a hundred times as long as refusing it.
    with open(path, "wb", buffering=0) as file:
        for trial in range(10_000):
            damaged = bytearray(content)
            match trial % 4:
                case 0:
                    damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
                case 1:
                    damaged[rng.integers(len(content))] = rng.integers(256)
                case 2:
                    for _ in range(rng.integers(1, 20)):
                        damaged[rng.integers(len(content))] = rng.integers(256)
                case 3:
                    del damaged[rng.integers(len(content)) :]
            file.seek(0)
            file.write(damaged)
            file.truncate(len(damaged))
            try:
                again = load(path)
            except ModelFileError:
                refused += 1
            else:
                assert_same_latents(model, again, arrays)
    # A byte may be replaced by itself.
    assert refused > 9_900


def forge(schema, members, version=cv.__version__):
    """A file whose line and archive are right, whatever they hold."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    payload = _files.pack(text, members)
    return _files.line(payload, version) + payload


def wrap(payload, version=cv.__version__):
    return _files.line(payload, version) + payload


def unforge(content):
    text, members = _files.unpack(content[content.index(b"\n") + 1 :])
    return json.loads(text), members


def test_random_tampering_is_refused_or_gives_a_model(small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    text = json.dumps(schema).encode()
    rng = np.random.default_rng(1)
    path = tmp_path / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for trial in range(2_000):
            changed, changed_members = bytearray(text), dict(members)
            if trial % 3:
                for _ in range(rng.integers(1, 4)):
                    changed[rng.integers(len(text))] = rng.choice(list(b'{}[]",:0123456789abcdefXYZ. '))
            else:
                name = rng.choice(list(members))
                array = bytearray(members[name])
                array[rng.integers(len(array))] = rng.integers(256)
                changed_members[name] = bytes(array)
            path.write_bytes(forge(bytes(changed), changed_members))
            with contextlib.suppress(ModelFileError):
                assert isinstance(load(path), cv.MvHE)


def test_newer_versions_are_refused_by_name(small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    message = rf"was written by crossview 2\.1\.0, this is {cv.__version__}: upgrade"
    refuse(tmp_path / "model", forge(schema, members, "2.1.0"), message)
    refuse(tmp_path / "model", b"crossview-model format=2 version=2.1.0 something else\nand more", message)
    path = tmp_path / "model"
    path.write_bytes(forge(schema, members, "0.99.0rc1"))
    assert load(path).n_components == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"crossview-model\n",
        b"crossview-model format=1 version= size=1 sha256=\n",
        b"crossview-model format=0 version=0.1.0 size=1 sha256=" + b"0" * 64 + b"\n",
        b"crossview-model format=1 version=0.1.0 size=1 sha256=" + b"0" * 63 + b"\n",
        b"crossview-model format=one version=0.1.0 size=1 sha256=" + b"0" * 64 + b"\n",
        b"crossview-model format=1 version=0.1.0 size=-1 sha256=" + b"0" * 64 + b"\n",
        b"crossview-model format=1 version=0.1.0 size=999999999999999 sha256=" + b"0" * 64 + b"\n",
        b"crossview-model format=1 version=0.1.0 size=1" + b" " * 1000,
    ],
)
def test_missing_and_damaged_marks_are_refused(line, small, tmp_path):
    _, content, _ = small
    refuse(tmp_path / "model", line + content[content.index(b"\n") + 1 :])


# Harm.


class Touch:
    """Leaves a file behind when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def zip_of(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return buffer.getvalue()


def test_pickles_are_not_loaded(small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    proof, path = tmp_path / "proof", tmp_path / "model"
    hostile = pickle.dumps(Touch(proof))
    pickle.loads(hostile)  # it would do harm
    proof.rmdir()
    refuse(path, hostile, "Pickles are never loaded")
    refuse(path, zip_of(data__pkl=hostile), "is no model of crossview's")
    refuse(path, wrap(hostile), "File is not a zip file")
    refuse(path, wrap(zip_of(data__pkl=hostile)), r"there is no schema\.json")
    refuse(path, wrap(zip_of(schema__json=hostile)))
    refuse(path, forge(schema, members | {"data.pkl": hostile}), r"holds the member 'data\.pkl'")
    for name in members:
        refuse(path, forge(schema, members | {name: hostile}))
        refuse(path, forge(schema, members | {name: npy("'|O'", "(1,)", hostile)}), "an array of type object")
    assert not proof.exists()


def test_archives_of_skops_are_no_models(tmp_path):
    refuse(tmp_path / "model", skops_io.dumps(cv.MvHE()), "is no model of crossview's")


def node(loader, module, name, number=[10_000], **more):  # noqa: B006
    number[0] += 1
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": number[0], **more}


def plain(value):
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


def several(*items, kind="list"):
    return node(f"{kind.title()}Node", "builtins", kind, content=list(items))


def mapping(content, key=None):
    key = node("TypeNode", "builtins", "str") if key is None else key
    return node("DictNode", "builtins", "dict", content=content, key_types=several(*[key] * len(content)))


def mkdir(path):
    return node("ConstructorFromReduceNode", os.mkdir.__module__, "mkdir", content=several(plain(path), kind="tuple"))


def empty_array(module, name):
    return node(
        "NdArrayNode", module, name, type="json", shape=several(plain(0), kind="tuple"), content=[plain("anything")]
    )


HOSTILE = {
    "function that is called to rebuild an object": (mkdir, r"posix\.mkdir|nt\.mkdir"),
    "function": (lambda path: node("FunctionNode", "os", "system"), r"os\.system \(FunctionNode\)"),
    "function of numpy": (lambda path: node("FunctionNode", "numpy", "load"), r"numpy\.load"),
    "function of scikit-learn": (lambda path: node("FunctionNode", "sklearn.utils", "resample"), "resample"),
    "function of crossview": (lambda path: node("FunctionNode", "crossview.persistence", "save"), "persistence.save"),
    "function of numpy that skops trusts": (lambda path: node("FunctionNode", "numpy", "exp"), r"numpy\.exp"),
    "function as a key of a dict": (
        lambda path: mapping({path: plain(1)}, node("FunctionNode", "os", "mkdir")),
        r"os\.mkdir \(FunctionNode\) as a key",
    ),
    "type as a key of a dict": (
        lambda path: mapping({path: plain(1)}, node("TypeNode", "os", "mkdir")),
        r"os\.mkdir \(TypeNode\) as a key",
    ),
    "partial": (
        lambda path: node(
            "PartialNode",
            "functools",
            "partial",
            content={
                "func": node("FunctionNode", "os", "mkdir"),
                "args": several(plain(path), kind="tuple"),
                "kwds": mapping({}),
                "namespace": plain(None),
            },
        ),
        r"functools\.partial",
    ),
    "method": (
        lambda path: node("MethodNode", "builtins", "str", content={"func": "format", "obj": plain("{0.__class__}")}),
        r"MethodNode",
    ),
    "methodcaller": (
        lambda path: node(
            "OperatorFuncNode", "operator", "methodcaller", attrs=several(plain("mkdir"), plain(path), kind="tuple")
        ),
        r"operator\.methodcaller",
    ),
    "call by operator": (
        lambda path: node("OperatorFuncNode", "operator", "call", attrs=several(mkdir(path), kind="tuple")),
        r"operator\.call",
    ),
    "reduce": (
        lambda path: node(
            "LossNode", "os", "mkdir", content=mapping({}), __reduce__={"args": several(plain(path), kind="tuple")}
        ),
        r"os\.mkdir \(LossNode\)",
    ),
    "tree": (
        lambda path: node(
            "TreeNode", "sklearn.tree._tree", "Tree", content=mapping({}), __reduce__={"args": several(kind="tuple")}
        ),
        "Tree",
    ),
    "eval": (
        lambda path: node(
            "ConstructorFromReduceNode",
            "builtins",
            "eval",
            content=several(plain(f"__import__('os').mkdir({path!r})"), kind="tuple"),
        ),
        r"builtins\.eval",
    ),
    "getattr": (lambda path: node("TypeNode", "builtins", "getattr"), r"builtins\.getattr"),
    "type": (lambda path: node("TypeNode", "builtins", "str"), r"builtins\.str \(TypeNode\)"),
    "defaultdict": (
        lambda path: node(
            "DefaultDictNode",
            "collections",
            "defaultdict",
            content={"main": mapping({}), "default_factory": node("FunctionNode", "os", "getcwd")},
        ),
        "defaultdict",
    ),
    "list of another class": (
        lambda path: node("ListNode", "os", "makedirs", content=[plain(path)]),
        r"os\.makedirs \(ListNode\)",
    ),
    "dict of another class": (
        lambda path: node("DictNode", "crossview.views", "Views", content={}, key_types=several()),
        r"Views \(DictNode\)",
    ),
    "array of another class": (lambda path: empty_array("os", "listdir"), r"os\.listdir \(NdArrayNode\)"),
    "random state of another class": (
        lambda path: node("RandomStateNode", "os", "getcwd", content=mapping({})),
        r"os\.getcwd \(RandomStateNode\)",
    ),
    "random generator": (
        lambda path: node(
            "RandomGeneratorNode",
            "numpy.random._generator",
            "Generator",
            content={"bit_generator": mapping({"bit_generator": plain("seed")}), "seed_seq": mapping({})},
        ),
        "Generator",
    ),
    "process": (
        lambda path: node("ObjectNode", "subprocess", "Popen", content=mapping({"args": plain(path)})),
        r"subprocess\.Popen",
    ),
    "object of numpy": (lambda path: node("ObjectNode", "numpy", "memmap", content=mapping({})), r"numpy\.memmap"),
    "class that is not of the package": (
        lambda path: node("ObjectNode", "crossview.persistence._files", "ZipFile", content=mapping({})),
        r"_files\.ZipFile",
    ),
    "module in the place of a class": (
        lambda path: node("ObjectNode", "crossview.persistence._files", "os", content=mapping({})),
        r"_files\.os",
    ),
    "private class of the package": (
        lambda path: node("ObjectNode", "crossview.persistence._schema", "_SchemaCheck", content=mapping({})),
        "_SchemaCheck",
    ),
    "class called": (
        lambda path: node(
            "ConstructorFromReduceNode", "crossview.kernels", "Kernel", content=several(plain("rbf"), kind="tuple")
        ),
        r"Kernel \(ConstructorFromReduceNode\)",
    ),
    "estimator of scikit-learn that pipelines do not hold": (
        lambda path: node(
            "ObjectNode", "sklearn.preprocessing._function_transformer", "FunctionTransformer", content=mapping({})
        ),
        "FunctionTransformer",
    ),
    "cached": (lambda path: node("CachedNode", "builtins", "str"), "CachedNode"),
    "bytes": (lambda path: node("BytesNode", "builtins", "bytes", file="1.npy"), "BytesNode"),
    "unknown loader": (lambda path: node("__init__", "builtins", "str"), "__init__"),
    "loader that is no name": (lambda path: node(["JsonNode"], "builtins", "str"), "JsonNode"),
    "names that are no names": (lambda path: node("ObjectNode", ["os"], {"a": 1}), "holds"),
    "pipeline with a cache": (
        lambda path: node(
            "ObjectNode",
            "sklearn.pipeline",
            "Pipeline",
            content=mapping(
                {"steps": several(), "memory": plain(path), "verbose": plain(0), "transform_input": plain(None)}
            ),
        ),
        "a pipeline with a cache",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_schemas_are_refused_and_nothing_is_run(kind, small, tmp_path):
    build, message = HOSTILE[kind]
    _, content, _ = small
    proof, path = tmp_path / "proof", tmp_path / "model"
    for place in ("attribute", "list", "dict", "projections_", "all"):
        schema, members = unforge(content)
        hostile = build(str(proof))
        attributes = schema["content"]["content"]
        match place:
            case "attribute":
                attributes["beta"] = hostile
            case "list":
                attributes["beta"] = several(plain(1), several(hostile, kind="tuple"))
            case "dict":
                attributes["beta"] = mapping({"a": hostile})
            case "projections_":
                attributes["projections_"] = several(hostile, hostile)
            case "all":
                schema, members = {**hostile, "protocol": schema["protocol"], "_skops_version": "1"}, {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refuse(path, forge(schema, members), message if place == "attribute" else None)
        assert not proof.exists()
        assert os.listdir(tmp_path) == ["model"]


def test_the_hostile_schemas_would_do_harm(small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    for build in (HOSTILE["function that is called to rebuild an object"][0], HOSTILE["reduce"][0]):
        schema["content"]["content"]["beta"] = build(str(tmp_path / "proof"))
        archive = _files.pack(json.dumps(schema).encode(), members)
        skops_io.loads(archive, trusted=skops_io.get_untrusted_types(data=archive))
        (tmp_path / "proof").rmdir()


def test_an_older_protocol_changes_nothing(small, tmp_path):
    _, content, _ = small
    for protocol in (0, 1, -1, 10**6, "1", None):
        schema, members = unforge(content)
        schema["content"]["content"]["beta"] = node(
            "FunctionNode", "os", "system", content={"module_path": "os", "function": "system"}
        )
        schema["protocol"] = protocol
        refuse(tmp_path / "model", forge(schema, members), r"os\.system")


def test_objects_described_in_two_ways_are_refused(small, tmp_path):
    _, content, _ = small
    path = tmp_path / "model"

    def tampered(value):
        schema, members = unforge(content)
        schema["content"]["content"]["beta"] = value
        return forge(schema, members)

    once, again = several(plain(1)), several(plain(2))
    again["__id__"] = once["__id__"]
    refuse(path, tampered(several(once, again)), "one object is described in two ways")
    keys = mapping({"a": plain(1)})
    refuse(path, tampered(several(keys, keys["key_types"])), r"TypeNode|two ways")
    other = mapping({"b": plain(1)})
    other["key_types"] = keys["key_types"]
    refuse(path, tampered(several(keys, other)), "one object is described in two ways")
    for number in (None, 0, -1, 1.0, True, "1"):
        refuse(path, tampered({**plain(1), "__id__": number}))
    twins = several(plain(1))
    for _ in range(50):
        # Would take forever to go through, if every mention of a list were followed.
        twins = several(twins, {**several(), "__id__": twins["__id__"]})
    start = time.monotonic()
    refuse(path, tampered(twins))
    assert time.monotonic() - start < 5.0
    itself = several()
    itself["content"] = [several(kind="list") | {"__id__": itself["__id__"]}]
    refuse(path, tampered(itself))


def npy(descr, shape, data):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n" + data


@pytest.mark.parametrize(
    "array",
    [
        npy("'<f8'", "(1000000000000000,)", b"\0" * 16),
        npy("'<f8'", "(1000000, 1000000, 1000000, 1000000)", b"\0" * 16),
        npy("'<f8'", "(2, 2)", b"\0" * 16),
        npy("'<f8'", "(2,)", b"\0" * 24),
        npy("'<f8'", "(-2,)", b"\0" * 16),
        npy("'<f8'", "(True, 2)", b"\0" * 16),
        npy("'<f8'", "(2.0,)", b"\0" * 16),
        npy("'<f8'", "2", b"\0" * 16),
        npy("'<U0'", "(1000000000000000000,)", b""),
        npy("'|O'", "(2,)", b"\0" * 16),
        npy("[('a', '<f8')]", "(2,)", b"\0" * 16),
        npy("'|V8'", "(2,)", b"\0" * 16),
        npy("__import__('os').system('true')", "(2,)", b"\0" * 16),
        npy("'" + "(" * 5000 + "'", "(2,)", b"\0" * 16),
        npy("(" * 5000, "(2,)", b"\0" * 16),
        b"\x93NUMPY\x03\x00" + b"\0" * 16,
        b"\x93NUMPY",
        b"",
        b"PK\x03\x04",
    ],
    ids=range(19),
)
def test_arrays_that_are_not_there_in_full_are_refused(array, small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    for name in members:
        refuse(tmp_path / "model", forge(schema, members | {name: array}))


def test_arrays_are_there_once(small, tmp_path):
    _, content, _ = small
    path = tmp_path / "model"
    schema, members = unforge(content)
    first, second = (schema["content"]["content"]["projections_"]["content"][v] for v in (0, 1))
    dropped, second["file"] = second["file"], first["file"]
    rest = {name: data for name, data in members.items() if name != dropped}
    refuse(path, forge(schema, rest), "two arrays share their values")
    second["file"] = "nowhere.npy"
    refuse(path, forge(schema, rest), "an array is missing")
    second["file"] = ["a"]
    refuse(path, forge(schema, rest))


def test_a_number_is_no_array(small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    array = schema["content"]["content"]["projections_"]["content"][0]
    array["__class__"] = "float64"
    refuse(tmp_path / "model", forge(schema, members), "a number is an array")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"1" * 10**5]
)
def test_schemas_that_are_none_are_refused(text, tmp_path):
    refuse(tmp_path / "model", forge(text, {}))


def test_deep_schemas_are_refused(small, tmp_path):
    _, content, _ = small
    for depth in (70, 200, 300):
        schema, members = unforge(content)
        deep = plain(1)
        for _ in range(depth):
            deep = several(deep)
        schema["content"]["content"]["beta"] = deep
        refuse(tmp_path / "model", forge(schema, members))


def test_archives_that_unfold_are_refused(small, tmp_path):
    _, content, _ = small
    path = tmp_path / "model"
    schema, members = unforge(content)
    text = json.dumps(schema).encode()

    def archive(entries):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, data, compression in entries:
                file.writestr(zipfile.ZipInfo(name), data, compression)
        return buffer.getvalue()

    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    plain_members = [(name, data, stored) for name, data in members.items()]
    bomb = archive([("schema.json", b" " * (_files._LARGEST_SCHEMA + 1), deflated)])
    assert len(bomb) < 100_000
    refuse(path, wrap(bomb), "more than 64 MiB")
    # The stated size is a lie.
    size = _files._LARGEST_SCHEMA + 1
    lie = bomb.replace(struct.pack("<I", size), struct.pack("<I", 1000))
    refuse(path, wrap(lie))
    # Of these, zipfile unfolds all that it reads at once, whatever size is stated.
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        bomb = archive([("schema.json", b" " * size, compression)])
        assert len(bomb) < 100_000
        lie = bomb.replace(struct.pack("<I", size), struct.pack("<I", 1000))
        refuse(path, wrap(lie), "compressed in a way that crossview.save never uses")
    packed = [("schema.json", text, stored), *((name, data, deflated) for name, data in members.items())]
    refuse(path, wrap(archive(packed)), "arrays are compressed")
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = archive([("schema.json", text, stored), *plain_members, plain_members[0]])
    refuse(path, wrap(twice), "a member is there twice")
    refuse(path, wrap(archive(plain_members)), r"there is no schema\.json")


def test_a_large_search_is_refused_when_it_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_LARGEST_SCHEMA", 1000)
    with pytest.raises(ValueError, match="of a large search, save best_estimator_"):
        save(cv.MvHE(), tmp_path / "model")


@pytest.mark.parametrize(
    "name",
    ["projections_", "means_", "view_names_", "n_features_", "n_features_in_", "beta"],
)
def test_models_that_lack_something_are_refused(name, small, tmp_path):
    _, content, _ = small
    schema, members = unforge(content)
    content = schema["content"]
    gone = content["content"].pop(name)
    content["key_types"]["content"].pop()
    used = set(named_members(gone)) - set(named_members(schema))
    refuse(tmp_path / "model", forge(schema, {k: v for k, v in members.items() if k not in used}), name)


def change(content, **attributes):
    schema, members = unforge(content)
    for name, value in attributes.items():
        schema["content"]["content"][name] = value
    used = set(named_members(schema))
    return forge(schema, {name: data for name, data in members.items() if name in used})


def test_models_whose_parts_do_not_go_together_are_refused(small, tmp_path):
    _, content, _ = small
    path = tmp_path / "model"
    for attributes in (
        {"n_features_": several(plain(2), plain(10**15), kind="tuple")},
        {"n_features_": several(plain(2), plain(3), kind="tuple")},
        {"n_features_": several(plain(2), kind="tuple")},
        {"n_features_": several(plain(2), plain("2"), kind="tuple")},
        {"n_features_in_": plain(5)},
        {"view_names_": several(plain("a"), plain(1))},
        {"view_names_": plain("ab")},
        {"projections_": several()},
        {"means_": several(plain(1), plain("a"))},
        {"transform_view": plain("shadow")},
        {"__sklearn_is_fitted__": plain("shadow")},
    ):
        refuse(path, change(content, **attributes))


SCRIPT = '"><img src=x onerror="alert(1)">'


@pytest.mark.parametrize("inner", [True, False])
def test_attributes_that_hide_what_a_class_defines_are_refused(inner, tmp_path, monkeypatch):
    path = tmp_path / "model"
    pipeline = make_pipeline(cv.ViewScaler(), cv.MvHE())
    part = pipeline[0] if inner else pipeline
    part._doc_link_module, part._doc_link_template = type(part).__module__.split(".")[0], SCRIPT
    with pytest.raises(ValueError, match=r"cannot be saved: an attribute in the place of .*\._doc_link_"):
        save(pipeline, path)
    with monkeypatch.context() as patch:
        patch.setattr(_checks, "_check_attributes", lambda part: None)
        save(pipeline, path)
        assert SCRIPT in load(path)._repr_html_()  # a notebook would run it
    refuse(path, path.read_bytes(), r"an attribute in the place of \w+\._doc_link_")


def test_names_in_a_model_are_no_markup(tmp_path):
    views = cv.Views(SAME_SIZES, names=[SCRIPT, "photo"])
    model = Pipeline([(SCRIPT, cv.ViewScaler()), ("model", cv.KMvHE(2, kernel_params={}))]).fit(views, Y)
    model.steps.append(("unfitted", cv.KCCA(kernel=SCRIPT, kernel_params={SCRIPT: SCRIPT})))
    assert SCRIPT not in through_a_file(model, tmp_path)._repr_html_()


def test_searches_that_would_try_a_cache_are_refused(tmp_path, monkeypatch):
    path, cache = tmp_path / "model", tmp_path / "cache"
    inner = cv.EmbeddingSearchCV(make_pipeline(cv.ViewScaler(), make_pipeline(cv.MvHE(2))), {})
    found = clone(SEARCH).fit(SAME_SIZES, Y)
    found.best_params_ = {"memory": str(cache)}
    for search, reason in (
        (cv.EmbeddingSearchCV(PIPELINE, {"memory": [str(cache)]}), "a search for 'memory' of a pipeline"),
        (cv.EmbeddingSearchCV(PIPELINE, [{}, {"mvhe": [cv.MvHE(2)]}]), "a search for 'mvhe' of a pipeline"),
        (found, "a search for 'memory' of a pipeline"),
        (inner, "a search for the parameters of a Pipeline"),
        (cv.EmbeddingSearchCV(None, {}), "a search for the parameters of a NoneType"),
    ):
        with pytest.raises(ValueError, match=f"cannot be saved: {reason}"):
            save(search, path)
        with monkeypatch.context() as patch:
            patch.setattr(_checks, "_check_search", lambda search: None)
            save(search, path)  # as a file that somebody else has made
        refuse(path, path.read_bytes(), f"holds {reason}")


def test_kernels_that_do_not_exist_are_refused(tmp_path):
    path = tmp_path / "model"
    save(cv.KMvHE(2).fit(ARRAYS, Y), path)
    content = path.read_bytes()

    def changed(name, value):
        schema, members = unforge(content)
        schema["content"]["content"]["kernels_"]["content"][0]["content"]["content"][name] = value
        return forge(schema, members)

    refuse(path, changed("kernel", plain("no such kernel")), "there is no kernel 'no such kernel'")
    refuse(path, changed("kernel", plain(None)), "there is no kernel None")
    refuse(path, changed("kernel_params", mapping({"n_jobs": plain(10**9)})), "n_jobs")


def test_random_states_are_checked(tmp_path):
    path = tmp_path / "model"
    save(cv.KMvHE(random_state=np.random.RandomState(0)), path)
    content = path.read_bytes()
    for position in (625, 10**6, -5):
        schema, members = unforge(content)
        state = schema["content"]["content"]["random_state"]["content"]["content"]["state"]
        state["content"]["pos"]["content"] = json.dumps(position)
        refuse(path, forge(schema, members))


def test_the_object_must_be_an_estimator(tmp_path):
    protocol = unforge_protocol()
    for value in (plain(1), several(), mapping({})):
        refuse(tmp_path / "model", forge({**value, "protocol": protocol}, {}), "is not an estimator")


def unforge_protocol():
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(1))) as archive:
        return json.loads(archive.read("schema.json"))["protocol"]


# Without skops.


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_skops_is_imported_when_it_is_needed_only():
    code = "import sys, crossview, crossview.persistence; print('skops' in sys.modules)"
    assert run(code).strip() == "False"


def test_without_skops(tmp_path):
    code = f"""
import sys
sys.modules["skops"] = None
import crossview as cv
from crossview.persistence import load, save
for call in (lambda: save(cv.MvHE(), {str(tmp_path / "model")!r}), lambda: load({str(tmp_path / "model")!r})):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    assert run(code).count("pip install 'crossview[save]'") == 2
