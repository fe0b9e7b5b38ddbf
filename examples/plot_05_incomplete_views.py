"""
Incomplete views
================

Sensors fail, and some samples are missing in some views. It is tempting to train on the complete samples only, but with
four views there may be few of them. :class:`~crossview.KMvHE` and the other methods use every sample that at least two
views have seen.
"""

# %%
# Mark what is missing
# --------------------
# A row of NaN is a sample that a view has not seen. You can also pass a mask of samples × views, as here. These are the
# first training samples of four views of handwritten digits when each view misses 40 % of them:
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import crossview as cv

data = cv.datasets.load_descriptors()
model = make_pipeline(cv.ViewScaler(pooled=False), cv.KMvHE())


def split_and_remove(share, seed):
    """Training samples, a share of them missing in every view, and complete test samples."""
    train, test, y_train, y_test = train_test_split(
        data.views, data.y, train_size=300, test_size=600, stratify=data.y, random_state=seed
    )
    seen = np.random.default_rng(seed).random(train.shape) >= share
    return cv.Views(train, mask=seen), test, y_train, y_test


incomplete, *_ = split_and_remove(0.4, seed=0)
print(data.view_names)
print(incomplete.mask[:5])

# %%
# All samples or complete samples
# -------------------------------
# We train on both, for several shares of missing samples and four splits of the data. Test samples are complete.
shares = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
accuracy = {"all samples": [], "complete samples only": []}
n_complete = []
for share in shares:
    scores, complete_samples = [], []
    for seed in range(4):
        train, test, y_train, y_test = split_and_remove(share, seed)
        complete = train.mask.all(axis=1)
        from_all = model.fit(train, y_train).score(test, y_test)
        from_complete = model.fit(train[complete], y_train[complete]).score(test, y_test)
        scores.append((from_all, from_complete))
        complete_samples.append(complete.sum())
    for results, values in zip(accuracy.values(), np.transpose(scores), strict=True):
        results.append(values)
    n_complete.append(np.mean(complete_samples))
    everything, only = np.mean(scores, axis=0)
    print(
        f"{share:.0%} missing: {everything:.0%} right with all samples, "
        f"{only:.0%} with the {n_complete[-1]:.0f} complete ones."
    )

# %%
# If each view misses 40 % of the samples, about one sample in eight is complete. Training on these alone loses about 18
# points compared with no missing samples. Training on all samples loses about 3. Bars are standard deviations.
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for (name, results), style, colour in zip(
    accuracy.items(), ("o-", "s--"), ("#0072b2", "#d55e00"), strict=True
):
    means, spread = np.mean(results, axis=1), np.std(results, axis=1, ddof=1)
    ax.errorbar(
        shares,
        means,
        spread,
        fmt=style,
        color=colour,
        linewidth=2,
        capsize=3,
        label=f"trained on {name}",
    )
for share, number, results in zip(
    shares, n_complete, accuracy["complete samples only"], strict=True
):
    ax.annotate(
        f"{number:.0f}",
        (share, results.mean()),
        (-6, -15),
        textcoords="offset points",
        ha="right",
        color="0.3",
    )
ax.set(
    xlabel="share of samples missing in each view",
    ylabel="share of right matches",
    xlim=(-0.05, 0.53),
    ylim=(0, 1),
)
ax.xaxis.set_major_formatter("{x:.0%}")
ax.set_title("Incomplete samples are worth keeping")
ax.legend(frameon=False, loc="lower left", title="numbers: complete samples, of 300")
plt.show()
