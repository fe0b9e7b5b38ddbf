from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from commands import run, runner
from methods import make

import crossview as cv
from crossview.cli import app
from crossview.cli.common import out
from crossview.cli.reports import folder_name

ARRAYS, Y = make(m=90, sizes=(8, 8), n_classes=18)
NOISY = [X + 0.5 * np.random.default_rng(v).normal(size=X.shape) for v, X in enumerate(ARRAYS)]
FEW = ("--bootstrap", 100, "--no-static")


def write(path, y=Y, **views):
    np.savez(path, **(views or {"photo": NOISY[0], "sketch": NOISY[1]}), y=y)
    return path


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.npz")


@pytest.fixture
def model(tmp_path):
    fitted = cv.MvDA(n_components=4, reg=0.1).fit({"photo": ARRAYS[0], "sketch": ARRAYS[1]}, Y)
    cv.save(fitted, tmp_path / "a.model")
    return tmp_path / "a.model"


@pytest.fixture
def matcher(tmp_path):
    views, known = cv.Views({"photo": ARRAYS[0], "sketch": ARRAYS[1]}), Y < 12
    fitted = cv.CrossViewClassifier(cv.MvDA(n_components=4, reg=0.1)).fit(views, Y)
    fitted.enroll(NOISY[0][known], Y[known], "photo", replace=True)
    cv.save(fitted.calibrate(ARRAYS[1], Y, "sketch", max_fpir=0.2), tmp_path / "m.model")
    return tmp_path / "m.model"


def test_tables_page_and_json(model, data, tmp_path):
    printed = run("evaluate", model, data, *FEW)
    expected = cv.evaluate(cv.load(model), {"photo": NOISY[0], "sketch": NOISY[1]}, Y, n_bootstrap=100)
    one = expected.mean.accuracy
    interval = f"[{100 * one.low:.1f}, {100 * one.high:.1f}]"
    assert re.search(rf"{100 * one.value:.1f} .*\n.*{re.escape(interval)}", printed.stdout)  # below
    for word in ("sketch in photo", "Verification by direction", "rank 10", "Open-set identification", "mean"):
        assert word in printed.stdout
    assert "90 test samples of 18 classes, matched in 2 directions" in printed.stdout
    assert "random matches would score 4.5 %" in printed.stdout
    assert "The false match rate (FMR) is the share of pairs of two classes that match" in printed.stdout
    assert "95 % confidence intervals from 100 bootstrap draws of samples" in printed.stdout
    assert "or searches for strangers: a rate r needs 3 / r or more" in printed.stdout
    folder = tmp_path / "crossview-evaluate" / "a"
    assert "report: crossview-evaluate/a/report.html" in printed.stdout
    for name in ("accuracy", "ranks", "verification", "identification"):
        assert (folder / "tables" / f"{name}.csv").exists()
    page = (folder / "report.html").read_text()
    for name in ("cmc", "roc", "det", "open-set", "confusions"):
        assert f'id="{name}"' in page
    options = (*FEW, "--confidence", 0.9, "--resample", "classes", "--json", "--overwrite")
    found = json.loads(run("evaluate", model, data, *options).stdout)
    views = {"photo": NOISY[0], "sketch": NOISY[1]}
    expected = cv.evaluate(cv.load(model), views, Y, n_bootstrap=100, confidence=0.9, resample="classes")
    assert {name: found[name] for name in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    assert found["report"] == "crossview-evaluate/a/report.html"
    assert "bootstrap draws of classes" in found["summary"]


def test_the_gallery_of_a_matcher(matcher, tmp_path):
    write(tmp_path / "probes.npz", sketch=NOISY[1])
    printed = run("evaluate", matcher, tmp_path / "probes.npz", "--view", "sketch", *FEW, "-o", "here")
    assert "sketch in gallery" in printed.stdout
    assert "At the threshold" in printed.stdout
    assert "Strangers, which accuracy leaves out: 30 probes whose class is not in the gallery" in printed.stdout
    found = json.loads((tmp_path / "here" / "evaluation.json").read_text())
    expected = cv.evaluate_probes(cv.load(matcher), NOISY[1], Y, "sketch", n_bootstrap=100)
    assert found["at_threshold"]["strangers_matched"]["value"] == expected.at_threshold.strangers_matched.value
    assert "strangers matched" in (tmp_path / "here" / "report.html").read_text()
    message = run("evaluate", matcher, tmp_path / "probes.npz", "--view", "drawing", *FEW, status=1).stderr
    assert "unknown view 'drawing': the views are 'photo', 'sketch'" in message
    # Labels in tables are text, here of numbers as in the gallery.
    lines = [f"s{k},{Y[k]}," + ",".join(map(repr, map(float, row))) for k, row in enumerate(NOISY[1])]
    (tmp_path / "today.csv").write_text("\n".join(["id,label," + ",".join(f"f{c}" for c in range(8)), *lines]))
    run("evaluate", matcher, tmp_path / "today.csv", "--view", "sketch", *FEW, "-o", "there")
    again = json.loads((tmp_path / "there" / "evaluation.json").read_text())
    assert again["mean"]["accuracy"] == pytest.approx(found["mean"]["accuracy"])
    # Without --view, all views of the data are matched with each other.
    write(tmp_path / "data.npz")
    assert "photo in sketch" in run("evaluate", matcher, tmp_path / "data.npz", *FEW).stdout


def test_strangers_alone(matcher, tmp_path):
    write(tmp_path / "strangers.npz", y=Y[Y >= 12], sketch=NOISY[1][Y >= 12])
    printed = run("evaluate", matcher, tmp_path / "strangers.npz", "--view", "sketch", *FEW, "-o", "here").stdout
    expected = cv.evaluate_probes(cv.load(matcher), NOISY[1][Y >= 12], Y[Y >= 12], "sketch", n_bootstrap=100)
    one = expected.at_threshold.strangers_matched
    shown = f"{100 * one.value:.1f} % [{100 * one.low:.1f}, {100 * one.high:.1f}]"
    assert "30 test samples of 6 classes, matched in 1 direction." in printed
    assert f"At the threshold, {shown} of the strangers are accepted." in printed
    assert re.search(r"strangers .*\n.* matched ", printed)
    assert "FNIR" not in printed
    plain = cv.load(matcher)
    plain.threshold_ = None
    cv.save(plain, tmp_path / "plain.model")
    message = run("evaluate", "plain.model", "strangers.npz", "--view", "sketch", *FEW, status=1).stderr
    assert "none of these classes is enrolled, and the model is not calibrated" in message


def test_tables_that_a_terminal_cannot_show_are_on_the_page(model, matcher, data, tmp_path, monkeypatch):
    write(tmp_path / "probes.npz", sketch=NOISY[1])
    for command in (("evaluate", model, data), ("evaluate", matcher, "probes.npz", "--view", "sketch")):
        printed = run(*command, *FEW).stdout
        assert max(len(line) for line in printed.splitlines() if "  " in line) <= 80
        assert "Wider than" not in printed
        assert "…" not in printed
    assert "At the threshold" in printed
    monkeypatch.setattr(out, "width", 40)
    printed = run("evaluate", matcher, "probes.npz", "--view", "sketch", *FEW, "--seed", 1).stdout
    assert "Wider than the terminal, and only in the report: Accuracy by direction, " in printed


OTHER = "holds another report, or one on other data or another model: choose another --output, or pass --overwrite"


def test_only_a_report_on_the_same_is_replaced(matcher, data, tmp_path):
    def refused(*given):
        return OTHER in run("evaluate", *given, *FEW, "-o", "here", status=1).stderr

    run("evaluate", matcher, data, *FEW, "-o", "here")
    first = (tmp_path / "here" / "report.html").read_text()
    run("evaluate", matcher, write(tmp_path / "copy.npz"), *FEW, "--seed", 1, "-o", "here")  # under another name
    assert refused(matcher, write(tmp_path / "other.npz", photo=NOISY[1], sketch=NOISY[0]))
    assert refused(matcher, data, "--view", "sketch")
    write(data, y=Y[::-1])
    assert refused(matcher, data)
    run("evaluate", matcher, data, *FEW, "-o", "here", "--overwrite")
    assert (tmp_path / "here" / "report.html").read_text() != first
    cv.save(cv.load(matcher).enroll(NOISY[0], Y, "photo"), matcher)
    assert refused(matcher, data)
    for content in ("[" * 100_000, "[]", "{}"):
        (tmp_path / "here" / "evaluation.json").write_text(content)
        assert refused(matcher, data)
    (tmp_path / "here" / "evaluation.json").unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "here" / "evaluation.json")
    assert refused(matcher, data)


@pytest.mark.parametrize("command", ["compare", "evaluate"])
@pytest.mark.parametrize("name", ["report.html", "tables", "figures", "record"])
def test_files_of_others_are_not_replaced(name, command, model, data, tmp_path):
    name = {"compare": "comparison.json", "evaluate": "evaluation.json"}[command] if name == "record" else name
    path = tmp_path / "here" / name / ("mine.csv" if "." not in name else "")
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    words = (data,) if command == "compare" else (model, data)
    assert OTHER in run(command, *words, "--no-static", "-o", "here", status=1).stderr
    assert path.read_text() == "mine"


def test_a_killed_command_is_resumed(model, data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("crossview.report.page.render", lambda report: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            runner().invoke(app, ["evaluate", str(model), str(data), *map(str, FEW)], catch_exceptions=False)
    run("evaluate", model, data, *FEW)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"y": Y, "photo": NOISY[0]}, (), "two views or more, got one: 'photo'"),
        ({"photo": NOISY[0], "sketch": NOISY[1]}, (), "no sample has a label"),
        (
            {"y": Y, "photo": NOISY[0], "drawing": NOISY[1]},
            (),
            "unknown view 'drawing': the views are 'photo', 'sketch'",
        ),
        ({"y": Y, "photo": NOISY[0], "sketch": NOISY[1][:, :5]}, (), "view 'sketch': X has 5 features"),
        ({"y": Y * 0, "photo": NOISY[0], "sketch": NOISY[1]}, (), "all samples belong to one class"),
        (
            {"y": Y, "photo": NOISY[0], "sketch": NOISY[1]},
            ("--view", "sketch"),
            "run crossview enroll first",
        ),
        ({"y": Y, "photo": NOISY[0]}, ("--view", "photo", "--pair-by", "(.)"), "leave out --size and --pair-by"),
        ({"y": Y, "photo": NOISY[0], "sketch": NOISY[1]}, ("--confidence", 95), "confidence must be between 0 and 1"),
        ({"y": Y, "photo": NOISY[0]}, ("-o", "wrong.npz"), "is a file, not a folder"),
        ({"y": Y, "photo": NOISY[0]}, ("-o", "wrong.npz/folder"), "is a file, not a folder"),
    ],
)
def test_wrong_input(model, tmp_path, arrays, options, message):
    np.savez(tmp_path / "wrong.npz", **arrays)
    printed = run("evaluate", model, tmp_path / "wrong.npz", *options, *FEW, status=1)
    assert message in " ".join(printed.stderr.split())
    assert not (tmp_path / "crossview-evaluate").exists()


@pytest.mark.parametrize("name", ["...npz", ".npz", "..a.b.npz", "a/b.npz"])
def test_folders_of_results_have_names(name):
    assert folder_name(name).strip(".")
