"""
Unlike sensors
==============

The views of a sample need not be alike. Here four sensors describe the same handwritten digits with 64, 48, 34 and 8
features, in different units. We match every sensor to every other, and see why each view should be scaled on its own
with :class:`~crossview.ViewScaler`.
"""

# %%
# Four descriptions of one image
# ------------------------------
# Pixels are grey values, profiles count ink and blank pixels, Fourier magnitudes reach into the hundreds, and moments
# differ in size by orders of magnitude. Views of different width cannot be compared feature by feature at all.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import crossview as cv

data = cv.datasets.load_descriptors()
for name, X in zip(data.views.names, data.views.arrays, strict=True):
    spread = X.std(axis=0)
    print(
        f"{name}: {X.shape[1]} features with standard deviations "
        f"from {spread.min():.2g} to {spread.max():.2g}"
    )
train, test, y_train, y_test = train_test_split(
    data.views, data.y, train_size=600, stratify=data.y, random_state=0
)

# %%
# Methods that use one map for all views need views of equal width, and say so:
try:
    cv.LDA().fit(train, y_train)
except cv.exceptions.NotApplicableError as error:
    print(error)

# %%
# Scale each view on its own
# --------------------------
# :class:`~crossview.KMvHE` has a map per view, so any widths will do. Without scaling, the features with the largest
# numbers dominate the distances within a view. ``ViewScaler(pooled=False)`` gives every feature unit variance.
models = {
    "as measured": cv.KMvHE(),
    "scaled": make_pipeline(cv.ViewScaler(pooled=False), cv.KMvHE()),
}
accuracy = {}
for name, model in models.items():
    latents = model.fit(train, y_train).transform(test)
    accuracy[name] = cv.metrics.cross_view_accuracy(latents, y_test)
    print(
        f"Features {name}: {np.nanmean(accuracy[name]):.0%} of matches are right, "
        "on average over pairs of views."
    )

# %%
# Every pair of sensors
# ---------------------
# Rows are the view of the gallery, columns that of the probe.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), sharey=True, layout="constrained")
for ax, (name, shares) in zip(axes, accuracy.items(), strict=True):
    image = ax.imshow(shares, vmin=0.6, vmax=0.9, cmap="cividis")
    for (row, column), share in np.ndenumerate(shares):
        if row != column:
            colour = "white" if share < 0.75 else "black"
            ax.text(
                column,
                row,
                f"{share:.0%}",
                ha="center",
                va="center",
                color=colour,
                fontsize=12,
            )
    ax.set(
        xticks=range(4),
        xticklabels=data.view_names,
        yticks=range(4),
        yticklabels=data.view_names,
    )
    ax.set(xlabel="probe", title=f"{name}: mean {np.nanmean(shares):.0%}")
axes[0].set_ylabel("gallery")
figure.colorbar(image, ax=axes, label="share of right matches", shrink=0.8)
figure.suptitle("Scaling each view makes unlike sensors match better")
plt.show()
