from __future__ import annotations

import contextlib
import csv
import json
import os
import pickle
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import run
from methods import make, make_noisy
from PIL import Image
from sklearn.pipeline import make_pipeline

import crossview as cv
from crossview._store import Store, StoreError
from crossview.cli.common import jsonable, out
from crossview.embeddings import SEARCH_SPACES

ARRAYS, Y = make(m=90, sizes=(8, 8), n_classes=18)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, photo=ARRAYS[0], sketch=ARRAYS[1], y=Y)
    return path


@pytest.fixture
def model(data, tmp_path):
    options = ("--method", "MvDA", "-p", "reg=0.1", "-p", "n_components=4", "--pca", 6)
    run("fit", data, "-o", tmp_path / "a.model", *options)
    return tmp_path / "a.model"


def test_fit_embeds_as_python_does(model, data, tmp_path):
    fitted = cv.load(model)
    assert [type(step).__name__ for _, step in fitted.steps] == ["ViewScaler", "ViewPCA", "MvDA"]
    assert fitted[-1].get_params() == cv.MvDA(4, reg=0.1).get_params()
    expected = fitted.transform(cv.Views({"photo": ARRAYS[0], "sketch": ARRAYS[1]}))
    run("embed", model, data, "-o", tmp_path / "z.npz")
    with np.load(tmp_path / "z.npz") as found:
        np.testing.assert_allclose(found["sketch"], expected["sketch"])
        np.testing.assert_array_equal(found["y"], Y)
    run("embed", model, data, "-o", tmp_path / "z.csv")
    rows = list(csv.DictReader((tmp_path / "z.csv").read_text().splitlines()))
    assert len(rows) == 180
    assert float(rows[90]["z2"]) == pytest.approx(expected["sketch"][0, 1])
    facts = json.loads(run("embed", model, data, "-o", tmp_path / "z.csv", "--json").stdout)
    output = str(tmp_path / "z.csv")
    assert facts == {"output": output, "samples": 90, "views": ["photo", "sketch"], "components": 4}
    # A sample has no row for a view that has not seen it.
    np.savez(tmp_path / "one.npz", photo=ARRAYS[0][:1], sketch=np.full((1, 8), np.nan), y=Y[:1])
    run("embed", model, tmp_path / "one.npz", "-o", tmp_path / "z.csv")
    assert (tmp_path / "z.csv").read_text().count("photo") == 1
    # A matcher maps samples as its embedding does.
    cv.save(cv.CrossViewClassifier(fitted), tmp_path / "matcher.model")
    run("embed", tmp_path / "matcher.model", data, "-o", tmp_path / "z.npz")
    with np.load(tmp_path / "z.npz") as found:
        np.testing.assert_allclose(found["sketch"], expected["sketch"])


def test_infinite_parameters(data, tmp_path):
    path = tmp_path / "a.model"
    facts = run("fit", data, "-o", path, "--method", "MvDA", "-p", "coupling=inf", "-p", "whitening=0.5", "--json")
    json.loads(facts.stdout, parse_constant=pytest.fail)
    found = json.loads(facts.stdout)
    assert (found["output"], found["samples"]) == (str(path), 90)
    assert [step["name"] for step in found["steps"]] == ["ViewScaler", "ViewPCA", "MvDA"]
    assert facts.stderr.startswith("90 samples of 18 classes; photo: 8 features, sketch: 8 features\n")
    fitted = cv.load(path)[-1]
    assert (fitted.coupling, fitted.whitening) == (np.inf, 0.5)
    np.testing.assert_array_equal(*fitted.projections_)
    told = json.loads(run("inspect", path, "--json").stdout, parse_constant=pytest.fail)
    assert told["steps"][-1]["parameters"]["coupling"] == "inf"
    assert "coupling=inf" in run("inspect", path).stdout


def test_cells_are_never_formulas(model, tmp_path):
    names = ["=cmd|'/c calc'!A1", "+1+cmd", "-2+cmd", "@SUM(1)", "\t=1", "＝1", "-5", "a=b"]
    written = ["'" + name if k < 6 else name for k, name in enumerate(names)]
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0][:8], sketch=ARRAYS[1][:8], y=names, id=names)
    run("enroll", model, tmp_path / "data.npz", "--view", "photo")
    run("match", model, tmp_path / "data.npz", "--view", "sketch", "-k", 8, "-o", tmp_path / "m.csv")
    with (tmp_path / "m.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for column in ("probe", "probe_label", "match", "match_label"):
        assert {row[column] for row in rows} == set(written)
    run("embed", model, tmp_path / "data.npz", "-o", tmp_path / "z.csv")
    with (tmp_path / "z.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == [row["label"] for row in rows] == 2 * written
    assert any(row["z1"].startswith("-") for row in rows)  # numbers stay numbers


def test_samples_need_no_labels_to_be_embedded_and_keep_their_names(model, tmp_path):
    lines = [",".join(["id", *(f"f{c}" for c in range(8))])]
    lines += [f"probe-{k}," + ",".join(map(repr, map(float, row))) for k, row in enumerate(ARRAYS[1][:5])]
    (tmp_path / "sketch.csv").write_text("\n".join(lines))
    run("embed", model, tmp_path / "sketch.csv", "-o", tmp_path / "z.csv")
    (first, *_) = csv.DictReader((tmp_path / "z.csv").read_text().splitlines())
    assert list(first) == ["view", "id", "z1", "z2", "z3", "z4"]
    assert (first["view"], first["id"]) == ("sketch", "probe-0")
    run("embed", model, tmp_path / "sketch.csv", "-o", tmp_path / "z.npz")
    again = cv.datasets.load_arrays(tmp_path / "z.npz", labelled=False)
    assert again.ids.tolist() == [f"probe-{k}" for k in range(5)]
    assert "no column 'label'" in run("fit", tmp_path / "sketch.csv", "-o", "m", status=1).stderr


def test_tune_saves_the_search_and_says_what_it_found(data, tmp_path):
    path = tmp_path / "t.model"
    tune = ("tune", data, "-o", path, "--method", "MvDA", "--n-iter", 3, "--n-folds", 2)
    told = run(*tune, "--cv", "samples", "--scoring", "average_precision").stderr
    search = cv.load(path)
    assert (search.scoring, search.folds_of_) == ("average_precision", "samples")
    assert told.startswith("90 samples of 18 classes; photo: 8 features, sketch: 8 features\n")
    assert f"MvDA: average precision {search.best_score_:.1%} in cross-validation over 2 folds of samples" in told
    assert re.search(r"Best setting: scaling=\w+, pca=.*\nsaved as", told)
    assert "__" not in told
    found, search = json.loads(run(*tune, "--json").stdout), cv.load(path)
    assert (found["method"], found["parameters"], found["score"]) == ("MvDA", search.best_params_, search.best_score_)
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert facts["steps"][-1]["name"] == "MvDA"
    assert facts["views"] == {"photo": 8, "sketch": 8}
    assert facts["folds_of"] == found["folds_of"] == "classes"
    assert facts["score_in_cross_validation"] == round(search.best_score_, 4)
    told = run("inspect", path).stdout
    assert "score in cross validation" in told
    assert "None" not in re.sub(r"\w+=None", "", told)  # parameters may be None
    assert "gallery" not in told
    run("enroll", path, data, "--view", "photo")
    run("calibrate", path, data, "--view", "sketch", "--max-fpir", 0.2)
    told, threshold = run("inspect", path).stdout, cv.load(path).threshold_
    assert f"\nthreshold: {threshold}\n" in told
    assert "\nthreshold view: sketch\n" in told
    assert "\nclasses: 18\n" in told
    assert json.loads(run("inspect", path, "--json").stdout)["threshold"] == threshold


def test_tune_makes_committees_where_they_are_better(data, tmp_path):
    path = tmp_path / "t.model"
    options = ("--method", "DLA", "--n-iter", 4, "--n-members", 4)
    assert "\nDLA × 4: accuracy " in run("tune", data, "-o", path, *options).stderr
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert facts["members"] == 4
    assert facts["components"] == cv.load(path).best_estimator_.n_components_


@pytest.mark.filterwarnings("always:classes with a single sample")
def test_tune_names_the_class_that_has_no_folds_and_the_option(tmp_path):
    y = [*"aaaabbbbccccddddeeee", "f", "g"]
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0][:22], sketch=ARRAYS[1][:22], y=y)
    options = (tmp_path / "data.npz", "-o", tmp_path / "m", "--method", "PCA", "--n-iter", 2)
    told = run("tune", *options, "--cv", "samples", status=1).stderr
    assert "warning: classes with a single sample: 'f', 'g' (check for typing errors)." in told
    need = "class 'f' has one sample, but folds of samples need two"
    assert told.splitlines()[-1] == f"error: {need}: check its label, or use --cv classes."
    assert "over 3 folds of samples" in run("tune", *options).stderr


def test_tune_tells_of_values_beyond_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr("crossview.model_selection.tuning._PCA_DIMENSIONS", ())
    monkeypatch.setitem(SEARCH_SPACES, "MvDA", {"n_components": [4], "reg": [0.001, 0.01]})
    (photo, sketch), y = make_noisy()
    np.savez(tmp_path / "noisy.npz", photo=photo, sketch=sketch, y=y)
    command = ("tune", tmp_path / "noisy.npz", "-o", tmp_path / "t.model", "--method", "MvDA", "--n-folds", 3)
    told, search = run(*command).stderr, cv.load(tmp_path / "t.model")
    assert f"\nBeyond the values listed: reg={search.best_params_['mvda__reg']}\n" in told
    assert json.loads(run(*command, "--json").stdout)["extended"] == search.extended_ != {}
    assert "Beyond" not in run(*command, "--n-iter", 0).stderr  # tries what is listed, nothing else


def test_a_killed_search_resumes_and_saves_the_same_model(data, tmp_path):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def command(output):
        options = ["--n-iter", "40", "--n-folds", "3", "--n-members", "2"]
        words = ["tune", data, "-o", output, "--method", "KMvHE", *options]
        return [sys.executable, "-m", "crossview", *map(str, words)]

    def done():
        if scores.exists():
            with contextlib.suppress(StoreError), Store(scores) as store:
                return len(store)
        return 0

    torn, scores = tmp_path / "torn.model", tmp_path / "torn.model.progress"
    for _ in range(2):
        before = done()
        process = subprocess.Popen(command(torn), env=environment, stderr=subprocess.DEVNULL)
        while done() < before + 10 and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -9
        assert not torn.exists()
    ended = subprocess.run(command(torn), env=environment, check=True, capture_output=True, text=True)
    resumed = re.findall(r"Searching for KMvHE: resuming with (\d+) of (\d+) fits done", ended.stderr)
    assert len(resumed) == 1
    restored, total = map(int, resumed[0])
    assert 18 <= restored < 120
    drawn = 40 * len(SEARCH_SPACES["KMvHE"]["whitening"])
    assert total == drawn + round(drawn / 3) + round(drawn / 9) + 3 * 2 + 2  # one in three stays after a fold
    assert {path.name for path in tmp_path.iterdir()} == {"data.npz", "torn.model"}
    subprocess.run(command(tmp_path / "calm.model"), env=environment, check=True, capture_output=True)
    assert torn.read_bytes() == (tmp_path / "calm.model").read_bytes()


def test_an_interrupted_search_says_how_to_resume(data, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("crossview.model_selection.rounds.ScoreFile.append", interrupt)
    told = run("tune", data, "-o", tmp_path / "t.model", "--method", "mvda", "--n-iter", 2, status=130).stderr
    kept = tmp_path / "t.model.progress"
    assert (
        told.splitlines(keepends=True)[-1]
        == f"Stopped. Scores are kept in {kept}; run the same command again to resume.\n"
    )
    assert kept.exists()
    assert not (tmp_path / "t.model").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "nowhere", "-o", "m"), "nowhere is neither a data set"),
        (("fit", "VIEW", "-o", "m"), "matching needs two views or more"),
        (("tune", "VIEW", "-o", "m"), "matching needs two views or more"),
        (("inspect", "SHORT"), "load a file written by crossview.save or the commands fit, tune and enroll"),
        (("inspect", "PICKLE"), "error:"),
        (("inspect", "UNFITTED"), "holds a CrossViewClassifier that is not fitted: fit it, then save it"),
        (("fit", "digits", "-o", "m", "--method", "Magic"), "unknown method 'Magic': use one of PCA"),
        (("fit", "digits", "-o", "m", "-p", "reg"), "must be NAME=VALUE, got 'reg'"),
        (("fit", "nowhere", "-o", "m", "-p", "bet=1"), "Invalid parameter 'bet'"),
        (("fit", "digits", "-o", "no/such/folder/m"), "no/such/folder"),
        (("inspect", "nowhere"), "nowhere"),
        (("embed", "MODEL", "nowhere", "-o", "no/z.npz"), "no does not exist: create it first"),
        (("fit", "nowhere", "-o", "."), ". is a folder: add the name of a file"),
        (("embed", "MODEL", "DATA", "-o", "z.txt"), "z.txt must end in .npz, .csv"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("VIEW.npz", photo=ARRAYS[0], y=Y)
    (tmp_path / "SHORT").write_bytes(model.read_bytes()[:200])
    (tmp_path / "PICKLE").write_bytes(pickle.dumps(print))
    cv.save(cv.CrossViewClassifier(cv.Committee([cv.MvDA()])), "UNFITTED")
    replaced = [{"MODEL": str(model), "DATA": str(data), "VIEW": "VIEW.npz"}.get(a, a) for a in arguments]
    result = run(*replaced, status=1)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    assert not (tmp_path / "m").exists()


def test_mistakes_that_show_after_loading_are_told_before_the_work(data, tmp_path, monkeypatch):
    np.savez(tmp_path / "class.npz", photo=ARRAYS[0], sketch=ARRAYS[1], y=0 * Y)
    told = run("tune", tmp_path / "class.npz", "-o", tmp_path / "m", status=1).stderr
    assert "belong to one class: use data with two classes or more" in told
    told = run("fit", data, "-o", tmp_path / "m", "--method", "MvDA", "-p", "reg=" + "[" * 100_000, status=1).stderr
    assert told.splitlines()[1].startswith("error: reg must be a finite number of 0 or more, got")
    assert len(told.splitlines()) == 2
    search = cv.EmbeddingSearchCV(cv.MvDA(), {"reg": [0.1]}, refit=False)
    for model in (cv.MvDA(), make_pipeline(cv.ViewScaler(), cv.MvDA()), search, search.fit(ARRAYS, Y)):
        cv.save(model, tmp_path / "m")
        told = run("inspect", tmp_path / "m", status=1).stderr
        assert f"holds a {type(model).__name__} that is not fitted: fit it, then save it" in told

    def refuse(dir):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("crossview.cli.data.TemporaryFile", refuse)  # as /proc does, whatever its permissions
    told = run("tune", "nowhere", "-o", tmp_path / "m", status=1).stderr
    assert f"cannot write to folder {tmp_path} (No such file or directory): choose another one" in told


def test_what_there_is():
    assert run("--version").stdout.strip() == cv.__version__
    names = [row["name"] for row in json.loads(run("datasets", "--json").stdout)]
    assert names == ["digits", "descriptors", "turntable", "manifolds", "captions"]
    shown = run("datasets").stdout
    assert all(word in shown for word in ("turntable", ".npz", ".mat", ".npy", "tables", "images"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_outputs_are_files(model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("pipe", "pipe.npz", "pipe.onnx"):
        os.mkfifo(name)
    for command in (
        ("fit", "nowhere", "-o", "pipe"),
        ("tune", "nowhere", "-o", "pipe"),
        ("embed", model, "nowhere", "-o", "pipe.npz"),
        ("enroll", model, "nowhere", "--view", "photo", "-o", "pipe"),
        ("calibrate", model, "nowhere", "--view", "photo", "-o", "pipe"),
        ("export", model, "--view", "photo", "-o", "pipe.onnx"),
        ("export", model, "--view", "photo", "-o", "a.onnx", "--gallery", "pipe.npz"),
    ):
        assert "is a device, a pipe or a socket: choose the name of a file" in run(*command, status=1).stderr


def test_inputs_are_not_overwritten(model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.npz").symlink_to(data)
    (tmp_path / "tables").mkdir()
    (tmp_path / "model.onnx").write_bytes(model.read_bytes())
    for name, X in zip(("photo", "sketch"), ARRAYS, strict=True):
        rows = [",".join(map(str, (k, Y[k], *row))) for k, row in enumerate(X.tolist())]
        (tmp_path / "tables" / f"{name}.csv").write_text("\n".join(["id,label," + ",".join("abcdefgh"), *rows]))
    table = "tables/photo.csv"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for command in (
        ("fit", "data.npz", "-o", data, "--overwrite"),
        ("fit", data, "-o", "link.npz"),
        ("tune", "link.npz", "-o", "data.npz", "--n-iter", 1),
        ("embed", model, data, "-o", "data.npz"),
        ("embed", model, "tables", "-o", table),
        ("embed", model, table, "-o", table),
        ("enroll", model, data, "--view", "photo", "-o", data),
        ("calibrate", model, data, "--view", "photo", "-o", data),
        ("match", model, data, table, "--view", "photo", "-o", table),
        ("export", "model.onnx", "--view", "photo", "-o", "model.onnx"),
    ):
        assert "is part of the input: choose another name for the output" in run(*command, status=1).stderr
        assert {path: path.read_bytes() for path in before} == before
    run("fit", "tables", "-o", "tables/a.model", "--method", "MvDA")
    run("fit", "tables", "-o", "tables/a.model", "--method", "MvDA")  # the model is no table
    run("embed", "tables/a.model", "tables", "-o", "tables/z.npz")
    run("enroll", model, data, "--view", "photo", "-o", model)


STEERING = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc"
SHOWN = r"a\x1b]0;owned\x07\x1b[2Jb\x9b31mc"


def test_labels_do_not_steer_the_terminal(model, tmp_path, monkeypatch):
    names = [f"{STEERING}{k}" for k in range(8)]
    np.savez(tmp_path / "data.npz", photo=ARRAYS[0][:8], sketch=ARRAYS[1][:8], y=names, id=names)
    run("enroll", model, tmp_path / "data.npz", "--view", "photo")
    probes = ("match", model, tmp_path / "data.npz", "--view", "sketch", "-k", 1)
    assert STEERING in run(*probes).stdout  # as it is, for files and other programs
    monkeypatch.setattr(out, "_force_terminal", True)
    told = run(*probes)
    twice = run("enroll", model, tmp_path / "data.npz", "--view", "photo", status=1)
    assert SHOWN in told.stdout
    assert SHOWN in twice.stderr
    np.savez(tmp_path / "named.npz", **{STEERING: ARRAYS[0], "sketch": ARRAYS[1], "y": Y})
    fitted = run("fit", tmp_path / "named.npz", "-o", tmp_path / "b.model", "--method", "MvDA")
    inspected = run("inspect", tmp_path / "b.model")
    assert SHOWN in fitted.stderr
    assert SHOWN[:10] in inspected.stdout
    for result in (told, twice, fitted, inspected):
        assert not re.search("\x1b[]]|\x1b\\[2J|\x07|\x9b", result.stdout + result.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [("datasets", "--json"), ("datasets",), ("fit", "--help")], ids=str)
def test_a_full_disk_is_told_with_the_fix(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "crossview", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    if "--help" not in command:
        assert done.stderr == "error: cannot write the output (No space left on device): free some space.\n"


def test_images_are_brought_to_a_size(tmp_path):
    from PIL import Image

    random = np.random.default_rng(0)
    for view in ("photo", "sketch"):
        for person in range(4):
            for k in range(3):
                path = tmp_path / "images" / view / f"p{person}" / f"{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                pixels = random.integers(256, size=(6 + k, 5), dtype=np.uint8)
                Image.fromarray(pixels).save(path)
    folder, model = tmp_path / "images", tmp_path / "m"
    assert "for example with --size 6x5" in run("fit", folder, "-o", model, "--method", "PCA", status=1).stderr
    run("fit", folder, "-o", model, "--method", "PCA", "--size", "6x5")
    run("enroll", model, folder, "--view", "photo")  # the model knows the size
    (tmp_path / "probes").mkdir()
    (folder / "sketch" / "p1" / "0.png").rename(tmp_path / "probes" / "new.png")
    for probes in (tmp_path / "probes", tmp_path / "probes" / "new.png"):
        rows = list(csv.DictReader(run("match", model, probes, "--view", "sketch").stdout.splitlines()))
        assert {row["probe"] for row in rows} == {"new"}
        assert rows[0]["match"].startswith("p")
    several = sorted((folder / "sketch" / "p1").iterdir())
    rows = list(csv.DictReader(run("match", model, *several, "--view", "sketch", "-k", 1).stdout.splitlines()))
    assert [row["probe"] for row in rows] == list(map(str, several))
    run("embed", model, folder, "-o", tmp_path / "z.npz")
    told = run("fit", folder, "-o", tmp_path / "n", "--size", "6y5", status=1).stderr
    assert "--size must be HEIGHTxWIDTH, for example 48x48, got '6y5'" in told


def test_inspect_a_matcher(data, tmp_path):
    path = tmp_path / "matcher.model"
    pipeline = make_pipeline(cv.ViewScaler("view"), cv.MvDA(3))
    matcher = cv.CrossViewClassifier(pipeline, metric="cosine", calibration_folds=2)
    cv.save(matcher.fit(cv.Views(ARRAYS, image_shape=(2, 4)), Y).enroll(ARRAYS[1][:7], Y[:7], 1), path)
    facts = json.loads(run("inspect", path, "--json").stdout)
    assert facts["model"] == "CrossViewClassifier"
    scaler, mvda = facts["steps"]
    assert (scaler["name"], scaler["parameters"]["by"], mvda["name"]) == ("ViewScaler", "view", "MvDA")
    assert mvda["parameters"] == matcher.embedding_[-1].get_params()
    assert (facts["components"], facts["distance"], facts["image_shape"]) == (3, "cosine", [2, 4])
    assert (facts["gallery"], facts["classes"]) == ({"view0": 90, "view1": 7}, 18)
    assert (facts["threshold"], facts["temperature"]) == (None, matcher.temperature_)
    told = run("inspect", path).stdout
    for part in ("ViewScaler", "by=view", "2 × 4", "view0=90, view1=7"):
        assert part in told
    cv.save(cv.CrossViewClassifier(matcher.embedding_), path)
    assert json.loads(run("inspect", path, "--json").stdout)["gallery"] == {}
    assert "\ngallery: empty\n" in run("inspect", path).stdout


def test_an_unknown_choice_is_wrong_usage():
    assert "'views' is not one of" in run("fit", "digits", "-o", "m", "--scaling", "views", status=2).stderr


@pytest.fixture
def pictures(tmp_path):
    """Images of four classes in two views, whose file names differ."""
    rng = np.random.default_rng(0)
    for c in range(4):
        for k in range(3):
            for view, name in (("photo", f"F2-{c}-{k}"), ("sketch", f"sk{k}")):
                path = tmp_path / "pictures" / view / f"c{c}" / f"{name}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(256, size=(6, 5), dtype=np.uint8)).save(path)
    return tmp_path / "pictures"


def test_names_are_paired_by_a_pattern(pictures, tmp_path):
    output = ("-o", tmp_path / "p.model", "--method", "MvDA")
    failed = run("fit", pictures, *output, status=1)
    assert "has no counterpart in sketch/; 12 of 12 unmatched" in failed.stderr
    assert r"--pair-by '(\d+)$'" in failed.stderr
    pattern = ("--pair-by", r"(\d+)$")
    assert "12 samples of 4 classes; photo: 30 features" in run("fit", pictures, *output, *pattern).stderr
    run("tune", pictures, *output, *pattern, "--n-iter", 1, "--n-folds", 2)
    run("embed", tmp_path / "p.model", pictures, "-o", tmp_path / "z.npz", *pattern)
    assert len(cv.datasets.load_arrays(tmp_path / "z.npz").y) == 12
    compared = run(
        "compare", pictures, "-o", tmp_path / "c", *pattern, "--methods", "MvDA", "--n-iter", 1, "--repeats", 1
    )
    assert "MvDA" in compared.stdout


def test_options_that_the_data_do_not_have(data, pictures, tmp_path):
    arguments = ("fit", data, "-o", tmp_path / "m")
    assert "data.npz is not a folder of images: leave out --size" in run(*arguments, "--size", 8, status=1).stderr
    assert "data.npz needs no pair_by" in run(*arguments, "--pair-by", "(a)", status=1).stderr
    wrong = run("fit", "digits", "-o", tmp_path / "m", "--pair-by", "(a)", status=1)
    assert "the samples of digits are paired already: leave out --pair-by" in wrong.stderr
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "a.csv").write_text("id,label,f\n1,2,3\n")
    assert "is not a folder of images: leave out --size" in run("fit", tables, "-o", "m", "--size", 8, status=1).stderr


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(pictures, tmp_path):
    (pictures / "photo" / "c0" / "F2-0-0.png").unlink()
    printed = run("fit", pictures, "-o", tmp_path / "m", "--method", "MvDA", "--pair-by", r"(\d+)$")
    assert printed.stderr.startswith(
        "warning: 1 of 12 samples is in one view only (first: sketch/c0/sk0.png); training"
    )
    assert "UserWarning" not in printed.stderr


def test_json_has_no_nan_and_no_types_of_numpy():
    facts = {"a": np.float64(0.5), "b": float("nan"), 3: (np.int64(1), [True, None]), "c": np.array(["x"]), "d": min}
    facts |= {"e": np.inf, "f": -np.inf}
    expected = {"a": 0.5, "b": None, "3": [1, [True, None]], "c": ["x"], "d": repr(min), "e": "inf", "f": None}
    assert jsonable(facts) == json.loads(json.dumps(jsonable(facts), allow_nan=False)) == expected


@pytest.fixture
def tables(tmp_path):
    """Writes samples as a folder of two tables, with the columns in a given order."""

    def write(name, columns):
        (tmp_path / name).mkdir()
        for view, X in zip(("lab", "field"), ARRAYS, strict=True):
            lines = [",".join(["id", "label", *(f"f{c}" for c in columns)])]
            lines += [",".join(map(str, [k, f"c{Y[k]}", *X[k, columns]])) for k in range(len(Y))]
            (tmp_path / name / f"{view}.csv").write_text("\n".join(lines))
        return tmp_path / name

    return write


def test_columns_are_found_by_their_names(tables, tmp_path):
    model, ordered, shuffled = (
        tmp_path / "m",
        tables("ordered", [*range(8)]),
        tables("shuffled", [3, 7, 0, 1, 2, 6, 5, 4]),
    )
    run("fit", ordered, "-o", model, "--method", "MvDA")
    written = []
    for data in (ordered, shuffled):
        run("embed", model, data, "-o", tmp_path / "z.csv")
        run("enroll", model, data, "--view", "lab", "--replace", "-o", tmp_path / "e")
        run("calibrate", tmp_path / "e", data, "--view", "field", "--max-fpir", 0.2)
        found = run("match", tmp_path / "e", data, "--view", "field").stdout
        written.append([(tmp_path / "z.csv").read_text(), (tmp_path / "e").read_bytes(), found])
        measured = run("evaluate", model, data, "-o", tmp_path / "r", "--overwrite", "--json", "--no-static").stdout
        written[-1].append(json.loads(measured)["mean"])
    assert written[0] == written[1]
    narrow = tables("narrow", [3, 7, 0, 1, 2, 6, 5])
    told = run("embed", model, narrow, "-o", tmp_path / "z.csv", status=1).stderr
    assert re.search(r"columns of view '\w+' differ from those in fit \(missing 'f4'\): use the columns of", told)


def test_images_of_another_size_are_refused(pictures, data, tmp_path):
    model, pattern = tmp_path / "m", ("--pair-by", r"(\d+)$")
    run("fit", pictures, "-o", model, "--method", "PCA", *pattern)
    takes = "the model takes images of 6 × 5 pixels, height × width, got "
    for size in ("12x10", "5x6"):
        told = run("embed", model, pictures, "-o", tmp_path / "z.csv", *pattern, "--size", size, status=1).stderr
        assert f"{takes}{size.replace('x', ' × ')}: leave out --size" in told
    for command in ("enroll", "evaluate"):
        options = ("--view", "photo") if command == "enroll" else ("-o", tmp_path / "r")
        assert f"{takes}8 features: leave out --size" in run(command, model, data, *options, status=1).stderr


def test_a_gallery_is_not_replaced_unasked(model, data, tmp_path):
    run("fit", data, "-o", model, "--method", "PCA")  # without a gallery, models are replaced
    run("enroll", model, data, "--view", "photo")
    before = model.read_bytes()
    options = ("-o", model, "--method", "PCA")
    for command in (("fit", "nowhere", *options), ("tune", "nowhere", *options), ("fit", data, *options, "--json")):
        told = run(*command, status=1).stderr
        assert f"{model} holds a gallery of 90 samples: choose another --output, or pass --overwrite" in told
    assert model.read_bytes() == before
    run("fit", data, *options, "--overwrite")
    assert not hasattr(cv.load(model), "gallery_")
    model.write_bytes(before[:3000])  # nothing that could be lost
    run("tune", data, *options, "--n-iter", 1, "--n-folds", 2)
