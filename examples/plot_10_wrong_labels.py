"""
Wrong labels
============

Labels in practice are not all right. This example gives a growing share of the training samples wrong labels and tests
three methods on samples whose labels are right.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import crossview as cv

# %%
# The labels of a share of the samples are exchanged among themselves. Classes keep their sizes, and a sample has the
# same wrong label in both views. A tenth of the exchanged labels stay right by accident, as there are ten classes.


def permute_labels(y, share, random_state):
    """Exchange some labels at random."""
    random, permuted = np.random.RandomState(random_state), y.copy()
    rows = random.permutation(len(y))[: round(share * len(y))]
    permuted[rows] = y[random.permutation(rows)]
    return permuted


data = cv.datasets.load_digits()
shares = np.linspace(0.0, 0.6, 7)
permuted = permute_labels(data.y, 0.5, random_state=0)
print(f"With a share of 50 %, {np.mean(permuted != data.y):.0%} of the labels are wrong.")

# %%
# All methods have their default parameters. Every share is tried with three random splits and permutations; bars in the
# picture are standard deviations.
methods = {"KMvHE": cv.KMvHE(), "MvDA": cv.MvDA(), "MvHE": cv.MvHE()}
accuracies = {name: np.empty((3, len(shares))) for name in methods}
for seed in range(3):
    train, test, y_train, y_test = train_test_split(
        data.views, data.y, train_size=300, test_size=600, stratify=data.y, random_state=seed
    )
    for k, share in enumerate(shares):
        wrong = permute_labels(y_train, share, random_state=seed)
        for name, method in methods.items():
            accuracies[name][seed, k] = method.fit(train, wrong).score(test, y_test)

for name, found in accuracies.items():
    first, last = found.mean(axis=0)[[0, -1]]
    print(f"{name} falls from {first:.1%} to {last:.1%}.")

# %%
# All three methods know which two halves belong to the same digit, which wrong labels cannot spoil. With weights of 0,
# KMvHE uses these pairs only. Even badly damaged labels are worth more than none to it here.
unlabelled = (
    cv.KMvHE(lambda_intra=0.0, lambda_inter=0.0).fit(train, y_train).score(test, y_test)
)
print(f"KMvHE without labels reaches {unlabelled:.1%}.")

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=["#0072b2", "#d55e00", "#009e73"])
fig, ax = plt.subplots(layout="constrained")
for (name, found), style in zip(accuracies.items(), ("o-", "s-", "D-"), strict=True):
    mean, deviation = 100 * found.mean(axis=0), 100 * found.std(axis=0)
    ax.errorbar(100 * shares, mean, deviation, fmt=style, capsize=3, label=name)
ax.axhline(100 * unlabelled, color="0.5", linestyle="--", label="KMvHE without labels")
ax.axhline(10, color="0.5", linestyle=":", label="chance")
ax.set(xlabel="labels permuted in training, %", ylabel="test accuracy, %", ylim=(0, 100))
ax.set_title("KMvHE suffers least from wrong labels")
ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.1))
plt.show()
