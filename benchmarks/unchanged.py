"""Results of the package on fixed seeds, to compare two versions of it.

python benchmarks/unchanged.py RESULTS.npz              # compute and write
python benchmarks/unchanged.py --compare BEFORE AFTER   # print differences above 1e-10, and fail if there are any
"""

import inspect
import sys
import warnings

import numpy as np

import crossview as cv
from crossview import metrics


def make(cls, **wanted):
    known = inspect.signature(cls).parameters
    return cls(**{k: v for k, v in wanted.items() if k in known})


def compute() -> dict[str, np.ndarray]:
    warnings.simplefilter("ignore")
    found = {}

    def keep(name, value):
        found[name] = np.asarray(value, dtype=np.float64)

    digits = cv.datasets.load_digits()
    desc = cv.datasets.load_descriptors()
    train, y, test, y_test = digits.views[:240], digits.y[:240], digits.views[240:420], digits.y[240:420]
    holes = [np.array(X) for X in train.arrays]
    holes[0][3::7] = np.nan
    holes[1][5::9] = np.nan
    four, yf = desc.views[:160], desc.y[:160]
    methods = {**cv.METHODS, **{k: v for k, v in cv.BASELINES.items() if k != "Contrastive"}}
    problems = {"pair": (train, y), "holes": (holes, y), "four": (four, yf)}
    settings = {
        "plain": {},
        "d5": {"n_components": 5},
        "coupled": {"n_components": 5, "coupling": 4.0},
        "one": {"n_components": 5, "coupling": np.inf},
        "white": {"n_components": 5, "whitening": 1.0},
        "raw": {"n_components": 5, "center": False},
    }
    for name, cls in methods.items():
        for p, (X, labels) in problems.items():
            for s, params in settings.items():
                if any(k not in inspect.signature(cls).parameters for k in params):
                    continue
                key = f"{name}/{p}/{s}"
                try:
                    model = make(cls, **params).fit(X, labels)
                except (ValueError, TypeError) as error:
                    keep(f"{key}/{type(error).__name__}", 1.0)
                    continue
                for v, Z in enumerate(model.transform(X) if isinstance(X, list) else model.transform(X).arrays):
                    keep(f"{key}/latent{v}", np.nan_to_num(Z, nan=-7.0))
                if hasattr(model, "eigenvalues_"):
                    keep(f"{key}/eigenvalues_", model.eigenvalues_)
    for n_landmarks in (40, 120):
        for reg in ("auto", None):
            model = cv.KMvHE(n_components=6, n_landmarks=n_landmarks, reg=reg, random_state=0).fit(train, y)
            for v, Z in enumerate(model.transform(test).arrays):
                keep(f"KMvHE/landmarks{n_landmarks}{reg}/{v}", Z)
    model = cv.MvHE(n_components=6, n_patches=60, random_state=0).fit(train, y)
    keep("MvHE/n_patches", np.hstack(model.transform(test).arrays))
    Z = cv.KMvHE(n_components=8).fit(train, y).transform(test)
    for metric in ("euclidean", "cosine"):
        for counterparts in (False, True):
            keep(
                f"accuracy/{metric}{counterparts}",
                np.nan_to_num(metrics.cross_view_accuracy(Z, y_test, metric=metric, counterparts=counterparts)),
            )
        keep(f"map/{metric}", metrics.mean_average_precision(Z, y_test, metric=metric))
        keep(f"oneshot/{metric}", metrics.one_shot_accuracy(Z, y_test, metric=metric))
        keep(f"cmc/{metric}", metrics.cmc(Z["left"], y_test, Z["right"], y_test, metric=metric))
        keep(f"roc/{metric}", np.vstack(metrics.roc(Z["left"], y_test, Z["right"], y_test, metric=metric)[:2]))
    search = cv.tune("MvHE", train, y, n_iter=6, random_state=0)
    keep("tune/MvHE", np.nan_to_num(search.cv_results_["mean_test_score"]))
    keep("tune/MvHE/best", [search.best_score_, search.held_out_score_])
    search = cv.tune("KMvHE", train, y, n_iter=4, random_state=0)
    keep("tune/KMvHE", np.nan_to_num(search.cv_results_["mean_test_score"]))
    model = cv.KMvHE(n_components=8).fit(train, y)
    matcher = cv.CrossViewClassifier(model).enroll(train["left"], y, "left")
    keep("matcher/predict", matcher.predict(test["right"], "right"))
    distances, rows = matcher.kneighbors(test["right"], "right", 5)
    keep("matcher/distances", distances)
    keep("matcher/rows", rows)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        before, after = (np.load(path) for path in sys.argv[2:4])
        worst, missing = 0.0, sorted(set(before.files) ^ set(after.files))
        for name in sorted(set(before.files) & set(after.files)):
            a, b = before[name], after[name]
            if a.shape != b.shape:
                print("SHAPE", name, a.shape, b.shape)
                worst = np.inf
                continue
            d = float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(a).max(initial=0.0)))
            worst = max(worst, d)
            if d > 1e-10:
                print(f"{d:.1e}", name)
        print(len(before.files), "results, missing", missing, "worst", worst)
        sys.exit(bool(worst > 1e-10 or missing))
    np.savez(sys.argv[1], **compute())
