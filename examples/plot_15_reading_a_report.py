"""
Reading a report
================

``crossview compare`` tunes methods in the same way, tests them, and writes a report with tables for programs and papers.
This example runs a small comparison, reads its table, and draws its main figure again, with the methods that are tied
with the best.
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
# ``--methods`` and ``--draws`` for a real one. In a terminal, the command is ``crossview compare --train-data …``, and
# ``report.html`` is what you open.
data = cv.datasets.load_digits()
options = "--methods PCA,CCA,LDA,MvDA,MvHE --draws 3 --workers 1 --no-static --json".split()
with tempfile.TemporaryDirectory() as folder:
    for name, rows in {"train": slice(0, 300), "test": slice(300, 700)}.items():
        views = {view: data.views[view][rows] for view in data.views.names}
        np.savez(Path(folder, f"{name}.npz"), **views, y=data.y[rows])
    command = [sys.executable, "-m", "crossview", "compare", "--train-data", "train.npz", "--test-data", "test.npz"]
    run = subprocess.run([*command, *options, "-o", "report"], cwd=folder, capture_output=True, text=True, check=True)
    print(*sorted(path.name for path in Path(folder, "report").iterdir()))
    with Path(folder, "report", "tables", "comparison.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
facts = json.loads(run.stdout)
print({k: v for k, v in facts.items() if k not in ("tables",)}.__repr__()[:3000])
print(facts.keys())
