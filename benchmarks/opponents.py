"""Compare MvHE, KMvHE, MvDA and MCCA with today's alternatives, and write the tables of docs/results/opponents.md.

Usage: python benchmarks/opponents.py DATA RESULTS [--sets digits turntable] [--tables-only], where DATA contains
coil-100/, cmu-pie/ and mfeat/, and RESULTS is a folder that keeps results as they are computed. If interrupted, run the
same command again to resume. With --tables-only, only write the tables of what is stored.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crossview.experiments import Store

OURS = ("MvHE", "KMvHE")
OPPONENTS = ("Contrastive", "SemanticMatching", "NCA")
METHODS = (*OURS, "MvDA", "MCCA", *OPPONENTS)
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
HOW = ["--repeats", "10", "--draws", "20", "--members", "1", "--workers", "1", "--no-static", "--json"]


class Problem(NamedTuple):
    """A data set: its title, whether test classes are seen in training, and how `crossview compare` is told."""

    title: str
    seen: bool
    arguments: tuple[str, ...]


PROBLEMS = {
    "digits": Problem("digit halves", True, ("digits",)),
    "descriptors": Problem("digits in 4 descriptions", True, ("descriptors",)),
    "mfeat": Problem("numerals in 6 descriptions", True, ("{data}/mfeat/mfeat.npz",)),
    "turntable": Problem("turntable, procedural", False, ("turntable",)),
    "captions": Problem("captions, synthetic", False, ("captions", "--split", "classes", "--train", "100")),
    "coil100-1": Problem("COIL-100, case 1", False, ("coil100", "--case", "1", "--split", "classes", "--train", "70")),
    "coil100-2": Problem("COIL-100, case 2", False, ("coil100", "--case", "2", "--split", "classes", "--train", "70")),
    "cmu-pie-4": Problem("CMU PIE, case 4", False, ("cmu-pie", "--case", "4", "--split", "classes", "--train", "45")),
}


class Scores(NamedTuple):
    """Of one method on one data set: accuracy in per cent by split, sizes, and seconds of a fit and of a search."""

    accuracy: np.ndarray
    n_train: int
    n_test: int
    fit: float
    search: float


Found = dict[str, dict[str, Scores]]  # by data set and method


def compute(name: str, data: Path, results: Path) -> None:
    arguments = [argument.format(data=data) for argument in PROBLEMS[name].arguments]
    options = ["--data", str(data), "--methods", ",".join(METHODS), "--output", str(results / name), *HOW]
    command = [sys.executable, "-m", "crossview", "compare", *arguments, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def stored(path: Path) -> dict[str, Scores]:
    """Results of the methods that are complete."""
    found: dict[str, dict[int, dict]] = {}
    with Store(path, read_only=True) as store:
        for record in store.results():
            if record.result is not None:
                found.setdefault(record.cell["method"], {})[record.cell["repeat"]] = record.result
            repeats = record.cell["split"]["n_repeats"]
    complete = {method: [one[k] for k in range(repeats)] for method, one in found.items() if len(one) == repeats}
    return {
        method: Scores(
            100 * np.array([result["score"] for result in by_split]),
            *(by_split[0][what] for what in ("n_train", "n_test")),
            *(float(np.median([result["seconds"][what] for result in by_split])) for what in ("fit", "search")),
        )
        for method, by_split in complete.items()
    }


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def is_tied(gaps: np.ndarray) -> bool:
    """As in the reports of `crossview compare`."""
    return bool(abs(gaps.mean()) <= 2 * standard_error(gaps))


def accuracy_table(names: list[str], found: Found) -> list[str]:
    """Means and standard deviations; the best of a data set, and what is tied with it, in bold."""
    best = {name: max(found[name], key=lambda method: found[name][method].accuracy.mean()) for name in names}

    def entry(name: str, method: str) -> str:
        accuracy = found[name][method].accuracy
        text = f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f}"
        top = method == best[name] or is_tied(found[name][best[name]].accuracy - accuracy)
        return f"**{text}**" if top else text

    sizes = (next(iter(found[name].values())) for name in names)
    row = " | ".join(f"{one.n_train}, {one.n_test}" for one in sizes)
    return [*table(names, found, entry), f"| training, test samples | {row} |"]


def times_table(names: list[str], found: Found) -> list[str]:
    return table(names, found, lambda name, method: f"{found[name][method].fit:.2g}, {found[name][method].search:.0f}")


def table(names: list[str], found: Found, entry: Callable[[str, str], str]) -> list[str]:
    lines = [f"| | {' | '.join(PROBLEMS[name].title for name in names)} |", f"| --- |{' ---: |' * len(names)}"]
    for method in METHODS:
        cells = [entry(name, method) if method in found[name] else "–" for name in names]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def gaps_table(names: list[str], found: Found) -> list[str]:
    """How much better than every opponent the better of MvHE and KMvHE is, split by split."""
    lines = ["| data | ours | opponent | difference | splits won |", "| --- | --- | --- | ---: | ---: |"]
    for name in (name for name in names if found[name].keys() >= set(OURS)):
        ours = max(OURS, key=lambda method: found[name][method].accuracy.mean())
        for method in (method for method in OPPONENTS if method in found[name]):
            gaps = found[name][ours].accuracy - found[name][method].accuracy
            gap = f"{gaps.mean():+.1f} ± {standard_error(gaps):.1f}{', tied' * is_tied(gaps)}"
            lines.append(f"| {PROBLEMS[name].title} | {ours} | {method} | {gap} | {(gaps > 0).sum()} of {len(gaps)} |")
    return lines


def tables(available: list[str], found: Found) -> str:
    lines = []
    for title, seen in (("Classes seen in training", True), ("New classes", False)):
        names = [name for name in available if PROBLEMS[name].seen == seen and found[name]]
        if names:
            lines += ["", f"### {title}", "", *accuracy_table(names, found), "", *gaps_table(names, found)]
    names = [name for name in available if found[name]]
    return "\n".join([*lines, "", "### Times", "", *times_table(names, found), ""])


def write(page: Path, content: str) -> None:
    """Replace the tables of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{content}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--sets", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--tables-only", action="store_true")
    parser.add_argument("--page", type=Path, default=Path(__file__).parents[1] / "docs" / "results" / "opponents.md")
    options = parser.parse_args()
    if not options.tables_only:
        for name in options.sets:
            compute(name, options.data, options.results)
    available = [name for name in PROBLEMS if (options.results / name / "results.db").exists()]
    write(options.page, tables(available, {name: stored(options.results / name / "results.db") for name in available}))


if __name__ == "__main__":
    main()
