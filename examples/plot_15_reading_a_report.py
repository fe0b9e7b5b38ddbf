"""
Reading a report
================

``crossview compare`` tunes methods in the same way, tests them, and writes a report with tables for programs and
papers. This example runs a small comparison, reads its table, and draws its main figure again, with the methods that
are tied with the best.
"""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import crossview as cv

# %%
# Training and test data come from files. With so few methods and draws, the comparison takes seconds; leave out
# ``--methods`` and ``--n-iter`` for a real one. KMvHE, which takes longest, is left out here, although it is better.
# In a terminal, the command is ``crossview compare --train-data …``, and ``report.html`` is what you open.
data = cv.datasets.load_digits()
options = [
    "--methods",
    "PCA,CCA,LDA,MvDA,MvHE",
    "--n-iter",
    "3",
    "--jobs",
    "1",
    "--no-static",
    "--json",
]
with tempfile.TemporaryDirectory() as folder:
    for name, rows in {"train": slice(0, 300), "test": slice(300, 700)}.items():
        views = {view: data.views[view][rows] for view in data.views.names}
        np.savez(Path(folder, f"{name}.npz"), **views, y=data.y[rows])
    command = [
        sys.executable,
        "-m",
        "crossview",
        "compare",
        "--train-data",
        "train.npz",
        "--test-data",
        "test.npz",
    ]
    run = subprocess.run(
        [*command, *options, "-o", "report"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    print(*sorted(path.name for path in Path(folder, "report").iterdir()))
    with Path(folder, "report", "tables", "comparison.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        table = list(csv.DictReader(file))
facts = json.loads(run.stdout)
print(facts["summary"].split("\n")[0])

# %%
# The table has a line for every method and column, in per cent, with the standard error ``se`` of accuracies. ``× 8``
# is a committee of the best settings of the search. A method is tied with the best if their difference, sample by
# sample, is within two standard errors. Error bars do not show that, since all methods are tested on the same samples;
# ``tied`` does.
rows = sorted(
    (line for line in table if line["column"] == "accuracy"),
    key=lambda line: float(line["mean"]),
)
styles = {
    "best": ("#0072b2", None),
    "tied with the best": ("#56b4e9", "//"),
    "behind": ("0.8", None),
}


def group(method):
    """Whether a method is the best, tied with it, or neither."""
    return (
        "best"
        if method in facts["best"]
        else "tied with the best"
        if method in facts["tied"]
        else "behind"
    )


fig, ax = plt.subplots(layout="constrained")
for name, (colour, hatch) in styles.items():
    shown = [k for k, line in enumerate(rows) if group(line["row"]) == name]
    means, errors = ([float(rows[k][key]) for k in shown] for key in ("mean", "se"))
    bars = ax.barh(
        shown,
        means,
        xerr=errors,
        color=colour,
        edgecolor="black",
        hatch=hatch,
        capsize=4,
        label=name,
    )
    ax.bar_label(bars, fmt="%.1f", padding=4)
ax.set_yticks(range(len(rows)), [line["row"] for line in rows])
ax.axvline(10, color="black", linestyle=":", label="chance")
ax.set(
    xlabel="test accuracy ± standard error, %",
    xlim=(0, 75),
    title="Digits: which methods are tied with the best",
)
ax.legend(loc="lower right")
plt.show()
