"""
Features of pretrained networks
===============================

Features of two networks that were trained apart, for example one for images and one for text, lie in different spaces.
This example writes such features to a file, loads them, and learns a common space from pairs of samples, in which
samples of new classes are matched by their cosine distance.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import crossview as cv

# %%
# In place of real networks, two random ones encode the same scenes. As usual for such features, their rows have unit
# length. Save yours in the same way: an array per encoder, row k of each the same sample, and the labels.
random = np.random.default_rng(0)


def encode(scenes, n_features, noise=1.0):
    """Features of a random network with one hidden layer."""
    hidden = np.tanh(scenes @ random.standard_normal((scenes.shape[1], 256)) / 4)
    features = hidden @ random.standard_normal((256, n_features)) / 16
    features += noise * features.std() * random.standard_normal(features.shape)
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32)


n_classes, n_per_class = 200, 10
y = np.repeat(np.arange(n_classes), n_per_class)
scenes = random.standard_normal((n_classes, 16))[y] + 0.5 * random.standard_normal(
    (len(y), 16)
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "features.npz")
    np.savez(path, image=encode(scenes, 128), text=encode(scenes, 96), y=y)
    data = cv.datasets.load_arrays(path)
print(data.views)

# %%
# The first half of the classes trains the maps. The others are new: one text of each is enrolled, and images of the
# other scenes are looked up. The cosine distance, which compares directions only, suits features of unit length.
known = np.arange(len(data.y)) < len(data.y) // 2
train, y_train, test, y_test = (
    data.views[known],
    data.y[known],
    data.views[~known],
    data.y[~known],
)
_, enrolled = np.unique(y_test, return_index=True)
probes = np.setdiff1d(np.arange(len(y_test)), enrolled)

curves = {}
for method in (cv.MvHE(20), cv.MvDA(20), cv.PLS(20), cv.CCA(20)):
    latents = method.fit(train, y_train).transform(test)
    gallery, images = latents["text"][enrolled], latents["image"][probes]
    rates = cv.metrics.cmc(
        gallery, y_test[enrolled], images, y_test[probes], max_rank=10, metric="cosine"
    )
    curves[type(method).__name__] = rates
    print(
        f"{type(method).__name__}: {rates[0]:.1%} at rank 1, "
        f"{rates[4]:.1%} among the five nearest"
    )

# %%
# Without a map, there is nothing to compare: the encoders have different numbers of features. A random order would
# find one class in a hundred at rank 1. All methods have default parameters, and PLS comes first here. The
# order depends on the noise: with ``noise=0.5`` MvHE is first, and with ``noise=1.5`` it is behind MvDA, too.
plt.rcParams["axes.prop_cycle"] = plt.cycler(
    color=["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
)
ax = cv.plot.cmc(curves)
ax.set_title("Images find texts of classes that are new")
plt.show()
