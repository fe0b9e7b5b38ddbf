from __future__ import annotations

import copy
import errno
import os
import signal
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
import sklearn.model_selection as selection
from fuzz_models import encode, forge, unforge
from methods import ALL, ALTERNATIVES, COUPLED, make, make_for
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline

import crossview as cv
from crossview._schema import KNOWN
from crossview.files import ModelFileError, load, save

confined = pytest.mark.skipif(sys.platform != "linux", reason="needs limits of memory and time")

ARRAYS, Y = make()
SAME_SIZES, _ = make(sizes=(6, 6))


def through_a_file(model, folder):
    save(model, folder / "model")
    return load(folder / "model")


def assert_same(first, second):
    """Equal to the last bit, whatever the objects are made of."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray) and first.dtype != object:
        assert (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
    elif isinstance(first, dict):
        assert_same(list(first.items()), list(second.items()))
    elif isinstance(first, list | tuple | np.ndarray):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    elif isinstance(first, cv.CrossViewClassifier):
        assert_same(first.__getstate__(), second.__getstate__())
    elif hasattr(first, "__dict__"):
        assert_same(vars(first), vars(second))
    else:
        assert first == second or (first != first and second != second)


def assert_same_latents(model, again, arrays):
    for a, b in zip(model.transform(arrays), again.transform(arrays), strict=True):
        assert a.tobytes() == b.tobytes()


def assert_kept(model, folder, arrays=None):
    """A file keeps a model and what it does."""
    again = through_a_file(model, folder)
    assert_same(model, again)
    if arrays is not None:
        assert_same_latents(model, again, arrays)
    return again


PIPELINE = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), cv.MvHE())
GRID = {"viewscaler__by": ["view"], "viewpca__n_components": [3, 4], "mvhe__n_components": [2]}
SEARCH = cv.EmbeddingSearchCV(PIPELINE, GRID, n_folds=2)

# What can be saved.


@pytest.mark.parametrize("model", [*ALL, *COUPLED, *ALTERNATIVES], ids=repr)
def test_methods(model, tmp_path):
    arrays, _ = make_for(model)
    assert repr(assert_kept(model, tmp_path)) == repr(model)
    model = clone(model).fit(cv.Views(arrays, names=["photo", "sketch"]), Y)
    again = assert_kept(model, tmp_path, arrays)
    assert again.score(arrays, Y) == model.score(arrays, Y)


def test_devices_are_not_saved(tmp_path):
    with cv.config_context(device="cpu"):
        models = cv.Contrastive(2, random_state=0, max_epochs=1).fit(ARRAYS, Y), cv.MvHE(2).fit(ARRAYS, Y)
        assert all(b"device" not in encode(model) for model in models)


@pytest.mark.parametrize("pooled", [True, False])
def test_preprocessing_and_pipelines(pooled, tmp_path):
    scaler = cv.ViewScaler(pooled=pooled)
    for model in (
        scaler,
        cv.ViewScaler("view", pooled=pooled),
        cv.ViewPCA(3, pooled=pooled),
        cv.ViewKernel(),
        make_pipeline(scaler, cv.ViewPCA(3, pooled=pooled), cv.KMvHE(2)),
        make_pipeline(scaler, cv.ViewKernel(), cv.MvDA(2)),
        cv.Committee([make_pipeline(scaler, cv.KMvHE(2)), cv.MvDA(3)]),
        make_pipeline(scaler, "passthrough", Pipeline([("pca", cv.ViewPCA(3)), ("cca", cv.CCA(2))])),
    ):
        assert_kept(clone(model), tmp_path)
        assert_kept(clone(model).fit(SAME_SIZES, Y), tmp_path, SAME_SIZES)


def test_one_object_stays_one_and_several_stay_apart(tmp_path):
    again = through_a_file(cv.ViewScaler().fit(SAME_SIZES), tmp_path)
    assert again.means_[0] is again.means_[1]
    matchers = [cv.CrossViewClassifier(cv.MvDA(2)).fit(ARRAYS, Y + k) for k in range(5)]
    assert_same(matchers, through_a_file(cv.MvHE(beta=matchers), tmp_path).beta)


VALUES = [{"\ud800": np.ones(2)}, "\ud800\0", {"": {}}, 10**4000, -0.0, float("nan"), ((),), np.array(1.5)]
VALUES += [np.array("text"), np.array([["a", "bcd"], ["", "\u00e4"]]).T, np.arange(6.0).reshape(2, 3).T]
VALUES += [np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2), np.arange(12.0).reshape(3, 4)[:, ::2]]
VALUES += [np.arange(6, dtype=">i2"), np.array([], dtype=np.float32), np.empty((0, 10**8)), np.array([True, False])]
VALUES += [np.array([1.5, np.nan, -np.inf, -0.0], "f2"), np.array([1, "a", None, (2.5, [np.float32(0.1)])], object)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}{np.shape(value)}")
def test_values(value, tmp_path):
    again = through_a_file(cv.MvHE(beta=value), tmp_path).beta
    if not isinstance(value, np.ndarray) or value.dtype == object:
        assert_same(value, again)
    else:
        np.testing.assert_array_equal(again, value, strict=value.dtype.isnative)
        assert again.flags.f_contiguous or not value.flags.f_contiguous or value.dtype.kind == "U"
        assert again.flags.writeable


KERNELS = [
    cv.KMvHE(2, kernel="poly", kernel_params={"degree": 2}, gamma=0.5, n_landmarks=20, random_state=1),
    cv.KMvHE(2, gamma=[0.1, np.float64(0.2)], n_landmarks=np.int64(20), random_state=None),
    cv.KMvHE(2, gamma=np.array([0.1, 0.2]), kernel_params={}, center=np.bool_(True)),
    cv.KCCA(2, kernel="laplacian", reg=(0.1, 0.2)),
    cv.KCCA(2, kernel="cosine", kernel_params={"dense_output": True}),
    cv.KMvHE(2, kernel="precomputed", n_landmarks=15, random_state=0),
]


@pytest.mark.parametrize("model", KERNELS, ids=lambda model: f"{type(model).__name__}-{model.kernel}")
def test_kernels_and_their_parameters(model, tmp_path):
    arrays = [X @ X.T for X in ARRAYS] if model.kernel == "precomputed" else ARRAYS
    model = clone(model).fit(arrays, Y)
    again = assert_kept(model, tmp_path, arrays)
    if model.random_state is not None:
        assert_same(clone(model).fit(arrays, Y).landmarks_, again.fit(arrays, Y).landmarks_)


def test_columns_image_sizes_and_frames(tmp_path):
    columns = [list("abcdef"), None]
    views = cv.Views(SAME_SIZES, feature_names=columns, image_shape=(2, 3))
    for model in (cv.MvHE(2), cv.KMvHE(2), cv.ViewScaler(), cv.ViewPCA(2), cv.ViewKernel(), cv.Committee([cv.MvDA()])):
        again = through_a_file(model.fit(views, Y), tmp_path)
        assert (again.feature_names_, again.image_shape_) == (columns, (2, 3))
    for model in (cv.MvHE(2), cv.MvHE(2).fit(ARRAYS, Y)):  # the choice of frames is not saved
        file = encode(model)
        assert encode(model.set_output(transform="pandas")) == file
        assert through_a_file(model, tmp_path)._output is None


def test_searches(tmp_path):
    grid = {"reg": np.logspace(-2, 0, 2), "n_components": [2, 3]}
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    couplings = {"mvhe__coupling": [0.0, 4.0, np.inf], "mvhe__whitening": [None, 0.5], "mvhe__n_components": [2]}
    for search in (
        cv.EmbeddingSearchCV(cv.MvDA(), grid, cv=folds),
        cv.EmbeddingSearchCV(cv.CCA(), {"n_components": [2]}, cv=cv.ClassSplit(2, random_state=0)),
        cv.EmbeddingSearchCV(cv.MvHE(2), {"coupling": np.array([0.0, np.inf])}, n_folds=2),
        cv.EmbeddingSearchCV(PIPELINE, couplings, n_folds=2, n_members=3),
        clone(SEARCH),
    ):
        search.fit(SAME_SIZES, Y)
        again = assert_kept(search, tmp_path, SAME_SIZES)
        assert again.score(SAME_SIZES, Y) == search.score(SAME_SIZES, Y)
    assert_kept(cv.CrossViewClassifier(search).fit(SAME_SIZES, Y), tmp_path)
    ranges = through_a_file(cv.EmbeddingSearchCV(cv.MvDA(), {"n_components": range(2, 4)}), tmp_path)
    assert ranges.param_grid == {"n_components": [2, 3]}


SPLITTERS = [cv.ClassSplit(0.5, 3, 0), cv.SampleSplit(2), [(np.arange(5), np.arange(5, 10))], StratifiedKFold(3)]
SPLITTERS += [selection.GroupShuffleSplit(3, test_size=0.3), selection.KFold(3, shuffle=True, random_state=1)]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda splitter: type(splitter).__name__)
def test_splitters(splitter, tmp_path):
    search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, cv=splitter)
    assert_same(search, through_a_file(search, tmp_path))


NAMES = np.array(["a", "bc", "def", "ä", "\U0001f600", ""])


@pytest.mark.parametrize(
    "classes", [NAMES, NAMES.astype(object), np.arange(6, dtype=np.uint8), np.arange(6.0)], ids=lambda y: str(y.dtype)
)
def test_classifier(classes, tmp_path):
    labels = classes[Y]
    model = cv.CrossViewClassifier(make_pipeline(cv.ViewScaler(pooled=False), cv.KMvHE(2)), calibration_folds=3)
    assert_kept(model, tmp_path)
    assert_kept(model.fit(ARRAYS, labels), tmp_path)
    assert_kept(model.enroll(ARRAYS[1], labels, 1, ids=[f"sample \u00e4 {k}" for k in range(len(labels))]), tmp_path)
    again = assert_kept(model.calibrate(ARRAYS[1], labels, 1, 0.3), tmp_path)
    assert_same(model.predict(ARRAYS[1], 1), again.predict(ARRAYS[1], 1))
    assert_same(model.predict_proba(ARRAYS[1]), again.predict_proba(ARRAYS[1]))


def test_a_matcher_with_a_fitted_embedding_holds_it_once(tmp_path):
    search = clone(SEARCH).fit(SAME_SIZES, Y)
    for embedding in (search, FrozenEstimator(search), make_pipeline(search), search.best_estimator_):
        model = cv.CrossViewClassifier(embedding)
        assert_same(model, through_a_file(model, tmp_path))
        model.enroll(SAME_SIZES[0], Y, ids=np.arange(len(Y)) + 100)
        again = through_a_file(model, tmp_path)
        assert_same(model, again)
        assert again.embedding is again.embedding_
        assert_same(model.predict(SAME_SIZES), again.predict(SAME_SIZES))


def test_what_committees_usually_share_is_saved(tmp_path):
    scaler = cv.ViewScaler().fit(SAME_SIZES)
    pca = cv.ViewPCA(3).fit(scaler.transform(SAME_SIZES))
    members = [make_pipeline(scaler, pca, cv.MvDA(2)) for _ in range(200)]
    committee = cv.Committee(members).fit(SAME_SIZES, Y)
    assert_same_latents(committee, through_a_file(make_pipeline(committee), tmp_path), SAME_SIZES)


def test_a_parameter_that_an_older_version_did_not_have_takes_its_default(tmp_path):
    tree, arrays = unforge(encode(cv.MvHE(2)))
    del tree["params"]["beta"]
    (tmp_path / "model").write_bytes(forge(tree, arrays))
    assert load(tmp_path / "model").beta == cv.MvHE().beta


def test_the_same_model_gives_the_same_file(tmp_path):
    model = make_pipeline(cv.ViewScaler(), cv.KMvHE(2, random_state=0)).fit(SAME_SIZES, Y)
    save(model, tmp_path / "first")
    save(copy.deepcopy(model), tmp_path / "second")
    save(load(tmp_path / "first"), tmp_path / "third")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert (tmp_path / "first").read_bytes() == (tmp_path / "third").read_bytes()


# Classes.


class Timed(cv.MvHE):
    _schema: ClassVar = {**cv.MvHE._schema, "seconds_": float, "spreads_": ["D"]}

    def __init__(self, n_components="auto", unit="s"):
        super().__init__(n_components)
        self.unit = unit

    def fit(self, views, y=None):
        super().fit(views, y)
        self.seconds_, self.spreads_ = 1.5, [X.std(axis=0) for X in cv.Views(views).arrays]
        return self


def test_every_estimator_and_splitter_of_the_package_is_known():
    known = {entry.cls for entry in KNOWN.values()}
    for cls in (getattr(cv, name) for name in cv.__all__):
        if isinstance(cls, type) and (issubclass(cls, BaseEstimator) or hasattr(cls, "get_n_splits")):
            assert cls in known


def test_a_class_of_the_user_needs_to_be_registered(tmp_path, monkeypatch):
    model = make_pipeline(cv.ViewScaler(), Timed(2, unit="ms")).fit(SAME_SIZES, Y)
    message = r"Timed, which cannot be saved: register its class with crossview\.register"
    for unknown in (model, Timed()):
        with pytest.raises(ValueError, match=message):
            save(unknown, tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr("crossview._schema.KNOWN", KNOWN)
        patch.setitem(KNOWN, "Timed", None)  # so that it is removed again
        del KNOWN["Timed"]
        assert cv.register(Timed) is Timed
        cv.register(Timed)  # as a notebook does that is run again
        again = assert_kept(model, tmp_path, SAME_SIZES)
        assert (again[-1].seconds_, again[-1].unit) == (1.5, "ms")
        model[-1].seconds_ = "long"
        with pytest.raises(ValueError, match=r"Timed\.seconds_ is invalid"):
            save(model, tmp_path / "forgery")
        model[-1].seconds_ = 1.5
        model[-1].minutes_ = 1.0
        with pytest.raises(ValueError, match=r"Timed\.minutes_ is not part of a model, as Timed\._schema does not"):
            save(model, tmp_path / "forgery")
    with pytest.raises(ModelFileError, match=r"not made of 'Timed': register .* with crossview\.register"):
        load(tmp_path / "model")


def test_what_is_registered_is_an_estimator_with_a_name_of_its_own():
    for other in (1, BaseEstimator, Timed(), lambda: None):
        with pytest.raises(TypeError, match="register takes a subclass of an estimator of crossview"):
            cv.register(other)
    with pytest.raises(ValueError, match=r"crossview\.embeddings\.hybrid has registered another MvHE: rename"):
        cv.register(type("MvHE", (cv.MvHE,), {}))
    assert KNOWN["MvHE"].cls is cv.MvHE


# What cannot be saved.


@pytest.mark.parametrize("kernel", [lambda x, z: float(x @ z), np.dot], ids=["lambda", "numpy"])
def test_functions_as_kernels_are_refused(kernel, tmp_path):
    model = cv.KMvHE(2, kernel=kernel)
    for one in (model, clone(model).fit(ARRAYS, Y), make_pipeline(cv.ViewScaler(), cv.KCCA(kernel=kernel))):
        with pytest.raises(ValueError, match=r"kernel is a .* cannot be saved: use a kernel by its name \(.*rbf"):
            save(one, tmp_path / "model")
    assert not list(tmp_path.iterdir())


ITSELF = cv.MvHE()
ITSELF.beta = [ITSELF]
ENDLESS = cv.Committee([])
ENDLESS.members = [ENDLESS]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GridSearchCV(cv.MvHE(), {"beta": [0.1]}), r"GridSearchCV is a .* save best_estimator_"),
        (Pipeline([("model", cv.MvHE())], memory="cache"), "memory is a cache"),
        (cv.MvHE(n_components=1 + 2j), r"n_components is a builtins\.complex"),
        (cv.KMvHE(kernel_params={1: 1, "1": 2}), "has the key 1"),
        (cv.KMvHE(kernel_params={"$": "tuple"}), r"has the key '\$'"),
        (cv.KMvHE(random_state=np.random.RandomState(0)), r"RandomState, .* use a whole number as random_state"),
        (cv.MvHE(beta=np.ma.ones(2)), "MaskedArray"),
        (cv.MvHE(beta=np.zeros(2, dtype=[("a", float)])), "beta is a numpy"),
        (cv.MvHE(beta=np.array(None, dtype=object)), "cannot be saved"),
        (cv.MvHE(beta=np.ones(2, dtype=complex)), r"beta is a numpy\.ndarray of complex128, .* use numbers"),
        (cv.MvHE(beta=10**5000), "cannot be saved"),
        (cv.MvHE(beta=[0] * 10**6), "more than a million values: save best_estimator_ of a large search"),
        (cv.MvHE(beta="x" * 17 * 2**20), "more than 16 MiB .* save best_estimator_ of a large search"),
        (ITSELF, "nested too deeply, or contains itself"),
        (ENDLESS, "nested too deeply, or contains itself"),
    ],
    ids=range(15),
)
def test_what_a_file_cannot_hold_is_refused(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_only_estimators_are_saved(tmp_path):
    with pytest.raises(TypeError, match="save takes an estimator, got list"):
        save([cv.MvHE()], tmp_path / "model")


# Files.


def test_folders_and_links(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*nowhere does not exist: create it first"):
        save(cv.MvHE(), tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="is a folder: add the name of a file"):
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
    (tmp_path / "model").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert load(tmp_path / "model").n_components == 4  # reading needs no right to write
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_neither_replaced_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=f"{name} is a device, a pipe or a socket: choose the name of a file"):
            save(cv.MvHE(), tmp_path / name)
        with pytest.raises(OSError, match="is a device, a pipe or a socket"):
            cv.export_onnx(cv.MvHE(2).fit(ARRAYS, Y), 0, tmp_path / name)
        with pytest.raises(ModelFileError, match="is not a file"):
            load(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("code", [None, errno.ENOSPC, errno.EACCES])
def test_an_exception_leaves_the_old_file(code, function, tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(cv.MvHE(3), path)

    def fail(*arguments):
        raise KeyboardInterrupt if code is None else OSError(code, os.strerror(code))

    message = None if code is None else rf"cannot write .*model \({os.strerror(code)}\): check free space"
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(KeyboardInterrupt if code is None else OSError, match=message) as caught:
            save(cv.MvHE(4), path)
    assert isinstance(caught.value, PermissionError) == (code == errno.EACCES)
    assert load(path).n_components == 3
    assert list(tmp_path.iterdir()) == [path]


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
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_kill_leaves_the_old_file(function, tmp_path):
    save(cv.MvHE(3), tmp_path / "model")
    code = f"import os, signal, sys, crossview as cv\nos.{function} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    command = [sys.executable, "-c", f"{code}cv.save(cv.MvHE(4), sys.argv[1])", str(tmp_path / "model")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert load(tmp_path / "model").n_components == 3


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_what_killed_processes_leave_is_removed(tmp_path):
    code = f"""
import os, signal, crossview as cv
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
cv.save(cv.MvHE(), {str(tmp_path / "model")!r})
"""
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    left = list(tmp_path.iterdir())
    assert len(left) == 2
    prefix = left[0].name.rpartition("-")[0].rpartition("-")[0]
    alive = [tmp_path / f"{prefix}-{pid}-0123.tmp" for pid in (os.getpid(), os.getppid(), 1)]
    others = [tmp_path / name for name in (".crossview-another machine-999999999-01.tmp", f"{prefix}-.tmp", ".a.tmp")]
    for path in (*alive, *others):
        path.write_bytes(b"")
    save(cv.MvHE(3), tmp_path / "model")
    assert set(tmp_path.iterdir()) == {tmp_path / "model", *alive, *others}
