"""
Text and images
===============

Find images by their captions, and captions by their images. The two views have nothing in common but their classes and
their pairs: 128 image features here, the proportions of 10 topics there. The data are synthetic, with the widths of a
known collection of Wikipedia articles.
"""

# %%
# Images and their captions
# -------------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import crossview as cv

data = cv.datasets.make_captions(n_classes=20, n_per_class=60, random_state=0)
print(data.views)
train, test, y_train, y_test = train_test_split(
    data.views, data.y, train_size=0.5, stratify=data.y, random_state=0
)

# %%
# Learn a common space
# --------------------
# Features differ in scale by orders of magnitude, so each view is standardised first. We compare canonical correlation
# analysis, which does not use the classes, with :class:`~crossview.KMvHE`.
models = {
    "CCA": make_pipeline(cv.ViewScaler(pooled=False), cv.CCA()),
    "KMvHE": make_pipeline(cv.ViewScaler(pooled=False), cv.KMvHE()),
}
for model in models.values():
    model.fit(train, y_train)


# %%
# Search in both directions
# -------------------------
# Each test caption is looked up among all test images, and each test image among all test captions. A result is right
# if it belongs to the class of the query: 30 of 600 do. Precision at k is the share of right results among the first k.
def precision(model, query, searched, k=30):
    """Precision at 1, …, k of a search from one view into another."""
    matcher = cv.CrossViewClassifier(model).enroll(test[searched], y_test, searched)
    _, rows = matcher.kneighbors(test[query], query, n_neighbors=k)
    right = y_test[rows] == y_test[:, None]
    return right.cumsum(axis=1).mean(axis=0) / np.arange(1, k + 1)


for name, model in models.items():
    mean_precision = cv.metrics.cross_view_average_precision(model.transform(test), y_test)
    print(
        f"{name}: mean average precision {mean_precision[0, 1]:.2f} "
        "for captions that search images,"
    )
    print(
        f"    {mean_precision[1, 0]:.2f} for images that search captions. "
        "Chance is about 0.05."
    )

# %%
# KMvHE has more right results in both directions, and keeps finding them further down the list.
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for (name, model), colour in zip(models.items(), ("#d55e00", "#0072b2"), strict=True):
    for (query, searched), style in {("text", "image"): "-", ("image", "text"): "--"}.items():
        curve = precision(model, query, searched)
        ax.plot(
            range(1, 31),
            curve,
            style,
            color=colour,
            linewidth=2,
            label=f"{name}, {query} → {searched}",
        )
ax.axhline(
    cv.metrics.chance_accuracy(test, y_test), color="0.5", linestyle=":", label="chance"
)
ax.set(xlabel="number of results looked at", ylabel="share of right results", ylim=(0, 1))
ax.set_title("Searching images by text and text by images")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.08))
plt.show()
