"""The commands that recognise samples with a saved model."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from commands import run
from methods import make
from PIL import Image

import crossview as cv
from crossview.cli.data import locked

ARRAYS, Y = make(m=90, sizes=(8, 8), n_classes=18)
VIEWS = cv.Views(ARRAYS, names=["photo", "sketch"])
KNOWN, NEW = Y < 12, np.arange(90) >= 45


def write_data(path, rows=slice(None), y=Y, **more):
    np.savez(path, photo=ARRAYS[0][rows], sketch=ARRAYS[1][rows], **({} if y is None else {"y": y[rows]}), **more)
    return path


def read(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.npz")


@pytest.fixture
def model(tmp_path):
    """A search, which has no gallery."""
    path = tmp_path / "a.model"
    search = cv.EmbeddingSearchCV(cv.MvDA(4), {"reg": [0.1]}, n_folds=2, metrics=["cosine"]).fit(VIEWS, Y)
    cv.save(search, path)
    return path


@pytest.fixture
def enrolled(model, data):
    run("enroll", model, data, "--view", "photo")
    return model


def test_enrol_appends_and_keeps_identities(model, tmp_path):
    first = write_data(tmp_path / "first.npz", slice(0, 30), id=[f"a{k}" for k in range(30)])
    second = write_data(tmp_path / "second.npz", slice(30, 50), id=[f"b{k}" for k in range(20)])
    assert "30 samples enrolled, now 30 of" in run("enroll", model, first, "--view", "photo").stderr
    facts = json.loads(run("enroll", model, second, "--view", "photo", "--json").stdout)
    assert (facts["output"], facts["enrolled"], facts["gallery"]) == (str(model), 20, {"photo": 50})
    matcher = cv.load(model)
    assert matcher.gallery_ids_.tolist() == [f"a{k}" for k in range(30)] + [f"b{k}" for k in range(20)]
    np.testing.assert_array_equal(matcher.gallery_labels_, Y[:50])
    np.testing.assert_array_equal(matcher.gallery_, cv.transform_view(matcher, ARRAYS[0][:50], "photo"))
    assert (matcher.gallery_view, matcher.probe_view) == ("photo", "sketch")
    told = run("enroll", model, second, "--view", "photo", status=1).stderr
    assert (
        "'b0' of view 'photo' is already in the gallery: pass replace=True (--replace) to empty the gallery first"
        in told
    )
    before = model.read_bytes()
    run("enroll", model, second, "--view", "sketch", "-o", tmp_path / "other.model")  # the same ids in another view
    assert model.read_bytes() == before
    assert cv.load(tmp_path / "other.model").gallery_views_.tolist() == ["photo"] * 50 + ["sketch"] * 20
    run("enroll", model, write_data(tmp_path / "part.npz", slice(0, 3)), "--view", "sketch", "--replace")
    run("enroll", model, write_data(tmp_path / "more.npz", slice(1, 5)), "--view", "sketch")
    assert cv.load(model).gallery_ids_.tolist() == list("0123456")  # those without ids are numbered


def test_samples_without_ids_are_numbered(model, tmp_path):
    part = write_data(tmp_path / "part.npz", slice(0, 3))
    assert "warning" not in run("enroll", model, part, "--view", "photo").stderr
    assert "warning" not in run("enroll", model, part, "--view", "sketch", "-o", tmp_path / "other.model").stderr
    more = write_data(tmp_path / "more.npz", slice(1, 5))
    told = run("enroll", model, more, "--view", "photo").stderr
    assert "warning: 2 of the 4 samples are equal to enrolled ones: pass --replace to empty the gallery first" in told
    assert cv.load(model).gallery_ids_.tolist() == list("0123456")
    assert "warning" not in run("enroll", model, part, "--view", "photo", "--replace").stderr


def test_labels_are_of_the_kind_of_the_gallery(model, tmp_path):
    words = write_data(tmp_path / "words.npz", slice(0, 40), y=np.array([f"c{label}" for label in Y]))
    numbers = write_data(tmp_path / "numbers.npz", slice(40, 60))
    some = write_data(tmp_path / "some.npz", slice(60, 80), y=np.where(np.arange(90) % 2, Y.astype(str), ""))
    run("enroll", model, words, "--view", "photo")
    run("enroll", model, numbers, "--view", "photo")
    assert cv.load(model).gallery_labels_.dtype.kind == "U"
    run("enroll", model, numbers, "--view", "photo", "--replace")
    assert cv.load(model).gallery_labels_.dtype.kind == "i"
    for more in (words, some):
        assert (
            "the gallery's labels are numbers, but" in run("enroll", model, more, "--view", "sketch", status=1).stderr
        )
    facts = json.loads(
        run("calibrate", model, some, "--view", "sketch", "--max-fpir", 0.3, "--json").stdout
    )  # text, of which half is empty
    assert facts["probes"] == 10


def test_calibration_sets_the_threshold_and_says_what_is_accepted(enrolled, data):
    facts = json.loads(run("calibrate", enrolled, data, "--view", "sketch", "--max-fpir", 0.1, "--json").stdout)
    matcher = cv.load(enrolled)
    assert facts["threshold"] == matcher.threshold_
    expected = cv.CrossViewClassifier(matcher.embedding_).enroll(ARRAYS[0], Y)
    assert matcher.threshold_ == expected.calibrate(ARRAYS[1], Y, "sketch", 0.1).threshold_
    assert facts["temperature"] == matcher.temperature_ == expected.temperature_
    told = run("calibrate", enrolled, data, "--view", "sketch", "--max-fpir", 0.1).stderr
    assert "for a false positive identification rate of 10.00%, from 90 probes of 18 classes" in told.replace("\n", " ")
    assert "not calibrated" in run("enroll", enrolled, data, "--view", "sketch").stderr
    assert cv.load(enrolled).threshold_ is None


@pytest.mark.filterwarnings("always:a false positive identification rate")
def test_calibration_with_strangers_only(enrolled, tmp_path):
    strangers = write_data(tmp_path / "strangers.npz", y=Y + 100)
    facts = json.loads(run("calibrate", enrolled, strangers, "--view", "sketch", "--json").stdout)
    assert (facts["probes"], facts["temperature"]) == (90, None)


def test_matches_are_the_nearest(enrolled, data, tmp_path):
    arguments = ("match", enrolled, data, "--view", "sketch", "-k", 3)
    run(*arguments, "-o", tmp_path / "m.csv")
    rows = read((tmp_path / "m.csv").read_text())
    assert len(rows) == 270
    assert list(rows[0]) == ["probe", "probe_label", "rank", "match", "match_label", "match_view", "distance"]
    G, P = (cv.transform_view(cv.load(enrolled), X, v) for v, X in enumerate(ARRAYS))
    G, P = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (G, P))
    for row in rows[:30]:
        distances = 1.0 - G @ P[int(row["probe"])]  # the search chose the cosine distance
        assert np.argsort(distances)[int(row["rank"]) - 1] == int(row["match"])
        assert float(row["distance"]) == pytest.approx(distances[int(row["match"])], abs=1e-9)
        assert row["match_label"] == str(Y[int(row["match"])])
    printed = run(*arguments)
    assert printed.stdout == (tmp_path / "m.csv").read_text()
    right = sum(row["probe_label"] == row["match_label"] for row in rows if row["rank"] == "1")
    assert printed.stderr == f"90 probes; first match right for {right} of 90 of enrolled classes\n"
    facts = json.loads(run(*arguments, "--json").stdout)
    assert [str(row["match"]) for row in facts["matches"]] == [row["match"] for row in rows]
    assert (facts["probes"], facts["first_match_right"], facts["threshold"]) == (90, right, None)
    assert facts["accepted_right"] is facts["accepted_wrong"] is facts["rejected"] is None
    assert "matches" not in json.loads(run(*arguments, "-o", tmp_path / "m.csv", "--json").stdout)


def test_decisions_and_strangers(model, tmp_path):
    run("enroll", model, write_data(tmp_path / "known.npz", KNOWN), "--view", "photo")
    run("calibrate", model, write_data(tmp_path / "all.npz"), "--view", "sketch", "--max-fpir", 0.3)
    labels = np.where(np.arange(90) % 5, Y.astype(str), "")
    probes = write_data(tmp_path / "probes.npz", y=labels)
    result = run("match", model, probes, "--view", "sketch", "-k", 2)
    rows, matcher = read(result.stdout), cv.load(model)
    for row in rows:  # a second match may be beyond the threshold
        assert row["decision"] == ("accepted" if float(row["distance"]) <= matcher.threshold_ else "unknown")
    assert {first["decision"] + second["decision"] for first, second in zip(rows[::2], rows[1::2], strict=True)} == {
        "acceptedaccepted",
        "acceptedunknown",
        "unknownunknown",
    }
    predicted = matcher.predict(ARRAYS[1])
    known, strange = KNOWN & (labels != ""), ~KNOWN & (labels != "")
    right, rejected = np.sum(predicted[known] == Y[known]), np.sum(predicted[known] == -1)
    wrong = known.sum() - right - rejected
    first_right = np.sum(Y[KNOWN][matcher.kneighbors(ARRAYS[1][known])[1][:, 0]] == Y[known])
    assert right < first_right  # some rejected probes had the right match
    assert 0 < np.sum(predicted[strange] == -1) < strange.sum()
    assert result.stderr.strip().split("; ") == [
        "90 probes",
        f"first match right for {first_right} of {known.sum()} of enrolled classes, {right} accepted and right, "
        f"{wrong} accepted and wrong, {rejected} rejected",
        f"{strange.sum()} of other classes, {np.sum(predicted[strange] == -1)} rejected",
    ]
    facts = json.loads(run("match", model, probes, "--view", "sketch", "--json").stdout)
    assert (facts["of_gallery"], facts["strangers"]) == (known.sum(), strange.sum())
    assert (facts["first_match_right"], facts["accepted_right"], facts["accepted_wrong"]) == (first_right, right, wrong)
    assert (facts["rejected"], facts["strangers_rejected"]) == (rejected, np.sum(predicted[strange] == -1))


def test_labels_are_optional(model, tmp_path):
    unlabelled = write_data(tmp_path / "unlabelled.npz", slice(0, 4), y=None)
    run("enroll", model, unlabelled, "--view", "photo")
    result = run("match", model, unlabelled, "--view", "sketch")
    rows = read(result.stdout)
    assert list(rows[0]) == ["probe", "rank", "match", "match_view", "distance"]
    assert len(rows) == 16  # of the five matches by default, as many as there are
    assert result.stderr == "4 probes\n"
    assert "has no labels: calibrate with samples of known classes" in (
        run("calibrate", model, unlabelled, "--view", "sketch", status=1).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("match", "MODEL", "DATA", "--view", "sketch"), "the gallery is empty: run crossview enroll first"),
        (("calibrate", "MODEL", "DATA", "--view", "sketch"), "the gallery is empty: run crossview enroll first"),
        (("export", "MODEL", "--view", "photo", "-o", "m.onnx", "--gallery", "g.npz"), "the gallery is empty"),
        (("enroll", "MODEL", "DATA", "--view", "top"), "unknown view 'top': the views are 'photo', 'sketch'"),
        (("match", "ENROLLED", "DATA", "--view", "top"), "unknown view 'top'"),
        (
            ("match", "ENROLLED", "DATA", "--view", "photo", "-k", "91"),
            "-k 91 is more than the 90 samples in the gallery",
        ),
        (("match", "ENROLLED", "DATA", "--view", "photo", "-o", "m.txt"), "m.txt must end in .csv"),
        (("match", "ENROLLED", "NARROW", "--view", "photo"), "X has 5 features, but MvDA is expecting 8 features"),
        (("enroll", "ENROLLED", "NARROW", "--view", "photo"), "X has 5 features"),
        (("match", "ENROLLED", "nowhere", "--view", "photo"), "nowhere is neither a data set"),
        (("enroll", "UNFITTED", "DATA", "--view", "photo"), "holds a MvDA that is not fitted: fit it, then save it"),
        (("enroll", "MODEL", "DATA", "--view", "photo", "-o", "no/such/m"), "no/such does not exist: create it first"),
        (("match", "ENROLLED", "nowhere", "--view", "photo", "-o", "no/m.csv"), "/no does not exist: create it first"),
        (("export", "MODEL", "--view", "photo", "-o", "m.txt"), "m.txt must end in .onnx"),
        (("export", "ENROLLED", "--view", "photo", "-o", "m.onnx", "--gallery", "g.csv"), "g.csv must end in .npz"),
        (("export", "MODEL", "--view", "top", "-o", "m.onnx"), "unknown view 'top'"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, model, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {"MODEL": model, "DATA": data, "ENROLLED": tmp_path / "b.model", "NARROW": tmp_path / "narrow.npz"}
    paths["UNFITTED"] = tmp_path / "c.model"
    run("enroll", model, data, "--view", "photo", "-o", paths["ENROLLED"])
    np.savez(paths["NARROW"], photo=ARRAYS[0][:, :5], y=Y)
    cv.save(cv.MvDA(), paths["UNFITTED"])
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run(*(paths.get(argument, argument) for argument in arguments), status=1)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_export_suffices_to_match_without_crossview(enrolled, data, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    graph, gallery = tmp_path / "sketch.onnx", tmp_path / "gallery.npz"
    arguments = ("export", enrolled, "--view", "sketch", "-o", graph, "--gallery", gallery)
    assert "gallery.npz, not calibrated: run crossview calibrate first to reject strangers" in run(*arguments).stderr
    with np.load(gallery) as arrays:
        assert arrays["threshold"] == np.inf
    run("calibrate", enrolled, data, "--view", "sketch", "--max-fpir", 0.2)
    assert run(*arguments).stderr.endswith("gallery.npz\n")
    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    (P,) = session.run(["latent"], {"X": ARRAYS[1].astype(np.float32)})
    with np.load(gallery, allow_pickle=False) as arrays:
        G, label, ids, threshold = (arrays[name] for name in ("latent", "label", "id", "threshold"))
        assert str(arrays["distance"]) == "cosine"
        assert set(arrays["view"]) == {"photo"}
    G, P = (Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (G, P))
    distances = 1.0 - P @ G.T
    found = np.where(distances.min(axis=1) > threshold, -1, label[distances.argmin(axis=1)])
    matcher = cv.load(enrolled)
    clear = np.abs(distances.min(axis=1) - threshold) > 1e-6  # in single precision, one probe is at the threshold
    np.testing.assert_array_equal(found[clear], matcher.predict(ARRAYS[1])[clear])
    assert clear.sum() >= 89
    assert ids[distances[0].argmin()] == matcher.gallery_ids_[matcher.kneighbors(ARRAYS[1][:1])[1][0, 0]]
    metadata = session.get_modelmeta().custom_metadata_map
    assert float(metadata["threshold"]) == matcher.threshold_
    assert metadata["distance"] == "cosine"
    facts = json.loads(run("export", enrolled, "--view", "photo", "-o", graph, "--json").stdout)
    expected = {"output": str(graph), "view": "photo", "gallery": None, "distance": "cosine"}
    assert facts == {**expected, "threshold": matcher.threshold_}


def test_thresholds_belong_to_a_view(enrolled, data):
    rate = ("--max-fpir", 0.2)
    told = run("calibrate", enrolled, data, "--view", "photo", *rate).stderr
    assert "warning: the gallery, too, is of view 'photo' only: samples of one view are compared. Check --view" in told
    assert json.loads(run("inspect", enrolled, "--json").stdout)["threshold_view"] == "photo"
    told = run("match", enrolled, data, "--view", "photo").stderr
    assert "warning: the gallery, too, is of view 'photo' only: samples of one view are compared. Check --view" in told
    told = run("match", enrolled, data, "--view", "sketch", status=1).stderr
    assert "error: the threshold is for view 'photo': calibrate with probes of view 'sketch'" in told
    assert "warning" not in run("calibrate", enrolled, data, "--view", "sketch", *rate).stderr
    assert "warning" not in run("match", enrolled, data, "--view", "sketch").stderr


def test_damaged_probes_are_named_and_left_out(tmp_path):
    rng = np.random.default_rng(0)
    pixels, y = rng.integers(0, 256, size=(8, 6, 4)).astype(np.uint8), np.arange(8) % 4
    views = cv.Views({"photo": pixels.reshape(8, 24) / 255, "sketch": rng.normal(size=(8, 24))}, image_shape=(6, 4))
    matcher = cv.CrossViewClassifier(cv.PCA(3).fit(views), probe_view="photo").enroll(views["photo"], y, "photo")
    model, folder = tmp_path / "a.model", tmp_path / "new"
    cv.save(matcher, model)
    folder.mkdir()
    for name, image in zip("abc", pixels, strict=False):
        Image.fromarray(image).save(folder / f"{name}.png")
    (folder / "b.png").write_bytes(b"damaged")
    message = "b.png (it is not one of PNG, JPEG, BMP, TIFF, PPM, GIF, WEBP) is not a readable image: replace or remove"
    for probes in ([folder], sorted(folder.iterdir())):
        result = run("match", model, *probes, "--view", "photo", "-k", 1, status=1)
        assert f"warning: {folder}: {message} it." in result.stderr
        assert result.stderr.endswith("2 probes\n")
        found = [(Path(row["probe"]).stem, row["match"]) for row in read(result.stdout)]
        assert found == [("a", "0"), ("c", "2")]
    before = model.read_bytes()
    for command in (
        ("match", model, folder / "b.png", "--view", "photo"),  # nothing is left
        ("enroll", model, folder, "--view", "photo"),  # all or nothing
    ):
        result = run(*command, status=1)
        assert f"error: {folder}: {message} it." in result.stderr
        assert not result.stdout
    assert model.read_bytes() == before


def test_probes_from_several_files(enrolled, tmp_path):
    a = write_data(tmp_path / "a.npz", slice(0, 3), id=["x", "y", "z"])
    b = write_data(tmp_path / "b.npz", slice(3, 4), y=np.array([f"c{label}" for label in Y]), id=["w"])
    c = write_data(tmp_path / "c.npz", slice(4, 6), y=None, id=["x", "v"])
    match = ("match", enrolled, "--view", "sketch", "-k", 1)
    found = read(run(*match, b, a, c).stdout)
    alone = [row for path in (b, a, c) for row in read(run(*match, path).stdout)]
    for row, expected in zip(found, alone, strict=True):
        assert float(row["distance"]) == pytest.approx(float(expected["distance"]), abs=1e-9)
        assert (row["match"], row["probe_label"]) == (expected["match"], expected.get("probe_label", ""))
    names = [str(b), f"{a}/x", f"{a}/y", f"{a}/z", f"{c}/x", f"{c}/v"]  # the ids alone are not unique
    assert [row["probe"] for row in found] == names
    d = write_data(tmp_path / "d.npz", slice(3, 4), y=Y.astype(np.uint64))
    assert [row["probe_label"] for row in read(run(*match, a, d).stdout)] == Y[:4].astype(str).tolist()


def enrol_apart(model, tmp_path, n):
    """Enrol by n processes at once."""
    commands = []
    for k in range(n):
        part = write_data(
            tmp_path / f"part{k}.npz", slice(5 * k, 5 * k + 5), id=[f"s{j}" for j in range(5 * k, 5 * k + 5)]
        )
        commands.append([sys.executable, "-m", "crossview", "enroll", model, part, "--view", "photo"])
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    return [process.communicate()[1] for process in running], [process.returncode for process in running]


def test_enrolments_at_the_same_time_are_all_kept(model, data, tmp_path):
    told, status = enrol_apart(model, tmp_path, 4)
    assert status == [0] * 4, told
    assert sorted(cv.load(model).gallery_ids_) == sorted(f"s{j}" for j in range(20))
    assert sorted(int(text.split("now ")[1].split(" of ")[0]) for text in told) == [5, 10, 15, 20]
    assert not [path.name for path in tmp_path.iterdir() if "lock" in path.name]


@pytest.mark.parametrize("command", ["enroll", "calibrate", "fit", "tune"])
def test_commands_that_change_a_model_wait_for_each_other(command, enrolled, data):
    link = enrolled.with_name("link")
    link.symlink_to(enrolled)
    arguments = {
        "enroll": (link, data, "--view", "sketch"),
        "calibrate": (link, data, "--view", "sketch", "--max-fpir", 0.2),
        "fit": (data, "-o", link, "--method", "MvDA", "--overwrite"),
        "tune": (data, "-o", link, "--n-iter", 1, "--n-folds", 2, "--method", "MvDA", "--overwrite"),
    }[command]
    before = enrolled.read_bytes()
    with ThreadPoolExecutor(1) as pool, locked(enrolled):
        done = pool.submit(run, command, *arguments)
        with pytest.raises(TimeoutError):
            done.result(timeout=2)
        assert enrolled.read_bytes() == before
    assert done.result().exit_code == 0
    assert enrolled.read_bytes() != before


def test_a_lock_goes_with_its_process(enrolled, data):
    """However it ends; a file that is left behind locks nobody out."""
    code = "import os, sys; from crossview.cli.data import locked; locked(sys.argv[1]).__enter__(); os._exit(1)"
    subprocess.run([sys.executable, "-c", code, enrolled], check=False)
    run("enroll", enrolled, data, "--view", "sketch")
    assert [path.name for path in enrolled.parent.iterdir() if "lock" in path.name] == []
