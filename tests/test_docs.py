"""Every code block of the README and the pages under docs runs, page by page, in the order in which it is read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
import typer
from code_blocks import code_blocks
from commands import run

import crossview as cv
from crossview.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_there_is_a_page_to_run():
    assert {"README.md", "recipe.md", "tuning.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_blocks_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = code_blocks(page)
    assert blocks
    for long, language, code in blocks:
        if language == "python":
            code = code.replace('device="cuda"', 'device="cpu"')  # the same code, where there is no GPU
            exec(compile(code, page.name, "exec"), names)
            continue
        for line in code.splitlines():
            command = shlex.split(line, comments=True)
            assert command[0] == "crossview"
            if long:
                parse(command[1:])
            else:
                run(*command[1:])
    CHECKS.get(page.stem, lambda names, folder: None)(names, tmp_path)


def parse(arguments):
    """What would take too long to run must at least be a command that exists, with options that exist."""
    with click.Context(typer.main.get_command(app)) as context:
        name, command, rest = context.command.resolve_command(context, arguments)
        command.make_context(name, rest)


def test_the_method_in_contributing_is_an_embedding():
    names: dict[str, object] = {}
    ((_, _, code),) = code_blocks(ROOT / "CONTRIBUTING.md")
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    data = cv.datasets.load_digits()
    model = names["IndicatorRegression"]().fit(data.views[:900], data.y[:900])
    assert model.score(data.views[900:], data.y[900:]) > 0.4


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "docs" / "results" / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def check_readme(names, folder):
    assert names["model"].score(names["test"], names["y_test"]) == pytest.approx(0.90, abs=0.01)
    assert names["search"].score(names["test"], names["y_test"]) == pytest.approx(0.69, abs=0.02)
    assert (folder / "digits.model").exists()


def check_recipe(names, folder):
    assert names["accuracy"] == pytest.approx(0.83, abs=0.1)
    assert names["matcher"].threshold_ > 0.0
    assert (folder / "comparison" / "report.html").exists()
    assert len((folder / "matches.csv").read_text().splitlines()) == 1 + 3 * len(names["new"].y)


def check_matching(names, folder):
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
    assert np.isnan(names["incomplete"]["sketch"][::4]).all()
    assert names["data"].view_names == ["photo", "sketch"]


def check_evaluation(names, folder):
    assert names["strict"].mean.accuracy.value == pytest.approx(0.844, abs=0.01)
    assert names["evaluation"].at_threshold.n_strangers > 0
    for model in ("digits", "matcher"):
        assert (folder / "crossview-evaluate" / model / "report.html").exists()


CHECKS = {
    "README": check_readme,
    "recipe": check_recipe,
    "matching": check_matching,
    "tuning": check_tuning,
    "data": check_data,
    "evaluation": check_evaluation,
}
