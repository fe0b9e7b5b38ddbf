"""
A million samples
=================

:class:`~crossview.MvHE` searches for the neighbours of every sample: if the search is exact, twice the samples take
up to four times as long. ``algorithm="approximate"`` searches faster in large data, and ``n_patches`` searches for
fewer samples. This example measures all three on generated data, up to a million samples.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import crossview as cv

# %%
# Two views with eight features each mix six factors, which vary around the mean of a sample's class, and add noise.
random = np.random.default_rng(0)
means = random.standard_normal((100, 6), dtype=np.float32)
mixings = random.standard_normal((2, 6, 8), dtype=np.float32)


def generate(m):
    """Views and classes of m samples."""
    y = random.integers(100, size=m)
    factors = means[y] + 0.3 * random.standard_normal((m, 6), dtype=np.float32)
    return [
        factors @ mixing + 0.5 * random.standard_normal((m, 8), dtype=np.float32)
        for mixing in mixings
    ], y


test, y_test = generate(2000)

# %%
# The approximate search builds an index first, with faiss. It pays off for the patches of many samples; for 200, an
# exact search is quicker. By default, MvHE searches approximately from 30,000 samples if faiss is installed.
million = 1_000_000
fits = {
    "exact": (cv.MvHE(5, algorithm="exact"), [2_000, 4_000, 8_000]),
    "approximate": (cv.MvHE(5, algorithm="approximate"), [4_000, 16_000]),
    "exact, 200 patches": (
        cv.MvHE(5, algorithm="exact", n_patches=200, random_state=0),
        [10_000, 100_000, million],
    ),
}
seconds = {name: [] for name in fits}
for name, (model, sizes) in fits.items():
    for m in sizes:
        views, y = generate(m)
        start = perf_counter()
        model.fit(views, y)
        seconds[name].append(perf_counter() - start)
    recall, accuracy = model.neighbour_recall_, model.score(test, y_test)
    print(
        f"{name}: {seconds[name][-1]:.1f} s for {m:,} samples, "
        f"{recall:.1%} of neighbours, accuracy {accuracy:.1%}"
    )

# %%
# The accuracies of the largest fits are close. Few patches make the objective noisier, though, which cost up to two
# and a half points in variants of these data. Dotted lines extrapolate: in proportion to m² for the exact search, and
# to m for the approximate one.
fig, ax = plt.subplots(layout="constrained")
styles = [("#d55e00", "s"), ("#009e73", "D"), ("#0072b2", "o")]
for (name, (_, sizes)), (colour, marker) in zip(fits.items(), styles, strict=True):
    ax.plot(sizes, seconds[name], color=colour, marker=marker, label=name)
    growth = (million / sizes[-1]) ** (2 if name == "exact" else 1)
    ax.plot(
        [sizes[-1], million],
        [seconds[name][-1], growth * seconds[name][-1]],
        color=colour,
        linestyle=":",
    )
ax.set(xscale="log", yscale="log", xlabel="samples", ylabel="time of a fit, s")
ax.set_title("Few patches take MvHE to a million samples")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
