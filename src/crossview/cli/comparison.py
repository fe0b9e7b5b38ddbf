"""What `compare` compares: the data and their split, checked before anything is computed, and the folder's report."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crossview as cv
from crossview._text import counted
from crossview.cli.data import DataOptions, check_comparable
from crossview.cli.reports import confirm_replacing, holds_report
from crossview.datasets import Dataset
from crossview.experiments import Cell, Record, Search, Split
from crossview.experiments.applicability import not_applicable_record
from crossview.experiments.comparisons import Comparison
from crossview.experiments.loading import TEST_DATA, concatenated
from crossview.experiments.plans import Panel
from crossview.model_selection.splits import folds, matching_folds

_MANY_CLASSES = 20  # from which on a split is one of classes, by default
_FEW_SAMPLES = 20  # per class to train on, by default


@dataclass(frozen=True)
class SplitData:
    """Data, the options to load them with, how they are split, and what is to be said of that."""

    name: str
    options: Mapping[str, Any]
    data: Dataset
    split: Split
    remark: str = ""  # for the report
    warning: str = ""  # also told before the work

    def folds_option(self) -> list[str]:
        """Option with which `tune` makes folds like those here, if it would not by default."""
        y = np.asarray(self.data.y)
        train, _ = self.split.rows(y, 0)
        wanted, tuned = matching_folds(self.split.tests_on(y), y[train]), train if self.split.kind == "given" else ...
        kind, default = (folds(cv, y[rows], Search().n_folds, 0)[1] for cv, rows in ((wanted, train), ("auto", tuned)))
        return [] if default == kind else ["--folds-of", kind]


def random_splits(name: str, how: DataOptions, kind: str, train: float | None, repeats: int, seed: int) -> SplitData:
    """Data to be split at random."""
    data = how.open(name)
    check_comparable(data, name)
    labels = np.asarray(data.y)
    _, counts = np.unique(labels, return_counts=True)
    if kind == "auto":
        kind = "classes" if len(counts) >= _MANY_CLASSES else "samples"
    chosen = train
    if chosen is None:
        # There are often few labels; and kernel methods grow with the third power of the number of samples.
        chosen = 0.7 if kind == "classes" else (_FEW_SAMPLES if counts.min() >= 2 * _FEW_SAMPLES else 0.5)
    split = Split(kind, chosen, repeats, seed)
    few = train is None and kind == "samples" and chosen >= 1
    remark = _default_remark(split, labels) if train is None else ""
    return SplitData(name, how.of(name), data, split, remark, remark if few else "")


def _default_remark(split: Split, y: NDArray[Any]) -> str:
    """What the default of --train takes, and what it leaves."""
    if split.kind == "classes":
        return f"Training takes {100 * split.n_train:.0f} % of the classes, the default; --train changes it."
    if split.n_train < 1:
        return "Training takes half of the samples of every class, the default; --train changes it."
    train, test = split.rows(y, 0)
    return (
        f"Training takes {counted(int(split.n_train), 'sample')} per class, the default, {len(train)} of {len(y)}; the "
        f"other {len(test)} are only tested on. --train 0.5 trains on half."
    )


def given_split(train_name: str, test_name: str, how: DataOptions, seed: int) -> SplitData:
    """Training data and test data, as one data set; samples that are in both are warned of."""
    train, test = (how.open(name) for name in (train_name, test_name))
    for data, name in ((train, train_name), (test, test_name)):
        check_comparable(data, name)
    both = concatenated(train, test, train_name, test_name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cv.datasets.warn_about_shared_rows(train, test)
    remark = " ".join(str(one.message) for one in caught)
    options = {**how.of(train_name), TEST_DATA: test_name}
    return SplitData(
        train_name, options, both, Split("given", len(train.y), 1, seed), remark, f"warning: {remark}" if remark else ""
    )


def check_folds(split: Split, search: Search, y: NDArray[Any]) -> None:
    """Fail early if the split is impossible, or its training part cannot be split into folds."""
    train, _ = split.rows(y, 0)
    try:
        folds(matching_folds(split.tests_on(y), y[train]), y[train], search.n_folds, 0)
    except ValueError as error:
        fix = "add training data" if split.kind == "given" else "train on more with --train"
        need = "two training samples of every class, or four training classes"
        raise ValueError(f"cross-validation needs {need}: {fix}.") from error


def inapplicable(panel: Panel, data: Dataset) -> dict[Cell, Record]:
    """Records of the cells whose methods cannot be applied to the data."""
    n_train = len(panel.places[0].cell.split.rows(np.asarray(data.y), 0)[0])
    found = {place.cell: not_applicable_record(place.cell, data.views, n_train) for place in panel.places}
    return {cell: record for cell, record in found.items() if record is not None}


def reasons(records: Iterable[Record]) -> list[str]:
    """Which methods failed, and why, each once."""
    found = (f"{record.cell['method']}: {(record.error or {}).get('message', '')}" for record in records)
    return list(dict.fromkeys(found))


def with_earlier(wanted: Comparison, folder: Path, as_json: bool) -> Comparison:
    """A comparison with the methods that the folder's report shows, unless that has other settings."""
    earlier = Comparison.load(folder)
    changed = [] if earlier is None else earlier.differences(wanted)
    if earlier is not None and not changed:
        return wanted.with_methods_of(earlier)
    if earlier is not None:
        what = f"a comparison on {earlier.panel.columns[0]} with other settings ({'; '.join(changed)})"
        confirm_replacing(folder, what, as_json)
    elif holds_report(folder):
        confirm_replacing(folder, "another report", as_json)
    return wanted
