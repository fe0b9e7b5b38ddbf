"""
ONNX in production
==================

A fitted model can be exported, view by view, to ONNX. A program that matches probes then needs neither this package nor
scikit-learn: ONNX Runtime and a few lines of NumPy give the same answers. This example checks that, and measures how
long a request takes.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.model_selection import train_test_split

import crossview as cv

# %%
# A matcher that enrols left halves of digits, and recognises right halves:
data = cv.datasets.load_digits()
train, test, y_train, y_test = train_test_split(
    data.views, data.y, train_size=500, random_state=0
)
matcher = cv.CrossViewClassifier(
    cv.KMvHE(),
    gallery_view="left",
    probe_view="right",
    metric="cosine",
).fit(train, y_train)

# %%
# The map of the probes goes into an ONNX file, whose metadata say which distance to use. The gallery is an array.
with tempfile.TemporaryDirectory() as folder:
    cv.export_onnx(matcher, "right", Path(folder, "right.onnx"))
    model = Path(folder, "right.onnx").read_bytes()
gallery, labels = matcher.embedding_.transform_view(train["left"], "left"), y_train

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options)
distance = session.get_modelmeta().custom_metadata_map["distance"]
print(f"The file has {len(model) / 1e6:.1f} MB; the distance is {distance}.")

# %%
# ``identify`` is all that a program in production needs: it uses ONNX Runtime and NumPy only.
gallery = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)


def identify(samples):
    """The label of the gallery sample with the largest cosine."""
    (latent,) = session.run(["latent"], {"X": samples.astype(np.float32)})
    return labels[np.argmax(latent @ gallery.T, axis=1)]


same = np.mean(identify(test["right"]) == matcher.predict(test))
print(
    f"Both give the same answer for {same:.1%} of {len(test)} probes; "
    f"{matcher.score(test, y_test):.1%} are right."
)

# %%
# Requests often hold a single probe, where the fixed costs of a call count most.
sizes = [1, 3, 10, 30, 100, 300, 1000]


def milliseconds(recognise, size, repeats=15):
    """Median time of a request with so many probes."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        recognise(test["right"][:size])
        times.append(1000 * (perf_counter() - start))
    return np.median(times)


times = {
    "crossview": [
        milliseconds(lambda X: matcher.predict(X, "right"), size) for size in sizes
    ],
    "ONNX Runtime and NumPy": [milliseconds(identify, size) for size in sizes],
}
for name, found in times.items():
    print(f"{name}: {found[0]:.2f} ms for one probe, {found[-1]:.1f} ms for {sizes[-1]}")

fig, ax = plt.subplots(layout="constrained")
for (name, found), (marker, colour) in zip(
    times.items(), (("s", "#d55e00"), ("o", "#0072b2")), strict=True
):
    ax.plot(sizes, found, marker=marker, color=colour, label=name)
ax.set(
    xscale="log", yscale="log", xlabel="probes per request", ylabel="time of a request, ms"
)
ax.set_title("The same answers, sooner: requests with ONNX")
ax.legend()
plt.show()
