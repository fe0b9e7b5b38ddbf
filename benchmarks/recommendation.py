"""Whether the recommended model is the best one in use, and never worse than doing nothing.

    python benchmarks/recommendation.py DATA RESULTS [NAME...]   # compute, resumable
    python benchmarks/recommendation.py --table RESULTS          # write the table to stdout

DATA is the folder with coil-100/, cmu-pie/, mfeat/ and deep/. For every data set and split, each method is tuned on the
training part as `crossview compare` tunes it, and scored on the test part. RESULTS gets one JSON line per data set,
split and method. The recommendation only sees the scores in validation.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import crossview as cv
from crossview import metrics
from crossview.exceptions import NotApplicableError
from crossview.recognition.tuning import search_space
from crossview.report.recommendation import recommended_row

METHODS = ("RawFeatures", "PCA", "LDA", "DLA", "MCCA", "GMA", "MvDA", "MvDA-VC", "MvHE", "KMvHE")
COMMITTEES = ("MvHE", "KMvHE")
DRAWS, MEMBERS = 32, 8  # as `crossview compare`
COLUMNS = ("accuracy", "one_shot", "average_precision", "with_counterparts")
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
        return cv.datasets.load_cmu_pie(data / "cmu-pie", case=4, conditions=None)

    def deep_coil() -> cv.datasets.Dataset:
        found = cv.datasets.load_arrays(data / "deep/coil-100.npz")
        views = cv.Views(found.views.arrays[:2], names=found.views.names[:2])
        return replace(found, views=views)

    def coil(case: int) -> Callable[[], cv.datasets.Dataset]:
        return lambda: cv.datasets.load_coil100(data / "coil-100", case=case)

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
        "turntable": (lambda: cv.datasets.make_turntable(60), new_classes(40, None), 5),
        "captions": (lambda: cv.datasets.make_captions(), new_classes(200, None), 5),
    }


def rows(
    method: str, data: cv.datasets.Dataset, split: Split, seed: int, device: str | None = None
) -> dict[str, dict[str, object]]:
    """Tune a method on the training part and score it on the test part; the committee, too, if it is to be shown."""
    train, test = split
    y = np.asarray(data.y)
    start = time.process_time()
    new = not np.isin(y[test], y[train]).any()
    members = MEMBERS if method in COMMITTEES else 1
    grid = search_space(method, data.views.n_features)
    if device is not None:
        grid[f"{cv.BASELINES[method].__name__.lower()}__device"] = [device]
    search = cv.tune(
        method,
        data.views[train],
        y[train],
        grid,
        n_iter=DRAWS,
        members=members,
        random_state=seed,
        cv="classes" if new else "samples",
    )
    seconds = time.process_time() - start
    (single,) = search.fit_rows([search.best_index_], data.views[train], y[train])
    metric = str(search.cv_results_["metric"][search.best_index_])
    models = {method: (single, metric, search._held_out_score())}
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


def compute(folder: Path, path: Path, names: list[str]) -> None:
    done = {(r["data"], r["split"], r["method"]) for r in load(path)}
    chosen = {name: of for name, of in problems(folder).items() if not names or name in names}
    for k in range(max(n_splits for _, _, n_splits in chosen.values())):
        for name, (open_data, split, n_splits) in chosen.items():
            missing = [method for method in METHODS if (name, k, method) not in done]
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


def table(path: Path) -> Iterator[str]:
    """Lines of a table of data sets: recommended row, its scores, the best row, doing nothing, and the regret."""
    records = [r for r in load(path) if "error" not in r]
    head = ("data set", "splits", "recommended", "accuracy", "one-shot", "mAP", "with counterparts")
    head += ("best row", "its accuracy", "nothing", "regret")
    yield "| " + " | ".join(head) + " |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |"
    regrets = []
    for name in dict.fromkeys(r["data"] for r in records):
        of = [r for r in records if r["data"] == name]
        splits = sorted(
            set.intersection(*({r["split"] for r in of if r["method"] == m} for m in {r["method"] for r in of}))
        )
        rows = {
            m: {r["split"]: r for r in of if r["method"] == m} for m in METHODS if any(r["method"] == m for r in of)
        }
        chosen = recommended_row({m: [rows[m][k]["validation"] for k in splits] for m in rows})
        mean = {m: {c: np.mean([rows[m][k][c] for k in splits]) for c in COLUMNS} for m in rows}
        best = max(mean, key=lambda m: mean[m]["accuracy"])
        regret = 100 * (mean[best]["accuracy"] - mean[chosen]["accuracy"])
        regrets.append(regret)
        nothing = f"{100 * mean['RawFeatures']['accuracy']:.1f}" if "RawFeatures" in mean else "–"
        scores = " | ".join(f"{100 * mean[chosen][c]:.1f}" for c in COLUMNS)
        cells = [
            name,
            len(splits),
            chosen,
            scores,
            best,
            f"{100 * mean[best]['accuracy']:.1f}",
            nothing,
            f"{regret:.1f}",
        ]
        yield f"| {' | '.join(map(str, cells))} |"
    yield f"\nMean regret: {np.mean(regrets):.2f} points."


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[1] == "--table":
        print("\n".join(table(Path(sys.argv[2]))))
    else:
        compute(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
