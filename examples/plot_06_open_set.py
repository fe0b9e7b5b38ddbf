"""
New objects and strangers
=========================

A matcher often meets people or objects that it was not trained on, and some of them are not enrolled. We learn from one
set of objects, enrol others, and calibrate the :class:`~crossview.CrossViewClassifier` so that it rejects most
strangers.
"""

# %%
# Four sets of objects
# --------------------
# The data are images of objects seen from the front and from the side. No object serves two purposes: 100 are for
# training, 60 are enrolled, 70 are for calibration, and 70 are strangers.
import matplotlib.pyplot as plt
import numpy as np

import crossview as cv

angles = {"front": (0, 5, 10, 15), "side": (25, 30, 35, 40)}
data = cv.datasets.make_turntable(300, angles, size=16, random_state=0)
purpose = np.repeat(["train", "enrolled", "calibration", "stranger"], [100, 60, 70, 70])[
    data.y - 1
]
sets = {
    name: (data.views[purpose == name], data.y[purpose == name])
    for name in np.unique(purpose)
}

# %%
# Enrol objects that are not in the training data
# -----------------------------------------------
# Folds of classes tune the model for new objects. Enrolling does not change it.
search = cv.tune("MvHE", *sets["train"], n_iter=10, cv="classes")
matcher = cv.CrossViewClassifier(search, gallery_view="front", probe_view="side").enroll(
    *sets["enrolled"]
)
closed_set = matcher.score(*sets["enrolled"])
print(
    f"{closed_set:.0%} of side views find their object "
    "among the front views of 60 new objects."
)

# %%
# Reject strangers
# ----------------
# Without a threshold, every stranger is taken for one of the enrolled objects. ``calibrate`` sets the threshold for a
# false positive identification rate (FPIR), the share of strangers that may be accepted.
matcher.calibrate(*sets["calibration"], max_fpir=0.05)
known, strangers = (matcher.predict(sets[name][0]) for name in ("enrolled", "stranger"))
print(
    f"At an FPIR of 5%, {np.mean(known == sets['enrolled'][1]):.0%} "
    "of enrolled objects are recognised,"
)
print(f"and {np.mean(strangers != -1):.1%} of strangers are accepted.")

# %%
# Choose the rate
# ---------------
# Accepting fewer strangers also rejects more enrolled objects. The dashed line is the rate asked for. The share of
# strangers accepted stays near it, but not exactly on it, because 70 objects for calibration are few.
rates = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
recognised, accepted = [], []
for rate in rates:
    matcher.calibrate(*sets["calibration"], max_fpir=rate)
    recognised.append(np.mean(matcher.predict(sets["enrolled"][0]) == sets["enrolled"][1]))
    accepted.append(np.mean(matcher.predict(sets["stranger"][0]) != -1))

figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
ax.plot(
    rates, recognised, "o-", color="#0072b2", linewidth=2, label="enrolled objects recognised"
)
ax.axhline(closed_set, color="#0072b2", linestyle=":", label="without a threshold")
ax.plot(rates, accepted, "s-", color="#d55e00", linewidth=2, label="strangers accepted")
ax.plot(rates, rates, "--", color="0.5", label="strangers accepted, as asked")
ax.set_xscale("log")
ax.set_xticks(rates, [f"{rate:.0%}" for rate in rates])
ax.minorticks_off()
ax.yaxis.set_major_formatter("{x:.0%}")
ax.set(
    xlabel="false positive identification rate asked for",
    ylabel="share of probes",
    ylim=(0, 1),
)
ax.set_title("Rejecting more strangers also rejects more enrolled objects")
figure.legend(frameon=False, loc="outside lower center", ncols=2)
plt.show()
