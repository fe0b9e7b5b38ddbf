"""
A folder of images
==================

Images of the same objects from two cameras lie in a folder. :func:`~crossview.datasets.load_folder` reads it,
:func:`~crossview.tune` learns a common space from some objects, and a :class:`~crossview.CrossViewClassifier` finds
other objects, which were not in the training data.
"""

# %%
# A folder with one subfolder per camera
# --------------------------------------
# Images are stored as ``day/object-001/0.png``, ``night/object-001/0.png`` and so on: the view, the class and the
# sample. Here we render some and write them to a temporary folder. The night camera stands elsewhere, 40° to the side,
# has another light and fewer pixels, and gives negatives.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

import crossview as cv

angles = {"day": (0, 5, 10, 15), "night": (40, 45, 50, 55)}
light = {"day": (-0.5, 0.6, 0.8), "night": (0.7, 0.2, 0.6)}
rendered = cv.datasets.make_turntable(100, angles, size=32, light=light, random_state=0)

with tempfile.TemporaryDirectory() as root:
    for view in angles:
        for k, (pixels, label) in enumerate(
            zip(rendered.views[view], rendered.y, strict=True)
        ):
            image = Image.fromarray((255 * pixels.reshape(32, 32)).astype("uint8"))
            if view == "night":
                image = image.resize((20, 20)).point(lambda grey: 255 - grey)
            path = Path(root, view, f"object-{label:03d}", f"{k % 4}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
    data = cv.datasets.load_folder(root, size=(24, 24))  # all images get this size

print(data.views)

# %%
# Learn from some objects, match others
# -------------------------------------
# With ``cv="classes"``, the folds of the search ask what we will ask: objects that were not trained on.
train, test = next(cv.ClassSplit(train_size=70, random_state=0).split(data.views, data.y))
search = cv.tune("MvHE", data.views[train], data.y[train], n_iter=10, cv="classes")

matcher = cv.CrossViewClassifier(search, gallery_view="day", probe_view="night")
matcher.enroll(data.views["day"][test], data.y[test], ids=data.ids[test])
probes, labels = data.views["night"][test], data.y[test]

raw = cv.metrics.cross_view_accuracy(data.views[test], labels)[0, 1]
print(
    f"Raw pixels find the right object for {raw:.0%} of {len(probes)} probes "
    "among 30 new objects."
)
print(f"The tuned MvHE finds it for {matcher.score(probes, labels):.0%}.")

# %%
# Look at the matches
# -------------------
# ``kneighbors`` finds the nearest enrolled images, and ``rank`` the nearest objects. Right matches have a green frame
# and a tick. Every object is enrolled with four images, so after four right matches, the fifth must be wrong.
shown = [0, 20, 40, 60, 80]
_, rows = matcher.kneighbors(probes[shown], n_neighbors=5)
print(
    f"The images nearest to {data.ids[test][0]}: {', '.join(matcher.gallery_ids_[rows[0]])}."
)

gallery_images = data.views["day"][test].reshape(-1, 24, 24)
probe_images = probes[shown].reshape(-1, 24, 24)
axes = cv.plot.matches(
    probe_images, gallery_images, rows, probe_y=labels[shown], gallery_y=labels
)
axes[0, 0].figure.suptitle("Night images (left) and the nearest day images")
plt.show()
