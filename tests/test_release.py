"""What a release needs besides working code."""

from __future__ import annotations

import datetime
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
import yaml

import crossview as cv

ROOT = Path(__file__).parents[1]
MODULES = {"datasets", "exceptions", "metrics", "plot"}
NOT_DESCRIBED = {"METHODS", "BASELINES"}  # dictionaries
METHODS = cv.METHODS | cv.BASELINES


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def public_names():
    names = [name for name in cv.__all__ if name not in MODULES and name != "__version__"]
    return names + [f"{module}.{name}" for module in sorted(MODULES) for name in getattr(cv, module).__all__]


def public_object(name):
    module, _, attribute = name.rpartition(".")
    return getattr(getattr(cv, module) if module else cv, attribute)


def sections(docstring):
    """The text of every section of a numpydoc docstring by its title; that before the first one by ''."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-+$", docstring, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def described_parameters(text):
    heads = [line.partition(" : ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def parameters(thing):
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return set()  # those of every exception
    return set(inspect.signature(thing).parameters)


def test_versions_agree():
    headings = [heading for heading in re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.M) if heading != "Unreleased"]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert headings[0] == citation["version"] == cv.__version__
    assert isinstance(citation["date-released"], datetime.date)
    assert {"cff-version", "message", "title", "authors", "preferred-citation"} <= set(citation)


def test_workflows_call_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.M))
    called = set()
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), path.name
                called |= set(re.findall(r"\bmake ([\w-]+)", step.get("run", "")))
    assert called == {"test-all", "test-core", "test-oldest", "docs", "release-check"}
    assert called <= targets


def test_workflows_run_the_supported_versions_of_python():
    classifiers = set(re.findall(r"Python :: (3\.\d+)", read("pyproject.toml")))
    tested = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(tested) == classifiers
    assert re.search(r'requires-python = ">=(.+)"', read("pyproject.toml"))[1] == min(tested, key=lambda v: int(v[2:]))


def test_makefile_explains_its_targets():
    makefile = read("Makefile")
    explained = set(re.findall(r'@echo "make ([\w-]+)', makefile)) | {"help"}
    assert explained == set(re.search(r"^\.PHONY: (.+)$", makefile, re.M)[1].split())


def test_exhaustive_tests_exist():
    for name in read("tests/exhaustive.txt").split():
        file, _, test = name.partition("::")
        assert re.search(rf"^def {test}\(" if test else "", read(f"tests/{file}"), re.M), name


@pytest.mark.parametrize(
    "path", [ROOT / ".pre-commit-config.yaml", *sorted((ROOT / ".github").rglob("*.yml"))], ids=lambda path: path.name
)
def test_settings_are_valid_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_api_reference_has_every_public_name():
    lists = re.findall(r"\.\. autosummary::\n(.*?)```", read("docs/api.md"), re.S)
    listed = [line.strip() for part in lists for line in part.splitlines() if line.strip() and ":" not in line]
    assert sorted(listed) == sorted(public_names())


@pytest.mark.parametrize("name", sorted(set(public_names()) - NOT_DESCRIBED))
def test_docstrings_are_complete(name):
    thing = public_object(name)
    found = sections(inspect.getdoc(thing))
    assert found[""].strip()
    assert ">>> " in found.get("Examples", ""), "Examples"
    assert described_parameters(found.get("Parameters", "")) == parameters(thing)
    if thing in METHODS.values() and thing is not cv.RawFeatures:  # which nobody published
        assert ".. [1] " in found.get("References", ""), "References"
        assert "[1]_" in inspect.getdoc(thing), "a citation"
        assert re.search(r"\.\. math::|:math:", found[""]), "an equation"


def test_package_indexes_get_absolute_links_or_text():
    pytest.importorskip("hatchling")
    specification = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    text = "![A picture](docs/a.png)[guide](docs/b.md#c) [peer](https://example.org) [below](#d)"
    assert module.absolute_links(text, "https://example.com/crossview/", "v1.0") == (
        "![A picture](https://example.com/crossview/raw/v1.0/docs/a.png)"
        "[guide](https://example.com/crossview/blob/v1.0/docs/b.md#c) [peer](https://example.org) [below](#d)"
    )
    # Where the repository is unknown, links become text.
    assert module.absolute_links(text, None, "v1.0") == "guide [peer](https://example.org) [below](#d)"
    assert "](docs/" in read("README.md")
    assert not re.search(r"\]\((?!https?:|#)", module.absolute_links(read("README.md"), None, "v1.0"))
