"""Every code block of the README and the pages under docs runs, page by page, in the order in which it is read."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import typer
from code_blocks import code_blocks
from commands import run

import crossview as cv
from crossview.cli import app

NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
ROOT = Path(__file__).parents[1]
LISTS = ("api", "changes", "contributing", "development", "guide")  # pages of links, and copies of others
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.stem not in LISTS)]


@pytest.mark.filterwarnings("ignore:n_components=.* keeps all:UserWarning")  # two pages show why it is a bad choice
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = code_blocks(page)
    assert blocks
    for long, language, code, output in blocks:
        if language == "python":
            code = code.replace('device="cuda"', 'device="cpu"')  # the same code, where there is no GPU
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, page.name, "exec"), names)
            assert_shown(printed.getvalue(), output)
            continue
        for line in code.replace("\\\n", "").splitlines():
            command = shlex.split(line, comments=True)
            assert command[0] == "crossview"
            if long:
                parse(command[1:])
            else:
                run(*command[1:])
    CHECKS.get(page.stem, lambda names, folder: None)(names, tmp_path)


def assert_shown(printed, shown):
    """What a page shows, after a warning if there is one, is what is printed: numbers up to 3 % or 0.03."""
    shown = re.sub(r"\A\w+Warning: .*?\.\n", "", shown, flags=re.S)
    if shown:
        assert re.sub(NUMBER, "0", printed).split() == re.sub(NUMBER, "0", shown).split(), printed
        numbers = ([float(number) for number in re.findall(NUMBER, text)] for text in (printed, shown))
        np.testing.assert_allclose(*numbers, rtol=0.03, atol=0.03)


def parse(arguments):
    """What would take too long to run must at least be a command that exists, with options that exist."""
    with click.Context(typer.main.get_command(app)) as context:
        name, command, rest = context.command.resolve_command(context, arguments)
        command.make_context(name, rest)


def test_every_command_has_its_place_on_the_page_of_commands():
    blocks = code_blocks(ROOT / "docs" / "commands.md")
    code = "\n".join(code for _, language, code, _ in blocks if language == "sh")
    shown = re.findall(r"^crossview (\w+)", code, re.M)
    command = typer.main.get_command(app)
    assert set(command.list_commands(click.Context(command))) == set(shown)


@pytest.mark.parametrize("first", ['    "PCA": PCA,', '    "NCA": NCA,'], ids=["METHODS", "BASELINES"])
def test_the_method_in_contributing_is_known_everywhere(first, tmp_path):
    """Added as the page says, to a copy of the package."""
    copy = tmp_path / "crossview"
    shutil.copytree(Path(cv.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    ((_, _, code, _),) = code_blocks(ROOT / "CONTRIBUTING.md")
    (copy / "embeddings" / "indicators.py").write_text(code, encoding="utf-8")
    page = copy / "embeddings" / "__init__.py"
    text = page.read_text(encoding="utf-8").replace(first, f'{first}\n    "IndicatorRegression": IndicatorRegression,')
    last = "from crossview.embeddings.locality"
    imported = f"from crossview.embeddings.indicators import IndicatorRegression\n{last}"
    page.write_text(text.replace(last, imported), encoding="utf-8")
    use = """
import sys
import numpy as np
import crossview as cv

data = cv.datasets.load_digits()
views, y = data.views[:200], data.y[:200]
search = cv.tune("IndicatorRegression", views, y, n_iter=3, n_members=2)
matcher = cv.CrossViewClassifier(search.best_estimator_).fit(views, y)
new = (cv.METHODS | cv.BASELINES)["IndicatorRegression"]().fit(views, y)
assert new.score(data.views[900:], data.y[900:]) > 0.4
for model in (search, matcher, new, cv.Committee([new, cv.MvDA()]).fit(views, y)):
    cv.save(model, sys.argv[1])
    loaded = cv.load(sys.argv[1])
    left = views["left"]
    assert np.array_equal(cv.transform_view(loaded, left, "left"), cv.transform_view(model, left, "left"))
cv.export_onnx(new, "left", sys.argv[1])
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", use, str(tmp_path / "model")], env=environment, check=True)


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "docs" / "results" / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def check_readme(names, folder):
    assert names["model"].score(names["test"], names["y_test"]) == pytest.approx(0.90, abs=0.01)
    assert names["search"].score(names["test"], names["y_test"]) == pytest.approx(0.68, abs=0.02)
    assert (folder / "digits.model").exists()


def check_recipe(names, folder):
    assert names["accuracy"] == pytest.approx(0.83, abs=0.05)
    assert names["matcher"].threshold_ > 0.0
    assert (folder / "comparison" / "report.html").exists()
    assert len((folder / "matches.csv").read_text().splitlines()) == 1 + 3 * len(names["new"].y)


def check_matching(names, folder):
    first, with_strangers = names["shares"].values()
    assert first > 0.4 > 0.2 > with_strangers
    assert 0.2 < np.mean(names["decided"] == -1) < 0.5
    assert names["ranks"][0] > 0.8
    matcher, labels = cv.load(folder / "my.model"), names["names"][names["y_test"][200:]]
    expected = matcher.predict(names["probes"], "right")
    assert np.mean(names["found"] == expected) > 0.99
    assert set(names["found"]) > {"unknown"}
    # What the page says: nearly all that are accepted are right, and most strangers are rejected.
    known = np.isin(labels, matcher.classes_)
    assert np.mean((expected == labels)[known & (expected != "unknown")]) > 0.97
    assert np.mean(expected[~known] == "unknown") > 0.6


def check_tuning(names, folder):
    assert names["search"].score(names["test"], names["y_test"]) > 0.7
    assert names["pipeline"].get_params()["mvda__reg"] in (0.01, 0.1, 1.0)


def check_data(names, folder):
    assert len((folder / "found.csv").read_text().splitlines()) == 1 + 58
    assert np.isnan(names["incomplete"]["sketch"][::4]).all()
    assert names["data"].view_names == ["photo", "sketch"]


def check_evaluation(names, folder):
    assert names["strict"].mean.accuracy.value == pytest.approx(0.840, abs=0.01)
    assert names["evaluation"].at_threshold.n_strangers > 0
    for model in ("digits", "matcher"):
        assert (folder / "crossview-evaluate" / model / "report.html").exists()


def check_problem(names, folder):
    assert names["before"] == pytest.approx(0.14, abs=0.01)
    assert names["after"] == pytest.approx(0.88, abs=0.01)
    assert names["left"].shape == names["right"].shape


def check_commands(names, folder):
    assert len((folder / "matches.csv").read_text().splitlines()) == 1 + 2 * 200
    assert cv.load(folder / "my.model").threshold_ > 0.0
    for path in ("comparison/report.html", "crossview-evaluate/my/evaluation.json", "in-use/report.html", "right.onnx"):
        assert (folder / path).exists()


def check_report(names, folder):
    text = (folder / "comparison" / "report.html").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    for column in re.findall(r"^\| ([\w ]+) \| (?!meaning)", page, flags=re.M):
        assert column in text


def check_deployment(names, folder):
    # What the page says: the threshold holds what was asked for, training samples and larger galleries do not.
    rates = [
        cv.evaluate_probes(names[one], names["later"]["right"], names["y_later"], "right").at_threshold
        for one in ("matcher", "careless")
    ]
    assert rates[0].false_positive_rate.value == pytest.approx(0.043, abs=0.01)
    assert rates[1].false_positive_rate.value == pytest.approx(0.096, abs=0.02)
    assert names["accepted"] == pytest.approx(0.048, abs=0.005)
    np.testing.assert_allclose(names["exported"], names["expected"], atol=1e-5)


def check_migrating(names, folder):
    for model, views, expected in (
        (cv.CCA(3, reg=0.0), names["two"], [1.0, 0.998, 0.997]),
        (names["CCA"](3), names["two"], [1.0, 0.998, 0.997]),
        (cv.PLS(3), names["two"], [0.975, 0.955, 0.934]),
        (names["PLS"](3), names["two"], [0.975, 0.955, 0.934]),
        (cv.MCCA(3, constraint="joint", reg=0.0), names["three"], [0.991, 0.985, 0.920]),
        (names["MCCA"](3), names["three"], [0.991, 0.985, 0.920]),
    ):
        assert names["correlations"](model.fit(views).transform(views)) == pytest.approx(expected, abs=1e-3)


CHECKS = {
    "README": check_readme,
    "recipe": check_recipe,
    "matching": check_matching,
    "tuning": check_tuning,
    "data": check_data,
    "evaluation": check_evaluation,
    "problem": check_problem,
    "commands": check_commands,
    "report": check_report,
    "deployment": check_deployment,
    "migrating": check_migrating,
}
