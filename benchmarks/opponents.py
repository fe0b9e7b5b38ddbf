"""Compare MvHE, KMvHE, MvDA and MCCA with today's alternatives, and print the tables of docs/results/opponents.md.

Usage: python benchmarks/opponents.py DATA RESULTS [--sets digits turntable] [--tables-only], where DATA contains
coil-100/, cmu-pie/ and mfeat/, and RESULTS is a folder that keeps results as they are computed. If interrupted, run the
same command again to resume. With --tables-only, only print the tables of what is stored.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crossview.experiments import Store

METHODS = ("MvHE", "KMvHE", "MvDA", "MCCA", "Contrastive", "SemanticMatching", "NCA")
OURS = ("MvHE", "KMvHE")
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
    """Of one method on one data set, by split: accuracy in per cent, and seconds of a fit and of a search."""

    accuracy: np.ndarray
    fit: float
    search: float


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
            *(float(np.median([result["seconds"][what] for result in by_split])) for what in ("fit", "search")),
        )
        for method, by_split in complete.items()
    }


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def is_tied(gaps: np.ndarray) -> bool:
    """As in the reports of `crossview compare`."""
    return bool(abs(gaps.mean()) <= 2 * standard_error(gaps))


def print_accuracy(names: list[str], found: dict[str, dict[str, Scores]]) -> None:
    print_header(names)
    best = {name: max(found[name], key=lambda method: found[name][method].accuracy.mean()) for name in names}
    for method in METHODS:
        entries = []
        for name in names:
            if method not in found[name]:
                entries.append("–")
                continue
            accuracy = found[name][method].accuracy
            text = f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f}"
            top = method == best[name] or is_tied(found[name][best[name]].accuracy - accuracy)
            entries.append(f"**{text}**" if top else text)
        print(f"| {method} | {' | '.join(entries)} |")


def print_gaps(names: list[str], found: dict[str, dict[str, Scores]]) -> None:
    """Gap of the better of MvHE and KMvHE to every opponent, split by split."""
    print("| data | ours | opponent | difference | splits won |\n| --- | --- | --- | ---: | ---: |")
    for name in names:
        ours = max((m for m in OURS if m in found[name]), key=lambda m: found[name][m].accuracy.mean())
        for method in (m for m in METHODS[4:] if m in found[name]):
            gaps = found[name][ours].accuracy - found[name][method].accuracy
            tied = ", tied" if is_tied(gaps) else ""
            gap = f"{gaps.mean():+.1f} ± {standard_error(gaps):.1f}{tied}"
            print(f"| {PROBLEMS[name].title} | {ours} | {method} | {gap} | {(gaps > 0).sum()} of {len(gaps)} |")


def print_times(names: list[str], found: dict[str, dict[str, Scores]]) -> None:
    print_header(names)
    for method in METHODS:
        known = [found[name].get(method) for name in names]
        entries = ["–" if one is None else f"{one.fit:.2g}, {one.search:.0f}" for one in known]
        print(f"| {method} | {' | '.join(entries)} |")


def print_header(names: list[str]) -> None:
    print(f"| | {' | '.join(PROBLEMS[name].title for name in names)} |\n| --- |{' ---: |' * len(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--sets", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--tables-only", action="store_true")
    options = parser.parse_args()
    if not options.tables_only:
        for name in options.sets:
            compute(name, options.data, options.results)
    available = [name for name in options.sets if (options.results / name / "results.db").exists()]
    found = {name: stored(options.results / name / "results.db") for name in available}
    for title, seen in (("Classes seen in training", True), ("New classes", False)):
        names = [name for name in available if PROBLEMS[name].seen == seen and found[name]]
        if names:
            print(f"\n## {title}\n")
            print_accuracy(names, found)
            print("\nSeconds of one fit and of one search, medians over the splits:\n")
            print_times(names, found)
            print()
            print_gaps([name for name in names if any(m in found[name] for m in OURS)], found)


if __name__ == "__main__":
    main()
