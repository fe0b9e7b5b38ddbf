"""
Search and committees
=====================

Defaults are a compromise between data sets. :func:`~crossview.tune` searches for the scaling, the number of principal
components, the parameters of the method and the distance by cross-validation on the training samples. The best settings
found make different mistakes, so a :class:`~crossview.Committee` of them can be better than the best alone.
"""

# %%
# Search
# ------
# Halves of handwritten digits are matched, as in the first example, with 200 training samples.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import crossview as cv

data = cv.datasets.load_digits()


def split(seed):
    """200 training samples, and all others as test samples."""
    return train_test_split(data.views, data.y, train_size=200, stratify=data.y, random_state=seed)


train, test, y_train, y_test = split(0)
search = cv.tune("MvHE", train, y_train, n_iter=20, n_folds=3)
print(f"The best of {len(search.cv_results_['params'])} settings, with the {search.best_metric_} distance:")
for name, value in search.best_params_.items():
    print(f"    {name} = {value}")
print(
    f"{search.best_score_:.0%} of matches are right in cross-validation, {search.score(test, y_test):.0%} on test samples."
)

# %%
# Default, tuned and committee
# ----------------------------
# ``members=8`` makes a committee of the eight best settings. It takes part in no choice that the test samples could
# influence, and costs eight times as much to apply. Tune all methods that you compare.
methods = ["MvDA", "MvHE", "KMvHE"]
results = np.empty((len(methods), 3, 3))  # methods × variants × splits
for seed in range(3):
    train, test, y_train, y_test = split(seed)
    for m, method in enumerate(methods):
        default = cv.METHODS[method]().fit(train, y_train)
        tuned = cv.tune(method, train, y_train, n_iter=20, n_folds=3)
        committee = cv.tune(method, train, y_train, n_iter=20, n_folds=3, members=8)
        results[m, :, seed] = [model.score(test, y_test) for model in (default, tuned, committee)]
for method, (default, tuned, committee) in zip(methods, results.mean(axis=2), strict=True):
    print(f"{method}: {default:.1%} with defaults, {tuned:.1%} tuned, {committee:.1%} as a committee.")

# %%
# Bars are means over three splits, and points are the splits.
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for v, (variant, colour) in enumerate({"default": "#bbbbbb", "tuned": "#56b4e9", "committee of 8": "#0072b2"}.items()):
    positions = np.arange(len(methods)) + 0.27 * (v - 1)
    ax.bar(positions, results[:, v].mean(axis=1), width=0.25, color=colour, label=variant)
    ax.plot(positions, results[:, v], "o", color="black", markersize=4)
ax.set(xticks=range(len(methods)), xticklabels=methods, xlabel="method", ylabel="share of right matches", ylim=(0, 1))
ax.set_title("Tuning helps every method; a committee may add a little")
ax.legend(frameon=False, loc="upper left")
plt.show()
