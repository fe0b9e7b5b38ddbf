"""Whether the recommended model is the best one in use, and never worse than doing nothing.

    python benchmarks/recommendation.py DATA RESULTS [--sets NAME...]                      # compute, resumable
    python benchmarks/recommendation.py DATA RESULTS --methods Contrastive --device cuda   # alternatives
    python benchmarks/recommendation.py --table RESULTS...                                 # write tables to stdout

DATA is the folder with coil-100/, cmu-pie/, mfeat/ and deep/. For every data set and split, each method is tuned on the
training part as `crossview compare` tunes it, and scored on the test part. RESULTS gets one JSON line per data set,
split and row. The recommendation only sees scores in validation, those of `held_out_score_`, and chooses among the
methods that are computed by default.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import crossview as cv
from crossview import metrics
from crossview.exceptions import NotApplicableError
from crossview.model_selection.rounds import held_out_score
from crossview.model_selection.tuning import search_space
from crossview.report.ranking import recommended_row
from paper.data import load_cmu_pie, load_coil100

METHODS = ("RawFeatures", "PCA", "LDA", "DLA", "MCCA", "GMA", "MvDA", "MvDA-VC", "MvHE", "KMvHE")
COMMITTEES = ("MvHE", "KMvHE")
DRAWS, MEMBERS = 32, 8  # as `crossview compare`
COLUMNS = ("accuracy", "one_shot", "average_precision", "with_counterparts")
GROUPS = (
    ("CMU PIE", "CMU PIE, network", "COIL-100 1", "COIL-100 1, network", "COIL-100 2", "turntable"),
    ("CMU PIE, one image", "COIL-100 2, one image"),
    ("digits", "numerals", "captions"),
)
"""Data sets with shared coordinates, with one sample per class, and with unlike coordinates."""

_FEW = 40  # training samples per class of data whose classes are seen in training

Split = tuple[np.ndarray, np.ndarray]


def new_classes(n_classes: int, n_each: int | None, n_test: int | None = None) -> Callable[[np.ndarray, int], Split]:
    """Train on some classes with some samples each, test on the others, possibly with few samples each."""

    def split(y: np.ndarray, seed: int) -> Split:
        rng = np.random.default_rng(seed)
        classes = rng.permutation(np.unique(y))
        parts = []
        for some, n in ((classes[:n_classes], n_each), (classes[n_classes:], n_test)):
            parts.append(np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n] for c in some]))
        return parts[0], parts[1]

    return split


def new_samples(n_each: int) -> Callable[[np.ndarray, int], Split]:
    """Train on some samples of every class, test on the others."""

    def split(y: np.ndarray, seed: int) -> Split:
        rng = np.random.default_rng(seed)
        train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n_each] for c in np.unique(y)])
        return train, np.setdiff1d(np.arange(len(y)), train)

    return split


def problems(
    data: Path,
) -> dict[str, tuple[Callable[[], cv.datasets.Dataset], Callable[[np.ndarray, int], Split], int]]:
    """Name → how to load the data, how to split them, and the number of splits."""

    def pie() -> cv.datasets.Dataset:
        return load_cmu_pie(data / "cmu-pie", case=4, conditions=None)

    def deep_coil() -> cv.datasets.Dataset:
        found = cv.datasets.load_arrays(data / "deep/coil-100.npz")
        views = cv.Views(found.views.arrays[:2], names=found.views.names[:2])
        return replace(found, views=views)

    def coil(case: int) -> Callable[[], cv.datasets.Dataset]:
        return lambda: load_coil100(data / "coil-100", case=case)

    return {
        "CMU PIE, network": (lambda: cv.datasets.load_arrays(data / "deep/cmu-pie.npz"), new_classes(34, 6), 10),
        "CMU PIE": (pie, new_classes(34, 6), 10),
        "COIL-100 1, network": (deep_coil, new_classes(70, None), 5),
        "COIL-100 1": (coil(1), new_classes(70, None), 5),
        "COIL-100 2": (coil(2), new_classes(70, None), 5),
        "CMU PIE, one image": (pie, new_classes(34, 1, 1), 5),
        "COIL-100 2, one image": (coil(2), new_classes(70, 1, 1), 5),
        "digits": (cv.datasets.load_digits, new_samples(_FEW), 5),
        "numerals": (lambda: cv.datasets.load_arrays(data / "mfeat/mfeat.npz"), new_samples(_FEW // 2), 5),
        "turntable": (lambda: cv.datasets.make_turntable(60, random_state=0), new_classes(40, None), 5),
        "captions": (lambda: cv.datasets.make_captions(random_state=0), new_classes(200, None), 5),
    }


def rows(method: str, data: cv.datasets.Dataset, split: Split, seed: int) -> dict[str, dict[str, object]]:
    """Tune a method on the training part and score it on the test part; the committee, too, if it is to be shown."""
    train, test = split
    y = np.asarray(data.y)
    start = time.process_time()
    new = not np.isin(y[test], y[train]).any()
    members = MEMBERS if method in COMMITTEES else 1
    grid = search_space(method, data.views.n_features)
    search = cv.tune(
        method,
        data.views[train],
        y[train],
        grid,
        n_iter=DRAWS,
        n_members=members,
        random_state=seed,
        cv="classes" if new else "samples",
    )
    seconds = time.process_time() - start
    (single,) = search.fit_rows([search.best_index_], data.views[train], y[train])
    metric = str(search.cv_results_["metric"][search.best_index_])
    models = {method: (single, metric, held_out_score(search.cv_results_, search.n_splits_))}
    if members > 1:
        models[f"{method} × {members}"] = search.best_estimator_, search.best_metric_, search.held_out_score_
    found = {}
    for name, (model, metric, validation) in models.items():
        latents = model.transform(data.views[test])
        found[name] = {
            "validation": validation,
            "accuracy": metrics.mean_accuracy(latents, y[test], metric),
            "one_shot": metrics.one_shot_accuracy(latents, y[test], metric),
            "average_precision": metrics.mean_average_precision(latents, y[test], metric),
            "with_counterparts": metrics.mean_accuracy(latents, y[test], metric, counterparts=True),
            "seconds": seconds,
            "settings": {key: str(value) for key, value in search.best_params_.items()} | {"metric": metric},
        }
    return found


def load(path: Path) -> Iterator[dict]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def compute(options: argparse.Namespace) -> None:
    folder, path = options.files
    done = {(r["data"], r["split"], r["method"]) for r in load(path)}
    chosen = {name: of for name, of in problems(folder).items() if not options.sets or name in options.sets}
    for k in range(max(n_splits for _, _, n_splits in chosen.values())):
        for name, (open_data, split, n_splits) in chosen.items():
            missing = [method for method in options.methods if (name, k, method) not in done]
            if k >= n_splits or not missing:
                continue
            data = open_data()
            for method in missing:
                try:
                    found = rows(method, data, split(np.asarray(data.y), k), k)
                except (NotApplicableError, ValueError) as error:
                    found = {method: {"error": str(error)}}
                with path.open("a") as file:
                    for label, one in found.items():
                        file.write(json.dumps({"data": name, "split": k, "method": label, **one}) + "\n")
                        print(name, k, label, one.get("accuracy", one.get("error")), one.get("seconds"), flush=True)


class Scores:
    """Scores of all rows of a data set, in the splits that all rows have."""

    def __init__(self, records: list[dict], methods: Sequence[str]) -> None:
        by_row: dict[str, dict[int, dict]] = {}
        for record in records:
            by_row.setdefault(record["method"], {})[record["split"]] = record
        ours = {row: of for row, of in by_row.items() if row.split(" ×")[0] in methods}  # others are only shown
        self.splits = sorted(set.intersection(*(set(of) for of in ours.values())))
        self.rows = {row: [of[k] for k in self.splits] for row, of in by_row.items() if set(self.splits) <= set(of)}
        self.recommended = recommended_row({row: self.of(row, "validation").tolist() for row in ours})
        self.best = max(ours, key=lambda row: self.of(row, "accuracy").mean())

    def of(self, row: str, score: str) -> np.ndarray:
        """Scores by split."""
        return 100 * np.array([record[score] for record in self.rows[row]])

    def mean(self, row: str, score: str = "accuracy") -> str:
        """Mean score in words; a dash for a row without scores."""
        return f"{self.of(row, score).mean():.1f}" if row in self.rows else "–"

    @property
    def regret(self) -> float:
        """Accuracy of the best row minus that of the recommended one."""
        return float(self.of(self.best, "accuracy").mean() - self.of(self.recommended, "accuracy").mean())

    @property
    def over_nothing(self) -> tuple[float, float] | None:
        """Mean gain of the recommended row over doing nothing, and its standard error."""
        if "RawFeatures" not in self.rows:
            return None
        gaps = self.of(self.recommended, "accuracy") - self.of("RawFeatures", "accuracy")
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def table(paths: list[Path], methods: Sequence[str]) -> Iterator[str]:
    """Lines of tables: of recommendations, of their scores, and of all rows by score and group of data sets."""
    by_data: dict[str, list[dict]] = {name: [] for name in problems(Path())}
    for record in (record for path in paths for record in load(path)):
        if "error" not in record:
            by_data[record["data"]].append(record)
    known = {name: records for name, records in by_data.items() if any(r["method"] in methods for r in records)}
    found = {name: Scores(records, methods) for name, records in known.items()}
    yield "| data set | splits | recommended | accuracy | best row | accuracy | regret | gain over doing nothing |"
    yield "| --- | ---: | --- | ---: | --- | ---: | ---: | ---: |"
    for name, scores in found.items():
        gain = scores.over_nothing
        cells = [name, len(scores.splits), scores.recommended, scores.mean(scores.recommended)]
        cells += [scores.best, scores.mean(scores.best), f"{scores.regret:.1f}"]
        cells += ["–" if gain is None else f"{gain[0]:+.1f} ± {gain[1]:.1f}"]
        yield f"| {' | '.join(map(str, cells))} |"
    yield f"\nMean regret: {np.mean([scores.regret for scores in found.values()]):.2f} points."
    titles = ("accuracy", "one-shot", "mean average precision", "with counterparts", "in validation")
    yield f"\n| recommended | {' | '.join(titles)} |\n| --- |{' ---: |' * len(titles)}"
    for name, scores in found.items():
        yield f"| {name} | {' | '.join(scores.mean(scores.recommended, one) for one in (*COLUMNS, 'validation'))} |"
    rows = list(dict.fromkeys(row for scores in found.values() for row in scores.rows))
    for title, score in zip(titles, (*COLUMNS, "validation"), strict=True):
        yield f"\n## {title.capitalize()}"
        for group in GROUPS:
            names = [name for name in group if name in found]
            shown = [row for row in rows if any(row in found[name].rows for name in names)]
            yield f"\n| | {' | '.join(names)} |\n| --- |{' ---: |' * len(names)}"
            for row in shown:
                yield f"| {row} | {' | '.join(found[name].mean(row, score) for name in names)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="DATA and RESULTS, or RESULTS only with --table")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--device")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    if given.table:
        print("\n".join(table(given.files, given.methods)))
    else:
        with cv.config_context(device=given.device):
            compute(given)
