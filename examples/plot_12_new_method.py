"""
A new method in twenty lines
============================

A method is a class that states its parameters and its mathematics; the base class checks input, centres views, handles
missing samples and scores. This example writes one, which regresses class indicators on every view, and compares it
with two methods of the package.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

import crossview as cv
from crossview.embeddings._base import Embedding
from crossview.linalg.eigen import ridge

# %%
# With the indicators of classes :math:`Y`, the map of view v is :math:`W_v = (X_v^\top X_v + R)^{-1} X_v^\top Y`,
# where the ridge :math:`R` is ``reg`` times the mean diagonal of :math:`X_v^\top X_v`. All views regress on the same
# indicators, so their predictions share a space with one dimension per class. ``_solve`` returns a value for every
# component and the maps of all views, one above the other.


class IndicatorRegression(Embedding):
    """Regress class indicators on every view, with a ridge."""

    _needs_labels = True

    def __init__(self, n_components=20, reg=0.1, center=True):
        self.n_components = n_components
        self.reg = reg
        self.center = center

    def _max_components(self, data):
        return data.n_classes

    def _solve(self, data, d):
        indicators = np.eye(data.n_classes)[data.labels]
        maps = [
            np.linalg.solve(ridge(X.T @ X, self.reg), X.T @ indicators)[:, :d]
            for X in data.arrays
        ]
        return np.ones(d), np.vstack(maps)


# %%
# It is a scikit-learn estimator, and searches and matchers take it like any other. Here it is tested on the halves of
# digits, with growing numbers of training samples per class and four random splits for each; bars are standard
# deviations.
data = cv.datasets.load_digits()
numbers = [5, 10, 20, 40, 80]
methods = {
    "IndicatorRegression (new)": IndicatorRegression(),
    "MvDA": cv.MvDA(),
    "PCA": cv.PCA(),
}
scores = {name: [] for name in methods}
for number in numbers:
    splits = cv.SampleSplit(n_splits=4, train_size=number, random_state=0)
    for name, method in methods.items():
        scores[name].append(cross_val_score(method, data.views, data.y, cv=splits))

for name, found in scores.items():
    print(
        f"{name}: {np.mean(found[0]):.1%} with 5 samples per class, "
        f"{np.mean(found[-1]):.1%} with 80"
    )

# %%
# The new method is as good as MvDA on these data. ``CONTRIBUTING.md`` says how to add it to the package, so that the
# command line, reports and model files know it by its name.
plt.rcParams["axes.prop_cycle"] = plt.cycler(color=["#0072b2", "#d55e00", "#009e73"])
fig, ax = plt.subplots(layout="constrained")
for (name, found), style in zip(scores.items(), ("o-", "s-", "D-"), strict=True):
    ax.errorbar(
        numbers,
        100 * np.mean(found, axis=1),
        100 * np.std(found, axis=1),
        fmt=style,
        capsize=3,
        label=name,
    )
ax.axhline(10, color="0.5", linestyle=":", label="chance")
ax.set(xscale="log", xlabel="training samples per class", ylabel="test accuracy, %")
ax.set_xticks(numbers, numbers)
ax.set_title("A new method next to MvDA and PCA on digits")
ax.minorticks_off()
ax.legend()
plt.show()
