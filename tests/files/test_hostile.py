"""Damaged and forged files: no model is loaded from them, nothing is executed, and little memory and time are used."""

from __future__ import annotations

import copy
import functools
import json
import operator
import os
import pickle
import sys
from itertools import islice

import fuzz_models
import fuzzing
import numpy as np
import pytest
from fuzz_models import encode, forge, seal, split, unforge
from methods import make
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline

import crossview as cv
from crossview.files import ModelFileError, load, save

confined = pytest.mark.skipif(sys.platform != "linux", reason="needs limits of memory and time")

ARRAYS, Y = make()
SAME_SIZES, _ = make(sizes=(6, 6))
PIPELINE = make_pipeline(cv.ViewScaler(), cv.ViewPCA(), cv.MvHE())
SEARCH = cv.EmbeddingSearchCV(
    PIPELINE, {"viewpca__n_components": [3, 4], "viewscaler__by": ["view"], "mvhe__n_components": [2]}, n_folds=2
)


@pytest.fixture(scope="module")
def content():
    """The file of a small model."""
    rng = np.random.default_rng(0)
    model = cv.MvHE(1).fit([rng.normal(size=(8, 2)) for _ in range(2)], np.arange(8) % 2)
    return bytes(encode(model))


def refuse(path, content, message=None):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


GONE = object()


def forged(model, way, value):
    """The file of a model, with another value, or none, where the way leads to."""
    tree, arrays = unforge(encode(model))
    *before, last = (int(key) if key.isdigit() else key for key in way.split("/"))
    holder = functools.reduce(operator.getitem, before, tree)
    if value is GONE:
        del holder[last]
    elif isinstance(value, dict) and "$" in value:  # as it is in a file
        holder[last] = value
    else:
        other, more = unforge(encode(cv.MvHE(beta=value)))
        holder[last] = other["params"]["beta"]
        arrays |= more
    text = json.dumps(tree)
    return forge(text, {name: X for name, X in arrays.items() if json.dumps(name) in text})


def assert_outcomes(contents, expected):
    """Loading files in a child process ends as expected, and takes little memory and time."""
    found = fuzzing.run("fuzz_models", [("model", content) for content in contents])
    assert found["failures"] == []
    assert found["outcomes"] == expected


def test_truncated_and_damaged_files(content, tmp_path):
    for length in range(0, len(content), 23):
        refuse(tmp_path / "model", content[:length])
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        refuse(tmp_path / "model", damaged)
    refuse(tmp_path / "model", content[:-1], r"is cut short: .* Restore it from a copy, or save the model again")
    refuse(tmp_path / "model", content + b"\n", "is damaged")


@confined
@pytest.mark.parametrize("kind", fuzz_models.MAKERS)
def test_a_sample_of_the_files_of_fuzz_models(kind):
    make, expected, _ = fuzz_models.MAKERS[kind]
    found = fuzzing.run("fuzz_models", islice(make(seed=1), 300), expected)
    assert found["failures"] == []
    assert found["outcomes"]["refused"] > 200


ZEROS = "0" * 64


def test_other_versions_and_formats_are_refused_by_name(content, tmp_path):
    tree, arrays = unforge(content)
    path = tmp_path / "model"
    message = rf"was written by crossview 2\.1\.0 in format \d, which {cv.__version__} does not read: upgrade"
    refuse(path, forge(tree, arrays, "2.1.0"), message)
    refuse(path, seal({"__metadata__": {"crossview": f"format=4 version=2.1.0 sha256={ZEROS} something new"}}), message)
    path.write_bytes(forge(tree, arrays, "0.99.0rc1"))
    assert load(path).n_components == 1
    old = content.replace(b"format=3 ", b"format=2 ", 1)
    refuse(path, old, rf"was written by crossview {cv.__version__} in format 2, .* fit the model again")


MARKS = ["", "format=3", "format=3 version= sha256= ", "format=3 version=0.1.0" + " " * 1000, 1, None, [], {}]
MARKS += [f"format={number} version=0.1.0 sha256={ZEROS} {{}}" for number in ("3", "one", "-1", "")]
MARKS += [f"format=3 version=0.1.0 sha256={ZEROS[1:]}{end} {{}}" for end in ("", "g")]


def test_beginnings_that_are_none_are_refused(content, tmp_path):
    path, (header, data) = tmp_path / "model", split(content)
    for mark in MARKS:
        for metadata in ({"crossview": mark}, {"other": mark}, mark):
            refuse(path, seal(header | {"__metadata__": metadata}, data))
    for length in (0, 1, 2, 7, 10**3, 2**24, 2**31, 2**63, 2**64 - 1):
        refuse(path, length.to_bytes(8, "little") + content[8:], "is not a model of crossview")
    for other in ({"a": 1}, b"\xff\xfe{\0}\0", b"\0" * 100, b"{" + b"\xff" * 100):
        refuse(path, seal(other), "is not a model of crossview")


@confined
def test_large_files_that_are_not_models_are_refused_by_their_first_bytes(content, tmp_path):
    largest = (16 * 2**20).to_bytes(8, "little")
    starts = (b"", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04", largest, b"\x02" + b"\0" * 7 + b"{}", content)
    for k, start in enumerate(starts):
        with open(tmp_path / str(k), "wb") as file:
            file.write(start)
            file.truncate(20 * 10**9)
    assert_outcomes(tmp_path.iterdir(), {"refused": len(starts)})


def test_names_in_a_file_do_not_make_errors_long(content, tmp_path):
    tree, arrays = unforge(content)
    tree["params"]["x\n\x1b[2J" + "y" * 10**6] = 1
    refuse(tmp_path / "model", forge(tree, arrays))


# Harm.


class Touch:
    """Leaves a file behind when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickles_are_not_loaded(content, tmp_path):
    tree, arrays = unforge(content)
    proof, path = tmp_path / "proof", tmp_path / "model"
    hostile = pickle.dumps(Touch(proof))
    pickle.loads(hostile)  # it would do harm
    proof.rmdir()
    refuse(path, hostile, "Pickles are never loaded")
    refuse(path, len(hostile).to_bytes(8, "little") + hostile, "is not a model of crossview")
    refuse(path, forge(hostile.decode("latin-1"), arrays))
    refuse(path, forge(tree, arrays | {"pickle": np.frombuffer(hostile, np.uint8)}), "nothing uses the array 'pickle'")
    header, data = split(content)
    refuse(path, seal(header, data + hostile), "is damaged")
    assert not proof.exists()


PROOF = "the name of a file that nothing may create"
KINDS = ["os.system", "type", "memmap", "FunctionTransformer", "crossview.embeddings.hybrid.MvHE", "Embedding", "Views"]
KINDS += ["__class__", "range", 1]
NOTHING = {"params": {"args": PROOF}, "fitted": {}, "items": [PROOF]}
HOSTILE = [({"$": name} | NOTHING, f"not made of {name!r}") for name in KINDS]
HOSTILE += [({"$": name} | NOTHING, "unhashable") for name in (["MvHE"], {"a": 1})]
HOSTILE += [
    ({"$": "eval", "items": [f"__import__('os').mkdir({PROOF!r})"]}, "'eval'"),
    ({"$": "Kernel", "params": {"kernel": {"$": "os.system"}}, "fitted": {}}, r"os\.system"),
    ({"$": "MvHE", "params": {"self": 1}, "fitted": {}}, "MvHE has no parameter 'self'"),
    ({"$": "MvHE", "params": {}, "fitted": {"transform_view": PROOF}}, r"MvHE\.transform_view is not part of a model"),
    ({"$": "float64", "value": [1, [2]]}, "not made of 'float64'"),
    ({"$": "float64"}, "KeyError: 'value'"),
    ({"$": "Pipeline", "params": {"steps": [], "memory": PROOF}, "fitted": {}}, "memory is a cache"),
]


@pytest.mark.parametrize(("hostile", "message"), HOSTILE, ids=lambda value: str(value)[:30])
def test_hostile_files_are_refused_and_nothing_is_run(hostile, message, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model"
    tree, arrays = unforge(content)
    for place in (hostile, [1, {"$": "tuple", "items": [hostile]}], {"a": hostile}):
        refuse(path, forge(tree | {"params": {"beta": place}}, arrays), message)
    tree["fitted"]["projections_"] = [hostile, hostile]
    refuse(path, forge(tree, arrays), message)
    refuse(path, forge(hostile, {}), message)
    assert os.listdir(tmp_path) == ["model"]


SHAPES = [[10**15], [10**6] * 4, [2**62, 4], [10**4000] * 50, [1] * 100_000, [2, 2], [3], [-2, -1], [True, 2]]
ENTRIES = {
    "shape": [*SHAPES, [2.0, 1], 2, None, "21"],
    "dtype": ["F32", "O", "C64", "BF16", ["F64"], "__import__('os').system('true')"],
    "data_offsets": [[0, 10**15], [0, 10**4000], [0, 1e308], [-16, 0], [0], [0, 16, 32], ["0", "16"], None],
}


@pytest.mark.parametrize("key", ENTRIES)
def test_arrays_that_are_not_there_in_full_are_refused(key, content, tmp_path):
    entries = [{key: value} for value in ENTRIES[key]] + [{"shape": [0, 10**8], "data_offsets": [0, 0]}]
    for name in unforge(content)[1]:
        header, data = split(content)
        for entry in entries:
            refuse(tmp_path / "model", seal(header | {name: header[name] | entry}, data))
        for other in (None, [], "F64", {}):
            refuse(tmp_path / "model", seal(header | {name: other}, data))


def test_arrays_are_there_once_and_are_used(content, tmp_path):
    path = tmp_path / "model"
    header, data = split(content)
    first, second = (header[f"MvHE.projections_[{v}]"] for v in (0, 1))
    first["data_offsets"], header["MvHE.projections_[1]"] = second["data_offsets"], second
    refuse(path, seal(header, data))
    tree, arrays = unforge(content)
    for name, message in (("nowhere", "KeyError: 'nowhere'"), (["a"], "unhashable")):
        tree["fitted"]["projections_"][1]["array"] = name
        refuse(path, forge(tree, arrays), message)
    tree["fitted"]["projections_"][1] = tree["fitted"]["projections_"][0]
    refuse(path, forge(tree, arrays), "nothing uses the array")


def test_text_truth_values_and_kinds_of_numbers_are_checked(tmp_path):
    path = tmp_path / "model"
    save(cv.MvHE(beta=np.array(["ab", "c"]), center=np.array([True, False])), path)
    assert load(path).beta.tolist() == ["ab", "c"]
    tree, arrays = unforge(path.read_bytes())
    for codes in (np.array([[97, 2**31]], np.uint32), np.array([[97.0]]), np.array([[97]]), np.array(97, np.uint32)):
        refuse(path, forge(tree, arrays | {"MvHE.beta": codes}))
    flags = np.array([1, 2], np.uint8).view(bool)
    refuse(path, forge(tree, arrays | {"MvHE.center": flags}), "truth values other than 0 and 1")
    header, data = split(forge(tree, arrays | {"MvHE.center": np.array([1.0])}))
    header["MvHE.center"]["dtype"] = "C64"
    refuse(path, seal(header, data), r"complex64|C64")


def test_descriptions_that_are_none_are_refused(tmp_path):
    for text in ("", "{", "[" * 100_000, '{"a":' * 100_000, "1" * 10**5, '{"$": null', '{"$": "MvHE"}'):
        refuse(tmp_path / "model", forge(text, {}))
        refuse(tmp_path / "model", seal(text.encode()), "is not a model of crossview")
    for tree in (1, [], {}, "MvHE", None, np.nan, {"$": None}, {"$": "KFold", "params": {}, "fitted": {}}):
        refuse(tmp_path / "model", forge(json.dumps(tree), {}), "is not an estimator")


def test_keys_are_there_once(content, tmp_path):
    tree, arrays = unforge(content)
    text = json.dumps(tree)
    for old in ('"$": "MvHE"', '"params"', '"view_names_"'):
        twice = f"{old}: 1, {old}" if ":" not in old else f"{old}, {old}"
        refuse(tmp_path / "model", forge(text.replace(old, twice, 1), arrays), "has a key more than once")
    header, data = split(content)
    name = next(name for name in header if name != "__metadata__")
    doubled = json.dumps(header).replace("{", f"{{{json.dumps(name)}: {json.dumps(header[name])}, ", 1)
    refuse(tmp_path / "model", seal(doubled.encode(), data))


# What takes much memory or time.


def test_deep_descriptions_are_refused(content, tmp_path):
    for depth in (70, 200, 300):
        for wrap in (lambda deep: [deep], lambda deep: {"a": deep}, lambda deep: {"$": "tuple", "items": [deep]}):
            tree, arrays = unforge(content)
            deep = 1
            for _ in range(depth):
                deep = wrap(deep)
            tree["params"]["beta"] = deep
            refuse(tmp_path / "model", forge(tree, arrays), "nested too deeply")


BETA = '{"$":"MvHE","params":{"beta":[%s]},"fitted":{}}'
MARK = f'{{"__metadata__":{{"crossview":"format=3 version={cv.__version__} sha256={ZEROS} '


@confined
def test_descriptions_that_unfold_are_refused(content):
    before, after = json.dumps(BETA)[1:-1].split("%s")
    items = ["{}", "[]", '\\"\\"', '\\"ab\\"', "1e9", "\\u007b\\u007d", '{\\"$\\":\\"float64\\"}']
    many = [(item, 15) for item in items] + [("{}", 64), (" " * 100, 15), ("[" * 100, 15)]
    files = [
        seal(f'{MARK}{before}{",".join([item] * (megabytes * 2**20 // (len(item) + 1)))}{after}"}}}}'.encode())
        for item, megabytes in many
    ]
    entries = ",".join(f'"{k}":{{"dtype":"F64","shape":[0],"data_offsets":[0,0]}}' for k in range(150_000))
    files.append(seal(f'{MARK}{{}}"}},{entries}}}'.encode()))
    files.append(forge('{"$":"str","value":[' + '"a",' * 1000 + '"' + "x" * 10**7 + '"]}', {}))
    assert_outcomes(files, {"refused": len(files)})


VALUES_OF_JSON = ['"ab"', "1e9", "[]", '{"a":1}', '"' + "x" * 14 + '"']
VALUES_OF_JSON += ['{"$":"tuple","items":[]}', '{"$":"str","value":"a"}', '{"$":"int8","value":1}']
OBJECTS = [f'{{"$":"{name}","params":{{}},"fitted":{{}}}}' for name in ("MvHE", "KMvHE", "KFold", "CCA")]


@confined
@pytest.mark.parametrize(("outcome", "items"), [("loaded, without a result", VALUES_OF_JSON), ("refused", OBJECTS)])
def test_descriptions_of_many_values_take_little(outcome, items):
    files = []
    for item in items:
        values = 1 + item.count("[") + item.count("{") + item.count(",")
        content = ",".join([item] * min((10**6 - 10) // values, 12 * 2**20 // len(json.dumps(item))))
        files.append(forge(BETA % content, {}))
    assert_outcomes(files, {outcome: len(files)})


SAME = '{"$":"same","object":%d}'
STEPS = '{"$":"Pipeline","params":{"steps":[%s]},"fitted":{}}'
STEP = '{"$":"tuple","items":["a",%s]}'
MEMBERS = '{"$":"Committee","params":{"members":[%s]},"fitted":{}}'
UNFITTED = '{"$":"MvHE","params":{},"fitted":{}}'


@confined
def test_shared_and_nested_estimators_take_little():
    """Lists of lists of estimators, which take little in a file, and are checked as a whole at every level."""
    deep = STEPS % ",".join([STEP % UNFITTED] * 9_000)
    for _ in range(15):
        deep = STEPS % (STEP % deep)
    assert_outcomes(
        [forge(deep, {}), forge(MEMBERS % ",".join([UNFITTED] * 9_000), {})], {"loaded, without a result": 2}
    )
    pipeline = committee = UNFITTED
    for level in range(45):
        pipeline = STEPS % ",".join([STEP % pipeline, STEP % (SAME % level)])
    for level in range(14):
        committee = MEMBERS % ",".join([committee, SAME % level, SAME % level])
    wide = STEPS % ",".join([STEP % UNFITTED, *[STEP % (SAME % 0)] * 9_000])
    for level in range(1, 30):
        wide = STEPS % ",".join([STEP % wide, *[STEP % (SAME % level)] * 20])
    assert_outcomes([forge(text, {}) for text in (pipeline, committee, wide)], {"refused": 3})


@confined
def test_shared_galleries_and_views_take_little():
    matcher = cv.CrossViewClassifier(cv.MvDA(2)).fit(ARRAYS, Y)
    tree, arrays = unforge(encode(matcher))
    g = 100_000
    for key in ("gallery_", "gallery_labels_", "gallery_ids_", "gallery_views_"):
        name = tree["fitted"][key]["array"]
        arrays[name] = np.repeat(arrays[name][:1], g, axis=0)
    arrays[tree["fitted"]["gallery_ids_"]["array"]] = np.arange(g).astype("U6").view(np.uint32).reshape(g, -1)
    again = copy.deepcopy(tree)
    again["params"]["embedding"] = again["fitted"]["embedding_"] = {"$": "same", "object": 0}
    many = {"$": "MvHE", "params": {"beta": [tree, *[again] * 2000]}, "fitted": {}}
    scaler, means = unforge(encode(cv.ViewScaler(pooled=False).fit([SAME_SIZES[0]] * 1000)))
    steps = [{"$": "tuple", "items": [str(k), {"$": "same", "object": 0}]} for k in range(9_000)]
    text = STEPS % ",".join([STEP % json.dumps(scaler), *map(json.dumps, steps)])
    assert_outcomes([forge(tree, arrays), forge(many, arrays), forge(text, means)], {"loaded": 1, "refused": 2})


def test_many_views_and_means_that_broadcast_to_many_features_are_refused(content, tmp_path):
    n = 20_000
    tree, arrays = unforge(content)
    tree["fitted"] |= {"n_features_": {"$": "tuple", "items": [10**7] * 2}, "n_features_in_": 2 * 10**7}
    arrays |= {f"MvHE.means_[{v}]": np.zeros(1) for v in (0, 1)}
    refuse(tmp_path / "model", forge(tree, arrays), r"MvHE\.means_ .* does not fit")
    tree["fitted"] |= {"n_features_": {"$": "tuple", "items": [1] * n}, "n_features_in_": n}
    tree["fitted"] |= {name: tree["fitted"][name][:1] * n for name in ("means_", "projections_")}
    tree["fitted"]["view_names_"] = [f"view{v}" for v in range(n)]
    refuse(tmp_path / "model", forge(tree, {name: X for name, X in arrays.items() if "[1]" not in name}))


# Parts that are missing, or do not go together.


@functools.cache
def model_of(kind):
    """Small fitted models, by what they are."""
    if kind == "precomputed":
        return cv.KMvHE(2, kernel="precomputed", n_landmarks=15, random_state=0).fit([X @ X.T for X in ARRAYS], Y)
    if kind == "frozen":
        return cv.CrossViewClassifier(cv.MvDA(2).fit(ARRAYS, Y)).enroll(ARRAYS[0], Y)
    kinds = {"linear": cv.MvHE(1), "kernel": cv.KMvHE(2), "scaler": cv.ViewScaler(), "pca": cv.ViewPCA(3)}
    kinds |= {"semantic": cv.SemanticMatching(), "search": SEARCH, "committee": cv.Committee([cv.MvDA(2)])}
    kinds["matcher"] = cv.CrossViewClassifier(cv.MvDA(2), calibration_folds=2)
    return clone(kinds[kind]).fit(SAME_SIZES, Y)


IDS, SCALED = np.arange(60).astype(str), cv.ViewScaler().fit(SAME_SIZES)
FORGERIES = {
    ("linear", "fitted/n_features_"): [(6, 10**15), (6, 7), (6,), (6, "6"), (6, True), [6, 6], 6, GONE],
    ("linear", "fitted/n_features_in_"): [13, GONE],
    ("linear", "fitted/view_names_"): [["a", 1], ["a", "a"], "ab", [], ["a"], GONE],
    ("linear", "fitted/feature_names_"): [None, [None], (None, None), [None, ["a"]], [None, [*"abcde", 1]], GONE],
    ("linear", "fitted/feature_names_/1"): ["abcdef", tuple("abcdef")],
    ("linear", "fitted/image_shape_"): [[2, 3], (2, 2), (-2, -3), (2, 3.0), (True, 6), (2, 3, 1), GONE],
    ("linear", "fitted/projections_"): [[], [1, "a"], (np.ones((6, 1)),) * 2, GONE],
    ("linear", "fitted/projections_/0"): [np.ones(shape) for shape in ((6, 2), (7, 1), (0, 10**8), 6, (6, 1, 1))],
    ("linear", "fitted/projections_/1"): [np.ones((6, 1), kind) for kind in (np.float32, int, bool, "U1")],
    ("linear", "fitted/means_"): [[1, "a"], GONE],
    ("linear", "fitted/means_/1"): [np.zeros(1), np.array(0.0)],
    ("linear", "fitted/eigenvalues_"): [np.zeros(2), GONE],
    ("linear", "fitted/coupling_"): [np.nan, -1.0, True, "auto"],
    ("linear", "fitted/neighbour_recall_"): [np.nan, -0.1, 1.1, "all"],
    ("linear", "$"): ["MvDA", GONE],
    ("linear", "params"): [[], GONE],
    ("linear", "fitted"): [[], {"means_": [np.zeros(6)] * 2}, GONE],
    **{("linear", f"fitted/{name}"): ["shadow"] for name in ("transform_view", "__sklearn_is_fitted__", "__class__")},
    ("linear", "fitted/_output"): ["pandas"],
    ("kernel", "fitted/gamma_/0"): [np.nan, -np.inf, True, "wide"],
    ("kernel", "fitted/kernels_"): [[], [None, None]],
    ("kernel", "fitted/kernels_/0/params/kernel"): ["no such kernel", None, ["rbf"], "precomputed"],
    ("kernel", "fitted/kernels_/0/params/gamma"): ["wide", np.nan, -np.inf, True],
    ("kernel", "fitted/kernels_/0/params/origin"): [np.zeros(2), np.full(6, np.nan)],
    ("kernel", "fitted/kernels_/0/params/kernel_params"): [{"n_jobs": 10**9}, {"degree": None}, {"coef0": []}],
    ("precomputed", "fitted/landmarks_/0"): [np.arange(15) + 46, np.arange(15) - 1, np.ones(15), np.arange(14), IDS],
    ("search", "fitted/best_index_"): [10**6, -1],
    ("search", "fitted/members_"): [[0, 4], ["0"]],
    ("search", "fitted/best_score_"): ["high"],
    ("search", "fitted/best_metric_"): [1],
    ("search", "fitted/best_params_"): [[]],
    ("search", "fitted/cv_results_"): [{}],
    ("search", "fitted/cv_results_/mean_test_score"): [[0.5]],
    ("search", "fitted/cv_results_/params"): [[1, 2, 3, 4]],
    ("search", "fitted/best_estimator_"): [None],
    ("committee", "fitted/members_"): [[], [cv.MvDA(2)], [SCALED], [None]],
    ("committee", "fitted/members_/0"): [cv.MvDA(2).fit(ARRAYS, Y)],
    ("frozen", "fitted/embedding_/object"): [1, -1, 10**6, "0", 0.0, True, None, [0], GONE],
    ("matcher", "fitted/gallery_"): [np.zeros((60, 3)), np.zeros((59, 2)), np.zeros((60, 2), np.float32), GONE],
    ("matcher", "fitted/gallery_labels_"): [Y[:1], Y[:, None], list(Y), np.array([cv.MvHE()] * 60, dtype=object), GONE],
    ("matcher", "fitted/gallery_ids_"): [np.arange(60), IDS[:59], IDS.tolist(), np.repeat(IDS[:1], 60), GONE],
    ("matcher", "fitted/gallery_views_"): [np.full(60, "top"), np.full(61, "view0"), np.zeros(60), GONE],
    ("matcher", "fitted/gallery_index_"): [{}, 1, "index", GONE],
    ("matcher", "fitted/temperature_"): [0.0, np.inf, np.nan, "hot", GONE],
    ("matcher", "fitted/temperature_metric_"): ["manhattan"],
    ("matcher", "fitted/threshold_"): [np.nan, np.inf, -1e-300, True, np.bool_(True), 10**400, "0.5", [0.5], GONE],
    ("matcher", "fitted/threshold_metric_"): [["cosine"], GONE],
    ("matcher", "fitted/threshold_view_"): ["top", GONE],
    ("matcher", "fitted/embedding_"): [cv.MvDA(2), SCALED, "MvDA", GONE],
}


@pytest.mark.parametrize(("kind", "way"), FORGERIES, ids="-".join)
def test_parts_that_do_not_fit_are_refused(kind, way, tmp_path):
    model, name = model_of(kind), way.split("/")[1:2]
    for value in FORGERIES[kind, way]:
        message = rf"\.{name[0]} is missing" if value is GONE and name and way.count("/") == 1 else None
        refuse(tmp_path / "model", forged(model, way, value), message)


OPTIONAL = {"linear": "coupling_", "search": "best_estimator_", "matcher": "temperature_metric_"}


@pytest.mark.parametrize(("kind", "name"), OPTIONAL.items())
def test_parts_that_may_be_missing(kind, name, tmp_path):
    (tmp_path / "model").write_bytes(forged(model_of(kind), f"fitted/{name}", GONE))
    assert type(load(tmp_path / "model")) is type(model_of(kind))


@pytest.mark.parametrize("good", [0, 0.0, 0.5, np.float32(2), None])
def test_thresholds(good, tmp_path):
    (tmp_path / "model").write_bytes(forged(model_of("matcher"), "fitted/threshold_", good))
    assert load(tmp_path / "model").threshold_ == good


def test_what_is_refused_is_not_saved(tmp_path):
    matcher = copy.copy(model_of("matcher"))
    for bad in (np.nan, -1.0, True):
        matcher.threshold_ = bad
        with pytest.raises(ValueError, match=r"cannot be saved: CrossViewClassifier\.threshold_ is invalid"):
            save(matcher, tmp_path / "model")
    for inner in (None, 1.5, "MvDA", [cv.MvDA()], cv.ClassSplit(2)):
        with pytest.raises(ValueError, match=r"cannot be saved: FrozenEstimator\.estimator is invalid"):
            save(FrozenEstimator(inner), tmp_path / "model")
        refuse(tmp_path / "forgery", encode(FrozenEstimator(inner)), r"FrozenEstimator\.estimator is invalid")


ARRAYS_OF = {
    "linear": ["projections_", "means_", "eigenvalues_"],
    "kernel": ["projections_", "landmarks_", "offsets_"],
    "scaler": ["scales_"],
    "pca": ["components_"],
    "semantic": ["intercepts_"],
    "matcher": ["gallery_"],
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ARRAYS_OF)
def test_arrays_of_models_are_finite(kind, bad, tmp_path):
    for name in ARRAYS_OF[kind]:
        tree, arrays = unforge(encode(model_of(kind)))
        node = tree["fitted"][name]
        arrays[(node[0] if isinstance(node, list) else node)["array"]].ravel()[-1] = bad
        refuse(tmp_path / "model", forge(tree, arrays), rf"{name} is invalid")


def test_steps_take_what_the_step_before_gives(tmp_path):
    path = tmp_path / "model"
    pipeline = make_pipeline(cv.ViewScaler(), cv.ViewPCA(3), cv.MvDA(2)).fit(SAME_SIZES, Y)
    wrong = Pipeline([*pipeline.steps[:2], ("mvda", cv.MvDA(2).fit(SAME_SIZES, Y))])
    narrow = dict(zip("ab", pipeline[:2].transform(SAME_SIZES), strict=True))
    named = Pipeline([*pipeline.steps[:2], ("mvda", cv.MvDA(2).fit(narrow, Y))])
    for model in (wrong, named, make_pipeline(wrong), cv.Committee([pipeline])._of([wrong], cv.Views(SAME_SIZES))):
        with pytest.raises(ValueError, match=r"Pipeline\.steps .* does not fit the rest of the model"):
            save(model, path)
        refuse(path, encode(model), r"Pipeline\.steps .* does not fit the rest of the model")


def test_samples_of_a_view_have_their_own_ids(tmp_path):
    model = cv.CrossViewClassifier(cv.MvDA(2)).fit(ARRAYS, Y)
    model.enroll(ARRAYS[1], Y, 1)
    save(model, tmp_path / "model")  # the same ids in another view
    tree, arrays = unforge(encode(model))
    ids = arrays[tree["fitted"]["gallery_ids_"]["array"]]
    ids[-1] = ids[-2]
    refuse(tmp_path / "model", forge(tree, arrays), "gallery_views_ is invalid")


def test_searches_that_would_try_a_cache_are_refused(tmp_path):
    path, cache = tmp_path / "model", tmp_path / "cache"
    found, tried = (clone(SEARCH).fit(SAME_SIZES, Y) for _ in range(2))
    found.best_params_ = {"memory": str(cache)}
    tried.cv_results_["params"][1] = {"memory": str(cache)}
    inner = cv.EmbeddingSearchCV(make_pipeline(cv.ViewScaler(), make_pipeline(cv.MvHE(2))), {})
    for search, reason in (
        (cv.EmbeddingSearchCV(PIPELINE, {"memory": [str(cache)]}), "a search for 'memory' of a pipeline"),
        (cv.EmbeddingSearchCV(PIPELINE, [{}, {"mvhe": [cv.MvHE(2)]}]), "a search for 'mvhe' of a pipeline"),
        (found, "a search for 'memory' of a pipeline"),
        (tried, "a search for 'memory' of a pipeline"),
        (inner, r"EmbeddingSearchCV\.estimator is invalid"),
    ):
        with pytest.raises(ValueError, match=f"cannot be saved: {reason}"):
            save(search, path)
        refuse(path, encode(search), reason)  # as a file that somebody else has made


SCRIPT = '"><img src=x onerror="alert(1)">'


@pytest.mark.parametrize("inner", [True, False])
def test_attributes_that_hide_what_a_class_defines_are_refused(inner, tmp_path):
    path = tmp_path / "model"
    pipeline = make_pipeline(cv.ViewScaler(), cv.MvHE())
    part = pipeline[0] if inner else pipeline
    part._doc_link_module, part._doc_link_template = type(part).__module__.split(".")[0], SCRIPT
    assert SCRIPT in pipeline._repr_html_()  # a notebook would run it
    with pytest.raises(ValueError, match=r"cannot be saved: \w+\._doc_link_\w+ is not part of a model"):
        save(pipeline, path)
    refuse(path, encode(pipeline), r"\w+\._doc_link_\w+ is not part of a model")


def test_names_in_a_model_are_no_markup(tmp_path):
    views = cv.Views(SAME_SIZES, names=[SCRIPT, "photo"])
    model = Pipeline([(SCRIPT, cv.ViewScaler()), ("model", cv.KMvHE(2, kernel_params={}))]).fit(views, Y)
    model.steps.append(("unfitted", cv.KCCA(kernel=SCRIPT, kernel_params={SCRIPT: SCRIPT})))
    save(model, tmp_path / "model")
    assert SCRIPT not in load(tmp_path / "model")._repr_html_()
