"""Cost of permuted labels for methods with a fixed ridge: COIL-100, case 2.

Usage: python benchmarks/outliers.py DATA [--methods GMA,MvDA] [--ridges 1e-4,1e-2] [--n-iter 24], where DATA contains
coil-100/.

A large ridge makes a supervised method depend less on labels. A search for the ridge, as in our table 7, finds this
out. Without a ridge, as in the methods' original papers, wrong labels cost more.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from crossview.experiments.tasks import run_cell
from paper.data import PaperLoader
from paper.protocols import Effort, plan
from paper.tasks import PaperCell, with_outliers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--methods", default="GMA,MULDA,MvDA,MvMDA,MvDA-VC")
    parser.add_argument("--ridges", default="1e-4,1e-2")
    parser.add_argument("--n-iter", type=int, default=24)
    options = parser.parse_args()
    load = PaperLoader(folder=options.data)
    effort = Effort(n_iter=options.n_iter, methods=options.methods.split(","))
    panel = plan("table-7", effort, load.lacks).panels[0]
    data = load("coil100", {"case": 2})

    def score(cell: PaperCell, ridge: float) -> float:
        return run_cell(replace(cell, parameters={"reg": ridge}), with_outliers(cell, data))["score"]

    print("| method | ridge | clean labels | 40 % permuted | loss |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with threadpool_limits(1):
        for method in panel.rows:
            for ridge in map(float, options.ridges.split(",")):
                clean, permuted = (
                    100
                    * np.mean(
                        [
                            score(place.cell, ridge)
                            for place in panel.places
                            if (place.row, place.column) == (method, share)
                        ]
                    )
                    for share in ("0", "40")
                )
                loss = 100 * (1 - permuted / clean)
                print(f"| {method} | {ridge:g} | {clean:.1f} | {permuted:.1f} | {loss:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
